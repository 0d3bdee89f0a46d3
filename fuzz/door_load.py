"""Fitted tests in files: damage must be noticed, and a forgery with a right checksum refused or
tested with.

The oracle is the file as it was saved: whatever loads and says the same must give the same result,
to the bit.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cases import ACCEPTED, REFUSED, Case, check, check_sentence, only_our_warnings
from mutations import NUMBERS, ODD, Rng, altered_bytes, altered_tree, deep_json, json_text, pick
from safetensors.torch import load as tensors_of
from safetensors.torch import save as as_bytes
from torch import Tensor, nn

import twosample
from twosample._saving import forms

NAME = "case.safetensors"
QUICK: dict[str, Any] = {"permutations": 19, "steps": 2}
CLASSES = [*forms.CLASSES, "own", "same", "os.system", ""]
ODD_PARTS = [
    *ODD,
    *CLASSES,
    *({"class": name} for name in CLASSES),
    {"class": "same", "place": "representation"},
]


@dataclass(frozen=True)
class Saved:
    """A file that is right, with data to test and what it says about them."""

    content: bytes
    header: dict[str, Any]
    tensors: dict[str, Tensor]
    data: tuple[Any, Any]
    statistic: float
    pvalue: float


def _table(rng: Rng, rows: int) -> dict[str, list[Any]]:
    return {
        "size": rng.normal(size=rows).round(3).tolist(),
        "new": (rng.random(rows) < 0.5).tolist(),
        "kind": [pick(rng, ["a", "b", "ü"]) for _ in range(rows)],
    }


def _seeds() -> list[Saved]:
    import polars as pl

    rng = np.random.default_rng(0)
    tables = [pl.DataFrame(_table(rng, rows)) for rows in (12, 12, 8, 7)]
    images = [rng.integers(0, 256, size=(rows, 8, 8), dtype=np.uint8) for rows in (12, 12, 8, 7)]
    network = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.LayerNorm(3), nn.Linear(3, 2))
    tests = [
        (twosample.mmd_median(permutations=19), tables),
        (twosample.mmd_o(**QUICK), tables),
        (twosample.mmd_d(twosample.ResidualMLP(width=3, layers=2), **QUICK), tables),
        (twosample.mmd_d(network, **QUICK), tables),
        (twosample.mmd_d(twosample.ConvNet(width=3, channels=(2, 3), ranks=True), **QUICK), images),
        (twosample.mmd_mkl(permutations=19), tables),
        (twosample.me(permutations=19, locations=2, steps=2, restarts=1), tables),
        (twosample.scf(permutations=19, frequencies=2, steps=2, restarts=1), tables),
        (twosample.c2st_l(**QUICK), tables),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_saved(test.fit(*data[:2], rng=0), (data[2], data[3])) for test, data in tests]


def _saved(fitted: twosample.FittedTest, data: tuple[Any, Any]) -> Saved:
    fitted.save(NAME)
    content = Path(NAME).read_bytes()
    Path(NAME).unlink()
    metadata = header_of(content)["__metadata__"]
    result = fitted.test(*data, rng=0)
    return Saved(
        content,
        json.loads(metadata["twosample"]),
        tensors_of(content),
        data,
        result.statistic,
        result.pvalue,
    )


def header_of(content: bytes) -> dict[str, Any]:
    """The JSON header of a safetensors file."""
    header: dict[str, Any] = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return header


def signed(content: bytes) -> bytes:
    """The content with its right checksum, as somebody would make it who knows how."""
    return content.replace(
        b'"sha256":"' + b"0" * 64, b'"sha256":"' + hashlib.sha256(content).hexdigest().encode(), 1
    )


class Door:
    """Files for `twosample.load`."""

    def __init__(self) -> None:
        self.seeds = _seeds()

    def case(self, rng: Rng) -> Case:
        """A damaged file, a forged one, or something else."""
        number = int(rng.integers(len(self.seeds)))
        how = pick(
            rng,
            [
                self._damaged,
                self._forged_header,
                self._forged_header,
                self._forged_tensors,
                self._lies,
                self._other,
            ],
        )
        kind, content = how(self.seeds[number], rng)
        return Case(kind, {NAME: content}, number)

    def _damaged(self, seed: Saved, rng: Rng) -> tuple[str, bytes]:
        content = seed.content
        if rng.random() < 0.3:  # digits of the header
            altered = bytearray(content)
            end = 8 + int.from_bytes(content[:8], "little")
            digits = [place for place in range(8, end) if chr(content[place]).isdigit()]
            for place in rng.choice(digits, 2):
                altered[place] = ord(str(rng.integers(10)))
            return "damage: digits", bytes(altered)
        return "damage: bytes", altered_bytes(content, rng)

    def _forged_header(self, seed: Saved, rng: Rng) -> tuple[str, bytes]:
        tree = seed.header
        for _ in range(int(rng.integers(1, 3))):
            tree = altered_tree(tree, rng, ODD_PARTS)
        if rng.random() < 0.03:
            return "forgery: deep", _file(
                seed.tensors, deep_json(int(pick(rng, [50, 1000, 100_000])), rng)
            )
        return "forgery: header", _file(seed.tensors, json_text(tree, rng))

    def _forged_tensors(self, seed: Saved, rng: Rng) -> tuple[str, bytes]:
        return "forgery: tensors", _file(
            altered_tensors(seed.tensors, rng), json.dumps(seed.header)
        )

    def _lies(self, seed: Saved, rng: Rng) -> tuple[str, bytes]:
        """A header of safetensors that does not tell what follows it, with the right checksum."""
        content = _file(seed.tensors, json.dumps(seed.header))
        header = header_of(content)
        body = content[8 + int.from_bytes(content[:8], "little") :]
        metadata = header.pop("__metadata__")
        name = pick(rng, list(header))
        odd: list[Any] = [
            *NUMBERS,
            *ODD,
            "F64",
            "F32",
            "I64",
            "BOOL",
            "U8",
            "F8_E4M3",
            "BF16",
            "F4",
            "C64",
            [0, 8],
            [8, 0],
            [0, 2**63],
            [-8, 0],
        ]
        header = header | {name: altered_tree(header[name], rng, odd)}
        metadata = {**metadata, "sha256": "0" * 64}
        text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
        if rng.random() < 0.1:
            body = altered_bytes(body, rng)
        length = len(text) if rng.random() < 0.9 else int(pick(rng, NUMBERS)) % 2**64
        return "forgery: safetensors", signed(length.to_bytes(8, "little") + text + body)

    def _other(self, seed: Saved, rng: Rng) -> tuple[str, bytes]:
        """A file of another kind, or one put together from two."""
        another = pick(rng, self.seeds)
        stream = io.BytesIO()
        torch.save(seed.tensors, stream)
        others = {
            "torch": stream.getvalue(),
            "pickle": pickle.dumps({"a": 1}),
            "plain safetensors": as_bytes(seed.tensors),
            "header of another": _file(seed.tensors, json.dumps(another.header)),
            "part of another": _file(
                seed.tensors, json.dumps(_crossed(seed.header, another.header, rng))
            ),
            "all tensors": _file({**seed.tensors, **another.tensors}, json.dumps(seed.header)),
            "noise": rng.bytes(int(rng.integers(200))),
            "brace": (int(pick(rng, NUMBERS)) % 2**64).to_bytes(8, "little") + b"{" + rng.bytes(50),
            "format": _file(seed.tensors, json.dumps(seed.header | {"format": pick(rng, ODD)})),
        }
        kind = pick(rng, list(others))
        return f"other: {kind}", others[kind]

    def judge(self, case: Case) -> str:
        """Load it, test with it, and compare if it says what was saved."""
        seed = self.seeds[case.data]
        content = case.files[NAME]
        try:
            with only_our_warnings():
                fitted = twosample.load(NAME)
        except twosample.InputError as error:
            check_sentence(str(error), NAME)
            check(content != seed.content, "what was saved is refused")
            return REFUSED
        check(
            not case.kind.startswith("damage") or content == seed.content, "damage was not noticed"
        )
        try:
            with only_our_warnings():
                result = fitted.test(*seed.data, rng=0)
        except twosample.TwoSampleError as error:
            check_sentence(str(error))
            return REFUSED
        check(0 < result.pvalue <= 1, f"p = {result.pvalue}")
        if self._same(seed, content):
            check(
                (result.statistic, result.pvalue) == (seed.statistic, seed.pvalue), "another result"
            )
        return ACCEPTED

    @staticmethod
    def _same(seed: Saved, content: bytes) -> bool:
        header = json.loads(header_of(content)["__metadata__"]["twosample"])
        tensors = tensors_of(content)
        alike = [
            torch.equal(tensors[name], each)
            for name, each in seed.tensors.items()
            if name in tensors
        ]
        return header == seed.header and len(tensors) == len(alike) and all(alike)


def _file(tensors: dict[str, Tensor], header: str) -> bytes:
    return signed(as_bytes(tensors, {"twosample": header, "sha256": "0" * 64}))


def _crossed(one: Any, other: Any, rng: Rng) -> Any:
    """A tree with one branch of another."""
    if (
        isinstance(one, dict)
        and isinstance(other, dict)
        and (common := sorted(set(one) & set(other)))
    ):
        key = pick(rng, common)
        return one | {
            key: other[key] if rng.random() < 0.3 else _crossed(one[key], other[key], rng)
        }
    return other


def altered_tensors(tensors: dict[str, Tensor], rng: Rng) -> dict[str, Tensor]:
    """The tensors with one of them changed, missing or there twice, or two of them exchanged."""
    one = pick(rng, list(tensors))
    other = pick(rng, list(tensors))
    tensor = tensors[one]
    flat = torch.cat([tensor.reshape(-1), tensor.reshape(-1)])
    changed = [
        tensors[other].clone(),
        tensor.double() if tensor.dtype == torch.float32 else tensor.float(),
        tensor.long() if tensor.is_floating_point() else tensor.float(),
        *(
            tensor.to(kind)
            for kind in (torch.half, torch.bool, torch.bfloat16, torch.int8, torch.complex64)
        ),
        *(tensor * factor for factor in (torch.inf, torch.nan, 1e30, 1e300, 1e-300, 0)),
        -tensor - 1,
        flat,
        flat[: int(rng.integers(len(flat) + 1))],
        tensor.reshape(-1).clone(),
        tensor[None].clone(),
        tensor.T.contiguous() if tensor.ndim == 2 else torch.zeros(0),
    ]
    how = int(rng.integers(len(changed) + 3))
    if how < len(changed):
        return tensors | {one: changed[how]}
    if how == len(changed):
        return tensors | {one: tensors[other].clone(), other: tensor.clone()}
    if how == len(changed) + 1:
        return {name: each for name, each in tensors.items() if name != one}
    return tensors | {f"{one}.{other}": tensor.clone()}
