"""The form of every part: how a fitted test becomes plain values and tensors, and a fitted test again.

A fitted test is a tree of parts, and each part has a form: its attributes and their types. `pack`
walks the tree and gives plain values for a JSON header and tensors by their places. `unpack` walks
the same forms. A value that does not fit its type, a class without a form, a tensor that no part
asks for: each is an `InputError`. So what is read decides neither what is imported nor what is
called, and no number in it decides how much memory is taken.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from numbers import Integral, Real
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from .._calibration import Asymptotic, PairSwap, Permutation, Spectral
from .._data.columns import Columns
from .._data.samples import Column, Scaling, Schema
from .._featurizers import (
    MLP,
    AutoFeaturizer,
    Bounded,
    Classifier,
    ConvNet,
    Frozen,
    MeanEmbedding,
    ResidualMLP,
    SklearnClassifier,
    SmoothCharacteristic,
)
from .._kernels import (
    ARDGaussian,
    DeepKernel,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Linear,
    OnFeatures,
    Probability,
    Sign,
    WeightedSum,
)
from .._learning import Learning
from .._objectives import CrossEntropy, MeanDiscrepancy, Noncentrality, Objective, PowerCriterion
from .._result import TrainingLog
from .._statistics import MMD, BlockMMD, CompressedMMD, HotellingT2
from .._two_sample import FittedTest, TwoSampleTest
from ..errors import InputError

_DEEPEST = 40  # levels of parts within parts
_AFFORDABLE = 2**23  # values of a point, times the features or channels that a network makes of it
# In place of a class: that of the part is not ours; the part is that of another place.
_OWN, _SAME = "own", "same"

Form = Mapping[str, Any]
Positive = Annotated[float, "positive"]
# Tensors with the numbers of dimensions they may have; one that is yet to get its size is an empty
# vector.
Scalar, Vector = Annotated[nn.Parameter, 0], Annotated[nn.Parameter, 1]
Matrix, Points = Annotated[nn.Parameter, 1, 2], Annotated[nn.Parameter, 1, 2, 4]
ScalarBuffer, VectorBuffer = Annotated[Tensor, 0], Annotated[Tensor, 1]
_RADIAL: Form = {"factor": Positive, "log_bandwidth": Scalar}

MODULES: Mapping[type[nn.Module], Form] = MappingProxyType(
    {
        Gaussian: _RADIAL,
        InverseMultiquadric: _RADIAL,
        Laplace: _RADIAL,
        ARDGaussian: {"kernel": Gaussian, "log_widths": Vector},
        Linear: {},
        Sign: {},
        Probability: {},
        OnFeatures: {"featurizer": nn.Module, "kernel": Kernel},
        DeepKernel: {"featurizer": nn.Module, "kappa": Kernel, "q": Kernel, "logit_eps": Scalar},
        WeightedSum: {"kernels": nn.ModuleList, "log_weights": Vector},
        MLP: {
            "inputs": int | None,
            "width": int | None,
            "layers": int,
            "gain": Positive,
            "maps": nn.ModuleList,
            "fresh": bool,
        },
        ResidualMLP: {"mlp": MLP, "log_widths": Vector, "out": Matrix},
        ConvNet: {
            "shape": tuple[int, int, int] | None,
            "width": int,
            "channels": tuple[int, ...],
            "normalisation": Literal["frozen", "batch"],
            "ranks": bool,
            "levels": VectorBuffer,
            "body": nn.Sequential,
            "head": nn.Module,
            "fresh": bool,
        },
        Classifier: {"featurizer": nn.Module | None, "head": nn.Module | None},
        AutoFeaturizer: {"residual": bool, "network": nn.Module | None},
        Frozen: {"network": nn.Module},
        Bounded: {"featurizer": nn.Module, "scale": ScalarBuffer},
        MeanEmbedding: {
            "locations": Points,
            "kernel": Kernel,
            "fixed": bool,
            "select": bool,
            "count": int,
            "given": bool,
            "chosen": tuple[int, ...],
            "_median": float,
        },
        SmoothCharacteristic: {
            "frequencies": Matrix,
            "log_width": Scalar,
            "count": int,
            "given": bool,
            "_open": bool,
            "_usual": float,
        },
    }
)
"""Every attribute of our modules, by class."""

_OBJECTIVES = (PowerCriterion, MeanDiscrepancy, CrossEntropy, Noncentrality)
_STATISTICS = (MMD, BlockMMD, CompressedMMD, HotellingT2)
# In files the three MMDs have one class, as they had when the first files were written.
_MMD: Form = {
    "estimator": Literal["unbiased", "biased", "paired", "block", "compressed"],
    "alternative": Literal["two-sided", "greater"],
    "block_size": int | None,
    "landmarks": int | None,
}
_CALIBRATIONS = (Permutation, PairSwap, Asymptotic, Spectral)
_OTHERS = (FittedTest, TwoSampleTest, Learning, Schema, Column, Columns, Scaling, TrainingLog)
RECORDS: tuple[type, ...] = (*_OBJECTIVES, *_STATISTICS, *_CALIBRATIONS, *_OTHERS)
"""Parts whose form is that of their fields."""

_CONTAINERS = (nn.ModuleList, nn.Sequential)
_NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
_ACTIVATIONS = (nn.ELU, nn.GELU, nn.LeakyReLU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Tanh)
_POOLING = (nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.MaxPool2d)
_MAPS = (nn.Conv1d, nn.Conv2d, nn.Dropout, nn.Flatten, nn.Identity, nn.Linear, nn.Unflatten)
LAYERS: tuple[type[nn.Module], ...] = (*_MAPS, *_NORMALISATIONS, *_ACTIVATIONS, *_POOLING)
"""Parts of torch's, whose form is the signature of their constructor."""

_OURS: tuple[type, ...] = (*MODULES, *RECORDS)
_OF_TORCH: tuple[type, ...] = (*_CONTAINERS, *LAYERS)
_CLASSES: Mapping[str, type] = MappingProxyType(
    {made.__name__: made for made in _OURS if made not in (BlockMMD, CompressedMMD)}
    | {f"nn.{made.__name__}": made for made in _OF_TORCH}
)
_NAMES = {made: name for name, made in _CLASSES.items()} | {BlockMMD: "MMD", CompressedMMD: "MMD"}


def _fields(made: Any) -> Form:
    hints = get_type_hints(made)
    return {field.name: hints[field.name] for field in dataclasses.fields(made)}


def _settings(made: type[nn.Module]) -> Form:
    """What a constructor takes, with the defaults; `inspect.Parameter.empty` where there is none."""
    return {
        name: setting.default
        for name, setting in inspect.signature(made).parameters.items()
        if setting.kind in (setting.POSITIONAL_OR_KEYWORD, setting.KEYWORD_ONLY)
        and name not in ("device", "dtype")
    }


_FORMS: Mapping[type, Form] = MappingProxyType(
    {
        **MODULES,
        **{made: _fields(made) for made in RECORDS},
        **dict.fromkeys((MMD, BlockMMD, CompressedMMD), _MMD),
    }
)
_SETTINGS: Mapping[type, Form] = MappingProxyType(
    {made: _settings(made) for made in (*MODULES, *LAYERS)}
)


def _spelled(part: object) -> dict[str, Any] | None:
    """What a file says of an MMD; None for any other part."""
    spelling: dict[str, Any] = dict.fromkeys(_MMD)
    if isinstance(part, MMD):
        return spelling | {"estimator": part.estimator, "alternative": part.alternative}
    spelling["alternative"] = "two-sided"
    if isinstance(part, BlockMMD):
        return spelling | {"estimator": "block", "block_size": part.block_size}
    if isinstance(part, CompressedMMD):
        return spelling | {"estimator": "compressed", "landmarks": part.landmarks}
    return None


class Packed(NamedTuple):
    """A fitted test in pieces."""

    tree: dict[str, Any]  # what JSON can hold
    tensors: dict[str, Tensor]
    own: dict[
        str, Any
    ]  # parts of classes that are not ours, by name: what `unpack` has to be given again


def pack(fitted: FittedTest) -> Packed:
    """Take a fitted test to pieces."""
    writer = _Writer()
    start = fitted.spec.representation
    frozen = [name for name, parameter in start.named_parameters() if not parameter.requires_grad]
    return Packed(
        {"fitted": writer.plain(fitted, ""), "frozen": frozen}, writer.tensors, writer.own
    )


def unpack(tree: Any, tensors: Mapping[str, Tensor], own: Mapping[str, Any]) -> FittedTest:
    """Put a fitted test together; an `InputError` says which of the pieces do not fit, and how."""
    reader = _Reader(tensors, own)
    if type(tree) is not dict:
        raise InputError(f"the test is {_shown(tree)}.")
    _check_keys(tree, {"fitted", "frozen"}, "")
    fitted: FittedTest = reader.value(tree["fitted"], FittedTest, "")
    if reader.tensors:
        raise InputError(f"no part asks for the tensor {_shown(min(reader.tensors))}.")
    fitted.representation.eval().requires_grad_(False)
    start, frozen = (
        fitted.spec.representation.train(),
        reader.value(tree["frozen"], tuple[str, ...], "frozen"),
    )
    if unknown := set(frozen) - {name for name, _ in start.named_parameters()}:
        raise InputError(
            f"no part has the parameter {_shown(min(unknown))}, which is to be frozen."
        )
    for name, parameter in start.named_parameters():
        parameter.requires_grad_(name not in frozen)
    _check_fitted(fitted, only_ours=not reader.own_used)
    return fitted


def _kind(hint: Any) -> Any:
    """The type without what is said about it."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _tensors_of(form: Form) -> set[str]:
    return {name for name, hint in form.items() if _kind(hint) in (Tensor, nn.Parameter)}


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _root(place: str) -> str:
    """What was fitted and what it was fitted from share nothing."""
    return place.partition(".")[0]


def words(error: Exception) -> str:
    """The first line of a foreign message."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = next(iter(text.strip().splitlines()), "") or type(error).__name__
    return line[:200].rstrip(" .:")


# To pieces.


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
                self.plain(each, _within(place, str(number))) for number, each in enumerate(value)
            ]
        if isinstance(
            value, nn.Module
        ):  # what is shared stays shared, or it would be trained apart
            known = self.places.setdefault((_root(place), id(value)), place)
            if known != place:
                return {"class": _SAME, "place": known}
        if type(value) not in _NAMES:
            return self._own(value, place)
        return {"class": _NAMES[type(value)], **self._pieces(value, place)}

    def _pieces(self, part: Any, place: str) -> dict[str, Any]:
        made = type(part)
        if made in _CONTAINERS:
            members = part._modules.items()  # `named_children` leaves out what comes twice
            return {
                "members": {name: self.plain(each, _within(place, name)) for name, each in members}
            }
        if made in LAYERS:
            self._keep(part.state_dict(), place)
            settings = {name: getattr(part, name) for name in _SETTINGS[made]}
            if (
                "bias" in settings
            ):  # a layer has the parameter where its constructor takes true or false
                settings["bias"] = settings["bias"] is not None
            # Not the defaults: another version of torch need not know all of them.
            settings = {
                name: value for name, value in settings.items() if value != _SETTINGS[made][name]
            }
            return {
                name: self.plain(value, _within(place, name)) for name, value in settings.items()
            }
        tensors = _tensors_of(_FORMS[made])
        self._keep({name: getattr(part, name) for name in tensors}, place)
        rest = [name for name in _FORMS[made] if name not in tensors]
        values = _spelled(part) or {name: getattr(part, name) for name in rest}
        return {name: self.plain(values[name], _within(place, name)) for name in rest}

    def _own(self, part: Any, place: str) -> dict[str, Any]:
        """The name of a part whose class is not ours, and the tensors that it has."""
        if isinstance(part, nn.Module):
            _refuse_scikit_learn(part)
            self._keep(part.state_dict(), place)
        name = getattr(part, "__name__", type(part).__name__)
        self.own[name] = part
        return {"class": _OWN, "name": name, "module": str(getattr(part, "__module__", ""))}

    def _keep(self, tensors: Mapping[str, Any], place: str) -> None:
        for name, tensor in tensors.items():
            where = _within(place, name)
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


def _refuse_scikit_learn(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, SklearnClassifier):
            raise InputError(
                f"the test holds the scikit-learn model {part.estimator!r}, which only pickle "
                "could keep, so it cannot "
                "be saved. Keep the samples and fit it again, or use a network: leave out "
                "`classifier`."
            )


# Together again.


class _Reader:
    """Gives values of the types that forms ask for; what does not fit is an `InputError` that names the place."""

    def __init__(self, tensors: Mapping[str, Tensor], own: Mapping[str, Any]) -> None:
        self.tensors, self.own = dict(tensors), own
        self.modules: dict[str, nn.Module] = {}
        self.own_used = False

    def value(self, data: Any, hint: Any, place: str) -> Any:
        """The value of type `hint` that `data`, or the tensor of this place, stands for."""
        if place.count(".") > _DEEPEST:
            raise InputError(f"parts lie more than {_DEEPEST} deep in each other.")
        origin, options = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return self._any_of(data, options, place)
        if origin is Literal:
            return _checked(
                data, type(data) is str and data in options, f"one of {', '.join(options)}", place
            )
        if origin is tuple:
            return self._tuple(data, options, place)
        if hint in _PLAIN:
            return _PLAIN[hint](data, place)
        if _kind(hint) in (Tensor, nn.Parameter):
            return self._tensor(place, dimensions=options[1:])
        return self._part(data, hint, place)

    def _any_of(self, data: Any, options: tuple[Any, ...], place: str) -> Any:
        if data is None and NoneType in options:
            return None
        *others, last = (option for option in options if option is not NoneType)
        for option in others:
            with suppress(InputError):
                return self.value(data, option, place)
        return self.value(data, last, place)

    def _tuple(self, data: Any, options: tuple[Any, ...], place: str) -> tuple[Any, ...]:
        _checked(data, type(data) is list, "a list", place)
        kinds = [options[0]] * len(data) if options[-1] is ... else list(options)
        _checked(data, len(data) == len(kinds), f"a list of {len(kinds)}", place)
        pairs = zip(data, kinds, strict=True)
        return tuple(
            self.value(each, kind, _within(place, str(n))) for n, (each, kind) in enumerate(pairs)
        )

    def _tensor(
        self, place: str, like: Tensor | None = None, dimensions: tuple[int, ...] = ()
    ) -> Tensor:
        """The tensor of a place, like another one or of so many dimensions where that is said."""
        if place not in self.tensors:
            raise InputError(f"the tensor {place} is missing.")
        tensor = self.tensors.pop(
            place
        ).clone()  # to where torch puts its tensors: sums depend on alignment
        right, name = torch.isfinite(tensor), place.rpartition(".")[2]
        if name in ("log_bandwidth", "log_width"):
            right |= tensor.isnan()  # a scale that is open
        if name == "log_weights":
            right |= tensor == -math.inf  # a weight of zero
        if not right.all() or tensor.is_floating_point() != (
            like is None or like.is_floating_point()
        ):
            raise InputError(
                f"the tensor {place} holds what are no numbers, or numbers of another kind."
            )
        if (dimensions and tensor.ndim not in dimensions) or (
            like is not None and tensor.shape != like.shape
        ):
            raise InputError(
                f"the tensor {place} has the shape {tuple(tensor.shape)}, which is not one of its "
                "part."
            )
        return tensor

    def _part(self, data: Any, hint: Any, place: str) -> Any:
        _checked(
            data,
            type(data) is dict and type(data.get("class")) is str,
            "a part with a class",
            place,
        )
        name, pieces = data["class"], {key: each for key, each in data.items() if key != "class"}
        if name == _SAME:
            return self._same(pieces, hint, place)
        if name == _OWN:
            part = self._own(pieces, hint, place)
        elif name not in _CLASSES:
            raise InputError(
                f"at {place or 'the top'}: this version of twosample has no class {_shown(name)}."
            )
        else:
            made = _CLASSES[name]
            right = issubclass(made, _OBJECTIVES if hint is Objective else hint)
            _checked(name, right, f"of the type {hint.__name__}", place)
            part = self._made(made, pieces, place)
        if isinstance(part, nn.Module):
            self.modules[place] = part
        return part

    def _made(self, made: type, pieces: dict[str, Any], place: str) -> Any:
        if made in _CONTAINERS:
            return self._container(made, pieces, place)
        if made in LAYERS:
            return self._layer(made, pieces, place)
        return (
            self._module(made, pieces, place)
            if made in MODULES
            else self._record(made, pieces, place)
        )

    def _same(self, pieces: dict[str, Any], hint: Any, place: str) -> nn.Module:
        """A module that has been read already, at another place."""
        _check_keys(pieces, {"place"}, place)
        other = pieces["place"]
        known = (
            type(other) is str
            and _root(other) == _root(place)
            and isinstance(self.modules.get(other), hint)
        )
        _checked(other, known, f"the place of a {hint.__name__} that comes before it", place)
        return self.modules[other]

    def _record(self, made: Any, pieces: dict[str, Any], place: str) -> Any:
        """A record; what is not there has its default, as in files from before there was such a field."""
        form, tensors = _FORMS[made], _tensors_of(_FORMS[made])
        needed = {
            field.name for field in dataclasses.fields(made) if field.default is dataclasses.MISSING
        }
        _check_keys(pieces, set(form) - tensors, place, needed=needed - tensors)
        there = [name for name in form if name in pieces or name in tensors]
        return made(
            **{
                name: self.value(pieces.get(name), form[name], _within(place, name))
                for name in there
            }
        )

    def _module(self, made: Any, pieces: dict[str, Any], place: str) -> nn.Module:
        """A module of ours: as its constructor leaves it without sizes, then with the attributes of its form."""
        form = _FORMS[made]
        _check_keys(pieces, set(form) - _tensors_of(form), place)
        found = {
            name: self.value(pieces.get(name), hint, _within(place, name))
            for name, hint in form.items()
        }
        needed = [
            name for name, default in _SETTINGS[made].items() if default is inspect.Parameter.empty
        ]
        module: nn.Module = made(**{name: found[name] for name in needed})
        for name, hint in form.items():
            setattr(
                module,
                name,
                nn.Parameter(found[name]) if _kind(hint) is nn.Parameter else found[name],
            )
        return module

    def _container(self, made: Any, pieces: dict[str, Any], place: str) -> nn.Module:
        _check_keys(pieces, {"members"}, place)
        _checked(pieces["members"], type(pieces["members"]) is dict, "an object", place)
        container: nn.Module = made()
        for name, member in pieces["members"].items():
            container.add_module(name, self.value(member, nn.Module, _within(place, name)))
        return container

    def _layer(self, made: Any, pieces: dict[str, Any], place: str) -> nn.Module:
        """A layer of torch, made where sizes take no memory; its weights are those of the file."""
        _check_keys(pieces, set(_SETTINGS[made]), place, needed=set())
        settings = {
            name: tuple(each) if type(each) is list else each for name, each in pieces.items()
        }
        try:
            with torch.device("meta"):
                layer: nn.Module = made(**settings)
        except Exception as error:
            raise InputError(
                f"at {place}: torch makes no {made.__name__} of that ({words(error)})."
            ) from error
        state = {
            name: self._tensor(_within(place, name), held)
            for name, held in layer.state_dict().items()
        }
        layer.load_state_dict(state, assign=True)
        return layer

    def _own(self, pieces: dict[str, Any], hint: Any, place: str) -> Any:
        """A part whose class is not ours: the one that was given, with the tensors of the one that was saved."""
        _check_keys(pieces, {"name", "module"}, place)
        name, module = (_PLAIN[str](pieces[key], place) for key in ("name", "module"))
        if name not in self.own:
            raise InputError(
                f"its {place} is of the class {_shown(name)} of the module {_shown(module)}, whose "
                "code is not in the "
                "file. Build one as it was and give it: twosample.load(path, "
                f"parts={{{_shown(name)}: ...}})."
            )
        self.own_used = True
        given = self.own[name]
        part = given() if isinstance(given, type) else copy.deepcopy(given)
        if not (callable(part) if hint is Objective else isinstance(part, hint)):
            raise InputError(
                f"parts[{name!r}] is a {type(part).__name__}, but its {place} must be a "
                f"{hint.__name__}."
            )
        if isinstance(part, nn.Module):
            self._fill(part, name, place)
        return part

    def _fill(self, module: nn.Module, name: str, place: str) -> None:
        """Put the tensors of a place into a module that was given."""
        mine = [key for key in self.tensors if key.startswith(f"{place}.")]
        try:
            module.load_state_dict(
                {key.removeprefix(f"{place}."): self.tensors.pop(key) for key in mine}
            )
        except RuntimeError as error:
            why = " ".join(str(error).partition("\n")[2].split())
            raise InputError(
                f"parts[{name!r}] is not like the {name} that was saved as its {place}; build it "
                "as that one was. "
                f"({why[:300]})"
            ) from error


def _checked(data: Any, right: bool, expected: str, place: str) -> Any:
    if not right:
        raise InputError(f"at {place or 'the top'}: {_shown(data)} is not {expected}.")
    return data


def _check_keys(
    data: dict[str, Any], known: set[str], place: str, *, needed: set[str] | None = None
) -> None:
    """Refuse keys that are not `known` and the lack of those that are `needed`, which are all if not told."""
    if unknown := set(data) - known:
        raise InputError(
            f"at {place or 'the top'}: this version of twosample does not know "
            f"{_shown(min(unknown))}."
        )
    if missing := (known if needed is None else needed) - set(data):
        raise InputError(f"at {place or 'the top'}: {min(missing)!r} is missing.")


def _shown(data: Any) -> str:
    text = repr(data) if isinstance(data, str | float | int | None) else f"a {type(data).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _whole(data: Any, place: str) -> Any:
    return _checked(data, type(data) is int and abs(data) < 2**63, "a whole number", place)


def _number(data: Any, place: str) -> Any:
    if type(data) is str and data in ("nan", "inf", "-inf"):
        return float(data)
    return _checked(data, type(data) in (int, float) and abs(data) < 1e308, "a number", place)


def _positive(data: Any, place: str) -> Any:
    return _checked(data, 0 < _number(data, place) < math.inf, "a positive number", place)


_PLAIN: Mapping[Any, Callable[[Any, str], Any]] = MappingProxyType(
    {
        bool: lambda data, place: _checked(data, type(data) is bool, "true or false", place),
        str: lambda data, place: _checked(data, type(data) is str, "a string", place),
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
    if fitted.train_sizes is not None and min(fitted.train_sizes) < 1:
        raise InputError(f"{min(fitted.train_sizes)} points to train on are too few.")
    fitted.spec.statistic.check(fitted.representation)
    fitted.spec.calibration.check(fitted.spec.statistic, fitted.representation)
    if only_ours:
        _check_shapes(fitted.representation, fitted.schema)


def _check_schema(schema: Schema) -> None:
    names = [column.name for column in schema.columns]
    unique = all(
        len(set(each)) == len(each)
        for each in (names, *(column.levels for column in schema.columns))
    )
    plain = all(
        (column.kind == "category" or not column.levels) and math.isfinite(column.fill)
        for column in schema.columns
    )
    if schema.kind == "table":
        right = len(names) > 0 and schema.shape == (len(schema.features),) and schema.pixels == ""
    else:
        right = (
            not names and len(schema.shape) == 3 and min(schema.shape) > 0 and schema.pixels != ""
        )
    if not (unique and plain and right):
        raise InputError("its columns, or the shape of its images, contradict each other.")


def _check_scaling(scaling: Scaling, schema: Schema) -> None:
    expected = schema.shape if schema.kind == "table" else ()
    for tensor in (scaling.shift, scaling.scale):
        if tuple(tensor.shape) != expected or tensor.dtype != torch.float64:
            raise InputError(
                f"its scaling has the shape {tuple(tensor.shape)}; it must be {expected}, in "
                "float64."
            )
    if not (scaling.scale > 0).all():
        raise InputError("its scaling has a scale that is not positive.")


def _check_shapes(seen: nn.Module, schema: Schema) -> None:
    """Send two points through it, of which only the shape matters."""
    named = dict((*seen.named_parameters(), *seen.named_buffers()))
    if any(tensor.isnan().any() for tensor in named.values()):
        raise InputError("a scale of it was left open, so it was never fitted.")
    widest = max((len(tensor) for tensor in named.values() if tensor.ndim > 1), default=1)
    # Points of a size that a file chooses go where they have no content and take no memory. Torch
    # needs a second to get ready for that, so others do not.
    device = "cpu" if math.prod(schema.shape) * widest < _AFFORDABLE else "meta"
    looked_at = (
        "log_bandwidth",
        "log_weights",
    )  # a kernel asks for the values of these few numbers
    tensors = {
        name: tensor.to(device) for name, tensor in named.items() if not name.endswith(looked_at)
    }
    try:
        points = torch.zeros(2, *schema.shape, device=device)
        with torch.no_grad():
            found = functional_call(
                seen, tensors, (points, points) if isinstance(seen, Kernel) else (points,)
            )
    except Exception as error:
        raise InputError(
            f"its parts do not fit each other, or not its columns ({words(error)})."
        ) from error
    if device == "cpu" and not torch.isfinite(found).all():
        raise InputError("it gives values that are not finite.")
