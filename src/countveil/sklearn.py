"""The topic model with scikit-learn's face. Only this module needs scikit-learn (and counting words in texts)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from countveil.counts import PrivateCounts, privatize
from countveil.counts.foreign import holds_labels, refuse_labels
from countveil.counts.inputs.arrays import holds_masked, sparse_rows
from countveil.counts.inputs.frames import as_table
from countveil.counts.inputs.labels import expect_labels, shares_labels
from countveil.counts.inputs.labels_of_tables import check_named, check_totals
from countveil.counts.inputs.spellings import label_text
from countveil.fitting import fit
from countveil.models import TopicModel
from countveil.transforming import transform

#: What of scikit-learn's messages is about the form of X and the names of its columns. Others go on with X itself:
#: "Expected 2D array, got 1D array instead: array=[3, 0, 7]".
_KIND_OF_FAULT = re.compile(
    r"Expected 2D array, got \w+ array instead|Found array with (dim )?\d+[^\n]*|Complex data not supported"
    r"|Input X contains (NaN|infinity)|X has \d+ features, but \w+ is expecting \d+ features as input"
    r"|float\(\) argument must be a string or a real number|The feature names should match(?s:.*)"
    r"|Feature names are only supported(?s:.*)"
)


class PrivateTopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Poisson factorization as a scikit-learn transformer: counts in, shares of topics out.

    What X is depends on two parameters:

    ================= ==============================================================================
    ``epsilon`` given X holds **true counts, which pass through this object**: ``fit`` and
                      ``transform`` each privatize what they are given, learn from the release
                      alone, and keep only the release. Use it where the counts may be seen; people
                      are protected from whoever gets the fitted object, not from this process.
    ``alpha`` given   X was released elsewhere with noise of this alpha; it may be negative.
    neither           X holds plain counts, and nothing is private.
    ================= ==============================================================================

    Every call with ``epsilon`` releases its X anew, and the losses of releases of the same rows add up:
    ``fit(X).transform(X)`` releases X twice, ``fit_transform(X)`` once. Column names are not protected.

    Parameters
    ----------
    n_components
        Number of topics.
    epsilon, precision
        The guarantee of the release, see ``countveil.privatize``: rows up to ``precision`` counts apart are
        hidden with ``epsilon``.
    alpha
        Noise parameter of values that are already released, in (0, 1).
    shape, rate
        Of the gamma priors, see ``countveil.TopicModel``.
    sweeps, burn_in, thin, chains
        Length of the chains, see ``countveil.fit``.
    transform_sweeps
        Sweeps for every draw of the topics, see ``countveil.transform``.
    threads
        All cores by default.
    random_state
        Of the chains: an int gives the same draws every time. Never of the noise that protects people, which
        has no seed.

    Attributes
    ----------
    components_
        Topics as distributions over the columns, (n_components, n_features), posterior means, most prevalent
        first. Each row sums to 1.
    posterior_
        The ``countveil.Posterior``: intervals, diagnostics, true counts. Fitted to plain counts it holds them.
    release_
        What was learnt from, if it was a release; else None.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from countveil.sklearn import PrivateTopicModel
    >>> counts = [[90, 60, 0, 0], [80, 70, 0, 0], [0, 0, 90, 10]]
    >>> model = PrivateTopicModel(n_components=2, epsilon=2, sweeps=400, random_state=0)
    >>> shares = model.fit_transform(counts)
    >>> shares.shape, shares.sum(axis=1).round(6).tolist(), model.components_.shape
    ((3, 2), [1.0, 1.0, 1.0], (2, 4))
    >>> model.get_feature_names_out()
    array(['privatetopicmodel0', 'privatetopicmodel1'], dtype=object)
    >>> print(model.release_.guarantee.epsilon)
    2
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        epsilon: Any = None,
        precision: int = 1,
        alpha: float | None = None,
        shape: float = 0.1,
        rate: float | None = None,
        sweeps: int = 1000,
        burn_in: int | None = None,
        thin: int = 5,
        chains: int = 2,
        transform_sweeps: int = 20,
        threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.precision = precision
        self.alpha = alpha
        self.shape = shape
        self.rate = rate
        self.sweeps = sweeps
        self.burn_in = burn_in
        self.thin = thin
        self.chains = chains
        self.transform_sweeps = transform_sweeps
        self.threads = threads
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PrivateTopicModel:
        """Learn topics from X (see the class for what X is); y is ignored."""
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **unused: Any) -> np.ndarray:
        """Learn topics from X and give its shares of them, from one and the same release."""
        return self._shares(self._fit(X))

    def transform(self, X: Any) -> np.ndarray:
        """Shares of the topics in each row of X, (n_samples, n_components), posterior means, summing to 1."""
        check_is_fitted(self)
        return self._shares(self._read(X, reset=False))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _fit(self, X: Any) -> Any:
        model = TopicModel(self.n_components, self.shape, self.rate)
        data = self._read(X, reset=True)
        # One number for both: fit(X).transform(X) and fit_transform(X) give the same where X is what it is.
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.posterior_ = fit(
            model, data,
            sweeps=self.sweeps, burn_in=self.burn_in, thin=self.thin, chains=self.chains,
            seed=self._seed, threads=self.threads, progress=False,
        )  # fmt: skip
        self.release_ = self.posterior_.release
        self.components_ = self.posterior_.topics().weights["mean"].to_numpy()
        return data

    def _shares(self, data: Any) -> np.ndarray:
        found = transform(
            self.posterior_, data,
            sweeps=self.transform_sweeps, seed=self._seed, threads=self.threads, progress=False,
        )  # fmt: skip
        return found["mean"].to_numpy()

    def _read(self, X: Any, reset: bool) -> Any:
        """X, checked, as what it is: privatized now, released before, or plain."""
        if self.epsilon is not None and self.alpha is not None:
            raise ValueError("epsilon, alpha: expected at most one of them, got both")
        if holds_masked(X):
            raise TypeError(
                "X: expected an array without a mask, got a masked array, whose mask would be lost"
            )
        table = as_table(X)
        if table is not None:
            check_named(
                table.names, name="X", advice="they belong into the index, and counts ({}) under a name"
            )
            if table.was_index:
                raise ValueError("X: expected columns of counts alone, got one that was an index of pandas")
            if self.epsilon is not None:
                self._check_labels([() if table.row_labels is None else table.row_labels, table.names])
        elif isinstance(X, list | tuple) and holds_labels(X):
            raise TypeError(
                "X: expected lists of numbers, got a list of Series or tables, whose labels would be lost; "
                "pandas.DataFrame(...) makes a table of Series"
            )
        else:
            refuse_labels(X, "X")
        if sparse.issparse(X) and X.ndim == 2 and X.dtype.kind in "iubf" and 0 not in X.shape:
            # scikit-learn would add entries given twice in a type that wraps around, or rounds.
            X = sparse_rows(X, "X")
        X = self._validated(X, reset)
        # scikit-learn compares names of columns that are text, and no others.
        names = None if table is None else [label_text(name) or str(name) for name in table.names]
        if reset:
            self._columns = names
        known, message = getattr(self, "_columns", None), "X: expected the columns that were fitted"
        expect_labels(known, names, message, numbers_are_names=False)
        values = X.data if sparse.issparse(X) else X
        if values.dtype.kind not in "iub" and not np.array_equal(values, np.floor(values)):
            raise ValueError("X: expected whole numbers, got fractions")
        if self.alpha is None and values.size and values.min() < 0:
            raise ValueError(
                "Negative values in data passed to PrivateTopicModel: expected counts >= 0 unless alpha says "
                "that they were released with noise"
            )
        X = X.astype(np.int64)
        if self.epsilon is not None:
            return privatize(X, epsilon=self.epsilon, precision=self.precision)
        return X if self.alpha is None else PrivateCounts(X, alpha=self.alpha)

    def _check_labels(self, labels: Sequence[Any]) -> None:
        """What ``privatize`` would refuse of a table: here it gets an array."""
        names = [np.array([label_text(one) or "" for one in each], dtype=object) for each in labels]
        check_totals(names, ("X", "X"))
        several = any(
            isinstance(one, Iterable) and not isinstance(one, str) for one in (self.epsilon, self.precision)
        )
        if several and shares_labels(names):
            raise ValueError(
                "epsilon: expected one value for a network, got a list: a pair's count belongs to two people"
            )

    def _validated(self, X: Any, reset: bool) -> Any:
        """What scikit-learn makes of X. Its errors may quote X: of true counts only the kind of fault is told."""
        try:
            return validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric")
        except (ValueError, TypeError) as error:
            if self.epsilon is None:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            said = _KIND_OF_FAULT.match(str(error))
        # Raised out here so that the message that quotes X does not travel along as context.
        told = said.group() if said else "X: expected a matrix of whole numbers, got something else"
        raise kind(f"{told}. Reshape your data" if told.startswith("Expected 2D") else told)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.alpha is None
        # Whole numbers: the tag by which scikit-learn's common checks know to offer them.
        tags.input_tags.categorical = True
        # What privatize draws has no seed.
        tags.non_deterministic = self.epsilon is not None
        return tags
