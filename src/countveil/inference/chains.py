"""Chains: sweep after sweep, all chains in step, draws kept as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from countveil.counts import PrivateCounts
from countveil.inference.draws import Draws, DrawStore, check_dims
from countveil.inference.engines.choose import choose_engine
from countveil.inference.engines.cpu.shared import SharedViews
from countveil.inference.engines.engine import Engine
from countveil.inference.modelled_part import modelled_part
from countveil.inference.monitor import Monitor
from countveil.inference.plain_counts import PlainCounts
from countveil.inference.settings import Settings
from countveil.inference.shared_monitor import SharedMonitor
from countveil.inference.unknown_noise import NoiseMonitor, NoiseSweep
from countveil.models.count_model import CountModel
from countveil.models.row_work import RowWork
from countveil.models.shared_factors import SharedFactors
from countveil.models.sweep_key import SweepKey
from countveil.models.unknown_noise import UnknownNoise


def run_chains(
    model: CountModel | SharedFactors,
    data: Any,
    settings: Settings,
    progress: Callable[[range], Iterable[int]] = iter,
) -> Draws:
    """Run all chains. ``progress`` wraps the range of sweeps, to show how far they are.

    ``data`` is a release or plain counts; of a model of several views, a mapping from the views to such.

    The chains go in step, so that after Ctrl-C all of them have the same number of draws: what was kept until
    then is returned, marked as interrupted, as long as there is any.
    """
    engine: Engine
    monitor: Monitor | NoiseMonitor | SharedMonitor
    if isinstance(model, SharedFactors):
        data = {name: modelled_part(view, data[name]) for name, view in model.views.items()}
        engine = SharedViews(model, data, settings.method, settings.engine)
        monitor = SharedMonitor(model, data)
    else:
        data = modelled_part(model, data)
        engine, monitor = _parts(model, data, settings)
    store = DrawStore(settings)
    # Sweep 0 is the start; sweeps count from 1.
    keys = [SweepKey(np.uint64(settings.seed), chain, 0) for chain in range(settings.chains)]
    states = [model.init(data, key.generator()) for key in keys]
    check_dims(model, states[0])
    began = time.perf_counter()
    interrupted = False
    try:
        with RowWork(settings.threads) as row_work:
            for sweep in progress(range(1, settings.sweeps + 1)):
                for chain, key in enumerate(keys):
                    key = key._replace(sweep=sweep)
                    states[chain], sums = engine.sweep(states[chain], key, row_work)
                    past = sweep - settings.burn_in
                    if past > 0 and past % settings.thin == 0:
                        store.keep(chain, states[chain], monitor.scalars(states[chain], sums))
    except KeyboardInterrupt:
        if not store.common():
            raise
        interrupted = True
    return store.draws(time.perf_counter() - began, interrupted)


def _parts(
    model: CountModel, data: PrivateCounts | PlainCounts, settings: Settings
) -> tuple[Engine, Monitor | NoiseMonitor]:
    if isinstance(model, UnknownNoise):
        engine = NoiseSweep(model, data, settings.method, settings.engine)
        return engine, NoiseMonitor(model, engine.data)
    return choose_engine(model, data, settings.method, settings.engine), Monitor(model, data)
