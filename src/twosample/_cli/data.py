"""List, download and make data sets.

\b
Examples:
  twosample bench data list
  twosample bench data get mnist
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..bench.sources import SOURCES, files_on_hand
from ..errors import InputError
from .console import sentences
from .shared import Device, seed_or_new

if TYPE_CHECKING:
    from ..bench.sources import Source

_DRAWN = {
    "blob": "nine Gaussians in the plane",
    "hdgm": "two Gaussians in any number of dimensions",
}

_DCGAN = """Train a generator of digits, and draw from it.

\b
Examples:
  twosample bench data dcgan train my-dcgan --steps 300
  twosample bench data dcgan sample my-dcgan
"""

Folder = Annotated[
    str | None,
    typer.Option(
        "--folder", metavar="DATA", help="Where files of yours are, instead of TWOSAMPLE_DATA."
    ),
]
Training = Annotated[str, typer.Argument(metavar="FOLDER", help="Where the training is kept.")]
Seed = Annotated[
    int | None,
    typer.Option(metavar="NUMBER", min=0, help="Repeat a run exactly; by default a new seed."),
]


def build() -> typer.Typer:
    """The commands, to be added to those of `twosample bench`."""
    app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=__doc__)
    app.command("list")(show)
    app.command("get")(get)
    dcgan = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_DCGAN)
    dcgan.command("train")(train)
    dcgan.command("sample")(sample)
    app.add_typer(dcgan, name="dcgan")
    return app


def show(folder: Folder = None) -> None:
    """List the data sets.

    Says what each is, where it is on this machine, and whose it is.

    \b
    Example:
      twosample bench data list
    """
    with sentences():
        lines = []
        for name, description in _DRAWN.items():
            lines.append(f"{name}: {description}")
            lines.append("  here    drawn from its definition")
        for source in SOURCES.values():
            lines.append(f"{source.name}: {source.description}")
            lines.append(f"  here    {_where(source, folder)}")
            lines.append(f"  source  {source.origin}; licence: {source.licence}")
        typer.echo("\n".join(lines))  # all or nothing: a folder may turn out not to exist


def _where(source: Source, folder: str | None) -> str:
    """Where the files of a data set are, or what to do where they are not."""
    if paths := files_on_hand(source, folder):
        return ", ".join(f"{path} ({_size(path.stat().st_size)})" for path in paths)
    if source.files:
        size = _size(sum(file.size for file in source.files))
        return f"no; 'twosample bench data get {source.name}' downloads {size}"
    return f"no; {source.otherwise}"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def get(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A data set that 'twosample bench data list' lists."),
    ],
    folder: Folder = None,
) -> None:
    """Download a data set, unless it is here, and read it.

    A download that was interrupted goes on where it stopped when the command is run again.

    \b
    Examples:
      twosample bench data get mnist
      TWOSAMPLE_CACHE=/scratch/data twosample bench data get higgs
    """
    with sentences(interrupted="run the same command again to go on."):
        if name in _DRAWN:
            raise InputError(f"{name} is drawn, so there is nothing to download.")
        if name not in SOURCES:
            raise InputError(
                f"there is no data set {name!r}; there are {', '.join([*_DRAWN, *SOURCES])}."
            )
        from ..bench import datasets

        loaded: Any = getattr(datasets, name)(folder)
        pools = loaded if isinstance(loaded, tuple) else (loaded,)
        rows = " + ".join(f"{len(pool):,}" for pool in pools)
        shape = " x ".join(map(str, pools[0].shape[1:]))
        typer.echo(f"{name}: {rows} rows of {shape}, from {_where(SOURCES[name], folder)}.")


def train(
    training: Training,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            min=1,
            help="How many in all; by default those of the paper's 100 epochs.",
        ),
    ] = None,
    every: Annotated[
        int,
        typer.Option(metavar="NUMBER", min=1, help="Keep what was trained after so many steps."),
    ] = 100,
    seed: Seed = None,
    device: Device = "auto",
    folder: Folder = None,
) -> None:
    """Train a DCGAN on the training images of MNIST.

    The 100 epochs of the paper take a day or two of one core. Training can be stopped at any moment
    (Ctrl-C). Run again, it goes on from what was kept last.

    \b
    Examples:
      twosample bench data dcgan train my-dcgan
      twosample bench data dcgan train my-dcgan --steps 300
    """
    with sentences(interrupted="run the same command again to go on."):
        from ..bench import datasets, dcgan

        images = datasets.mnist(folder)[:60_000]
        last = dcgan.train(images, training, steps, seed, every=every, device=device)
        epochs = last.step / dcgan.steps_per_epoch(len(images))
        typer.echo(
            f"{training} holds a generator after {last.step} steps, {epochs:.2f} epochs of "
            f"{dcgan.EPOCHS}."
        )


def sample(
    training: Training,
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="NUMBER", min=1, help="How many images.")
    ] = 10_000,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="An NPZ file; by default FOLDER/fake_mnist.npz."
        ),
    ] = None,
    seed: Seed = None,
    device: Device = "auto",
) -> None:
    """Draw fake digits from a trained generator.

    They go into a file that stands for fake MNIST.

    \b
    Examples:
      twosample bench data dcgan sample my-dcgan -n 10000 -o data/fake_mnist.npz
      twosample bench data list --folder data
    """
    with sentences():
        from ..bench import dcgan

        seed = seed_or_new(seed)
        images = dcgan.sample(training, count, seed, output=output, device=device)
        target = output or Path(training) / "fake_mnist.npz"
        typer.echo(f"{target}: {len(images):,} images of {dcgan.SIZE} x {dcgan.SIZE}, seed {seed}.")
