"""Nodes in network namespaces of their own, cut off from each other: both ways, and one way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.bootstrap import ask_cluster
from quorate.cli.kafka_requests.cluster_requests import (
    create_topic,
    describe_quorum,
    describe_topics,
    quorum_as_dict,
    topic_as_dict,
)

pytestmark = [pytest.mark.system, pytest.mark.slow]

NODES = (1, 2, 3)
CLIENTS = 254
CUT_SECONDS = 8.0
"""Longer than the fetch timeout (2 s), the broker session (3 s) and clients' request timeout (2 s)."""


NOBODY = "02:00:00:00:00:99"
"""What is sent to this hardware address is lost without a word."""


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

    def __post_init__(self) -> None:
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return self.bootstrap_of(*NODES)

    def bootstrap_of(self, *nodes: int) -> str:
        return ",".join(f"{self.network}.{node}:9092" for node in nodes)

    def build(self) -> None:
        ip("link", "add", f"{self.name}b", "type", "bridge")
        ip("addr", "add", f"{self.network}.{CLIENTS}/24", "dev", f"{self.name}b")
        ip("link", "set", f"{self.name}b", "up")
        for node in NODES:
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
            *(("netns", "del", f"{self.name}{node}") for node in NODES),
            *(("link", "del", f"{self.name}v{node}") for node in NODES),
            ("link", "del", f"{self.name}b"),
        ):
            subprocess.run(["ip", *arguments], capture_output=True)

    def start(self) -> None:
        command = [sys.executable, "-m", "quorate.cli.main"]
        voters = ",".join(f"{node}@{self.network}.{node}:19092" for node in NODES)
        for node in NODES:
            config = self.folder / f"{node}.properties"
            config.write_text(
                f"process.roles=broker,controller\nnode.id={node}\ncontroller.quorum.voters={voters}\n"
                f"listeners=PLAINTEXT://{self.network}.{node}:9092,CONTROLLER://{self.network}.{node}:19092\n"
                "controller.listener.names=CONTROLLER\nmetrics.http.port=-1\n"
                f"log.dirs={self.folder / str(node)}\nmin.insync.replicas=2\ndefault.replication.factor=3\n"
                "broker.heartbeat.interval.ms=500\nbroker.session.timeout.ms=3000\n"
            )
            subprocess.run([*command, "storage", "format", "-t", "cut", "-c", str(config)], check=True,
                           stdout=subprocess.DEVNULL)  # fmt: skip
            with (self.folder / f"{node}.log").open("wb") as output:
                # Of `ip netns exec` remains the node itself: it is the process that we end.
                self.processes[node] = subprocess.Popen(
                    ["ip", "netns", "exec", f"{self.name}{node}", *command, "server", "start", str(config)],
                    stdout=output, stderr=output,
                )  # fmt: skip

    def cut(self, node: int) -> None:
        """Both ways, from everybody."""
        ip("link", "set", f"{self.name}v{node}", "down")

    def heal(self, node: int) -> None:
        ip("link", "set", f"{self.name}v{node}", "up")

    def mute(self, node: int) -> None:
        """One way: it hears everybody, and nobody hears it. Clients neither: those that still hear a leader
        and have no connection to other brokers ask nobody else for metadata, and stay."""
        for other in self._others(node):
            ip("-n", f"{self.name}{node}", "neigh", "replace", f"{self.network}.{other}",
               "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")  # fmt: skip

    def unmute(self, node: int) -> None:
        for other in self._others(node):
            ip("-n", f"{self.name}{node}", "neigh", "del", f"{self.network}.{other}", "dev", "eth0")

    def _others(self, node: int) -> list[int]:
        return [other for other in (*NODES, CLIENTS) if other != node]

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


@pytest.fixture
def namespaces(tmp_path: Path, need: Callable[..., str]) -> Iterator[Namespaces]:
    need("ip", "iproute2")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    number = os.getpid()
    made = Namespaces(tmp_path, f"q{number % 100_000}", f"10.{200 + number % 50}.{number // 50 % 250}")
    try:
        try:
            made.build()
        except RuntimeError as error:
            pytest.skip(f"network namespaces can't be made here: {error}")
        made.start()
        deadline = time.monotonic() + 30
        while True:
            try:
                ask_cluster(
                    made.bootstrap, lambda client: create_topic(client, "load", assignment=[[1, 2, 3]])
                )
                break
            except Exception as error:
                assert time.monotonic() < deadline, error
                time.sleep(0.2)
        made.in_sync("load")
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("way", ["both ways", "one way"])
def test_a_leader_cut_off_is_replaced_and_comes_back(
    namespaces: Namespaces, load: Callable[..., Any], way: str
) -> None:
    """The quorum's leader, or the partition's, is cut off; clients go on with the others; after it heals all
    three are in sync, and everything acknowledged is there once, in order."""
    running = load(namespaces.bootstrap, "load", per_second=300.0).start()
    try:
        for kind in ("quorum", "partition"):
            running.wait_acknowledged(300)
            before = namespaces.quorum()
            victim = int(before["leaderId"]) if kind == "quorum" else namespaces.leader("load")
            others = [node for node in NODES if node != victim]
            (namespaces.cut if way == "both ways" else namespaces.mute)(victim)
            cut_at = time.monotonic()
            try:
                gap = running.gap_after(cut_at)
                time.sleep(max(0.0, cut_at + CUT_SECONDS - time.monotonic()))
                during = namespaces.quorum(*others)
                print(f"{way}, {kind} leader {victim}: acknowledges again after {gap:.2f} s; "
                      f"node {during['leaderId']} leads in epoch {during['leaderEpoch']}")  # fmt: skip
                assert during["leaderId"] != victim
                assert namespaces.leader("load", *others) != victim
                running.wait_acknowledged(300)
            finally:
                (namespaces.heal if way == "both ways" else namespaces.unmute)(victim)
            namespaces.in_sync("load")
            after = namespaces.quorum()
            assert after["leaderId"] == during["leaderId"], "coming back deposes nobody"
            assert after["leaderEpoch"] == during["leaderEpoch"], "nor does it start an election (pre-vote)"
            running.wait_acknowledged(300)
    finally:
        running.stop()
    running.check()
    assert all(process.poll() is None for process in namespaces.processes.values())
    for process in namespaces.processes.values():
        process.send_signal(signal.SIGTERM)
    assert [process.wait(30) for process in namespaces.processes.values()] == [0, 0, 0]
