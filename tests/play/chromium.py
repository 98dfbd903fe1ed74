"""Chromium, without a window, driven over its debugging protocol by pipes."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

SECONDS = 60


class Chromium:
    """One page of one browser."""

    def __init__(self, program: str, profile: Path) -> None:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        options = "--headless=new --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run"
        # It reads from descriptor 3 and writes to descriptor 4.
        command = f'exec "$0" {options} --user-data-dir="$1" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, program, str(profile)],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._received = b""
        self._number = 0
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def close(self) -> None:
        self._session = None
        try:
            self._call("Browser.close")
            self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._to)
            os.close(self._from)

    def _call(self, method: str, **parameters: object) -> Any:
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            request["sessionId"] = self._session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while True:
            while b"\0" not in self._received:
                data = os.read(self._from, 65536)
                assert data, "the browser has ended"
                self._received += data
            text, _, self._received = self._received.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self._number:
                assert "result" in answer, answer
                return answer["result"]

    def run(self, script: str) -> Any:
        """Return what an expression of JavaScript is, or becomes if it is a promise."""
        done = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)
        self.wait("document.body && document.body.dataset.position !== undefined")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        polled = f"""new Promise((done, fail) => {{
          const end = Date.now() + {SECONDS * 1000 // 4};
          const look = () => {{
            try {{ if ({condition}) return done(true); }} catch {{}}
            if (Date.now() > end) return fail(new Error("not within the time"));
            setTimeout(look, 10);
          }};
          look();
        }})"""
        for _ in range(3):
            try:
                self.run(polled)
            except AssertionError as error:
                if "context" not in str(error):  # of a page that was left meanwhile
                    raise
            else:
                return
        raise AssertionError(f"never true: {condition}")

    def resize(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if len(key) == 1 else {})
            )

    def click(self, selector: str, *, shift: bool = False) -> None:
        """Click the middle of the first element, as a mouse does."""
        place = self.run(
            f"""(() => {{
              const found = document.querySelector({json.dumps(selector)});
              found.scrollIntoView({{block: "center"}});
              const box = found.getBoundingClientRect();
              return {{x: box.x + box.width / 2, y: box.y + box.height / 2}};
            }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call(
                "Input.dispatchMouseEvent",
                type=kind,
                button="left",
                clickCount=1,
                modifiers=8 if shift else 0,
                **place,
            )
