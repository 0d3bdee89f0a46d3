"""Effects in numbers that people know: AUC, shares, Wasserstein, and their intervals."""

from __future__ import annotations

import dataclasses
import doctest
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression

import twosample
from twosample._insight import effects
from twosample._insight.distances import total_variation, wasserstein
from twosample._insight.effects import cross_fitted, judge
from twosample._insight.intervals import (
    Area,
    auc_interval,
    delong,
    difference_of_means,
    difference_of_shares,
    wilson,
)
from twosample._result import Effect
from twosample._statistics.folds import CrossFitted, best_cut, folds_of, noise_share

ROOT = Path(__file__).parents[1]


def shifted(n, m, by, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    Y = rng.normal(size=(m, columns))
    Y[:, 0] += by
    return X, Y


@pytest.fixture(scope="module")
def found():
    X, Y = shifted(300, 260, 1.0)
    return twosample.two_sample_test(X, Y, "spectral", permutations=99, rng=0)


def test_auc_is_that_of_the_shift(found):
    truth = stats.norm.cdf(1 / math.sqrt(2))
    low, high = found.effect.auc_interval
    assert low < truth < high and low < found.effect.auc < high
    # Two normal laws one deviation apart have a total variation of 0.383.
    assert 0.2 < found.effect.changed < 0.383
    assert found.effect.accuracy == pytest.approx(stats.norm.cdf(0.5), abs=0.05)


TESTS = [
    twosample.mmd_median(permutations=99),
    twosample.c2st_l(classifier=LogisticRegression(), permutations=99),
    twosample.me(permutations=99, steps=20, restarts=1),
    twosample.mmd_agg(permutations=99, bandwidths=2),
    twosample.mmd_compressed(twosample.MLP(2, width=4), permutations=99, steps=5),
]


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_every_test_has_an_auc(test):
    X, Y = shifted(160, 120, 1.5, columns=2)
    effect = test.run(X, Y, rng=0).effect
    low, high = effect.auc_interval
    assert low <= effect.auc <= high and effect.auc > 0.7
    assert 0 < effect.changed < 2 * effect.accuracy - 1


def test_numbers_are_computed_when_they_are_read(found, monkeypatch):
    auc = found.effect.auc  # read before calls are counted
    fresh = dataclasses.replace(found, effect=Effect(power=0.9))
    calls = []
    real = effects.measured
    monkeypatch.setattr(effects, "measured", lambda *given: calls.append(1) or real(*given))
    assert fresh.effect.mmd is None and fresh.effect.power > 0 and not calls
    assert "auc" not in repr(fresh.effect)
    assert fresh.effect.auc == auc and fresh.effect.changed > 0
    assert len(calls) == 1  # one look gives all of them
    assert "auc=" in repr(fresh.effect)
    plain = dataclasses.asdict(fresh.effect)
    assert plain["auc"] == auc and plain["mmd2_interval"] is not None


def test_an_effect_without_rows_has_what_it_was_given():
    effect = Effect(auc=0.6)
    assert effect.auc == 0.6 and effect.auc_interval is None and effect.mmd2_interval is None


def test_the_witness_has_not_seen_the_labels_that_judge_it():
    """Without a difference the AUC is a half on average, however many columns there are."""
    aucs = []
    for seed in range(6):
        X, Y = shifted(60, 60, 0.0, columns=6, seed=seed)
        result = twosample.two_sample_test(X, Y, "spectral", permutations=19, rng=0)
        aucs.append(result.effect.auc)
    error = np.std(aucs, ddof=1) / math.sqrt(len(aucs))
    assert abs(np.mean(aucs) - 0.5) < 5 * error
    assert np.mean(aucs) < 0.57  # on the rows it learned from, the witness has above 0.7


def test_cross_fitted_scores_ignore_labels_of_their_fold(found):
    """The scores of a fold stay when the labels of that fold change."""
    statistic = found.fitted.spec.statistic
    prepared = found.calibrated.prepared
    from twosample._statistics import spectral

    folds = spectral._folds_of_bins(prepared.bins)
    before = spectral._without(prepared, folds == 0)
    # Swap two bins of fold 0 between the samples.
    x_bin = int(torch.nonzero(folds[: prepared.bins.moving_x] == 0)[0])
    y_bin = prepared.bins.moving_x + int(
        torch.nonzero(folds[prepared.bins.moving_x : prepared.bins.moving] == 0)[0]
    )
    stacks = []
    for stack in prepared.stacks:
        totals = stack.totals.clone()
        totals[[x_bin, y_bin]] = totals[[y_bin, x_bin]]
        stacks.append(dataclasses.replace(stack, totals=totals))
    swapped = dataclasses.replace(prepared, stacks=stacks)
    after = spectral._without(swapped, folds == 0)
    assert before.stack == after.stack and before.view == after.view
    torch.testing.assert_close(before.direction, after.direction)
    assert statistic.symbol == "log 1/p"


def test_streams_keep_no_rows_to_judge():
    X, Y = shifted(200, 200, 1.0)
    streams = [twosample.Stream.batches([part]) for part in (X, Y)]
    result = twosample.two_sample_test(*streams, "spectral", permutations=19, rng=0)
    assert result.effect.auc is None and result.effect.mmd2_interval is None
    with pytest.raises(twosample.InputError, match="keeps no rows"):
        result.columns  # noqa: B018


# Intervals.


def test_delong_is_the_mann_whitney_statistic():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, 40).astype(float)
    y = rng.integers(1, 6, 30).astype(float)
    area = delong(x, y)
    u = stats.mannwhitneyu(x, y).statistic
    assert area.auc == pytest.approx(u / (40 * 30))
    boot = [delong(rng.choice(x, 40), rng.choice(y, 30)).auc for _ in range(400)]
    assert area.variance == pytest.approx(np.var(boot), rel=0.35)


def test_certainty_is_never_shown():
    low, high = auc_interval(Area(1.0, 0.0), (50, 80))
    assert 0.8 < low < 0.99 and high == 1.0
    assert auc_interval(Area(0.5, 0.001), (50, 50))[0] == pytest.approx(
        1 - auc_interval(Area(0.5, 0.001), (50, 50))[1]
    )


@pytest.mark.parametrize(("count", "size"), [(0, 20), (3, 40), (40, 40)])
def test_wilson_is_scipys(count, size):
    theirs = stats.binomtest(count, size).proportion_ci(method="wilson")
    assert wilson(count, size) == pytest.approx((theirs.low, theirs.high))


def test_differences_of_means_are_scipys():
    rng = np.random.default_rng(0)
    x = rng.normal(size=20)
    y = rng.normal(1, 3, size=35)
    theirs = stats.ttest_ind(y, x, equal_var=False).confidence_interval()
    assert difference_of_means(x, y) == pytest.approx((theirs.low, theirs.high))


def test_differences_of_shares_are_the_published_ones():
    # [Newcombe1998], table II, method 10: 56/70 - 48/80, and 9/10 - 3/10.
    assert difference_of_shares((48, 80), (56, 70)) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert difference_of_shares((3, 10), (9, 10)) == pytest.approx((0.1705, 0.8090), abs=1e-4)


def test_the_best_cut_is_the_best():
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(np.concatenate([rng.normal(1, 1, 30), rng.normal(0, 1, 20)]).round(1))
    is_x = torch.arange(50) < 30

    def gain(cut):
        return (scores[is_x] > cut).double().mean() + (scores[~is_x] <= cut).double().mean()

    cuts = torch.cat([scores - 0.05, scores + 0.05])
    assert gain(best_cut(scores, is_x)) == pytest.approx(max(float(gain(cut)) for cut in cuts))
    assert best_cut(torch.ones(4), torch.tensor([True, True, False, False])) == 1.0


def test_folds_have_both_samples():
    for n, m in ((10, 10), (11, 37), (4, 100)):
        folds = folds_of(n, m)
        for fold in range(int(folds.max()) + 1):
            assert (folds[:n] == fold).sum() >= 2 and (folds[n:] == fold).sum() >= 2
    assert noise_share(2.0, 0.0) == 1 and noise_share(2.0, 2.5) == 0 and noise_share(0.0, 1) == 1


def judged(shift, noise):
    scores = torch.from_numpy(np.random.default_rng(0).normal(size=100))
    scores[:50] += shift
    folds = torch.arange(100) % 5
    return judge(CrossFitted(scores, folds, noise), 50).area


def test_noise_makes_intervals_wider():
    sure = judged(shift=1.0, noise=0.0)
    unsure = judged(shift=1.0, noise=1.0)
    assert unsure.variance == pytest.approx(2 * sure.variance)
    assert sure.auc == unsure.auc


def test_where_there_may_be_no_difference_all_of_the_noise_counts():
    assert judged(shift=0.0, noise=0.0) == judged(shift=0.0, noise=1.0)


# MMD^2.


def test_the_interval_of_mmd2_is_that_of_the_predicted_power():
    X, Y = shifted(150, 150, 0.7)
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=99, rng=0)
    plan = result.predict_power()
    low, high = result.effect.mmd2_interval
    # Symmetric on the scale of the MMD, with its error by the delta method.
    assert (math.sqrt(low) + math.sqrt(high)) / 2 == pytest.approx(math.sqrt(plan.mmd2))
    assert high - low == pytest.approx(2 * 1.959964 * plan.standard_error)


def test_the_mmd2_of_views_is_that_of_their_kernel():
    """With all points as landmarks the view is the Gaussian at the median distance."""
    X, Y = shifted(70, 60, 0.8)
    result = twosample.two_sample_test(X, Y, "spectral", permutations=19, rng=0)
    from twosample._insight.effects import mmd2_estimate

    value, error, _, _ = mmd2_estimate(result)
    view = next(iter(result.fitted.representation))
    median = float(view.width) / 2
    Z = result.samples.pooled().double()
    K = torch.exp(-torch.cdist(Z, Z).square() / (2 * median**2))
    xx, yy, xy = K[:70, :70], K[70:, 70:], K[:70, 70:]
    naive = (xx.sum() - 70) / (70 * 69) + (yy.sum() - 60) / (60 * 59) - 2 * xy.mean()
    assert value == pytest.approx(float(naive), rel=0.15)
    assert 0 < error < 3 * value


# Columns.


def orders(size, seed, *, later=False):
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 10, size)
    hours = rng.normal(size=size) + (0 if later else 0.08) * age
    kinds = ["a", "b", "Robot"] if later else ["a", "b"]
    shares = [0.5, 0.47, 0.03] if later else [0.52, 0.48]
    gaps = rng.random(size) < (0.2 if later else 0.05)
    return pl.DataFrame(
        {
            "age": age,
            "hours": np.where(gaps, np.nan, hours * 1000),
            "kind": rng.choice(kinds, size, p=shares),
            "paid": rng.random(size) < 0.3,
        }
    ).with_columns(pl.col("hours").fill_nan(None))


@pytest.fixture(scope="module")
def tables():
    return orders(700, 0), orders(600, 1, later=True)


@pytest.fixture(scope="module")
def by_column(tables):
    result = twosample.two_sample_test(
        *tables,
        "spectral",
        permutations=199,
        rng=0,
        columns=twosample.Columns(missing="indicator"),
    )
    return result, {column.name: column for column in result.columns}


def test_columns_are_in_the_users_units(tables, by_column):
    X, Y = tables
    _, columns = by_column
    for name in ("age", "hours"):
        column = columns[name]
        for summary, table in ((column.before, X), (column.after, Y)):
            values = table[name].drop_nulls().to_numpy()
            assert summary.mean == pytest.approx(values.mean(), rel=1e-4)
            assert summary.spread == pytest.approx(values.std(), rel=1e-4)
            assert summary.quantiles[0.5] == pytest.approx(np.median(values), rel=1e-4)
            assert summary.missing == pytest.approx(table[name].null_count() / len(table))
        low, high = column.interval
        assert low < column.difference < high
    unit = np.concatenate([X["age"], Y["age"]]).std()
    expected = stats.wasserstein_distance(X["age"], Y["age"]) / unit
    assert columns["age"].effect == pytest.approx(expected, rel=1e-4)
    low, high = columns["hours"].missing_interval
    assert 0.08 < low < 0.15 < high < 0.22


def test_levels_that_moved_are_named(by_column):
    _, columns = by_column
    kind = columns["kind"]
    assert kind.after.levels["Robot"] > 0 and kind.before.levels["Robot"] == 0
    assert "new level 'Robot': 0.0 % -> " in kind.sentence()
    assert sum(kind.before.levels.values()) == pytest.approx(1)
    low, high = kind.effect_interval
    assert 0 < low <= kind.effect <= high
    assert kind.reject() and columns["hours"].reject() and not columns["age"].reject()


def test_pairs_tell_what_changed(tables, by_column):
    result, _ = by_column
    pairs = {pair.columns: pair for pair in result.pairs}
    pair = pairs["age", "hours"]
    for value, table in zip((pair.before, pair.after), tables, strict=True):
        rows = table.drop_nulls()
        assert value == pytest.approx(np.corrcoef(rows["age"], rows["hours"])[0, 1], abs=0.06)
    assert pair.measure == "correlation" and pair.interval[1] < -0.3 and pair.reject()
    assert pairs["age", "kind"].measure == "correlation ratio"
    assert "correlation 0.6" in pair.sentence()
    assert pair.to_dict()["effect"] == pair.effect


def test_columns_can_be_written_as_json(by_column):
    import json

    result, columns = by_column
    text = json.dumps([column.to_dict() for column in result.columns])
    assert "new level 'Robot'" in text and set(columns) == {"age", "hours", "kind", "paid"}


def test_nothing_differs_where_the_test_finds_nothing():
    """A closed test: no column and no pair below the p-value of the test itself."""
    for method in ("spectral", "mmd-median"):
        for seed in range(3):
            X, Y = shifted(60, 60, 0.0, columns=6, seed=seed)
            result = twosample.two_sample_test(X, Y, method, permutations=99, rng=0)
            assert all(column.adjusted >= result.pvalue for column in result.columns)
            assert all(pair.adjusted >= result.pvalue for pair in result.pairs)


def test_a_rare_level_is_seen_in_a_column_of_its_own():
    rng = np.random.default_rng(0)
    size = 1000
    levels = np.array(["a", "b", "c"])
    X = pl.DataFrame({"kind": rng.choice(levels, size), "x": rng.normal(size=size)})
    kinds = rng.choice(levels, size)
    kinds[:20] = "rare"
    Y = pl.DataFrame({"kind": kinds, "x": rng.normal(size=size) + 1})
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=199, rng=0)
    kind = next(column for column in result.columns if column.name == "kind")
    assert kind.adjusted == pytest.approx(2 / 200)


def test_wasserstein_is_scipys():
    rng = np.random.default_rng(0)
    x = rng.gamma(2, size=50)
    y = rng.gamma(3, size=80).round(1)
    found = wasserstein(x, y)
    assert found.value == pytest.approx(stats.wasserstein_distance(x, y))
    low, high = found.interval
    assert 0 <= low <= found.value <= high
    nothing = wasserstein(x, x)
    assert nothing.value == 0 and nothing.interval[0] == 0


def test_total_variation_of_counts():
    found = total_variation(np.array([50.0, 50.0, 0.0]), np.array([40.0, 40.0, 20.0]))
    assert found.value == pytest.approx(0.2)
    assert 0.05 < found.interval[0] < 0.2 < found.interval[1] < 0.35
    same = total_variation(np.array([50.0, 50.0]), np.array([50.0, 50.0]))
    assert same.value == 0 and same.interval[0] == 0


def test_images_have_no_columns_but_an_auc():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 255, (60, 6, 6), dtype=np.uint8)
    Y = (X * 0.5).astype(np.uint8)
    result = twosample.two_sample_test(X, Y, "spectral", permutations=19, rng=0)
    assert result.columns == () and result.pairs == () and result.effect.auc > 0.9


def test_few_rows_have_no_auc():
    X, Y = shifted(6, 6, 0.0)
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=19, rng=0)
    assert cross_fitted(result) is None and result.effect.auc_interval is None


def test_the_page_gives_what_it_shows():
    page = ROOT / "docs" / "effects.md"
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert results.attempted > 5 and results.failed == 0


# Regions, rows and summaries.


@pytest.fixture(scope="module")
def moved():
    """Among the young, those who work long have become more."""
    rng = np.random.default_rng(3)

    def people(size, share):
        age = rng.uniform(18, 70, size)
        long = (age < 30) & (rng.random(size) < share)
        hours = np.where(long, rng.uniform(50, 60, size), rng.uniform(20, 40, size))
        return pl.DataFrame({"age": age, "hours": hours, "z": rng.normal(size=size)})

    tables = people(900, 0.1), people(800, 0.7)
    return twosample.two_sample_test(*tables, "spectral", permutations=99, rng=0)


def test_regions_are_counted_on_other_rows(moved):
    region = moved.regions[0]
    assert region.sizes == (450, 400)  # the halves that did not find it
    assert "hours >=" in region.rule and region.after > 3 * region.before
    low, high = region.interval
    assert 0 < low < region.after - region.before < high
    assert region.sentence() == f"{region.rule}: " + (
        f"{100 * region.before:.1f} % -> {100 * region.after:.1f} %"
    )
    assert region.to_dict()["rule"] == region.rule


def test_no_regions_where_nothing_is_found():
    X, Y = shifted(80, 80, 0.0)
    result = twosample.two_sample_test(X, Y, "spectral", permutations=99, rng=0)
    assert not result.reject() and result.regions == ()


def test_a_summary_can_be_pasted(moved, by_column):
    text = moved.summary(("May", "June"))
    assert text.startswith("May and June differ (p = 0.010, spectral on 900 + 800 rows).")
    assert "Shown one row of May and one of June, the test tells which is which" in text
    assert "hours >=" in text
    table = by_column[0].summary(markdown=True)
    assert "| column | what changed | effect | adjusted p |" in table
    assert "new level 'Robot'" in table and table.startswith("**X and Y differ")
    X, Y = shifted(60, 60, 0.0, seed=4)
    nothing = twosample.two_sample_test(X, Y, "spectral", permutations=99, rng=0)
    assert "No difference found between X and Y" in nothing.summary()
    assert "would have been found with power 0.8" in nothing.summary()


def test_markdown_is_not_ended_by_names():
    rng = np.random.default_rng(0)
    X = pl.DataFrame({"a|b*": rng.normal(size=100), "c": rng.normal(size=100)})
    Y = pl.DataFrame({"a|b*": rng.normal(2, 1, 100), "c": rng.normal(size=100)})
    result = twosample.two_sample_test(X, Y, "spectral", permutations=99, rng=0)
    line = next(line for line in result.summary(markdown=True).splitlines() if "a" in line[:4])
    assert line.startswith("| a\\|b\\* |")


def test_a_notebook_shows_the_report(moved):
    shown = moved.report()
    inline = shown._repr_html_()
    assert inline.startswith("<iframe srcdoc=") and "<script" not in inline  # all of it is escaped
    assert "Every column" in shown.html and "Regions" in shown.html
    assert len(repr(shown)) < 100


def test_telling_rows_are_not_all_alike():
    from twosample._insight.explain import TellingRow
    from twosample._show.changes import diverse

    def row(number, value, weight):
        return TellingRow(number, weight, 0.1, {"x": value, "kind": "a"}, None)

    alike = [row(k, 1.0 + k / 1000, 5.0) for k in range(8)]
    rows = [*alike, row(8, 9.0, 4.0), row(9, -9.0, 4.0)]
    chosen = {each.row for each in diverse(rows, 3)}
    assert chosen == {0, 8, 9}
    assert diverse(rows[:2], 3) == rows[:2]
