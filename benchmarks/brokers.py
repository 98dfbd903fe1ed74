"""A cluster of brokers under a benchmark, from its start to its end."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import priority
from clusters import cpu_seconds
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from quorate.cli.node.local_cluster import LocalCluster

QUIET = {"log_level": 0}
"""For clients, which outlive their cluster here."""
SETTLED_S = 30
"""After so long, thousands of new partitions cost what idle ones do."""
_PER_TOPIC = 1000


class Nodes(Protocol):
    """A cluster of brokers, quorate's or Kafka's."""

    @property
    def bootstrap(self) -> str: ...

    def start(self) -> None: ...

    def wait_ready(self) -> None: ...

    def running(self) -> list[int]: ...

    def pid(self, node: int) -> int: ...

    def kill_all(self) -> None: ...


def planned(
    folder: Path, *, overrides: Mapping[str, str] | None = None, secure: bool = False
) -> LocalCluster:
    """Three nodes of quorate on free ports, to be started."""
    cluster = LocalCluster.plan(folder, client_port=0, overrides=overrides, secure=secure)
    cluster.prepare()
    return cluster


@contextmanager
def serving(cluster: Nodes) -> Iterator[float]:
    """The cluster is started, and killed at the end of the block. Yields the seconds until it was ready."""
    try:
        began = time.perf_counter()
        cluster.start()
        for number in cluster.running():
            priority.as_ours(cluster.pid(number))
        cluster.wait_ready()
        yield time.perf_counter() - began
    finally:
        cluster.kill_all()


def create_idle(admin: AdminClient, partitions: int) -> None:
    """Create partitions that nobody uses, in topics of at most 1,000: a request may have 10,000."""
    for first in range(0, partitions, _PER_TOPIC):
        name = f"idle-{first // _PER_TOPIC}"
        count = min(_PER_TOPIC, partitions - first)
        admin.create_topics([NewTopic(name, count, 3)])[name].result(timeout=120)


def cpu(cluster: Nodes) -> float:
    """The processor time of all nodes so far, in s."""
    return sum(cpu_seconds(cluster.pid(number)) for number in cluster.running())
