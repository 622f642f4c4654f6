"""Tables to draw the column of a token from: plain alias tables, and tables of words over some of the columns.

A component gives almost all of its weight to few words. Those at or above its mean weight get an alias table of
their own: it is small, so a token finds it in the processor's cache. The others share a table that few tokens
visit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.kernels.alias import build_alias
from countveil.runtime.compiled import compiled, inlined
from countveil.runtime.workers import Workers

#: A slot's probability to keep its own column, as a whole number.
_ONE = 2.0**62
_LOW = np.int64(0xFFFFFFFF)


class WordTables(NamedTuple):
    """Per topic: weight over these columns, of its heavy words alone, slots per weight of both kinds, the slots.

    A slot is two integers side by side, because a token visits slots at random and pays for every line of memory:
    the probability to keep the slot's own column, and both columns, own and other. Heavy words come first.
    """

    mass: np.ndarray  # (topics)
    heavy_mass: np.ndarray  # (topics)
    n_heavy: np.ndarray  # int64 (topics)
    per_weight: np.ndarray  # (topics, 2): slots per unit of weight, heavy and light
    slots: np.ndarray  # int64 (topics, columns, 2)


def word_tables(phi: np.ndarray, columns: np.ndarray, workers: Workers) -> WordTables:
    """Tables over ``columns`` for (columns, topics) weights; the slots hold columns of the whole matrix."""
    n_topics = phi.shape[1]
    tables = WordTables(
        np.zeros(n_topics),
        np.zeros(n_topics),
        np.zeros(n_topics, dtype=np.int64),
        np.zeros((n_topics, 2)),
        np.empty((n_topics, len(columns), 2), dtype=np.int64),
    )
    if len(columns):
        # Every topic is a row of work here.
        workers.run(n_topics, lambda start, stop: _build_words(start, stop, phi, columns, tables), small=1)
    return tables


@inlined
def choose_slots(k, begin, end, mass, heavy_mass, n_heavy, per_weight, n_columns, uniforms, out):
    """Slots of topic k, drawn by weight, to out[begin:end], by the uniforms there; the rest of each stays there.

    One uniform chooses heavy or light, the slot, and its half (``word_at``). There is no branch in this loop, so
    the compiler takes several at a time.
    """
    total, heavy, n_first = mass[k], heavy_mass[k], n_heavy[k]
    last_heavy, last_light = n_first - 1, n_columns - n_first - 1
    heavy_slots, light_slots = per_weight[k, 0], per_weight[k, 1]
    for i in range(begin, end):
        u = uniforms[i] * total
        is_heavy = u < heavy
        u = (u - (0.0 if is_heavy else heavy)) * (heavy_slots if is_heavy else light_slots)
        last = last_heavy if is_heavy else last_light
        slot = np.int64(u)
        slot = slot if slot < last else last  # rounding
        uniforms[i] = u - slot
        out[i] = slot + (0 if is_heavy else n_first)


@inlined
def word_at(k, slot, rest, slots):
    """The column of a slot, its own or the other one. No branch either: many lookups overlap."""
    slot = np.uint64(slot)  # unsigned, because numba checks a signed index for being negative
    both = slots[k, slot, 1]
    return both & _LOW if np.int64(rest * _ONE) < slots[k, slot, 0] else both >> 32


@compiled
def _build_words(start, stop, phi, columns, tables):
    mass, heavy_mass, n_heavy, per_weight, slots = tables
    n = len(columns)
    weights = np.empty(n)
    ordered = np.empty(n)
    place = np.empty(n, dtype=np.int64)
    keep = np.empty(n)
    other = np.empty(n, dtype=np.int32)
    work = np.empty(n, dtype=np.int32)
    for k in range(start, stop):
        total = 0.0
        for i in range(n):
            weights[i] = phi[columns[i], k]
            total += weights[i]
        mean = total / n
        heavy = 0
        light = n
        for i in range(n):
            if weights[i] >= mean:
                ordered[heavy] = weights[i]
                place[heavy] = columns[i]
                heavy += 1
            else:
                light -= 1
                ordered[light] = weights[i]
                place[light] = columns[i]
        if heavy == 0:
            heavy = n  # all equal, and the mean was rounded up past them: nothing is light then
        n_heavy[k] = heavy
        heavy_mass[k] = build_alias(ordered[:heavy], keep[:heavy], other[:heavy], work[:heavy])
        mass[k] = heavy_mass[k]
        per_weight[k, 0] = heavy / heavy_mass[k] if heavy_mass[k] > 0.0 else 0.0
        if heavy < n:
            light_mass = build_alias(ordered[heavy:], keep[heavy:], other[heavy:], work[heavy:])
            mass[k] += light_mass
            per_weight[k, 1] = (n - heavy) / light_mass if light_mass > 0.0 else 0.0
        for i in range(n):
            slots[k, i, 0] = np.int64(keep[i] * _ONE)
            slots[k, i, 1] = place[i] | (place[other[i] + (0 if i < heavy else heavy)] << 32)


class AliasTables(NamedTuple):
    """Over all columns (``kernels/alias``), a row for every component, and the sums of the weights."""

    keep: np.ndarray  # (components, columns)
    other: np.ndarray  # int32 (components, columns)
    mass: np.ndarray  # (components)


def alias_tables(weights: np.ndarray, workers: Workers) -> AliasTables:
    """Tables for (components, columns) weights."""
    weights = np.ascontiguousarray(weights)
    tables = AliasTables(
        np.empty(weights.shape), np.empty(weights.shape, dtype=np.int32), np.empty(len(weights))
    )
    workers.run(len(weights), lambda start, stop: _build_alias(start, stop, weights, tables), small=1)
    return tables


@compiled
def _build_alias(start, stop, weights, tables):
    work = np.empty(weights.shape[1], dtype=np.int32)
    for k in range(start, stop):
        tables.mass[k] = build_alias(weights[k], tables.keep[k], tables.other[k], work)
