"""The report of a comparison: one page about one reference and many samples.

The first screen says which samples differ; each of them has a part that folds out, with what its
own report would say first. That one is `comparison["name"].report(path)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._insight.comparing import CORRECTIONS, Comparison, effects, verdict
from .._progress import bar
from .._random import Generators, RNGLike
from .charts import distances, null_of
from .page import fill, levels_with, or_why, ready, write
from .report import (
    Fact,
    Look,
    circumstances,
    columns_part,
    fingerprints,
    is_exact,
    look_at,
    rows_part,
)
from .svg import distance_chart, null_chart

_COLUMNS_SHOWN, _CHARTS_SHOWN = 12, 3  # of each sample
_PICTURES_SHOWN, _THUMBNAIL = 4, 48  # of each sample; pixels of the longer side
_MOST_PARTS, _MOST_ALBUMS = (
    60,
    30,
)  # samples that fold out, with columns and with pictures: a page stays below 3 MB

_PROMISES = {
    "holm": "the chance that any sample of the reference's distribution is said to differ is at most {alpha:g}, "
    "however the tests depend on each other (they share the reference)",
    "bh": "of the samples said to differ, the expected share that does not is at most {alpha:g}, if the tests depend "
    "positively on each other (they share the reference; choose by or holm to assume nothing)",
    "by": "of the samples said to differ, the expected share that does not is at most {alpha:g}, however the tests "
    "depend on each other (they share the reference)",
    "none": "each sample of the reference's distribution is said to differ with a chance of {alpha:g}, so of many "
    "samples some will be",
}


def write_comparison_report(
    comparison: Comparison,
    path: str | Path,
    *,
    reference: str = "the reference",
    facts: Mapping[str, object] | None = None,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> Path:
    """Write what `render_comparison` gives to a file, and return its path."""
    ready(path)
    return write(
        render_comparison(comparison, reference=reference, facts=facts, rng=rng, progress=progress),
        path,
    )


def render_comparison(
    comparison: Comparison,
    *,
    reference: str = "the reference",
    facts: Mapping[str, object] | None = None,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> str:
    """The report of a comparison as HTML: one file that needs nothing else, with scripts or without.

    Parameters
    ----------
    comparison
        What `compare` gave.
    reference
        What the reference is, such as the name of its file.
    facts
        More lines for the part on how to repeat it, such as {"Command": "...", "Seed": 0}.
    rng
        A seed or a generator, for the explanations.
    progress
        Show a bar over the samples; None means on a terminal only.

    Examples
    --------
    >>> import twosample
    >>> from twosample.bench.datasets import blob
    >>> X, Y = blob(90, rng=0)
    >>> found = twosample.compare(X[:45], {"like it": X[45:], "unlike it": Y}, "mmd-o", rng=0)
    >>> render_comparison(found, rng=0).count("<details")
    2
    """
    levels, alpha = levels_with(comparison.alpha), comparison.alpha
    looks = _looks(comparison, Generators(rng), progress)
    title, values = effects(comparison)
    seen = {name: look.seen or look.result for name, look in looks.items()}
    far = distances(comparison, seen)
    return fill(
        "comparison.html.jinja",
        {"levels": levels, "alpha": alpha},
        comparison=comparison,
        reference=reference,
        levels=levels,
        alpha=alpha,
        verdict={
            level: verdict(len(comparison.rejected(level)), len(comparison)) for level in levels
        },
        promise={level: _PROMISES[comparison.correction].format(alpha=level) for level in levels},
        adjusted=CORRECTIONS[comparison.correction][0],
        effect=title,
        values=values,
        unit=next((look.unit for look in looks.values()), "rows"),
        trained=any(result.train_sizes is not None for result in comparison.values()),
        exact=all(map(is_exact, comparison.values())),
        chart=distance_chart(far, title, alpha) if far else None,
        intervals=any(distance.ends is not None for distance in far),
        parts={name: _part(comparison, name, look) for name, look in looks.items()},
        repeat=_repeat(comparison, facts or {}),
    )


def _looks(
    comparison: Comparison, generators: Generators, progress: bool | None
) -> dict[str, Look]:
    """What the parts draw on, for the samples that differ most."""
    ranked = sorted(
        comparison, key=lambda name: (comparison.adjusted[name], comparison[name].pvalue)
    )
    fitted = (result.fitted for result in comparison.values())
    albums = any(test is not None and test.schema.kind == "image" for test in fitted)
    chosen = set(ranked[: _MOST_ALBUMS if albums else _MOST_PARTS])
    looks = {}
    with bar("explaining", len(chosen), progress) as tick:
        for name in comparison:
            if name in chosen:
                looks[name] = look_at(
                    comparison[name], comparison.alpha, None, generators.child(name), False
                )
                tick(name)
    return looks


def _part(comparison: Comparison, name: str, look: Look) -> dict[str, Any]:
    """What folds out for one sample."""
    result = look.result
    columns = columns_part(look, _CHARTS_SHOWN)
    return {
        "look": look,
        # No threshold: the one that counts depends on all samples.
        "null": or_why(lambda: null_chart(null_of(result), (), look.alpha)),
        "columns": columns,
        "table": None if columns is None else columns["table"][:_COLUMNS_SHOWN],
        "hidden": 0 if columns is None else max(0, len(columns["table"]) - _COLUMNS_SHOWN),
        "rows": rows_part(look, _PICTURES_SHOWN, _THUMBNAIL) if look.unit == "images" else None,
        "facts": _facts(comparison, name),
    }


def _facts(comparison: Comparison, name: str) -> list[Fact]:
    result, seed = comparison[name], str(comparison.seeds[name])
    chosen = [] if result.chosen is None else [("Chosen", result.chosen, False)]
    return [
        ("Calibration", result.calibration, False),
        ("Seed", seed, False),
        *chosen,
        *fingerprints(result),
    ]


def _repeat(comparison: Comparison, facts: Mapping[str, object]) -> list[Fact]:
    """Everything that it takes to do the same again."""
    lines: list[Fact] = [(name, str(value), name == "Command") for name, value in facts.items()]
    tests = dict.fromkeys(
        repr(result.fitted.spec) for result in comparison.values() if result.fitted is not None
    )
    lines += [("Test", test, True) for test in tests]
    lines.append(("Correction", CORRECTIONS[comparison.correction][0], False))
    return [*lines, *circumstances()]
