"""For test suites: an assertion about two samples, and the contracts of the parts.

`assert_same_distribution(X, Y)` is for tests of your own data, simulators and generators. The rest
are checks that parts of your own can be put through.

A kernel, featurizer, view, statistic, objective or design of your own goes wherever ours do, if it
keeps the contract of its kind. Each function here tries every clause of a contract on a part. It
returns nothing, or raises `BrokenContract`, which says which clause is broken and how. The part
itself is left as it was.

Each clause is a function below, and its docstring is the text of the clause; `clauses` lists them.

>>> import torch
>>> from twosample import Kernel, testing
>>> class Cosine(Kernel):
...     def tile(self, a, b):
...         return torch.cos(a[0][:, :1] - b[0][:, 0])
>>> testing.check_kernel(Cosine(), torch.randn(12, 3))
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import narwhals as nw
import numpy as np
import torch
from numpy.random import get_state
from scipy.stats import binom
from torch import Tensor, nn

from ._calibration import PairSwap, Permutation
from ._data.embedding import embed_samples
from ._data.samples import Samples
from ._data.schema import Column, Schema
from ._data.streams import held
from ._data.survey import as_samples, every_row, survey
from ._design import Codes, Design, Units
from ._insight.asserting import assert_same_distribution
from ._kernels import Gaussian, Kernel, OnFeatures, embedding_of, start_featurizer
from ._learning import Learning
from ._objectives import Objective
from ._products import Embedded, block_sums, row_sums
from ._random import Generators, RNGLike, takes_rng
from ._resources import DEFAULT_MEMORY, Resources
from ._result import Effect, TwoSampleResult
from ._saving.packing import pack
from ._saving.saving import load
from ._statistics import MMD, Bins, HotellingT2, Spectral, Statistic
from ._two_sample import TwoSampleTest
from ._views import View, Views
from .errors import IncompatibleParts, InputError, InputWarning, TwoSampleError

__all__ = [
    "BrokenContract",
    "assert_same_distribution",
    "check_design",
    "check_featurizer",
    "check_kernel",
    "check_objective",
    "check_statistic",
    "check_test",
    "check_view",
    "clauses",
]

Kind: TypeAlias = Literal[
    "kernel", "featurizer", "view", "statistic", "objective", "design", "test"
]
Clause: TypeAlias = Callable[[Any], None]
Clauses: TypeAlias = tuple[Clause, ...]
Draw: TypeAlias = Callable[[np.random.Generator, int], Any]
Value: TypeAlias = Callable[[], Tensor]

_FEWEST = 8  # points: enough for tiles of three rows, and for more than twenty labellings
_SMALL = 12 * 8 * 3**2  # bytes of memory in which a tile has three rows of float64
# Steps of finite differences in float64: rounding spoils small ones, the kinks of a network large
# ones.
_STEPS = (1e-5, 1e-6)
_CHANCE = 1e-6  # of a false alarm about a level
_PRODUCTS = 1e-6  # rounding of distances by matrix products, which depends on the company


class BrokenContract(TwoSampleError, AssertionError):
    """A part that does not do what its kind promises: which clause, and how it was broken."""


def check_kernel(
    kernel: Kernel,
    points: Any,
    *,
    semidefinite: bool = True,
    differentiable: bool = True,
    saved: bool = True,
) -> None:
    """Check a kernel on some points.

    Parameters
    ----------
    kernel
        As it is built, before it has started on any data.
    points
        (N, ...) points such as it is made for, at least 8, of which no two are the same.
    semidefinite
        Whether its matrices have no negative eigenvalue. A kernel such as minus a distance has
        some. MMD is fine with it; `SpectralLimit` and `CompressedMMD` are not.
    differentiable
        False for a kernel that no gradient goes through, such as `Sign`.
    saved
        False for a kernel that cannot be saved; see docs/saving.md.

    Raises
    ------
    BrokenContract
        At the first clause that does not hold.
    """
    left_out: list[Clause] = []
    if not semidefinite:
        left_out.append(_is_semidefinite)
    if not differentiable:
        left_out.extend(_OF_GRADIENTS)
    if not saved:
        left_out.append(_can_be_kept)
    subject = _Kernel(kernel, _as_points(points))
    _check("kernel", kernel, subject, left_out)


def check_featurizer(featurizer: nn.Module, points: Any, *, saved: bool = True) -> None:
    """Check a network from points to vectors, or a feature map, on some points.

    Parameters
    ----------
    featurizer
        As it is built, before it has started on any data.
    points
        (N, ...) points such as it is made for, at least 8.
    saved
        False for a network that cannot be saved; see docs/saving.md.

    Raises
    ------
    BrokenContract
        At the first clause that does not hold.
    """
    left_out = [] if saved else [_can_be_kept]
    subject = _Featurizer(featurizer, _as_points(points))
    _check("featurizer", featurizer, subject, left_out)


def check_view(view: View, X: Any, Y: Any, *, saved: bool = True) -> None:
    """Check a view, or a stack of views, on two samples.

    Parameters
    ----------
    view
        As it is built, before it has been fitted.
    X, Y
        Samples such as it is made for: arrays, tables or images, at least 8 rows of both together.
        A view of categories needs a table that has some.
    saved
        False for a view that cannot be saved; see docs/saving.md.

    Raises
    ------
    BrokenContract
        At the first clause that does not hold.
    """
    samples = as_samples(X, Y)
    subject = _View(
        given=view,
        points=_as_points(samples.pooled()),
        schema=samples.schema,
        X=X,
        Y=Y,
    )
    left_out = [] if saved else [_can_be_kept]
    _check("view", view, subject, left_out)


def check_statistic(statistic: Statistic, representation: nn.Module, X: Any, Y: Any) -> None:
    """Check a statistic on two samples, seen through a kernel or a feature map.

    Parameters
    ----------
    statistic
        The statistic. One that draws some of the points, such as the landmarks of `CompressedMMD`,
        has to draw all of them here: what is left to chance is not the same after a shuffle.
    representation
        What it sees the samples through; started on the pooled points.
    X, Y
        (n, ...) and (m, ...) points, at least 8 of each, that differ plainly. Of one size where the
        statistic needs that.

    Raises
    ------
    BrokenContract
        At the first clause that does not hold.
    """
    subject = _Statistic(
        part=statistic,
        given=representation,
        x=_as_points(X),
        y=_as_points(Y),
    )
    _check("statistic", statistic, subject)


def check_objective(objective: Objective, representation: nn.Module, X: Any, Y: Any) -> None:
    """Check an objective on a batch of two samples.

    Parameters
    ----------
    objective
        The objective.
    representation
        A kernel or feature map that it can train.
    X, Y
        (n, ...) and (m, ...) points, at least 8 of each. Of one size where the objective needs
        that.

    Raises
    ------
    BrokenContract
        At the first clause that does not hold.
    """
    subject = _Objective(
        part=objective,
        given=representation,
        x=_as_points(X),
        y=_as_points(Y),
    )
    _check("objective", objective, subject)


def check_design(design: Design, X: Any, Y: Any, *, exact: bool = True) -> None:
    """Check a design on two samples such as it is made for.

    Parameters
    ----------
    design
        The design. Its keys are columns: those of arrays would not move with the rows.
    X, Y
        Two arrays or tables that have these columns, and others to test.
    exact
        False for a design that takes its units from the order of rows, as `Blocks` does. Its units
        are others once blocks have moved, so its test is not exact, and that clause is left out.

    Raises
    ------
    BrokenContract
        At the first clause that does not hold.
    """
    left_out: list[Clause] = [] if exact else [_gives_the_same_units_after_a_move]
    _check("design", design, _Design(design, X, Y), left_out)


@takes_rng
def check_test(
    test: TwoSampleTest,
    draw: Draw | None = None,
    *,
    sizes: tuple[int, int] = (40, 30),
    runs: int = 100,
    alpha: float = 0.05,
    rng: RNGLike | None = None,
) -> None:
    """Check a whole test: that one seed gives one answer, and that it keeps its level.

    Parameters
    ----------
    test
        The test; make its training short.
    draw
        `draw(rng, size)` gives a sample of that size, always of the same distribution; three normal
        columns if None. Data with many ties, heavy tails or few rows are the hard ones.
    sizes
        Points of the two samples.
    runs
        Pairs of samples to test. At level 0.05 an exact test rejects at most 18 of 100 and 86 of
        1000.
    alpha
        The level at which they are tested.
    rng
        Where the samples and the seeds of the runs come from.

    Raises
    ------
    BrokenContract
        At the first clause that does not hold. An exact test is wrongly accused once in a million.
    """
    subject = _Test(
        test=test,
        draw=draw or _normal,
        sizes=sizes,
        runs=runs,
        alpha=alpha,
        generators=Generators(rng),
    )
    _check("test", test, subject)


def clauses(kind: Kind) -> list[str]:
    """The contract of a kind of part, one sentence a clause, in the order in which they are tried.

    Examples
    --------
    >>> from twosample import testing
    >>> testing.clauses("test")[-1]
    'Where both samples have one distribution, it rejects no more often than alpha allows.'
    """
    return [clause.__doc__ or "" for clause in _CONTRACTS[kind]]


# How clauses are tried.


class _Unmet(Exception):
    """What is the case instead of what a clause says."""


def _check(kind: Kind, part: object, subject: object, left_out: Sequence[Clause] = ()) -> None:
    """Try the clauses of a contract on the subject, but for those that are left out."""
    for clause in _CONTRACTS[kind]:
        if clause in left_out:
            continue
        try:
            clause(subject)
        except Exception as error:  # a part that raises does not keep the clause either
            instead = str(error)
            if not isinstance(error, _Unmet):
                instead = f"it raised {type(error).__name__}: {error}"
            text = clause.__doc__ or ""
            sentence = text.removesuffix(".")
            article = "an" if kind == "objective" else "a"
            raise BrokenContract(
                f'{part!r} breaks its contract as {article} {kind}: "{sentence}". Here, {instead}'
            ) from error


def _require(condition: bool, instead: str) -> None:
    """Say what is the case `instead`, unless the condition holds."""
    if not condition:
        raise _Unmet(instead)


def _require_same(value: Tensor, expected: Tensor, name: str, *, tolerance: float = 1e-9) -> None:
    """Require equal shapes, and values within `tolerance` of the largest one."""
    shape = tuple(value.shape)
    expected_shape = tuple(expected.shape)
    _require(
        shape == expected_shape,
        f"{name} has shape {shape}, not {expected_shape}.",
    )
    if not value.numel():
        return
    value = value.detach().cpu().double()
    expected = expected.detach().cpu().double()
    all_finite = bool(torch.isfinite(value).all())
    _require(all_finite, f"{name} has values that are not finite.")
    difference = (value - expected).abs()
    # Small values come from sums of larger ones, so their error is relative to the largest.
    largest = float(expected.abs().max())
    room = tolerance * max(1.0, largest)
    if float(difference.max()) > room:
        worst = int(difference.argmax())
        indices = np.unravel_index(worst, value.shape)
        place = tuple(int(index) for index in indices)
        here = float(value[place])
        there = float(expected[place])
        raise _Unmet(f"{name} is {here:.6g} at {place}, not {there:.6g}.")


def _require_slope(value: Value, tensor: Tensor, name: str) -> None:
    """Require the gradient of `value()` in `tensor` to be that of finite differences.

    Both are compared along one random direction.
    """
    start = tensor.detach().clone()
    draws = _draws("direction")
    direction = torch.randn(start.shape, generator=draws, dtype=start.dtype)
    direction = direction.where(start.isfinite(), 0.0)  # a scale that is open stays so
    here = value()
    slope = 0.0  # of a value that does not depend on the tensor
    if here.requires_grad:
        (gradient,) = torch.autograd.grad(here, tensor, allow_unused=True)
        if gradient is not None:
            along = gradient * direction
            slope = float(along.sum())
    differences = []
    with torch.no_grad():
        for step in _STEPS:
            move = step * direction
            ahead = _at(tensor, start + move, value)
            behind = _at(tensor, start - move, value)
            difference = ahead - behind
            differences.append(difference / (2 * step))
        tensor.copy_(start)
    # The step that agrees best: each of them may be spoiled, but not by the same error.
    expected = min(differences, key=lambda difference: abs(difference - slope))
    # A difference of two values is rounded as they are, however small it is itself.
    size = abs(float(here.detach()))
    steepest = max(abs(slope), abs(expected))
    room = 1e-3 * steepest + 1e-7 * (1 + size)
    _require(
        abs(slope - expected) <= room,
        f"along {name} autograd gives {slope:.6g}, but differences {expected:.6g}.",
    )


def _at(tensor: Tensor, to: Tensor, value: Value) -> float:
    """The value once the tensor holds other numbers."""
    tensor.copy_(to)
    return float(value())


def _draws(name: str) -> torch.Generator:
    """The same numbers for the same name: a check has one answer."""
    return Generators(0).torch(name)


def _new_order(count: int, name: str = "order") -> Tensor:
    """A random order of so many points, the same for the same name."""
    return torch.randperm(count, generator=_draws(name))


def _weights(shape: tuple[int, ...]) -> Tensor:
    """Random weights in float64, the same for the same shape."""
    draws = _draws("weights")
    return torch.randn(shape, generator=draws, dtype=torch.float64)


@contextmanager
def _no_global_generator() -> Iterator[None]:
    """Require that no global generator is used in the meantime."""

    def states() -> dict[str, object]:
        of_numpy = get_state()  # noqa: NPY002 - to see that nobody uses it
        of_torch = torch.get_rng_state()
        return {
            "random": random.getstate(),
            # Texts and lists, since arrays are compared value by value.
            "numpy.random": repr(of_numpy),
            "torch": of_torch.tolist(),
        }

    before = states()
    yield
    after = states()
    for name, state in before.items():
        _require(state == after[name], f"the global generator of {name} was used.")


def _as_points(points: Any) -> Tensor:
    given = torch.as_tensor(points).detach()
    tensor = given.to("cpu", torch.float64)
    if tensor.ndim < 2 or len(tensor) < _FEWEST:
        raise InputError(
            f"the points have the shape {tuple(tensor.shape)}; give at least {_FEWEST} rows of "
            "values."
        )
    return tensor


def _cut(z: Embedded, start: int, end: int) -> Embedded:
    return tuple(part[start:end] for part in z)


def _started(module: nn.Module, points: Tensor) -> nn.Module:
    """A copy that has started on the points, in float64 and in evaluation."""
    started = copy.deepcopy(module)
    look_at = getattr(started, "look_at", None)
    if callable(look_at):  # views of single columns need to know which those are
        look_at(_schema_of(points))
    # A module starts in its own precision, as it does in a test. Clauses compare in float64.
    dtypes = [parameter.dtype for parameter in started.parameters()]
    dtype = dtypes[0] if dtypes else torch.float32
    start_featurizer(started, points.to(dtype), _draws("start"))
    return started.double().eval()


def _schema_of(points: Tensor) -> Schema:
    """Points as a table of numbers, or as images."""
    shape = tuple(points.shape[1:])  # of one point
    if len(shape) > 1:
        return Schema("image", shape)
    columns = tuple(Column(str(number), "numeric") for number in range(shape[0]))
    return Schema("table", shape, columns)


def _accelerators() -> list[torch.device]:
    if not torch.cuda.is_available():
        return []
    return [torch.device("cuda")]


# Modules: kernels and featurizers.


@dataclass(frozen=True)
class _Module:
    """A module as it was given, and points to see through it."""

    given: nn.Module
    points: Tensor

    @functools.cached_property
    def module(self) -> Any:
        return _started(self.given, self.points)

    def values(self, module: Any, points: Tensor) -> Tensor:
        """What it, or a copy of it, makes of points."""
        raise NotImplementedError

    def value(self) -> Tensor:
        """What it makes of the points at hand."""
        return self.values(self.module, self.points)

    def samples(self) -> tuple[Any, Any]:
        """The points as two samples, for a test that uses it."""
        points = self.points.numpy()
        half = len(points) // 2
        return points[:half], points[half:]

    def spec(self) -> TwoSampleTest:
        """A test that uses it."""
        raise NotImplementedError


class _Kernel(_Module):
    @functools.cached_property
    def z(self) -> Embedded:
        """All points, embedded."""
        embedded: Embedded = self.module.embed(self.points)
        return tuple(part.detach() for part in embedded)

    @functools.cached_property
    def matrix(self) -> Tensor:
        """The (N, N) kernel matrix."""
        return self.value().detach()

    def values(self, module: Any, points: Tensor) -> Tensor:
        z = module.centred(module.embed(points))
        tile: Tensor = module.tile(z, z)
        return tile

    def spec(self) -> TwoSampleTest:
        return TwoSampleTest(self.given, calibration=Permutation(19))


class _Featurizer(_Module):
    def values(self, module: Any, points: Tensor) -> Tensor:
        features: Tensor = module(points)
        return features

    def spec(self) -> TwoSampleTest:
        kernel = OnFeatures(self.given, Gaussian())
        return TwoSampleTest(kernel, calibration=Permutation(19))


def _starts_by_its_generator(seen: _Module) -> None:
    """`start` draws from the generator it is given and from nothing else."""
    points = seen.points
    with _no_global_generator():
        first = _started(seen.given, points).state_dict()
        second = _started(seen.given, points).state_dict()
    for name, tensor in first.items():
        _require_same(second[name], tensor, f"{name} after a second start with the same generator")


def _repeats_itself(seen: _Module) -> None:
    """In evaluation, the same points give the same values every time."""
    with _no_global_generator():
        first = seen.value()
        second = seen.value()
    _require_same(second, first, "the second time, the value")


def _computes_in_the_precision_of_its_points(seen: _Module) -> None:
    """Points of float32 give values of float32, close to those of float64."""
    single = copy.deepcopy(seen.module).float()
    rounded = seen.values(single, seen.points.float())
    dtype = rounded.dtype
    _require(dtype == torch.float32, f"they are {dtype}.")
    expected = seen.value()
    _require_same(rounded, expected, "the value in float32", tolerance=1e-3)


def _registers_its_tensors(seen: _Module) -> None:
    """Its tensors are parameters and buffers, so that they move with it and are saved."""
    # Torch keeps parameters and buffers apart from other attributes, which `vars` shows.
    for place, module in seen.module.named_modules():
        for name, value in vars(module).items():
            where = f"{place}.{name}".lstrip(".")
            _require(
                not isinstance(value, Tensor),
                f"{where} is neither: use nn.Parameter or register_buffer.",
            )


def _gives_the_same_on_other_devices(seen: _Module) -> None:
    """On an accelerator, where there is one, it gives the same values."""
    for device in _accelerators():
        moved = copy.deepcopy(seen.module).to(device)
        there = seen.values(moved, seen.points.to(device))
        # By type only: "cuda" stands for whichever of them is the current one.
        _require(
            there.device.type == device.type,
            f"the values are on {there.device}, not on {device}.",
        )
        here = seen.value()
        _require_same(there, here, f"on {device} the value", tolerance=1e-6)


def _copies_well(seen: _Module) -> None:
    """A copy is independent, and a state_dict makes it the same again."""
    before = seen.value().detach()
    other = copy.deepcopy(seen.module)
    state = copy.deepcopy(seen.module.state_dict())
    with torch.no_grad():
        # In place: if the copy shares memory with the original, the original changes as well.
        for tensor in other.state_dict().values():
            if tensor.is_floating_point():
                tensor += 0.1
    original = seen.value()
    _require_same(original, before, "once a copy was changed, the value of the original")
    other.load_state_dict(state)
    restored = seen.values(other.eval(), seen.points)
    _require_same(restored, before, "with the state_dict of the original, the value")


def _can_be_kept(seen: _Module) -> None:
    """A fitted test with it is saved and comes back the same, to the bit."""
    X, Y = seen.samples()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", InputWarning)  # of few points, some columns are constant
        fitted = seen.spec().fit(X, Y, rng=0, device="cpu")
        # A file has no code, so `load` is given the parts whose classes are not ours.
        asked_for = pack(fitted).own
        parts = {}
        for module in seen.given.modules():
            name = type(module).__name__
            if name in asked_for:
                parts[name] = module
        file = Path(folder) / "test.safetensors"
        fitted.save(file)
        loaded = load(file, parts=parts, device="cpu")
        before = fitted.test(X, Y, rng=0).statistic
        after = loaded.test(X, Y, rng=0).statistic
    _require(before == after, f"the statistic was {before!r} before and {after!r} after.")


def _has_true_gradients(seen: _Module) -> None:
    """The gradient of every parameter is that of finite differences."""
    module = copy.deepcopy(seen.module)  # its parameters are moved about
    # A plain sum could hide gradients that cancel each other; random weights do not.
    points = seen.points
    shape = seen.values(module, points).shape
    weights = _weights(shape)

    def value() -> Tensor:
        values = seen.values(module, points)
        return (values * weights).sum()

    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            _require_slope(value, parameter, name)


# Kernels.


def _embeds_every_point(seen: _Kernel) -> None:
    """`embed` gives a tuple of `parts` tensors with one row for each point."""
    kernel = seen.module
    z = kernel.embed(seen.points)
    kind = type(z).__name__
    _require(isinstance(z, tuple), f"it gives a {kind}.")
    parts = kernel.parts
    given = len(z)
    _require(given == parts, f"it gives {given} tensors, and `parts` is {parts}.")
    points = len(seen.points)
    rows = [len(part) for part in z]
    one_each = rows == [points] * parts
    _require(one_each, f"{points} points have {rows} rows.")


def _embeds_in_any_order(seen: _Kernel) -> None:
    """What a point is embedded as does not depend on the order of the points."""
    order = _new_order(len(seen.points))
    points = seen.points[order]
    reordered = seen.module.embed(points)
    for number, part in enumerate(reordered):
        expected = seen.z[number][order]
        _require_same(part, expected, f"part {number} of the points in another order")


def _compares_what_it_embeds(seen: _Kernel) -> None:
    """Calling the kernel is `tile` of what `embed` gives."""
    kernel = seen.module
    points = seen.points
    third = len(points) // 3  # unequal parts show what mixes up rows and columns
    x = points[:third]
    y = points[third:]
    matrix = kernel(x, y)
    a = _cut(seen.z, 0, third)
    b = _cut(seen.z, third, len(points))
    tile = kernel.tile(a, b)
    _require_same(matrix, tile, "the matrix")


def _is_symmetric(seen: _Kernel) -> None:
    """Its matrix is symmetric."""
    _require_same(seen.matrix.T, seen.matrix, "the transposed matrix")


def _is_semidefinite(seen: _Kernel) -> None:
    """Its matrix has no negative eigenvalue."""
    eigenvalues = torch.linalg.eigvalsh(seen.matrix)
    least = float(eigenvalues[0])
    largest = float(eigenvalues[-1])
    rounding = 1e-9 * max(1.0, largest)
    _require(least >= -rounding, f"the eigenvalues go from {least:.6g} to {largest:.6g}.")


def _has_the_pairs_of_its_tiles(seen: _Kernel) -> None:
    """`pairs` has the values of matching rows, as `tile` has them on its diagonal."""
    half = len(seen.points) // 2
    a = _cut(seen.z, 0, half)
    b = _cut(seen.z, half, 2 * half)  # as many, since rows are matched
    kernel = seen.module
    pairs = kernel.pairs(a, b)
    tile = kernel.tile(a, b)
    _require_same(pairs, tile.diagonal(), "a pair")


def _moves_all_points_alike(seen: _Kernel) -> None:
    """`centred` changes no value of the kernel."""
    z = seen.z
    as_embedded = seen.module.tile(z, z)
    # `matrix` is that of centred points.
    _require_same(seen.matrix, as_embedded, "the matrix of centred points")


def _crosses_sides_to_tiles(seen: _Kernel) -> None:
    """`cross` of the two `sides` is the tile between them."""
    rows = 5  # fewer than columns: sides that were exchanged have another shape
    kernel = seen.module
    with torch.no_grad():
        left, right = kernel.sides(seen.z)
        first = _cut(left, 0, rows)
        crossed = kernel.cross(first, right)
    _require_same(crossed, seen.matrix[:rows], "the cross of two sides")


def _is_the_product_of_its_features(seen: _Kernel) -> None:
    """`features`, where there are any, have the kernel for their inner products."""
    features = seen.module.features(seen.z)
    if features is not None:
        _require_same(features @ features.T, seen.matrix, "their matrix of inner products")


def _sums_alike_in_all_tiles(seen: _Kernel) -> None:
    """Sums over its matrix do not depend on the tiles they are made of."""
    kernel = seen.module
    points = seen.points
    weights = _weights((len(points), 2))
    bins = torch.arange(len(points)) // 2
    in_bin = nn.functional.one_hot(bins).double()  # (N, bins)
    by_row = seen.matrix @ weights  # (N, 2)
    by_bins = in_bin.T @ seen.matrix @ in_bin  # (bins, bins)
    for memory in (_SMALL, DEFAULT_MEMORY):
        with torch.no_grad():
            rows = row_sums(kernel, points, weights, memory=memory)
            blocks = block_sums(kernel, points, bins, memory=memory)
        _require_same(rows, by_row, f"with {memory} bytes a sum over a row")
        _require_same(blocks, by_bins, f"with {memory} bytes a sum over two bins")


def _pulls_back_as_autograd_does(seen: _Kernel) -> None:
    """`tile_and_pullback` gives the tile and its gradients in the embedded points."""
    half = len(seen.points) // 2
    first = _cut(seen.z, 0, half)
    second = _cut(seen.z, half, -1)
    a = _with_gradient(first)
    b = _with_gradient(second)
    inputs = (*a, *b)
    kernel = seen.module
    tile = kernel.tile(a, b)
    grad = _weights(tile.shape)
    by_autograd = torch.autograd.grad(tile, inputs, grad, allow_unused=True)
    again, pullback = kernel.tile_and_pullback(a, b)
    _require_same(again, tile, "its tile")
    wanted = [True] * len(a)  # the gradients of all parts
    into_a, into_b, _ = pullback(grad, wanted)
    by_pullback = (*into_a, *into_b)
    for number, tensor in enumerate(inputs):
        gradient = _or_zeros(by_pullback[number], tensor)
        expected = _or_zeros(by_autograd[number], tensor)
        _require_same(gradient, expected, f"the gradient of tensor {number}")


def _with_gradient(z: Embedded) -> Embedded:
    return tuple(part.clone().requires_grad_() for part in z)


def _or_zeros(gradient: Tensor | None, tensor: Tensor) -> Tensor:
    """The gradient in a tensor; None is short for zeros."""
    if gradient is None:
        return torch.zeros_like(tensor)
    return gradient


def _has_true_gradients_through_tiles(seen: _Kernel) -> None:
    """The gradient of every parameter through sums over tiles is that of finite differences."""
    module = copy.deepcopy(seen.module)
    weights = _weights((len(seen.points), 2))
    inner = weights[:, 0]
    outer = weights[:, 1]

    def value() -> Tensor:
        sums = row_sums(module, seen.points, inner, memory=_SMALL)  # (N,)
        return (sums * outer).sum()

    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            _require_slope(value, parameter, f"{name} (is it among `tile_parameters`?)")


# Featurizers.


def _gives_every_point_a_vector(seen: _Featurizer) -> None:
    """It gives an (N, width) tensor of finite numbers, one row for each point."""
    features = seen.value()
    count = len(seen.points)
    shape = tuple(features.shape)
    one_row_each = len(shape) == 2 and shape[0] == count
    _require(one_row_each, f"{count} points give the shape {shape}.")
    _require_same(features, features, "a feature")  # which asks for finite numbers


def _gives_vectors_in_any_order(seen: _Featurizer) -> None:
    """The vector of a point does not depend on the order of the points."""
    order = _new_order(len(seen.points))
    points = seen.points[order]
    features = seen.values(seen.module, points)
    expected = seen.value()[order]
    _require_same(features, expected, "a feature of the points in another order")


# Views.


@dataclass(frozen=True)
class _View(_Module):
    """A view as it was given, and two samples to see through it."""

    given: View
    schema: Schema
    X: Any
    Y: Any

    @functools.cached_property
    def module(self) -> Any:
        return self.fitted(self.points)

    def fitted(self, points: Tensor) -> Views:
        """A copy of the view, fitted on points as a test fits it."""
        views = Views(copy.deepcopy(self.given))
        views.look_at(self.schema)
        views.start(points, _draws("start"))
        return views.eval()

    @property
    def stack(self) -> View:
        """The fitted view."""
        stack: View
        (stack,) = self.module
        return stack

    def values(self, module: Any, points: Tensor) -> Tensor:
        (stack,) = module
        features: Tensor = stack.features(module.see(points))
        return features

    def samples(self) -> tuple[Any, Any]:
        return self.X, self.Y

    def spec(self) -> TwoSampleTest:
        views = Views(copy.deepcopy(self.given))
        return TwoSampleTest(views, statistic=Spectral(), calibration=Permutation(19))


def _learns_without_labels(seen: _View) -> None:
    """What `fit` learns depends neither on the order of the points nor on chance."""
    # X comes first, so a view that sees the order sees the labels.
    order = _new_order(len(seen.points))
    with _no_global_generator():
        first = seen.fitted(seen.points)
        second = seen.fitted(seen.points[order])
    state = second.state_dict()
    for name, tensor in first.state_dict().items():
        same = torch.equal(state[name], tensor)
        _require(same, f"{name} is another one after a fit on the points in another order.")
    expected = seen.values(first, seen.points)
    features = seen.values(second, seen.points)
    _require_same(features, expected, "after a fit on the points in another order, a feature")


def _gives_features_of_every_view(seen: _View) -> None:
    """`features` gives an (N, views, features) tensor of finite numbers in float64."""
    features = seen.value()
    count = len(seen.points)
    shape = tuple(features.shape)
    one_row_each = len(shape) == 3 and shape[0] == count
    _require(one_row_each, f"{count} points give the shape {shape}.")
    _require(features.dtype == torch.float64, f"they are {features.dtype}.")
    _require_same(features, features, "a feature")  # which asks for finite numbers


def _sees_a_point_by_itself(seen: _View) -> None:
    """The features of a point do not depend on the other points."""
    features = seen.value()
    order = _new_order(len(seen.points))
    some = order[: len(order) // 2]
    # Some points in another order, and one alone.
    for chosen in (some, order[:1]):
        alone = seen.values(seen.module, seen.points[chosen])
        name = f"a feature in the company of {len(chosen) - 1} others"
        _require_same(alone, features[chosen], name, tolerance=_PRODUCTS)


def _names_the_columns_of_its_views(seen: _View) -> None:
    """`columns` has one entry a view: the places of columns of the table, or none for all."""
    columns = seen.stack.columns()
    views = seen.value().shape[1]
    _require(len(columns) == views, f"{views} views have {len(columns)} entries.")
    width = len(seen.schema.columns)  # none, of images
    for entry in columns:
        in_table = all(column in range(width) for column in entry)
        _require(in_table, f"{entry} are not all among the {width} columns of the table.")


def _measures_by_triangular_factors(seen: _View) -> None:
    """`metric` is None, or (views, features, features) lower factors of positive diagonals."""
    metric = seen.stack.metric()
    if metric is None:
        return
    _, views, width = seen.value().shape
    expected = (views, width, width)
    shape = tuple(metric.shape)
    _require(shape == expected, f"it has the shape {shape}, not {expected}.")
    _require_same(metric, metric.tril(), "a value of it")
    smallest = float(metric.diagonal(dim1=1, dim2=2).min())
    _require(smallest > 0, f"{smallest:.6g} is on the diagonal.")


def _says_which_views_are_blind(seen: _View) -> None:
    """`are_blind` has one boolean a view."""
    features = seen.value()
    points, views, _ = features.shape
    blind = seen.stack.are_blind(features.mean(0), points)
    _require(blind.dtype == torch.bool, f"it has the type {blind.dtype}.")
    shape = tuple(blind.shape)
    _require(shape == (views,), f"it has the shape {shape}, not {(views,)}.")


def _has_a_share_of_the_level(seen: _View) -> None:
    """Its `weight` and every number of its `regularisation` are above 0."""
    weight = seen.stack.weight
    _require(weight > 0, f"the weight is {weight}.")
    regularisation = seen.stack.regularisation
    if regularisation is not None:
        all_positive = len(regularisation) > 0 and min(regularisation) > 0
        _require(all_positive, f"regularisation is {regularisation}.")


def _prints_its_name(seen: _View) -> None:
    """It can be printed, and its text starts with the name of its class."""
    name = type(seen.given).__name__
    text = repr(seen.stack)
    _require(text.startswith(name), f"it prints as {text!r}.")


# What holds settings and no data.


@dataclass(frozen=True)
class _Part:
    """A part that holds settings, a representation, and two samples."""

    part: Any
    given: nn.Module
    x: Tensor
    y: Tensor

    @functools.cached_property
    def representation(self) -> Any:
        pooled = torch.cat([self.x, self.y])
        return _started(self.given, pooled)

    def value(self, memory: int = DEFAULT_MEMORY) -> Tensor:
        """What it gives for the samples as they are."""
        raise NotImplementedError


def _needs_no_more_memory(seen: _Part) -> None:
    """A small budget of `memory` changes no value."""
    in_small_tiles = seen.value(_SMALL)
    expected = seen.value()
    _require_same(in_small_tiles, expected, f"with {_SMALL} bytes the value")


def _holds_settings_only(seen: _Part | _Design) -> None:
    """It holds settings, never data: using it changes nothing in it."""
    before = copy.deepcopy(_settings(seen.part))
    seen.value()
    after = _settings(seen.part)
    # By their texts: settings may be arrays, which have no single answer to `==`.
    same = repr(before) == repr(after)
    _require(same, f"its settings were {before} and are {after}.")
    tensors = []
    for name, value in after.items():
        if isinstance(value, Tensor):
            tensors.append(name)
    _require(not tensors, f"it holds tensors: {', '.join(tensors)}.")


def _settings(part: Any) -> dict[str, Any]:
    settings = {}
    if dataclasses.is_dataclass(part):
        # A field with slots, or with the default of its class, is not in `__dict__`.
        for field in dataclasses.fields(part):
            settings[field.name] = getattr(part, field.name)
    return settings | getattr(part, "__dict__", {})


# Designs.


@dataclass(frozen=True)
class _Design:
    """A design, and two samples that it is made for."""

    part: Design
    x: Any
    y: Any

    def value(self) -> Units:
        return self.units_of(self.x, self.y)

    def units_of(self, x: Any, y: Any) -> Units:
        return self.units_and_rows(x, y)[0]

    def units_and_rows(self, x: Any, y: Any) -> tuple[Units, Codes]:
        """Units of samples, single rows where the design has none, and which rows these are."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            samples = survey((held(x), held(y)), every_row, design=self.part).picked
        n, m = samples.sizes
        rows = samples.rows or (torch.arange(n), torch.arange(m))
        return samples.units or Units.of((torch.arange(n), torch.arange(m))), rows

    def moves(self) -> tuple[Bins, Tensor]:
        """The units as bins, and some moves of them, that of nothing first."""
        permutation = Permutation(40)
        bins = permutation.plan_units(self.value(), _draws("bins of units"))
        shuffles = permutation.shuffles(bins, _draws("moves"), order_matters=True)
        return bins, shuffles.all()


def _gives_every_row_one_unit(seen: _Design) -> None:
    """Every row is in one unit, and no unit has rows of both samples."""
    units = seen.value()
    again = seen.value()
    both = set(units.of_x.tolist()) & set(units.of_y.tolist())
    _require(not both, f"{len(both)} units have rows of X and of Y.")
    empty = int((units.rows == 0).sum())
    _require(empty == 0, f"{empty} units have no rows.")
    same = all(
        torch.equal(getattr(units, name), getattr(again, name))
        for name in ("of_x", "of_y", "cells")
    )
    _require(same, "asked twice, it gave two answers.")


def _moves_as_a_group(seen: _Design) -> None:
    """Its moves are a group, of whole units within cells: so are two after each other, and back."""
    bins, moves = seen.moves()
    nothing = torch.arange(bins.moving)
    _require(torch.equal(moves[0], nothing), f"the first move is {moves[0].tolist()}.")
    units = seen.value()
    for one in moves:
        _require_move(units, bins, one, "a move")
        _require_move(units, bins, one.argsort(), "a move back")
        for other in moves[:3]:
            _require_move(units, bins, one[other], "a move after another")


def _require_move(units: Units, bins: Bins, move: Tensor, name: str) -> None:
    """Require whole units in either sample, and in every cell as many of X as it had."""
    in_x = bins.in_x(move[None])[0][bins.of_all]
    of_rows = torch.cat([units.of_x, units.of_y])
    shares = torch.bincount(of_rows, weights=in_x) / units.rows
    torn = int(((shares > 0) & (shares < 1)).sum())
    _require(torn == 0, f"{name} tears {torn} units.")
    before, _ = units.in_cells()
    after = torch.bincount(units.cells, weights=shares, minlength=len(before))
    _require(torch.equal(after.long(), before), f"{name} takes units out of their cells.")


def _gives_the_same_units_after_a_move(seen: _Design) -> None:
    """Once rows have moved with all that is known of them, the units and cells are the same."""
    bins, moves = seen.moves()
    units, (rows_x, rows_y) = seen.units_and_rows(seen.x, seen.y)
    n = len(seen.x)
    used = torch.cat([rows_x, rows_y + n])  # where the rows of units stand among all
    before = _members(units, used)
    left_out = np.setdiff1d(np.arange(n + len(seen.y)), used)
    for move in moves[:6]:
        in_x = bins.in_x(move[None])[0][bins.of_all] > 0
        into_x = np.sort(np.concatenate([used[in_x], left_out[left_out < n]]))
        into_y = np.sort(np.concatenate([used[~in_x], left_out[left_out >= n]]))
        moved = [_joined_rows(seen.x, seen.y, n, rows) for rows in (into_x, into_y)]
        other, (rows_x, rows_y) = seen.units_and_rows(*moved)
        stand = [torch.from_numpy(into_x)[rows_x], torch.from_numpy(into_y)[rows_y]]
        after = _members(other, torch.cat(stand))
        _require(
            {members for members, _ in after} == {members for members, _ in before},
            "rows that were one unit are several, or the other way round.",
        )
        cell_before = dict(before)
        pairs = {(cell_before[members], cell) for members, cell in after}
        one_each = len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
        _require(one_each, "units that could change places cannot any more.")


def _members(units: Units, rows: Tensor) -> set[tuple[frozenset[int], int]]:
    """The rows of every unit, and its cell."""
    of_rows = torch.cat([units.of_x, units.of_y])
    return {
        (frozenset(rows[of_rows == unit].tolist()), int(units.cells[unit]))
        for unit in range(len(units.cells))
    }


def _joined_rows(x: Any, y: Any, n: int, rows: Any) -> Any:
    """Some rows of both samples, counted on from X to Y, as one sample."""
    of_x = rows[rows < n]
    of_y = rows[rows >= n] - n
    if isinstance(x, np.ndarray):
        return np.concatenate([x[of_x], y[of_y]])
    tables = [nw.from_native(x, eager_only=True), nw.from_native(y, eager_only=True)]
    return nw.concat([tables[0][of_x.tolist()], tables[1][of_y.tolist()]]).to_native()


def _splits_between_units(seen: _Design) -> None:
    """A split leaves every unit on one side, and units that can change places on both."""
    units = seen.value()
    of_x, of_y = units.split(0.5, _draws("split"), None)
    for of_rows, (trained, tested) in ((units.of_x, of_x), (units.of_y, of_y)):
        torn = set(of_rows[trained].tolist()) & set(of_rows[tested].tolist())
        _require(not torn, f"{len(torn)} units are on both sides.")
        _require(len(trained) + len(tested) == len(of_rows), "some rows are on neither side.")
    units.take(of_x[1], of_y[1]).check()


# Statistics.


class _Statistic(_Part):
    @functools.cached_property
    def samples(self) -> Samples:
        return Samples(self.x, self.y, _schema_of(self.x))

    def plans(self) -> Iterator[tuple[Bins, Tensor]]:
        """Bins of one point and of several, and shuffles of them, the observed order first."""
        n, m = self.samples.sizes
        for bins in (500, min(n, m) // 3):  # more bins than points: each point is one
            draws = _draws(f"shuffles of {bins}")
            if "permutations" in self.part.shuffled_by:
                permutation = Permutation(40, bins=bins)
                plan = permutation.plan(n, m, draws)
                shuffles = permutation.shuffles(plan, draws, order_matters=True)
            else:
                swap = PairSwap(40, bins=bins)
                least_bins = self.part.least_bins(n, m)
                plan = swap.plan(n, m, draws, least_bins)
                shuffles = swap.shuffles(plan, draws)
            yield plan, shuffles.all()

    def prepared(self, samples: Samples, bins: Bins, memory: int = DEFAULT_MEMORY) -> Any:
        generator = _draws("prepare")
        embed = embedding_of(self.representation)
        points = embed_samples(samples, embed, generator, Resources(memory))
        return self.part.prepare(self.representation, points, bins, generator)

    def value(self, memory: int = DEFAULT_MEMORY) -> Tensor:
        bins, shuffles = next(self.plans())
        return self.evaluated(self.samples, bins, shuffles, memory)

    def evaluated(
        self, samples: Samples, bins: Bins, shuffles: Tensor, memory: int = DEFAULT_MEMORY
    ) -> Tensor:
        """(B,) or (rows, B) values of the statistic for samples, over shuffles of their bins."""
        prepared = self.prepared(samples, bins, memory)
        values: Tensor = self.part.evaluate(prepared, shuffles)
        return values

    def fused(self, samples: Samples, bins: Bins, shuffles: Tensor) -> Tensor:
        """(B,) values, one for each shuffle, of a statistic that may be fused of several."""
        prepared = self.prepared(samples, bins)
        values: Tensor = self.part.fuse(prepared, self.part.evaluate(prepared, shuffles))
        return values


def _takes_the_representation(seen: _Statistic) -> None:
    """`check` takes the representation, and `shuffled_by` names ways to shuffle."""
    seen.part.check(seen.representation)
    ways = seen.part.shuffled_by
    unknown = set(ways) - {"permutations", "swaps"}
    are_known = bool(ways) and not unknown
    _require(are_known, f"shuffled_by is {ways!r}: 'permutations', 'swaps'?")


def _gives_one_number_for_a_shuffle(seen: _Statistic) -> None:
    """`evaluate` gives finite float64 for each shuffle, whatever others come with it."""
    statistic = seen.part
    for bins, shuffles in seen.plans():
        prepared = seen.prepared(seen.samples, bins)
        together = statistic.evaluate(prepared, shuffles)  # (B + 1,) or (rows, B + 1)
        dtype = together.dtype
        _require(dtype == torch.float64, f"the values are {dtype}.")
        alone = []
        for shuffle in shuffles:
            by_itself = shuffle[None]  # (1, bins)
            alone.append(statistic.evaluate(prepared, by_itself))
        _require_same(together, torch.cat(alone, -1), "among other shuffles, the value")


def _fuses_labellings_alike(seen: _Statistic) -> None:
    """`fuse` gives one float64 for each labelling, the same in whatever order they come."""
    bins, shuffles = next(seen.plans())
    prepared = seen.prepared(seen.samples, bins)
    values = seen.part.evaluate(prepared, shuffles)
    fused = seen.part.fuse(prepared, values)
    shape = tuple(fused.shape)
    one_each = shape == (len(shuffles),) and fused.dtype == torch.float64
    _require(one_each, f"{len(shuffles)} labellings give {fused.dtype} of the shape {shape}.")
    order = _new_order(len(shuffles), "order of labellings")
    in_another_order = seen.part.fuse(prepared, values[..., order])
    _require_same(in_another_order, fused[order], "in another order of labellings, the value")


def _shuffles_as_points_move(seen: _Statistic) -> None:
    """A shuffle has the value that the samples have once their points have moved."""
    samples = seen.samples
    n = len(seen.x)
    for bins, shuffles in seen.plans():
        in_place = shuffles[:1]
        values = seen.evaluated(samples, bins, shuffles)
        places = bins.members(0, bins.moving)
        for number, shuffle in enumerate(shuffles[:12]):  # preparing for more would take long
            pooled = samples.pooled()
            moved = pooled.clone()
            moved[places] = pooled[places[shuffle]]
            x = moved[:n]
            y = moved[n:]
            moved_samples = Samples(x, y, samples.schema)
            observed = seen.evaluated(moved_samples, bins, in_place)[..., 0]
            order = "the observed order"
            if number:
                order = f"shuffle {number} of bins of {bins.size}"
            value = values[..., number]
            _require_same(value, observed, f"the value of {order}", tolerance=1e-7)


def _moves_units_as_rows_move(seen: _Statistic) -> None:
    """Where units of different sizes move within cells, it has the value of the moved samples.

    That is for statistics that say that they take units.
    """
    if not seen.part.takes_units:
        return
    samples = seen.samples
    permutation = Permutation(8)
    for units in _some_units(samples.sizes):
        bins = permutation.plan_units(units, _draws("bins of units"))
        shuffles = permutation.shuffles(bins, _draws("shuffles of units"), order_matters=True)
        values = seen.evaluated(samples, bins, shuffles.all())
        for number, shuffle in enumerate(shuffles.all()):
            # True for the rows that the shuffle puts into X.
            in_x = bins.in_x(shuffle[None])[0][bins.of_all] > 0
            pooled = samples.pooled()
            moved = Samples(pooled[in_x], pooled[~in_x], samples.schema)
            of_rows = torch.cat([units.of_x, units.of_y])
            codes = (of_rows[in_x], of_rows[~in_x])
            cells = (units.cells[codes[0]], units.cells[codes[1]])
            there = permutation.plan_units(Units.of(codes, cells), _draws("bins of units"))
            in_place = torch.arange(there.moving)[None]
            observed = seen.evaluated(moved, there, in_place)[..., 0]
            name = f"the value of shuffle {number} of units"
            _require_same(values[..., number], observed, name, tolerance=1e-7)


def _some_units(sizes: tuple[int, int]) -> Iterator[Units]:
    """Units of one to three rows, in one cell and in two."""
    n, m = sizes
    of_x = torch.arange(n) * 2 // 5  # two and three rows in turn
    of_y = torch.cat([torch.arange(2), 2 + torch.arange(m - 2) // 2])  # one row, or two
    yield Units.of((of_x, of_y))
    yield Units.of((of_x, of_y), (of_x % 2, of_y % 2))


def _ignores_the_order_within_samples(seen: _Statistic) -> None:
    """The order of points within a sample does not matter; of paired points, that of pairs."""
    if "permutations" not in seen.part.shuffled_by:
        return
    samples = seen.samples
    n, m = samples.sizes
    of_x = _new_order(n, "order of x")
    of_y = of_x  # so that pairs stay together
    if not seen.part.depends_on_order:
        of_y = _new_order(m, "order of y")
    x = seen.x[of_x]
    y = seen.y[of_y]
    other = Samples(x, y, samples.schema)
    bins, shuffles = next(seen.plans())
    in_place = shuffles[:1]
    value = seen.evaluated(samples, bins, in_place)
    same = seen.evaluated(other, bins, in_place)
    # Looser than elsewhere: another order of summands is rounded in another way.
    _require_same(same, value, "in another order, the value", tolerance=1e-7)


def _is_large_where_samples_differ(seen: _Statistic) -> None:
    """Where the samples differ plainly, its value is larger in the observed order than in most."""
    bins, shuffles = next(seen.plans())
    values = seen.fused(seen.samples, bins, shuffles)
    # With samples that differ plainly, more than a tenth would be a statistic that sees nothing, or
    # one that is small where samples differ.
    observed = values[0]
    shuffled = values[1:]
    above = int((shuffled >= observed).sum())
    _require(
        above <= len(values) // 10,
        f"{above} of {len(shuffled)} shuffles have at least the observed value.",
    )


def _draws_by_its_generator(seen: _Statistic) -> None:
    """It draws from the generator it is given and from nothing else."""
    with _no_global_generator():
        first = seen.value()
        second = seen.value()
    _require_same(second, first, "the second time, the value")


def _keeps_to_its_law(seen: _Statistic) -> None:
    """The threshold of its law, where it has one, is exceeded no more often than it says."""
    try:
        seen.part.check_law(seen.representation)
    except IncompatibleParts:
        return  # it has none, which is no fault
    bins, _ = next(seen.plans())
    prepared = seen.prepared(seen.samples, bins)
    law = seen.part.law(prepared)
    for alpha in (0.01, 0.05, 0.5):
        # A discrete law cannot hit alpha exactly, but must not exceed it.
        threshold = law.threshold(alpha)
        chance = law.survival(threshold)
        _require(
            0 <= chance <= alpha + 1e-9,
            f"by the {law.name}, that at {alpha} is exceeded with chance {chance}.",
        )


def _describes_the_effect(seen: _Statistic) -> None:
    """`prepare` knows its rounding error, and `effect` says how different the samples are."""
    bins, shuffles = next(seen.plans())
    prepared = seen.prepared(seen.samples, bins)
    resolution = prepared.resolution
    _require(0 <= resolution < math.inf, f"the resolution is {resolution!r}.")
    observed = float(seen.fused(seen.samples, bins, shuffles)[0])
    effect = seen.part.effect(prepared, observed, 0.0)
    is_effect = isinstance(effect, Effect)
    _require(is_effect, f"`effect` gives a {type(effect).__name__}, not an Effect.")


# Objectives.


class _Objective(_Part):
    def value(self, memory: int = DEFAULT_MEMORY) -> Tensor:
        value: Tensor = self.part(
            self.representation,
            self.x,
            self.y,
            memory=memory,
        )
        return value

    def trained(self, steps: int) -> nn.Module:
        """The representation after so many steps, from one start."""
        # A test needs some statistic; it has no part in the training.
        statistic = MMD() if isinstance(self.given, Kernel) else HotellingT2()
        learning = Learning(self.part, steps=steps)
        test = TwoSampleTest(self.given, learning, statistic)
        X = self.x.numpy()
        Y = self.y.numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)  # of few points
            fitted = test.fit(X, Y, rng=0, device="cpu", progress=False)
        return fitted.representation


def _gives_one_number(seen: _Objective) -> None:
    """It gives one finite number, with a gradient."""
    value = seen.value()
    shape = tuple(value.shape)
    _require(shape == (), f"it has the shape {shape}.")
    number = value.item()
    _require(math.isfinite(number), f"it is {number}.")
    _require(value.requires_grad, "it has none.")


def _has_a_true_gradient(seen: _Objective) -> None:
    """Its gradient in every parameter is that of finite differences."""
    for name, parameter in seen.representation.named_parameters():
        if parameter.requires_grad:
            _require_slope(seen.value, parameter, name)


def _leaves_the_representation_alone(seen: _Objective) -> None:
    """It changes nothing in the representation."""
    representation = seen.representation
    before = copy.deepcopy(representation.state_dict())
    seen.value()
    for name, tensor in representation.state_dict().items():
        _require_same(tensor, before[name], f"afterwards {name}", tolerance=0.0)
    filled = []
    for name, parameter in representation.named_parameters():
        if parameter.grad is not None:
            filled.append(name)
    _require(not filled, f"it leaves gradients in {', '.join(filled)}; the optimiser does that.")


def _trains(seen: _Objective) -> None:
    """Training by it moves parameters, and leaves them finite."""
    before = dict(seen.trained(steps=0).named_parameters())
    after = dict(seen.trained(steps=3).named_parameters())
    moved = 0
    for name, parameter in after.items():
        all_finite = bool(torch.isfinite(parameter).all())
        _require(all_finite, "some are not finite.")
        if not torch.equal(parameter, before[name]):
            moved += 1
    # A single one is enough: others may be frozen, or have no gradient at the start.
    _require(moved > 0, f"none of {len(after)} has moved in three steps.")


# Whole tests.


@dataclass(frozen=True)
class _Test:
    test: TwoSampleTest
    draw: Draw
    sizes: tuple[int, int]
    runs: int
    alpha: float
    generators: Generators

    def samples(self, run: int) -> tuple[Any, Any]:
        """Two samples of one distribution."""
        rng = self.generators.numpy(f"samples {run}")
        n, m = self.sizes
        X = self.draw(rng, n)
        Y = self.draw(rng, m)
        return X, Y

    @functools.cached_property
    def pvalues(self) -> list[float]:
        """Of all runs; they are made once, for all clauses that ask for them."""
        pvalues = []
        for run in range(self.runs):
            X, Y = self.samples(run)
            # One generator a run: what one of them draws never changes the others.
            rng = self.generators.numpy(f"test {run}")
            result = self.run(X, Y, rng)
            pvalues.append(result.pvalue)
        return pvalues

    def run(self, X: Any, Y: Any, rng: RNGLike) -> TwoSampleResult:
        """The result of one run."""
        return self.test.run(X, Y, rng=rng, device="cpu", progress=False)


def _normal(rng: np.random.Generator, size: int) -> Any:
    return rng.normal(size=(size, 3))


def _gives_one_answer_for_a_seed(seen: _Test) -> None:
    """One seed gives one answer, whatever else the program draws."""
    X, Y = seen.samples(0)
    with _no_global_generator():
        first = seen.run(X, Y, 1)
        second = seen.run(X, Y, 1)
    same_null = np.array_equal(first.null_distribution, second.null_distribution)
    _require(
        first.statistic == second.statistic and same_null,
        f"the statistic is {first.statistic!r} and then {second.statistic!r}, or its null "
        "distribution has changed.",
    )


def _gives_pvalues(seen: _Test) -> None:
    """P-values are larger than 0 and at most 1."""
    outside = [p for p in seen.pvalues if not 0 < p <= 1]
    count = len(outside)
    example = outside[:1]
    _require(count == 0, f"{count} of {seen.runs} are not, such as {example}.")


def _stays_as_it_is(seen: _Test) -> None:
    """Running it trains nothing in place."""
    before = copy.deepcopy(seen.test.representation.state_dict())
    X, Y = seen.samples(0)
    seen.run(X, Y, 0)
    after = seen.test.representation.state_dict()
    _require(
        before.keys() == after.keys(),
        f"the representation had {sorted(before)} and has {sorted(after)}.",
    )
    for name, tensor in after.items():
        # A scale that is open is NaN, which equals nothing.
        new = torch.nan_to_num(tensor)
        old = torch.nan_to_num(before[name])
        same = torch.equal(old, new)
        _require(same, f"{name} of the representation has changed.")


def _keeps_its_level(seen: _Test) -> None:
    """Where both samples have one distribution, it rejects no more often than alpha allows."""
    alpha = seen.alpha
    runs = seen.runs
    rejected = sum(p <= alpha for p in seen.pvalues)
    # The runs are independent, so the number of rejections of an exact test is binomial at most.
    most = int(binom.isf(_CHANCE, runs, alpha))
    _require(
        rejected <= most,
        f"it rejected {rejected} of {runs} at {alpha}; an exact test stays within {most} all but "
        "once in a million.",
    )


# The contracts.


_OF_GRADIENTS: Clauses = (
    _pulls_back_as_autograd_does,
    _has_true_gradients,
    _has_true_gradients_through_tiles,
)
_OF_MODULES: Clauses = (
    _copies_well,
    _computes_in_the_precision_of_its_points,
    _registers_its_tensors,
    _gives_the_same_on_other_devices,
    _can_be_kept,
)
# In this order the first clause that fails is the one to mend first: later ones build on it.
_CONTRACTS: Mapping[Kind, Clauses] = MappingProxyType(
    {
        "kernel": (
            _starts_by_its_generator,
            _repeats_itself,
            _embeds_every_point,
            _embeds_in_any_order,
            _moves_all_points_alike,
            _compares_what_it_embeds,
            _is_symmetric,
            _is_semidefinite,
            _has_the_pairs_of_its_tiles,
            _crosses_sides_to_tiles,
            _is_the_product_of_its_features,
            _sums_alike_in_all_tiles,
            *_OF_GRADIENTS,
            *_OF_MODULES,
        ),
        "featurizer": (
            _starts_by_its_generator,
            _repeats_itself,
            _gives_every_point_a_vector,
            _gives_vectors_in_any_order,
            _has_true_gradients,
            *_OF_MODULES,
        ),
        "view": (
            _gives_features_of_every_view,
            _repeats_itself,
            _learns_without_labels,
            _sees_a_point_by_itself,
            _names_the_columns_of_its_views,
            _measures_by_triangular_factors,
            _says_which_views_are_blind,
            _has_a_share_of_the_level,
            _prints_its_name,
            _copies_well,
            _registers_its_tensors,
            _can_be_kept,
        ),
        "statistic": (
            _takes_the_representation,
            _gives_one_number_for_a_shuffle,
            _fuses_labellings_alike,
            _shuffles_as_points_move,
            _moves_units_as_rows_move,
            _ignores_the_order_within_samples,
            _is_large_where_samples_differ,
            _needs_no_more_memory,
            _draws_by_its_generator,
            _keeps_to_its_law,
            _describes_the_effect,
            _holds_settings_only,
        ),
        "objective": (
            _gives_one_number,
            _leaves_the_representation_alone,
            _has_a_true_gradient,
            _needs_no_more_memory,
            _holds_settings_only,
            _trains,
        ),
        "design": (
            _gives_every_row_one_unit,
            _moves_as_a_group,
            _gives_the_same_units_after_a_move,
            _splits_between_units,
            _holds_settings_only,
        ),
        "test": (
            _gives_one_answer_for_a_seed,
            _gives_pvalues,
            _stays_as_it_is,
            _keeps_its_level,
        ),
    }
)
