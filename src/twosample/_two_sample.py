"""`TwoSampleTest`: the four slots and a split, put together. Who reads this file knows the library.

representation   what the samples are seen through: a kernel, or a map from points to features
learning         the objective that trains it and the split that gives it data of its own; None without training
statistic        one number for one labelling of the pooled points
calibration      what that number looks like when P = Q, hence the p-value
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ._calibration import Calibration, Permutation
from ._cluster import DaskWorkers
from ._data.columns import Columns
from ._data.samples import EmbeddedSamples, Samples, Scaling, Schema, as_samples, split
from ._data.streams import (
    Stream,
    Survey,
    all_rows,
    embed_streams,
    fitting_rows,
    open_streams,
    starting_rows,
    survey,
    training_rows,
)
from ._kernels import embedding_of
from ._learning import Learning, check_learning, fit
from ._random import Generators, RNGLike
from ._resources import DEFAULT_MEMORY, HERE, Resources
from ._result import TrainingLog, TwoSampleResult
from ._statistics import MMD, Statistic
from .errors import InputError


@dataclass(frozen=True)
class TwoSampleTest:
    """A test of whether two samples come from the same distribution: a frozen record of its parts.

    Parameters
    ----------
    representation
        A kernel, or for `HotellingT2` a map from points to features. It is copied before anything
        in it is started or trained.
    learning
        How the representation is trained, and on which fraction of the data; None where it needs no
        training.
    statistic, calibration
        What is computed on the held-out points and how it becomes a p-value.
    name
        What results call it.
    memory
        Bytes that the computation may take beside the data and what is linear in them. Of a
        `Stream`, embedded points that take more are kept in a temporary file.
    """

    representation: nn.Module
    learning: Learning | None = None
    statistic: Statistic = MMD()
    calibration: Calibration = Permutation()
    name: str = "custom"
    memory: int = DEFAULT_MEMORY

    def __post_init__(self) -> None:
        if self.memory < 2**20:
            raise InputError(f"memory is {self.memory} bytes; give at least 1 MiB (2**20).")
        self.statistic.check(self.representation)
        self.calibration.check(self.statistic, self.representation)
        check_learning(self.representation, self.learning)

    def run(
        self,
        X: Any,
        Y: Any,
        *,
        rng: RNGLike | None = None,
        device: str = "auto",
        progress: bool | None = None,
        client: Any = None,
        columns: Columns | None = None,
    ) -> TwoSampleResult:
        """Split the data, fit on one part, test on the other.

        `progress` shows a bar while training: True, False, or None for only on a terminal. `client`
        is one of a Dask cluster, and `columns` says what of a table to test, as in
        `two_sample_test`.
        """
        resources = self._resources(progress, client)
        generators = Generators(rng)
        with open_streams(X, Y, self.memory) as pair:
            if pair is not None:
                return self._run_streamed(pair, generators, device, resources, columns)
        samples = as_samples(X, Y, columns=columns)
        train, held_out = samples, samples
        if self.learning is not None:
            train, held_out = split(
                samples, self.learning.train_fraction, generators.torch("split")
            )
        # Scaling sees the pooled points without labels, which no shuffle changes: the p-value stays
        # exact.
        fitted = self._fit(train, Scaling.of(samples), generators, device, resources)
        return fitted._test(held_out, generators, resources)

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        rng: RNGLike | None = None,
        device: str = "auto",
        progress: bool | None = None,
        columns: Columns | None = None,
    ) -> FittedTest:
        """Fit on all of X and Y, of a `Stream` on at most 100,000 rows; test the outcome on *other* points.

        What `columns` says holds for these too.
        """
        resources = self._resources(progress)
        with open_streams(X, Y, self.memory) as pair:
            if pair is not None:
                generators = Generators(rng)
                found = survey(
                    *pair, fitting_rows(generators.torch("split"), self.memory), columns=columns
                )
                return self._fit(found.picked, found.scaling, generators, device, resources)
        train = as_samples(X, Y, columns=columns)
        return self._fit(train, Scaling.of(train), Generators(rng), device, resources)

    def _run_streamed(
        self,
        pair: tuple[Stream, Stream],
        generators: Generators,
        device: str,
        resources: Resources,
        columns: Columns | None,
    ) -> TwoSampleResult:
        """As `run`, in two passes over the rows: the first learns what there is, the second embeds what is tested."""
        if self.learning is None:
            pick = starting_rows(generators.torch("subsample"), self.memory)
        else:
            pick = training_rows(
                self.learning.train_fraction, generators.torch("split"), self.memory
            )
        found = survey(*pair, pick, columns=columns)
        fitted = self._fit(found.picked, found.scaling, generators, device, resources)
        return fitted._test_streamed(pair, found, generators, resources)

    def _fit(
        self,
        train: Samples,
        scaling: Scaling,
        generators: Generators,
        device: str,
        resources: Resources,
    ) -> FittedTest:
        scaled = scaling.apply(train, device=choose_device(device))
        seen, log = copy.deepcopy(self.representation).to(scaled.x.device), None
        if self.learning is not None:
            seen, log = fit(seen, scaled, self.learning, generators, resources)
        elif callable(start := getattr(seen, "start", None)):
            start(scaled.pooled(), generators.torch("start"))
        seen.eval().requires_grad_(False)
        return FittedTest(
            seen,
            self,
            train.schema,
            scaling,
            None if log is None else train.sizes,
            log,
            train.dropped,
        )

    def _resources(self, progress: bool | None, client: Any = None) -> Resources:
        """What a computation may use: the memory of this test, and the workers of a Dask client."""
        workers = HERE if client is None else DaskWorkers(client)
        return Resources(self.memory, progress, workers)


@dataclass(frozen=True, eq=False)
class FittedTest:
    """A test whose representation is fixed; `test` it on as many new pairs of samples as you like.

    Attributes
    ----------
    representation
        The trained kernel or feature map.
    spec
        The `TwoSampleTest` it was fitted from.
    schema, scaling
        How new data become tensors: learned from the training points without their labels.
    train_sizes, training
        How many points it was trained on, and how that went; None without training.
    dropped
        How many rows were left out then because something in them was missing.
    """

    representation: nn.Module
    spec: TwoSampleTest
    schema: Schema = field(repr=False)
    scaling: Scaling = field(repr=False)
    train_sizes: tuple[int, int] | None
    training: TrainingLog | None = field(repr=False)
    dropped: tuple[int, int] = (0, 0)

    def test(
        self,
        X: Any,
        Y: Any,
        *,
        rng: RNGLike | None = None,
        progress: bool | None = None,
        client: Any = None,
    ) -> TwoSampleResult:
        """Test two new samples. They must not share points with those the test was fitted on."""
        resources = self.spec._resources(progress, client)
        with open_streams(X, Y, self.spec.memory) as pair:
            if pair is not None:
                found = survey(*pair, all_rows, schema=self.schema)
                return self._test_streamed(pair, found, Generators(rng), resources)
        return self._test(as_samples(X, Y, schema=self.schema), Generators(rng), resources)

    def save(self, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None) -> None:
        """Write it to a safetensors file, which `twosample.load` reads; see docs/saving.md.

        A file of that name is replaced at once and as a whole, so that no failure and no kill
        leaves half of one. A test that holds a model of scikit-learn cannot be saved. `notes` are
        kept with it, such as {"seed": 0}.
        """
        from ._saving.saving import save

        save(self, path, notes=notes)

    def _test(
        self,
        samples: Samples,
        generators: Generators,
        resources: Resources,
    ) -> TwoSampleResult:
        _check_sizes(*samples.sizes)
        scaled = self.scaling.apply(samples, device=self._device())
        return self._test_scaled(scaled, generators, resources)

    def _test_streamed(
        self,
        pair: tuple[Stream, Stream],
        found: Survey,
        generators: Generators,
        resources: Resources,
    ) -> TwoSampleResult:
        _check_sizes(*found.tested)
        seen, device = self.representation, self._device()
        if resources.workers is not HERE and device.type != "cpu":  # as in `_test_scaled`
            seen, device = copy.deepcopy(seen).cpu(), torch.device("cpu")
        points = embed_streams(
            *pair,
            found,
            self.scaling,
            embedding_of(seen),
            generators.torch("embedding"),
            device=device,
            resources=resources,
        )
        return self._test_scaled(points, generators, resources)

    def _device(self) -> torch.device:
        return next((p.device for p in self.representation.parameters()), torch.device("cpu"))

    def _test_scaled(
        self,
        scaled: Samples | EmbeddedSamples,
        generators: Generators,
        resources: Resources,
    ) -> TwoSampleResult:
        seen = self.representation
        if resources.workers is not HERE and self._device().type != "cpu":
            # Other machines need not have this one's device.
            seen = copy.deepcopy(seen).cpu()
            scaled = scaled.to(device="cpu")
        outcome = self.spec.calibration(
            self.spec.statistic,
            seen,
            scaled,
            generators.torch("calibration"),
            resources,
        )
        return TwoSampleResult(
            statistic=float(outcome.values[0]),
            pvalue=outcome.pvalue,
            null_distribution=outcome.values[1:].numpy(),
            method=self.spec.name,
            calibration=outcome.description,
            sizes=scaled.sizes,
            train_sizes=self.train_sizes,
            effect=self.spec.statistic.effect(
                outcome.prepared, float(outcome.values[0]), outcome.threshold
            ),
            training=self.training,
            fitted=self,
            samples=scaled
            if isinstance(scaled, Samples)
            else None,  # the rows of a stream are not kept
            calibrated=outcome,
            dropped=scaled.dropped,
        )


def _check_sizes(n: int, m: int) -> None:
    if min(n, m) < 2:
        name, size = ("X", n) if n < 2 else ("Y", m)
        raise InputError(f"{name} has {size} row to test; a test needs at least 2 in each sample.")


def choose_device(device: str) -> torch.device:
    """`device`, or for "auto" the accelerator that torch finds, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).tolist()  # one that holds no values, "meta", fails here
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device {device!r} cannot be used here ({str(error).splitlines()[0]}); use 'cpu' or "
            "'auto'."
        ) from None
    return chosen
