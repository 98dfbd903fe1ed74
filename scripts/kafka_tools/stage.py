"""The cluster that the tools meet: brokers 1 to 3 with two directories each, and broker 4, which is down.

Nodes 1 and 2 are the quorum's first voters, so that 3 can be added and removed. Broker 4 has registered and
was stopped: it is what fenced brokers, reassignments that wait and unregistering need.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate.cli.node.local_cluster import LocalCluster

ABSENT = 4


@dataclass(frozen=True, slots=True)
class Stage:
    cluster: LocalCluster
    cluster_id: str
    folder: Path
    """The folder for files that tools read and write."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.cluster.host}:{self.cluster.node(each).client_port}" for each in (1, 2, 3))

    @property
    def controllers(self) -> str:
        return ",".join(
            f"{self.cluster.host}:{self.cluster.node(each).controller_port}" for each in (1, 2, 3)
        )

    def directories(self, node: int) -> tuple[Path, Path]:
        folder = self.cluster.node(node).folder
        return folder / "data", folder / "data-2"

    def directory_id(self, node: int) -> str:
        """Return the id of the directory with the metadata log."""
        lines = (self.directories(node)[0] / "meta.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)["directory.id"]

    def file(self, name: str, content: object) -> str:
        """Write a file for a tool: text, properties of a mapping, or else JSON."""
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def describe(self, topic: str) -> list[dict[str, Any]]:
        """Return the topic's partitions."""
        partitions: Any = self.cluster.describe_topic(topic)["partitions"]
        return list(partitions)

    def topic_id(self, topic: str) -> str:
        return str(self.cluster.describe_topic(topic)["topicId"])

    def given(self) -> Mapping[str, str]:
        """Return the addresses and ids that java/AdminCalls.java needs."""
        return {
            "bootstrap": self.bootstrap,
            "controllers": self.controllers,
            "cluster": self.cluster_id,
            "directory3": self.directory_id(3),
            "port3": str(self.cluster.node(3).controller_port),
        }


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    cluster = LocalCluster.plan(folder / "cluster", nodes=4, client_port=0, voters=2)
    cluster_id = cluster.prepare()
    for node in cluster.nodes:
        one = f"log.dirs={node.folder / 'data'}"
        settings = node.config_file.read_text()
        assert one in settings
        node.config_file.write_text(settings.replace(one, f"{one},{node.folder / 'data-2'}"))
    try:
        cluster.start()
        cluster.wait_ready(seconds=60)
        cluster.stop(ABSENT)
        _wait_fenced(cluster)
        yield Stage(cluster, cluster_id, folder)
    finally:
        cluster.stop()
        cluster.kill_all()


def _wait_fenced(cluster: LocalCluster, *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while ABSENT in cluster.live_brokers():
        assert time.monotonic() < deadline, f"broker {ABSENT} is not fenced"
        time.sleep(0.1)
