"""Which witness a user asks for."""

from __future__ import annotations

from typing import Any

from .._methods import METHODS
from .._two_sample import TwoSampleTest
from .._views import Views
from ..errors import InputError
from .base import Witness
from .by_scores import ClassifierScore, KernelScore, ScoreWitness
from .by_views import ViewsWitness


def as_witness(given: Any) -> Witness:
    """The witness that a user asks for."""
    if isinstance(given, str) and given in ("spectral", "columns"):
        return ViewsWitness(given)
    if isinstance(given, Views):
        return ViewsWitness(repr(given), start=given)
    name = given if isinstance(given, str) else repr(given)
    if isinstance(given, str):
        if given not in METHODS:
            raise InputError(
                f"there is no witness {given!r}; use 'spectral', 'columns', 'mmd-d', Views(...), a "
                "TwoSampleTest with a learned kernel, or a classifier of scikit-learn."
            )
        given = METHODS[given]()
    if isinstance(given, TwoSampleTest):
        return ScoreWitness(name, KernelScore(given))
    if _can_score(given):
        return ScoreWitness(name, ClassifierScore(given))
    raise InputError(
        f"{name} cannot be a witness: it is neither a test of this library nor a classifier with "
        "fit and predict_proba or decision_function."
    )


def _can_score(given: Any) -> bool:
    scores = hasattr(given, "predict_proba") or hasattr(given, "decision_function")
    return hasattr(given, "fit") and scores
