"""Tables, figures and pages: their arithmetic, their formats, and that committed pages show
committed results."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from test_bench_store import record
from twosample._cli import main as cli
from twosample.bench import figures, pages, tables
from twosample.bench.experiments import EXPERIMENTS, METHODS
from twosample.bench.reasons import REASONS, UNKNOWN, reason
from twosample.bench.recipes import RECIPES
from twosample.bench.store import Record, Store
from twosample.errors import InputError, MissingDependency

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reproduction"
RESULTS = ROOT / "results"


def call(*words: str) -> object:
    return CliRunner().invoke(cli.build(), [*map(str, words)])


def trials_of(experiment: str, rates: dict[str, list[int]], **changes: object) -> list[Record]:
    """A record of 100 tests for each number of rejections, of the first method in each setting
    named."""
    method = EXPERIMENTS[experiment].methods[0]
    data = EXPERIMENTS[experiment].settings[0].data
    plain = {"experiment": experiment, "method": method, "data": data, "tests": 100} | changes
    return [
        record(trial, setting=setting, rejections=count, **plain)
        for setting, counts in rates.items()
        for trial, count in enumerate(counts)
    ]


def entry(experiment: str, rates: dict[str, list[int]], **changes: object) -> tables.Entry:
    (found,) = tables.entries(
        EXPERIMENTS[experiment], trials_of(experiment, rates, **changes), "default"
    )
    return found


# Arithmetic


@pytest.mark.parametrize(
    ("count", "total"), [(0, 100), (3, 100), (50, 100), (100, 100), (47, 1000)]
)
def test_binomial_limits_are_exact(count, total):
    low, high = tables.binomial_limits(count, total, 0.95)
    if count:
        assert stats.binom.sf(count - 1, total, low) == pytest.approx(0.025)
    if count < total:
        assert stats.binom.cdf(count, total, high) == pytest.approx(0.025)
    assert 0 <= low <= count / total <= high <= 1


def test_the_standard_error_is_that_of_the_trials():
    found = entry("higgs-power", {"N=3000": [10, 30, 20, 40]})
    assert (found.rate, found.count) == (0.25, "4 x 100")
    assert found.error == pytest.approx(np.std([0.1, 0.3, 0.2, 0.4], ddof=1) / 2)
    # ME: 0.197 +- 0.012
    assert found.difference == pytest.approx((0.25 - 0.197) / math.hypot(found.error, 0.012))
    assert not found.far


def test_trials_that_agree_are_not_certain():
    found = entry("mnist-power", {"N=600": [100, 100, 100]})
    low, _ = tables.binomial_limits(300, 300, 0.6827)
    assert found.error == pytest.approx(1 - low) and 0.003 < found.error < 0.01
    assert found.published == (1.0, 0.0) and found.published_error == pytest.approx(
        0.0018, abs=2e-4
    )
    assert found.difference == 0.0
    one = entry("mnist-power", {"N=600": [50]})
    assert one.error == pytest.approx(math.sqrt(0.25 / 100), rel=0.1)
    assert one.difference is None and not one.far  # nobody knows how trials vary


def test_a_published_number_without_an_error_has_that_of_ten_trials_like_ours():
    found = entry("blob-power", {"n_b=40": [70, 90, 100]}, method="mmd-d")
    assert found.published == (0.985, None)
    assert found.published_error == pytest.approx(np.std([0.7, 0.9, 1.0], ddof=1) / math.sqrt(10))
    assert found.difference == pytest.approx(
        (found.rate - 0.985) / math.hypot(found.error, found.published_error)
    )


def test_beyond_two_standard_errors_is_marked(monkeypatch):
    found = entry("higgs-power", {"N=3000": [40, 42, 41]})
    assert found.difference > 2 and found.far
    records = trials_of("higgs-power", {"N=3000": [40, 42, 41]})
    theirs = trials_of("higgs-power", {"N=3000": [19, 21]}, recipe="paper")
    monkeypatch.setattr(tables, "reason", lambda *_: "?")
    lines = tables.table("higgs-power", records).splitlines()
    assert "| N=3000 | me | 3 x 100 | 0.410 | 0.030 | 0.197 ± 0.012 | +6.6 | ! | ? | 0.5 |" in lines
    monkeypatch.setattr(tables, "reason", lambda *_: "theirs {paper}, {paper N=1000}")
    assert "| theirs 0.200 ± 0.031 (2 x 100), not run |" in tables.table(
        "higgs-power", [*records, *theirs]
    )


def test_a_level_has_exact_limits_and_pools_both_nulls():
    found = entry("higgs-level", {"N=1000:P": [4, 6], "N=1000:Q": [5, 5]})
    assert (found.rejections, found.tests, found.count) == (20, 400, "4 x 100")
    assert found.limits == tables.binomial_limits(20, 400, 0.95)
    assert not found.off_level
    assert entry("higgs-level", {"N=1000:P": [20, 20]}).off_level


def test_cells_of_other_experiments_are_shown_where_they_belong():
    records = [
        record(
            0, experiment="blob-power", setting="n_b=40", method="mmd-d", tests=100, rejections=98
        )
    ]
    (found,) = tables.entries(EXPERIMENTS["ablation"], records, "default")
    assert (found.row, found.method, found.rate, found.published.rate) == (
        "blob",
        "D+J",
        0.98,
        0.985,
    )
    assert "blob-power" in tables.needed("ablation")


def test_test_sets_that_share_rows_are_labelled():
    few = {"train": 500, "test": 500, "dimension": 4, "distinct": 50}
    assert entry("higgs-power", {"N=1000": [9]}, sizes=few).shared
    assert "share rows with each other" in tables.table(
        "higgs-power", trials_of("higgs-power", {"N=1000": [9]}, sizes=few)
    )
    assert not entry("higgs-power", {"N=1000": [9]}, sizes=few | {"distinct": 100}).shared
    assert not entry("blob-power", {"n_b=10": [9]}).shared


def test_t_tests_pair_trials_and_settings():
    rng = np.random.default_rng(0)
    records = []
    for setting in ("n_b=10", "n_b=20"):
        for trial in range(4):
            for method in METHODS:
                count = int(
                    rng.binomial(
                        100, 0.8 if method == "mmd-d" else 0.75 if method == "mmd-o" else 0.3
                    )
                )
                plain = {"experiment": "blob-power", "setting": setting, "method": method}
                records.append(record(trial, tests=100, rejections=count, **plain))
    rows = {row[1]: row for row in tables.t_test_rows(records)}
    ours, theirs = (
        [r.rate for r in records if r.method == method] for method in ("mmd-d", "mmd-o")
    )
    expected = stats.ttest_rel(ours, theirs, alternative="greater").pvalue
    assert rows["mmd-o"][:3] == ["Blob", "mmd-o", "8"] and float(rows["mmd-o"][4]) == pytest.approx(
        expected, abs=5e-4
    )
    assert rows["me"][5:] == ["yes", "yes"]
    same = [
        record(k, experiment="blob-power", method=m, tests=100)
        for k in range(3)
        for m in ("mmd-d", "me")
    ]
    assert tables.t_test_rows(same)[0][4:6] == ["1.000", "no"]


# Formats


@pytest.mark.parametrize("name", [*EXPERIMENTS, "t-tests"])
@pytest.mark.parametrize("format", list(tables.FORMATS))
def test_every_table_in_every_format_without_results(name, format):
    assert isinstance(tables.table(name, [], format), str)


def test_csv_has_all_numbers():
    records = trials_of("higgs-power", {"N=3000": [10, 30], "N=5000": [50, 60]})
    rows = list(csv.DictReader(io.StringIO(tables.table("higgs-power", records, "csv"))))
    assert [row["setting"] for row in rows] == ["N=3000", "N=5000"]
    assert float(rows[1]["rate"]) == 0.55 and rows[1]["published_error"] == "0.041"


def test_latex_has_ours_above_theirs():
    text = tables.table("higgs-power", trials_of("higgs-power", {"N=3000": [40, 42, 41]}), "latex")
    assert r"$N = 3000$ & $0.410 \pm 0.030^*$ \\" in text
    assert r"published & $0.197 \pm 0.012$ \\" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1


def test_unknown_names_have_sentences():
    with pytest.raises(
        InputError, match="there is no format 'html'; use one of markdown, latex, csv"
    ):
        tables.table("quick", [], "html")
    with pytest.raises(InputError, match="there is no figure 'figure-9'; use one of figure-1"):
        figures.draw("figure-9", [])


# Figures


@pytest.mark.parametrize(
    "name", ["figure-2", "figure-3", "higgs-power", "higgs-level", "ablation", "quick"]
)
def test_figures_are_drawn_from_what_there_is(name, tmp_path):
    pytest.importorskip("matplotlib")
    records = trials_of("blob-power", {"n_b=40": [90, 95], "n_b=100": [100, 100]}) + trials_of(
        "higgs-power", {"N=1000": [9, 8]}
    )
    drawn = figures.draw(name, records)
    figures.save(drawn, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").stat().st_size > 5000


def test_a_figure_shows_ours_and_the_published_rates():
    pytest.importorskip("matplotlib")
    (ax,) = figures.draw(
        "higgs-power", trials_of("higgs-power", {"N=1000": [9, 8], "N=2000": [20, 22]})
    ).axes
    ours, published = (ax.containers[k].lines[0] for k in (0, 1))
    assert ours.get_xdata().tolist() == [1000, 2000] and ours.get_ydata() == pytest.approx(
        [0.085, 0.21]
    )
    assert published.get_ydata()[:2] == pytest.approx([0.120, 0.165])
    assert published.get_markerfacecolor() == "none"


def test_without_matplotlib_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match=r"pip install 'twosample\[plots\]'"):
        figures.draw("quick", [])


def test_a_kind_of_file_that_cannot_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(
        InputError, match=r"drawn.doc cannot be written: .* ends in .png, .pdf or .svg"
    ):
        figures.save(figures.draw("quick", []), tmp_path / "drawn.doc")


# The command line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store(tmp_path / "results")
    store.check()
    for each in trials_of("higgs-power", {"N=3000": [20, 25]}) + trials_of(
        "quick", {"n_b=10": [5, 6]}
    ):
        store.append(each)
    return tmp_path / "results"


def test_tables_on_the_command_line(folder, tmp_path):
    shown = call("bench", "table", "higgs-power", "--results", folder)
    assert shown.exit_code == 0 and "| N=3000 | me | 2 x 100 | 0.225 |" in shown.stdout
    done = call(
        "bench", "table", "higgs-power", "--results", folder, "--write", tmp_path / "page.md"
    )
    assert done.exit_code == 0 and (tmp_path / "page.md").read_text() == shown.stdout
    none = call("bench", "table", "higgs-power", "--results", folder, "--recipe", "paper")
    assert "No trials yet." in none.stdout


def test_status_counts_trials_and_time(folder):
    shown = call("bench", "status", "--results", folder, "--trials", "2")
    assert shown.exit_code == 0
    assert re.search(
        r"^higgs-power +2 of 72 trials, at least .* of CPU time left$", shown.stdout, re.MULTILINE
    )
    assert re.search(
        r"^blob-level +0 of 96 trials, an unknown time of CPU time left$",
        shown.stdout,
        re.MULTILINE,
    )


def test_list_names_every_experiment():
    shown = call("bench", "list").stdout
    assert all(f"\n{name}: " in f"\n{shown}" for name in EXPERIMENTS)


def test_a_broken_line_is_a_warning(folder):
    path = folder / "higgs-power.jsonl"
    path.write_text("broken\n" + path.read_text())
    done = call("bench", "table", "higgs-power", "--results", folder)
    assert (
        done.exit_code == 0
        and "warning: " in done.stderr
        and "line 1 is not a whole record" in done.stderr
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nothing"], "there is no experiment 'nothing'"),
        (["run", "quick", "--recipe", "ours"], "there is no recipe 'ours'"),
        (["run", "quick", "--methods", "mmd-d"], "quick has no method 'mmd-d'"),
        (
            ["run", "quick", "--workers", "1", "--scheduler", "tcp://127.0.0.1:1"],
            "leave out one of them",
        ),
        (["run", "quick", "--results", __file__], "results cannot be written to"),
        (["table", "nothing"], "there is no experiment 'nothing'"),
        (["table", "quick", "--format", "html"], "there is no format 'html'"),
        (["table", "quick", "--recipe", "ours"], "there is no recipe 'ours'"),
        (["figure", "nothing"], "there is no figure 'nothing'"),
        (["status", "--recipe", "ours"], "there is no recipe 'ours'"),
    ],
)
def test_errors_are_sentences(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("bench", *words)
    assert done.exit_code == 2
    assert (
        done.stderr.startswith("error: ")
        and message in done.stderr
        and "Traceback" not in done.stderr
    )


@pytest.mark.parametrize("command", ["list", "run", "status", "table", "figure", "pages"])
def test_help_has_an_example(command):
    shown = call("bench", command, "--help").stdout
    assert f"twosample bench {command}" in shown.split("Example")[1]


# Pages


@pytest.fixture
def committed() -> Store:
    """The results, unless somebody is adding to them."""
    if shutil.which("git") and (ROOT / ".git").exists():
        changed = subprocess.run(
            ["git", "status", "--porcelain", "results"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        if changed.stdout:
            pytest.skip("there are results that are not committed")
    return Store(RESULTS)


def test_pages_are_written_and_the_summary_filled_in(folder, tmp_path):
    readme = tmp_path / "pages" / "README.md"
    readme.parent.mkdir()
    readme.write_text(f"Head.\n\n{pages.BEGIN}\nold\n{pages.END}\n\nTail.\n")
    done = call("bench", "pages", readme.parent, "--results", folder, "--figures")
    assert done.exit_code == 0, done.stderr
    assert "0.225" in (readme.parent / "higgs-power.md").read_text()
    assert not (readme.parent / "mnist-power.md").exists()
    text = readme.read_text()
    assert text.startswith("Head.") and text.endswith("Tail.\n") and "old" not in text
    assert "| [higgs-power](higgs-power.md) | default | 1 | 2 | 1 | 0 |" in text
    assert "CPU time of all 4 trials: 8 s" in text
    assert (readme.parent / "images" / "higgs-power.png").exists()


def test_the_summary_pools_levels_over_experiments(tmp_path):
    store = Store(tmp_path)
    store.check()
    for each in trials_of("blob-level", {"n_b=40": [5, 6]}) + trials_of(
        "hdgm-level", {"N=4000": [1]}
    ):
        store.append(each)
    for each in trials_of("blob-power", {"n_b=40": [90]}) + trials_of(
        "hdgm-level", {"N=2000": [30]}, recipe="paper"
    ):
        store.append(each)
    low, high = tables.binomial_limits(12, 300, 0.95)
    expected = f"12 | 300 | 0.040 | {low:.3f} to {high:.3f} |"
    text = pages.summary(store)
    assert (
        f"| me | {expected}" in text
        and f"| all | {expected}" in text
        and "| mmd-d | 0 | 0 |  |  |" in text
    )


def test_a_readme_without_a_place_for_the_summary(folder):
    with pytest.raises(InputError, match="must have one line"):
        pages.with_summary("no place", Store(folder))


def test_committed_pages_show_the_committed_results(committed):
    for name, text in pages.page_texts(committed).items():
        assert (PAGES / name).read_text("utf-8") == text, (
            f"run: twosample bench pages docs/reproduction ({name})"
        )
    readme = (PAGES / "README.md").read_text("utf-8")
    assert pages.with_summary(readme, committed) == readme


def test_every_committed_difference_beyond_two_standard_errors_has_its_reason(committed):
    store = committed
    for shown in EXPERIMENTS.values():
        for recipe in RECIPES:
            for found in tables.entries(shown, store.records(*tables.homes(shown)), recipe):
                if (
                    found.far and shown.kind == "power"
                ):  # a level is compared with 0.05, not with another one
                    assert reason(shown.name, found.row, found.method, recipe) != UNKNOWN, (
                        shown.name,
                        found,
                    )


def test_committed_results_have_their_seeds_and_name_no_machine(committed):
    for path in RESULTS.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            values = json.loads(line)
            assert values["experiment"] == path.stem
            assert "://" not in line and str(Path.home()) not in line
            cell = next(
                c
                for c in EXPERIMENTS[path.stem].cells()
                if (c.experiment, c.setting.name, c.method)
                == (path.stem, values["setting"], values["method"])
            )
            assert values["seed"] == cell.seed(values["trial"])


def test_reasons_are_of_cells_that_exist():
    for each in REASONS:
        shown = EXPERIMENTS[each.experiment]
        assert each.row is None or each.row in {setting.row for setting in shown.settings}
        assert set(each.methods) <= set(shown.methods) and each.recipe in RECIPES


def test_numbers_in_reasons_are_those_of_their_pages():
    for each in REASONS:
        source = next(
            (name for name in ("probes", "blob-authors") if f"{name})" in each.text), None
        )
        if source is not None:
            page = (PAGES / f"{source}.md").read_text("utf-8")
            assert all(number in page for number in re.findall(r"\b[01]\.\d{3}\b", each.text)), (
                each.text
            )
    assert sum("probes)" in each.text for each in REASONS) > 5
