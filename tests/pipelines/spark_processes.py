"""Spark as real processes: a standalone cluster, and a server of Spark Connect."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark

from quorate.cli.node.free_ports import free_ports
from quorate.pipelines.project import DEFAULTS
from quorate.spark_source.java import find_java

SPARK_HOME: Final = Path(pyspark.__path__[0])
SECONDS: Final = 600
_DEPLOY: Final = "org.apache.spark.deploy"


@dataclass
class SparkProcesses:
    """Starts programs of Spark, whose workers run this Python, and ends them with all that they started."""

    folder: Path
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: object) -> subprocess.Popen[bytes]:
        """Start a program of Spark, which leads a process group."""
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        process = subprocess.Popen(
            [str(each) for each in command],
            cwd=self.folder,
            env=environment,
            stdout=sys.stderr,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_all(self) -> None:
        for process in reversed(self._started):
            self.kill(process)

    def standalone(self) -> tuple[str, list[subprocess.Popen[bytes]]]:
        """Start a cluster of two workers. Return the URL of its master, and the workers."""
        (port,) = free_ports(1)
        program, options = SPARK_HOME / "bin" / "spark-class", ("--host", "127.0.0.1", "--webui-port", "0")
        master = self.start(program, f"{_DEPLOY}.master.Master", *options, "--port", port)
        wait_listening(port, master)
        address = f"spark://127.0.0.1:{port}"
        size = ("--cores", "1", "--memory", "1g")
        workers = [
            self.start(
                *(program, f"{_DEPLOY}.worker.Worker", *options, *size),
                *("--work-dir", self.folder / f"worker-{number}", address),
            )
            for number in (1, 2)
        ]
        return address, workers

    def connect_server(self, project: Path, *, port: int) -> subprocess.Popen[bytes]:
        """Start a server of Spark Connect with the defaults of a project."""
        server = self.start(
            *(SPARK_HOME / "sbin" / "start-connect-server.sh", "--wait"),
            *("--properties-file", project / DEFAULTS),
            *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
            *("--conf", f"spark.connect.grpc.binding.port={port}"),
        )
        wait_listening(port, server)
        return server


def use_master(project: Path, address: str) -> None:
    """Let a project run on a standalone cluster."""
    with (project / DEFAULTS).open("a") as defaults:
        defaults.write(f"spark.master {address}\nspark.executor.memory 512m\n")


def wait_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, f"it ended with code {process.returncode}"
        assert time.monotonic() < deadline, f"nothing listens at port {port}"
        time.sleep(0.2)


def processes_below(process: int, *words: str) -> list[int]:
    """Return the descendants of a process with one of the words in their command lines."""
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(folder.name)] = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [process]
    while todo:
        below = children.get(todo.pop(), [])
        todo += below
        found += [each for each in below if any(word in commands[each] for word in words)]
    return found
