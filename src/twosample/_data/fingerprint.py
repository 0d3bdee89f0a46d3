"""What a fitted test remembers of the rows it was fitted on: hashes of some of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from torch import Tensor

from ..errors import InputError
from .row_keys import Keys, array_keys

_MOST = 1024  # hashes that are kept, of any number of rows
_HALF = 2**63  # files hold signed numbers


@dataclass(frozen=True)
class Fingerprint:
    """Hashes of the rows of a fit, by which they are known again; the rows are not kept.

    Of many rows the smallest hashes are kept, which are those of a fair sample of different rows.

    Attributes
    ----------
    rows, different
        How many rows there were, and how many different ones.
    keys
        The smallest hashes, sorted, as signed numbers.
    """

    rows: int
    different: int
    keys: tuple[int, ...]

    def __post_init__(self) -> None:
        in_order = all(first < second for first, second in pairwise(self.keys))
        in_range = all(-_HALF <= key < _HALF for key in self.keys)
        enough = len(self.keys) == min(_MOST, self.different) and self.different <= self.rows
        if not (in_order and in_range and enough):
            raise InputError("the fingerprint of the rows of a fit is none.")

    @classmethod
    def of(cls, x: Tensor, y: Tensor) -> Fingerprint:
        """The fingerprint of encoded points that are not scaled."""
        keys = np.concatenate([point_keys(x), point_keys(y)])
        different = np.unique(keys)
        kept = tuple(int(key) - _HALF for key in different[:_MOST])
        return cls(len(keys), len(different), kept)

    @property
    def repetitive(self) -> bool:
        """Whether rows came again so often then that others may be equal by chance."""
        return self.different < 0.9 * self.rows

    def known(self, keys: Keys) -> tuple[int, int]:
        """How many of these rows were among those of the fit, and of how many that is known."""
        kept = np.array([key + _HALF for key in self.keys], dtype=np.uint64)
        comparable = keys
        if 0 < len(kept) < self.different:
            comparable = keys[keys <= kept[-1]]
        return int(np.isin(comparable, kept).sum()), len(comparable)


def point_keys(points: Tensor) -> Keys:
    """A hash for each point."""
    return array_keys(points.detach().cpu().numpy())
