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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._calibration import Calibrated
    from ._data.samples import Samples
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
    """How different the samples are, as far as the statistic can say; None where it has no such number.

    Attributes
    ----------
    mmd
        The MMD; 0 where its estimated square is negative.
    criterion
        J of the paper, on the points that were tested.
    power
        The estimated chance that the test rejects at level 0.05 on new samples of the same sizes.
    accuracy, auc
        Of the score by which a classifier tells X from Y: balanced accuracy, and the chance that a
        point of X scores higher than one of Y.
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
        Points of X and Y that were tested and trained on; `train_sizes` is None without training.
    effect
        How different: the MMD, J and the estimated power of the test.
    training
        The log of the training, or None.
    fitted, samples
        The fitted test, and the held-out points as it saw them.
    calibrated
        The shuffles and what the statistic was computed from.
    chosen
        What `method="auto"` chose, and why; None where the caller did.
    dropped
        How many rows of X and Y were left out because something in them was missing, as
        `Columns(missing="drop")` asks.
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
    dropped: tuple[int, int] = (0, 0)

    def reject(self, alpha: float = ALPHA) -> bool:
        """Whether equality of the distributions is rejected at level `alpha`."""
        if not 0 < alpha < 1:
            raise ValueError(f"alpha is {alpha}; it must lie strictly between 0 and 1.")
        return self.pvalue <= alpha

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON; without null distribution, fitted test and data."""
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
            "effect": dataclasses.asdict(self.effect),
            "training": training,
        }

    def report(
        self,
        path: str | Path,
        *,
        alpha: float = ALPHA,
        names: tuple[str, str] = ("X", "Y"),
        facts: Mapping[str, object] | None = None,
        rng: RNGLike | None = None,
    ) -> Path:
        """Write all that there is to see into one HTML file, and return its path; see docs/report.md."""
        from ._show.report import write_report

        return write_report(self, path, alpha=alpha, names=names, facts=facts, rng=rng)

    def plot(self, ax: Axes | None = None, *, alpha: float = ALPHA) -> Axes:
        """Draw the null distribution and the observed value; see `twosample.plots` for other figures."""
        from .plots import null_distribution

        return null_distribution(self, ax, alpha=alpha)

    def __str__(self) -> str:
        n, m = self.sizes
        verdict = "The samples differ" if self.reject() else "No difference found"
        trained = (
            ""
            if self.train_sizes is None
            else f", kernel learned on {self.train_sizes[0]} + {self.train_sizes[1]} others"
        )
        without = (
            ""
            if not any(self.dropped)
            else "; left out for missing values: {} + {} rows".format(*self.dropped)
        )
        return f"{verdict}: p = {format_pvalue(self.pvalue)} ({self.method} on {n} + {m} points{trained}{without})."

    def _repr_html_(self) -> str:
        rows = [
            ("p-value", format_pvalue(self.pvalue)),
            ("statistic", f"{self.statistic:.4g}"),
            *(
                (name, f"{value:.4g}")
                for name, value in dataclasses.asdict(self.effect).items()
                if value is not None
            ),
            ("calibration", self.calibration),
            *([] if self.chosen is None else [("chosen", self.chosen)]),
        ]
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>"
            for a, b in rows
        )
        return f"<div><p><strong>{html.escape(str(self))}</strong></p><table>{cells}</table></div>"


def format_pvalue(pvalue: float) -> str:
    """Three decimals, or three significant digits where those would show 0.000."""
    return f"{pvalue:.3f}" if pvalue >= 0.0005 else f"{pvalue:.2g}"
