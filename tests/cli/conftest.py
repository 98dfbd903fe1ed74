"""The command in this process and in others, and a small cluster to ask."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quorate.cli.all_commands import every_command
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster

COMMAND = [sys.executable, "-m", "quorate.cli.main"]
SECONDS = 60


@pytest.fixture
def quorate() -> Callable[..., Result]:
    """Run a command in this process."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(every_command(), [str(each) for each in arguments])

    return run


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of one, shared by a module's tests."""
    cluster = LocalCluster.plan(tmp_path_factory.mktemp("one-node") / "cluster", nodes=1, client_port=0)
    try:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.kill_all()


@dataclass
class Node:
    """A node's server.properties and folder, to break and to start."""

    config: Path
    folder: Path

    def write(self, **changes: str | None) -> None:
        """Keys with `_` for `.`; None takes a line out."""
        client, controller = free_ports(2)
        settings: dict[str, str | None] = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder),
            **{key.replace("_", "."): value for key, value in changes.items()},
        }
        self.config.write_text(
            "".join(f"{key}={value}\n" for key, value in settings.items() if value is not None)
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path / "server.properties", tmp_path / "data")
    made.write()
    return made


@dataclass
class Ended:
    code: int
    output: str
    errors: str


class Processes:
    """Commands as processes; none is left behind."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        self._started.append(process)
        return process

    def run(self, *arguments: object, seconds: float = SECONDS) -> Ended:
        return self.end(self.start(*arguments), seconds=seconds)

    def end(
        self,
        process: subprocess.Popen[str],
        number: signal.Signals | None = None,
        *,
        seconds: float = SECONDS,
    ) -> Ended:
        if number is not None:
            process.send_signal(number)
        output, errors = process.communicate(timeout=seconds)
        return Ended(process.returncode, output, errors)

    def kill_all(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.terminate()
                try:
                    process.communicate(timeout=SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.kill_all()


@pytest.fixture
def small_disk(tmp_path: Path, need: Callable[[str], str]) -> Iterator[Callable[[str], Path]]:
    """Mounts a folder of its own with the given options; skips where that is not allowed."""
    need("mount")
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"this user may not mount a tmpfs: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        deadline = time.monotonic() + SECONDS
        while subprocess.run(["umount", str(folder)], capture_output=True).returncode:
            assert time.monotonic() < deadline, f"{folder} can't be unmounted"
