"""Two-sample tests of others, written anew from their papers, to be compared with ours.

Each takes the pooled encoded rows (those of X first, each column scaled without labels), the size
of X and a generator, and returns a p-value. All but the column-wise test shuffle labels, so that
their p-values are exact: the share of labellings whose statistic reaches that of the labels as they
are, which are among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from ...errors import MissingDependency

Array: TypeAlias = NDArray[np.float64]
Rival: TypeAlias = Callable[[Array, int, np.random.Generator], float]
"""(pooled rows (N, d), how many of them are X's, generator) -> p-value."""

PERMUTATIONS = 499
"""Of the quick rivals."""

_FEW_PERMUTATIONS = 199  # where a labelling costs more
_MANY = 5000  # pooled rows from which the energy distance is one of those
_FITS = 99  # of forests that are grown anew for every labelling
_FEW_FITS = 39  # where a forest takes long to grow, with more than so many pooled rows:
_EASILY_GROWN = 1000
_ROUNDS = 100  # of boosting
_TREES = 200  # of a forest that is grown once
_FEW_TREES = 50  # of one that is grown for every labelling
_TILE = 1024  # rows of distances at a time
_ENOUGH = 5  # rows that a level of a category is expected to have in both samples


def exact_pvalue(values: Array) -> float:
    """The share of values that reach the first, up to rounding; the first counts."""
    tolerance = 1e-9 * max(1e-300, float(np.abs(values).max()))
    return float(np.mean(values >= values[0] - tolerance))


def labellings(n: int, total: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Who is in X, (count + 1, N): first the rows that are, then at random."""
    labels = np.zeros((count + 1, total), dtype=bool)
    labels[:, :n] = True
    labels[1:] = rng.permuted(labels[1:], axis=1)
    return labels


# Column by column


def columnwise(columns: list[NDArray[Any]], n: int) -> float:
    """Test each column, and correct for their number as Holm does.

    A column of floats is tested by Kolmogorov and Smirnov, any other by chi-squared, as SciPy does
    by their limiting laws. The former is careful in small samples and where values are tied; for
    the latter rare levels are put together.
    """
    pvalues = []
    for values in columns:
        test = _smirnov if values.dtype.kind == "f" else _chi_squared
        pvalues.append(test(values, n))
    # The smallest p-value of Holm's is Bonferroni's.
    return min(1.0, len(pvalues) * min(pvalues))


def _smirnov(values: NDArray[Any], n: int) -> float:
    x = values[:n]
    y = values[n:]
    # Missing values have a column of their own.
    x = x[~np.isnan(x)]
    y = y[~np.isnan(y)]
    if not len(x) or not len(y):
        return 1.0
    return float(scipy.stats.ks_2samp(x, y, method="asymp").pvalue)


def _chi_squared(values: NDArray[Any], n: int) -> float:
    _, codes = np.unique(values, return_inverse=True)
    levels = codes.max() + 1
    of_x = np.bincount(codes[:n], minlength=levels)
    of_y = np.bincount(codes[n:], minlength=levels)
    counts = np.stack([of_x, of_y])
    smaller = min(n, len(values) - n) / len(values)
    rare = counts.sum(axis=0) * smaller < _ENOUGH
    together = counts[:, rare].sum(axis=1, keepdims=True)
    table = np.concatenate([counts[:, ~rare], together], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2:
        return 1.0
    return float(scipy.stats.chi2_contingency(table, correction=False).pvalue)


# Distances


def energy(points: Array, n: int, rng: np.random.Generator) -> float:
    """The energy distance of Székely and Rizzo (2004): 2 E|X - Y| - E|X - X'| - E|Y - Y'|."""
    total = len(points)
    # A labelling costs the square of the rows.
    count = PERMUTATIONS if total <= _MANY else min(PERMUTATIONS, _FEW_PERMUTATIONS)
    labels = labellings(n, total, count, rng)
    # The distance is -w' D w for weights 1/n on X and -1/m on Y.
    weights = np.where(labels, 1 / n, -1 / (total - n)).T  # (N, B + 1)
    values = np.zeros(count + 1)
    for start in range(0, total, _TILE):
        tile = slice(start, start + _TILE)
        distances = scipy.spatial.distance.cdist(points[tile], points)
        values -= np.einsum("ib,ib->b", weights[tile], distances @ weights)
    return exact_pvalue(values)


# Classifiers


def boosted_trees(points: Array, n: int, rng: np.random.Generator) -> float:
    """Boosted trees learn half of the rows, and rank the other half."""
    ensemble = _sklearn("HistGradientBoostingClassifier")
    model = ensemble(
        max_iter=_ROUNDS,
        # The usual 20 rows of a leaf would be no tree at all where there are few rows.
        min_samples_leaf=min(20, max(2, len(points) // 20)),
        early_stopping=False,
        class_weight="balanced",
        random_state=_seed(rng),
    )
    return _held_out(model, points, n, rng)


def random_forest(points: Array, n: int, rng: np.random.Generator) -> float:
    """A random forest learns half of the rows, and ranks the other half."""
    ensemble = _sklearn("RandomForestClassifier")
    model = ensemble(
        n_estimators=_TREES, min_samples_leaf=3, class_weight="balanced", random_state=_seed(rng)
    )
    return _held_out(model, points, n, rng)


def out_of_bag_forest(points: Array, n: int, rng: np.random.Generator) -> float:
    """A random forest ranks each row by the trees that did not see it [Hediger2022].

    No row is set aside; instead a forest is grown anew for every labelling.
    """
    ensemble = _sklearn("RandomForestClassifier")
    total = len(points)
    values = []
    fits = _FITS if total <= _EASILY_GROWN else _FEW_FITS
    for labels in labellings(n, total, fits, rng):
        model = ensemble(
            n_estimators=_FEW_TREES,
            min_samples_leaf=3,
            class_weight="balanced",
            max_samples=0.5,
            oob_score=_nothing,
            random_state=_seed(rng),
        )
        model.fit(points, labels)
        scores = model.oob_decision_function_[:, 1]
        values.append(_rank_sums(scores, labels[None])[0])
    return exact_pvalue(np.array(values))


def _nothing(truth: Any, votes: Any) -> float:
    """Score no forest: only its votes are wanted."""
    return 0.0


def _held_out(model: Any, points: Array, n: int, rng: np.random.Generator) -> float:
    """Fit on a random half of each sample, and shuffle the ranks of the other half."""
    total = len(points)
    of_x = rng.permutation(n)
    of_y = n + rng.permutation(total - n)
    train = np.concatenate([of_x[: n // 2], of_y[: (total - n) // 2]])
    test = np.concatenate([of_x[n // 2 :], of_y[(total - n) // 2 :]])
    model.fit(points[train], train < n)
    scores = model.predict_proba(points[test])[:, 1]
    labels = labellings(n - n // 2, len(test), 2 * PERMUTATIONS + 1, rng)
    return exact_pvalue(_rank_sums(scores, labels))


def _rank_sums(scores: Array, labels: NDArray[np.bool_]) -> Array:
    """The area under the ROC curve of each labelling, up to shift and scale; ties count half."""
    ranks = scipy.stats.rankdata(np.nan_to_num(scores, nan=0.5))
    sums: Array = labels.astype(np.float64) @ ranks
    return sums


def _sklearn(name: str) -> Any:
    try:
        from sklearn import ensemble
    except ImportError:
        raise MissingDependency(
            "trees and forests are those of scikit-learn; pip install 'twosample[sklearn]'."
        ) from None
    return getattr(ensemble, name)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


# The kernel likelihood ratio


_BANDWIDTHS = (0.25, 0.5, 1.0)  # of the median distance
_RIDGES = (1e-4, 1e-3, 1e-2)  # added to the eigenvalues, which sum to 1
_LANDMARKS = 150


def kernel_likelihood_ratio(points: Array, n: int, rng: np.random.Generator) -> float:
    """Compare kernel means and kernel covariances at once [Santoro2025].

    Each sample is seen as the Gaussian law of its kernel mean and second moment. The statistic is
    the relative entropy from a sample's law to the pooled one, both with a ridge, summed over the
    two samples. Here the kernel is spanned by landmarks that are drawn from the pooled rows, and
    the largest of the standardised values over bandwidths and ridges takes the place of
    Bonferroni's correction, which has less power.
    """
    labels = labellings(n, len(points), _FEW_PERMUTATIONS, rng)
    landmarks = points[rng.permutation(len(points))[:_LANDMARKS]]
    squares = scipy.spatial.distance.cdist(points, landmarks, "sqeuclidean")
    among = scipy.spatial.distance.cdist(landmarks, landmarks, "sqeuclidean")
    median = float(np.median(np.sqrt(squares)))
    rows = []
    for factor in _BANDWIDTHS:
        scale = 2 * (factor * median) ** 2
        features = _nystroem(np.exp(-squares / scale), np.exp(-among / scale))
        rows.append(_entropies(features, labels))
    values = np.concatenate(rows)  # (bandwidths x ridges, B + 1)
    spread = values.std(axis=1, keepdims=True)
    standard = (values - values.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-300)
    return exact_pvalue(standard.max(axis=0))


def _nystroem(across: Array, among: Array) -> Array:
    """Features whose products are those of the kernel, as far as landmarks span it."""
    values, vectors = np.linalg.eigh(among)
    kept = values > 1e-8 * values[-1]
    features: Array = across @ (vectors[:, kept] / np.sqrt(values[kept]))
    return features


def _entropies(features: Array, labels: NDArray[np.bool_]) -> Array:
    """The relative entropies of every labelling, one row for each ridge."""
    total = len(features)
    pooled = features.T @ features / total
    eigenvalues, vectors = np.linalg.eigh(pooled)
    eigenvalues = np.maximum(eigenvalues, 0)
    rotated = features @ vectors  # the pooled second moment is diagonal now
    sums = rotated.sum(axis=0)
    values = np.empty((len(_RIDGES), len(labels)))
    for number, chosen in enumerate(labels):
        inside = rotated[chosen]
        n = len(inside)
        moment = inside.T @ inside
        of_x = (inside.sum(axis=0) / n, moment / n)
        # What is not in X is in Y, so that its sums need no pass of their own.
        rest = np.diag(total * eigenvalues) - moment
        of_y = ((sums - of_x[0] * n) / (total - n), rest / (total - n))
        for place, ridge in enumerate(_RIDGES):
            values[place, number] = sum(
                _entropy(mean - sums / total, second, ridge, eigenvalues + ridge)
                for mean, second in (of_x, of_y)
            )
    return values


def _entropy(shift: Array, second: Array, ridge: float, pooled: Array) -> float:
    """KL(N(mean, S + ridge) || N(pooled mean, P)), with P = `pooled` a diagonal, its ridge in it.

    Half of: shift' P^-1 shift + trace(P^-1 (S + ridge) - 1) - log(det(S + ridge) / det(P)).
    """
    ridged = second.copy()
    ridged.flat[:: len(second) + 1] += ridge
    triangle = scipy.linalg.cholesky(ridged, lower=True, overwrite_a=True, check_finite=False)
    logarithm = 2 * np.log(triangle.diagonal()).sum() - np.log(pooled).sum()
    difference = np.sum(shift**2 / pooled)
    excess = np.sum((second.diagonal() + ridge) / pooled) - len(pooled)
    return float(0.5 * (difference + excess - logarithm))
