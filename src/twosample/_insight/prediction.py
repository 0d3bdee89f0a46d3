"""What every prediction of power has, and the one for tests that have no formula.

`PredictedPower`, in `power`, has the formula of an MMD. `PlantedPower` plants the difference that a
test saw into its shuffles and counts how often it is found.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._calibration import null_threshold
from .._checks import check_alpha, check_share, check_whole
from .._result import ALPHA
from .._statistics import Planted
from .._two_sample import FollowUp
from ..errors import InputError, warn

CONFIDENCE = 0.9
"""Of the intervals that predictions come with."""

_MOST_POINTS = 2**53  # no plan asks for more
_STEP = 0.25  # of a grid of differences, in deviations of what chance does
_FINE = 40  # steps so far: with ten deviations any difference is found
_COARSE = 1.1  # the ratio of steps beyond
_FARTHEST = 2.0  # times the difference that was seen

Self = TypeVar("Self", bound="PowerPlan")

Cells: TypeAlias = tuple[tuple[int, int], ...]


class PowerPlan(ABC):
    """The predicted power of a test at any number of tested points."""

    sizes: tuple[int, int]
    unit: str
    """What is counted: "points", or the units that move together, such as "groups"."""
    cells: Cells = ()
    """How many of X and of Y each stratum has; () where all may change places."""

    @abstractmethod
    def power(self, n: int, m: int | None = None, alpha: float = ALPHA) -> float:
        """The predicted chance that p <= alpha, with n points of X and m of Y (n if None) tested.

        Points that train a kernel come on top. The kernel is the one that was fitted: more
        training points would make a better one.
        """

    @abstractmethod
    def _ends(self: Self, confidence_level: float) -> tuple[Self, Self]:
        """The same with the difference at either end of its interval."""

    @property
    @abstractmethod
    def no_difference(self) -> str | None:
        """Why no number of points is known to be enough, in half a sentence; None if one may be."""

    @abstractmethod
    def smallest_sentence(self, n: int, m: int, power: float, alpha: float) -> str:
        """The smallest difference that n and m points show with a wanted power, in a sentence."""

    @abstractmethod
    def _difference(self, n: int, m: int, power: float, alpha: float) -> dict[str, Any]:
        """The numbers of `to_dict` that are about the difference itself."""

    def power_interval(
        self,
        n: int,
        m: int | None = None,
        alpha: float = ALPHA,
        *,
        confidence_level: float = CONFIDENCE,
        confidence: float | None = None,
    ) -> tuple[float, float]:
        """The interval that holds the power with this confidence: the difference is an estimate.

        From the points of one test it is wide. A power of 0.5 at the sizes of that test means an
        estimate that chance alone may move far enough for 0.1, or for 0.9. `confidence` is an older
        name of `confidence_level`.
        """
        level = _renamed(confidence_level, confidence)
        low, high = self._ends(level)
        return low.power(n, m, alpha), high.power(n, m, alpha)

    def samples_needed(
        self, power: float = 0.9, alpha: float = ALPHA, *, ratio: float = 1.0
    ) -> int | None:
        """The smallest number of points of X to test for a wanted power.

        Y has `ratio` times as many. None if no difference is estimated: then no number of points is
        known to be enough.
        """
        check_share("power", power)
        if not 0 < ratio < math.inf:
            raise InputError(f"ratio is {ratio}; it must be a positive number, such as 1.")

        def enough(n: int) -> bool:
            m = max(2, round(n * ratio))  # fewer than two have no variance
            return self.power(n, m, alpha) >= power

        # Power grows with n: double until it is enough, then halve the interval.
        high = 2
        while not enough(high):
            high *= 2
            if self.no_difference is not None or high > _MOST_POINTS:
                return None
        low = high // 2  # not enough, or 1
        while high - low > 1:
            middle = (low + high) // 2
            if enough(middle):
                high = middle
            else:
                low = middle
        return high

    def samples_interval(
        self,
        power: float = 0.9,
        alpha: float = ALPHA,
        *,
        ratio: float = 1.0,
        confidence_level: float = CONFIDENCE,
        confidence: float | None = None,
    ) -> tuple[int | None, int | None]:
        """The interval that holds `samples_needed` with this confidence.

        An end is None where no number of points is known to be enough. `confidence` is an older
        name of `confidence_level`.
        """
        level = _renamed(confidence_level, confidence)
        low, high = self._ends(level)
        # The larger the difference, the fewer points it takes.
        fewest = high.samples_needed(power, alpha, ratio=ratio)
        most = low.samples_needed(power, alpha, ratio=ratio)
        return fewest, most

    @property
    def counts_pairs(self) -> bool:
        """Whether pairs are counted: of these X has as many as Y."""
        return bool(self.cells) and set(self.cells) == {(1, 1)}

    def in_strata(self, n: int, m: int | None = None) -> list[tuple[int, int]]:
        """How many of n and m (n if None) belong into each stratum, for shares as they are here.

        Strata are in the order of their values. Rounded up, so that there are enough.
        """
        n, m = self._sizes(n, m)
        of_x = sum(x for x, _ in self.cells)
        of_y = sum(y for _, y in self.cells)
        return [(math.ceil(n * x / of_x), math.ceil(m * y / of_y)) for x, y in self.cells]

    def to_dict(self, power: float = 0.9, alpha: float = ALPHA) -> dict[str, Any]:
        """Plain numbers for JSON: power at the sizes at hand, and the points for another.

        `needed` are points of X; Y has as many for each of X as here.
        """
        n, m = self.sizes
        ratio = m / n
        return {
            "sizes": [n, m],
            "alpha": alpha,
            "power": self.power(n, m, alpha),
            "power_interval": list(self.power_interval(n, m, alpha)),
            "wanted_power": power,
            "needed": self.samples_needed(power, alpha, ratio=ratio),
            "needed_interval": list(self.samples_interval(power, alpha, ratio=ratio)),
            **self._difference(n, m, power, alpha),
        }

    def __str__(self) -> str:
        n, m = self.sizes
        power = self.power(n, m)
        low, high = self.power_interval(n, m)
        now = (
            f"Power {power:.2f} ({low:.2f} to {high:.2f}) on {self._counted(n, m)} {self.unit} at "
            f"alpha = {ALPHA:g}"
        )
        needed = self.samples_needed()
        if needed is None:
            return (
                f"{now}; {self.no_difference}, so no number of {self.unit} is known to be enough."
            )
        if self.counts_pairs:
            return f"{now}; {needed} would have power 0.9."
        where = ", with strata as they are here," if self.cells else ""
        return f"{now}; {needed} of each sample{where} would have power 0.9."

    def _counted(self, n: int, m: int) -> str:
        """Numbers of X and Y; one number where they are the sides of pairs."""
        return f"{n}" if self.counts_pairs else f"{n} + {m}"

    def _sizes(self, n: int, m: int | None) -> tuple[int, int]:
        """Both sizes, checked."""
        m = n if m is None else m
        check_whole("n", n, 2)
        check_whole("m", m, 2)
        if self.counts_pairs and n != m:
            raise InputError(f"pairs have two sides, so X has as many as Y, not {n} and {m}.")
        return int(n), int(m)


@dataclass(frozen=True, eq=False)
class PlantedPower(PowerPlan):
    """The power of a test of views at any number of points, from its own shuffles.

    A shuffle shows what chance does to all views at once. Into each the difference that the test
    saw is planted, in many sizes, less what chance adds to it. How large it is then is estimated by
    the fused value as a whole: such that half of the shuffles have a larger one than was observed.
    That value is the largest of many by chance, too, so the best view is not flattered for having
    been picked.

    Attributes
    ----------
    factor
        How large the difference is, relative to the one that was planted; 0 for none.
    observed
        The value of the test.
    factors
        (U,) the sizes that were planted, from 0 on.
    values
        (U, B) the values over shuffles for each of them, in order.
    sizes
        The numbers of points of X and Y that were tested.
    follow_up
        The test that has a share of the level, if there is one. What it may find by itself is not
        counted.
    unit, cells
        What is counted: points, or the units that move together; and how many of X and of Y each
        stratum has.
    """

    factor: float
    observed: float
    factors: NDArray[np.float64] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    sizes: tuple[int, int]
    follow_up: FollowUp | None = field(repr=False, default=None)
    unit: str = "points"
    cells: Cells = ()

    @classmethod
    def of(
        cls,
        planted: Planted,
        sizes: tuple[int, int],
        follow_up: FollowUp | None,
        unit: str = "points",
        cells: Cells = (),
    ) -> PlantedPower:
        """From the values of a statistic with differences planted into them."""
        factors = _grid(planted.observed)
        rows = [np.sort(planted.values(factor).numpy()) for factor in factors.tolist()]
        values = np.stack(rows)
        plan = cls(0.0, planted.observed, factors, values, sizes, follow_up, unit, cells)
        return dataclasses.replace(plan, factor=plan._factor_with(0.5))

    @property
    def null_distribution(self) -> NDArray[np.float64]:
        """(B,) the values over shuffles without any difference."""
        without: NDArray[np.float64] = self.values[0]
        return without

    def threshold(self, n: int, m: int | None = None, alpha: float = ALPHA) -> float:
        """The value that the statistic must exceed at n points of X and m of Y (n if None)."""
        check_alpha(alpha)
        sizes = self._sizes(n, m)
        level = alpha if self.follow_up is None else alpha * self.follow_up.level_left(sizes)
        threshold = null_threshold(self.null_distribution, level)
        if threshold is None:
            raise too_few(len(self.null_distribution), level)
        return threshold

    def power(self, n: int, m: int | None = None, alpha: float = ALPHA) -> float:
        """The predicted chance that p <= alpha, with n points of X and m of Y (n if None)."""
        n, m = self._sizes(n, m)
        shares = self._shares(self.threshold(n, m, alpha))
        return float(np.interp(self.factor * self._growth(n, m), self.factors, shares))

    def smallest_multiple(
        self, n: int, m: int | None = None, *, power: float = 0.9, alpha: float = ALPHA
    ) -> float | None:
        """The smallest difference that n and m points show, as a multiple of the estimated one.

        None where no difference is estimated.
        """
        check_share("power", power)
        n, m = self._sizes(n, m)
        if self.no_difference is not None:
            return None
        shares = self._shares(self.threshold(n, m, alpha))
        first = int(np.searchsorted(shares, power))  # the first size that is found often enough
        if first == len(shares):
            return None
        wanted = float(self.factors[0])
        if first > 0:
            here = slice(first - 1, first + 1)
            wanted = float(np.interp(power, shares[here], self.factors[here]))
        return wanted / (self.factor * self._growth(n, m))

    @property
    def no_difference(self) -> str | None:
        if self.factor > 0:
            return None
        return "the test shows no more difference than chance does"

    def smallest_sentence(self, n: int, m: int, power: float, alpha: float) -> str:
        multiple = self.smallest_multiple(n, m, power=power, alpha=alpha)
        if multiple is None:
            return (
                f"No difference is estimated, so none can be said to be large enough for {power:g}."
            )
        return (
            f"On {self._counted(n, m)} {rows_or(self.unit)} a difference {multiple:.2g} times as "
            f"large as the estimated one is found with power {power:g}."
        )

    def _difference(self, n: int, m: int, power: float, alpha: float) -> dict[str, Any]:
        multiple = self.smallest_multiple(n, m, power=power, alpha=alpha)
        return {"factor": self.factor, "smallest_multiple": multiple}

    def _ends(self, confidence_level: float) -> tuple[PlantedPower, PlantedPower]:
        check_share("confidence_level", confidence_level)
        # The smaller the difference, the rarer is a value as large as the observed one.
        above = (1 - confidence_level) / 2
        low = dataclasses.replace(self, factor=self._factor_with(above))
        high = dataclasses.replace(self, factor=self._factor_with(1 - above))
        return low, high

    def _factor_with(self, above: float) -> float:
        """The size of the difference with which values are above the observed one so often."""
        quantiles = np.quantile(self.values, 1 - above, axis=1)
        rising = np.maximum.accumulate(quantiles)
        if self.observed <= rising[0]:
            return 0.0
        # Roots of surprises grow nearly linearly with the difference.
        return float(np.interp(math.sqrt(self.observed), np.sqrt(rising), self.factors))

    def _shares(self, threshold: float) -> NDArray[np.float64]:
        """(U,) how often each difference that was planted is found."""
        found = (self.values > threshold).mean(1)
        return np.maximum.accumulate(found)

    def _growth(self, n: int, m: int) -> float:
        """How much larger a difference is beside what chance does than at the sizes at hand."""
        return math.sqrt(self._pairs_of(n, m) / self._pairs_of(*self.sizes))

    def _pairs_of(self, n: int, m: int) -> float:
        """sum_c n_c m_c / (n_c + m_c), over strata with the shares that they have here."""
        our_n, our_m = self.sizes
        cells = self.cells or (self.sizes,)
        return math.fsum(
            x * n / our_n * y * m / our_m / (x * n / our_n + y * m / our_m) for x, y in cells
        )


def rows_or(unit: str) -> str:
    """What the command line counts: rows, or the units that move together."""
    return "rows" if unit == "points" else unit


def _grid(observed: float) -> NDArray[np.float64]:
    """Sizes of a difference to plant: fine where power grows, then coarser."""
    # The root of twice a surprise is about the number of deviations that the difference has.
    deviations = math.sqrt(2 * max(observed, 1.0))
    fine = np.arange(_FINE + 1) * (_STEP / deviations)
    farthest = max(_FARTHEST, fine[-1])
    steps = math.ceil(math.log(farthest / fine[-1]) / math.log(_COARSE))
    coarse = fine[-1] * _COARSE ** np.arange(1, steps + 1)
    return np.concatenate([fine, coarse])


def too_few(shuffles: int, alpha: float) -> InputError:
    """The error of a level that so many shuffles do not reach."""
    smallest = 1 / (shuffles + 1)
    enough = math.ceil(1 / alpha) - 1
    return InputError(
        f"with {shuffles} shuffles no p-value is below {smallest:.2g}, so the power at "
        f"alpha = {alpha:g} is 0; use permutations={enough} or more."
    )


def _renamed(confidence_level: float, confidence: float | None) -> float:
    """The level that was meant, whichever of its two names was used."""
    if confidence is None:
        return confidence_level
    warn("`confidence` is now called `confidence_level`; use that.", DeprecationWarning)
    return confidence
