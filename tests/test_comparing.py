"""One reference against many samples: what is corrected, what does not depend on what, and what is
not lost."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from matplotlib.figure import Figure
from scipy.stats import binom
from statsmodels.stats.multitest import multipletests
from torch import nn
from typer.testing import CliRunner

import twosample
from twosample._api import resolve
from twosample._cli import main as cli
from twosample._insight.comparing import _permutations, _with_enough, compare
from twosample._insight.corrections import CORRECTIONS, growth
from twosample.errors import IncompatibleParts, InputError, InputWarning

ROOT = Path(__file__).parents[1]
QUICK = "mmd-median"


def normal(seed: int, rows: int = 60, shift: float = 0.0, columns: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1, (rows, columns))


REFERENCE = normal(0, 80)
SAMPLES = {
    "same": normal(1),
    "shifted": normal(2, 50, 1.0),
    "again": normal(3, 40),
    "far": normal(4, 30, 3.0),
}


@pytest.fixture(scope="module")
def compared() -> twosample.Comparison:
    return compare(REFERENCE, SAMPLES, QUICK, rng=0)


# The correction


@pytest.mark.parametrize(("name", "theirs"), [("holm", "holm"), ("bh", "fdr_bh"), ("by", "fdr_by")])
@pytest.mark.parametrize("seed", range(5))
def test_corrections_are_those_of_statsmodels(name, theirs, seed):
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 40, size=seed + 1) / 40  # ties among them
    adjusted = CORRECTIONS[name][1](p)
    assert adjusted == pytest.approx(multipletests(p, method=theirs)[1])
    assert all(0 < q <= 1 for q in adjusted)
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(np.asarray(adjusted)[order]) >= -1e-15)
    assert CORRECTIONS[name][1]([]) == []


@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_what_a_correction_multiplies_a_single_finding_by(count):
    assert growth("none", count) == pytest.approx(1)
    assert growth("holm", count) == growth("bh", count) == pytest.approx(count)
    assert growth("by", count) == pytest.approx(count * sum(1 / k for k in range(1, count + 1)))


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_adjusted_p_values_and_verdicts(correction, compared):
    found = compare(REFERENCE, SAMPLES, QUICK, correction=correction, rng=0)
    assert found.pvalues == compared.pvalues  # a correction changes nothing else
    assert list(found.adjusted.values()) == CORRECTIONS[correction][1](list(found.pvalues.values()))
    assert found.reject() == found.reject(0.05) == ["shifted", "far"]
    assert found.reject(1e-4) == []


def test_the_older_name_of_reject_warns_and_works(compared):
    with pytest.warns(DeprecationWarning, match="is now Comparison.reject") as caught:
        assert compared.rejected(0.01) == compared.reject(0.01)
    assert caught[0].filename == __file__


@pytest.mark.slow
def test_the_chance_of_any_false_finding_is_at_most_alpha():
    # Five samples like the reference, which they share: dependent tests. Holm must hold, and
    # without it this must not.
    alpha, count, runs = 0.2, 5, 120
    rng = np.random.default_rng(0)
    false = dict.fromkeys(("holm", "none"), 0)
    for seed in range(runs):
        reference, *samples = rng.normal(size=(count + 1, 8, 1))
        found = compare(
            reference, dict(zip("abcde", samples, strict=True)), QUICK, permutations=99, rng=seed
        )
        for correction in false:
            adjusted = CORRECTIONS[correction][1](list(found.pvalues.values()))
            false[correction] += min(adjusted) <= alpha
    limit = binom.ppf(1 - 1e-6, runs, alpha)
    assert 0 < false["holm"] <= limit < false["none"]


# The tests


def test_a_comparison_is_a_mapping_in_the_order_given(compared):
    assert list(compared) == list(SAMPLES) == list(compared.names)
    assert len(compared) == 4 and "far" in compared and "near" not in compared
    assert compared["far"].sizes == (80, 30)
    assert {name: result.pvalue for name, result in compared.items()} == compared.pvalues
    with pytest.raises(AttributeError):
        compared.alpha = 0.1


@pytest.mark.parametrize("method", [QUICK, twosample.mmd_o(steps=5, permutations=99), "auto"])
def test_a_sample_does_not_depend_on_the_others_and_equals_a_test_of_its_own(method):
    everything = compare(REFERENCE, SAMPLES, method, rng=7)
    alone = compare(REFERENCE, {"again": SAMPLES["again"]}, method, rng=7)
    single = twosample.two_sample_test(
        REFERENCE, SAMPLES["again"], method, rng=everything.seeds["again"]
    )
    for other in (alone["again"], single):
        assert other.to_dict()["effect"] == everything["again"].to_dict()["effect"]
        assert (
            other.pvalue == everything["again"].pvalue
            and other.chosen == everything["again"].chosen
        )
        assert np.array_equal(other.null_distribution, everything["again"].null_distribution)
    renamed = compare(REFERENCE, {"other": SAMPLES["again"]}, method, rng=7)
    assert renamed.seeds["other"] != everything.seeds["again"]


def test_one_seed_one_answer_and_none_is_kept():
    first, second = (compare(REFERENCE, SAMPLES, QUICK, permutations=99) for _ in range(2))
    assert first.seeds != second.seeds
    again = twosample.two_sample_test(
        REFERENCE, SAMPLES["same"], QUICK, permutations=99, rng=first.seeds["same"]
    )
    assert again.pvalue == first["same"].pvalue
    assert (
        compare(REFERENCE, SAMPLES, QUICK, rng=3).seeds
        == compare(REFERENCE, SAMPLES, QUICK, rng=3).seeds
    )


def test_each_pair_learns_its_own_categories():
    def table(levels: str, rows: int = 40) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "kind": [levels[k % len(levels)] for k in range(rows)],
                "x": normal(ord(levels[-1]), rows)[:, 0],
            }
        )

    found = compare(
        table("ab"), {"more": table("abc"), "other": table("ad")}, QUICK, permutations=99, rng=0
    )
    features = {name: set(result.fitted.schema.features) for name, result in found.items()}
    assert features["more"] - features["other"] == {"kind=c"}
    assert features["other"] - features["more"] == {"kind=d"}


def test_columns_are_chosen_for_all_samples_and_rows_left_out_are_counted():
    def table(seed: int, rows: int) -> pl.DataFrame:
        numbers = np.random.default_rng(seed).normal(size=rows)
        return pl.DataFrame({"id": range(rows), "x": [None, *numbers[1:].tolist()]})

    samples = {"a": table(1, 30), "b": table(2, 40)}
    strict = twosample.Columns(missing="error")
    with pytest.raises(InputError, match=r"^a: 2 things .* X .* missing .* Y .* missing"):
        compare(table(0, 50), samples, QUICK, columns=strict, rng=0)
    columns = twosample.Columns(drop=["id"], missing="drop")
    found = compare(table(0, 50), samples, QUICK, columns=columns, rng=0)
    assert found["b"].sizes == (49, 39) and found["b"].fitted.schema.features == ("x",)
    assert found.notes == tuple(
        f"{name}: left out for missing values: 1 + 1 rows." for name in "ab"
    )


def test_tests_without_shuffles_and_without_an_mmd_can_be_compared():
    found = compare(REFERENCE, SAMPLES, twosample.c2st_s(steps=5, asymptotic=True), rng=0)
    assert len(found["far"].null_distribution) == 0 and found.notes == ()
    found = compare(REFERENCE, SAMPLES, twosample.me(steps=5, permutations=99), rng=0)
    assert found.cells()[0][-1] == "statistic" and "far" in found.reject()
    streams = {
        name: twosample.Stream.batches(lambda s=s: iter(np.split(s, 2)))
        for name, s in SAMPLES.items()
    }
    assert compare(REFERENCE, streams, QUICK, rng=0).reject() == ["shifted", "far"]


# Enough shuffles


def test_many_samples_have_enough_shuffles_by_default():
    samples = {str(k): normal(100 + k, 5) for k in range(30)}
    few, many = (
        compare(REFERENCE[:20], chosen, QUICK, alpha=0.01, rng=0)
        for chosen in ({"0": samples["0"]}, samples)
    )
    assert len(few["0"].null_distribution) == 999
    assert (
        len(many["0"].null_distribution) == 2 * 3000 - 1
    )  # one alone can be found from 2999 on; twice as many are used
    assert many.notes == ()


def test_a_second_test_takes_more_shuffles_for_as_many_samples():
    """At 50 samples 1000 labellings are just enough for p, but not for p / 0.9."""
    assert _permutations(twosample.spectral(), False, "holm", 50, 0.05) == 999
    enough = _permutations(twosample.auto(), False, "holm", 50, 0.05)
    assert 50 / (0.9 * (enough + 1)) <= 0.05
    assert _permutations(twosample.auto(), False, "holm", 45, 0.05) == 999
    # The second test of the default has a tenth of the level.
    few = _with_enough(twosample.auto(), False, "holm", 4, 0.05)
    many = _with_enough(twosample.auto(), False, "holm", 30, 0.05)
    assert few.then.test.calibration.permutations == 999
    assert 30 / (many.then.test.calibration.permutations + 1) / many.then.share <= 0.05
    assert many.calibration.permutations == 999
    asked = resolve(twosample.auto(), permutations=99)
    with pytest.warns(twosample.InputWarning, match="no p-value is below 0.01"):
        assert _with_enough(asked, True, "holm", 30, 0.05) == asked


def test_a_first_part_decides_where_the_correction_leaves_no_doubt(monkeypatch):
    levels = []
    as_it_is = twosample.TwoSampleTest.run

    def run(self, *args, **keywords):
        levels.append(self.then.alpha)
        return as_it_is(self, *args, **keywords)

    monkeypatch.setattr(twosample.TwoSampleTest, "run", run)
    samples = {"one": normal(1), "two": normal(2)}
    for correction, alpha in (("holm", 0.04), ("none", 0.04), ("holm", 5e-324)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)  # no p-value reaches the last
            compare(REFERENCE, samples, permutations=99, correction=correction, alpha=alpha, rng=0)
    assert levels == [0.02, 0.02, 0.04, 0.04, 5e-324, 5e-324]


def test_too_few_shuffles_are_said_before_and_after():
    with pytest.warns(
        InputWarning, match=r"with 78 permutations .* for 4 samples .* use 79 permutations or more"
    ):
        found = compare(REFERENCE, SAMPLES, QUICK, permutations=78, rng=0)
    assert found.reject() == [] and found.notes[0].startswith(
        "No sample can be found to differ by itself at alpha"
    )
    assert compare(REFERENCE, SAMPLES, QUICK, permutations=79, rng=0).reject() == [
        "shifted",
        "far",
    ]
    tiny = compare(
        REFERENCE[:3], SAMPLES | {"three": normal(9, 3, 50)}, QUICK, rng=0
    )  # 20 labellings of 3 + 3
    assert any(note.startswith("None of three can be found") for note in tiny.notes)


def test_a_level_out_of_reach_is_a_warning_and_takes_no_memory():
    with pytest.warns(
        InputWarning, match=r"with 999 permutations .* but alpha is 1e-09; choose a larger one\."
    ):
        found = compare(REFERENCE, SAMPLES, QUICK, alpha=1e-9, rng=0)
    assert len(found["same"].null_distribution) == 999


# What fails


class Untrained(nn.Module):
    """A network that must not run."""

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a network has run before all samples were checked")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            normal(0, 20, columns=3),
            r"wrong: X has 2 columns but Y has 3; .* \(X is the reference, Y is wrong\.\)",
        ),
        (normal(0, 3), r"wrong: Y has 3 rows; .* needs at least 4 .*Y is wrong"),
        ([[1.0, float("inf")]] * 9, r"wrong: Y .*"),
    ],
)
def test_a_sample_that_cannot_be_tested_is_named_before_anything_is_trained(bad, message):
    with pytest.raises(InputError, match=message):
        compare(REFERENCE, SAMPLES | {"wrong": bad}, twosample.mmd_d(featurizer=Untrained()), rng=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": [SAMPLES["same"]]}, "samples is a list; give a mapping of names to samples"),
        ({"samples": {}}, "there are no samples"),
        ({"samples": {1: SAMPLES["same"]}}, "the name 1 of a sample is a int; names are strings"),
        (
            {"reference": iter([REFERENCE])},
            "the reference is an iterator, which can be read only once",
        ),
        ({"correction": "bonferroni"}, "correction is 'bonferroni'; use one of holm, bh, by, none"),
        ({"alpha": 1.0}, r"alpha is 1\.0; it must lie strictly between 0 and 1"),
        ({"method": "mmd"}, "method 'mmd' does not exist"),
        ({"samples": {"one": [[1.0, 2.0]]}}, "one: Y has 1 row to test"),
        (
            {"method": twosample.mmd_block(asymptotic=True), "permutations": 99},
            "which has no use for permutations=99",
        ),
    ],
)
def test_what_is_wrong_is_a_sentence(arguments, message):
    with pytest.raises((InputError, IncompatibleParts), match=message):
        compare(**{"reference": REFERENCE, "samples": SAMPLES, "method": QUICK} | arguments)
    with pytest.raises(InputError, match="alpha is 2"):
        compare(REFERENCE, {"same": SAMPLES["same"]}, QUICK, permutations=99, rng=0).reject(2)


def test_a_test_that_fails_does_not_lose_the_others():
    broken = twosample.Stream.batches(
        lambda: iter([normal(10, 20), normal(11, 20, columns=3)])
    )  # seen as it is read
    with pytest.warns(InputWarning, match=r"broken: .* It has no result"):
        found = compare(REFERENCE, {"broken": broken, **SAMPLES}, QUICK, rng=0)
    assert (
        list(found) == list(SAMPLES)
        and found.names == ("broken", *SAMPLES)
        and found.unfinished == ()
    )
    assert "columns" in found.failures["broken"]
    assert found.adjusted["far"] == pytest.approx(
        0.005
    )  # of five samples, the one without a result among them
    assert f"- broken has no result: {found.failures['broken']}" in str(found)
    with pytest.raises(InputError):
        compare(REFERENCE, {"broken": broken}, QUICK, rng=0)


def test_warnings_say_which_sample_they_are_about():
    constant = np.column_stack([REFERENCE, np.ones(80)])
    other = np.column_stack([SAMPLES["again"], np.ones(40)])
    with pytest.warns(InputWarning, match="^like it: 1 column is constant"):
        compare(constant, {"like it": other}, QUICK, permutations=99, rng=0)


class Interrupting(dict):
    """Samples; asking a second time for "again", to test it, is as if somebody pressed Ctrl-C."""

    asked = 0

    def __getitem__(self, name: str) -> np.ndarray:
        self.asked += name == "again"
        if self.asked == 2:
            raise KeyboardInterrupt
        return super().__getitem__(name)


def test_an_interrupt_keeps_what_is_done(compared, tmp_path):
    with pytest.raises(KeyboardInterrupt, match="interrupted after 2 of 4 samples") as caught:
        compare(REFERENCE, Interrupting(SAMPLES), QUICK, rng=0)
    assert isinstance(caught.value, twosample.ComparisonInterrupted)
    found = caught.value.comparison
    assert list(found) == ["same", "shifted"] and found.unfinished == ("again", "far")
    assert found.pvalues == {name: compared.pvalues[name] for name in found}
    assert found.adjusted["shifted"] == pytest.approx(
        4 * found.pvalues["shifted"]
    )  # corrected for all four
    assert "Interrupted before again, far" in found.report(tmp_path / "page.html", rng=0).read_text(
        "utf-8"
    )


def test_an_interrupt_in_training_ends_the_comparison():
    """It used to go on with a test that had hardly learned anything, and to return all samples."""

    class Interrupted(twosample.PowerCriterion):
        calls = 0

        def __call__(self, kernel, x, y, *, memory=2**30):
            Interrupted.calls += 1
            # After the 40 steps of the first sample, within those of the second.
            if Interrupted.calls > 100:
                raise KeyboardInterrupt
            return super().__call__(kernel, x, y, memory=memory)

    learning = twosample.Learning(Interrupted(), steps=40)
    test = twosample.TwoSampleTest(twosample.DeepKernel(twosample.MLP()), learning)
    samples = {"first": SAMPLES["same"], "second": SAMPLES["far"], "third": SAMPLES["shifted"]}
    with pytest.raises(twosample.ComparisonInterrupted) as caught:
        compare(REFERENCE, samples, test, permutations=99, rng=0)
    done = caught.value.comparison
    assert len(done) < 3
    assert all("finished" in result.training.stopped for result in done.values())


# What is shown


def test_the_table_and_the_plain_record(compared):
    lines = str(compared).splitlines()
    assert lines[0] == (
        "2 of 4 samples differ from the reference. (mmd-median; p-values adjusted by Holm; alpha = "
        "0.05)"
    )
    assert lines[1].split() == ["sample", "rows", "p", "adjusted", "verdict", "MMD"]
    assert re.match(r"  far +30 +0\.001 +0\.004 +differs +\d", lines[5])
    record = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    assert [sample["name"] for sample in record["samples"]] == list(SAMPLES)
    assert record["rejected"] == ["shifted", "far"] and record["samples"][3]["reject"] is True
    assert record["samples"][1]["seed"] == compared.seeds["shifted"]
    assert repr(compared).startswith("Comparison(correction='holm', alpha=0.05, names=")


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        (["same"], "The sample is not found to differ from the reference."),
        (["far"], "The sample differs from the reference."),
        (["same", "far"], "1 of 2 samples differs from the reference."),
        (["same", "again"], "None of 2 samples is found to differ from the reference."),
    ],
)
def test_the_verdict_is_a_sentence(samples, verdict):
    found = compare(
        REFERENCE, {name: SAMPLES[name] for name in samples}, QUICK, permutations=99, rng=0
    )
    assert found.verdict == verdict


class Texts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)

    def handle_data(self, data):
        self.text += data


def test_a_notebook_shows_names_as_text():
    name = "<script>alert(1)</script>"
    shown = Texts(
        compare(REFERENCE, {name: SAMPLES["same"]}, QUICK, permutations=99, rng=0)._repr_html_()
    )
    assert "script" not in shown.names and name in shown.text


def test_the_figure_has_a_dot_for_each_sample_filled_where_it_differs(compared):
    ax = compared.plot(Figure().add_subplot())
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == [
        result.effect.mmd for result in compared.values()
    ]
    assert [dot.get_markerfacecolor() != "white" for dot in dots] == [False, True, False, True]
    assert [label.get_text().split()[0] for label in ax.get_yticklabels()] == list(SAMPLES)
    whiskers = [
        line.get_xdata()
        for line in ax.lines
        if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"
    ]
    assert all(
        low <= dot.get_xdata()[0] <= high for (low, high), dot in zip(whiskers, dots, strict=True)
    )


@pytest.mark.skipif(os.name != "posix", reason="takes a terminal")
def test_a_bar_on_a_terminal_and_silence_elsewhere(capfd, monkeypatch):
    one = {"same": SAMPLES["same"]}
    compare(REFERENCE, one, QUICK, permutations=99, rng=0)
    assert capfd.readouterr() == ("", "")
    screen, keyboard = os.openpty()
    with os.fdopen(keyboard, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        compare(REFERENCE, one, QUICK, permutations=99, rng=0)
        compare(REFERENCE, one, QUICK, permutations=99, rng=0, progress=False)
        terminal.flush()
        shown = os.read(screen, 10**6).decode()
    os.close(screen)
    assert shown.count("testing samples") >= 1 and capfd.readouterr() == ("", "")


def test_the_page_about_it_gives_what_it_shows(tmp_path, monkeypatch):
    page = ROOT / "docs" / "comparing.md"
    monkeypatch.chdir(tmp_path)
    done = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert done.attempted > 9 and done.failed == 0


# The command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, sample in {"ref": REFERENCE, **SAMPLES}.items():
        pl.DataFrame(sample, schema=["a", "b"]).write_csv(tmp_path / f"{name}.csv")
        np.save(tmp_path / f"{name}.npy", sample)
    pl.DataFrame({"a": [1.0] * 9, "z": [1.0] * 9}).write_csv(tmp_path / "wrong.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, code: int = 0):
    done = CliRunner().invoke(cli.build(), ["compare", *words])
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done


FILES = ["ref.csv", "same.csv", "shifted.csv", "far.csv"]
OPTIONS = ["--method", QUICK, "--seed", "0"]


def test_the_command_shows_a_table(folder):
    done = call(*FILES, *OPTIONS)
    lines = done.stdout.splitlines()
    assert lines[0] == "2 of 3 samples differ from ref.csv: shifted.csv, far.csv."
    assert lines[2].split() == ["sample", "rows", "p", "adjusted", "verdict", "MMD"]
    assert [line.split()[0] for line in lines[3:6]] == FILES[1:]
    assert lines[4].split()[1:5] == ["50", "0.001", "0.003", "differs"]
    assert [line.split()[0] for line in lines[7:]] == [
        "reference",
        "p-values",
        "alpha",
        "method",
        "seed",
    ]
    assert done.stderr == ""
    assert call(*FILES, *OPTIONS, "--quiet").stdout == lines[0] + "\n"


def test_a_program_reads_json_and_statuses(folder):
    found = json.loads(call(*FILES, *OPTIONS, "--json", "--correction", "bh").stdout)
    assert (
        found["correction"] == "bh"
        and found["rejected"] == ["shifted.csv", "far.csv"]
        and found["seed"] == 0
    )
    single = CliRunner().invoke(
        cli.build(),
        [
            "test",
            "ref.csv",
            "far.csv",
            "--method",
            QUICK,
            "--seed",
            str(found["samples"][2]["seed"]),
            "--json",
        ],
    )
    assert json.loads(single.stdout)["statistic"] == found["samples"][2]["statistic"]
    call(*FILES, *OPTIONS, "--fail-on-reject", code=1)
    call("ref.csv", "same.csv", *OPTIONS, "--fail-on-reject", code=0)
    call("ref.npy", "same.npy", "far.npy", *OPTIONS, "--stream")


def test_options_for_files_hold_for_all_of_them(folder):
    Path("gaps.csv").write_text("a,b,c\n1,2,3\n1.5,,3\n2,1,3\n1,2,3\n")
    pl.DataFrame(REFERENCE, schema=["a", "b"]).with_columns(c=pl.lit(3)).write_csv("ref.csv")
    words = ["ref.csv", "gaps.csv", *OPTIONS, "--columns", "a,b"]
    assert (
        "gaps.csv contains 1 missing value (first at line 3, column 'b')"
        in call(*words, "--missing", "error", code=2).stderr
    )
    noted = call(*words).stderr
    assert "column 'b': 0 of 80 in ref.csv, 1 of 4 in gaps.csv" in noted
    done = call(*words, "--missing", "drop", "--report", "page.html")
    assert "- gaps.csv: left out for missing values: 0 + 1 rows." in done.stdout
    assert "gaps.csv: left out for missing values: 0 + 1 rows." in (
        page := Path("page.html").read_text("utf-8")
    )
    assert "--columns a,b --missing drop" in page


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_the_groups_of_one_file(folder, more):
    samples = {"ref": REFERENCE, **SAMPLES}
    parts = [
        pl.DataFrame(rows, schema=["a", "b"]).with_columns(kind=pl.lit(name))
        for name, rows in samples.items()
    ]
    pl.concat(parts).sample(fraction=1.0, shuffle=True, seed=0).write_parquet("all.parquet")
    whole = pl.read_parquet("all.parquet")
    rows = {name: whole.filter(pl.col("kind") == name).drop("kind").to_numpy() for name in samples}
    expected = compare(rows.pop("ref"), dict(sorted(rows.items())), QUICK, rng=0)
    done = call("all.parquet", "--by", "kind=ref", *OPTIONS, "--json", *more)
    found = json.loads(done.stdout)
    assert (
        found["reference"] == "all.parquet where kind is ref"
        and found["rejected"] == expected.reject()
    )
    assert [each["pvalue"] for each in found["samples"]] == [
        result.pvalue for result in expected.values()
    ]
    shown = call(
        "all.parquet", "--by", "kind=ref", *OPTIONS, "--quiet", "--report", "page.html"
    ).stdout
    assert shown == "2 of 4 samples differ from all.parquet where kind is ref: far, shifted.\n"
    assert "--by kind=ref" in Path("page.html").read_text("utf-8")
    for words, message in (
        (["--by", "kind"], "5 values in column 'kind' ('again', "),
        (["--by", "kind=x"], "no 'x' in column 'kind'"),
        (["--by", "=x"], "--by is '=x'; give a column and the value of the reference"),
        (["--by", "absent=x"], "has no column 'absent' for --by"),
        (
            ["same.csv", "--by", "kind=ref"],
            "takes all samples from all.parquet; leave out same.csv",
        ),
        ([], "nothing to compare all.parquet with"),
    ):
        assert message in call("all.parquet", *words, *OPTIONS, code=2).stderr
    whole.with_columns(
        pl.when(pl.col("kind") == "far").then(None).otherwise("kind").alias("kind")
    ).write_csv("gaps.csv")
    assert (
        "30 missing values in column 'kind'"
        in call("gaps.csv", "--by", "kind=ref", *OPTIONS, code=2).stderr
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["ref.csv", "same.csv", "wrong.csv"],
            "error: ref.csv and wrong.csv have different columns",
        ),
        (["ref.csv", "same.csv", "absent.csv"], "error: absent.csv does not exist"),
        (["absent.csv", "same.csv"], "error: absent.csv does not exist"),
        (["ref.csv", "same.csv", "same.csv"], "error: same.csv is given more than once"),
        (
            [*FILES, "--correction", "all"],
            "error: correction is 'all'; use one of holm, bh, by, none.",
        ),
        ([*FILES, "--alpha", "0"], "error: alpha is 0.0; it must lie strictly between 0 and 1."),
        ([*FILES, "--report", "nowhere/page.html"], "error: nowhere/page.html cannot be written"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_a_sentence(folder, words, message):
    done = call(*words, *OPTIONS, code=2)
    assert done.stdout == "" and done.stderr.startswith(message)


def test_the_command_on_the_page_gives_the_same_answer(folder):
    found = json.loads(call(*FILES, "--method", QUICK, "--report", "page.html", "--json").stdout)
    page = Path("page.html").read_text("utf-8")
    command = shlex.split(re.search(r"<code>(twosample .*?)</code>", page)[1])
    assert command[:6] == ["twosample", "compare", *FILES]
    again = json.loads(call(*command[2:]).stdout)
    assert again == found


def test_help_has_examples_and_every_option():
    shown = call("--help").stdout
    assert (
        "    twosample compare reference.csv" in shown and max(map(len, shown.splitlines())) <= 80
    )
    for option in (
        "correction",
        "alpha",
        "seed",
        "report",
        "json",
        "quiet",
        "fail-on-reject",
        "columns",
        "missing",
    ):
        assert f"--{option}" in shown


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_shows_what_is_done_and_writes_the_page(folder):
    program = (
        "import os, signal, sys, time\n"
        "from twosample._cli import main as cli\n"
        "from twosample._files import opening\n"
        "read, asked = opening.open_file, []\n"
        "def open_file(file, *options):\n"
        "    asked.append(file)\n"
        "    if asked.count('far.csv') == 2:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(60)\n"
        "    return read(file, *options)\n"
        "opening.open_file = open_file\n"
        f"sys.argv = ['twosample', 'compare', *{FILES!r}, *{OPTIONS!r}, '--report', 'page.html']\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 130
    assert done.stderr.strip() == "interrupted: 2 of 3 samples have been compared."
    assert done.stdout.startswith("1 of 2 samples differs from ref.csv: shifted.csv.")
    assert (
        "Interrupted before far.csv" in done.stdout
        and "Interrupted before far.csv" in Path("page.html").read_text()
    )
