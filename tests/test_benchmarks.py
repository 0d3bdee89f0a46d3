"""The benchmarks that need no machine of their own: their arithmetic, their tables, and that the
page shows them."""

import json
import math
import subprocess
import sys
from pathlib import Path

import _measure
import answers
import default
import effects
import linear
import page
import peers
import pytest
import scale
import shares
import summary
import time_to_power
import training_luck
import tried
import where

import twosample
from twosample._random import Generators
from twosample.bench.arena.running import seed
from twosample.bench.arena.scenarios import SCENARIOS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text()
STORES = [linear.STORE, scale.STORE, peers.STORE, summary.STORE]


def test_page_has_the_tables_that_the_scripts_print():
    assert scale.table(_measure.read(scale.STORE)) in PAGE
    assert time_to_power.table(time_to_power.stored()) in PAGE
    records = training_luck.stored()
    assert training_luck.table(records) in PAGE
    assert linear.table(_measure.read(linear.STORE)) in PAGE
    assert peers.table(_measure.read(peers.STORE)) in PAGE
    for picture in ("time", "memory"):
        assert f"images/performance-{picture}.png" in PAGE
        assert (ROOT / "docs" / "images" / f"performance-{picture}.png").stat().st_size > 10_000


def test_pages_of_answers_have_the_tables_that_the_scripts_print():
    effects_page = (ROOT / "docs" / "effects.md").read_text()
    assert effects.tables().strip() in effects_page
    assert answers.table() in effects_page
    assert page.table() in (ROOT / "docs" / "report.md").read_text()


def test_a_report_of_many_columns_stays_small_and_opens_at_once():
    """As the benchmark has measured it: times are not for tests."""
    (largest,) = [line for line in _measure.read(page.RESULTS) if line["rows"] == 100_000][-1:]
    assert largest["columns"] == 200 and largest["megabytes"] < 5
    assert max(largest["desktop"], largest["phone"]) < 2


def test_shares_as_they_are_give_the_p_value_of_the_test():
    found = shares.pvalues("small-mean", 5)
    generators = Generators(seed("small-mean", shares.FIRST + 5))
    X, Y = SCENARIOS["small-mean"].draw(generators.numpy("samples"))
    test = twosample.spectral(permutations=shares.PERMUTATIONS)
    result = test.run(X, Y, rng=generators.numpy("test"))
    assert found["as they are"] == pytest.approx(result.pvalue)
    assert found["no means"] != found["as they are"]


def test_the_decision_has_the_tables_of_what_was_tried():
    decision = shares.PAGE.read_text()
    assert shares.table() in decision
    for text in tried.tables().values():
        assert text in decision


def test_pages_have_the_tables_of_level_luck_and_false_findings():
    assert where.table() in where.PAGE.read_text()
    for text in default.tables().values():
        assert text in PAGE


def test_a_run_that_is_started_again_does_what_is_missing(tmp_path, capsys):
    store = tmp_path / "store.jsonl"
    jobs = [(("a", number), lambda number=number: {"twice": 2 * number}) for number in range(3)]
    _measure.append(store, {"name": "a", "number": 1, "twice": -1})
    _measure.run_missing(store, ("name", "number"), jobs, minutes=0)
    assert len(_measure.read(store)) == 1
    assert "run the same command again" in capsys.readouterr().out
    _measure.run_missing(store, ("name", "number"), jobs, minutes=1)
    assert [(line["number"], line["twice"]) for line in _measure.read(store)] == [
        (1, -1),
        (0, 0),
        (2, 4),
    ]


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.stem)
def test_stored_lines_are_records_of_no_machine_in_particular(store):
    for record in _measure.read(store):
        assert "date" in record
        assert "://" not in json.dumps(record)
        assert str(Path.home()) not in json.dumps(record)


def test_large_runs_keep_what_was_promised():
    last = {r["n"]: r for r in _measure.read(scale.STORE)}
    assert max(r["peak_mebibytes"] for r in last.values()) < 2048
    slope = _measure.exponent(list(last), [r["cpu_seconds"] for r in last.values()])
    assert slope < 2.1


def test_roofline_measures_something_plausible():
    found = scale.roofline(64, [3, 5], seconds=0.05)
    assert 1e-11 < found["value"] < 1e-6  # seconds for a kernel value
    assert 0.01 < found["gigaflops"] < 10_000
    assert found["exponentials"] > 0.001


@pytest.mark.parametrize("points", [1, 511, 512, 513, 2000])
def test_values_needed_counts_the_upper_tiles(points):
    rows = 512
    edges = [range(start, min(start + rows, points)) for start in range(0, points, rows)]
    expected = sum(len(a) * len(b) for k, a in enumerate(edges) for b in edges[k:])
    assert scale.values_needed(points, rows) == expected


def test_exponent_is_that_of_a_power():
    sizes = [10, 100, 1000]
    assert _measure.exponent(sizes, [3 * n**2 for n in sizes]) == pytest.approx(2)
    assert math.isnan(_measure.exponent([10], [1.0]))


def test_write_between_replaces_only_what_is_between(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("head\n<!-- a: begin -->\nold\n<!-- a: end -->\ntail\n")
    for text in ("one", "two"):
        _measure.write_between(page, "a", text)
    assert page.read_text() == "head\n<!-- a: begin -->\n\ntwo\n\n<!-- a: end -->\ntail\n"


def test_peers_get_the_same_scaled_data():
    x, y, sigma = peers.data(300)
    again, _, _ = peers.data(300)
    assert (x == again).all()
    assert x.shape == y.shape == (300, peers.DIMENSION)
    assert sigma == pytest.approx(math.sqrt(2 * peers.DIMENSION), rel=0.05)


@pytest.mark.parametrize("key", ["ours-median", "ours-energy", "ours-c2st", "sklearn-c2st"])
def test_contestants_of_this_environment_give_pvalues(key):
    statistic, pvalue = peers.PEERS[key].load()(*peers.data(40))
    assert math.isfinite(statistic)
    assert 1 / (1 + peers.PERMUTATIONS) <= pvalue <= 1


def test_energy_is_the_energy_distance():
    x, y, sigma = peers.data(60)

    def mean(a, b):
        return ((a[:, None] - b[None]) ** 2).sum(-1).__pow__(0.5).mean()

    statistic, _ = peers.PEERS["ours-energy"].load()(x, y, sigma)
    assert statistic == pytest.approx(2 * mean(x, y) - mean(x, x) - mean(y, y), rel=1e-3)


def test_a_run_that_takes_too_much_is_seen(monkeypatch):
    waiting = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    try:
        assert peers.too_much(waiting.pid, limit=60, gibibytes=4) is None
        assert peers.too_much(waiting.pid, limit=60, gibibytes=1e-6) == "memory"
        assert peers.too_much(waiting.pid, limit=-1, gibibytes=4) == "time"
    finally:
        waiting.kill()
        waiting.wait()


def test_sizes_that_cannot_end_are_not_tried():
    done = {("hyppo-mmd", 500): {"cpu_seconds": 12.0}, ("hyppo-mmd", 250): {"cpu_seconds": 3.0}}
    assert peers.expected("hyppo-mmd", 1000, done, limit=60) is None
    assert peers.expected("hyppo-mmd", 2000, done, limit=60) == {
        "stopped": "expected",
        "expected_seconds": 192,
    }
    assert peers.expected("dcor-energy", 20_000, done, limit=60) is None


def test_reasons_name_no_host_and_no_folder():
    pip = "WARNING: something\nERROR: Could not find x\nERROR: No matching distribution found for x"
    assert peers.reason(pip) == "No matching distribution found for x"
    assert "://" not in peers.reason("error: failed to fetch https://example.org/simple/x")
    old = "ERROR: Ignored the following versions that require a different python version: 1.0 Requires-Python <3.10\n"
    assert peers.reason(old) == "Requires-Python <3.10"


def test_summary_flags_a_loss_of_more_than_a_quarter():
    lines, lost = summary.compare({"a": 2.0, "b": 3.0, "c": 1.0}, {"a": 4.0, "b": 3.9})
    assert lost == ["a"]
    assert sum("LOSS" in line for line in lines) == 1
    records = [
        {"processor": "p", "ratios": {"a": 1.0, "b": 5.0}},
        {"processor": "p", "ratios": {"a": 2.0}},
    ]
    assert summary.before([*records, {"processor": "q", "ratios": {"a": 9.0}}], "p") == {
        "a": 2.0,
        "b": 5.0,
    }
