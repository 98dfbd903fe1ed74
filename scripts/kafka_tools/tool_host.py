"""The one JVM in which all of Kafka's tools run: java/ToolHost.java."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rows import Result, Row

JAVA_OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
LOGGING = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
HOOKS = ["--add-opens=java.base/java.lang=ALL-UNNAMED"]
"""For shutdown hooks, which run when a tool ends, not when the JVM does."""
"""The quickest start; nothing here runs long enough for the optimizing compiler."""
NOISE = re.compile(
    r"^(SLF4J:.*|exit \d+|ToolHost\$Ended.*|.*\bis deprecated\b.*|.*\bWARN\b.*)$\n?",
    re.M,
)
"""Output that differs between versions of Java and of its logging, and shows nothing of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The end of a tool. `code` is None if it did not end."""

    code: int | None
    output: str
    ms: int


class ToolHost:
    def __init__(self, class_path: str) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the rest)
        self._process = subprocess.Popen(
            ["java", *JAVA_OPTIONS, *LOGGING, *HOOKS, "-cp", class_path, "ToolHost"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    def tool(
        self,
        main: str,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        seconds: float = 60.0,
        endless: bool = False,
    ) -> Done:
        """Run the main method of a class. An endless one runs for `seconds`."""
        request = {
            "main": main,
            "args": list(arguments),
            "stdin": stdin,
            "timeout_ms": int(seconds * 1000),
            "endless": endless,
        }
        answer = self._ask(request)
        return Done(code=answer["code"], output=NOISE.sub("", answer["output"]), ms=answer["ms"])

    def admin(self, area: str, given: Mapping[str, str]) -> list[Row]:
        """Make AdminClient's calls of an area (java/AdminCalls.java)."""
        answer = self._ask({"admin": area, "with": dict(given), "timeout_ms": 0})
        return [
            Row(
                group="AdminClient",
                area=each["area"],
                call=each["call"],
                checked=each["checked"],
                result=Result(each["result"]),
                detail=each["detail"],
                ms=each["ms"],
            )
            for each in answer["rows"]
        ]

    def _ask(self, request: Mapping[str, object]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._said.seek(0)
            raise RuntimeError(f"the JVM of Kafka's tools has ended: {self._said.read().decode()[-2000:]}")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        deadline = time.monotonic() + 10
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()
