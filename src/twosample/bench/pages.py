"""The pages of the reproduction: a table for each experiment, and a summary in their README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .._saving.saving import replace, writable
from ..errors import InputError
from . import figures, tables
from .experiments import EXPERIMENTS, METHODS, Experiment
from .recipes import RECIPES
from .running import duration
from .store import Record, Store

# `write_pages` writes what stands between these two in the README.
BEGIN = "<!-- summary: begin -->"
END = "<!-- summary: end -->"


def page_texts(store: Store) -> dict[str, str]:
    """Return the pages by file name: one for each experiment with results, and the t-tests."""
    texts = {}
    for shown in EXPERIMENTS.values():
        records = store.records(*tables.homes(shown))
        # A page of no trials would say nothing.
        if any(tables.entries(shown, records, recipe) for recipe in RECIPES):
            texts[f"{shown.name}.md"] = tables.markdown(shown, records)
    records = store.records(*tables.needed(tables.T_TESTS))
    if tables.t_test_rows(records):
        texts["t-tests.md"] = tables.table(tables.T_TESTS, records)
    return texts


def summary(store: Store) -> str:
    """Write a line for each experiment and recipe, and the level of each method.

    A line has the trials, how many numbers agree with the published ones, and the CPU time.
    """
    lines = [
        "| experiment | recipe | cells | trials | within two standard errors | beyond | CPU time |",
        "|---|---|---|---|---|---|---|",
    ]
    # All at once, since tables show trials of each other.
    everything = store.records(*EXPERIMENTS)
    for shown in EXPERIMENTS.values():
        for recipe in RECIPES:
            cells = tables.entries(shown, everything, recipe)
            if cells:
                lines.append(_summary_line(shown, recipe, cells, everything))
    spent = duration(sum(record.cpu_seconds for record in everything))
    lines += ["", f"CPU time of all {len(everything)} trials: {spent}, each in one thread."]
    return "\n".join(lines + _levels(everything))


def _levels(records: Sequence[Record]) -> list[str]:
    """Return the table of levels over all data, which single cells have too few tests to tell."""
    level_experiments = {each.name for each in EXPERIMENTS.values() if each.kind == "level"}
    null = [
        record
        for record in records
        if record.experiment in level_experiments and record.recipe == "default"
    ]
    if not null:
        return []
    lines = ["", "Level 0.05 over all level experiments, recipe `default`:", ""]
    lines += ["| test | rejections | tests | level | exact 95 % limits |", "|---|---|---|---|---|"]
    for method in METHODS:
        own = [record for record in null if record.method == method]
        lines.append(_level_line(method, own))
    # All methods together have the narrowest limits.
    lines.append(_level_line("all", null))
    return lines


def _level_line(name: str, trials: Sequence[Record]) -> str:
    rejections = sum(record.rejections for record in trials)
    tests = sum(record.tests for record in trials)
    if not tests:
        return f"| {name} | 0 | 0 |  |  |"
    low, high = tables.binomial_limits(rejections, tests, 0.95)
    level = rejections / tests
    return f"| {name} | {rejections} | {tests} | {level:.3f} | {low:.3f} to {high:.3f} |"


def _summary_line(
    shown: Experiment, recipe: str, cells: Sequence[tables.Entry], records: Sequence[Record]
) -> str:
    if shown.kind == "level":
        off = sum(entry.off_level for entry in cells)
        good = f"{len(cells) - off} (0.05 within exact limits)"
        bad = str(off)
    else:
        compared = [entry for entry in cells if entry.difference is not None]
        far = sum(entry.far for entry in compared)
        good = str(len(compared) - far) if compared else ""
        bad = str(far) if compared else ""
    trials = sum(len(entry.rates) for entry in cells)
    # Only its own trials: those of shared cells are counted where they are kept.
    place = (shown.name, recipe)
    own = [record for record in records if (record.experiment, record.recipe) == place]
    time = duration(sum(record.cpu_seconds for record in own))
    name = f"[{shown.name}]({shown.name}.md)"
    return f"| {name} | {recipe} | {len(cells)} | {trials} | {good} | {bad} | {time} |"


def with_summary(readme: str, store: Store) -> str:
    """Return the README with the summary of a store in its place."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise InputError(f"the README of the pages must have one line {BEGIN} and one {END}.")
    # What is written by hand stays as it is, before and after.
    head, rest = readme.split(BEGIN)
    return f"{head}{BEGIN}\n\n{summary(store)}\n\n{END}{rest.split(END)[1]}"


def write_pages(folder: Path, store: Store) -> list[Path]:
    """Write the pages, and the summary into the README where there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in page_texts(store).items():
        replace(writable(folder / name), text.encode())
        written.append(folder / name)
    readme = folder / "README.md"
    if readme.exists():
        summarised = with_summary(readme.read_text("utf-8"), store)
        replace(writable(readme), summarised.encode())
        written.append(readme)
    return written


DRAWN = ("figure-2", "figure-3", "higgs-power", "mnist-power", "ablation")
"""The figures of experiments that are kept beside the pages."""


def write_figures(folder: Path, store: Store) -> list[Path]:
    """Draw the figures for which there are records."""
    written = []
    for name in DRAWN:
        records = store.records(*figures.needed(name))
        # A figure without trials would be empty axes.
        if records:
            path = folder / "images" / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            figures.save(figures.draw(name, records), path)
            written.append(path)
    return written
