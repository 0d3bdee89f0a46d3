"""Views of images: each pixel, small filters, textures, and tones."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .._checks import check_whole
from .._eigen import eigh
from .base import ColumnSets, Layout, Pooled, Seen, View

_PATCHES = 64
_PATCH = 5  # pixels a side
_PATCH_IMAGES = 500  # images that filters are cut from
_MOST_PATCHES = 400_000  # of these images: large ones have more than memory holds
_PLACES = 64  # a side, about, at which textures are looked at: large images have more than enough
_DIRECTIONS = 100  # at most, of those that patches have
_NOISE = 0.01  # of the largest eigenvalue: directions of patches weaker than that are noise
_LEAST = 1e-12  # that is divided by, where images are constant
_THRESHOLD = 1.0  # in spreads of a filter's answers: what is closer to 0 does not count
_SHADES = 32  # that are told apart between the darkest and the lightest
_SHADE_PIXELS = 400_000  # of each channel, by which shades are chosen
_FAINTEST = 1e-8  # of the largest eigenvalue: directions of patches weaker than that are rounding
_LEAST_POWER = 1e-3  # of the mean power along a direction: an image that has none is no outlier


class Pixels(View):
    """One feature a view: the value of a pixel, or its square."""

    family = "pixels"
    kind = "pixels"
    weight = 0.15
    regularisation = (math.inf,)
    means: Tensor  # (pixels,)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("means", torch.empty(0))

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        pixels = pooled.rows.flatten(1)
        self.means = pixels.mean(0)

    def features(self, seen: Seen) -> Tensor:
        pixels = seen.rows.flatten(1)
        centred = pixels - self.means
        squares = centred.square()
        features = torch.cat([centred, squares], 1)
        return features[:, :, None]

    def columns(self) -> ColumnSets:
        return [()] * (2 * len(self.means))


class Patches(View):
    """Small filters over images: patches of the pooled images themselves, made white.

    What a filter gives counts where it is above its spread, or below minus its spread. Each of the
    two is averaged over each quarter of the image.

    Parameters
    ----------
    count, side
        How many filters there are, and of how many pixels a side.
    """

    family = "patches"
    kind = "patches"
    weight = 0.35
    regularisation = None
    filters: Tensor  # (count, C, side, side)

    def __init__(self, count: int = _PATCHES, side: int = _PATCH) -> None:
        super().__init__()
        check_whole("count", count, 1)
        check_whole("side", side, 1)
        self.count = count
        self.side = side
        self.register_buffer("filters", torch.empty(0))

    def extra_repr(self) -> str:
        return f"count={self.count}, side={self.side}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        channels = pooled.rows.shape[1]
        patches, side = _patches(pooled.rows, self.side)
        fixed = torch.Generator().manual_seed(0)  # any patches do, but always the same
        order = torch.randperm(len(patches), generator=fixed)
        chosen = order[: self.count]
        white = _whitening(patches)
        filters = patches[chosen] @ white @ white.T
        filters = filters - filters.mean(1, keepdim=True)
        answers = patches @ filters.T
        variances = answers.square().mean(0)
        spreads = variances.sqrt().clamp_min(_LEAST)
        scaled = filters / spreads[:, None]
        self.filters = scaled.reshape(len(chosen), channels, side, side)

    def features(self, seen: Seen) -> Tensor:
        # In float32: it is four times as fast, and its rounding does not depend on the batch.
        images = seen.rows.float()
        filters = self.filters.float()
        answers = nn.functional.conv2d(images, filters)
        above = _by_quarters(answers)
        below = _by_quarters(-answers)
        features = torch.cat([above, below], 1).flatten(1)
        return features.double()[:, None]

    def columns(self) -> ColumnSets:
        return [()]


class Textures(View):
    """How strong each direction of small patches is in an image, from the plain to the faint.

    The directions are the principal axes of the patches of pooled images. The feature of an axis is
    the logarithm of its mean square over the image. Compression, noise, sharpening and the grids
    that generators leave change faint directions, which have no weight in pixels and kernels.

    Parameters
    ----------
    side
        How many pixels a side patches have.
    """

    family = "patches"
    kind = "patches"
    weight = 0.35
    regularisation = None
    filters: Tensor  # (directions, C, side, side)

    def __init__(self, side: int = _PATCH) -> None:
        super().__init__()
        check_whole("side", side, 1)
        self.side = side
        self.register_buffer("filters", torch.empty(0))

    def extra_repr(self) -> str:
        return f"side={self.side}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        channels = pooled.rows.shape[1]
        patches, side = _patches(pooled.rows, self.side)
        covariance = patches.T @ patches / len(patches)
        values, vectors = eigh(covariance)
        least = _FAINTEST * values[-1] + _LEAST
        spreads = values.clamp_min(least).sqrt()
        directions = (vectors / spreads).T
        # One of them says how light a patch is, which no centred patch tells.
        directions = directions - directions.mean(1, keepdim=True)
        # Spread evenly over the spectrum, if there are too many.
        step = -(-len(directions) // _DIRECTIONS)
        chosen = directions.flip(0)[::step]
        self.filters = chosen.reshape(len(chosen), channels, side, side)

    def features(self, seen: Seen) -> Tensor:
        images = seen.rows.float()  # as in `Patches`
        shorter = min(images.shape[2:])
        stride = max(1, shorter // _PLACES)
        answers = nn.functional.conv2d(images, self.filters.float(), stride=stride)
        power = answers.square().mean((2, 3))
        features = torch.log(power.double() + _LEAST_POWER)
        return features[:, None]

    def columns(self) -> ColumnSets:
        return [()]

    def size(self) -> int:
        return len(self.filters)


class Tones(View):
    """How often each shade occurs in an image, wherever it does.

    The darkest and the lightest shade of all images count by themselves, and the others in bins of
    equal size. The feature of a bin is the square root of the share of pixels in it, whose spread
    hardly depends on the share. Clipping, other exposures and generators change shades in all
    places a little, which no single pixel shows.
    """

    family = "patches"
    kind = "patches"
    weight = 0.35
    regularisation = None
    limits: Tensor  # (C, bins - 1) the largest value of each bin but the last

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("limits", torch.empty(0, 0))

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        by_channel = pooled.rows.transpose(0, 1).flatten(1)  # (C, pixels)
        step = -(-by_channel.shape[1] // _SHADE_PIXELS)
        limits = [_limits_of_shades(values) for values in by_channel[:, ::step]]
        # Channels may have different numbers of shades: no value is beyond infinity.
        self.limits = nn.utils.rnn.pad_sequence(limits, batch_first=True, padding_value=math.inf)

    def features(self, seen: Seen) -> Tensor:
        pixels = seen.rows.flatten(2)  # (N, C, pixels)
        limits = self.limits.to(pixels)
        shades = torch.searchsorted(limits.expand(len(pixels), -1, -1).contiguous(), pixels)
        counts = torch.zeros(
            (*shades.shape[:2], limits.shape[1] + 1), dtype=torch.float64, device=pixels.device
        )
        ones = torch.ones((), dtype=torch.float64, device=pixels.device).expand_as(shades)
        counts.scatter_add_(2, shades, ones)
        shares = counts / shades.shape[2]
        return shares.sqrt().flatten(1)[:, None]

    def columns(self) -> ColumnSets:
        return [()]


def _limits_of_shades(values: Tensor) -> Tensor:
    """(K,) the largest value of each bin of shades, but for that of the lightest."""
    darkest = values.min()
    between = values[(values > darkest) & (values < values.max())]
    if not len(between):
        return darkest[None]
    ordered = between.sort().values
    places = torch.linspace(0, len(ordered) - 1, _SHADES + 1).round().long()
    limits: Tensor = torch.unique(torch.cat([darkest[None], ordered[places]]))
    return limits


def _patches(images: Tensor, side: int) -> tuple[Tensor, int]:
    """(K, C side side) patches of some images, neither light nor dark; and their side."""
    height, width = images.shape[2:]
    side = min(side, height, width)
    places = (height - side + 1) * (width - side + 1)
    count = min(_PATCH_IMAGES, max(1, _MOST_PATCHES // places))
    cut = nn.functional.unfold(images[:count], side)  # (N, C side side, places)
    patches = cut.transpose(1, 2).flatten(0, 1)
    return patches - patches.mean(1, keepdim=True), side


def _whitening(patches: Tensor) -> Tensor:
    """The factor W for which patches times W have all directions equally strong, but noise."""
    covariance = patches.T @ patches / len(patches)
    values, vectors = eigh(covariance)
    # Weak directions are noise; made as strong as the others, they would be all one sees.
    noise = _NOISE * values[-1]
    strengths = values.clamp_min(0) + noise + _LEAST
    white: Tensor = vectors / strengths.sqrt()
    return white


def _by_quarters(answers: Tensor) -> Tensor:
    """(N, filters, 2, 2) means over quarters of the image, of what exceeds the threshold."""
    excess = (answers - _THRESHOLD).clamp_min(0)
    quarters: Tensor = nn.functional.adaptive_avg_pool2d(excess, 2)
    return quarters
