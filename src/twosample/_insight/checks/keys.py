"""The keys of the rows of a sample, by which rows that come more than once are found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..._data.copies import Counted
from ..._data.row_keys import Keys, mixed

ALL_KEYS = np.uint64(2**64 - 1)
"""The largest key that there is."""


@dataclass
class KeyLook:
    """The keys of the rows of a sample; of very many rows those that are small.

    Attributes
    ----------
    most
        How many keys are kept; None for all.
    below
        Keys above this one are not kept.
    rows
        How many rows there were.
    total
        A sum over all keys, which does not depend on their order.
    """

    most: int | None
    below: np.uint64 = ALL_KEYS
    rows: int = 0
    total: int = 0
    _kept: list[Keys] = field(default_factory=list)
    _size: int = 0

    def include(self, keys: Keys) -> None:
        """Keep the keys of the next batch."""
        self.rows += len(keys)
        self.total = (self.total + int(mixed(keys).sum(dtype=np.uint64))) % 2**64
        small = keys if self.below == ALL_KEYS else keys[keys <= self.below]
        self._kept.append(small)
        self._size += len(small)
        while self.most is not None and self._size > self.most:
            self.below = np.uint64(int(self.below) // 2)
            kept = self.all()
            self._kept = [kept[kept <= self.below]]
            self._size = len(self._kept[0])

    @property
    def complete(self) -> bool:
        """Whether all keys were kept."""
        return bool(self.below == ALL_KEYS)

    def all(self) -> Keys:
        """All keys that were kept, in the order of the rows."""
        if len(self._kept) != 1:
            self._kept = [np.concatenate([np.empty(0, dtype=np.uint64), *self._kept])]
        return self._kept[0]

    def same(self, other: KeyLook) -> bool:
        """Whether two samples hold the same rows, each as often, in whatever order."""
        return (self.rows, self.total) == (other.rows, other.total)

    def counted(self, other: KeyLook) -> Counted:
        """How often rows come in this sample and in another; of the kinds that both have kept."""
        below = min(self.below, other.below)
        of_x = self.all()
        of_y = other.all()
        if below != ALL_KEYS:
            of_x = of_x[of_x <= below]
            of_y = of_y[of_y <= below]
        return Counted.of(of_x, of_y)
