"""All views of a test, as one representation: fitted together, checked, and counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from .._data.schema import Column, Schema
from ..errors import InputError
from .base import Layout, Pooled, Seen, View
from .choosing import Kind, by_content, for_images, for_tables, kind_of
from .scores import NormalScores

_MOST_FEATURES = 2**22  # that a file may ask for
_MOST_CHECKED = 1024  # features whose metric is tried when it is read


class Views(nn.Module):
    """Everything `Spectral` sees points through: stacks of views, fitted without labels.

    Parameters
    ----------
    stacks
        None for those that suit the points: for tables landmarks, columns, pairs and triples of
        them; for images landmarks, pixels, patches, textures and tones. Views of your own, such as
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
        listed = ", ".join(stacks)
        return f"Views({listed})"

    def __iter__(self) -> Iterator[View]:
        stacks = cast(Iterable[View], self.stacks)
        return iter(stacks)

    @property
    def layout(self) -> Layout:
        """What the encoded columns are."""
        return Layout(self.schema, self.scores)

    def look_at(self, schema: Schema) -> None:
        """Learn which encoded columns are one column of the table."""
        self.schema = schema

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Fit all views on pooled points, whose labels are not known here."""
        layout = self.layout
        if self.usual:
            self.usual = False
            self.stacks = nn.ModuleList([*_usual(layout), *self.stacks])
        # Nothing is drawn, so views do not depend on the seed.
        chosen = by_content(points.cpu())
        if not layout.is_image:
            self.scores.fit(chosen.typical.double())
        seen = self.see(chosen.typical)
        different = self.see(chosen.different)
        pooled = Pooled(seen.rows, seen.scores, different.rows)
        for stack in self:
            stack.fit(pooled, layout)

    def see(self, points: Tensor) -> Seen:
        """What the stacks share of some points."""
        rows = points.double().cpu()
        if self.schema is not None and self.layout.is_image:
            images = rows.reshape(len(rows), *self.schema.shape)
            no_scores = torch.empty(len(rows), 0, dtype=torch.float64)
            return Seen(images, no_scores)
        scores = self.scores(rows)
        return Seen(rows, scores)

    def kind_of(self, stack: View) -> Kind:
        """The kind of one of the stacks, with its share of the level."""
        columns: Sequence[Column] = ()
        if self.schema is not None and self.schema.kind != "image":
            columns = self.schema.columns
        categories = any(column.kind == "category" for column in columns)
        return kind_of(stack, len(columns), categories=categories)

    def forward(self, points: Tensor) -> Tensor:
        """The points as they are: features are made where they are summed."""
        return points

    def count(self) -> int:
        """How many views there are, those included that turn out to see nothing."""
        return sum(len(stack.columns()) for stack in self)

    def check(self) -> None:
        """Raise `InputError` where what was read from a file could not be looked through."""
        if self.schema is None:
            raise InputError("these views have seen no points.")
        # Sizes first: no number in a file decides how much memory is taken.
        size = sum(stack.size() for stack in self)
        if size > _MOST_FEATURES:
            raise InputError(f"{size} features of a point are more than memory holds.")
        points = torch.zeros(2, *self.schema.shape)  # of which only the shape matters
        seen = self.see(points)
        width = len(self.schema.columns)
        for stack in self:
            features = stack.features(seen)
            if not _are_features_of(stack, features, width):
                raise InputError(f"{stack.kind!r} is not a view of these columns.")
            if features.shape[2] <= _MOST_CHECKED:
                stack.metric()


def _usual(layout: Layout) -> list[View]:
    """The views that suit the points."""
    if layout.is_image:
        return for_images()
    categories = bool(layout.categories())
    return for_tables(len(layout.members()), categories=categories)


def _are_features_of(stack: View, features: Tensor, width: int) -> bool:
    """Whether features can be those of a stack of views of a table of so many columns."""
    columns = stack.columns()
    if features.ndim != 3 or features.shape[1] != len(columns):
        return False
    named = itertools.chain.from_iterable(columns)
    if not all(0 <= column < width for column in named):
        return False
    return bool(torch.isfinite(features).all())
