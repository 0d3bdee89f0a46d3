"""What comes back: frozen records without maths."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._checks import check_alpha
from ._random import takes_rng

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._calibration import Calibrated
    from ._data.samples import Samples
    from ._insight.explain import ColumnCorrection, Explanation
    from ._insight.prediction import PowerPlan
    from ._random import RNGLike
    from ._two_sample import FittedTest

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


@dataclass(frozen=True)
class Effect:
    """How different the samples are, in numbers; None where the statistic has no such number.

    Attributes
    ----------
    mmd
        The MMD; 0 where its estimated square is negative.
    criterion
        J of the paper, on the points that were tested.
    power
        The estimated chance that the test rejects at level 0.05 on new samples of the same sizes.
    accuracy, auc
        Of the score by which a classifier tells X from Y: its balanced accuracy, and the chance
        that a point of X scores higher than a point of Y.
    """

    mmd: float | None = None
    criterion: float | None = None
    power: float | None = None
    accuracy: float | None = None
    auc: float | None = None


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
    dropped: tuple[int, int] = (0, 0)
    seed: int | None = None
    design: str | None = None
    units: tuple[int, int] | None = None
    usual_sizes: tuple[int, int] | None = None

    @property
    def sizes_of_all(self) -> tuple[int, int]:
        """How many points of X and Y were tested, by a number that no shuffle changes."""
        return self.usual_sizes or self.sizes

    def reject(self, alpha: float = ALPHA) -> bool:
        """Whether equality of the distributions is rejected at level `alpha`."""
        check_alpha(alpha)
        return self.pvalue <= alpha

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON.

        The null distribution, the fitted test and the data are left out.
        """
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
            "seed": self.seed,
            "design": self.design,
            "units": None if self.units is None else list(self.units),
            "effect": dataclasses.asdict(self.effect),
            "training": training,
        }

    @takes_rng
    def explain(
        self,
        *,
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

    @takes_rng
    def report(
        self,
        path: str | Path,
        *,
        alpha: float = ALPHA,
        names: tuple[str, str] = ("X", "Y"),
        facts: Mapping[str, object] | None = None,
        rng: RNGLike | None = None,
    ) -> Path:
        """Write all that there is to see into one HTML file, and return its path.

        docs/report.md describes the page.
        """
        from ._show.report import write_report

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
        return f"{verdict}: p = {format_pvalue(self.pvalue)} ({how})."

    def _repr_html_(self) -> str:
        rows = [("p-value", format_pvalue(self.pvalue)), ("statistic", f"{self.statistic:.4g}")]
        # A statistic leaves out the numbers that make no sense for it.
        for name, value in dataclasses.asdict(self.effect).items():
            if value is not None:
                rows.append((name, f"{value:.4g}"))
        rows.append(("calibration", self.calibration))
        if self.chosen is not None:
            rows.append(("chosen", self.chosen))
        cells = []
        for name, text in rows:
            head = f"<th style='text-align:left'>{html.escape(name)}</th>"
            cells.append(f"<tr>{head}<td>{html.escape(text)}</td></tr>")
        title = f"<p><strong>{html.escape(str(self))}</strong></p>"
        return f"<div>{title}<table>{''.join(cells)}</table></div>"


def format_pvalue(pvalue: float) -> str:
    """Three decimals, or three significant digits where those would show 0.000."""
    return f"{pvalue:.3f}" if pvalue >= 0.0005 else f"{pvalue:.2g}"
