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
    KERNELS,
    RationalQuadratic,
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
from twosample.errors import InputError
from twosample.featurizers import MLP
from twosample.kernels import DeepKernel, Gaussian, Kernel, Linear, OnFeatures, median_bandwidth
from twosample.objectives import PowerCriterion
from twosample.products import Embedded

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
    z = kernel.centred(kernel.embed(torch.cat([points(count, dtype=dtype), points(count, seed=1, dtype=dtype)])))
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
    assert all(float(p.grad.abs().sum()) > 0 for n, p in kernel.named_parameters() if not n.endswith("maps.1.bias"))


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
    for found, expected in zip(pullback(grad.clone(), needs), expected_pullback(grad, needs), strict=True):
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


def test_gaussian_convention():
    x, y = torch.tensor([[1.0, -2.0]], dtype=torch.float64), torch.tensor([[4.0, 2.0]], dtype=torch.float64)  # 5 apart
    for sigma in (0.9, 3.0, 100.0):
        assert Gaussian(sigma).double()(x, y).item() == pytest.approx(math.exp(-25 / (2 * sigma**2)), rel=1e-6)


def test_gaussian_of_a_point_with_itself_is_one():
    z = points(20, dtype=torch.float32)
    for sigma in (0.1, 1.0, 10.0):
        kernel = Gaussian(sigma)
        assert torch.equal(kernel.pairs(kernel.embed(z), kernel.embed(z)), torch.ones(20))
        assert float((kernel(z, z).detach().diagonal() - 1).abs().max()) < 1e-3


def test_gaussian_of_distant_points_is_nothing():
    kernel = Gaussian(1.0)
    assert 0 <= float(kernel(torch.zeros(1, 2), torch.full((1, 2), 1e6)).detach()) < 1e-15


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
    close(OnFeatures(phi, Gaussian(0.4).double())(x, y), Gaussian(0.4).double()(phi(x), phi(y)), 1e-12)


def test_images_are_flattened():
    images = points(10, columns=2 * 3 * 4)
    assert torch.equal(
        Gaussian(2.0)(images[:6].view(6, 2, 3, 4), images[6:].view(4, 2, 3, 4)), Gaussian(2.0)(images[:6], images[6:])
    )


@pytest.mark.parametrize("name", ["gaussian", "deep"])
def test_far_from_the_origin_float32_keeps_its_digits(name: str):
    x, y = (points(count, seed=seed, dtype=torch.float32) + 1e4 for count, seed in ((30, 0), (20, 1)))
    kernel = Gaussian(1.3) if name == "gaussian" else DeepKernel(nn.Identity(), Gaussian(0.8), Gaussian(1.3))
    matrix = kernel(x, y).detach()
    assert float(matrix.std()) > 0.1
    close(matrix, kernel.double()(x.double(), y.double()), 1e-5)


# Starting from data


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


@pytest.mark.parametrize("count", [2, 3, 6, 7, 50])  # an odd number of pairs: the median is one of them
def test_median_bandwidth_is_the_median_distance(count: int):
    z = points(count)
    expected = np.median(scipy.spatial.distance.pdist(z.numpy()))
    assert median_bandwidth(z, seeded()) == pytest.approx(expected, rel=1e-12)


def test_median_bandwidth_of_an_even_number_of_pairs_lies_between_the_middle_two():
    z = points(5)
    distances = np.sort(scipy.spatial.distance.pdist(z.numpy()))
    assert distances[4] <= median_bandwidth(z, seeded()) <= distances[5]


def test_median_bandwidth_of_ties_is_that_of_the_other_distances():
    z = torch.tensor([0.0] * 8 + [3.0, 7.0])[:, None]  # 28 of 45 distances are zero; 8 of 3, 8 of 7, one of 4
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
    assert median_bandwidth(z, seeded(1), max_points=200) == median_bandwidth(z, seeded(2), max_points=200)


def test_median_bandwidth_draws_its_subset_from_all_points():
    z = torch.cat([torch.zeros(100, 1), torch.ones(100, 1)])  # the first points alone are constant
    assert median_bandwidth(1000 * z, seeded(), max_points=50) == 1000.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1e-6, 0.5, 3.0, 1e8]))
def test_median_bandwidth_scales_with_the_data_and_ignores_their_order(seed: int, factor: float):
    z = points(13, seed=seed)
    median = median_bandwidth(z, seeded())
    shuffled = z[torch.randperm(13, generator=seeded(seed))]
    assert median_bandwidth(factor * shuffled, seeded()) == pytest.approx(factor * median, rel=1e-12)


# Printing


@pytest.mark.parametrize("name", [*KERNELS, "open"])
def test_repr_is_code(name: str):
    kernel = DeepKernel(network()) if name == "open" else make(name)
    names = {**vars(twosample), "RationalQuadratic": RationalQuadratic}
    assert repr(eval(repr(kernel), names)) == repr(kernel)


def test_repr_shows_the_learned_numbers():
    assert repr(Gaussian(2.5)) == "Gaussian(bandwidth=2.5)"
    inside = repr(DeepKernel(network(), Linear(), Gaussian(), eps=0.25))
    assert inside == f"DeepKernel({network()!r}, Linear(), Gaussian(bandwidth=None), eps=0.25)"


# Errors


@pytest.mark.parametrize("bandwidth", [0, -1.0, math.inf, math.nan])
def test_a_bandwidth_must_be_positive(bandwidth: float):
    with pytest.raises(InputError, match=rf"bandwidth is {bandwidth}; it must be a positive number"):
        Gaussian(bandwidth)


@pytest.mark.parametrize("eps", [0.0, 1.0, -0.1, math.nan])
def test_eps_must_be_inside_the_unit_interval(eps: float):
    with pytest.raises(InputError, match=rf"eps is {eps}; it must lie strictly between 0 and 1"):
        DeepKernel(network(), eps=eps)


@pytest.mark.parametrize("kernel", [Gaussian(), OnFeatures(nn.Identity(), Gaussian()), DeepKernel(nn.Identity())])
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


class Laplace(Kernel):
    """exp(-|x - y|_1), without parameters; `transposed` gives the same numbers in another memory layout."""

    def __init__(self, transposed: bool = False) -> None:
        super().__init__()
        self.transposed = transposed

    def tile(self, a: Embedded, b: Embedded) -> torch.Tensor:
        if self.transposed:
            return torch.exp(-(b[0][:, None] - a[0][None]).abs().sum(2)).T
        return torch.exp(-(a[0][:, None] - b[0][None]).abs().sum(2))


def test_kernel_without_parameters_on_features_that_need_no_gradient():
    """Nothing in kappa is learned here, but q and eps are."""
    kernel, x, y = DeepKernel(nn.Identity(), Laplace(), Gaussian(1.0)).double(), points(6), points(6, seed=1)
    twosample.PowerCriterion()(kernel, x, y).backward()
    assert float(kernel.logit_eps.grad.abs()) > 0


def test_kernel_whose_tiles_are_not_contiguous():
    gradients = []
    for transposed in (False, True):
        kernel = DeepKernel(network(), Laplace(transposed), Gaussian(1.0)).double()
        twosample.PowerCriterion()(kernel, points(6), points(6, seed=1)).backward()
        gradients.append([parameter.grad for parameter in kernel.parameters()])
    for plain, transposed in zip(*gradients, strict=True):
        close(transposed, plain, 1e-12)
