"""The options --tolerance and --exit-by-verdict, which several commands take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from .._result import TwoSampleResult

Tolerance = Annotated[
    list[str] | None,
    typer.Option(
        metavar="UNIT=NUMBER",
        help="A difference that does not matter: auc=0.55 (rows of A and B may be told apart so "
        "well), spread=0.1 (no column moves by more of its spread), price=0.1 (one column), "
        "mmd=0.05. Again for more units. The verdict is then 'differ', 'equivalent' or "
        "'undecided'.",
        show_default=False,
    ),
]
ExitByVerdict = Annotated[
    bool,
    typer.Option(
        "--exit-by-verdict",
        help="Exit with status 1 if the samples differ, 3 if it is undecided, else 0.",
    ),
]

_DIFFER = 1
_UNDECIDED = 3


def tolerance_from(options: list[str] | None) -> dict[str, float] | None:
    """The margins that were given as UNIT=NUMBER; None for none."""
    if not options:
        return None
    margins = {}
    for option in options:
        unit, sign, number = option.rpartition("=")
        try:
            margins[unit] = float(number)
        except ValueError:
            sign = ""
        if not sign or not unit:
            raise InputError(
                f"--tolerance {option} is no UNIT=NUMBER; give for example --tolerance auc=0.55, "
                "--tolerance spread=0.1, or the name of a column in the place of spread."
            )
    return margins


def status_of(*verdicts: str, undecided: bool = True) -> int:
    """The exit status for the verdicts on some samples; `undecided` if that has one of its own."""
    if "differ" in verdicts:
        return _DIFFER
    return _UNDECIDED if undecided and "undecided" in verdicts else 0


def effect_lines(result: TwoSampleResult, alpha: float) -> dict[str, str]:
    """How large the difference is, or what could have been found, as lines of facts."""
    from .._insight.smallest import could_find

    lines = {}
    effect = result.effect
    if effect.auc is not None and effect.auc_interval is not None:
        low, high = effect.auc_interval
        lines["effect"] = f"AUC {effect.auc:.3f} ({low:.3f} to {high:.3f}); 0.5 is chance"
        if effect.changed:
            percent = 100 * effect.changed
            lines["effect"] += f"; at least {percent:.1f} % of the rows would have to change"
    missed = could_find(result, alpha)
    if missed:
        lines["could find"] = missed
    return lines
