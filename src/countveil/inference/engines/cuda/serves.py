"""What the GPU engine serves, how much memory that takes, and when it pays."""

from __future__ import annotations

from countveil.inference.engines.cuda import halves, matrix_chain, network_chains
from countveil.inference.engines.cuda.counts import bytes_of_counts
from countveil.inference.engines.cuda.device import Device, find_device
from countveil.inference.problem import Problem
from countveil.inference.settings import Settings
from countveil.models.einsum.model import EinsumModel

#: Cells from which a sweep on a device takes less than one on a processor's cores, launches included.
LEAST_CELLS = 2_000_000
#: Bytes that the driver, the libraries and compiled kernels take for themselves, about.
_OTHERS = 600_000_000


def fault(problem: Problem, settings: Settings) -> str | None:
    """Why a problem is not for this engine: a sentence's end after "engine: expected ... got"; None if it is."""
    view = next(iter(problem.views.values()))
    if len(problem.views) > 1 or not isinstance(problem.model, EinsumModel):
        return "a model of your own, or SharedFactors: cuda serves single factorizations"
    if problem.alpha is not None:
        return "noise that is not known: cuda serves releases with a known alpha"
    if view.method == "bessel":
        return "method 'bessel': cuda serves 'exact' and 'naive'"
    if view.observed.is_repeated:
        return "counts that were released several times: cuda serves one release"
    if not problem.model.unfolds:
        return "a factorization that is no product of two matrices along its first axis"
    if settings.algorithm != "auto":
        return f"algorithm {settings.algorithm!r}: cuda has one of its own, 'auto'"
    if problem.model.n_components >= halves.MOST_COMPONENTS:
        return f"{problem.model.n_components} components: cuda serves fewer than {halves.MOST_COMPONENTS}"
    return None


def needed_bytes(problem: Problem, n_chains: int) -> int:
    """About what the chains of a problem take on the device."""
    view, model = problem.views[""], problem.model
    if network_chains.fits(model, view.observed):
        return network_chains.bytes_of_chains(model, view.observed, n_chains) + _OTHERS
    n_rows, width = view.observed.n_rows, view.observed.width
    chains = n_chains if matrix_chain.fits(model) else 1
    of_chain = matrix_chain.bytes_of_chain(n_rows, width, model.n_components)
    return bytes_of_counts(view.observed, model.n_components) + chains * of_chain + _OTHERS


def checked_device(problem: Problem, settings: Settings) -> Device:
    """The device for a problem, or an error that says before any work why there is none."""
    reason = fault(problem, settings)
    if reason is not None:
        raise ValueError(f"engine: expected 'cpu' (or 'auto') for this problem, got 'cuda' for {reason}")
    found = find_device()
    if isinstance(found, str):
        raise RuntimeError(f"engine: expected a GPU for 'cuda', got none: {found}")
    needed = needed_bytes(problem, settings.chains)
    if needed > found.free:
        raise MemoryError(
            f"engine: expected {needed} bytes of free memory on {found.name} for this problem, got {found.free} "
            f"of {found.total}; engine='cpu' needs none"
        )
    return found


def pays(problem: Problem, settings: Settings) -> bool:
    """Whether ``auto`` takes the GPU: one that can be used, and work that is large enough."""
    if fault(problem, settings) is not None or not matrix_chain.fits(problem.model):
        return False
    observed = problem.views[""].observed
    work = len(observed.columns) * 4 if observed.is_plain else observed.n_rows * observed.width
    if work < LEAST_CELLS:
        return False
    found = find_device()
    return not isinstance(found, str) and needed_bytes(problem, settings.chains) <= found.free
