"""The paper as data: every experiment with its settings, methods and published numbers.

An experiment is a table: rows are settings, columns are methods, and trials fill a cell. The
paper's N counts the points of both samples together; a `Setting` counts those of one. Cells that
two tables of the paper share, such as C2ST-S and the column S+C of the ablation, are run once and
shown twice.

Nothing here computes anything or imports torch, so that `twosample bench list` is quick.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from ..errors import InputError

METHODS = ("me", "scf", "c2st-s", "c2st-l", "mmd-o", "mmd-d")
"""The six tests of the paper, in the order of its tables."""

SAME_TEST = MappingProxyType({"S+C": "c2st-s", "L+C": "c2st-l", "D+J": "mmd-d"})
"""Columns of the ablation that are tests of the other tables too."""

ALPHA = 0.05
"""The level of every test of the paper."""


@dataclass(frozen=True)
class Setting:
    """What the trials of a row draw.

    Attributes
    ----------
    name
        As users type it, such as "N=3000". What follows a colon tells apart settings that tables
        show as one row.
    data
        The data set, one of those that `trials.draws` knows.
    n
        Points of each sample, to train on and again in every test set.
    dimension
        Columns of the points, where the data set has a choice.
    null
        "" draws X from P and Y from Q; "P" or "Q" draws both from that one, so that there is no
        difference.
    authors
        Whether to draw as the authors' code does, where that is not what the paper says.
    test_n
        Points of each sample in a test set, if not `n`.
    """

    name: str
    data: str
    n: int
    dimension: int | None = None
    null: Literal["", "P", "Q"] = ""
    authors: bool = False
    test_n: int | None = None

    @property
    def row(self) -> str:
        """The row of the table that it belongs to."""
        return self.name.partition(":")[0]

    @property
    def position(self) -> float:
        """Where its row stands on the axis of a figure: the number in its name."""
        return float(self.row.rpartition("=")[2])

    @property
    def tested(self) -> int:
        """Points of each sample in a test set."""
        return self.n if self.test_n is None else self.test_n


class Published(NamedTuple):
    """A number of the paper: a rejection rate, and its standard error if there is one."""

    rate: float
    error: float | None = None


class Cell(NamedTuple):
    """What trials fill: one method in one setting.

    `experiment` names the experiment whose file keeps the trials.
    """

    experiment: str
    setting: Setting
    method: str

    def seed(self, trial: int) -> int:
        """Return the seed of a trial; all recipes share it, so they see the same data."""
        name = f"{self.experiment}/{self.setting.name}/{self.method}/{trial}"
        # Six bytes: a number that readers of JSON in other languages, too, hold exactly.
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "little")


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Attributes
    ----------
    name
        As users type it.
    title, source
        What it shows, and where the paper shows it.
    kind
        "power" where the samples differ, "level" where they do not.
    settings, methods
        Rows and columns.
    published
        {row: {method: number}}, where the paper gives one. Its figures have no numbers.
    axis
        What grows from row to row: the label of a figure's axis.
    elsewhere
        {(name of a setting, method): cell of another experiment}, for cells that another experiment
        runs.
    note
        What to know when comparing.
    """

    name: str
    title: str
    source: str
    kind: Literal["power", "level"]
    settings: tuple[Setting, ...]
    methods: tuple[str, ...] = METHODS
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict, repr=False)
    axis: str = ""
    elsewhere: Mapping[tuple[str, str], Cell] = field(default_factory=dict, repr=False)
    note: str = ""

    def cell(self, setting: Setting, method: str) -> Cell:
        """Return the cell of a setting and a method, which another experiment may keep."""
        return self.elsewhere.get((setting.name, method), Cell(self.name, setting, method))

    def cells(
        self, methods: tuple[str, ...] = (), settings: tuple[str, ...] = ()
    ) -> Iterator[Cell]:
        """Yield all cells, or those of the named methods and settings."""
        chosen_methods = _chosen("method", methods, self.methods, self.name)
        rows = tuple(dict.fromkeys(setting.row for setting in self.settings))
        names = tuple(setting.name for setting in self.settings)
        # A row may be named as well; it stands for all of its settings.
        chosen = set(_chosen("setting", settings, (*rows, *names), self.name))
        for setting in self.settings:
            if setting.row in chosen or setting.name in chosen:
                for method in chosen_methods:
                    yield self.cell(setting, method)

    def expected(self, row: str, method: str) -> Published | None:
        """Return the published number, if there is one."""
        return self.published.get(row, {}).get(method)


def _chosen(
    kind: str, wanted: tuple[str, ...], known: tuple[str, ...], experiment: str
) -> tuple[str, ...]:
    """Return the wanted names, or all known ones if none is wanted; refuse unknown ones."""
    unknown = [name for name in wanted if name not in known]
    if unknown:
        names = ", ".join(dict.fromkeys(known))
        raise InputError(f"{experiment} has no {kind} {unknown[0]!r}; use some of {names}.")
    return wanted or known


def _rates(columns: str, rows: Mapping[str, str]) -> dict[str, dict[str, Published]]:
    """Parse numbers as they are printed: for each method one like "0.120±.007" or "0.048"."""
    methods = columns.split()
    table = {}
    for row, numbers in rows.items():
        printed = zip(methods, numbers.split(), strict=True)
        table[row] = {method: _published(number) for method, number in printed}
    return table


def _published(number: str) -> Published:
    rate, _, error = number.partition("±")
    return Published(float(rate), float(error) if error else None)


_SIX = " ".join(METHODS)

# The table of the ablation prints no errors. Its columns are those of `twosample.ABLATIONS`.
_ABLATION = _rates(
    "S+C L+C G+C D+C L+M G+M D+M L+J G+J D+J",
    {
        "blob": "0.835 0.942 0.901 0.900 0.851 0.960 0.906 0.952 0.966 0.985",
        "hdgm": "0.472 0.585 0.287 0.302 0.494 0.223 0.539 0.635 0.604 0.659",
        "higgs": "0.257 0.399 0.353 0.384 0.321 0.254 0.379 0.295 0.364 0.403",
        "mnist": "0.646 0.706 0.784 0.803 0.845 0.680 0.760 0.935 0.976 0.996",
    },
)


def _from_ablation(data: str) -> dict[str, Published]:
    """Return what the ablation table says of tests that a figure shows without numbers."""
    return {method: _ABLATION[data][column] for column, method in SAME_TEST.items()}


# The synthetic data sets. n_b counts the points of one sample. The axes of the HDGM figure are not
# in the paper's text.

_BLOB_SIZES = (10, 20, 40, 50, 70, 80, 90, 100)
_HDGM_SIZES = (2000, 4000, 6000, 8000, 10000)
_DIMENSIONS = (5, 10, 15, 20, 25, 30)


def _blobs(null: Literal["", "P"] = "", authors: bool = False) -> tuple[Setting, ...]:
    return tuple(Setting(f"n_b={size}", "blob", 9 * size, 2, null, authors) for size in _BLOB_SIZES)


def _mixtures(null: Literal["", "P"] = "", authors: bool = False) -> tuple[Setting, ...]:
    return tuple(
        Setting(f"N={total}", "hdgm", total // 2, 10, null, authors) for total in _HDGM_SIZES
    )


def _dimensions(null: Literal["", "P"] = "") -> tuple[Setting, ...]:
    return tuple(
        Setting(f"d={dimension}", "hdgm", 2000, dimension, null) for dimension in _DIMENSIONS
    )


_BLOB_PUBLISHED = {"n_b=40": _from_ablation("blob")}
_HDGM_PUBLISHED = {"N=4000": _from_ablation("hdgm")}
_AUTHORS = (
    "Drawn as the authors' code draws, which is not quite what the paper says; to find out what "
    "that changes."
)

_BLOB = (
    Experiment(
        "blob-power",
        "Blob-D: power as the points of a blob grow",
        "Figure 2 a, b, c",
        "power",
        _blobs(),
        published=_BLOB_PUBLISHED,
        axis="points of each blob and sample, n_b",
        note="The figure has no numbers; those at n_b = 40 are of the ablation table.",
    ),
    Experiment(
        "blob-level",
        "Blob-S: type I error",
        "Figure 2 d",
        "level",
        _blobs("P"),
        axis="points of each blob and sample, n_b",
    ),
    Experiment(
        "blob-authors",
        "Blob-D as the authors' code draws it",
        "Figure 2 a",
        "power",
        _blobs(authors=True),
        published=_BLOB_PUBLISHED,
        axis="points of each blob and sample, n_b",
        note=_AUTHORS,
    ),
)


def _shared_dimension(
    experiment: str, settings: tuple[Setting, ...]
) -> dict[tuple[str, str], Cell]:
    """Return the cells at d = 10 of one panel, which are those at N = 4000 of the other."""
    # They are the same setting under two names, and are run once.
    same = next(setting for setting in settings if setting.name == "N=4000")
    return {("d=10", method): Cell(experiment, same, method) for method in METHODS}


_HDGM = (
    Experiment(
        "hdgm-power",
        "HDGM-D in 10 dimensions: power as N grows",
        "Figure 3 a",
        "power",
        _mixtures(),
        published=_HDGM_PUBLISHED,
        axis="points of both samples, N",
        note="The figure has no numbers; those at N = 4000 are of the ablation table.",
    ),
    Experiment(
        "hdgm-level",
        "HDGM-S in 10 dimensions: type I error",
        "Figure 3 b",
        "level",
        _mixtures("P"),
        axis="points of both samples, N",
    ),
    Experiment(
        "hdgm-dimensions-power",
        "HDGM-D with N = 4000: power as dimensions grow",
        "Figure 3 c",
        "power",
        _dimensions(),
        published={"d=10": _from_ablation("hdgm")},
        axis="dimensions, d",
        elsewhere=_shared_dimension("hdgm-power", _mixtures()),
        note="The figure has no numbers; those at d = 10 are of the ablation table.",
    ),
    Experiment(
        "hdgm-dimensions-level",
        "HDGM-S with N = 4000: type I error as dimensions grow",
        "Figure 3 d",
        "level",
        _dimensions("P"),
        axis="dimensions, d",
        elsewhere=_shared_dimension("hdgm-level", _mixtures("P")),
    ),
    Experiment(
        "hdgm-authors",
        "HDGM-D as the authors' code draws it",
        "Figure 3 a",
        "power",
        _mixtures(authors=True),
        published=_HDGM_PUBLISHED,
        axis="points of both samples, N",
        note=_AUTHORS,
    ),
)


# The real data sets.

_HIGGS_SIZES = (1000, 2000, 3000, 5000, 8000, 10000)
_MNIST_SIZES = (200, 400, 600, 800, 1000)
_HIGGS_NOTE = (
    "Where the folder of data holds few rows, test sets overlap with each other, never with "
    "training sets."
)
_MNIST_NOTE = (
    "Digits of another generator than the authors', whose file is not public: compare orders, not "
    "numbers."
)

_HIGGS = (
    Experiment(
        "higgs-power",
        "Higgs, four jet angles: power as N grows",
        "Table 1 (Higgs)",
        "power",
        tuple(Setting(f"N={total}", "higgs", total // 2, 4) for total in _HIGGS_SIZES),
        published=_rates(
            _SIX,
            {
                "N=1000": "0.120±.007 0.095±.022 0.082±.015 0.097±.014 0.132±.005 0.113±.013",
                "N=2000": "0.165±.019 0.130±.026 0.183±.032 0.232±.017 0.291±.012 0.304±.035",
                "N=3000": "0.197±.012 0.142±.025 0.257±.049 0.399±.058 0.376±.022 0.403±.050",
                "N=5000": "0.410±.041 0.261±.044 0.592±.037 0.447±.045 0.659±.018 0.699±.047",
                "N=8000": "0.691±.067 0.467±.038 0.892±.029 0.878±.020 0.923±.013 0.952±.024",
                "N=10000": "0.786±.041 0.603±.066 0.974±.007 0.985±.005 1.000±.000 1.000±.000",
            },
        ),
        axis="points of both samples, N",
        note=_HIGGS_NOTE,
    ),
    Experiment(
        "higgs-level",
        "Higgs: type I error, the mean of background against itself and signal against itself",
        "Appendix, table of Higgs type I errors",
        "level",
        tuple(
            Setting(f"N={total}:{null}", "higgs", total // 2, 4, null)  # type: ignore[arg-type]
            for total in _HIGGS_SIZES
            for null in "PQ"  # both null hypotheses, which the table shows as one row
        ),
        published=_rates(
            _SIX,
            {
                "N=1000": "0.048 0.040 0.043 0.048 0.059 0.037",
                "N=2000": "0.043 0.032 0.060 0.056 0.055 0.053",
                "N=3000": "0.049 0.043 0.046 0.053 0.051 0.069",
                "N=5000": "0.056 0.035 0.052 0.065 0.049 0.062",
                "N=8000": "0.050 0.034 0.065 0.067 0.056 0.037",
                "N=10000": "0.059 0.032 0.057 0.058 0.045 0.048",
            },
        ),
        axis="points of both samples, N",
        note=_HIGGS_NOTE,
    ),
)

_MNIST = (
    Experiment(
        "mnist-power",
        "MNIST digits against those of a DCGAN: power as N grows",
        "Table 2 (MNIST)",
        "power",
        tuple(Setting(f"N={total}", "mnist", total // 2) for total in _MNIST_SIZES),
        published=_rates(
            _SIX,
            {
                "N=200": "0.414±.050 0.107±.018 0.193±.037 0.234±.031 0.188±.010 0.555±.044",
                "N=400": "0.921±.032 0.152±.021 0.646±.039 0.706±.047 0.363±.017 0.996±.004",
                "N=600": "1.000±.000 0.294±.008 1.000±.000 0.977±.012 0.619±.021 1.000±.000",
                "N=800": "1.000±.000 0.317±.017 1.000±.000 1.000±.000 0.797±.015 1.000±.000",
                "N=1000": "1.000±.000 0.346±.019 1.000±.000 1.000±.000 0.894±.016 1.000±.000",
            },
        ),
        axis="images of both samples, N",
        note=_MNIST_NOTE,
    ),
    Experiment(
        "mnist-level",
        "MNIST digits against MNIST digits: type I error",
        "Appendix, table of MNIST type I errors",
        "level",
        tuple(Setting(f"N={total}", "mnist", total // 2, null="P") for total in _MNIST_SIZES),
        published=_rates(
            _SIX,
            {
                "N=200": "0.076±.011 0.075±.010 0.035±.006 0.045±.005 0.068±.004 0.056±.003",
                "N=400": "0.062±.010 0.056±.007 0.044±.006 0.040±.004 0.053±.005 0.056±.005",
                "N=600": "0.051±.003 0.049±.009 0.039±.005 0.054±.007 0.066±.008 0.056±.008",
                "N=800": "0.054±.006 0.046±.006 0.043±.005 0.042±.007 0.051±.005 0.054±.007",
                "N=1000": "0.047±.006 0.045±.010 0.038±.006 0.046±.005 0.041±.007 0.062±.006",
            },
        ),
        axis="images of both samples, N",
    ),
)


_JPEG_NOTE = (
    "A stand-in until CIFAR-10.1 is at hand: half of CIFAR-10's test images against the other half "
    "after one JPEG compression. Nothing of the paper to compare with."
)
# Of the 2021 images of CIFAR-10.1, those that are not trained on are the test set.
_CIFAR_101 = Setting("cifar-10.1", "cifar", 1000, test_n=1021)
_CIFAR_JPEG = Setting("jpeg", "cifar-jpeg", 1000, test_n=1021)
_LOCATIONS = ("me-1", "deep-me-trained", "deep-me-selected")
_RATES = _rates(_SIX, {"cifar-10.1": "0.588 0.171 0.452 0.529 0.316 0.744"})
_LOCATION_RATES = _rates(" ".join(_LOCATIONS), {"cifar-10.1": "0.415 0.637 0.653"})

_CIFAR = (
    Experiment(
        "cifar-power",
        "CIFAR-10 against CIFAR-10.1: power of 1000 images of each to train, 1021 to test",
        "Table 3 (CIFAR-10.1)",
        "power",
        (_CIFAR_101,),
        published=_RATES,
        note="All test sets of a trial hold the same 1021 images of CIFAR-10.1: there are no more.",
    ),
    Experiment(
        "cifar-power-stand-in",
        "CIFAR-10 against CIFAR-10 after JPEG: power of 1000 images of each to train, 1021 to test",
        "",
        "power",
        (_CIFAR_JPEG,),
        note=_JPEG_NOTE,
    ),
    Experiment(
        "cifar-locations",
        "CIFAR-10 against CIFAR-10.1 at one location: learned by ME, trained or selected with the "
        "deep kernel",
        "Appendix, figures of test locations",
        "power",
        (Setting("cifar-10.1", "cifar", 1000),),
        _LOCATIONS,
        published=_LOCATION_RATES,
        note="Trained locations start at the selected one here, and from noise in the paper.",
    ),
    Experiment(
        "cifar-locations-stand-in",
        "CIFAR-10 against CIFAR-10 after JPEG at one location",
        "",
        "power",
        (Setting("jpeg", "cifar-jpeg", 1000),),
        _LOCATIONS,
        note=_JPEG_NOTE,
    ),
)


# The ablation: four settings of the experiments above, ten kernels.


def _ablation() -> Experiment:
    # Each row is a setting of another experiment, which keeps the columns that are its tests too.
    rows = {
        "blob": ("blob-power", "n_b=40"),
        "hdgm": ("hdgm-power", "N=4000"),
        "higgs": ("higgs-power", "N=3000"),
        "mnist": ("mnist-power", "N=400"),
    }
    settings: list[Setting] = []
    elsewhere: dict[tuple[str, str], Cell] = {}
    published = {row: dict(columns) for row, columns in _ABLATION.items()}
    others = {other.name: other for other in (*_BLOB, *_HDGM, *_HIGGS, *_MNIST)}
    for row, (experiment, name) in rows.items():
        other = others[experiment]
        same = next(setting for setting in other.settings if setting.name == name)
        settings.append(Setting(row, same.data, same.n, same.dimension))
        for column, method in SAME_TEST.items():
            elsewhere[row, column] = Cell(experiment, same, method)
            # The other table prints the same number, with its error.
            published[row][column] = other.expected(name, method) or published[row][column]
    return Experiment(
        "ablation",
        "Ten kernels and objectives: power on Blob (n_b = 40), HDGM (N = 4000, d = 10), "
        "Higgs (N = 3000), MNIST (400)",
        "Table 4 (ablation)",
        "power",
        tuple(settings),
        tuple(_ABLATION["blob"]),
        published=published,
        elsewhere=elsewhere,
        note=(
            "S+C, L+C and D+J are C2ST-S, C2ST-L and MMD-D of the other tables. "
            f"mnist: {_MNIST_NOTE}"
        ),
    )


_QUICK = Experiment(
    "quick",
    "Not of the paper: a minute's work, to see whether everything runs here or on a cluster",
    "",
    "power",
    (Setting("n_b=10", "blob", 90, 2), Setting("n_b=20", "blob", 180, 2)),
    ("mmd-median", "mmd-o"),
    axis="points of each blob and sample, n_b",
)

# In the order in which `twosample bench list` shows them: that of the paper.
_ALL = (*_BLOB, *_HDGM, *_HIGGS, *_MNIST, *_CIFAR, _ablation(), _QUICK)
EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType({each.name: each for each in _ALL})
"""Every experiment by its name."""


def experiment(name: str) -> Experiment:
    """Return the experiment of a name."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; use one of {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]
