"""From scores of labellings to an e-value, and from e-values to a verdict at any time.

*One batch.* Let a batch have n rows X and m rows Y. Write F for everything known before it, and Z
for its n + m rows without their labels. The null hypothesis is: given F and Z, every way to call n
of the rows X is equally likely. (It holds if the rows of the batch are independent draws from one
distribution, which may differ from batch to batch.) Let M(l) > 0 be any score of a labelling l of
Z. It may depend on F and on Z in any way: views are fitted, witnesses learned from the past, even
learned anew for every labelling. Draw l_1, ..., l_B at random, let l_0 be the labels observed, and

    E = M(l_0) / mean over b = 0 ... B of M(l_b).

Given F and Z, (l_0, ..., l_B) are exchangeable, so all the ratios M(l_b) / mean have the same
expectation. They sum to B + 1. Hence E[E | F, Z] = 1 exactly: for every M, B, n, m and every
distribution. This is the permutation e-value of [Koning2023]. The observed labelling must be in
the mean; without it, the expectation exceeds 1.

*Many batches.* The product W_t = E_1 ... E_t is a nonnegative martingale that starts at 1. By
Ville's inequality it ever reaches 1 / alpha with a chance of at most alpha. So one may look after
every batch, stop whenever one likes, and decide by what was seen whether there is another batch:
W is a capital won by fair bets against the null hypothesis [Shekhar2023].

*Which M.* Validity does not depend on it, growth does. If M is the likelihood of the labels under
an alternative, E is its likelihood ratio, and no other e-value grows faster when it is true. The
alternative is unknown, so M is an average over many (a mixture): views, widths, sizes of the
difference. An average over K bets is at most log K behind the best of them, and no tuning is
needed. `evidence` has the equations.

*Several bets.* Let E_k be the e-values of several ways to bet on the batch, and let shares of the
wealth, known before the batch, be placed on them. The weighted mean of the E_k is an e-value again.
Then each way has what it won: its share becomes proportional to share times E_k. A small part of
the wealth is dealt out anew every time, so that a way which has lost for months can still come
back: the fixed share of [Herbster1998].

*No more than is needed.* A wealth beyond 1 / alpha raises no other alarm than 1 / alpha does. So,
until the first alarm, let W be the wealth before a batch and c = 1 / (alpha W) what it lacks, and
pay min(b E, c) in place of E. The factor b >= 1 is the one with which the mean over all labellings
is 1 again, so that the bet is as fair as it was: what labellings beyond c give up goes to those
that come short of it. Alarms come sooner, most of all with few large batches. This is the
sequential boosting of [Fischer2024], with the law of E known exactly.

*A change, much later.* A wealth that has seen months without a difference has lost much of itself,
and reacts slowly. The Shiryaev-Roberts detector bets anew from every batch on,

    R_t = sum over s <= t of E_s ... E_t = (1 + R_{t-1}) E_t.

Under the null hypothesis R_t - t is a martingale. So if an alarm is raised when R reaches c, the
expected number of batches until a false alarm is at least c [Shin2023].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checks import check_alpha
from ..errors import InputError


def log_evalues(log_scores: Tensor) -> Tensor:
    """The (..., B + 1) log E of every labelling, for the logarithms of their scores."""
    # What is too large or too small for a float stays a logarithm.
    total = torch.logsumexp(log_scores, -1, keepdim=True)
    log_mean = total - math.log(log_scores.shape[-1])
    return log_scores - log_mean


def boosted(log_evalues: Tensor, most: float) -> Tensor:
    """The (B + 1,) log of min(b E, c), with log c = `most` > 0 and b such that the mean is 1."""
    largest_first = log_evalues.sort(descending=True).values
    if largest_first[0] <= most:
        return log_evalues
    # If the k largest are capped, all others have to make up what is left of the sum, B + 1.
    count = len(log_evalues)
    capped = torch.arange(count, dtype=torch.float64)
    left = count - math.exp(most) * capped
    log_sums = largest_first.flip(0).logcumsumexp(0).flip(0)
    log_factors = left.log() - log_sums
    none_is_above = log_factors + largest_first <= most
    fewest = int(none_is_above.int().argmax())  # the first that is True
    return (log_evalues + log_factors[fewest]).clamp_max(most)


@dataclass(frozen=True)
class Portfolio:
    """Several ways to bet at once, each with a share of the wealth.

    Attributes
    ----------
    start
        The shares at the start, which sum to 1.
    shares
        The shares now.
    """

    start: tuple[float, ...]
    shares: tuple[float, ...]

    def log_evalues(self, of_ways: Tensor) -> Tensor:
        """(B + 1,) the log of the mean of (ways, B + 1) e-values, weighted by the shares."""
        return torch.logsumexp(self._won(of_ways), 0)

    def after(self, of_ways: Tensor) -> Portfolio:
        """Each way with what it won, and a small part of the wealth dealt out anew."""
        observed = of_ways[:, :1]
        won = torch.softmax(self._won(observed), 0).flatten().tolist()
        shares = []
        for mine, at_start in zip(won, self.start, strict=True):
            shares.append((1 - _DEALT_ANEW) * mine + _DEALT_ANEW * at_start)
        return Portfolio(self.start, tuple(shares))

    def _won(self, of_ways: Tensor) -> Tensor:
        shares = torch.tensor(self.shares, dtype=torch.float64)
        return shares.log()[:, None] + of_ways


@dataclass(frozen=True)
class Ledger:
    """What bets have come to: the wealth, or the detector.

    Parameters
    ----------
    alpha
        An alarm is raised when the wealth reaches 1 / alpha. Without a difference that ever
        happens with a chance of at most alpha.
    run_length
        In place of `alpha`: an alarm is raised when the detector reaches this number, and then it
        starts anew. Without a change that takes at least so many batches, on average.
    log_wealth
        The logarithm of the wealth, or of the detector.
    log_peak
        The largest so far.
    """

    alpha: float = 0.05
    run_length: float | None = None
    log_wealth: float = 0.0
    log_peak: float = 0.0

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if self.run_length is not None and not 1 < self.run_length < math.inf:
            raise InputError(
                f"run_length is {self.run_length}; give the number of batches that a false alarm "
                "may take at least, on average, such as 1000."
            )

    @classmethod
    def opened(cls, alpha: float, run_length: float | None) -> Ledger:
        """The ledger before the first batch: a wealth of 1, or a detector at 0."""
        start = 0.0 if run_length is None else -math.inf
        return cls(alpha, run_length, start, start)

    @property
    def threshold(self) -> float:
        """What the wealth, or the detector, must reach for an alarm."""
        return 1 / self.alpha if self.run_length is None else float(self.run_length)

    @property
    def wealth(self) -> float:
        """The wealth, or the detector; infinite where no float holds it."""
        return exponential(self.log_wealth)

    @property
    def pvalue(self) -> float:
        """A p-value that holds at any time: 1 over the largest wealth so far, and at most 1."""
        if self.run_length is not None:
            return math.nan  # a detector has an average run length, not a level
        return min(1.0, math.exp(-self.log_peak))

    @property
    def is_reached(self) -> bool:
        """Whether the threshold is reached now."""
        return self.log_wealth >= math.log(self.threshold)

    @property
    def log_stake(self) -> float:
        """The logarithm of what the next bet multiplies: the wealth, or 1 + the detector."""
        if self.run_length is None:
            return self.log_wealth
        # R may be 0, or more than a float holds.
        return float(torch.logaddexp(_ZERO, _scalar(self.log_wealth)))

    def paid(self, log_evalues: Tensor) -> float:
        """The log e-value that a bet pays: up to the first alarm, no more than is needed for it."""
        log_threshold = math.log(self.threshold)
        lacking = log_threshold - self.log_stake
        if self.log_peak < log_threshold and lacking > 0:
            log_evalues = boosted(log_evalues, lacking + _HAIR)
        return float(log_evalues[0])

    def after(self, log_evalue: float) -> Ledger:
        """The ledger after another bet."""
        log_wealth = self.log_stake + log_evalue
        log_peak = max(self.log_peak, log_wealth)
        return Ledger(self.alpha, self.run_length, log_wealth, log_peak)


def exponential(logarithm: float) -> float:
    """The number with this logarithm; infinity where it is more than a float holds."""
    return math.exp(logarithm) if logarithm < _LARGEST else math.inf


def shown(value: float) -> str:
    """A wealth or an e-value for people: 8,830 and not 8.83e+03."""
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


_DEALT_ANEW = 0.02
_HAIR = 1e-9  # beyond the threshold, so that rounding does not keep from it
_LARGEST = math.log(torch.finfo(torch.float64).max)
_ZERO = _scalar(0.0)
