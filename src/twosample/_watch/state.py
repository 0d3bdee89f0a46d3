"""A watch in one file, its log, and the lock that keeps two processes from counting at once.

The file is safetensors with a JSON header, as that of a fitted test (`_saving`): versioned, with a
checksum, never pickle, and replaced as a whole or not at all. It holds sums, the latest rows and
records, and what is left of the reference, so its size is bounded however long the stream is.

The log has one JSON line for each batch. It is written after the state. A process that is killed in
between leaves a line out, or half of one; the next to open the state puts that right, because the
state has the latest records. So state and log never disagree on what was counted.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._data.columns import Columns
from .._kernels import Linear
from .._random import Generators
from .._saving.packing import pack
from .._saving.saving import PathLike, content_of, lock, replace, signed, verified, writable
from .._saving.unpacking import unpack
from .._two_sample import FittedTest, TwoSampleTest
from ..errors import InputError, TwoSampleError
from .betting import Ledger
from .door import Door
from .rows import Reference
from .watch import Watch, WatchRecord
from .witnesses import as_witness

FORMAT = 1
"""The version of the files that are written; later ones are refused."""

_KIND = "watch"  # says of a file what it holds
_NAMED = ("spectral", "columns", "mmd-d", "mmd-o")  # witnesses that a file may name


def save(watch: Watch, path: PathLike) -> None:
    """Write a watch to a file: `Watch.save`."""
    file = writable(path)
    with locked(file):
        save_locked(watch, file)


def save_locked(watch: Watch, file: Path) -> None:
    """As `save`, for whoever holds the lock."""
    known = watch._saved_as
    if file.exists() and known != _digest(file.read_bytes()):
        problem = "has been updated by somebody else since this watch was loaded"
        if known is None:
            problem = "is there already, and this watch was not loaded from it"
        raise InputError(f"{file} {problem}; load it and update that, or choose another name.")
    content = as_bytes(watch)
    replace(file, content)
    watch._saved_as = _digest(content)


def load(path: PathLike, *, witness: Any = None) -> Watch:
    """Read a watch: `Watch.load`."""
    content = content_of(Path(path))
    try:
        watch = from_bytes(content, witness)
    except TwoSampleError as error:
        raise InputError(f"{path} cannot be used: {error}") from error
    except Exception as error:
        raise InputError(f"{path} cannot be used: it is damaged ({error!r}).") from error
    watch._saved_as = _digest(content)
    return watch


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# A watch to bytes and back


def as_bytes(watch: Watch) -> bytes:
    """The content of its file."""
    values, tensors, fitted = watch._witness.state()
    held = {f"witness.{name}": each for name, each in tensors.items()}
    header: dict[str, Any] = {
        "format": FORMAT,
        "kind": _KIND,
        "witness": {"name": watch._witness.name, **values},
        "ledger": _plain_ledger(watch._ledger),
        "entropy": watch._generators._entropy,
        "permutations": watch._permutations,
        "spend": watch._spend,
        "columns": _plain_columns(watch._columns),
        "batches": watch._batches,
        "alarmed_at": watch._alarmed_at,
        "history": [_plain_record(record) for record in watch._history],
        "sides": [list(sides) for sides in watch._sides],
        "spent": None,
        "notes": watch.notes,
    }
    held["names"] = torch.tensor(list(watch._names), dtype=torch.int64)
    if watch._reference is not None:
        header["spent"] = watch._reference.spent
        held["reference"] = watch._reference.rows
    for part, test in (("door", _as_test(watch._door)), ("fitted", fitted)):
        header[part] = None
        if test is not None:
            packed = pack(test)
            if packed.own:
                own = ", ".join(packed.own)
                raise InputError(f"a watch with a part of your own ({own}) cannot be saved.")
            header[part] = packed.tree
            held |= {f"{part}.{place}": each for place, each in packed.tensors.items()}
    try:
        text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the notes cannot be kept ({error}); give strings, numbers and lists of them."
        ) from error
    # Copies, because parts of one tensor cannot be in a file of their own.
    return signed(text, {name: each.clone().contiguous() for name, each in held.items()})


def from_bytes(content: bytes, witness: Any = None) -> Watch:
    """The watch that a file holds."""
    header, tensors = verified(content, FORMAT, "a watch")
    if header.get("kind") != _KIND:
        raise InputError("it holds a fitted test, not a watch; give the file of a watch.")
    ledger = _ledger_from(header["ledger"])
    saved = header["witness"]
    name = saved["name"]
    if witness is None:
        if name not in _NAMED:
            raise InputError(f"its witness is {name}, which no file holds; load with witness=... .")
        witness = name
    columns = _columns_from(header["columns"])
    watch = Watch(
        alpha=ledger.alpha,
        run_length=ledger.run_length,
        witness=witness,
        permutations=header["permutations"],
        columns=columns,
        spend=header["spend"],
        rng=0,
    )
    started = as_witness(witness)
    if started.name != name:
        raise InputError(f"its witness is {name}, not {started.name}; give the same one.")
    door = _test_from(header["door"], _under("door.", tensors))
    if door is not None:
        watch._door = Door(door.schema, door.scaling)
    fitted = _test_from(header["fitted"], _under("fitted.", tensors))
    watch._witness = started.restored(saved, _under("witness.", tensors), fitted)
    watch._ledger = ledger
    watch._generators = _generators_from(header["entropy"])
    if header["spent"] is not None:
        watch._reference = Reference(tensors["reference"], int(header["spent"]))
    watch.notes = dict(header["notes"])
    watch._batches = int(header["batches"])
    watch._alarmed_at = header["alarmed_at"]
    watch._history.extend(_record_from(each) for each in header["history"])
    watch._names.extend(tensors["names"].tolist())
    watch._sides.extend((str(x), str(y)) for x, y in header["sides"])
    return watch


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            found[name.removeprefix(prefix)] = tensor
    return found


def _as_test(door: Door | None) -> FittedTest | None:
    """A door in the form in which files hold schema and scaling: a test without learning."""
    if door is None:
        return None
    return FittedTest(Linear(), TwoSampleTest(Linear()), door.schema, door.scaling, None, None)


def _test_from(tree: Any, tensors: Mapping[str, Tensor]) -> FittedTest | None:
    return None if tree is None else unpack(tree, tensors, {})


def _plain_ledger(ledger: Ledger) -> dict[str, Any]:
    values = {each.name: getattr(ledger, each.name) for each in fields(ledger)}
    # JSON has no infinity.
    return {name: str(each) if each == -math.inf else each for name, each in values.items()}


def _ledger_from(values: Mapping[str, Any]) -> Ledger:
    numbers = {name: None if value is None else float(value) for name, value in values.items()}
    return Ledger(**numbers)  # type: ignore[arg-type]


def _plain_columns(columns: Columns | None) -> dict[str, Any] | None:
    if columns is None:
        return None
    return {each.name: getattr(columns, each.name) for each in fields(columns)}


def _columns_from(values: Mapping[str, Any] | None) -> Columns | None:
    if values is None:
        return None
    keep = values["keep"]
    return Columns(
        keep=None if keep is None else tuple(keep),
        drop=tuple(values["drop"]),
        kinds=dict(values["kinds"]),
        missing=values["missing"],
    )


def _generators_from(entropy: list[int]) -> Generators:
    generators = object.__new__(Generators)
    generators._entropy = [int(word) for word in entropy]
    return generators


def _plain_record(record: WatchRecord) -> dict[str, Any]:
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            plain[name] = str(value)
        else:
            plain[name] = value
    return plain


def _record_from(values: Mapping[str, Any]) -> WatchRecord:
    known = dict(values)
    for name in ("evalue", "wealth", "threshold", "pvalue"):
        known[name] = float(known[name])
    n, m = known["sizes"]
    known["sizes"] = (n, m)
    known["notes"] = tuple(known["notes"])
    return WatchRecord(**known)


# The log


def log_beside(path: PathLike) -> Path:
    """Where the log of a state is."""
    return Path(f"{os.fspath(path)}.jsonl")


def repair_log(watch: Watch, log: Path) -> None:
    """Complete the log of a state that was just loaded: a kill may have left out its last lines."""
    whole = b""
    with suppress(FileNotFoundError):
        content = log.read_bytes()
        # What follows the last end of a line is half of one.
        end = content.rfind(b"\n") + 1
        whole = content[:end]
        if end < len(content):
            with log.open("r+b") as stream:
                stream.truncate(end)
    lines = whole.splitlines()
    last = int(json.loads(lines[-1])["number"]) if lines else 0
    if last > watch.batches:
        raise InputError(
            f"{log} has {last} batches and the state only {watch.batches}; the state is older than "
            "its log. Put the right one in its place, or remove the log."
        )
    append_to_log([record for record in watch.history if record.number > last], log)


def append_to_log(records: list[WatchRecord], log: Path) -> None:
    """One JSON line for each record, on the disk when this returns."""
    if not records:
        return
    lines = [json.dumps(record.to_dict(), allow_nan=False) for record in records]
    text = "".join(f"{line}\n" for line in lines)
    with log.open("ab") as stream:
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


# The lock


@contextmanager
def locked(path: PathLike) -> Iterator[None]:
    """Hold the lock of a state; it goes with the process, however that ends."""
    beside = Path(f"{os.fspath(path)}.lock")
    try:
        stream = beside.open("a+b")
    except OSError as error:
        raise InputError(
            f"{beside} cannot be made ({error.strerror}); choose another place."
        ) from error
    with stream:
        if lock(stream) is False:
            raise InputError(
                f"{path} is in use by another process, which has locked it; wait until that ends. "
                "Two that count at once would lose a batch."
            )
        yield
