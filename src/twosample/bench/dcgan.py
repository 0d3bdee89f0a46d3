"""A DCGAN for digits, which makes the "fake MNIST" of the paper's experiment from MNIST.

Networks and training are those of the implementation that the paper links to: images of 32 x 32 in
[-1, 1], batches of 64, Adam, 100 epochs. A training is a file, which is replaced as a whole every
so often. Calling `train` again goes on from there, to the same bits on the same machine as without
an interruption. For every step has a random generator of its own: there is none whose state could
be lost.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor, nn

from .._featurizers import ConvNet, draw_weights
from .._progress import bar
from .._random import Generators, RNGLike
from .._saving.saving import replace as replace_file
from .._two_sample import choose_device
from ..errors import InputError, TrainingError, TrainingWarning
from .datasets import images_for_paper
from .formats import write_arrays

SIZE = 32  # pixels across
LATENT = 100
BATCH = 64
EPOCHS = 100
_FILE = "dcgan.safetensors"
_DAMAGED = "is not a training that can be continued; remove it to begin anew."


class Generator(nn.Module):
    """Makes images in [-1, 1] from latent vectors: a linear map to 128 x 8 x 8, enlarged twice."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(LATENT, 128 * 8 * 8)
        self.body = nn.Sequential(
            nn.BatchNorm2d(128),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(128, 128, 3, padding=1),
            nn.BatchNorm2d(128, eps=0.8),
            nn.LeakyReLU(0.2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(128, 64, 3, padding=1),
            nn.BatchNorm2d(64, eps=0.8),
            nn.LeakyReLU(0.2),
            nn.Conv2d(64, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, latent: Tensor) -> Tensor:
        """(N, 100) -> (N, 1, 32, 32)."""
        small = self.linear(latent).view(-1, 128, 8, 8)
        images: Tensor = self.body(small)
        return images


class Discriminator(nn.Module):
    """Gives logits that images are real: the paper's `ConvNet` with one output, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.network = ConvNet((1, SIZE, SIZE), width=1, normalisation="batch")

    def forward(self, images: Tensor, random: torch.Generator) -> Tensor:
        """(N, 1, 32, 32) -> (N, 1)."""
        for layer in self.network.body:
            images = layer(images)
            if isinstance(layer, nn.LeakyReLU):
                # Dropout of whole channels. torch's own would read the global generator.
                kept = torch.rand(images.shape[:2], generator=random) >= 0.25  # (N, C)
                # Divided by the share that is kept, so that means stay as they are.
                factors = kept.to(images) / 0.75
                images = images * factors[:, :, None, None]
        logits: Tensor = self.network.head(images.flatten(1))
        return logits


@dataclass(frozen=True)
class Checkpoint:
    """How far a training has come: its steps, seed, a digest of the images, and its last losses."""

    step: int
    seed: int
    images: str
    generator_loss: float = math.nan
    discriminator_loss: float = math.nan


class _Training:
    """Two networks and their optimisers, whose state can be saved between two steps."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.generators = Generators(seed)
        self.device = device
        with torch.device("meta"):  # so that no constructor draws weights from the global generator
            generator = Generator()
        self.generator = generator.to_empty(device="cpu")
        self.discriminator = Discriminator()
        for name, network in self.networks().items():
            _draw(network, self.generators.torch(name))
            network.to(device).train()
        self.optimisers = {
            # The rates of the implementation that the paper links to.
            name: torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.5, 0.999))
            for name, network in self.networks().items()
        }

    def networks(self) -> dict[str, nn.Module]:
        return {"generator": self.generator, "discriminator": self.discriminator}

    def advance(self, images: NDArray[np.uint8], step: int) -> tuple[Tensor, Tensor]:
        """Take one step of the generator and one of the discriminator, on images (N, 32, 32)."""
        random = self.generators.torch(f"step {step}")
        pixels = torch.from_numpy(self._batch(images, step)).to(self.device)
        real = pixels[:, None] / 127.5 - 1  # (B, 1, 32, 32)
        latent = torch.randn(len(real), LATENT, generator=random)
        fake = self.generator(latent.to(self.device))
        generator_loss = _cross_entropy(self.discriminator(fake, random), 1.0)
        self._descend("generator", generator_loss)
        # Detached: this loss is not for the generator to learn from.
        on_real = _cross_entropy(self.discriminator(real, random), 1.0)
        on_fake = _cross_entropy(self.discriminator(fake.detach(), random), 0.0)
        discriminator_loss = (on_real + on_fake) / 2
        self._descend("discriminator", discriminator_loss)
        return generator_loss.detach(), discriminator_loss.detach()

    def _batch(self, images: NDArray[np.uint8], step: int) -> NDArray[np.uint8]:
        """Return the images of a step: an epoch is a shuffle of all images, cut into batches."""
        epoch, number = divmod(step, steps_per_epoch(len(images)))
        # The same in every step of an epoch, since it comes from a name.
        order = self.generators.numpy(f"epoch {epoch}").permutation(len(images))
        return images[order[number * BATCH : (number + 1) * BATCH]]

    def _descend(self, name: str, loss: Tensor) -> None:
        self.optimisers[name].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimisers[name].step()

    def state(self) -> dict[str, Tensor]:
        """Return everything that a step changes, by name."""
        tensors: dict[str, Tensor] = {}
        for name, network in self.networks().items():
            for key, value in network.state_dict().items():
                tensors[f"{name}.{key}"] = value
            moments = self.optimisers[name].state_dict()["state"]
            for number, entry in moments.items():
                for key, value in entry.items():
                    tensors[f"{name}.adam.{number}.{key}"] = value
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state` returned."""
        for name, network in self.networks().items():
            weights: dict[str, Tensor] = {}
            moments: dict[int, dict[str, Tensor]] = {}
            for full_name, value in tensors.items():
                owner, _, key = full_name.partition(".")
                if owner != name:
                    continue
                if key.startswith("adam."):
                    _, number, moment = key.split(".")
                    moments.setdefault(int(number), {})[moment] = value
                else:
                    weights[key] = value
            network.load_state_dict(weights)
            optimiser = self.optimisers[name]
            optimiser.load_state_dict(optimiser.state_dict() | {"state": moments})


def _draw(network: nn.Module, random: torch.Generator) -> None:
    """Draw starting weights.

    They are normal around 0 for convolutions and around 1 for normalisations; linear maps start as
    torch starts them.
    """
    draw_weights(network, random)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                module.weight.normal_(0.0, 0.02, generator=random)
            elif isinstance(module, nn.BatchNorm2d):
                module.reset_parameters()
                module.weight.normal_(1.0, 0.02, generator=random)


def _cross_entropy(logits: Tensor, target: float) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


def steps_per_epoch(count: int) -> int:
    """Return how many batches `count` images make; the last one may be smaller."""
    return math.ceil(count / BATCH)


def train(
    images: NDArray[np.uint8],
    folder: str | Path,
    steps: int | None = None,
    rng: RNGLike | None = None,
    *,
    every: int = 100,
    device: str = "auto",
    progress: bool | None = None,
) -> Checkpoint:
    """Train a DCGAN on images, or go on with the training that `folder` holds.

    Parameters
    ----------
    images
        Grey images, uint8 (N, height, width), such as MNIST's 60,000 training images; they are
        resized to 32 x 32.
    folder
        Where the training is kept, in one file.
    steps
        How many steps there shall be in all, including those of earlier calls. None means the
        paper's 100 epochs: with MNIST 93,800 steps, a day or two of one CPU core.
    rng
        Decides the training when it begins. To go on with one, leave it out or give the same.
    every
        After how many steps the file is written. An interrupt loses the steps since then, and says
        how many were kept.
    device, progress
        As in `two_sample_test`.

    Raises
    ------
    InputError
        If the folder holds a training with other images or another seed, or a damaged file.
    """
    small = images_for_paper(_checked(images), SIZE)
    goal = EPOCHS * steps_per_epoch(len(small)) if steps is None else steps
    path = Path(folder) / _FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    # By this a training that goes on knows whether the images are still the same.
    digest = hashlib.sha256(small.tobytes()).hexdigest()
    last = _started(path, digest, rng)
    training = _restored(path, last, device)
    try:
        with bar("training", max(0, goal - last.step), progress) as tick:
            for step, ours, theirs in _advances(training, small, last.step, goal):
                # The last step is always kept, whatever `every` is.
                if step % every == 0 or step == goal:
                    last = replace(last, step=step, generator_loss=ours, discriminator_loss=theirs)
                    _write(path, training, last)
                tick(f"losses {ours:.2f}, {theirs:.2f}")
    except KeyboardInterrupt:
        kept = f"{path} keeps the first {last.step} steps" if last.step else "nothing had been kept"
        warnings.warn(TrainingWarning(f"training was interrupted; {kept}."), stacklevel=2)
        raise
    return last


def _advances(
    training: _Training, images: NDArray[np.uint8], start: int, goal: int
) -> Iterator[tuple[int, float, float]]:
    """Train from `start` to `goal`, and yield after each step its number and both losses."""
    for step in range(start, goal):
        losses = training.advance(images, step)
        generator_loss = float(losses[0])
        discriminator_loss = float(losses[1])
        if not math.isfinite(generator_loss + discriminator_loss):
            raise TrainingError(
                f"the losses of step {step + 1} are {generator_loss} and {discriminator_loss}; "
                "train again in another folder with another rng."
            )
        yield step + 1, generator_loss, discriminator_loss


def _checked(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if images.ndim != 3 or images.dtype != np.uint8 or not len(images):
        raise InputError(
            f"the images are {images.dtype} {images.shape}; "
            "a DCGAN takes grey ones, uint8 (N, H, W)."
        )
    return images


def _started(path: Path, images: str, rng: RNGLike | None) -> Checkpoint:
    """Return the checkpoint in the file, or a new one; refuse other images or another rng."""
    # Also where there is a file: its seed tells whether it began with the same rng.
    seed = int(np.random.default_rng(rng).integers(2**63))
    if not path.exists():
        return Checkpoint(0, seed, images)
    last = _read(path)
    if last.images != images:
        raise InputError(f"{path} was trained on other images; give those, or another folder.")
    if rng is not None and last.seed != seed:
        raise InputError(
            f"{path} began with another rng; leave it out to go on, or give another folder."
        )
    return last


def sample(
    folder: str | Path,
    count: int = 10_000,
    rng: RNGLike | None = None,
    *,
    output: str | Path | None = None,
    device: str = "auto",
) -> NDArray[np.uint8]:
    """Draw digits, uint8 (count, 32, 32), from the generator in `folder` and write them to a file.

    The file is one that `datasets.fake_mnist` reads; by default it is fake_mnist.npz beside the
    training. Normalisations have fixed statistics outside training, so the images are independent
    of each other, as a test assumes.
    """
    if count < 1:
        raise InputError(f"count is {count}; it must be at least 1.")
    path = Path(folder) / _FILE
    if not path.exists():
        raise InputError(f"{path} does not exist; train a generator there first.")
    last = _read(path)
    training = _restored(path, last, device)
    # In evaluation, so that normalisations do not depend on the other images of a batch.
    generator = training.generator.eval()
    latent = torch.randn(count, LATENT, generator=Generators(rng).torch("latent"))
    batches = torch.split(latent.to(training.device), 500)  # which bounds the memory
    with torch.no_grad():
        parts = [generator(batch)[:, 0].cpu() for batch in batches]
    pixels = (torch.cat(parts) + 1) * 127.5
    images: NDArray[np.uint8] = pixels.round().to(torch.uint8).numpy()
    target = Path(folder) / "fake_mnist.npz" if output is None else Path(output)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(target, images=images, steps=np.array(last.step))
    return images


# The file


def _write(path: Path, training: _Training, last: Checkpoint) -> None:
    """Replace the file. There is only one, because two could not be replaced at once."""
    tensors = {name: value.cpu().contiguous() for name, value in training.state().items()}
    metadata = {"dcgan": json.dumps(asdict(last))}
    replace_file(path, save(tensors, metadata=metadata))


def _read(path: Path) -> Checkpoint:
    try:
        with safetensors.safe_open(path, framework="pt") as stored:
            return Checkpoint(**json.loads((stored.metadata() or {})["dcgan"]))
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} {_DAMAGED}") from error


def _restored(path: Path, last: Checkpoint, device: str) -> _Training:
    """Return the training of a checkpoint, or one at its beginning."""
    training = _Training(last.seed, choose_device(device))
    if last.step:
        try:
            training.load(load_file(path))
        except (safetensors.SafetensorError, KeyError, ValueError, RuntimeError) as error:
            raise InputError(f"{path} {_DAMAGED}") from error
    return training
