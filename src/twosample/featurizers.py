"""Feature maps: networks from points to vectors, with the architectures of the paper.

A featurizer is any `nn.Module`. Those here know how to start on data: `start(points, generator)` draws their weights
from the generator it is given, so one seed gives one network, and the global generator is left alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .errors import InputError

_LEVELS = 4096
"""How many pixels of the pooled points stand for all of them where a `ConvNet` looks at ranks."""


class MLP(nn.Module):
    """A fully connected network with softplus between its layers and none after the last [Liu2020, appendix].

    Parameters
    ----------
    inputs
        Number of columns; None takes it from the data.
    width
        Of the hidden layers and of the output; None means 3 * inputs, at least 30 and at most 300.
    layers
        Number of linear maps.
    generator
        Where the starting weights come from; `start` draws them again unless `load_state_dict` has put others there.
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
        self.inputs, self.width, self.layers = inputs, width, layers
        self.maps = nn.ModuleList()
        self.fresh = True
        if inputs is not None:
            self._build(inputs, generator)

    def _build(self, inputs: int, generator: torch.Generator | None) -> None:
        width = self.width or min(300, max(30, 3 * inputs))
        sizes = [inputs] + [width] * self.layers
        self.maps = nn.ModuleList(_empty(nn.Linear, a, b) for a, b in itertools.pairwise(sizes))
        draw_weights(self, generator)

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
            raise InputError("this MLP does not know its number of columns yet; give `inputs`, or fit the test first.")
        hidden = self.maps[0](points.flatten(1))
        for linear in self.maps[1:]:
            hidden = linear(nn.functional.softplus(hidden))
        return hidden  # type: ignore[no-any-return]

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        self.fresh = False
        super()._load_from_state_dict(*args, **options)

    def __repr__(self) -> str:
        return f"MLP({self.inputs}, width={self.width}" + (f", layers={self.layers})" if self.layers != 4 else ")")


class ResidualMLP(nn.Module):
    """The points themselves with a learned width for every column, plus what an `MLP` adds to them.

    phi(x) = exp(log_widths) * x + B MLP(x) with log_widths = 0 and B = 0 at the start: a deep kernel on these features
    starts as an ordinary kernel on the points, learns quickly which columns matter, and bends the space from there.

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
        self.log_widths = nn.Parameter(torch.empty(0))
        self.out = nn.Parameter(torch.empty(0))
        if inputs is not None:
            self._build(inputs)

    def _build(self, inputs: int) -> None:
        like: Tensor = next(self.mlp.parameters())  # (width, inputs)
        self.log_widths = nn.Parameter(torch.zeros(inputs).to(like))
        self.out = nn.Parameter(torch.zeros(len(like), inputs).to(like))

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Size the network for the points and draw its weights, unless they were loaded."""
        fresh = self.mlp.fresh
        self.mlp.start(points, generator)
        if fresh:
            self._build(points[0].numel())

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, number of columns)."""
        flat = points.flatten(1)
        bent: Tensor = self.mlp(flat) @ self.out
        return flat * torch.exp(self.log_widths) + bent

    def __repr__(self) -> str:
        return f"Residual{self.mlp!r}"


class ConvNet(nn.Module):
    """The feature extractor of the DCGAN discriminator, as in the paper's image experiments.

    Four blocks of a 3 x 3 convolution with stride 2, LeakyReLU(0.2) and, from the second on, batch normalisation (eps
    0.8), then one linear map to `width` features.

    Parameters
    ----------
    shape
        (channels, height, width) of one image; None takes it from the data.
    width
        Number of features.
    channels
        Of the blocks.
    normalisation
        "frozen": outside training, statistics are those of the training points, so that a point's features do not
        depend on which others it is tested with. "batch": those of the pooled batch it comes in, as published; still
        exact, because pooled points go through the network in an order that is blind to labels.
    ranks
        Show the network each pixel twice: its value, and its rank among the pixels of the pooled training points. Faint
        differences, such as a background that is almost black instead of black, are invisible in the first and plain
        in the second.
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
        self.shape, self.width, self.channels = shape, width, tuple(channels)
        self.normalisation, self.ranks = normalisation, ranks
        self.register_buffer("levels", torch.zeros(_LEVELS if ranks else 0))  # sorted pixels of the pooled points
        self.levels: Tensor
        self.body = nn.Sequential()
        self.head: nn.Module = nn.Identity()
        self.fresh = True
        if shape is not None:
            self._build(shape, generator)

    def _build(self, shape: tuple[int, ...], generator: torch.Generator | None) -> None:
        depth, height, width = shape
        depth *= 1 + self.ranks
        blocks: list[nn.Module] = []
        for number, channels in enumerate(self.channels):
            blocks.append(_empty(nn.Conv2d, depth, channels, kernel_size=3, stride=2, padding=1))
            blocks.append(nn.LeakyReLU(0.2))
            if number:
                blocks.append(nn.BatchNorm2d(channels, eps=0.8, track_running_stats=self.normalisation == "frozen"))
            depth, height, width = channels, (height + 1) // 2, (width + 1) // 2
        self.body = nn.Sequential(*blocks)
        self.head = _empty(nn.Linear, depth * height * width, self.width)
        draw_weights(self, generator)

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Size the network for the images and draw its weights, unless they were loaded."""
        shape = tuple(points.shape[1:])
        if len(shape) != 3:
            raise InputError(
                f"a ConvNet takes images (N, C, H, W); these points have the shape {tuple(points.shape)}. Use an MLP."
            )
        if self.shape is not None and tuple(self.shape) != shape:
            raise InputError(f"the ConvNet takes images of shape {self.shape} but these have {shape}.")
        if self.fresh:
            self._build(shape, generator)
            self.to(points.device, points.dtype)
            if self.ranks:
                drawn = torch.randint(points.numel(), (_LEVELS,), generator=generator).to(points.device)
                self.levels = points.flatten()[drawn].sort().values

    def forward(self, points: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, width)."""
        if not self.body:
            raise InputError(
                "this ConvNet does not know the shape of its images yet; give `shape`, or fit the test first."
            )
        if self.ranks:
            below, up_to = (torch.searchsorted(self.levels, points, right=right) for right in (False, True))
            ranks = (below + up_to).to(points.dtype) / _LEVELS  # in [0, 2]; equal pixels share their middle rank
            points = torch.cat([points, math.sqrt(3) * (ranks - 1)], 1)  # variance 1 where no pixels are equal
        features: Tensor = self.head(self.body(points).flatten(1))
        return features

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        self.fresh = False
        super()._load_from_state_dict(*args, **options)

    def __repr__(self) -> str:
        options = "" if self.normalisation == "frozen" else f", normalisation={self.normalisation!r}"
        options += ", ranks=True" if self.ranks else ""
        return f"ConvNet({self.shape}, width={self.width}{options})"


def _empty(layer: type[nn.Module], *args: Any, **options: Any) -> nn.Module:
    """A layer whose weights are yet to be drawn: torch's own constructor would read the global generator."""
    made: nn.Module = nn.utils.skip_init(layer, *args, **options)  # type: ignore[no-untyped-call]
    return made


def draw_weights(network: nn.Module, generator: torch.Generator | None) -> None:
    """Uniform weights and biases within 1 / sqrt(inputs of the unit), torch's own default, from `generator`."""
    if generator is None:
        generator = torch.Generator()
        generator.seed()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                limit = 1 / math.sqrt(module.weight[0].numel())
                for parameter in (module.weight, module.bias):
                    if parameter is not None:
                        drawn = torch.rand(parameter.shape, generator=generator)
                        parameter.copy_((2 * drawn - 1) * limit)


class Classifier(nn.Module):
    """A score for each point, positive where it looks like one of X: a network and a linear head.

    Parameters
    ----------
    featurizer
        The network; None takes the paper's: an `MLP` for tables, a `ConvNet` (with ranks) for images.
    """

    def __init__(self, featurizer: nn.Module | None = None) -> None:
        super().__init__()
        self.featurizer = featurizer
        self.head: nn.Module | None = None

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Start the network and draw the head."""
        if self.featurizer is None:
            self.featurizer = ConvNet(ranks=True) if points.ndim == 4 else MLP()
        start = getattr(self.featurizer, "start", None)
        if callable(start):
            start(points, generator)
        with torch.no_grad():
            width = self.featurizer(points[:2]).shape[1]
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
    """A `ConvNet` for images and a `ResidualMLP` for anything else, chosen when the points are seen."""

    def __init__(self) -> None:
        super().__init__()
        self.network: nn.Module | None = None

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Choose the network and start it."""
        network = ConvNet(ranks=True) if points.ndim == 4 else ResidualMLP()
        network.start(points, generator)
        self.network = network

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, width)."""
        if self.network is None:
            raise InputError("this AutoFeaturizer has seen no points yet; fit the test first.")
        features: Tensor = self.network(points)
        return features

    def __repr__(self) -> str:
        return "AutoFeaturizer()" if self.network is None else repr(self.network)
