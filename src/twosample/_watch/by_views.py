"""Views of a batch, with sums of all batches before it: the closed-form witness."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from .._data.samples import EmbeddedSamples, Scaling
from .._data.schema import Schema
from .._random import Generators
from .._statistics import Spectral
from .._statistics.base import Bins
from .._statistics.sums import add_up
from .._two_sample import FittedTest, TwoSampleTest
from .._views import (
    Cells,
    Dependence,
    Landmarks,
    Levels,
    Marks,
    Products,
    Shapes,
    Together,
    Values,
    View,
    Views,
    Waves,
)
from .._views.choosing import for_images
from ..errors import IncompatibleParts, InputError
from .base import GROWTH, Bet, Witness, draw_labellings, recent_from
from .betting import Portfolio, log_evalues
from .door import Door
from .evidence import (
    MEMORIES,
    Past,
    past_of,
    past_of_batch,
    scores,
    weights_after,
    weights_of,
)
from .rows import Batch, Recent

_MOST_LANDMARKS = 144  # each costs time in every batch
_ROWS_OF_LANDMARK = 3  # rows that there must be for one of them
_FEWEST_LANDMARKS = 32
_LEADING = 0.01  # share of the evidence from which columns are named
_MEMORY = 2**28  # bytes for sums over bins
_SHARES = (0.9, 0.05, 0.05)  # of the wealth for each memory, at the start


@dataclass(frozen=True, eq=False)
class ViewsWitness(Witness):
    """All views of a batch, with sums of the past: `evidence` has the equations."""

    name: str
    start: Views | None = None
    views: Views | None = None
    past: tuple[Past, ...] | None = None
    weights: tuple[float, ...] = (0.0,) * len(MEMORIES)  # N of the past
    portfolio: Portfolio = Portfolio(_SHARES, _SHARES)
    fitted_on: int = 0  # rows
    seen: int = 0  # rows
    recent: Recent = Recent()

    def observe(
        self, batch: Batch, door: Door, generators: Generators, permutations: int
    ) -> tuple[Bet, Witness]:
        ready = self._fitted(batch, door)
        views = ready._views()
        sizes = batch.sizes
        most = Spectral().most_bins(views, _MEMORY)
        bins, in_x = draw_labellings(batch, permutations, generators, most)
        points = EmbeddedSamples((batch.pooled(),), sizes, door.schema)
        rank = torch.randperm(sum(sizes), generator=generators.torch("covariance"))
        sums = add_up(views, points, bins, rank)
        # Groups differ in size, so the sizes of X and Y depend on the labels. These do not.
        known = torch.tensor(ready.weights, dtype=torch.float64)
        weights = weights_after(known, bins.fixed_sizes)
        before = None
        if ready.past is not None:
            before = [each.faded() for each in ready.past]
        found = scores(list(views), sums, before, weights, bins, in_x)
        evalues = log_evalues(found.log_scores)  # (memories, B + 1)
        portfolio = ready.portfolio.after(evalues)
        of_batch = [past_of_batch(each, bins, in_x[0]) for each in sums]
        if before is not None:
            of_batch = [old.plus(new) for old, new in zip(before, of_batch, strict=True)]
        learned = replace(
            ready,
            past=tuple(of_batch),
            weights=tuple(weights.tolist()),
            portfolio=portfolio,
            seen=ready.seen + sum(sizes),
            recent=ready.recent.with_batch(batch, generators.torch("recent")),
        )
        shares = torch.tensor(portfolio.shares, dtype=torch.float64) @ found.shares
        leading = _leading(found.columns, shares)
        return Bet(ready.portfolio.log_evalues(evalues), leading), learned

    def _views(self) -> Views:
        if self.views is None:
            raise InputError("this watch has seen no batch yet.")
        return self.views

    def _fitted(self, batch: Batch, door: Door) -> ViewsWitness:
        """With views for this batch: fitted on the pooled rows, whose labels have no say.

        They are fitted again while rows are few, and when a column that was constant varies. The
        sums of the past are then those of the latest rows.
        """
        seen = self.seen + sum(batch.sizes)
        # Once batches are left out, fitting again would forget more than it could learn.
        is_young = seen >= GROWTH * self.fitted_on and self.seen == len(self.recent)
        if self.views is not None and not is_young and not _wakes(self.views, batch):
            return self
        rows = Recent((*self.recent.batches, batch)).pooled()
        views = self._new_views(door.schema, len(rows))
        views.look_at(door.schema)
        with torch.no_grad():
            views.start(rows, torch.Generator())
        past = None
        weights = self.weights
        if self.recent.batches:
            past = _past_of_recent(views, self.recent, door.schema)
            weights = tuple(weights_of(self.recent.sizes).tolist())
        return replace(self, views=views, past=past, weights=weights, fitted_on=len(rows))

    def _new_views(self, schema: Schema, rows: int) -> Views:
        if self.start is not None:
            return copy.deepcopy(self.start)
        if self.name == "columns":
            if schema.kind == "image":
                raise IncompatibleParts("images have no columns; use the witness 'spectral'.")
            singles = [Values("columns"), Values("levels"), Values("indicators")]
            return Views(*singles, Together("scores"))
        count = min(_MOST_LANDMARKS, rows // _ROWS_OF_LANDMARK)
        # One kernel: a second one that sees nearly the same would halve what each may bet.
        landmarks = Landmarks("gaussian", count=max(_FEWEST_LANDMARKS, count))
        if schema.kind == "image":
            usual = for_images()
        else:
            usual = _for_tables(len(schema.columns))
        # `Scatter` is a kind of landmarks, and goes with them.
        others = [stack for stack in usual if not isinstance(stack, Landmarks)]
        return Views(landmarks, *others)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor], FittedTest | None]:
        values = {
            "weights": list(self.weights),
            "shares": list(self.portfolio.shares),
            "fitted_on": self.fitted_on,
            "seen": self.seen,
        }
        counted: list[int] = []
        tensors = {f"recent.{name}": each for name, each in self.recent.tensors().items()}
        for number, past in enumerate(self.past or ()):
            counted.append(past.counted)
            tensors[f"past.{number}.between"] = past.between
            tensors[f"past.{number}.some"] = past.some
            tensors[f"past.{number}.products"] = past.products
        return {**values, "counted": counted}, tensors, _as_test(self.views)

    def restored(
        self, values: Mapping[str, Any], tensors: Mapping[str, Tensor], fitted: FittedTest | None
    ) -> Witness:
        past = None
        if fitted is not None:
            past = tuple(
                Past(
                    tensors[f"past.{number}.between"],
                    tensors[f"past.{number}.some"],
                    tensors[f"past.{number}.products"],
                    int(counted),
                )
                for number, counted in enumerate(values["counted"])
            )
        views = None if fitted is None else cast(Views, fitted.representation)
        return replace(
            self,
            views=views,
            past=past,
            weights=tuple(float(each) for each in values["weights"]),
            portfolio=Portfolio(_SHARES, tuple(float(each) for each in values["shares"])),
            fitted_on=int(values["fitted_on"]),
            seen=int(values["seen"]),
            recent=recent_from(tensors),
        )


def _as_test(views: Views | None) -> FittedTest | None:
    """Views in the form in which files hold what was fitted."""
    if views is None or views.schema is None:
        return None
    shape = views.schema.shape if views.schema.kind == "table" else ()
    nothing = torch.zeros(shape, dtype=torch.float64)
    scaling = Scaling(nothing, torch.ones_like(nothing))  # points come scaled already
    spec = TwoSampleTest(Views(), statistic=Spectral())
    return FittedTest(views, spec, views.schema, scaling, None, None)


def _past_of_recent(views: Views, recent: Recent, schema: Schema) -> tuple[Past, ...]:
    """The sums of the latest rows, as seen through other views."""
    of_bin = recent.of_bin()
    sizes = recent.sizes
    rows = len(of_bin)
    points = EmbeddedSamples((recent.pooled(),), (rows, 0), schema)
    # Bins that nothing shuffles; `Bins` counts two more, for rows that stay in place.
    bins = Bins(of_bin, torch.arange(0), 2 * len(sizes) - 2, 0, 1)
    sums = add_up(views, points, bins, torch.arange(rows))
    return tuple(past_of(each, sizes) for each in sums)


def _wakes(views: Views, batch: Batch) -> bool:
    """Whether an encoded column varies in this batch that was constant when views were fitted."""
    knots = views.scores.knots
    if not knots.numel():  # images
        return False
    was = knots[:, 0]
    is_constant = (knots == was[:, None]).all(1)
    rows = batch.pooled()
    return bool((rows[:, is_constant] != was[is_constant]).any())


def _leading(
    columns: Sequence[tuple[int, ...]], shares: Tensor
) -> tuple[tuple[tuple[int, ...], float], ...]:
    """The columns that most of the evidence comes from, the loudest first."""
    by_columns: dict[tuple[int, ...], float] = {}
    for looked_at, share in zip(columns, shares.tolist(), strict=True):
        by_columns[looked_at] = by_columns.get(looked_at, 0.0) + share
    loud = [each for each in by_columns.items() if each[1] >= _LEADING]
    loud.sort(key=lambda each: -each[1])
    return tuple(loud[:10])


def _for_tables(columns: int) -> list[View]:
    """The views that are bet on beside landmarks, fewer than those of a test: all have to pay."""
    views: list[View] = [
        Together("scores"),
        Together("ranks"),
        Together("squares"),
        Values("columns"),
        Values("levels"),
        Shapes(),
        Levels(),
        Marks(),
    ]
    if columns > 1:
        views += [Dependence(), Waves(), Products(2), Cells()]
    if columns > 2:
        views += [Products(3)]
    return [*views, Values("indicators")]
