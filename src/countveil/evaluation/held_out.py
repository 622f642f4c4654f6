"""How well a posterior predicts cells that were hidden from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.cells.layout import row_indices
from countveil.counts.inputs.labels import expect_labels
from countveil.counts.sources.plain_counts import read_plain_counts
from countveil.evaluation.likelihood import cell_draws, cell_places, each_once
from countveil.inference.observed import cells_at, observe, seen
from countveil.posterior.axes import readable_labels
from countveil.posterior.diagnostics.modes import warn_of_modes
from countveil.posterior.posterior import Posterior
from countveil.posterior.states import row_slices


def held_out_log_score(posterior: Posterior, data: Any, *, cells: Any = None) -> float:
    """The mean over hidden cells of ``log( mean over draws s of P(value | rate_s) )``; higher is better.

    Against the release from which the cells were hidden it needs no true count: ``P`` is the likelihood of a
    released value with the true count summed out, so that choosing a model this way stays private. Against
    known counts ``P`` is Poisson, or with noise if the fit was robust. The two are different scores: compare like
    with like.

    Parameters
    ----------
    posterior
        Fitted to ``release.hide(cells)``, or to a masked array of plain counts.
    data
        What was hidden: the release as it was before, or the (true) counts. Their labels, where they have any, must
        be those that were fitted, in the same order.
    cells
        Score these cells only: a boolean mask, dense or sparse, or a tuple of index arrays. They must have
        been missing in the fit. By default all cells that were missing there and are not here. Cells that the
        model leaves out (the diagonal of a network, one half of an undirected one) are never scored.

    Examples
    --------
    >>> import countveil as cv
    >>> from countveil.evaluation import held_out_log_score
    >>> counts = [[9, 1, 0], [0, 8, 7], [8, 1, 0], [1, 6, 9]]
    >>> release = cv.simulate_release(counts, epsilon=2, seed=1)
    >>> posterior = cv.fit(cv.TopicModel(2), release.hide(([0, 1], [0, 1])), seed=1, progress=False)
    >>> -6 < held_out_log_score(posterior, release) < -1
    True
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
    posterior._with_model("held_out_log_score")
    fitted = posterior._data
    if fitted is None:
        raise ValueError(
            "held_out_log_score: expected the counts of this run, got none: plain counts are not saved"
        )
    if not isinstance(data, PrivateCounts | CombinedReleases):
        data = read_plain_counts(data)
    if data.shape != posterior._shape:
        raise ValueError(f"data: expected the shape that was fitted, {posterior._shape}, got {data.shape}")
    for axis, both in enumerate(zip(posterior._labels, readable_labels(data.labels), strict=True)):
        message = f"data: expected the labels that were fitted along axis {axis}"
        expect_labels(*both, message, numbers_are_names=False)
    if cells is None:
        rows, columns = _missing_cells(fitted)
    else:
        rows, columns = each_once(*cell_places(cells, posterior._shape))
        n_seen = int(seen(cells_at(observe(fitted), rows, columns)[0]).sum())
        if n_seen:
            raise ValueError(
                f"cells: expected cells that were missing in the fit, got {n_seen} that were not"
            )
    # What the model leaves out is missing in the data, too: it predicts nothing there.
    values, noise = cells_at(posterior._observed(data), rows, columns)
    known = seen(values)
    if not known.any():
        raise ValueError("data: expected values of cells that were missing in the fit, got none")
    rows, columns, values, noise = (each[known] for each in (rows, columns, values, noise))
    warn_of_modes(posterior, "held_out_log_score")
    rho = posterior._rho_of_draws
    total = 0.0
    for part in row_slices(len(rows), 1):
        chosen = (each[part] for each in (rows, columns, values, noise))
        total += float(_log_mean_exp(cell_draws(posterior, rho, *chosen)).sum())
    return total / len(rows)


def _missing_cells(data: Any) -> tuple[np.ndarray, np.ndarray]:
    if data.missing is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return row_indices(data.missing.row_starts), data.missing.columns.astype(np.int64)


def _log_mean_exp(draws: Any) -> np.ndarray:
    """log(mean(exp(draws))), draw after draw: only two arrays are held."""
    highest, total, n = None, None, 0
    with np.errstate(invalid="ignore"):
        for values in draws:
            n += 1
            if highest is None or total is None:
                highest, total = values.copy(), np.where(np.isneginf(values), 0.0, 1.0)
                continue
            above = np.maximum(highest, values)
            shift = np.where(np.isneginf(above), 0.0, above)
            total = total * np.exp(highest - shift) + np.exp(values - shift)
            highest = above
    if highest is None or total is None:
        raise ValueError("draws: expected at least one, got none")
    with np.errstate(divide="ignore"):
        return np.where(np.isneginf(highest), -np.inf, highest + np.log(np.maximum(total, 1e-300) / n))
