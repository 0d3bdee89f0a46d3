"""Fitted tests in files: the same bits before and after, nothing lost in a crash, nothing believed
of a bad file."""

from __future__ import annotations

import dataclasses
import doctest
import hashlib
import inspect
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from door_load import ODD_PARTS, altered_tensors
from mutations import altered_bytes, altered_tree
from safetensors import safe_open
from safetensors.torch import save as as_bytes
from torch import nn
from typer.testing import CliRunner

import twosample
from bank import RationalQuadratic
from twosample import (
    METHODS,
    MLP,
    MMD,
    ARDGaussian,
    Asymptotic,
    ConvNet,
    DeepKernel,
    Fused,
    Gaussian,
    HotellingT2,
    InputError,
    InverseMultiquadric,
    Laplace,
    Learning,
    Linear,
    ManhattanLaplace,
    MeanEmbedding,
    Noncentrality,
    OnFeatures,
    PairSwap,
    Permutation,
    PowerCriterion,
    ResidualMLP,
    Several,
    SmallestRank,
    SmoothCharacteristic,
    SpectralLimit,
    Surprise,
    TwoSampleError,
    TwoSampleTest,
    WeightedSum,
)
from twosample import _calibration as calibration
from twosample import _featurizers as featurizers
from twosample import _kernels as kernels
from twosample import _objectives as objectives
from twosample import _several as several
from twosample import _views as views
from twosample._cli import main as cli
from twosample._methods import ABLATIONS
from twosample._saving import forms, saving
from twosample._statistics import fused, spectral
from twosample._statistics import mmd as statistics

ROOT = Path(__file__).parents[1]
QUICK = {
    "mmd-median": {},
    "mmd-mkl": {},
    "mmd-fuse": {"bandwidths": 3},
    "mmd-agg": {"bandwidths": 3},
    "spectral": {},
    "me": {"locations": 2, "steps": 3, "restarts": 1},
    "scf": {"frequencies": 2, "steps": 3, "restarts": 1},
}
CATALOGUE = {
    name: method(permutations=19, **QUICK.get(name, {"steps": 3}))
    for name, method in METHODS.items()
    if name != "c2st-trees"  # whose model is scikit-learn's, which is refused
} | {column: twosample.ablation(column, permutations=19, steps=3) for column in ABLATIONS}
for column in ("G+C", "D+C"):  # the second stage is a long one
    stages = dataclasses.replace(CATALOGUE[column].learning, steps=3)
    CATALOGUE[column] = dataclasses.replace(CATALOGUE[column], learning=stages)


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.normal(5, 2, rows),
            "new": rng.random(rows) < 0.5,
            "colour": rng.choice(["red", "gr\u00fcn", '"sha256":"' + "0" * 64 + '"'], rows),
        }
    )


def images(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, 8, 9), dtype=np.uint8)


def normal(rows: int, seed: int, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def fitted_on(test, data=normal, rows=(24, 24)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", twosample.InputWarning)
        return test.fit(data(rows[0], 0), data(rows[1], 1), rng=0)


def again(fitted, folder: Path, **options):
    """What comes back from a file."""
    fitted.save(folder / "kernel.safetensors")
    return twosample.load(folder / "kernel.safetensors", **options)


def bits(module: nn.Module) -> dict[str, tuple]:
    """Everything there is of a module's tensors."""
    return {
        name: (
            tensor.dtype,
            tuple(tensor.shape),
            tensor.detach().contiguous().view(-1).numpy().tobytes(),
        )
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    }


def assert_same(one, other, data=normal, rows=(22, 22)) -> None:
    X, Y = data(rows[0], 2), data(rows[1], 3)
    before, after = (fitted.test(X, Y, rng=4) for fitted in (one, other))
    assert before.null_distribution.tobytes() == after.null_distribution.tobytes()
    assert before.to_dict() == after.to_dict()  # statistic, p-value, sizes, training log
    assert (repr(one), one.schema, one.training) == (repr(other), other.schema, other.training)
    for attribute in ("representation", "spec.representation"):
        a, b = (getattr_path(fitted, attribute) for fitted in (one, other))
        assert bits(a) == bits(b)
        assert [p.requires_grad for p in a.parameters()] == [
            p.requires_grad for p in b.parameters()
        ]
        assert [m.training for m in a.modules()] == [m.training for m in b.modules()]
        assert_forms_are_complete(a)


def assert_forms_are_complete(module: nn.Module) -> None:
    """An attribute that is not in the form of its class would be lost in a file."""
    of_torch, found_out_again = set(vars(nn.Module())), {"_settled"}
    for part in module.modules():
        if type(part) in forms.MODULES:
            pieces = {*part._parameters, *part._buffers, *part._modules}
            assert set(vars(part)) - of_torch - found_out_again | pieces == set(
                forms.MODULES[type(part)]
            )


def getattr_path(thing, path: str):
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


# The same test again


@pytest.mark.parametrize("data", [table, images], ids=["table", "images"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_method_and_ablation_gives_the_same_bits(name, data, tmp_path):
    fitted = fitted_on(CATALOGUE[name], data)
    assert_same(fitted, again(fitted, tmp_path), data)


def with_kernel(kernel, **options):
    return TwoSampleTest(
        kernel, **{"learning": Learning(steps=2), "calibration": Permutation(19), **options}
    )


def frozen_network() -> nn.Module:
    network = MLP(3, width=4, layers=2, generator=torch.Generator().manual_seed(0))
    network.maps[0].requires_grad_(False)
    network.load_state_dict(
        network.state_dict()
    )  # weights of one's own, which training starts from
    return network


T2 = {"learning": Learning(Noncentrality(1e-4), steps=2), "statistic": HotellingT2()}
OTHERS = {
    "laplace": with_kernel(Laplace(factor=0.5)),
    "heavy tails": with_kernel(
        InverseMultiquadric(2.0), statistic=MMD("paired"), calibration=PairSwap(19)
    ),
    "widths": with_kernel(ARDGaussian(widths=[1.0, 2.0, 3.0])),
    "sum, one weight zero": with_kernel(
        WeightedSum([Gaussian(0.5), Linear()], [1.0, 0.0]), learning=None
    ),
    "q behind a network": with_kernel(
        DeepKernel(ResidualMLP(), Gaussian(), OnFeatures(MLP(width=3), Laplace()))
    ),
    "frozen in part": with_kernel(DeepKernel(frozen_network())),
    "log of a training": with_kernel(
        DeepKernel(MLP(width=np.int64(4))),
        learning=Learning(
            PowerCriterion("n^(-1/3)"),
            steps=40,
            validation_fraction=0.3,
            time_budget=60.0,
            schedule="constant",
        ),
    ),
    "fused": TwoSampleTest(
        Several([Gaussian(), OnFeatures(nn.Linear(3, 2), Laplace()), Linear()]),
        statistic=Fused(MMD("biased"), Surprise()),
        calibration=PairSwap(19),
    ),
    "fused with weights": TwoSampleTest(
        Several([Gaussian(0.5), Gaussian(), ManhattanLaplace()], "agg"),
        statistic=Fused(MMD(), SmallestRank((1.0, 2.0, 0.5))),
        calibration=Permutation(19),
    ),
    "spectral": with_kernel(Gaussian(), learning=None, calibration=SpectralLimit(49, points=30)),
    "paired, by a law": with_kernel(
        MeanEmbedding(2),
        **T2 | {"statistic": HotellingT2(paired=True), "calibration": Asymptotic()},
    ),
    "locations given": with_kernel(MeanEmbedding(torch.eye(3)[:2], Gaussian(1.5)), **T2),
    "locations selected": with_kernel(
        MeanEmbedding(2, select=True), **T2 | {"learning": Learning(Noncentrality(), steps=0)}
    ),
    "frequencies given": with_kernel(SmoothCharacteristic(torch.eye(3)[:2], width=2.0), **T2),
    "c2st by its law": twosample.c2st_s(asymptotic=True, steps=3),
    "c2st, one-sided": twosample.c2st_l(
        alternative="greater", probability=True, permutations=19, steps=3
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_parts_outside_the_catalogue_give_the_same_bits(name, tmp_path):
    fitted = fitted_on(OTHERS[name])
    assert_same(fitted, again(fitted, tmp_path))


def test_a_convolution_that_normalises_by_the_batch(tmp_path):
    network = ConvNet(
        (1, 8, 9), width=5, channels=(2, 3), normalisation="batch", generator=torch.Generator()
    )
    fitted = fitted_on(with_kernel(DeepKernel(network)), images)
    assert_same(fitted, again(fitted, tmp_path), images)


IMAGE_LAYERS = [
    nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"),
    nn.BatchNorm2d(4),
    nn.GELU(),
    nn.MaxPool2d(2),
    nn.Conv2d(4, 4, (1, 2), bias=False, groups=2),
    nn.GroupNorm(2, 4),
    nn.AvgPool2d(2, ceil_mode=True),
    nn.ELU(0.5),
    nn.AdaptiveAvgPool2d((2, None)),
    nn.LeakyReLU(0.3),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.LazyLinear(3),
]
TABLE_LAYERS = [
    nn.Linear(3, 6, bias=False),
    nn.BatchNorm1d(6, affine=False),
    nn.ReLU(),
    nn.Unflatten(1, (2, 3)),
    nn.Conv1d(2, 2, 3, padding="same"),
    nn.Flatten(),
    nn.Softplus(2.0),
    nn.LayerNorm(6),
    nn.Sequential(nn.Tanh(), nn.Identity(), nn.SiLU()),
    nn.Sigmoid(),
]


@pytest.mark.parametrize(
    ("layers", "data"), [(IMAGE_LAYERS, images), (TABLE_LAYERS, normal)], ids=["images", "table"]
)
def test_networks_of_torchs_own_layers_need_no_help(layers, data, tmp_path):
    network = nn.Sequential(*layers)
    network(
        torch.zeros(2, *data(2, 0).reshape(2, -1, 9).shape[1:])[:, None]
        if data is images
        else torch.zeros(2, 3)
    )
    fitted = fitted_on(with_kernel(DeepKernel(network)), data)
    assert_same(fitted, again(fitted, tmp_path), data)


def test_what_is_shared_stays_shared(tmp_path):
    twice, act = nn.Linear(3, 3), nn.Tanh()
    network = nn.Sequential(twice, act, twice, act)
    fitted = fitted_on(with_kernel(DeepKernel(network, q=OnFeatures(network, Gaussian()))))
    loaded = again(fitted, tmp_path)
    assert_same(fitted, loaded)
    for kernel in (loaded.representation, loaded.spec.representation):
        assert (
            kernel.featurizer is kernel.q.featurizer
            and kernel.featurizer[0] is kernel.featurizer[2]
        )
        assert len(kernel.featurizer) == 4
    assert_same(
        fitted, dataclasses.replace(fitted_on(loaded.spec), training=fitted.training)
    )  # trained together


def test_every_layer_with_a_form_is_tried():
    used = {type(layer) for layer in nn.Sequential(*IMAGE_LAYERS, *TABLE_LAYERS).modules()}
    assert used == {*forms.LAYERS, nn.Sequential}


PARTS = (kernels, several, featurizers, objectives, statistics, fused, calibration, spectral, views)


def test_every_part_of_the_library_has_a_form():
    made = {
        thing
        for module in PARTS
        for _, thing in inspect.getmembers(module, inspect.isclass)
        if f"{thing.__module__}.".startswith(f"{module.__name__}.")
        if not inspect.isabstract(thing)
    }
    made = {thing for thing in made if not thing.__name__.startswith("_")}
    modules = {thing for thing in made if issubclass(thing, nn.Module)}
    assert modules - {featurizers.SklearnClassifier, views.View} == set(forms.MODULES)
    parts = {
        thing for thing in made if issubclass(thing, statistics.Statistic | calibration.Calibration)
    }
    parts |= {thing for thing in made if thing.__module__ == objectives.__name__}
    assert parts <= set(forms.RECORDS)


def test_what_is_loaded_can_be_fitted_again(tmp_path):
    for test in (OTHERS["frozen in part"], CATALOGUE["mmd-d"], CATALOGUE["D+C"]):
        fitted = fitted_on(test)
        assert_same(
            fitted,
            dataclasses.replace(fitted_on(again(fitted, tmp_path).spec), training=fitted.training),
        )


def test_results_carry_a_test_that_can_be_saved(tmp_path):
    X, Y = table(60, 0), table(50, 1)
    for method in ("auto", CATALOGUE["mmd-d"]):
        result = twosample.two_sample_test(X, Y, method, rng=0)
        loaded = again(result.fitted, tmp_path)
        assert_same(result.fitted, loaded, table)
    new = table(40, 5), table(40, 6)
    before, after = (
        twosample.explain(fitted.test(*new, rng=1), rng=2) for fitted in (result.fitted, loaded)
    )
    assert before.to_dict() == after.to_dict()


def test_locations_are_a_test_too(tmp_path):
    fitted = fitted_on(CATALOGUE["mmd-d"])
    found = twosample.locations(fitted, normal(30, 5), normal(30, 6), 2, rng=0)
    assert_same(found.fitted, again(found.fitted, tmp_path))


def test_saving_twice_and_loading_twice_change_nothing(tmp_path):
    fitted = fitted_on(CATALOGUE["me"], table)
    assert_same(fitted, again(again(fitted, tmp_path), tmp_path), table)


def test_another_process_finds_the_same_bits(tmp_path):
    fitted = fitted_on(CATALOGUE["mmd-d"])
    fitted.save(tmp_path / "kernel.safetensors")
    X, Y = normal(25, 2), normal(22, 3)
    np.savez(tmp_path / "new.npz", X=X, Y=Y)
    program = (
        "import numpy as np, sys, twosample\n"
        "new = np.load('new.npz')\n"
        "result = twosample.load('kernel.safetensors').test(new['X'], new['Y'], rng=4)\n"
        "sys.stdout.buffer.write(result.null_distribution.tobytes() + "
        "np.float64(result.statistic).tobytes())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True
    )
    result = fitted.test(X, Y, rng=4)
    assert (
        done.stdout == result.null_distribution.tobytes() + np.float64(result.statistic).tobytes()
    )


def test_a_file_of_the_first_format_is_still_read():
    """Made by mmd_d(ResidualMLP(width=4, layers=2), steps=20, permutations=99), fitted on 60 and 50
    rows of `table`."""
    saved = saving.read(ROOT / "tests" / "saved" / "format-1.safetensors")
    result = saved.fitted.test(table(40, 2), table(30, 3), rng=4)
    assert saved.provenance["notes"] == {"seed": 0}
    assert (
        result.pvalue == 0.77
        and result.train_sizes == (60, 50)
        and len(result.training.objective) == 20
    )
    assert result.statistic == pytest.approx(-0.0107943, rel=1e-4)


def test_the_global_generators_are_left_alone(tmp_path):
    before = random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()  # noqa: NPY002
    again(fitted_on(CATALOGUE["c2st-l"], images), tmp_path)
    assert (
        random.getstate(),
        repr(np.random.get_state()),  # noqa: NPY002
        torch.get_rng_state().tolist(),
    ) == before


def test_a_file_says_where_it_comes_from(tmp_path):
    fitted = fitted_on(CATALOGUE["mmd-d"])
    fitted.save(tmp_path / "kernel.safetensors", notes={"seed": 7, "why": "drift of \u03b1"})
    provenance = saving.read(tmp_path / "kernel.safetensors").provenance
    assert provenance["notes"] == {"seed": 7, "why": "drift of \u03b1"}
    assert (
        provenance["twosample"] == twosample.__version__
        and provenance["torch"] == torch.__version__.partition("+")[0]
    )
    assert provenance["train_sizes"] == [24, 24] and provenance["saved"].endswith("+00:00")


def test_any_reader_of_safetensors_can_look_into_a_file(tmp_path):
    fitted = fitted_on(CATALOGUE["mmd-o"], table)
    fitted.save(tmp_path / "kernel.safetensors")
    with safe_open(tmp_path / "kernel.safetensors", "pt") as opened:
        header = json.loads(opened.metadata()["twosample"])
        bandwidth = opened.get_tensor("representation.log_bandwidth")
    assert float(bandwidth.exp()) == fitted.representation.bandwidth
    assert header["format"] == saving.FORMAT == 1
    columns = header["test"]["fitted"]["schema"]["columns"]
    assert [(column["name"], column["kind"]) for column in columns] == [
        ("colour", "category"),
        ("new", "boolean"),
        ("size", "numeric"),
    ]


def test_a_device_that_is_not_there_is_a_sentence(tmp_path):
    fitted = fitted_on(CATALOGUE["mmd-o"])
    assert_same(fitted, again(fitted, tmp_path, device="cpu"))
    with pytest.raises(InputError, match="device 'no such' cannot be used"):
        twosample.load(tmp_path / "kernel.safetensors", device="no such")


# Parts of classes that are not ours


class Squares(nn.Module):
    """A featurizer of somebody's own."""

    def __init__(self, width: int = 4, columns: int = 3) -> None:
        super().__init__()
        self.linear = nn.Linear(columns, width)
        self.register_buffer("power", torch.tensor(2))

    def forward(self, points):
        return self.linear(points) ** self.power


def mean_difference(kernel, x, y, *, memory=0):
    """An objective of somebody's own: a function."""
    return kernel(x, y).mean() * -1


class Halved(MMD):
    """A statistic of somebody's own."""

    def evaluate(self, prepared, shuffles):
        return super().evaluate(prepared, shuffles) / 2


def test_a_featurizer_of_an_own_class_is_asked_for_by_name(tmp_path):
    fitted = fitted_on(with_kernel(DeepKernel(Squares())))
    with pytest.raises(
        InputError,
        match=r"its representation.featurizer is of the class 'Squares'.*parts={'Squares'",
    ):
        again(fitted, tmp_path)
    for given in (Squares(), Squares):
        loaded = again(fitted, tmp_path, parts={"Squares": given})
        assert_same(fitted, loaded)
    given = Squares()
    before = bits(given)
    assert again(fitted, tmp_path, parts={"Squares": given}).representation.featurizer is not given
    assert bits(given) == before


def test_own_kernels_objectives_and_statistics_are_asked_for_too(tmp_path):
    own = with_kernel(
        WeightedSum([RationalQuadratic(), Gaussian()]),
        learning=Learning(mean_difference, steps=2),
        statistic=Halved(),
    )
    fitted = fitted_on(own)
    parts = {
        "RationalQuadratic": RationalQuadratic(7.0),
        "mean_difference": mean_difference,
        "Halved": Halved(),
    }
    assert_same(fitted, again(fitted, tmp_path, parts=parts))
    for name in parts:
        with pytest.raises(InputError, match=f"of the class '{name}' of the module"):
            again(fitted, tmp_path, parts={key: part for key, part in parts.items() if key != name})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            Squares(5),
            r"parts\['Squares'\] is not like the Squares that was saved .*size mismatch for "
            r"linear.weight",
        ),
        (nn.Linear(3, 4), r"is not like .*Missing key\(s\) in state_dict: \"weight\""),
        (
            "Squares",
            r"parts\['Squares'\] is a str, but its representation.featurizer must be a Module",
        ),
    ],
)
def test_an_own_part_that_does_not_fit_is_a_sentence(given, message, tmp_path):
    with pytest.raises(InputError, match=message):
        again(fitted_on(with_kernel(DeepKernel(Squares()))), tmp_path, parts={"Squares": given})


def test_what_no_file_can_hold_is_refused_before_writing(tmp_path):
    class Stateful(Squares):
        def get_extra_state(self):
            return {"anything": 1}

        def set_extra_state(self, state):
            pass

    file = tmp_path / "kernel.safetensors"
    for network, message in (
        (Stateful(), "_extra_state is a dict, and only tensors can be saved"),
        (nn.Sequential(nn.LazyLinear(2)), "has no size yet"),
    ):
        fitted = fitted_on(with_kernel(DeepKernel(network)))
        with pytest.raises(InputError, match=message):
            fitted.save(file)
    fitted = fitted_on(CATALOGUE["mmd-median"])
    with pytest.raises(InputError, match="the notes cannot be kept"):
        fitted.save(file, notes={"when": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_scikit_learn_is_refused(tmp_path):
    from sklearn.linear_model import LogisticRegression

    by_name = twosample.c2st_trees(permutations=19)
    given = twosample.c2st_l(classifier=LogisticRegression(), permutations=19)
    for test, model in ((given, "LogisticRegression"), (by_name, "HistGradientBoosting")):
        fitted = fitted_on(test)
        with pytest.raises(
            InputError, match=rf"holds the scikit-learn model {model}.*cannot be saved"
        ):
            fitted.save(tmp_path / "kernel.safetensors")
        assert list(tmp_path.iterdir()) == []


def test_a_transformer_of_scikit_learn_is_refused_and_a_network_is_kept(tmp_path):
    from sklearn.decomposition import PCA

    fitted = fitted_on(twosample.spectral(None, twosample.Features(PCA(2)), permutations=19))
    with pytest.raises(InputError, match=r"transformer PCA\(n_components=2\).*cannot be saved"):
        fitted.save(tmp_path / "kernel.safetensors")
    assert list(tmp_path.iterdir()) == []
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    kept = fitted_on(twosample.spectral(twosample.Features(network), permutations=19))
    assert_same(kept, again(kept, tmp_path))
    own = fitted_on(twosample.spectral(twosample.Features(Squares()), permutations=19))
    with pytest.raises(InputError, match="is of the class 'Squares'"):
        again(own, tmp_path)
    assert_same(own, again(own, tmp_path, parts={"Squares": Squares}))


@pytest.mark.parametrize(
    ("kernel", "data"),
    [
        (Gaussian(), normal),
        (DeepKernel(MLP(width=3)), normal),
        (OnFeatures(ConvNet(width=4), Laplace()), images),
    ],
)
def test_landmarks_of_a_kernel_are_kept(kernel, data, tmp_path):
    fitted = fitted_on(twosample.spectral(twosample.LandmarksOf(kernel), permutations=19), data)
    assert_same(fitted, again(fitted, tmp_path), data)


# Files that are not what they should be


@pytest.fixture
def good(tmp_path) -> Path:
    fitted_on(CATALOGUE["mmd-o"], table).save(tmp_path / "good.safetensors")
    return tmp_path / "good.safetensors"


def signed(header: object, tensors: dict[str, torch.Tensor]) -> bytes:
    """A file as somebody would make it who knows how: with the right checksum."""
    text = header if isinstance(header, str) else json.dumps(header)
    return sign(as_bytes(tensors, {"twosample": text, "sha256": "0" * 64}))


def sign(content: bytes) -> bytes:
    return content.replace(
        b'"sha256":"' + b"0" * 64, b'"sha256":"' + hashlib.sha256(content).hexdigest().encode(), 1
    )


def pieces(file: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    with safe_open(file, "pt") as opened:
        tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
        return json.loads(opened.metadata()["twosample"]), tensors


def refusal(file: Path, content: bytes) -> str:
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        twosample.load(file)
    return str(caught.value)


def test_a_file_put_together_by_hand_is_read(good):
    before = twosample.load(good)
    good.write_bytes(
        signed(*pieces(good))
    )  # so what the tests below find is not their way of making files
    assert_same(before, twosample.load(good), table)


def test_the_former_name_of_the_spectral_limit_is_read(tmp_path):
    fitted = fitted_on(OTHERS["spectral"])
    file = tmp_path / "spectral.safetensors"
    fitted.save(file)
    header, tensors = pieces(file)
    calibration = header["test"]["fitted"]["spec"]["calibration"]
    assert calibration["class"] == "SpectralLimit"
    calibration["class"] = "Spectral"
    file.write_bytes(signed(header, tensors))
    assert_same(fitted, twosample.load(file))


class Payload:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.parametrize("how", ["pickle", "torch", "numpy"])
def test_a_pickle_is_not_run(how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if how == "pickle":
        Path("bad").write_bytes(pickle.dumps(Payload()))
    elif how == "torch":
        torch.save({"payload": Payload()}, "bad")
    else:
        with open("bad", "wb") as stream:
            np.save(stream, np.array([Payload()], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="bad is not a safetensors file"):
        twosample.load("bad")
    assert not Path("ran").exists()


def test_no_class_is_imported_because_a_file_names_it(good, monkeypatch):
    header, tensors = pieces(good)
    spec = header["test"]["fitted"]["spec"]
    for name in (
        "os.system",
        "subprocess.Popen",
        "Kernel",
        "SklearnClassifier",
        "__class__",
        "nn.Bilinear",
        "",
    ):
        spec["statistic"] = {"class": name}
        assert f"has no class {name!r}" in refusal(good, signed(header, tensors))
    for name in ("Learning", "Gaussian", "nn.Linear", "FittedTest"):
        spec["statistic"] = {"class": name}
        assert f"at spec.statistic: {name!r} is not of the type Statistic" in refusal(
            good, signed(header, tensors)
        )
    for elsewhere in ("representation", "spec.representation", "nowhere", 3, None):
        spec["statistic"] = {"class": "same", "place": elsewhere}
        assert "is not the place of a Statistic" in refusal(good, signed(header, tensors))
    spec["statistic"] = {"class": "own", "name": "system", "module": "os"}
    assert "is of the class 'system' of the module 'os', whose code is not in the file" in refusal(
        good, signed(header, tensors)
    )


def test_a_later_version_is_refused_politely(good):
    header, tensors = pieces(good)
    message = refusal(good, signed({"format": 2, "something": "new"}, tensors))
    assert (
        "made by a later version of twosample: its format is 2" in message
        and "Upgrade twosample." in message
    )
    for wrong in (0, -1, "1", 1.0, None, True):
        assert "which version of the format" in refusal(
            good, signed(header | {"format": wrong}, tensors)
        )


def test_other_files_of_safetensors_are_said_to_be_other(good):
    _, tensors = pieces(good)
    assert "does not hold a fitted test" in refusal(good, as_bytes(tensors))
    assert "does not hold a fitted test" in refusal(good, as_bytes(tensors, {"format": "pt"}))
    assert "is damaged" in refusal(good, signed("no JSON", tensors))
    assert "is damaged" in refusal(good, signed("[1]", tensors))
    assert "NaN is not JSON" in refusal(good, signed('{"format": NaN}', tensors))
    assert "is damaged" in refusal(good, signed('{"format": ' + "[" * 100_000, tensors))


def test_every_altered_byte_is_noticed(good):
    """All of them: the length, the header with its blanks, the numbers."""
    content = good.read_bytes()
    flips = np.random.default_rng(0).integers(0, 8, len(content))
    for place, flip in enumerate(flips.tolist()):
        altered = bytearray(content)
        altered[place] ^= 1 << flip
        refusal(good, bytes(altered))


def test_every_truncation_is_noticed(good):
    content = good.read_bytes()
    for length in range(0, len(content), 3):
        refusal(good, content[:length])
    assert "altered, or cut short" in refusal(good, content[:-1])
    assert "altered, or cut short" in refusal(good, content + b"\0")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("fitted.spec.statistic.estimator", "best", "'best' is not one of unbiased, biased"),
        ("fitted.spec.statistic.estimator", "block", "Use PairSwap"),
        ("fitted.spec.calibration.permutations", 0, "permutations is 0"),
        ("fitted.spec.calibration.permutations", True, "True is not a whole number"),
        ("fitted.spec.calibration.permutations", 2**63, "is not a whole number"),
        ("fitted.spec.memory", 5, "memory is 5 bytes"),
        ("fitted.spec.name", None, "None is not a string"),
        ("fitted.spec.learning.objective.class", "MMD", "'MMD' is not of the type Objective"),
        ("fitted.spec.representation.factor", -1.0, "-1.0 is not a positive number"),
        ("fitted.spec.representation.factor", "nan", "'nan' is not a positive number"),
        ("fitted.representation.class", "Linear", "does not know 'factor'"),
        ("fitted.representation.class", "MLP", "does not know 'factor'"),
        ("fitted.schema.columns.2.levels", ["a", "a"], "contradict each other"),
        ("fitted.schema.columns.1.levels", ["a"], "contradict each other"),
        ("fitted.schema.columns.1.name", "size", "contradict each other"),
        ("fitted.schema.columns", [], "contradict each other"),
        ("fitted.schema.shape", [9], "contradict each other"),
        ("fitted.schema.kind", "image", "contradict each other"),
        ("fitted.schema.kind", ["table"], "a list is not one of table, image"),
        ("fitted.train_sizes", [1, 2, 3], "is not a list of 2"),
        ("fitted.train_sizes", [0, 2], "too few"),
        ("fitted.training.objective", [{}], "at training.objective.0: a dict is not a number"),
        (
            "fitted.training.extra",
            1,
            "at training: this version of twosample does not know 'extra'",
        ),
        ("frozen", ["log_width"], "has the parameter 'log_width'"),
    ],
)
def test_a_header_that_does_not_fit_is_a_sentence(place, value, message, good):
    header, tensors = pieces(good)
    *path, last = place.split(".")
    inner = header["test"]
    for name in path:
        inner = inner[int(name) if name.isdigit() else name]
    inner[int(last) if last.isdigit() else last] = value
    assert message in refusal(good, signed(header, tensors))


def test_tensors_that_do_not_fit_are_sentences(good):
    header, tensors = pieces(good)

    def changed(**others) -> str:
        found = {
            name: tensor for name, tensor in {**tensors, **others}.items() if tensor is not None
        }
        return refusal(good, signed(header, found))

    shift, scale = tensors["scaling.shift"], tensors["scaling.scale"]
    assert "the tensor scaling.shift is missing" in changed(**{"scaling.shift": None})
    assert "no part asks for the tensor 'more'" in changed(more=shift.clone())
    assert "holds what are no numbers" in changed(**{"scaling.shift": shift / 0})
    assert "numbers of another kind" in changed(**{"scaling.shift": shift.long()})
    assert "in float64" in changed(**{"scaling.shift": shift.float()})
    assert "its scaling has the shape (7,)" in changed(**{"scaling.shift": torch.zeros(7).double()})
    assert "a scale that is not positive" in changed(**{"scaling.scale": scale * 0})
    assert "holds what are no numbers" in changed(
        **{"representation.log_bandwidth": torch.tensor(-torch.inf)}
    )
    assert "values that are not finite" in changed(
        **{"representation.log_bandwidth": torch.tensor(-1e30)}
    )
    assert "left open, so it was never fitted" in changed(
        **{"representation.log_bandwidth": torch.tensor(torch.nan)}
    )
    assert "has the shape (1,)" in changed(**{"representation.log_bandwidth": torch.zeros(1)})


def test_no_number_in_a_header_takes_memory(tmp_path):
    """Sizes of terabytes, in every place that has a size."""
    file = tmp_path / "kernel.safetensors"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fitted_on(CATALOGUE["c2st-l"], images).save(file)
    header, tensors = pieces(file)
    text = json.dumps(header)
    for old, new in (
        ('"shape": [1, 8, 9]', '"shape": [1, 1048576, 1048576]'),
        ('"in_features": 128', '"in_features": 1000000000000'),
        ('"num_features": 32', '"num_features": 1000000000000'),
        ('"out_channels": 16', '"out_channels": 1000000000000'),
        ('"kernel_size": [3, 3]', '"kernel_size": [1000000, 1000000]'),
        ('"kernel_size": [3, 3]', '"kernel_size": [1000000000000, 1000000000000]'),
    ):
        assert old in text
        refusal(file, signed(text.replace(old, new), tensors))
    fitted_on(CATALOGUE["mmd-median"], images).save(file)
    header, tensors = pieces(file)
    file.write_bytes(
        signed(json.dumps(header).replace("[1, 8, 9]", "[1, 1048576, 1048576]"), tensors)
    )
    loaded = twosample.load(
        file
    )  # a test of images of a terabyte: nothing is wrong with it until they come
    with pytest.raises(InputError, match="takes images of 1 x 1048576 x 1048576"):
        loaded.test(images(9, 0), images(9, 1))
    long = (2**63).to_bytes(8, "little") + b"{" + bytes(100)
    assert "cut short" in refusal(file, long)
    deep = {"class": "OnFeatures", "kernel": {"class": "Linear"}}
    for _ in range(200):
        deep = {"class": "Frozen", "network": deep}
    header["test"]["fitted"]["representation"] = deep
    assert "more than 40 deep" in refusal(file, signed(header, tensors))
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 500_000
    )  # kilobytes; torch's own code is most


def test_a_header_of_more_than_16_megabytes_is_not_looked_at(good):
    header, tensors = pieces(good)
    header["provenance"]["notes"] = {"long": "x" * 2**24}
    assert "at most 16,777,216 are read" in refusal(good, signed(header, tensors))
    with pytest.raises(
        InputError, match="cannot be saved, since it could not be read again: its header takes"
    ):
        fitted_on(CATALOGUE["mmd-median"]).save(good, notes={"long": "x" * 2**24})


def test_accidents_are_noticed(tmp_path):
    """Thousands of spoilt files: each is refused, or it is the very file it was."""
    file = tmp_path / "kernel.safetensors"
    fitted_on(with_kernel(DeepKernel(ResidualMLP(width=3, layers=2))), table).save(file)
    content, rng = file.read_bytes(), np.random.default_rng(0)
    unchanged = 0
    for _ in range(2500):
        altered = altered_bytes(content, rng)
        if altered == content:
            unchanged += 1
        else:
            refusal(file, altered)
    assert unchanged < 100


FORGED = {
    "deep": (with_kernel(DeepKernel(ResidualMLP(width=3, layers=2))), table),
    "images": (with_kernel(DeepKernel(ConvNet(width=3, channels=(2, 3), ranks=True))), images),
    "me": (CATALOGUE["me"], table),
    "views of a table": (CATALOGUE["spectral"], table),
    "views of images": (CATALOGUE["spectral"], images),
}


@pytest.mark.parametrize(
    ("test", "data"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.slow if "views" in name else [])
        for name, case in FORGED.items()
    ],
)
def test_forgeries_are_refused_or_tested_with(test, data, tmp_path):
    """Files with a right checksum and a change inside: a sentence, now or when they are used, and
    nothing else."""
    file = tmp_path / "kernel.safetensors"
    fitted_on(test, data).save(file)
    (header, tensors), rng = pieces(file), np.random.default_rng(1)
    X, Y, outcomes = data(8, 2), data(7, 3), []
    for number in range(350):
        forged = (
            (altered_tree(header, rng, ODD_PARTS), tensors)
            if number % 3
            else (header, altered_tensors(tensors, rng))
        )
        file.write_bytes(signed(*forged))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = twosample.load(file).test(X, Y, rng=0)
                outcomes.append(0 < result.pvalue <= 1)
            except TwoSampleError as error:
                outcomes.append(str(error))
    assert False not in outcomes
    assert (
        50 < sum(outcome is not True for outcome in outcomes) < 350
    )  # some changes do no harm: a name, a log


# Places to write to


def test_places_that_cannot_be_written_are_sentences(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted = fitted_on(CATALOGUE["mmd-median"])
    Path("folder").mkdir()
    os.mkfifo("pipe")
    for path, message in (
        ("folder", "folder is a folder; give the name of a file in it"),
        ("absent/kernel.safetensors", "there is no folder .*absent; make it first"),
        ("pipe", "pipe is no ordinary file"),
        ("x" * 300, "cannot be written .*too long"),
        ("nul\0", "cannot be written .*null"),
        ("pipe/kernel.safetensors", "there is no folder .*pipe"),
    ):
        with pytest.raises(InputError, match=message):
            fitted.save(path)
    assert sorted(file.name for file in Path().iterdir()) == ["folder", "pipe"]


def test_places_that_cannot_be_read_are_sentences(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("empty").touch()
    for path, message in (
        ("absent", "absent does not exist; check the path"),
        (".", "is a folder; give a file"),
        ("pipe", "pipe is no ordinary file"),  # which would wait for ever
        (os.devnull, "is no ordinary file"),
        ("empty", "is not a safetensors file"),
        ("nul\0", "cannot be read .*null|does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            twosample.load(path)


@pytest.mark.skipif(os.name != "posix", reason="takes permissions")
def test_a_folder_of_somebody_else_is_a_sentence(tmp_path):
    fitted = fitted_on(CATALOGUE["mmd-median"])
    tmp_path.chmod(0o555)
    root = os.geteuid() == 0
    if root:  # who may write everywhere
        os.seteuid(65534)
    try:
        with pytest.raises(InputError, match=r"may not be written by this user|cannot be written"):
            fitted.save(tmp_path / "kernel.safetensors")
    finally:
        if root:
            os.seteuid(0)
        tmp_path.chmod(0o755)
    assert list(tmp_path.iterdir()) == []


def test_links_and_permissions_stay(tmp_path):
    fitted = fitted_on(CATALOGUE["mmd-median"])
    fitted.save(tmp_path / "first.safetensors")
    assert (tmp_path / "first.safetensors").stat().st_mode & 0o777 == 0o666 & ~umask()
    (tmp_path / "first.safetensors").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "first.safetensors")
    (tmp_path / "first.safetensors").write_bytes(b"old")
    fitted.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "first.safetensors").stat().st_mode & 0o777 == 0o640
    assert_same(fitted, twosample.load(tmp_path / "first.safetensors"))


def umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def python(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FITTED = """
import dataclasses, numpy as np, os, signal, time, torch, twosample
torch.set_num_threads(1)  # a fork has none of the others
X, Y = np.random.default_rng(0).normal(size=(2, 20, 2))
fitted = twosample.mmd_d(twosample.MLP(2, width=300), steps=1).fit(X, Y, rng=0)
def named(name):
    return dataclasses.replace(fitted, spec=dataclasses.replace(fitted.spec, name=str(name)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="takes a fork")
@pytest.mark.parametrize("kills", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_leaves_a_whole_file(kills, tmp_path):
    """A process that writes again and again is killed again and again; what is there can always be
    read."""
    program = (
        FITTED
        + f"kills = {kills}\n"
        + """
def parts():
    return {name for name in os.listdir() if name.endswith(".part")}
rng, read = np.random.default_rng(1), []
named(0).save("kernel.safetensors")
number = 0
while number < kills or not parts() and number < 20 * kills:  # until a kill came in the midst of a file
    number += 1
    seen = parts()
    if not (child := os.fork()):
        while True:
            named(number).save("kernel.safetensors")
    began, wanted = time.monotonic(), len(seen) + 1 + number % 2  # the first file that it writes, or the second
    while len(seen) < wanted and time.monotonic() < began + 60:
        seen |= parts()
    time.sleep(rng.uniform(0.0, 0.003))
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    read.append(int(twosample.load("kernel.safetensors").spec.name))
print(*read)
"""
    )
    read = [int(name) for name in python(program, tmp_path).split()]
    assert read == sorted(read) and all(name <= number for number, name in enumerate(read, 1))
    assert set(range(1, len(read) + 1, 2)) <= set(read)  # where one file was complete, it is there
    assert list(tmp_path.glob(".twosample-*.part"))  # and some kills came in the midst of another


@pytest.mark.skipif(os.name != "posix", reason="takes a limit for the size of files")
def test_a_full_disk_leaves_the_old_file(tmp_path):
    import resource

    fitted = fitted_on(twosample.mmd_d(MLP(3, width=300), steps=1))
    file = tmp_path / "kernel.safetensors"
    fitted.save(file)
    old = file.read_bytes()
    assert len(old) > 100_000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(
            InputError,
            match=r"cannot be written \(File too large\); what was there before still is\.",
        ):
            fitted.save(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read_bytes() == old and list(tmp_path.iterdir()) == [file]


@pytest.mark.skipif(os.name != "posix", reason="takes locks")
def test_files_of_killed_processes_are_removed(tmp_path):
    import fcntl

    def part(name, age):
        path = tmp_path / f".twosample-{name}.part"
        path.write_bytes(b"half of a file")
        os.utime(path, (time.time() - age,) * 2)
        return path

    abandoned = part("abandoned", 60)
    new = part("new", 0)
    alive = part("alive", 90_000)
    mine = tmp_path / "mine.part"
    mine.write_bytes(b"")
    with alive.open("r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        saving.replace(tmp_path / "file", b"content")
        assert not abandoned.exists()
        assert new.exists() and alive.exists() and mine.exists()
    saving.replace(tmp_path / "file", b"content")
    assert not alive.exists() and new.exists()
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.skipif(os.name != "posix", reason="takes locks")
def test_a_file_that_is_being_written_is_locked(tmp_path, monkeypatch):
    def while_writing(descriptor):
        monkeypatch.undo()
        (beside,) = tmp_path.glob(".twosample-*.part")
        os.utime(beside, (time.time() - 1000,) * 2)
        saving.replace(tmp_path / "other", b"other")
        assert beside.exists()

    monkeypatch.setattr(os, "fsync", while_writing)
    saving.replace(tmp_path / "file", b"content")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other"]


# The command line


def call(*words: str, code: int = 0):
    done = CliRunner().invoke(cli.build(), list(words))
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to stand in, with samples to learn from, others that differ in the same way, and
    others that do not."""
    rng = np.random.default_rng(7)
    for name, shift in (("a", 0.0), ("b", 2.0), ("c", 0.0), ("d", 2.0), ("e", 0.0)):
        kinds = rng.choice(["x", "y"], 60)
        pd.DataFrame({"size": rng.normal(shift, 1, 60), "kind": kinds}).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    monkeypatch.chdir(tmp_path)
    return tmp_path


FIT = [
    "fit",
    "a.csv",
    "b.csv",
    "-o",
    "kernel.safetensors",
    "--method",
    "mmd-o",
    "--permutations",
    "99",
    "--seed",
    "0",
]


def test_fit_and_apply(folder):
    first, *rest = call(*FIT).stdout.splitlines()
    assert first == "kernel.safetensors holds mmd-o, fitted on 60 + 60 rows."
    assert [line.split()[0] for line in rest] == ["samples", "b.csv,", "training", "seed"]
    done = call("apply", "kernel.safetensors", "c.csv", "d.csv", "--seed", "1")
    first, *rest = done.stdout.splitlines()
    assert first == "The samples differ: p = 0.010, at most alpha = 0.05."
    heads = ["kernel", "samples", "d.csv,", "method", "statistic", "effect", "seed"]
    assert [line.split()[0] for line in rest] == heads
    assert "kernel.safetensors, saved 20" in rest[0]
    assert "mmd-o, learned on 60 + 60 rows, tested on 60 + 60" in rest[3]
    assert "99 permutations" in rest[4] and done.stderr == ""
    assert "No difference found" in call("apply", "kernel.safetensors", "c.csv", "e.csv").stdout


def test_apply_gives_what_the_library_gives(folder):
    fitted = twosample.mmd_o(permutations=99).fit(pd.read_csv("a.csv"), pd.read_csv("b.csv"), rng=0)
    result = fitted.test(pd.read_csv("c.csv"), pd.read_csv("d.csv"), rng=1)
    learned = json.loads(call(*FIT, "--json").stdout)
    found = json.loads(
        call("apply", "kernel.safetensors", "c.csv", "d.csv", "--seed", "1", "--json").stdout
    )
    assert (
        learned["training"]["objective"]
        == found["training"]["objective"]
        == list(result.training.objective)
    )
    assert (found["pvalue"], found["statistic"]) == (result.pvalue, result.statistic)
    expected = {
        "reject": True,
        "alpha": 0.05,
        "seed": 1,
        "files": ["c.csv", "d.csv"],
        "train_sizes": [60, 60],
    }
    assert {key: found[key] for key in expected} == expected
    assert found["provenance"]["notes"] == {
        "files": ["a.csv", "b.csv"],
        "rows": [60, 60],
        "method": "mmd-o",
        "seed": 0,
    }


def test_options_of_apply_are_those_of_test(folder):
    call(*FIT)
    apply = ["apply", "kernel.safetensors", "c.csv", "d.csv", "--seed", "1"]
    assert call(*apply, "--quiet").stdout.count("\n") == 1
    assert "at most alpha = 0.2" in call(*apply, "--alpha", "0.2").stdout
    assert "49 permutations" in call(*apply, "--permutations", "49").stdout
    assert "size" in call(*apply, "--explain", "--quiet").stdout
    call(*apply, "--fail-on-reject", code=1)
    assert "so nothing can be found at alpha = 0.001" in call(*apply, "--alpha", "0.001").stderr
    for words, message in (
        (["--alpha", "2"], "--alpha is 2"),
        (["--seed", "-1"], "--seed is -1"),
        (["--stream", "--explain"], "leave out one of them"),
        (["--device", "none such"], "device 'none such' cannot be used"),
    ):
        assert message in call(*apply, *words, code=2).stderr


def test_fit_in_its_other_ways(folder):
    assert call(*FIT, "--quiet").stdout.count("\n") == 1
    assert "holds spectral, fitted on 60 + 60 rows" in call(*FIT[:5], "--method", "auto").stdout
    assert "training" not in call(*FIT[:5], "--method", "mmd-median").stdout
    for name in "ab":
        np.save(f"{name}.npy", normal(60, ord(name)))
    shown = json.loads(call("fit", "a.npy", "b.npy", "--stream", *FIT[3:], "--json").stdout)
    assert shown["train_sizes"] == [60, 60] and shown["output"] == "kernel.safetensors"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["fit", "absent.csv", "absent.csv", "-o", "none/k"],
            "there is no folder",
        ),  # known before anything is read
        (["fit", "a.csv", "b.csv", "-o", "."], "is a folder"),
        (["fit", "a.csv", "b.csv", "-o", "k", "--method", "best"], "method 'best' does not exist"),
        (["apply", "absent", "c.csv", "d.csv"], "error: absent does not exist"),
        (["apply", "a.csv", "c.csv", "d.csv"], "error: a.csv is not a safetensors file"),
        (["apply", "kernel.safetensors", "c.csv", "a.npy"], "has named columns but a.npy has none"),
    ],
)
def test_what_goes_wrong_is_a_sentence(words, message, folder):
    call(*FIT)
    np.save("a.npy", normal(9, 0, 2))
    done = call(*words, code=2)
    assert message in done.stderr[:200] and done.stdout == ""


@pytest.mark.parametrize("command", ["fit", "apply"])
def test_help_has_an_example(command):
    shown = call(command, "--help").stdout
    assert shown.split("Examples", 1)[1].splitlines()[1].startswith(f"    twosample {command}")
    assert max(map(len, shown.splitlines())) <= 80


def test_the_page_gives_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "saving.md"
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 5 and results.failed == 0
