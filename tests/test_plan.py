"""`twosample plan`, as a person and as a program would use it."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import twosample
from twosample import _api as api
from twosample._cli import main as cli
from twosample._insight.power import predict_power

QUICK = ["--method", "mmd-median", "--permutations", "99", "--seed", "0"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to stand in: near and far differ from same, again does not."""
    rng = np.random.default_rng(7)
    for name, shift in (("same", 0.0), ("again", 0.0), ("near", 0.6), ("far", 2.0)):
        pl.DataFrame(
            {"size": rng.normal(shift, 1, 60).round(4), "width": rng.normal(0, 1, 60)}
        ).write_csv(tmp_path / f"{name}.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, code: int = 0) -> SimpleNamespace:
    done = CliRunner().invoke(cli.build(), list(words))
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done


def test_a_plan_in_words(folder):
    needs, power, effect, *rest = call("plan", "same.csv", "near.csv", *QUICK).stdout.splitlines()
    found = json.loads(call("plan", "same.csv", "near.csv", *QUICK, "--json").stdout)
    tested, (low, high) = found["needed_tested"], found["needed_tested_interval"]
    until = (
        f"{low[0]} + {low[1]} to {high[0]} + {high[1]}" if high else f"at least {low[0]} + {low[1]}"
    )
    assert needs.startswith(f"Power 0.9 takes {tested[0]} + {tested[1]} rows to test ({until}")
    assert power.startswith(f"Testing 60 + 60 rows, as here, has power {found['power']:.2f} (")
    assert power.endswith("at alpha = 0.05.")
    assert effect.startswith("The smallest MMD found with power 0.9 on 60 + 60 rows is ")
    assert rest[0].split()[:2] == ["samples", "same.csv,"] and rest[1].split()[0] == "near.csv,"
    assert [line.split()[0] for line in rest[2:]] == ["method", "statistic", "seed"]


def test_the_default_has_a_plan_in_words_and_in_json(folder):
    words = ["plan", "same.csv", "far.csv", "--permutations", "99", "--seed", "0"]
    needs, power, smallest, *_ = call(*words).stdout.splitlines()
    found = json.loads(call(*words, "--json").stdout)
    n, m = found["needed_tested"]
    assert found["needed_rows"] == [n, m] and found["learned"] is None and n == m < 60
    assert needs.startswith(f"Power 0.9 takes {n} + {m} rows to test (")
    assert power.startswith(f"Testing 60 + 60 rows, as here, has power {found['power']:.2f} (")
    assert smallest.startswith("On 60 + 60 rows a difference ")
    assert f"{found['smallest_multiple']:.2g} times as large" in smallest
    plan = twosample.two_sample_test(
        pl.read_csv("same.csv"), pl.read_csv("far.csv"), permutations=99, rng=0
    ).predict_power()
    assert found["needed_tested_interval"][0][0] == plan.samples_interval()[0]


def test_quiet_is_the_number_of_rows(folder):
    (line,) = call(
        "plan", "same.csv", "far.csv", *QUICK, "-q", "--power", "0.8"
    ).stdout.splitlines()
    assert line.startswith("Power 0.8 takes ")


def test_a_test_that_learns_needs_rows_for_that_too(folder):
    pl.read_csv("far.csv").head(45).write_csv("short.csv")
    words = [
        "plan",
        "same.csv",
        "short.csv",
        "--method",
        "mmd-o",
        "--train-fraction",
        "0.4",
        "--seed",
        "1",
    ]
    assert "with those to learn from" in call(*words).stdout
    found = json.loads(call(*words, "--json").stdout)
    assert (found["learned"], found["tested"]) == ([24, 18], [36, 27])
    (n, m), (all_x, all_y) = found["needed_tested"], found["needed_rows"]
    assert m == round(n * 27 / 36)
    assert (all_x, all_y) == (math.ceil(n * 105 / 63), math.ceil(m * 105 / 63))


def test_json_agrees_with_the_library(folder):
    words = ["plan", "same.csv", "near.csv", *QUICK, "--json", "--power", "0.7", "--alpha", "0.1"]
    found = json.loads(call(*words).stdout)
    plan = predict_power(
        twosample.two_sample_test(
            pl.read_csv("same.csv"), pl.read_csv("near.csv"), "mmd-median", permutations=99, rng=0
        )
    )
    assert found["power"] == plan.power(60, 60, 0.1)
    assert found["power_interval"] == list(plan.power_interval(60, 60, 0.1))
    assert found["needed_tested"] == [plan.samples_needed(0.7, 0.1)] * 2
    assert (found["smallest_mmd"], found["smallest_mmd2"]) == plan.smallest_effect(
        60, power=0.7, alpha=0.1
    )
    assert (found["seed"], found["wanted_power"], found["alpha"]) == (0, 0.7, 0.1)


def test_samples_that_do_not_differ_have_no_plan(folder):
    words = ["plan", "same.csv", "again.csv", *QUICK]
    found = json.loads(call(*words, "--json").stdout)
    assert found["mmd2"] < 0 and found["needed_tested"] is None and found["needed_rows"] is None
    first = call(*words).stdout.splitlines()[0]
    assert first.startswith("No number of rows is known to give power 0.9")
    assert first.endswith("not above 0, so there may be nothing to find.")


def test_help_has_an_example_and_every_option():
    shown = call("plan", "--help").stdout
    assert shown.split("Examples:")[1].splitlines()[1].startswith("    twosample plan ")
    assert max(map(len, shown.splitlines())) <= 80
    for option in (
        "power",
        "method",
        "alpha",
        "permutations",
        "train-fraction",
        "seed",
        "device",
        "json",
        "quiet",
    ):
        assert f"--{option}" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["same.csv", "absent.csv"], "absent.csv does not exist"),
        (["same.csv", "near.csv", "--power", "1"], "--power is 1; it must lie between 0 and 1"),
        (["same.csv", "near.csv", "--power", "nan"], "--power is nan"),
        (["same.csv", "near.csv", "--alpha", "0"], "--alpha is 0"),
        (["same.csv", "near.csv", "--seed", "-1"], "--seed is -1"),
        (["same.csv", "near.csv", "--method", "mmd-x"], "mmd-x"),
        (
            ["same.csv", "near.csv", "--method", "mmd-median", "--permutations", "9"],
            "use --permutations 19 or more",
        ),
        (
            ["same.csv", "near.csv", "--method", "mmd-o", "--train-fraction", "0.95"],
            "takes at least 4",
        ),
    ],
)
def test_bad_input_is_a_sentence_and_status_2(folder, words, message):
    done = call("plan", *words, code=2)
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 2)])
def test_what_ends_a_plan_is_said(folder, monkeypatch, error, code):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(api, "two_sample_test", fail)
    assert call("plan", "same.csv", "near.csv", code=code).stderr.count("\n") == 1
