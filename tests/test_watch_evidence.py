"""What views say for every labelling of a batch, against the equations of `evidence` by plain loops."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from twosample import Watch
from twosample._data.samples import EmbeddedSamples
from twosample._data.schema import Column, Schema
from twosample._random import Generators
from twosample._statistics.sums import add_up
from twosample._views import Together, Values, Views
from twosample._watch import evidence
from twosample._watch.base import draw_labellings
from twosample._watch.by_views import _past_of_recent
from twosample._watch.evidence import MEMORIES, scores, weights_after, weights_of
from twosample._watch.rows import Batch, Recent


def schema_of(columns: int) -> Schema:
    return Schema("table", (columns,), tuple(Column(str(c), "numeric") for c in range(columns)))


def log_scores(stack, batches, permutations=30):
    """Views of all rows, the labellings of the last batch, and their log M in each memory."""
    *old, last = batches
    schema = schema_of(last.x.shape[1])
    views = Views(stack)
    views.look_at(schema)
    views.start(Recent(tuple(batches)).pooled(), torch.Generator())
    bins, in_x = draw_labellings(last, permutations, Generators(0))
    points = EmbeddedSamples((last.pooled(),), last.sizes, schema)
    sums = add_up(views, points, bins, torch.arange(sum(last.sizes)))
    past = None
    weights = torch.zeros(len(MEMORIES), dtype=torch.float64)
    if old:
        recent = Recent(tuple(old))
        past = [each.faded() for each in _past_of_recent(views, recent, schema)]
        weights = weights_of(recent.sizes)
    weights = weights_after(weights, last.sizes)
    found = scores(list(views), sums, past, weights, bins, in_x)
    return views, in_x[:, bins.of_all] > 0.5, found.log_scores


def features_of(views, batches):
    """(rows, features) of each batch, through the only view."""
    (stack,) = views
    return [stack.features(views.see(batch.pooled()))[:, 0] for batch in batches]


def surplus(features, in_x):
    """What the rows of X have more than their share of all rows."""
    total = torch.zeros(features.shape[1], dtype=torch.float64)
    mean = features.mean(0)
    for row, is_x in zip(features, in_x.tolist(), strict=True):
        if is_x:
            total += row - mean
    return total


def batches_of(rows_of, sizes):
    return [Batch(rows_of(n), rows_of(m)) for n, m in sizes]


def known_labels(batch):
    n, m = batch.sizes
    return torch.arange(n + m) < n


@pytest.mark.parametrize("sizes", [[(9, 7)], [(8, 8), (10, 6), (7, 9)]])
def test_means_of_few_axes_are_weighed_as_the_equation_says(sizes):
    generator = torch.Generator().manual_seed(0)

    def draw(rows):
        return torch.randn(rows, 3, generator=generator, dtype=torch.float64)

    batches = batches_of(draw, sizes)
    views, labellings, found = log_scores(Together("scores"), batches)
    features = features_of(views, batches)
    pooled = torch.cat(features)
    spectrum, axes = torch.linalg.eigh(torch.cov(pooled.T, correction=0))
    shares = spectrum / (spectrum + 0.05 * spectrum.max())
    variances = shares / shares.sum() / 16
    for memory, kept in enumerate(MEMORIES):
        ages = range(len(batches) - 1, -1, -1)
        weights = [kept**age * n * m / (n + m) for age, (n, m) in zip(ages, sizes, strict=True)]
        N = sum(weights)
        before = sum(
            (
                kept**age * surplus(each, known_labels(batch))
                for age, each, batch in zip(ages, features, batches, strict=True)
                if age
            ),
            start=torch.zeros(3, dtype=torch.float64),
        )
        n, m = sizes[-1]
        rows = N * (n + m) ** 2 / (n * m)
        for labelling, value in zip(labellings, found[memory], strict=True):
            u = (before + surplus(features[-1], labelling)) @ axes
            expected = 0.0
            freedom = 0.0
            for v, s, along in zip(variances.tolist(), spectrum.tolist(), u.tolist(), strict=True):
                expected += (v / (1 + N * v) * along**2 / s - math.log1p(N * v)) / 2
                freedom += N * v / (1 + N * v)
            expected += freedom**2 / rows / 4
            assert float(value) == pytest.approx(expected, abs=1e-9)


def test_rare_levels_are_weighed_as_the_equation_says():
    generator = torch.Generator().manual_seed(1)

    def draw(rows):
        return (torch.rand(rows, 3, generator=generator) < torch.tensor([0.06, 0.5, 0.0])).double()

    sizes = [(20, 30), (24, 16)]
    batches = batches_of(draw, sizes)
    views, labellings, found = log_scores(Values("indicators"), batches)
    assert views.count() == 3  # of which one is rare, one frequent, and one never there
    pooled = torch.cat([batch.pooled()[:, 0] for batch in batches])
    q = 24 / 40
    for memory, kept in enumerate(MEMORIES):
        N = kept * 20 * 30 / 50 + 24 * 16 / 40
        T = float(pooled.mean()) * N / (q * (1 - q))
        level = [batch.pooled()[:, :1] for batch in batches]
        before = kept * float(surplus(level[0], known_labels(batches[0])))
        for labelling, value in zip(labellings, found[memory], strict=True):
            u = before + float(surplus(level[1], labelling))
            ratios = [
                odds**u * (odds**q / (1 - q + q * odds)) ** T  # of odds to chance, row by row
                for odds in (50.0, 1 / 50)
            ]
            assert float(value) == pytest.approx(math.log(sum(ratios) / 2), abs=1e-9)


def test_a_frequent_level_leaves_the_bet_to_others():
    batches = [Batch(torch.eye(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))]
    _, _, found = log_scores(Values("indicators"), batches)
    assert (found == 0).all()


def test_without_a_difference_the_mean_score_of_many_axes_is_about_one(monkeypatch):
    # Without the constant for it, the larger of the two sizes has a mean of exp(-0.3).
    monkeypatch.setattr(evidence, "MANY_SIZES", evidence.MANY_SIZES[:1])
    generator = torch.Generator().manual_seed(2)
    points = torch.randn(120, 40, generator=generator, dtype=torch.float64)
    batch = [Batch(points[:60], points[60:])]
    _, _, found = log_scores(Together("scores"), batch, permutations=4000)
    log_mean = torch.logsumexp(found[0], 0) - math.log(found.shape[1])
    assert abs(float(log_mean)) < 0.15


def test_a_level_that_one_sample_never_has_raises_an_alarm_within_few_rows_of_it():
    # Ten rows of a new level, all in Y: by chance once in 500. A normal law has to see more.
    rng = np.random.default_rng(0)
    watch = Watch(rng=0)
    seen = 0
    while not watch.alarm:
        X, Y = (
            pd.DataFrame({"size": rng.normal(size=40), "kind": rng.choice(list("abcde"), size=40)})
            for _ in range(2)
        )
        Y.loc[:1, "kind"] = "z"
        record = watch.update(X, Y)
        seen += 2
        assert seen <= 14
    assert max(record.leading, key=record.leading.get) == "kind"
