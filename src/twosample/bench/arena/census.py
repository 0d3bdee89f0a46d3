"""Scenarios of the arena on made tables that resemble census records.

The columns are numbers, booleans and categories with rare levels; values are missing; and columns
depend on each other. Every scenario plants one change in Y.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import MissingDependency
from .scenario import Pair, Scenario

People: TypeAlias = dict[str, NDArray[Any]]
"""The columns of a table by name, before values are made missing."""

_GROUP = "mixed tables"
_REGIONS = np.array(["north", "east", "south", "west", "islands"])
_REGION_SHARES = np.array([0.40, 0.27, 0.20, 0.12, 0.01])
_EDUCATIONS = np.array(["none", "primary", "secondary", "college", "master", "doctorate"])
_OCCUPATIONS = np.array(
    ["office", "sales", "craft", "service", "teaching", "transport", "farming", "army"]
)
_OCCUPATION_SHARES = np.array([0.26, 0.19, 0.17, 0.15, 0.10, 0.08, 0.04, 0.01])
_MISSING = {"hours": 0.04, "occupation": 0.05}


def people(rng: np.random.Generator, rows: int) -> People:
    """Draw records: age, hours, income and gains; married, citizen; three categories."""
    age = np.clip(np.round(rng.gamma(7.0, 6.0, rows)), 17, 95)
    schooling = np.clip(np.round(2.2 + 1.1 * rng.standard_normal(rows)), 0, 5).astype(int)
    occupation = rng.choice(_OCCUPATIONS, size=rows, p=_OCCUPATION_SHARES)
    full_time = rng.random(rows) < 0.5
    hours = np.where(full_time, 40.0, np.clip(np.round(38 + 12 * rng.standard_normal(rows)), 1, 98))
    hours = hours + np.where(np.isin(occupation, ("farming", "transport")), 6.0, 0.0)
    # Income rises with age and schooling.
    level = 9.4 + 0.018 * (age - 40) + 0.22 * schooling + 0.5 * rng.standard_normal(rows)
    gains = np.where(rng.random(rows) < 0.08, np.round(np.exp(8 + rng.standard_normal(rows))), 0.0)
    married = rng.random(rows) < 1 / (1 + np.exp(-(age - 34) / 8))
    return {
        "age": age,
        "hours": hours,
        "income": np.round(np.exp(level), -1),
        "gains": gains,
        "married": married,
        "citizen": rng.random(rows) < 0.92,
        "region": rng.choice(_REGIONS, size=rows, p=_REGION_SHARES),
        "education": _EDUCATIONS[schooling],
        "occupation": occupation,
    }


def _table(columns: People, missing: dict[str, float], rng: np.random.Generator) -> Any:
    """A polars table, with a share of the values missing."""
    try:
        import polars as pl
    except ImportError:
        raise MissingDependency(
            "mixed tables are made with polars; pip install 'twosample[tables]'."
        ) from None
    series = {}
    for name, values in columns.items():
        cells = values.astype(object)
        cells[rng.random(len(values)) < missing.get(name, 0.0)] = None
        series[name] = pl.Series(name, cells.tolist())
    return pl.DataFrame(series)


# What is planted


Plant: TypeAlias = Callable[[People, np.random.Generator], None]


def _share(people: People, rng: np.random.Generator) -> None:
    """The north's share falls from 40 % to 20 %, and the others' rise alike."""
    north = people["region"] == "north"
    moved = north & (rng.random(len(north)) < 0.5)
    elsewhere = _REGION_SHARES[1:] / _REGION_SHARES[1:].sum()
    people["region"][moved] = rng.choice(_REGIONS[1:], size=moved.sum(), p=elsewhere)


def _new_level(people: People, rng: np.random.Generator) -> None:
    """2 % of the people have an occupation that nobody had."""
    new = rng.random(len(people["age"])) < 0.02
    people["occupation"] = np.where(new, "delivery", people["occupation"])


def _rare_level(people: People, rng: np.random.Generator) -> None:
    """A rare level rises from 1 % to 4 %."""
    more = rng.random(len(people["age"])) < 0.03
    people["occupation"] = np.where(more, "army", people["occupation"])


def _older(people: People, rng: np.random.Generator) -> None:
    """Everybody is three years older: a fifth of the spread."""
    people["age"] = people["age"] + 3


def _boolean(people: People, rng: np.random.Generator) -> None:
    """Of the citizens 7 % are none any more."""
    people["citizen"] = people["citizen"] & (rng.random(len(people["age"])) > 0.07)


def _independent(people: People, rng: np.random.Generator) -> None:
    """Income has nothing to do with age and schooling any more; its own law stays."""
    people["income"] = rng.permutation(people["income"])


def _depends_otherwise(people: People, rng: np.random.Generator) -> None:
    """Who works long sits in the office; the shares of occupations and all hours stay."""
    rank = np.argsort(np.argsort(people["hours"] + rng.random(len(people["hours"]))))
    preference = rank / len(rank) + 0.4 * rng.standard_normal(len(rank))
    by_preference = np.argsort(preference)
    order = {name: place for place, name in enumerate(reversed(_OCCUPATIONS.tolist()))}
    places = np.array([order[name] for name in people["occupation"]])
    occupations = people["occupation"][np.argsort(places, kind="stable")]
    people["occupation"] = people["occupation"].copy()
    people["occupation"][by_preference] = occupations


def _sentinel(people: People, rng: np.random.Generator) -> None:
    """2 % of the ages are 999, which means that nobody asked."""
    unasked = rng.random(len(people["age"])) < 0.02
    people["age"] = np.where(unasked, 999.0, people["age"])


def _heaped(people: People, rng: np.random.Generator) -> None:
    """Some incomes are told in thousands."""
    told = rng.random(len(people["age"])) < 0.4
    people["income"] = np.where(told, np.round(people["income"], -4), people["income"])


def _nothing(people: People, rng: np.random.Generator) -> None:
    """Change no value."""


def _scenario(
    name: str,
    about: str,
    sizes: tuple[int, int],
    plant: Plant,
    missing: dict[str, float] | None = None,
) -> Scenario:
    n, m = sizes

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        x = _table(people(rng, n), _MISSING, rng)
        of_y = people(rng, m)
        shares = _MISSING
        if different:
            plant(of_y, rng)
            shares = {**_MISSING, **(missing or {})}
        return x, _table(of_y, shares, rng)

    return Scenario(f"census-{name}", _GROUP, about, sizes, "table", pair)


SCENARIOS = (
    _scenario("share", "a category's share: 40 % to 20 %", (150, 135), _share),
    _scenario("new-level", "a new level of 2 %", (600, 600), _new_level),
    _scenario("rare-level", "a level's share: 1 % to 4 %", (500, 500), _rare_level),
    _scenario("missing", "3 % more values missing", (1500, 1500), _nothing, {"hours": 0.07}),
    _scenario("mean", "mean of a number", (500, 450), _older),
    _scenario("boolean", "a boolean's share: 92 % to 86 %", (600, 600), _boolean),
    _scenario("independent", "a dependence of numbers is gone", (700, 700), _independent),
    _scenario("depends", "a category goes with a number", (700, 700), _depends_otherwise),
    _scenario("sentinel", "2 % of a number are 999", (700, 700), _sentinel),
    _scenario("heaped", "a number is rounded in 40 % of the rows", (500, 500), _heaped),
)

NULLS = ("census-share", "census-mean")
"""The scenarios that are also run without a change."""
