"""The command line, as a person and as a program would use it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import twosample
from twosample import _api as api
from twosample._cli import main as cli
from twosample._cli.test import too_few_shuffles
from twosample._objectives import PowerCriterion
from twosample._result import format_pvalue
from twosample.errors import InputError, InputWarning, TrainingError

ROOT = Path(__file__).parents[1]

QUICK = ["--method", "mmd-median", "--permutations", "99", "--seed", "0"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to stand in, with samples that differ (same, other) and samples that do not (same,
    again)."""
    rng = np.random.default_rng(7)
    for name, shift in (("same", 0.0), ("again", 0.0), ("other", 2.0)):
        table = {"size": rng.normal(shift, 1, 60).round(4), "kind": rng.choice(["a", "b"], 60)}
        pl.DataFrame(table).write_csv(tmp_path / f"{name}.csv")
        np.save(tmp_path / f"{name}.npy", table["size"][:, None])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, code: int = 0) -> SimpleNamespace:
    """Run the command line in this process."""
    done = CliRunner().invoke(cli.build(), list(words))
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done


def start(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
        "PYTHONWARNINGS": "default",
    }
    command = [sys.executable, "-m", "twosample", *words]
    return subprocess.run(
        command, text=True, env=environment, timeout=300, **{"capture_output": True, **options}
    )


# What a person sees


def test_samples_that_differ(folder):
    done = call("test", "same.csv", "other.csv", *QUICK)
    first, *rest = done.stdout.splitlines()
    assert first == "The samples differ: p = 0.010, at most alpha = 0.05."
    assert rest[0].split(maxsplit=1) == ["samples", "same.csv, 60 rows"]
    assert rest[1].strip() == "other.csv, 60 rows"
    assert [line.split()[0] for line in rest[2:]] == ["method", "statistic", "effect", "seed"]
    assert "mmd-median" in rest[2]
    assert "99" in rest[3]
    assert "AUC" in rest[4]
    assert rest[5].split() == ["seed", "0"]
    assert done.stderr == ""


def test_samples_that_do_not_differ(folder):
    done = call("test", "same.csv", "again.csv", *QUICK, "--fail-on-reject")
    assert done.stdout.startswith("No difference found: p = 0.")
    assert "above alpha = 0.05" in done.stdout


def test_quiet_is_one_line(folder):
    assert len(call("test", "same.npy", "other.npy", *QUICK, "--quiet").stdout.splitlines()) == 1
    assert len(call("test", "same.npy", "other.npy", *QUICK, "-q").stdout.splitlines()) == 1


def test_verdict_depends_on_alpha_and_status_on_the_flag(folder):
    words = ["test", "same.csv", "other.csv", *QUICK]
    assert "differ" in call(*words).stdout
    assert "differ" in call(*words, "--fail-on-reject", code=1).stdout
    assert "at most alpha = 0.011" in call(*words, "--alpha", "0.011").stdout


def test_the_deep_kernel_and_unequal_sizes(folder):
    pl.read_csv("other.csv").head(41).write_csv("short.csv")
    done = call(
        "test",
        "same.csv",
        "short.csv",
        "--method",
        "mmd-d",
        "--permutations",
        "99",
        "--seed",
        "1",
        "--train-fraction",
        "0.4",
    )
    assert done.stdout.startswith("The samples differ: p = 0.010")
    assert "mmd-d, learned on 24 + 16 rows, tested on 36 + 25" in done.stdout


def test_the_default_tests_all_rows(folder):
    done = call("test", "same.csv", "other.csv", "--permutations", "99", "--seed", "1")
    named = call(
        "test", "same.csv", "other.csv", "--permutations", "99", "--seed", "1", "--method", "auto"
    )
    assert done.stdout.startswith("The samples differ: p = 0.010")
    assert "spectral, tested on 60 + 60" in done.stdout
    assert "chosen" not in done.stdout  # too few rows for a second test
    assert named.stdout == done.stdout


def test_a_run_can_be_repeated_from_the_seed_it_shows(folder):
    words = [
        "test",
        "same.csv",
        "again.csv",
        "--method",
        "mmd-median",
        "--permutations",
        "99",
        "--json",
    ]
    first = json.loads(call(*words).stdout)
    assert json.loads(call(*words, "--seed", str(first["seed"])).stdout) == first


def test_methods_lists_the_catalogue():
    shown = call("methods").stdout
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines()]
    assert rows[0] == ["method", "good at", "cost to train; to test", "calibration", "reference"]
    assert [row[0] for row in rows[2:]] == list(twosample.METHODS)
    assert all(len(row) == 5 and all(row) for row in rows[2:])
    assert shown in (ROOT / "docs" / "methods.md").read_text()
    references = (ROOT / "docs" / "the-model.md").read_text()
    sources = {source for row in rows[2:] for source in row[4].split(", ")}
    ours = {"this library", "spectral"}
    assert ours < sources
    assert all(f"[{source}]" in references for source in sources - ours)


def test_version():
    assert call("--version").stdout == f"twosample {twosample.__version__}\n"


def commands(words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All commands and groups of commands, as their help lists them."""
    _, _, listed = call(*words, "--help").stdout.partition("\nCommands:\n")
    inside = [
        line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "
    ]
    return [words, *(found for name in inside for found in commands((*words, name)))]


def test_every_help_has_an_example_and_nothing_is_cut_off():
    every = commands()
    assert {("test",), ("bench", "run"), ("bench", "data", "dcgan", "sample")} <= {*every} and len(
        every
    ) > 15
    for words in every:
        shown = call(*words, "--help").stdout
        _, examples = shown.split("Example", 1)
        assert examples.splitlines()[1].startswith(f"    twosample {' '.join(words)}".rstrip()), (
            words
        )
        assert max(map(len, shown.splitlines())) <= 80, words
        _, _, listed = shown.partition("\nCommands:\n")
        assert all(
            line.endswith(".") and not line.endswith("...") for line in listed.splitlines()
        ), words


def test_help_names_every_option():
    shown = call("test", "--help").stdout
    for option in (
        "method",
        "alpha",
        "permutations",
        "train-fraction",
        "seed",
        "device",
        "json",
        "quiet",
        "fail-on-reject",
    ):
        assert f"--{option}" in shown


def test_help_and_version_are_quick():
    # All in one process: what one of them imports, the next has, too.
    lines = [["--version"], *([*words, "--help"] for words in commands())]
    program = (
        "import sys\n"
        "from twosample._cli.main import main\n"
        f"for words in {lines!r}:\n"
        "    sys.argv = ['twosample', *words]\n"
        "    try: main()\n"
        "    except SystemExit as exit: assert not exit.code, words\n"
        "    heavy = {'numpy', 'polars', 'scipy', 'sqlite3', 'torch'} & {*sys.modules}\n"
        "    assert not heavy, (words, heavy)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


# What a program reads


def test_json_is_one_object_and_nothing_else(folder):
    found = json.loads(call("test", "same.csv", "other.csv", *QUICK, "--json").stdout)
    expected = {
        "files": ["same.csv", "other.csv"],
        "rows": [60, 60],
        "method": "mmd-median",
        "alpha": 0.05,
        "seed": 0,
        "reject": True,
        "pvalue": 0.01,
    }
    assert {key: found[key] for key in expected} == expected
    assert isinstance(found["statistic"], float)


def test_json_agrees_with_the_library(folder):
    found = json.loads(call("test", "same.npy", "other.npy", *QUICK, "--json").stdout)
    result = twosample.two_sample_test(
        np.load("same.npy"), np.load("other.npy"), "mmd-median", permutations=99, rng=0
    )
    assert (found["pvalue"], found["statistic"]) == (result.pvalue, result.statistic)


def test_json_is_valid_whatever_the_numbers(folder, monkeypatch):
    record = {
        "power": np.float32("nan"),
        "curve": (1.0, float("inf"), [np.int64(3), None]),
        "null": np.array([0.5, np.nan]),
    }
    result = SimpleNamespace(
        method="mmd-d",
        chosen=None,
        checks=twosample.Findings(),
        dropped=(0, 0),
        pvalue=0.25,
        statistic=np.nan,
        null_distribution=np.zeros(99),
        share=1.0,
        reject=lambda _: False,
        to_dict=lambda alpha: record,
    )
    monkeypatch.setattr(api, "two_sample_test", lambda *_, **__: result)
    shown = call("test", "same.csv", "other.csv", "--json").stdout
    found = json.loads(shown, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["statistic"] is None
    assert (found["power"], found["curve"], found["null"]) == (
        None,
        [1.0, None, [3, None]],
        [0.5, None],
    )


def test_json_in_a_process_of_its_own(folder):
    # A constant column is worth a warning, which must not get into the output.
    for name in ("same", "other"):
        pl.read_csv(f"{name}.csv").with_columns(unit=pl.lit(1.0)).write_csv(f"{name}.csv")
    done = start("test", "same.csv", "other.csv", *QUICK, "--json", "--fail-on-reject")
    assert done.returncode == 1
    assert json.loads(done.stdout)["reject"] is True
    assert done.stdout.count("\n") == 1
    assert done.stderr.startswith("warning: ")
    assert "unit" in done.stderr
    assert ".py" not in done.stderr


# What goes wrong


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["same.csv", "absent.csv"], "absent.csv does not exist"),
        (["same.csv", "same.txt"], "same.txt have different columns; missing in same.txt: 'kind'"),
        (["same.csv", "."], ". is a folder"),
        (["same.csv", "ragged.csv"], "ragged.csv, line 3: 1 field where the header has 2"),
        (["same.csv", "other.csv", "--alpha", "0"], "--alpha is 0"),
        (["same.csv", "other.csv", "--alpha", "1"], "--alpha is 1"),
        (["same.csv", "other.csv", "--alpha", "nan"], "--alpha is nan"),
        (["same.csv", "other.csv", "--seed", "-1"], "--seed is -1"),
        (["same.csv", "other.csv", "--method", "mmd-x"], "mmd-x"),
        (["same.csv", "other.csv", "--permutations", "0"], "permutations"),
        (["same.csv", "other.csv", "--train-fraction", "1"], "train_fraction"),
        (["same.csv", "other.csv", "--train-fraction", "nan"], "train_fraction"),
        (
            ["same.csv", "other.csv", "--train-fraction", "0.5", "--method", "mmd-median"],
            "train_fraction",
        ),
        (["same.csv", "other.csv", "--device", "toaster"], "toaster"),
        (["same.csv", "columns.csv"], "columns"),
        (["same.csv", "few.csv"], "row"),
        (["same.csv", "header.csv"], "header.csv is empty: it has 0 rows"),
        (
            ["same.csv", "missing.csv", "--missing", "error"],
            "missing.csv contains 1 missing value (first at line 62, column 'size')",
        ),
        (["same.csv", "date.csv"], "same.csv has numbers in column 'size' but date.csv has dates"),
        (["same.csv", "same.npy"], "same.csv has named columns but same.npy has none"),
        (["scalar.npy", "scalar.npy"], "scalar.npy is a single"),
        (
            ["same.csv"],
            "same.csv is one sample; give a second file, or say which column tells two apart: --by",
        ),
    ],
)
def test_bad_input_is_a_sentence_and_status_2(folder, words, message):
    for name, content in {
        "same.txt": "size\n1\n",
        "ragged.csv": "size,kind\n1,a\n2\n",
        "columns.csv": "size,colour\n" + "1,a\n" * 60,
        "few.csv": "size,kind\n1,a\n",
        "header.csv": "size,kind\n",
        "missing.csv": "size,kind\n" + "1,a\n2,b\n" * 30 + "NA,a\n",
        "date.csv": "size,kind\n" + "2020-01-01,a\n2020-01-02,b\n" * 30,
    }.items():
        Path(name).write_text(content)
    np.save("scalar.npy", np.array(3.0))
    done = call("test", *words, code=2)
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.lower().startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", [["test"], ["tset"], ["test", "a", "b", "--colour"], ["test", "a", "b", "c"]]
)
def test_wrong_use_is_status_2(words):
    done = call(*words, code=2)
    assert done.stdout == ""
    assert "Error" in done.stderr


def test_errors_say_which_file_is_which(folder, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise InputError("X has 10 columns but Y has 12.")

    monkeypatch.setattr(api, "two_sample_test", refuse)
    done = call("test", "same.csv", "other.csv", code=2)
    assert done.stderr.splitlines() == [
        "error: X has 10 columns but Y has 12.",
        "(X is same.csv, Y is other.csv.)",
    ]


def test_warnings_are_sentences_on_standard_error(folder, monkeypatch):
    original = api.two_sample_test

    def warn(*arguments: object, **options: object) -> object:
        warnings.warn("column 'unit' of X is constant.", InputWarning, stacklevel=2)
        warnings.warn("column 'unit' of Y is constant.", InputWarning, stacklevel=2)
        warnings.warn("this is for programmers", DeprecationWarning, stacklevel=2)
        return original(*arguments, **options)

    monkeypatch.setattr(api, "two_sample_test", warn)
    done = call("test", "same.csv", "other.csv", *QUICK)
    assert done.stderr.splitlines() == [
        "warning: column 'unit' of X is constant.",
        "(X is same.csv, Y is other.csv.)",
        "warning: column 'unit' of Y is constant.",
    ]


def test_too_few_permutations_for_the_level_is_a_warning(folder):
    done = call(
        "test",
        "same.csv",
        "other.csv",
        "--method",
        "mmd-median",
        "--permutations",
        "9",
        "--seed",
        "0",
    )
    assert done.stdout.startswith("No difference found: p = 0.100")
    assert (
        "warning: with 9 shuffles p is at least 0.1, so nothing can be found at alpha = 0.05;"
        in done.stderr
    )
    assert "--permutations 19 " in done.stderr


@pytest.mark.parametrize(("share", "alpha"), [(1.0, 0.009), (0.9, 0.011), (0.1, 0.011)])
def test_too_few_permutations_for_a_share_of_the_level(share, alpha):
    """With the advised number of permutations p can reach the level, and with one fewer not."""

    def said(count):
        result = SimpleNamespace(null_distribution=np.zeros(count), share=share)
        return too_few_shuffles(result, alpha)

    needed = int(re.search(r"--permutations (\d+) or more", said(99)).group(1))
    assert said(needed) is None
    assert f"--permutations {needed} " in said(needed - 1)


def test_a_pvalue_just_above_the_level_has_the_digits_that_show_it():
    assert format_pvalue(1 / 900) == "0.001"
    assert format_pvalue(1 / 900, 0.001) == "0.00111"
    assert format_pvalue(1 / 900, 0.05) == "0.001"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            TrainingError("the objective is nan at step 3."),
            2,
            "error: the objective is nan at step 3.",
        ),
        (KeyboardInterrupt(), 130, "interrupted: there is no verdict."),
        (MemoryError(), 2, "error: there is not enough memory"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device."),
    ],
)
def test_what_ends_a_run_is_said(folder, monkeypatch, error, code, message):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(api, "two_sample_test", fail)
    assert call("test", "same.csv", "other.csv", code=code).stderr.startswith(message)


def test_an_interrupted_training_leaves_the_old_file(folder, monkeypatch):
    """It used to replace a good file by what little had been learned, with status 0."""
    call("fit", "same.csv", "other.csv", "-o", "k.safetensors", "--method", "mmd-o", "--seed", "0")
    before = Path("k.safetensors").read_bytes()
    original = PowerCriterion.__call__
    steps = []

    def interrupted(self, kernel, x, y, *, memory=2**30):
        steps.append(1)
        if len(steps) == 40:
            raise KeyboardInterrupt
        return original(self, kernel, x, y, memory=memory)

    monkeypatch.setattr(PowerCriterion, "__call__", interrupted)
    done = call(
        "fit", "same.csv", "other.csv", "-o", "k.safetensors", "--method", "mmd-o", code=130
    )
    assert "interrupted: k.safetensors was not written." in done.stderr
    assert done.stdout == ""
    assert Path("k.safetensors").read_bytes() == before


def test_a_mistake_of_ours_is_not_hidden(folder, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(api, "two_sample_test", fail)
    done = CliRunner().invoke(cli.build(), ["test", "same.csv", "other.csv"])
    assert isinstance(done.exception, ZeroDivisionError)


def test_without_typer():
    program = (
        "import sys; sys.modules['typer'] = None; from twosample._cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: the command line takes typer; pip install 'twosample[cli]'.\n"


def test_a_process_fails_with_a_sentence(folder):
    done = start("test", "same.csv", "absent.csv")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: absent.csv does not exist")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="takes a device that is always full")
def test_a_full_disk_is_a_sentence(folder):
    with open("/dev/full", "w") as full:
        done = start(
            "test",
            "same.npy",
            "other.npy",
            *QUICK,
            "--json",
            capture_output=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 2
    assert done.stderr == "error: No space left on device.\n"


def test_a_reader_that_has_gone_is_no_traceback(folder):
    read, write = os.pipe()
    os.close(read)
    done = start(
        "test",
        "same.npy",
        "other.npy",
        *QUICK,
        capture_output=False,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert done.returncode != 0
    assert done.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupt_ends_in_a_sentence(folder):
    program = (
        "import os, signal, sys, threading, time\n"
        "from twosample import _api as api\n"
        "from twosample._cli import main as cli\n"
        "def test(*_, **__):\n"
        "    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    time.sleep(60)\n"
        "api.two_sample_test = test\n"
        "sys.argv = ['twosample', 'test', 'same.npy', 'other.npy']\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 130
    assert done.stderr.strip() == "interrupted: there is no verdict."
    assert done.stdout == ""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(
    "module",
    [
        "typer.colors",
        "torch",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("numpy", "torch._C", "polars")),
    ],
)
def test_an_interrupt_during_an_import_ends_in_a_sentence(folder, module):
    # -X importtime tells of each module when it has been imported.
    command = [sys.executable, "-X", "importtime", "-m", "twosample", "test", "same.csv"]
    process = subprocess.Popen(
        [*command, "other.csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if line.split()[-1] == module:
            process.send_signal(signal.SIGINT)
            break
    stdout, stderr = process.communicate(timeout=60)
    said = [line for line in stderr.splitlines() if not line.startswith("import time:")]
    assert said == ["interrupted: there is no verdict."]
    assert process.returncode == 130
    assert stdout == ""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupt_that_the_shell_has_ignored_stays_so(folder):
    program = (
        "import os, signal, sys\n"
        "from twosample._cli import main as cli\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['twosample', '--version']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="takes a limit for the size of files")
@pytest.mark.parametrize(
    "words",
    [
        (),
        pytest.param(("--json",), marks=pytest.mark.slow),
        pytest.param(("--quiet", "--explain"), marks=pytest.mark.slow),
    ],
)
def test_a_report_on_a_full_disk_costs_no_verdict(folder, words):
    program = (
        "import resource, sys\n"
        "from twosample._cli.main import main\n"
        "import matplotlib.pyplot\n"  # which may write what it knows of fonts
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "main()\n"
    )
    command = ["test", "same.npy", "other.npy", *QUICK, "--report", "page.html", *words]
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True)
    assert done.returncode == 2
    assert re.fullmatch(
        r"error: \S*page\.html cannot be written \(File too large\); .*\n", done.stderr
    )
    assert not Path("page.html").exists()
    if "--json" in words:
        record = json.loads(done.stdout)
        assert "pvalue" in record and "report" not in record
    else:
        assert re.search(r"p = [\d.]+", done.stdout.splitlines()[0])
        assert "page.html" not in done.stdout


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted: page.html was not written."),
        (InputError("no page."), 2, "error: no page."),
        (OSError(28, "No space left on device"), 2, "error: No space left on device."),
        (MemoryError(), 2, "error: there is not enough memory for samples of this size."),
    ],
)
def test_whatever_becomes_of_the_report_there_is_a_verdict(
    folder, monkeypatch, error, code, message
):
    from twosample._show import report

    def fails(*_, **__):
        raise error

    monkeypatch.setattr(report, "write_report", fails)
    words = ["test", "same.npy", "other.npy", *QUICK, "--report", "page.html"]
    done = call(*words, code=code)
    assert done.stderr.strip() == message
    assert "p = " in done.stdout


def test_whatever_becomes_of_the_explanation_there_is_a_verdict(folder, monkeypatch):
    from twosample._insight import explain

    def fails(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(explain, "explain", fails)
    done = call("test", "same.npy", "other.npy", *QUICK, "--explain", code=130)
    assert done.stderr.strip() == "interrupted: the explanation was not finished."
    assert "p = " in done.stdout


# Signals

SLEEPER = (
    "import os, signal, sys, threading, time\n"
    "from twosample import _api as api\n"
    "from twosample._cli import main as cli\n"
    "def test(*_, **__):\n"
    "    for wait in (0.1, 0.2):\n"  # twice: impatience changes nothing
    "        threading.Timer(wait, os.kill, (os.getpid(), signal.{})).start()\n"
    "    try:\n"
    "        time.sleep(60)\n"
    "    finally:\n"
    "        print('cleaned up', flush=True)\n"
    "api.two_sample_test = test\n"
    "sys.argv = ['twosample', 'test', {!r}, {!r}, '--stream']\n"
    "cli.main()\n"
)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        pytest.param("SIGINT", 130, "interrupted", marks=pytest.mark.slow),
        ("SIGTERM", 143, "terminated"),
    ],
)
def test_a_signal_ends_in_a_sentence_and_cleans_up(folder, tmp_path, number, code, word):
    done = subprocess.run(
        [sys.executable, "-c", SLEEPER.format(number, "same.csv", "other.csv")],
        capture_output=True,
        text=True,
        timeout=50,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == code
    assert done.stderr == f"{word}: there is no verdict.\n"
    assert done.stdout == "cleaned up\n"
    assert not list(tmp_path.glob("twosample-*"))


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_signal_during_a_late_import_removes_temporary_folders(tmp_path):
    (tmp_path / "slow_module.py").write_text(
        "import time; print('here', flush=True); time.sleep(60)"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from twosample._cli import interrupts\n"
        "from twosample._data.temporary import make_folder\n"
        "interrupts.end_in_a_sentence(); interrupts.begin_work('nothing.'); make_folder()\n"
        "import slow_module\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stdout.readline() == "here\n"
    assert list(tmp_path.glob("twosample-*"))
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=50)
    assert (process.returncode, said) == (143, "terminated: nothing.\n")
    assert not list(tmp_path.glob("twosample-*"))


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("stream", [(), pytest.param(("--stream",), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_long_query_can_be_interrupted(folder, stream, number, code):
    with contextlib.closing(sqlite3.connect("shop.db")) as database:
        database.execute("CREATE TABLE orders (price)")
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
    # -X importtime tells when sqlite3 has been imported; the query follows.
    command = [sys.executable, "-X", "importtime", "-m", "twosample", "test", *stream]
    process = subprocess.Popen(
        [*command, f"shop.db::{endless}", "same.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.split()[-1] == "twosample._files.database":
            break
    time.sleep(1.5)
    process.send_signal(number)
    began = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - began < 5  # a busy machine; else a few milliseconds
    assert process.returncode == code
    assert said.splitlines()[-1].endswith("ed: there is no verdict.")
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(
    "command",
    [
        ["test", "same.csv", "other.csv", "--explain", "--report", "page.html"],
        ["compare", "same.csv", "other.csv", "--report", "page.html"],
        ["fit", "same.csv", "other.csv", "-o", "kernel.safetensors"],
        ["plan", "same.csv", "other.csv"],
        ["bench", "data", "list"],
    ],
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_at_random_moments(folder, tmp_path, command, number, code):
    moments = np.random.default_rng(code).uniform(0.5, 5, 4)  # Python itself needs a moment first
    for moment in moments:
        process = subprocess.Popen(
            [sys.executable, "-m", "twosample", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(tmp_path)},
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode in (code, 0), said
        assert "Traceback" not in said and "Aborted" not in said
        if process.returncode:
            assert re.search("^(interrupted|terminated): ", said, re.MULTILINE)
        assert not list(tmp_path.glob("twosample-*")) + list(Path().glob(".twosample-*"))
