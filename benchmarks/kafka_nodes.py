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
from quorate.cli.node.secured_cluster import ADMIN, BROKERS, CLIENTS, ClusterSecrets

sys.path.append(str(HERE.parent / "scripts" / "kafka_tools"))

import jars

JVM = [
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
]  # fmt: skip
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
READY_S = 90.0


def client_settings(secrets: ClusterSecrets | None) -> dict[str, str]:
    """Return librdkafka's settings of the first user."""
    if secrets is None:
        return {}
    return dict(line.split("=", 1) for line in secrets.librdkafka_file.read_text().splitlines())


class KafkaNodes:
    """Raises `jars.CantRunHereError` where Kafka can't be run."""

    name = "kafka"

    def __init__(
        self, folder: Path, *, size: int = 3, heap: str = "1G", secrets: ClusterSecrets | None = None
    ) -> None:
        """`heap`: of each JVM, all of it from the start on, as in Kafka's own start script. `secrets`: nodes
        know each other by their certificates, and clients log in."""
        self._heap = [f"-Xmx{heap}", f"-Xms{heap}"]
        self._class_path = jars.class_path()
        self._folder = folder
        self._secrets = secrets
        ports = iter(free_ports(3 * size))
        self._clients = {number: next(ports) for number in range(1, size + 1)}
        self._controllers = {number: next(ports) for number in self._clients}
        self._brokers = {number: next(ports) for number in self._clients}
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
                       str(self._properties(number)), *self._first_user()),
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def _first_user(self) -> list[str]:
        if self._secrets is None:
            return []
        user = f"[name={ADMIN},password={self._secrets.password}]"
        return ["--add-scram", f"SCRAM-SHA-512={user}"]

    def wait_ready(self) -> None:
        """Return when all brokers are there. Raises `TimeoutError`."""
        deadline = time.monotonic() + READY_S
        security = client_settings(self._secrets)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **security})
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
        listeners = {CLIENTS: self._clients[number], "CONTROLLER": self._controllers[number]}
        security = {"listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,CONTROLLER:PLAINTEXT",
                    "inter.broker.listener.name": CLIENTS}  # fmt: skip
        if self._secrets is not None:
            listeners[BROKERS] = self._brokers[number]
            # Kafka knows nodes by the subjects of their certificates.
            nodes = "".join(f";User:CN=node-{each}" for each in self._clients)
            security = {
                **self._secrets.settings_of(number),
                "ssl.keystore.type": "PEM",
                "ssl.truststore.type": "PEM",
                "listener.name.brokers.ssl.client.auth": "required",
                "listener.name.controller.ssl.client.auth": "required",
                "super.users": f"User:{ADMIN}{nodes}",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.clients.scram-sha-512.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                ),
            }
            del security["scram.sealing.key.location"]
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
            **security,
        }
        self._properties(number).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
