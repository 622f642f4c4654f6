"""When chains end before their last sweep: they are precise enough, or their time is up.

Neither changes a draw: what was drawn until then is how a longer run begins. The precision is looked at after
sweeps that follow from the settings (``Settings.looks``), so that a run stopped and resumed ends where one in one
piece does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from countveil.inference.settings import Settings

#: Whether draws of monitored scalars, name -> (chain, draw), are as precise as the settings ask.
Precise = Callable[[Mapping[str, np.ndarray], Settings], bool]


class StoppingRule:
    """Takes the scalars of every kept draw, and says after a sweep whether it was the last one.

    Examples
    --------
    >>> from countveil.inference.settings import check_settings
    >>> settings = check_settings(sweeps=100, burn_in=0, thin=1, chains=2, seed=1, method="exact", engine="auto",
    ...                           threads=1, until={"ess": 40})
    >>> rule = StoppingRule(settings, [0, 1], lambda scalars, settings: scalars["x"].size >= settings.until_ess)
    >>> for sweep in range(1, 21):
    ...     rule.keep(0, {"x": 0.5}); rule.keep(1, {"x": 0.25}); ended = rule.after(sweep)
    >>> sweep, ended
    (20, 'precision')
    """

    def __init__(
        self,
        settings: Settings,
        chains: Sequence[int],
        precise: Precise | None = None,
        max_seconds: float | None = None,
        before: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """``before`` has the scalars, (chain, draw), that a run which goes on has already."""
        self._settings, self._precise = settings, precise
        self._end = None if max_seconds is None else time.monotonic() + max_seconds
        self._places = {chain: place for place, chain in enumerate(chains)}
        self._scalars = {
            name: [list(map(float, chain)) for chain in values] for name, values in (before or {}).items()
        }

    def keep(self, chain: int, scalars: Mapping[str, float]) -> None:
        """The scalars of a chain's next draw."""
        if self._precise is not None:
            for name, value in scalars.items():
                self._scalars.setdefault(name, [[] for _ in self._places])[self._places[chain]].append(value)

    def after(self, sweep: int) -> str | None:
        """Why this sweep was the last, "precision" or "time"; None if it was not."""
        if self._precise is not None and self._settings.looks(sweep):
            scalars = {name: np.array(values) for name, values in self._scalars.items()}
            if self._precise(scalars, self._settings):
                return "precision"
        out_of_time = self._end is not None and time.monotonic() >= self._end
        return "time" if out_of_time and sweep < self._settings.sweeps else None
