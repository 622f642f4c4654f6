"""The loop: sweep, monitor, keep, checkpoint; all chains in step, draws kept as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator

from countveil.inference.carry import Carry, check_form
from countveil.inference.engines.engine import engine_named
from countveil.inference.problem import Problem
from countveil.inference.progress import Scalars, Watched, unwatched
from countveil.inference.row_files import RowSaver, with_rows
from countveil.inference.settings import Settings
from countveil.inference.stopping import StoppingRule
from countveil.inference.store import Draws, MemoryStore, RunningMeans, Store


def run_chains(
    problem: Problem,
    settings: Settings,
    progress: Watched = unwatched,
    rule: StoppingRule | None = None,
    running: RunningMeans | None = None,
) -> Draws:
    """Run all chains, draws in memory."""
    store, began = MemoryStore(settings, running), time.perf_counter()
    stopped = run_into(store, problem, settings, progress, rule)
    return store.draws(time.perf_counter() - began, stopped)


def run_into(
    store: Store,
    problem: Problem,
    settings: Settings,
    progress: Watched = unwatched,
    rule: StoppingRule | None = None,
) -> str:
    """Run the chains of a store, from their beginning or from where the store has them go on; why did they end?

    By their last "sweeps", for their "precision" or their "time" (see ``StoppingRule``), or by an "interrupt". The
    chains go in step, so that after Ctrl-C all of them have the same number of draws: what was kept until then
    stays, as long as there is any. ``progress`` wraps the range of sweeps, to show how far they are.
    """
    rule = StoppingRule(settings, store.chains) if rule is None else rule
    with engine_named(settings.engine).open_problem(problem, settings) as sampler:
        apart = getattr(sampler, "carry_apart", None)  # of shards, which write their rows themselves
        form = getattr(sampler, "form", sampler.carry)  # of shards without the numbers of rows

        def carries(saver: RowSaver | None = None) -> Iterator[Carry]:
            for chain in store.chains:  # one at a time: they may be large
                yield sampler.carry(chain) if saver is None or apart is None else apart(chain, saver)

        def scalars() -> Scalars:
            return {chain: sampler.monitor(chain) for chain in store.chains}

        for chain in store.chains:
            sampler.start(chain)
        means, count = store.spread_means, getattr(sampler, "count_with", None)
        if means is not None and count is not None:
            means.begin(form(store.chains[0]).state)
            store.counts_apart = count(means, settings)
        first, in_step = 0, True
        for carry in store.begin(lambda: map(form, store.chains)):
            if carry.rows is not None and apart is None:
                carry = with_rows(carry)
                check_form(carry, sampler.carry(carry.chain))
            if carry.rows is None:  # else shards look
                problem.check_carry(carry)
            sampler.load(carry)
            first = carry.sweep
        if first and (ended := rule.after(first)) is not None:  # stopped between its last sweep and its end
            return ended
        try:
            for sweep in progress(range(first + 1, settings.sweeps + 1), scalars):
                in_step = False
                for chain in store.chains:  # all, before a draw of any is asked for: they may live apart
                    sampler.sweep(chain)
                for chain in store.chains if settings.keeps(sweep) else ():
                    rule.keep(chain, sampler.keep(chain, store))
                in_step = True
                ended = rule.after(sweep)
                if store.swept(sweep, carries, ended is not None) and ended is None:
                    return "interrupt"
                if ended is not None:
                    return ended
        except KeyboardInterrupt:
            store.stopped(carries if in_step else None)
            if not store.common():
                raise
            return "interrupt"
    return "sweeps"
