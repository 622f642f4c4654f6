"""Scales whose law has one tail: the forms with which the law of ``models/einsum/prior.py`` is compared.

There u_i = m g_i / h_i with g_i ~ Gamma(t, t) and h_i ~ Gamma(s, s). Its limits are the two forms of the literature:

    gamma            s -> infinity: u_i ~ Gamma(t, t / m)       a factor beside the factors, as in mu = r_d w_v (...)
    inverse gamma    t -> infinity: 1 / u_i ~ Gamma(s, s m)     rates of the factors, as in theta_dk ~ Gamma(a, xi_d)

``with law_of_scales("gamma"):`` draws scales, shape and level by these laws themselves. A large s held fixed would not
do: given g_i, u_i moves by a share of 1 / sqrt(s) in a sweep. Factors without summed index keep their gamma law.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from countveil.models.einsum import prior

#: What stands for an infinite shape in stored draws and in the log-density.
INFINITE = 1e6


def gamma_posterior(
    rng: np.random.Generator, power: np.ndarray | float, rate: np.ndarray | float, inverse: np.ndarray
) -> np.ndarray:
    """Draws of density u^(power - 1) exp(-rate u - inverse / u): generalized inverse Gaussian, by rejection.

    x = log u has the log-concave density exp(power x - rate e^x - inverse e^-x). Its hat is flat within one standard
    deviation of the mode, and beyond it the tangents.
    """
    power, rate = np.broadcast_to(power, inverse.shape), np.broadcast_to(rate, inverse.shape)
    root = np.sqrt(power**2 + 4 * rate * inverse)
    # The same number twice; where power is negative the first would lose its digits.
    mode = np.log(np.where(power > 0, (power + root) / (2 * rate), 2 * inverse / (root - power)))

    def log_density(x: np.ndarray, i: np.ndarray) -> np.ndarray:
        return power[i] * (x - mode[i]) - rate[i] * np.exp(x) - inverse[i] * np.exp(-x)

    everyone = np.arange(len(inverse))
    sd = 1 / np.sqrt(rate * np.exp(mode) + inverse * np.exp(-mode))
    top = log_density(mode, everyone)
    ends, slopes, heights = [], [], []
    for side in (-1.0, 1.0):
        end = mode + side * sd
        ends.append(end)
        slopes.append(np.abs(power - rate * np.exp(end) + inverse * np.exp(-end)))
        heights.append(log_density(end, everyone) - top)
    masses = np.stack([np.exp(heights[0]) / slopes[0], 2 * sd, np.exp(heights[1]) / slopes[1]])
    shares = np.cumsum(masses, axis=0) / masses.sum(axis=0)
    found, left = np.empty(len(inverse)), everyone
    while len(left):
        piece = (rng.random(len(left)) > shares[:, left]).sum(axis=0)
        beyond = rng.exponential(size=len(left))
        low, high = ends[0][left] - beyond / slopes[0][left], ends[1][left] + beyond / slopes[1][left]
        flat = mode[left] + sd[left] * rng.uniform(-1, 1, len(left))
        x = np.choose(piece, [low, flat, high])
        hat = np.choose(piece, [heights[0][left] - beyond, np.zeros(len(left)), heights[1][left] - beyond])
        taken = -rng.exponential(size=len(left)) + hat < log_density(x, left) - top[left]
        found[left[taken]] = np.exp(x[taken])
        left = left[~taken]
    return found


@contextmanager
def law_of_scales(form: str | None) -> Iterator[None]:
    """Fits within have this law of scales; None: the package's own. In this process and its threads."""
    if form is None:
        yield
        return
    seed_of_form = {"gamma": 1, "inverse gamma": 2}[form]

    def draw(name: str, one: Any, number: int, held: dict[str, np.ndarray], key: Any, workers: Any) -> None:
        rng = np.random.default_rng([int(key.seed), int(key.chain), int(key.sweep), number, seed_of_form])
        factor = held[name].reshape(len(held[name]), -1)
        level = float(held[f"{name}_level"]) if one.level else 1.0
        means = held[f"{name}_mean"].reshape(-1) if one.means else np.ones(factor.shape[1])
        inverse = np.maximum(one.shape * (factor / means).sum(axis=1), 1e-30)
        more = one.shape * factor.shape[1]
        mine, other = ("lower", "upper") if form == "gamma" else ("upper", "lower")
        shape = float(held[f"{name}_scale_{mine}"])
        if form == "gamma":
            scales = gamma_posterior(rng, shape - more, shape / level, inverse)
        else:
            scales = 1 / rng.gamma(shape + more, 1 / (shape * level + inverse))
        scales = np.clip(scales, 1e-30, 1e30)
        # Of mean 1, with the shape that is inferred: u_i / m, or m / u_i.
        unit = scales / level if form == "gamma" else level / scales
        n, sums = prior._sums_of_law(prior._terms_of_law(unit, 1.0), workers)
        shape = prior._draw_shape(key, 4 * number, shape, n, sums, 0, prior.HYPER)
        held[f"{name}_scale"] = scales
        held[f"{name}_scale_{mine}"], held[f"{name}_scale_{other}"] = np.asarray(shape), np.asarray(INFINITE)
        if one.level:  # its law is that of its inverse, too
            now = 1 / level if form == "gamma" else level
            new = prior._draw_level(
                key, 4 * number + 2, now, shape * n, shape * float(sums[2]) / now, prior.HYPER
            )
            held[f"{name}_level"] = np.asarray(1 / new if form == "gamma" else new)

    package = prior._draw_scales_and_law
    prior._draw_scales_and_law = draw
    try:
        yield
    finally:
        prior._draw_scales_and_law = package
