"""Apache Kafka as a cluster of three processes, each broker and controller, as `LocalCluster` is for quorate.

The jars are those of scripts/kafka_tools. The JVM has the options of Kafka's own start script.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import priority
from clusters import HERE
from confluent_kafka.admin import AdminClient

from quorate.cli.node.free_ports import free_ports

sys.path.append(str(HERE.parent / "scripts" / "kafka_tools"))

import jars

JVM = [
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
]  # fmt: skip
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
READY_S = 90.0


class KafkaNodes:
    """Raises `jars.CantRunHereError` where Kafka can't be run."""

    name = "kafka"

    def __init__(self, folder: Path, *, size: int = 3, heap: str = "1G") -> None:
        """`heap`: of each JVM, all of it from the start on, as in Kafka's own start script."""
        self._heap = [f"-Xmx{heap}", f"-Xms{heap}"]
        self._class_path = jars.class_path()
        self._folder = folder
        ports = iter(free_ports(2 * size))
        self._clients = {number: next(ports) for number in range(1, size + 1)}
        self._controllers = {number: next(ports) for number in self._clients}
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._clients.values())

    def start(self, *numbers: int) -> None:
        """Start nodes (all by default) that don't run; format their folders before their first start."""
        numbers = numbers or tuple(self._clients)
        formats = [self._format(number) for number in numbers if not self._properties(number).exists()]
        for each in formats:
            if each.wait():
                raise subprocess.CalledProcessError(each.returncode, each.args)
        for number in set(numbers) - set(self.running()):
            with (self._folder / f"{number}.log").open("ab") as said:
                self._nodes[number] = subprocess.Popen(
                    self._java("kafka.Kafka", str(self._properties(number))),
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, "LOG_DIR": str(self._folder)},
                )
            priority.as_ours(self._nodes[number].pid)

    def _format(self, number: int) -> "subprocess.Popen[bytes]":
        """Begin to format a folder. Nodes do that at once, as they would on machines of their own."""
        self._write_properties(number)
        return subprocess.Popen(
            self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c",
                       str(self._properties(number))),
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def wait_ready(self) -> None:
        """Return when all brokers are there. Raises `TimeoutError`."""
        deadline = time.monotonic() + READY_S
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while time.monotonic() < deadline:
            try:
                if len(admin.list_topics(timeout=5).brokers) == len(self._clients):
                    return
            except Exception as error:  # librdkafka's own, until the first node listens
                if self.gone():
                    raise TimeoutError(f"Kafka's nodes {self.gone()} have ended") from error
            time.sleep(0.2)
        raise TimeoutError(f"Kafka is not ready after {READY_S:g} s")

    def running(self) -> list[int]:
        return [number for number, node in self._nodes.items() if node.poll() is None]

    def gone(self) -> list[int]:
        return [number for number, node in self._nodes.items() if node.poll() is not None]

    def pid(self, node: int) -> int:
        return self._nodes[node].pid

    def kill(self, node: int) -> None:
        self._nodes[node].kill()
        self._nodes[node].wait()

    def stop(self, node: int, *, seconds: float) -> None:
        """Send SIGTERM, and wait until the node has ended. Raises `subprocess.TimeoutExpired`."""
        self._nodes[node].terminate()
        self._nodes[node].wait(seconds)

    def kill_all(self) -> None:
        for number in self.running():
            self.kill(number)

    def _java(self, main: str, *arguments: str) -> list[str]:
        return ["java", *self._heap, *JVM, "-cp", self._class_path, main, *arguments]

    def _properties(self, number: int) -> Path:
        return self._folder / f"{number}.properties"

    def _write_properties(self, number: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        listeners = {"PLAINTEXT": self._clients[number], "CONTROLLER": self._controllers[number]}
        settings = {
            "process.roles": "broker,controller",
            "node.id": number,
            "controller.quorum.voters": ",".join(
                f"{each}@127.0.0.1:{port}" for each, port in self._controllers.items()
            ),
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self._folder / str(number) / "data",
            "group.initial.rebalance.delay.ms": 0,
        }
        self._properties(number).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
