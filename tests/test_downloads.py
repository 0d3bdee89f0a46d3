"""Downloads from a real server on this machine: whole, broken off and continued, wrong, and not
there."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from typer.testing import CliRunner

import twosample
from twosample import InputError
from twosample._cli import data as data_cli
from twosample.bench import datasets, downloads, formats, sources

# What a process of its own begins with: the package without its root, which would import torch and
# take seconds.
LIGHT = (
    "import sys, types\n"
    "root = sys.modules['twosample'] = types.ModuleType('twosample')\n"
    f"root.__path__ = {list(twosample.__path__)!r}\n"
)
CONTENT = np.random.default_rng(0).bytes(1_000_000)


class Server(ThreadingHTTPServer):
    """Serves CONTENT under any name; `starts` are the first bytes that were asked for, one for each
    request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.status = 200
        self.ranges = True
        self.breaks: list[int] = []  # after how many bytes the next connections break off
        self.pause = 0.0  # seconds after each 10,000 bytes
        self.starts: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/data.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted = (
            re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")) if server.ranges else None
        )
        start = int(wanted[1]) if wanted else 0
        server.starts.append(start)
        if start > len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if wanted and server.status == 200 else server.status)
        if wanted:
            self.send_header(
                "Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}"
            )
        self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        body = server.content[start:]
        body = body[: server.breaks.pop(0)] if server.breaks else body
        try:
            for place in range(0, len(body), 10_000):
                self.wfile.write(body[place : place + 10_000])
                time.sleep(server.pause)
        except OSError:
            pass  # whoever asked has gone
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TWOSAMPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


def remote(*urls: str, content: bytes = CONTENT) -> downloads.RemoteFile:
    return downloads.RemoteFile("data.bin", urls, hashlib.sha256(content).hexdigest(), len(content))


def visible(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_file_is_fetched_once(server, cache):
    file = remote(server.url)
    assert downloads.cached(file) is None
    path = downloads.fetch(file)
    assert path == cache / "data.bin" == downloads.cached(file) and path.read_bytes() == CONTENT
    assert downloads.fetch(file) == path
    assert server.starts == [0] and visible(cache) == ["data.bin"]


def test_a_damaged_file_in_the_cache_is_fetched_again(server, cache):
    cache.mkdir()
    (cache / "data.bin").write_bytes(CONTENT[:-1] + b"?")
    assert downloads.fetch(remote(server.url)).read_bytes() == CONTENT


def test_a_broken_connection_goes_on_where_it_stopped(server, cache):
    server.breaks = [300_000, 200_000]
    assert downloads.fetch(remote(server.url)).read_bytes() == CONTENT
    assert (
        server.starts[0] == 0
        and 200_000 < server.starts[1] <= 300_000 < server.starts[2] <= 500_000
    )


def test_a_server_without_ranges_starts_again(server, cache):
    server.ranges = False
    server.breaks = [300_000]
    assert downloads.fetch(remote(server.url)).read_bytes() == CONTENT
    assert server.starts == [0, 0]


def test_a_connection_that_brings_nothing_is_given_up(server, cache):
    server.breaks = [300_000, 0, 0]
    file = remote(server.url)
    with pytest.raises(
        InputError, match=r"data\.bin cannot be downloaded from http://127.* \(no connection\)\.$"
    ):
        downloads.fetch(file)
    assert visible(cache) == ["data.bin.part"] and downloads.cached(file) is None
    server.breaks = []
    assert downloads.fetch(file).read_bytes() == CONTENT
    assert server.starts[-1] > 200_000 and visible(cache) == ["data.bin"]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_ends_midway_leaves_a_part_to_continue(server, cache, ending):
    server.pause = 0.05  # five seconds for the whole file
    file = remote(server.url)
    program = f"{LIGHT}from twosample.bench import downloads; downloads.fetch(downloads.{file!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.DEVNULL, env=os.environ.copy()
    )
    part = cache / "data.bin.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 100_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(ending)
    assert process.wait(timeout=60) != 0
    kept = part.stat().st_size
    assert 0 < kept < len(CONTENT) and downloads.cached(file) is None
    server.pause = 0.0
    assert downloads.fetch(file).read_bytes() == CONTENT
    assert server.starts == [0, kept] and not part.exists()


def test_two_processes_fetch_a_file_once(server, cache):
    server.pause = 0.002
    program = f"{LIGHT}from twosample.bench import downloads; downloads.fetch(downloads.{remote(server.url)!r})"
    both = [
        subprocess.Popen([sys.executable, "-c", program], env=os.environ.copy()) for _ in range(2)
    ]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert server.starts == [0] and (cache / "data.bin").read_bytes() == CONTENT


def test_another_content_is_thrown_away(server, cache):
    server.content = CONTENT[:-1] + b"?"
    with pytest.raises(
        InputError, match=r"\(what it gave has another SHA-256, and was thrown away\)"
    ):
        downloads.fetch(remote(server.url))
    assert visible(cache) == []


def test_a_part_of_another_file_is_no_trap(server, cache):
    cache.mkdir()
    (cache / "data.bin.part").write_bytes(
        b"?" * (len(CONTENT) + 1)
    )  # too long, so it starts again at once
    assert downloads.fetch(remote(server.url)).read_bytes() == CONTENT
    (cache / "data.bin").unlink()
    (cache / "data.bin.part").write_bytes(b"?" * 1000)  # continued, found wrong, thrown away
    with pytest.raises(InputError, match="another SHA-256"):
        downloads.fetch(remote(server.url))
    assert downloads.fetch(remote(server.url)).read_bytes() == CONTENT


def test_the_next_place_is_asked_when_one_fails(server, cache):
    with Server() as gone:
        closed = gone.url
    assert downloads.fetch(remote(closed, server.url)).read_bytes() == CONTENT
    (cache / "data.bin").unlink()
    server.status = 404
    with pytest.raises(
        InputError,
        match=r"127.*no connection\) or from http://127.* \(it answered 404 Not Found\)\.$",
    ):
        downloads.fetch(remote(closed, server.url))


def test_a_cache_that_cannot_be_written_is_a_sentence(server, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TWOSAMPLE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        InputError, match=r"data\.bin cannot be kept in .*: Not a directory; set .* TWOSAMPLE_CACHE"
    ):
        downloads.fetch(remote(server.url))


def test_there_is_a_bar_on_a_terminal_and_silence_elsewhere(server, cache, capsys, monkeypatch):
    file = remote(server.url)
    downloads.fetch(file)
    assert capsys.readouterr() == ("", "")
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        downloads.fetch(replace(file, name="other.bin"))
        terminal.flush()
        assert b"other.bin" in os.read(master, 100_000)
    os.close(master)


# The data sets through these downloads, as the command line has them


@pytest.fixture
def published(server, cache, monkeypatch):
    """MNIST in small, published by the server; no data folder."""
    monkeypatch.delenv("TWOSAMPLE_DATA", raising=False)
    images = np.random.default_rng(0).integers(0, 256, (30, 28, 28), dtype=np.uint8)
    server.content = gzip.compress(
        np.array([0x0803, *images.shape], dtype=">u4").tobytes() + images.tobytes()
    )
    files = tuple(
        replace(remote(server.url, content=server.content), name=file.name)
        for file in sources.MNIST.files
    )
    source = replace(sources.MNIST, files=files)
    monkeypatch.setattr(sources, "MNIST", source)
    monkeypatch.setitem(sources.SOURCES, "mnist", source)
    return np.concatenate([images, images])


def call(*words: str, code: int = 0):
    done = CliRunner().invoke(data_cli.build(), list(words))
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done


def test_a_data_set_is_downloaded_when_it_is_first_asked_for(published, server, cache, tmp_path):
    assert np.array_equal(datasets.mnist(), published)
    assert np.array_equal(datasets.mnist(tmp_path), published)  # a folder that does not hold it
    assert server.starts == [0, 0]  # one for each file


def test_list_says_where_everything_is(published, server, cache, tmp_path, monkeypatch):
    before = call("list").stdout
    assert "mnist: 70,000 handwritten digits" in before and before.count("  source  ") == len(
        sources.SOURCES
    )
    assert "  here    no; 'twosample bench data get mnist' downloads 0.0 MB" in before
    assert "  here    no; 'twosample bench data get higgs' downloads 2.8 GB" in before
    assert "  here    no; make it: 'twosample bench data dcgan train FOLDER'" in before
    assert "licence: CC BY 4.0" in before and server.starts == []
    said = call("get", "mnist").stdout
    assert (
        said.startswith("mnist: 60 rows of 28 x 28, from")
        and str(cache / "t10k-images-idx3-ubyte.gz") in said
    )
    assert str(cache / "train-images-idx3-ubyte.gz") in call("list").stdout
    (tmp_path / "mnist").mkdir()
    np.savez(tmp_path / "mnist" / "mnist.npz", images=published)
    assert str(tmp_path / "mnist" / "mnist.npz") in call("list", "--folder", str(tmp_path)).stdout
    monkeypatch.setenv("TWOSAMPLE_DATA", str(tmp_path))
    assert str(tmp_path / "mnist" / "mnist.npz") in call("list").stdout


def test_get_says_what_is_wrong(published, server, cache, tmp_path):
    server.status = 503
    said = call("get", "mnist", code=2).stderr
    assert said.startswith(
        "error: train-images-idx3-ubyte.gz cannot be downloaded from http://127.0.0.1"
    )
    assert (
        "(it answered 503 Service Unavailable)" in said
        and "TWOSAMPLE_DATA" in said
        and "Traceback" not in said
    )
    assert (
        "there is no data set 'cifar'; there are blob, hdgm, higgs, mnist"
        in call("get", "cifar", code=2).stderr
    )
    assert "blob is drawn" in call("get", "blob", code=2).stderr
    assert "nobody serves it for download: make it" in call("get", "fake_mnist", code=2).stderr
    assert "does not exist" in call("list", "--folder", str(tmp_path / "nowhere"), code=2).stderr


def test_higgs_in_the_cache_is_known_by_its_compact_form(published, cache):
    cache.mkdir()
    rows = np.arange(5 * 28, dtype=np.float32).reshape(5, 28)
    label = np.array([0, 1, 0, 1, 1], dtype=np.uint8)
    columns = np.array(formats.HIGGS_COLUMNS)
    formats.write_arrays(cache / "higgs.npz", features=rows, label=label, columns=columns)
    assert str(cache / "higgs.npz") in call("list").stdout
    assert call("get", "higgs").stdout.startswith("higgs: 2 + 3 rows of 4, from")


def test_without_pooch_it_says_what_to_install():
    program = (
        f"{LIGHT}sys.modules['pooch'] = None\n"
        "from twosample.bench import downloads\n"
        "from twosample.errors import MissingDependency\n"
        "try: downloads.fetch(downloads.RemoteFile('a', (), '', 0))\n"
        "except MissingDependency as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "downloads take pooch; pip install 'twosample[bench]'.\n"
