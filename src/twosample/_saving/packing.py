"""A fitted test to pieces: plain values that JSON can hold, and tensors by their places."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

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


class Packed(NamedTuple):
    """A fitted test in pieces.

    `own` has the parts of classes that are not ours, by name: `unpack` has to be given them again.
    """

    tree: dict[str, Any]  # what JSON can hold
    tensors: dict[str, Tensor]
    own: dict[str, Any]


def pack(fitted: FittedTest) -> Packed:
    """Take a fitted test to pieces."""
    writer = _Writer()
    tree = {"fitted": writer.plain(fitted, "")}
    start = fitted.spec.representation
    tree["frozen"] = [name for name, each in start.named_parameters() if not each.requires_grad]
    return Packed(tree, writer.tensors, writer.own)


class _Writer:
    """Gives plain values and keeps tensors by their places."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.own: dict[str, Any] = {}
        self.places: dict[tuple[str, int], str] = {}

    def plain(self, value: Any, place: str) -> Any:
        """What JSON can hold of a value."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, tuple | list):
            return [
                self.plain(member, within(place, str(number)))
                for number, member in enumerate(value)
            ]
        if isinstance(value, nn.Module):
            # What is shared stays shared, or its copies would be trained apart.
            first = self.places.setdefault((root(place), id(value)), place)
            if first != place:
                return {"class": SAME, "place": first}
        if type(value) not in NAMES:
            return self._own(value, place)
        return {"class": NAMES[type(value)], **self._pieces(value, place)}

    def _pieces(self, part: Any, place: str) -> dict[str, Any]:
        if type(part) in CONTAINERS:
            members = part._modules  # `named_children` leaves out what comes twice
            return {"members": self._plain_values(members, place)}
        if type(part) in LAYERS:
            self._keep(part.state_dict(), place)
            return self._plain_values(_changed_settings(part), place)
        values = values_of(part)
        tensors = tensors_of(FORMS[type(part)])
        self._keep({name: values.pop(name) for name in tensors}, place)
        return self._plain_values(values, place)

    def _plain_values(self, values: Mapping[str, Any], place: str) -> dict[str, Any]:
        return {name: self.plain(value, within(place, name)) for name, value in values.items()}

    def _own(self, part: Any, place: str) -> dict[str, Any]:
        """The name of a part whose class is not ours; its tensors are kept."""
        if isinstance(part, nn.Module):
            _refuse_scikit_learn(part)
            self._keep(part.state_dict(), place)
        name = getattr(part, "__name__", type(part).__name__)
        self.own[name] = part
        return {"class": OWN, "name": name, "module": str(getattr(part, "__module__", ""))}

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
            # A copy of its own, since parts may share memory.
            self.tensors[where] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


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
