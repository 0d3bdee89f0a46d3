"""`TwoSampleTest`: the four slots and a split, put together. Who reads this file knows the library.

representation   what the samples are seen through: a kernel
learning         the objective that trains it and the split that gives it data of its own; None without training
statistic        one number for one labelling of the pooled points
calibration      what that number looks like when P = Q, hence the p-value
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch

from ._random import RNGLike, Streams
from .calibration import Permutation
from .errors import IncompatibleParts, InputError
from .kernels import Kernel, Sign
from .learning import Learning, fit
from .objectives import CrossEntropy
from .products import DEFAULT_MEMORY
from .result import TrainingLog, TwoSampleResult
from .samples import Samples, Scaling, Schema, as_samples, split
from .statistics import MMD


@dataclass(frozen=True)
class TwoSampleTest:
    """A test of whether two samples come from the same distribution: a frozen record of its parts.

    Parameters
    ----------
    representation
        A kernel. It is copied before anything in it is started or trained.
    learning
        How the kernel is trained, and on which fraction of the data; None for a kernel that needs no training.
    statistic, calibration
        What is computed on the held-out points and how it becomes a p-value.
    name
        What results call it.
    memory
        Bytes that the computation may take beside the data and what is linear in them.
    """

    representation: Kernel
    learning: Learning | None = None
    statistic: MMD = MMD()
    calibration: Permutation = Permutation()
    name: str = "custom"
    memory: int = DEFAULT_MEMORY

    def __post_init__(self) -> None:
        if not isinstance(self.representation, Kernel):
            found = type(self.representation).__name__
            raise IncompatibleParts(
                f"the representation is a {found}; MMD needs a Kernel. Use OnFeatures(network, Linear())."
            )
        if self.memory < 2**20:
            raise InputError(f"memory is {self.memory} bytes; give at least 1 MiB (2**20).")
        yet_to_start = any(hasattr(m, "start") and not isinstance(m, Kernel) for m in self.representation.modules())
        learnable = yet_to_start or any(p.requires_grad for p in self.representation.parameters())
        if self.learning is not None and not learnable:
            raise IncompatibleParts(f"{self.representation!r} has nothing to learn. Leave out `learning`.")
        flat = any(isinstance(part, Sign) for part in self.representation.modules())
        if self.learning is not None and flat and not isinstance(self.learning.objective, CrossEntropy):
            objective = self.learning.objective
            raise IncompatibleParts(f"Sign() has no gradient, so {objective!r} cannot train it. Use CrossEntropy().")

    def run(
        self, X: Any, Y: Any, *, rng: RNGLike | None = None, device: str = "auto", progress: bool | None = None
    ) -> TwoSampleResult:
        """Split the data, fit on one part, test on the other.

        `progress` shows a bar while training: True, False, or None for only on a terminal.
        """
        streams = Streams(rng)
        samples = as_samples(X, Y)
        train, held_out = samples, samples
        if self.learning is not None:
            train, held_out = split(samples, self.learning.train_fraction, streams.torch("split"))
        # Scaling sees the pooled points without labels, which no shuffle changes: the p-value stays exact.
        fitted = self._fit(train, Scaling.of(samples), streams, device, progress)
        return fitted._test(held_out, streams, progress)

    def fit(
        self, X: Any, Y: Any, *, rng: RNGLike | None = None, device: str = "auto", progress: bool | None = None
    ) -> FittedTest:
        """Fit on all of X and Y; test the outcome on *other* points."""
        train = as_samples(X, Y)
        return self._fit(train, Scaling.of(train), Streams(rng), device, progress)

    def _fit(
        self, train: Samples, scaling: Scaling, streams: Streams, device: str, progress: bool | None
    ) -> FittedTest:
        scaled = scaling.apply(train, device=choose_device(device))
        kernel, log = copy.deepcopy(self.representation).to(scaled.x.device), None
        if self.learning is None:
            kernel.start(scaled.pooled(), streams.torch("start"))
        else:
            kernel, log = fit(kernel, scaled, self.learning, streams, memory=self.memory, progress=progress)
        kernel.eval().requires_grad_(False)
        return FittedTest(kernel, self, train.schema, scaling, None if log is None else train.sizes, log)


@dataclass(frozen=True, eq=False)
class FittedTest:
    """A test whose kernel is fixed; `test` it on as many new pairs of samples as you like.

    Attributes
    ----------
    representation
        The trained kernel.
    spec
        The `TwoSampleTest` it was fitted from.
    schema, scaling
        How new data become tensors: learned from the training points without their labels.
    """

    representation: Kernel
    spec: TwoSampleTest
    schema: Schema = field(repr=False)
    scaling: Scaling = field(repr=False)
    train_sizes: tuple[int, int] | None
    training: TrainingLog | None = field(repr=False)

    def test(self, X: Any, Y: Any, *, rng: RNGLike | None = None, progress: bool | None = None) -> TwoSampleResult:
        """Test two new samples. They must not share points with those the test was fitted on."""
        return self._test(as_samples(X, Y, schema=self.schema), Streams(rng), progress)

    def _test(self, samples: Samples, streams: Streams, progress: bool | None) -> TwoSampleResult:
        n, m = samples.sizes
        if min(n, m) < 2:
            name, size = ("X", n) if n < 2 else ("Y", m)
            raise InputError(f"{name} has {size} row to test; MMD^2 needs at least 2 in each sample.")
        device = next((p.device for p in self.representation.parameters()), torch.device("cpu"))
        scaled = self.scaling.apply(samples, device=device)
        outcome = self.spec.calibration(
            self.spec.statistic,
            self.representation,
            scaled,
            streams.torch("calibration"),
            memory=self.spec.memory,
            progress=progress,
        )
        return TwoSampleResult(
            statistic=float(outcome.values[0]),
            pvalue=outcome.pvalue,
            null_distribution=outcome.values[1:].numpy(),
            method=self.spec.name,
            calibration=outcome.description,
            sizes=(n, m),
            train_sizes=self.train_sizes,
            effect=self.spec.statistic.effect(outcome.prepared, outcome.values),
            training=self.training,
            fitted=self,
            samples=scaled,
            calibrated=outcome,
        )


def choose_device(device: str) -> torch.device:
    """`device`, or for "auto" the accelerator that torch finds, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device {device!r} cannot be used here ({str(error).splitlines()[0]}); use 'cpu' or 'auto'."
        ) from None
    return chosen
