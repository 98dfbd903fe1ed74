"""The command in this process and in others, and a node's files to break."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from quorate.cli.all_commands import every_command
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster

COMMAND = [sys.executable, "-m", "quorate.cli.main"]
SECONDS = 60


@dataclass(frozen=True)
class Quorate:
    """Runs commands in this process. `reach`: options at the end of each, which name a cluster."""

    reach: tuple[object, ...] = ()

    def at(self, cluster: LocalCluster | str) -> "Quorate":
        """Return the same for a cluster, or for the brokers at some addresses."""
        return Quorate(("-b", cluster if isinstance(cluster, str) else cluster.bootstrap))

    def __call__(self, *arguments: object, given: bytes | None = None) -> Result:
        """Run a command. `given`: its standard input."""
        words = [str(each) for each in (*arguments, *self.reach)]
        return CliRunner().invoke(every_command(words), words, input=given)

    def output(self, *arguments: object, given: bytes | None = None) -> str:
        """Return the output of a command that succeeds."""
        result = self(*arguments, given=given)
        assert result.exit_code == ExitCode.OK, result.output
        return result.output

    def json(self, *arguments: object) -> Any:
        """Return what a command that succeeds prints with --json."""
        result = self(*arguments, "--json")
        assert result.exit_code == ExitCode.OK, result.output
        return json.loads(result.stdout)

    def error(self, *arguments: object, code: ExitCode = ExitCode.FAILED, given: bytes | None = None) -> str:
        """Return the standard error of a command that ends with `code`."""
        result = self(*arguments, given=given)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.stderr
        return result.stderr


@dataclass
class Node:
    """A node's server.properties and folder, to break and to start."""

    config: Path
    folder: Path

    def write(self, **changes: str | None) -> None:
        """Write server.properties. Keys have `_` for `.`. None takes a line out."""
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


@dataclass
class Ended:
    code: int
    output: str
    errors: str


class Processes:
    """Commands as processes. `kill_all` ends those that still run."""

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


def first_line(process: subprocess.Popen[str]) -> str:
    """Return the line that a server or a cluster prints when it serves."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line
