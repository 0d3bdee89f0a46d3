"""Scores of rows, learned from the latest of them: a classifier, or a learned kernel's witness."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._kernels import Kernel
from .._random import Generators
from .._two_sample import FittedTest, TwoSampleTest
from ..errors import IncompatibleParts, InputError, InputWarning
from .base import GROWTH, Bet, Witness, draw_labellings, recent_from
from .betting import Portfolio, log_evalues
from .door import Door
from .rows import Batch, Recent

EFFECTS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Differences of the mean score, in its standard deviations, that a score bets on.

The first bets nothing, so that some of the wealth is kept whatever happens.
"""

_SHARES = (1 / len(EFFECTS),) * len(EFFECTS)
_LEAST_ROWS = 16  # of each sample, to learn a score from
_SCORED_AT_ONCE = 1000  # rows
_MOST_LOGIT = 20.0


class Score(ABC):
    """Something that learns from the latest rows of X and Y, and scores new rows."""

    fitted: FittedTest | None = None

    @abstractmethod
    def learned(self, recent: Recent, seen: int, generators: Generators) -> Score:
        """The score, learned from these rows of the past."""

    @abstractmethod
    def values(self, points: Tensor, recent: Recent) -> Tensor:
        """(N,) scores: higher where rows look like X."""


@dataclass(frozen=True, eq=False)
class ClassifierScore(Score):
    """The log odds of a classifier of scikit-learn, fitted on the latest rows."""

    classifier: Any
    is_fitted: bool = False

    def learned(self, recent: Recent, seen: int, generators: Generators) -> Score:
        from sklearn.base import clone

        classifier = clone(self.classifier)
        settings = classifier.get_params()
        if "random_state" in settings and settings["random_state"] is None:
            # One seed, one answer: scikit-learn would draw from the global generator.
            seed = int(generators.numpy("classifier").integers(2**31))
            classifier.set_params(random_state=seed)
        rows = torch.cat([recent.x, recent.y]).flatten(1).numpy()
        labels = np.repeat([1, 0], [len(recent.x), len(recent.y)])
        classifier.fit(rows, labels)
        return replace(self, classifier=classifier, is_fitted=True)

    def values(self, points: Tensor, recent: Recent) -> Tensor:
        rows = points.flatten(1).numpy()
        if hasattr(self.classifier, "predict_proba"):
            chances = self.classifier.predict_proba(rows)[:, 1]
            logits = torch.logit(torch.from_numpy(np.asarray(chances, dtype=np.float64)))
        else:
            decisions = self.classifier.decision_function(rows)
            logits = torch.from_numpy(np.asarray(decisions, dtype=np.float64))
        return logits.clamp(-_MOST_LOGIT, _MOST_LOGIT)


@dataclass(frozen=True, eq=False)
class KernelScore(Score):
    """The witness function of a learned kernel: mean k(., X) - mean k(., Y) over latest rows."""

    test: TwoSampleTest
    fitted: FittedTest | None = None
    fitted_on: int = 0

    def __post_init__(self) -> None:
        if self.test.learning is None or not isinstance(self.test.representation, Kernel):
            raise IncompatibleParts(
                f"{self.test.name!r} learns no kernel, so it cannot be a witness. Use 'mmd-d' or "
                "'mmd-o', or the witness 'spectral'."
            )

    def learned(self, recent: Recent, seen: int, generators: Generators) -> Score:
        is_new = self.fitted is None or (seen >= GROWTH * self.fitted_on and seen == len(recent))
        if not is_new:
            return self
        seed = int(generators.numpy("kernel").integers(2**31))
        x = recent.x.numpy()
        y = recent.y.numpy()
        with warnings.catch_warnings():
            # Places for missing values are constant while none is missing.
            warnings.simplefilter("ignore", InputWarning)
            fitted = self.test.fit(x, y, rng=seed, device="cpu", progress=False)
        return replace(self, fitted=fitted, fitted_on=seen)

    def values(self, points: Tensor, recent: Recent) -> Tensor:
        if self.fitted is None:
            raise InputError("this kernel has not been learned yet.")
        kernel = self.fitted.representation
        scale = self.fitted.scaling.apply_to
        x = scale(recent.x)
        y = scale(recent.y)
        parts = []
        with torch.no_grad():
            for some in torch.split(scale(points), _SCORED_AT_ONCE):
                near_x = kernel(some, x).double().mean(1)
                near_y = kernel(some, y).double().mean(1)
                parts.append(near_x - near_y)
        return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class ScoreWitness(Witness):
    """Bets that rows of X have higher scores than rows of Y, by several amounts at once.

    Let z be the difference of mean scores in standard deviations that it has over labellings, and
    N = n m / (n + m). If means differ by e standard deviations of the score, z is nearly normal
    with mean e sqrt(N), and its likelihood ratio, M, is exp(e sqrt(N) z - e^2 N / 2). Each of
    `EFFECTS` is a way to bet, and the wealth is shared among them.
    """

    name: str
    score: Score
    recent: Recent = Recent()
    seen: int = 0
    portfolio: Portfolio = Portfolio(_SHARES, _SHARES)

    def observe(
        self, batch: Batch, door: Door, generators: Generators, permutations: int
    ) -> tuple[Bet, Witness]:
        bet = Bet(torch.zeros(1, dtype=torch.float64))
        score = self.score
        portfolio = self.portfolio
        if self._knows_enough():
            score = score.learned(self.recent, self.seen, generators)
            values = score.values(batch.pooled(), self.recent)
            ratios = _score_ratios(values, batch, generators, permutations)
            evalues = log_evalues(ratios)  # (effects, B + 1)
            bet = Bet(portfolio.log_evalues(evalues))
            portfolio = portfolio.after(evalues)
        learned = replace(
            self,
            score=score,
            recent=self.recent.with_batch(batch, generators.torch("recent")),
            seen=self.seen + sum(batch.sizes),
            portfolio=portfolio,
        )
        return bet, learned

    def _knows_enough(self) -> bool:
        of_x = sum(n for n, _ in self.recent.sizes)
        of_y = sum(m for _, m in self.recent.sizes)
        return min(of_x, of_y) >= _LEAST_ROWS

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor], FittedTest | None]:
        values = {
            "seen": self.seen,
            "shares": list(self.portfolio.shares),
            "fitted_on": getattr(self.score, "fitted_on", 0),
        }
        tensors = {f"recent.{name}": each for name, each in self.recent.tensors().items()}
        return values, tensors, self.score.fitted

    def restored(
        self, values: Mapping[str, Any], tensors: Mapping[str, Tensor], fitted: FittedTest | None
    ) -> Witness:
        score = self.score
        if isinstance(score, KernelScore):
            score = replace(score, fitted=fitted, fitted_on=int(values["fitted_on"]))
        shares = tuple(float(each) for each in values["shares"])
        return replace(
            self,
            score=score,
            recent=recent_from(tensors),
            seen=int(values["seen"]),
            portfolio=Portfolio(_SHARES, shares),
        )


def _score_ratios(
    values: Tensor, batch: Batch, generators: Generators, permutations: int
) -> Tensor:
    """(effects, B + 1) logarithms of likelihood ratios, for every labelling."""
    n, m = batch.sizes
    bins, in_x = draw_labellings(batch, permutations, generators)
    weight = n * m / (n + m)
    centred = bins.about_cells(values)
    totals = torch.zeros(bins.count, dtype=torch.float64).index_add_(0, bins.of_all, centred)
    difference = (1 / n + 1 / m) * (in_x @ totals)  # of means; the totals sum to 0
    spread = centred.square().mean().sqrt()
    z = torch.zeros_like(difference)
    if spread > 0:
        z = difference / spread * math.sqrt(weight)
    effects = torch.tensor(EFFECTS, dtype=torch.float64)[:, None]
    return effects * math.sqrt(weight) * z - effects.square() * weight / 2
