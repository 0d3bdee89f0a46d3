"""Chromium without a window, driven by its DevTools protocol through a pipe: what tests of a page
need, and no more."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

DESKTOP, PHONE = (1280, 900), (390, 844)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str:
    """The browser of this machine; without one a test is skipped, and fails where CI=true says that
    it must run."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            "there is no chromium on this machine"
        )
    return found


class Browser:
    """A browser process; `open` gives pages."""

    def __init__(self, profile: Path) -> None:
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ]
        options += ["--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"]
        options += [
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={profile}",
        ]
        # It reads commands from descriptor 3 and answers on 4; dash knows no descriptors of two
        # digits, bash does.
        shell = ["bash", "-c", f'exec "$@" 3<&{read} 4>&{write}', "bash", program(), *options]
        self._process = subprocess.Popen(shell, pass_fds=(read, write), stderr=subprocess.DEVNULL)
        os.close(read)
        os.close(write)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method and wait for its answer; what happens meanwhile is kept in `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {} if session is None else {"sessionId": session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], 180)[0], "the browser does not answer"
            piece = os.read(self._read, 2**20)
            assert piece, "the browser has gone"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def open(
        self,
        file: Path,
        size: tuple[int, int] = DESKTOP,
        *,
        dark: bool = False,
        scripts: bool = True,
    ) -> Page:
        """A page that has loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        page = Page(
            self,
            self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"],
            target,
        )
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        width, height = size
        page.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.send("Emulation.setEmulatedMedia", features=features)
        page.send("Page.navigate", url=file.resolve().as_uri())
        page.wait_for("Page.loadEventFired")
        return page

    def close(self) -> None:
        """End the process."""
        try:
            self.send("Browser.close")
        except (AssertionError, OSError):
            self._process.kill()
        self._process.wait(60)
        os.close(self._write)
        os.close(self._read)


class Page:
    """A tab of a browser."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of this page."""
        return self._browser.send(method, self._session, **parameters)

    def events(self, method: str) -> list[dict[str, Any]]:
        """What happened on this page."""
        found = (
            e
            for e in self._browser.events
            if e.get("method") == method and e.get("sessionId") == self._session
        )
        return [event["params"] for event in found]

    def wait_for(self, method: str, seconds: float = 180) -> None:
        """Return once this has happened."""
        end = time.monotonic() + seconds
        while not self.events(method):
            assert time.monotonic() < end, f"no {method}"
            self.send("Runtime.evaluate", expression="0")
            time.sleep(0.02)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def move(self, x: float, y: float) -> None:
        """Move the mouse to a place of the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def complaints(self) -> list[Any]:
        """Errors and warnings of the console, exceptions, and what a policy has blocked."""
        said = [
            e
            for e in self.events("Runtime.consoleAPICalled")
            if e["type"] in ("error", "warning", "assert")
        ]
        return said + self.events("Runtime.exceptionThrown") + self.events("Log.entryAdded")

    def requests(self) -> list[str]:
        """The addresses of everything that was asked for, apart from what is in the file itself."""
        addresses = [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]
        return [address for address in addresses if not address.startswith("data:")]

    def screenshot(self, *, whole: bool = False) -> bytes:
        """The window, or the whole page, as PNG."""
        return base64.b64decode(
            self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        )

    def close(self) -> None:
        """Close the tab."""
        self._browser.send("Target.closeTarget", targetId=self._target)
