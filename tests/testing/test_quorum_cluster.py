"""Real quorums of a test's own state machine under each fault that a test can ask for."""

import asyncio
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import trio

from quorate.blocking import Client
from quorate.raft import CommittedBatch, OutcomeUnknownError
from quorate.testing import ClusterError, QuorumCluster, StartQuorumCluster
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.system

CALLERS = 8
KILLS = 3


@dataclass
class Counter:
    """Adds up what is appended."""

    total: int = 0

    def apply(self, batch: CommittedBatch) -> list[int]:
        return [self.add(int(record)) for record in batch.records]

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def answer(self, query: bytes) -> bytes:
        return b"%d" % self.total


class Failing(Counter):
    def add(self, number: int) -> int:
        raise ValueError("it can't add")


@pytest.fixture
def cluster(quorum_cluster: StartQuorumCluster) -> QuorumCluster:
    return quorum_cluster(Counter, reads=Counter.answer)


def add(cluster: QuorumCluster, number: int) -> object:
    with cluster.client() as client:
        return client.append([b"%d" % number], timeout_ms=30_000).results[0]


def total(cluster: QuorumCluster) -> int:
    with cluster.client() as client:
        return int(client.read(b"", timeout_ms=30_000))


def test_a_killed_leader_is_replaced_and_comes_back_with_its_state(cluster: QuorumCluster) -> None:
    assert add(cluster, 2) == 2
    leader = cluster.leader()
    cluster.kill(leader)
    assert cluster.leader() != leader
    assert add(cluster, 40) == 42
    assert re.search(rf"node {leader} at 127\.0\.0\.1:\d+: ended with code -9", cluster.describe())
    cluster.restart(leader)
    other = cluster.leader()
    assert other != leader
    cluster.kill(other)
    assert total(cluster) == 42, "it counts for the majority now"


def test_a_leader_on_the_small_side_is_replaced_and_follows_after_the_heal(cluster: QuorumCluster) -> None:
    add(cluster, 1)
    leader = cluster.leader()
    others = {1, 2, 3} - {leader}
    cluster.partition({leader}, others)
    assert cluster.leader() in others
    assert "cut off from" in cluster.describe()
    assert add(cluster, 1) == 2
    cluster.heal()
    survivor = cluster.leader()
    cluster.kill(survivor)
    assert total(cluster) == 2, "the one that was cut off has caught up"


@pytest.mark.slow
def test_a_paused_leader_is_replaced(cluster: QuorumCluster) -> None:
    add(cluster, 1)
    leader = cluster.leader()
    cluster.pause(leader)
    assert "paused" in cluster.describe()
    successor = cluster.leader()
    assert successor != leader
    assert "role=leader" in cluster.log(leader) and "role=leader" in cluster.log(successor)
    assert add(cluster, 1) == 2
    cluster.resume(leader)
    assert add(cluster, 1) == 3


@pytest.mark.slow
def test_slow_disks_delay_a_commit(cluster: QuorumCluster) -> None:
    add(cluster, 1)
    cluster.slow_disk(1, 2, 3, sync_ms=700)
    with cluster.client() as client:
        started = time.monotonic()
        client.append([b"1"])
        assert time.monotonic() - started >= 0.7
    assert "syncs take 700 ms" in cluster.describe()


def test_a_node_with_a_full_disk_ends_and_serves_again_after_heal_and_restart(
    cluster: QuorumCluster,
) -> None:
    add(cluster, 1)
    full = cluster.leader()
    cluster.fill_disk(full)
    assert add(cluster, 1) == 2, "another node leads"
    assert "no space left on the device" in cluster.log(full)
    cluster.heal()
    cluster.restart(full)
    assert add(cluster, 1) == 3


def test_one_cluster_serves_clients_of_threads_asyncio_and_trio(cluster: QuorumCluster) -> None:
    async def use() -> object:
        async with cluster.client() as client:
            await client.append([b"10"])
            return await client.read(b"")

    add(cluster, 10)
    assert asyncio.run(use()) == b"20"
    assert trio.run(use) == b"30"


@pytest.mark.slow
def test_appends_under_way_while_leaders_are_killed_are_applied_once(cluster: QuorumCluster) -> None:
    totals: list[object] = []
    stop = threading.Event()

    def append_until_stopped(client: Client) -> None:
        while not stop.is_set():
            totals.append(client.append([b"1"], timeout_ms=60_000).results[0])

    with cluster.client() as client, ThreadPoolExecutor(CALLERS) as pool:
        ends = [pool.submit(append_until_stopped, client) for _ in range(CALLERS)]
        try:
            for kills in range(1, KILLS + 1):
                wait_until(lambda wanted=100 * kills: len(totals) >= wanted, "appends are answered")
                leader = cluster.leader()
                cluster.kill(leader)
                cluster.restart(leader)
        finally:
            stop.set()
        for end in ends:
            end.result()
    assert sorted(totals) == [*range(1, len(totals) + 1)]


def test_the_next_cluster_has_nothing_of_the_last_one(quorum_cluster: StartQuorumCluster) -> None:
    first = quorum_cluster(Counter, 1, reads=Counter.answer)
    assert add(first, 5) == 5
    second = quorum_cluster(f"{__name__}:Counter", 1)
    assert add(second, 1) == 1


def test_a_node_that_ends_at_its_start_is_named_with_the_end_of_its_log(
    quorum_cluster: StartQuorumCluster,
) -> None:
    cluster = quorum_cluster(Counter, 1)
    cluster.kill(1)
    (cluster.folder(1) / "data" / "meta.properties").write_text("damaged")
    with pytest.raises(ClusterError, match=r"node 1 ended with code 1\. Its log ends:\n[\s\S]*meta\.prop"):
        cluster.restart(1)


@pytest.mark.slow
def test_a_state_machine_that_raises_ends_its_node_and_its_log_says_why(
    quorum_cluster: StartQuorumCluster,
) -> None:
    cluster = quorum_cluster(Failing, 1)
    with pytest.raises(OutcomeUnknownError):
        add_once(cluster)
    assert "ValueError" in cluster.log(1) and "it can't add" in cluster.log(1)
    assert "node 1 at" in cluster.describe() and "ended with code 1" in cluster.describe()


def add_once(cluster: QuorumCluster) -> None:
    with cluster.client() as client:
        client.append([b"1"], timeout_ms=3_000)


@pytest.mark.slow
def test_neither_the_test_run_nor_a_node_needs_an_extra() -> None:
    program = (
        "import sys, quorate.testing.quorum_cluster, quorate.testing.forked_nodes\n"
        "from quorate.testing.quorum_node import preload\n"
        "preload()\n"
        "print({name.partition('.')[0] for name in sys.modules} & {*sys.argv[1:]})\n"
    )
    extras = ("cramjam", "javaproperties", "kio", "pydantic", "rich", "typer")
    done = subprocess.run(
        [sys.executable, "-c", program, *extras], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


class Inner:
    class Stateless:
        pass


def test_mistakes_are_named(quorum_cluster: StartQuorumCluster) -> None:
    @dataclass
    class Local(Counter):
        pass

    for machine, message in (
        (Local, "the state machine .*Local is made inside of a function"),
        ("Counter", "'Counter': write module:Name"),
        ("no.such.module:Counter", "no.such.module:Counter can't be imported.*add its folder to sys.path"),
        (f"{__name__}:Missing", "has no Missing; correct the name"),
        (Inner.Stateless, "apply"),
    ):
        with pytest.raises(ClusterError, match=message):
            quorum_cluster(machine, 1)
    with pytest.raises(ClusterError, match=r"config: .*no_such_field"):
        quorum_cluster(Counter, 1, config={"no_such_field": 1})
    with pytest.raises(ClusterError, match="config: max_batch_bytes is 1; choose 1 KiB to 512 MiB"):
        quorum_cluster(Counter, 1, config={"max_batch_bytes": 1})
    cluster = quorum_cluster(Counter, 1)
    with pytest.raises(ClusterError, match="there is no node 4; the nodes are 1"):
        cluster.kill(4)
    cluster.kill(1)
    with pytest.raises(ClusterError, match="no node runs; start one with restart"):
        cluster.leader()
