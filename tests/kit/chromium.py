"""Debian's Chromium without a screen, driven by DevTools' protocol over two pipes: it needs no package."""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Tab:
    """One page in a browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._number = 0
        self._held = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        """Errors of scripts, and what the page's own policy has refused."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._held += data
        message, _, self._held = self._held.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(event["params"])[:500])
        elif event.get("method") == "Log.entryAdded" and event["params"]["entry"]["source"] == "security":
            self.complaints.append(event["params"]["entry"]["text"])

    def open(self, url: str) -> None:
        """Go to a page, and return when its document is there."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState !== 'loading' && document.body !== null")

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def text(self, selector: str) -> str:
        return self.value(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''")

    def wait(self, expression: str, *, seconds: float = 20.0) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < deadline, f"{expression} is still {value!r}; {self.complaints}"
            time.sleep(0.01)
        return value

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def press(self, key: str) -> None:
        """Press a key, as a keyboard does."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def click(self, selector: str, *, shift: bool = False) -> None:
        """Click the middle of the first element, as a mouse does."""
        place = self.value(
            f"""(() => {{
              const found = document.querySelector({json.dumps(selector)});
              found.scrollIntoView({{block: "center"}});
              const box = found.getBoundingClientRect();
              return {{x: box.x + box.width / 2, y: box.y + box.height / 2}};
            }})()"""
        )
        pressed = {"button": "left", "clickCount": 1, "modifiers": 8 if shift else 0, **place}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **pressed)

    def screenshot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def chromium_tab(profile: Path) -> Iterator[Tab]:
    """Start a browser with an empty tab. Skips the test where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    from_us, to_browser = os.pipe()
    from_browser, to_us = os.pipe()
    command = [
        program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    # It reads commands from descriptor 3, and answers at 4.
    shell = f'exec "$@" 3<&{from_us} 4>&{to_us}'
    process = subprocess.Popen(
        ["bash", "-c", shell, "chromium", *command],
        pass_fds=(from_us, to_us),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(from_us)
    os.close(to_us)
    try:
        yield Tab(to_browser, from_browser)
    finally:
        # Its helpers are of its own group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(to_browser)
        os.close(from_browser)
