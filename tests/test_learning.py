import dataclasses
import math
import os
import signal
import time
import traceback

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import twosample
from twosample import (
    METHODS,
    CrossEntropy,
    DeepKernel,
    Gaussian,
    InputError,
    Learning,
    PowerCriterion,
    ResidualMLP,
    TrainingError,
    TrainingInterrupted,
)
from twosample._data.samples import Samples
from twosample._data.schema import Schema
from twosample._data.survey import as_samples
from twosample._learning import (
    CHECK_EVERY,
    LearningOptions,
    _batches,
    fit,
    settle_normalisation,
    start,
)
from twosample._objectives import best_bandwidth
from twosample._random import Generators
from twosample.bench.datasets import blob


def two_normals(n=60, m=60, shift=1.0, seed=0):
    rng = np.random.default_rng(seed)
    samples = as_samples(rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + np.array([shift, 0]))
    return samples.to(dtype=torch.float32)


def fit_quickly(kernel=None, samples=None, **options):
    options = {"steps": 20, "batch_size": 32, **options}
    return fit(
        kernel or Gaussian(),
        samples or two_normals(),
        Learning(**options),
        Generators(0),
    )


def test_training_raises_the_objective_on_the_training_points():
    samples = two_normals(shift=0.5)
    kernel = DeepKernel(ResidualMLP(2, width=10), Gaussian(3.0), Gaussian(6.0))
    before = PowerCriterion()(kernel, samples.x, samples.y).item()
    trained, log = fit_quickly(kernel, samples, steps=60)
    assert PowerCriterion()(trained, samples.x, samples.y).item() > before
    assert log.steps == 60 and log.best_step == 60 and log.validation == ()


def test_nothing_is_trained_in_place():
    kernel = DeepKernel(ResidualMLP(2, width=10), Gaussian(3.0), Gaussian(6.0))
    before = {name: value.clone() for name, value in kernel.state_dict().items()}
    fit_quickly(kernel)
    assert all(torch.equal(value, before[name]) for name, value in kernel.state_dict().items())


def test_same_streams_same_kernel_and_other_streams_another():
    kernels = [
        fit(Gaussian(), two_normals(), Learning(steps=5), Generators(seed))[0] for seed in (0, 0, 1)
    ]
    assert kernels[0].bandwidth == kernels[1].bandwidth
    deep = [
        fit(
            DeepKernel(ResidualMLP()),
            two_normals(),
            Learning(steps=5),
            Generators(s),
        )[0]
        for s in (0, 0, 1)
    ]
    outs = [kernel(two_normals().x, two_normals().y) for kernel in deep]
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])


def test_batches_have_one_size_and_every_point_its_turn():
    seen = []

    class Recording:
        def __call__(self, kernel, x, y, *, memory=0):
            seen.append((x.clone(), y.clone()))
            return PowerCriterion()(kernel, x, y)

    samples = two_normals(n=50, m=23)
    fit_quickly(samples=samples, objective=Recording(), batch_size=10, steps=10)
    assert all(len(x) == len(y) == 10 for x, y in seen)
    for first in (0, 5):  # an epoch of X: five batches of ten
        epoch = torch.cat([x for x, _ in seen[first : first + 5]])
        assert len(torch.unique(epoch, dim=0)) == 50
    seen.clear()
    fit_quickly(samples=two_normals(n=30, m=30), objective=Recording(), batch_size=32, steps=2)
    assert all(len(x) == len(y) == 30 for x, y in seen)  # small enough to be used whole
    seen.clear()
    fit_quickly(samples=two_normals(n=30, m=8), objective=Recording(), batch_size=32, steps=2)
    assert all(len(x) == len(y) == 8 for x, y in seen)  # unequal: batches of the smaller size


def test_validation_points_are_training_points_kept_aside():
    samples = two_normals(n=40, m=40)
    seen = []

    class Recording:
        def __call__(self, kernel, x, y, *, memory=0):
            seen.append((torch.is_grad_enabled(), x.clone()))
            return PowerCriterion()(kernel, x, y)

    _, log = fit_quickly(
        samples=samples, objective=Recording(), validation_fraction=0.25, steps=40, batch_size=10
    )
    trained_on = torch.unique(torch.cat([x for grad, x in seen if grad]), dim=0)
    looked_at = torch.unique(torch.cat([x for grad, x in seen if not grad]), dim=0)
    assert len(trained_on) == 30 and len(looked_at) == 10
    assert len(torch.unique(torch.cat([trained_on, looked_at]), dim=0)) == 40
    assert [step for step, _ in log.validation] == [0, 20, 40]


def test_best_iterate_is_kept_and_patience_stops():
    class Worsening:
        """Ascending it lowers its own value on validation points: the start is best."""

        def __call__(self, kernel, x, y, *, memory=0):
            return kernel.log_bandwidth * (1.0 if torch.is_grad_enabled() else -1.0)

    kernel, log = fit_quickly(
        Gaussian(1.0), objective=Worsening(), validation_fraction=0.2, patience=40, steps=200
    )
    assert log.best_step == 0 and kernel.bandwidth == pytest.approx(1.0)
    assert log.steps == 40 and "stopped at step 40" in log.stopped


def test_restarts_keep_the_best():
    class Counting:
        calls = 0

        def __call__(self, kernel, x, y, *, memory=0):
            Counting.calls += torch.is_grad_enabled()
            return PowerCriterion()(kernel, x, y)

    samples = two_normals(shift=0.3)
    objective = Counting()
    kernel = DeepKernel(twosample.MLP(2, width=5))
    best, _ = fit_quickly(kernel, samples, objective=objective, restarts=3, steps=5)
    assert Counting.calls == 15
    alone = [fit_quickly(kernel, samples, steps=5)[0]]
    with torch.no_grad():
        values = [PowerCriterion()(k.eval(), samples.x, samples.y).item() for k in (best, *alone)]
    assert (
        values[0] >= values[1] - 1e-9
    )  # the first of the three starts is the one that stands alone


def test_time_budget_ends_training_in_time_and_says_so():
    class Slow:
        def __call__(self, kernel, x, y, *, memory=0):
            time.sleep(0.02)
            return PowerCriterion()(kernel, x, y)

    _, log = fit_quickly(objective=Slow(), steps=10_000, time_budget=0.3)
    assert 1 <= log.steps < 40 and "out of time" in log.stopped


def test_an_interrupt_stops_and_offers_what_was_learned():
    class Interrupted:
        calls = 0

        def __call__(self, kernel, x, y, *, memory=0):
            Interrupted.calls += 1
            if Interrupted.calls == 7:
                raise KeyboardInterrupt
            return PowerCriterion()(kernel, x, y)

    with pytest.raises(TrainingInterrupted, match="interrupted after 6 steps") as caught:
        fit_quickly(Gaussian(5.0), objective=Interrupted(), steps=100)
    assert caught.value.log.steps == 6
    assert caught.value.representation.bandwidth != pytest.approx(5.0)


def test_an_interrupted_restart_is_one_of_those_to_choose_from():
    class Interrupted:
        calls = 0

        def __call__(self, kernel, x, y, *, memory=0):
            Interrupted.calls += 1
            if Interrupted.calls == 17:
                raise KeyboardInterrupt
            return PowerCriterion()(kernel, x, y)

    with pytest.raises(TrainingInterrupted, match="interrupted after") as caught:
        fit_quickly(Gaussian(5.0), objective=Interrupted(), steps=10, restarts=3)
    assert caught.value.representation is not None


def test_an_interrupt_in_pretraining_offers_nothing():
    class Interrupted(CrossEntropy):
        def __call__(self, kernel, x, y, *, memory=0):
            raise KeyboardInterrupt

    learning = Learning(PowerCriterion(), steps=3, pretraining=Learning(Interrupted(), steps=9))
    test = twosample.TwoSampleTest(DeepKernel(ResidualMLP()), learning)
    rng = np.random.default_rng(0)
    with pytest.raises(KeyboardInterrupt, match="pretraining was interrupted") as caught:
        test.fit(rng.normal(size=(40, 2)), rng.normal(size=(40, 2)), rng=0)
    assert not isinstance(caught.value, TrainingInterrupted)


def test_a_real_interrupt_signal_ends_training_and_a_loop_around_it():
    class Interrupting:
        calls = 0

        def __call__(self, kernel, x, y, *, memory=0):
            Interrupting.calls += 1
            if Interrupting.calls == 30:
                os.kill(os.getpid(), signal.SIGINT)
            return PowerCriterion()(kernel, x, y)

    rng = np.random.default_rng(0)
    test = twosample.TwoSampleTest(DeepKernel(ResidualMLP()), Learning(Interrupting(), steps=10**6))
    begun = []

    def loop() -> None:
        for number in range(3):
            begun.append(number)
            test.run(rng.normal(size=(80, 2)), rng.normal(size=(80, 2)) + 3, rng=0)

    with pytest.raises(KeyboardInterrupt) as caught:
        loop()
    assert begun == [0]
    fitted = caught.value.fitted
    assert 29 <= fitted.training.steps < 100
    # What was learned can be used by those who ask for it.
    result = fitted.test(rng.normal(size=(80, 2)), rng.normal(size=(80, 2)) + 3, rng=0)
    assert result.reject()


def test_a_value_that_is_not_finite_stops_with_step_and_rate():
    class Exploding:
        calls = 0

        def __call__(self, kernel, x, y, *, memory=0):
            Exploding.calls += 1
            return kernel.log_bandwidth * (math.nan if Exploding.calls == 5 else 1.0)

    with pytest.raises(TrainingError, match=r"became nan at step 5 with learning rate 0\.00\d+"):
        fit_quickly(Gaussian(1.0), objective=Exploding(), steps=100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": -1}, "steps is -1"),
        ({"batch_size": 1}, "batch_size is 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"scale_rate": -1.0}, "scale_rate is -1.0"),
        ({"train_fraction": 1.0}, "train_fraction is 1.0"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"restarts": 0}, "restarts is 0"),
        ({"time_budget": 0.0}, "time_budget is 0.0"),
    ],
)
def test_bad_settings_say_what_is_wrong(options, message):
    with pytest.raises(twosample.InputError, match=message):
        Learning(**options)


# ------------------------------------------------------------ the start


def test_the_deep_kernel_starts_at_the_best_gaussian():
    samples = two_normals(shift=0)  # where samples differ some columns lead, and widths with them
    kernel = DeepKernel(ResidualMLP())
    start(kernel, samples, Learning(), torch.Generator().manual_seed(0))
    x, y = samples.x[:5], samples.y[:5]
    with torch.no_grad():
        expected = (
            (1 - kernel.eps) * Gaussian(kernel.kappa.bandwidth)(x, y) + kernel.eps
        ) * kernel.q(x, y)
        assert torch.allclose(kernel(x, y), expected, atol=1e-6)
    alone = Gaussian()
    start(alone, samples, Learning(), torch.Generator().manual_seed(0))
    assert alone.bandwidth == pytest.approx(kernel.kappa.bandwidth, rel=1e-5)


def test_given_bandwidths_are_respected():
    kernel = DeepKernel(ResidualMLP(), Gaussian(0.3), Gaussian(0.7))
    start(kernel, two_normals(), Learning(), torch.Generator().manual_seed(0))
    assert (kernel.kappa.bandwidth, kernel.q.bandwidth) == (pytest.approx(0.3), pytest.approx(0.7))


def test_best_bandwidth_finds_a_fine_difference_that_the_median_misses():
    rng = np.random.default_rng(0)
    x, y = (torch.tensor(z).float() for z in blob(400, rng=rng))
    assert best_bandwidth(x, y, median=1.5) < 0.3


def test_best_bandwidth_of_pure_noise_stays_near_the_middle():
    chosen = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y = (torch.tensor(rng.normal(size=(100, 5))).float() for _ in range(2))
        chosen.append(math.log2(best_bandwidth(x, y, median=3.0) / 3.0))
    assert -3.5 <= np.mean(chosen) <= -0.5


def test_best_bandwidth_scales_with_the_data():
    samples = two_normals()
    small, large = (
        best_bandwidth(samples.x * c, samples.y * c, median=2.0 * c) / c for c in (1e-3, 1e3)
    )
    assert small == pytest.approx(large)


# ------------------------------------------------------------ normalisation


def test_normalisation_is_settled_on_the_pooled_training_points_whatever_their_labels():
    torch_rng = torch.Generator().manual_seed(0)
    images = torch.rand(40, 1, 8, 8, generator=torch_rng)
    net = twosample.ConvNet((1, 8, 8), width=4, generator=torch_rng)
    found = []
    for order in (torch.arange(40), torch.randperm(40, generator=torch_rng)):
        pooled = images[order]
        samples = as_samples(pooled[:20].numpy(), pooled[20:].numpy())
        kernel = twosample.OnFeatures(net, Gaussian(1.0))
        settle_normalisation(kernel, samples, torch.Generator().manual_seed(1))
        found.append(
            [m.running_mean.clone() for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
        )
    assert len(found[0]) == 3
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*found, strict=True))


def test_large_batches_are_smaller_where_points_have_many_values():
    images = Samples(
        torch.zeros(600, 1, 32, 32), torch.zeros(600, 1, 32, 32), Schema("image", (1, 32, 32))
    )
    for wanted, found in ((100, 100), (256, 256), (5000, 256)):
        assert len(next(_batches(images, wanted, torch.Generator()))[0]) == found
    table = Samples(torch.zeros(600, 10), torch.zeros(500, 10), Schema("table", (10,)))
    assert len(next(_batches(table, 5000, torch.Generator()))[0]) == 500


def test_a_constant_schedule_keeps_the_learning_rate():
    samples = two_normals()
    fell, stayed = (
        fit(Gaussian(3.0), samples, Learning(steps=40, schedule=schedule), Generators(0))[
            0
        ].bandwidth
        for schedule in ("cosine", "constant")
    )
    assert abs(math.log(stayed / 3)) > 1.3 * abs(math.log(fell / 3))
    with pytest.raises(InputError, match="schedule is 'linear'"):
        Learning(schedule="linear")


# Devices


class _Answers(TorchDispatchMode):
    """Counts the tensors whose value Python asks for; on a GPU each is a wait for all work before
    it.

    Those that the optimiser asks for are its own counts of steps, which it keeps on the host.
    """

    count = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator is torch.ops.aten._local_scalar_dense.default:
            self.count += not any("optim" in frame.filename for frame in traceback.extract_stack())
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", ["mmd-d", "mmd-o", "mmd-block", "me", "scf", "c2st-s", "c2st-l"])
def test_training_does_not_wait_for_the_device_at_every_step(method):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 3))

    def answers(steps):
        with _Answers() as asked:
            METHODS[method](steps=steps).fit(X, Y, rng=0, progress=False)
        return asked.count

    assert answers(60) - answers(20) <= 40 / CHECK_EVERY * 5  # five restarts of me and scf


class TwoScales(twosample.Kernel):
    """exp(-|x - y|^2 e^(-(a + b))), whose parameters are named as one likes."""

    def __init__(self, declared=None):
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.zeros(()))
        self.log_beta = torch.nn.Parameter(torch.zeros(()))
        if declared is not None:
            self.scale_parameters = declared

    def tile(self, a, b):
        return torch.exp(-(torch.cdist(a[0], b[0]) ** 2) * torch.exp(-self.alpha - self.log_beta))


@pytest.mark.parametrize(
    ("declared", "scales"),
    [
        (None, {"log_beta"}),
        (("alpha",), {"alpha"}),
        ((), set()),
        (("alpha", "log_beta"), {"alpha", "log_beta"}),
    ],
)
def test_a_part_says_which_of_its_parameters_are_scales(declared, scales):
    kernel = TwoScales(declared)
    trained, _ = fit_quickly(kernel, steps=1, learning_rate=1e-3, scale_rate=1e-1)
    for name, parameter in trained.named_parameters():
        rate = 1e-1 if name in scales else 1e-3  # the length of Adam's first step
        assert abs(parameter.item()) == pytest.approx(rate, rel=1e-3)


class Unhurried(TwoScales):
    def __init__(self, factors):
        super().__init__()
        self.factors = factors

    def rate_factors(self):
        return self.factors


def test_a_part_multiplies_the_rates_of_its_parameters():
    kernel = Unhurried({"alpha": 0.5, "log_beta": 2.0})
    trained, _ = fit_quickly(kernel, steps=1, learning_rate=1e-3, scale_rate=1e-2)
    assert abs(trained.alpha.item()) == pytest.approx(5e-4, rel=1e-3)
    assert abs(trained.log_beta.item()) == pytest.approx(2e-2, rel=1e-3)


def test_a_rate_factor_of_no_parameter_is_an_error():
    with pytest.raises(InputError, match="names 'gamma', which is none of its parameters"):
        fit_quickly(Unhurried({"gamma": 0.5}), steps=1)


def test_a_shared_parameter_is_trained_once():
    kernel = TwoScales()
    both = twosample.WeightedSum([kernel, TwoScales()])
    both.kernels[1].alpha = kernel.alpha
    trained, _ = fit_quickly(both, steps=2)
    assert trained.kernels[0].alpha is trained.kernels[1].alpha


class Recorded:
    """An objective that says what it can train, and how that starts."""

    def __init__(self):
        self.calls = []

    def check(self, representation):
        if not isinstance(representation, Gaussian):
            raise twosample.IncompatibleParts(f"not {representation!r}, please.")

    def start(self, representation, x, y, generator, *, batch_size, memory):
        self.calls.append((len(x), len(y), batch_size))
        representation.set_bandwidth(7.0)

    def __call__(self, kernel, x, y, *, memory):
        return PowerCriterion()(kernel, x, y, memory=memory)


def test_an_objective_may_check_and_start_what_it_trains():
    objective = Recorded()
    trained, _ = fit_quickly(objective=objective, steps=0)
    assert objective.calls == [(60, 60, 32)] and trained.bandwidth == pytest.approx(7.0)
    with pytest.raises(twosample.IncompatibleParts, match="not Laplace"):
        twosample.TwoSampleTest(twosample.Laplace(), Learning(objective))


def test_a_plain_function_is_an_objective():
    def objective(kernel, x, y, *, memory):
        return PowerCriterion()(kernel, x, y, memory=memory)

    ours, _ = fit_quickly()
    theirs, _ = fit_quickly(objective=objective)
    assert theirs.bandwidth == ours.bandwidth


def test_methods_take_all_options_of_learning_but_the_objective():
    options = {field.name: field.type for field in dataclasses.fields(Learning)}
    del options["objective"]
    assert {
        name: hint.__forward_arg__ for name, hint in LearningOptions.__annotations__.items()
    } == options
