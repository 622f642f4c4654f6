"""Whether the chains of a problem have room in memory, asked before any is made.

A release of a kilobyte may have a billion columns, and so may a typo: a state has a number for every column and
component. Refused is only what cannot work: what chains certainly hold at one time is counted, and compared with
all the memory that the machine has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from countveil.inference.problem import Problem
from countveil.models.einsum.contraction import largest_step
from countveil.models.einsum.model import EinsumModel
from countveil.runtime.machine import memory_of_machine

#: Bytes of a number of the state (float64), and of its tokens (int32 or more), by which a chain is watched later.
_STATE, _TOKENS = 8, 4
#: Bytes of a cell: two noise rates of the paper's sampler, of every chain; a count, where all of them are drawn.
_NOISE_RATES, _COUNT = 16, 8


def check_room(problem: Problem, n_chains: int) -> None:
    """Refuse chains that would need more memory than there is; of a shard's problem its own rows count."""
    memory, needed = memory_of_machine(), bytes_of_chains(problem, n_chains)
    if memory is None or needed <= memory:
        return
    shapes = ", ".join(" x ".join(f"{n:,}" for n in shape) for shape in problem.shapes.values())
    raise ValueError(
        f"data: expected counts whose chains fit into the {memory:,} bytes of memory of this machine, got {shapes} "
        f"counts, for which {n_chains} {'chain' if n_chains == 1 else 'chains'} of {_described(problem)} "
        f"{'needs' if n_chains == 1 else 'need'} {needed:,} bytes or more"
    )


def bytes_of_chains(problem: Problem, n_chains: int) -> int:
    """What so many chains hold at least when one of them is swept: its next state and tokens, too."""
    numbers, cells = 0, 0
    for name, view in problem.views.items():
        model, shape = view.model, problem.shapes[name]
        if isinstance(model, EinsumModel):
            found = numbers_of_factors(model, shape)
            # Of several views the largest: they share factors.
            numbers = max(numbers, sum(n for factor, n in found.items() if factor not in model._fixed))
        cells += bytes_of_cells(model, shape, view.method, n_chains)
    return numbers * (_STATE + _TOKENS) * (n_chains + 1) + cells


def bytes_of_cells(model: Any, shape: Sequence[int], method: str, n_chains: int) -> int:
    """What chains hold for every cell of an array: none of them where tokens are drawn."""
    each = n_chains * _NOISE_RATES if method == "bessel" else 0
    if not (isinstance(model, EinsumModel) and model.unfolds):
        each += _COUNT
    return each * math.prod(shape)


def numbers_of_factors(model: EinsumModel, shape: Sequence[int]) -> dict[str, int]:
    """How many numbers each factor has, for data of this shape."""
    spec = model._spec
    sizes = {**model._sizes, **dict(zip(spec.output, shape, strict=True))}
    return {name: math.prod(sizes[letter] for letter in spec.term(name)) for name in spec.factors}


def products_of_a_rate(model: EinsumModel) -> int:
    """How many products one rate takes, one after the other and without a look at signals."""
    spec = model._spec
    return largest_step(spec.terms, spec.output, {**model._sizes, **dict.fromkeys(spec.output, 1)})


def numbers_unfolded(model: EinsumModel, shape: Sequence[int]) -> int:
    """What single rates are looked up in: all columns of the matrix form, or the places of all cells; in the CP
    form nothing.
    """
    if model._spec.per_axis is not None:
        return 0
    if model.unfolds:
        return math.prod(shape[1:]) * model.n_components
    return math.prod(shape) * len(model._spec.terms)


def _described(problem: Problem) -> str:
    name = type(problem.model).__name__
    sizes = [
        " x ".join(str(n) for n in view.model._sizes.values())
        for view in problem.views.values()
        if isinstance(view.model, EinsumModel)
    ]
    return f"{name} with {', '.join(sizes)} components" if any(sizes) else name
