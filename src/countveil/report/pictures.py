"""The table of pictures: what each is called on the command line, what it shows, and which posteriors have it.

A new picture is a function ``plot_*(posterior, ax=None) -> Axes`` and a line here. Functions are named, not
imported: matplotlib comes when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from countveil.report import picture_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Picture:
    """One kind of picture.

    >>> PICTURES["topics"].fits(("topics", "components"), 2), PICTURES["blocks"].fits(("topics",), 2)
    (True, False)
    """

    module: str  # of ``countveil.report``, with a function of the name ``plot_`` + kind
    summary: str
    #: What the model's draws can be aligned as, one of these (``aligned_as``); any model if there is none.
    of: tuple[str, ...] = ()
    n_axes: int | None = None  # of the counts, where it must be so many
    of_views: bool = False  # also of several arrays together
    of_groups: bool = False  # of a model with groups of rows
    needs_rates: bool = False  # none of a model of the user's own, which a run does not hold

    def fits(self, aligned_as: tuple[str, ...], n_axes: int) -> bool:
        """Whether there is such a picture of a model whose draws are aligned so, of counts with so many axes."""
        kind_fits = not self.of or any(kind in aligned_as for kind in self.of)
        return kind_fits and self.n_axes in (None, n_axes)


PICTURES = {
    "topics": Picture("topics", "topics with their heaviest words", of=("topics",)),
    "memberships": Picture("topics", "shares of topics or communities, by row", of=("topics", "communities")),
    "prevalence": Picture("prevalence", "shares of topics, by group of rows", of=("topics",), of_groups=True),
    "blocks": Picture("communities", "counts from community to community", of=("communities",)),
    "network": Picture("communities", "the strongest actors and links", of=("communities",)),
    "components": Picture("components", "components of a tensor, by axis", of=("components",)),
    "matrices": Picture("matrices", "released and estimated counts side by side", n_axes=2),
    "rootogram": Picture("checks", "how often each count was seen, and is expected", needs_rates=True),
    "pit": Picture("checks", "whether predictions are as sure as they may be", needs_rates=True),
    "traces": Picture("chains", "how the chains went", of_views=True),
    "ranks": Picture("chains", "whether the chains agree", of_views=True),
}


def function_of(kind: str) -> Callable[..., Axes]:
    """The function that draws a kind of picture.

    >>> function_of("topics").__name__
    'plot_topics'
    """
    found: Callable[..., Axes] = getattr(picture_module(PICTURES[kind].module), f"plot_{kind}")
    return found


def kinds_of(posterior: Any) -> list[str]:
    """The kinds of pictures that there are of a posterior.

    >>> import countveil as cv
    >>> posterior = cv.fit(cv.TopicModel(2), [[9, 7, 0], [0, 1, 7]], sweeps=20, seed=1, progress=False)
    >>> kinds_of(posterior)
    ['topics', 'memberships', 'matrices', 'rootogram', 'pit', 'traces', 'ranks']
    """
    from countveil.posterior import SharedPosterior
    from countveil.posterior.align import aligned_as

    if isinstance(posterior, SharedPosterior):
        return [kind for kind, picture in PICTURES.items() if picture.of_views]
    if posterior.model is None:
        plain = {kind: picture for kind, picture in PICTURES.items() if not picture.needs_rates}
        return [kind for kind, picture in plain.items() if not picture.of and picture.n_axes is None]
    known = aligned_as(posterior.model), len(posterior._shape)
    has_groups = getattr(posterior.model, "groups", None) is not None
    fitting = {kind: picture for kind, picture in PICTURES.items() if picture.fits(*known)}
    return [kind for kind, picture in fitting.items() if has_groups or not picture.of_groups]
