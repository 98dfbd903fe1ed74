"""A standalone Spark cluster: PySpark's own master and workers as processes of this machine."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark

from quorate.cli.node.free_ports import free_ports
from quorate.spark_source.java import find_java

_HOST: Final = "127.0.0.1"
_MEMORY: Final = "1g"
"""Of each worker, all of which is for its one executor."""
_START_S: Final = 60.0


@contextmanager
def standalone(folder: Path, *, workers: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a cluster of `workers` with one core each. Yield the master, and the settings for sessions that
    wait for all workers. Raises `NoJavaError`; `TimeoutError` if the master does not start."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": _HOST,
        "PYSPARK_PYTHON": sys.executable,
    }
    folder.mkdir(parents=True)
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, kind: str, *arguments: str) -> None:
        with (folder / f"{name}.out").open("wb") as output:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
            started.append(
                subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=environment)
            )

    (port,) = free_ports(1)
    master = f"spark://{_HOST}:{port}"
    try:
        start("master", "master.Master", "--host", _HOST, "--port", str(port), "--webui-port", "0")
        _wait_for_listener(port)
        for number in range(workers):
            work = ("--cores", "1", "--memory", _MEMORY, "--work-dir", str(folder / f"work-{number}"))
            start(f"worker-{number}", "worker.Worker", *work, "--host", _HOST, "--webui-port", "0", master)
        yield (
            master,
            {
                "spark.cores.max": str(workers),
                "spark.executor.cores": "1",
                "spark.executor.memory": _MEMORY,
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{_START_S:.0f}s",
            },
        )
    finally:
        # Workers first: they end their executors.
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def _wait_for_listener(port: int) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((_HOST, port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"Spark's master does not listen on port {port} after {_START_S:g} s")
