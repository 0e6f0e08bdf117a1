"""A headless Chromium that a test drives over its debugging pipe: no driver, no port, nothing to install but itself."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""None: there is none."""
TIMEOUT_S = 60.0


class Tab:
    """One page. `log` has what the browser complained of: errors of scripts, violations of the policy."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._data = b""
        self._last = 0
        self._session: str | None = None
        self.log: list[str] = []

    def attach(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Return the answer to one command; AssertionError for an error."""
        self._last += 1
        message: dict[str, object] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        return self._until(lambda each: each.get("id") == self._last)["result"]

    def open(self, url: str) -> None:
        """Return once the page and what belongs to it is there."""
        self.send("Page.navigate", url=url)
        self._until(lambda each: each.get("method") == "Page.loadEventFired")

    def size(self, width: int, height: int) -> None:
        """Show the page in a window of so many CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)

    def scheme(self, name: str) -> None:
        """Prefer "light" or "dark"."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript is, or what its promise becomes."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Return once the expression is true."""
        self.value(f"new Promise(done => (function look() {{ ({expression}) ? done() : setTimeout(look, 20) }})())")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=9)

    def picture(self, path: Path) -> None:
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _until(self, is_it: Any) -> dict[str, Any]:
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            while b"\0" not in self._data:
                ready, _, _ = select.select([self._reading], [], [], max(0, deadline_s - time.monotonic()))
                assert ready, "the browser does not answer"
                data = os.read(self._reading, 1 << 20)
                assert data, "the browser has ended"
                self._data += data
            line, self._data = self._data.split(b"\0", 1)
            message = json.loads(line)
            if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.log.append(json.dumps(message["params"]))
            if is_it(message):
                assert "error" not in message, message
                return message


@contextmanager
def tab(directory: Path) -> Iterator[Tab]:
    """A browser of its own below the directory, with one page."""
    assert PATH is not None
    commands, answers = os.pipe(), os.pipe()
    options = "--headless=new --no-sandbox --hide-scrollbars --disable-gpu --disable-dev-shm-usage --no-first-run"
    options += f" --remote-debugging-pipe --user-data-dir={directory}"
    script = f"exec {PATH} {options} about:blank 3<&{commands[0]} 4>&{answers[1]}"
    kept = (commands[0], answers[1])
    process = subprocess.Popen(["bash", "-c", script], pass_fds=kept, stderr=subprocess.DEVNULL)
    for each in kept:
        os.close(each)
    try:
        found = Tab(answers[0], commands[1])
        found.attach()
        yield found
    finally:
        process.kill()
        process.wait()
        os.close(answers[0])
        os.close(commands[1])
