"""The report: what is in the file, and what a reader sees of it in a real browser."""

from __future__ import annotations

import base64
import dataclasses
import doctest
import hashlib
import json
import re
import shlex
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import twosample
from browser import DESKTOP, PHONE, Browser
from twosample._cli import main as cli
from twosample._files.opening import open_file
from twosample._show import comparison as comparison_report
from twosample._show import findings
from twosample._show.charts import null_of
from twosample._show.comparison import render_comparison
from twosample._show.marginals import Densities, marginal_of
from twosample._show.pairs import pair_of
from twosample._show.report import fingerprint, render
from twosample._show.timeline import in_words
from twosample.errors import InputError, MissingDependency

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "src" / "twosample" / "_show" / "templates"
SECTIONS = ["verdict", "effect", "columns", "rows", "place", "training", "repeat"]
NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"double\" 'single' & amp; `tick` {{ 7 * 7 }}",
    "emoji 🦊 and עברית",
    "very long " * 30,
    "\u2028 line",
]
LEVELS = ["<b>bold</b>", "</td></table>", "plain"]


def table(rng: np.random.Generator, rows: int, shift: float) -> pl.DataFrame:
    columns = {
        name: rng.normal(shift if k == 0 else 0, 1, rows).round(3) for k, name in enumerate(NASTY)
    }
    kinds = rng.choice(LEVELS, rows, p=[0.1, 0.1, 0.8] if shift else None)
    return pl.DataFrame(
        columns | {"kind": kinds, "new": rng.random(rows) < 0.3, "count": rng.integers(0, 9, rows)}
    )


@pytest.fixture(scope="module")
def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(0)
    return table(rng, 160, 0.0), table(rng, 120, 0.9)


@pytest.fixture(scope="module")
def nasty(tables):
    return twosample.two_sample_test(*tables, twosample.mmd_o(steps=5, permutations=99), rng=0)


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    Y = rng.normal(0.7, 1, (60, 2))
    return twosample.two_sample_test(X, Y, twosample.mmd_d(steps=5), rng=0)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 256, (40, 9, 12), dtype=np.uint8)
    Y = rng.integers(90, 256, (40, 9, 12), dtype=np.uint8)
    return twosample.two_sample_test(X, Y, "mmd-median", permutations=99, rng=0)


@pytest.fixture(scope="module")
def compared(tables):
    """A reference against samples with nasty names: one like it, two unlike it."""
    reference, other = tables
    samples = {NASTY[0]: reference[80:], "shifted & more": other, NASTY[4]: other[:50]}
    return twosample.compare(reference[:80], samples, "mmd-median", permutations=199, rng=0)


@pytest.fixture(scope="module")
def written(tmp_path_factory, nasty, plane, images, compared) -> dict[str, Path]:
    """The pages."""
    folder = tmp_path_factory.mktemp("pages")
    facts = {"Command": "twosample test '</code><script>alert(3)</script>' b.csv", "Seed": 0}
    names = ("<i>last</i>.csv", "this 'month' & \"next\".csv")
    return {
        "table": nasty.report(folder / "table.html", names=names, facts=facts, rng=0),
        "plane": plane.report(folder / "plane.html", rng=0),
        "images": images.report(folder / "images.html", rng=0),
        "comparison": compared.report(
            folder / "comparison.html", reference=names[0], facts=facts, rng=0
        ),
    }


class Elements(HTMLParser):
    """The names of all elements, and the texts of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes.append(dict(attrs))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.names and self.names[-1] == "script":
            self.scripts[-1] += data
        self.text += data


# The file


PARTS = {
    "table": [SECTIONS[0], "checks", *SECTIONS[1:]],  # its rows have something odd
    "plane": SECTIONS,
    "images": [name for name in SECTIONS if name != "columns"],
    "comparison": ["verdict", "columns", "samples", "parts", "repeat"],
}


@pytest.mark.parametrize(("which", "wanted"), PARTS.items())
def test_all_parts_are_there_in_their_order_and_nothing_is_fetched(written, which, wanted):
    page = written[which].read_text("utf-8")
    assert re.findall(r'<section id="(\w+)"', page) == wanted
    elements = Elements(page)
    sources = [
        a.get(key)
        for a in elements.attributes
        for key in ("src", "href", "xlink:href")
        if a.get(key)
    ]
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "@import" not in page and not re.search(r"url\((?!\$\{)", page)
    assert "http" not in page.replace('"http://www.w3.org/2000/svg"', "").replace("http-equiv", "")


def test_names_and_values_from_the_data_are_text(written, tables):
    page = written["table"].read_text("utf-8")
    elements = Elements(page)
    assert elements.names.count("script") == 2
    assert elements.names.count("img") == 0
    assert elements.names.count("table") == 3
    assert not any("onerror" in attributes for attributes in elements.attributes)
    for text in (
        *NASTY,
        "<b>bold</b>",
        "<i>last</i>.csv",
        "twosample test '</code><script>alert(3)</script>' b.csv",
    ):
        assert text in elements.text
    assert "{{ 7 * 7 }}" in elements.text  # a template's own marks are text as well
    raw = page[page.index('id="data">') : page.index("</script>", page.index('id="data">'))]
    data = json.loads(elements.scripts[0])
    assert "<" not in raw.removeprefix('id="data">')
    assert NASTY[0] in data["points"]["columns"]


def test_only_the_script_of_the_page_may_run(written):
    page = written["table"].read_text("utf-8")
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src "
        f"'sha256-{digest}'" in page
    )


def test_two_hundred_columns_are_all_listed():
    rng = np.random.default_rng(3)
    result = twosample.two_sample_test(
        rng.normal(size=(60, 200)), rng.normal(size=(60, 200)), "mmd-median", rng=0
    )
    page = render(result, rng=0)
    assert page.count("<tr data-adjusted=") == 200
    assert "193 more columns are not shown" in page
    assert page.count('<details class="change') == 200  # each with its distributions
    assert len(page.encode()) < 2_000_000


def test_many_rows_are_explained_by_a_part_of_them_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(findings, "_MOST_ROWS", 150)
    monkeypatch.setattr(findings, "_MOST_POINTS", 100)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 3))
    Y = rng.normal(0.5, 1, (300, 3))
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=99, rng=0)
    page = render(result, rng=0)
    assert "From 150 + 150 of the 400 + 300 held-out rows, drawn at random." in page
    assert "100 of 300 rows, drawn at random without looking at their labels," in page
    assert (
        f"observed: {result.statistic:.3g}" in page and "here: 400" in page
    )  # the verdict is that of all rows
    data = json.loads(Elements(page).scripts[0])["points"]
    for sample, row, values in zip(data["sample"], data["row"], data["values"], strict=True):
        given = (X if sample == "X" else Y)[row]
        assert [float(value) for value in values] == pytest.approx(
            [given[int(name)] for name in data["columns"]], rel=1e-4, abs=1e-5
        )


def test_one_seed_one_page(plane):
    pages = []
    for seed in (0, 0, 1):
        page = render(plane, rng=seed)
        pages.append(re.sub(r"<dt>Written</dt>.*?</div>", "", page, flags=re.DOTALL))
    assert pages[0] == pages[1] != pages[2]


def test_the_fingerprint_is_that_of_the_points():
    points = torch.arange(6.0).view(2, 3)
    assert fingerprint(points) == fingerprint(points.clone())
    others = (points, points.double(), points.view(3, 2), points + 1e-6)
    assert len({fingerprint(other) for other in others}) == 4


def test_few_whole_numbers_are_shown_one_by_one_and_others_as_densities():
    rng = np.random.default_rng(6)

    def orders(rows, size):
        items = rng.poisson(2, rows).clip(0, 5)
        year = rng.integers(2020, 2024, rows)
        return pl.DataFrame({"items": items, "year": year, "size": size})

    X = orders(90, rng.normal(size=90))
    Y = orders(70, rng.normal(size=70).round(1))
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=99, rng=0)
    items = marginal_of(result, "items")
    year = marginal_of(result, "year")
    assert items.levels == ("0", "1", "2", "3", "4", "5")
    assert year.levels == ("2020", "2021", "2022", "2023")
    assert items.x == pytest.approx([(X["items"] == k).mean() for k in range(6)])
    assert year.y.sum() == pytest.approx(1)
    assert isinstance(marginal_of(result, "size"), Densities)
    assert "Shares of the levels of items in X and in Y: 0 " in render(result, rng=0)


SMALL = np.random.default_rng(5).normal(size=(2, 90, 3)) + np.array([0.0, 0.8])[:, None, None]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (
            twosample.mmd_median(permutations=99),
            "learns nothing from the data: all rows were tested",
        ),
        (
            twosample.me(steps=5, permutations=99),
            "Power is not predicted here. The formula for power is that of",
        ),
        (twosample.scf(steps=5, permutations=99), "T²"),
        (twosample.c2st_l(steps=5, permutations=99), "AUC"),
        (twosample.c2st_s(steps=5, asymptotic=True), "it is not exact at these sizes"),
        (twosample.me(steps=5, asymptotic=True), "chi-squared law"),
        (twosample.mmd_block(steps=5), "Use a test with MMD(&#39;unbiased&#39;)"),
        (twosample.mmd_mkl(permutations=99), "There is no curve, because there were so few steps"),
        (twosample.spectral(permutations=99), "No rows were kept for training: all were tested."),
        (twosample.mmd_o(steps=5, permutations=9), "too few shuffles for this level"),
        (twosample.mmd_o(steps=40, validation_fraction=0.3), "</i>validation</li>"),
    ],
    ids=lambda value: value.name if isinstance(value, twosample.TwoSampleTest) else "",
)
def test_every_kind_of_test_has_a_page_that_says_what_is_not_there(test, expected):
    page = render(test.run(*SMALL, rng=0), rng=0)
    assert expected in page
    assert re.findall(r'<section id="(\w+)"', page) == SECTIONS
    assert "nan" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL).lower().replace(
        "finan", ""
    )


@pytest.fixture(scope="module")
def tied():
    """A result of views: column 0 differs, and 1 goes with 2 in another way."""
    X, Y = np.random.default_rng(0).normal(size=(2, 150, 4))
    Y[:, 0] += 1
    Y[:, 2] += Y[:, 1]
    Y[:, 2] /= np.sqrt(2)
    return twosample.spectral(permutations=99).run(X, Y, rng=0)


def test_columns_and_pairs_of_views(tied):
    page = render(tied, rng=0)
    assert "1 of 4 columns differs by itself at α = 0.05." in page
    assert "<li>1 and 2 go together otherwise (p = 0.010).</li>" in page
    assert "adjusted for their number by the largest value in each shuffle" in page
    assert ">log 1/p</th>" in page
    assert "Importance" not in page
    assert "not the verdict" not in page
    levels = re.findall(r'<ul class="together" data-level="([^"]+)"( hidden)?>', page)
    assert [level for level, hidden in levels if not hidden] == ["0.05"]
    assert len(levels) > 3


def test_a_changed_pair_opens_to_its_points_or_shares(tied):
    page = render(tied, names=("May", "June"), rng=0)
    cards = re.findall(r'<details class="change pair-card.*?</details>', page, re.DOTALL)
    assert "1" in cards[0] and "correlation" in cards[0] and " open" in cards[0][:120]
    assert cards[0].count("<svg") == 2 and "1 across and 2 up, in June" in cards[0]
    rng = np.random.default_rng(0)
    kinds = rng.choice(["a", "b"], (2, 300))
    new = rng.random(300) < 0.5
    sizes = rng.normal(size=(2, 300))
    X = pl.DataFrame({"kind": kinds[0], "new": new, "size": sizes[0]})
    Y = pl.DataFrame({"kind": kinds[1], "new": kinds[1] == "a", "size": sizes[1]})
    result = twosample.two_sample_test(X, Y, "spectral", permutations=99, rng=0)
    pair = next(pair for pair in result.pairs if set(pair.columns) == {"kind", "new"})
    grid = pair_of(result, pair)
    assert grid.lines == ("a", "b") and grid.cells == ("false", "true")
    assert grid.x.sum(1) == pytest.approx(1)
    rows = X.filter(pl.col("kind") == "a")
    assert grid.x[0, 1] == pytest.approx(rows["new"].mean())
    page = render(result, rng=0)
    chart = page[page.index('aria-label="Shares of new within kind') - 60 :].partition("</svg>")[0]
    height = float(re.search(r'viewBox="0 0 300 ([\d.]+)"', chart)[1])
    cells = [float(y) for y in re.findall(r'<rect x="[\d.]+" y="([\d.]+)"', chart)]
    assert len(cells) == 4 and 0 < min(cells) < max(cells) < height - 20


def test_the_threshold_is_that_of_the_share_of_the_level(tied):
    whole = null_of(tied).threshold(0.05)
    part = null_of(dataclasses.replace(tied, share=0.5)).threshold(0.05)
    assert part.value == null_of(tied).threshold(0.025).value > whole.value


def test_images_from_folders_have_the_names_of_their_files(tmp_path):
    rng = np.random.default_rng(0)
    for folder, low in (("real", 0), ("fake", 120)):
        (tmp_path / folder).mkdir()
        for number in range(20):
            pixels = rng.integers(low, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / folder / f"{folder}-{number:02}.png")
    X, Y = (open_file(str(tmp_path / folder)) for folder in ("real", "fake"))
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=99, rng=0)
    assert result.files[1][3] == "fake-03.png"
    page = render(result, rng=0)
    shown = re.findall(r'alt="(fake-\d\d.png) of', page)
    assert len(set(shown)) == 8
    data = json.loads(Elements(page).scripts[0])["points"]
    wanted = {f"{folder}-{number:02}.png" for folder in ("real", "fake") for number in range(20)}
    assert set(data["files"]) <= wanted


def test_a_picture_says_what_the_summary_says(tied, tmp_path):
    path = tied.picture(tmp_path / "a.png", names=("May $1", "June $2"))
    with Image.open(path) as picture:
        assert picture.format == "PNG" and picture.size == (990, 396)
    assert path.stat().st_size < 100_000
    data = json.loads(Elements(render(tied, rng=0)).scripts[0])
    assert base64.b64decode(data["picture"]).startswith(b"\x89PNG")
    with pytest.raises(InputError):
        tied.picture(tmp_path / "no folder" / "a.png")


def test_columns_over_many_samples():
    names = ["a", "b", "c", "d", "e", "f"]
    assert in_words(["a", "c", "d", "e"], names) == "a, c to e"
    assert in_words(["e", "f"], names) == "e, f" and in_words([], names) == ""
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(100, 2))
    days = {}
    for day in range(4):
        rows = rng.normal(size=(60, 2))
        rows[:, 0] += 3 * (day > 0)
        days[f"day {day}"] = rows
    comparison = twosample.compare(reference, days, "mmd-median", permutations=99, rng=0)
    page = render_comparison(comparison, rng=0)
    assert "<bdi>day 1 to day 3</bdi></p>" in page
    assert "differs in day 1 to day 3" in page and "does not differ" in page
    charts = re.findall(r"How far (\d) is from the reference in each of 4 samples", page)
    assert charts == ["0", "1"]  # the one that differs stands first


def test_a_comparison_with_a_tolerance_does_not_contradict_itself():
    rng = np.random.default_rng(0)
    reference, near, far = (rng.normal(shift, 1, (400, 1)) for shift in (0, 0.3, 2))
    samples = {"near": near, "far": far, "also near": rng.normal(0.3, 1, (400, 1))}
    options = {"tolerance": {"spread": 0.6}, "permutations": 99, "rng": 0}
    comparison = twosample.compare(reference, samples, "mmd-median", **options)
    assert comparison.reject() == ["near", "far", "also near"] and comparison.differing == ["far"]
    told = "1 of 3 samples differs from the reference by more than the tolerance (2 equivalent)"
    assert str(comparison).startswith(told)
    page = render_comparison(comparison, rng=0)
    assert f">{told}</h1>" in page and "<bdi>far</bdi></p>" in page
    rows = re.findall(r'<tr data-adjusted="([^"]+)"( class="differs")?>', page)
    assert [bool(differs) for _, differs in rows[:3]] == [False, True, False]
    assert page.count(">equivalent</span>") == 2 * 2 * len(comparison_levels(page))


def comparison_levels(page: str) -> list[str]:
    return sorted(set(re.findall(r'<h1 class="\w+" data-level="([^"]+)"', page)))


def test_names_in_sentences_are_text():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    Y = rng.normal(size=(100, 1)) + 0.3 * rng.normal(size=(100, 2))
    frames = [pl.DataFrame(sample, schema=NASTY[:2], orient="row") for sample in (X, Y)]
    page = render(twosample.spectral(permutations=49).run(*frames, rng=0), rng=0)
    assert "go together otherwise" in page
    assert NASTY[0] not in page
    assert NASTY[1] not in page


def test_columns_do_not_overrule_the_verdict(tied):
    page = render(dataclasses.replace(tied, pvalue=0.3), rng=0)
    assert "No difference found" in page
    shown = page.split('<section id="columns"')[1]
    assert "None of" in shown and "differs by itself" not in shown
    assert "go together otherwise (p" not in shown


def test_views_explain_all_rows(tied, monkeypatch):
    monkeypatch.setattr(findings, "_MOST_ROWS", 50)
    assert "drawn at random" not in render(tied, rng=0)
    by_kernel = twosample.mmd_median(permutations=99).run(*SMALL, rng=0)
    assert "From 50 + 50 of the 90 + 90 held-out rows" in render(by_kernel, rng=0)


def test_images_seen_through_views():
    X, Y = np.random.default_rng(0).integers(0, 255, size=(2, 40, 8, 8), dtype=np.uint8)
    page = render(twosample.spectral(permutations=49).run(X, Y // 2, rng=0), rng=0)
    assert '<section id="columns"' not in page
    assert page.count('<li><figure><img src="data:image/png;base64,') == 16
    assert "along the two main axes of the pixels" in page


def test_a_stream_has_a_verdict_and_a_reason_for_what_is_missing():
    X, Y = [
        twosample.Stream.batches(lambda sample=sample: iter(np.split(sample, 3)))
        for sample in SMALL
    ]
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=99, rng=0)
    page = render(result, rng=0)
    assert "The samples differ" in page and "Against chance" in page
    assert page.count("a test of streams keeps no rows") == 2
    assert re.findall(r'<section id="(\w+)"', page) == [
        "verdict",
        "effect",
        "columns",
        "training",
        "repeat",
    ]


def test_constant_columns_and_one_level_do_not_disturb():
    samples = [
        pl.DataFrame(
            {"same": [3.0] * 40, "level": ["only"] * 40, "x": rng.normal(size=40).tolist()}
        )
        for rng in map(np.random.default_rng, (0, 1))
    ]
    with pytest.warns(twosample.InputWarning, match="constant"):
        result = twosample.two_sample_test(*samples, "mmd-median", permutations=99, rng=0)
    assert "only 100 % and 100 %" in render(result, rng=0)


def test_what_is_missing_or_wrong_is_a_sentence(nasty, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"alpha is 1\.5; it must lie strictly between 0 and 1"):
        nasty.report(tmp_path / "page.html", alpha=1.5)
    with pytest.raises(InputError, match="there is no folder"):
        nasty.report(tmp_path / "nowhere" / "page.html")
    for package in ("jinja2", "matplotlib"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(
            MissingDependency, match=rf"{package}; pip install 'twosample\[report\]'"
        ):
            nasty.report(tmp_path / "page.html")
        monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_the_page_about_it_gives_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = doctest.testfile(str(ROOT / "docs" / "report.md"), module_relative=False)
    assert done.attempted > 8 and done.failed == 0
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("report.md", "comparing.md"))
    pictures = re.findall(r"\(images/(report-[\w-]+\.png)\)", pages)
    assert sorted(pictures) == sorted(
        file.name for file in (ROOT / "docs" / "images").glob("report-*.png")
    )
    assert all((ROOT / "docs" / "images" / name).stat().st_size < 150_000 for name in pictures)


def test_the_wheel_holds_template_style_and_script(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = zipfile.ZipFile(wheel).namelist()
    parts = [file.name for file in TEMPLATES.iterdir()]
    assert len(parts) == 7
    assert {f"twosample/_show/templates/{name}" for name in parts} <= set(held)


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_text_can_be_read_in_light_and_dark():
    style = (TEMPLATES / "report.css").read_text()
    themes = [
        dict(re.findall(r"--(\w+): (#\w{6})", block))
        for block in re.findall(r"\{([^{}]*--page:[^{}]*)\}", style)
    ]
    light, dark, chosen_dark, printed = themes
    assert dark == chosen_dark and light == printed
    for theme in (light, dark):
        for ink in ("ink", "muted", "x", "y"):
            for ground in ("page", "panel"):
                low, high = sorted([luminance(theme[ink]), luminance(theme[ground])])
                assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)


# The command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(7)
    for name, shift in (("a", 0.0), ("b b", 0.4)):
        pl.DataFrame(
            {"size": rng.normal(shift, 1, 60), "kind": rng.choice(["u", "v"], 60)}
        ).write_csv(tmp_path / f"{name}.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


QUICK = ["--method", "mmd-median", "--permutations", "99"]


def test_the_command_on_the_page_gives_the_same_answer(folder):
    done = CliRunner().invoke(
        cli.build(), ["test", "a.csv", "b b.csv", *QUICK, "--report", "page.html", "--json"]
    )
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["report"] == "page.html"
    page = Path("page.html").read_text("utf-8")
    assert "<b>b b.csv</b>" in page
    command = shlex.split(re.search(r"<code>(twosample .*?)</code>", page)[1].replace("&#39;", "'"))
    assert command[:4] == ["twosample", "test", "a.csv", "b b.csv"]
    again = json.loads(CliRunner().invoke(cli.build(), command[1:]).stdout)
    assert again["seed"] == record["seed"] and again["pvalue"] == record["pvalue"]


def test_a_page_that_cannot_be_written_is_an_error_before_the_test(folder):
    done = CliRunner().invoke(
        cli.build(), ["test", "a.csv", "b b.csv", *QUICK, "--report", "nowhere/page.html"]
    )
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr.startswith(
        "error: nowhere/page.html cannot be written, because there is no folder"
    )


def test_text_names_the_report_and_alpha_is_that_of_the_command(folder):
    done = CliRunner().invoke(
        cli.build(),
        [
            "test",
            "a.csv",
            "b b.csv",
            *QUICK,
            "--alpha",
            "0.03",
            "--report",
            "page.html",
            "--explain",
        ],
    )
    assert "  report     page.html\n" in done.stdout
    assert re.search(r'<h1 class="\w+" data-level="0.03">', Path("page.html").read_text("utf-8"))


# What a reader sees


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture
def opened(browser, written):
    pages = []

    def open_page(which, size=DESKTOP, **options):
        pages.append(browser.open(written[which], size, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()


VISIBLE = "element => element.getClientRects().length > 0"


@pytest.mark.parametrize("which", PARTS)
@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)])
def test_the_page_is_quiet_asks_for_nothing_and_fits(opened, written, which, size, dark):
    page = opened(which, size, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    shown = page.evaluate(f"[...document.querySelectorAll('section')].filter({VISIBLE}).length")
    assert shown == len(PARTS[which])
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    nameless = "[...document.querySelectorAll('svg, img, [role=region]')].filter(e => !(e.ariaLabel || e.alt)).length"
    assert page.evaluate(nameless) == 0
    assert page.complaints() == [] and page.events("Page.javascriptDialogOpening") == []
    assert page.requests() == [written[which].as_uri()]


def point_at(page, number: int) -> dict:
    """Move the mouse to a point of the map; gives its sample, row and values."""
    page.evaluate("document.getElementById('map').scrollIntoView({block: 'center'})")
    place = page.evaluate(
        f"""(() => {{
            const points = JSON.parse(document.getElementById('data').textContent).points;
            const box = document.getElementById('map').getBoundingClientRect();
            const [x, y] = points.at[{number}].map(value => value * box.width / 480);
            return {{x: box.left + x, y: box.top + y, sample: points.sample[{number}], row: points.row[{number}]}};
        }})()"""
    )
    page.move(place["x"], place["y"])
    return place


def test_pointing_at_the_map_shows_the_row(opened, tables):
    page = opened("table")
    assert page.evaluate("document.getElementById('tip').hidden")
    for number in (0, 50, 120):
        place = point_at(page, number)
        tip = page.evaluate("document.getElementById('tip').innerText")
        name = ("<i>last</i>.csv", "this 'month' & \"next\".csv")["XY".index(place["sample"])]
        assert f"Row {place['row']} of {name}" in tip
        row = tables["XY".index(place["sample"])].row(place["row"], named=True)
        assert f"{row[NASTY[0]]:.6g}" in tip
    page.move(1, 1)
    assert page.evaluate("document.getElementById('tip').hidden")


def test_pointing_at_an_image_shows_it(opened):
    page = opened("images", dark=True)
    place = point_at(page, 10)
    assert f"Image {place['row']} of {place['sample']}" in page.evaluate(
        "document.getElementById('tip').innerText"
    )
    tile = page.evaluate("getComputedStyle(document.querySelector('#tip .tile')).backgroundImage")
    assert tile.startswith('url("data:image/jpeg;base64,')
    assert page.complaints() == []


def test_the_map_can_be_read_by_keys_alone(opened):
    page = opened("plane")
    page.evaluate("document.getElementById('map').focus()")
    seen = set()
    for _ in range(3):
        page.press("ArrowRight")
        seen.add(page.evaluate("document.getElementById('tip').innerText.split('\\n')[0]"))
    assert len(seen) == 3
    page.press("Escape")
    assert page.evaluate("document.getElementById('tip').hidden")


def test_columns_can_be_sorted(opened):
    page = opened("table")
    column = "[...document.querySelectorAll('#ranking tbody tr')].map(row => row.cells[{0}].{1})"
    click = "document.querySelectorAll('#ranking thead button')[{0}].click()"
    before = page.evaluate(column.format(0, "textContent"))
    assert before[0] == NASTY[0]
    page.evaluate(click.format(3))
    rising = [float(value) for value in page.evaluate(column.format(3, "dataset.value"))]
    assert rising == sorted(rising)
    page.evaluate(click.format(3))
    falling = [float(value) for value in page.evaluate(column.format(3, "dataset.value"))]
    assert falling == sorted(rising, reverse=True)
    assert (
        page.evaluate("document.querySelectorAll('#ranking thead th')[3].ariaSort") == "descending"
    )
    page.evaluate(click.format(0))
    assert sorted(page.evaluate(column.format(0, "textContent"))) == sorted(before)
    assert page.evaluate("document.querySelectorAll('#ranking thead th')[3].ariaSort") is None


def choose(page, level: float) -> None:
    """Move the slider to a level."""
    page.evaluate(
        f"""(() => {{
            const slider = document.getElementById('alpha');
            slider.value = JSON.parse(document.getElementById('data').textContent).levels.indexOf({level});
            slider.dispatchEvent(new Event('input'));
        }})()"""
    )


def test_another_level_changes_verdict_threshold_and_columns(opened, nasty):
    page = opened("table")
    assert nasty.pvalue == 0.01
    title = (
        f"[...document.querySelectorAll('h1')].filter({VISIBLE}).map(title => title.textContent)"
    )
    flags = f"[...document.querySelectorAll('.threshold text')].filter({VISIBLE}).map(flag => flag.textContent)"
    marked = "[...document.querySelectorAll('.differs')].map(row => row.cells[0].textContent)"
    assert page.evaluate(title) == ["The samples differ"] and page.evaluate(flags) == [
        "threshold at α = 0.05"
    ]
    assert page.evaluate(marked) == []  # 9 columns, 99 shuffles: no adjusted p is below 0.09
    choose(page, 0.1)
    assert sorted(page.evaluate(marked)) == [NASTY[0], "kind"] and page.evaluate(flags) == [
        "threshold at α = 0.1"
    ]
    choose(page, 0.005)
    assert page.evaluate(title) == ["No difference found"] and page.evaluate(flags) == []
    assert "p = 0.010 is above α = 0.005" in page.evaluate(
        "document.getElementById('verdict').innerText"
    )


def test_columns_can_be_found_and_sorted(opened):
    page = opened("table")
    names = "[...document.querySelectorAll('#changes > details')].filter(card => !card.hidden).map(card => card.dataset.name)"
    everything = page.evaluate(names)
    assert len(everything) == 9
    find = "(document.getElementById('find').value = '{}', document.getElementById('find')"
    find += ".dispatchEvent(new Event('input')), document.title)"
    page.evaluate(find.format("KIND"))
    assert page.evaluate(names) == ["kind"]
    assert page.evaluate("document.getElementById('found').textContent") == "1 of 9 columns"
    page.evaluate(find.format(""))
    page.evaluate(
        "(order.value = 'name', order.dispatchEvent(new Event('change')), document.title)"
    )
    assert sorted(page.evaluate(names)) == sorted(everything)
    assert page.evaluate("document.querySelectorAll('#changes svg').length") == 9


def test_light_and_dark_can_be_chosen(opened):
    page = opened("plane", dark=True)
    grounds = []
    for _ in range(2):
        page.evaluate("document.getElementById('theme').click()")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]


@pytest.mark.parametrize("which", ["table", "plane", "images"])
def test_without_scripts_the_page_is_complete(opened, which):
    page = opened(which, PHONE, scripts=False)
    page.send(
        "Emulation.setScriptExecutionDisabled", value=False
    )  # for the questions; the page's own has not run
    assert page.evaluate("document.documentElement.className") == ""
    visible = f"(selector => [...document.querySelectorAll(selector)].filter({VISIBLE}).length)"
    assert page.evaluate(f"{visible}('section')") == len(PARTS[which])
    assert page.evaluate(f"{visible}('h1')") == 1
    assert page.evaluate(f"{visible}('button, input')") == 0
    assert page.evaluate(f"{visible}('figure svg')") == page.evaluate(
        "document.querySelectorAll('figure svg').length"
    )
    if which == "images":
        assert page.evaluate(f"{visible}('img')") == 16
    else:
        assert page.evaluate(f"{visible}('tbody tr')") == page.evaluate(
            "document.querySelectorAll('tbody tr').length"
        )


def test_on_paper_it_is_light_and_has_no_controls(opened):
    page = opened("table", dark=True)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.send("Emulation.setEmulatedMedia", media="print", features=dark)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (
        page.evaluate(
            f"[...document.querySelectorAll('nav, input, #theme, .copy')].filter({VISIBLE}).length"
        )
        == 0
    )
    assert page.evaluate("getComputedStyle(document.querySelector('.tall')).maxHeight") == "none"
    assert page.evaluate(
        "[...document.querySelectorAll('figure')].every(f => getComputedStyle(f).breakInside == "
        "'avoid')"
    )
    paper = base64.b64decode(page.send("Page.printToPDF", printBackground=True)["data"])
    assert (
        paper.startswith(b"%PDF")
        and 2 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") <= 12
    )


def test_results_without_their_parts_still_have_a_page(nasty):
    bare = dataclasses.replace(nasty, fitted=None, samples=None, calibrated=None)
    page = render(bare, rng=0)
    assert "The samples differ" in page and "does not hold its fitted test and samples" in page


# The page of a comparison


def test_names_of_samples_are_text_and_every_sample_has_its_part(written, compared):
    elements = Elements(written["comparison"].read_text("utf-8"))
    assert elements.names.count("script") == 2 and elements.names.count("img") == 0
    assert elements.names.count("details") == 3 and elements.names.count("tr") == 4 + 3 * 10
    for name in (*compared, "<i>last</i>.csv", "<b>bold</b>"):
        assert name in elements.text
    linked = [
        attributes["href"]
        for attributes in elements.attributes
        if "#sample-" in (attributes.get("href") or "")
    ]
    assert linked == [
        f"#{a['id']}" for a in elements.attributes if (a.get("id") or "").startswith("sample-")
    ]


def test_the_page_says_what_the_comparison_says(written, compared):
    page = written["comparison"].read_text("utf-8")
    assert re.search(
        r'<h1 class="differ" data-level="0.05">2 of 3 samples differ from the reference</h1>', page
    )
    rows = re.findall(
        r'<tr data-adjusted="([^"]+)".*?</tr>', page[page.index('id="table"') :], re.DOTALL
    )
    assert [float(adjusted) for adjusted in rows[:3]] == list(compared.adjusted.values())
    assert len(page.encode()) < 3_000_000 / 20


def test_another_level_changes_verdict_table_and_dots(opened, compared):
    page = opened("comparison")
    title = (
        f"[...document.querySelectorAll('h1')].filter({VISIBLE}).map(title => title.textContent)"
    )
    outcomes = (
        "[...document.querySelectorAll('#table tbody tr')].map(row => row.cells[2].innerText)"
    )
    dots = "[...document.querySelectorAll('#verdict .distance')].map(dot => dot.classList.contains('differs'))"
    assert page.evaluate(outcomes) == ["no difference found", "differs", "differs"]
    assert page.evaluate(dots) == [False, True, True]
    choose(page, 0.005)  # 3 samples, 199 permutations: no adjusted p is below 0.015
    assert page.evaluate(title) == ["None of 3 samples is found to differ from the reference"]
    assert (
        page.evaluate(outcomes) == ["no difference found"] * 3
        and page.evaluate(dots) == [False] * 3
    )
    choose(page, 0.05)
    column = "[...document.querySelectorAll('#table tbody tr')].map(row => Number(row.cells[3].dataset.value))"
    page.evaluate("document.querySelectorAll('#table thead button')[3].click()")
    assert page.evaluate(column) == sorted(result.effect.mmd for result in compared.values())


def test_parts_unfold_by_link_by_key_and_on_paper(opened):
    page = opened("comparison", PHONE)
    unfolded = "[...document.querySelectorAll('details')].map(part => part.open)"
    assert page.evaluate(unfolded) == [False] * 3
    page.evaluate("document.querySelectorAll('#table tbody a')[1].click()")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.evaluate(unfolded) == [False, True, False]
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    page.evaluate("document.querySelector('summary').focus()")
    page.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r")
    assert page.evaluate(unfolded) == [True, True, False]
    paper = base64.b64decode(page.send("Page.printToPDF", printBackground=True)["data"])
    assert paper.startswith(b"%PDF") and page.evaluate(unfolded) == [True] * 3
    assert page.complaints() == []


@pytest.mark.parametrize("which", PARTS)
def test_nothing_is_cut_off_on_paper(opened, which):
    page = opened(which, (720, 1000))
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("document.documentElement.scrollWidth") == 720
    cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.parentElement.clientWidth + 1).length"
    assert page.evaluate(cut) == 0


def test_a_folded_part_is_on_paper_without_scripts(opened):
    page = opened("comparison", scripts=False)
    page.send("Emulation.setEmulatedMedia", media="print")
    page.send("Emulation.setScriptExecutionDisabled", value=False)
    hidden = (
        "[...document.querySelectorAll('details svg')].filter(e => !e.checkVisibility()).length"
    )
    assert (
        page.evaluate(hidden)
        == 0
        < page.evaluate("document.querySelectorAll('details svg').length")
    )


def test_images_and_many_samples_have_a_small_page():
    rng = np.random.default_rng(0)
    samples = {}
    for day in range(32):
        # Noise: no picture takes more bytes.
        samples[f"day {day}"] = rng.integers(day == 0, 256, (6, 64, 64, 3), dtype=np.uint8)
    reference = rng.integers(0, 256, (6, 64, 64, 3), dtype=np.uint8)
    comparison = twosample.compare(reference, samples, "mmd-median", rng=0)
    page = render_comparison(comparison, rng=0)
    elements = Elements(page)
    assert elements.names.count("details") == 30
    assert "2 more samples, with the largest p-values" in page
    assert elements.names.count("img") == 30 * 8
    assert len(page.encode()) < 3_000_000
    adjusted = comparison.adjusted
    pvalues = comparison.pvalues
    ranked = sorted(samples, key=lambda name: (adjusted[name], pvalues[name]))
    for place, name in enumerate(ranked):
        number = comparison.names.index(name) + 1
        assert (f'href="#sample-{number}"' in page) == (place < 30)


@pytest.mark.parametrize("correction", ["holm", "bh", "by", "none"])
def test_the_page_of_a_comparison_says_what_its_correction_promises(correction):
    X, Y = SMALL
    samples = {"a": X[:40], "b": Y}
    test = twosample.me(steps=5)
    comparison = twosample.compare(X, samples, test, correction=correction, rng=0)
    page = render_comparison(comparison, rng=0)
    assert comparison_report._PROMISES[correction].split("{")[0].replace("'", "&#39;") in page
    assert "AUC against the reference; 0.5 is guessing" in page  # `me` has no MMD
    assert "holds it with 95 % confidence" in page
