"""The report: one HTML file with everything that a result has to say, to be read offline and passed on.

The numbers come from `explain`, `power` and `views`, the charts from `svg`, the words from
`report.html.jinja`; this module puts them together. A part that a test does not have is replaced by
a sentence that says why.
"""

from __future__ import annotations

import base64
import datetime
import io
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from .._calibration import PairSwap, Permutation
from .._insight.explain import (
    ColumnDifference,
    Explanation,
    TellingRow,
    explain,
    held_out,
    row_pixels,
    row_values,
)
from .._insight.power import PredictedPower, predict_power
from .._objectives import PowerCriterion
from .._random import Generators, RNGLike
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._version import __version__
from .charts import (
    PointMap,
    fingerprint,
    kernel_fields,
    marginal_of,
    mosaic,
    null_of,
    on_fewer_points,
    point_map,
    power_over_sizes,
    shades,
    witness_field,
)
from .page import as_text, fill, levels_with, missing, or_why, ready, write
from .svg import (
    WITNESS_CLASSES,
    Drawn,
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

Fact: TypeAlias = tuple[str, str, bool]
"""Name and value, and whether that is code."""

_MOST_ROWS = 4000  # held-out rows of each sample, for what compares all of them
_MOST_POINTS, _MOST_PICTURES = 1500, 600  # on the map
_ROWS_SHOWN, _COLUMNS_SHOWN, _VALUES_SHOWN = 8, 6, 7
_THUMBNAIL, _TILE = 96, 40  # pixels of the longer side: of telling images, of those on the map


def write_report(
    result: TwoSampleResult,
    path: str | Path,
    *,
    alpha: float = ALPHA,
    names: tuple[str, str] = ("X", "Y"),
    explanation: Explanation | None = None,
    facts: Mapping[str, object] | None = None,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> Path:
    """Write what `render` gives to a file, and return its path."""
    ready(path)
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


def render(
    result: TwoSampleResult,
    *,
    alpha: float = ALPHA,
    names: tuple[str, str] = ("X", "Y"),
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
        What X and Y are, such as the names of their files.
    explanation
        What `explain(result)` gave; made here if None.
    facts
        More lines for the part on how to repeat the test, such as {"Command": "...", "Seed": 0}.
    rng
        A seed or a generator, for the explanation and for the choice of what is shown.
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
    look = look_at(result, alpha, explanation, Generators(rng), progress)
    return fill(
        "report.html.jinja",
        {"levels": look.levels, "alpha": alpha, "points": _points(look)},
        look=look,
        result=result,
        levels=look.levels,
        alpha=alpha,
        names=names,
        verdict=_verdict(look),
        null=or_why(lambda: null_chart(null_of(result), look.levels, alpha)),
        effect=_effect(look),
        columns=columns_part(look),
        rows=rows_part(look),
        map=_map(look),
        training=_training(look),
        repeat=_repeat(look, facts or {}),
    )


@dataclass(frozen=True, eq=False)
class Look:
    """What several parts of a page draw on."""

    result: TwoSampleResult
    alpha: float
    levels: tuple[float, ...]
    generators: Generators
    explanation: Explanation | None
    why_not: str  # there is no explanation

    @property
    def seen(self) -> TwoSampleResult | None:
        """The result of the rows that the explanation looked at."""
        return None if self.explanation is None else self.explanation.result

    @cached_property
    def drawn(self) -> PointMap | None:
        """The map of these rows; None where there is none to draw."""
        explanation, most = (
            self.explanation,
            _MOST_PICTURES if self.unit == "images" else _MOST_POINTS,
        )
        if explanation is None:
            return None
        return or_why(lambda: point_map(explanation, most=most, rng=self.generators.numpy("map")))[
            0
        ]

    def at_levels(self, text: Callable[[float], str]) -> dict[float, str]:
        """A text for each level."""
        return {level: text(level) for level in self.levels}

    @property
    def unit(self) -> str:
        """What a point is."""
        fitted = self.result.fitted
        return "images" if fitted is not None and fitted.schema.kind == "image" else "rows"

    @property
    def part(self) -> str:
        """Of which rows this is, if not of all held-out ones: a sentence."""
        if self.seen is None or self.seen.sizes == self.result.sizes:
            return ""
        (n, m), (of_n, of_m) = self.seen.sizes, self.result.sizes
        return (
            f"From {n:,} + {m:,} of the {of_n:,} + {of_m:,} held-out {self.unit}, drawn at random."
        )


def look_at(
    result: TwoSampleResult,
    alpha: float,
    explanation: Explanation | None,
    generators: Generators,
    progress: bool | None,
) -> Look:
    """What parts of a page draw on, with an explanation of at most so many rows if there is none yet."""
    levels, why_not = levels_with(alpha), ""
    if explanation is None:
        explanation, why_not = or_why(lambda: _explained(result, generators, progress))
    return Look(result, alpha, levels, generators, explanation, why_not)


def _explained(
    result: TwoSampleResult, generators: Generators, progress: bool | None
) -> Explanation:
    fewer = on_fewer_points(result, _MOST_ROWS, generators.numpy("fewer"))
    return explain(fewer, rows=_ROWS_SHOWN, rng=generators.numpy("explain"), progress=progress)


# The parts of the page, in their order. Each gives what the template shows.


def _verdict(look: Look) -> dict[str, Any]:
    result, p = look.result, format_pvalue(look.result.pvalue)
    return {
        "title": look.at_levels(
            lambda a: "The samples differ" if result.reject(a) else "No difference found"
        ),
        "differ": {level: result.reject(level) for level in look.levels},
        "side": look.at_levels(
            lambda a: f"p = {p} is {'at most' if result.reject(a) else 'above'} α = {a:g}"
        ),
        "p": p,
        "exact": is_exact(result),
    }


def is_exact(result: TwoSampleResult) -> bool:
    """Whether the p-value holds at any size, not only in a limit."""
    return result.fitted is None or isinstance(
        result.fitted.spec.calibration, Permutation | PairSwap
    )


def _effect(look: Look) -> dict[str, Any]:
    effect, result = look.result.effect, look.result
    # From a part of the rows where there are many: it is one more pass over all pairs of them.
    predicted, why_not = or_why(lambda: predict_power(look.seen or result))
    tiles = [
        (
            "MMD",
            effect.mmd,
            "the distance between the samples as the kernel sees them; 0 where there is none",
        ),
        (
            "J",
            effect.criterion,
            "MMD² over its standard deviation: what the power of the test grows with",
        ),
        (
            "Accuracy",
            effect.accuracy,
            f"of the classifier on held-out {look.unit}, both samples weighing the same; 0.5 is "
            "chance",
        ),
        ("AUC", effect.auc, "the chance that X scores higher than Y, one of each; 0.5 is chance"),
    ]
    shown: list[dict[str, Any]] = [
        {"name": name, "value": f"{value:.3g}", "note": note}
        for name, value, note in tiles
        if value is not None
    ]
    chart = None
    if predicted is not None:
        shown += _power_tiles(look, predicted)
        chart = _power_chart(look, predicted)
    elif effect.power is not None:
        note = (
            f"the chance to find this difference again with as many {look.unit}, at α = {ALPHA:g}"
        )
        shown.append({"name": "Power", "value": f"{effect.power:.2f}", "note": note})
    return {"tiles": shown, "chart": chart, "why_not": why_not}


def _power_tiles(look: Look, predicted: PredictedPower) -> list[dict[str, Any]]:
    n, m = look.result.sizes
    ratio = m / n
    on_top = "" if look.result.train_sizes is None else f"; {look.unit} to learn from come on top"

    def needed(level: float) -> str:
        count = predicted.samples_needed(POWER, level, ratio=ratio)
        return "not known" if count is None else f"{count:,} + {max(2, round(count * ratio)):,}"

    def around_needed(level: float) -> str:
        ends = predicted.samples_interval(POWER, level, ratio=ratio)
        low, high = (None if end is None else f"{end:,}" for end in ends)
        if low is None:
            return f"no number of {look.unit} is known to be enough"
        between = (
            f"{low} to {high} of X"
            if high is not None
            else f"at least {low} of X; there may be nothing to find"
        )
        return f"to test, of X and Y ({between}){on_top}"

    def around_power(level: float) -> str:
        low, high = predicted.power_interval(n, m, level)
        return f"{low:.2f} to {high:.2f}: the chance to find this difference again on {n:,} + {m:,} new {look.unit}"

    def careful(text: Callable[[float], str]) -> dict[float, str]:
        return look.at_levels(
            lambda level: or_why(partial(text, level))[0] or "too few shuffles for this level"
        )

    power = careful(lambda level: f"{predicted.power(n, m, level):.2f}")
    return [
        {"name": "Predicted power", "value": power, "note": careful(around_power)},
        {
            "name": f"{look.unit.capitalize()} for {100 * POWER:.0f} % power",
            "value": careful(needed),
            "note": careful(around_needed),
        },
    ]


def _power_chart(look: Look, predicted: PredictedPower) -> Drawn | None:
    curves, (n, m) = {}, look.result.sizes
    for level in look.levels:
        curve, _ = or_why(
            partial(power_over_sizes, predicted, power=POWER, alpha=level, sizes=(n, m))
        )
        if curve is not None:  # too few shuffles for so small a level
            curves[level] = curve
    if look.alpha not in curves:
        return None
    return power_chart(curves, look.alpha, POWER, m / n, look.unit)


def columns_part(look: Look, charts: int = _COLUMNS_SHOWN) -> dict[str, Any] | None:
    """Columns by rank, and how the first of them are distributed; None where there are none."""
    if look.explanation is None or not look.explanation.columns or look.seen is None:
        return None
    ranked = look.explanation.ranked()
    longest = max((abs(column.importance_share or 0.0) for column in ranked), default=0.0) or 1.0

    def differing(level: float) -> str:
        count = sum(column.adjusted <= level for column in ranked)
        verb = "differs by itself" if count == 1 else "differ by themselves"
        return f"{count or 'None'} of {len(ranked)} columns {verb} at α = {level:g}"

    def cells(column: ColumnDifference) -> dict[str, Any]:
        share = column.importance_share
        return {
            "name": column.name,
            "kind": column.kind,
            "statistic": column.statistic,
            "pvalue": column.pvalue,
            "adjusted": column.adjusted,
            "share": share,
            "bar": 0.0 if share is None else round(max(0.0, share) / longest, 3),
        }

    seen = look.seen
    drawn = [
        {"column": column, "chart": marginal_chart(marginal_of(seen, column.name))}
        for column in ranked[:charts]
    ]
    return {
        "table": [cells(column) for column in ranked],
        "differing": look.at_levels(differing),
        "charts": drawn,
        "calibration": look.explanation.calibration,
        "correction": look.explanation.correction,
        "notes": look.explanation.notes,
    }


def rows_part(
    look: Look, most: int = _ROWS_SHOWN, thumbnail: int = _THUMBNAIL
) -> dict[str, Any] | None:
    """The rows of each sample that tell most, as tables or as pictures; None without an explanation."""
    if look.explanation is None:
        return None
    rows = look.explanation.rows_x[:most], look.explanation.rows_y[:most]
    shown = _value_columns(look.explanation)
    pictures = iter(_pictures([row for sample in rows for row in sample], thumbnail))

    def cells(row: TellingRow) -> dict[str, Any]:
        values = [row.values[name] for name in shown]
        return {
            "row": row.row,
            "share": row.share,
            "cells": values,
            "picture": next(pictures, None),
        }

    samples = [
        {"sample": sample, "rows": [cells(row) for row in of_sample]}
        for sample, of_sample in zip("XY", rows, strict=True)
    ]
    return {
        "columns": shown,
        "samples": samples,
        "hidden": len(look.explanation.columns) - len(shown),
    }


def _value_columns(explanation: Explanation) -> list[str]:
    """The columns whose values are shown beside a row: the first by rank."""
    return [column.name for column in explanation.ranked()[:_VALUES_SHOWN]]


def _map(look: Look) -> dict[str, Any] | None:
    drawn, seen = look.drawn, look.seen
    if drawn is None or seen is None:
        return None
    field = witness_field(seen, drawn.limits) if drawn.in_plane else None
    contours, why_not = None, ""
    if drawn.in_plane:
        rng = look.generators.numpy("centres")
        fields, why_not = or_why(lambda: kernel_fields(seen, drawn.limits, rng=rng))
        contours = None if fields is None else contour_chart(drawn, *fields)
    return {
        "chart": map_chart(drawn, field, id="map"),
        "contours": contours,
        "why_not": why_not,
        "about": _about(drawn),
        "classes": range(WITNESS_CLASSES),
    }


def _about(drawn: PointMap) -> str:
    """Which points a map shows, and where."""
    shown, outside = len(drawn.points), int((~drawn.inside).sum())
    if shown < drawn.total:
        which = (
            f"{shown:,} of {drawn.total:,} points, drawn at random without a look at their labels,"
        )
    else:
        which = f"All {shown:,} points"
    where = f"along {drawn.space}; the height means nothing"
    if drawn.in_plane:
        where = "in the plane of the data"
    elif drawn.share is not None:
        where = f"along the two main axes of {drawn.space}, which have {100 * drawn.share:.0f} % of their variance"
    return f"{which} {where}." + (
        f" {outside} far out {'is' if outside == 1 else 'are'} not shown." if outside else ""
    )


def _points(look: Look) -> dict[str, Any] | None:
    """What a reader sees who points at the map: where each point is, its row and its values or picture."""
    drawn, seen, explanation = look.drawn, look.seen, look.explanation
    if drawn is None or seen is None or explanation is None:
        return None
    fitted, samples = held_out(seen)
    inside = np.flatnonzero(drawn.inside)
    pooled = (
        samples.pooled()[torch.from_numpy(drawn.points[inside]).to(samples.x.device)].cpu().double()
    )
    places = map_places(drawn)
    found: dict[str, Any] = {
        "at": [places[k] for k in inside],
        "sample": "".join("Y" if drawn.of_y[k] else "X" for k in inside),
        "row": drawn.rows[inside].tolist(),
        "witness": [float(f"{value:.2g}") for value in drawn.witness[inside]],
    }
    if samples.schema.kind == "image":
        return found | _sprite(
            [row_pixels(samples.schema, fitted.scaling, point) for point in pooled]
        )
    names = _value_columns(explanation)
    rows = (row_values(samples.schema, fitted.scaling, point) for point in pooled)
    return found | {
        "columns": names,
        "values": [[as_text(row[name]) for name in names] for row in rows],
    }


def _training(look: Look) -> dict[str, Any]:
    log, fitted = look.result.training, look.result.fitted
    if log is None or fitted is None or fitted.spec.learning is None:
        return {"log": None}
    objective = fitted.spec.learning.objective
    held_out_value = look.result.effect.criterion if isinstance(objective, PowerCriterion) else None
    return {
        "log": log,
        "stopped": log.stopped[:1].upper() + log.stopped[1:],
        "objective": "J" if isinstance(objective, PowerCriterion) else repr(objective),
        "held_out": held_out_value,
        "chart": training_chart(log, held_out_value) if log.steps > 1 else None,
    }


def _repeat(look: Look, facts: Mapping[str, object]) -> list[Fact]:
    """Everything that it takes to do the same again."""
    result = look.result
    lines: list[Fact] = [(name, str(value), name == "Command") for name, value in facts.items()]
    if result.fitted is not None:
        lines.append(("Test", repr(result.fitted.spec), True))
    lines.append(("Calibration", result.calibration, False))
    if result.chosen is not None:
        lines.append(("Chosen", result.chosen, False))
    return [*lines, *fingerprints(result), *circumstances()]


def fingerprints(result: TwoSampleResult) -> list[Fact]:
    """Shapes and SHA-256 of the points as they were tested; none of a stream."""
    if result.samples is None:
        return []
    return [
        (
            f"{sample} as tested",
            f"{' × '.join(map(str, points.shape))} numbers, SHA-256 {fingerprint(points)}",
            False,
        )
        for sample, points in (("X", result.samples.x), ("Y", result.samples.y))
    ]


def circumstances() -> list[Fact]:
    """By which versions a page was written, and when."""
    made = f"Python {platform.python_version()}, torch {version('torch')}, NumPy {version('numpy')}"
    now = datetime.datetime.now(datetime.UTC)
    return [
        (
            "Versions",
            f"twosample {__version__}, {made}, SciPy {version('scipy')}, {platform.system()}",
            False,
        ),
        ("Written", f"{now:%Y-%m-%d %H:%M} UTC", False),
    ]


# Pictures.


def _pictures(rows: Sequence[TellingRow], longest: int) -> list[str]:
    """Thumbnails of the images among the rows."""
    images = [row.pixels for row in rows if row.pixels is not None]
    return [_address(_smaller(image, longest), "PNG") for image in shades(images)]


def _sprite(images: Sequence[NDArray[Any]]) -> dict[str, Any]:
    """All images of the map in one, small."""
    tiles = [np.asarray(_smaller(image, _TILE)) for image in shades(images)]
    columns = 30
    height, width = tiles[0].shape[:2]
    sheet = mosaic([tile[..., :3] if tile.ndim == 3 else tile for tile in tiles], columns, gap=0)
    return {
        "sprite": _address(_image().fromarray(sheet), "JPEG"),
        "tile": [width, height],
        "across": columns,
    }


def _smaller(image: NDArray[np.uint8], longest: int) -> Any:
    picture = _image().fromarray(image)
    picture.thumbnail((longest, longest))
    return picture


def _address(picture: Any, kind: str) -> str:
    """A picture as an address that holds all of it."""
    file = io.BytesIO()
    picture.save(file, kind, optimize=True, quality=80)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def _image() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise missing("Pillow") from error
    return Image
