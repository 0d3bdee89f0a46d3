from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import scipy.spatial.distance
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import twosample
from bank import (
    COLUMNS,
    KERNELS,
    RationalQuadratic,
    as_table,
    dense,
    disturbed,
    every_dtype,
    every_kernel,
    make,
    naive_matrix,
    network,
    points,
    seeded,
)
from twosample import _kernels as kernels
from twosample._featurizers import MLP
from twosample._kernels import (
    ARDGaussian,
    DeepKernel,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Linear,
    OnFeatures,
    Radial,
    WeightedSum,
    median_bandwidth,
)
from twosample._learning import Learning, fit
from twosample._objectives import PowerCriterion
from twosample._products import Embedded, row_sums
from twosample._random import Generators
from twosample.errors import InputError

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance)


# Laws


@every_dtype
@every_kernel
def test_symmetric(name: str, dtype: torch.dtype):
    kernel, x, y = make(name, dtype), points(7, dtype=dtype), points(5, seed=1, dtype=dtype)
    close(kernel(x, y), kernel(y, x).T, TOLERANCE[dtype])


@every_dtype
@every_kernel
def test_matrix_is_the_double_loop_and_the_textbook(name: str, dtype: torch.dtype):
    kernel, z = make(name, dtype), points(9, dtype=dtype)
    matrix = kernel(z[:4], z[4:]).detach()
    assert matrix.shape == (4, 5)
    assert matrix.dtype == dtype
    close(matrix, naive_matrix(kernel, z)[:4, 4:], TOLERANCE[dtype])
    close(matrix, dense(kernel, z)[:4, 4:], TOLERANCE[dtype])


@every_dtype
@every_kernel
@pytest.mark.parametrize("count", [1, 32, 70])
def test_pairs_are_the_diagonal_of_the_tile(name: str, dtype: torch.dtype, count: int):
    kernel = make(name, dtype)
    z = kernel.centred(
        kernel.embed(torch.cat([points(count, dtype=dtype), points(count, seed=1, dtype=dtype)]))
    )
    assert len(z) == kernel.parts
    a, b = tuple(part[:count] for part in z), tuple(part[count:] for part in z)
    close(kernel.pairs(a, b), kernel.tile(a, b).diagonal(), TOLERANCE[dtype])


@every_dtype
@every_kernel
def test_positive_semidefinite(name: str, dtype: torch.dtype):
    z = points(40, dtype=dtype)
    spectrum = torch.linalg.eigvalsh(make(name, dtype)(z, z).detach().double())
    assert spectrum[0] > -TOLERANCE[dtype] * spectrum[-1]


@every_kernel
def test_state_dict_round_trip(name: str):
    kernel, other, z = make(name), disturbed(make(name)), points(6)
    assert torch.equal(kernel(z, z), other(z, z)) == (name == "linear")
    other.load_state_dict(kernel.state_dict())
    assert torch.equal(kernel(z, z), other(z, z))


@every_kernel
def test_a_copy_is_independent(name: str):
    kernel, z = make(name), points(6)
    before = kernel(z, z).detach()
    copied = copy.deepcopy(kernel)
    assert torch.equal(copied(z, z), before)
    disturbed(copied)
    assert torch.equal(kernel(z, z), before)
    assert torch.equal(copied(z, z), before) == (name == "linear")


@every_kernel
def test_double(name: str):
    kernel, z = make(name, torch.float32), points(8, dtype=torch.float32)
    single = kernel(z, z)
    double = kernel.double()(z.double(), z.double())
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    assert all(parameter.dtype == torch.float64 for parameter in kernel.parameters())
    close(single, double, 1e-5)


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "linear"])
def test_every_parameter_matters_and_is_trained(name: str):
    kernel, z = make(name), points(6)
    kernel(z, z).square().sum().backward()
    assert all(parameter.grad is not None for parameter in kernel.parameters())
    # The last bias of a network moves all features alike, which no Gaussian sees.
    assert all(
        float(p.grad.abs().sum()) > 0
        for n, p in kernel.named_parameters()
        if not n.endswith("maps.1.bias")
    )


@every_kernel
@pytest.mark.parametrize("wanted", [True, False], ids=["points too", "parameters only"])
def test_pullback_is_that_of_autograd(name: str, wanted: bool):
    """The closed forms against the default of `Kernel`, on a tile that is not square."""
    kernel = make(name)
    a = tuple(part.detach() for part in kernel.embed(points(5)))
    b = tuple(part.detach() for part in kernel.embed(points(7, seed=1)))
    grad, needs = points(5, columns=7, seed=2), [wanted] * kernel.parts
    tile, pullback = kernel.tile_and_pullback(a, b)
    expected_tile, expected_pullback = Kernel.tile_and_pullback(kernel, a, b)
    close(tile.detach(), expected_tile.detach(), 1e-12)
    if not wanted and not kernel.tile_parameters():
        return  # nothing to pull back to
    for found, expected in zip(
        pullback(grad.clone(), needs), expected_pullback(grad, needs), strict=True
    ):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                close(one.detach(), other, 1e-10)


def test_pullback_where_only_some_parts_are_wanted():
    kernel = make("deep")
    a, b = (tuple(part.detach() for part in kernel.embed(points(4, seed=s))) for s in (0, 1))
    grad = points(4, columns=4, seed=2)
    everything = kernel.tile_and_pullback(a, b)[1](grad, [True, True])
    features = kernel.tile_and_pullback(a, b)[1](grad, [True, False])
    for sides in (0, 1):
        assert features[sides][1] is None
        assert torch.equal(features[sides][0], everything[sides][0])


# Single kernels


FORMULAS = {
    Gaussian: lambda distance, sigma: math.exp(-(distance**2) / (2 * sigma**2)),
    InverseMultiquadric: lambda distance, sigma: 1 / math.sqrt(1 + distance**2 / (2 * sigma**2)),
    Laplace: lambda distance, sigma: math.exp(-distance / sigma),
}
every_radial = pytest.mark.parametrize("kind", FORMULAS)


@every_radial
def test_radial_convention(kind: type[Radial]):
    x, y = (
        torch.tensor([[1.0, -2.0]], dtype=torch.float64),
        torch.tensor([[4.0, 2.0]], dtype=torch.float64),
    )  # 5 apart
    for sigma in (0.9, 3.0, 100.0):
        kernel, expected = kind(sigma).double(), pytest.approx(FORMULAS[kind](5, sigma), rel=1e-6)
        assert kernel(x, y).item() == expected
        assert kernel.pairs((x,), (y,)).item() == expected


@every_radial
def test_radial_kernel_of_a_point_with_itself_is_one(kind: type[Radial]):
    z = points(20, dtype=torch.float32)
    for sigma in (0.1, 1.0, 10.0):
        kernel = kind(sigma)
        assert torch.equal(kernel.pairs(kernel.embed(z), kernel.embed(z)), torch.ones(20))
        assert float((kernel(z, z).detach().diagonal() - 1).abs().max()) < 1e-3


def test_gaussian_of_distant_points_is_nothing():
    kernel = Gaussian(1.0)
    assert 0 <= float(kernel(torch.zeros(1, 2), torch.full((1, 2), 1e6)).detach()) < 1e-15


def test_laplace_keeps_its_digits_where_points_almost_coincide():
    """A matrix product would be wrong by sqrt(1e-7) there, in the value and more so in the
    gradient."""
    near = 1 + torch.tensor([[0.0, 0.0], [1e-5, 0.0], [0.0, 3e-4], [1.0, 1.0]], dtype=torch.float32)
    found, expected = [], []
    for dtype, into in ((torch.float32, found), (torch.float64, expected)):
        kernel, z = Laplace(1.0).to(dtype), near.to(dtype).requires_grad_()
        sums = row_sums(kernel, z, torch.arange(4.0, dtype=dtype))
        into += [kernel(z, z), *torch.autograd.grad(sums.square().sum(), [z, kernel.log_bandwidth])]
    for single, double in zip(found, expected, strict=True):
        close(single, double, 2e-5)


def test_laplace_of_coinciding_points_is_one_and_pulls_nowhere():
    z = torch.cat([points(4), points(4)]).requires_grad_()
    kernel = Laplace(0.8).double()
    assert torch.equal(kernel(z, z).diagonal(4), torch.ones(4, dtype=torch.float64))
    (by_pairs,) = torch.autograd.grad(kernel.pairs((z[:4],), (z[4:],)).sum(), z)
    (alone,) = torch.autograd.grad(kernel(z[:1], z[4:5]).sum(), z)
    assert torch.equal(by_pairs, torch.zeros_like(z)) and torch.equal(alone, torch.zeros_like(z))
    weights = points(8, columns=2, seed=3)
    (tiled,) = torch.autograd.grad(row_sums(kernel, z, weights).square().sum(), z)
    (plain,) = torch.autograd.grad((dense(kernel, z) @ weights).square().sum(), z)
    close(tiled, plain, 1e-10)


def test_ard_is_the_gaussian_where_widths_are_equal():
    x, y = points(5), points(6, seed=1)
    close(ARDGaussian(widths=[1.3] * 3).double()(x, y), Gaussian(1.3).double()(x, y), 1e-6)
    assert torch.equal(ARDGaussian(1.3)(x, y), Gaussian(1.3)(x, y))


def test_ard_is_the_formula():
    x, y, widths = points(5), points(6, seed=1), [0.5, 2.0, 7.0]
    kernel = ARDGaussian(widths=widths).double()
    squares = ((x[:, None] - y[None]) / torch.tensor(widths, dtype=torch.float64)).square().sum(2)
    close(kernel(x, y), torch.exp(-squares / 2), 1e-6)
    close(kernel.widths, torch.tensor(widths), 1e-6)


def test_ard_counts_columns_of_images_flat():
    images = points(10, columns=24).float().view(10, 2, 3, 4)
    kernel = ARDGaussian()
    assert kernel.widths is None
    kernel.start(images, seeded())
    assert kernel.widths.shape == (24,)
    assert torch.allclose(kernel.widths, torch.tensor(median_bandwidth(images)))
    assert torch.equal(kernel(images, images), kernel(images.flatten(1), images.flatten(1)))


def test_ard_learns_from_points_as_it_is_made():
    kernel, x, y = ARDGaussian(), points(8), 2 * points(9, seed=1)
    PowerCriterion()(kernel, x, y).backward()
    assert kernel.log_widths.grad.shape == (COLUMNS,)


def test_ard_takes_its_size_from_a_state_dict():
    kernel, z = ARDGaussian(), points(6)
    kernel.load_state_dict(ARDGaussian(widths=[0.5, 2.0, 7.0]).state_dict())
    assert torch.equal(kernel(z, z), ARDGaussian(widths=[0.5, 2.0, 7.0])(z, z))


def test_a_deep_kernel_of_tiny_eps_and_a_constant_q_is_the_kernel_of_its_features():
    x, y, net = points(7), points(5, seed=1), network().double()
    deep = DeepKernel(net, Gaussian(0.4), Gaussian(1e6), eps=1e-7).double()
    close(deep(x, y), OnFeatures(net, Gaussian(0.4)).double()(x, y), 1e-6)


def test_a_deep_kernel_is_the_sum_and_the_products_it_abbreviates():
    """[(1 - eps) kappa + eps] q = (1 - eps) kappa q + eps q, each product a Gaussian of the columns
    side by side."""
    x, y, net, eps = points(7), points(5, seed=1), network().double(), 0.3
    deep = DeepKernel(net, Gaussian(0.4), Gaussian(1.2), eps=eps).double()

    class SideBySide(nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return torch.cat([net(z) / 0.4, z / 1.2], 1)

    abbreviated = WeightedSum(
        [OnFeatures(SideBySide(), Gaussian(1.0)), Gaussian(1.2)], [1 - eps, eps]
    ).double()
    close(deep(x, y), abbreviated(x, y), 1e-6)
    close(PowerCriterion()(deep, x[:5], y), PowerCriterion()(abbreviated, x[:5], y), 1e-5)


def test_linear_is_the_inner_product():
    x, y = points(4), points(6, seed=1)
    assert torch.equal(Linear()(x, y), x @ y.T)


def test_deep_kernel_is_equation_1_entry_by_entry():
    phi, kappa, q, eps = network(), Gaussian(0.3), RationalQuadratic(), 0.2
    kernel, z = DeepKernel(phi, kappa, q, eps=eps).double(), points(6)
    matrix, features = kernel(z, z), phi(z)
    for i in range(6):
        for j in range(6):
            on_features = kappa(features[i : i + 1], features[j : j + 1])
            expected = ((1 - eps) * on_features + eps) * q(z[i : i + 1], z[j : j + 1])
            assert matrix[i, j].item() == pytest.approx(expected.item(), rel=1e-6)


def test_on_features_is_the_kernel_of_the_features():
    phi, x, y = network().double(), points(4), points(6, seed=1)
    close(
        OnFeatures(phi, Gaussian(0.4).double())(x, y), Gaussian(0.4).double()(phi(x), phi(y)), 1e-12
    )


def test_images_are_flattened():
    images = points(10, columns=2 * 3 * 4)
    assert torch.equal(
        Gaussian(2.0)(images[:6].view(6, 2, 3, 4), images[6:].view(4, 2, 3, 4)),
        Gaussian(2.0)(images[:6], images[6:]),
    )


@pytest.mark.parametrize("name", ["gaussian", "deep"])
def test_far_from_the_origin_float32_keeps_its_digits(name: str):
    x, y = (
        points(count, seed=seed, dtype=torch.float32) + 1e4 for count, seed in ((30, 0), (20, 1))
    )
    kernel = (
        Gaussian(1.3)
        if name == "gaussian"
        else DeepKernel(nn.Identity(), Gaussian(0.8), Gaussian(1.3))
    )
    matrix = kernel(x, y).detach()
    assert float(matrix.std()) > 0.1
    close(matrix, kernel.double()(x.double(), y.double()), 1e-5)


# Sums


def test_a_sum_of_kernels_is_the_sum_of_their_matrices():
    names, weights, x, y = (
        ["gaussian", "deep", "linear", "laplace"],
        [0.3, 2.0, 0.1, 0.7],
        points(6),
        points(5, seed=1),
    )
    kernel = WeightedSum([make(name) for name in names], weights).double()
    expected = sum(weight * make(name)(x, y) for weight, name in zip(weights, names, strict=True))
    close(kernel(x, y), expected, 1e-6)


def test_equal_weights_add_up_to_one():
    kernel = WeightedSum([Gaussian(1.0), Gaussian(2.0), Linear()])
    close(kernel.weights, torch.full((3,), 1 / 3), 1e-6)


def test_a_sum_of_one_kernel_is_that_kernel():
    x, y, kernel = points(6), points(6, seed=1), make("deep")
    alone = WeightedSum([kernel]).double()
    assert torch.equal(alone(x, y), kernel(x, y))
    assert torch.equal(PowerCriterion()(alone, x, y), PowerCriterion()(kernel, x, y))


def test_a_kernel_of_no_weight_counts_for_nothing_and_has_no_gradient():
    x, y = points(9), 2 * points(9, seed=1)
    kernel = WeightedSum([Gaussian(1.0), make("deep"), Laplace(2.0)], [0.4, 0.0, 0.6]).double()
    without = WeightedSum([Gaussian(1.0), Laplace(2.0)], [0.4, 0.6]).double()
    close(kernel(x, y), without(x, y), 1e-12)
    values = [PowerCriterion()(sum_, x, y) for sum_ in (kernel, without)]
    for value in values:
        value.backward()
    assert torch.equal(*values)
    gradients = [p.grad for p in kernel.kernels[1].parameters()]
    assert all(grad is None or torch.equal(grad, torch.zeros_like(grad)) for grad in gradients)
    close(kernel.log_weights.grad[[0, 2]], without.log_weights.grad, 1e-12)
    assert float(kernel.log_weights.grad[1]) == 0
    torch.optim.Adam(kernel.parameters(), lr=0.1).step()
    assert float(kernel.weights[1]) == 0 and torch.isfinite(kernel(x, y)).all()


def test_pullback_of_a_sum_with_a_kernel_of_no_weight_is_that_of_autograd():
    kernel = WeightedSum([Gaussian(1.0), make("deep"), Laplace(2.0)], [0.4, 0.0, 0.6]).double()
    a, b = (tuple(part.detach() for part in kernel.embed(points(4, seed=s))) for s in (0, 1))
    grad, needs = points(4, columns=4, seed=2), [True, True, False, True]
    pullbacks = [kernel.tile_and_pullback(a, b)[1], Kernel.tile_and_pullback(kernel, a, b)[1]]
    for found, expected in zip(*(pullback(grad, needs) for pullback in pullbacks), strict=True):
        for one, other in zip(found, expected, strict=True):
            zero = torch.zeros(())
            close((zero if one is None else one).detach(), zero if other is None else other, 1e-10)


def test_start_puts_every_kernel_of_a_sum_at_its_multiple_of_the_median():
    z = points(50, dtype=torch.float32)
    kernel = WeightedSum(
        [Gaussian(factor=0.25), Laplace(factor=4.0), Gaussian(2.0), InverseMultiquadric()]
    )
    assert kernel.open_bandwidth() is None
    kernel.start(z, seeded(3))
    median = median_bandwidth(z)
    expected = [median / 4, 4 * median, 2.0, median]
    assert [member.bandwidth for member in kernel.kernels] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5], r"shape \(1,\); give one number for each of the 2 kernels"),
        ([0.5, -0.1], r"\[0.5, -0.1\]; they must be finite and at least 0"),
        ([0.5, math.nan], "must be finite"),
        ([math.inf, 1.0], "must be finite"),
        ([0.0, 0.0], "one of them larger"),
    ],
)
def test_weights_must_make_sense(weights: list[float], message: str):
    with pytest.raises(InputError, match=message):
        WeightedSum([Gaussian(), Gaussian()], weights)
    with pytest.raises(InputError, match=message):
        WeightedSum([Gaussian(), Gaussian()]).set_weights(torch.tensor(weights))


def test_a_sum_needs_kernels():
    with pytest.raises(InputError, match="of no kernels; give it some"):
        WeightedSum([])
    with pytest.raises(InputError, match="adds kernels, not a MLP"):
        WeightedSum([network()])


# Starting from data


@every_radial
def test_an_open_bandwidth_takes_its_multiple_of_the_median(kind: type[Radial]):
    z = points(50, dtype=torch.float32)
    started, embedded = kind(factor=0.5), kind(factor=0.5)
    started.start(z, seeded(3))
    embedded.embed(z)
    assert started.bandwidth == pytest.approx(median_bandwidth(z) / 2, rel=1e-6)
    assert embedded.bandwidth == started.bandwidth


@pytest.mark.parametrize("kind", [InverseMultiquadric, Laplace, ARDGaussian])
def test_open_bandwidths_are_found_by_the_grid_and_trained(kind: type[Kernel]):
    """Columns that differ in their small scale only: the median is far too wide."""
    made = seeded(5)
    centres = 10.0 * torch.stack([torch.arange(150) % 3, torch.arange(150) // 3 % 3], 1)
    x, y = centres + torch.randn(2, 150, 2, generator=made) * torch.tensor(
        [[[0.6, 0.6]], [[0.15, 0.6]]]
    )
    samples = as_table(x, y)
    by_median = kind()
    by_median.start(samples.pooled(), seeded())
    kernel, _ = fit(kind(), samples, Learning(steps=40), Generators(0))
    found, _ = kind().open_bandwidth()
    assert isinstance(found, Radial) and type(found) is (Gaussian if kind is ARDGaussian else kind)
    with torch.no_grad():
        learned, before = (float(PowerCriterion()(each, x, y)) for each in (kernel, by_median))
    assert learned > 0.1 and learned > 1.2 * before
    if kind is ARDGaussian:
        assert float(kernel.widths[0]) < float(kernel.widths[1])


def test_start_fills_in_what_is_open_and_nothing_else():
    z = points(50, dtype=torch.float32)
    kernel = DeepKernel(network(), Gaussian(), Gaussian(2.0))
    kernel.start(z, seeded(3))
    with torch.no_grad():
        features = kernel.featurizer(z)
    assert kernel.kappa.bandwidth == pytest.approx(median_bandwidth(features, seeded()), rel=1e-5)
    assert kernel.q.bandwidth == pytest.approx(2.0)


def test_start_gives_q_the_median_of_the_points():
    z = points(50, dtype=torch.float32)
    kernel = DeepKernel(network(), Gaussian(1.0))
    kernel.start(z, seeded(3))
    assert kernel.q.bandwidth == pytest.approx(median_bandwidth(z, seeded()), rel=1e-5)


def test_start_is_a_function_of_the_generator():
    z, kernels = points(50, dtype=torch.float32), [DeepKernel(network()) for _ in range(3)]
    for kernel, seed in zip(kernels, (7, 7, 8), strict=True):
        kernel.start(z, seeded(seed))
    first, same, other = (kernel(z, z) for kernel in kernels)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_start_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    DeepKernel(network()).start(points(1500, dtype=torch.float32), seeded())
    assert torch.equal(torch.get_rng_state(), before)


def test_set_bandwidth():
    kernel = Gaussian()
    assert kernel.bandwidth is None
    kernel.set_bandwidth(2.0)
    assert kernel.bandwidth == pytest.approx(2.0)
    assert kernel.log_bandwidth.requires_grad


# The median


@pytest.mark.parametrize(
    "count", [2, 3, 6, 7, 50]
)  # an odd number of pairs: the median is one of them
def test_median_bandwidth_is_the_median_distance(count: int):
    z = points(count)
    expected = np.median(scipy.spatial.distance.pdist(z.numpy()))
    assert median_bandwidth(z, seeded()) == pytest.approx(expected, rel=1e-12)


def test_median_bandwidth_of_an_even_number_of_pairs_lies_between_the_middle_two():
    z = points(5)
    distances = np.sort(scipy.spatial.distance.pdist(z.numpy()))
    assert distances[4] <= median_bandwidth(z, seeded()) <= distances[5]


def test_median_bandwidth_of_ties_is_that_of_the_other_distances():
    z = torch.tensor([0.0] * 8 + [3.0, 7.0])[
        :, None
    ]  # 28 of 45 distances are zero; 8 of 3, 8 of 7, one of 4
    assert median_bandwidth(z, seeded()) == 4.0


@pytest.mark.parametrize("count", [1, 2, 10])
def test_median_bandwidth_of_constant_data_is_one(count: int):
    assert median_bandwidth(torch.full((count, 3), 5.5), seeded()) == 1.0


def test_median_bandwidth_is_computed_in_float64():
    z = points(30, dtype=torch.float32) + 1e4
    expected = np.median(scipy.spatial.distance.pdist(z.double().numpy()))
    assert median_bandwidth(z, seeded()) == pytest.approx(expected, rel=1e-12)


def test_median_bandwidth_of_a_subset_is_a_function_of_the_generator():
    z = points(200)
    first, same, other = (median_bandwidth(z, seeded(seed), max_points=20) for seed in (1, 1, 2))
    assert first == same != other
    assert median_bandwidth(z, seeded(1), max_points=200) == median_bandwidth(
        z, seeded(2), max_points=200
    )


def test_median_bandwidth_draws_its_subset_from_all_points():
    z = torch.cat([torch.zeros(100, 1), torch.ones(100, 1)])  # the first points alone are constant
    assert median_bandwidth(1000 * z, seeded(), max_points=50) == 1000.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1e-6, 0.5, 3.0, 1e8]))
def test_median_bandwidth_scales_with_the_data_and_ignores_their_order(seed: int, factor: float):
    z = points(13, seed=seed)
    median = median_bandwidth(z, seeded())
    shuffled = z[torch.randperm(13, generator=seeded(seed))]
    assert median_bandwidth(factor * shuffled, seeded()) == pytest.approx(
        factor * median, rel=1e-12
    )


# Printing


@pytest.mark.parametrize("name", [*KERNELS, "open"])
def test_repr_is_code(name: str):
    kernel = DeepKernel(network()) if name == "open" else make(name)
    public = {each: getattr(twosample, each) for each in twosample.__all__}
    names = {**vars(kernels), **public, "RationalQuadratic": RationalQuadratic}
    assert repr(eval(repr(kernel), names)) == repr(kernel)


def test_repr_shows_the_learned_numbers():
    assert repr(Gaussian(2.5)) == "Gaussian(bandwidth=2.5)"
    assert repr(Gaussian(2.5, factor=0.5)) == "Gaussian(bandwidth=2.5)"
    assert repr(Laplace(factor=0.5)) == "Laplace(bandwidth=None, factor=0.5)"
    assert repr(ARDGaussian()) == "ARDGaussian(bandwidth=None)"
    assert repr(ARDGaussian(widths=[0.5, 2])) == "ARDGaussian(widths=[0.5, 2])"
    assert repr(ARDGaussian(widths=range(1, 12))) == "ARDGaussian(widths=<11 from 1 to 11>)"
    assert repr(WeightedSum([Linear(), Linear()])) == "WeightedSum([Linear(), Linear()])"
    assert (
        repr(WeightedSum([Linear(), Linear()], [0, 0.3]))
        == "WeightedSum([Linear(), Linear()], weights=[0, 0.3])"
    )
    inside = repr(DeepKernel(network(), Linear(), Gaussian(), eps=0.25))
    assert inside == f"DeepKernel({network()!r}, Linear(), Gaussian(bandwidth=None), eps=0.25)"


# Errors


@pytest.mark.parametrize("bandwidth", [0, -1.0, math.inf, math.nan])
def test_a_bandwidth_must_be_positive(bandwidth: float):
    with pytest.raises(
        InputError, match=rf"bandwidth is {bandwidth}; it must be a positive number"
    ):
        Gaussian(bandwidth)


@pytest.mark.parametrize("factor", [0, -1.0, math.inf, math.nan])
def test_a_factor_must_be_positive(factor: float):
    with pytest.raises(InputError, match=rf"factor is {factor}; it must be a positive number"):
        Laplace(factor=factor)


def test_widths_must_be_positive_and_fit_the_columns():
    with pytest.raises(InputError, match="give one or the other"):
        ARDGaussian(1.0, widths=[1.0])
    for widths in ([], [1.0, 0.0], [-1.0], [math.nan], [math.inf]):
        with pytest.raises(InputError, match="must be positive numbers, one for each column"):
            ARDGaussian(widths=widths)
    for act in (
        lambda kernel: kernel.embed(points(4)),
        lambda kernel: kernel.start(points(4), seeded()),
    ):
        with pytest.raises(InputError, match="has 2 widths but the points have 3 columns"):
            act(ARDGaussian(widths=[1.0, 2.0]))


@pytest.mark.parametrize("eps", [0.0, 1.0, -0.1, math.nan])
def test_eps_must_be_inside_the_unit_interval(eps: float):
    with pytest.raises(InputError, match=rf"eps is {eps}; it must lie strictly between 0 and 1"):
        DeepKernel(network(), eps=eps)


@pytest.mark.parametrize(
    "kernel", [Gaussian(), OnFeatures(nn.Identity(), Gaussian()), DeepKernel(nn.Identity())]
)
def test_an_open_bandwidth_takes_the_median_of_the_first_points(kernel: Kernel):
    x, y = points(6), points(5, seed=1)
    first = kernel(x, y)
    assert torch.isfinite(first).all()
    assert torch.equal(kernel(x, y), first)
    assert kernel.open_bandwidth() is None


def test_the_design_says_that_a_deep_kernel_works_as_it_is_made():
    """Section 5 of the design, to the letter."""
    x, y = torch.randn(7, 10, generator=seeded()), torch.randn(5, 10, generator=seeded(1))
    kernel = DeepKernel(MLP(10, width=30))
    assert kernel(x, y).shape == (7, 5)
    PowerCriterion()(kernel, x, y).backward()
    assert all(parameter.grad is not None for parameter in kernel.parameters())


# Kernels that users might write


class Taxicab(Kernel):
    """exp(-|x - y|_1), without parameters; `transposed` gives the same numbers in another memory
    layout."""

    def __init__(self, transposed: bool = False) -> None:
        super().__init__()
        self.transposed = transposed

    def tile(self, a: Embedded, b: Embedded) -> torch.Tensor:
        if self.transposed:
            return torch.exp(-(b[0][:, None] - a[0][None]).abs().sum(2)).T
        return torch.exp(-(a[0][:, None] - b[0][None]).abs().sum(2))


def test_kernel_without_parameters_on_features_that_need_no_gradient():
    """Nothing in kappa is learned here, but q and eps are."""
    kernel, x, y = (
        DeepKernel(nn.Identity(), Taxicab(), Gaussian(1.0)).double(),
        points(6),
        points(6, seed=1),
    )
    twosample.PowerCriterion()(kernel, x, y).backward()
    assert float(kernel.logit_eps.grad.abs()) > 0


def test_kernel_whose_tiles_are_not_contiguous():
    gradients = []
    for transposed in (False, True):
        kernel = DeepKernel(network(), Taxicab(transposed), Gaussian(1.0)).double()
        twosample.PowerCriterion()(kernel, points(6), points(6, seed=1)).backward()
        gradients.append([parameter.grad for parameter in kernel.parameters()])
    for plain, transposed in zip(*gradients, strict=True):
        close(transposed, plain, 1e-12)
