"""The arena: rivals are exact, runs go on where they stopped, and the page shows what is kept."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy
from typer.testing import CliRunner

from twosample import METHODS, InputError
from twosample._cli import main as cli
from twosample.bench.arena import contestants, page, rivals, running, standing
from twosample.bench.arena.scenarios import SCENARIOS, select
from twosample.bench.arena.store import ArenaStore, Cell, Chunk, Results, by_cell

pytest.importorskip("polars")
pytest.importorskip("sklearn")


def invoke(words):
    """Run the command line in this process."""
    return CliRunner().invoke(cli.build(), words)


SHUFFLED = {
    "energy": (rivals.energy, 300),
    "kernel-lr": (rivals.kernel_likelihood_ratio, 60),
    "boosted-trees": (rivals.boosted_trees, 40),
    "forest": (rivals.random_forest, 60),
}
"""The rivals that shuffle labels, and how many tests of each there are time for."""


# Rivals


@pytest.mark.parametrize("name", SHUFFLED)
def test_a_rival_rejects_no_more_than_it_says(name, monkeypatch):
    rival, runs = SHUFFLED[name]
    monkeypatch.setattr(rivals, "PERMUTATIONS", 99)
    monkeypatch.setattr(rivals, "_FEW_PERMUTATIONS", 39)
    monkeypatch.setattr(rivals, "_LANDMARKS", 10)
    monkeypatch.setattr(rivals, "_TREES", 5)
    monkeypatch.setattr(rivals, "_ROUNDS", 3)
    rejections = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 3])
        # With ties, and samples of different sizes.
        points = np.round(rng.normal(size=(36, 2)), 1)
        rejections += rival(points, 16, rng) <= 0.2
    _, high = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], runs, 0.2)
    assert rejections <= high
    assert rejections > 0


@pytest.mark.parametrize("name", [*SHUFFLED, "forest-oob"])
def test_a_rival_finds_what_is_plain(name, monkeypatch):
    monkeypatch.setattr(rivals, "_FITS", 19)
    monkeypatch.setattr(rivals, "_TREES", 20)
    monkeypatch.setattr(rivals, "_FEW_TREES", 20)
    monkeypatch.setattr(rivals, "_LANDMARKS", 30)
    rival = rivals.out_of_bag_forest if name == "forest-oob" else SHUFFLED[name][0]
    rng = np.random.default_rng(0)
    points = rng.normal(size=(120, 2))
    points[60:, 0] += 4
    least = 1 / 20 if name == "forest-oob" else 0.005
    assert rival(points, 60, rng) <= least + 1e-9


@pytest.mark.slow
def test_the_forest_out_of_bag_rejects_no_more_than_it_says(monkeypatch):
    monkeypatch.setattr(rivals, "_FITS", 9)
    monkeypatch.setattr(rivals, "_FEW_TREES", 30)
    runs = 30
    rejections = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 4])
        rejections += rivals.out_of_bag_forest(rng.normal(size=(30, 2)), 12, rng) <= 0.2
    _, high = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], runs, 0.2)
    assert 0 < rejections <= high


def test_columns_are_tested_one_by_one_and_corrected():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=200)
    shifted = numbers + np.repeat([0.0, 2.0], 100)
    levels = np.repeat(["a", "b"], 100)
    single = scipy.stats.ks_2samp(shifted[:100], shifted[100:], method="asymp").pvalue
    assert rivals.columnwise([shifted, numbers, numbers], 100) == pytest.approx(3 * single)
    assert rivals.columnwise([numbers, levels], 100) < 1e-20
    assert rivals.columnwise([numbers, np.repeat("a", 200)], 100) > 0.05


def test_column_wise_tests_keep_their_level():
    rejections = 0
    runs = 300
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        counts = rng.poisson(2.0, size=80).astype(float)
        levels = rng.choice(["a", "b", "rare"], p=[0.6, 0.37, 0.03], size=80)
        counts[rng.random(80) < 0.1] = np.nan
        rejections += rivals.columnwise([counts, np.isnan(counts), levels], 30) <= 0.05
    _, high = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], runs, 0.05)
    assert rejections <= high


def test_the_energy_distance_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 3))
    y = rng.normal(size=(5, 3)) + 0.3
    points = np.concatenate([x, y])
    labels = rivals.labellings(7, 12, 499, np.random.default_rng(1))
    values = []
    for chosen in labels:
        inside = points[chosen]
        outside = points[~chosen]
        cdist = scipy.spatial.distance.cdist
        across = cdist(inside, outside).mean()
        values.append(2 * across - cdist(inside, inside).mean() - cdist(outside, outside).mean())
    values = np.array(values)
    assert rivals.energy(points, 7, np.random.default_rng(1)) == rivals.exact_pvalue(values)


def test_the_kernel_likelihood_ratio_is_a_relative_entropy_of_gaussian_laws():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 3))
    labels = rivals.labellings(25, 40, 1, rng)
    values = rivals._entropies(features, labels)
    ridge = rivals._RIDGES[0]

    def entropy(sample):
        second = sample.T @ sample / len(sample) + ridge * np.eye(3)
        pooled = features.T @ features / 40 + ridge * np.eye(3)
        shift = sample.mean(axis=0) - features.mean(axis=0)
        ratio = np.linalg.solve(pooled, second)
        quadratic = shift @ np.linalg.solve(pooled, shift)
        return 0.5 * (np.trace(ratio) - 3 - np.log(np.linalg.det(ratio)) + quadratic)

    expected = entropy(features[:25]) + entropy(features[25:])
    assert values[0, 0] == pytest.approx(expected, rel=1e-9)


# Contestants


def test_all_of_our_methods_take_part_and_rivals_do():
    known = contestants.contestants()
    assert set(METHODS) <= set(known)
    assert next(iter(known)) == "auto"
    assert {"ks-holm", "energy", "kernel-lr", "boosted-trees", "forest", "forest-oob"} <= set(known)
    blob = SCENARIOS["blob-10"]
    assert known["energy"].trials(blob) == 100
    assert known["forest-oob"].trials(blob) == 10
    with pytest.raises(InputError, match="no contestant 'nobody'"):
        contestants.select(["nobody"])


@pytest.mark.parametrize("name", ["ks-holm", "energy", "mmd-median"])
@pytest.mark.parametrize("scenario", ["small-mean", "census-share"])
def test_tables_and_arrays_reach_contestants(name, scenario):
    first = running.play(running.Job(scenario, name, 0, 2))
    again = running.play(running.Job(scenario, name, 1, 1))
    assert all(0 < pvalue <= 1 for pvalue in first.pvalues)
    assert again.pvalues == first.pvalues[1:]


def test_pictures_reach_rivals_as_rows_of_numbers():
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, size=(2, 12, 8, 8, 3), dtype=np.uint8)
    points, n = contestants.encoded((pictures[0], pictures[1]), "images")
    assert points.shape == (24, 192) and n == 12


def test_missing_cells_are_a_column_of_their_own():
    polars = pytest.importorskip("polars")
    x = polars.DataFrame({"age": [1.0, None], "town": ["a", None]})
    columns = contestants._table_columns(x, x)
    assert [column.dtype.kind for column in columns] == ["f", "b", "U"]
    assert columns[1].tolist() == [False, True, False, True]


# Running


def test_all_contestants_see_the_same_rows(monkeypatch):
    seen = []

    def spy(name):
        def test(pair, kind, rng):
            seen.append((pair[0].sum(), rng.random()))
            return 0.5

        return dataclasses.replace(contestants.contestants()["energy"], name=name, test=test)

    monkeypatch.setattr(running, "contestants", lambda: {"a": spy("a"), "b": spy("b")})
    running.play(running.Job("small-mean", "a", 3, 1))
    running.play(running.Job("small-mean", "b", 3, 1))
    running.play(running.Job("small-mean", "b", 4, 1))
    assert seen[0] == seen[1] != seen[2]


def test_breadth_comes_first_and_what_is_there_is_left_out():
    chosen = contestants.select(["energy", "forest-oob"])
    scenarios = select(["small-mean", "rounded"])
    jobs = running.missing(scenarios, chosen, {}, trials=12)
    assert len(jobs) == 2 * 2 * 3
    assert [job.first for job in jobs] == [0] * 4 + [5] * 4 + [10] * 4
    assert {job.contestant for job in jobs[:2]} == {"energy"}
    assert {job.count for job in jobs[8:]} == {2}
    by_default = running.missing(scenarios, chosen, {})
    assert {(job.contestant, job.count) for job in by_default} == {
        ("energy", 10),
        ("forest-oob", 5),
    }
    assert sum(job.count for job in by_default) == 2 * (100 + 10)
    known = {Cell("rounded", "energy"): Results(dict.fromkeys(range(7), 0.5), 0.1)}
    again = running.missing(scenarios, chosen, known, trials=12)
    cell = [job for job in again if (job.scenario, job.contestant) == ("rounded", "energy")]
    numbers = [(job.first, job.count) for job in cell]
    assert numbers == [(7, 3), (10, 2)]
    # What nobody has timed may take hours.
    quick = running.missing(scenarios, chosen, known, trials=12, longest=0.2)
    assert quick == cell
    assert not running.missing(scenarios, chosen, known, trials=12, longest=0.05)


def test_the_strongest_results_of_a_law_are_kept(tmp_path, recwarn):
    """A p-value that rounds to 0, or is 0 in floats, is the best result of all."""
    store = ArenaStore(tmp_path / "arena")
    store.check()
    store.append(Chunk("census-missing", "ks-holm", 0, (3e-9, 0.0), 0.1))
    (chunk,) = store.chunks()
    assert chunk.pvalues == (3e-9, 0.0)
    assert not recwarn.list
    played = running.play(running.Job("census-missing", "ks-holm", 0, 5))
    assert 0 < min(played.pvalues) < 5e-7  # which six decimals would show as 0


def test_chunks_survive_the_store(tmp_path):
    store = ArenaStore(tmp_path / "arena")
    store.check()
    chunk = Chunk("blob-10", "energy", 5, (0.5, 0.012346), 1.25)
    store.append(chunk)
    store.append(dataclasses.replace(chunk, first=7))
    store.append(dataclasses.replace(chunk, contestant="auto"))
    with (tmp_path / "arena" / "energy.jsonl").open("a") as file:
        file.write('{"scenario": "blob-10", "contest')
    chunks = store.chunks()
    assert len(chunks) == 3
    assert chunk in chunks
    tests = by_cell(chunks)
    assert tests[Cell("blob-10", "energy")].pvalues == {5: 0.5, 6: 0.012346, 7: 0.5, 8: 0.012346}
    assert tests[Cell("blob-10", "energy")].cpu_seconds == pytest.approx(0.625)


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(tmp_path):
    folder = str(tmp_path / "arena")
    command = ["bench", "arena", "--scenario", "small-mean", "--method", "energy"]
    command += ["--method", "ks-holm", "--results", folder, "--workers", "1"]
    first = invoke([*command, "--trials", "3"])
    assert first.exit_code == 0, first.output
    assert "6 tests are missing, in 2 jobs" in first.output
    more = invoke([*command, "--trials", "7"])
    assert more.exit_code == 0, more.output
    tests = by_cell(ArenaStore(folder).chunks())
    assert sorted(tests[Cell("small-mean", "energy")].pvalues) == list(range(7))
    again = invoke([*command, "--trials", "7"])
    assert "0 tests are missing, in 0 jobs" in again.output
    stopped = invoke([*command, "--trials", "50", "--time", "0"])
    assert stopped.exit_code == 0, stopped.output
    after = by_cell(ArenaStore(folder).chunks())
    assert len(after[Cell("small-mean", "energy")].pvalues) == 7


# The page


@pytest.fixture
def folder(tmp_path):
    """Results of two contestants in three scenarios and a null one."""
    store = ArenaStore(tmp_path / "arena")
    store.check()
    low = (0.001, 0.05, 0.01, 0.02)
    store.append(Chunk("small-mean", "energy", 0, low, 0.4))
    store.append(Chunk("small-mean", "ks-holm", 0, (0.5, 0.04, 0.9, 0.6), 4.0))
    store.append(Chunk("rounded", "energy", 0, (0.5, 0.5, 0.06, 0.04), 0.4))
    store.append(Chunk("rounded", "ks-holm", 0, low, 4.0))
    store.append(Chunk("blob-10", "energy", 0, (0.7, 0.8), 0.4))
    store.append(Chunk("small-mean-null", "energy", 0, (0.3, 0.04, 0.9, 0.8), 0.4))
    return tmp_path / "arena"


def test_powers_levels_and_distances_are_counted(folder):
    tests = by_cell(ArenaStore(folder).chunks())
    table = standing.scores(tests)
    assert table["small-mean"]["energy"].rate == 1.0
    assert table["small-mean"]["ks-holm"] == standing.Score(1, 4, 1.0)
    found = standing.lags(tests)
    # Nobody else was in blob-10.
    assert {name: lag.gap for name, lag in found["energy"].items()} == {
        "rounded": 0.75,
        "small-mean": -0.75,
    }
    assert found["ks-holm"]["small-mean"] == standing.Lag("small-mean", "energy", 4, 1, 4, 0.25)
    board = page.leaderboard(table, found)
    assert board[3].startswith("| energy | 2 | 0.62 | 0.38 | 0.75 (rounded) | 50 % | 0 | 0.250 |")


def test_a_gap_beyond_chance_is_clear():
    low = dict.fromkeys(range(20), 0.01)
    high = dict.fromkeys(range(10), 0.5) | dict.fromkeys(range(10, 30), 0.02)
    cells = {
        Cell("rounded", "auto"): Results(high, 1.0),
        Cell("rounded", "energy"): Results(low, 1.0),
    }
    found = standing.lags(cells)
    assert list(found) == ["energy", "auto"]  # the best comes first
    lag = found["auto"]["rounded"]
    assert (lag.tests, lag.own, lag.others) == (20, 10, 20)  # of the rows that both were given
    assert lag.pvalue == pytest.approx(2 * 0.5**10)
    assert lag.is_clear and not found["energy"]["rounded"].is_clear
    assert lag.is_beaten and not found["energy"]["rounded"].is_beaten
    assert page.weaknesses(found) == [lag]


def test_who_is_far_ahead_by_chance_hides_nobody_who_is_clearly_ahead():
    tests = {
        Cell("rounded", "auto"): pvalues(50, 100),
        Cell("rounded", "energy"): pvalues(70, 100),
        Cell("rounded", "forest"): Results({98: 0.01, 99: 0.02}, 1.0),
    }
    lag = standing.lags(tests)["auto"]["rounded"]
    assert (lag.rival, lag.gap) == ("forest", 1.0)
    assert lag.is_beaten and not lag.is_clear


def pvalues(rejected, tests):
    """Results of a cell in which the first tests rejected."""
    return Results({number: 0.01 if number < rejected else 0.5 for number in range(tests)}, 1.0)


@pytest.mark.parametrize(
    ("own", "theirs", "open_still"),
    [
        (pvalues(4, 5), pvalues(2, 5), True),  # two tests to none may be chance
        (pvalues(4, 5), pvalues(0, 5), False),
        (pvalues(2, 5), pvalues(5, 5), True),  # behind, which more tests are to confirm
        (pvalues(96, 100), pvalues(5, 5), False),  # nobody can be far ahead of 0.96
        (pvalues(60, 100), pvalues(60, 100), True),
    ],
)
def test_cells_are_undecided_until_the_default_is_ahead(own, theirs, open_still):
    tests = {
        Cell("rounded", "auto"): own,
        Cell("rounded", "energy"): theirs,
        Cell("rounded-null", "auto"): pvalues(0, 5),
        Cell("rounded-null", "energy"): pvalues(0, 5),
        Cell("blob-10", "energy"): pvalues(1, 5),  # beside nobody
    }
    cells = standing.undecided(tests)
    of_both = [Cell("rounded", "energy"), Cell("rounded", "auto")]
    assert cells == (of_both if open_still else [])
    chosen = contestants.select(["auto", "energy"])
    jobs = running.missing(select(["rounded*"]), chosen, tests, trials=200, only=cells)
    assert {Cell(job.scenario, job.contestant) for job in jobs} == set(cells)


def test_the_closest_are_run_first():
    tests = {
        Cell("rounded", "auto"): pvalues(5, 10),
        Cell("rounded", "forest"): pvalues(4, 10),
        Cell("rounded", "energy"): pvalues(6, 10),
        Cell("small-mean", "auto"): pvalues(5, 10),
        Cell("small-mean", "energy"): pvalues(5, 10),
    }
    cells = standing.undecided(tests)
    chosen = contestants.select(["forest", "energy", "auto"])
    scenarios = select(["small-mean", "rounded"])
    jobs = running.missing(scenarios, chosen, tests, trials=20, only=cells)
    # Once the next five tests of all cells, then once more.
    once = [Cell(job.scenario, job.contestant) for job in jobs if job.first == 10]
    assert once == cells
    assert [job.first for job in jobs] == [10] * 5 + [15] * 5
    assert set(cells[:2]) == {Cell("rounded", "auto"), Cell("rounded", "energy")}
    assert cells[-1] == Cell("rounded", "forest")


def test_the_page_and_its_picture_are_written(folder, tmp_path):
    pytest.importorskip("matplotlib")
    done = invoke(["bench", "arena", "--results", str(folder), "--write", str(tmp_path / "docs")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "docs" / "arena.md").read_text()
    assert "| small-mean | 30 + 30 | mean of 1 of 3 columns | 0.25 (4) | **1.00** (4) |" in text
    assert "| blob-10 | 180 + 180 |" in text and "**0.00**" not in text
    assert "## Rejections without a difference" in text
    assert "| a test takes | cells | fewest tests | median |" in text
    assert (tmp_path / "docs" / "images" / "arena.png").read_bytes()[:4] == b"\x89PNG"
    shown = invoke(["bench", "arena", "--results", str(folder), "--show"])
    assert "## The leaderboard" in shown.output


def test_numbers_of_tests_are_told_by_what_a_test_costs():
    table = {
        "blob-10": {"auto": standing.Score(1, 40, 0.2), "energy": standing.Score(1, 100, 0.05)},
        "blob-15": {"auto": standing.Score(1, 10, 0.3), "mmd-d": standing.Score(1, 5, 60.0)},
    }
    _, _, *lines = page.numbers_of_tests(table)
    assert lines == [
        "| up to 0.1 CPU s | 1 | 100 | 100 |",
        "| up to 0.3 CPU s | 2 | 10 | 25 |",
        "| more | 1 | 5 | 5 |",
    ]


def test_where_the_default_is_behind_is_said_on_common_rows(folder):
    store = ArenaStore(folder)
    store.append(Chunk("small-mean", "auto", 0, (0.5, 0.04, 0.9), 0.4))  # the fourth is not known
    store.append(Chunk("rounded", "auto", 0, (0.01, 0.01, 0.01, 0.01), 0.4))
    tests = by_cell(store.chunks())
    behind = page.weaknesses(standing.lags(tests))
    assert behind == [standing.Lag("small-mean", "energy", 3, 1, 3, 0.5)]
    text = page.page(tests)
    assert "| small-mean | 0.33 | energy | 1.00 | 0.67 | 3 | 0.5 | may be chance |" in text


def test_the_reason_is_told_where_a_gap_is_clear():
    tests = {
        Cell("wine-classes", "auto"): pvalues(30, 100),
        Cell("wine-classes", "energy"): pvalues(60, 100),
    }
    _, _, line = page.weakness_table(page.weaknesses(standing.lags(tests)))
    assert line.endswith(f"| {page.REASONS['wine-classes']} |")


def test_few_tests_make_nobody_the_best():
    tests = {
        Cell("rounded", "auto"): pvalues(70, 100),
        Cell("rounded", "energy"): pvalues(60, 100),
        Cell("rounded", "forest"): pvalues(5, 5),
    }
    text = page.page(tests)
    assert "**0.70** (100) | 0.60 (100) | 1.00 (5) |" in text


def test_the_default_stands_beside_the_paper_s_test_on_common_rows():
    tests = {
        Cell("census-share", "auto"): pvalues(90, 100),
        Cell("census-share", "mmd-d"): pvalues(10, 50),
        Cell("census-mean", "auto"): pvalues(30, 60),
        Cell("census-mean", "mmd-d"): pvalues(15, 30),
        Cell("census-boolean", "auto"): pvalues(30, 60),
    }
    _, _, line = page.learned_table(tests)
    assert line == "| mixed tables | 2 | 1.00 | 0.35 | 2.9 |"


def test_the_best_of_the_paper_stands_beside_the_default():
    score = standing.Score(rejections=9, tests=10, cpu_seconds=1.0)
    lines = page.published_table({"higgs-3000": {"auto": score}, "digits-200": {"energy": score}})
    assert lines[2:] == ["| higgs-3000 | 3000 + 3000 | mmd-d | 0.403 | 0.90 | 10 |"]


def test_what_there_is_to_run_is_listed_and_slips_get_a_sentence(tmp_path):
    listed = invoke(["bench", "arena", "--list", "--scenario", "blob-*"])
    assert "blob-20" in listed.output and "360 + 360" in listed.output
    assert "forest-oob" in listed.output and "higgs-1000" not in listed.output
    empty = invoke(["bench", "arena", "--results", str(tmp_path), "--show"])
    assert empty.exit_code != 0 and "no results yet" in empty.output
    both = invoke(["bench", "arena", "--list", "--show"])
    assert both.exit_code != 0 and "give one of them" in both.output
