"""Clusters of the pooled points: when there are any, where they are, and what is seen in them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import twosample
from twosample import InputError
from twosample._views import Clusters, Views
from twosample._views.clusters import cluster_centres


def grid(rows: int, spread: float, seed: int = 0, leaning: float = 0.0) -> np.ndarray:
    """Points about the nine places of a 3 x 3 grid; those of some places lean."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 3, (rows, 2))
    noise = rng.normal(size=(rows, 2))
    sign = np.where(place.sum(1) % 2, 1, -1) * leaning
    noise[:, 1] = sign * noise[:, 0] + np.sqrt(1 - leaning**2) * noise[:, 1]
    return place + spread * noise


def fitted(rows: np.ndarray) -> tuple[Views, Clusters, torch.Tensor]:
    """All views of some rows, the clusters among them, and the rows as these see them."""
    result = twosample.spectral(permutations=1).run(rows[::2], rows[1::2], rng=0)
    views = result.fitted.representation
    (clusters,) = [stack for stack in views if isinstance(stack, Clusters)]
    return views, clusters, torch.cat([result.samples.x, result.samples.y]).double()


def test_the_centres_of_nine_clusters_are_found():
    centres = cluster_centres(torch.tensor(grid(400, 0.1)), 12)
    assert len(centres) == 9
    nearest = {tuple(place) for place in centres.round().long().tolist()}
    assert nearest == set(itertools.product(range(3), range(3)))
    assert (centres - centres.round()).abs().max() < 0.1


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_one_law_is_one_cluster(law, columns):
    rng = np.random.default_rng(columns)
    rows = rng.normal(size=(500, columns)) if law == "normal" else rng.random((500, columns))
    assert len(cluster_centres(torch.tensor(rows), 3)) == 1


def test_the_criterion_is_that_of_a_plain_loop():
    """Of the centres that are found, those with the largest criterion are taken."""
    rows = torch.tensor(grid(150, 0.15, seed=3))
    count, columns = rows.shape

    def criterion(centres: torch.Tensor) -> float:
        nearest = [
            min(range(len(centres)), key=lambda j: math.dist(row, centres[j])) for row in rows
        ]
        within = sum(math.dist(row, centres[j]) ** 2 for row, j in zip(rows, nearest, strict=True))
        sizes = [nearest.count(j) for j in range(len(centres))]
        told = sum(size * math.log(size / count) for size in sizes)
        cost = len(centres) * (columns + 1) / 2 * math.log(count)
        return told - count * columns / 2 * math.log(within) - cost

    best = cluster_centres(rows, 12)
    others = [cluster_centres(rows, most) for most in range(1, 12)]
    assert len(best) == 9
    assert criterion(best) == pytest.approx(max(criterion(centres) for centres in [best, *others]))


def test_a_few_rows_far_away_are_no_cluster():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    rows[:6] += 10
    assert len(cluster_centres(torch.tensor(rows), 5)) == 1
    assert not fitted(rows)[1].columns()


@pytest.mark.parametrize("rows", [np.ones((30, 2)), np.repeat(np.eye(2), 30, axis=0)])
def test_rows_that_repeat_are_no_hindrance(rows):
    centres = cluster_centres(torch.tensor(rows), 6)
    assert torch.isfinite(centres).all() and len(centres) <= 2


def test_features_are_squares_and_products_about_the_centres():
    views, clusters, pooled = fitted(grid(300, 0.1))
    assert clusters.columns() == [()]
    features = clusters.features(views.see(pooled))[:, 0]
    assert features.shape == (300, 9 * 3)
    centres = clusters.centres.tolist()
    rows = pooled.tolist()
    nearest = [min(range(9), key=lambda j: math.dist(row, centres[j])) for row in rows]
    for place in range(5):
        own = nearest[place]
        inside = [row for row, other in zip(rows, nearest, strict=True) if other == own]
        u, v = (np.array(rows[place]) - np.mean(inside, axis=0)) / np.std(inside, axis=0)
        expected = torch.zeros(9, 3, dtype=torch.float64)
        expected[own] = torch.tensor([u * u, v * v, u * v])
        assert torch.allclose(features[place].view(9, 3), expected)


def test_wide_tables_have_no_more_features_than_are_allowed():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 60)) + 10 * rng.integers(0, 2, (200, 1))
    _, clusters, _ = fitted(rows)
    assert len(clusters.centres) == 2
    assert clusters.size() == len(clusters.centres) * len(clusters.factors) <= 512


def test_what_leans_within_clusters_is_found_in_few_rows():
    X = grid(90, 0.1)
    Y = grid(90, 0.1, seed=1, leaning=0.9)
    test = twosample.spectral(Clusters(), permutations=199)
    assert test.run(X, Y, rng=0).pvalue == 1 / 200
    assert test.run(X, grid(90, 0.1, seed=2), rng=0).pvalue > 0.05


def test_points_without_clusters_have_no_such_view():
    X, Y = np.random.default_rng(0).normal(size=(2, 60, 3))
    with pytest.raises(InputError, match="sees nothing in these points"):
        twosample.spectral(Clusters(), permutations=19).run(X, Y, rng=0)
    result = twosample.spectral(permutations=19).run(X, Y, rng=0)
    (clusters,) = [stack for stack in result.fitted.representation if isinstance(stack, Clusters)]
    assert clusters.columns() == []


def test_one_cluster_at_most_is_refused():
    with pytest.raises(InputError, match="most is 1"):
        Clusters(most=1)
