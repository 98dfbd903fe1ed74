"""The steps of docs/how-to/replace-a-disk.md bring a node back."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from full_disk import wait_until

from quorate.broker.admin.topics import create_topic
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster

pytestmark = pytest.mark.system

SECONDS = 60.0


def lags(cluster: LocalCluster) -> dict[int, int | None]:
    voters: Any = cluster.describe_quorum()["voters"]
    return {voter["id"]: voter["lag"] for voter in voters}


@pytest.mark.slow
def test_a_node_that_lost_its_disk_comes_back_by_the_steps_of_the_page(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3)
    ask_cluster(cluster.bootstrap, lambda client: create_topic(client, "kept", replication_factor=3))
    cluster.kill(3)
    shutil.rmtree(cluster.node(3).folder / "data")
    wait_until(
        lambda: all(lags(cluster)[node] == 0 for node in (1, 2)), "the others are caught up", seconds=SECONDS
    )

    config = str(cluster.node(3).config_file)
    said = subprocess.run(
        [sys.executable, "-m", "quorate.cli.main", "storage", "info", "-c", str(cluster.node(1).config_file)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    known = dict(line.split(": ", 1) for line in said.splitlines())["cluster.id"]
    subprocess.run(
        [sys.executable, "-m", "quorate.cli.main", "storage", "format", "-t", known, "-c", config], check=True
    )
    cluster.start(3)
    cluster.wait_ready()
    wait_until(lambda: lags(cluster)[3] == 0, "the quorum's lag is 0", seconds=SECONDS)

    def in_sync() -> bool:
        partitions: Any = cluster.describe_topic("kept")["partitions"]
        return all(3 in partition["isr"] for partition in partitions)

    wait_until(in_sync, "its partitions are in sync", seconds=SECONDS)
