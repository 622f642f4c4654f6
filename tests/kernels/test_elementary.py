"""Logarithm and exponential in plain arithmetic, to the last digit or so."""

import mpmath
import numba
import numpy as np

from countveil.kernels.elementary import exp_of, log_of
from goodness_of_fit import SEED

RNG = np.random.default_rng(SEED)
DIGITS = 4e-16


@numba.njit
def logs(x, out):
    for i in range(len(x)):
        out[i] = log_of(x[i])


@numba.njit
def exps(x, out):
    for i in range(len(x)):
        out[i] = exp_of(x[i])


def worst(function, exact, x):
    out = np.empty(len(x))
    function(x, out)
    with mpmath.workprec(120):
        errors = [abs((mpmath.mpf(a) - exact(b)) / exact(b)) for a, b in zip(out, x, strict=True)]
    return float(max(errors))


def test_log():
    edges = np.array(
        [2.0**-64, np.sqrt(0.5), np.nextafter(1, 0), np.nextafter(1, 2), np.sqrt(2), 2.3e-308, 1e308]
    )
    x = np.concatenate([RNG.random(3000), 10 ** RNG.uniform(-300, 300, 3000), edges])
    assert worst(logs, mpmath.log, x) < DIGITS
    assert worst(logs, mpmath.log, x * (1 + 1e-14)) < DIGITS
    assert worst(logs, lambda b: mpmath.log(b) * (1 + 1e-15), x) > DIGITS, "a slip in the 15th digit shows"
    assert worst(logs, lambda b: 1, np.array([np.e])) < DIGITS


def test_log_of_one_is_zero():
    out = np.empty(1)
    logs(np.ones(1), out)
    assert out[0] == 0.0


def test_exp():
    x = np.concatenate([RNG.uniform(-700, 700, 3000), RNG.uniform(-1, 1, 3000), [-700.0, 0.0, 1e-300, 700.0]])
    assert worst(exps, mpmath.exp, x) < DIGITS
    assert worst(exps, lambda b: mpmath.exp(b) * (1 + 1e-15), x) > DIGITS


def test_whether_compiled_or_not():
    x = RNG.random(100)
    out = np.empty(100)
    logs(x, out)
    assert np.array_equal(out, [log_of.py_func(value) for value in x])
    exps(-x, out)
    assert np.array_equal(out, [exp_of.py_func(value) for value in -x])
