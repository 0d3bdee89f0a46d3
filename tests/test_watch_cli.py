"""`twosample watch`: night after night, through kills, with a state and a log that agree."""

from __future__ import annotations

import configparser
import doctest
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from twosample import Watch
from twosample._cli.main import build
from twosample._watch import state as states
from twosample._watch.state import locked

CHEAP = ["--witness", "columns", "--seed", "3"]


@pytest.fixture
def shop(tmp_path, monkeypatch) -> Path:
    """A folder with a reference and five days, of which the last two have other prices."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    orders(rng, 1200).to_csv("year.csv", index=False)
    Path("days").mkdir()
    for day in range(1, 6):
        shift = 0.0 if day < 4 else 1.5
        orders(rng, 80, shift).to_csv(f"days/2026-03-0{day}.csv", index=False)
    Path("days/README").write_text("no batch")
    return tmp_path


def orders(rng, rows, shift=0.0):
    kinds = rng.choice(["book", "pen", "lamp"], size=rows)
    return pd.DataFrame({"price": rng.gamma(2, size=rows) + shift, "kind": kinds})


def run(*arguments, status=0):
    done = CliRunner().invoke(build(), ["watch", *map(str, arguments)])
    assert done.exit_code == status, (done.output, done.exception)
    return done


def answer(*arguments, status=0):
    return json.loads(run(*arguments, "--json", status=status).stdout)


def logged(path="shop.watch"):
    return [json.loads(line) for line in Path(f"{path}.jsonl").read_text().splitlines()]


def test_a_nightly_job_counts_what_is_new_in_order_and_says_when_there_is_an_alarm(shop):
    start = ["shop.watch", "days", "--reference", "year.csv", *CHEAP]
    kept = {}
    for name in ("2026-03-04.csv", "2026-03-05.csv"):
        kept[name] = (shop / "days" / name).read_bytes()
        (shop / "days" / name).unlink()
    first = answer(*start)
    assert [each["name"] for each in first["new"]] == [
        f"days/2026-03-0{day}.csv" for day in (1, 2, 3)
    ]
    assert not first["alarm"] and first["reference_left"] == 1200 - 240 - 240
    assert answer(*start)["new"] == []
    for name, content in kept.items():
        (shop / "days" / name).write_bytes(content)
    night = answer(*start, "--prometheus", "shop.prom", "--report", "shop.html", status=1)
    assert night["alarm"] and len(night["new"]) == 2 and night["alarmed_at"] in (4, 5)
    assert next(iter(night["new"][-1]["leading"])) == "price"
    metrics = Path("shop.prom").read_text()
    assert 'twosample_watch_alarm{state="shop.watch"} 1\n' in metrics
    assert 'twosample_watch_batches_total{state="shop.watch"} 5\n' in metrics
    assert "Alarm since batch" in Path("shop.html").read_text()
    assert [line["number"] for line in logged()] == [1, 2, 3, 4, 5]
    # It stays until somebody has seen to it.
    assert "ALARM since" in run(*start, status=1).stdout
    assert "no alarm" in run("shop.watch", "--restart").stdout


def test_it_gives_what_python_gives(shop):
    from twosample._data.tables import Source

    run("shop.watch", "days", "--reference", "year.csv", *CHEAP, status=1)
    watch = Watch(reference=pd.read_csv("year.csv"), witness="columns", rng=3)
    for line in logged():
        record = watch.update(Source(pd.read_csv(line["name"]), "a file"), name=line["name"])
        assert record.to_dict() == line


def test_two_streams_in_one_file_and_queries_and_a_change_point(shop):
    rng = np.random.default_rng(1)
    database = sqlite3.connect("shop.db")
    for day in (1, 2):
        both = pd.concat([orders(rng, 60).assign(arm="a"), orders(rng, 50, 2.0).assign(arm="b")])
        both.assign(day=day).to_sql("orders", database, if_exists="append", index=False)
    database.commit()
    database.close()
    query = "shop.db::SELECT price, kind, arm FROM orders WHERE day = {}"
    first = answer("ab.watch", query.format(1), "--by", "arm=a,b", *CHEAP, "--run-length", 500)
    assert first["new"][0]["sizes"] == [60, 50] and first["threshold"] == 500
    second = answer("ab.watch", query.format(2), "--name", "tuesday", status=1)
    assert second["new"][0]["name"] == "tuesday"
    assert second["new"][0]["pvalue"] is None


def test_what_is_wrong_is_a_sentence_and_nothing_is_counted(shop):
    start = ["shop.watch", "days/2026-03-01.csv", "--reference", "year.csv", *CHEAP]
    assert "say what to watch" in run("shop.watch", "days", status=2).stderr
    run(*start)
    other = run("shop.watch", "days", "--reference", "days/2026-03-02.csv", status=2)
    assert "was made with --reference year.csv" in other.stderr
    assert "one batch" in run("shop.watch", "days", "--name", "x", status=2).stderr
    assert "none.csv" in run("shop.watch", "none.csv", status=2).stderr
    Path("copy.csv").write_bytes(Path("days/2026-03-01.csv").read_bytes())
    assert "same rows" in run("shop.watch", "copy.csv", status=2).stderr
    with locked("shop.watch"):
        assert "another process" in run("shop.watch", "days", status=2).stderr
    assert len(logged()) == 1
    assert Watch.load("shop.watch").batches == 1
    Path("shop.watch").write_bytes(b"nothing")
    assert "not a safetensors file" in run("shop.watch", "days", status=2).stderr


def test_a_kill_between_state_and_log_loses_nothing(shop, monkeypatch):
    start = ["shop.watch", "days", "--reference", "year.csv", *CHEAP]
    append = states.append_to_log

    def killed(records, log):
        if records and records[0].number == 2:
            with log.open("ab") as stream:
                stream.write(b'{"number": 2, "na')  # half of a line
            raise KeyboardInterrupt
        append(records, log)

    monkeypatch.setattr(states, "append_to_log", killed)
    run(*start, status=130)
    assert Watch.load("shop.watch").batches == 2
    monkeypatch.undo()
    os.chdir(shop)
    run(*start, status=1)
    assert [line["number"] for line in logged()] == [1, 2, 3, 4, 5]


def test_more_reference_can_be_added_when_it_is_spent(shop):
    rng = np.random.default_rng(2)
    orders(rng, 300).to_csv("some.csv", index=False)
    start = ["shop.watch", "days", "--reference", "some.csv", *CHEAP, "--spend", 120]
    stopped = run(*start, status=2)
    assert "spent" in stopped.stderr and len(logged()) == 3
    orders(rng, 300).to_csv("more.csv", index=False)
    assert answer(*start, "--refill", "more.csv", status=1)["batches"] == 5


# The page


def blocks(kind):
    page = Path(__file__).parents[1] / "docs" / "watching.md"
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_page_leads_from_nothing_to_a_nightly_job(tmp_path):
    scripts = {}
    for block in [*blocks("python"), *blocks("sh")]:
        name = re.match(r"# (\w+\.\w+)\n", block)
        if name:
            scripts[name[1]] = block
    assert set(scripts) == {"make_shop.py", "nightly.sh", "shop_dag.py"}
    for name, content in scripts.items():
        (tmp_path / name).write_text(content)
    compile(scripts["shop_dag.py"], "shop_dag.py", "exec")
    # The commands of a shell, with this Python in place of any other.
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, words in (("python", ""), ("twosample", "-m twosample")):
        (bin_ / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (bin_ / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    outputs = doctest.OutputChecker()
    for block in blocks("console"):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, _, shown = part.partition("\n")
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            # Notes about the new article go to standard error.
            printed = done.stdout.strip()
            assert outputs.check_output(shown.strip(), printed, doctest.ELLIPSIS), (command, done)
    (tmp_path / "later" / "2026-03-06.parquet").rename(tmp_path / "days" / "2026-03-06.parquet")
    night = subprocess.run(
        ["sh", "nightly.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert night.returncode == 1 and "see shop.html" in night.stdout, night
    for unit in blocks("ini"):
        configparser.ConfigParser(interpolation=None).read_string(unit)


def test_examples_of_the_page_give_what_they_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[1] / "docs" / "watching.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 10 and results.failed == 0


# Kills


def kill_and_compare(folder: Path, kills: int, seed: int) -> int:
    """Kill runs at random moments until all is counted; how many were killed."""
    command = [sys.executable, "-m", "twosample", "watch"]
    options = ["days", "--reference", "year.csv", "--spend", "30", *CHEAP]
    whole = subprocess.run([*command, "whole.watch", *options], cwd=folder, capture_output=True)
    assert whole.returncode in (0, 1)
    moments = random.Random(seed)
    began = time.monotonic()
    subprocess.run([*command, "whole.watch", "--quiet"], cwd=folder, capture_output=True)
    usual = time.monotonic() - began
    killed = 0
    for _ in range(kills):
        run_ = subprocess.Popen(
            [*command, "part.watch", *options],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Starting Python and torch takes most of the time; what matters comes after it.
        time.sleep(usual * moments.uniform(0.4, 1.3))
        killed += run_.poll() is None
        run_.send_signal(signal.SIGKILL)
        run_.wait()
    subprocess.run([*command, "part.watch", *options], cwd=folder, capture_output=True)
    one = Watch.load(folder / "whole.watch")
    other = Watch.load(folder / "part.watch")
    assert repr(one.history) == repr(other.history)
    lines = [(folder / f"{name}.watch.jsonl").read_text() for name in ("whole", "part")]
    assert lines[0] == lines[1]
    return killed


@pytest.mark.slow
def test_kill_nine_at_random_moments_changes_no_bit(shop):
    rng = np.random.default_rng(5)
    for day in range(10, 30):
        orders(rng, 80).to_csv(f"days/2026-03-{day}.csv", index=False)
    assert kill_and_compare(shop, kills=4, seed=0) > 0
