"""Views: what the statistic `Spectral` sees points through.

A view is a map from points to a few features. It is fitted on the pooled points without labels, so
no shuffle changes it. Views of one kind come as a stack, which computes all of them at once: one
view for each column, for each pair of columns, or for each width of a kernel.

joint     all columns together: landmarks of kernels, and the columns as they are
column    each column alone: its values, its shape, its levels
pair      each two columns: how they go together
triple    each three columns: products only
pixels    images: all pixels together, and each pixel alone
patches   images: small filters, taken from the images themselves
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from ._checks import check_whole
from ._data.embedding import row_keys
from ._data.schema import Schema
from .errors import IncompatibleParts, InputError

Family: TypeAlias = Literal["joint", "column", "pair", "triple", "pixels", "patches", "own"]

FEW = (0.1, 0.01)
"""Regularisation for views of few features."""

_LANDMARKS = 256
_FACTORS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)  # of the median distance; each half the one before
_RIDGE = 1e-5  # added to the kernel matrix of the landmarks, whose diagonal is 1
_MEDIAN_ROWS = 1000  # rows from whose distances a median is taken
_KNOTS = 512  # of a quantile function: more would not be seen
_REACH = 2.2  # bumps lie between minus and plus this normal score
_MOST_LEVELS = 64  # of a category in a view of its own; rarer ones share a place
_MOST_LINEAR = 512  # columns seen together as they are; more are projected
_PAIRS = 500
_TRIPLES = 1500
_PATCHES = 64
_PATCH = 5  # pixels a side
_PATCH_IMAGES = 500  # images that filters are cut from
_MOST_FEATURES = 2**22  # that a file may ask for
_MOST_CHECKED = 1024  # features whose metric is tried when it is read
_FIT_ROWS = 20_000  # rows that views are fitted on: quantiles of more hardly differ
_SCORED = 2**19  # values whose scores are looked up at a time
_ODD = 0x9E3779B97F4A7C15 - 2**64  # of the golden ratio: multiples of it look random


class Atom(NamedTuple):
    """One encoded column, and the column of the table that it belongs to."""

    column: int
    is_level: bool  # of a category


@dataclass(frozen=True, eq=False)
class Seen:
    """Some points as all views share them."""

    rows: Tensor  # (N, ...) scaled, in float64
    scores: Tensor  # (N, atoms) normal scores, standardised; empty for images

    def __len__(self) -> int:
        return len(self.rows)

    def parts(self, size: int) -> Iterator[Seen]:
        """The same points, so many at a time."""
        for first in range(0, len(self), size):
            part = slice(first, first + size)
            yield Seen(self.rows[part], self.scores[part])


@dataclass(frozen=True, eq=False)
class Pooled(Seen):
    """The points that views are fitted on, without labels."""

    different: Tensor  # (K, ...) rows of which no two are equal, for landmarks


class View(nn.Module):
    """A stack of views, each a map from points to the same number of features.

    Attributes
    ----------
    family
        What its views look at.
    weight
        Its share of the level, relative to those of the other stacks. Stacks of the same `kind`
        share one weight.
    kind
        What it is called in a result.
    regularisation
        Which lambdas `Spectral` takes for it; None for those of the statistic.
    """

    family: Family = "own"
    kind: str = "own"
    weight: float = 0.3
    regularisation: tuple[float, ...] | None = FEW

    @abstractmethod
    def fit(self, pooled: Pooled, views: Views) -> None:
        """Learn from pooled points, without labels; `views` knows their columns."""

    @abstractmethod
    def features(self, seen: Seen) -> Tensor:
        """(N, views, features) in float64."""

    @abstractmethod
    def columns(self) -> list[tuple[int, ...]]:
        """The columns of the table that each view looks at; none for all of them."""

    def metric(self) -> Tensor | None:
        """(views, features, features) lower factors L of what features are measured by, if any.

        Features f then count as L^-1 f.
        """
        return None

    def size(self) -> int:
        """How many features a point has in all views, as far as that has no bound of its own."""
        return 0


class Landmarks(View):
    """Kernel values with some of the pooled points, at several widths: all columns together.

    With the kernel matrix of the landmarks as their metric these are the features of Nystroem: the
    kernel, projected onto what the landmarks span.

    Parameters
    ----------
    kernel
        "gaussian", exp(-|x - y|^2 / (2 sigma^2)), or "laplace", exp(-|x - y| / sigma), with the sum
        of absolute differences for tables.
    count
        How many landmarks there are at most.
    """

    kind = "landmarks"
    weight = 0.25
    regularisation = None

    def __init__(
        self, kernel: Literal["gaussian", "laplace"] = "gaussian", count: int = _LANDMARKS
    ) -> None:
        super().__init__()
        check_whole("count", count, 2)
        self.kernel = kernel
        self.count = count
        self.family: Family = "joint"
        self.register_buffer("places", torch.empty(0, 0))
        self.register_buffer("width", torch.tensor(1.0))
        self.places: Tensor  # (L, d)
        self.width: Tensor  # () the widest of the bandwidths

    def extra_repr(self) -> str:
        return f"{self.kernel!r}, count={self.count}"

    def fit(self, pooled: Pooled, views: Views) -> None:
        self.family = "pixels" if views.is_image else "joint"
        rows = pooled.different.flatten(1)
        self.places = rows[: self.count].clone()
        some = rows[:_MEDIAN_ROWS]
        distances = self._distances(some, some)
        positive = distances[distances > 0]
        median = float(positive.median()) if len(positive) else 1.0
        self.width = torch.tensor(_FACTORS[0] * median, dtype=torch.float64)

    def features(self, seen: Seen) -> Tensor:
        return self._values(seen.rows.flatten(1))

    def columns(self) -> list[tuple[int, ...]]:
        return [()] * len(_FACTORS)

    def metric(self) -> Tensor | None:
        K = self._values(self.places).transpose(0, 1)  # (views, L, L)
        ridge = _RIDGE * torch.eye(K.shape[1], dtype=K.dtype)
        symmetric = (K + K.mT) / 2
        factors: Tensor = torch.linalg.cholesky(symmetric + ridge)
        return factors

    def _distances(self, a: Tensor, b: Tensor) -> Tensor:
        # Sums of absolute differences have no matrix product: over many pixels they are slow, and
        # the Euclidean distance serves as well.
        by_columns = self.kernel == "laplace" and self.family != "pixels"
        return torch.cdist(a, b, p=1.0 if by_columns else 2.0)

    def _values(self, rows: Tensor) -> Tensor:
        """(N, widths, L) kernel values."""
        scaled = self._distances(rows, self.places) / self.width
        if self.kernel == "gaussian":
            widest = torch.exp(-0.5 * scaled.square())
            squarings = 2  # half the width is four times the exponent
        else:
            widest = torch.exp(-scaled)
            squarings = 1
        values = [widest]
        for _ in _FACTORS[1:]:
            # A narrower kernel is a power of the one before, which is cheaper than an exponential.
            narrower = values[-1]
            for _ in range(squarings):
                narrower = narrower.square()
            values.append(narrower)
        return torch.stack(values, 1)


class Together(View):
    """All columns together as they are: their normal scores, their ranks, or squares of scores.

    More columns than 512 are projected at random onto so many.
    """

    family = "joint"
    kind = "together"
    weight = 0.2
    regularisation = (math.inf, 0.1, 1e-3)

    def __init__(self, of: Literal["scores", "ranks", "squares"] = "scores") -> None:
        super().__init__()
        self.of = of
        self.register_buffer("projection", torch.empty(0, 0))
        self.projection: Tensor

    def extra_repr(self) -> str:
        return repr(self.of)

    def fit(self, pooled: Pooled, views: Views) -> None:
        atoms = pooled.scores.shape[1]
        if atoms > _MOST_LINEAR:
            fixed = torch.Generator().manual_seed(0)  # any projection does, but always the same
            shape = (atoms, _MOST_LINEAR)
            self.projection = torch.randn(shape, generator=fixed, dtype=torch.float64)

    def features(self, seen: Seen) -> Tensor:
        features = seen.scores
        if self.of == "ranks":
            features = ranks(features)
        elif self.of == "squares":
            features = features.square()
        if self.projection.numel():
            features = features @ self.projection
        return features[:, None]

    def columns(self) -> list[tuple[int, ...]]:
        return [()]


class Values(View):
    """One feature a view: the score of a column, its rank, its square, an indicator of a level.

    Parameters
    ----------
    of
        "columns" that are numbers, booleans, or say where values are missing; or "levels" of
        categories.
    """

    family = "column"
    regularisation = (math.inf,)

    def __init__(self, of: Literal["columns", "levels"] = "columns") -> None:
        super().__init__()
        self.of = of
        # Levels are many, and would take from the share of the columns.
        self.kind = "values" if of == "columns" else "shapes"
        self.weight = 0.22 if of == "columns" else 0.13
        self.register_buffer("atoms", _whole_numbers(0))
        self.register_buffer("numbers", _whole_numbers(0))
        self.register_buffer("owners", _whole_numbers(0))
        self.atoms: Tensor  # encoded columns that are seen as they are
        self.numbers: Tensor  # encoded columns of more than two values, which have a square
        self.owners: Tensor  # the column that each view looks at

    def extra_repr(self) -> str:
        return repr(self.of)

    def fit(self, pooled: Pooled, views: Views) -> None:
        wants_levels = self.of == "levels"
        self.atoms = _as_places(
            [place for place, atom in enumerate(views.atoms) if atom.is_level == wants_levels]
        )
        self.numbers = _as_places([] if wants_levels else views.numbers())
        owner = views.owners()
        of_numbers = owner[self.numbers]
        self.owners = torch.cat([owner[self.atoms], of_numbers, of_numbers])

    def features(self, seen: Seen) -> Tensor:
        values = seen.scores[:, self.atoms]
        numbers = seen.scores[:, self.numbers]
        # Normal scores see the tails and ranks the middle, where values with heavy tails differ.
        features = torch.cat([values, ranks(numbers), numbers.square()], 1)
        return features[:, :, None]

    def columns(self) -> list[tuple[int, ...]]:
        return [(int(owner),) for owner in self.owners]


class Shapes(View):
    """Twenty bumps over the normal scores of a number: any difference in its distribution."""

    family = "column"
    kind = "shapes"
    weight = 0.13
    regularisation = (math.inf, *FEW)

    def __init__(self, bumps: int = 20, width: float = 0.4) -> None:
        super().__init__()
        check_whole("bumps", bumps, 2)
        self.bumps = bumps
        self.width = width
        self.register_buffer("numbers", _whole_numbers(0))
        self.register_buffer("owners", _whole_numbers(0))
        self.numbers: Tensor
        self.owners: Tensor

    def extra_repr(self) -> str:
        return f"bumps={self.bumps}, width={self.width:g}"

    def fit(self, pooled: Pooled, views: Views) -> None:
        self.numbers = _as_places(views.numbers())
        self.owners = views.owners()[self.numbers]

    def features(self, seen: Seen) -> Tensor:
        return bumps(seen.scores[:, self.numbers], self.bumps, self.width)

    def size(self) -> int:
        return len(self.numbers) * self.bumps

    def columns(self) -> list[tuple[int, ...]]:
        return [(int(owner),) for owner in self.owners]


class Levels(View):
    """The indicators of a category together: their shares, as in a chi-squared test."""

    family = "column"
    kind = "shapes"
    weight = 0.13

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", _whole_numbers(0, 0))
        self.register_buffer("owners", _whole_numbers(0))
        self.places: Tensor  # (categories, levels) encoded columns; -1 where there is none
        self.owners: Tensor

    def fit(self, pooled: Pooled, views: Views) -> None:
        members = views.categories()
        kept = [_frequent(levels, pooled, _MOST_LEVELS) for levels in members.values()]
        width = max((len(levels) for levels in kept), default=0)
        self.places = torch.full((len(kept), width), -1)
        for row, levels in enumerate(kept):
            self.places[row, : len(levels)] = _as_places(levels)
        self.owners = _as_places(list(members))

    def features(self, seen: Seen) -> Tensor:
        return _taken(seen.rows, self.places)

    def columns(self) -> list[tuple[int, ...]]:
        return [(int(owner),) for owner in self.owners]


class Products(View):
    """One feature a view: the product of the scores of two columns, or of three.

    Parameters
    ----------
    order
        How many columns are multiplied.
    most
        At most so many products. Of more, half are those whose columns depend most on each other in
        the pooled points, and the others are drawn at random; of three columns all are drawn.
    """

    regularisation = (math.inf,)

    def __init__(self, order: Literal[2, 3] = 2, most: int | None = None) -> None:
        super().__init__()
        self.order = order
        self.most = most if most is not None else (_PAIRS if order == 2 else _TRIPLES)
        self.family: Family = "pair" if order == 2 else "triple"
        self.kind = "products" if order == 2 else "products of three"
        # Of three columns a difference is either plain to see or not there.
        self.weight = 0.07 if order == 2 else 0.03
        self.register_buffer("factors", _whole_numbers(0, order))
        self.register_buffer("owners", _whole_numbers(0, order))
        self.factors: Tensor  # (views, order) encoded columns
        self.owners: Tensor  # (views, order) columns of the table

    def extra_repr(self) -> str:
        return f"order={self.order}, most={self.most}"

    def fit(self, pooled: Pooled, views: Views) -> None:
        # Levels of a category are multiplied by `Cells`, all of them at once.
        single = [place for place, atom in enumerate(views.atoms) if not atom.is_level]
        strength = None if self.order == 3 else correlations(pooled.scores[:, single])
        chosen = combinations(len(single), self.order, self.most, strength)
        self.factors = _as_places(single)[chosen]
        self.owners = views.owners()[self.factors]

    def features(self, seen: Seen) -> Tensor:
        scores = seen.scores
        if self.order == 3:
            # Products of three normal scores have tails that no sample of usual size fills.
            scores = ranks(scores)
        product = scores[:, self.factors[:, 0]]
        for place in range(1, self.order):
            product = product * scores[:, self.factors[:, place]]
        return product[:, :, None]

    def columns(self) -> list[tuple[int, ...]]:
        return [tuple(sorted(set(owners))) for owners in self.owners.tolist()]


class Cells(View):
    """Two columns together: each bump or level of one times each of the other.

    Parameters
    ----------
    most
        At most so many pairs, chosen as in `Products`.
    """

    family = "pair"
    kind = "cells"
    weight = 0.1

    def __init__(self, most: int = _PAIRS, bumps: int = 6, width: float = 0.6) -> None:
        super().__init__()
        check_whole("bumps", bumps, 2)
        self.most = most
        self.bumps = bumps
        self.width = width
        self.register_buffer("numbers", _whole_numbers(0, 2))
        self.register_buffer("places", _whole_numbers(0, 0))
        self.register_buffer("pairs", _whole_numbers(0, 2))
        self.numbers: Tensor  # (numbers, 2) columns that are numbers, and their encoded columns
        self.places: Tensor  # (columns, slots) encoded columns that are indicators; -1 for none
        self.pairs: Tensor  # (views, 2) columns

    def extra_repr(self) -> str:
        return f"most={self.most}, bumps={self.bumps}, width={self.width:g}"

    def fit(self, pooled: Pooled, views: Views) -> None:
        members = views.members()
        # A number has bumps, and one slot more says where it is missing.
        slots = self.bumps + 1
        self.places = torch.full((len(members), slots), -1)
        numbers = set(views.numbers())
        with_bumps = []
        leading = []
        for column, atoms in enumerate(members):
            has_bumps = atoms[0] in numbers
            if has_bumps:
                with_bumps.append((column, atoms[0]))
                first = self.bumps
                kept = atoms[1:]
            else:
                first = 0
                kept = _frequent(atoms, pooled, slots)
            self.places[column, first : first + len(kept)] = _as_places(kept)
            leading.append(atoms[0] if has_bumps else kept[0])
        self.numbers = _as_places(with_bumps).reshape(-1, 2)
        strength = correlations(pooled.scores[:, leading])
        self.pairs = combinations(len(members), 2, self.most, strength)

    def features(self, seen: Seen) -> Tensor:
        basis = _taken(seen.rows.flatten(1), self.places)  # (N, columns, slots)
        columns = self.numbers[:, 0]
        atoms = self.numbers[:, 1]
        basis[:, columns, : self.bumps] = bumps(seen.scores[:, atoms], self.bumps, self.width)
        basis = basis[:, :, : self._slots()]
        left = basis[:, self.pairs[:, 0], :, None]
        right = basis[:, self.pairs[:, 1], None, :]
        return (left * right).flatten(2)

    def size(self) -> int:
        return len(self.pairs) * max(self.bumps, self.places.shape[1]) ** 2

    def _slots(self) -> int:
        """How many slots some column uses: others would make every view wider."""
        used = (self.places >= 0).any(0)
        if len(self.numbers):
            used[: self.bumps] = True
        return int(used.sum())

    def columns(self) -> list[tuple[int, ...]]:
        return [tuple(pair) for pair in self.pairs.tolist()]


class Pixels(View):
    """One feature a view: the value of a pixel, or its square."""

    family = "pixels"
    kind = "pixels"
    weight = 0.15
    regularisation = (math.inf,)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("means", torch.empty(0))
        self.means: Tensor

    def fit(self, pooled: Pooled, views: Views) -> None:
        self.means = pooled.rows.flatten(1).mean(0)

    def features(self, seen: Seen) -> Tensor:
        centred = seen.rows.flatten(1) - self.means
        return torch.cat([centred, centred.square()], 1)[:, :, None]

    def columns(self) -> list[tuple[int, ...]]:
        return [()] * (2 * len(self.means))


class Patches(View):
    """Small filters over images: patches of the pooled images themselves, made white.

    What a filter gives is cut at 0 from above and from below, and averaged over each quarter of the
    image.

    Parameters
    ----------
    count, side
        How many filters there are, and of how many pixels a side.
    """

    family = "patches"
    kind = "patches"
    weight = 0.35
    regularisation = None

    def __init__(self, count: int = _PATCHES, side: int = _PATCH) -> None:
        super().__init__()
        check_whole("count", count, 1)
        check_whole("side", side, 1)
        self.count = count
        self.side = side
        self.register_buffer("filters", torch.empty(0))
        self.filters: Tensor  # (count, C, side, side)

    def extra_repr(self) -> str:
        return f"count={self.count}, side={self.side}"

    def fit(self, pooled: Pooled, views: Views) -> None:
        images = pooled.rows[:_PATCH_IMAGES]
        side = min(self.side, *images.shape[2:])
        cut = nn.functional.unfold(images, side)  # (N, C side side, places)
        patches = cut.transpose(1, 2).flatten(0, 1)
        patches = patches - patches.mean(1, keepdim=True)  # neither light nor dark
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        # Weak directions are noise; made as strong as the others, they would be all one sees.
        white = vectors / (values.clamp_min(0) + 0.01 * values[-1] + 1e-12).sqrt()
        fixed = torch.Generator().manual_seed(0)
        chosen = torch.randperm(len(patches), generator=fixed)[: self.count]
        filters = patches[chosen] @ white @ white.T
        filters = filters - filters.mean(1, keepdim=True)
        lengths = (patches @ filters.T).square().mean(0).sqrt().clamp_min(1e-12)
        scaled = filters / lengths[:, None]
        self.filters = scaled.reshape(len(chosen), images.shape[1], side, side)

    def features(self, seen: Seen) -> Tensor:
        # In float32: it is four times as fast, and its rounding does not depend on the batch.
        images = seen.rows.float()
        answers = nn.functional.conv2d(images, self.filters.float())
        above = nn.functional.adaptive_avg_pool2d((answers - 1).clamp_min(0), 2)
        below = nn.functional.adaptive_avg_pool2d((-answers - 1).clamp_min(0), 2)
        return torch.cat([above, below], 1).flatten(1).double()[:, None]

    def columns(self) -> list[tuple[int, ...]]:
        return [()]


class Features(View):
    """The features of a network, an embedding, or a transformer of scikit-learn: whatever you have.

    It must not have seen which points are of X and which of Y.

    Parameters
    ----------
    featurizer
        A module from scaled points to vectors, or a transformer of scikit-learn, which is fitted
        on the pooled points without labels unless it is fitted already.
    """

    regularisation = None

    def __init__(self, featurizer: Any) -> None:
        super().__init__()
        self.featurizer = featurizer

    def fit(self, pooled: Pooled, views: Views) -> None:
        if isinstance(self.featurizer, nn.Module):
            self.featurizer.eval().requires_grad_(False)
            return
        if not hasattr(self.featurizer, "transform"):
            raise IncompatibleParts(
                f"{self.featurizer!r} is neither a torch module nor a transformer of scikit-learn."
            )
        if not _is_fitted(self.featurizer):
            self.featurizer.fit(pooled.rows.flatten(1).numpy())

    def features(self, seen: Seen) -> Tensor:
        if isinstance(self.featurizer, nn.Module):
            with torch.no_grad():
                features = self.featurizer(seen.rows.float()).flatten(1)
        else:
            transformed = self.featurizer.transform(seen.rows.flatten(1).numpy())
            dense = transformed.toarray() if hasattr(transformed, "toarray") else transformed
            features = torch.from_numpy(np.asarray(dense, dtype=np.float64)).flatten(1)
        numbers: Tensor = features.double()
        return numbers[:, None]

    def columns(self) -> list[tuple[int, ...]]:
        return [()]


class NormalScores(nn.Module):
    """Columns as normal scores: the quantile of a value, read from the normal law.

    Equal values get one score, that of their middle rank. Between the values of the fit the score
    is interpolated. Scores are standardised.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("knots", torch.empty(0, 0))
        self.register_buffer("heights", torch.empty(0, 0))
        self.knots: Tensor  # (columns, K) increasing
        self.heights: Tensor  # (columns, K)

    def fit(self, rows: Tensor) -> None:
        """Learn the quantiles of the columns of (N, columns) rows."""
        width = rows.shape[1]
        self.knots = torch.zeros(width, _KNOTS, dtype=torch.float64)
        self.heights = torch.zeros(width, _KNOTS, dtype=torch.float64)
        for column in range(width):
            values, counts = torch.unique(rows[:, column], return_counts=True)
            middle = torch.cumsum(counts, 0) - counts / 2  # ranks, from 0 to N
            scores = torch.special.ndtri(middle.double() / len(rows))
            mean = (scores * counts).sum() / len(rows)
            spread = ((scores - mean).square() * counts).sum() / len(rows)
            scores = (scores - mean) / spread.sqrt().clamp_min(1e-12)
            # So many of the values as there are knots; the last is repeated where they are fewer.
            at = torch.linspace(0, len(values) - 1, min(_KNOTS, len(values))).round().long()
            self.knots[column] = values[-1]
            self.heights[column] = scores[-1]
            self.knots[column, : len(at)] = values[at]
            self.heights[column, : len(at)] = scores[at]

    def forward(self, rows: Tensor) -> Tensor:
        """(N, columns) scores."""
        # Some rows at a time: what is made on the way takes a multiple of their memory.
        size = max(1, _SCORED // max(1, rows.shape[1]))
        parts = [self._scores(part) for part in torch.split(rows, size)]
        return torch.cat(parts)

    def _scores(self, rows: Tensor) -> Tensor:
        values = rows.T.contiguous()  # (columns, N)
        above = torch.searchsorted(self.knots, values).clamp(1, _KNOTS - 1)
        low = self.knots.gather(1, above - 1)
        high = self.knots.gather(1, above)
        from_height = self.heights.gather(1, above - 1)
        to_height = self.heights.gather(1, above)
        share = ((values - low) / (high - low)).nan_to_num(1.0).clamp(0.0, 1.0)
        scores = from_height + share * (to_height - from_height)
        return scores.T


class Views(nn.Module):
    """Everything `Spectral` sees points through: stacks of views, fitted without labels.

    Parameters
    ----------
    stacks
        None for those that suit the points: for tables landmarks, columns, pairs and triples of
        them; for images landmarks, pixels and patches. Views of your own, such as
        `Features(embedding)`, stand beside those or in their place.
    """

    def __init__(self, *stacks: View | None) -> None:
        super().__init__()
        given: Sequence[View | None] = stacks or (None,)
        self.usual = any(stack is None for stack in given)
        self.stacks = nn.ModuleList(stack for stack in given if stack is not None)
        self.scores = NormalScores()
        self.schema: Schema | None = None

    def __repr__(self) -> str:
        stacks = [repr(stack) for stack in self]
        if self.usual and stacks:
            stacks.insert(0, "None")
        return f"Views({', '.join(stacks)})"

    def look_at(self, schema: Schema) -> None:
        """Learn which encoded columns are one column of the table."""
        self.schema = schema

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Fit all views on pooled points, whose labels are not known here."""
        if self.usual:
            self.usual = False
            usual = _for_images() if self.is_image else _for_tables(len(self.members()))
            self.stacks = nn.ModuleList([*usual, *self.stacks])
        # Nothing is drawn: another seed changes the shuffles and nothing else.
        chosen = _by_content(points.cpu())
        if not self.is_image:
            self.scores.fit(chosen.some.double())
        seen = self.see(chosen.some)
        different = self.see(chosen.different).rows
        pooled = Pooled(seen.rows, seen.scores, different)
        for stack in self:
            stack.fit(pooled, self)

    def see(self, points: Tensor) -> Seen:
        """What the stacks share of some points."""
        rows = points.double().cpu()
        if self.is_image:
            rows = rows.reshape(len(rows), *cast(Schema, self.schema).shape)
            return Seen(rows, torch.empty(len(rows), 0, dtype=torch.float64))
        return Seen(rows, self.scores(rows))

    def forward(self, points: Tensor) -> Tensor:
        """The points as they are: features are made where they are summed."""
        return points

    def __iter__(self) -> Iterator[View]:
        return iter(cast(Iterable[View], self.stacks))

    def count(self) -> int:
        """How many views there are."""
        return sum(len(stack.columns()) for stack in self)

    def check(self) -> None:
        """Raise `InputError` where what was read from a file could not be looked through."""
        if self.schema is None:
            raise InputError("these views have seen no points.")
        width = len(self.schema.columns)
        # Sizes first: no number in a file decides how much memory is taken.
        size = sum(stack.size() for stack in self)
        if size > _MOST_FEATURES:
            raise InputError(f"{size} features of a point are more than memory holds.")
        seen = self.see(torch.zeros(2, *self.schema.shape))
        for stack in self:
            features = stack.features(seen)
            columns = stack.columns()
            named = itertools.chain.from_iterable(columns)
            of_table = all(0 <= column < width for column in named)
            fits = features.ndim == 3 and features.shape[1] == len(columns) and of_table
            if not fits or not bool(torch.isfinite(features).all()):
                raise InputError(f"{stack.kind!r} is not a view of these columns.")
            if features.shape[2] <= _MOST_CHECKED:
                stack.metric()

    @property
    def is_image(self) -> bool:
        """Whether points are images."""
        return self.schema is not None and self.schema.kind == "image"

    @property
    def atoms(self) -> list[Atom]:
        """What each encoded column is."""
        if self.schema is None:
            raise InputError("these views have seen no table yet; fit the test first.")
        atoms = []
        for place, column in enumerate(self.schema.columns):
            gap = int(column.missing)
            indicators = len(column.features) - gap
            is_level = column.kind == "category"
            atoms.extend([Atom(place, is_level)] * indicators)
            atoms.extend([Atom(place, False)] * gap)
        return atoms

    def owners(self) -> Tensor:
        """(atoms,) the column of the table that each encoded column belongs to."""
        return _as_places([atom.column for atom in self.atoms])

    def members(self) -> list[list[int]]:
        """The encoded columns of each column of the table."""
        columns: dict[int, list[int]] = {}
        for place, atom in enumerate(self.atoms):
            columns.setdefault(atom.column, []).append(place)
        return list(columns.values())

    def categories(self) -> dict[int, list[int]]:
        """The encoded columns of each category."""
        columns: dict[int, list[int]] = {}
        for place, atom in enumerate(self.atoms):
            if atom.is_level:
                columns.setdefault(atom.column, []).append(place)
        return columns

    def numbers(self) -> list[int]:
        """The encoded columns that hold more than two values, so that there is a shape to see."""
        knots = self.scores.knots
        return [
            place
            for place, atom in enumerate(self.atoms)
            if not atom.is_level and len(torch.unique(knots[place])) > 2
        ]


def _for_tables(columns: int) -> list[View]:
    views: list[View] = [
        Landmarks("gaussian"),
        Landmarks("laplace"),
        Together("scores"),
        Together("ranks"),
        Together("squares"),
        Values("columns"),
        Values("levels"),
        Shapes(),
        Levels(),
    ]
    if columns > 1:
        views += [Products(2), Cells()]
    if columns > 2:
        views += [Products(3)]
    return views


def _for_images() -> list[View]:
    return [Landmarks("gaussian"), Landmarks("laplace"), Pixels(), Patches()]


class _Chosen(NamedTuple):
    some: Tensor  # points that stand for all
    different: Tensor  # points of which no two are equal


def _by_content(points: Tensor) -> _Chosen:
    """Some of the points, chosen and ordered by their values only.

    Neither labels nor the order of rows nor a seed have a say in which points become landmarks.
    """
    keys = row_keys(points.flatten(1))
    order = torch.argsort(keys, stable=True)
    in_order = keys[order]
    is_first = torch.ones(len(order), dtype=torch.bool)
    is_first[1:] = in_order[1:] != in_order[:-1]
    numbers = torch.arange(len(order))
    earlier = torch.where(is_first, numbers, 0).cummax(0).values
    times = numbers - earlier  # how often an equal point came before
    # Points that are equal get keys that differ, or some kinds of points would be chosen whole.
    mixed = (in_order + times * _ODD) * _ODD
    typical = order[mixed.argsort(stable=True)][:_FIT_ROWS]
    different = order[is_first][:_FIT_ROWS]
    return _Chosen(points[typical], points[different])


def ranks(scores: Tensor) -> Tensor:
    """Ranks that normal scores stand for, from -1/2 to 1/2."""
    shares: Tensor = torch.special.ndtr(scores)
    return shares - 0.5


def bumps(scores: Tensor, count: int, width: float) -> Tensor:
    """(N, columns, count) Gaussian bumps at places spread over the scores of each column."""
    places = torch.linspace(-_REACH, _REACH, count, dtype=scores.dtype)
    return torch.exp(-0.5 * ((scores[:, :, None] - places) / width).square())


def correlations(scores: Tensor) -> Tensor:
    """(columns, columns) absolute correlations of columns."""
    centred = scores - scores.mean(0)
    lengths = centred.norm(dim=0).clamp_min(1e-12)
    unit = centred / lengths
    absolute: Tensor = (unit.T @ unit).abs()
    return absolute


def combinations(columns: int, order: int, most: int, strength: Tensor | None) -> Tensor:
    """(K, order) sets of columns: all of them, or `most` of them.

    Of too many, half are those of the greatest `strength` and the others are drawn at random,
    always the same. Labels have no part in the choice.
    """
    total = math.comb(columns, order)
    if total <= most:
        every = list(itertools.combinations(range(columns), order))
        return _as_places(every).reshape(-1, order)
    fixed = np.random.default_rng(0)
    chosen: dict[tuple[int, ...], None] = {}
    if strength is not None:
        upper = torch.triu_indices(columns, columns, 1)
        strongest = strength[upper[0], upper[1]].argsort(descending=True, stable=True)[: most // 2]
        chosen.update(dict.fromkeys(map(tuple, upper[:, strongest].T.tolist())))
    while len(chosen) < most:
        drawn = sorted(int(column) for column in fixed.choice(columns, order, replace=False))
        chosen[tuple(drawn)] = None
    return _as_places(list(chosen))


def _frequent(levels: list[int], seen: Seen, most: int) -> list[int]:
    """The encoded columns of a category's most frequent levels, `most` of them at most."""
    shares = seen.rows[:, levels].mean(0)
    order = shares.argsort(descending=True, stable=True)
    return [levels[place] for place in order[:most].tolist()]


def _whole_numbers(*shape: int) -> Tensor:
    """A buffer of places, which `fit` fills."""
    return torch.empty(shape, dtype=torch.int64)


def _as_places(numbers: Sequence[Any]) -> Tensor:
    """Whole numbers as a tensor, also where there are none."""
    return torch.tensor(numbers, dtype=torch.int64)


def _taken(rows: Tensor, places: Tensor) -> Tensor:
    """(N, ...) the columns of rows at `places`; zeros where a place is -1."""
    values = rows[:, places.clamp_min(0)]
    return torch.where(places >= 0, values, torch.zeros((), dtype=rows.dtype))


def _is_fitted(transformer: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(transformer)
    except NotFittedError:
        return False
    return True
