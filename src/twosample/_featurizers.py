"""Feature maps: networks from points to vectors, with the architectures of the paper.

A featurizer is any `nn.Module`. Those here know how to start on data: `start(points, generator)`
draws their weights from the generator it is given, so one seed gives one network, and the global
generator is left alone.
"""

from __future__ import annotations

import copy
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ._eigen import eigh
from ._estimators import noncentrality
from ._kernels import Gaussian, Kernel, median_bandwidth, start_featurizer
from ._products import accumulator, rows_of
from ._random import draw_rows
from .errors import IncompatibleParts, InputError

_LEVELS = 4096
"""How many pixels of the pooled points stand for all of them where a `ConvNet` looks at ranks."""

_LEAD = 1.5
"""By how much the logarithm of a leading column's width is above that of the others."""


class MLP(nn.Module):
    """A fully connected network with softplus between its layers and none after the last.

    [Liu2020], appendix.

    Parameters
    ----------
    inputs
        Number of columns; None takes it from the data.
    width
        Of the hidden layers and of the output; None means 3 * inputs, at least 30 and at most 300.
    layers
        Number of linear maps.
    gain
        How many times as large as torch's own the starting weights of the first map are. A larger
        one lets the network see finer structure from the first step on, instead of after thousands.
    generator
        Where the starting weights come from; `start` draws them again unless `load_state_dict` has
        put others there.
    """

    def __init__(
        self,
        inputs: int | None = None,
        width: int | None = None,
        *,
        layers: int = 4,
        gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not 0 < gain < math.inf:
            raise InputError(f"gain is {gain}; it must be a positive number.")
        self.inputs = inputs
        self.width = width
        self.layers = layers
        self.gain = gain
        self.maps = nn.ModuleList()
        self.fresh = True
        if inputs is not None:
            self._build(inputs, generator)

    def _build(self, inputs: int, generator: torch.Generator | None) -> None:
        width = self.width or min(300, max(30, 3 * inputs))
        sizes = [inputs] + [width] * self.layers
        steps = itertools.pairwise(sizes)
        self.maps = nn.ModuleList(_empty(nn.Linear, before, after) for before, after in steps)
        draw_weights(self, generator)
        if self.gain != 1:
            # Drawn first and scaled then: the same generator gives the same network but for it.
            with torch.no_grad():
                for parameter in self.maps[0].parameters():
                    parameter.mul_(self.gain)

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Size the network for the points and draw its weights, unless they were loaded."""
        inputs = points[0].numel()
        if self.inputs is not None and self.inputs != inputs:
            raise InputError(f"the MLP takes {self.inputs} columns but the points have {inputs}.")
        if self.fresh:
            self._build(inputs, generator)
            self.to(points.device, points.dtype)

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, width)."""
        if not self.maps:
            raise InputError(
                "this MLP does not know its number of columns yet; give `inputs`, or fit the test "
                "first."
            )
        hidden = self.maps[0](points.flatten(1))
        # Softplus, as in the paper: the features are smooth, and so is a kernel of them.
        for linear in self.maps[1:]:
            hidden = linear(nn.functional.softplus(hidden))
        return hidden  # type: ignore[no-any-return]

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        self.fresh = False
        super()._load_from_state_dict(*args, **options)

    def __repr__(self) -> str:
        options = ""
        if self.layers != 4:
            options += f", layers={self.layers}"
        if self.gain != 1:
            options += f", gain={self.gain:g}"
        return f"MLP({self.inputs}, width={self.width}{options})"


class ResidualMLP(nn.Module):
    """The points themselves with a learned width for every column, plus what an `MLP` adds to them.

    phi(x) = exp(log_widths) * x + B MLP(x) with log_widths = 0 and B = 0 at the start: a deep
    kernel on these features starts as an ordinary kernel on the points, learns quickly which
    columns matter, and bends the space from there.

    Where there are many columns, widths are learned faster and the network more slowly: see
    `rate_factors`. Columns in which the training points plainly differ start with a larger width:
    see `lead`.

    Parameters
    ----------
    inputs, width, layers, generator
        As in `MLP`.
    """

    def __init__(
        self,
        inputs: int | None = None,
        width: int | None = None,
        *,
        layers: int = 4,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.mlp = MLP(inputs, width, layers=layers, generator=generator)
        # Empty until the number of columns is known.
        self.log_widths = nn.Parameter(torch.empty(0))
        self.out = nn.Parameter(torch.empty(0))
        if inputs is not None:
            self._build(inputs)

    def _build(self, inputs: int) -> None:
        like: Tensor = next(self.mlp.parameters())  # (width, inputs)
        if len(self.log_widths) != inputs:  # no column leads
            self.log_widths = nn.Parameter(torch.zeros(inputs))
        self.log_widths = nn.Parameter(self.log_widths.detach().to(like))
        self.out = nn.Parameter(torch.zeros(len(like), inputs).to(like))

    def lead(self, columns: list[int], inputs: int) -> None:
        """Let some of so many columns start with larger widths, unless weights were loaded."""
        if self.mlp.fresh:
            log_widths = torch.zeros(inputs)
            log_widths[columns] = _LEAD
            log_widths -= log_widths.mean()  # if all columns led, none would
            self.log_widths = nn.Parameter(log_widths)

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Size the network for the points and draw its weights, unless they were loaded."""
        fresh = self.mlp.fresh  # loaded widths and B stay as they are, like loaded weights
        self.mlp.start(points, generator)
        if fresh:
            self._build(points[0].numel())

    def rate_factors(self) -> dict[str, float]:
        """What the learning rates of its parameters, named as in this module, are multiplied with.

        Adam moves every weight by the same amount, so a wider network changes more in a step, and
        learns the noise of the training points before the widths have found the columns that
        matter. Its rate falls with its width, beyond 30. Widths have further to go where there are
        more columns to tell apart: twice as fast from 8 columns on.
        """
        columns = len(self.log_widths)
        network = min(1.0, 30 / max(1, len(self.out)))
        factors = {name: network for name, _ in self.named_parameters()}
        factors["log_widths"] = min(2.0, max(1.0, columns / 4))
        return factors

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, number of columns)."""
        flat = points.flatten(1)
        bent: Tensor = self.mlp(flat) @ self.out
        return flat * torch.exp(self.log_widths) + bent

    def __repr__(self) -> str:
        return f"Residual{self.mlp!r}"


class ConvNet(nn.Module):
    """The feature extractor of the DCGAN discriminator, as in the paper's image experiments.

    Four blocks of a 3 x 3 convolution with stride 2, LeakyReLU(0.2) and, from the second on, batch
    normalisation (eps 0.8), then one linear map to `width` features.

    Parameters
    ----------
    shape
        (channels, height, width) of one image; None takes it from the data.
    width
        Number of features.
    channels
        Of the blocks.
    normalisation
        "frozen": outside training, statistics are those of the training points, so that a point's
        features do not depend on which others it is tested with. "batch": those of the pooled batch
        it comes in, as published; still exact, because pooled points go through the network in an
        order that is blind to labels.
    ranks
        Show the network each pixel twice: its value, and its rank among the pixels of the pooled
        training points. Faint differences, such as a background that is almost black instead of
        black, are invisible in the first and plain in the second.
    generator
        Where the starting weights come from.
    """

    def __init__(
        self,
        shape: tuple[int, int, int] | None = None,
        width: int = 100,
        *,
        channels: Sequence[int] = (16, 32, 64, 128),
        normalisation: Literal["frozen", "batch"] = "frozen",
        ranks: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if normalisation not in ("frozen", "batch"):
            raise InputError(f"normalisation is {normalisation!r}; it must be 'frozen' or 'batch'.")
        self.shape = shape
        self.width = width
        self.channels = tuple(channels)
        self.normalisation = normalisation
        self.ranks = ranks
        # A buffer: it is saved with the network, but nothing trains it.
        self.register_buffer("levels", torch.zeros(_LEVELS if ranks else 0))
        self.levels: Tensor  # sorted pixels of the pooled points
        self.body = nn.Sequential()
        self.head: nn.Module = nn.Identity()
        self.fresh = True
        if shape is not None:
            self._build(shape, generator)

    def _build(self, shape: tuple[int, ...], generator: torch.Generator | None) -> None:
        depth, height, width = shape
        depth *= 1 + self.ranks  # each pixel is shown twice
        frozen = self.normalisation == "frozen"
        blocks: list[nn.Module] = []
        for number, channels in enumerate(self.channels):
            convolution = _empty(
                nn.Conv2d,
                depth,
                channels,
                kernel_size=3,
                stride=2,
                padding=1,
            )
            blocks.append(convolution)
            blocks.append(nn.LeakyReLU(0.2))
            if number:
                # Without running statistics, those of the batch are used outside training, too.
                normalise = nn.BatchNorm2d(channels, eps=0.8, track_running_stats=frozen)
                blocks.append(normalise)
            # A stride of 2 halves the image, rounding up.
            depth = channels
            height = (height + 1) // 2
            width = (width + 1) // 2
        self.body = nn.Sequential(*blocks)
        self.head = _empty(nn.Linear, depth * height * width, self.width)
        draw_weights(self, generator)

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Size the network for the images and draw its weights, unless they were loaded."""
        shape = tuple(points.shape[1:])
        if len(shape) != 3:
            raise InputError(
                "a ConvNet takes images (N, C, H, W); these points have the shape "
                f"{tuple(points.shape)}. Use an MLP."
            )
        if self.shape is not None and tuple(self.shape) != shape:
            raise InputError(
                f"the ConvNet takes images of shape {self.shape} but these have {shape}."
            )
        if self.fresh:
            self._build(shape, generator)
            self.to(points.device, points.dtype)
            if self.ranks:
                # From all pooled images, blind to labels.
                drawn = torch.randint(points.numel(), (_LEVELS,), generator=generator)
                pixels = points.flatten()[drawn.to(points.device)]
                self.levels = pixels.sort().values

    def forward(self, points: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, width)."""
        if not self.body:
            raise InputError(
                "this ConvNet does not know the shape of its images yet; give `shape`, or fit the "
                "test first."
            )
        if self.ranks:
            below = torch.searchsorted(self.levels, points, right=False)
            up_to = torch.searchsorted(self.levels, points, right=True)
            # In [0, 2]; equal pixels share their middle rank.
            ranks = (below + up_to).to(points.dtype) / _LEVELS
            # Uniform on [-1, 1] has the variance 1/3: this one has 1 where no pixels are equal.
            standardised = math.sqrt(3) * (ranks - 1)
            points = torch.cat([points, standardised], 1)
        maps = self.body(points)  # (N, channels, height, width)
        features: Tensor = self.head(maps.flatten(1))
        return features

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        self.fresh = False
        super()._load_from_state_dict(*args, **options)

    def __repr__(self) -> str:
        options = ""
        if self.normalisation != "frozen":
            options += f", normalisation={self.normalisation!r}"
        if self.ranks:
            options += ", ranks=True"
        return f"ConvNet({self.shape}, width={self.width}{options})"


def _empty(layer: type[nn.Module], *args: Any, **options: Any) -> nn.Module:
    """A layer whose weights are yet to be drawn."""
    # The constructor of the layer itself would read torch's global generator.
    made: nn.Module = nn.utils.skip_init(layer, *args, **options)  # type: ignore[no-untyped-call]
    return made


def draw_weights(network: nn.Module, generator: torch.Generator | None) -> None:
    """Draw uniform weights and biases within 1 / sqrt(inputs of the unit), as torch does."""
    if generator is None:
        generator = torch.Generator()
        generator.seed()  # from the system, not from torch's global generator
    with torch.no_grad():
        for module in network.modules():
            if not isinstance(module, nn.Linear | nn.Conv2d):
                continue
            inputs = module.weight[0].numel()
            limit = 1 / math.sqrt(inputs)
            for parameter in (module.weight, module.bias):
                if parameter is not None:
                    # On the CPU, so that one seed gives one network on every device.
                    drawn = torch.rand(parameter.shape, generator=generator)
                    parameter.copy_((2 * drawn - 1) * limit)


class Classifier(nn.Module):
    """A score for each point, positive where it looks like one of X: a network and a linear head.

    Parameters
    ----------
    featurizer
        The network; None takes an `MLP` with a gain of 8 for tables, a `ConvNet` (with ranks) for
        images.
    """

    def __init__(self, featurizer: nn.Module | None = None) -> None:
        super().__init__()
        self.featurizer = featurizer
        self.head: nn.Module | None = None

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Start the network and draw the head."""
        if self.featurizer is None:
            self.featurizer = ConvNet(ranks=True) if points.ndim == 4 else MLP(gain=8)
        start_featurizer(self.featurizer, points, generator)
        with torch.no_grad():
            features = self.featurizer(points[:2])  # two: batch normalisations refuse one point
        width = features.shape[1]
        self.head = _empty(nn.Linear, width, 1)
        draw_weights(self.head, generator)
        self.head.to(points.device, points.dtype)

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, 1)."""
        if self.featurizer is None or self.head is None:
            raise InputError("this Classifier has seen no points yet; fit the test first.")
        scores: Tensor = self.head(self.featurizer(points))
        return scores

    def __repr__(self) -> str:
        return "Classifier()" if self.featurizer is None else f"Classifier({self.featurizer!r})"


class AutoFeaturizer(nn.Module):
    """A `ConvNet` for images, a `ResidualMLP` for anything else: chosen when it sees the points.

    Parameters
    ----------
    residual
        False takes a plain `MLP` with a gain of 8, which is better as the features of a classifier.
    """

    def __init__(self, residual: bool = True) -> None:
        super().__init__()
        self.residual = residual
        self.network: nn.Module | None = None

    def lead(self, columns: list[int], inputs: int) -> None:
        """Choose a `ResidualMLP` before it sees the points, and let columns lead in it.

        A network that was chosen before stays.
        """
        if self.residual and self.network is None:
            network = ResidualMLP()
            network.lead(columns, inputs)
            self.network = network

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Choose the network and start it."""
        network: ConvNet | ResidualMLP | MLP
        if points.ndim == 4:
            network = ConvNet(ranks=True)
        elif isinstance(self.network, ResidualMLP) and self.network.mlp.fresh:
            network = self.network  # in which columns lead
        elif self.residual:
            network = ResidualMLP()
        else:
            network = MLP(gain=8)
        network.start(points, generator)
        self.network = network

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, width)."""
        if self.network is None:
            raise InputError("this AutoFeaturizer has seen no points yet; fit the test first.")
        features: Tensor = self.network(points)
        return features

    def __repr__(self) -> str:
        if self.network is not None:
            return repr(self.network)
        return "AutoFeaturizer()" if self.residual else "AutoFeaturizer(residual=False)"


class Frozen(nn.Module):
    """A network that is neither started nor trained any more."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        own = copy.deepcopy(network)  # the caller's network stays trainable
        self.network = own.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> Frozen:
        """Stay in evaluation: batch normalisations keep their statistics."""
        return super().train(False)

    def forward(self, points: Tensor) -> Tensor:
        """What the network gives."""
        features: Tensor = self.network(points)
        return features

    def __repr__(self) -> str:
        return f"Frozen({self.network!r})"


class Bounded(nn.Module):
    """tanh(f(x) / s) with s the Frobenius norm of the pooled points: the scores of L+M.

    L+M is a column of the paper's ablation. A linear kernel has no bound, so its MMD could be
    raised without end by scores that only grow.
    """

    def __init__(self, featurizer: nn.Module) -> None:
        super().__init__()
        self.featurizer = featurizer
        self.register_buffer("scale", torch.ones(()))
        self.scale: Tensor

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Start the network and measure the points."""
        start_featurizer(self.featurizer, points, generator)
        # A sum of very many squares: float32 would lose the last of them.
        precise = points.to(accumulator(points.device))
        norm = torch.linalg.vector_norm(precise)
        self.scale = norm.to(points).clamp_min(1e-6)

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, width), each in (-1, 1)."""
        return torch.tanh(self.featurizer(points) / self.scale)

    def __repr__(self) -> str:
        return f"Bounded({self.featurizer!r})"


class SklearnClassifier(nn.Module):
    """A score for each point by a classifier or pipeline of scikit-learn, positive for X.

    The score is its `decision_function` or, without one, the logit of its probability, clipped.
    Both samples weigh the same: probabilities are corrected for the sizes, other scores get sample
    weights where they are taken. It sees the points as the library encodes them: numbers
    standardised, categories as indicators. What randomness it uses comes from the seed of the test.

    Parameters
    ----------
    estimator
        It is cloned before it is fitted.
    """

    def __init__(self, estimator: Any) -> None:
        super().__init__()
        if not (callable(getattr(estimator, "fit", None)) and _scores_by(estimator)):
            raise IncompatibleParts(
                f"the classifier is a {type(estimator).__name__}; it must have `fit`, and "
                "`decision_function` or "
                "`predict_proba`, as the classifiers of scikit-learn have."
            )
        self.estimator = estimator
        self.fitted: Any = None
        self.shift = 0.0

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Fit a clone of the classifier to tell `x` from `y`."""
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        estimator = clone(self.estimator)
        # Randomness that the user left open comes from the seed of the test, in a fixed order.
        seeds = {}
        parameters = estimator.get_params(deep=True)
        for name, value in sorted(parameters.items()):
            _, _, last = name.rpartition("__")  # such as "svc__random_state" in a pipeline
            if last == "random_state" and value is None:
                seeds[name] = int(torch.randint(2**31 - 1, (), generator=generator))
        estimator.set_params(**seeds)
        n = len(x)
        m = len(y)
        points = torch.cat([x, y]).flatten(1).cpu().numpy()
        labels = np.repeat([1, 0], [n, m])
        # In a random order: some estimators split off the last rows for early stopping.
        order = torch.randperm(n + m, generator=generator).numpy()
        classifier = estimator
        prefix = ""
        if steps := getattr(estimator, "steps", None):  # of a pipeline
            name, classifier = steps[-1]
            prefix = f"{name}__"
        by_probability = _scores_by(estimator) == "predict_proba"
        weights = {}
        if has_fit_parameter(classifier, "sample_weight") and not by_probability:
            of_x = (n + m) / (2 * n)
            of_y = (n + m) / (2 * m)
            balanced = np.where(labels == 1, of_x, of_y)
            weights = {f"{prefix}sample_weight": balanced[order]}
        self.fitted = estimator.fit(points[order], labels[order], **weights)
        # The logit of a probability contains log(n / m), what the sizes alone say.
        self.shift = math.log(n / m) if by_probability else 0.0

    def check_objective(self, objective: object, steps: int) -> None:
        """Refuse a training without labels, or in steps."""
        if objective is None:
            raise IncompatibleParts(
                f"{self!r} learns from labels. Give learning=Learning(CrossEntropy(), steps=0)."
            )
        if steps or not getattr(objective, "trains_score", False):
            raise IncompatibleParts(
                f"{self!r} is fitted in one go. Use Learning(CrossEntropy(), steps=0)."
            )

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, 1)."""
        if self.fitted is None:
            raise InputError("this SklearnClassifier has seen no points yet; fit the test first.")
        flat = points.flatten(1).cpu().numpy()
        if _scores_by(self.fitted) == "decision_function":
            scores = self.fitted.decision_function(flat)
        else:
            _, of_x = self.fitted.predict_proba(flat).T
            # Trees answer 0 and 1, whose logits are not finite.
            probability = np.clip(of_x, 1e-6, 1 - 1e-6)
            scores = np.log(probability) - np.log1p(-probability)
        column = np.asarray(scores, dtype=np.float64)[:, None]
        return torch.as_tensor(column - self.shift).to(points)

    def __repr__(self) -> str:
        return f"SklearnClassifier({self.estimator!r})"


def _scores_by(estimator: Any) -> str | None:
    # The decision function first: it is not clipped, so fewer points share a score.
    for name in ("decision_function", "predict_proba"):
        if hasattr(estimator, name):
            return name
    return None


# Features for Hotelling's T^2.


class FeatureMap(nn.Module, ABC):
    """A map from points to few features whose means T^2 compares, with a width that may be open.

    `learn` chooses starting points with the labels of training points; `start` does without labels.
    """

    @abstractmethod
    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Fill in whatever was left open from pooled points, blind to labels."""

    @abstractmethod
    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Fill in whatever was left open from training points."""

    @abstractmethod
    def candidate_widths(self) -> Sequence[float]:
        """The widths to choose from where it was left open, else none; after `learn`."""

    @abstractmethod
    def usual_width(self) -> float:
        """The width that suits differences as wide as the data."""

    @abstractmethod
    def set_width(self, width: float) -> None:
        """Put the width at a value, keeping it learnable."""

    def choose_width(self, value: Callable[[], float]) -> None:
        """Put the width at the candidate with the largest value; `value()` is that of this map."""
        best = -math.inf
        chosen = None
        for width in self.candidate_widths():
            self.set_width(width)
            # T^2 has noise of its own at every width: one that is far from the usual width has to
            # be worth it.
            far = abs(math.log2(width / self.usual_width()))
            score = value() - far
            if score > best:
                best = score
                chosen = width
        if chosen is not None:
            self.set_width(chosen)


class MeanEmbedding(FeatureMap):
    """k(x, v_j) at locations v_1 ... v_J: where do the mean embeddings of the samples differ?

    [Chwialkowski2015].

    Parameters
    ----------
    locations
        How many, or the (J, ...) locations themselves, in the units in which the points are seen.
    kernel
        A Gaussian with an open bandwidth if None.
    fixed
        The kernel is trained already: it is neither started nor trained, and its batch
        normalisations are frozen. Locations that training moves then start from those that `select`
        takes.
    select
        Take the locations from the training points, one after another, each the best beside those
        before it, and leave them there; `chosen` then has their places among those of X, then of Y.
    """

    def __init__(
        self,
        locations: int | Tensor = 5,
        kernel: Kernel | None = None,
        *,
        fixed: bool = False,
        select: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(locations, int) and locations < 1:
            raise InputError(f"locations is {locations}; there must be at least one.")
        if fixed and kernel is None:
            raise IncompatibleParts(
                "fixed=True keeps a trained kernel as it is, but there is none. Give `kernel`."
            )
        self.kernel = Gaussian() if kernel is None else kernel
        self.fixed = fixed
        self.select = select
        if fixed:
            own = copy.deepcopy(self.kernel)
            self.kernel = own.eval().requires_grad_(False)
        self.given = isinstance(locations, Tensor)
        self.count, places = _count_and_places(locations)
        self.locations = nn.Parameter(places, requires_grad=not select)
        self.chosen: tuple[int, ...] = ()
        self._median = math.nan  # of the distances, where the bandwidth was open

    def train(self, mode: bool = True) -> MeanEmbedding:
        """Set the mode, but leave a fixed kernel in evaluation."""
        super().train(mode)
        if self.fixed:
            self.kernel.eval()
        return self

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        self._start_kernel(points, generator)
        if not self.given:
            self._put(_gaussian_draws(points, self.count, generator))

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        pooled = torch.cat([x, y])
        self._start_kernel(pooled, generator)
        if self.given:
            return
        if self.select or self.fixed:
            # Drawn elsewhere, a location may be too far from all points for a fixed kernel.
            self._put(self._selected(x, y, generator))
        elif self.count == 1:
            self._put(_gaussian_draws(pooled, 1, generator))
        else:
            # From both samples: where they differ, one of them has more points.
            half = self.count // 2
            near_x = _gaussian_draws(x, half, generator)
            near_y = _gaussian_draws(y, self.count - half, generator)
            self._put(torch.cat([near_x, near_y]))

    def candidate_widths(self) -> Sequence[float]:
        if math.isnan(self._median):
            return ()
        octaves = np.linspace(-3, 2, 21)
        return [self._median * 2.0**octave for octave in octaves]

    def usual_width(self) -> float:
        return self._median

    def set_width(self, width: float) -> None:
        if isinstance(self.kernel, Gaussian):
            self.kernel.set_bandwidth(width)

    def _start_kernel(self, points: Tensor, generator: torch.Generator) -> None:
        if self.fixed:
            return
        if isinstance(self.kernel, Gaussian) and self.kernel.bandwidth is None:
            self._median = median_bandwidth(points, generator)
        self.kernel.start(points, generator)

    def _put(self, locations: Tensor) -> None:
        self.locations = nn.Parameter(locations, requires_grad=not self.select)

    def _selected(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """The training points, of at most 2000, that T^2 gains most from, one after another."""
        n = len(x)
        pooled = torch.cat([x, y])
        among = torch.randperm(len(pooled), generator=generator)[:2000]
        chosen: list[int] = []
        kernel = self.kernel
        with torch.no_grad():
            z = kernel.centred(kernel.embed(pooled))
            for _ in range(self.count):
                so_far = rows_of(z, torch.tensor(chosen, dtype=torch.int64))
                before = kernel.tile(z, so_far).double()
                gains = []
                # Some at a time, so that no tile is larger than 256 columns.
                for candidates in torch.split(among, 256):
                    tile = kernel.tile(z, rows_of(z, candidates)).double()
                    for column in tile.T:
                        f = torch.cat([before, column[:, None]], 1)
                        gains.append(noncentrality(f[:n], f[n:], 1e-5))
                best = int(torch.stack(gains).argmax())
                chosen.append(int(among[best]))
        self.chosen = tuple(chosen)
        return pooled[chosen]

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, J)."""
        if not len(self.locations):
            raise InputError("this MeanEmbedding has no locations yet; fit the test first.")
        # Together, so that a batch normalisation sees both alike, and around one centre.
        both = torch.cat([points, self.locations])
        z = self.kernel.centred(self.kernel.embed(both))
        n = len(points)
        of_points = rows_of(z, slice(0, n))
        of_locations = rows_of(z, slice(n, None))
        return self.kernel.tile(of_points, of_locations)

    def __repr__(self) -> str:
        options = ""
        if self.fixed:
            options += ", fixed=True"
        if self.select:
            options += ", select=True"
        return f"MeanEmbedding({self.count}, {self.kernel!r}{options})"


class SmoothCharacteristic(FeatureMap):
    """sin(t_j . u) exp(-|u|^2 / 2) and cos(t_j . u) exp(-|u|^2 / 2) at frequencies t_1 ... t_J.

    u is x / width. Where do the characteristic functions of the samples, smoothed, differ?
    [Chwialkowski2015].

    Parameters
    ----------
    frequencies
        How many, or the (J, d) frequencies themselves. There are two features for each.
    width
        None chooses it on the training points.
    """

    def __init__(self, frequencies: int | Tensor = 5, width: float | None = None) -> None:
        super().__init__()
        if isinstance(frequencies, int) and frequencies < 1:
            raise InputError(f"frequencies is {frequencies}; there must be at least one.")
        self.given = isinstance(frequencies, Tensor)
        self.count, places = _count_and_places(frequencies)
        self.frequencies = nn.Parameter(places)
        if width is not None and not 0 < width < math.inf:
            raise InputError(
                f"width is {width}; it must be a positive number, or None to choose it from the "
                "data."
            )
        logarithm = math.nan if width is None else math.log(width)  # NaN: it is open
        self.log_width = nn.Parameter(torch.tensor(logarithm))
        self._open = False
        self._usual = 1.0

    @property
    def width(self) -> float | None:
        """The scale on which points are seen, or None while it is open."""
        value = float(self.log_width.detach().exp())
        return None if math.isnan(value) else value

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        flat = points.flatten(1)
        if not self.given:
            drawn = torch.randn(self.count, flat.shape[1], generator=generator)
            self.frequencies = nn.Parameter(drawn.to(flat))
        if self.width is None:
            # |x| grows with the root of the columns, and the damping should not.
            spread = float(flat.std(0).mean()) or 1.0
            self._usual = spread * math.sqrt(flat.shape[1])
            self._open = True
            self.set_width(self._usual)

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        self.start(torch.cat([x, y]), generator)

    def candidate_widths(self) -> Sequence[float]:
        if not self._open:
            return ()
        around_usual = [self._usual * 2.0**octave for octave in np.linspace(-4, 3, 20)]
        # And around 1, the width of standardised columns taken by themselves.
        around_one = [2.0**octave for octave in np.linspace(-4, 4, 20)]
        return sorted(around_usual + around_one)

    def usual_width(self) -> float:
        return self._usual

    def set_width(self, width: float) -> None:
        with torch.no_grad():
            self.log_width.fill_(math.log(width))

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, 2 J)."""
        if not len(self.frequencies):
            raise InputError(
                "this SmoothCharacteristic has no frequencies yet; fit the test first."
            )
        u = points.flatten(1) * torch.exp(-self.log_width)  # (N, d)
        angles = u @ self.frequencies.T  # (N, J)
        waves = torch.cat([torch.sin(angles), torch.cos(angles)], 1)
        squares = u.square().sum(1, keepdim=True)
        damping = torch.exp(-squares / 2)  # (N, 1)
        return waves * damping

    def __repr__(self) -> str:
        return f"SmoothCharacteristic({self.count}, width={self.width})"


def _count_and_places(given: int | Tensor) -> tuple[int, Tensor]:
    """How many locations or frequencies there are, and the ones that were given, if any were."""
    if isinstance(given, Tensor):
        return len(given), given.detach().clone()
    return given, torch.empty(0)


def _gaussian_draws(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws from a normal law with the mean and, slightly shrunk, the covariance of the points.

    Both are those of at most 10,000 of `points`. The covariance C is replaced by
    (C + r I)^0.9 + r I with r = 1e-3.
    """
    ridge = 1e-3
    flat = points.flatten(1).double().cpu()
    if len(flat) > 10_000:
        flat = draw_rows(flat, 10_000, generator)
    columns = flat.shape[1]
    mean = flat.mean(0)
    degrees = max(1, len(flat) - 1)
    centred = flat - mean
    # Of the two ways to the eigenvectors, the one that makes no matrix larger than the points.
    if columns <= len(centred):
        covariance = centred.T @ centred / degrees
        variances, directions = eigh(covariance)
    else:
        _, values, rows = torch.linalg.svd(centred, full_matrices=False)
        variances = values.square() / degrees
        directions = rows.T
    # (C + r I)^0.9 + r I is r^0.9 + r in every direction, and the rest along eigenvectors.
    shrunk = (variances.clamp_min(0) + ridge) ** 0.9 - ridge**0.9
    along = shrunk.clamp_min(0).sqrt()
    around = math.sqrt(ridge**0.9 + ridge)

    def noise(width: int) -> Tensor:
        return torch.randn(count, width, generator=generator, dtype=torch.float64)

    noise_along = (noise(len(along)) * along) @ directions.T
    noise_around = around * noise(columns)
    drawn: Tensor = mean + noise_along + noise_around
    return drawn.to(points).reshape(count, *points.shape[1:])
