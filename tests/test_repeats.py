"""Copies of rows, and columns that number them: a test leaves them out or refuses, and says so."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom
from typer.testing import CliRunner

import twosample
from twosample import InputError, InputWarning, Stream
from twosample._cli.main import build
from twosample._data.fingerprint import Fingerprint, point_keys
from twosample._findings import FindingWarning
from twosample._show.report import render

QUICK = twosample.mmd_median(permutations=99)
LEARNED = twosample.TwoSampleTest(
    twosample.Gaussian(1.0),
    twosample.Learning(twosample.PowerCriterion(), steps=5),
    calibration=twosample.Permutation(99),
    name="learned",
)


def normal(rows, seed, columns=2):
    return np.random.default_rng(seed).normal(size=(rows, columns))


def quietly(test, X, Y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FindingWarning)
        return test.run(X, Y, **options)


# The same samples


@pytest.mark.parametrize(
    "name", sorted(set(twosample.METHODS) - {"auto", "mmd-d", "mmd-compressed"})
)
def test_identical_samples_give_one_by_every_method(name):
    X = normal(40, 0)
    with pytest.warns(InputWarning, match="X and Y hold the same rows"):
        result = twosample.two_sample_test(X, X[::-1], name, rng=0)
    assert result.pvalue == 1
    assert result.checks[0].kind == "identical samples"


@pytest.mark.parametrize("seed", range(25))
def test_a_file_against_itself_is_never_rejected(seed, tmp_path):
    X = pd.DataFrame(normal(60, 1), columns=["a", "b"])
    assert quietly(LEARNED, X, X, rng=seed).pvalue == 1


def test_the_same_rows_more_often_are_the_same_rows():
    X = normal(60, 0)
    assert quietly(LEARNED, X, np.repeat(X, 3, axis=0), rng=0).pvalue == 1
    assert quietly(QUICK, Stream.batches([X[:30], X[30:]]), X, rng=0).pvalue == 1
    fitted = LEARNED.fit(normal(40, 5), normal(40, 6), rng=0)
    with pytest.warns(FindingWarning):
        assert fitted.test(X, X, rng=0).pvalue == 1


def test_coins_that_fell_alike_are_no_mistake():
    coins = np.array([[0.0], [1.0]] * 10)
    result = QUICK.run(coins, coins[::-1], rng=0)  # without a warning
    assert result.pvalue == 1 and result.checks[0].severity == "note"


# Copies


def tripled(x, y):
    return np.repeat(x, 3, axis=0), y


def both_doubled(x, y):
    return np.repeat(x, 2, axis=0), np.repeat(y, 2, axis=0)


def shared(x, y):
    return x, np.concatenate([y[: len(y) // 2], x[: len(y) // 2]])


def a_few(x, y):
    return np.concatenate([x, x[:4]]), y


@pytest.mark.parametrize("test", [QUICK, LEARNED], ids=["rows", "split"])
@pytest.mark.parametrize("copied", [tripled, both_doubled, shared, a_few])
def test_the_level_holds_with_copies(copied, test):
    runs = 25
    rejections = 0
    for seed in range(runs):
        x, y = copied(normal(40, 2 * seed), normal(40, 2 * seed + 1))
        result = quietly(test, x, y, rng=seed)
        assert result.checks, "copies are never silent"
        rejections += result.reject()
    assert rejections <= binom.ppf(0.999, runs, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("copied", [tripled, shared])
def test_the_level_of_the_default_holds_with_copies(copied):
    runs = 60
    rejections = 0
    test = twosample.spectral(permutations=99)
    for seed in range(runs):
        x, y = copied(normal(60, 2 * seed), normal(60, 2 * seed + 1))
        rejections += quietly(test, x, y, rng=seed).reject()
    assert rejections <= binom.ppf(0.999, runs, 0.05)


def test_discrete_rows_are_tested_as_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 2)).astype(float)
    Y = rng.integers(0, 3, (150, 2)).astype(float)
    result = QUICK.run(X, Y, rng=0)
    assert result.sizes == (200, 150) and result.checks == ()
    for rows in (10, 20, 40, 80):
        X = rng.integers(0, 4, (rows, 2)).astype(float)
        Y = rng.integers(0, 4, (rows, 2)).astype(float)
        assert QUICK.run(X, Y, rng=0).sizes == (rows, rows)


def test_what_becomes_of_copies_is_for_the_user_to_say():
    X = np.repeat(normal(50, 0), 3, axis=0)
    Y = normal(60, 1)
    once = quietly(QUICK, X, Y, rng=0)
    assert once.sizes == (50, 60)
    assert once.pvalue == QUICK.run(X[::3], Y, rng=0).pvalue
    assert once.samples.rows[0].tolist() == list(range(0, 150, 3))
    assert once.dropped == (0, 0)
    with pytest.raises(InputError, match="Every row of X comes 3 times"):
        quietly(QUICK, X, Y, rng=0, repeats="refuse")
    allowed = quietly(QUICK, X, Y, rng=0, repeats="allow")
    assert allowed.sizes == (150, 60) and allowed.checks.severe
    with pytest.raises(
        InputError, match="repeats is 'never'; use one of 'once', 'refuse', 'allow'"
    ):
        QUICK.run(X, Y, repeats="never")


def test_a_part_of_a_sample_is_compared_with_the_rest():
    X = normal(100, 0)
    result = quietly(QUICK, X, X[:30], rng=0)
    assert result.sizes == (70, 30)


def test_copies_in_a_stream_are_refused():
    X = np.repeat(normal(50, 0), 3, axis=0)
    with pytest.raises(InputError, match="repeats='allow'"):
        QUICK.run(Stream.batches([X[:70], X[70:]]), normal(50, 1), rng=0)
    quietly(QUICK, Stream.batches([X[:70], X[70:]]), normal(50, 1), rng=0, repeats="allow")


def test_copies_of_images_and_of_rows_with_gaps():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 8, 8), dtype=np.uint8)
    other = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    assert quietly(QUICK, np.concatenate([images, images]), other, rng=0).sizes == (50, 40)
    table = pd.DataFrame(normal(60, 0), columns=["a", "b"])
    table.loc[3, "a"] = np.nan
    columns = twosample.Columns(missing="drop")
    doubled = pd.concat([table, table])
    result = quietly(
        QUICK, doubled, pd.DataFrame(normal(50, 1), columns=["a", "b"]), columns=columns
    )
    assert result.sizes == (59, 50) and result.dropped == (1, 0)


# Columns that number the rows


@pytest.mark.parametrize("streamed", [False, True, "once"])
def test_a_running_identifier_is_left_out(streamed):
    def sample(seed, first):
        table = pd.DataFrame(normal(60, seed), columns=["a", "b"]).assign(
            id=range(first, first + 60)
        )
        parts = [table[:20], table[20:]]
        if streamed:
            return iter(parts) if streamed == "once" else Stream.batches(parts)
        return table

    rejections = 0
    for seed in range(20):
        result = quietly(QUICK, sample(seed, 0), sample(seed + 100, 60), rng=seed)
        rejections += result.reject()
        assert result.checks.severe[0].column == "id"
    assert rejections <= binom.ppf(0.999, 20, 0.05)
    assert result.fitted.schema.rules.drop == ("id",)


def test_an_identifier_that_is_named_is_tested():
    X = pd.DataFrame({"a": normal(60, 0)[:, 0], "id": range(60)})
    Y = pd.DataFrame({"a": normal(60, 1)[:, 0], "id": range(60, 120)})
    kept = twosample.Columns(kinds={"id": "number"})
    result = QUICK.run(X, Y, rng=0, columns=kept)
    assert result.reject() and result.checks.severe[0].column == "id"
    with pytest.warns(FindingWarning, match="id numbers the rows"):
        fitted = LEARNED.fit(X, Y, rng=0)
    assert [column.name for column in fitted.schema.columns] == ["a"]


# The rows of the fit


def test_the_rows_of_the_fit_are_known_again(tmp_path):
    X = normal(300, 0)
    Y = normal(300, 1)
    LEARNED.fit(X, Y, rng=0).save(tmp_path / "kernel.safetensors")
    fitted = twosample.load(tmp_path / "kernel.safetensors")
    with pytest.warns(FindingWarning, match="100 % of these rows are among those"):
        result = fitted.test(X, Y, rng=0)
    assert result.checks.severe[0].kind == "rows of the fit"
    with pytest.warns(FindingWarning, match=r"% of these rows are among those"):
        fitted.test(Stream.batches([X[:100], normal(50, 7)]), normal(80, 8), rng=0)
    assert fitted.test(normal(50, 2), normal(50, 3), rng=0).checks.severe == ()
    assert (tmp_path / "kernel.safetensors").stat().st_size < 100_000
    views = twosample.spectral(permutations=19).fit(X, Y, rng=0)
    (note,) = views.test(X, Y, rng=0).checks
    assert note.severity == "note"


def test_a_fingerprint_is_bounded_and_fair():
    x = torch.tensor(normal(4000, 0))
    y = torch.tensor(normal(4000, 1))
    print_of_both = Fingerprint.of(x, y)
    assert (len(print_of_both.keys), print_of_both.different) == (1024, 8000)
    known, comparable = print_of_both.known(point_keys(torch.cat([x[:1000], x[:1000] + 1])))
    assert comparable < 500 and 0.3 < known / comparable < 0.7
    with pytest.raises(InputError):
        Fingerprint(3, 2, (5, 1))


# Where it is shown


def run(*arguments):
    return CliRunner().invoke(build(), list(map(str, arguments)))


def test_the_command_says_it_first_and_once(tmp_path):
    X = pd.DataFrame(normal(60, 0), columns=["a", "b"]).assign(id=range(60))
    X.to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame(normal(60, 1), columns=["a", "b"]).assign(id=range(60, 120)).to_csv(
        tmp_path / "b.csv", index=False
    )
    words = ["test", tmp_path / "a.csv", tmp_path / "b.csv", "--method", "mmd-median", "--seed", 0]
    answer = run(*words)
    assert answer.exit_code == 0 and answer.stdout.startswith("No difference found")
    assert answer.stderr.count("id numbers the rows") == 1
    assert answer.stderr.startswith("severe: ")
    assert run(*words, "--strict").exit_code == 2
    record = json.loads(run(*words, "--json").stdout)
    assert [one["column"] for one in record["checks"]] == ["id"]
    same = ["test", tmp_path / "a.csv", tmp_path / "a.csv", "--method", "mmd-o", "--seed", 1]
    assert run(*same).stdout.startswith("No difference found: p = 1.000")
    assert "use once, refuse or allow" in run(*words, "--repeats", "maybe").stderr


def test_the_report_shows_it():
    X = normal(60, 0)
    result = quietly(QUICK, np.repeat(X, 2, axis=0), normal(60, 1), rng=0)
    page = render(result, rng=0)
    assert 'id="checks"' in page and "every row of x comes 2 times" in page.lower()
    assert 'id="checks"' not in render(QUICK.run(X, normal(60, 1), rng=0), rng=0)
    assert result.to_dict()["checks"][0]["kind"] == "repeated rows"
