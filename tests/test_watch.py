"""A watch: e-values are exact, no label leaks, nothing is counted twice, files bring all of it back."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import twosample
from twosample import InputError, Schedule, Watch
from twosample._saving.saving import verified
from twosample._watch.betting import Ledger, boosted, log_evalues
from twosample._watch.rows import Reference
from twosample._watch.state import as_bytes, from_bytes, locked

WITNESSES = ["spectral", "columns", LogisticRegression()]


def table(rng, rows, *, shift=0.0, levels="abc"):
    return pd.DataFrame(
        {
            "size": rng.normal(shift, size=rows),
            "kind": rng.choice(list(levels), size=rows),
            "new": rng.random(rows) < 0.3,
        }
    )


def again(watch, witness=None):
    """The same watch, once more."""
    if not isinstance(witness, str):
        return from_bytes(as_bytes(watch), witness)
    return from_bytes(as_bytes(watch))


def state_of(watch):
    """All that a file has of it, in an order."""
    header, tensors = verified(as_bytes(watch))
    return header, {name: tensor.tolist() for name, tensor in sorted(tensors.items())}


# The law


def test_the_evalues_of_all_labellings_have_the_mean_one():
    scores = torch.randn(40, dtype=torch.float64)
    evalues = log_evalues(scores).exp()
    assert float(evalues.mean()) == pytest.approx(1, abs=1e-12)
    expected = scores.exp() / scores.exp().mean()
    torch.testing.assert_close(evalues, expected)


@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("cap", [1.001, 2.0, 19.0, 400.0, 1e9])
def test_a_boosted_bet_is_fair_and_pays_no_more_than_is_needed(spread, cap):
    generator = torch.Generator().manual_seed(0)
    scores = spread * torch.randn(40, dtype=torch.float64, generator=generator)
    plain = log_evalues(scores)
    paid = boosted(plain, math.log(cap)).exp()
    assert float(paid.mean()) == pytest.approx(1, abs=1e-9)
    assert float(paid.max()) <= cap * (1 + 1e-12)
    # Nobody below the cap loses: all get the same factor, which is at least 1.
    below = paid < cap * (1 - 1e-9)
    factors = paid[below] / plain[below].exp()
    assert factors.min() >= 1 - 1e-9
    torch.testing.assert_close(factors, factors[:1].expand_as(factors))


def test_ties_at_the_cap_and_equal_scores():
    tied = log_evalues(torch.tensor([3.0, 3.0, 3.0, 0.0], dtype=torch.float64))
    paid = boosted(tied, math.log(1.2)).exp()
    torch.testing.assert_close(paid, torch.tensor([1.2, 1.2, 1.2, 0.4], dtype=torch.float64))
    even = log_evalues(torch.zeros(5, dtype=torch.float64))
    torch.testing.assert_close(boosted(even, math.log(1.001)), even)


@pytest.mark.parametrize("witness", WITNESSES, ids=str)
def test_given_the_past_and_the_pooled_rows_the_mean_over_labellings_is_one(witness):
    # All 20 labellings of 6 rows, each through everything that `update` does. A label that leaked
    # into the views, the scales or the covariance would move the mean.
    rng = np.random.default_rng(0)
    watch = Watch(witness=witness, permutations=19, rng=0)
    for _ in range(3):
        watch.update(table(rng, 20), table(rng, 15, shift=0.8))
    rows = pd.concat([table(rng, 3), table(rng, 3, shift=3.0, levels="xyz")], ignore_index=True)
    rows.loc[4, "size"] = np.nan  # a column wakes up: views are fitted again
    evalues = []
    for in_x in itertools.combinations(range(6), 3):
        others = [row for row in range(6) if row not in in_x]
        copy = again(watch, witness)
        record = copy.update(rows.iloc[list(in_x)], rows.iloc[others])
        evalues.append(record.evalue)
    assert np.std(evalues) > 1e-3
    assert np.mean(evalues) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.05, 0.99])
@pytest.mark.parametrize("witness", ["spectral", "columns"])
def test_the_first_batch_has_the_mean_one_too(witness, alpha):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(6, 2))
    rows[3:] += 2
    evalues = []
    for in_x in itertools.combinations(range(6), 3):
        others = [row for row in range(6) if row not in in_x]
        watch = Watch(witness=witness, alpha=alpha, permutations=19, rng=0)
        evalues.append(watch.update(rows[list(in_x)], rows[others]).evalue)
    assert np.mean(evalues) == pytest.approx(1, abs=1e-6)
    if alpha == 0.99:  # that is what an alarm needs, and a bet pays no more
        assert max(evalues) == pytest.approx(1 / 0.99, abs=1e-6)


def test_groups_move_together_within_strata():
    # Four customers of one shop, two of another: 6 x 2 labellings.
    rng = np.random.default_rng(3)
    watch = Watch(witness="columns", permutations=19, rng=0)
    watch.update(rng.normal(size=(20, 2)), rng.normal(1.0, size=(20, 2)))
    customers = np.repeat(np.arange(6), 3)
    shops = np.where(customers < 4, 0, 1)
    rows = rng.normal(size=(18, 2)) + rng.normal(size=(6, 2))[customers] + 2 * shops[:, None]
    evalues = []
    for first in itertools.combinations(range(4), 2):
        for second in (4, 5):
            in_x = np.isin(customers, [*first, second])
            record = again(watch, "columns").update(
                rows[in_x],
                rows[~in_x],
                groups=(customers[in_x], customers[~in_x]),
                strata=(shops[in_x], shops[~in_x]),
            )
            evalues.append(record.evalue)
    assert np.std(evalues) > 1e-3
    assert np.mean(evalues) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("witness", WITNESSES, ids=str)
def test_groups_of_different_sizes_have_the_mean_one_too(witness):
    # The sizes of X and Y are those of a labelling: nothing may be learned from them.
    rng = np.random.default_rng(3)
    watch = Watch(witness=witness, permutations=19, rng=0)
    watch.update(rng.normal(size=(20, 2)), rng.normal(1.0, size=(20, 2)))
    customers = np.repeat(np.arange(6), [1, 2, 3, 4, 9, 6])
    rows = rng.normal(size=(25, 2)) + rng.normal(size=(6, 2))[customers]
    evalues = []
    for of_x in itertools.combinations(range(6), 3):
        in_x = np.isin(customers, of_x)
        groups = (customers[in_x], customers[~in_x])
        record = again(watch, witness).update(rows[in_x], rows[~in_x], groups=groups)
        evalues.append(record.evalue)
    assert np.std(evalues) > 1e-3
    assert np.mean(evalues) == pytest.approx(1, abs=1e-6)


def test_with_a_reference_too():
    # Rows of the batch and of the reference change places; all else is the same.
    rng = np.random.default_rng(2)
    watch = Watch(reference=table(rng, 300), witness="columns", permutations=19, rng=0)
    watch.update(table(rng, 30))
    new = rng.normal(size=(3, watch._reference.rows.shape[1]))
    rows = torch.cat([watch._reference.rows[:3], torch.from_numpy(new)])
    left = watch._reference.rows[3:]
    evalues = []
    for in_x in itertools.combinations(range(6), 3):
        others = [row for row in range(6) if row not in in_x]
        copy = again(watch)
        copy._reference = Reference(torch.cat([rows[list(in_x)], left]))
        batch = rows[others]
        copy._door = StubDoor(copy._door, batch)
        evalues.append(copy.update("three rows").evalue)
    assert np.std(evalues) > 1e-3
    assert np.mean(evalues) == pytest.approx(1, abs=1e-6)


class StubDoor:
    """A door that gives rows which are encoded already."""

    def __init__(self, door, rows):
        self.schema = door.schema
        self.scaling = door.scaling
        self.effects = door.effects
        self.rows = rows

    def encode(self, X, Y, design=None):
        samples = twosample.Samples(self.rows, self.rows, self.schema)
        return samples, ()


def alarms(streams, looks, make):
    """How many of so many null streams raise an alarm."""
    raised = 0
    for stream in range(streams):
        rng = np.random.default_rng([7, stream])
        watch, draw = make(rng, stream)
        for _ in range(looks):
            if watch.update(*draw()).alarm:
                raised += 1
                break
    return raised


def two_streams(rng, seed):
    def draw():
        n, m = rng.integers(3, 12, size=2)
        return rng.standard_t(2, size=(n + 5, 2)), rng.standard_t(2, size=(m + 5, 2))

    return Watch(witness="columns", permutations=39, rng=seed), draw


def one_stream(rng, seed):
    watch = Watch(reference=table(rng, 400), witness="columns", permutations=39, rng=seed)
    return watch, lambda: (table(rng, 10),)


@pytest.mark.parametrize("make", [two_streams, one_stream])
def test_false_alarms_are_no_more_than_alpha(make):
    streams = 12
    assert alarms(streams, 10, make) <= binom.isf(1e-6, streams, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("make", [two_streams, one_stream])
def test_false_alarms_are_no_more_than_alpha_in_many_streams(make):
    streams = 60
    assert alarms(streams, 25, make) <= binom.isf(1e-6, streams, 0.05)


def test_the_same_reference_every_day_would_raise_false_alarms():
    # What spending prevents: 15 rows of a reference, compared with every batch again.
    def trap(rng, seed):
        reference = rng.normal(size=(15, 4))

        def draw():
            return reference, rng.normal(size=(100, 4))

        return Watch(witness="columns", permutations=39, rng=seed), draw

    streams = 9
    assert alarms(streams, 25, trap) > binom.isf(1e-6, streams, 0.05)


# What it finds


def test_a_difference_raises_an_alarm_that_stays_until_restart():
    rng = np.random.default_rng(0)
    watch = Watch(rng=0)
    records = [watch.update(table(rng, 80), table(rng, 60, shift=0.6)) for _ in range(6)]
    assert records[-1].alarm and watch.alarm
    first = next(record for record in records if record.alarm)
    assert watch.alarmed_at == first.number and first.pvalue <= 0.05
    assert first.wealth == pytest.approx(20, rel=1e-6) and first.wealth >= 20
    assert records[-1].wealth > 1000  # beyond the alarm nothing is cut off
    assert max(first.leading, key=first.leading.get) in ("size", "all columns")
    assert records[-1].wealth == pytest.approx(np.prod([record.evalue for record in records]))
    watch.restart()
    assert not watch.alarm and watch.wealth == 1


def test_a_new_level_and_missing_values_are_seen_after_many_batches_without():
    rng = np.random.default_rng(0)
    for change in ("level", "missing"):
        watch = Watch(rng=0)
        for _ in range(4):
            watch.update(table(rng, 60), table(rng, 60))
        new = table(rng, 60, levels="abcz" if change == "level" else "abc")
        if change == "missing":
            new.loc[:15, "size"] = np.nan
        record = watch.update(table(rng, 60), new)
        assert record.evalue > 10
        assert bool(record.notes) == (change == "level")


def test_missing_values_can_be_refused():
    rng = np.random.default_rng(0)
    watch = Watch(columns=twosample.Columns(missing="error"), rng=0)
    watch.update(table(rng, 20), table(rng, 20))
    new = table(rng, 20)
    new.loc[3, "size"] = np.nan
    with pytest.raises(InputError, match="missing"):
        watch.update(table(rng, 20), new)
    assert watch.batches == 1


def test_a_learned_kernel_and_images_can_watch():
    rng = np.random.default_rng(0)
    watch = Watch(witness="mmd-o", rng=0)
    for _ in range(4):
        record = watch.update(rng.normal(size=(60, 2)), rng.normal(1.0, size=(60, 2)))
    assert record.alarm
    watch = Watch(rng=0)
    for _ in range(2):
        X = rng.integers(0, 200, size=(30, 8, 8), dtype=np.uint8)
        Y = rng.integers(0, 256, size=(30, 8, 8), dtype=np.uint8)
        record = watch.update(X, Y)
    assert record.evalue > 1 and record.effects == {}


def test_the_detector_is_the_sum_over_all_starts_and_begins_again_after_an_alarm():
    evalues = [0.5, 3.0, 0.9, 2.0]
    ledger = Ledger.opened(0.05, 1000)
    for evalue in evalues:
        ledger = ledger.after(math.log(evalue))
    starts = [math.prod(evalues[start:]) for start in range(4)]
    assert ledger.wealth == pytest.approx(sum(starts))
    rng = np.random.default_rng(0)
    watch = Watch(run_length=30, witness="columns", rng=0)
    raised = []
    for day in range(30):
        X = rng.normal(size=(40, 2))
        Y = rng.normal(0.0 if day < 15 else 1.0, size=(40, 2))
        raised.append(watch.update(X, Y).alarm)
    assert not any(raised[:15]) and sum(raised[15:]) > 1
    assert raised[15:].index(True) < 4
    assert math.isnan(watch.history[-1].pvalue)


# What it refuses


def test_what_cannot_be_counted_is_refused_and_changes_nothing():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    watch = Watch(rng=0)
    watch.update(X, Y, name="monday")
    before = state_of(watch)
    wrong = [
        (lambda: watch.update(X[:50], rng.normal(size=(60, 2)), name="monday"), "counted already"),
        (lambda: watch.update(Y, rng.normal(size=(60, 2))), "same rows as Y of batch 1"),
        (lambda: watch.update(rng.normal(size=(60, 2))), r"update\(X, Y\)"),
        (lambda: watch.update(rng.normal(size=(60, 3)), rng.normal(size=(60, 3))), "columns"),
        (lambda: Watch(reference=X, rng=0).update(Y, groups=([1], [2])), "no groups"),
        (lambda: Watch(seed=0), "rng=0"),
        (lambda: watch.refill(X), "no reference"),
        (lambda: Watch(rng=0).update(X[:2], Y[:2]), "at least 6"),
        (lambda: Watch(reference=X[:40]), "set aside"),
        (lambda: Watch(reference=X, rng=0).update(X, Y), r"update\(Y\)"),
        (lambda: Watch(witness="no such"), "no witness"),
        (lambda: Watch(witness=3), "cannot be a witness"),
        (lambda: Watch(witness="mmd-median"), "learns no kernel"),
        (lambda: Watch(alpha=0), "alpha"),
        (lambda: Watch(run_length=1), "run_length"),
        (lambda: Watch().report("page.html"), "no batch"),
    ]
    for call, words in wrong:
        with pytest.raises((InputError, twosample.IncompatibleParts), match=words):
            call()
    assert state_of(watch) == before


def test_every_row_of_a_reference_is_compared_once_and_then_it_is_spent():
    rng = np.random.default_rng(0)
    watch = Watch(reference=np.arange(300.0), witness="columns", rng=0)
    aside = 300 - watch.reference_left
    seen = []
    while watch.reference_left:
        seen += [watch._reference.rows[:70]]
        record = watch.update(rng.uniform(0, 300, size=70))
    assert aside == 60 and record.sizes == (30, 70)
    assert len(torch.cat(seen).unique(dim=0)) == 240
    with pytest.raises(InputError, match="spent"):
        watch.update(rng.uniform(0, 300, size=70))
    watch.refill(rng.uniform(0, 300, size=100))
    assert watch.update(rng.uniform(0, 300, size=70)).reference_left == 30


# Files


@pytest.mark.parametrize("witness", [*WITNESSES, "mmd-o"], ids=str)
@pytest.mark.parametrize("with_reference", [False, True])
def test_a_file_brings_everything_back_to_the_bit(witness, with_reference, tmp_path):
    rng = np.random.default_rng(0)
    options = {"witness": witness, "rng": 5}
    if with_reference:
        options |= {"reference": table(rng, 400), "spend": 30, "run_length": 50}
    whole = Watch(**options)
    parts = Watch(**options)
    path = tmp_path / "state"
    for _ in range(3):
        batch = [table(rng, 40)] if with_reference else [table(rng, 30), table(rng, 40)]
        one = whole.update(*batch)
        other = parts.update(*batch)
        parts.save(path)
        parts = Watch.load(path, witness=None if isinstance(witness, str) else witness)
        assert repr(one) == repr(other)
    assert repr(parts.history) == repr(whole.history) and repr(parts) == repr(whole)


def test_the_size_of_the_file_is_bounded():
    rng = np.random.default_rng(0)
    watch = Watch(witness="columns", permutations=9, rng=0)
    sizes = []
    for _ in range(8):
        watch.update(rng.normal(size=(1500, 3)), rng.normal(size=(1500, 3)))
        sizes.append(len(as_bytes(watch)))
    assert sizes[-1] - sizes[3] < 5000 and sizes[-1] < 400_000


def test_damaged_and_other_files_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    watch = Watch(witness="columns", rng=0)
    watch.update(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)))
    path = tmp_path / "state"
    watch.save(path)
    content = path.read_bytes()
    other = bytearray(content)
    other[-5] ^= 1
    (tmp_path / "damaged").write_bytes(other)
    (tmp_path / "short").write_bytes(content[:-9])
    for name in ("damaged", "short", "none"):
        with pytest.raises(InputError, match=name):
            Watch.load(tmp_path / name)
    with pytest.raises(InputError, match="not that of a fitted test"):
        twosample.load(path)
    fitted = twosample.mmd_o().fit(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), rng=0)
    fitted.save(tmp_path / "fitted")
    with pytest.raises(InputError, match="not a watch"):
        Watch.load(tmp_path / "fitted")
    later = Watch(witness=LogisticRegression(), rng=0)
    later.save(tmp_path / "classifier")
    with pytest.raises(InputError, match="load with witness"):
        Watch.load(tmp_path / "classifier")
    with pytest.raises(InputError, match="the same one"):
        Watch.load(tmp_path / "classifier", witness=LogisticRegression(C=3.0))


def test_two_that_update_one_state_are_told(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "state"
    watch = Watch(witness="columns", rng=0)
    watch.update(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)))
    watch.save(path)
    one = Watch.load(path)
    other = Watch.load(path)
    one.update(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)))
    one.save(path)
    other.update(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)))
    with pytest.raises(InputError, match="somebody else"):
        other.save(path)
    with pytest.raises(InputError, match="not loaded from it"):
        Watch(rng=0).save(path)
    with locked(path), pytest.raises(InputError, match="in use by another process"):
        one.save(path)
    one.save(path)


def test_the_report_says_what_changed(tmp_path):
    pytest.importorskip("jinja2")
    rng = np.random.default_rng(0)
    watch = Watch(witness="columns", rng=0)
    for _ in range(3):
        watch.update(table(rng, 80), table(rng, 60, shift=2.0))
    assert watch.report(tmp_path / "page.html") == tmp_path / "page.html"
    assert "What changed" in watch.report().html
    page = (tmp_path / "page.html").read_text()
    assert "Alarm since batch" in page and "What changed" in page and page.count("<svg") == 4


# Schedules


@pytest.mark.parametrize("shape", [1.0, 3.0])
def test_a_schedule_spends_alpha_and_no_more(shape):
    union = Schedule(looks=30, alpha=0.05, shape=shape)
    assert sum(union.levels) == pytest.approx(0.05)
    own = Schedule(looks=30, alpha=0.05, shape=shape, independent=True)
    assert 1 - math.prod(1 - level for level in own.levels) == pytest.approx(0.05)
    assert all(a > b for a, b in zip(own.levels, union.levels, strict=True))
    assert union.reject(1, union.level(1)) and not union.reject(1, 0.9)
    assert 1 / (union.permutations(1) + 1) <= union.level(1) / 5


def test_a_look_that_was_not_planned_is_refused():
    with pytest.raises(InputError, match="spent after 3"):
        Schedule(looks=3).level(4)
    with pytest.raises(InputError, match="shape"):
        Schedule(looks=3, shape=0)
    with pytest.raises(InputError, match="pvalue"):
        Schedule(looks=3).reject(1, 0.0)
