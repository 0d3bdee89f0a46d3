"""The report: one HTML file with everything that a result has to say, to be read offline.

The numbers come from `explain`, `power` and `charts`, the charts are drawn by `svg_charts`, and
most words are in `templates/report.html.jinja`; this module puts them together. A part that a test
does not have is replaced by a sentence that says why.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import platform
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._calibration import PairSwap, Permutation
from .._data.tables import told_apart
from .._insight.column_tests import ColumnDifference
from .._insight.explain import Explanation, TellingRow
from .._insight.held_out import held_out, row_pixels, row_values
from .._insight.power import predict_power
from .._insight.prediction import PowerPlan
from .._insight.smallest import could_find
from .._insight.summary import LEAST_TOLD, Told, effect_sentence, summary, title
from .._insight.tolerance import Decision
from .._objectives import PowerCriterion
from .._random import Generators, RNGLike
from .._result import ALPHA, TrainingLog, TwoSampleResult, format_pvalue
from .._version import __version__
from .card import summary_card
from .changes import change_cards, diverse, pair_cards
from .charts import PowerCurve, held_out_objective, null_of, power_over_sizes, training_of
from .findings import ROWS_SHOWN, Findings, findings_of
from .maps import WITNESS_CLASSES, PointMap, kernel_contours_of
from .marginals import marginal_of
from .page import InlineReport, as_text, fill, or_why, ready, typeset, write
from .pictures import sprite, thumbnails
from .svg import Drawn
from .svg_charts import (
    contour_chart,
    map_chart,
    map_places,
    marginal_chart,
    null_chart,
    power_chart,
    training_chart,
)

POWER = 0.9
"""The power for which the page says how many rows it takes."""

Flags: TypeAlias = NDArray[np.bool_]
Fact: TypeAlias = tuple[str, str, bool]
"""A name, a value, and whether the value is code."""

_TOLD = 4  # changes on the first screen
_VALUES_SHOWN = 7  # columns whose values stand beside a row
_LAST_STEPS = 10  # of a training, whose mean is what it reached
_KEPT = 0.25  # of it, below which it did not generalise
_THUMBNAIL = 96  # pixels of the longer side of a telling image

_ADJUSTED = {
    "step-down": "adjusted for their number by the largest value in each shuffle (step-down "
    "maximum)",
    "holm": "adjusted for their number by Holm's method",
    "bh": "adjusted for their number by the method of Benjamini and Hochberg",
    "none": "not adjusted for their number",
}


def write_report(
    result: TwoSampleResult,
    path: str | Path,
    *,
    alpha: float = ALPHA,
    names: tuple[str, str] | None = None,
    explanation: Explanation | None = None,
    facts: Mapping[str, object] | None = None,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> Path:
    """Write what `render` gives to a file, and return its path."""
    ready(path)  # before the explanation, which may take minutes
    page = render(
        result,
        alpha=alpha,
        names=names,
        explanation=explanation,
        facts=facts,
        rng=rng,
        progress=progress,
    )
    return write(page, path)


def inline_report(
    result: TwoSampleResult,
    *,
    alpha: float = ALPHA,
    names: tuple[str, str] | None = None,
    facts: Mapping[str, object] | None = None,
    rng: RNGLike | None = None,
) -> InlineReport:
    """What `render` gives, to be shown by a notebook."""
    return InlineReport(render(result, alpha=alpha, names=names, facts=facts, rng=rng))


def render(
    result: TwoSampleResult,
    *,
    alpha: float = ALPHA,
    names: tuple[str, str] | None = None,
    explanation: Explanation | None = None,
    facts: Mapping[str, object] | None = None,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> str:
    """The report of a result as HTML: one file that needs nothing else, with scripts or without.

    Parameters
    ----------
    result
        What a test gave.
    alpha
        The level of the verdict; a reader may choose another one.
    names
        What X and Y are, such as the names of their files; None means those of the result.
    explanation
        What `explain(result)` gave; made here if None.
    facts
        More lines for the part on how to repeat the test, such as {"Command": "...", "Seed": 0}.
    rng
        A seed or a generator, for the explanation and for the choice of what is shown; None means
        the seed of the result.
    progress
        As in `explain`.

    Examples
    --------
    >>> import twosample
    >>> from twosample.bench.datasets import blob
    >>> result = twosample.two_sample_test(*blob(90, rng=0), "mmd-o", rng=0)
    >>> render(result, rng=0).count("<section")
    7
    """
    names = result.names if names is None else told_apart(*names)
    generators = Generators(result.seed if rng is None else rng)
    findings = findings_of(result, alpha, explanation, generators, progress, names)
    told = _told(findings)
    card = summary_card(result, told, names=names, alpha=alpha)
    # The script needs the levels for its slider, and the points for what a reader points at.
    return fill(
        "report.html.jinja",
        {
            "levels": findings.levels,
            "alpha": alpha,
            "names": names,
            "points": _points(findings),
            "summary": summary(result, names, alpha=alpha, told=told),
            "markdown": summary(result, names, alpha=alpha, told=told, markdown=True),
            "picture": base64.b64encode(card).decode(),
        },
        findings=findings,
        result=result,
        levels=findings.levels,
        alpha=alpha,
        names=names,
        verdict=_verdict(findings),
        told={level: _most_told(findings, told, level) for level in findings.levels},
        null=or_why(lambda: null_chart(null_of(result), findings.levels, alpha)),
        effect=_effect(findings),
        columns=columns_part(findings),
        changes=change_cards(findings),
        pairs=pair_cards(findings),
        regions=told.regions,
        rows=rows_part(findings),
        map=_map(findings),
        training=_training(findings),
        repeat=_repeat(findings, facts or {}),
    )


# The parts of the page, in their order. Each function gives what the template shows.


def _told(findings: Findings) -> Told:
    """What changed: columns, pairs and regions, as all parts of the page have it."""
    regions, _ = or_why(lambda: findings.result.regions)
    return Told(findings.columns, findings.pairs, regions or ())


def _most_told(findings: Findings, told: Told, level: float) -> list[str]:
    """What changed most, for the first screen; nothing where the test finds nothing."""
    if not findings.result.reject(level):
        return []
    return [typeset(text) for text in told.sentences(level)[:_TOLD]]


def _signs(findings: Findings, decision: Decision | None) -> dict[float, str]:
    """The class of the title, which has a sign before it: ≠, –, ≈ or ?."""

    def sign(level: float) -> str:
        if decision is not None:
            return decision.verdict
        return "differ" if findings.result.reject(level) else "same"

    return findings.at_levels(sign)


def _margins(decision: Decision | None) -> str:
    """What the margins of a tolerance say, in a sentence."""
    if decision is None:
        return ""
    told = "; ".join(margin.sentence() for margin in decision.margins)
    return f"{told[:1].upper()}{told[1:]}."


def _verdict(findings: Findings) -> dict[str, Any]:
    result = findings.result
    p = format_pvalue(result.pvalue)

    decision = None if result.tolerance is None else result.decide(findings.alpha)

    def title_at(level: float) -> str:
        # The tolerance was asked about at one level.
        return title(result, level if decision is None else findings.alpha)

    def side(level: float) -> str:
        where = "at most" if result.reject(level) else "above"
        return f"p = {format_pvalue(result.pvalue, level)} is {where} α = {level:g}"

    # Each text is on the page once for every level; the script shows one of them.
    return {
        "title": findings.at_levels(title_at),
        "differ": {level: result.reject(level) for level in findings.levels},
        "sign": _signs(findings, decision),
        "side": findings.at_levels(side),
        "effect": typeset(effect_sentence(result, findings.names, findings.alpha)),
        "decision": _margins(decision),
        "could_find": findings.at_levels(partial(could_find, result)),
        "p": p,
        "exact": is_exact(result),
    }


def is_exact(result: TwoSampleResult) -> bool:
    """Whether the p-value holds at any size, not only in a limit."""
    if result.fitted is None:
        return True
    return isinstance(result.fitted.spec.calibration, Permutation | PairSwap)


def _effect(findings: Findings) -> dict[str, Any]:
    effect = findings.result.effect
    unit = findings.unit
    notes = {
        "MMD": "the distance between the samples as the kernel sees them; 0 means none",
        "J": "MMD² over its standard deviation; the power of the test grows with it",
        "Accuracy": f"of the witness on {unit} it has not seen, with the same weight for both "
        "samples; 0.5 is chance",
        "AUC": _auc_note(effect.auc_interval, findings.names),
    }
    values = {
        "AUC": effect.auc,
        "Accuracy": effect.accuracy,
        "MMD": effect.mmd,
        "J": effect.criterion,
    }
    tiles: list[dict[str, Any]] = []
    for name, value in values.items():
        if value is None:
            continue  # a statistic has those that make sense for it
        tile = {
            "name": name,
            "value": f"{value:.3g}",
            "note": notes[name],
        }
        tiles.append(tile)

    if effect.changed and effect.changed >= LEAST_TOLD:
        tile = {
            "name": f"{unit.capitalize()} that would have to change",
            "value": f"≥ {100 * effect.changed:.1f} %",
            "note": "of one sample, to make the distributions equal; with 95 % confidence",
        }
        tiles.insert(0, tile)

    # Power takes one more pass over all pairs of rows, so it comes from the explained ones.
    source = findings.explained or findings.result
    predicted, why_not = or_why(lambda: predict_power(source))
    chart = None
    if predicted is not None:
        tiles += _power_tiles(findings, predicted)
        chart = _power_chart(findings, predicted)
    elif effect.power is not None:
        # Some statistics have a formula for their power here, but none for other sizes.
        note = f"the chance to find this difference again with as many {unit}, at α = {ALPHA:g}"
        tiles.append({"name": "Power", "value": f"{effect.power:.2f}", "note": note})
    return {"tiles": tiles, "chart": chart, "why_not": why_not}


def _auc_note(interval: tuple[float, float] | None, names: tuple[str, str]) -> str:
    x, y = names
    text = f"the chance that one of {x} scores higher than one of {y}; 0.5 is guessing"
    if interval is None:
        return text
    low, high = interval
    return f"{low:.2f} to {high:.2f}: {text}"


def _power_tiles(findings: Findings, predicted: PowerPlan) -> list[dict[str, Any]]:
    unit = findings.unit
    x, y = findings.names
    n, m = findings.result.sizes
    ratio = m / n
    # The prediction is about a fitted kernel: it does not count the rows that fitted it.
    learns = findings.result.train_sizes is not None
    on_top = f"; {unit} for training come on top" if learns else ""

    def power(level: float) -> str:
        return f"{predicted.power(n, m, level):.2f}"

    def power_note(level: float) -> str:
        low, high = predicted.power_interval(n, m, level)
        return (
            f"{low:.2f} to {high:.2f}: the chance to find this difference again on "
            f"{n:,} + {m:,} new {unit}"
        )

    def needed(level: float) -> str:
        of_x = predicted.samples_needed(POWER, level, ratio=ratio)
        if of_x is None:
            return "not known"
        of_y = max(2, round(of_x * ratio))  # in the proportions of this test
        return f"{of_x:,} + {of_y:,}"

    def needed_note(level: float) -> str:
        low, high = predicted.samples_interval(POWER, level, ratio=ratio)
        if low is None:
            return f"no number of {unit} is known to be enough"
        if high is None:
            between = f"at least {low:,} of {x}; there may be nothing to find"
        else:
            between = f"{low:,} to {high:,} of {x}"
        return f"of {x} and of {y}, to be tested ({between}){on_top}"

    # With B shuffles no p-value is below 1 / (B + 1), so small levels have no power to speak of.
    def if_enough_shuffles(text: Callable[[float], str]) -> dict[float, str]:
        def at_level(level: float) -> str:
            written, _ = or_why(partial(text, level))
            return written or "too few shuffles for this level"

        return findings.at_levels(at_level)

    return [
        {
            "name": "Predicted power",
            "value": if_enough_shuffles(power),
            "note": if_enough_shuffles(power_note),
        },
        {
            "name": f"{unit.capitalize()} for {100 * POWER:.0f} % power",
            "value": if_enough_shuffles(needed),
            "note": if_enough_shuffles(needed_note),
        },
    ]


def _power_chart(findings: Findings, predicted: PowerPlan) -> Drawn | None:
    curves: dict[float, PowerCurve] = {}
    sizes = findings.result.sizes
    for level in findings.levels:
        make = partial(power_over_sizes, predicted, power=POWER, alpha=level, sizes=sizes)
        curve, _ = or_why(make)
        if curve is not None:  # else there are too few shuffles for so small a level
            curves[level] = curve
    if findings.alpha not in curves:
        return None  # without scripts the page shows this level, and it would be empty
    return power_chart(curves, findings.alpha, findings.unit, findings.names)


def columns_part(findings: Findings, charts: int = 0) -> dict[str, Any] | None:
    """Columns by rank, and how so many of them are distributed; None where there are none."""
    explanation = findings.explanation
    if explanation is None or not explanation.columns:
        return None
    result = findings.result
    ranked = explanation.ranked()
    by_name = {column.name: column for column in ranked}
    # Bars are drawn in proportion to the longest one; importances may all be 0.
    lengths = [abs(column.importance_share or 0.0) for column in ranked]
    longest = max(lengths) or 1.0

    def differing(level: float) -> str:
        # Closed by the test itself: where it finds nothing, no column is said to differ.
        count = sum(column.reject(level) for column in ranked) if result.reject(level) else 0
        verb = "differs by itself" if count == 1 else "differ by themselves"
        number = count or "None"
        return f"{number} of {len(ranked)} columns {verb} at α = {level:g}."

    pairs = {}
    if explanation.pairs:
        pairs = {level: _pair_sentences(findings, level) for level in findings.levels}

    drawn = []
    for name in explanation.telling_columns(findings.alpha)[:charts]:
        # Of the explained rows, as the p-values of the columns are.
        marginal = marginal_of(explanation.result, name, samples=findings.names)
        chart = marginal_chart(marginal)
        drawn.append({"column": by_name[name], "chart": chart})
    return {
        "table": [_column_cells(column, longest) for column in ranked],
        "differing": findings.at_levels(differing),
        "pairs": pairs,
        "symbol": explanation.symbol.replace("^2", "²"),
        "importance": explanation.importance_from is not None,
        "charts": drawn,
        "calibration": explanation.calibration,
        "adjusted": _ADJUSTED[explanation.correction],
        "notes": explanation.notes,
    }


def _pair_sentences(findings: Findings, level: float) -> list[str]:
    """What there is to say about pairs at a level; nothing where the test finds nothing."""
    explanation = findings.explanation
    if explanation is None:
        return []
    if not findings.result.reject(level):
        count = len(explanation.pairs)
        return [f"No difference found in any of {count:,} pairs" if count > 1 else "None found"]
    return explanation.pair_sentences(level)


def _column_cells(column: ColumnDifference, longest: float) -> dict[str, Any]:
    """One line of the table; its bar is as long as the importance is of the `longest`."""
    share = column.importance_share
    # Without a column that only adds noise the statistic grows: its share is below 0.
    length = max(0.0, share or 0.0)
    return {
        "name": column.name,
        "kind": column.kind,
        "statistic": column.statistic,
        "pvalue": column.pvalue,
        "adjusted": column.adjusted,
        "share": share,
        "bar": round(length / longest, 3),
    }


def rows_part(
    findings: Findings, most: int = ROWS_SHOWN, thumbnail: int = _THUMBNAIL
) -> dict[str, Any] | None:
    """The most telling rows of each sample, as tables or as pictures; None if nothing is known."""
    explanation = findings.explanation
    if explanation is None:
        return None
    columns = _value_columns(findings)
    of_x = diverse(explanation.rows_x, most)
    of_y = diverse(explanation.rows_y, most)
    points = sum(explanation.sizes)
    pixels = [row.pixels for row in (*of_x, *of_y)]
    images = [image for image in pixels if image is not None]  # rows of a table have none
    # All at once, because floats of both samples share one scale; then in the order of the rows.
    pictures = iter(thumbnails(images, thumbnail))

    files = findings.result.files

    def cells(row: TellingRow, sample: int) -> dict[str, Any]:
        return {
            "row": row.row,
            "file": None if files is None else files[sample][row.row],
            # A share of a percent of thousands of rows says nothing to anybody.
            "times": None if row.share is None else row.share * points,
            "cells": [row.values[name] for name in columns],
            "picture": next(pictures, None),
        }

    return {
        "columns": columns,
        "samples": [
            {"sample": "X", "rows": [cells(row, 0) for row in of_x]},
            {"sample": "Y", "rows": [cells(row, 1) for row in of_y]},
        ],
        "hidden": len(explanation.columns) - len(columns),
    }


def _value_columns(findings: Findings) -> list[str]:
    """The columns whose values are shown beside a row: the first by rank."""
    if findings.explanation is None:
        return []
    # A table of all columns could be hundreds wide.
    return findings.explanation.telling_columns(findings.alpha)[:_VALUES_SHOWN]


def _map(findings: Findings) -> dict[str, Any] | None:
    points = findings.map
    explained = findings.explained
    if points is None or explained is None:
        return None
    contours = None
    why_not = ""
    # Contours take a plane; other data are seen along axes that the kernel does not know.
    if points.in_plane:
        rng = findings.generators.numpy("centres")

        def draw() -> Drawn:
            around = kernel_contours_of(explained, points, rng=rng)
            return contour_chart(around)

        contours, why_not = or_why(draw)
    return {
        "chart": map_chart(points, id="map"),
        "contours": contours,
        "why_not": why_not,
        "about": _about_map(points, findings.unit),
        "classes": range(WITNESS_CLASSES),
    }


def _about_map(points: PointMap, unit: str) -> str:
    """Which points a map shows, and where."""
    shown = len(points.points)
    if shown < points.total:
        which = (
            f"{shown:,} of {points.total:,} {unit}, drawn at random without looking at their "
            "labels,"
        )
    else:
        which = f"All {shown:,} {unit}"
    if points.in_plane:
        where = "in the plane of the data"
    elif points.by_witness:
        where = (
            f"from what looks like {points.samples[1]} to what looks like {points.samples[0]}, and "
            f"up along what else varies most in {points.space}"
        )
    elif points.share is not None:
        where = (
            f"along the two main axes of {points.space}, which have {100 * points.share:.0f} % of "
            "their variance"
        )
    else:
        where = f"along {points.space}; the height means nothing"
    text = f"{which} {where}."
    outside = int((~points.inside).sum())
    if outside == 1:
        text += " 1 point far out is not shown."
    elif outside > 1:
        text += f" {outside} points far out are not shown."
    return text


def _points(findings: Findings) -> dict[str, Any] | None:
    """What the script needs to show a point of the map: its place, its row, its values or image."""
    points = findings.map
    explanation = findings.explanation
    if points is None or explanation is None:
        return None
    fitted, samples = held_out(explanation.result)
    schema = samples.schema
    # Points outside the map are not drawn, so nobody can point at them.
    inside = np.flatnonzero(points.inside)
    chosen = torch.from_numpy(points.points[inside])
    pooled = samples.pooled()[chosen.to(samples.x.device)]
    scaled = pooled.cpu().double()
    places = np.array(map_places(points))[inside]
    letters = np.where(points.of_y[inside], "Y", "X")
    witness = points.witness[inside]
    shared: dict[str, Any] = {
        # Fewer digits make a smaller page, and nobody sees more of them.
        "at": [(round(x, 1), round(y, 1)) for x, y in places.tolist()],
        "sample": "".join(letters.tolist()),
        "files": _files(findings, points.of_y[inside], points.rows[inside]),
        "row": points.rows[inside].tolist(),
        "witness": [float(f"{value:.2g}") for value in witness],
    }
    if schema.kind == "image":
        images = [row_pixels(schema, fitted.scaling, point) for point in scaled]
        return shared | sprite(images)
    names = _value_columns(findings)
    values = []
    for point in scaled:
        row = row_values(schema, fitted.scaling, point)
        values.append([as_text(row[name]) for name in names])
    return shared | {"columns": names, "values": values}


def _files(findings: Findings, of_y: Flags, rows: NDArray[np.int64]) -> list[str] | None:
    """The files that images came from; None where that is not known."""
    files = findings.result.files
    if files is None:
        return None
    both = zip(of_y.tolist(), rows.tolist(), strict=True)
    return [files[int(is_y)][row] for is_y, row in both]


def _training(findings: Findings) -> dict[str, Any]:
    result = findings.result
    log = result.training
    learning = None if result.fitted is None else result.fitted.spec.learning
    if log is None or learning is None:
        return {"log": None}
    objective = learning.objective
    # One step is a point, not a curve.
    curve = training_of(result) if log.steps > 1 else None
    return {
        "log": log,
        "stopped": log.stopped[:1].upper() + log.stopped[1:],
        "objective": "J" if isinstance(objective, PowerCriterion) else repr(objective),
        "held_out": held_out_objective(result),
        "overfitted": _is_overfitted(log, held_out_objective(result)),
        "curve": curve,
        "chart": None if curve is None else training_chart(curve),
    }


def _is_overfitted(log: TrainingLog, held_out: float | None) -> bool:
    """Whether little of what was reached in training is left on other rows."""
    if held_out is None or not log.objective:
        return False
    reached = float(np.mean(log.objective[-_LAST_STEPS:]))
    return reached > 0 and held_out < _KEPT * reached


def _repeat(findings: Findings, facts: Mapping[str, object]) -> list[Fact]:
    """Everything that it takes to do the same again."""
    result = findings.result
    lines = given_facts(facts, result.seed)
    if result.fitted is not None:
        lines.append(("Test", repr(result.fitted.spec), True))  # the repr of a test is valid code
    lines.append(("Calibration", result.calibration, False))
    if result.chosen is not None:
        lines.append(("Chosen", result.chosen, False))
    return [*lines, *fingerprints(result), *circumstances()]


def given_facts(facts: Mapping[str, object], seed: int | None) -> list[Fact]:
    """What the caller wants to be known, and the seed; a command is code."""
    told = dict(facts)
    told.setdefault("Seed", "that of the caller's generator" if seed is None else seed)
    lines = []
    for name, value in told.items():
        is_code = name == "Command"
        lines.append((name, str(value), is_code))
    return lines


def fingerprints(result: TwoSampleResult) -> list[Fact]:
    """Shapes and SHA-256 of the points as they were tested; a stream keeps no points."""
    if result.samples is None:
        return []
    facts: list[Fact] = []
    samples = result.samples
    for sample, points in (("X", samples.x), ("Y", samples.y)):
        shape = " × ".join(map(str, points.shape))
        text = f"{shape} numbers, SHA-256 {fingerprint(points)}"
        facts.append((f"{sample} as tested", text, False))
    return facts


def fingerprint(points: Tensor) -> str:
    """SHA-256 of encoded points: their shape, type and bytes."""
    array = points.cpu().contiguous().numpy()
    # In one byte order, so that the same points have the same fingerprint on every machine.
    little_endian = array.dtype.newbyteorder("<")
    header = f"{array.shape} {little_endian.str}"
    digest = hashlib.sha256(header.encode())
    content = array.astype(little_endian, copy=False)
    digest.update(content.data)
    return digest.hexdigest()


def circumstances() -> list[Fact]:
    """Which versions wrote a page, and when."""
    versions = [
        f"twosample {__version__}",
        f"Python {platform.python_version()}",
        # By their metadata: SciPy need not be imported to say which one it is.
        f"torch {version('torch')}",
        f"NumPy {version('numpy')}",
        f"SciPy {version('scipy')}",
        platform.system(),
    ]
    now = datetime.datetime.now(datetime.UTC)
    return [
        ("Versions", ", ".join(versions), False),
        ("Written", f"{now:%Y-%m-%d %H:%M} UTC", False),
    ]
