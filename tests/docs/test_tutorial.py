"""docs/tutorial.md, every block in its order, on a cluster that the tutorial itself starts."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

SECONDS = 60.0
FOREGROUND = "runs until Ctrl-C"


class Terminals:
    """Shells that are left open, as the reader leaves them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
        self.opened: list[subprocess.Popen[str]] = []

    def run(self, script: str) -> str:
        done = subprocess.run(
            # Not as an argument: `pgrep -f` would find it there.
            ["bash", "-eu"],
            input=script,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def open(self, script: str) -> str:
        """Its first line of output; it goes on."""
        process = subprocess.Popen(
            ["bash", "-euc", f"exec {script}"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.opened.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    def ctrl_c(self) -> list[int]:
        """In all of them, the last opened first; how they ended."""
        for process in reversed(self.opened):
            process.send_signal(signal.SIGINT)
        return [process.wait(SECONDS) for process in self.opened]


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    made = Terminals(tmp_path)
    yield made
    for process in made.opened:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS)


def test_the_tutorial_from_its_first_block_to_its_last(
    blocks_of: Callable[[str], list[Any]], terminals: Terminals, need: Callable[..., str], tmp_path: Path
) -> None:
    need("kcat")
    ports: dict[str, str] = {}

    def here(script: str) -> str:
        for port, address in ports.items():
            script = script.replace(f"localhost:{port}", address)
        # Absolute, so that whose path merely ends like this keeps his processes.
        return re.sub(r"(\./|/)quorate-data\b", str(tmp_path / "quorate-data"), script)

    ran = 0
    for block in blocks_of("tutorial.md"):
        script = here(block.body.strip())
        if "installs packages" in block.mark:
            continue
        ran += 1
        if FOREGROUND not in block.mark:
            said = terminals.run(script)
            if block.mark.startswith("prints "):
                assert said.strip() == block.mark.removeprefix("prints ")
        elif script.startswith("quorate cluster start"):
            ready = json.loads(terminals.open(f"{script} --port 0 --json"))
            ports |= {str(9092 + at): node["client"] for at, node in enumerate(ready["nodes"])}
        else:
            assert terminals.open(script).startswith("node 1 of cluster ")
            wait_in_sync(terminals, ports["9093"])
    assert ran == 9
    assert terminals.ctrl_c() == [0, 0]


def wait_in_sync(terminals: Terminals, broker: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        (topic,) = json.loads(terminals.run(f"quorate topics describe -t tutorial --json -b {broker}"))
        if all(sorted(partition["isr"]) == [1, 2, 3] for partition in topic["partitions"]):
            return
        assert time.monotonic() < deadline, topic
