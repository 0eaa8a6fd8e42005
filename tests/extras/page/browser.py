"""Drives Debian's chromium without a window, by the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium")
# A busy machine is slow; only a test that fails waits so long.
_PATIENCE_S = 60.0
# The browser reads on descriptor 3 and writes on 4. First both pipes are moved away from there.
_MOVE = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page of a browser, and everything that it complained about or asked for."""

    def __init__(self, process: subprocess.Popen[bytes], to_browser: int, from_browser: int) -> None:
        self.process = process
        self.to_browser = to_browser
        self.from_browser = from_browser
        self.buffer = b""
        self.number = 0
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions, and what the page's security policy refused."""
        self.requests: list[str] = []
        """Addresses of all requests."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    session: str | None = None

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Sets the size of the window, and whether the system is dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def goto(self, address: str) -> None:
        """Opens an address and waits until its view is drawn."""
        self.call("Page.navigate", url=address)
        self.drawn()

    def drawn(self) -> None:
        """Waits until the view of the present address is drawn."""
        # The address is part of the condition: until a new document is there, the old one still answers.
        self.until(
            "document.readyState === 'complete' && !!document.querySelector('main[data-view]') && "
            "!document.querySelector('main[aria-busy]') && "
            "document.querySelector('main').dataset.view === location.pathname"
        )

    def run(self, script: str) -> Any:
        """Returns what an expression gives in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Waits until an expression is true in the page."""
        end = time.monotonic() + _PATIENCE_S
        while not self.run(condition):
            assert time.monotonic() < end, f"never true: {condition}; {self.complaints}"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Presses and releases a key."""
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        code = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39}.get(key)
        more: dict[str, Any] = {"windowsVirtualKeyCode": code} if code else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def picture(self, file: Path, height: int | None = None) -> None:
        """Writes a PNG of the page, whole or down to `height`."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        file.write_bytes(base64.b64decode(data))

    def _read(self) -> dict[str, Any]:
        """Returns the next message, and notes what an event says."""
        while b"\0" not in self.buffer:
            part = os.read(self.from_browser, 1 << 20)
            assert part, "the browser ended"
            self.buffer += part
        raw, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(raw)
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.complaints.append(parameters["entry"]["text"])
            case _:
                pass
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Starts a browser with an empty profile in `folder`, and ends it."""
    assert PROGRAM is not None
    child_reads, to_browser = os.pipe()
    from_browser, child_writes = os.pipe()
    arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--remote-debugging-pipe",
        f"--user-data-dir={folder}",
    ]
    command = [sys.executable, "-S", "-c", _MOVE, str(child_reads), str(child_writes), PROGRAM, *arguments]
    process = subprocess.Popen(
        command, pass_fds=(child_reads, child_writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(child_reads)
    os.close(child_writes)
    try:
        yield Browser(process, to_browser, from_browser)
    finally:
        os.close(to_browser)
        process.terminate()
        process.wait(30)
        os.close(from_browser)
