"""What the user says of a table: which columns to test, as what, and about missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from ..errors import InputError

AsKind: TypeAlias = Literal["number", "category"]
Missing: TypeAlias = Literal["error", "drop", "indicator"]


@dataclass(frozen=True)
class Columns:
    """Which columns of a table to test, as what, and what to do about missing values.

    A fitted test remembers them and treats later data alike, also after `save` and `load`.

    Parameters
    ----------
    keep
        The columns to test, by their names; None for all. Columns of an array are called "0", "1",
        ...
    drop
        Columns to leave out.
    kinds
        Name -> "number" or "category", for columns that are not to be taken as what they seem. As
        numbers, dates and times of a day are days since 1970-01-01 (in UTC, where they have no time
        zone), times without a date and durations are seconds. As categories, numbers and dates are
        what they look like when written.
    missing
        What becomes of missing values, of NaN too: "indicator" puts the mean of the column, over
        both samples, in their place and adds a column of zeros and ones, "... is missing", so that
        a change in what is missing is a difference; in a category they are a level of their own.
        "drop" leaves out the rows that have one, and the result says how many; "error" refuses
        them. None is "indicator" with an `InputNote` that says how many there are.

    Examples
    --------
    >>> import pandas as pd, twosample
    >>> age = [31.0, None, 47.0] * 20
    >>> X = pd.DataFrame({"id": range(60), "zip": [2139, 94103] * 30, "age": age})
    >>> Y = X.assign(age=[58.0, 63.0, 70.0] * 20)
    >>> columns = twosample.Columns(drop=["id"], kinds={"zip": "category"}, missing="drop")
    >>> result = twosample.two_sample_test(X, Y, "mmd-median", columns=columns, rng=0)
    >>> result.pvalue, result.dropped
    (0.001, (20, 0))
    """

    keep: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    kinds: Mapping[str, AsKind] | tuple[tuple[str, AsKind], ...] = ()
    missing: Missing | None = None

    def __post_init__(self) -> None:
        keep = None if self.keep is None else _names(self.keep, "keep")
        drop = _names(self.drop, "drop")
        kinds = tuple(dict(self.kinds).items())
        # Tuples rather than what the user gave, because they can be compared and hashed.
        object.__setattr__(self, "keep", keep)
        object.__setattr__(self, "drop", drop)
        object.__setattr__(self, "kinds", kinds)
        self._check_choices()
        self._check_contradictions()

    def _check_choices(self) -> None:
        if self.missing is not None and self.missing not in get_args(Missing):
            raise InputError(
                f"missing is {self.missing!r}; use one of {', '.join(get_args(Missing))}."
            )
        for name, kind in dict(self.kinds).items():
            if kind not in get_args(AsKind):
                raise InputError(
                    f"column {name!r} is to be a {kind!r}; use one of "
                    f"{', '.join(get_args(AsKind))}."
                )
        if self.keep is not None and not self.keep:
            raise InputError("no column is to be kept; name at least one.")

    def _check_contradictions(self) -> None:
        kinds = dict(self.kinds)
        kept = set(self.keep or ())
        for name in self.drop:
            if name in kinds or name in kept:
                raise InputError(
                    f"column {name!r} is to be left out, and used; choose one of both."
                )
        for name in kinds:
            if self.keep is not None and name not in kept:
                raise InputError(
                    f"column {name!r} has a kind, but is not among those to keep; name it there."
                )

    @property
    def policy(self) -> Missing:
        """What becomes of missing values, also if nobody has said so."""
        return self.missing or "indicator"

    def kind_of(self, name: str) -> AsKind | None:
        """What a column is to be taken as; None for what it seems to be."""
        return self._kinds_by_name.get(name)

    @cached_property
    def _kinds_by_name(self) -> dict[str, AsKind]:
        # Asked for every column of a table, which may have many thousands.
        return dict(self.kinds)

    def places(self, names: Sequence[str], sample: str) -> list[int]:
        """Where the columns to test stand among the `names` of a table's columns.

        Messages call the table `sample`.
        """
        # Sets, because a table may have thousands of columns.
        known = set(names)
        absent = [name for name in self.keep or () if name not in known]
        if absent:
            raise InputError(f"{sample} has no column {_quoted(absent)}; it has {_some(names)}.")
        tested = set(names if self.keep is None else self.keep) - set(self.drop)
        places = [place for place, name in enumerate(names) if name in tested]
        if names and not places:
            raise InputError(
                f"no column of {sample} is left to test; drop fewer of {_some(names)}."
            )
        return places

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse what is said about columns that no sample has; most likely a name is misspelt."""
        known = set(names)
        absent = [name for name in (*self.drop, *dict(self.kinds)) if name not in known]
        if absent:
            raise InputError(f"there is no column {_quoted(absent)}; there are {_some(names)}.")


def _names(given: Sequence[str], field: str) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise InputError(
            f"{field} is {given!r}; give a list of names of columns, such as ['age', 'height']."
        )
    return tuple(given)


def _quoted(names: Sequence[str]) -> str:
    return " or ".join(repr(name) for name in names[:10])


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(names[:10])
    return listed if len(names) <= 10 else f"{listed}, ... {len(names)} in all"
