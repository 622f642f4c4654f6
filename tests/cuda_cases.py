"""Every kernel once, from a plain compiled loop (``on_cpu``) or inside a CUDA kernel (``on_device``).

Run as a script it prints the results of ``on_device`` as JSON. ``kernels/test_cuda.py`` runs it under numba's
CUDA simulator with compilation switched off, so that the Python source itself is executed; the same script
runs unchanged on a real device.
"""

import json
import math
import sys

import numba
import numpy as np
from numba import cuda

from countveil.kernels.alias import build_alias, draw_alias
from countveil.kernels.binomial import binomial, categorical, multinomial
from countveil.kernels.elementary import exp_of, log_of
from countveil.kernels.exact_sum import split
from countveil.kernels.gamma import gamma, log_gamma, small_gamma_at
from countveil.kernels.given_release.bessel import bessel, bessel_mode, draw_count_by_bessel
from countveil.kernels.given_release.geometric import (
    count_mode,
    draw_count,
    draw_count_at,
    draw_count_directly,
    few_count_at,
    few_counts_at,
    log_marginal,
    log_marginal_clamped,
)
from countveil.kernels.given_release.repeated import (
    draw_count_repeated,
    log_marginal_repeated,
    repeated_log_ratio,
    repeated_mode,
    sum_from_mode,
)
from countveil.kernels.law_shape import draw_law_shape, log_density_of_shape
from countveil.kernels.log_scale import draw_log_scale, log_scale_mode_by_root
from countveil.kernels.normal import normal
from countveil.kernels.philox import next_word, open_stream
from countveil.kernels.poisson import few_at, log_factorial_ratio, log_poisson, poisson, poisson_at
from countveil.kernels.uniform import (
    exponential,
    fill_exponentials,
    fill_first_uniforms,
    fill_uniforms,
    fill_word_pairs,
    uniform,
)

SEED = 20260101
THREADS = 24


@numba.njit
def draw_after_a_look(stream, x, mu, rho):
    """``draw_count_at`` begins with a uniform that its caller has drawn."""
    u, stream = uniform(stream)
    return draw_count_at(u, stream, x, mu, rho, mu * math.exp(rho), mu * math.exp(-rho))


@numba.njit
def small_gamma(stream, shape):
    """``small_gamma_at`` begins with two words that its caller has drawn."""
    a, stream = next_word(stream)
    b, stream = next_word(stream)
    return small_gamma_at(a, b, shape), stream


# Samplers: (kernel, parameter sets); each thread draws from the stream of its own row.
SAMPLERS = {
    "uniform": (uniform, [()]),
    "exponential": (exponential, [()]),
    "normal": (normal, [()]),
    "gamma": (gamma, [(1e-3, 1.0), (0.1, 2.0), (1.0, 1.0), (50.0, 3.0)]),
    "small_gamma": (small_gamma, [(0.1,), (0.9,)]),
    "log_gamma": (log_gamma, [(1e-3, 1.0), (4.0, 2.0)]),
    "poisson": (poisson, [(1e-12,), (0.7,), (12.0,), (1e9,)]),
    "binomial": (binomial, [(0, 0.5), (3, 0.2), (100, 0.9), (1_000_000, 0.4)]),
    "bessel": (bessel, [(0, 0.0), (2, 1.0), (0, 288.0), (1_000_000, 1e6)]),
    "draw_log_scale": (draw_log_scale, [(0.0, 1.0, 1.0, 0.0), (-500.0, 3000.0, 5000.0, 1.0)]),
    "draw_law_shape": (
        draw_law_shape,
        [(1.0, 0, 0.0, 0.0, 0.0, 1.0), (0.3, 5, -9.0, 6.0, 0.0, 1.0), (2.0, 10_000, -1e3, 1e4, 0.5, 2.0)],
    ),
    "draw_count_directly": (draw_count_directly, [(3, 2.0, 1.0), (2, 30.0, 0.5), (400, 300.0, 0.1)]),
    "draw_count_at": (
        draw_after_a_look,
        [(-3, 2.0, 1.0), (1, 0.1, 1.0), (7, 7.0, 1.0), (40, 30.0, 0.5), (3, 80.0, 0.5)],
    ),
    "draw_count": (
        draw_count,
        [(-3, 2.0, 1.0), (1, 0.1, 1.0), (40, 30.0, 0.5), (1_000_000, 1e6, 0.01), (9, 2.0, np.inf)],
    ),
}
# Deterministic functions of scalars.
FUNCTIONS = {
    "log_scale_mode_by_root": (log_scale_mode_by_root, [(0.0, 1.0, 1.0, 0.5), (-500.0, 3e3, 5e3, 1.0)]),
    "log_poisson": (log_poisson, [(0, 2.0), (3, 2.0), (10**6, 1e6)]),
    "log_factorial_ratio": (log_factorial_ratio, [(0, 4), (9, 2), (10**6, 10**6 - 7)]),
    "bessel_mode": (bessel_mode, [(0, 288.0), (7, 100.0)]),
    "log_density_of_shape": (
        log_density_of_shape,
        [(0.0, 5, -9.0, 6.0, 0.0, 1.0), (-3.0, 5, -9.0, 6.0, 0.5, 2.0), (9.0, 10_000, -1e3, 1e4, 0.0, 1.0)],
    ),
    "log_of": (log_of, [(1e-19,), (0.3,), (1.5,)]),
    "exp_of": (exp_of, [(-700.0,), (-0.3,), (20.0,)]),
    "poisson_at": (poisson_at, [(0.5, 0.2), (0.1, 0.2), (0.9, 3.0)]),
    "few_at": (few_at, [(0.5, 0.2), (0.1, 0.2), (0.9, 3.0), (0.3, 30.0)]),
    "few_count_at": (
        few_count_at,
        [(0.1, 0.0, 0.2, 0.1), (0.5, 3.0, 1.5, 0.1), (0.9, 1.0, 1.9, 0.1), (0.4, 2.0, 4.5, 0.1)],
    ),
    "count_mode": (count_mode, [(3, 19.0, 2.6), (100, 19.0, 2.6)]),
    "log_marginal": (log_marginal, [(-2, 1.0, 1.0), (3, 2.0, 1.0), (40, 300.0, 0.1), (10**5, 1e5, 1e-3)]),
    "log_marginal_clamped": (log_marginal_clamped, [(0, 1.0, 1.0), (3, 2.0, 1.0)]),
}
# A cell released twice: small, summed from its mode; large, by rejection; both clamped.
RELEASED = np.array([[3, 1], [40, 60], [0, -2]])
NOISE = np.array([0.7, 0.2])
WEIGHTS = np.array([0.2, 0.0, 5.0, 1.3, 0.5])


def sampler_body(kernel, parameters):
    @numba.njit
    def body(i):
        stream = open_stream(SEED, 1, 2, 3, i)
        value, stream = kernel(stream, *parameters)
        second, stream = kernel(stream, *parameters)
        return value + 0.5 * second

    return body


def function_body(function, parameters):
    @numba.njit
    def body(i):
        return float(function(*parameters))

    return body


@numba.njit
def array_body(i, weights, keep, other, work, words, more, counts, out):
    total = build_alias(weights, keep[i], other[i], work[i])
    stream = open_stream(SEED, 0, 0, 0, i)
    drawn, stream = draw_alias(stream, keep[i], other[i])
    picked, stream = categorical(stream, weights, total)
    stream = multinomial(stream, 3, weights, counts[i])
    stream = multinomial(stream, 1000, weights, counts[i])
    y, plus, minus, stream = draw_count_by_bessel(stream, i - 5, 2.0, 0.4, 0.3, 0.9)
    out[i, 0] = drawn
    out[i, 1] = picked
    out[i, 2] = y
    out[i, 3] = plus
    out[i, 4] = minus
    stream = fill_uniforms(stream, keep[i], len(weights))
    out[i, 5] = keep[i, 3]
    fill_first_uniforms(SEED, 0, 0, 4, other[i], keep[i], more[i])
    out[i, 6] = keep[i, 2] + more[i, 3]
    few_counts_at(keep[i], weights, more[i], 0.1)
    out[i, 9] = more[i, 0] + more[i, 3]
    stream = fill_exponentials(stream, keep[i], len(weights))
    out[i, 7] = keep[i, 4]
    fill_word_pairs(open_stream(SEED, 0, 0, 5, i), words[i, 0], words[i, 1])
    out[i, 8] = words[i, 1, 2]


@numba.njit
def repeated_body(i, released, noise, out):
    x = released[i % 3]
    stream = open_stream(SEED, 0, 0, 1, i)
    y, stream = draw_count_repeated(stream, x, noise, 1.5 + i)
    out[i, 0] = y
    out[i, 1] = log_marginal_repeated(x, noise, 1.5 + i)
    mode = repeated_mode(x, noise, 1.5 + i)
    out[i, 2] = mode
    out[i, 3] = sum_from_mode(x, noise, 1.5 + i, mode)
    out[i, 4] = repeated_log_ratio(y, mode, x, noise, 0.3)


@numba.njit
def split_body(i, terms, weights, scale, halves, out):
    split(i, i + 1, terms, weights, scale, halves)
    out[i] = halves[i, 0, 1] + halves[i, 1, 1] * 2.0**-30


def split_arguments():
    terms = np.random.default_rng(SEED).uniform(0.0, 1.0, (THREADS, 2))
    halves = np.zeros((THREADS, 2, 2), dtype=np.int32)
    return terms, np.linspace(0.1, 0.9, THREADS), np.full(2, 2.0**29), halves, np.zeros(THREADS)


def bodies():
    """Scalar cases by name."""
    for cases, wrap in ((SAMPLERS, sampler_body), (FUNCTIONS, function_body)):
        for name, (kernel, parameter_sets) in cases.items():
            for parameters in parameter_sets:
                yield f"{name}{parameters}", wrap(kernel, parameters)


def array_arguments():
    n = len(WEIGHTS)
    scratch = [np.zeros((THREADS, n), dtype=np.int32) for _ in range(2)]
    counts = np.zeros((THREADS, n), dtype=np.int64)
    words = np.zeros((THREADS, 2, n), dtype=np.uint64)
    return (
        WEIGHTS,
        np.zeros((THREADS, n)),
        *scratch,
        words,
        np.zeros((THREADS, n)),
        counts,
        np.zeros((THREADS, 10)),
    )


def on_cpu() -> dict[str, list[float]]:
    """All results by name, from compiled loops."""
    results = {name: [float(body(i)) for i in range(THREADS)] for name, body in bodies()}
    arguments = array_arguments()
    repeated = np.zeros((THREADS, 5))
    for i in range(THREADS):
        array_body(i, *arguments)
        repeated_body(i, RELEASED, NOISE, repeated)
    results["repeated"] = repeated.ravel().tolist()
    given = split_arguments()
    for i in range(THREADS):
        split_body(i, *given)
    results["split"] = given[-1].tolist()
    results["arrays"] = arguments[-1].ravel().tolist() + arguments[-2].ravel().tolist()
    return results


def on_device() -> dict[str, list[float]]:
    """All results by name, from CUDA kernels."""

    def launch(body, out):
        @cuda.jit
        def go(out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = body(i)

        go[1, THREADS](out)

    @cuda.jit
    def go_arrays(weights, keep, other, work, words, more, counts, out):
        i = cuda.grid(1)
        if i < out.shape[0]:
            array_body(i, weights, keep, other, work, words, more, counts, out)

    @cuda.jit
    def go_repeated(released, noise, out):
        i = cuda.grid(1)
        if i < out.shape[0]:
            repeated_body(i, released, noise, out)

    @cuda.jit
    def go_split(terms, weights, scale, halves, out):
        i = cuda.grid(1)
        if i < out.size:
            split_body(i, terms, weights, scale, halves, out)

    results = {}
    given = split_arguments()
    go_split[1, THREADS](*given)
    results["split"] = given[-1].tolist()
    repeated = np.zeros((THREADS, 5))
    go_repeated[1, THREADS](RELEASED, NOISE, repeated)
    results["repeated"] = repeated.ravel().tolist()
    for name, body in bodies():
        out = np.zeros(THREADS)
        launch(body, out)
        results[name] = out.tolist()
    arguments = array_arguments()
    go_arrays[1, THREADS](*arguments)
    results["arrays"] = arguments[-1].ravel().tolist() + arguments[-2].ravel().tolist()
    return results


if __name__ == "__main__":
    json.dump(on_device(), sys.stdout)
