"""The command `twosample watch STATE NEW ...`: batch after batch, night after night."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .console import sentences
from .files import (
    Decimal,
    Drop,
    Encoding,
    Groups,
    Keep,
    NoHeader,
    NoLimit,
    Resize,
    Separator,
    Sheet,
    Strata,
    Types,
    columns_from,
    layout_from,
    read_options_from,
)
from .shared import Alpha, AsJson, Quiet, Report, Seed, json_text, seed_or_new, shows_progress

if TYPE_CHECKING:
    from .._files.opening import ReadOptions
    from .._watch.watch import Watch, WatchRecord

State = Annotated[
    str,
    typer.Argument(
        metavar="STATE",
        help="The file in which the watch is kept; it is made by the first run. Its log is beside "
        "it, STATE.jsonl: one line for each batch.",
    ),
]
New = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NEW ...",
        help="New batches, or folders of them: files that have been counted are left out, the "
        "others are taken in the order of their names.",
        show_default=False,
    ),
]
ReferenceFile = Annotated[
    str | None,
    typer.Option(
        "--reference",
        metavar="REF",
        help="What batches are compared with; each of its rows is compared once. Only the first "
        "run reads it.",
    ),
]
BothIn = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="COLUMN=a,b",
        help="In place of --reference: two streams. The column that says which row of a batch is "
        "whose, and its two values.",
    ),
]
RunLength = Annotated[
    float | None,
    typer.Option(
        "--run-length",
        metavar="BATCHES",
        help="Look for a change at any time, in place of --alpha: a false alarm takes at least so "
        "many batches, on average.",
    ),
]
WitnessName = Annotated[
    str,
    typer.Option(
        "--witness",
        metavar="NAME",
        help="What looks for a difference: spectral; columns (cheap); mmd-d or mmd-o (learned).",
    ),
]
Permutations = Annotated[
    int, typer.Option(metavar="NUMBER", help="Shuffles that each batch is compared with.")
]
Spend = Annotated[
    int | None,
    typer.Option(
        metavar="ROWS",
        help="Rows of the reference for each batch, at most; by default as many as it has.",
    ),
]
BatchName = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="What the batch is called, if there is only one; by default its path from STATE.",
    ),
]
MissingIn = Annotated[
    str,
    typer.Option(
        "--missing",
        metavar="POLICY",
        help="What to do about missing values: indicator (a column that says so), drop, error.",
    ),
]
Refill = Annotated[
    str | None, typer.Option(metavar="FILE", help="Add new rows to the reference first.")
]
Restart = Annotated[
    bool,
    typer.Option("--restart", help="The alarm has been seen to: start with a wealth of 1 again."),
]
PrometheusFile = Annotated[
    str | None,
    typer.Option(
        "--prometheus", metavar="FILE", help="Write the state as metrics, in Prometheus' text form."
    ),
]

# Of tables and arrays. What ends otherwise is no batch: a README, a checksum, a picture.
_ENDINGS = (
    ".arrow",
    ".csv",
    ".feather",
    ".ipc",
    ".jsonl",
    ".ndjson",
    ".npy",
    ".npz",
    ".parquet",
    ".pq",
    ".tsv",
)
_ALARM = 1  # exit status


def run(
    state: State,
    new: New = None,
    reference: ReferenceFile = None,
    by: BothIn = None,
    alpha: Alpha = 0.05,
    run_length: RunLength = None,
    witness: WitnessName = "spectral",
    permutations: Permutations = 399,
    spend: Spend = None,
    seed: Seed = None,
    name: BatchName = None,
    refill: Refill = None,
    restart: Restart = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    report: Report = None,
    prometheus: PrometheusFile = None,
    keep: Keep = None,
    drop: Drop = None,
    types: Types = None,
    missing: MissingIn = "indicator",
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    sheet: Sheet = None,
    resize: Resize = None,
    no_limit: NoLimit = False,
    groups: Groups = None,
    strata: Strata = None,
) -> None:
    """Watch batches as they come, however often you look.

    The first run makes STATE, and fixes how to watch. Later runs of the same command count the
    batches that are new. If there is never a difference, the chance that there is ever an alarm is
    at most --alpha, for however many nights. NEW are files of the kinds that 'twosample test'
    reads, folders of such files, or queries (shop.db::SELECT ...).

    STATE is replaced after every batch, at once and as a whole: a run that is killed loses nothing
    and counts nothing twice. Of two runs at a time one is refused.

    The exit status is 0 without an alarm, 1 with one, and 2 after an error.

    \b
    Examples:
      twosample watch shop.watch days/ --reference year.parquet
      twosample watch shop.watch days/*.parquet --reference year.parquet --json
      twosample watch ab.watch day.csv --by arm=control,treated
      twosample watch shop.watch 'shop.db::SELECT * FROM today' --name day-3
      twosample watch shop.watch --restart
    """
    with sentences(interrupted="The batches before it are counted."):
        from .._saving.saving import writable
        from .._watch.state import locked, log_beside, repair_log

        if report is not None:
            from .._show.page import ready

            ready(report)
        for path in (state, prometheus):
            if path is not None:
                writable(path)
        rules = columns_from(keep, drop, types, missing)
        options = read_options_from(
            rules,
            layout_from(separator, decimal, encoding, no_header, sheet),
            resize=resize,
            unlimited=no_limit,
            stream=False,
            progress=shows_progress(quiet),
        )
        with locked(state):
            watch = _opened(
                state,
                {"reference": reference, "by": by, "groups": groups, "strata": strata},
                options,
                alpha=alpha,
                run_length=run_length,
                witness=witness,
                permutations=permutations,
                spend=spend,
                columns=None if _says_nothing(rules) else rules,
                rng=seed,
            )
            if os.path.exists(state):
                repair_log(watch, log_beside(state))
            _attend(watch, state, refill, restart, options)
            records = []
            for record in _count_new(watch, state, new or [], name, options):
                records.append(record)
                _say(record, as_json or quiet)
        _show(watch, state, records, as_json, report)
        if report is not None and watch.batches:
            watch.report(report)
        if prometheus is not None:
            _write_metrics(watch, state, prometheus)
    if watch.alarm or any(record.alarm for record in records):
        raise typer.Exit(_ALARM)


# The state


def _says_nothing(rules: Any) -> bool:
    from .._watch.door import WITH_GAPS

    return bool(rules == WITH_GAPS)


def _opened(
    state: str,
    given: Mapping[str, str | None],
    options: ReadOptions,
    **settings: Any,
) -> Watch:
    """The watch that the state holds, or a new one."""
    from .._files.opening import open_file
    from .._watch.watch import Watch

    if os.path.exists(state):
        watch = Watch.load(state)
        known = watch.notes
        for option, value in given.items():
            if value is not None and known.get(option) != value:
                raise InputError(
                    f"{state} was made with --{option} {known.get(option)}, not {value}; rows are "
                    "added to a reference by --refill, and for another watch choose another STATE."
                )
        return watch
    reference = given["reference"]
    by = given["by"]
    if (reference is None) == (by is None):
        raise InputError(
            f"{state} is not there yet, so say what to watch: --reference REF for one stream "
            "against a reference, or --by COLUMN=a,b for two streams in every file."
        )
    seed = seed_or_new(settings.pop("rng"))
    rows = None if reference is None else open_file(reference, options)
    watch = Watch(reference=rows, rng=seed, **settings)
    watch.notes = {**given, "seed": seed}
    return watch


def _attend(
    watch: Watch, state: str, refill: str | None, restart: bool, options: ReadOptions
) -> None:
    """What is asked for beside new batches."""
    from .._files.opening import open_file
    from .._watch.state import save_locked

    if refill is not None:
        watch.refill(open_file(refill, options))
    if restart:
        watch.restart()
    is_new = not os.path.exists(state)
    if is_new or refill is not None or restart:
        save_locked(watch, Path(os.path.realpath(state)))


def _count_new(
    watch: Watch, state: str, new: list[str], name: str | None, options: ReadOptions
) -> Iterator[WatchRecord]:
    """Count what is new; each batch is in the state and in the log when it is given."""
    from .._watch.state import append_to_log, log_beside, save_locked

    batches = list(_named(new, state))
    if name is not None:
        if len(batches) != 1:
            raise InputError(f"--name {name} is for one batch, and there are {len(batches)}.")
        batches = [(name, batches[0][1])]
    for called, path in batches:
        if watch.has_counted(called):
            continue
        record = watch.update(
            *_read(watch, path, options),
            name=called,
            groups=watch.notes.get("groups"),
            strata=watch.notes.get("strata"),
        )
        save_locked(watch, Path(os.path.realpath(state)))
        append_to_log([record], log_beside(state))
        yield record


def _named(new: list[str], state: str) -> Iterator[tuple[str, str]]:
    """Every batch: what it is called, whatever folder one stands in, and where it is."""
    folder = os.path.dirname(os.path.realpath(state))
    for given in new:
        files = [given]
        if os.path.isdir(given):
            files = _batches_in(given) or files
        for file in files:
            # A query is called what it is; so is whatever is no file, about which reading raises.
            is_file = os.path.exists(file)
            yield os.path.relpath(os.path.realpath(file), folder) if is_file else file, file


def _batches_in(folder: str) -> list[str]:
    """The tables and arrays in a folder, by name; none in a folder of pictures."""
    names = [name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
    batches = [name for name in names if name.removesuffix(".gz").endswith(_ENDINGS)]
    return [os.path.join(folder, name) for name in batches]


def _read(watch: Watch, path: str, options: ReadOptions) -> tuple[Any, ...]:
    from .._files.inputs import open_pair
    from .._files.opening import open_file

    by = watch.notes.get("by")
    if by is None:
        return (open_file(path, options),)
    return open_pair(path, None, by, options)


# What is shown


def _say(record: WatchRecord, quiet: bool) -> None:
    for note in record.notes:
        typer.echo(f"warning: {record.name}: {note}", err=True)
    if not quiet:
        typer.echo(str(record))


def _show(
    watch: Watch, state: str, records: list[WatchRecord], as_json: bool, report: str | None
) -> None:
    if as_json:
        answer: dict[str, Any] = {
            "state": state,
            "alarm": watch.alarm,
            "alarmed_at": watch.alarmed_at,
            "wealth": watch.wealth,
            "threshold": watch.threshold,
            "batches": watch.batches,
            "reference_left": watch.reference_left,
            "seed": watch.notes.get("seed"),
            "report": report,
            "new": [record.to_dict() for record in records],
        }
        typer.echo(json_text("watch", answer))
        return
    from .._watch.betting import shown

    verdict = "no alarm"
    if watch.alarm:
        verdict = f"ALARM since batch {watch.alarmed_at}"
    left = ""
    if watch.reference_left is not None:
        left = f"; {watch.reference_left:,} rows of the reference are left"
    typer.echo(
        f"{verdict}: {len(records)} new of {watch.batches} batches, wealth {shown(watch.wealth)}, "
        f"alarm at {watch.threshold:g}{left}."
    )


def _write_metrics(watch: Watch, state: str, path: str) -> None:
    """Write Prometheus' text form, at once and as a whole, as its collector of text files asks."""
    from .._saving.saving import replace, writable

    label = os.path.basename(state).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    metrics: Mapping[str, tuple[str, str, float | None]] = {
        "batches_total": ("counter", "Batches counted.", watch.batches),
        "wealth": ("gauge", "What bets against 'no difference' have become.", watch.wealth),
        "threshold": ("gauge", "The wealth at which there is an alarm.", watch.threshold),
        "alarm": ("gauge", "1 if there is an alarm, else 0.", int(watch.alarm)),
        "evalue": ("gauge", "The e-value of the last batch.", _last_evalue(watch)),
        "reference_rows_left": ("gauge", "Reference rows not spent.", watch.reference_left),
        "last_run_seconds": ("gauge", "When it last ran, in seconds since 1970.", time.time()),
    }
    lines = []
    for name, (kind, words, value) in metrics.items():
        if value is None:
            continue
        lines.append(f"# HELP twosample_watch_{name} {words}")
        lines.append(f"# TYPE twosample_watch_{name} {kind}")
        number = "+Inf" if value == float("inf") else repr(value)
        lines.append(f'twosample_watch_{name}{{state="{label}"}} {number}')
    replace(writable(path), ("\n".join(lines) + "\n").encode())


def _last_evalue(watch: Watch) -> float | None:
    return watch.history[-1].evalue if watch.history else None
