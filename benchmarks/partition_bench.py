"""Many partitions that nobody uses, on quorate's brokers and on Apache Kafka's: what they cost, and how long
the cluster takes to move their leaders. Three nodes each, broker and controller, default settings, in turn.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import priority
from brokers import QUIET, SETTLED_S, create_idle, planned, serving
from clusters import cpu_seconds, resident_mib, wait_for_replicas
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]
from kafka_nodes import KafkaNodes
from report import Measure, Report

from quorate.broker.admin.quorum import describe_quorum, quorum_as_dict
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster

SYSTEMS = ("quorate", "kafka")
_WITHIN_S = 300.0
_LOOK_S = 0.02

Cluster = KafkaNodes | LocalCluster


def run(folder: Path, *, partitions: int, rounds: int, seconds: float) -> Report:
    """`seconds`: for which idle nodes are watched."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SYSTEMS}
    for turn in range(rounds):
        for name in SYSTEMS if turn % 2 == 0 else SYSTEMS[::-1]:
            found[name].append(_one(folder / f"{turn}-{name}", name, partitions, seconds))
    return Report(
        title=f"{partitions:,} idle partitions beside Apache Kafka",
        systems=SYSTEMS,
        measures=[
            Measure(
                name=name.rpartition(", ")[0],
                unit=name.rpartition(", ")[2],
                values={system: median(each[name] for each in found[system]) for system in SYSTEMS},
            )
            for name in found["quorate"][0]
        ],
        rounds=[{"system": system, **each} for system, all_of in found.items() for each in all_of],
    )


def _one(folder: Path, name: str, partitions: int, seconds: float) -> dict[str, float]:
    cluster = KafkaNodes(folder) if name == "kafka" else planned(folder)
    with serving(cluster):
        folders = [folder / str(number) for number in cluster.running()]
        return _Run(cluster, folders, partitions).measure(seconds)


class _Run:
    def __init__(self, cluster: Cluster, folders: Sequence[Path], partitions: int) -> None:
        self._cluster = cluster
        self._folders = folders
        self._partitions = partitions
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})

    def measure(self, seconds: float) -> dict[str, float]:
        cluster = self._cluster
        found = {"create all, in topics of 1,000, until each has its leader and ISR, s": self._create()}
        wait_for_replicas(self._folders, self._partitions)
        # Followers have begun, and the first checkpoints are written.
        time.sleep(SETTLED_S)
        shares = self._shares(seconds)
        found["idle: the active controller's node, share of a core"] = shares.pop(self._controller())
        found["idle: each other node, share of a core"] = median(shares.values())
        found["resident memory of a node, MiB"] = median(
            resident_mib(cluster.pid(number)) for number in cluster.running()
        )
        controller = self._controller()
        found["kill -9 of a node that is not the active controller: new leaders of all its partitions, s"] = (
            self._without(next(each for each in cluster.running() if each != controller), cluster.kill)
        )
        found["kill -9 of the active controller's node: the same, s"] = self._without(
            self._controller(), cluster.kill
        )
        leaver = next(each for each in cluster.running() if each != self._controller())
        began = time.perf_counter()
        cluster.stop(leaver, seconds=_WITHIN_S)
        found["SIGTERM of a node to its end, s"] = time.perf_counter() - began
        found["its start until it is in every ISR, s"] = self._back(leaver)
        return found

    def _create(self) -> float:
        began = time.perf_counter()
        create_idle(self._admin, self._partitions)
        self._until(lambda states: all(leader >= 0 and isr == 3 for leader, isr in states))
        return time.perf_counter() - began

    def _shares(self, seconds: float) -> dict[int, float]:
        cluster, began = self._cluster, time.perf_counter()
        before = {number: cpu_seconds(cluster.pid(number)) for number in cluster.running()}
        time.sleep(seconds)
        taken = time.perf_counter() - began
        return {number: (cpu_seconds(cluster.pid(number)) - was) / taken for number, was in before.items()}

    def _controller(self) -> int:
        quorum = quorum_as_dict(ask_cluster(self._cluster.bootstrap, describe_quorum))
        return int(str(quorum["leaderId"]))

    def _without(self, node: int, kill: Callable[[int], None]) -> float:
        """Seconds until no partition is led by a killed node; then start it again."""
        began = time.perf_counter()
        kill(node)
        self._until(lambda states: all(leader not in (-1, node) for leader, _ in states))
        taken = time.perf_counter() - began
        self._back(node)
        # Kafka moves preferred leaders back after minutes; here nobody waits for it.
        return taken

    def _back(self, node: int) -> float:
        began = time.perf_counter()
        self._cluster.start(node)
        priority.as_ours(self._cluster.pid(node))
        self._until(lambda states: all(isr == 3 for _, isr in states))
        return time.perf_counter() - began

    def _until(self, holds: Callable[[list[tuple[int, int]]], bool]) -> None:
        """Until it holds of all partitions' leaders and numbers of ISR members. Raises `TimeoutError`."""
        deadline = time.monotonic() + _WITHIN_S
        while time.monotonic() < deadline:
            try:
                topics = self._admin.list_topics(timeout=5).topics
            except Exception:  # librdkafka's own, while it looks for another broker
                topics = {}
            states = [
                (part.leader, len(part.isrs))
                for name, topic in topics.items()
                if name.startswith("idle-")
                for part in topic.partitions.values()
            ]
            if len(states) == self._partitions and holds(states):
                return
            time.sleep(_LOOK_S)
        raise TimeoutError(f"not reached within {_WITHIN_S:g} s")
