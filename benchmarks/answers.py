"""Five questions, and what twosample, evidently and scipy answer: right or wrong, and how long it takes.

    python benchmarks/answers.py install     an environment for evidently, outside this repository
    python benchmarks/answers.py run [WHO]   ask everybody; whoever is not installed is left out
    python benchmarks/answers.py table       write the table of docs/effects.md

Each answer is that of a fresh process with one thread. Imports come first and do not count, nor does
making the data. The environment is where `peers.py` has its own (TWOSAMPLE_PEERS names another
folder). Outcomes are lines of benchmarks/results/answers.jsonl.

What counts as an answer: twosample's verdict, with a tolerance of a tenth of a spread where the
question has one; of evidently's preset for drift, whether any column drifted (it calls the data set
drifted only if half of them have); of scipy, whether any column differs by Kolmogorov and Smirnov or
by chi-squared, after Holm. An answer is half right if it misses a column that the question is about,
or names one that did not change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "answers.jsonl"
PAGE = HERE.parent / "docs" / "effects.md"
TOLERANCE = 0.1  # of a column's spread
ALPHA = 0.05


# The questions: two tables, and whether they differ.


def orders():
    """600 + 600 orders of the demo, whose price and weight no longer go together."""
    folder = HERE.parent / "demo"
    return tuple(pd.read_csv(folder / f"orders_{month}_month.csv") for month in ("last", "this"))


def numbers(rows, columns, rng):
    """Normal numbers, some of which go together."""
    values = rng.normal(size=(rows, columns))
    values[:, 1] = 0.6 * values[:, 0] + 0.8 * values[:, 1]
    return pd.DataFrame(values, columns=[f"c{number}" for number in range(columns)])


def nothing():
    """1,000 + 1,000 rows of 20 columns that do not differ."""
    rng = np.random.default_rng(0)
    return numbers(1000, 20, rng), numbers(1000, 20, rng)


def tiny():
    """100,000 + 100,000 rows of 5 columns, one of which moved by 0.03 of its spread."""
    rng = np.random.default_rng(0)
    X, Y = numbers(100_000, 5, rng), numbers(100_000, 5, rng)
    Y["c3"] += 0.03
    return X, Y


def level():
    """900 + 900 rows with a category of which 2 % have a new level."""
    rng = np.random.default_rng(0)
    X, Y = numbers(900, 5, rng), numbers(900, 5, rng)
    X["device"] = rng.choice(["phone", "laptop", "tablet"], 900, p=[0.55, 0.35, 0.1])
    Y["device"] = rng.choice(["phone", "laptop", "tablet", "robot"], 900, p=[0.54, 0.34, 0.1, 0.02])
    return X, Y


def wider():
    """500 + 500 rows of 20 columns, one of which is spread by 1.4 about the same mean."""
    rng = np.random.default_rng(0)
    X, Y = numbers(500, 20, rng), numbers(500, 20, rng)
    Y["c7"] *= 1.4
    return X, Y


QUESTIONS = {
    "price and weight no longer go together": (orders, "differ", "price_cents weight_kg", None),
    "no difference": (nothing, "no difference found", "", None),
    "a tiny shift in 100,000 rows, a tenth of a spread tolerated": (
        tiny,
        "equivalent",
        "",
        TOLERANCE,
    ),
    "a new level, 2 %": (level, "differ", "device", None),
    "one wider column of 20": (wider, "differ", "c7", None),
}
"""What is asked: who makes the tables, the right answer, the columns that it is about, and the
tolerance."""

ALSO = {"price and weight no longer go together": {"country"}}
"""Columns that changed a little, too."""


# Those who answer: (X, Y, tolerance) -> an answer, what is said, and the columns that are named.


def by_twosample(X, Y, tolerance):
    import twosample

    spread = None if tolerance is None else {"spread": tolerance}
    result = twosample.two_sample_test(X, Y, rng=0, tolerance=spread, progress=False)
    if not result.reject():
        return result.verdict, result.verdict, []
    columns = [column for column in result.columns if column.reject()]
    pairs = [pair for pair in result.pairs if pair.reject() and not pair.follows_from]
    told = [each.sentence() for each in (*columns, *pairs)]
    named = {column.name for column in columns}
    named.update(*(pair.columns for pair in pairs))
    return result.verdict, "; ".join([result.verdict, *told]), sorted(named)


def by_evidently(X, Y, tolerance):
    from evidently import Report
    from evidently.presets import DataDriftPreset

    snapshot = Report([DataDriftPreset()]).run(Y, X)
    _, *metrics = snapshot.dict()["metrics"]  # the first has their number
    named = []
    for metric in metrics:
        settings = metric["config"]
        is_pvalue = "p_value" in settings["method"]
        if (metric["value"] < settings["threshold"]) == is_pvalue:
            named.append(settings["column"])
    told = f"{len(named)} of {X.shape[1]} columns drifted: {', '.join(named) or 'none'}"
    if tolerance is not None and not named:
        return "equivalent", told, named  # its own thresholds are tolerances
    return ("differ" if named else "no difference found"), told, named


def by_scipy(X, Y, tolerance):
    from scipy import stats

    pvalues = {}
    for name in X:
        if pd.api.types.is_numeric_dtype(X[name]):
            x, y = (part[name].astype(float) for part in (X, Y))
            pvalues[name] = stats.ks_2samp(x, y).pvalue
        else:
            both = pd.concat([X[name], Y[name]])
            of = np.repeat(["X", "Y"], [len(X), len(Y)])
            pvalues[name] = stats.chi2_contingency(pd.crosstab(both.to_numpy(), of)).pvalue
    left = len(pvalues)
    found = []
    for name, pvalue in sorted(pvalues.items(), key=lambda each: each[1]):  # Holm
        if pvalue * left > ALPHA:
            break
        found.append(name)
        left -= 1
    told = f"differ: {', '.join(found)}" if found else "no column differs"
    return ("differ" if found else "no difference found"), told, found


WHO = {"twosample": by_twosample, "evidently": by_evidently, "scipy": by_scipy}


def answer(who, question):
    """Ask one of them one question, twice: the first time warms up on a part of the rows."""
    make, right, about, tolerance = QUESTIONS[question]
    X, Y = make()
    WHO[who](X[:400], Y[:400], tolerance)
    began = time.process_time()
    said, told, named = WHO[who](X, Y, tolerance)
    seconds = time.process_time() - began
    about = set(about.split())
    others = set(named) - about - ALSO.get(question, set())
    mark = "wrong"
    if said == right:
        mark = "right" if about <= set(named) and (not others or not about) else "half right"
    return {
        "question": question,
        "who": who,
        "said": said,
        "told": told,
        "mark": mark,
        "seconds": round(seconds, 3),
    }


def python_of(who):
    """The interpreter that has this package; None if it is not installed."""
    if who != "evidently":
        return Path(sys.executable)
    from peers import python_of as of_peer

    python = of_peer("evidently")
    return python if python.exists() else None


def install():
    from peers import python_of as of_peer

    python = of_peer("evidently")
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    # evidently 0.7 does not import with pandas 3.
    subprocess.run([python, "-m", "pip", "install", "-q", "evidently", "pandas<3"], check=True)


def run(asked):
    from _measure import append, read

    kept = [line for line in read(RESULTS) if line["who"] not in asked]
    RESULTS.unlink(missing_ok=True)
    for line in kept:
        append(RESULTS, line)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for who in asked:
        python = python_of(who)
        if python is None:
            print(f"{who} is not installed: python benchmarks/answers.py install")
            continue
        show = f"from importlib import metadata; print(metadata.version({who!r}))"
        version = subprocess.run([python, "-c", show], capture_output=True, text=True).stdout
        for question in QUESTIONS:
            command = [python, "-W", "ignore", __file__, "one", who, question]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            record = json.loads(done.stdout.splitlines()[-1])
            append(RESULTS, {**record, "version": version.strip().partition("+")[0]})
            print(record, flush=True)


def table():
    """What everybody says, as Markdown."""
    from _measure import read

    found = {(line["question"], line["who"]): line for line in read(RESULTS)}
    asked = [who for who in WHO if any(line[1] == who for line in found)]
    versions = {line["who"]: line["version"] for line in found.values()}
    heads = [f"{who} {versions[who]}" for who in asked]
    lines = [f"| question | {' | '.join(heads)} |", "|---" * (1 + len(asked)) + "|"]
    for question in QUESTIONS:
        cells = []
        for who in asked:
            line = found[question, who]
            told = line["told"].replace("|", "\\|").replace("->", "→")
            cells.append(f"**{line['mark']}**: {told} ({line['seconds']:.2g} s)")
        lines.append(f"| {question} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page():
    from _measure import write_between

    write_between(PAGE, "answers.py", table())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["install"]:
            install()
        case ["run", *asked]:
            run(asked or list(WHO))
        case ["table"]:
            write_page()
        case ["one", who, question]:
            print(json.dumps(answer(who, question)))
        case _:
            sys.exit(__doc__)
