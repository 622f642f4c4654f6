"""What every study is made of: its settings, its fits one by one, what each of them found, and how it is shown."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from countveil.counts import PrivateCounts, simulate_release
from countveil.fitting import fit
from countveil.posterior import Posterior

#: The priors that stand side by side in every study, as arguments of models.
PRIORS: dict[str, dict[str, Any]] = {
    "paper": {"shape": 0.1, "rate": 1.0},
    "inferred": {"shape": 0.1, "rate": None},
}
#: What the paper compares: counts that nobody hid, and two ways to fit a release.
METHODS = ("non-private", "exact", "naive")
#: Kept draws of a fit: as many as the paper kept.
KEPT = 50


@dataclass(frozen=True)
class Settings:
    """How long the fits of a study run, and how many there are."""

    sweeps: int
    levels: tuple[float, ...]
    sizes: tuple[int, ...]
    releases: int
    naive_sweeps: int | None = None  # where naive fits take hours
    engine: str = "auto"
    threads: int | None = None

    def changed(self, **given: Any) -> Settings:
        """With what was given in place of its own; None keeps its own.

        >>> Settings(7500, (3.0, 1.0), (50,), 5).changed(releases=2, sizes=None).releases
        2
        """
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def at_levels(
        self, methods: Sequence[str], priors: Sequence[str] = tuple(PRIORS), **fields: Any
    ) -> list[Job]:
        """The plain reference and the methods at every level, for every prior."""
        jobs = []
        for prior in priors:
            for method in methods:
                sweeps = self.sweeps
                if method == "naive" and self.naive_sweeps is not None:
                    sweeps = self.naive_sweeps
                for level in (None,) if method == "non-private" else self.levels:
                    jobs.append(Job(method, prior, level, 0, sweeps, **fields))
        return jobs

    def repeated(self, jobs: Sequence[Job]) -> list[Job]:
        """Each of the jobs for every release, release by release, so that a stopped study is even."""
        return [job._replace(release=release) for release in range(self.releases) for job in jobs]


class Job(NamedTuple):
    """One fit of a study, or what else gives a line of its table. Equal jobs have equal results."""

    method: str  # exact, bessel, naive, non-private, robust, literal
    prior: str
    level: float | None  # eps/N; None for plain counts
    release: int
    sweeps: int
    size: int = 0  # topics, communities, rank
    data: str = ""
    hidden: str = ""
    start: str = "auto"

    @property
    def given(self) -> dict[str, Any]:
        """The arguments by which a model gets its prior."""
        return PRIORS[self.prior]

    @property
    def seed(self) -> int:
        """Of the chain."""
        return self.release + 1

    def noise(self) -> np.random.Generator:
        """Of the release: the same for all methods that see it."""
        assert self.level is not None
        return np.random.default_rng([self.release, round(1000 * self.level)])

    def said(self) -> str:
        """In a few words, for whoever waits.

        >>> Job("exact", "paper", 3.0, 0, 7500, size=20).said()
        'exact, paper, level 3, size 20, release 0'
        """
        parts = [self.method, self.prior]
        parts += [] if self.level is None else [f"level {self.level:g}"]
        parts += [f"size {self.size}"] if self.size else []
        parts += [part for part in (self.data, self.hidden and f"hidden: {self.hidden}") if part]
        parts += [] if self.start == "auto" else [f"{self.start} start"]
        return ", ".join([*parts, f"release {self.release}"])

    def observed(self, counts: Any, hidden: Any = None) -> tuple[Any, dict[str, Any]]:
        """What the method sees of the true counts, and the options of ``fit`` that go with it.

        ``hidden`` is a boolean mask of cells that nobody sees. ``literal`` takes the paper's formulas as they are
        printed: their chain has the law that belongs to ``1 - alpha`` (tests/test_errata.py), so it gets the
        release with that.
        """
        if self.method in ("non-private", "robust"):
            options = {"robust": math.exp(-self.level)} if self.level is not None else {}
            return (counts if hidden is None else np.ma.masked_array(counts, hidden)), options
        assert self.level is not None
        alpha, literal = math.exp(-self.level), self.method == "literal"
        release = simulate_release(counts, alpha=alpha, seed=self.noise(), keep_negative=literal)
        if literal:
            release = PrivateCounts(release.to_dense(), alpha=1 - alpha)
        if hidden is not None:
            release = release.hide(hidden)
        return release, {"method": self.method if self.method in ("naive", "bessel") else "exact"}

    def fitted(
        self, model: Any, settings: Settings, data: Any, kept: int = KEPT, **options: Any
    ) -> Posterior:
        """One chain, the first third of it burn-in as in the paper, with ``kept`` draws.

        A fit that was stopped gives the draws it has; in a study it would be taken for a whole one, so it is none.
        """
        burn_in = self.sweeps // 3
        thin = max(1, (self.sweeps - burn_in) // kept)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # priors that fight the data are what is shown
            found = fit(
                model, data, sweeps=self.sweeps, burn_in=burn_in, thin=thin, chains=1, seed=self.seed,
                progress=False, engine=settings.engine, threads=settings.threads, start=self.start, **options,
            )  # fmt: skip
        assert isinstance(found, Posterior)
        if found.n_draws < (self.sweeps - burn_in) // thin:
            raise KeyboardInterrupt
        return found


class Measure(NamedTuple):
    """A column of the table: its name, what a picture calls it, and which way is better."""

    name: str
    title: str
    better: str = ""  # "lower", "higher" or neither


class Found(NamedTuple):
    """What a fit gave: a number for some of the measures, and arrays that the picture shows."""

    scores: Mapping[str, float]
    arrays: Mapping[str, np.ndarray] = {}


@dataclass(frozen=True)
class Study:
    """A study: all that ``run_study`` and ``countveil study`` need to know of it."""

    name: str
    title: str
    measures: tuple[Measure, ...]
    paper: Settings
    quick: Settings
    load: Callable[[Mapping[str, Any]], Any]  # options -> data, of which ``describe`` says what they are
    describe: Callable[[Any], str]
    plan: Callable[[Settings], list[Job]]
    perform: Callable[[Job, Settings, Any], Found]
    picture: Callable[[Any, Path], None]  # of a ResultFolder, into a file
    shown: tuple[str, ...] = ()  # measures of the table in words, in their order; by default all
    data_options: tuple[str, ...] = ()  # "documents", "network", "edges"
