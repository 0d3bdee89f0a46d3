"""A fitted test from its pieces, which anybody may have altered.

A value that does not fit its type, a class without a form, a tensor that no part asks for: each is
an `InputError`. So what is read decides neither what is imported nor what is called, and no number
in it decides how much memory is taken.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .._data.samples import Scaling
from .._data.schema import Schema
from .._kernels import Embedding
from .._objectives import Objective
from .._two_sample import FittedTest
from .._views import Views
from ..errors import InputError
from .forms import (
    CONTAINERS,
    FORMS,
    LAYERS,
    MODULES,
    OBJECTIVES,
    OWN,
    SAME,
    SETTINGS,
    WHOLE,
    Positive,
    class_named,
    is_tensor,
    plain_type,
    root,
    tensors_of,
    within,
)

_DEEPEST = 40  # levels of parts within parts
_AFFORDABLE = 2**23  # values of a point, times the features or channels that a network makes of it
_LONGEST_SHOWN = 60  # characters of a file in a message


Tensors: TypeAlias = Mapping[str, Tensor]
"""Place -> the tensor of that place."""

Pieces: TypeAlias = dict[str, Any]
"""What a file says of a part, without its class."""


def unpack(tree: Any, tensors: Tensors, own: Mapping[str, Any]) -> FittedTest:
    """Put a fitted test together; an `InputError` says which of the pieces do not fit, and how."""
    reader = _Reader(tensors, own)
    if type(tree) is not dict:
        raise InputError(f"the test is {_shown(tree)}.")
    _check_keys(tree, {"fitted", "frozen"}, "")
    fitted: FittedTest = reader.value(tree["fitted"], FittedTest, "")
    if reader.tensors:
        unasked = min(reader.tensors)
        raise InputError(f"no part asks for the tensor {_shown(unasked)}.")
    fitted.representation.eval().requires_grad_(False)
    frozen = reader.value(tree["frozen"], tuple[str, ...], "frozen")
    _freeze(fitted.spec.representation, frozen)
    _check_fitted(fitted, only_ours=not reader.own_used)
    return fitted


def _freeze(start: nn.Module, frozen: tuple[str, ...]) -> None:
    """Leave what a test starts from ready for training, but for the parameters that are frozen."""
    start.train()
    parameters = dict(start.named_parameters())
    unknown = set(frozen) - set(parameters)
    if unknown:
        # The least of them, so that the message does not depend on the order of a set.
        first = _shown(min(unknown))
        raise InputError(f"no part has the parameter {first}, which is to be frozen.")
    for name, parameter in parameters.items():
        parameter.requires_grad_(name not in frozen)


def words(error: Exception) -> str:
    """The first line of a foreign message."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror  # without the number and the path, which our messages have
    lines = text.strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    return line[:200].rstrip(" .:")


class _Reader:
    """Gives values of the types that forms ask for.

    What does not fit is an `InputError` that names the place.
    """

    def __init__(self, tensors: Tensors, own: Mapping[str, Any]) -> None:
        self.tensors = dict(tensors)  # those that no part has asked for yet
        self.own = own
        self.modules: dict[str, nn.Module] = {}  # by place, as far as the file has been read
        self.own_used = False

    def value(self, data: Any, hint: Any, place: str) -> Any:
        """The value of type `hint` that `data`, or the tensor of this place, stands for."""
        if place.count(".") > _DEEPEST:  # or Python's own limit would end this in another way
            raise InputError(f"parts lie more than {_DEEPEST} deep in each other.")
        origin = get_origin(hint)
        options = get_args(hint)
        if origin in (Union, UnionType):
            return self._any_of(data, options, place)
        if origin is Literal:
            known = type(data) in (str, int) and data in options
            listed = ", ".join(map(str, options))
            return _checked(data, known, f"one of {listed}", place)
        if origin is tuple:
            return self._tuple(data, options, place)
        if hint in _PLAIN:
            return _PLAIN[hint](data, place)
        if is_tensor(hint):
            # An annotation has the type first, then the numbers of dimensions.
            whole = WHOLE in options
            dimensions = tuple(number for number in options[1:] if number != WHOLE)
            return self._tensor(place, dimensions=dimensions, whole=whole)
        return self._part(data, hint, place)

    def _any_of(self, data: Any, options: tuple[Any, ...], place: str) -> Any:
        if data is None and NoneType in options:
            return None
        *others, last = [option for option in options if option is not NoneType]
        for option in others:
            with suppress(InputError):
                return self.value(data, option, place)
        return self.value(data, last, place)  # whose message is the one to show

    def _tuple(self, data: Any, options: tuple[Any, ...], place: str) -> tuple[Any, ...]:
        _checked(data, type(data) is list, "a list", place)
        hints = list(options)
        if options[-1] is ...:  # as in tuple[int, ...], of any length
            hints = [options[0]] * len(data)
        right_length = len(data) == len(hints)
        _checked(data, right_length, f"a list of {len(hints)}", place)
        members = []
        for number, hint in enumerate(hints):
            member_place = within(place, str(number))
            members.append(self.value(data[number], hint, member_place))
        return tuple(members)

    def _tensor(
        self,
        place: str,
        like: Tensor | None = None,
        dimensions: tuple[int, ...] = (),
        whole: bool = False,
    ) -> Tensor:
        """The tensor of a place, like another one or of so many dimensions where that is said."""
        if place not in self.tensors:
            raise InputError(f"the tensor {place} is missing.")
        # A copy lies where torch puts its tensors: sums depend on alignment.
        tensor = self.tensors.pop(place).clone()
        # Batch normalisations count batches in whole numbers.
        is_float = not whole if like is None else like.is_floating_point()
        right_kind = (
            tensor.dtype == torch.int64 if whole else tensor.is_floating_point() == is_float
        )
        if not _is_meant(tensor, place).all() or not right_kind:
            raise InputError(
                f"the tensor {place} holds what are no numbers, or numbers of another kind."
            )
        right_dimensions = not dimensions or tensor.ndim in dimensions
        right_shape = like is None or tensor.shape == like.shape
        if not (right_dimensions and right_shape):
            raise InputError(
                f"the tensor {place} has the shape {tuple(tensor.shape)}, which is not one of its "
                "part."
            )
        return tensor

    def _part(self, data: Any, hint: Any, place: str) -> Any:
        is_part = type(data) is dict and type(data.get("class")) is str
        _checked(data, is_part, "a part with a class", place)
        name = data["class"]
        pieces = {key: piece for key, piece in data.items() if key != "class"}
        if name == SAME:
            return self._same(pieces, hint, place)
        if name == OWN:
            part = self._own(pieces, hint, place)
        elif (made := class_named(name, hint)) is not None:
            # `Objective` is a protocol, which says nothing about classes.
            allowed = OBJECTIVES if hint is Objective else hint
            right = issubclass(made, allowed)
            _checked(name, right, f"of the type {hint.__name__}", place)
            part = self._made(made, pieces, place)
        else:
            raise InputError(
                f"at {place or 'the top'}: this version of twosample has no class {_shown(name)}."
            )
        if isinstance(part, nn.Module):
            self.modules[place] = part
        return part

    def _made(self, made: type, pieces: Pieces, place: str) -> Any:
        if made in CONTAINERS:
            return self._container(made, pieces, place)
        if made in LAYERS:
            return self._layer(made, pieces, place)
        if made in MODULES:
            return self._module(made, pieces, place)
        return self._record(made, pieces, place)

    def _same(self, pieces: Pieces, hint: Any, place: str) -> nn.Module:
        """A module that has been read already, at another place."""
        _check_keys(pieces, {"place"}, place)
        other = pieces["place"]
        # Only a place that comes before, so that no part can be within itself.
        known = (
            type(other) is str
            and root(other) == root(place)
            and isinstance(self.modules.get(other), hint)
        )
        _checked(other, known, f"the place of a {hint.__name__} that comes before it", place)
        return self.modules[other]

    def _record(self, made: Any, pieces: Pieces, place: str) -> Any:
        """A record. A field that is not there, as in older files, has its default."""
        form = FORMS[made]
        tensors = tensors_of(form)
        needed = set()
        for field in dataclasses.fields(made):
            if field.default is dataclasses.MISSING:
                needed.add(field.name)
        _check_keys(pieces, set(form) - tensors, place, needed=needed - tensors)
        present = [name for name in form if name in pieces or name in tensors]
        values = self._attributes(present, made, pieces, place)
        return made(**values)

    def _attributes(
        self, names: Iterable[str], made: Any, pieces: Pieces, place: str
    ) -> dict[str, Any]:
        """The values of these attributes of a class; those of tensors are not among the pieces."""
        form = FORMS[made]
        values = {}
        for name in names:
            values[name] = self.value(pieces.get(name), form[name], within(place, name))
        return values

    def _module(self, made: Any, pieces: Pieces, place: str) -> nn.Module:
        """A module of ours: as its constructor leaves it, then with the attributes of its form.

        The constructor gets only what it cannot do without, so no size in a file is acted on.
        """
        form = FORMS[made]
        _check_keys(pieces, set(form) - tensors_of(form), place)
        values = self._attributes(form, made, pieces, place)
        needed = {}
        for name, default in SETTINGS[made].items():
            if default is inspect.Parameter.empty:
                needed[name] = values[name]
        module: nn.Module = made(**needed)
        for name, value in values.items():
            # A tensor of a file is only values; what can be trained is a parameter.
            is_parameter = plain_type(form[name]) is nn.Parameter
            attribute = nn.Parameter(value) if is_parameter else value
            setattr(module, name, attribute)
        return module

    def _container(self, made: Any, pieces: Pieces, place: str) -> nn.Module:
        _check_keys(pieces, {"members"}, place)
        members = pieces["members"]
        _checked(members, type(members) is dict, "an object", place)
        container: nn.Module = made()
        for name, member in members.items():
            module = self.value(member, nn.Module, within(place, name))
            container.add_module(name, module)
        return container

    def _layer(self, made: Any, pieces: Pieces, place: str) -> nn.Module:
        """A layer of torch, made where sizes take no memory; its weights are those of the file."""
        _check_keys(pieces, set(SETTINGS[made]), place, needed=set())
        settings = {}
        for name, setting in pieces.items():
            # JSON has no tuples, which torch takes for sizes.
            settings[name] = tuple(setting) if type(setting) is list else setting
        try:
            with torch.device("meta"):
                layer: nn.Module = made(**settings)
        except Exception as error:
            raise InputError(
                f"at {place}: torch makes no {made.__name__} of that ({words(error)})."
            ) from error
        state = {}
        for name, like in layer.state_dict().items():
            state[name] = self._tensor(within(place, name), like)
        # Assigned, not copied: there is no memory yet to copy into.
        layer.load_state_dict(state, assign=True)
        return layer

    def _own(self, pieces: Pieces, hint: Any, place: str) -> Any:
        """A part whose class is not ours: the one that was given, with the saved tensors."""
        _check_keys(pieces, {"name", "module"}, place)
        name = _string(pieces["name"], place)
        module = _string(pieces["module"], place)
        if name not in self.own:
            raise InputError(
                f"its {place} is of the class {_shown(name)} of the module {_shown(module)}, whose "
                "code is not in the file. Build one as it was and give it: "
                f"twosample.load(path, parts={{{_shown(name)}: ...}})."
            )
        self.own_used = True  # then nobody knows which points it takes, and shapes go unchecked
        given = self.own[name]
        # A copy for each place: parts that were apart when they were saved stay apart.
        part = given() if isinstance(given, type) else copy.deepcopy(given)
        right = callable(part) if hint is Objective else isinstance(part, hint)
        if not right:
            raise InputError(
                f"parts[{name!r}] is a {type(part).__name__}, but its {place} must be a "
                f"{hint.__name__}."
            )
        if isinstance(part, nn.Module):
            self._fill(part, name, place)
        return part

    def _fill(self, module: nn.Module, name: str, place: str) -> None:
        """Put the tensors of a place into a module that was given."""
        prefix = f"{place}."
        mine = [key for key in self.tensors if key.startswith(prefix)]
        state = {key.removeprefix(prefix): self.tensors.pop(key) for key in mine}
        try:
            module.load_state_dict(state)
        except RuntimeError as error:
            # The first line of torch only says that it failed, the others say where.
            _, _, where = str(error).partition("\n")
            why = " ".join(where.split())
            raise InputError(
                f"parts[{name!r}] is not like the {name} that was saved as its {place}; build it "
                f"as that one was. ({why[:300]})"
            ) from error


def _is_meant(tensor: Tensor, place: str) -> Tensor:
    """Where a tensor holds numbers, or what takes the place of one in an attribute of that name."""
    right = torch.isfinite(tensor)
    name = place.rpartition(".")[2]
    if name in ("log_bandwidth", "log_width"):
        right |= tensor.isnan()  # a scale that is open
    if name == "log_weights":
        right |= tensor == -math.inf  # a weight of zero
    return right


def _checked(data: Any, right: bool, expected: str, place: str) -> Any:
    """The data, if they are `right`."""
    if not right:
        raise InputError(f"at {place or 'the top'}: {_shown(data)} is not {expected}.")
    return data


def _check_keys(
    data: Pieces, known: set[str], place: str, *, needed: set[str] | None = None
) -> None:
    """Refuse keys that are not `known`, and the lack of any that is `needed`; None means all."""
    where = place or "the top"
    unknown = set(data) - known
    if unknown:
        first = _shown(min(unknown))
        raise InputError(f"at {where}: this version of twosample does not know {first}.")
    if needed is None:
        needed = known
    missing = needed - set(data)
    if missing:
        raise InputError(f"at {where}: {min(missing)!r} is missing.")


def _shown(data: Any) -> str:
    """What a file holds, short enough for a message."""
    if not isinstance(data, str | float | int | None):
        return f"a {type(data).__name__}"
    text = repr(data)
    if len(text) > _LONGEST_SHOWN:
        return f"{text[: _LONGEST_SHOWN - 3]}..."
    return text


def _truth(data: Any, place: str) -> Any:
    # Types are compared, not asked for by isinstance: True is an int, too.
    return _checked(data, type(data) is bool, "true or false", place)


def _string(data: Any, place: str) -> Any:
    return _checked(data, type(data) is str, "a string", place)


def _whole(data: Any, place: str) -> Any:
    # Torch's sizes are 64 bits wide; JSON has numbers of any length.
    is_whole = type(data) is int and abs(data) < 2**63
    return _checked(data, is_whole, "a whole number", place)


def _number(data: Any, place: str) -> Any:
    if type(data) is str and data in ("nan", "inf", "-inf"):
        return float(data)
    # A whole number beyond the largest float could not become one.
    is_number = type(data) in (int, float) and abs(data) < 1e308
    return _checked(data, is_number, "a number", place)


def _positive(data: Any, place: str) -> Any:
    number = _number(data, place)
    return _checked(data, 0 < number < math.inf, "a positive number", place)


_Check: TypeAlias = Callable[[Any, str], Any]
_PLAIN: Mapping[Any, _Check] = MappingProxyType(
    {
        bool: _truth,
        str: _string,
        int: _whole,
        float: _number,
        Positive: _positive,
    }
)


# What forms do not say.


def _check_fitted(fitted: FittedTest, *, only_ours: bool) -> None:
    """Refuse a test whose parts are each in order but do not fit each other."""
    _check_schema(fitted.schema)
    _check_scaling(fitted.scaling, fitted.schema)
    if fitted.train_sizes is not None:
        fewest = min(fitted.train_sizes)
        if fewest < 1:
            raise InputError(f"{fewest} points to train on are too few.")
    # The constructor of a test has checked what it starts from, not what was fitted.
    representation = fitted.representation
    statistic = fitted.spec.statistic
    statistic.check(representation)
    fitted.spec.calibration.check(statistic, representation)
    if isinstance(representation, Views):
        _check_views(representation, fitted.schema, only_ours=only_ours)
    elif only_ours:
        _check_shapes(representation, fitted.schema)


def _check_schema(schema: Schema) -> None:
    names = [column.name for column in schema.columns]
    right = _all_differ(names)
    for column in schema.columns:
        has_levels = column.kind == "category" or not column.levels
        right &= _all_differ(column.levels) and has_levels and math.isfinite(column.fill)
    shape = schema.shape
    if schema.kind == "table":
        right &= len(names) > 0 and schema.pixels == ""
        right &= shape == (len(schema.features),)
    else:
        right &= not names and schema.pixels != ""
        right &= len(shape) == 3 and min(shape) > 0  # channels, height, width
    if not right:
        raise InputError("its columns, or the shape of its images, contradict each other.")


def _all_differ(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _check_scaling(scaling: Scaling, schema: Schema) -> None:
    expected = schema.shape if schema.kind == "table" else ()  # one scale for all pixels
    for tensor in (scaling.shift, scaling.scale):
        shape = tuple(tensor.shape)
        if shape != expected or tensor.dtype != torch.float64:
            raise InputError(
                f"its scaling has the shape {shape}; it must be {expected}, in float64."
            )
    if not (scaling.scale > 0).all():
        raise InputError("its scaling has a scale that is not positive.")


def _check_views(views: Views, schema: Schema, *, only_ours: bool) -> None:
    """Let views look at two points, of which only the shape matters."""
    if views.schema != schema:
        raise InputError("its views are made for other columns than it has.")
    # A point of a size that a file chooses may not fit into memory.
    if not only_ours or math.prod(schema.shape) >= _AFFORDABLE:
        return
    try:
        views.check()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"its views do not fit its columns ({words(error)}).") from error


def _check_shapes(seen: nn.Module, schema: Schema) -> None:
    """Send two points through it, of which only the shape matters."""
    tensors = dict((*seen.named_parameters(), *seen.named_buffers()))
    if any(tensor.isnan().any() for tensor in tensors.values()):
        raise InputError("a scale of it was left open, so it was never fitted.")
    widths = [len(tensor) for tensor in tensors.values() if tensor.ndim > 1]
    widest = max(widths, default=1)
    # Points of a size that a file chooses go where they have no content and take no memory. Torch
    # needs a second to get ready for that, so others do not.
    values_made = math.prod(schema.shape) * widest
    device = "cpu" if values_made < _AFFORDABLE else "meta"
    # A kernel asks for the values of these few numbers, so they keep their content.
    asked_for = ("log_bandwidth", "log_weights")
    moved = {}
    for name, tensor in tensors.items():
        if not name.endswith(asked_for):
            moved[name] = tensor.to(device)
    try:
        points = torch.zeros(2, *schema.shape, device=device)
        arguments = (points, points) if isinstance(seen, Embedding) else (points,)
        with torch.no_grad():
            values = functional_call(seen, moved, arguments)
    except Exception as error:
        raise InputError(
            f"its parts do not fit each other, or not its columns ({words(error)})."
        ) from error
    if device == "cpu" and not torch.isfinite(values).all():
        raise InputError("it gives values that are not finite.")
