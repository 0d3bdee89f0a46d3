"""What a view is, and what it is given: points as all views share them, and their columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from .._data.schema import Schema
from ..errors import InputError
from .places import as_places
from .scores import NormalScores

Family: TypeAlias = Literal["joint", "column", "pair", "triple", "pixels", "patches", "own"]

ColumnSets: TypeAlias = list[tuple[int, ...]]
"""The columns of the table that each view of a stack looks at."""

FEW = (0.1, 0.01)
"""Regularisation for views of few features."""


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
            rows = self.rows[part]
            scores = self.scores[part]
            yield Seen(rows, scores)


@dataclass(frozen=True, eq=False)
class Pooled(Seen):
    """The points that views are fitted on, without labels."""

    different: Tensor  # (K, ...) rows of which no two are equal, for landmarks


class Atom(NamedTuple):
    """One encoded column, and the column of the table that it belongs to."""

    column: int
    is_level: bool  # of a category


@dataclass(frozen=True, eq=False)
class Layout:
    """What the encoded columns are: one for a number, several for a category.

    Attributes
    ----------
    schema
        The columns of the table, or the shape of the images; None before there are any points.
    scores
        The normal scores of the encoded columns, fitted on the pooled points.
    """

    schema: Schema | None
    scores: NormalScores

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
            # The last encoded column of a column with gaps says where they are.
            gap = int(column.missing)
            values = len(column.features) - gap
            is_level = column.kind == "category"
            atoms += [Atom(place, is_level)] * values
            atoms += [Atom(place, False)] * gap
        return atoms

    def owners(self) -> Tensor:
        """(atoms,) the column of the table that each encoded column belongs to."""
        return as_places([atom.column for atom in self.atoms])

    def members(self) -> list[list[int]]:
        """The encoded columns of each column of the table."""
        columns: dict[int, list[int]] = {}
        for place, atom in enumerate(self.atoms):
            members = columns.setdefault(atom.column, [])
            members.append(place)
        return list(columns.values())

    def categories(self) -> dict[int, list[int]]:
        """The encoded columns of each category."""
        columns: dict[int, list[int]] = {}
        for place, atom in enumerate(self.atoms):
            if atom.is_level:
                members = columns.setdefault(atom.column, [])
                members.append(place)
        return columns

    def levels(self) -> list[int]:
        """The encoded columns that say whether a category has some level."""
        return [place for place, atom in enumerate(self.atoms) if atom.is_level]

    def singles(self) -> list[int]:
        """The encoded columns that are no levels: numbers, booleans, and where values miss."""
        return [place for place, atom in enumerate(self.atoms) if not atom.is_level]

    def numbers(self) -> list[int]:
        """The encoded columns that hold more than two values, so that there is a shape to see."""
        return [place for place in self.singles() if self._count_values(place) > 2]

    def flags(self) -> list[int]:
        """The booleans, other columns of two values, and where values miss."""
        return [place for place in self.singles() if self._count_values(place) == 2]

    def _count_values(self, place: int) -> int:
        """How many values an encoded column has among the pooled points, up to those of knots."""
        return len(torch.unique(self.scores.knots[place]))


class View(nn.Module):
    """A stack of views, each a map from points to the same number of features.

    What `fit` learns is kept in buffers, which `__init__` registers: empty ones, if their sizes are
    not known by then. `twosample.testing.check_view` checks a view of your own.

    Attributes
    ----------
    family
        What its views look at.
    weight
        Its share of the level, relative to those of the other stacks. Stacks of the same `kind`
        share one weight, the largest of theirs.
    kind
        What it is called in a result.
    regularisation
        Which lambdas `Spectral` takes for it; None for those of the statistic.
    kernel_view
        Which of its views is a kernel at its usual width, whose MMD is told; None if none is.
    """

    family: Family = "own"
    kind: str = "own"
    weight: float = 0.3
    regularisation: tuple[float, ...] | None = FEW
    kernel_view: int | None = None

    @abstractmethod
    def fit(self, pooled: Pooled, layout: Layout) -> None:
        """Learn from pooled points, without labels; `layout` knows their columns."""

    @abstractmethod
    def features(self, seen: Seen) -> Tensor:
        """(N, views, features) in float64."""

    @abstractmethod
    def columns(self) -> ColumnSets:
        """The columns of the table that each view looks at; none for all of them."""

    @property
    def are_counts(self) -> bool:
        """Whether features are 0 or 1, so that their sums are counts of rows."""
        return False

    def metric(self) -> Tensor | None:
        """(views, features, features) lower factors L of what features are measured by, if any.

        Features f then count as L^-1 f.
        """
        return None

    def are_blind(self, means: Tensor, points: int) -> Tensor:
        """(views,) whether a view tells nothing of so many points, by (views, features) means.

        A blind view costs power: what it gives by chance follows no law.
        """
        return torch.zeros(len(means), dtype=torch.bool)

    def size(self) -> int:
        """How many features a point has in all views, where a file could ask for any number."""
        return 0

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *options: Any) -> None:
        # Buffers have the sizes that a fit gave them, which a view that is not fitted cannot know.
        for name, buffer in self.named_buffers(recurse=False):
            saved = state_dict.get(prefix + name)
            if saved is not None and saved.shape != buffer.shape:
                setattr(self, name, torch.empty_like(saved))
        super()._load_from_state_dict(state_dict, prefix, *options)
