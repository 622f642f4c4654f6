"""How far the chains are: a moving line in a terminal or notebook, plain lines in a log, or the user's own code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from countveil.inference.monitor import LOG_LIKELIHOOD

#: The monitored scalars of every chain, now, by its number.
Scalars = Mapping[int, Mapping[str, float]]
#: Wraps a range of sweeps; may ask for the scalars after each.
Watched = Callable[[range, Callable[[], Scalars]], Iterable[int]]

#: Looking at the scalars takes at most this share of the time.
_SHARE = 0.02
#: More chains than these are shown by the lowest and the highest.
_MOST_CHAINS = 6


class Progress(NamedTuple):
    """What a function given as ``progress`` receives: about once a second, and after the last sweep.

    Examples
    --------
    >>> import countveil as cv
    >>> seen = []
    >>> posterior = cv.fit(cv.TopicModel(2), [[3, 0], [1, 4]], sweeps=20, seed=1, progress=seen.append)
    >>> seen[-1].sweep, seen[-1].sweeps, sorted(seen[-1].chains), seen[-1].seconds_left
    (20, 20, [0, 1], 0.0)
    >>> seen[-1].log_likelihoods.keys() == seen[-1].chains.keys()
    True
    """

    sweep: int  # done, of every chain: they go in step
    sweeps: int  # of all; chains that are precise enough may end before
    burn_in: int  # of these
    chains: Scalars  # by the chain's number its monitored scalars
    seconds: float  # so far, in this process
    seconds_left: float  # to the last sweep, or to ``max_seconds``
    sweeps_per_second: float  # of every chain, once everything is compiled

    @property
    def log_likelihoods(self) -> dict[int, float]:
        """By chain the log-likelihood of the cells that are watched, of all views together."""
        return {
            chain: sum(value for name, value in scalars.items() if name.startswith(LOG_LIKELIHOOD))
            for chain, scalars in self.chains.items()
        }

    def __str__(self) -> str:
        part = " (burn-in)" if self.sweep <= self.burn_in else ""
        return (
            f"sweep {self.sweep:,} of {self.sweeps:,}{part}, {self.sweeps_per_second:,.3g} sweeps/s, "
            f"{clock(self.seconds_left)} left, {self.levels()}"
        )

    def levels(self) -> str:
        """The log-likelihoods in few words."""
        found = list(self.log_likelihoods.values())
        if len(found) > _MOST_CHAINS:
            return f"log-likelihood from {min(found):,.0f} to {max(found):,.0f}"
        return f"log-likelihood {' '.join(f'{value:,.0f}' for value in found)}"


def clock(seconds: float) -> str:
    """A time as people read it.

    >>> clock(7), clock(754.6), clock(40_000)
    ('0:07', '12:35', '11:06:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def unwatched(sweeps: range, scalars: Callable[[], Scalars]) -> Iterable[int]:
    """Shows nothing."""
    return sweeps


def watched(
    show: Callable[[Progress], Any],
    burn_in: int,
    max_seconds: float | None = None,
    often: Callable[[float], float] = lambda seconds: 1.0,
    ready: Callable[[], None] = lambda: None,
) -> Watched:
    """Calls ``show`` after the last sweep, and before it ``often(seconds so far)`` seconds after the last time.

    ``ready`` is called after the first sweep.
    """

    def sweeps_shown(sweeps: range, scalars: Callable[[], Scalars]) -> Iterator[int]:
        began = due = since = time.perf_counter()
        due += often(0.0)
        for sweep in sweeps:
            yield sweep
            now = time.perf_counter()
            if sweep == sweeps[0]:
                ready()
                since = now  # the first one compiles
            if sweep < sweeps[-1] and (now < due or sweep == sweeps[0]):
                continue
            done = sweep - sweeps[0]
            speed = done / (now - since) if done and now > since else 1.0 / (now - began)
            left = (sweeps[-1] - sweep) / speed
            if max_seconds is not None:
                left = min(left, max(0.0, max_seconds - (now - began)))
            found = scalars()
            show(Progress(sweep, sweeps[-1], burn_in, found, now - began, left, speed))
            after = time.perf_counter()
            due = after + max(often(after - began), (after - now) / _SHARE)

    return sweeps_shown


def shown(burn_in: int, max_seconds: float | None, ready: Callable[[], None]) -> Watched:
    """To standard error: a moving line where somebody is looking, else a line now and then."""
    if sys.stderr.isatty() or _in_notebook():
        return _moving(burn_in, max_seconds, ready)
    return watched(
        lambda progress: print(f"countveil: {progress}", file=sys.stderr, flush=True),
        burn_in,
        max_seconds,
        often=lambda seconds: min(max(seconds, 5.0), 30.0),  # a sign of life soon, then half-minutes
        ready=ready,
    )


def _moving(burn_in: int, max_seconds: float | None, ready: Callable[[], None]) -> Watched:
    def sweeps_shown(sweeps: range, scalars: Callable[[], Scalars]) -> Iterator[int]:
        from tqdm.auto import tqdm

        started = sweeps.start - 1
        bar = tqdm(total=sweeps.stop - 1, initial=started, unit=" sweeps", desc="fit", dynamic_ncols=True)

        def show(progress: Progress) -> None:
            if (
                bar.n == started
            ):  # the first sweep may have compiled for a minute: it says nothing of the others
                bar.n = bar.initial = bar.last_print_n = progress.sweep
                bar.start_t = bar.last_print_t = time.time()
            bar.set_description("burn-in" if progress.sweep <= burn_in else "fit", refresh=False)
            bar.set_postfix_str(progress.levels(), refresh=False)
            bar.update(progress.sweep - bar.n)

        with bar:
            yield from watched(show, burn_in, max_seconds, lambda seconds: 0.2, ready)(sweeps, scalars)

    return sweeps_shown


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
