"""The report of a comparison: one page about one reference and many samples.

The first screen says which samples differ. Each sample has a part that folds out, with the
beginning of what its own report would say; `comparison["name"].report(path)` writes that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._insight.comparing import Comparison, effects
from .._insight.corrections import CORRECTIONS
from .._progress import bar
from .._random import Generators, RNGLike
from .charts import distances_of, null_of
from .findings import Findings, findings_of
from .page import fill, levels_with, or_why, ready, write
from .report import (
    Fact,
    circumstances,
    columns_part,
    fingerprints,
    given_facts,
    is_exact,
    rows_part,
)
from .svg_charts import distance_chart, null_chart, timeline_chart
from .timeline import Timeline, in_words, timelines_of

# Of each sample.
_COLUMNS_SHOWN = 12
_CHARTS_SHOWN = 3
_PICTURES_SHOWN = 4
_TIMELINES = 24  # columns over all samples
_LEAST_AXIS = 0.1  # an effect, below which no axis ends
_THUMBNAIL = 48  # pixels of the longer side

# Samples that fold out, with columns and with pictures: so a page stays below 3 MB.
_MOST_PARTS = 60
_MOST_ALBUMS = 30

_PROMISES = {
    "holm": "the probability that any sample with the distribution of the reference is said to "
    "differ is at most {alpha:g}, however the tests depend on each other (they share the "
    "reference)",
    "bh": "on average, at most a share of {alpha:g} of the samples said to differ do not, if the "
    "tests depend positively on each other (they share the reference; choose by or holm to assume "
    "nothing)",
    "by": "on average, at most a share of {alpha:g} of the samples said to differ do not, however "
    "the tests depend on each other (they share the reference)",
    "none": "each sample with the distribution of the reference is said to differ with a "
    "probability of {alpha:g}, so among many samples some will be",
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
    ready(path)  # before the explanations, which may take minutes
    page = render_comparison(
        comparison, reference=reference, facts=facts, rng=rng, progress=progress
    )
    return write(page, path)


def render_comparison(
    comparison: Comparison,
    *,
    reference: str = "the reference",
    facts: Mapping[str, object] | None = None,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> str:
    """The report of a comparison as HTML: one file that needs nothing else.

    Parameters
    ----------
    comparison
        What `compare` gave.
    reference
        What the reference is, such as the name of its file.
    facts
        More lines for the part on how to repeat it, such as {"Command": "...", "Seed": 0}.
    rng
        A seed or a generator, for the explanations; None means the seed of the comparison.
    progress
        Show a bar over the samples; None means on a terminal only.

    Examples
    --------
    >>> import twosample
    >>> from twosample.bench.datasets import blob
    >>> X, Y = blob(90, rng=0)
    >>> samples = {"like it": X[45:], "unlike it": Y}
    >>> comparison = twosample.compare(X[:45], samples, "mmd-o", rng=0)
    >>> render_comparison(comparison, rng=0).count("<details")
    2
    """
    alpha = comparison.alpha
    levels = levels_with(alpha)
    generators = Generators(comparison.seed if rng is None else rng)
    findings = _all_findings(comparison, reference, generators, progress)
    effect, values = effects(comparison)
    confidence = ""
    verdicts = {}
    which = {}
    adjusted = comparison.adjusted
    if comparison.has_tolerance:
        # It was asked about at one level: what is beyond it differs at all, what is within at none.
        adjusted = {name: float(name not in comparison.differing) for name in comparison}
    for level in levels:
        verdicts[level] = comparison.sentence(level)
        which[level] = in_words([name for name in adjusted if adjusted[name] <= level], [*adjusted])
    distances = None
    if len(comparison):  # a comparison that was interrupted may hold nothing yet
        explained = {}
        for name, each in findings.items():
            explained[name] = each.explained or each.result
        distances = distances_of(comparison, explained, adjusted)
        confidence = distances.confidence
        effect = distances.effect
        values = {each.name: each.value for each in distances.samples}
    timelines = timelines_of(comparison, findings, adjusted)
    promise = _PROMISES[comparison.correction]
    results = comparison.values()
    units = [each.unit for each in findings.values()]  # the same for all of them
    return fill(
        "comparison.html.jinja",
        {"levels": levels, "alpha": alpha},
        comparison=comparison,
        reference=reference,
        levels=levels,
        alpha=alpha,
        verdict=verdicts,
        which=which,
        promise={level: promise.format(alpha=level) for level in levels},
        adjusted=CORRECTIONS[comparison.correction].name,
        marks=adjusted,
        effect=effect,
        values=values,
        unit=units[0] if units else "rows",
        trained=any(result.train_sizes is not None for result in results),
        exact=all(is_exact(result) for result in results),
        chart=None if distances is None else distance_chart(distances),
        intervals=distances is not None and distances.has_intervals,
        confidence=confidence,
        timelines=_timeline_part(timelines, alpha),
        unchanging=max(0, len(timelines) - _TIMELINES),
        parts={name: _part(comparison, name, each) for name, each in findings.items()},
        repeat=_repeat(comparison, facts or {}),
    )


def _timeline_part(timelines: Sequence[Timeline], alpha: float) -> list[dict[str, Any]]:
    """The columns over all samples, as the template shows them."""
    highest: dict[str, float] = {}
    for line in timelines:
        highest[line.unit] = max(line.largest, highest.get(line.unit, _LEAST_AXIS))
    shown = []
    for line in timelines[:_TIMELINES]:
        names = [each.sample for each in line.differing(alpha)]
        part = {
            "name": line.name,
            "unit": line.unit,
            "chart": timeline_chart(line, alpha, highest[line.unit]),
            "differing": in_words(names, [each.sample for each in line.moments]),
        }
        shown.append(part)
    return shown


def _all_findings(
    comparison: Comparison, reference: str, generators: Generators, progress: bool | None
) -> dict[str, Findings]:
    """What there is to say about each of the samples that differ most."""

    def rank(name: str) -> tuple[float, float]:
        # Adjusted p-values are often equal; then the p-value itself decides.
        return comparison.adjusted[name], comparison[name].pvalue

    ranked = sorted(comparison, key=rank)
    most = _MOST_ALBUMS if _has_images(comparison) else _MOST_PARTS
    chosen = set(ranked[:most])
    findings = {}
    with bar("explaining samples", len(chosen), progress) as tick:
        # In the order of the comparison, which is the user's.
        for name in comparison:
            if name not in chosen:
                continue
            findings[name] = findings_of(
                comparison[name],
                comparison.alpha,
                explanation=None,
                generators=generators.child(name),  # the same whatever other samples there are
                progress=False,  # one bar over the samples is enough
                names=(reference, name),
            )
            tick(name)
    return findings


def _has_images(comparison: Comparison) -> bool:
    for result in comparison.values():
        if result.fitted is not None and result.fitted.schema.kind == "image":
            return True
    return False


def _part(comparison: Comparison, name: str, findings: Findings) -> dict[str, Any]:
    """What folds out for one sample."""
    result = findings.result
    columns = columns_part(findings, _CHARTS_SHOWN)
    table = [] if columns is None else columns["table"]
    # Rows of a table would make the page long; columns say more about it.
    rows = None
    if findings.unit == "images":
        rows = rows_part(findings, _PICTURES_SHOWN, _THUMBNAIL)
    return {
        "findings": findings,
        # No threshold: the one that counts depends on all samples.
        "null": or_why(lambda: null_chart(null_of(result), (), findings.alpha)),
        "columns": columns,
        "table": table[:_COLUMNS_SHOWN],
        "hidden": max(0, len(table) - _COLUMNS_SHOWN),
        "rows": rows,
        "facts": _facts(comparison, name),
    }


def _facts(comparison: Comparison, name: str) -> list[Fact]:
    """What it takes to test one sample again."""
    result = comparison[name]
    facts: list[Fact] = [
        ("Calibration", result.calibration, False),
        ("Seed", str(comparison.seeds[name]), False),
    ]
    if result.chosen is not None:
        facts.append(("Chosen", result.chosen, False))
    return [*facts, *fingerprints(result)]


def _repeat(comparison: Comparison, facts: Mapping[str, object]) -> list[Fact]:
    """Everything that it takes to do the same again."""
    lines = given_facts(facts, comparison.seed)
    fitted_tests = [result.fitted for result in comparison.values()]
    tests = [repr(fitted.spec) for fitted in fitted_tests if fitted is not None]
    for test in dict.fromkeys(tests):  # most samples share one
        lines.append(("Test", test, True))
    lines.append(("Correction", CORRECTIONS[comparison.correction].name, False))
    return [*lines, *circumstances()]
