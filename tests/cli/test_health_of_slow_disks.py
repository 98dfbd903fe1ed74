"""`quorate cluster health` names a voter whose disk is slow, and a broker whose shutdown waits for it."""

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.configs import Entity, EntityType, alter_configs
from quorate.cli.node.local_cluster import LocalCluster
from quorate.health import catalogue
from quorate.runtime import Address
from quorate.runtime.real import RealNetwork
from tests.cli.command import Quorate
from tests.cli.health_checks import BUDGET_S, commands_in, follow, named, wait_named, wait_well
from tests.kit.clusters import running_cluster
from tests.kit.host_faults import HostFaults
from tests.kit.own_thread import running
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

NODES = (1, 2, 3)
SYNC_S = 1.0
"""A sync of the slow disk takes so long: less than the fetch timeout, so that the voter goes on to fetch."""
OVERRIDES = {
    # A fetch brings few records: what is written in a second takes several.
    "controller.quorum.fetch.max.bytes": "1024",
    "controlled.shutdown.timeout.ms": "600000",
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostFaults]:
    with HostFaults.installed(tmp_path_factory.mktemp("slow") / "faults") as installed:
        yield installed


@pytest.fixture(scope="module")
def cluster(faults: HostFaults) -> Iterator[LocalCluster]:
    with running_cluster(faults.folder / "cluster", overrides=OVERRIDES) as started:
        ask = Quorate().at(started)
        ask.output("topics", "create", "-t", "orders", "--partitions", 6, "--replication-factor", 3)
        yield started


@pytest.fixture
def well(cluster: LocalCluster, faults: HostFaults) -> Iterator[LocalCluster]:
    wait_well(cluster)
    yield cluster
    for node in NODES:
        faults.slow(node, Path(), 0)
    cluster.start()
    cluster.wait_ready(seconds=60)
    wait_well(cluster)


def leader_of(cluster: LocalCluster) -> int:
    return int(str(cluster.describe_quorum()["leaderId"]))


def followers_of(cluster: LocalCluster) -> list[int]:
    leader = leader_of(cluster)
    return [node for node in NODES if node != leader]


def slow_down(cluster: LocalCluster, faults: HostFaults, node: int, seconds: float = SYNC_S) -> None:
    faults.slow(node, cluster.node(node).folder / "data" / "__cluster_metadata-0", seconds)


@contextmanager
def changing(cluster: LocalCluster) -> Iterator[None]:
    """Change the metadata in the block, tens of times in a second. The leader is asked: another node answers
    when it has applied the change itself."""
    leader = cluster.node(leader_of(cluster))

    async def change(enough: threading.Event) -> None:
        address = Address(cluster.host, leader.client_port)
        async with open_admin(RealNetwork(), [address], client_id="changes") as admin:
            number = 0
            while not enough.is_set():
                number += 1
                value = {"retention.ms": str(10_000_000 + number)}
                await alter_configs(admin, Entity(EntityType.TOPICS, "orders"), value)
                await trio.sleep(0.01)

    with running(change):
        yield


def test_a_voter_whose_disk_is_slower_than_changes_come_lags_until_its_disk_is_mended(
    well: LocalCluster, faults: HostFaults
) -> None:
    node, _ = followers_of(well)
    with changing(well):
        time.sleep(1)
        began = time.monotonic()
        slow_down(well, faults, node)
        found = wait_named(well, "voter-lagging", seconds=catalogue.LAG_S + SYNC_S + BUDGET_S)
        assert time.monotonic() - began > catalogue.LAG_S - 1, "not each voter that is a moment behind"
    assert found["where"] == f"voter {node}"
    behind = re.fullmatch(r"(\d+) records behind the leader", found["why"])
    assert behind is not None and int(behind[1]) > 20
    assert set(named(well)) <= {"voter-lagging"}, "it is not silent, and nothing follows from it"
    assert f"look at node {node}: its disk" in found["remedy"]
    assert str(node) in follow(found, "describe")

    faults.slow(node, Path(), 0)
    wait_until(lambda: "voter-lagging" not in named(well), "it caught up", seconds=10)


def test_a_broker_that_waits_in_its_shutdown_for_another_to_apply_it_is_named_until_that_does(
    well: LocalCluster, faults: HostFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "DRAIN_S", 6)
    slow, leaving = followers_of(well)
    leading = leader_of(well)
    with changing(well):
        slow_down(well, faults, slow)
        time.sleep(4 * SYNC_S)
        began = time.monotonic()
        well.signal(leaving, signal.SIGTERM)
        # The node that does not know it yet is asked, too.
        reach = ("-b", ",".join(f"{well.host}:{well.node(each).client_port}" for each in (slow, leading)))
        seconds = catalogue.DRAIN_S + 1 + BUDGET_S
        found = wait_named(well, "broker-draining", *reach, seconds=seconds)
        assert time.monotonic() - began > catalogue.DRAIN_S - 1
    assert found["where"] == f"broker {leaving}"
    assert found["why"] == f"it leads 0 partitions, and broker {slow} has not applied that it leaves"
    assert leaving in well.running()
    assert "orders" in follow(found, "topics")
    (words,) = [each for each in commands_in(found["remedy"]) if "state-changes" in each]
    (row,) = [each for each in Quorate().json(*words) if each["broker"] == slow]
    assert row["recordsBehind"] > 20, "so the broker to mend is found"

    faults.slow(slow, Path(), 0)
    wait_until(lambda: leaving not in well.running(), "it stopped", seconds=20)
    wait_until(lambda: "broker-draining" not in named(well), "nothing drains", seconds=BUDGET_S)
