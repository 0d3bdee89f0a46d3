"""What comes back: frozen records without maths."""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from ._checks import check_alpha
from ._findings import Findings
from ._random import takes_rng

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._calibration import Calibrated
    from ._data.samples import Samples
    from ._insight.changes import ColumnChange, PairChange
    from ._insight.explain import ColumnCorrection, Explanation
    from ._insight.prediction import PowerPlan
    from ._insight.regions import Region
    from ._insight.smallest import SmallestDifference
    from ._insight.tolerance import Decision
    from ._random import RNGLike
    from ._show.page import InlineReport
    from ._two_sample import FittedTest, FollowUp

ALPHA = 0.05
"""The level at which `Effect.power` is estimated and `str` gives its verdict."""


@dataclass(frozen=True)
class TrainingLog:
    """How a representation was trained.

    Attributes
    ----------
    objective
        Its value on the batch of each step.
    validation
        (step, value on the validation part) pairs; empty without one.
    best_step
        The step whose parameters were kept; 0 is the starting point.
    stopped
        Why training ended, in a sentence.
    seconds
        Wall-clock time.
    """

    objective: tuple[float, ...]
    validation: tuple[tuple[int, float], ...]
    best_step: int
    stopped: str
    seconds: float

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.objective)


class _Later:
    """A number of a record that is computed when it is first read, unless it was given."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, record: Effect | None, owner: type | None = None) -> Any:
        if record is None:
            return None  # the default of the field
        value = record.__dict__[self.name]
        parts = record.__dict__.get("parts")
        if value is None and parts is not None:
            from ._insight.effects import measured

            record.__dict__.update(measured(parts, self.name))
            value = record.__dict__[self.name]
        return value

    def __set__(self, record: Effect, value: Any) -> None:
        record.__dict__[self.name] = value


@dataclass(frozen=True)
class Effect:
    """How different the samples are, in numbers; None where there is no such number.

    What takes a pass over the rows is computed when it is first read. Intervals have a confidence
    of 95 %.

    Attributes
    ----------
    mmd
        The MMD; 0 where its estimated square is negative.
    criterion
        J of the paper, on the points that were tested.
    power
        The estimated chance that the test rejects at level 0.05 on new samples of the same sizes.
    accuracy, auc
        How well the witness of the test tells rows of X from rows of Y that it has not seen: its
        balanced accuracy, and the chance that a row of X scores higher than one of Y. 0.5 is
        chance. A classifier has its held-out scores; other witnesses are learned on four fifths of
        the tested rows and judged on the last, in turn.
    auc_interval
        The interval for the AUC of the witnesses that were learned. No witness has more than the
        best one, so its lower end is a bound for that one, too.
    changed
        At least this share of the rows of one sample would have to change to make the
        distributions equal: a lower bound of their total variation, with a confidence of 95 %.
    mmd2_interval
        The interval for MMD^2 by its normal law, which holds where the samples differ. Near P = Q
        it is wider than it need be. For a test of views it is that of their Gaussian kernel at the
        median distance.
    """

    mmd: float | None = None
    criterion: float | None = None
    power: float | None = None
    accuracy: float | None = _Later()  # type: ignore[assignment]
    auc: float | None = _Later()  # type: ignore[assignment]
    auc_interval: tuple[float, float] | None = _Later()  # type: ignore[assignment]
    changed: float | None = _Later()  # type: ignore[assignment]
    mmd2_interval: tuple[float, float] | None = _Later()  # type: ignore[assignment]

    def measured_on(self, parts: Mapping[str, Any]) -> Effect:
        """The same record, which computes what it does not know from the parts of a result."""
        given = {field.name: self.__dict__[field.name] for field in dataclasses.fields(self)}
        effect = Effect(**given)
        effect.__dict__["parts"] = parts
        return effect

    def __repr__(self) -> str:
        # What was not asked for yet is not computed to be printed.
        given = [(field.name, self.__dict__[field.name]) for field in dataclasses.fields(self)]
        known = [f"{name}={value!r}" for name, value in given if value is not None]
        return f"Effect({', '.join(known)})"


@dataclass(frozen=True, eq=False)
class TwoSampleResult:
    """The outcome of a two-sample test.

    Attributes
    ----------
    statistic
        MMD^2 on the held-out points; the unbiased estimate may be negative.
    pvalue
        Exact under P = Q for independent samples: Pr(pvalue <= alpha) <= alpha at every sample
        size.
    null_distribution
        The statistic over the shuffles, the observed order left out.
    method, calibration
        The name of the test, and what was shuffled how often.
    sizes, train_sizes
        How many points of X and Y were tested, and how many were trained on. `train_sizes` is None
        without training.
    effect
        How different the samples are: the MMD, J and the estimated power of the test.
    training
        The log of the training, or None.
    fitted, samples
        The fitted test, and the held-out points as it saw them.
    calibrated
        The shuffles and what the statistic was computed from.
    chosen
        What `method="auto"` chose, and why; None where the caller did.
    share
        The share of the level that the test had: its own p-value was divided by it.
    follow_up
        The test that has the rest of the level where samples are large enough; None where there is
        none.
    dropped
        How many rows of X and Y were left out because something in them was missing, as
        `Columns(missing="drop")` asks.
    seed
        The `rng` with which the same test gives this result again: the one that was given, or the
        one that was drawn for a run without any. None where the caller passed a generator.
    design, units
        What changed places, in words, and how many of these units were tested in X and in Y; None
        where each row moves by itself.
    usual_sizes
        How many rows X and Y would have if all units had as many: unlike `sizes` they are the same
        in every labelling. None where each row moves by itself.
    names
        What the samples are called: "X" and "Y", or the names of their files.
    checks
        What was odd about the samples, as `twosample.check` finds it.
    files
        Of images from two folders, the names of all files of X and of Y, in the order of their
        rows; None elsewhere.
    """

    statistic: float
    pvalue: float
    null_distribution: NDArray[np.float64] = field(repr=False)
    method: str
    calibration: str
    sizes: tuple[int, int]
    train_sizes: tuple[int, int] | None
    effect: Effect
    training: TrainingLog | None = field(repr=False)
    fitted: FittedTest | None = field(repr=False, default=None)
    samples: Samples | None = field(repr=False, default=None)
    calibrated: Calibrated | None = field(repr=False, default=None)
    chosen: str | None = None
    share: float = 1.0
    follow_up: FollowUp | None = field(repr=False, default=None)
    dropped: tuple[int, int] = (0, 0)
    checks: Findings = Findings()
    seed: int | None = None
    design: str | None = None
    units: tuple[int, int] | None = None
    usual_sizes: tuple[int, int] | None = None
    tolerance: Mapping[str, float] | None = None
    names: tuple[str, str] = ("X", "Y")
    files: tuple[tuple[str, ...], tuple[str, ...]] | None = field(repr=False, default=None)

    @property
    def sizes_of_all(self) -> tuple[int, int]:
        """How many points of X and Y were tested, by a number that no shuffle changes."""
        return self.usual_sizes or self.sizes

    def __post_init__(self) -> None:
        if self.fitted is None:
            return
        # The effect gets all other parts, but not the result: without a cycle, rows are freed as
        # soon as nobody has the result any more.
        names = [field.name for field in dataclasses.fields(self) if field.name != "effect"]
        parts = {name: getattr(self, name) for name in names}
        object.__setattr__(self, "effect", self.effect.measured_on(parts))

    @functools.cached_property
    def columns(self) -> tuple[ColumnChange, ...]:
        """What changed in each column of a table, in its own units; see `ColumnChange`.

        Computed when it is first read. Images have none, and a test of streams keeps no rows to
        describe, which is an `InputError`.
        """
        from ._insight.changes import column_changes

        return column_changes(self, self._where)

    @functools.cached_property
    def pairs(self) -> tuple[PairChange, ...]:
        """How each pair of columns that the test looked at goes together; see `PairChange`."""
        from ._insight.changes import pair_changes

        return pair_changes(self, self._where)

    @functools.cached_property
    def regions(self) -> tuple[Region, ...]:
        """Rules such as "age < 25 and hours >= 40" that hold for other shares of X and of Y.

        Found on one half of the rows and counted on the other; none where the test finds no
        difference.
        """
        from ._insight.regions import regions_of

        return regions_of(self)

    @functools.cached_property
    def _where(self) -> Explanation:
        """The tests of columns and pairs, which both of the above need."""
        return self.explain(rows=0, shuffles=0, rng=0)

    @property
    def _against(self) -> str:
        """What the statistic was compared with: `calibration` without what moved and how."""
        if self.calibrated is None:
            return self.calibration
        short = self.calibrated.in_short
        # What moved is worth a word where it was not rows.
        return short if self.units is None else f"{short} of {self.design}"

    def reject(self, alpha: float = ALPHA) -> bool:
        """Whether equality of the distributions is rejected at level `alpha`."""
        check_alpha(alpha)
        return self.pvalue <= alpha

    @property
    def verdict(self) -> str:
        """The answer at level 0.05: "differ" or "no difference found".

        With a tolerance it is "differ" (by more than that), "equivalent" (within it) or "undecided"
        (not enough rows to say). `decide` has it for other levels, with the numbers behind it.
        """
        return self.decide().verdict

    def decide(self, alpha: float = ALPHA) -> Decision:
        """The verdict at level `alpha`, and what each margin of the tolerance says."""
        from ._insight.tolerance import decide

        return decide(self, alpha)

    @functools.cached_property
    def smallest_difference(self) -> SmallestDifference | None:
        """The smallest difference that this test finds at level 0.05 with power 0.8.

        What "no difference found" means: what is larger would mostly have been found. None if it
        cannot be said. Computed when it is first read, from the shuffles of the test.
        """
        from ._insight.smallest import smallest_difference

        return smallest_difference(self)

    def to_dict(self, alpha: float = ALPHA) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON; the verdict is that at level `alpha`.

        The null distribution, the fitted test and the data are left out.
        """
        from ._insight.smallest import would_be_found

        decision = self.decide(alpha)
        smallest = would_be_found(self, alpha)
        training = None
        if self.training is not None:
            training = {
                "steps": self.training.steps,
                "best_step": self.training.best_step,
                "stopped": self.training.stopped,
                "seconds": self.training.seconds,
                "objective": list(self.training.objective),
                "validation": [list(pair) for pair in self.training.validation],
            }
        return {
            "method": self.method,
            "chosen": self.chosen,
            "statistic": self.statistic,
            "pvalue": self.pvalue,
            "calibration": self.calibration,
            "sizes": list(self.sizes),
            "train_sizes": None if self.train_sizes is None else list(self.train_sizes),
            "dropped": list(self.dropped),
            "checks": self.checks.to_dict(),
            "seed": self.seed,
            "design": self.design,
            "units": None if self.units is None else list(self.units),
            "effect": dataclasses.asdict(self.effect),
            "verdict": decision.verdict,
            "tolerance": None if self.tolerance is None else decision.to_dict()["margins"],
            "smallest_difference": None if smallest is None else smallest.to_dict(),
            "training": training,
        }

    @takes_rng
    def explain(
        self,
        *,
        alpha: float = ALPHA,
        correction: ColumnCorrection | None = None,
        rows: int = 10,
        shuffles: int = 3,
        max_points: int = 2000,
        rng: RNGLike | None = None,
        progress: bool | None = None,
    ) -> Explanation:
        """Say what tells X from Y: which columns, pairs, rows; see `twosample.explain`."""
        from ._insight.explain import explain

        return explain(
            self,
            alpha=alpha,
            correction=correction,
            rows=rows,
            shuffles=shuffles,
            max_points=max_points,
            rng=rng,
            progress=progress,
        )

    def predict_power(self) -> PowerPlan:
        """Predict the power at any number of tested points; see `twosample.predict_power`."""
        from ._insight.power import predict_power

        return predict_power(self)

    def summary(
        self,
        names: tuple[str, str] | None = None,
        *,
        alpha: float = ALPHA,
        markdown: bool = False,
    ) -> str:
        """The answer in a few lines, to be pasted: verdict, effect, what changed most.

        `names` are what X and Y are, by default `self.names`. With `markdown` there is a table of
        the columns.
        """
        from ._insight.summary import summary

        return summary(self, names or self.names, alpha=alpha, markdown=markdown)

    def picture(
        self,
        path: str | Path,
        *,
        alpha: float = ALPHA,
        names: tuple[str, str] | None = None,
    ) -> Path:
        """Write what `summary` says, beside a chart, into a small PNG, and return its path.

        It is there to be pasted into a message.
        """
        from ._show.card import write_card

        return write_card(self, path, alpha=alpha, names=names or self.names)

    @overload
    def report(
        self,
        path: str | Path,
        *,
        alpha: float = ...,
        names: tuple[str, str] | None = ...,
        facts: Mapping[str, object] | None = ...,
        rng: RNGLike | None = None,
    ) -> Path: ...

    @overload
    def report(
        self,
        path: None = None,
        *,
        alpha: float = ...,
        names: tuple[str, str] | None = ...,
        facts: Mapping[str, object] | None = ...,
        rng: RNGLike | None = None,
    ) -> InlineReport: ...

    @takes_rng
    def report(
        self,
        path: str | Path | None = None,
        *,
        alpha: float = ALPHA,
        names: tuple[str, str] | None = None,
        facts: Mapping[str, object] | None = None,
        rng: RNGLike | None = None,
    ) -> Path | InlineReport:
        """Write all that there is to see into one HTML file, and return its path.

        Without a path, a notebook shows the page where it is called. docs/report.md describes it.
        """
        from ._show.report import inline_report, write_report

        if path is None:
            return inline_report(self, alpha=alpha, names=names, facts=facts, rng=rng)
        return write_report(self, path, alpha=alpha, names=names, facts=facts, rng=rng)

    def plot(self, ax: Axes | None = None, *, alpha: float = ALPHA) -> Axes:
        """Draw the null distribution and the observed value.

        `twosample.plots` has other figures.
        """
        from .plots import null_distribution

        return null_distribution(self, ax, alpha=alpha)

    def __str__(self) -> str:
        n, m = self.sizes
        verdict = "The samples differ" if self.reject() else "No difference found"
        how = f"{self.method} on {n} + {m} points"
        if self.design is not None:
            how += f", {self.design}"
        if self.train_sizes is not None:
            trained_x, trained_y = self.train_sizes
            how += f", kernel learned on {trained_x} + {trained_y} others"
        if any(self.dropped):
            dropped_x, dropped_y = self.dropped
            how += f"; left out for missing values: {dropped_x} + {dropped_y} rows"
        text = f"{verdict}: p = {format_pvalue(self.pvalue)} ({how})."
        if self.tolerance is not None:
            return f"{text} {self.decide().sentence()}"
        smallest = None if self.reject() else self.smallest_difference
        return text if smallest is None else f"{text} {smallest.sentence()}"

    def _repr_html_(self) -> str:
        rows = [("p-value", format_pvalue(self.pvalue)), ("statistic", f"{self.statistic:.4g}")]
        # A statistic leaves out the numbers that make no sense for it.
        for name, value in dataclasses.asdict(self.effect).items():
            if value is not None:
                ends = value if isinstance(value, tuple) else (value,)
                rows.append((name, " to ".join(f"{end:.4g}" for end in ends)))
        rows.append(("calibration", self.calibration))
        if self.chosen is not None:
            rows.append(("chosen", self.chosen))
        cells = []
        for name, text in rows:
            head = f"<th style='text-align:left'>{html.escape(name)}</th>"
            cells.append(f"<tr>{head}<td>{html.escape(text)}</td></tr>")
        title = f"<p><strong>{html.escape(str(self))}</strong></p>"
        return f"<div>{title}<table>{''.join(cells)}</table></div>"


def format_pvalue(pvalue: float, alpha: float | None = None) -> str:
    """Three decimals, or two significant digits where those would show 0.000.

    Where these would stand on the other side of the level `alpha`, there are more of them.
    """
    text = f"{pvalue:.3f}" if pvalue >= 0.0005 else f"{pvalue:.2g}"
    if alpha is not None and (float(text) <= alpha) != (pvalue <= alpha):
        return f"{pvalue:.3g}"
    return text
