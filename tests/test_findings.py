"""What is seen before any test: every kind of finding, and hardly a false one."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binom, fisher_exact
from typer.testing import CliRunner

import twosample
from twosample._cli.main import build
from twosample._data.copies import Counted, impossible, judge, rows_to_use
from twosample._data.row_keys import array_keys, few_kinds, mixed, row_keys
from twosample._data.streams import held
from twosample._data.tables import Origin, called
from twosample._insight.checks import looks
from twosample._insight.checks.chance import all_in_one, equal_shares

RACES = ["White", "Black", "Asian-Pac-Islander", "Other"]


def people(rows, seed):
    """A table as a census has it."""
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "hours": rng.integers(1, 60, rows),
            "income": rng.lognormal(10, 1, rows).round(2),
            "height": rng.normal(170, 10, rows),
            "race": rng.choice(RACES, rows, p=[0.7, 0.2, 0.07, 0.03]),
            "sex": rng.choice(["Female", "Male"], rows),
            "member": rng.random(rows) < 0.4,
        }
    )


def some_rows(table, size):
    """Some rows of a table, from all over it."""
    return np.random.default_rng(0).permutation(len(table))[:size]


def kinds(findings):
    return {(one.kind, one.column) for one in findings}


# Each kind


def test_rows_that_follow_each_other_may_depend_on_each_other():
    steps = np.random.default_rng(0).normal(size=(2, 300))
    X, Y = (pd.DataFrame({"level": np.cumsum(each)}) for each in steps)
    (finding,) = (one for one in twosample.check(X, Y) if one.kind == "dependence")
    assert finding.severity == "warning" and "blocks='auto'" in finding.message
    who = pd.DataFrame({"who": np.repeat(range(40), 10), "size": np.repeat(steps[0, :40], 10)})
    noise = np.random.default_rng(1).normal(size=400)
    who["size"] += noise
    (finding,) = (one for one in twosample.check(who, people(100, 0)) if one.kind == "dependence")
    assert finding.column == "who" and "groups='who'" in finding.message


def test_the_command_line_is_told_what_to_say_there(tmp_path):
    for seed, name in enumerate(("a.csv", "b.csv")):
        steps = np.random.default_rng(seed).normal(size=200)
        pd.DataFrame({"level": np.cumsum(steps)}).to_csv(tmp_path / name, index=False)
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    outcome = CliRunner().invoke(build(), ["check", *files])
    assert "--blocks auto or --groups COLUMN" in outcome.output
    outcome = CliRunner().invoke(build(), ["test", *files, "--method", "mmd-median", "--seed", "0"])
    assert "--blocks auto or --groups COLUMN" in outcome.output


def test_whole_numbers_that_floats_must_round_are_looked_at():
    values = pa.array([2**53 + 6, None, 1, 2], type=pa.int64())
    assert len(twosample.check(pa.table({"a": values}), pa.table({"a": values}))) == 1


def test_half_a_character_is_looked_at():
    labels = pd.Series(["\ud800", "b", "c"] * 5, dtype=object)
    X = pd.DataFrame({"a": labels, "n": range(15)})
    assert len(twosample.check(X, X.iloc[::-1])) > 0


def test_what_pyarrow_cannot_filter_gets_a_sentence():
    column = pa.array(["a", None, "b"], type=pa.string_view())
    with pytest.raises(twosample.InputError, match="convert them to another type"):
        twosample.two_sample_test(pa.table({"a": column}), pa.table({"a": column}), "mmd-median")


def test_a_name_of_a_column_does_not_fill_the_screen():
    name = "".join(map(str, range(500)))
    asked = Origin("X").asks("drop", name)
    assert len(called(name, True)) < 120 and len(asked) < 130
    assert name[:30] in asked and name[-40:] in asked


def test_copies_that_are_left_out_are_no_dependence():
    X = pd.DataFrame(np.repeat(np.random.default_rng(0).normal(size=(100, 2)), 3, axis=0))
    Y = pd.DataFrame(np.random.default_rng(1).normal(size=(100, 2)))
    assert {one.kind for one in twosample.check(X, Y)} == {"repeated rows"}


def test_clean_tables_have_no_findings():
    findings = twosample.check(people(400, 0), people(300, 1))
    assert findings == ()
    assert str(findings) == "Nothing odd was found."


def test_a_renamed_level_is_guessed():
    Y = people(4000, 1)
    Y["race"] = Y["race"].replace("Asian-Pac-Islander", "Asian")
    (finding,) = twosample.check(people(4000, 0), Y)
    assert (finding.kind, finding.column, finding.severity) == ("renamed level", "race", "warning")
    assert "'Asian-Pac-Islander' is only in X" in finding.message
    assert "'Asian' only in Y" in finding.message and "renamed?" in finding.message


def test_a_level_of_one_sample_is_named_if_it_is_no_chance():
    X = people(400, 0)
    Y = people(400, 1)
    Y.loc[:2, "race"] = "Martian"
    assert twosample.check(X, Y) == ()
    Y = people(400, 1)
    Y.loc[some_rows(Y, 41), "race"] = "Martian"
    (finding,) = twosample.check(X, Y)
    assert finding.kind == "level in one sample" and "'Martian' (41 of 400" in finding.message


def test_case_and_spaces_are_named_once():
    Y = people(400, 1)
    Y["sex"] = Y["sex"].replace("Male", " male")
    (finding,) = twosample.check(people(400, 0), Y)
    assert (finding.kind, finding.column) == ("spelling", "sex")


def test_columns_of_one_sample():
    X = people(100, 0)
    findings = twosample.check(
        X.rename(columns={"height": "Height cm"}).assign(extra=1.5), people(100, 1)
    )
    assert kinds(findings) == {
        ("column in one sample", "extra"),
        ("column in one sample", "Height cm"),
    }
    assert all(one.severity == "severe" for one in findings)
    assert "'Height cm' is only in X, 'height' only in Y: renamed?" in str(findings)


def test_types_that_differ():
    Y = people(100, 1)
    Y["age"] = Y["age"].astype(str)
    Y.loc[3, "age"] = "12 years"
    Y["member"] = Y["member"].astype(float)
    findings = twosample.check(people(100, 0), Y)
    assert [(one.severity, one.column) for one in findings] == [
        ("severe", "age"),
        ("note", "member"),
    ]
    assert "'12 years'" in findings[0].message


def test_constant_in_one_sample():
    Y = people(300, 1).assign(hours=40, sex="Male")
    findings = twosample.check(people(300, 0), Y)
    assert kinds(findings) == {
        ("constant in one sample", "hours"),
        ("constant in one sample", "sex"),
    }


def test_missing_more_often_in_one():
    X = people(2000, 0)
    Y = people(2000, 1)
    X.loc[some_rows(X, 100), "height"] = np.nan
    Y.loc[some_rows(Y, 110), "height"] = np.nan
    assert twosample.check(X, Y) == ()
    Y.loc[some_rows(Y, 200), "height"] = np.nan
    Y.loc[some_rows(Y, 60), "race"] = None
    assert kinds(twosample.check(X, Y)) == {
        ("missing values", "height"),
        ("missing values", "race"),
    }


def test_a_sentinel_is_named_where_it_stands_apart():
    X = people(1000, 0)
    Y = people(1000, 1)
    Y.loc[some_rows(Y, 20), "age"] = 9999
    Y.loc[some_rows(Y, 20), "hours"] = -1
    findings = twosample.check(X, Y)
    assert kinds(findings) == {("sentinel", "age"), ("sentinel", "hours")}
    assert all(one.severity == "warning" for one in findings)
    assert "20 of 1000 (2 %) rows of Y" in findings[0].message
    X.loc[some_rows(X, 20), "age"] = 9999
    again = twosample.check(X, Y)
    assert ("note", "age") in {(one.severity, one.column) for one in again}


def test_the_largest_value_alone_is_no_finding():
    Y = people(1000, 1)
    Y.loc[0, "income"] = 1e9
    assert twosample.check(people(1000, 0), Y) == ()
    Y.loc[some_rows(Y, 31), "income"] = 1e9
    (finding,) = twosample.check(people(1000, 0), Y)
    assert (finding.kind, finding.column) == ("range", "income")


@pytest.mark.parametrize(
    ("column", "factor"), [("income", 1000), ("income", 0.01), ("height", 2.54)]
)
def test_other_units(column, factor):
    Y = people(300, 1)
    Y[column] *= factor
    (finding,) = twosample.check(people(300, 0), Y)
    assert (finding.kind, finding.column) == ("unit", column)


def test_swapped_cells_are_guessed():
    Y = people(2000, 1).astype({"age": float})
    Y.loc[:59, ["age", "income"]] = Y.loc[:59, ["income", "age"]].to_numpy()
    findings = twosample.check(people(2000, 0), Y)
    assert "They look like values of 'income': swapped?" in str(findings)


def test_identifiers_dates_and_order():
    X = people(100, 0)
    Y = people(80, 1)
    days = pd.date_range("2026-01-01", periods=180)
    found = twosample.check(
        X.assign(id=range(100), day=days[:100], name=[f"a{at}" for at in range(100)]),
        Y.assign(id=range(100, 180), day=days[100:], name=[f"b{at}" for at in range(80)]),
    )
    assert kinds(found) == {("identifier", "id"), ("date", "day"), ("identifier", "name")}
    assert [one.column for one in found.severe] == ["id", "day"]
    assert "runs on from one to the other" in str(found)
    # pandas has dates of a CSV file as text.
    as_text = twosample.check(
        X.assign(day=days[:100].astype(str)), Y.assign(day=days[100:].astype(str))
    )
    assert kinds(as_text) == {("date", "day")}
    shuffled = np.random.default_rng(0).permutation(100)
    found = twosample.check(X.assign(id=shuffled), X.iloc[::-1].assign(id=shuffled[::-1] + 5))
    assert ("identifier", "id") in kinds(found)
    # The same rows but for their numbers are the same rows.
    assert ("identical samples", None) in kinds(found)
    by_income = twosample.check(X.sort_values("income"), Y.sort_values("income"))
    assert [(one.severity, one.kind) for one in by_income] == [("note", "order")]


def test_what_is_left_out_is_not_looked_at():
    X = people(100, 0).assign(id=range(100))
    Y = people(100, 1).assign(id=range(100, 200), age=9999)
    columns = twosample.Columns(drop=["id", "age"])
    assert twosample.check(X, Y, columns=columns) == ()


# Every form


@pytest.mark.parametrize("form", [pl.from_pandas, pa.Table.from_pandas, lambda table: table])
def test_every_kind_of_table_gives_the_same(form):
    X = people(500, 0)
    Y = people(500, 1).assign(id=range(500))
    Y["race"] = Y["race"].replace("White", "white ")
    Y.loc[:99, "height"] = None
    X = X.assign(id=range(500, 1000))
    expected = twosample.check(X, Y)
    assert len(expected) == 3
    assert twosample.check(form(X), form(Y)) == expected
    # One of pandas, one of another kind: rows know each other.
    assert twosample.check(form(X), X.copy())[0].kind == "identical samples"


def test_streams_are_looked_at_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(looks, "_KEYS", 500)
    monkeypatch.setattr(looks, "_ROWS", 300)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    Y = rng.normal(size=(5000, 3))
    passes = []

    def batches(data):
        def give():
            passes.append(1)
            return iter(np.array_split(data, 20))

        return twosample.Stream.batches(give)

    assert twosample.check(batches(X), batches(Y)) == ()
    assert len(passes) == 4  # to count the rows, and to look at them
    kept = looks.look_at(batches(X), "X")
    assert len(kept.keys.all()) <= 500 and len(kept.some("0")) <= 600
    (same,) = twosample.check(batches(X), batches(X[::-1]))
    assert same.kind == "identical samples"
    (shared,) = twosample.check(batches(X), batches(np.concatenate([Y[:3000], X[:2000]])))
    assert (shared.kind, shared.severity) == ("shared rows", "severe")
    (repeated,) = twosample.check(batches(np.repeat(X, 3, axis=0)), batches(Y))
    assert repeated.kind == "repeated rows"
    numbered = np.column_stack([np.arange(5000), X[:, 0]])
    after = np.column_stack([np.arange(5000, 10000), Y[:, 0]])
    assert kinds(twosample.check(batches(numbered), batches(after))) == {("identifier", "0")}


def test_iterators_and_images():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    other = rng.integers(0, 256, (50, 8, 8), dtype=np.uint8)
    assert twosample.check(images, other) == ()
    assert twosample.check(images, images[::-1])[0].kind == "identical samples"
    assert twosample.check(images, np.concatenate([other, images[:30]]))[0].kind == "shared rows"
    assert twosample.check(images, other[:, :4])[0].kind == "type"
    assert twosample.check(iter([images[:20], images[20:]]), other) == ()
    assert twosample.check(images, rng.normal(size=(20, 3)))[0].severity == "severe"


# Hardly a false finding


def null_table(rows, rng):
    """Columns of many kinds, many of each."""
    table = {f"normal {at}": rng.normal(size=rows) for at in range(10)}
    table |= {f"heavy {at}": rng.standard_t(1, rows) for at in range(5)}
    table |= {f"count {at}": rng.poisson(3 * at + 0.1, rows) for at in range(10)}
    table |= {f"rare {at}": (rng.random(rows) < 0.01 * at).astype(float) for at in range(5)}
    table |= {f"level {at}": rng.choice(list("abcdefgh"), rows) for at in range(5)}
    table |= {f"zipf {at}": rng.zipf(1.7, rows).astype(str) for at in range(5)}
    for at in range(5):
        values = rng.normal(size=rows)
        values[rng.random(rows) < 0.1 * at] = np.nan
        table[f"gaps {at}"] = values
    return pd.DataFrame(table)


def test_hardly_anything_is_said_of_equal_distributions():
    rng = np.random.default_rng(0)
    draws = 40
    with_findings = 0
    for _ in range(draws):
        rows = rng.integers(20, 400, 2)
        with_findings += bool(twosample.check(null_table(rows[0], rng), null_table(rows[1], rng)))
    # The chances of the four kinds that rest on a test add up to 0.02.
    assert with_findings <= binom.ppf(0.999, draws, 0.02)


def test_chances_are_exact():
    assert all_in_one(3, 10, 10) == pytest.approx(10 * 9 * 8 / (20 * 19 * 18))
    assert all_in_one(11, 10, 5) == 0
    for a, n, b, m in ((5, 40, 15, 50), (0, 30, 9, 20), (30, 30, 2, 30)):
        exact = fisher_exact(
            [[a, n - a], [b, m - b]], alternative="less" if a / n < b / m else "greater"
        )
        assert equal_shares((a, n), (b, m)) == pytest.approx(min(1, 2 * exact.pvalue))
    assert equal_shares((150_000, 300_000), (150_000, 300_000)) == 1


# Copies


def test_equal_rows_have_equal_keys_and_others_do_not():
    rng = np.random.default_rng(0)
    points = rng.integers(-3, 4, (4000, 6)).astype(float)
    keys = array_keys(points)
    assert len(np.unique(keys)) == len(np.unique(points, axis=0))
    by_column = row_keys([np.ascontiguousarray(column) for column in points.T], len(points))
    assert np.array_equal(keys, by_column)
    assert np.array_equal(array_keys(points.astype(np.int64)), keys)
    assert np.array_equal(array_keys(np.array([[0.0]])), array_keys(np.array([[-0.0]])))
    # They are spread evenly, so that small ones are a fair sample.
    shares = np.bincount((mixed(np.arange(64_000, dtype=np.uint64)) >> np.uint64(58)).astype(int))
    assert abs(shares - 1000).max() < 150


@pytest.mark.parametrize("levels", [1, 2, 16, 17, 300])
def test_few_kinds_of_keys_are_all_of_them_with_how_often_each_comes(levels):
    rng = np.random.default_rng(levels)
    keys = mixed(rng.integers(0, levels, 5000).astype(np.uint64))
    found = few_kinds(keys)
    if levels > 16:
        assert found is None
        return
    kinds, first, times = np.unique(keys, return_index=True, return_counts=True)
    order = np.argsort(first)
    assert np.array_equal(keys[found.first], kinds[order])
    assert np.array_equal(found.first, first[order])
    assert np.array_equal(found.times, times[order])
    keys[-1] = 0  # one that comes late is not overlooked
    assert few_kinds(keys) is None


def test_no_keys_are_of_no_kind():
    found = few_kinds(np.empty(0, dtype=np.uint64))
    assert len(found.first) == len(found.times) == 0


@pytest.mark.parametrize("by_polars", [False, True])
def test_equal_rows_have_equal_keys_by_some_columns_whatever_holds_them(by_polars):
    whole = [3, 0, 7, 3]
    broken = [0.5, -0.0, np.nan, 0.5]
    text = ["a", None, "b", "a"]
    of_polars = pl.DataFrame({"a": whole, "b": [0.5, 0.0, None, 0.5], "c": text})
    tables = [
        of_polars,
        pl.concat([of_polars[:1], of_polars[1:]], rechunk=False),
        of_polars.with_columns(pl.col("a").cast(pl.Float64), pl.col("b").fill_null(np.nan)),
        of_polars.with_columns(pl.col("a").cast(pl.Int32), pl.col("b").cast(pl.Float32)),
        pd.DataFrame({"a": whole, "b": broken, "c": text}),
        of_polars.to_arrow(),
    ]
    seen = [looks.look_at(held(table), "X") for table in tables]
    found = [look.keys_by(["a", "b", "c"], by_polars=by_polars) for look in seen]
    for keys in found:
        assert np.array_equal(keys, found[0])
    assert len(np.unique(found[0])) == 3


def test_a_few_copies_among_many_rows_are_found_in_tables_of_other_types():
    rng = np.random.default_rng(0)
    X = pl.DataFrame({"a": rng.integers(0, 2**40, 90_000), "b": rng.normal(size=90_000)})
    Y = pl.DataFrame({"a": rng.integers(0, 2**40, 90_000), "b": rng.normal(size=90_000)})
    Y = pl.concat([Y[:70_000], X[100:105], Y[70_005:]])
    for other in (Y, Y.with_columns(pl.col("a").cast(pl.Float64)), Y.to_pandas()):
        assert ("shared rows", None) in kinds(twosample.check(X, other))


DISCRETE = {
    "coins": lambda rng: rng.integers(0, 2, 200),
    "cells": lambda rng: rng.integers(0, 36, 400),
    "few of many": lambda rng: rng.integers(0, 10_000, 1000),
    "zipf": lambda rng: rng.zipf(1.5, 1000),
    "counts": lambda rng: rng.poisson(50, 1000),
    "rounded": lambda rng: rng.normal(size=1000).round(2),
    "zeros": lambda rng: np.where(rng.random(1000) < 0.3, 0, rng.normal(size=1000)),
}


@pytest.mark.parametrize("draw", DISCRETE.values(), ids=DISCRETE.keys())
def test_independent_rows_are_never_taken_for_copies(draw):
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = array_keys(draw(rng).reshape(-1, 1))
        y = array_keys(draw(rng)[: rng.integers(20, 200)].reshape(-1, 1))
        assert judge(Counted.of(x, y), lambda: False).why in ("independent", "identical")


def test_equal_rows_of_different_samples_may_be_rarer_but_not_more_frequent():
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = array_keys(rng.integers(0, 500, (300, 1)))
        y = array_keys(rng.integers(400, 900, (200, 1)))
        assert judge(Counted.of(x, y), lambda: False).why == "independent"


@pytest.mark.parametrize(
    ("copied", "why", "left"),
    [
        (lambda x, y: (np.repeat(x, 3, axis=0), y), "multiples", (300, 300)),
        (lambda x, y: (np.repeat(x, 2, axis=0), np.repeat(y, 5, axis=0)), "multiples", (300, 300)),
        (lambda x, y: (x[np.arange(900) % 7 * 40 + np.arange(900) // 30], y), "copies", None),
        (lambda x, y: (x, np.concatenate([y[:200], x[:100]])), "copies", (200, 200)),
        (lambda x, y: (x, x[:150]), "copies", (150, 150)),
        (lambda x, y: (x, np.concatenate([y, x[:5]])), "few", (295, 300)),
        (lambda x, y: (x[:6].repeat(2, axis=0), y[:8]), "unclear", None),
    ],
)
def test_copies_are_known_and_counted_once(copied, why, left):
    rng = np.random.default_rng(0)
    x, y = copied(rng.normal(size=(300, 2)), rng.normal(size=(300, 2)))
    keys_x = array_keys(x)
    keys_y = array_keys(y)
    counted = Counted.of(keys_x, keys_y)
    verdict = judge(counted, lambda: True)
    assert verdict.why == why
    if left is not None:
        use_x = rows_to_use(keys_x, counted.repeated, verdict.use_x)
        use_y = rows_to_use(keys_y, counted.repeated, verdict.use_y)
        assert (use_x.sum(), use_y.sum()) == left


def test_moments_of_counts_are_log_convex():
    assert impossible(np.array([0, 0, 0, 100]))
    assert not impossible(np.array([0, 1000, 50]))
    assert not impossible(np.array([0, 5, 0, 3, 1]))


# The command


def run(*arguments):
    return CliRunner().invoke(build(), ["check", *map(str, arguments)])


def test_the_command_shows_findings_and_strict_fails_on_severe_ones(tmp_path):
    X = people(100, 0)
    X.assign(id=range(100)).to_csv(tmp_path / "a.csv", index=False)
    people(100, 1).assign(id=range(100, 200)).to_csv(tmp_path / "b.csv", index=False)
    answer = run(tmp_path / "a.csv", tmp_path / "b.csv")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("Found: 1 severe.")
    assert "severe: id numbers the rows" in answer.stdout and "--drop id" in answer.stdout
    assert run(tmp_path / "a.csv", tmp_path / "b.csv", "--strict").exit_code == 2
    assert run(tmp_path / "a.csv", tmp_path / "b.csv", "--strict", "--drop", "id").exit_code == 0
    answer = run(tmp_path / "a.csv", tmp_path / "b.csv", "--json", "--stream")
    record = json.loads(answer.stdout)
    assert record["rows"] == [100, 100]
    (finding,) = record["checks"]
    assert finding.keys() == {"message", "severity", "column", "kind"}
    assert run(tmp_path / "a.csv", tmp_path / "nothing.csv").exit_code == 2


def test_an_index_in_one_file_only_is_a_note():
    X = people(60, 0)
    Y = people(60, 1)
    indexed = X.assign(**{"Unnamed: 0": range(60)})
    found = twosample.check(indexed, Y)
    assert [(each.severity, each.column) for each in found] == [("note", "Unnamed: 0")]
    kept = X.assign(price=range(60))
    severe = [each for each in twosample.check(kept, Y) if each.severity == "severe"]
    assert [each.column for each in severe] == ["price"]
