"""Tokens proposed on a row: where they fall, and whether they stand.

For a positive cell x = t, P(y) is proportional to Poisson(y; mu/alpha) * h(y), h = 1 up to t and alpha**(2(y-t))
beyond. Proposing y ~ Poisson(mu/alpha), accepting it with h(y) and else drawing from the exact conditional is
exact; and a proposal of 0 is always accepted, so a cell that receives no proposed token is done, untouched.

**Integrating out.** Since P(t|mu) = c*alpha**-t * [alpha**(2t) * exp(-(1-alpha)*mu) + rest], a positive cell is,
after its count y > 0 was drawn, handed back with probability alpha**(2*min(y, t)): its tokens are dropped, and
like every cell with y = 0 and every cell x <= 0 it then only has the likelihood exp(-(1-alpha)*mu). Compiled
functions take ``integrate``: None leaves these branches out when they are compiled, anything else compiles them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.alias_tables import choose_slots, word_at
from countveil.inference.engines.cpu.rows import LARGE, UNSEEN, lay_out, pick, value_of
from countveil.inference.engines.cpu.visits import is_dropped
from countveil.kernels.poisson import poisson
from countveil.kernels.uniform import fill_uniforms, uniform
from countveil.runtime.compiled import compiled

#: What becomes of a cell's proposed tokens; a positive number is their count, and they stand.
ACCEPTED, REJECTED, DROPPED = -1, -2, -3


class TokenBuffer(NamedTuple):
    """For the tokens of a row."""

    per_component: np.ndarray  # int64 (components)
    uniforms: np.ndarray
    column: np.ndarray  # int32
    component: np.ndarray  # int32
    rejected: np.ndarray  # int32: a token of every cell whose proposals are rejected


@compiled
def token_buffer(n_components, n_tokens):
    """For so many components and tokens."""
    return TokenBuffer(
        np.empty(n_components, dtype=np.int64),
        np.empty(n_tokens),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
    )


@compiled
def draw_tokens(stream, d, scale, theta, tables, codes, positive, buffer, scratch):
    """Tokens of row d, Poisson(scale * theta_dk * mass_k) of component k, each with a column by weight.

    Only those on positive (or else on non-positive) observed cells are kept. Returns ``(number, buffer, stream)``;
    the buffer grows as needed.
    """
    mass, heavy_mass, n_heavy, per_weight, slots = tables
    n_components, n_columns = np.uint64(theta.shape[1]), slots.shape[1]
    masses = mass.reshape(1, -1)
    total = lay_out(np.uint64(d), np.uint64(0), theta, masses, scratch)
    by_component = scale * total > 0.5 * n_components
    n_tokens = np.int64(0)
    if by_component:
        for k in range(n_components):
            n, stream = poisson(stream, scale * theta[d, k] * mass[k])
            buffer.per_component[k] = n
            n_tokens += n
    else:
        # Fewer tokens than components: their number first, then a component for each.
        n_tokens, stream = poisson(stream, scale * total)
    if n_tokens > len(buffer.column):
        grown = token_buffer(n_components, 2 * n_tokens)
        grown.per_component[:] = buffer.per_component
        buffer = grown
    # By names of their own: to take an array out of a tuple, and to forget it again, is counted each time.
    per_component, uniforms, column, component = (
        buffer.per_component,
        buffer.uniforms,
        buffer.column,
        buffer.component,
    )
    if not by_component:
        stream = fill_uniforms(stream, uniforms, n_tokens)
        per_component[:] = 0
        for i in range(n_tokens):
            k = pick(uniforms[i], total, np.uint64(d), np.uint64(0), theta, masses, scratch)
            per_component[k] += 1
    stream = fill_uniforms(stream, uniforms, n_tokens)
    begin = np.uint64(0)
    for k in range(n_components):
        end = begin + np.uint64(per_component[k])
        choose_slots(k, begin, end, mass, heavy_mass, n_heavy, per_weight, n_columns, uniforms, column)
        component[begin:end] = k
        begin = end
    for i in range(begin):
        column[i] = word_at(np.uint64(component[i]), column[i], uniforms[i], slots)
    kept = np.uint64(0)
    for i in range(begin):
        v = column[i]
        code = codes[np.uint64(v)]
        column[kept] = v
        component[kept] = component[i]
        kept += np.uint64((code != 0) & (code != UNSEEN) if positive else code == 0)
    return np.int64(kept), buffer, stream


@compiled
def accept_or_reject(
    stream, d, n_tokens, column, codes, data, integrate, proposals, rejected, kept, n_kept, count
):
    """Decide for every cell of row d whether its proposed tokens stand: ``(n_rejected, n_kept, stream)``.

    ``proposals`` is all zero before. After it, the proposals of a cell are ACCEPTED (or a count), REJECTED or,
    where cells are integrated out, DROPPED; whoever counts the tokens makes it zero again. (An accepted cell may
    become zero with its first token, for zero stands, too.) ``rejected`` gets a token of every rejected cell,
    ``kept`` the columns of cells that are kept where cells are integrated out; there tokens that stand are counted
    on the way, in ``count`` (their components, counters of the row and of the columns). Tokens on cells x <= 0
    stand.
    """
    for i in range(n_tokens):
        proposals[np.uint64(column[i])] += 1
    row_starts, columns, values = data.row_starts, data.columns, data.values
    row_rho, cell_rho = data.row_rho, data.cell_rho
    # A single token stands without a look, for t >= 1 on every positive cell; unless it may be dropped.
    most_without_look = 1
    if integrate is not None:
        most_without_look = 0
    by_cell = len(cell_rho) > 0
    n_rejected = 0
    for i in range(n_tokens):
        v = column[i]
        # Unsigned, because numba checks a signed index for being negative.
        n, code = proposals[np.uint64(v)], codes[np.uint64(v)]
        if n > most_without_look and code != 0:
            t = np.int64(code)
            if code == LARGE:
                t = value_of(code, d, v, row_starts, columns, values)
            rho = cell_rho[d, v] if by_cell else row_rho[d]
            verdict = ACCEPTED
            if n > t:
                u, stream = uniform(stream)
                if u >= math.exp(-2.0 * rho * (n - t)):
                    verdict = REJECTED
                    rejected[n_rejected] = i
                    n_rejected += 1
            if integrate is not None:  # noqa: SIM102 (numba leaves a branch out by a condition of its own)
                if verdict == ACCEPTED:
                    u, stream = uniform(stream)
                    if is_dropped(u, rho, n, t):
                        verdict = DROPPED
                    else:
                        kept[n_kept] = v
                        n_kept += 1
            proposals[np.uint64(v)] = n = verdict
        if integrate is not None:  # noqa: SIM102
            if n == ACCEPTED:
                component, of_row, of_columns = count
                k = np.uint64(component[i])
                of_row[k] += 1
                of_columns[np.uint64(v), k] += 1
    return n_rejected, n_kept, stream


@compiled
def forget(n_tokens, column, proposals):
    """Make ``proposals`` zero again."""
    for i in range(n_tokens):
        proposals[np.uint64(column[i])] = 0
