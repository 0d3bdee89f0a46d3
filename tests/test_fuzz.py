"""The doors against malformed input: what once failed, some of each kind of case of `fuzz/`, and
what hypothesis finds.

`tests/corpus/corpus.json` says of each file what it reads as (`rows`) or what the refusal says
(`says`), and what happened before it was mended (`once`). `python fuzz/run.py` runs many more
cases.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import cases
import numpy as np
import oracles
import polars as pl
import pyarrow as pa
import pytest
import run
import torch
from cases import ACCEPTED, REFUSED, Case, Fault, check_sentence, generator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import twosample
from twosample import InputError
from twosample._cli import main as cli
from twosample._data.survey import as_samples
from twosample._files.formats import read_source


def read(path):
    """The contents of a file, without where its rows stand."""
    return read_source(path).data


CORPUS = Path(__file__).parent / "corpus"
KNOWN = json.loads((CORPUS / "corpus.json").read_text())
QUICK = ["--method", "mmd-median", "--permutations", "19", "--seed", "0"]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A copy of the corpus to stand in."""
    shutil.copytree(CORPUS, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(entries):
    return pytest.mark.parametrize(
        "entry", entries, ids=lambda entry: entry.get("name") or "-".join(entry["words"])[:60]
    )


# What once failed, or is of a kind of its own


@named(KNOWN["reader"])
def test_files_of_the_corpus(entry, corpus, capfd):
    before = sorted(corpus.rglob("*"))
    if "rows" in entry:
        assert len(read(entry["name"])) == entry["rows"]
    else:
        with pytest.raises(InputError) as caught:
            read(entry["name"])
        check_sentence(str(caught.value), entry["name"].partition("::")[0])
        assert entry["says"] in str(caught.value)
    assert sorted(corpus.rglob("*")) == before  # nothing was run and nothing made
    assert capfd.readouterr().err == ""


@named(KNOWN["load"])
def test_saved_tests_of_the_corpus(entry, corpus):
    if "says" not in entry:
        X, Y = np.random.default_rng(0).normal(size=(2, 9, 2))
        assert (
            twosample.load(entry["name"]).test(X, Y, rng=0).pvalue == 0.5
        )  # as it was when it was saved
        return
    with pytest.raises(InputError) as caught:
        twosample.load(entry["name"])
    check_sentence(str(caught.value), entry["name"])
    assert entry["says"] in str(caught.value)


@named(KNOWN["cli"])
def test_commands_of_the_corpus(entry, corpus, monkeypatch):
    monkeypatch.delenv("TWOSAMPLE_DATA", raising=False)
    done = CliRunner().invoke(cli.build(), entry["words"])
    assert done.exit_code == entry["status"], (done.output, done.exception)
    assert entry["says"] in done.output
    assert done.stdout == "" or entry["status"] == 0
    assert "Traceback" not in done.output and "\x1b" not in done.output


def test_every_file_of_the_corpus_is_named():
    entries = [*KNOWN["reader"], *KNOWN["load"]]
    named = {entry["name"].partition("::")[0] for entry in entries} | {
        "corpus.json",
        "abort.parquet",
        "abort.arrow",
    }
    assert {file.name for file in CORPUS.iterdir()} == named
    assert sum(file.stat().st_size for file in CORPUS.rglob("*") if file.is_file()) < 300_000


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("abort.parquet", []),
        pytest.param("abort.arrow", ["--stream"], marks=pytest.mark.slow),
        pytest.param("abort.parquet", ["--stream"], marks=pytest.mark.slow),
        pytest.param("abort.arrow", [], marks=pytest.mark.slow),
    ],
)
def test_damage_of_which_polars_dies(name, more, corpus):
    done = python("-m", "twosample", "test", name, name, *QUICK, *more)
    assert done.returncode == 2 and done.stderr.startswith(f"error: {name} cannot be read")


def within_itself() -> list[object]:
    made: list[object] = [1.0]
    made.append(made)
    return made


MAKERS = {
    "nested tensor": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
    "quantized tensor": lambda: torch.quantize_per_tensor(torch.zeros(3, 2), 0.1, 0, torch.quint8),
    "tensor without values": lambda: torch.zeros(3, 2, device="meta"),
    "names that are the same": lambda: pa.table([[1.0], [2.0]], names=["a", "a"]),
    "list within itself": within_itself,
}


@pytest.mark.filterwarnings("ignore")  # torch's, of tensors that are of no use here
@named([entry for entry in KNOWN["samples"] if "says" in entry])
def test_samples_of_the_corpus(entry):
    make = MAKERS[entry["name"]]
    with pytest.raises(InputError) as caught:
        as_samples(make(), make())
    check_sentence(str(caught.value), "X")
    assert entry["says"] in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        lambda values: pa.table(
            {"a": pa.array(values, pa.int64())}
        ),  # pyarrow does not cast what must be rounded
        lambda values: pl.DataFrame(
            {"a": pl.Series(values, dtype=pl.Int128)}
        ),  # NumPy has none of 128 bits
    ],
)
def test_whole_numbers_that_float64_must_round(table):
    values = [2**53 + 1, 2**53 + 3, -(2**60) - 1]
    assert as_samples(table(values), table(values)).x[:, 0].tolist() == [
        float(value) for value in values
    ]


# Some of each kind of case; the folder and the seed are new, so are the cases


@pytest.mark.filterwarnings("ignore")  # a case is judged with filters of its own
@pytest.mark.parametrize(
    ("door", "count"),
    [
        ("reader", 60),
        pytest.param("reader", 250, marks=pytest.mark.slow),
        ("layout", 100),
        pytest.param("layout", 500, marks=pytest.mark.slow),
        ("samples", 150),
        ("load", 60),
        ("cli", 40),
    ],
)
def test_cases_end_in_an_answer_or_in_a_sentence(door, count, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judge = run.opened(door)
    ends = [
        cases.outcome(judge, judge.case(generator(door, 100, number))) for number in range(count)
    ]
    assert set(ends) == {ACCEPTED, REFUSED}


class Faulty:
    """A door that breaks every rule, one after the other."""

    def case(self, rng: np.random.Generator) -> Case:
        return Case("any")

    def judge(self, case: Case) -> str:
        raise ZeroDivisionError


def test_the_driver_notices_what_fails():
    assert run.attempt(Faulty(), Case("any")).startswith("traceback: Traceback")
    assert "more than 20 seconds of CPU" in run.ended_by(-signal.SIGPROF)
    assert run.ended_by(-signal.SIGSEGV).startswith("crash")
    with pytest.raises(Fault, match="wrong"):
        cases.check(0.5 == 0.25, "a number")
    for bad in (
        "",
        "no end",
        "two\nlines.",
        "at <x object at 0x7f00aa>.",
        "Traceback (most recent call last).",
        "\x1b[3m.",
    ):
        with pytest.raises(Fault, match="sentence"):
            check_sentence(bad)
    with pytest.raises(Fault, match="names none"):
        check_sentence("Something is wrong.", "case.csv")


DEADLY = """
import os
from cases import Case

class Door:
    def case(self, rng):
        return Case("any", data=rng.random())

    def judge(self, case):
        if case.data < 0.5:
            os.abort()
        return "accepted"
"""
START = """
import json, pathlib, sys
sys.path[:0] = sys.argv[1:]
import run
run.DOORS["deadly"], run.FOUND, run.RUNS = "door_deadly", pathlib.Path("found"), pathlib.Path("runs.jsonl")
if __name__ == "__main__":
    print(json.dumps(run.run("deadly", 2, 0)["outcomes"]))
"""


@pytest.mark.slow
def test_a_case_that_ends_its_process_is_found(tmp_path):
    """The child that judges it is gone, the case is kept, and another child goes on after it."""
    ends = [
        "crash" if generator("deadly", 0, number).random() < 0.5 else "accepted"
        for number in range(2)
    ]
    assert ends == ["crash", "accepted"]  # or the test shows nothing: choose another seed
    (tmp_path / "door_deadly.py").write_text(DEADLY)
    (tmp_path / "start.py").write_text(START)
    done = python("start.py", ".", str(Path(run.__file__).parent), cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1]) == {"crash": 1, "accepted": 1}
    assert [file.name for file in (tmp_path / "found").iterdir()] == ["deadly-0-0"]


# What hypothesis finds

text = st.text(alphabet='ab1.,;"\r\n\t é\ufeff\0-e', max_size=6)
slow = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@slow
@given(rows=st.lists(st.lists(text, min_size=2, max_size=2), min_size=1, max_size=5))
def test_text_says_what_python_reads(tmp_path, rows):
    path, content = tmp_path / "case.csv", io.StringIO(newline="")
    csv.writer(content).writerows([["size", "kind"], *rows])
    path.write_text(content.getvalue(), newline="")
    with contextlib.suppress(InputError):
        oracles.agrees_with_csv(read(path), path)


numbers = st.floats() | st.integers(-(2**70), 2**70) | st.booleans() | st.none() | text
nested = st.recursive(numbers, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


@slow
@given(X=nested, Y=nested)
@pytest.mark.filterwarnings("ignore::twosample.InputWarning")
def test_lists_become_finite_points_or_a_sentence(X, Y):
    try:
        samples = as_samples(X, Y)
    except InputError as error:
        check_sentence(str(error), "X", "Y")
    else:
        assert all(
            len(points) > 0 and bool(points.isfinite().all()) for points in (samples.x, samples.y)
        )


@slow
@given(
    columns=st.lists(
        st.lists(st.floats() | st.none(), min_size=3, max_size=3), min_size=1, max_size=3
    )
)
@pytest.mark.filterwarnings("ignore::twosample.InputWarning")
def test_tables_are_accepted_just_where_nothing_is_infinite(columns):
    table = pl.DataFrame(
        {f"c{place}": pl.Series(values, dtype=pl.Float64) for place, values in enumerate(columns)}
    )
    strict = twosample.Columns(missing="error")
    gaps = [[value is None or math.isnan(value) for value in values] for values in columns]
    if any(value is not None and math.isinf(value) for values in columns for value in values):
        with pytest.raises(InputError, match=r"X contains \d+ non-finite value"):
            as_samples(table, table)
        return
    if any(gap for missing in gaps for gap in missing):
        with pytest.raises(InputError, match=r"X contains \d+ missing value"):
            as_samples(table, table, columns=strict)
    else:
        assert as_samples(table, table, columns=strict).x.T.tolist() == columns
    expected = []
    for column, values, missing in zip(
        as_samples(table, table).schema.columns, columns, gaps, strict=True
    ):
        expected.append(
            [column.fill if gap else value for value, gap in zip(values, missing, strict=True)]
        )
        expected += [[float(gap) for gap in missing]] if any(missing) else []
    assert as_samples(table, table).x.T.tolist() == expected


@slow
@given(start=st.integers(0, 2500), length=st.integers(0, 60), new=st.binary(max_size=60))
def test_a_saved_test_with_other_bytes_is_noticed(tmp_path, start, length, new):
    good = (CORPUS / "good.safetensors").read_bytes()
    altered = good[:start] + new + good[start + length :]
    (tmp_path / "case.safetensors").write_bytes(altered)
    if altered == good:
        twosample.load(tmp_path / "case.safetensors")
        return
    with pytest.raises(InputError) as caught:
        twosample.load(tmp_path / "case.safetensors")
    check_sentence(str(caught.value), "case.safetensors")


# Processes that are left alone


def python(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, *words], text=True, env=environment, timeout=300, **given
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="takes a device that is always full")
def test_help_on_a_full_disk_is_a_sentence():
    with open("/dev/full", "w") as full:
        done = python("-m", "twosample", "test", "--help", stdout=full)
    assert (done.returncode, done.stderr) == (2, "error: No space left on device.\n")


@pytest.mark.skipif(os.name != "posix", reason="takes a shell")
def test_a_reader_that_takes_one_line_and_a_closed_standard_error(corpus):
    line = f"{sys.executable} -m twosample test old-mac.csv old-mac.csv {' '.join(QUICK)}"
    head = subprocess.run(
        f"{line} | head -1", shell=True, capture_output=True, text=True, timeout=300
    )
    assert head.stdout.count("\n") == 1 and head.stdout.startswith("No difference found")
    told = head.stderr.count("warning: ") + head.stderr.count("severe: ")
    assert head.stderr.count("\n") == told
    closed = subprocess.run(
        f"{line} 2>&-", shell=True, stdout=subprocess.PIPE, text=True, timeout=300
    )
    assert closed.returncode == 0 and closed.stdout.startswith("No difference found")


@pytest.mark.skipif(os.name != "posix", reason="takes a limit for the size of files")
def test_a_report_that_does_not_fit_leaves_the_old_one(corpus):
    Path("page.html").write_text("old")
    words = ["test", "old-mac.csv", "old-mac.csv", *QUICK, "--report", "page.html"]
    program = (
        "import resource; from twosample._cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); main()"
    )
    done = python("-c", program, *words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "(File too large); what was there before still is."
    )
    assert Path("page.html").read_text() == "old"
    assert not list(Path().glob(".twosample-*"))


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "absent.csv", "absent.csv", "-o", "nowhere/kernel.safetensors"],
        ["test", "absent.csv", "absent.csv", "--report", "nowhere/page.html"],
        [
            "apply",
            "absent.safetensors",
            "absent.csv",
            "absent.csv",
            "--report",
            "nowhere/page.html",
        ],
        ["compare", "absent.csv", "absent.csv", "--report", "nowhere/page.html"],
    ],
    ids=lambda words: words[0],
)
def test_a_place_that_cannot_be_written_is_found_before_anything_is_read(words, corpus):
    done = CliRunner().invoke(cli.build(), words)
    assert done.exit_code == 2
    assert f"{words[-1]} cannot be written, because there is no folder" in done.stderr
