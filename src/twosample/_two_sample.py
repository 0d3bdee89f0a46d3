"""`TwoSampleTest`: four slots, a split and a design, put together. Read this, know the library.

representation   what the samples are seen through: a kernel, or a map from points to features
learning         the objective that trains it, and the split that gives it data of its own
statistic        one number for one labelling of the pooled points
calibration      what that number looks like when P = Q, hence the p-value
design           which rows may change places with which; every split and every shuffle asks it

A test goes twice over the rows. The first pass, `survey`, learns what they are and picks those to
fit on; the second computes the statistic from the others. What is in memory is read only once.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ._calibration import Calibration, Permutation
from ._checks import check_alpha, check_share, check_whole
from ._cluster import DaskWorkers
from ._data.columns import Columns
from ._data.copies import Repeats
from ._data.fingerprint import Fingerprint
from ._data.rereading import points_to_test
from ._data.samples import EmbeddedSamples, Samples, Scaling
from ._data.schema import Schema
from ._data.streams import Pair, open_samples
from ._data.survey import (
    Pick,
    Survey,
    fitting_rows,
    rules_of,
    starting_rows,
    survey,
    training_rows,
    without_columns,
)
from ._data.tables import count, told_apart
from ._data.weights import weighed
from ._design import Blocks, Design, Key, Rows, design_from
from ._kernels import embedding_of
from ._learning import Learning, TrainingInterrupted, check_learning, fit
from ._progress import one_bar
from ._random import Generators, RNGLike, takes_rng
from ._resources import DEFAULT_MEMORY, HERE, Resources
from ._result import ALPHA, TrainingLog, TwoSampleResult, format_pvalue
from ._statistics import MMD, Statistic
from ._threads import threads_for
from .errors import InputError, InputWarning

_LEAST_UNITS = 20  # of each sample, for a test that trains on half of them
_TESTING = {"": 1.0}  # a test by itself is one stage, which needs no name

if TYPE_CHECKING:
    from ._insight.checks.checking import FirstLook


@dataclass(frozen=True)
class TwoSampleTest:
    """A test of whether two samples come from the same distribution: a frozen record of its parts.

    Parameters
    ----------
    representation
        A kernel, or for `HotellingT2` a map from points to features. It is copied before anything
        in it is started or trained.
    learning
        How the representation is trained, and on which fraction of the data; None where it needs no
        training.
    statistic, calibration
        What is computed on the held-out points and how it becomes a p-value.
    name
        What results call it.
    design
        Which rows move together, and which may change places: `Rows()` for independent rows.
    then
        Another test, which is run where this one does not decide.
    memory
        Bytes that the computation may take beside the data and what is linear in them. Of a
        `Stream`, embedded points that take more are kept in a temporary file.
    """

    representation: nn.Module
    learning: Learning | None = None
    statistic: Statistic = MMD()
    calibration: Calibration = Permutation()
    name: str = "custom"
    memory: int = DEFAULT_MEMORY
    then: FollowUp | None = None
    design: Design = Rows()

    def __post_init__(self) -> None:
        if self.memory < 2**20:
            raise InputError(f"memory is {self.memory} bytes; give at least 1 MiB (2**20).")
        # Parts that do not fit together fail here, before anybody waits for a training.
        self.statistic.check(self.representation)
        self.calibration.check(self.statistic, self.representation)
        self.calibration.check_design(self.design, self.statistic)
        check_learning(self.representation, self.learning)

    @takes_rng
    def run(
        self,
        X: Any,
        Y: Any,
        *,
        rng: RNGLike | None = None,
        device: str = "auto",
        progress: bool | None = None,
        client: Any = None,
        columns: Columns | None = None,
        repeats: Repeats = "once",
    ) -> TwoSampleResult:
        """Look at the rows, fit, and test; only a test that trains splits them.

        `progress` shows a bar while training: True, False, or None for only on a terminal. `client`
        is one of a Dask cluster, `columns` says what of a table to test, and `repeats` what becomes
        of copies of rows, as in `two_sample_test`.
        """
        resources = self._resources(progress, client)
        generators = Generators(rng)
        with one_bar(_TESTING, progress), open_samples(X, Y, self.memory) as pair:
            seen = self._look_first(pair, rules_of(None, columns), repeats)
            if seen.identical:
                hardly = self._hardly_trained()
                result = hardly._run(pair, generators, device, resources, seen)
                return _without_difference(result, seen, by_default=self.then is not None)
            result = self._run(pair, generators, device, resources, seen)
            if self.then is not None and self.then.is_wide_enough(result):
                result = replace(result, follow_up=self.then)
                if self.then.is_large_enough(result.sizes_of_all, result.units):
                    result = self.then.follow(result, pair, generators, device, resources, seen)
            return replace(result, checks=seen.findings)

    def _run(
        self,
        pair: Pair,
        generators: Generators,
        device: str,
        resources: Resources,
        seen: FirstLook,
    ) -> TwoSampleResult:
        # The scaling comes from all rows, those to be tested too, but from the pooled ones: no
        # shuffle of the labels changes it, and the p-value stays exact.
        surveyed = survey(
            pair,
            self._pick(generators),
            columns=seen.columns,
            generator=generators.torch("quantiles"),
            design=self.design,
        )
        seen.settle()  # here, because what cannot be read at all has raised by now
        with threads_for(surveyed.schema):
            fitted = self._fit(surveyed.picked, surveyed.scaling, generators, device, resources)
            return fitted._test(pair, surveyed, generators, resources)

    @takes_rng
    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        rng: RNGLike | None = None,
        device: str = "auto",
        progress: bool | None = None,
        columns: Columns | None = None,
        weights: Key | None = None,
    ) -> FittedTest:
        """Fit on all of X and Y; test the outcome on *other* points.

        Of a `Stream` at most 100,000 rows are used. What `columns` says holds for the other points
        too. Only this test is fitted, not the one that `then` names: of the default, the views.
        With `weights`, as in `two_sample_test`, rows are kept by chance; those of other points are
        given when these are tested.
        """
        if weights is not None:
            left = weighed(X, Y, weights, self.design, rng)
            test = replace(self, design=left.design, then=None)
            return test.fit(
                left.x, left.y, rng=left.rng, device=device, progress=progress, columns=columns
            )
        resources = self._resources(progress)
        generators = Generators(rng)
        with one_bar(_TESTING, progress), open_samples(X, Y, self.memory) as pair:
            # Copies do no harm here, since no p-value comes from these rows.
            seen = self._look_first(pair, rules_of(None, columns), "allow", by_rows=False)
            # All rows are training points, so the whole survey may look at them.
            pick = fitting_rows(generators.torch("split"), self.memory)
            surveyed = survey(
                pair,
                pick,
                columns=seen.columns,
                generator=generators.torch("quantiles"),
                design=self.design,
            )
            seen.settle()
            with threads_for(surveyed.schema):
                return self._fit(surveyed.picked, surveyed.scaling, generators, device, resources)

    def _look_first(
        self,
        pair: Pair,
        rules: Columns,
        repeats: Repeats,
        *,
        by_rows: bool = True,
        fitted: bool = False,
    ) -> FirstLook:
        """What is odd about the samples. Copies of rows are left out of `pair`."""
        from ._insight.checks.checking import look_first  # imported here: it imports this module

        rules = without_columns(rules, self.design.columns)
        # A user who says which rows belong together has spoken of copies, too.
        by_rows = by_rows and isinstance(self.design, Rows)
        return look_first(pair, rules, repeats, by_rows=by_rows, fitted=fitted)

    def _hardly_trained(self) -> TwoSampleTest:
        """The test without the training, for samples that hold the same rows."""
        if self.learning is None:
            return self
        return replace(self, learning=replace(self.learning, steps=min(1, self.learning.steps)))

    def _pick(self, generators: Generators) -> Pick:
        """Which rows to fit on and which to test: without training all are tested."""
        if self.learning is None:
            # Some rows are picked all the same, blind to labels: a bandwidth may start from them.
            return starting_rows(generators.torch("subsample"), self.memory)
        fraction = self.learning.train_fraction
        return training_rows(fraction, generators.torch("split"), self.memory)

    def _fit(
        self,
        train: Samples,
        scaling: Scaling,
        generators: Generators,
        device: str,
        resources: Resources,
    ) -> FittedTest:
        scaled = scaling.apply(train, device=choose_device(device))
        # A copy, since the test is a frozen record: it can be run again, and gives the same.
        representation = copy.deepcopy(self.representation).to(scaled.x.device)
        log = None
        if self.learning is not None:
            try:
                trained = fit(representation, scaled, self.learning, generators, resources)
            except TrainingInterrupted as interrupted:
                # Interrupting means stopping. What was learned by then goes with the exception.
                interrupted.fitted = self._fitted(
                    interrupted.representation, train, scaling, interrupted.log
                )
                raise
            representation, log = trained
        else:
            # What needs no training may still take its bandwidth from the points, and views of
            # single columns need to know which those are.
            look_at = getattr(representation, "look_at", None)
            if callable(look_at):
                look_at(train.schema)
            start = getattr(representation, "start", None)
            if callable(start):
                start(scaled.pooled(), generators.torch("start"))
        return self._fitted(representation, train, scaling, log)

    def _fitted(
        self,
        representation: nn.Module,
        train: Samples,
        scaling: Scaling,
        log: TrainingLog | None,
    ) -> FittedTest:
        """The test with a representation that is fixed."""
        # From here on nothing learns: shuffles must not change what they are evaluated with.
        representation.eval().requires_grad_(False)
        return FittedTest(
            representation,
            # This test alone: another that would follow it learns from other rows.
            # Arrays that say which rows belong together are those of these rows.
            spec=replace(self, then=None, design=self.design.without_arrays()),
            schema=train.schema,
            scaling=scaling,
            train_sizes=None if log is None else train.sizes,
            training=log,
            dropped=train.dropped,
            fingerprint=Fingerprint.of(train.x, train.y),
        )

    def _resources(self, progress: bool | None, client: Any = None) -> Resources:
        """What a computation may use: the memory of this test, and the workers of a client."""
        workers = HERE if client is None else DaskWorkers(client)
        return Resources(self.memory, progress, workers)


@dataclass(frozen=True)
class FollowUp:
    """A test that is run where another does not decide, and how the two make one p-value.

    With a share w of the level for this test, p = min(p1 / (1 - w), p2 / w) is a p-value: the
    chance that it is at most alpha is at most (1 - w) alpha + w alpha. Where p1 / (1 - w) is at
    most the level that is asked for, this test is not run, which can only make p larger.

    Parameters
    ----------
    test
        Which test that is.
    share
        Its share of the level, between 0 and 1.
    least_rows
        Samples of fewer rows are not worth it: the first test has the whole level then.
    least_columns
        Nor are tables of fewer columns.
    alpha
        The level at which the first test decides.
    """

    test: TwoSampleTest
    share: float = 0.1
    least_rows: int = 1000
    least_columns: int = 1
    alpha: float = ALPHA

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_whole("least_rows", self.least_rows, 1)
        check_whole("least_columns", self.least_columns, 1)
        check_alpha(self.alpha)

    def is_wide_enough(self, first: TwoSampleResult) -> bool:
        """Whether the tables of a first test are wide enough for it. Images are."""
        fitted = first.fitted
        if fitted is None or fitted.schema.kind == "image":
            return True
        return len(fitted.schema.columns) >= self.least_columns

    def is_large_enough(self, sizes: tuple[int, int], units: tuple[int, int] | None = None) -> bool:
        """Whether samples are large enough for it.

        Sizes must be the same for every labelling. Of `units` half is trained on, and few others
        could not give a p-value that is small enough for its share of the level.
        """
        enough = units is None or min(units) >= _LEAST_UNITS
        return enough and min(sizes) >= self.least_rows

    def level_left(self, sizes: tuple[int, int]) -> float:
        """The share of the level that the first test has for samples of these sizes."""
        return 1 - self.share if self.is_large_enough(sizes) else 1.0

    def follow(
        self,
        first: TwoSampleResult,
        pair: Pair,
        generators: Generators,
        device: str,
        resources: Resources,
        seen: FirstLook,
    ) -> TwoSampleResult:
        """The result of both tests: that of the one with the smaller p-value."""
        # Each p-value over its share of the level.
        p_first = min(1.0, first.pvalue / (1 - self.share))
        told = f"{first.method}: p = {format_pvalue(first.pvalue)}"
        if p_first <= self.alpha:
            chosen = f"{told}, which decides at {self.alpha:g}, so {self.test.name} was not trained"
            return replace(first, pvalue=p_first, chosen=chosen, share=1 - self.share)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)  # the first test has said it all
            second = self.test._run(pair, generators, device, resources, seen)
        p_second = min(1.0, second.pvalue / self.share)
        chosen = (
            f"{told}, counted as p / {1 - self.share:g}; {second.method}: p = "
            f"{format_pvalue(second.pvalue)}, counted as p / {self.share:g}"
        )
        if p_second < p_first:
            return replace(second, pvalue=p_second, chosen=chosen, share=self.share)
        return replace(first, pvalue=p_first, chosen=chosen, share=1 - self.share)


@dataclass(frozen=True, eq=False)
class FittedTest:
    """A test whose representation is fixed; `test` it on as many new pairs of samples as you like.

    Attributes
    ----------
    representation
        The trained kernel or feature map.
    spec
        The `TwoSampleTest` it was fitted from.
    schema, scaling
        How new data become tensors: learned from the training points without their labels.
    train_sizes, training
        How many points it was trained on, and how that went; None without training.
    dropped
        How many rows were left out then because something in them was missing.
    fingerprint
        Hashes of some of the rows it was fitted on, by which they are known again; None in older
        files.
    """

    representation: nn.Module
    spec: TwoSampleTest
    schema: Schema = field(repr=False)
    scaling: Scaling = field(repr=False)
    train_sizes: tuple[int, int] | None
    training: TrainingLog | None = field(repr=False)
    dropped: tuple[int, int] = (0, 0)
    fingerprint: Fingerprint | None = field(repr=False, default=None)

    @takes_rng
    def test(
        self,
        X: Any,
        Y: Any,
        *,
        rng: RNGLike | None = None,
        progress: bool | None = None,
        client: Any = None,
        groups: Key | None = None,
        blocks: int | str | Blocks | None = None,
        strata: Key | None = None,
        pairs: Key | None = None,
        weights: Key | None = None,
        repeats: Repeats = "once",
    ) -> TwoSampleResult:
        """Test two new samples. They must not share points with those the test was fitted on.

        `groups`, `blocks`, `strata` and `pairs` are as in `two_sample_test`; without them, those of
        the fit hold, if they were columns. So are `weights`, which are always those of these rows,
        and `repeats`, what becomes of copies of rows.
        """
        design = design_from(groups, blocks, strata, pairs)
        options = {"progress": progress, "client": client, "repeats": repeats}
        if weights is not None:
            left = weighed(X, Y, weights, design or self.spec.design, rng)
            other = replace(self, spec=replace(self.spec, design=left.design))
            result = other.test(left.x, left.y, rng=left.rng, **options)
            return replace(result, design=left.described(result.design))
        if design is not None:
            # What does not fit with the other parts is refused here.
            other = replace(self, spec=replace(self.spec, design=design))
            return other.test(X, Y, rng=rng, **options)
        resources = self.spec._resources(progress, client)
        with one_bar(_TESTING, progress), open_samples(X, Y, self.spec.memory) as pair:
            # Nothing is learned any more: schema and scaling are those of the training points.
            seen = self.spec._look_first(pair, self.schema.rules, repeats, fitted=True)
            # Some rows are picked to see whether they are those of the fit; all are tested.
            pick = starting_rows(torch.Generator().manual_seed(0), self.spec.memory)
            surveyed = survey(
                pair,
                pick,
                schema=self.schema,
                scaling=self.scaling,
                design=self.spec.design,
            )
            seen.settle()
            seen = seen.known_from_fit(self, surveyed.picked)
            with threads_for(self.schema):
                result = self._test(pair, surveyed, Generators(rng), resources)
            if seen.identical:
                return _without_difference(result, seen)
            return replace(result, checks=seen.findings)

    def save(self, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None) -> None:
        """Write it to a safetensors file, which `twosample.load` reads; see docs/saving.md.

        A file of that name is replaced at once and as a whole, so that no failure and no kill
        leaves half of one. A test that holds a model of scikit-learn cannot be saved. `notes` are
        kept with it, such as {"seed": 0}.
        """
        from ._saving.saving import save  # imported here: it imports this module

        save(self, path, notes=notes)

    def _test(
        self,
        pair: Pair,
        surveyed: Survey,
        generators: Generators,
        resources: Resources,
    ) -> TwoSampleResult:
        """Test the rows that are not for training."""
        _check_sizes(surveyed.tested, surveyed.names)
        representation = self._representation_for(resources)
        points = points_to_test(
            pair,
            surveyed,
            self.scaling,
            embedding_of(representation),
            generators.torch("embedding"),
            device=_device_of(representation),
            resources=resources,
        )
        result = self._test_scaled(points, generators, resources)
        files = None
        if self.schema.kind == "image":
            files = _files_of(pair, surveyed.sizes)
        return replace(result, names=told_apart(*surveyed.names), files=files)

    def _representation_for(self, resources: Resources) -> nn.Module:
        if resources.workers is HERE or self._device().type == "cpu":
            return self.representation
        # Other machines need not have this one's device.
        return copy.deepcopy(self.representation).cpu()

    def _device(self) -> torch.device:
        return _device_of(self.representation)

    def _test_scaled(
        self,
        points: Samples | EmbeddedSamples,
        generators: Generators,
        resources: Resources,
    ) -> TwoSampleResult:
        """Compute the statistic and its p-value from points that are scaled, or embedded too."""
        representation = self._representation_for(resources)
        points = points.to(device=_device_of(representation))
        statistic = self.spec.statistic
        # A generator of its own: training longer does not change the shuffles.
        generator = generators.torch("calibration")
        outcome = self.spec.calibration(statistic, representation, points, generator, resources)
        observed = float(outcome.values[0])  # the first shuffle is the identity
        effect = statistic.effect(outcome.prepared, observed, outcome.threshold)
        if points.units is not None:
            # Their formulas are those of independent rows.
            effect = replace(effect, power=None, criterion=None)
        return TwoSampleResult(
            statistic=observed,
            pvalue=outcome.pvalue,
            null_distribution=outcome.values[1:].numpy(),
            method=self.spec.name,
            calibration=outcome.description,
            sizes=points.sizes,
            train_sizes=self.train_sizes,
            effect=effect,
            training=self.training,
            fitted=self,
            # The rows of a stream are not kept.
            samples=points if isinstance(points, Samples) else None,
            calibrated=outcome,
            dropped=points.dropped,
            seed=generators.seed,
            design=None if points.units is None else points.units.describe(),
            units=None if points.units is None else points.units.counts,
            usual_sizes=None if points.units is None else points.units.usual_sizes,
        )


def _without_difference(
    result: TwoSampleResult, seen: FirstLook, *, by_default: bool = False
) -> TwoSampleResult:
    """The result for samples that hold the same rows, of which no test may say that they differ.

    A kernel that was trained on one half would: half of X is the other half of Y.
    """
    chosen = "X and Y hold the same rows, so nothing is left to find" if by_default else None
    return replace(result, pvalue=1.0, chosen=chosen, checks=seen.findings)


def _device_of(representation: nn.Module) -> torch.device:
    first = next(representation.parameters(), None)
    # A part without parameters, such as a model of scikit-learn, works on the CPU.
    return torch.device("cpu") if first is None else first.device


def _files_of(pair: Pair, sizes: tuple[int, int]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The names of the files that images came from; None if some did not come from files."""
    names = []
    for stream, size in zip(pair, sizes, strict=True):
        source = stream.source
        if source is None or source.place is None:
            return None
        rows = range(size) if source.rows is None else source.rows.tolist()
        names.append(tuple(os.path.basename(source.place(row)) for row in rows))
    return names[0], names[1]


def _check_sizes(sizes: tuple[int, int], names: tuple[str, str] = ("X", "Y")) -> None:
    for name, size in zip(names, sizes, strict=True):
        if size < 2:
            raise InputError(
                f"{name} has {count(size, 'row')} to test; a test needs at least 2 in each sample."
            )


def choose_device(device: str) -> torch.device:
    """`device`, or for "auto" the accelerator that torch finds, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).tolist()  # one that holds no values, "meta", fails here
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device {device!r} cannot be used here ({str(error).splitlines()[0]}); use 'cpu' or "
            "'auto'."
        ) from None
    return chosen
