"""The command line: words in any order, options with odd values, files that are not what they
should be.

Which commands and options there are is asked of the application itself, so new ones are fuzzed too.
Most cases run in this process, some in one of their own. A verdict must be that of the library for
the same files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import typer
from cases import ACCEPTED, REFUSED, Case, check, check_sentence
from door_reader import Door as ReaderDoor
from mutations import FIELDS, Rng, pick
from typer.testing import CliRunner

import twosample
from twosample._cli import main as cli
from twosample._files.formats import read_source

METHODS = ["mmd-median"] * 30 + [
    "auto",
    "mmd-mkl",
    "mmd-x",
    "",
    "MMD-D",
    "mmd_median",
    "c2st",
    "me ",
]
WHOLE = [
    "0",
    "-1",
    "1",
    "2",
    "9",
    "19",
    "99",
    "1e3",
    "2.5",
    "abc",
    "",
    " 9",
    "９",
    "9" * 30,
    "-" + "9" * 30,
    "nan",
    "0x10",
    "1_0",
    "2147483648",
]
PARTS = [
    "0.05",
    "0.5",
    "0",
    "1",
    "-1",
    "2",
    "nan",
    "inf",
    "-inf",
    "1e-400",
    "1e400",
    "abc",
    "",
    "0,5",
    "5e-324",
    "0.9999999999999999",
]
PLACES = [
    "out.html",
    "out.safetensors",
    "",
    ".",
    "absent/out.html",
    "/dev/full",
    "/dev/null",
    "good.csv/out",
    "x" * 300,
    "nul\0",
    " ",
    "-",
    "out",
]
DEVICES = ["cpu", "auto", "cuda", "meta", "toaster", "", "cpu:7", "mps", "cuda:99", "CPU"]
SCHEDULERS = ["", "tcp://", "tcp://127.0.0.1:1", "x", "tcp://127.0.0.1:99999", "http://127.0.0.1:1"]
EXPERIMENTS = ["", "nothing", "../x", "blob-", "--", "é"]
"""None that exists, or it would run."""

SAFE = {
    "list",
    "status",
    "table",
    "figure",
    "pages",
}  # what of `bench` neither runs for hours nor downloads


def _good_files() -> dict[str, bytes]:
    """Small files that are right, by name: two samples that differ and one like the first, in
    several formats.
    """
    rng = np.random.default_rng(1)
    made = {}
    for name, shift in (("good", 0.0), ("again", 0.0), ("other", 3.0)):
        table = pl.DataFrame(
            {
                "size": rng.normal(shift, 1, 12).round(3),
                "count": rng.integers(0, 9, 12),
                "kind": [pick(rng, ["a", "b"]) for _ in range(12)],
            }
        )
        table.write_csv(f"{name}.csv")
        table.write_parquet(f"{name}.parquet")
        np.save(f"{name}.npy", table["size"].to_numpy()[:, None])
        np.savez(f"{name}.npz", data=table["size"].to_numpy()[:, None])
    fitted = twosample.mmd_median(permutations=19).fit(
        pl.read_csv("good.csv"), pl.read_csv("other.csv"), rng=0
    )
    fitted.save("kernel.safetensors")
    for file in sorted(Path().glob("*.*")):
        made[file.name] = file.read_bytes()
    return made


class Door:
    """Words after `twosample`."""

    def __init__(self) -> None:
        self.good = _good_files()
        self.reader = ReaderDoor()
        self.app = cli.build()
        self.commands = _commands(typer.main.get_command(self.app), ())

    def case(self, rng: Rng) -> Case:
        """A line for the shell, and a file that it may name."""
        made = self.reader.case(rng)
        bad = made.data
        if rng.random() < 0.03:
            return Case(
                "nonsense",
                data=(
                    "here",
                    [
                        pick(rng, [*FIELDS, "test", "--help", "-q", "--version"])
                        for _ in range(int(rng.integers(4)))
                    ],
                ),
            )
        path = pick(
            rng,
            [
                each
                for each in self.commands
                for _ in range(
                    20 if each[0] in ("test", "apply", "compare") else 1 + 4 * (each[0] != "bench")
                )
            ],
        )
        words = self._words(path, bad, rng)
        where = (
            "apart" if rng.random() < 0.006 and not any("\0" in word for word in words) else "here"
        )
        return Case(" ".join(path), made.files if bad in words else {}, (where, words))

    def _words(self, path: tuple[str, ...], bad: str, rng: Rng) -> list[str]:
        """A command with operands and some of its options."""
        command = self.commands[path]
        words = list(path)
        options = [each for each in command.params if each.param_type_name == "option"]
        for each in command.params:
            if each.param_type_name == "argument":
                count = int(rng.integers(0, 4)) if each.nargs == -1 else 1
                words += [self._operand(each, path, bad, rng) for _ in range(count)]
        chosen = [
            each
            for each in options
            if each.name in ("method", "permutations", "seed", "output", "as_json")
            and rng.random() < 0.8
        ]
        chosen += [pick(rng, options) for _ in range(int(rng.integers(0, 4))) if options]
        for each in chosen:
            if each.name in ("explain", "report", "install_completion") and rng.random() < 0.8:
                continue  # these take a second and more
            words += [pick(rng, [*each.opts, *each.secondary_opts])]
            words += [] if each.is_flag else [self._value(each, path, rng)]
        return _shaken(words, rng) if rng.random() < 0.1 else words

    def _operand(self, argument: Any, path: tuple[str, ...], bad: str, rng: Rng) -> str:
        if path[0] == "bench":
            return pick(rng, EXPERIMENTS)
        if argument.name == "kernel" and rng.random() < 0.8:
            return "kernel.safetensors"
        how = rng.random()
        if how < 0.55:
            return pick(rng, ["good.csv", "again.csv", "other.csv"])
        if how < 0.75:
            return bad
        return pick(
            rng,
            [
                *self.good,
                "absent.csv",
                "",
                ".",
                "good.npz::data",
                "good.npz::x",
                "good.csv::x",
                "/dev/null",
                "/dev/full",
                "nul\0.csv",
                "x" * 300,
            ],
        )

    def _value(self, option: Any, path: tuple[str, ...], rng: Rng) -> str:
        name = str(option.name)
        if path[0] == "bench":
            return pick(rng, ["", "absent", "-1", "0", "x", "nan", "table"])
        known: dict[str, list[str]] = {
            "method": METHODS,
            "output": PLACES,
            "report": PLACES,
            "device": DEVICES,
            "scheduler": SCHEDULERS,
            "missing": ["error", "drop", "indicator", "x", ""],
            "permutations": ["9", "19", "19", "99", *WHOLE[:-1]],
            "seed": ["0", "1", "7", *WHOLE],
            "resize": ["8x8", "8", "0x0", "-1", "x", "99999x99999"],
        }
        if name in known:
            return pick(rng, known[name])
        if option.metavar in ("NUMBER", "LEVEL", "PART", "CHANCE"):
            return pick(rng, WHOLE if option.metavar == "NUMBER" else PARTS)
        return pick(
            rng,
            [
                "size",
                "kind",
                "count",
                "size,kind",
                "size=number",
                "kind=category",
                "size:category",
                "none",
                *FIELDS,
            ],
        )

    def judge(self, case: Case) -> str:
        """Run it, and look at the status, at both outputs and at the verdict."""
        for name, content in self.good.items():
            if not Path(name).exists():
                Path(name).write_bytes(content)
        where, words = case.data
        status, shown, said = _apart(words) if where == "apart" else self._here(words)
        check("Traceback" not in said and "Traceback" not in shown, f"a traceback: {said[-500:]}")
        check(status in (0, 1, 2), f"status {status}: {said}")
        check(status != 1 or "--fail-on-reject" in words, f"status 1: {said}")
        for line in said.splitlines():
            if line.startswith(("error: ", "warning: ")):
                check_sentence(line)
        if status == 2:
            check(
                said.startswith(("error: ", "Usage: ", "warning: ", "Error")),
                f"no sentence: {said!r}",
            )
            check(
                shown == "" or not words or words == ["bench"],
                f"status 2, but an output: {shown[:200]!r}",
            )
            return REFUSED
        check_answer(shown, words)
        return ACCEPTED

    def _here(self, words: list[str]) -> tuple[int, str, str]:
        done = CliRunner().invoke(self.app, words, prog_name="twosample")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.stdout, done.stderr


def _apart(words: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "twosample", *words],
        capture_output=True,
        timeout=120,
        env=os.environ | {"COLUMNS": "80"},
    )
    return (
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
    )


def _commands(command: Any, path: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    """All commands that can be run here, by their words."""
    if not hasattr(command, "commands"):
        return {path: command} if path[0] != "bench" or path[-1] in SAFE else {}
    return {
        words: each
        for name, inner in command.commands.items()
        for words, each in _commands(inner, (*path, name)).items()
    }


def _shaken(words: list[str], rng: Rng) -> list[str]:
    """One word missing, twice, elsewhere or another one."""
    place = int(rng.integers(len(words)))
    changed = list(words)
    how = int(rng.integers(4))
    if how == 0:
        del changed[place]
    elif how == 1:
        changed.insert(int(rng.integers(len(words))), words[place])
    elif how == 2:
        changed.insert(int(rng.integers(len(words))), changed.pop(place))
    else:
        changed[place] = pick(rng, [*FIELDS, "--", "-", "--help", "-h", "--colour"])
    return changed


def check_answer(shown: str, words: list[str]) -> None:
    """An answer has a p-value in (0, 1], and in plain cases that of the library."""
    if "--help" in words or "--version" in words or words[:1] not in (["test"], ["apply"]):
        return
    if "--json" not in words:
        match = re.search(r"p = ([0-9.e-]+)", shown)
        check(match is not None and 0 <= float(match[1]) <= 1, f"no p-value: {shown[:200]!r}")
        return
    record = json.loads(shown, parse_constant=lambda name: check(False, f"{name} is no JSON"))
    check(0 < record["pvalue"] <= 1, f"p = {record['pvalue']}")
    files = words[1:3]
    rest = words[3:]
    options = dict(zip(rest[::2], rest[1::2], strict=False)) if len(rest) % 2 == 0 else {}
    rest = [word for word in rest if word != "--json"]
    options = dict(zip(rest[::2], rest[1::2], strict=False))
    if (
        words[0] == "test"
        and set(options) == {"--method", "--permutations", "--seed"}
        and len(rest) == 6
    ):
        data = [read_source(file).data for file in files]
        check_same(record, data, options)


def check_same(record: dict[str, Any], data: list[Any], options: dict[str, str]) -> None:
    """The command line and the library say the same."""
    permutations = int(options["--permutations"])
    seed = int(options["--seed"])
    with __import__("warnings").catch_warnings():
        __import__("warnings").simplefilter("ignore")
        result = twosample.two_sample_test(
            *data, options["--method"], permutations=permutations, rng=seed
        )
    check(
        (record["pvalue"], record["statistic"]) == (result.pvalue, result.statistic),
        f"another verdict: {record}",
    )
