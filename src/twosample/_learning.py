"""Training a representation on the training points: `fit` copies, trains and returns; nothing is trained in place."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from ._data.samples import Samples, split
from ._featurizers import Classifier, FeatureMap, Frozen
from ._kernels import Gaussian, Kernel, Linear, OnFeatures, Radial, WeightedSum
from ._objectives import PowerCriterion
from ._progress import Tick, bar
from ._random import Generators
from ._resources import DEFAULT_MEMORY, Resources
from ._result import TrainingLog
from .errors import InputError, TrainingError, TrainingWarning

R = TypeVar("R", bound=nn.Module)

_BATCH_VALUES = 2**17  # in a batch of one sample, beyond its first 256 points

_BATCH_LEAST, _BATCH_MOST = 256, 512
CHECK_EVERY = 20
"""Steps between two looks at the values: each look makes an accelerator wait."""


class Objective(Protocol):
    """A number that training pushes up, from a representation and a batch of each sample."""

    def __call__(
        self, representation: Any, x: Tensor, y: Tensor, /, *, memory: int = ...
    ) -> Tensor: ...


@dataclass(frozen=True)
class Learning:
    """How a representation is trained, and on which part of the data.

    Adam on batches of equal size, with a learning rate that falls to zero along a cosine, so that
    the last iterate is an average of the late ones. Everything is chosen for data that nobody has
    looked at: the kernel starts from the data's own scales.

    Parameters
    ----------
    objective
        What is maximised.
    train_fraction
        The share of each sample to train on; the test sees only the rest.
    steps
        Number of steps.
    batch_size
        Points of each sample in a step; samples of one size that is no larger are used whole.
        Batches of more than 256 are made smaller where points have many values, such as pixels.
        None means a quarter of the smaller sample, but from 256 to 512: more points repay larger
        batches.
    learning_rate
        Where the learning rate of networks starts.
    scale_rate
        The same for scales, which are few and learned as logarithms: bandwidths, widths of columns,
        eps.
    validation_fraction
        The share of the *training* points to keep aside for early stopping. 0 trains on all of them
        and keeps the last iterate.
    patience
        With validation: stop after so many steps without a better value; the best iterate is kept.
    restarts
        Trainings from different starting points, of which the best is kept.
    schedule
        "cosine" lets the learning rates fall to zero along a cosine; "constant" leaves them, as the
        paper does.
    time_budget
        Seconds for all of the training; the schedule is shortened to fit.
    pretraining
        How the kernel's network is trained first, as the features of a classifier; then it is
        frozen, and only the kernel's scales are trained for `objective`: the two-stage tests G+C
        and D+C of the paper's ablation.
    """

    objective: Objective = PowerCriterion()
    train_fraction: float = 0.5
    steps: int = 300
    batch_size: int | None = None
    learning_rate: float = 5e-4
    scale_rate: float = 1e-2
    validation_fraction: float = 0.0
    patience: int = 200
    restarts: int = 1
    schedule: Literal["cosine", "constant"] = "cosine"
    time_budget: float | None = None
    pretraining: Learning | None = None

    def __post_init__(self) -> None:
        for name, least in (("steps", 0), ("batch_size", 2), ("patience", 1), ("restarts", 1)):
            value = getattr(self, name)
            if name == "batch_size" and value is None:
                continue
            if not isinstance(value, Integral) or value < least:
                raise InputError(
                    f"{name} is {value!r}; it must be a whole number of at least {least}."
                )
        if not 0 < self.train_fraction < 1:
            raise InputError(
                f"train_fraction is {self.train_fraction}; it must lie strictly between 0 and 1."
            )
        if not 0 <= self.validation_fraction < 1:
            raise InputError(
                f"validation_fraction is {self.validation_fraction}; it must be in [0, 1)."
            )
        for name in ("learning_rate", "scale_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a positive number.")
        if self.schedule not in ("cosine", "constant"):
            raise InputError(f"schedule is {self.schedule!r}; it must be 'cosine' or 'constant'.")
        if self.time_budget is not None and not self.time_budget > 0:
            raise InputError(
                f"time_budget is {self.time_budget}; it must be a positive number of seconds, or "
                "None."
            )


def fit(
    representation: R,
    samples: Samples,
    learning: Learning,
    generators: Generators,
    resources: Resources = Resources(),
) -> tuple[R, TrainingLog]:
    """Train a copy of `representation` on `samples`, all of which are training points.

    Returns
    -------
    tuple
        The trained copy, and how it went.
    """
    began = time.monotonic()
    if learning.pretraining is not None:
        representation = _pretrained(
            representation, samples, learning.pretraining, generators, resources
        )
    train, validation = samples, None
    if learning.validation_fraction:
        train, validation = split(
            samples, 1 - learning.validation_fraction, generators.torch("validation")
        )
    runs: list[_Run] = []
    with bar("training", learning.steps * learning.restarts, resources.progress) as tick:
        for number in range(learning.restarts):
            candidate = copy.deepcopy(representation)
            start(
                candidate,
                train,
                learning,
                generators.torch(f"start {number}"),
                memory=resources.memory,
            )
            run = _Run(
                candidate,
                learning,
                train,
                validation,
                generators.torch(f"batches {number}"),
                resources.memory,
            )
            budget = None
            if learning.time_budget is not None:
                left = learning.time_budget - (time.monotonic() - began)
                budget = max(0.0, left / (learning.restarts - number))
            run.ascend(budget, tick)
            runs.append(run)
            if run.interrupted:
                break
    best = max(runs, key=lambda run: run.score()) if len(runs) > 1 else runs[0]
    if runs[-1].interrupted:
        warnings.warn(
            f"training was {best.stopped}; the best kernel so far is used.",
            TrainingWarning,
            stacklevel=2,
        )
    settle_normalisation(best.representation, train, generators.torch("normalisation"))
    log = TrainingLog(
        tuple(best.values),
        tuple(best.checks),
        best.best_step,
        best.stopped,
        round(time.monotonic() - began, 3),
    )
    return cast(R, best.representation), log


def _pretrained(
    representation: R,
    samples: Samples,
    learning: Learning,
    generators: Generators,
    resources: Resources,
) -> R:
    """A copy whose network has been trained as the features of a classifier, and is frozen."""
    classifier = OnFeatures(
        Classifier(copy.deepcopy(cast(Any, representation).featurizer)), Linear()
    )
    trained, _ = fit(
        classifier.to(samples.x.device),
        samples,
        learning,
        generators.child("pretraining"),
        resources,
    )
    outcome = copy.deepcopy(representation)
    cast(Any, outcome).featurizer = Frozen(cast(Any, trained.featurizer).featurizer)
    return outcome


def start(
    representation: nn.Module,
    samples: Samples,
    learning: Learning,
    generator: torch.Generator,
    *,
    memory: int = DEFAULT_MEMORY,
) -> None:
    """Fill in what the representation leaves open.

    Networks and medians come from pooled points, a bandwidth from a grid on J, a width from a grid
    on the objective, the weights of a sum of kernels from the quadratic program that maximises J,
    and what learns from labels in one go (a classifier of scikit-learn, locations) does so here.
    """
    for part in representation.modules():
        if callable(learn := getattr(part, "learn", None)):
            learn(samples.x, samples.y, generator)
    if isinstance(representation, FeatureMap):
        _start_width(representation, samples, learning, generator, memory)
    elif isinstance(representation, Kernel):
        _start_kernel(representation, samples, learning, generator, memory)


def _start_width(
    features: FeatureMap,
    samples: Samples,
    learning: Learning,
    generator: torch.Generator,
    memory: int,
) -> None:
    x, y = _some(samples, 5000, generator)
    size = len(x) * len(y) / (len(x) + len(y)) * 2
    best, chosen = -math.inf, None
    with torch.no_grad():
        for width in features.candidate_widths():
            features.set_width(width)
            # T^2 has noise of its own at every width; one that is far from the usual has to be
            # worth it.
            far = abs(math.log2(width / features.usual_width()))
            value = size * float(learning.objective(features, x, y, memory=memory)) - far
            if value > best:
                best, chosen = value, width
    if chosen is not None:
        features.set_width(chosen)


def _start_kernel(
    kernel: Kernel, samples: Samples, learning: Learning, generator: torch.Generator, memory: int
) -> None:
    found = kernel.open_bandwidth()
    kernel.start(samples.pooled(), generator)
    if isinstance(kernel, WeightedSum) and isinstance(learning.objective, PowerCriterion):
        x, y = _some(samples, _batch_size(samples, learning), generator)
        kernel.set_weights(learning.objective.best_weights(kernel, x, y, memory=memory))
    if found is None:
        return
    radial, part = found
    x, y = _some(samples, 2000, generator)  # enough for a start
    n = min(len(x), len(y))
    with torch.no_grad():
        seen = kernel.embed(torch.cat([x[:n], y[:n]]))[part]
        median = radial.bandwidth or 1.0
        radial.set_bandwidth(
            best_bandwidth(seen[:n], seen[n:], median, kernel=radial, memory=memory)
        )


def _some(samples: Samples, most: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """At most so many points of each sample, drawn at random."""
    x, y = (
        points[torch.randperm(len(points), generator=generator)[:most].to(points.device)]
        for points in (samples.x, samples.y)
    )
    return x, y


def best_bandwidth(
    x: Tensor,
    y: Tensor,
    median: float,
    *,
    kernel: Radial | None = None,
    memory: int = DEFAULT_MEMORY,
) -> float:
    """The bandwidth with the largest J on a grid around the median distance, protected from noise.

    It is that of a Gaussian unless another `kernel` is given, whose own bandwidth does not matter.

    The grid goes from 1/64 of the median to twice it in steps of half an octave. sqrt(n) J is a
    z-score: it carries noise of standard deviation one at every bandwidth, and a curve with 15
    chances of a lucky value. So the curve is smoothed over neighbours, and a bandwidth pays 0.4 for
    every octave that it lies away from a quarter of the median, which a real signal outweighs.
    """
    octaves = torch.arange(-6.0, 1.25, 0.5, dtype=torch.float64)
    criterion = PowerCriterion(
        paired=False
    )  # whose value does not depend on the order of the points
    candidate, values = copy.deepcopy(Gaussian() if kernel is None else kernel).to(x), []
    with torch.no_grad():
        for octave in octaves.tolist():
            candidate.set_bandwidth(median * 2.0**octave)
            values.append(criterion(candidate, x, y, memory=memory))
    scores = torch.stack(values).cpu() * len(x) ** 0.5
    padded = nn.functional.pad(scores[None], (1, 1), mode="replicate")[0]
    smooth = padded[:-2] / 4 + padded[1:-1] / 2 + padded[2:] / 4
    chosen = int((smooth - 0.4 * (octaves + 2).abs()).argmax())
    return median * math.exp2(float(octaves[chosen]))


class _Run:
    """One training from one starting point."""

    def __init__(
        self,
        representation: nn.Module,
        learning: Learning,
        train: Samples,
        validation: Samples | None,
        generator: torch.Generator,
        memory: int,
    ) -> None:
        self.representation, self.learning, self.train, self.validation = (
            representation,
            learning,
            train,
            validation,
        )
        self.generator, self.memory = generator, memory
        self.values: list[float] = []
        self.checks: list[tuple[int, float]] = []
        self.best_step, self.best_value = 0, -math.inf
        self.best_state: dict[str, Tensor] = {}
        self.stopped = f"finished after {learning.steps} steps"
        self.interrupted = False

    def ascend(self, budget: float | None, tick: Tick) -> None:
        """Take the steps; leave the best iterate in `representation`."""
        learning, representation = self.learning, self.representation
        if not learning.steps:
            self._validate(0)
            return
        optimiser = torch.optim.Adam(_parameter_groups(representation, learning))
        rates = [group["lr"] for group in optimiser.param_groups]
        batches = _batches(self.train, _batch_size(self.train, learning), self.generator)
        pending: list[Tensor] = []
        began = time.monotonic()
        self._validate(0)
        try:
            for step in range(1, learning.steps + 1):
                done = (step - 1) / learning.steps
                if budget is not None:
                    done = max(done, (time.monotonic() - began) / budget if budget else 1.0)
                if done >= 1:
                    self.stopped = f"out of time after {step - 1} steps"
                    break
                factor = (
                    0.5 * (1 + math.cos(math.pi * done)) if learning.schedule == "cosine" else 1.0
                )
                for group, rate in zip(optimiser.param_groups, rates, strict=True):
                    group["lr"] = rate * factor
                representation.train()
                x, y = next(batches)
                optimiser.zero_grad(set_to_none=True)
                value = learning.objective(representation, x, y, memory=self.memory)
                (-value).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                pending.append(value.detach())
                if step % CHECK_EVERY == 0:
                    self._collect(pending, learning.learning_rate * factor)
                    if self._validate(step) and step - self.best_step >= learning.patience:
                        self.stopped = f"no better validation value since step {self.best_step}, stopped at step {step}"
                        break
                tick(f"J = {self.values[-1]:.3g}" if self.values else "")
        except KeyboardInterrupt:
            self.interrupted, self.stopped = (
                True,
                f"interrupted after {len(self.values) + len(pending)} steps",
            )
        self._collect(pending, learning.learning_rate)
        self._validate(len(self.values))
        if self.best_state:
            representation.load_state_dict(self.best_state)
        else:
            self.best_step = len(self.values)

    def score(self) -> float:
        """What restarts are compared by: the best validation value, or the objective on the training points."""
        if self.checks:
            return self.best_value
        return self._objective(self.train)

    def _objective(self, samples: Samples, most: int = 2000) -> float:
        self.representation.eval()
        with torch.no_grad():
            value = self.learning.objective(
                self.representation, samples.x[:most], samples.y[:most], memory=self.memory
            )
        return float(value)

    def _collect(self, pending: list[Tensor], rate: float) -> None:
        """Move the values of the latest steps to the log, and stop at one that is not a number."""
        if not pending:
            return
        values = torch.stack(pending).tolist()
        pending.clear()
        for value in values:
            self.values.append(value)
            if not math.isfinite(value):
                raise TrainingError(
                    f"the objective became {value} at step {len(self.values)} with learning rate "
                    f"{rate:.3g}; "
                    "use a smaller learning_rate, or look for extreme values in the data."
                )

    def _validate(self, step: int) -> bool:
        """Look at the validation points and remember the best iterate; False if there are none."""
        if self.validation is None:
            return False
        if not self.checks or self.checks[-1][0] != step:
            settle_normalisation(self.representation, self.train, self.generator)
            value = self._objective(self.validation)
            self.checks.append((step, value))
            if value > self.best_value:
                self.best_step, self.best_value = step, value
                self.best_state = {
                    name: tensor.detach().clone()
                    for name, tensor in self.representation.state_dict().items()
                }
        return True


def _parameter_groups(representation: nn.Module, learning: Learning) -> list[dict[str, Any]]:
    """Scales and weights: a parameter called log_... or logit_... is the logarithm of a scale."""
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in representation.named_parameters():
        if parameter.requires_grad:
            scale = name.rpartition(".")[2].startswith("log")
            groups.setdefault(learning.scale_rate if scale else learning.learning_rate, []).append(
                parameter
            )
    return [{"params": parameters, "lr": rate} for rate, parameters in groups.items()]


def _batch_size(samples: Samples, learning: Learning) -> int:
    return learning.batch_size or max(_BATCH_LEAST, min(_BATCH_MOST, min(samples.sizes) // 4))


def _batches(
    samples: Samples, size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of equal size from both samples, each walking through its own random order again and again."""
    n, m = samples.sizes
    size = min(size, n, m, max(_BATCH_LEAST, _BATCH_VALUES // samples.x[0].numel()))
    if n == m == size:
        while True:
            yield samples.x, samples.y
    orders = [_endless(points, size, generator) for points in (samples.x, samples.y)]
    while True:
        yield next(orders[0]), next(orders[1])


def _endless(points: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    while True:
        order = torch.randperm(len(points), generator=generator).to(points.device)
        for first in range(0, len(points) - size + 1, size):
            yield points[order[first : first + size]]


def settle_normalisation(
    representation: nn.Module, samples: Samples, generator: torch.Generator
) -> None:
    """Set the frozen statistics of batch normalisations to those of the pooled training points, blind to labels."""
    layers = [
        m
        for m in representation.modules()
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats
    ]
    if not layers:
        return
    see = representation.embed if isinstance(representation, Kernel) else representation
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain average over the batches
    pooled = samples.pooled()
    order = torch.randperm(len(pooled), generator=generator).to(pooled.device)[:5000]
    representation.train()
    with torch.no_grad():
        for index in torch.tensor_split(order, -(-len(order) // 500)):
            see(pooled[index])
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    representation.eval()
