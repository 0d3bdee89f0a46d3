"""The form of every part: which attributes of it are in a file, and of what types.

A fitted test is a tree of parts. `packing` walks the tree and gives plain values for a JSON header,
and tensors by their places. `unpacking` walks the same forms and builds the parts again. Here are
the forms that both go by, and the closed list of classes that a file may name.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from torch import Tensor, nn

from .._calibration import Asymptotic, Calibration, PairSwap, Permutation, SpectralLimit
from .._data.columns import Columns
from .._data.fingerprint import Fingerprint
from .._data.samples import Scaling
from .._data.schema import Column, Schema
from .._design import Blocks, Groups, Pairs, Rows, Strata
from .._featurizers import (
    MLP,
    AutoFeaturizer,
    Bounded,
    Classifier,
    ConvNet,
    Frozen,
    MeanEmbedding,
    ResidualMLP,
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
    ManhattanLaplace,
    OnFeatures,
    Probability,
    Sign,
    WeightedSum,
)
from .._learning import Learning
from .._objectives import CrossEntropy, MeanDiscrepancy, Noncentrality, PowerCriterion
from .._result import TrainingLog
from .._several import Bandwidths, Several
from .._statistics import (
    MMD,
    BlockMMD,
    CompressedMMD,
    Fused,
    HotellingT2,
    SmallestRank,
    SoftMaximum,
    Spectral,
    Surprise,
)
from .._two_sample import FittedTest, TwoSampleTest
from .._views import (
    Cells,
    Clusters,
    Dependence,
    Family,
    Features,
    Landmarks,
    LandmarksOf,
    Levels,
    Marks,
    Means,
    NormalScores,
    Overall,
    Patches,
    Pixels,
    Positions,
    Products,
    Scatter,
    Shapes,
    Textures,
    Together,
    Tones,
    Values,
    Views,
    Waves,
)

OWN = "own"
"""In place of a class: the class of this part is not ours."""

SAME = "same"
"""In place of a class: this part is the one that stands at another place."""

Attributes: TypeAlias = Mapping[str, Any]
"""Attribute -> its type, or for the layers of torch its default."""

Positive = Annotated[float, "positive"]
# Tensors with the numbers of dimensions they may have. One that is yet to get its size is an empty
# vector.
Scalar = Annotated[nn.Parameter, 0]
Vector = Annotated[nn.Parameter, 1]
Matrix = Annotated[nn.Parameter, 1, 2]
Points = Annotated[nn.Parameter, 1, 2, 4]
ScalarBuffer = Annotated[Tensor, 0]
VectorBuffer = Annotated[Tensor, 1]
MatrixBuffer = Annotated[Tensor, 2]
PointsBuffer = Annotated[Tensor, 2, 4]
StackBuffer = Annotated[Tensor, 3]
FilterBuffer = Annotated[Tensor, 1, 4]
WHOLE = "whole"
"""Says of a tensor that it holds whole numbers."""
Places = Annotated[Tensor, WHOLE, 1]
PlacesMatrix = Annotated[Tensor, WHOLE, 2]
_RADIAL: Attributes = {"factor": Positive, "log_bandwidth": Scalar}

MODULES: Mapping[type[nn.Module], Attributes] = MappingProxyType(
    {
        Gaussian: _RADIAL,
        InverseMultiquadric: _RADIAL,
        Laplace: _RADIAL,
        ManhattanLaplace: _RADIAL,
        ARDGaussian: {"kernel": Gaussian, "log_widths": Vector},
        Linear: {},
        Sign: {},
        Probability: {},
        OnFeatures: {"featurizer": nn.Module, "kernel": Kernel},
        DeepKernel: {"featurizer": nn.Module, "kappa": Kernel, "q": Kernel, "logit_eps": Scalar},
        WeightedSum: {"kernels": nn.ModuleList, "log_weights": Vector},
        Several: {"kernels": nn.ModuleList, "bandwidths": Bandwidths},
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
        Views: {
            "usual": bool,
            "stacks": nn.ModuleList,
            "scores": NormalScores,
            "schema": Schema | None,
        },
        NormalScores: {"knots": MatrixBuffer, "heights": MatrixBuffer},
        Landmarks: {
            "kernel": Literal["gaussian", "laplace"],
            "count": int,
            "family": Family,
            "places": MatrixBuffer,
            "width": ScalarBuffer,
        },
        Scatter: {
            "kernel": Literal["gaussian"],
            "count": int,
            "axes": int,
            "family": Family,
            "places": MatrixBuffer,
            "width": ScalarBuffer,
            "directions": StackBuffer,
        },
        Together: {
            "of": Literal["scores", "ranks", "squares"],
            "projection": MatrixBuffer,
        },
        Means: {"weight": Positive, "projection": MatrixBuffer},
        Values: {
            "of": Literal["columns", "flags", "spreads", "levels", "indicators"],
            "kind": str,
            "weight": Positive,
            "atoms": Places,
            "numbers": Places,
            "owners": Places,
        },
        Positions: {"atoms": Places, "numbers": Places, "heavy": Places, "owners": Places},
        Overall: {
            "of": Literal["scores", "squares"],
            "kind": str,
            "weight": Positive,
            "numbers": Places,
        },
        Clusters: {
            "most": int,
            "numbers": Places,
            "centres": MatrixBuffer,
            "spreads": MatrixBuffer,
            "factors": PlacesMatrix,
        },
        Shapes: {"bumps": int, "width": Positive, "numbers": Places, "owners": Places},
        Levels: {"places": PlacesMatrix, "owners": Places},
        Marks: {"numbers": Places, "values": VectorBuffer, "owners": Places},
        Dependence: {"most": int, "factors": PlacesMatrix},
        Waves: {"most": int, "factors": PlacesMatrix},
        Products: {
            "order": Literal[2, 3],
            "most": int,
            "family": Family,
            "kind": str,
            "weight": Positive,
            "factors": PlacesMatrix,
            "owners": PlacesMatrix,
        },
        Cells: {
            "most": int,
            "bumps": int,
            "width": Positive,
            "numbers": PlacesMatrix,
            "places": PlacesMatrix,
            "pairs": PlacesMatrix,
        },
        Pixels: {"means": VectorBuffer},
        Patches: {"count": int, "side": int, "filters": FilterBuffer},
        Textures: {"side": int, "filters": FilterBuffer},
        Tones: {"limits": MatrixBuffer},
        Features: {"featurizer": nn.Module},
        LandmarksOf: {"kernel": Kernel, "count": int, "places": PointsBuffer},
    }
)
"""Every attribute of our modules, by class."""

# Lists rather than a search among subclasses: whatever is not named here cannot come from a file.
OBJECTIVES = (PowerCriterion, MeanDiscrepancy, CrossEntropy, Noncentrality)
_STATISTICS = (MMD, BlockMMD, CompressedMMD, HotellingT2, Fused, Spectral)
_WAYS_OF_FUSING = (SmallestRank, SoftMaximum, Surprise)
_CALIBRATIONS = (Permutation, PairSwap, Asymptotic, SpectralLimit)
_DESIGNS = (Rows, Groups, Blocks, Strata, Pairs)
_OTHERS = (
    Fingerprint,
    FittedTest,
    TwoSampleTest,
    Learning,
    Schema,
    Column,
    Columns,
    Scaling,
    TrainingLog,
)
RECORDS: tuple[type, ...] = (
    *OBJECTIVES,
    *_STATISTICS,
    *_WAYS_OF_FUSING,
    *_CALIBRATIONS,
    *_DESIGNS,
    *_OTHERS,
)
"""Parts whose form is that of their fields."""

CONTAINERS = (nn.ModuleList, nn.Sequential)
_NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
_ACTIVATIONS = (
    nn.ELU,
    nn.GELU,
    nn.LeakyReLU,
    nn.ReLU,
    nn.SiLU,
    nn.Sigmoid,
    nn.Softplus,
    nn.Tanh,
)
_POOLING = (nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.MaxPool2d)
_MAPS = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Dropout,
    nn.Flatten,
    nn.Identity,
    nn.Linear,
    nn.Unflatten,
)
LAYERS: tuple[type[nn.Module], ...] = (*_MAPS, *_NORMALISATIONS, *_ACTIVATIONS, *_POOLING)
"""Parts of torch's, whose form is the signature of their constructor."""


# The spelling of an MMD. The first files had one class for all its estimators, with these four
# attributes. Files still spell it so, and older and newer versions read each other's. When a file
# is read, `MMD(...)` itself gives the statistic that has taken the place of an older spelling.

_MMD_IN_FILES: Attributes = {
    "estimator": Literal["unbiased", "biased", "paired", "block", "compressed"],
    "alternative": Literal["two-sided", "greater"],
    "block_size": int | None,
    "landmarks": int | None,
}


def _as_mmd(
    estimator: str,
    alternative: str = "two-sided",
    block_size: int | None = None,
    landmarks: int | None = None,
) -> dict[str, Any]:
    values = (estimator, alternative, block_size, landmarks)
    return dict(zip(_MMD_IN_FILES, values, strict=True))


_Spelling: TypeAlias = Callable[[Any], dict[str, Any]]
_SPELLINGS: Mapping[type, _Spelling] = MappingProxyType(
    {
        MMD: lambda mmd: _as_mmd(mmd.estimator, mmd.alternative),
        BlockMMD: lambda mmd: _as_mmd("block", block_size=mmd.block_size),
        CompressedMMD: lambda mmd: _as_mmd("compressed", landmarks=mmd.landmarks),
    }
)
"""Class -> the values of its attributes in a file, where they are not those of the part."""


# What is made of the lists above.


def _fields(record: Any) -> Attributes:
    # The types of fields are strings, as they stand in the source; hints are the types themselves.
    hints = get_type_hints(record)
    names = [field.name for field in dataclasses.fields(record)]
    # What is fitted is one test; another that would follow it is not fitted with it.
    return {name: hints[name] for name in names if name != "then"}


def _settings(module: type[nn.Module]) -> Attributes:
    """What a constructor takes, and the defaults; `inspect.Parameter.empty` stands for none."""
    settings = {}
    for name, setting in inspect.signature(module).parameters.items():
        # Where a layer lies, and in which precision, is that of its tensors.
        by_name = setting.kind in (setting.POSITIONAL_OR_KEYWORD, setting.KEYWORD_ONLY)
        if by_name and name not in ("device", "dtype"):
            settings[name] = setting.default
    return settings


FORMS: Mapping[type, Attributes] = MappingProxyType(
    {
        **MODULES,
        **{record: _fields(record) for record in RECORDS},
        **dict.fromkeys(_SPELLINGS, _MMD_IN_FILES),
    }
)
"""Class -> its attributes in a file, for all classes of ours."""

SETTINGS: Mapping[type, Attributes] = MappingProxyType(
    {module: _settings(module) for module in (*MODULES, *LAYERS)}
)
"""Class -> what its constructor takes, for all modules."""

_OURS: tuple[type, ...] = (*MODULES, *RECORDS)
_OF_TORCH: tuple[type, ...] = (*CONTAINERS, *LAYERS)
NAMES: Mapping[type, str] = MappingProxyType(
    {
        **{ours: ours.__name__ for ours in _OURS},
        **{layer: f"nn.{layer.__name__}" for layer in _OF_TORCH},
        **dict.fromkeys(_SPELLINGS, "MMD"),
    }
)
"""Class -> its name in a file."""

# Of the three classes that are spelled MMD, that is the one which reads all of them.
CLASSES: Mapping[str, type] = MappingProxyType(
    {name: each for each, name in NAMES.items()} | {"MMD": MMD}
)
"""Name in a file -> the class, for all that a file may name."""

_FORMER_NAMES: Mapping[tuple[str, Any], type] = MappingProxyType(
    {("Spectral", Calibration): SpectralLimit}
)
"""(name in older files, type of the part at that place) -> the class, where it was renamed."""


def class_named(name: str, hint: Any) -> type | None:
    """The class that a file names where a part of the type `hint` belongs; None if it is none."""
    return _FORMER_NAMES.get((name, hint)) or CLASSES.get(name)


def values_of(part: Any) -> dict[str, Any]:
    """The attributes of a part of ours as they go into a file, tensors included."""
    spelling = _SPELLINGS.get(type(part))
    if spelling is not None:
        return spelling(part)
    form = FORMS[type(part)]
    values = {name: getattr(part, name) for name in form}
    if values.get("design") == Rows():
        # The default, which files of older versions do not have: they can read this one.
        del values["design"]
    return values


def plain_type(hint: Any) -> Any:
    """The type without what is said about it: of `Annotated[Tensor, 1]` that is `Tensor`."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def is_tensor(hint: Any) -> bool:
    """Whether a type is that of a tensor or of a parameter."""
    return plain_type(hint) in (Tensor, nn.Parameter)


def tensors_of(form: Attributes) -> set[str]:
    """The names of the attributes that are tensors."""
    names = set()
    for name, hint in form.items():
        if is_tensor(hint):
            names.add(name)
    return names


def within(place: str, name: str) -> str:
    """The place of an attribute of the part at `place`."""
    return f"{place}.{name}" if place else name


def root(place: str) -> str:
    """The first part of a place: what was fitted and what it was fitted from share nothing."""
    return place.partition(".")[0]
