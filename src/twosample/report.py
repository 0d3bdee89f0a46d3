"""The report: one HTML file with everything that a result has to say, to be read offline and passed on.

The numbers come from `explain`, `power` and `views`, the charts from `svg`, the words from `report.html.jinja`; this
module puts them together. A part that a test does not have is replaced by a sentence that says why.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ._random import RNGLike, Streams
from ._version import __version__
from .calibration import PairSwap, Permutation
from .errors import IncompatibleParts, InputError, MissingDependency
from .explain import ColumnDifference, Explanation, TellingRow, explain, held_out, row_pixels, row_values
from .objectives import PowerCriterion
from .power import PredictedPower, predict_power
from .result import ALPHA, TwoSampleResult, format_pvalue
from .saving import writable
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
from .views import (
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

LEVELS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""The levels alpha to choose from on the page, beside the one it is written for."""

POWER = 0.9
"""The power for which the page says how many rows it takes."""

_MOST_ROWS = 4000  # held-out rows of each sample, for what compares all of them
_MOST_POINTS, _MOST_PICTURES = 1500, 600  # on the map
_ROWS_SHOWN, _COLUMNS_SHOWN, _VALUES_SHOWN = 8, 6, 7
_THUMBNAIL, _TILE = 96, 40  # pixels of the longer side: of telling images, of those on the map

Part = TypeVar("Part")


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
    file = ready(path)
    page = render(result, alpha=alpha, names=names, explanation=explanation, facts=facts, rng=rng, progress=progress)
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"the report cannot be written to {path}: {error.strerror or error}.") from error
    return Path(path)


def ready(path: str | Path) -> Path:
    """The file that a report will be written to, if it can be: better asked before a test than after it."""
    _template()
    return writable(path)


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
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; it must lie strictly between 0 and 1.")
    template = _template()
    look = _look(result, alpha, explanation, Streams(rng), progress)
    script = _file("report.js")
    page: str = template.render(
        look=look,
        result=result,
        alpha=alpha,
        names=names,
        style=Drawn(_file("report.css")),
        script=Drawn(script),
        # Only this script runs, whatever the data hold, and nothing is fetched.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        verdict=_verdict(look),
        null=_or_why(lambda: null_chart(null_of(result), look.levels, alpha)),
        effect=_effect(look),
        columns=_columns(look),
        rows=_telling_rows(look),
        map=_map(look),
        training=_training(look),
        repeat=_repeat(look, facts or {}),
        data=_json({"levels": look.levels, "alpha": alpha, "points": _points(look)}),
    )
    return page


@dataclass(frozen=True, eq=False)
class _Look:
    """What several parts of the page draw on."""

    result: TwoSampleResult
    alpha: float
    levels: tuple[float, ...]
    streams: Streams
    explanation: Explanation | None
    why_not: str  # there is no explanation
    seen: TwoSampleResult | None  # of the rows that the explanation looked at
    drawn: PointMap | None

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
        return f"From {n:,} + {m:,} of the {of_n:,} + {of_m:,} held-out {self.unit}, drawn at random."


def _look(
    result: TwoSampleResult,
    alpha: float,
    explanation: Explanation | None,
    streams: Streams,
    progress: bool | None,
) -> _Look:
    levels = tuple(sorted({*LEVELS, alpha}))
    why_not, seen, drawn = "", None, None
    try:
        if explanation is None:
            fewer = on_fewer_points(result, _MOST_ROWS, streams.numpy("fewer"))
            explanation = explain(fewer, rows=_ROWS_SHOWN, rng=streams.numpy("explain"), progress=progress)
        seen = explanation.result
        images = held_out(seen)[1].schema.kind == "image"
        most = _MOST_PICTURES if images else _MOST_POINTS
        drawn = point_map(explanation, most=most, rng=streams.numpy("map"))
    except (InputError, IncompatibleParts) as error:
        why_not = _sentence(error)
    return _Look(result, alpha, levels, streams, explanation, why_not, seen, drawn)


# The parts of the page, in their order. Each gives what the template shows.


def _verdict(look: _Look) -> dict[str, Any]:
    result, p = look.result, format_pvalue(look.result.pvalue)
    exact = result.fitted is None or isinstance(result.fitted.spec.calibration, Permutation | PairSwap)
    return {
        "title": look.at_levels(lambda a: "The samples differ" if result.reject(a) else "No difference found"),
        "differ": {level: result.reject(level) for level in look.levels},
        "side": look.at_levels(lambda a: f"p = {p} is {'at most' if result.reject(a) else 'above'} α = {a:g}"),
        "p": p,
        "exact": exact,
    }


def _effect(look: _Look) -> dict[str, Any]:
    effect, result = look.result.effect, look.result
    # From a part of the rows where there are many: it is one more pass over all pairs of them.
    predicted, why_not = _or_why(lambda: predict_power(look.seen or result))
    tiles = [
        ("MMD", effect.mmd, "the distance between the samples as the kernel sees them; 0 where there is none"),
        ("J", effect.criterion, "MMD² over its standard deviation: what the power of the test grows with"),
        (
            "Accuracy",
            effect.accuracy,
            f"of the classifier on held-out {look.unit}, both samples weighing the same; 0.5 is chance",
        ),
        ("AUC", effect.auc, "the chance that X scores higher than Y, one of each; 0.5 is chance"),
    ]
    shown: list[dict[str, Any]] = [
        {"name": name, "value": f"{value:.3g}", "note": note} for name, value, note in tiles if value is not None
    ]
    chart = None
    if predicted is not None:
        shown += _power_tiles(look, predicted)
        chart = _power_chart(look, predicted)
    elif effect.power is not None:
        note = f"the chance to find this difference again with as many {look.unit}, at α = {ALPHA:g}"
        shown.append({"name": "Power", "value": f"{effect.power:.2f}", "note": note})
    return {"tiles": shown, "chart": chart, "why_not": why_not}


def _power_tiles(look: _Look, predicted: PredictedPower) -> list[dict[str, Any]]:
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
        between = f"{low} to {high} of X" if high is not None else f"at least {low} of X; there may be nothing to find"
        return f"to test, of X and Y ({between}){on_top}"

    def around_power(level: float) -> str:
        low, high = predicted.power_interval(n, m, level)
        return f"{low:.2f} to {high:.2f}: the chance to find this difference again on {n:,} + {m:,} new {look.unit}"

    def careful(text: Callable[[float], str]) -> dict[float, str]:
        return look.at_levels(lambda level: _or_why(partial(text, level))[0] or "too few shuffles for this level")

    power = careful(lambda level: f"{predicted.power(n, m, level):.2f}")
    return [
        {"name": "Predicted power", "value": power, "note": careful(around_power)},
        {
            "name": f"{look.unit.capitalize()} for {100 * POWER:.0f} % power",
            "value": careful(needed),
            "note": careful(around_needed),
        },
    ]


def _power_chart(look: _Look, predicted: PredictedPower) -> Drawn | None:
    curves, (n, m) = {}, look.result.sizes
    for level in look.levels:
        curve, _ = _or_why(partial(power_over_sizes, predicted, power=POWER, alpha=level, sizes=(n, m)))
        if curve is not None:  # too few shuffles for so small a level
            curves[level] = curve
    if look.alpha not in curves:
        return None
    return power_chart(curves, look.alpha, POWER, m / n, look.unit)


def _columns(look: _Look) -> dict[str, Any] | None:
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
            "bar": 0.0 if share is None else round(100 * max(0.0, share) / longest, 1),
        }

    charts = [
        {"column": column, "chart": marginal_chart(marginal_of(look.seen, column.name))}
        for column in ranked[:_COLUMNS_SHOWN]
    ]
    return {
        "table": [cells(column) for column in ranked],
        "differing": look.at_levels(differing),
        "charts": charts,
        "calibration": look.explanation.calibration,
        "correction": look.explanation.correction,
        "notes": look.explanation.notes,
    }


def _telling_rows(look: _Look) -> dict[str, Any] | None:
    """The rows of each sample that tell most, as tables or as pictures; None without an explanation."""
    if look.explanation is None:
        return None
    rows = look.explanation.rows_x[:_ROWS_SHOWN], look.explanation.rows_y[:_ROWS_SHOWN]
    shown = _value_columns(look.explanation)
    pictures = iter(_pictures([row for sample in rows for row in sample]))

    def cells(row: TellingRow) -> dict[str, Any]:
        values = [row.values[name] for name in shown]
        return {"row": row.row, "share": row.share, "cells": values, "picture": next(pictures, None)}

    samples = [
        {"sample": sample, "rows": [cells(row) for row in of_sample]}
        for sample, of_sample in zip("XY", rows, strict=True)
    ]
    return {"columns": shown, "samples": samples, "hidden": len(look.explanation.columns) - len(shown)}


def _value_columns(explanation: Explanation) -> list[str]:
    """The columns whose values are shown beside a row: the first by rank."""
    return [column.name for column in explanation.ranked()[:_VALUES_SHOWN]]


def _map(look: _Look) -> dict[str, Any] | None:
    drawn, seen = look.drawn, look.seen
    if drawn is None or seen is None:
        return None
    field = witness_field(seen, drawn.limits) if drawn.in_plane else None
    contours, why_not = None, ""
    if drawn.in_plane:
        rng = look.streams.numpy("centres")
        fields, why_not = _or_why(lambda: kernel_fields(seen, drawn.limits, rng=rng))
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
        which = f"{shown:,} of {drawn.total:,} points, drawn at random without a look at their labels,"
    else:
        which = f"All {shown:,} points"
    where = f"along {drawn.space}; the height means nothing"
    if drawn.in_plane:
        where = "in the plane of the data"
    elif drawn.share is not None:
        where = f"along the two main axes of {drawn.space}, which have {100 * drawn.share:.0f} % of their variance"
    return f"{which} {where}." + (f" {outside} far out {'is' if outside == 1 else 'are'} not shown." if outside else "")


def _points(look: _Look) -> dict[str, Any] | None:
    """What a reader sees who points at the map: where each point is, its row and its values or picture."""
    drawn, seen, explanation = look.drawn, look.seen, look.explanation
    if drawn is None or seen is None or explanation is None:
        return None
    fitted, samples = held_out(seen)
    inside = np.flatnonzero(drawn.inside)
    pooled = samples.pooled()[torch.from_numpy(drawn.points[inside]).to(samples.x.device)].cpu().double()
    places = map_places(drawn)
    found: dict[str, Any] = {
        "at": [places[k] for k in inside],
        "sample": "".join("Y" if drawn.of_y[k] else "X" for k in inside),
        "row": drawn.rows[inside].tolist(),
        "witness": [float(f"{value:.2g}") for value in drawn.witness[inside]],
    }
    if samples.schema.kind == "image":
        return found | _sprite([row_pixels(samples.schema, fitted.scaling, point) for point in pooled])
    names = _value_columns(explanation)
    rows = (row_values(samples.schema, fitted.scaling, point) for point in pooled)
    return found | {"columns": names, "values": [[_shown(row[name]) for name in names] for row in rows]}


def _training(look: _Look) -> dict[str, Any]:
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


def _repeat(look: _Look, facts: Mapping[str, object]) -> list[tuple[str, str, bool]]:
    """(name, value, whether it is code) of everything that it takes to do the same again."""
    result = look.result
    lines: list[tuple[str, str, bool]] = [(name, str(value), name == "Command") for name, value in facts.items()]
    if result.fitted is not None:
        lines.append(("Test", repr(result.fitted.spec), True))
    lines.append(("Calibration", result.calibration, False))
    if result.chosen is not None:
        lines.append(("Chosen", result.chosen, False))
    if result.samples is not None:
        for sample, points in (("X", result.samples.x), ("Y", result.samples.y)):
            shape = " × ".join(f"{size}" for size in points.shape)
            lines.append((f"{sample} as tested", f"{shape} numbers, SHA-256 {fingerprint(points)}", False))
    made = f"Python {platform.python_version()}, torch {version('torch')}, NumPy {version('numpy')}"
    lines.append(("Versions", f"twosample {__version__}, {made}, SciPy {version('scipy')}, {platform.system()}", False))
    now = datetime.datetime.now(datetime.UTC)
    lines.append(("Written", f"{now:%Y-%m-%d %H:%M} UTC", False))
    return lines


# Pictures.


def _pictures(rows: Sequence[TellingRow]) -> list[str]:
    """Thumbnails of the images among the rows."""
    images = [row.pixels for row in rows if row.pixels is not None]
    return [_address(_smaller(image, _THUMBNAIL), "PNG") for image in shades(images)]


def _sprite(images: Sequence[NDArray[Any]]) -> dict[str, Any]:
    """All images of the map in one, small."""
    tiles = [np.asarray(_smaller(image, _TILE)) for image in shades(images)]
    columns = 30
    height, width = tiles[0].shape[:2]
    sheet = mosaic([tile[..., :3] if tile.ndim == 3 else tile for tile in tiles], columns, gap=0)
    return {"sprite": _address(_image().fromarray(sheet), "JPEG"), "tile": [width, height], "across": columns}


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
        raise _missing("Pillow") from error
    return Image


# Common to all.


def _template() -> Any:
    try:
        import jinja2
        import matplotlib  # noqa: F401  # for contours; better now than halfway
    except ImportError as error:
        raise _missing(error.name or "jinja2") from error
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"p": format_pvalue, "shown": _shown, "percent": lambda share: f"{100 * share:.1f} %"}
    return environment.from_string(_file("report.html.jinja"))


def _missing(package: str) -> MissingDependency:
    return MissingDependency(f"the report takes {package}; pip install 'twosample[report]'.")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _or_why(make: Callable[[], Part]) -> tuple[Part | None, str]:
    """A part of the page and "", or None and a sentence that says why there is none."""
    try:
        return make(), ""
    except (InputError, IncompatibleParts) as error:
        return None, _sentence(error)


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


def _shown(value: float | bool | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _json(value: object) -> Drawn:
    """JSON that can stand in a script element: no `<` in it ends that early, or opens a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Drawn(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
