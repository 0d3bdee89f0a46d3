"""Training a representation: `fit` copies it, trains the copy and returns that."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, TypeVar, cast

import torch
from torch import Tensor, nn

from ._checks import check_share, check_whole
from ._data.samples import Samples, split
from ._featurizers import Classifier, Frozen
from ._kernels import Kernel, Linear, OnFeatures, embedding_of
from ._objectives import Objective, PowerCriterion, start_representation
from ._progress import Tick, bar
from ._random import Generators
from ._resources import DEFAULT_MEMORY, Resources
from ._result import TrainingLog
from ._statistics.leading import leading_columns
from .errors import IncompatibleParts, InputError, TrainingError

R = TypeVar("R", bound=nn.Module)

CHECK_EVERY = 20
"""Steps between two looks at the values: each look makes an accelerator wait."""

_BATCH_LEAST = 256
_BATCH_MOST = 512
_BATCH_VALUES = 2**17  # in a batch of one sample, beyond its first 256 points
_SCORED_POINTS = 2000  # of each sample, by which iterates and restarts are compared
_NORMALISED_POINTS = 5000  # pooled, from which batch normalisations take their statistics


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
        Number of steps. A classifier that tells all training points apart stops before; with a
        constant schedule it takes them all.
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
        check_whole("steps", self.steps, 0)
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size, 2)
        check_whole("patience", self.patience, 1)
        check_whole("restarts", self.restarts, 1)
        check_share("train_fraction", self.train_fraction)
        if not 0 <= self.validation_fraction < 1:
            raise InputError(
                f"validation_fraction is {self.validation_fraction}; it must be in [0, 1)."
            )
        for name in ("learning_rate", "scale_rate"):
            rate = getattr(self, name)
            if not 0 < rate < math.inf:
                raise InputError(f"{name} is {rate}; it must be a positive number.")
        if self.schedule not in ("cosine", "constant"):
            raise InputError(f"schedule is {self.schedule!r}; it must be 'cosine' or 'constant'.")
        if self.time_budget is not None and not self.time_budget > 0:
            raise InputError(
                f"time_budget is {self.time_budget}; it must be a positive number of seconds, or "
                "None."
            )

    def rate_factor(self, done: float) -> float:
        """What the learning rates are multiplied with when a share `done` of the steps is over."""
        if self.schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * done))


class LearningOptions(TypedDict, total=False):
    """The options of `Learning` that a method takes: all but the objective, which it chooses."""

    train_fraction: float
    steps: int
    batch_size: int | None
    learning_rate: float
    scale_rate: float
    validation_fraction: float
    patience: int
    restarts: int
    schedule: Literal["cosine", "constant"]
    time_budget: float | None
    pretraining: Learning | None


def check_learning(representation: nn.Module, learning: Learning | None) -> None:
    """Raise `IncompatibleParts` if the representation cannot be trained so, and say what can be.

    The objective says what it can train, in `check(representation)`. Every part of the
    representation says what it can be trained for, in `check_objective(objective, steps)`.
    """
    objective = None
    steps = 0
    if learning is not None:
        objective = learning.objective
        steps = learning.steps
        if not _can_learn(representation):
            raise IncompatibleParts(
                f"{representation!r} has nothing to learn. Leave out `learning`."
            )
        if callable(check := getattr(objective, "check", None)):
            check(representation)
    # Without learning, too: some parts, such as a classifier of scikit-learn, have to be trained.
    for part in representation.modules():
        if callable(check := getattr(part, "check_objective", None)):
            check(objective, steps)
    if learning is not None and learning.pretraining is not None:
        _check_pretraining(representation, learning.pretraining.objective)


def _can_learn(representation: nn.Module) -> bool:
    if any(parameter.requires_grad for parameter in representation.parameters()):
        return True
    # A featurizer may have no parameters before it has seen points. A kernel has them from the
    # beginning, even where a bandwidth is open, so its `start` says nothing.
    for part in representation.modules():
        if hasattr(part, "learn"):
            return True
        if hasattr(part, "start") and not isinstance(part, Kernel):
            return True
    return False


def _check_pretraining(representation: nn.Module, objective: Objective) -> None:
    featurizer = getattr(representation, "featurizer", None)
    if featurizer is None or not isinstance(representation, Kernel):
        raise IncompatibleParts(
            f"pretraining trains the network of a kernel, and {representation!r} has none. Use "
            "DeepKernel(network)."
        )
    if not getattr(objective, "trains_score", False):
        raise IncompatibleParts(
            f"pretraining is that of a classifier, not by {objective!r}. Use CrossEntropy()."
        )
    if isinstance(featurizer, Classifier):
        raise IncompatibleParts(
            "pretraining puts a head of its own on the network, but it is a Classifier already. "
            "Give its network."
        )


class TrainingInterrupted(KeyboardInterrupt):
    """An interrupt (Ctrl-C) during training. It ends whatever was going on, as any interrupt does.

    Attributes
    ----------
    fitted
        The `FittedTest` with what had been learned by then, for those who want to go on with it.
    representation, log
        What was trained, and how far that went.
    """

    def __init__(self, representation: nn.Module, log: TrainingLog) -> None:
        super().__init__(
            f"training was {log.stopped}; `fitted` of this exception has what was learned by then."
        )
        self.representation = representation
        self.log = log
        self.fitted: Any = None


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

    Raises
    ------
    TrainingInterrupted
        If it is interrupted, with the best that had been learned by then.
    """
    began = time.monotonic()
    if learning.pretraining is not None:
        # Its time counts towards the time budget, which began above.
        representation = _pretrained(
            representation, samples, learning.pretraining, generators, resources
        )
    train = samples
    validation = None
    if learning.validation_fraction:
        share = 1 - learning.validation_fraction
        train, validation = split(samples, share, generators.torch("validation"))
    runs: list[_Run] = []
    with bar("training", learning.steps * learning.restarts, resources.progress) as tick:
        for number in range(learning.restarts):
            candidate = copy.deepcopy(representation)
            # Generators by name: the first run is the same however many restarts follow it.
            starting = generators.torch(f"start {number}")
            start(candidate, train, learning, starting, memory=resources.memory)
            batching = generators.torch(f"batches {number}")
            run = _Run(candidate, learning, train, validation, batching, resources.memory)
            seconds = None
            if learning.time_budget is not None:
                # What is left is shared evenly among the restarts that are still to come.
                left = learning.time_budget - (time.monotonic() - began)
                seconds = max(0.0, left / (learning.restarts - number))
            run.ascend(seconds, tick)
            runs.append(run)
            if run.interrupted:
                break
    # A single run need not be scored, which costs a look at the training points.
    best = runs[0] if len(runs) == 1 else max(runs, key=_Run.score)
    settle_normalisation(best.representation, train, generators.torch("normalisation"))
    log = TrainingLog(
        tuple(best.values),
        tuple(best.checks),
        best.best_step,
        best.stopped,
        round(time.monotonic() - began, 3),
    )
    last = runs[-1]
    if last.interrupted:
        # An earlier run may be the best, but it is the last one that says how training ended.
        raise TrainingInterrupted(best.representation, replace(log, stopped=last.stopped))
    return cast(R, best.representation), log


def _pretrained(
    representation: R,
    samples: Samples,
    learning: Learning,
    generators: Generators,
    resources: Resources,
) -> R:
    """A copy whose network has been trained as the features of a classifier, and is frozen."""
    network = copy.deepcopy(cast(Any, representation).featurizer)
    classifier = OnFeatures(Classifier(network), Linear()).to(samples.x.device)
    try:
        trained, _ = fit(classifier, samples, learning, generators.child("pretraining"), resources)
    except TrainingInterrupted as interrupted:
        # What was learned is a classifier, not the kernel that was asked for.
        raise KeyboardInterrupt(f"pretraining was {interrupted.log.stopped}.") from None
    outcome = copy.deepcopy(representation)
    # The head of the classifier has done its work; only its network goes on.
    network = cast(Any, trained.featurizer).featurizer
    cast(Any, outcome).featurizer = Frozen(network)
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

    First whatever learns from labels in one go does so: a classifier of scikit-learn, locations,
    the widths of columns in which the samples differ.
    Then the objective starts the rest. Networks and medians come from pooled points, a bandwidth
    from a grid on J, a width from a grid on the objective, the weights of a sum of kernels from the
    quadratic program that maximises J.
    """
    x = samples.x
    y = samples.y
    _let_columns_lead(representation, samples)
    for part in representation.modules():
        if callable(learn := getattr(part, "learn", None)):
            learn(x, y, generator)
    objective = learning.objective
    own_start = getattr(objective, "start", None)
    if own_start is None:
        # Any callable is an objective: one without a `start` gets the usual one.
        start_representation(objective, representation, x, y, generator, memory=memory)
    else:
        size = _batch_size(samples, learning)
        own_start(representation, x, y, generator, batch_size=size, memory=memory)


def _let_columns_lead(representation: nn.Module, samples: Samples) -> None:
    """Tell the parts that ask, by a method `lead`, in which columns the samples plainly differ."""
    hooks = [getattr(part, "lead", None) for part in representation.modules()]
    asking = [lead for lead in hooks if callable(lead)]
    if not asking:
        return
    columns = leading_columns(samples)
    if columns:
        (inputs,) = samples.schema.shape
        for lead in asking:
            lead(columns, inputs)


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
        self.representation = representation
        self.learning = learning
        self.train = train
        self.validation = validation
        self.generator = generator
        self.memory = memory
        self.values: list[float] = []  # of the objective, one for each step
        self.checks: list[tuple[int, float]] = []  # (step, value on the validation points)
        self.best_step = 0
        self.best_value = -math.inf
        self.best_state: dict[str, Tensor] = {}
        self.stopped = f"finished after {learning.steps} steps"
        self.interrupted = False
        self._pending: list[Tensor] = []  # values still on the device, not yet in `values`

    def ascend(self, seconds: float | None, tick: Tick) -> None:
        """Take the steps, within so many seconds; leave the best iterate in `representation`."""
        began = time.monotonic()
        self._validate(0)
        if not self.learning.steps:
            return
        try:
            self._take_steps(began, seconds, tick)
        except KeyboardInterrupt:
            # Not raised here: what was learned has to be put in order first.
            self.interrupted = True
            taken = len(self.values) + len(self._pending)
            self.stopped = f"interrupted after {taken} steps"
        self._collect(self.learning.learning_rate)
        self._validate(len(self.values))
        if self.best_state:
            self.representation.load_state_dict(self.best_state)
        else:
            # Without validation points there is nothing to choose an iterate by.
            self.best_step = len(self.values)

    def _take_steps(self, began: float, seconds: float | None, tick: Tick) -> None:
        learning = self.learning
        optimiser = torch.optim.Adam(_parameter_groups(self.representation, learning))
        rates = [group["lr"] for group in optimiser.param_groups]  # where the schedule starts
        batches = _batches(self.train, _batch_size(self.train, learning), self.generator)
        for step in range(1, learning.steps + 1):
            done = (step - 1) / learning.steps
            if seconds is not None:
                # The clock may run ahead of the steps: then it drives the schedule.
                spent = (time.monotonic() - began) / seconds if seconds else 1.0
                done = max(done, spent)
            if done >= 1:
                self.stopped = f"out of time after {step - 1} steps"
                return
            factor = learning.rate_factor(done)
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            x, y = next(batches)
            self._step(optimiser, x, y)
            if step % CHECK_EVERY == 0:
                self._collect(learning.learning_rate * factor)
                if self._validate(step) and step - self.best_step >= learning.patience:
                    self.stopped = (
                        f"no better validation value since step {self.best_step}, stopped at step "
                        f"{step}"
                    )
                    return
                if self._knows_enough():
                    self.stopped = f"nothing left to learn, stopped at step {step}"
                    return
            tick(f"J = {self.values[-1]:.3g}" if self.values else "")

    def _knows_enough(self) -> bool:
        """Whether the latest values are beyond what the objective calls enough."""
        enough: float | None = getattr(self.learning.objective, "enough", None)
        if enough is None or self.learning.schedule == "constant":
            return False
        latest = self.values[-CHECK_EVERY:]
        return sum(latest) / len(latest) > enough

    def _step(self, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
        self.representation.train()
        optimiser.zero_grad(set_to_none=True)
        value = self.learning.objective(self.representation, x, y, memory=self.memory)
        (-value).backward()  # type: ignore[no-untyped-call]  # optimisers minimise
        optimiser.step()
        self._pending.append(value.detach())

    def score(self) -> float:
        """What decides among restarts: the best validation value, or else the training value."""
        if self.checks:
            return self.best_value
        return self._objective(self.train)

    def _objective(self, samples: Samples) -> float:
        self.representation.eval()
        x = samples.x[:_SCORED_POINTS]
        y = samples.y[:_SCORED_POINTS]
        with torch.no_grad():
            value = self.learning.objective(self.representation, x, y, memory=self.memory)
        return float(value)

    def _collect(self, rate: float) -> None:
        """Move the values of the latest steps to the log, and stop at one that is not a number."""
        if not self._pending:
            return
        values = torch.stack(self._pending).tolist()
        self._pending.clear()
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
        if self.checks and self.checks[-1][0] == step:
            return True
        # As the test will see it: with statistics of the training points, not of the last batch.
        settle_normalisation(self.representation, self.train, self.generator)
        value = self._objective(self.validation)
        self.checks.append((step, value))
        if value > self.best_value:
            self.best_step = step
            self.best_value = value
            # Cloned, because the next step writes over the parameters in place.
            state = self.representation.state_dict()
            self.best_state = {name: tensor.detach().clone() for name, tensor in state.items()}
        return True


def _parameter_groups(representation: nn.Module, learning: Learning) -> list[dict[str, Any]]:
    """The parameters to train, by their learning rates: one for scales, one for all others.

    A part may multiply the rates of its parameters, in `rate_factors()`.
    """
    groups: dict[float, list[nn.Parameter]] = {}
    grouped: set[nn.Parameter] = set()
    factors = _rate_factors(representation)
    for part in representation.modules():
        scales = _scale_parameters(part)
        for name, parameter in part.named_parameters(recurse=False):
            # Two parts may share a parameter, and Adam refuses to be given it twice.
            if not parameter.requires_grad or parameter in grouped:
                continue
            grouped.add(parameter)
            rate = learning.scale_rate if name in scales else learning.learning_rate
            rate *= factors.get(parameter, 1.0)
            groups.setdefault(rate, []).append(parameter)
    return [{"params": parameters, "lr": rate} for rate, parameters in groups.items()]


def _rate_factors(representation: nn.Module) -> dict[nn.Parameter, float]:
    """What parts multiply the learning rates of their parameters with, members included."""
    factors: dict[nn.Parameter, float] = {}
    for part in representation.modules():
        if callable(declared := getattr(part, "rate_factors", None)):
            parameters = dict(part.named_parameters())
            for name, factor in declared().items():
                if name not in parameters:
                    raise InputError(
                        f"rate_factors of {part!r} names {name!r}, which is none of its parameters."
                    )
                factors[parameters[name]] = factor
    return factors


def _scale_parameters(part: nn.Module) -> Collection[str]:
    """Which of a part's own parameters are scales, learned as logarithms.

    A part names them in an attribute `scale_parameters`. By default they are those whose names
    begin with "log", such as log_bandwidth and logit_eps.
    """
    declared: Collection[str] | None = getattr(part, "scale_parameters", None)
    if declared is not None:
        return declared
    names = [name for name, _ in part.named_parameters(recurse=False)]
    return [name for name in names if name.startswith("log")]


def _batch_size(samples: Samples, learning: Learning) -> int:
    if learning.batch_size is not None:
        return learning.batch_size
    quarter = min(samples.sizes) // 4
    return max(_BATCH_LEAST, min(_BATCH_MOST, quarter))


def _batches(
    samples: Samples,
    size: int,
    generator: torch.Generator,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of equal size from both samples, each of which has a random order of its own."""
    n, m = samples.sizes
    values = samples.x[0].numel()  # of one point, such as its pixels
    room = max(_BATCH_LEAST, _BATCH_VALUES // values)
    size = min(size, n, m, room)
    if n == m == size:
        # All points in every step: an order would change nothing.
        while True:
            yield samples.x, samples.y
    of_x = _endless(samples.x, size, generator)
    of_y = _endless(samples.y, size, generator)
    while True:
        yield next(of_x), next(of_y)


def _endless(points: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches of the points in a random order, then in another, again and again."""
    count = len(points)
    while True:
        order = torch.randperm(count, generator=generator).to(points.device)
        # Points that do not fill a batch wait for another order.
        for first in range(0, count - size + 1, size):
            batch = order[first : first + size]
            yield points[batch]


def settle_normalisation(
    representation: nn.Module,
    samples: Samples,
    generator: torch.Generator,
) -> None:
    """Give batch normalisations the statistics of the pooled training points, blind to labels."""
    layers = [
        layer
        for layer in representation.modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats
    ]
    if not layers:
        return
    embed = embedding_of(representation)
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain average over the batches
    pooled = samples.pooled()
    order = torch.randperm(len(pooled), generator=generator).to(pooled.device)
    order = order[:_NORMALISED_POINTS]
    representation.train()
    with torch.no_grad():
        # Batches of at most 500, of nearly one size: a small last one would count as much.
        batches = math.ceil(len(order) / 500)
        for index in torch.tensor_split(order, batches):
            embed(pooled[index])
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    representation.eval()
