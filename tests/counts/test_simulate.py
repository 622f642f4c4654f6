"""simulate_release: the right law, reproducible, and marked as not private."""

import numpy as np
import pytest
from scipy import sparse, stats

from countveil.counts import simulate_release
from goodness_of_fit import FALSE_ALARM, SEED, discrete_pvalue, fits, rejects
from privacy.noise_law import cdf


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 0.5, 0.9, 0.999])
def test_noise_has_the_exact_law(alpha):
    release = simulate_release(np.full(300_000, 40), alpha=alpha, seed=SEED, keep_negative=True)
    noise = release.to_dense() - 40
    assert fits(discrete_pvalue(noise, cdf(-np.log(alpha))))
    assert rejects(discrete_pvalue(noise, cdf(-1.1 * np.log(alpha))))


def test_alpha_by_row_and_by_cell_reach_the_right_cells():
    by_row = np.repeat([0.2, 0.8], 50)
    noise = simulate_release(
        np.zeros((100, 1000), int), alpha=by_row, seed=SEED, keep_negative=True
    ).to_dense()
    by_cell = np.tile([0.3, 0.6], (100, 500))
    cells = simulate_release(
        np.zeros((100, 1000), int), alpha=by_cell, seed=SEED, keep_negative=True
    ).to_dense()
    for part, alpha in [(noise[:50], 0.2), (noise[50:], 0.8), (cells[:, ::2], 0.3), (cells[:, 1::2], 0.6)]:
        assert fits(discrete_pvalue(part.ravel(), cdf(-np.log(alpha))))
        assert rejects(discrete_pvalue(part.ravel(), cdf(-1.1 * np.log(alpha))))


def test_total_is_unbiased():
    # For cells of very different alpha and count, some of them hidden.
    rng = np.random.default_rng(SEED)
    counts, alpha = rng.poisson(0.7, (40, 50)), rng.uniform(0.05, 0.9, (40, 50))
    mask = rng.random((40, 50)) < 0.1
    releases = [simulate_release(counts, alpha=alpha, seed=rng).hide(mask) for _ in range(400)]
    right = np.array([release.total() for release in releases]) - counts[~mask].sum()
    naive = np.array([release.to_dense(missing=0).sum() for release in releases]) - counts[~mask].sum()
    assert stats.ttest_1samp(right, 0).pvalue > FALSE_ALARM
    assert stats.ttest_1samp(naive, 0).pvalue < FALSE_ALARM
    # Power: a correction that is 10 % too large would be seen.
    assert stats.ttest_1samp(naive - 1.1 * (naive - right), 0).pvalue < FALSE_ALARM


def test_seed_decides():
    counts = np.eye(30, dtype=int)
    first = simulate_release(counts, epsilon=1, seed=3)
    assert first == simulate_release(counts, epsilon=1, seed=3)
    assert first == simulate_release(counts, epsilon=1, seed=np.random.default_rng(3))
    assert first == simulate_release(sparse.csr_array(counts), epsilon=1, seed=3)
    assert first != simulate_release(counts, epsilon=1, seed=4)


def test_sparse_and_dense_agree_over_several_blocks():
    counts = sparse.random_array((1500, 1500), density=0.01, rng=1, data_sampler=lambda size: np.ones(size))
    one, other = (simulate_release(c, epsilon=2, seed=7) for c in (counts, counts.toarray()))
    assert one == other


def test_it_says_that_it_is_not_private():
    release = simulate_release([[1, 2]], epsilon=3, precision=2, seed=0)
    assert release.simulated
    assert release.guarantee is None
    assert release.rho == 1.5
    assert "SIMULATED: not private" in repr(release)
    assert "SIMULATED" in repr(release.hide(([0], [0])))
    assert "NOT private" in simulate_release.__doc__
    assert release.nonpositive.total is not None


def test_bad_input():
    with pytest.raises(ValueError, match="epsilon, alpha: expected exactly one of them, got both"):
        simulate_release([1], epsilon=1, alpha=0.5, seed=0)
    with pytest.raises(ValueError, match="epsilon, alpha: expected exactly one of them, got none"):
        simulate_release([1], seed=0)
    for seed in (None, -1, 1.5, True):
        with pytest.raises(ValueError, match="seed: expected a whole number of at least 0"):
            simulate_release([1], epsilon=1, seed=seed)
    with pytest.raises(
        ValueError, match="alpha: expected a value strictly between 0 and 1, or 0 for a plain row, got 1"
    ):
        simulate_release([1], alpha=1, seed=0)
    with pytest.raises(ValueError, match="counts: expected whole numbers of at least 0, got negative values"):
        simulate_release([-1], alpha=0.5, seed=0)
    with pytest.raises(ValueError, match="alpha: expected -log"):
        simulate_release([1], alpha=1 - 1e-14, seed=0)
