"""Two samples as tensors: encoded, scaled, split, or embedded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .._design import Units
from .._resources import Resources
from ..errors import InputError
from .extremes import Spread, drawn_in, let_out, stretch
from .moments import Moments
from .schema import Schema
from .tables import count

_CHUNK = 2**22  # numbers in float64 at a time: 32 MiB
_LEAST = 2  # rows in each part of a split: an unbiased MMD has no value with fewer


@dataclass(frozen=True, eq=False)
class Samples:
    """Two encoded samples and how they were encoded.

    Attributes
    ----------
    x, y : Tensor
        Of shape (n, d) and (m, d) for tables, (n, C, H, W) and (m, C, H, W) for images.
    schema : Schema
    rows : pair of Tensor, optional
        Where these points stood in X and in Y as they came in; None where they are all there, in
        order.
    dropped : pair of int
        How many rows of X and of Y were left out because something in them was missing.
    units : Units, optional
        Which points move together; None where each moves by itself.
    """

    x: Tensor
    y: Tensor
    schema: Schema
    rows: tuple[Tensor, Tensor] | None = None
    dropped: tuple[int, int] = (0, 0)
    units: Units | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of points in x and in y."""
        return len(self.x), len(self.y)

    def pooled(self) -> Tensor:
        """The points of x, then those of y."""
        return torch.cat([self.x, self.y])

    def to(
        self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Samples:
        """The same samples on another device or in another dtype."""
        x = self.x.to(device=device, dtype=dtype)
        y = self.y.to(device=device, dtype=dtype)
        return replace(self, x=x, y=y)

    def take(self, rows_x: Tensor, rows_y: Tensor) -> Samples:
        """Some of the points, in this order."""
        n, m = self.sizes
        places_x, places_y = self.rows or (torch.arange(n), torch.arange(m))
        return replace(
            self,
            x=self.x[rows_x.to(self.x.device)],
            y=self.y[rows_y.to(self.y.device)],
            rows=(places_x[rows_x], places_y[rows_y]),
            units=None if self.units is None else self.units.take(rows_x, rows_y),
        )


@dataclass(frozen=True, eq=False)
class EmbeddedSamples:
    """Two samples of which only what the statistic needs is left.

    Attributes
    ----------
    parts
        The embedded points of X, then of Y, as `Kernel.embed` gives them, or their features:
        tensors with one row a point.
    sizes
        Number of points of X and of Y.
    schema
        How the rows were encoded.
    dropped
        How many rows of X and of Y were left out because something in them was missing.
    resources
        What may be used to compare the points.
    units
        Which points move together; None where each moves by itself.
    """

    parts: tuple[Tensor, ...]
    sizes: tuple[int, int]
    schema: Schema
    dropped: tuple[int, int] = (0, 0)
    resources: Resources = Resources()
    units: Units | None = None

    def to(self, *, device: torch.device | str) -> EmbeddedSamples:
        """The same points on another device."""
        return replace(self, parts=tuple(part.to(device) for part in self.parts))


@dataclass(frozen=True, eq=False)
class Scaling:
    """Shift and scale of standardisation, learned from pooled points in float64.

    Scaled values beyond `extremes.FENCE` are drawn in logarithmically. A column that has extreme
    values when it is learned is shifted and scaled by quantiles, which they do not move.

    Attributes
    ----------
    shift, scale : Tensor
        Of shape (d,) for tables and () for images, which have one scale for all pixels.
    """

    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, samples: Samples) -> Scaling:
        """The mean and standard deviation of samples that are encoded already."""
        # Images have one column: all pixels are alike.
        width = 1 if samples.schema.kind == "image" else samples.schema.shape[0]
        of_x = Moments.of(samples.x.cpu().reshape(-1, width).numpy())
        of_y = Moments.of(samples.y.cpu().reshape(-1, width).numpy())
        return cls.from_moments(of_x.merged(of_y), samples.schema)

    @classmethod
    def from_moments(
        cls, moments: Moments, schema: Schema, spread: Spread | None = None
    ) -> Scaling:
        """Mean and population standard deviation of each encoded column, or of all pixels.

        Indicators get shift 0 and scale 1, a constant column or image gets scale 1. Where `spread`
        tells of extreme values, median and range of quantiles take the place of the two.
        """
        means, deviations = moments.shift_and_scale()
        if spread is not None:
            means = np.where(spread.extreme, spread.median, means)
            deviations = np.where(spread.extreme, spread.scale, deviations)
        shift = torch.from_numpy(means)
        scale = torch.from_numpy(deviations)
        if schema.kind == "image":
            return cls(shift[0], scale[0])
        numeric = torch.tensor(schema.standardised)
        return cls(torch.where(numeric, shift, 0.0), torch.where(numeric, scale, 1.0))

    def apply(
        self,
        samples: Samples,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Samples:
        """Give (v - shift) / scale for every value v, and draw in what is extreme.

        Computed in float64 and only then cast.
        """
        x = self.apply_to(samples.x, dtype=dtype, device=device)
        y = self.apply_to(samples.y, dtype=dtype, device=device)
        return replace(samples, x=x, y=y)

    def apply_to(
        self,
        points: Tensor,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """As `apply`, for the points of one sample."""
        # Halves of large numbers, because the difference of two of them may exceed float64. Small
        # ones are not halved: they might lose a digit.
        half = torch.where(self.scale > 1, 0.5, 1.0).to(torch.float64)
        shift = self.shift * half
        scale = self.scale * half
        scaled = torch.empty(points.shape, dtype=dtype, device=device)
        start = 0
        for chunk in _chunks(points):
            values = (chunk * half - shift) / scale
            scaled[start : start + len(chunk)] = drawn_in(values).to(dtype)
            start += len(chunk)
        return scaled

    def undo(self, points: Tensor) -> Tensor:
        """Give scaled points, or one of them, in the user's units again: in float64, on the CPU."""
        scaled = points.detach().to("cpu", torch.float64)
        return let_out(scaled) * self.scale + self.shift

    def units(self, points: Tensor) -> Tensor:
        """How long a small scaled step is in the user's units, at each value of scaled points."""
        scaled = points.detach().to("cpu", torch.float64)
        return stretch(scaled) * self.scale


def _chunks(points: Tensor) -> Iterator[Tensor]:
    """Some rows at a time, in float64 on the CPU: not every device has float64."""
    rows = max(1, _CHUNK // max(1, points[:1].numel()))
    for start in range(0, len(points), rows):
        yield points[start : start + rows].to("cpu", torch.float64)


def split(
    samples: Samples, train_fraction: float, generator: torch.Generator
) -> tuple[Samples, Samples]:
    """Split each sample at random, on its own; units stay whole.

    Parameters
    ----------
    samples : Samples
    train_fraction : float
        Share of each sample, between 0 and 1, that goes to the first part. Either part gets at
        least two rows.
    generator : torch.Generator
        On the CPU, so that every device gives the same split.

    Returns
    -------
    train, held_out : Samples
    """
    of_x, of_y = split_rows(samples.sizes, train_fraction, generator, units=samples.units)
    return samples.take(of_x[0], of_y[0]), samples.take(of_x[1], of_y[1])


def split_rows(
    sizes: tuple[int, int],
    train_fraction: float,
    generator: torch.Generator,
    *,
    most: int | None = None,
    units: Units | None = None,
    names: tuple[str, str] = ("X", "Y"),
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """For each sample the rows to train on, at most `most`, and all others, in random order.

    With `units` whole ones go to either side.
    """
    if not 0 < train_fraction < 1:
        raise InputError(
            f"train_fraction={train_fraction} must lie between 0 and 1, without the ends; try 0.5."
        )
    for name, size in zip(names, sizes, strict=True):
        if size < 2 * _LEAST:
            raise InputError(
                f"{name} has {count(size, 'row')}; with train_fraction={train_fraction} "
                f"the test needs at least {2 * _LEAST} in each sample."
            )
    if units is not None:
        return units.split(train_fraction, generator, most)

    def cut(size: int) -> tuple[Tensor, Tensor]:
        order = torch.randperm(size, generator=generator)
        wanted = round(size * train_fraction)
        if most is not None:
            wanted = min(wanted, most)
        trained = min(max(wanted, _LEAST), size - _LEAST)
        return order[:trained], order[trained:]

    return cut(sizes[0]), cut(sizes[1])
