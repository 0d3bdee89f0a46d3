from __future__ import annotations

import copy
import math
import random

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor, nn

from bank import every_dtype, points, seeded
from twosample._data.embedding import embed_samples
from twosample._data.samples import Samples
from twosample._data.schema import Schema
from twosample._featurizers import MLP, AutoFeaturizer, ConvNet, ResidualMLP
from twosample._kernels import DeepKernel, Gaussian, OnFeatures
from twosample._resources import Resources
from twosample.errors import InputError

SHAPE = (1, 16, 16)


def weights(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def images(count: int, shape: tuple[int, int, int] = SHAPE, seed: int = 0) -> Tensor:
    return torch.randn(count, *shape, generator=seeded(seed))


def small_net(normalisation: str = "frozen", seed: int = 0) -> ConvNet:
    return ConvNet(SHAPE, width=5, normalisation=normalisation, generator=seeded(seed))


def networks() -> dict[str, nn.Module]:
    return {"MLP": MLP(3, width=4, generator=seeded()), "ConvNet": small_net()}


def data_for(name: str, count: int = 6) -> Tensor:
    return points(count, dtype=torch.float32) if name == "MLP" else images(count)


every_network = pytest.mark.parametrize("name", ["MLP", "ConvNet"])


# Architecture


@pytest.mark.parametrize(
    ("inputs", "width", "count"), [(2, 50, 7_800), (10, 30, 3_120), (4, 20, 1_360)]
)
def test_mlp_has_the_size_of_the_paper(inputs: int, width: int, count: int):
    assert weights(MLP(inputs, width=width)) == count


@pytest.mark.parametrize(
    ("shape", "width", "count"), [((1, 32, 32), 100, 148_900), ((3, 64, 64), 300, 712_588)]
)
def test_conv_net_has_the_size_of_the_paper(shape: tuple[int, int, int], width: int, count: int):
    assert weights(ConvNet(shape, width=width)) == count


def test_mlp_is_softplus_between_linear_maps_and_nothing_after_the_last():
    network, z = MLP(3, width=4, generator=seeded()).double(), points(6)
    hidden = z
    for number, linear in enumerate(network.maps):
        hidden = (
            torch.log1p(torch.exp(hidden)) if number else hidden
        ) @ linear.weight.T + linear.bias
    assert len(network.maps) == 4
    torch.testing.assert_close(network(z), hidden, rtol=1e-12, atol=1e-12)


def test_conv_net_is_the_discriminator_of_the_paper():
    network, z = ConvNet((3, 16, 16), width=7, generator=seeded()).train(), images(5, (3, 16, 16))
    hidden, convolutions = (
        z,
        [module for module in network.modules() if isinstance(module, nn.Conv2d)],
    )
    assert [convolution.out_channels for convolution in convolutions] == [16, 32, 64, 128]
    for number, convolution in enumerate(convolutions):
        hidden = nn.functional.conv2d(
            hidden, convolution.weight, convolution.bias, stride=2, padding=1
        )
        hidden = nn.functional.leaky_relu(hidden, 0.2)
        if number:  # none after the first
            centred = hidden - hidden.mean((0, 2, 3), keepdim=True)
            hidden = centred / torch.sqrt(centred.square().mean((0, 2, 3), keepdim=True) + 0.8)
    expected = hidden.flatten(1) @ network.head.weight.T + network.head.bias
    torch.testing.assert_close(network(z), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 17, 33), (4, 5, 5)])
def test_conv_net_takes_images_of_any_size(shape: tuple[int, int, int]):
    assert ConvNet(shape, width=7)(images(4, shape)).shape == (4, 7)


@pytest.mark.parametrize(("inputs", "width"), [(1, 30), (10, 30), (20, 60), (1000, 300)])
def test_mlp_finds_its_width(inputs: int, width: int):
    network = MLP()
    network.start(torch.zeros(2, inputs), seeded())
    assert network(torch.zeros(2, inputs)).shape == (2, width)


# Starting


def generator_states() -> list[object]:
    return [torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()]  # noqa: NPY002


@pytest.mark.parametrize("generator", [None, 0], ids=["without a generator", "with one"])
def test_no_global_generator_is_read_or_written(generator: int | None):
    drawn = [None if generator is None else seeded(generator) for _ in range(2)]
    before = generator_states()
    MLP(3, generator=drawn[0])
    ConvNet(SHAPE, generator=drawn[1])
    for network, z in (
        (MLP(), points(4, dtype=torch.float32)),
        (ConvNet(), images(4)),
        (AutoFeaturizer(), images(4)),
    ):
        network.start(z, seeded())
    assert generator_states() == before


def test_networks_without_a_generator_differ_whatever_the_global_seed():
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(MLP(3, width=4)(points(5, dtype=torch.float32)))
    assert not torch.equal(*made)


@every_network
def test_start_is_a_function_of_the_generator(name: str):
    z, made = data_for(name), []
    for before, seed in ((0, 7), (1, 7), (0, 8)):
        network = (
            MLP(3, width=4, generator=seeded(before)) if name == "MLP" else small_net(seed=before)
        )  # what it was before does not matter
        network.start(z, seeded(seed))
        made.append(network.eval()(z))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


@every_network
def test_start_does_not_look_at_the_values_of_the_points(name: str):
    z = data_for(name)
    networks_ = []
    for data in (z, 5 + 100 * z):
        network = networks()[name]
        network.start(data, seeded(1))
        networks_.append(network)
    assert all(torch.equal(a, b) for a, b in zip(*(n.parameters() for n in networks_), strict=True))


@every_network
def test_start_gives_what_a_network_of_that_size_is_made_with(name: str):
    z = data_for(name)
    if name == "MLP":
        open_, given = MLP(width=4), MLP(3, width=4, generator=seeded(5))
    else:
        open_, given = ConvNet(width=5), ConvNet(SHAPE, width=5, generator=seeded(5))
    open_.start(z, seeded(5))
    assert torch.equal(open_.eval()(z), given.eval()(z))


def test_weights_are_uniform_within_one_over_the_root_of_the_inputs():
    network = ConvNet((3, 16, 16), width=50, generator=seeded())
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            limit = 1 / math.sqrt(module.weight[0].numel())
            drawn = torch.cat([module.weight.detach().flatten(), module.bias.detach()])
            assert (
                scipy.stats.kstest(drawn.numpy() / limit, scipy.stats.uniform(-1, 2).cdf).pvalue
                > 1e-6
            )
            assert float(drawn.abs().max()) <= limit


@every_network
def test_loaded_weights_survive_a_start(name: str):
    z, source, target = data_for(name), networks()[name], networks()[name]
    source.start(z, seeded(3))
    expected = source.eval()(z)
    target.load_state_dict(source.state_dict())
    target.start(z, seeded(4))
    assert torch.equal(target.eval()(z), expected)
    copied = copy.deepcopy(target)
    copied.start(z, seeded(5))
    assert torch.equal(copied(z), expected)


def test_loaded_weights_inside_a_kernel_survive_its_start():
    z, source = (
        points(20, dtype=torch.float32),
        DeepKernel(MLP(3, width=4), Gaussian(1.0), Gaussian(1.0)),
    )
    target = DeepKernel(MLP(3, width=4), Gaussian(1.0), Gaussian(1.0))
    target.load_state_dict(source.state_dict())
    target.start(z, seeded())
    assert torch.equal(target(z, z), source(z, z))


@every_dtype
@every_network
def test_start_takes_the_dtype_of_the_points(name: str, dtype: torch.dtype):
    network = networks()[name]
    z = data_for(name).to(dtype)
    network.start(z, seeded())
    assert network(z).dtype == dtype


def test_auto_featurizer_looks_at_the_shape_of_the_points():
    for z, kind in ((images(4), ConvNet), (points(4, dtype=torch.float32), nn.Module)):
        featurizer = AutoFeaturizer()
        featurizer.start(z, seeded())
        assert isinstance(featurizer.network, kind)
        assert isinstance(featurizer.network, ConvNet) == (kind is ConvNet)
        assert len(featurizer(z)) == 4


@pytest.mark.parametrize(
    "network",
    [
        MLP(3),
        MLP(3, width=4, layers=2),
        ConvNet(SHAPE),
        ConvNet((3, 8, 8), width=5, normalisation="batch"),
        MLP(),
    ],
    ids=repr,
)
def test_repr_is_code(network: nn.Module):
    made = eval(repr(network))
    assert type(made) is type(network)
    assert repr(made) == repr(network)
    assert weights(made) == weights(network)


# Batch normalisation and labels


def labelled(pooled: Tensor, x: list[int]) -> tuple[Samples, list[int]]:
    """The pooled images with those of `x` as X, and the place in the pool of each point of X, then
    of Y."""
    y = sorted(set(range(len(pooled))) - set(x))
    return Samples(
        pooled[x], pooled[y], Schema("image", tuple(pooled.shape[1:]), pixels="float32")
    ), x + y


def features(
    network: nn.Module, pooled: Tensor, x: list[int], seed: int, memory: int = 2**30
) -> Tensor:
    """Features of the pooled points, in the order of the pool, under one labelling."""
    samples, places = labelled(pooled, x)
    with torch.no_grad():
        embed = OnFeatures(network, Gaussian(1.0)).embed
        (z,) = embed_samples(samples, embed, seeded(seed), Resources(memory)).parts
    return z[torch.tensor(places).argsort()]


LABELLINGS = [[0, 1, 2, 3, 4, 5], [11, 3, 8, 0, 6, 2], [7, 1], list(range(10, -1, -1))]


def trained(normalisation: str) -> ConvNet:
    """A network that has seen some batches, as it is when a test is run."""
    network = small_net(normalisation)
    for seed in range(3):
        network.train()(2 + 3 * images(10, seed=seed))
    return network.eval()


def test_frozen_features_of_a_point_do_not_depend_on_company():
    network, pooled = trained("frozen"), images(12)
    with torch.no_grad():
        alone = torch.cat([network(pooled[i : i + 1]) for i in range(12)])
    assert float(alone.std(0).min()) > 1e-3
    for seed, x in enumerate(LABELLINGS):
        for memory in (2**18, 2**30):
            found = features(network, pooled, x, seed, memory)
            torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-5)


def test_frozen_statistics_are_those_of_training():
    fresh, seen, pooled = small_net().eval(), trained("frozen"), images(6)
    with torch.no_grad():
        assert not torch.allclose(fresh(pooled), seen(pooled), rtol=1e-2)
        before = copy.deepcopy(seen.state_dict())
        seen(pooled)
    assert all(torch.equal(before[key], value) for key, value in seen.state_dict().items())


def test_batch_features_in_one_batch_do_not_depend_on_labels():
    network, pooled = trained("batch"), images(12)
    with torch.no_grad():
        together = network(pooled)
        company = network(torch.cat([pooled[:1], 5 + pooled[1:]]))
    assert not torch.allclose(company[0], together[0], rtol=1e-2)  # they do depend on company
    for seed, x in enumerate(LABELLINGS):
        torch.testing.assert_close(
            features(network, pooled, x, seed), together, rtol=1e-4, atol=1e-5
        )


class Recorder(nn.Module):
    """Records which images come together, by the number in their first pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[frozenset[int]] = []

    def forward(self, z: Tensor) -> Tensor:
        self.batches.append(frozenset(z[:, 0, 0, 0].int().tolist()))
        return z


def numbered(count: int) -> Tensor:
    pooled = torch.zeros(count, *SHAPE)
    pooled[:, 0, 0, 0] = torch.arange(float(count))
    return pooled


def batches(count: int, x: list[int], seed: int, memory: int) -> list[frozenset[int]]:
    recorder = Recorder()
    features(recorder, numbered(count), x, seed, memory)
    return recorder.batches


def budget(count: int, wanted: int) -> int:
    """A budget that makes so many batches."""
    exponents = (2 ** (power / 8) for power in range(240, 80, -1))
    return next(int(m) for m in exponents if len(batches(count, [0, 1], 0, int(m))) == wanted)


def test_batches_are_drawn_blind_to_labels():
    """The number of points of X in a batch is hypergeometric, as in a draw from the pool."""
    count, n, runs = 20, 8, 400
    memory, x = budget(count, 4), list(range(8))
    drawn = [batches(count, x, seed, memory) for seed in range(runs)]
    assert {tuple(map(len, run)) for run in drawn} == {(5, 5, 5, 5)}
    law = scipy.stats.hypergeom(count, n, 5)
    for place in range(4):
        held = [len(run[place] & set(x)) for run in drawn]
        for number in range(6):
            low, high = scipy.stats.binom(runs, law.pmf(number)).ppf([1e-7, 1 - 1e-7])
            assert low <= held.count(number) <= high


@pytest.mark.parametrize("x", [[0, 1], [0, 3], [2, 1], [3]], ids=repr)
def test_which_points_share_a_batch_has_one_distribution_whatever_the_labels(x: list[int]):
    """Four points in two batches: all that batch normalisation sees is who is with 0, each other
    with chance 1/3."""
    memory, runs = budget(4, 2), 600
    partners = []
    for seed in range(runs):
        (own,) = (batch for batch in batches(4, x, seed, memory) if 0 in batch)
        partners.append(next(iter(own - {0})))
    low, high = scipy.stats.binom(runs, 1 / 3).ppf([1e-7, 1 - 1e-7])
    for other in (1, 2, 3):
        assert low <= partners.count(other) <= high


def distinct(tensors: list[Tensor]) -> list[Tensor]:
    """One of each, up to rounding."""
    found: list[Tensor] = []
    for tensor in tensors:
        if not any(torch.allclose(tensor, other, rtol=1e-4, atol=1e-5) for other in found):
            found.append(tensor)
    return found


def test_batch_features_over_several_batches_are_the_same_set_whatever_the_labels():
    """One set of features of the pool for each of the three ways to make two pairs of four
    points."""
    network, pooled, memory = trained("batch"), images(4), budget(4, 2)
    sets = [
        distinct([features(network, pooled, x, seed, memory) for seed in range(40)])
        for x in ([0, 1], [3, 1], [2])
    ]
    assert [len(found) for found in sets] == [3, 3, 3]
    assert len(distinct(sets[0] + sets[1] + sets[2])) == 3


# Errors


def test_mlp_names_both_numbers_of_columns():
    with pytest.raises(InputError, match=r"the MLP takes 3 columns but the points have 5"):
        MLP(3).start(torch.zeros(4, 5), seeded())


def test_mlp_without_columns_says_what_to_do():
    with pytest.raises(
        InputError, match=r"does not know its number of columns yet; give `inputs`, or fit the test"
    ):
        MLP()(torch.zeros(4, 5))


def test_conv_net_takes_images_only():
    with pytest.raises(
        InputError, match=r"a ConvNet takes images \(N, C, H, W\); .* shape \(4, 5\)\. Use an MLP"
    ):
        ConvNet().start(torch.zeros(4, 5), seeded())


def test_conv_net_names_both_shapes():
    with pytest.raises(
        InputError, match=r"images of shape \(1, 16, 16\) but these have \(3, 16, 16\)"
    ):
        ConvNet(SHAPE).start(torch.zeros(4, 3, 16, 16), seeded())


def test_conv_net_without_a_shape_says_what_to_do():
    with pytest.raises(
        InputError,
        match=r"does not know the shape of its images yet; give `shape`, or fit the test",
    ):
        ConvNet()(torch.zeros(4, 1, 16, 16))


def test_normalisation_has_two_names():
    with pytest.raises(
        InputError, match=r"normalisation is 'layer'; it must be 'frozen' or 'batch'"
    ):
        ConvNet(normalisation="layer")


def test_auto_featurizer_must_see_points_first():
    with pytest.raises(InputError, match=r"has seen no points yet; fit the test first"):
        AutoFeaturizer()(torch.zeros(4, 5))


def test_gain_makes_the_first_map_larger_and_nothing_else():
    one, eight = (MLP(3, width=5, gain=gain, generator=seeded()) for gain in (1.0, 8.0))
    for number, (a, b) in enumerate(zip(one.maps, eight.maps, strict=True)):
        factor = 8 if number == 0 else 1
        torch.testing.assert_close(b.weight, factor * a.weight)
        torch.testing.assert_close(b.bias, factor * a.bias)
    assert repr(eight) == "MLP(3, width=5, gain=8)"
    with pytest.raises(InputError, match="gain is 0"):
        MLP(3, gain=0)


@pytest.mark.parametrize(
    ("columns", "network", "widths"), [(2, 1, 1), (4, 1, 1), (10, 1, 2), (30, 1 / 3, 2)]
)
def test_many_columns_slow_the_network_of_a_residual_mlp_and_speed_its_widths(
    columns, network, widths
):
    residual = ResidualMLP(columns)
    factors = residual.rate_factors()
    assert set(factors) == {name for name, _ in residual.named_parameters()}
    assert factors.pop("log_widths") == widths
    assert set(factors.values()) == {network}
