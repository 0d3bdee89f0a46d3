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

*A change, much later.* A wealth that has seen months without a difference has lost much of itself,
and reacts slowly. The Shiryaev-Roberts detector bets anew from every batch on,

    R_t = sum over s <= t of E_s ... E_t = (1 + R_{t-1}) E_t.

Under the null hypothesis R_t - t is a martingale. So if an alarm is raised when R reaches c, the
expected number of batches until a false alarm is at least c [Shin2023].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checks import check_alpha
from ..errors import InputError


def log_evalue(log_scores: Tensor) -> float:
    """The log E of (B + 1,) logarithms of scores, of which the first is observed."""
    # What is too large or too small for a float stays a logarithm.
    total = torch.logsumexp(log_scores, 0)
    log_mean = total - math.log(len(log_scores))
    return float(log_scores[0] - log_mean)


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

    def log_evalue(self, log_evalues: Sequence[float]) -> float:
        """The log of the mean of the e-values, weighted by the shares."""
        total = torch.logsumexp(self._won(log_evalues), 0)
        return float(total)

    def after(self, log_evalues: Sequence[float]) -> Portfolio:
        """Each way with what it won, and a small part of the wealth dealt out anew."""
        won = torch.softmax(self._won(log_evalues), 0).tolist()
        shares = []
        for mine, at_start in zip(won, self.start, strict=True):
            shares.append((1 - _DEALT_ANEW) * mine + _DEALT_ANEW * at_start)
        return Portfolio(self.start, tuple(shares))

    def _won(self, log_evalues: Sequence[float]) -> Tensor:
        shares = torch.tensor(self.shares, dtype=torch.float64)
        return shares.log() + torch.tensor(log_evalues, dtype=torch.float64)


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

    def after(self, log_evalue: float) -> Ledger:
        """The ledger after another bet."""
        if self.run_length is None:
            log_wealth = self.log_wealth + log_evalue
        else:
            # log(1 + R), where R may be 0 or more than a float holds.
            log_wealth = float(torch.logaddexp(_ZERO, _scalar(self.log_wealth))) + log_evalue
        log_peak = max(self.log_peak, log_wealth)
        return Ledger(self.alpha, self.run_length, log_wealth, log_peak)


def exponential(logarithm: float) -> float:
    """The number with this logarithm; infinity where it is more than a float holds."""
    return math.exp(logarithm) if logarithm < _LARGEST else math.inf


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


_DEALT_ANEW = 0.02
_LARGEST = math.log(torch.finfo(torch.float64).max)
_ZERO = _scalar(0.0)
