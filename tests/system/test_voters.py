"""One node becomes three voters, the first is retired and a disk replaced, by the commands and under load."""

import itertools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.node.local_cluster import LocalCluster
from tests.kit.clusters import running_cluster, wait_in_sync
from tests.kit.waiting import wait_until
from tests.system.loads import Load

pytestmark = [pytest.mark.system, pytest.mark.slow]

SECONDS = 60.0


def quorate(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "quorate.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def voters(described: str) -> list[int]:
    return [voter["id"] for voter in json.loads(described)["voters"]]


def format_one_first(cluster: LocalCluster) -> None:
    """Format nodes anew, as an operator does: the first one standalone, the others to join later."""
    cluster_id = cluster.prepare()
    for node in cluster.nodes:
        shutil.rmtree(node.folder / "data")
        first = "--standalone" if node.node_id == 1 else "--no-initial-controllers"
        quorate("storage", "format", "-t", cluster_id, "-c", node.config_file, first)


def longest_pause(running: Load, since: float) -> float:
    """Return the longest time between two acknowledgements since then, in seconds."""
    moments = sorted(moment for moment in list(running.acknowledged_at.values()) if moment > since)
    assert len(moments) > 100
    return max(after - before for before, after in itertools.pairwise(moments))


def wait_caught_up(cluster: LocalCluster, node: int) -> None:
    def has_no_lag() -> bool:
        described: Any = cluster.describe_quorum()
        return any(each["id"] == node and each["lag"] == 0 for each in described["voters"])

    wait_until(has_no_lag, f"node {node} has no lag", seconds=SECONDS)


def errors_in_logs(cluster: LocalCluster) -> list[str]:
    return [
        line
        for node in (1, 2, 3, 4)
        for line in (cluster.node(node).folder / "server.log").read_text().splitlines()
        if "[error" in line or "[critical" in line
    ]


def test_a_standalone_node_grows_to_three_voters_and_is_retired_under_load(
    tmp_path: Path,
) -> None:
    overrides = {"min.insync.replicas": "2"}
    with running_cluster(
        tmp_path / "cluster", nodes=4, voters=1, overrides=overrides, before_start=format_one_first
    ) as cluster:
        to = ("-b", cluster.bootstrap, "--json")
        assert voters(quorate("quorum", "describe", *to)) == [1]
        quorate("topics", "create", "-t", "load", "--replica-assignment", "2:3:4", "-b", cluster.bootstrap)
        wait_in_sync(cluster, "load")
        with Load(cluster.bootstrap, "load", per_second=500.0).running() as running:
            running.wait_acknowledged(200)
            for node in (2, 3, 4):
                quorate("quorum", "add-voter", "-c", cluster.node(node).config_file, *to)
                running.wait_acknowledged(50)
            assert voters(quorate("quorum", "describe", *to)) == [1, 2, 3, 4]

            # Records go to partition leaders: they do not notice who leads the quorum.
            for node in (2, 3, 1):
                moment = time.monotonic()
                described = json.loads(quorate("quorum", "transfer", node, *to))
                assert described["leaderId"] == node
                assert longest_pause(running, moment) < 1.0

            # The first node leads, is removed, and resigns.
            left = json.loads(quorate("quorum", "remove-voter", 1, *to))
            assert [voter["id"] for voter in left["voters"]] == [2, 3, 4]
            assert left["leaderId"] in (2, 3, 4)
            assert cluster.stop(1) == {1: 0}
            running.wait_acknowledged(200)

            # A disk is lost, with the vote and all partitions on it.
            cluster.kill(3)
            shutil.rmtree(cluster.node(3).folder / "data")
            here = ("-b", f"{cluster.host}:{cluster.node(2).client_port}", "--json")
            old = next(
                voter["directoryId"]
                for voter in json.loads(quorate("quorum", "describe", *here))["voters"]
                if voter["id"] == 3
            )
            assert voters(quorate("quorum", "remove-voter", 3, *here)) == [2, 4]
            config = cluster.node(3).config_file
            cluster_id = json.loads(quorate("storage", "info", "-c", cluster.node(2).config_file, "--json"))[
                "cluster.id"
            ]
            quorate("storage", "format", "-t", cluster_id, "-c", config, "--no-initial-controllers")
            cluster.start(3)
            cluster.wait_ready()
            again = json.loads(quorate("quorum", "add-voter", "-c", config, *here))
            assert [voter["id"] for voter in again["voters"]] == [2, 3, 4]
            assert next(voter["directoryId"] for voter in again["voters"] if voter["id"] == 3) != old
            wait_caught_up(cluster, 3)
            wait_in_sync(cluster, "load")
            running.wait_acknowledged(200)

            # It counts: with another voter gone, the quorum goes on by its vote.
            cluster.kill(4)
            quorate("topics", "create", "-t", "by-two-of-three", "--replication-factor", 2, *here[:2])
        running.check()
        assert errors_in_logs(cluster) == []  # no controller was put out by a change of voters
