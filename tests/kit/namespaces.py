"""Real nodes in network namespaces of their own, cut off from each other: both ways, and one way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from quorate.broker.admin.quorum import describe_quorum, quorum_as_dict
from quorate.broker.admin.topics import describe_topics, topic_as_dict
from quorate.cli.console.connections import ask_cluster

NODES = (1, 2, 3)
CLIENTS = 254
NOBODY = "02:00:00:00:00:99"
"""A hardware address that nothing has: packets to it are lost without an error."""
COMMAND = (sys.executable, "-m", "quorate.cli.main")


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@dataclass
class Namespaces:
    """Three nodes at 10.x.y.1 to .3, each in its own namespace, on a bridge at .254, where clients are."""

    folder: Path
    name: str
    network: str
    overrides: dict[str, str] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()
    """Nodes that are no controllers, beside `NODES`."""

    def __post_init__(self) -> None:
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def nodes(self) -> tuple[int, ...]:
        return (*NODES, *self.brokers)

    @property
    def bootstrap(self) -> str:
        return self.bootstrap_of(*NODES)

    def bootstrap_of(self, *nodes: int) -> str:
        return ",".join(f"{self.network}.{node}:9092" for node in nodes)

    def build(self) -> None:
        ip("link", "add", f"{self.name}b", "type", "bridge")
        ip("addr", "add", f"{self.network}.{CLIENTS}/24", "dev", f"{self.name}b")
        ip("link", "set", f"{self.name}b", "up")
        for node in self.nodes:
            space, ours = f"{self.name}{node}", f"{self.name}v{node}"
            ip("netns", "add", space)
            ip("link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", ours, "master", f"{self.name}b", "up")
            ip("-n", space, "addr", "add", f"{self.network}.{node}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def remove(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for arguments in (
            *(("netns", "del", f"{self.name}{node}") for node in self.nodes),
            *(("link", "del", f"{self.name}v{node}") for node in self.nodes),
            ("link", "del", f"{self.name}b"),
        ):
            subprocess.run(["ip", *arguments], capture_output=True)

    def format(self) -> None:
        """Write the nodes' files, and format their folders."""
        voters = ",".join(f"{node}@{self.network}.{node}:19092" for node in NODES)
        for node in self.nodes:
            roles, listeners = "broker", f"PLAINTEXT://{self.network}.{node}:9092"
            if node in NODES:
                roles, listeners = (
                    f"{roles},controller",
                    f"{listeners},CONTROLLER://{self.network}.{node}:19092",
                )
            self._config(node).write_text(
                f"process.roles={roles}\nnode.id={node}\ncontroller.quorum.voters={voters}\n"
                f"listeners={listeners}\n"
                "controller.listener.names=CONTROLLER\nmetrics.http.port=-1\n"
                f"log.dirs={self.folder / str(node)}\nmin.insync.replicas=2\ndefault.replication.factor=3\n"
                "broker.heartbeat.interval.ms=500\nbroker.session.timeout.ms=3000\n"
                + "".join(f"{key}={value}\n" for key, value in self.overrides.items())
            )
            format_ = [*COMMAND, "storage", "format", "-t", "cut", "-c", str(self._config(node))]
            subprocess.run(format_, check=True, stdout=subprocess.DEVNULL)

    @classmethod
    @contextmanager
    def built(
        cls,
        folder: Path,
        prefix: str,
        subnet: int,
        *,
        overrides: Mapping[str, str] | None = None,
        brokers: tuple[int, ...] = (),
    ) -> Iterator["Namespaces"]:
        """Build and format nodes, and remove them afterwards. Their names have the prefix, their addresses
        begin with 10.`subnet` or one of the next fifty. Skips the test where that is not allowed."""
        if os.geteuid() != 0:
            pytest.skip("network namespaces need root")
        number = os.getpid()
        network = f"10.{subnet + number % 50}.{number // 50 % 250}"
        made = cls(folder, f"{prefix}{number % 100_000}", network, dict(overrides or {}), brokers)
        try:
            try:
                made.build()
            except RuntimeError as error:
                pytest.skip(f"network namespaces can't be made here: {error}")
            made.format()
            yield made
        finally:
            made.remove()

    def start(self, *nodes: int) -> None:
        """Start those that do not run; all by default."""
        for node in nodes or self.nodes:
            if node in self.processes and self.processes[node].poll() is None:
                continue
            space = ["ip", "netns", "exec", f"{self.name}{node}"]
            with (self.folder / f"{node}.log").open("ab") as output:
                # Of `ip netns exec` remains the node itself: it is the process that we end.
                self.processes[node] = subprocess.Popen(
                    [*space, *COMMAND, "server", "start", str(self._config(node))],
                    stdout=output,
                    stderr=output,
                )

    def host(self, node: int) -> str:
        return f"{self.network}.{node}"

    def data_folder(self, node: int) -> Path:
        return self.folder / str(node)

    def kill(self, node: int) -> None:
        """kill -9, and wait for the end."""
        self.processes[node].kill()
        self.processes[node].wait()

    def signal(self, node: int, number: signal.Signals) -> None:
        if self.processes[node].poll() is None:
            self.processes[node].send_signal(number)

    def _config(self, node: int) -> Path:
        return self.folder / f"{node}.properties"

    def cut(self, node: int) -> None:
        """Both ways, from everybody."""
        ip("link", "set", f"{self.name}v{node}", "down")

    def heal(self, node: int) -> None:
        ip("link", "set", f"{self.name}v{node}", "up")

    def mute(self, node: int) -> None:
        """Cut a node off one way: it receives from all, and no node or client receives from it. A client that
        still hears a leader and has no other connection would ask only that leader for metadata, and stay."""
        for other in self._others(node):
            ip("-n", f"{self.name}{node}", "neigh", "replace", f"{self.network}.{other}",
               "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")  # fmt: skip

    def unmute(self, node: int) -> None:
        for other in self._others(node):
            ip("-n", f"{self.name}{node}", "neigh", "del", f"{self.network}.{other}", "dev", "eth0")

    def _others(self, node: int) -> list[int]:
        return [other for other in (*self.nodes, CLIENTS) if other != node]

    def quorum(self, *nodes: int) -> dict[str, Any]:
        return quorum_as_dict(ask_cluster(self.bootstrap_of(*nodes or NODES), describe_quorum))

    def leader(self, topic: str, *nodes: int) -> int:
        bootstrap = self.bootstrap_of(*nodes or NODES)
        topics = ask_cluster(bootstrap, lambda client: describe_topics(client, topic))
        partitions: Any = topic_as_dict(topics[0])["partitions"]
        return int(partitions[0]["leader"])

    def in_sync(self, topic: str, *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        partitions: Any = None
        while time.monotonic() < deadline:
            try:
                topics = ask_cluster(self.bootstrap, lambda client: describe_topics(client, topic))
            except Exception as error:
                partitions = error
            else:
                partitions = topic_as_dict(topics[0])["partitions"]
                if sorted(partitions[0]["isr"]) == list(NODES):
                    return
            time.sleep(0.1)
        raise AssertionError(f"not in sync within {seconds} s: {partitions}")
