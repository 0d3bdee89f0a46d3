"""What each choice in the bets of `Watch` is worth: rows until an alarm, with it and without.

    python benchmarks/watching_bets.py run [--streams 40] [--only VARIANT ...]
    python benchmarks/watching_bets.py table [--write]   --write puts it into the page of the decision

The changes, streams and batches are those of watching.py, with seeds of their own: the bets were
chosen on these streams, and watching.py measures them on others. Every stream is a line in
results/watching_bets.jsonl, so a run can be stopped and continued.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import torch
from _measure import append, read, write_between
from watching import detect_stream, most_rows

from twosample._views import Landmarks, Views
from twosample._watch import betting, by_views, evidence

STORE = Path(__file__).parent / "results" / "watching_bets.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "decisions" / "0010-how-a-watch-bets.md"
FIRST = 50_000  # seed
QUICK = ("Blob", "new level")  # changes whose streams cost little


def with_laplace(self, schema, rows):
    views = new_views(self, schema, rows)
    (gaussian,) = [stack for stack in views if isinstance(stack, Landmarks)]
    return Views(Landmarks("laplace", count=gaussian.count), *views)


def without_counts(*_):
    nothing = torch.zeros(len(evidence.MEMORIES), 0, 1, dtype=torch.float64)
    return evidence._Rows(nothing, [])


def without_constant(prepared, past, now):
    rows = torch.full_like(now.rows, math.inf)
    return rows_of_means(prepared, past, now._replace(rows=rows))


new_views = by_views.ViewsWitness._new_views
rows_of_means = evidence._rows_of_means

# Name -> what is replaced, and by what.
VARIANTS = {
    "as it is": [],
    "no boosting": [(betting, "boosted", lambda log_evalues, most: log_evalues)],
    "no bet on rare levels": [(evidence, "_rows_of_counts", without_counts)],
    "no constant C": [(evidence, "_rows_of_means", without_constant)],
    "a Laplace kernel, too": [(by_views.ViewsWitness, "_new_views", with_laplace)],
    "four sizes for many axes": [(evidence, "MANY_SIZES", (1 / 2, 1 / 12, 1 / 72, 1 / 432))],
    "three sizes for few axes": [(evidence, "FEW_SIZES", (1 / 8, 1 / 128, 1 / 2048))],
    "shares of views as in a test": [(evidence, "_SHARES", {})],
}


def run(streams, variants):
    done = defaultdict(int)
    for record in read(STORE):
        done[(record["variant"], record["change"])] += 1
    for number in range(streams):
        for variant in variants:
            for change in QUICK:
                if done[(variant, change)] > number:
                    continue
                with ExitStack() as stack:
                    for owner, name, value in VARIANTS[variant]:
                        stack.enter_context(patch.object(owner, name, value))
                    rows, cpu = detect_stream(change, "Watch", FIRST + number)
                line = {"variant": variant, "change": change, "seed": FIRST + number}
                append(STORE, {**line, "rows_until": rows, "cpu": round(cpu, 3)})


def table():
    found = defaultdict(list)
    for record in read(STORE):
        most = most_rows(record["change"])
        found[(record["variant"], record["change"])].append(record["rows_until"] or most)
    lines = [
        f"| bets | {' | '.join(QUICK)} |",
        f"|---|{'---|' * len(QUICK)}",
    ]
    for variant in VARIANTS:
        cells = [found[(variant, change)] for change in QUICK]
        if all(cells):
            means = " | ".join(f"{statistics.mean(each):.0f} ({len(each)})" for each in cells)
            lines.append(f"| {variant} | {means} |")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--only", nargs="*", choices=VARIANTS, help="variants")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments.streams, arguments.only or VARIANTS)
    else:
        print(table())
        if arguments.write:
            write_between(PAGE, "bets", table())
