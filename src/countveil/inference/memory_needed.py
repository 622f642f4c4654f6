"""Whether the chains of a problem have room in memory, asked before any is made.

A release of a kilobyte may have a billion columns, and so may a typo: a state has a number for every column and
component. Refused is only what cannot work: what chains certainly hold at one time is counted, and compared with
all the memory that the machine has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from countveil.inference.problem import Problem
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
        model, size = view.model, math.prod(problem.shapes[name])
        if view.method == "bessel":
            cells += n_chains * _NOISE_RATES * size
        if isinstance(model, EinsumModel):
            found = numbers_of_factors(model, problem.shapes[name])
            # Of several views the largest: they share factors.
            numbers = max(numbers, sum(n for factor, n in found.items() if factor not in model._fixed))
        if not (isinstance(model, EinsumModel) and model.unfolds):
            cells += _COUNT * size
    return numbers * (_STATE + _TOKENS) * (n_chains + 1) + cells


def numbers_of_factors(model: EinsumModel, shape: Sequence[int]) -> dict[str, int]:
    """How many numbers each factor has, for data of this shape."""
    spec = model._spec
    sizes = {**model._sizes, **dict(zip(spec.output, shape, strict=True))}
    return {name: math.prod(sizes[letter] for letter in spec.term(name)) for name in spec.factors}


def _described(problem: Problem) -> str:
    name = type(problem.model).__name__
    sizes = [
        " x ".join(str(n) for n in view.model._sizes.values())
        for view in problem.views.values()
        if isinstance(view.model, EinsumModel)
    ]
    return f"{name} with {', '.join(sizes)} components" if any(sizes) else name
