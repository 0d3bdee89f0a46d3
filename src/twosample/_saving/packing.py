"""A fitted test to pieces: plain values that JSON can hold, and tensors by their places."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .._featurizers import SklearnClassifier
from .._two_sample import FittedTest
from ..errors import InputError
from .forms import (
    CONTAINERS,
    FORMS,
    LAYERS,
    NAMES,
    OWN,
    SAME,
    SETTINGS,
    root,
    tensors_of,
    values_of,
    within,
)

Plain: TypeAlias = dict[str, Any]
"""Names -> what JSON can hold."""


class Packed(NamedTuple):
    """A fitted test in pieces.

    `own` has the parts of classes that are not ours, by name: `unpack` has to be given them again.
    """

    tree: Plain
    tensors: dict[str, Tensor]
    own: dict[str, Any]


def pack(fitted: FittedTest) -> Packed:
    """Take a fitted test to pieces."""
    writer = _Writer()
    tree = {"fitted": writer.plain(fitted, "")}
    # What was fitted is never trained again. What it started from may be, so its file says which
    # parameters that leaves alone.
    start = fitted.spec.representation
    frozen = []
    for name, parameter in start.named_parameters():
        if not parameter.requires_grad:
            frozen.append(name)
    tree["frozen"] = frozen
    return Packed(tree, writer.tensors, writer.own)


class _Writer:
    """Gives plain values and keeps tensors by their places."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.own: dict[str, Any] = {}
        # (root, id of a module) -> the place at which it came first
        self.places: dict[tuple[str, int], str] = {}

    def plain(self, value: Any, place: str) -> Any:
        """What JSON can hold of a value."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            number = float(value)
            # JSON has no NaN and no infinity, so their names stand for them.
            return number if math.isfinite(number) else str(number)
        if isinstance(value, tuple | list):
            members = {str(number): member for number, member in enumerate(value)}
            return list(self._plain_values(members, place).values())
        if isinstance(value, nn.Module):
            # What is shared stays shared, or its copies would be trained apart.
            module = (root(place), id(value))
            first = self.places.setdefault(module, place)
            if first != place:
                return {"class": SAME, "place": first}
        name = NAMES.get(type(value))  # of the very class: a subclass may do anything
        if name is None:
            return self._own(value, place)
        return {"class": name, **self._pieces(value, place)}

    def _pieces(self, part: Any, place: str) -> Plain:
        made = type(part)
        if made in CONTAINERS:
            members = part._modules  # `named_children` leaves out what comes twice
            return {"members": self._plain_values(members, place)}
        if made in LAYERS:
            self._keep(part.state_dict(), place)
            return self._plain_values(_changed_settings(part), place)
        values = values_of(part)
        tensors = {name: values.pop(name) for name in tensors_of(FORMS[made])}
        self._keep(tensors, place)
        return self._plain_values(values, place)

    def _plain_values(self, values: Mapping[str, Any], place: str) -> Plain:
        plain = {}
        for name, value in values.items():
            plain[name] = self.plain(value, within(place, name))
        return plain

    def _own(self, part: Any, place: str) -> Plain:
        """The name of a part whose class is not ours; its tensors are kept."""
        if isinstance(part, nn.Module):
            _refuse_scikit_learn(part)
            self._keep(part.state_dict(), place)
        elif hasattr(part, "transform"):
            raise InputError(
                f"the test holds the scikit-learn transformer {part!r}, which only pickle could "
                "keep, so it cannot be saved. Keep the samples and fit it again, or give Features "
                "a torch module."
            )
        # An objective may be a function, which has a name of its own.
        name = getattr(part, "__name__", type(part).__name__)
        self.own[name] = part
        # The module is for the message of a reader who lacks the part; nothing imports it.
        module = getattr(part, "__module__", "")
        return {"class": OWN, "name": name, "module": str(module)}

    def _keep(self, tensors: Mapping[str, Any], place: str) -> None:
        for name, tensor in tensors.items():
            where = within(place, name)
            if not isinstance(tensor, Tensor):
                raise InputError(
                    f"{where} is a {type(tensor).__name__}, and only tensors can be saved."
                )
            if is_lazy(tensor):
                raise InputError(
                    f"{where} has no size yet, so it cannot be saved; build the network with its "
                    "sizes."
                )
            values = tensor.detach().cpu()
            # A copy of its own, since parts may share memory.
            self.tensors[where] = values.clone(memory_format=torch.contiguous_format)


def _changed_settings(layer: nn.Module) -> dict[str, Any]:
    """The settings of a layer that are not the defaults, which another torch need not know."""
    settings = {}
    for name, default in SETTINGS[type(layer)].items():
        value = getattr(layer, name)
        if name == "bias":  # the constructor takes true or false, and the layer has a parameter
            value = value is not None
        if value != default:
            settings[name] = value
    return settings


def _refuse_scikit_learn(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, SklearnClassifier):
            raise InputError(
                f"the test holds the scikit-learn model {part.estimator!r}, which only pickle "
                "could keep, so it cannot be saved. Keep the samples and fit it again, or use a "
                "network: leave out `classifier`."
            )
