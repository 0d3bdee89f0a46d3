"""The DCGAN: what it is, that a training can be stopped at any moment, and that its samples are
data like any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from twosample import InputError
from twosample._cli import data as data_cli
from twosample.bench import datasets, dcgan
from twosample.errors import TrainingError

FILE = "dcgan.safetensors"


def digits(count=3, seed=0):
    """Few images make small batches, and quick steps."""
    return np.random.default_rng(seed).integers(0, 256, (count, 28, 28), dtype=np.uint8)


def same(one, other):
    one = load_file(one / FILE)
    other = load_file(other / FILE)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Six steps in one go; nobody writes there."""
    folder = tmp_path_factory.mktemp("trained")
    dcgan.train(digits(), folder, 6, rng=0)
    return folder


# The networks


def test_networks_have_the_layers_of_the_published_implementation():
    training = dcgan._Training(0, torch.device("cpu"))
    count = {
        name: sum(p.numel() for p in network.parameters())
        for name, network in training.networks().items()
    }
    linear = 101 * 8192
    convolutions = 128 * 128 * 9 + 128 + 128 * 64 * 9 + 64 + 64 * 9 + 1
    assert count["generator"] == linear + convolutions + 2 * (128 + 128 + 64)
    convolutions = sum(a * b * 9 + b for a, b in ((1, 16), (16, 32), (32, 64), (64, 128)))
    assert count["discriminator"] == convolutions + 2 * (32 + 64 + 128) + 513
    images = training.generator(torch.randn(3, 100))
    assert images.shape == (3, 1, 32, 32) and images.abs().max() <= 1
    assert training.discriminator(images, torch.Generator()).shape == (3, 1)
    for network in training.networks().values():
        for module in network.requires_grad_(False).modules():
            if isinstance(module, torch.nn.Conv2d) and module.weight.numel() > 1000:
                assert float(module.weight.mean()) == pytest.approx(0, abs=0.002)
                assert float(module.weight.std()) == pytest.approx(0.02, rel=0.1)
            if isinstance(module, torch.nn.BatchNorm2d):
                assert (
                    float(module.weight.mean()) == pytest.approx(1, abs=0.02)
                    and not module.bias.any()
                )
                assert module.weight.std() > 0.01


def test_dropout_leaves_out_whole_channels_and_takes_no_global_numbers():
    discriminator = dcgan._Training(0, torch.device("cpu")).discriminator
    seen = []
    discriminator.network.body[2].register_forward_hook(
        lambda module, inputs, output: seen.append(inputs[0])
    )
    before = torch.get_rng_state()
    one, again, other = (
        discriminator(torch.ones(200, 1, 32, 32), torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one, again) and not torch.equal(one, other)
    silent = (seen[0] == 0).flatten(2).all(2).float()  # (N, channels)
    assert float(silent.mean()) == pytest.approx(0.25, abs=0.05)
    assert not (seen[0][silent == 0] == 0).all(-1).any()


# Training


def test_a_training_in_two_parts_is_the_training_in_one(trained, tmp_path):
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    assert dcgan.train(digits(), tmp_path, 3, rng=0).step == 3
    assert not same(tmp_path, trained)
    last = dcgan.train(digits(), tmp_path, 6)
    assert last.step == 6 and np.isfinite([last.generator_loss, last.discriminator_loss]).all()
    assert same(tmp_path, trained)
    assert dcgan.train(digits(), tmp_path, 6, rng=0) == last  # nothing is left to do
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_batches_of_an_epoch_hold_every_image_once():
    training = dcgan._Training(0, torch.device("cpu"))
    images = np.arange(150, dtype=np.uint8).reshape(150, 1, 1)
    assert (
        dcgan.steps_per_epoch(150) == 3 and dcgan.steps_per_epoch(60_000) * dcgan.EPOCHS == 93_800
    )
    epochs = [
        [training._batch(images, step).ravel() for step in range(first, first + 3)]
        for first in (0, 3)
    ]
    assert [len(batch) for batch in epochs[0]] == [64, 64, 22]
    assert all(sorted(np.concatenate(epoch)) == list(range(150)) for epoch in epochs)
    assert not np.array_equal(epochs[0][0], epochs[1][0])


def test_the_generator_learns_what_images_look_like(tmp_path):
    black = np.zeros((3, 32, 32), dtype=np.uint8)
    dcgan.train(black, tmp_path, 1, rng=0)
    first = dcgan.sample(tmp_path, 20, rng=0).mean()
    dcgan.train(black, tmp_path, 30)
    assert dcgan.sample(tmp_path, 20, rng=0).mean() < first - 10


@pytest.mark.parametrize(
    "ending", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_a_training_that_is_stopped_goes_on_from_what_was_kept(tmp_path, ending):
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "mnist.npz", images=digits())
    words = ["dcgan", "train", "killed", "--every", "2", "--seed", "0", "--folder", "data"]
    program = "from twosample._cli import data; data.build()(prog_name='data')"
    environment = os.environ | {
        "OMP_NUM_THREADS": str(torch.get_num_threads())
    }  # others may add up in another order
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "killed" / FILE).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(ending)
    _, errors = process.communicate(timeout=300)
    kept = dcgan._read(tmp_path / "killed" / FILE).step
    assert kept >= 2 and kept % 2 == 0
    if ending == signal.SIGINT:
        assert process.returncode == 130
        assert (
            f"keeps the first {kept} steps." in errors
            and "run the same command again to go on." in errors
        )
    call(*words, "--steps", str(kept + 1), within=tmp_path)
    call(*words[:2], "straight", *words[3:], "--steps", str(kept + 1), within=tmp_path)
    assert same(tmp_path / "killed", tmp_path / "straight")


def test_what_cannot_be_continued_is_a_sentence(trained, tmp_path):
    with pytest.raises(
        InputError, match="was trained on other images; give those, or another folder"
    ):
        dcgan.train(digits(seed=1), trained, 7)
    with pytest.raises(InputError, match="began with another rng; leave it out to go on"):
        dcgan.train(digits(), trained, 7, rng=1)
    with pytest.raises(
        InputError, match=r"the images are uint8 \(3, 28, 28, 3\); a DCGAN takes grey ones"
    ):
        dcgan.train(np.zeros((3, 28, 28, 3), dtype=np.uint8), tmp_path, 1)
    whole = (trained / FILE).read_bytes()
    tensors = load_file(trained / FILE)
    for number, spoil in enumerate(
        [
            lambda path: path.write_bytes(whole[:-1000]),
            lambda path: path.write_bytes(b"nothing of the kind"),
            lambda path: save_file(tensors, path),
            lambda path: save_file(tensors, path, metadata={"dcgan": '{"steps": 3}'}),
            lambda path: save_file(
                {"generator.linear": torch.zeros(1)}, path, metadata=header(trained)
            ),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        spoil(folder / FILE)
        with pytest.raises(
            InputError,
            match=r"dcgan\.safetensors is not a training that can be continued; remove it",
        ):
            dcgan.train(digits(), folder, 7)


def header(folder):
    import safetensors

    with safetensors.safe_open(folder / FILE, framework="pt") as stored:
        return stored.metadata()


def test_losses_that_are_no_numbers_stop_the_training(trained, tmp_path):
    tensors = load_file(trained / FILE)
    tensors["generator.linear.weight"] = tensors["generator.linear.weight"] * torch.nan
    save_file(tensors, tmp_path / FILE, metadata=header(trained))
    with pytest.raises(TrainingError, match="the losses of step 7 are nan and"):
        dcgan.train(digits(), tmp_path, 7)
    assert dcgan._read(tmp_path / FILE).step == 6


# Samples


def test_samples_are_data_like_any_other(trained, tmp_path):
    images = dcgan.sample(trained, 30, rng=3, output=tmp_path / "fake_mnist" / "fake_mnist.npz")
    assert images.shape == (30, 32, 32) and images.dtype == np.uint8 and images.std() > 1
    assert np.array_equal(datasets.fake_mnist(tmp_path), images)
    assert np.array_equal(dcgan.sample(trained, 30, rng=3, output=tmp_path / "again.npz"), images)
    assert not np.array_equal(
        dcgan.sample(trained, 30, rng=4, output=tmp_path / "other.npz"), images
    )
    assert np.array_equal(datasets.images_for_paper(images, 32), images)


def test_images_do_not_depend_on_their_batch(trained):
    training = dcgan._restored(trained / FILE, dcgan._read(trained / FILE), "cpu")
    generator = training.generator.eval()
    latent = torch.randn(9, 100, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(generator(latent)[:1], generator(latent[:1]), atol=1e-5)


# The command line


def call(*words, within, code=0):
    before = os.getcwd()
    os.chdir(within)
    try:
        done = CliRunner().invoke(data_cli.build(), list(words))
    finally:
        os.chdir(before)
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done


def test_fake_digits_are_made_by_two_commands(tmp_path, monkeypatch):
    np.savez(tmp_path / "mnist.npz", images=digits())
    monkeypatch.setenv("TWOSAMPLE_DATA", str(tmp_path))
    said = call("dcgan", "train", "mine", "--steps", "2", "--seed", "0", within=tmp_path)
    assert (
        said.stdout == "mine holds a generator after 2 steps, 2.00 epochs of 100.\n"
        and said.stderr == ""
    )
    said = call(
        "dcgan",
        "sample",
        "mine",
        "-n",
        "20",
        "--seed",
        "7",
        "-o",
        "fake_mnist.npz",
        within=tmp_path,
    )
    assert said.stdout == "fake_mnist.npz: 20 images of 32 x 32, seed 7.\n"
    assert datasets.fake_mnist().shape == (20, 32, 32)
    call("dcgan", "sample", "mine", "-n", "5", within=tmp_path)
    assert datasets.fake_mnist(tmp_path / "mine").shape == (5, 32, 32)


def test_errors_of_the_commands_are_sentences(tmp_path):
    done = call("dcgan", "sample", "nothing", within=tmp_path, code=2)
    assert done.stderr.startswith(
        "error: nothing/dcgan.safetensors does not exist; train a generator there first."
    )


@pytest.mark.parametrize("words", [("list",), ("get",), ("dcgan", "train"), ("dcgan", "sample")])
def test_help_has_an_example_and_fits_a_narrow_screen(words, tmp_path):
    shown = call(*words, "--help", within=tmp_path).stdout
    _, examples = shown.split("Example", 1)
    assert examples.splitlines()[1].startswith(f"    twosample bench data {' '.join(words)}")
    assert max(map(len, shown.splitlines())) <= 80
