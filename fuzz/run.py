"""Fuzz the doors of the library: thousands of malformed inputs, each of which must end in an answer
or in a sentence.

    python fuzz/run.py [reader|samples|load|cli ...] [--cases N] [--seed S]    all doors, 1000 cases each, by default
    python fuzz/run.py reader --seed 3 --only 17                               one case again, with its traceback
    python fuzz/run.py --summary                                               put the records into fuzz/README.md

Cases are made from their door, seed and number alone. They run in a child process, which a case may
crash, fill or stop: it has a limit of CPU time for each case and one of memory, and another child
goes on after it. What fails is written to fuzz/found/, with its files. Each run adds a record to
fuzz/runs.jsonl.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from contextlib import chdir
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cases import ACCEPTED, REFUSED, Case, Door, Fault, generator, outcome

HERE = Path(__file__).parent
FOUND = HERE / "found"
RUNS = HERE / "runs.jsonl"
README = HERE / "README.md"
DOORS = {
    "reader": "door_reader",
    "layout": "door_layout",
    "samples": "door_samples",
    "load": "door_load",
    "cli": "door_cli",
}
# For one case. The second is for those that wait for ever.
CPU_SECONDS = 20.0
WALL_SECONDS = 180.0
NOT_MADE = "not made"
MEMORY = 6 * 2**30  # bytes that a child may take beyond what its imports took


def opened(door: str) -> Door:
    """The door of a name; what it imports is slow, so only the one in use is."""
    made: Door = importlib.import_module(DOORS[door]).Door()
    return made


# The child


def work(door: str, seed: int, first: int, last: int, connection: Connection) -> None:
    """Judge cases `first` to `last` - 1 and tell of each before and after it."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        judge = opened(door)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in range(first, last):
            case = judge.case(generator(door, seed, number))
            connection.send((number, case.kind, None))
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # its signal ends the process
            connection.send((number, case.kind, attempt(judge, case)))
            signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send((last, "", f"{time.process_time()}"))


def attempt(door: Door, case: Case) -> str:
    """The outcome of a case, with the traceback of a fault."""
    try:
        return outcome(door, case)
    except Fault as fault:
        return f"{fault}\n{''.join(traceback.format_exception(fault.__cause__)) if fault.__cause__ else ''}"
    except BaseException:  # that of polars when it panics is no Exception
        return f"traceback: {traceback.format_exc()}"


# The parent


def run(door: str, cases: int, seed: int) -> dict[str, Any]:
    """Judge cases 0 to `cases` - 1 of a door and give the record of it."""
    outcomes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    number = 0
    seconds = 0.0
    while number < cases:
        for at, kind, ended in stretch(door, seed, number, cases):
            if at == cases:
                seconds += float(ended)
                continue
            number = at + 1
            kinds[kind] += 1
            if ended == NOT_MADE:
                continue
            known = ended in (ACCEPTED, REFUSED)
            outcomes[ended if known else ended.split(":")[0].split()[0]] += 1
            if not known:
                keep(door, seed, at, ended)
    return add_record(door, seed, cases, outcomes, dict(sorted(kinds.items())), seconds)


def add_record(
    door: str,
    seed: int,
    cases: int,
    outcomes: Mapping[str, int],
    kinds: Mapping[str, int],
    seconds: float,
) -> dict[str, Any]:
    """Add the record of a run to fuzz/runs.jsonl, and return it."""
    record = {
        "door": door,
        "seed": seed,
        "cases": cases,
        "outcomes": dict(outcomes),
        "kinds": kinds,
        "cpu_seconds": round(seconds, 1),
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            name: version(name).partition("+")[0]
            for name in ("numpy", "polars", "safetensors", "torch", "typer")
        }
        | {"python": platform.python_version()},
    }
    with RUNS.open("a") as stream:
        stream.write(json.dumps(record) + "\n")
    return record


def stretch(door: str, seed: int, first: int, last: int) -> list[tuple[int, str, str]]:
    """What a child tells until all is done or it is gone: (number, kind, outcome), the last of
    which may be a crash.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(
        target=work, args=(door, seed, first, last, theirs)
    )
    child.start()
    theirs.close()
    told: list[tuple[int, str, str]] = []
    begun: tuple[int, str] | None = None
    while True:
        try:
            number, kind, ended = ours.recv() if ours.poll(WALL_SECONDS) else (None, "", None)
        except EOFError:
            break
        if number is None:
            child.kill()
            break
        begun = (number, kind) if ended is None else None
        if ended is not None:
            told.append((number, kind, ended))
    child.join()
    if begun is not None:
        told.append((*begun, ended_by(child.exitcode or 0)))
    elif child.exitcode and not told:
        raise SystemExit(f"the door {door} does not open: exit status {child.exitcode}")
    elif (
        child.exitcode and told[-1][0] != last
    ):  # while it was made, so it is a crash of the library that makes it
        told.append((told[-1][0] + 1, "not made", NOT_MADE))
    return told


def ended_by(status: int) -> str:
    """Why a child has gone."""
    if status == -signal.SIGPROF:
        return f"hang: more than {CPU_SECONDS:g} seconds of CPU time"
    if status == -signal.SIGKILL:
        return f"hang: waited more than {WALL_SECONDS:g} seconds"
    return f"crash: the process ended with status {status}"


def keep(door: str, seed: int, number: int, ended: str) -> None:
    """Write a case that failed to fuzz/found/."""
    folder = FOUND / f"{door}-{seed}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as empty, chdir(empty):
        case = opened(door).case(generator(door, seed, number))
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "what.txt").write_text(
        f"{case.kind}\n{case.data!r}\n\n{ended}", errors="backslashreplace"
    )
    print(
        f"  {door} {number} ({case.kind}): {ended.strip().splitlines()[0]}\n    "
        f"{ended.strip().splitlines()[-1]}"[:400]
    )


def commit() -> str:
    """The commit that was fuzzed, with a star if files had changed since."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=*"], cwd=HERE, capture_output=True, text=True
    )
    return described.stdout.strip()


# The summary


def summary() -> str:
    """What was run and what it gave, as Markdown."""
    records = [json.loads(line) for line in RUNS.read_text().splitlines()]
    lines = [
        "| door | runs | cases | answered | refused | faults | CPU minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for door in [*dict.fromkeys(record["door"] for record in records), "all"]:
        of_it = [record for record in records if door in (record["door"], "all")]
        ends = sum((Counter(record["outcomes"]) for record in of_it), Counter())
        faults = ends.total() - ends[ACCEPTED] - ends[REFUSED]
        minutes = sum(record["cpu_seconds"] for record in of_it) / 60
        cells = [
            door,
            len(of_it),
            ends.total(),
            ends[ACCEPTED],
            ends[REFUSED],
            faults,
            f"{minutes:.1f}",
        ]
        lines.append(
            "| "
            + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells)
            + " |"
        )
    return "\n".join(lines)


def failures() -> str:
    """What once failed, by door, as Markdown."""
    known = json.loads((HERE.parent / "tests" / "corpus" / "corpus.json").read_text())
    lines = ["| door | what | once |", "|---|---|---|"]
    for door, entries in known.items():
        for entry in entries:
            case = entry.get("name") or shlex.join(["twosample", *entry["words"]])
            if "once" in entry:
                lines.append(f"| {door} | `{case}` | {entry['once']} |")
    return "\n".join(lines)


def fill_in(page: Path) -> None:
    """Put what is known between the marks of a page."""
    text = page.read_text()
    for mark, table in (("runs", summary()), ("found", failures())):
        before, _, rest = text.partition(f"<!-- {mark} -->\n")
        _, _, after = rest.partition(f"<!-- /{mark} -->\n")
        text = f"{before}<!-- {mark} -->\n{table}\n<!-- /{mark} -->\n{after}"
    page.write_text(text)


def again(door: str, seed: int, number: int) -> None:
    """Show a case and how it ends, with its traceback."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        judge = opened(door)
        case = judge.case(generator(door, seed, number))
        print(case)
        print(outcome(judge, case))


def main() -> None:
    os.environ |= {
        "OMP_NUM_THREADS": "1",
        "POLARS_MAX_THREADS": "2",
        "RUST_BACKTRACE": "0",
    }  # for the children
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "doors", nargs="*", metavar="DOOR", help=f"{', '.join(DOORS)}; by default all"
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this case alone, in this process")
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    if unknown := set(asked.doors) - set(DOORS):
        parser.error(f"there is no door {min(unknown)!r}")
    if asked.summary:
        fill_in(README)
        return
    faults = 0
    for door in asked.doors or DOORS:
        if asked.only is not None:
            again(door, asked.seed, asked.only)
            continue
        record = run(door, asked.cases, asked.seed)
        faults += sum(
            count for end, count in record["outcomes"].items() if end not in (ACCEPTED, REFUSED)
        )
        print(door, record["outcomes"], f"{record['cpu_seconds']} seconds")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
