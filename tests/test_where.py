"""Columns and pairs that differ, from the permutations of the test itself, and how often they err."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import scipy
import torch

import twosample
from twosample import IncompatibleParts, explain
from twosample._fusing import by_own_tail, step_down, surprise
from twosample._insight.where import PairDifference, local_tests
from twosample._views import Cells, Products, Shapes, Values

LEVEL = 0.1


def shop(rng, size, *, far=0.2, tie=0.0):
    """Orders; `far` is the share of each of two rare countries, `tie` how price follows weight."""
    weight = rng.normal(size=size)
    price = tie * weight + np.sqrt(1 - tie**2) * rng.normal(size=size)
    return pd.DataFrame(
        {
            "price": np.exp(price / 2).round(2),
            "weight": np.exp(weight / 2).round(2),
            "country": rng.choice(["DE", "FR", "NL"], size, p=[1 - 2 * far, far, far]),
            "returning": rng.random(size) < 0.3,
        }
    )


def bought(seed=0, sizes=(250, 200), method=None, **changes):
    rng = np.random.default_rng(seed)
    test = method or twosample.spectral(permutations=199)
    return test.run(shop(rng, sizes[0]), shop(rng, sizes[1], **changes), rng=seed)


@pytest.fixture(scope="module")
def both():
    """A result with a category and a pair that differ."""
    return bought(1, far=0.33, tie=0.7)


def test_a_column_and_a_pair_are_found(both):
    explanation = both.explain(rows=2, rng=0)
    assert explanation.reject() == ["country"]
    first, *others = explanation.reject_pairs()
    assert first.columns == ("price", "weight")
    assert first.follows_from() == ()
    assert first.adjusted == 1 / 200
    assert first.sentence() == "price and weight go together otherwise (p = 0.005)"
    assert others
    assert all("country" in pair.follows_from() for pair in others)
    assert "since country differs (p = " in others[0].sentence()
    assert explanation.telling_columns()[:3] == ["country", "price", "weight"]
    assert all(column.importance is None for column in explanation.columns)
    assert explanation.correction == "step-down"
    assert len(explanation.pairs) == 6


def test_what_an_explanation_shows(both):
    explanation = both.explain(rows=2, rng=0)
    text = str(explanation)
    assert "the joint test's 199 permutations; adjusted by step-down" in text
    assert "\n  price and weight go together otherwise (p = 0.005)\n" in text
    assert "because of a column that differs by itself" in text
    assert "importance" not in text
    assert (
        "<li>price and weight go together otherwise (p = 0.005)</li>" in explanation._repr_html_()
    )
    record = json.loads(json.dumps(explanation.to_dict()))
    assert record["correction"] == "step-down"
    assert len(record["pairs"]) == 6
    by_names = {tuple(pair["columns"]): pair for pair in record["pairs"]}
    pair = by_names["price", "weight"]
    assert pair["sentence"] == "price and weight go together otherwise (p = 0.005)"
    assert pair["adjusted"] == pair["pvalue"] == 0.005


def test_values_are_those_of_all_rows_that_look_at_nothing_else(both):
    statistic = both.fitted.spec.statistic
    prepared = both.calibrated.prepared
    shuffles = both.calibrated.shuffles
    local = statistic.by_columns(prepared, shuffles.within())
    every = torch.cat([statistic.evaluate(prepared, part) for part in shuffles.within()], 1)
    surprises = surprise(every, prepared.moments())
    places = list(prepared.rows())
    assert sorted(local) == [(0,), (0, 1), (0, 2), (0, 3), (1,), (1, 2), (1, 3), (2,), (2, 3), (3,)]
    for columns, values in local.items():
        mine = [row for row, place in enumerate(places) if place.columns == columns]
        expected = by_own_tail(surprises[mine].amax(0))
        assert torch.allclose(values, expected, rtol=1e-12, atol=1e-12)
    columns, pairs = local_tests(both, both.fitted)
    values = torch.stack([local[key] for key in columns.keys])
    assert columns.stepped == step_down(values, prepared.resolution).tolist()
    # Counted anew, the observed labelling among them.
    for key, p in zip([*columns.keys, *pairs.keys], columns.pvalues + pairs.pvalues, strict=True):
        reached = (local[key] >= local[key][0] - 1e-9).sum()
        assert p == int(reached) / 200
    assert all(low <= high for low, high in zip(columns.pvalues, columns.stepped, strict=True))


def test_a_columns_p_value_depends_on_nothing_but_the_column():
    rng = np.random.default_rng(1)
    X, Y = shop(rng, 60), shop(rng, 50)
    test = twosample.spectral(permutations=99)
    before = test.run(X, Y, rng=0).explain(rng=0)
    after = test.run(X, Y.assign(weight=Y["weight"] * 100), rng=0).explain(rng=0)
    pvalues = [{c.name: c.pvalue for c in each.columns} for each in (before, after)]
    assert pvalues[0].pop("weight") > pvalues[1].pop("weight") == 0.01
    assert pvalues[0] == pvalues[1]
    pairs = [{p.columns: p.pvalue for p in each.pairs} for each in (before, after)]
    alone = [columns for columns in pairs[0] if "weight" not in columns]
    assert [pairs[0][columns] for columns in alone] == [pairs[1][columns] for columns in alone]


def test_a_constant_column_has_p_one():
    rng = np.random.default_rng(0)
    X, Y = shop(rng, 60), shop(rng, 50)
    with pytest.warns(twosample.InputWarning):
        result = twosample.spectral(permutations=99).run(X.assign(same=1), Y.assign(same=1), rng=0)
    same = next(c for c in result.explain(rng=0).columns if c.name == "same")
    assert (same.pvalue, same.adjusted, same.statistic) == (1.0, 1.0, 0.0)


def test_other_corrections_take_the_same_p_values(both):
    stepped = both.explain(rng=0)
    holm = both.explain(correction="holm", rng=0)
    plain = both.explain(correction="none", rng=0)
    assert [c.pvalue for c in holm.columns] == [c.pvalue for c in stepped.columns]
    assert [c.adjusted for c in plain.columns] == [c.pvalue for c in plain.columns]
    assert [p.adjusted for p in plain.pairs] == [p.pvalue for p in plain.pairs]
    smallest = min(p.adjusted for p in holm.pairs)
    assert smallest == pytest.approx(6 / 200)
    with pytest.raises(IncompatibleParts, match="mmd-median looks at no single column"):
        explain(bought(sizes=(30, 30), method=twosample.mmd_median()), correction="step-down")


def test_the_words_for_a_test_that_finds_nothing():
    result = bought(sizes=(60, 50))
    assert not result.reject()
    explanation = result.explain(rng=0)
    assert "No difference found in any of 6 pairs" in str(explanation)
    assert "the test itself finds no difference" in str(explanation).lower()


def test_a_verdict_that_columns_do_not_overrule(both):
    unsure = dataclasses.replace(both, pvalue=0.2).explain(rng=0)
    assert both.explain(rng=0).reject() and not unsure.reject() and not unsure.reject_pairs()
    assert min(column.adjusted for column in unsure.columns) == 0.2
    by_themselves = dataclasses.replace(both, pvalue=0.2).explain(correction="none", rng=0)
    assert by_themselves.reject()  # nothing was asked of p-values that are not adjusted


def test_wide_tables_say_how_many_pairs_were_looked_at():
    rng = np.random.default_rng(0)
    test = twosample.spectral(Values(), Cells(most=20), Products(2, most=20), permutations=49)
    result = test.run(rng.normal(size=(40, 12)), rng.normal(size=(40, 12)), rng=0)
    explanation = result.explain(rng=0)
    count = len(explanation.pairs)
    assert 20 <= count <= 40
    note = next(note for note in explanation.notes if "pairs" in note)
    assert note.startswith(f"{count} of 66 pairs were looked at: ")


def test_views_of_ones_own_may_look_at_few_columns(both):
    rng = np.random.default_rng(0)
    X, Y = shop(rng, 60), shop(rng, 50)
    partly = twosample.spectral(Shapes(), permutations=49).run(X, Y, rng=0).explain(rng=0)
    assert "2 of 4 columns were looked at by themselves." in partly.notes
    assert partly.pairs == ()
    # Without any such view, columns get kernels of their own.
    joint = twosample.spectral(twosample.Features(torch.nn.Identity()), permutations=49)
    explanation = joint.run(X, Y, rng=0).explain(shuffles=0, rng=0)
    assert explanation.symbol == "MMD^2"
    assert explanation.correction == "holm"


def test_sentences_of_a_pair():
    pair = PairDifference(("a", "b"), 4.0, 0.01, 0.02, (0.03, 0.001))
    assert pair.follows_from(0.05) == ("a", "b")
    assert pair.sentence(0.05) == "a and b differ, since a and b differ (p = 0.020)"
    assert pair.sentence(0.02) == "a and b differ, since b differs (p = 0.020)"
    assert pair.sentence(0.01) == "a and b: no difference found (p = 0.020)"


def test_the_statistic_is_taken_apart(both):
    of_x, of_y = both.explain(rng=0).contributions
    assert of_x.sum() + of_y.sum() == pytest.approx(both.statistic, rel=1e-12)
    # The witness of new points, at the points of the test: its sign is that of the contribution.
    rng = np.random.default_rng(1)
    X = shop(rng, 250)
    at_x = twosample.witness(both, X)
    factor = of_x / at_x
    assert np.allclose(factor, factor[0], rtol=1e-6)
    assert factor[0] > 0


def test_the_trained_kernel_of_auto_is_explained_as_mmd_d_is():
    trained = twosample.auto(permutations=49, steps=5).then.test
    explanation = bought(sizes=(60, 60), method=trained).explain(shuffles=1, rows=1, rng=0)
    assert explanation.symbol == "MMD^2"
    assert explanation.correction == "holm"
    assert explanation.pairs == ()
    assert all(column.importance is not None for column in explanation.columns)


@pytest.mark.parametrize(
    "view",
    [twosample.Features(torch.nn.Identity()), twosample.LandmarksOf(twosample.Gaussian())],
    ids=["features", "landmarks"],
)
def test_views_of_all_columns_alone_have_importances(view):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    Y = rng.normal(size=(260, 3))
    Y[:, 0] += 0.6
    result = twosample.spectral(view, permutations=99).run(X, Y, rng=0)
    explanation = result.explain(shuffles=3, rows=1, rng=0)
    first, *others = [column.importance_share for column in explanation.columns]
    assert first > 0.5
    assert all(abs(share) < 0.3 for share in others)


# How often an innocent column, or pair, is found.


def correlated(rng, size, columns=4):
    shared = rng.normal(size=(size, 1))
    return 0.6 * shared + 0.8 * rng.normal(size=(size, columns))


def equal(rng):
    return correlated(rng, 40), correlated(rng, 25), {0, 1, 2, 3}


def one_differs(rng):
    X, Y = correlated(rng, 40), correlated(rng, 25)
    Y[:, 0] += 1.5
    return X, Y, {1, 2, 3}


def two_differ_with_ties(rng):
    X, Y = correlated(rng, 40).round(), correlated(rng, 25).round()
    Y[:, 0] += 1
    Y[:, 2] *= 2
    return X, Y, {1, 3}


def one_pair_differs(rng):
    X, Y = rng.normal(size=(40, 4)), rng.normal(size=(40, 4))
    Y[:, 1] = 0.8 * Y[:, 0] + 0.6 * Y[:, 1]
    return X, Y, {0, 1, 2, 3}


def false_findings(draw, draws):
    """In how many draws any innocent column is found, and any innocent pair."""
    test = twosample.spectral(Values(), Shapes(), Products(2), Cells(), permutations=39)
    columns_found = 0
    pairs_found = 0
    for seed in range(draws):
        X, Y, innocent = draw(np.random.default_rng(seed))
        result = test.run(X, Y, rng=seed)
        columns, pairs = local_tests(result, result.fitted)
        by_column = zip(columns.keys, columns.stepped, strict=True)
        wrong = [p for key, p in by_column if innocent >= set(key)]
        columns_found += min(wrong) <= LEVEL
        changed = (0, 1) if draw is one_pair_differs else None
        pairwise = zip(pairs.keys, pairs.stepped, strict=True)
        wrong = [p for key, p in pairwise if innocent >= set(key) and key != changed]
        pairs_found += min(wrong) <= LEVEL
    return columns_found, pairs_found


DRAWS = [equal, one_differs, two_differ_with_ties, one_pair_differs]


@pytest.mark.parametrize("draw", DRAWS)
def test_innocent_columns_and_pairs_are_found_at_most_at_the_level(draw):
    draws = 60
    limit = scipy.stats.binom.isf(1e-4, draws, LEVEL)
    assert max(false_findings(draw, draws)) <= limit


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWS)
def test_the_family_wise_error_over_many_draws(draw):
    draws = 400
    limit = scipy.stats.binom.isf(1e-3, draws, LEVEL)
    columns, pairs = false_findings(draw, draws)
    assert columns <= limit
    assert pairs <= limit
    if draw is equal:
        # And not far below: with 40 labellings the level 0.1 is met exactly but for ties.
        assert columns >= scipy.stats.binom.ppf(1e-3, draws, LEVEL)
