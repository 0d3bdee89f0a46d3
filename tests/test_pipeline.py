"""What programs take from the command line: exit statuses, JSON, JUnit, lines that repeat a run."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import types
from importlib.resources import files
from xml.etree import ElementTree

import jsonschema
import numpy as np
import polars as pl
import pytest
import yaml

from test_cli import QUICK, ROOT, call, cli
from test_cli import folder as folder  # a fixture
from twosample._data.tables import cut_in_the_middle, told_apart

SCHEMA = json.loads(files("twosample._cli").joinpath("output.v1.json").read_text("utf-8"))

APPLIED = ["kernel.safetensors", "same.csv", "other.csv"]


@pytest.fixture
def fitted(folder):
    """A folder with the file of a fitted test, too."""
    call("fit", "same.csv", "other.csv", "-o", APPLIED[0], *QUICK, "--quiet")
    return folder


# JSON


def validated(command: str, text: str) -> dict:
    """The object of a command, which has to be what the schema says, and nothing else."""
    found = json.loads(text)
    schema = {"$ref": f"#/$defs/{command}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(schema).validate(found)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["schema"] == f"urn:twosample:{command}:1"
    # A reader may meet keys that are new. We may not have any that are not described.
    assert set(found) <= set(SCHEMA["$defs"][command]["properties"])
    return found


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(call("schema").stdout) == SCHEMA
    described = [name for name in SCHEMA["$defs"] if {"$ref": f"#/$defs/{name}"} in SCHEMA["oneOf"]]
    assert len(described) == len(SCHEMA["oneOf"])


def test_every_command_with_json_has_a_schema():
    import typer

    group = typer.main.get_command(cli.build())
    with_json = []
    for name, command in group.commands.items():
        if any("--json" in parameter.opts for parameter in command.params):
            with_json.append(name)
    references = {f"#/$defs/{name}" for name in with_json}
    described = {each["$ref"] for each in SCHEMA["oneOf"]}
    assert references == described, "describe it in src/twosample/_cli/output.v1.json"


def test_json_of_a_test(folder):
    found = validated("test", call("test", "same.csv", "other.csv", *QUICK, "--json").stdout)
    assert found["reject"] is True and found["seed"] == 0


def test_json_of_a_test_with_everything(folder):
    words = ["test", "same.csv", "other.csv", "--method", "mmd-d", "--permutations", "19"]
    words += ["--seed", "0", "--explain", "--report", "page.html", "--json"]
    found = validated("test", call(*words).stdout)
    assert found["training"]["steps"] == len(found["training"]["objective"])
    assert {"explanation", "report", "train_sizes"} <= set(found)
    assert set(found["effect"]) == set(SCHEMA["$defs"]["effect"]["properties"])


def test_json_of_apply_and_fit(fitted):
    found = validated("apply", call("apply", *APPLIED, "--seed", "0", "--json").stdout)
    assert found["kernel"] == APPLIED[0]
    validated("fit", call("fit", "same.csv", "other.csv", "-o", "k", *QUICK, "--json").stdout)


def test_json_of_a_comparison(folder):
    found = validated(
        "compare", call("compare", "same.csv", "other.csv", "again.csv", *QUICK, "--json").stdout
    )
    assert found["rejected"] == ["other.csv"]
    for sample in found["samples"]:
        assert set(sample) <= set(SCHEMA["$defs"]["sample"]["properties"])


def test_json_of_a_watch(folder):
    words = ["watch", "shop.watch", "again.csv", "--reference", "same.csv", "--seed", "0"]
    found = validated("watch", call(*words, "--witness", "columns", "--json").stdout)
    (batch,) = found["new"]
    described = SCHEMA["$defs"]["watch"]["properties"]["new"]["items"]["properties"]
    assert set(batch) == set(described)


@pytest.mark.parametrize("method", ["mmd-median", "spectral"])
def test_json_of_a_plan(folder, method):
    words = ["plan", "same.csv", "other.csv", *QUICK, "--json", "--method", method]
    validated("plan", call(*words).stdout)


def test_what_the_schema_does_not_say_is_noticed(folder):
    found = json.loads(call("test", "same.csv", "other.csv", *QUICK, "--json").stdout)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for change in ({"pvalue": 0}, {"seed": None}, {"schema": "urn:twosample:test:2"}):
        assert not validator.is_valid(found | change)
    assert validator.is_valid(found | {"new": 1})


# JUnit


def cases(file: str = "out.xml") -> dict[str, ElementTree.Element]:
    """The cases of a JUnit file by name; its counts have to be theirs."""
    (suite,) = ElementTree.parse(file).getroot()
    every = list(suite.iter("testcase"))
    assert suite.get("tests") == str(len(every))
    for kind, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert suite.get(count) == str(len(list(suite.iter(kind))))
    return {str(case.get("name")): case for case in every}


def test_junit_of_samples_that_differ(folder):
    call("test", "same.csv", "other.csv", *QUICK, "--junit", "out.xml")
    case = cases()["other.csv against same.csv"]
    failure = case.find("failure")
    assert failure.get("message") == "The samples differ: p = 0.010, at most alpha = 0.05."
    assert "mmd-median, tested on 60 + 60" in failure.text
    assert case.get("classname") == "twosample.test" and float(case.get("time")) >= 0


def test_junit_of_samples_that_do_not(fitted):
    call("test", "same.csv", "again.csv", *QUICK, "--junit", "out.xml", "--json")
    assert cases()["again.csv against same.csv"].find("failure") is None
    call("apply", *APPLIED, "--seed", "0", "--alpha", "0.0001", "--junit", "out.xml")
    (case,) = cases().values()
    assert [each.tag for each in case] == ["system-out"]
    assert "No difference found" in case[0].text


def test_junit_of_an_error(folder):
    call("test", "same.csv", "nosuch.csv", "--junit", "out.xml", code=2)
    error = cases()["nosuch.csv against same.csv"].find("error")
    assert "nosuch.csv does not exist" in error.get("message")


def test_junit_of_a_comparison(folder, monkeypatch):
    from twosample._insight import comparing

    run = comparing.two_sample_test

    def failing(reference, sample, **options):
        if sample.name == "third.csv":
            raise comparing.InputError("it is odd.")
        return run(reference, sample, **options)

    pl.read_csv("same.csv").write_csv("third.csv")
    monkeypatch.setattr(comparing, "two_sample_test", failing)
    words = ["compare", "same.csv", "other.csv", "again.csv", "third.csv", *QUICK]
    call(*words, "--junit", "out.xml", code=2)
    found = cases()
    assert list(found) == ["other.csv", "again.csv", "third.csv"]
    failure = found["other.csv"].find("failure")
    assert failure.get("message").endswith(" after the correction, against same.csv.")
    assert [each.tag for each in found["again.csv"]] == ["system-out"]
    assert found["third.csv"].find("error").get("message") == "it is odd."


def test_a_junit_file_that_cannot_be_written_is_found_out_at_once(folder, monkeypatch):
    def never(*_: object, **__: object) -> None:
        pytest.fail("it was computed all the same")

    monkeypatch.setattr("twosample._api.two_sample_test", never)
    done = call("test", "same.csv", "other.csv", "--junit", "nosuch/out.xml", code=2)
    assert done.stderr.startswith("error:") and "nosuch" in done.stderr


def test_names_that_xml_cannot_hold(folder):
    pl.read_csv("same.csv").write_csv("a\x08<&\ud800.csv".encode("utf-8", "ignore").decode())
    file = "a\x08<&.csv"
    call("test", "same.csv", file, *QUICK, "--junit", "out.xml")
    assert list(cases()) == ["a\\x08<&.csv against same.csv"]


# A line that repeats a run


@pytest.mark.parametrize("seed", [[], ["--seed", "0"], ["--seed", "7"]], ids=str)
def test_the_command_that_is_shown_repeats_the_run(folder, seed):
    words = ["test", "same.csv", "again.csv", "--method", "mmd-median", "--permutations", "99"]
    first = json.loads(call(*words, *seed, "--json", "--alpha", "0.1").stdout)
    program, *again = shlex.split(first["command"])
    assert program == "twosample" and "--seed" in again
    assert json.loads(call(*again).stdout) == first


def test_a_report_has_the_command_with_its_seed(folder):
    call("test", "same.csv", "other.csv", *QUICK, "--report", "page.html")
    page = (folder / "page.html").read_text()
    (line,) = re.findall(r"<code>(twosample test [^<]*)</code>", page)
    assert "--seed 0" in line
    call("compare", "same.csv", "other.csv", *QUICK, "--report", "page.html")
    assert "--seed 0" in (folder / "page.html").read_text()


# Words


def test_what_was_shuffled_is_for_those_who_ask(folder):
    words = ["test", "same.csv", "other.csv", *QUICK]
    assert "against 99 permutations\n" in call(*words).stdout
    shown = call(*words, "--verbose").stdout
    assert "against 99 permutations of 60 + 60 points\n" in shown
    assert "--verbose" in shown.splitlines()[-1] and "--seed 0" in shown.splitlines()[-1]
    done = call(*words, "--verbose", "--quiet", code=2)
    assert "leave out one of them" in done.stderr


def test_an_explanation_calls_the_samples_by_their_names(folder):
    shown = call("test", "same.csv", "other.csv", *QUICK, "--explain").stdout
    assert "What tells same.csv from other.csv" in shown
    assert re.search(r"^  other\.csv +row \d+", shown, re.MULTILINE)
    assert not re.search(r"\b[XY]\b", shown)


def test_a_message_about_few_rows_names_the_file(folder):
    pl.read_csv("other.csv")[:1].write_csv("one.csv")
    pl.read_csv("other.csv")[:3].write_csv("three.csv")
    done = call("test", "same.csv", "one.csv", "--method", "mmd-median", code=2)
    assert (
        done.stderr == "error: one.csv has 1 row to test; a test needs at least 2 in each sample.\n"
    )
    done = call("test", "same.csv", "three.csv", "--method", "mmd-d", code=2)
    assert done.stderr.startswith("error: three.csv has 3 rows; with train_fraction=0.5")
    assert "X is" not in done.stderr


def test_a_column_that_is_called_x_is_no_sample(folder):
    for name in ("same", "other"):
        table = pl.read_csv(f"{name}.csv").rename({"size": "X"})
        table.write_csv(f"{name}.csv")
    done = call("test", "same.csv", "other.csv", "--columns", "Y", code=2)
    assert "same.csv has no column 'Y'" in done.stderr and "(X is" not in done.stderr


def test_a_report_calls_samples_by_their_own_names(folder):
    for name in ("january", "february"):
        (folder / name).mkdir()
        pl.read_csv("same.csv").write_csv(f"{name}/orders.csv")
    words = ["test", "january/orders.csv", "february/orders.csv", *QUICK]
    call(*words, "--report", "page.html")
    page = (folder / "page.html").read_text()
    assert "<b>january/orders.csv</b>" in page and "<b>february/orders.csv</b>" in page


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (("X", "Y"), ("X", "Y")),
        (("data/a.csv", "data/b.csv"), ("a.csv", "b.csv")),
        (("data/a/x.csv", "data/b/x.csv"), ("a/x.csv", "b/x.csv")),
        (("/tmp/a.csv", "/var/b.csv"), ("/tmp/a.csv", "/var/b.csv")),
        (("a.csv", "a.csv"), ("a.csv", "a.csv")),
    ],
)
def test_folders_that_names_share_are_left_out(given, shown):
    assert told_apart(*given) == shown


def test_long_names_are_cut_in_the_middle_and_stay_apart():
    rng = np.random.default_rng(0)
    for _ in range(200):
        length = int(rng.integers(1, 120))
        first = "".join(rng.choice([*"ab"], length))
        at = int(rng.integers(length))
        second = first[:at] + "c" + first[at + 1 :]
        x, y = told_apart(first, second)
        assert x != y
        assert first.startswith(x.split("…")[0]) and second.endswith(y.split("…")[-1])
    assert len(cut_in_the_middle("a" * 99 + "b", 40)) == 40


# The page


PAGE = (ROOT / "docs" / "pipeline.md").read_text()


def block(language: str, containing: str) -> str:
    """The block of the page in a language with something in it."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (text,) = [each for each in found if containing in each]
    return text


@pytest.fixture
def program(folder, monkeypatch):
    """A folder whose samples have the page's names, and `twosample` as a program on the path."""
    (folder / "same.csv").rename("reference.csv")
    (folder / "again.csv").rename("equal.csv")
    places = folder / "bin"
    places.mkdir()
    script = places / "twosample"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m twosample "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{places}{os.pathsep}{os.environ['PATH']}")
    return folder


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False
    )


def test_examples_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(str(ROOT / "docs" / "pipeline.md"), module_relative=False)
    assert results.attempted == 5 and results.failed == 0


def test_the_statuses_on_the_page_are_those_of_help():
    table = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    shown = call("--help").stdout
    assert re.findall(r"^    (\d+) ", shown, re.MULTILINE) == table


def test_the_json_on_the_page(monkeypatch):
    monkeypatch.chdir(ROOT)
    command, shown = re.search(r"```console\n\$ twosample (.*)\n(.*) \.\.\.\n```", PAGE).groups()
    assert call(*shlex.split(command)).stdout.startswith(shown)


@pytest.mark.slow
def test_the_script_for_cron(program):
    (program / "nightly.sh").write_text(block("bash", "nightly.sh"))
    silent = shell("bash nightly.sh reference.csv equal.csv")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    loud = shell("bash nightly.sh reference.csv other.csv")
    assert loud.returncode == 1
    assert loud.stdout.startswith(
        "other.csv differs, see drift.html\nThe samples differ: p = 0.001"
    )
    assert (program / "drift.html").exists()
    lost = shell("bash nightly.sh reference.csv nosuch.csv")
    assert lost.returncode == 2 and "no verdict on nosuch.csv\nerror: nosuch.csv" in lost.stdout


@pytest.mark.slow
def test_the_workflow_for_github(program):
    workflow = yaml.safe_load(block("yaml", "actions/checkout"))
    (step,) = [each for each in workflow["jobs"]["drift"]["steps"] if "name" in each]
    (program / "days").mkdir()
    for name in ("other", "equal"):
        (program / f"{name}.csv").rename(program / "days" / f"{name}.csv")
    done = shell(step["run"])
    assert done.returncode == 1, done.stderr
    assert set(cases("drift.xml")) == {"days/other.csv", "days/equal.csv"}
    assert (program / "drift.html").exists()


@pytest.mark.slow
def test_the_task_for_airflow(program, monkeypatch):
    class Failed(Exception):
        pass

    called = []
    named = {
        "airflow": types.ModuleType("airflow"),
        "airflow.exceptions": types.SimpleNamespace(AirflowFailException=Failed),
        # A DAG is only declared here: the function that makes it is not called.
        "airflow.sdk": types.SimpleNamespace(
            task=lambda function: function,
            dag=lambda schedule: lambda function: lambda: called.append(schedule),
        ),
    }
    for name, module in named.items():
        monkeypatch.setitem(sys.modules, name, module)
    names: dict = {}
    exec(block("python", "airflow.sdk"), names)
    assert called == ["30 4 * * *"]
    task = names["same_as_reference"]
    assert task("reference.csv", "equal.csv")["reject"] is False
    with pytest.raises(
        Failed, match=r"other\.csv differs .* repeat it with twosample test .*--seed"
    ):
        task("reference.csv", "other.csv")
    with pytest.raises(RuntimeError, match=r"nosuch\.csv does not exist"):
        task("reference.csv", "nosuch.csv")


def test_the_suite_for_pytest():
    names: dict = {}
    exec(block("python", "old_simulator"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def test_samples_of_a_comparison_that_begin_alike_stay_apart_on_its_page(folder):
    samples = [f"orders-of-the-shop-in-the-old-town-{day}.csv" for day in ("monday", "tuesday")]
    for file in samples:
        pl.read_csv("same.csv").write_csv(file)
    call("compare", "same.csv", *samples, *QUICK, "--report", "page.html")
    page = (folder / "page.html").read_text()
    shown = {name for name in re.findall(r"<bdi>([^<]*)</bdi>", page) if "…" in name}
    assert shown == {cut_in_the_middle(file, 34) for file in samples} and len(shown) == 2
