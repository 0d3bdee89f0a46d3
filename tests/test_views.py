"""Views: normal scores against scipy, which points become landmarks, and that labels are never
seen."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
import torch

import twosample
from bank import seeded
from twosample import Columns, InputError, Permutation, Spectral, TwoSampleTest, Views
from twosample._data.samples import Samples
from twosample._data.schema import Column, Schema
from twosample._views import (
    Cells,
    Landmarks,
    Levels,
    Marks,
    Means,
    NormalScores,
    Overall,
    Patches,
    Pixels,
    Positions,
    Products,
    Scatter,
    Textures,
    Together,
    Tones,
    Values,
    Waves,
    bumps,
    combinations,
    correlations,
    ranks,
    tail_weights,
)
from twosample._views.images import _patches
from twosample.bench.datasets import blob


def numbers(rows: int, columns: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def mixed(rows: int, seed: int = 0, *, levels: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows))
    return pd.DataFrame(
        {
            "size": size,
            "count": rng.integers(0, 5, rows),
            "new": rng.random(rows) < 0.3,
            "colour": rng.choice([f"c{level}" for level in range(levels)], rows),
            "shape": rng.choice(["round", "flat"], rows),
        }
    )


INDICATED = Columns(missing="indicator")
PAGE = Path(__file__).parents[1] / "docs" / "methods.md"


def views_of(X, Y, *, rng: int = 0, columns: Columns | None = None, test=None) -> Views:
    test = twosample.spectral(permutations=19) if test is None else test
    return test.run(X, Y, rng=rng, columns=columns).fitted.representation


# Normal scores


def ranked(column: np.ndarray) -> np.ndarray:
    """The standardised normal scores of middle ranks."""
    middle = scipy.stats.rankdata(column) - 0.5
    scores = scipy.special.ndtri(middle / len(column))
    return (scores - scores.mean()) / scores.std()


@pytest.mark.parametrize(
    "column",
    [
        np.random.default_rng(0).normal(size=400),
        np.random.default_rng(1).integers(0, 7, 400).astype(float),
        np.random.default_rng(2).standard_cauchy(300),
        np.repeat([0.0, 1.0], [390, 10]),
    ],
    ids=["continuous", "ties", "heavy tails", "two values"],
)
def test_normal_scores_are_those_of_scipy(column):
    scores = NormalScores()
    rows = torch.from_numpy(column)[:, None]
    scores.fit(rows)
    assert np.allclose(scores(rows)[:, 0], ranked(column), atol=1e-12)


def test_more_values_than_knots_are_interpolated():
    column = np.random.default_rng(0).normal(size=20_000)
    scores = NormalScores()
    rows = torch.from_numpy(column)[:, None]
    scores.fit(rows)
    made = scores(rows)[:, 0].numpy()
    inner = np.abs(column) < 2.5
    assert np.abs(made - ranked(column))[inner].max() < 0.02
    assert (np.diff(made[np.argsort(column)]) >= 0).all()


def test_unseen_values_lie_between_their_neighbours_and_never_beyond_the_ends():
    scores = NormalScores()
    seen = torch.tensor([[0.0], [1.0], [1.0], [3.0]], dtype=torch.float64)
    scores.fit(seen)
    at = {value: float(scores(torch.tensor([[value]], dtype=torch.float64))) for value in (0, 1, 3)}
    new = torch.tensor([[-9.0], [2.0], [99.0]], dtype=torch.float64)
    expected = [at[0], (at[1] + at[3]) / 2, at[3]]
    assert scores(new)[:, 0].tolist() == pytest.approx(expected)


def test_a_constant_column_has_no_scores():
    scores = NormalScores()
    scores.fit(torch.full((9, 1), 2.5, dtype=torch.float64))
    others = torch.tensor([[2.5], [1.0], [7.0]], dtype=torch.float64)
    assert scores(others).tolist() == [[0.0], [0.0], [0.0]]


# Features


def test_bumps_are_gaussian():
    made = bumps(torch.tensor([[0.3, -1.0]], dtype=torch.float64), 3, 0.5)
    for column, score in enumerate((0.3, -1.0)):
        for place, centre in enumerate((-2.2, 0.0, 2.2)):
            expected = math.exp(-0.5 * ((score - centre) / 0.5) ** 2)
            assert float(made[0, column, place]) == pytest.approx(expected)


def test_products_and_squares_are_those_of_the_scores():
    X = numbers(20, 4)
    views = views_of(X, numbers(20, 4, 1))
    points = torch.randn(7, 4, generator=seeded(), dtype=torch.float64)
    seen = views.see(points)
    by_class = {(type(stack).__name__, getattr(stack, "order", 0)): stack for stack in views}
    values = {
        stack.of: stack.features(seen)[:, :, 0] for stack in views if isinstance(stack, Values)
    }
    uniform = torch.special.ndtr(seen.scores) - 0.5
    squares = seen.scores.square()
    (positions,) = [stack for stack in views if isinstance(stack, Positions)]
    of_columns = torch.cat([seen.scores, uniform, points], 1)
    assert torch.equal(positions.features(seen)[:, :, 0], of_columns)
    assert torch.equal(values["spreads"], squares)
    overall = {stack.of: stack.features(seen) for stack in views if isinstance(stack, Overall)}
    for row in range(7):
        mean = sum(seen.scores[row].tolist()) / 4
        mean_square = sum(score**2 for score in seen.scores[row].tolist()) / 4
        assert overall["scores"][row].item() == pytest.approx(mean)
        assert overall["squares"][row].item() == pytest.approx(mean_square)
    pairs = by_class["Products", 2].features(seen)[:, :, 0]
    triples = by_class["Products", 3].features(seen)[:, :, 0]
    for place, (a, b) in enumerate(itertools.combinations(range(4), 2)):
        assert torch.allclose(pairs[:, place], seen.scores[:, a] * seen.scores[:, b])
    for place, (a, b, c) in enumerate(itertools.combinations(range(4), 3)):
        expected = uniform[:, a] * uniform[:, b] * uniform[:, c]
        assert torch.allclose(triples[:, place], expected)


@pytest.mark.filterwarnings("ignore:More than 20 interquartile ranges")
def test_heavy_tails_have_waves_in_place_of_ranks():
    rng = np.random.default_rng(0)
    points = np.c_[rng.normal(size=200), rng.standard_cauchy(200)]
    result = twosample.spectral(Positions(), permutations=1).run(points[:100], points[100:], rng=0)
    (positions,) = result.fitted.representation
    seen = result.fitted.representation.see(torch.cat([result.samples.x, result.samples.y]))
    scores = seen.scores
    shares = torch.special.ndtr(scores)
    features = positions.features(seen)[:, :, 0]
    assert torch.equal(features[:, :2], scores)
    assert torch.equal(features[:, 2], shares[:, 0] - 0.5)
    assert torch.allclose(features[:, 3], torch.sin(2 * math.pi * (shares[:, 1] - 0.5)))
    assert torch.equal(features[:, 4:], seen.rows)
    assert positions.columns() == [(0,), (1,), (0,), (1,), (0,), (1,)]


def test_tail_weights_are_means_of_the_outermost_values():
    rows = torch.from_numpy(np.random.default_rng(0).standard_t(3, (101, 3)))
    for column, weight in zip(rows.T.tolist(), tail_weights(rows).tolist(), strict=True):
        ordered = sorted(column)
        tails = np.mean(ordered[-5:]) - np.mean(ordered[:5])
        halves = np.mean(ordered[-50:]) - np.mean(ordered[:50])
        assert weight == pytest.approx(tails / halves)
    assert tail_weights(torch.ones(9, 1, dtype=torch.float64)).tolist() == [0.0]


def test_the_views_of_few_columns_are_of_one_kind_with_their_kernels():
    def kinds(columns):
        views = views_of(numbers(30, columns), numbers(30, columns, 1))
        found = {}
        for stack in views:
            name, weight = views.kind_of(stack)
            assert found.setdefault(name, weight) == weight  # a kind has one share
        return found

    assert set(kinds(1)) - {"levels", "marks"} == {"landmarks", "values"}
    assert not {"products", "cells"} & set(kinds(2))
    assert {"values", "spreads", "products", "cells", "together", "means"} < set(kinds(3))
    assert kinds(2)["landmarks"] > kinds(3)["landmarks"]


def test_columns_alone_have_larger_shares_where_there_are_categories():
    with_categories = views_of(mixed(60), mixed(60, 1), columns=INDICATED)
    with_numbers = views_of(numbers(60, 3), numbers(60, 3, 1))
    weights = dict(with_categories.kind_of(stack) for stack in with_categories if stack.columns())
    without = dict(with_numbers.kind_of(stack) for stack in with_numbers)
    larger = {kind for kind, weight in weights.items() if weight > without[kind]}
    smaller = {kind for kind, weight in weights.items() if weight < without[kind]}
    assert larger == {"flags", "levels", "marks"}
    assert smaller == {"landmarks", "spreads"}
    assert weights["values"] == without["values"]


def test_the_page_tells_the_shares_of_a_table_with_as_many_flags_as_numbers():
    views = views_of(mixed(60), mixed(60, 1), columns=INDICATED)
    assert len(views.layout.flags()) == len(views.layout.numbers())
    weights = dict(views.kind_of(stack) for stack in views if stack.columns())
    total = sum(weights.values())
    page = PAGE.read_text()
    for kind in ("values", "flags", "marks"):
        assert f"{kind} {100 * weights[kind] / total:.0f} %" in page
    assert f"levels have {100 * weights['levels'] / total:.0f} %" in page


def test_flags_weigh_as_many_numbers_would():
    x = numbers(60, 4)
    x[:, 3] = x[:, 3] > 0
    views = views_of(x[:30], x[30:])
    weights = dict(views.kind_of(stack) for stack in views if stack.columns())
    assert weights["flags"] == pytest.approx(weights["values"] / 4)
    alone = views_of(x[:30] > 0, x[30:] > 0)
    of_booleans = dict(alone.kind_of(stack) for stack in alone if stack.columns())
    assert of_booleans["flags"] == weights["values"]
    assert "values" not in of_booleans
    assert not any(stack.columns() for stack in views_of(numbers(9), numbers(9)) if is_flags(stack))


def is_flags(stack):
    return isinstance(stack, Values) and stack.of == "flags"


@pytest.mark.parametrize(
    ("columns", "kind", "share"),
    [
        (3, "values", 0.36),
        (3, "means", 0.19),
        (3, "landmarks", 0.13),
        (2, "landmarks", 0.37),
        (1, "landmarks", 0.60),
    ],
)
def test_kinds_have_the_shares_that_the_page_tells(columns, kind, share):
    views = views_of(numbers(60, columns), numbers(60, columns, 1))
    weights = dict(views.kind_of(stack) for stack in views if stack.columns())
    assert weights[kind] / sum(weights.values()) == pytest.approx(share, abs=0.005)
    assert f"{100 * share:.0f} %" in PAGE.read_text()


def means_of(x):
    """The view of all means, of a table that is cut into halves."""
    half = len(x) // 2
    views = views_of(x[:half], x[half:])
    (means,) = [stack for stack in views if isinstance(stack, Means)]
    return views, means


def test_means_are_the_scores_of_all_columns():
    x = numbers(60, 4)
    views, means = means_of(x)
    seen = views.see(torch.from_numpy(x))
    assert torch.equal(means.features(seen)[:, 0], seen.scores)


@pytest.mark.parametrize("common", [0.0, 0.3, 1.0])
def test_the_weight_of_means_by_a_loop_over_pairs_of_columns(common):
    rng = np.random.default_rng(0)
    rows, columns = 400, 8
    x = rng.normal(size=(rows, columns)) + common * rng.normal(size=(rows, 1))
    scores = scipy.stats.norm.ppf((scipy.stats.rankdata(x, axis=0) - 0.5) / rows)
    others = []
    for column in range(columns):
        squares = 0.0
        for other in range(columns):
            if other != column:
                r = np.corrcoef(scores[:, column], scores[:, other])[0, 1]
                squares += r**2 - 1 / (rows - 1)
        others.append(squares)
    alike = max(0.0, np.mean(others))
    expected = min(0.4, 2 * (1 + alike) / columns) + 0.15 * alike
    _, means = means_of(x)
    assert means.weight == pytest.approx(expected, rel=1e-2)


def test_the_weight_of_means_grows_with_dependence_and_has_a_limit():
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(500, 30))
    common = rng.normal(size=(500, 1))
    weights = [means_of(independent + size * common)[1].weight for size in (0, 0.5, 1, 9)]
    assert weights == sorted(weights)
    assert weights[0] < 0.1
    assert weights[-1] == 1.5
    # Correlations of so many columns and so few rows are chance.
    wide = rng.normal(size=(40, 300))
    assert means_of(wide)[1].weight < 0.05


def test_means_are_for_three_numbers_or_more_and_no_categories():
    with_categories = views_of(mixed(60), mixed(60, 1), columns=INDICATED)
    of_two = views_of(numbers(60, 2), numbers(60, 2))
    for views in (with_categories, of_two):
        assert not any(isinstance(stack, Means) for stack in views)


@pytest.mark.filterwarnings("ignore:3 columns are constant")
def test_a_test_of_constant_columns_can_be_saved(tmp_path):
    X = np.ones((40, 3))
    fitted = twosample.spectral(permutations=19).fit(X, X[:30], rng=0)
    fitted.save(tmp_path / "constant.safetensors")
    loaded = twosample.load(tmp_path / "constant.safetensors")
    assert loaded.test(X, X[:30], rng=0).pvalue == 1.0


def test_cells_are_levels_times_bumps_and_levels_times_levels():
    views = views_of(mixed(60), mixed(60, 1), columns=INDICATED)
    (cells,) = [stack for stack in views if isinstance(stack, Cells)]
    names = [column.name for column in views.schema.columns]
    rows = torch.zeros(2, *views.schema.shape)
    features = list(views.schema.features)
    rows[0, features.index("colour=c2")] = 1.0
    rows[0, features.index("shape=flat")] = 1.0
    seen = views.see(rows)
    made = cells.features(seen)
    pair = tuple(sorted((names.index("colour"), names.index("shape"))))
    of_pair = made[:, cells.columns().index(pair)]
    assert sorted(of_pair[0].tolist())[-2:] == [0.0, 1.0]  # one cell, that of c2 and flat
    assert not of_pair[1].any()
    pair = tuple(sorted((names.index("colour"), names.index("size"))))
    of_number = made[0, cells.columns().index(pair)]
    expected = bumps(seen.scores[:1, [features.index("size")]], cells.bumps, cells.width)[0, 0]
    assert sorted(of_number[of_number > 0].tolist()) == pytest.approx(sorted(expected.tolist()))


def test_waves_are_of_sums_and_differences_of_angles():
    X, Y = numbers(40), numbers(50, seed=1)
    result = twosample.spectral(permutations=19).run(X, Y, rng=0)
    views = result.fitted.representation
    (waves,) = [stack for stack in views if isinstance(stack, Waves)]
    made = waves.features(views.see(result.samples.pooled()))[:, 0]
    pooled = np.concatenate([X, Y])
    shares = scipy.special.ndtr(np.stack([ranked(column) for column in pooled.T], 1))
    angles = 2 * math.pi * (shares - 0.5)
    for row, own in enumerate(angles):
        expected = set()
        for a, b in itertools.combinations(own, 2):
            for angle in (a + b, a - b):
                expected |= {round(math.cos(angle), 6), round(math.sin(angle), 6)}
        assert {round(value, 6) for value in made[row].tolist()} == expected
    assert waves.columns() == [()]


def test_columns_that_go_round_are_found():
    # Four directions, each as likely as any other; in Y they go together a little.
    def directions(seed: int, *, together: bool) -> np.ndarray:
        rng = np.random.default_rng(seed)
        each = rng.uniform(0, 2 * math.pi, (250, 4))
        if together:
            each = each[:, :1] + rng.normal(0, 1.4, (250, 4))
        return each % (2 * math.pi)

    with_waves = twosample.spectral(Waves(), permutations=199)
    with_others = twosample.spectral(Landmarks(), Products(2), permutations=199)
    found = 0
    found_by_others = 0
    for seed in range(20):
        X, Y = directions(seed, together=False), directions(seed + 100, together=True)
        found += with_waves.run(X, Y, rng=0).pvalue <= 0.05
        found_by_others += with_others.run(X, Y, rng=0).pvalue <= 0.05
    assert found >= 15, found
    assert found_by_others <= 9, found_by_others


def test_a_table_with_one_number_has_no_waves():
    X = pd.DataFrame({"size": numbers(30)[:, 0], "new": np.arange(30) % 2 == 0})
    views = views_of(X, X[::-1])
    (waves,) = [stack for stack in views if isinstance(stack, Waves)]
    assert waves.columns() == []


def test_the_frequent_levels_of_a_category_are_kept():
    weights = np.r_[np.full(16, 0.2 / 16), np.full(4, 0.2)]

    def table(seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        kinds = [f"k{level}" for level in rng.choice(np.arange(10, 30), 300, p=weights)]
        return pd.DataFrame({"kind": kinds, "x": rng.normal(size=300)})

    views = views_of(table(1), table(2))
    (cells,) = [stack for stack in views if isinstance(stack, Cells)]
    (levels,) = [stack for stack in views if isinstance(stack, Levels)]
    assert cells.places.shape == (2, 6)  # slots for five bumps and for missing values
    frequent = [f"kind=k{level}" for level in range(26, 30)]
    for places in (cells.places[0, :4], levels.places[0, :4]):
        assert sorted(views.schema.features[place] for place in places.tolist()) == frequent
    assert levels.places.shape == (1, 21)  # all of them, and any other


def test_marks_are_values_that_repeat():
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 90, 400).astype(float)
    ages[:20] = 200.0
    zeros = rng.normal(size=400)
    zeros[100:140] = 0.0
    both = pd.DataFrame({"age": ages, "free": rng.normal(size=400), "gain": zeros})
    result = twosample.spectral(permutations=19).run(both[:200], both[200:], rng=0)
    views = result.fitted.representation
    (marks,) = [stack for stack in views if isinstance(stack, Marks)]
    seen = views.see(result.samples.pooled())
    is_mark = marks.features(seen)[:, :, 0].bool()
    found = []
    for rows, (owner,) in zip(is_mark.T, marks.columns(), strict=True):
        found.append(both.iloc[rows.numpy(), owner])
    values = {(column.name, column.iloc[0]) for column in found}
    assert all(column.nunique() == 1 and len(column) >= 6 for column in found)
    assert {("age", 200.0), ("gain", 0.0)} <= values
    assert not any(name == "free" for name, _ in values)


# Which columns, pairs and triples


@pytest.mark.parametrize(("order", "most"), [(2, 45), (2, 44), (2, 7), (3, 120), (3, 30)])
def test_a_budget_of_combinations_is_kept(order, most):
    strength = torch.zeros(10, 10, dtype=torch.float64)
    strength[3, 8] = strength[8, 3] = 0.9
    strength[1, 5] = strength[5, 1] = -0.0
    chosen = combinations(10, order, most, strength if order == 2 else None)
    as_sets = {tuple(row) for row in chosen.tolist()}
    assert len(chosen) == len(as_sets) == min(most, math.comb(10, order))
    assert all(list(row) == sorted(set(row)) for row in as_sets)
    again = combinations(10, order, most, strength if order == 2 else None)
    assert torch.equal(chosen, again)
    if order == 2:
        assert (3, 8) in as_sets


def test_half_of_the_pairs_depend_most_on_each_other():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 40))
    rows[:, 30] = rows[:, 11] + 0.1 * rng.normal(size=200)
    views = views_of(rows[:100], rows[100:])
    (pairs,) = [stack for stack in views if isinstance(stack, Products) and stack.order == 2]
    assert len(pairs.factors) == 500
    assert pairs.factors[0].tolist() == [11, 30]
    strength = correlations(torch.from_numpy(rows))
    expected = np.abs(np.corrcoef(rows.T))
    assert np.allclose(strength, expected)


def test_few_columns_have_no_pairs_and_no_triples():
    kinds = {columns: set() for columns in (1, 2, 3)}
    for columns, seen in kinds.items():
        views = views_of(numbers(20, columns), numbers(20, columns, 1))
        seen.update(stack.family for stack in views)
    assert kinds[1] == {"joint", "column"}
    assert kinds[2] == {"joint", "column", "pair"}
    assert kinds[3] == {"joint", "column", "pair", "triple"}


def test_the_count_of_views_is_that_of_the_rows_of_the_statistic():
    # In one column even the narrowest kernels see something.
    result = twosample.spectral(permutations=19).run(numbers(200, 1), numbers(200, 1, 1), rng=0)
    views = result.fitted.representation
    places = {(row.stack, row.view) for row in result.calibrated.prepared.rows()}
    assert views.count() == len(places)


# Which points


def buffers(views: Views) -> dict[str, bytes]:
    return {name: buffer.numpy().tobytes() for name, buffer in views.named_buffers()}


@pytest.mark.parametrize("kind", ["numbers", "mixed", "images", "few values"])
def test_labels_order_and_seed_leave_every_buffer_as_it_was(kind):
    rng = np.random.default_rng(3)
    pooled = {
        "numbers": numbers(60),
        "mixed": mixed(60),
        "images": rng.integers(0, 256, (40, 9, 8), dtype=np.uint8),
        "few values": rng.integers(0, 3, (60, 3)).astype(float),
    }[kind]
    columns = INDICATED if kind == "mixed" else None
    expected = None
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(pooled))
        shuffled = pooled.iloc[order] if kind == "mixed" else pooled[order]
        # Another number of rows in X, another order, another seed.
        n = len(pooled) // 2 + seed
        made = buffers(views_of(shuffled[:n], shuffled[n:], rng=seed, columns=columns))
        if expected is None:
            expected = made
        assert made == expected


def test_rows_that_occur_often_are_fitted_on_as_often(monkeypatch):
    monkeypatch.setattr("twosample._views.choosing._FIT_ROWS", 400)
    values = np.repeat([0.0, 1.0, 2.0], [3000, 900, 100])[:, None]
    np.random.default_rng(0).shuffle(values)
    views = views_of(values[:2000], values[2000:])
    heights = torch.unique(views.scores.heights)
    shares = np.array([0.75, 0.225, 0.025])
    middle = np.cumsum(shares) - shares / 2
    scores = scipy.special.ndtri(middle)
    mean = shares @ scores
    spread = np.sqrt(shares @ (scores - mean) ** 2)
    assert np.allclose(heights, (scores - mean) / spread, atol=0.35)


def test_no_landmark_is_there_twice():
    rows = np.random.default_rng(0).integers(0, 4, (300, 2)).astype(float)
    views = views_of(rows[:150], rows[150:])
    for stack in views:
        if isinstance(stack, Landmarks):
            assert len(torch.unique(stack.places, dim=0)) == len(stack.places) == 16


def test_scatter_has_the_products_of_the_leading_axes_of_a_kernel():
    # Where every point is a landmark, the axes are eigenvectors of the kernel matrix.
    X, Y = numbers(40), numbers(35, seed=1)
    result = twosample.spectral(Scatter(axes=4), permutations=19).run(X, Y, rng=0)
    views = result.fitted.representation
    (scatter,) = views
    points = result.samples.pooled()
    made = scatter.features(views.see(points)).numpy()
    distances = scipy.spatial.distance.cdist(points, points)
    for view in range(3):
        width = float(scatter.width) / 2**view
        K = np.exp(-(distances**2) / (2 * width**2))
        _, vectors = np.linalg.eigh(K)
        axes = np.sqrt(len(K)) * vectors[:, -4:]
        expected = [axes[:, one] * axes[:, other] for one in range(4) for other in range(one, 4)]
        # The sign of an axis is anybody's choice.
        assert np.allclose(abs(made[:, view]), abs(np.stack(expected, 1)), atol=1e-2)


def test_a_rare_group_of_rows_is_found():
    def with_group(seed: int, share: float) -> np.ndarray:
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(400, 4))
        in_group = rng.random(400) < share
        rows[in_group] = rng.normal([3, 3, 0, 0], 0.3, (in_group.sum(), 4))
        return rows

    with_scatter = twosample.spectral(Scatter(), permutations=199)
    with_landmarks = twosample.spectral(Landmarks(), permutations=199)
    found = 0
    found_by_landmarks = 0
    for seed in range(20):
        X, Y = with_group(seed, 0.0), with_group(seed + 100, 0.03)
        found += with_scatter.run(X, Y, rng=0).pvalue <= 0.05
        found_by_landmarks += with_landmarks.run(X, Y, rng=0).pvalue <= 0.05
    assert found >= 17, found
    assert found_by_landmarks <= 13, found_by_landmarks


@pytest.mark.parametrize("rows", [6, 300])
def test_scatter_of_few_different_points(rows):
    values = np.resize([[0.0, 1.0], [1.0, 0.0]], (rows, 2))
    result = twosample.spectral(Scatter(), permutations=19).run(values, values[::-1], rng=0)
    assert result.pvalue == 1.0


def test_wide_tables_are_projected(monkeypatch):
    monkeypatch.setattr("twosample._views.columns._MOST_LINEAR", 10)
    views = views_of(numbers(30, 20), numbers(30, 20, 1))
    together = [stack for stack in views if isinstance(stack, Together)]
    points = torch.randn(5, 20, dtype=torch.float64, generator=seeded())
    seen = views.see(points)
    for stack in together:
        assert stack.projection.shape == (20, 10)
        features = {
            "scores": seen.scores,
            "ranks": ranks(seen.scores),
            "squares": seen.scores.square(),
        }
        expected = features[stack.of] @ stack.projection
        assert torch.equal(stack.features(seen)[:, 0], expected)


def test_patches_are_no_larger_than_their_images():
    images = np.random.default_rng(0).normal(size=(20, 1, 3, 7))
    views = views_of(images[:10], images[10:])
    (patches,) = [stack for stack in views if isinstance(stack, Patches)]
    assert patches.filters.shape == (64, 1, 3, 3)


# Odd samples


def one_p(X, Y, **options) -> float:
    test = twosample.spectral(permutations=99)
    return test.run(X, Y, rng=0, **options).pvalue


@pytest.mark.parametrize(
    "sample",
    [
        lambda seed: numbers(15, 1, seed),
        lambda seed: np.c_[numbers(15, 2, seed), np.ones(15)],
        lambda seed: mixed(15, seed)[["colour"]],
        lambda seed: mixed(15, seed)[["colour", "shape"]],
        lambda seed: mixed(15, seed)[["new"]],
        lambda seed: mixed(15, seed)[["new", "colour"]],
        lambda seed: mixed(15, seed)[["count"]],
        lambda seed: numbers(5, 300, seed),
        lambda seed: numbers(3, 2, seed),
        lambda seed: np.random.default_rng(seed).normal(size=(8, 1, 2, 2)),
    ],
    ids=[
        "one column",
        "a constant column",
        "one category",
        "categories",
        "one boolean",
        "a boolean and a category",
        "counts",
        "wide",
        "three rows",
        "tiny images",
    ],
)
@pytest.mark.filterwarnings("ignore::twosample.InputWarning")
def test_odd_samples_have_p_values_and_no_sample_differs_from_itself(sample):
    pvalue = one_p(sample(0), sample(1))
    assert 0 < pvalue <= 1
    assert one_p(sample(0), sample(0)) == 1


@pytest.mark.filterwarnings("ignore::twosample.InputWarning")
def test_equal_rows_and_pairs_of_rows_have_p_values():
    assert one_p(np.ones((6, 3)), np.ones((5, 3))) == 1
    assert one_p(np.full((4, 1, 4, 4), 7.0), np.full((4, 1, 4, 4), 7.0)) == 1
    assert one_p(numbers(2), numbers(2, 3, 1)) >= 1 / 6
    with pytest.raises(InputError, match="X has 1 row to test; a test needs at least 2"):
        one_p(numbers(1), numbers(9))


def test_a_new_level_has_a_place_when_a_fitted_test_is_applied():
    fitted = twosample.spectral(permutations=99).fit(mixed(80), mixed(80, 1), columns=INDICATED)
    X = mixed(60, 2)
    Y = mixed(60, 3)
    Y["colour"] = "never seen"
    with pytest.warns(twosample.InputWarning, match="taken as 'other': 'never seen'"):
        assert fitted.test(X, Y, rng=0).pvalue == 0.01
    assert 0 < fitted.test(X, mixed(60, 4), rng=0).pvalue <= 1


def test_swapping_x_and_y_changes_nothing_but_the_draw():
    X, Y = mixed(5, 0), mixed(4, 1)  # few enough for all labellings
    one = twosample.spectral().run(X, Y, rng=0, columns=INDICATED)
    other = twosample.spectral().run(Y, X, rng=0, columns=INDICATED)
    assert one.pvalue == other.pvalue
    assert one.statistic == pytest.approx(other.statistic, rel=1e-6)


def test_views_that_have_seen_no_table_say_so():
    with pytest.raises(InputError, match="have seen no table yet"):
        Views().layout.numbers()


def test_values_belong_to_their_columns():
    views = views_of(mixed(60), mixed(60, 1), columns=INDICATED)
    by_what = {stack.of: stack for stack in views if isinstance(stack, Values)}
    (of_columns,) = [stack for stack in views if isinstance(stack, Positions)]
    of_levels = by_what["levels"]

    def names(stack):
        return [views.schema.columns[column].name for (column,) in stack.columns()]

    assert sorted(names(of_columns)) == ["count"] * 3 + ["size"] * 3
    assert sorted(names(by_what["flags"])) == ["new", "size"]  # a boolean, and where a value misses
    assert sorted(names(by_what["spreads"])) == ["count", "size"]
    levels = [atom.column for atom in views.layout.atoms if atom.is_level]
    assert names(of_levels) == [views.schema.columns[column].name for column in levels]


def test_a_stack_is_fitted_on_points_without_a_schema_of_the_library():
    names = (Column("a", "numeric"), Column("b", "numeric"))
    pooled = Samples(*torch.randn(2, 9, 2, generator=seeded()), Schema("table", (2,), names))
    views = Views(Together())
    views.look_at(pooled.schema)
    views.start(pooled.pooled(), seeded())
    assert views.count() == 1
    test = TwoSampleTest(views, statistic=Spectral(), calibration=Permutation(19))
    assert "Together('scores')" in repr(test)


@pytest.mark.parametrize("stride", [1, 2])
def test_textures_are_the_power_along_the_axes_of_patches(stride, monkeypatch):
    monkeypatch.setattr("twosample._views.images._PLACES", 5 // stride)
    images = np.random.default_rng(0).normal(size=(12, 3, 6, 5))
    result = twosample.spectral(Textures(side=3), permutations=19).run(
        images[:7], images[7:], rng=0
    )
    views = result.fitted.representation
    (textures,) = views
    points = views.see(result.samples.pooled()).rows.numpy()
    made = textures.features(views.see(result.samples.pooled()))[:, 0].numpy()
    patches = [
        image[:, row : row + 3, column : column + 3].ravel()
        for image in points
        for row in range(4)
        for column in range(3)
    ]
    patches = np.reshape(patches, (12, 4, 3, 27))
    patches -= patches.mean(3, keepdims=True)
    flat = patches.reshape(-1, 27)
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    # Centred patches have no axis for how light they are, which is the last of 27.
    seen = patches[:, ::stride, ::stride]
    along = seen @ (vectors[:, :0:-1] / np.sqrt(values[:0:-1]))
    expected = np.log((along**2).mean((1, 2)) + 1e-3)
    assert np.allclose(made[:, :26], expected, atol=1e-4)
    assert np.ptp(made[:, 26]) < 1e-6


def test_large_images_give_no_more_patches_than_memory_holds():
    images = np.random.default_rng(0).integers(0, 256, (12, 400, 400), dtype=np.uint8)
    test = twosample.spectral(Textures(), permutations=19)
    patches, side = _patches(torch.from_numpy(images)[:, None].double(), 5)
    assert side == 5
    assert patches.shape == (2 * 396**2, 25)
    assert 0 < test.run(images[:6], images[6:], rng=0).pvalue <= 1


def smooth_images(rows: int, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(rows, 16, 16))
    smooth = scipy.ndimage.gaussian_filter(noise, (0, 2, 2))
    return (128 + 300 * smooth).clip(0, 255).astype(np.uint8)


def test_faint_traces_in_images_are_found():
    # Every other grey level is missing in Y: noise of one level.
    with_textures = twosample.spectral(Textures(), permutations=199)
    with_others = twosample.spectral(Landmarks(), Pixels(), Patches(), permutations=199)
    found = 0
    found_by_others = 0
    for seed in range(10):
        X, Y = smooth_images(40, seed), smooth_images(40, seed + 100) // 2 * 2
        found += with_textures.run(X, Y, rng=0).pvalue <= 0.05
        found_by_others += with_others.run(X, Y, rng=0).pvalue <= 0.05
    assert found >= 9, found
    assert found_by_others <= 4, found_by_others


def test_textures_of_images_without_any():
    grey = np.repeat(np.arange(20, dtype=np.uint8), 64).reshape(20, 8, 8)
    result = twosample.spectral(Textures(), permutations=19).run(grey[::2], grey[1::2], rng=0)
    assert result.pvalue == 1.0


def test_tones_are_shares_of_shades():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(10, 3, 6, 5)).clip(-1, 1.2)
    images[:, 1] = images[:, 1].round()
    images[:, 2] = 0
    result = twosample.spectral(Tones(), permutations=19).run(images[:6], images[6:], rng=0)
    views = result.fitted.representation
    (tones,) = views
    seen = views.see(result.samples.pooled())
    made = tones.features(seen)[:, 0].numpy()
    points = seen.rows.numpy()
    of_channels = []
    for channel in range(3):
        values = np.sort(points[:, channel].ravel())
        between = values[(values > values[0]) & (values < values[-1])]
        places = np.linspace(0, max(0, len(between) - 1), 33).round().astype(int)
        inner = between[places] if len(between) else []
        limits = np.unique([values[0], *inner, values[-1]])
        bins = [
            (points[:, channel] <= upper) & (points[:, channel] > lower)
            for lower, upper in zip([-np.inf, *limits], limits, strict=False)
        ]
        of_channels.append(np.sqrt([each.mean((1, 2)) for each in bins]).T)
    # The darkest, the lightest, and what is between; three shades alone, one alone.
    assert [shares.shape[1] for shares in of_channels] == [35, 3, 1]
    width = made.shape[1] // 3
    for channel, shares in enumerate(of_channels):
        of_one = made[:, channel * width : (channel + 1) * width]
        assert np.allclose(of_one[:, : shares.shape[1]], shares)
        assert not of_one[:, shares.shape[1] :].any()


def test_clipped_images_are_found():
    # In Y the lightest 3 % are white. No place is lighter than the others.
    with_tones = twosample.spectral(Tones(), permutations=199)
    with_others = twosample.spectral(Landmarks(), Pixels(), permutations=199)
    found = 0
    found_by_others = 0
    for seed in range(10):
        X, Y = smooth_images(40, seed), smooth_images(40, seed + 100)
        Y = np.where(np.quantile(Y, 0.97) < Y, Y.max(), Y)
        found += with_tones.run(X, Y, rng=0).pvalue <= 0.05
        found_by_others += with_others.run(X, Y, rng=0).pvalue <= 0.05
    assert found >= 9, found
    assert found_by_others <= 4, found_by_others


def test_tones_of_images_of_one_shade():
    images = np.full((20, 8, 8), 7.0)
    images[::2] = 3.0
    result = twosample.spectral(Tones(), permutations=19).run(images[:10], images[10:], rng=0)
    assert result.pvalue == 1.0


# Views that a user brings


@pytest.mark.parametrize("kernel", [twosample.Gaussian(0.8), twosample.InverseMultiquadric(1.3)])
def test_landmarks_of_a_kernel_at_all_points_give_its_mmd(kernel):
    test = twosample.spectral(twosample.LandmarksOf(kernel), permutations=19)
    x = numbers(40, 2)
    y = 0.5 + numbers(30, 2, 1)
    views = views_of(x, y, test=test)
    (stack,) = views
    points = stack.places  # all points, in another order
    seen = views.see(points)
    factor = stack.metric()[0]
    vectors = torch.linalg.solve_triangular(factor, stack.features(seen)[:, 0].T, upper=False).T
    sides = torch.cat([torch.full((40,), 1 / 40), torch.full((30,), -1 / 30)]).double()
    mmd2 = 0.0
    for i, j in itertools.product(range(70), repeat=2):
        square = float((points[i] - points[j]).square().sum())
        if isinstance(kernel, twosample.Gaussian):
            value = math.exp(-square / (2 * 0.8**2))
        else:
            value = (1 + square / (2 * 1.3**2)) ** -0.5
        mmd2 += float(sides[i] * sides[j]) * value
    assert float((sides @ vectors).square().sum()) == pytest.approx(mmd2, rel=1e-3)


def test_landmarks_of_a_kernel_are_chosen_without_a_seed_or_labels():
    x = numbers(50, 2)
    y = numbers(40, 2, 1)
    test = twosample.spectral(twosample.LandmarksOf(twosample.Gaussian(), count=9), permutations=19)
    (one,) = views_of(x, y, test=test, rng=0)
    (other,) = views_of(y, x, test=test, rng=1)
    assert torch.equal(one.places, other.places)
    assert one.kernel.bandwidth == other.kernel.bandwidth
    (given,) = test.representation  # a copy is fitted
    assert given.kernel.bandwidth is None


def test_landmarks_of_a_kernel_learn_what_its_mmd_does_not():
    rejections = []
    for seed in range(12):
        x, y = blob(150, rng=seed)
        learned = twosample.spectral(
            twosample.LandmarksOf(twosample.Gaussian(factor=0.25)), permutations=99
        )
        rejections.append(learned.run(x, y, rng=0).reject())
    assert sum(rejections) >= 8  # the MMD at the median distance rejects about one in twenty


def test_landmarks_take_kernels_only():
    with pytest.raises(twosample.IncompatibleParts, match="Use Features"):
        twosample.LandmarksOf(torch.nn.Linear(2, 2))


def test_random_features_of_scikit_learn_are_a_view():
    from sklearn.kernel_approximation import RBFSampler

    sampler = RBFSampler(gamma=0.5, n_components=100, random_state=0)
    test = twosample.spectral(twosample.Features(sampler), permutations=199)
    assert test.run(numbers(150, 2), 1.5 * numbers(150, 2, 1), rng=0).reject()
    assert test.run(numbers(150, 2), numbers(150, 2, 1), rng=0).pvalue > 0.05
