"""Full disks, damaged files and foreign folders under real nodes."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from quorate.broker.admin.topics import create_topic
from quorate.cli.commands.batches import batches_of
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster
from quorate.raft.storage.storage import format_folder
from quorate.runtime.entropy import uuid_text
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import NodeId
from tests.kit.clusters import running_cluster, wait_in_sync
from tests.kit.full_disk import fill
from tests.kit.waiting import wait_until
from tests.system.loads import Load

pytestmark = pytest.mark.system


def wait_gone(cluster: LocalCluster, node: int, *, seconds: float = 30.0) -> int:
    """Wait until a node ends by itself. Return its exit code."""
    wait_until(lambda: node not in cluster.running(), f"node {node} ends by itself", seconds=seconds)
    return cluster.stop(node)[node]


def new_lines(cluster: LocalCluster, node: int, since: int) -> str:
    return cluster.node(node).log_file.read_bytes()[since:].decode()


def log_size(cluster: LocalCluster, node: int) -> int:
    return cluster.node(node).log_file.stat().st_size


def data_folder(cluster: LocalCluster, node: int) -> Path:
    return cluster.node(node).folder / "data"


def last_segment(cluster: LocalCluster, node: int, log: str) -> Path:
    return sorted((data_folder(cluster, node) / log).glob("*.log"))[-1]


def batches(data: bytes) -> list[tuple[int, int]]:
    """Return (position, size) of each batch."""
    return [(each.header.position, each.header.size) for each in batches_of(memoryview(data))]


def make_topics(cluster: LocalCluster, prefix: str, count: int) -> None:
    for number in range(count):
        ask_cluster(
            cluster.bootstrap,
            lambda client, name=f"{prefix}-{number}": create_topic(client, name, partitions=1),
        )


@pytest.mark.slow
def test_a_leader_whose_disk_fills_up_stops_and_nothing_acknowledged_is_lost(
    tmp_path: Path, small_disk: Callable[[Path, str], None]
) -> None:
    def on_small_disk(cluster: LocalCluster) -> None:
        small_disk(data_folder(cluster, 3), "48m")

    overrides = {"min.insync.replicas": "2"}
    with running_cluster(tmp_path / "cluster", overrides=overrides, before_start=on_small_disk) as cluster:
        ask_cluster(cluster.bootstrap, lambda client: create_topic(client, "load", assignment=[[3, 1, 2]]))
        wait_in_sync(cluster, "load")
        with Load(cluster.bootstrap, "load", per_second=500.0).running() as running:
            running.wait_acknowledged(500)
            since = log_size(cluster, 3)
            filler = fill(data_folder(cluster, 3))
            code = wait_gone(cluster, 3)
            said = new_lines(cluster, 3, since)
            gap = running.gap_after(time.monotonic())
            print(f"node 3 ended with code {code}, others go on {gap:.2f} s later; it said:\n{said[-700:]}")
            assert code == ExitCode.STORAGE
            assert "no space left" in said.lower() and str(data_folder(cluster, 3)) in said
            assert "Traceback" not in said
            running.wait_acknowledged(500)
            filler.unlink()
            cluster.start(3)
            cluster.wait_ready()
            wait_in_sync(cluster, "load")
            running.wait_acknowledged(500)
        running.check()


@pytest.mark.slow
def test_a_torn_end_of_the_metadata_log_is_cut_and_the_node_catches_up(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3)
    make_topics(cluster, "before", 3)
    victim = 1 if cluster.describe_quorum()["leaderId"] != 1 else 2
    cluster.kill(victim)
    segment = last_segment(cluster, victim, "__cluster_metadata-0")
    data = bytearray(segment.read_bytes())
    whole = batches(bytes(data))
    position, size = whole[-1]
    data[position + size - 5 :] = bytes(len(data) - (position + size - 5))
    segment.write_bytes(data)
    make_topics(cluster, "meanwhile", 3)
    since = log_size(cluster, victim)
    cluster.start(victim)
    cluster.wait_ready()
    said = [line for line in new_lines(cluster, victim, since).splitlines() if "cut" in line]
    print(f"node {victim} said: {said}")
    assert len(said) == 1 and str(size - 5) in said[0], "one line says how much was cut"
    wait_until(lambda: agree(cluster), "all voters have the same log end")
    assert batches(segment.read_bytes())[: len(whole)] == whole, "what was cut was fetched again"


def agree(cluster: LocalCluster) -> bool:
    voters: Any = cluster.describe_quorum()["voters"]
    return len({voter["logEndOffset"] for voter in voters}) == 1


@pytest.mark.slow
def test_a_byte_flipped_below_the_recovery_point_is_refused_by_name_and_others_go_on(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3)
    make_topics(cluster, "before", 3)
    victim = 1 if cluster.describe_quorum()["leaderId"] != 1 else 2
    assert cluster.stop(victim) == {victim: 0}, "in order, which moves the recovery point to the end"
    segment = last_segment(cluster, victim, "__cluster_metadata-0")
    data = bytearray(segment.read_bytes())
    position, size = batches(bytes(data))[2]
    data[position + size - 1] ^= 0x10
    segment.write_bytes(data)
    since = log_size(cluster, victim)
    cluster.start(victim)
    code = wait_gone(cluster, victim)
    said = new_lines(cluster, victim, since)
    print(f"node {victim} ended with code {code}: {said}")
    assert code == ExitCode.STORAGE
    assert f"{segment}, byte {position}" in said, "the file and the place are named"
    assert "as a new replica" in said, "and what to do"
    assert "Traceback" not in said
    assert segment.read_bytes() == bytes(data), "nothing was touched"
    make_topics(cluster, "meanwhile", 2)


@pytest.mark.slow
def test_a_torn_end_of_a_partition_is_cut_and_replicated_again(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3, min_insync_replicas="2")
    ask_cluster(cluster.bootstrap, lambda client: create_topic(client, "load", assignment=[[1, 2, 3]]))
    wait_in_sync(cluster, "load")
    with Load(cluster.bootstrap, "load", per_second=500.0).running() as running:
        running.wait_acknowledged(500)
        cluster.kill(1)
        segment = last_segment(cluster, 1, "load-0")
        data = segment.read_bytes()
        segment.write_bytes(data[: -len(data) // 3] + b"\x55" * 100)
        running.wait_acknowledged(500)
        cluster.start(1)
        cluster.wait_ready()
        wait_in_sync(cluster, "load")
        running.wait_acknowledged(100)
    wait_in_sync(cluster, "load")
    running.check()
    cluster.stop()
    logs = {node: last_segment(cluster, node, "load-0").read_bytes() for node in (1, 2, 3)}
    assert logs[1] == logs[2] == logs[3], "replicas are the same, byte for byte"


@pytest.mark.slow
def test_a_node_of_another_cluster_gets_nowhere_and_others_never_notice(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3)
    before = cluster.describe_quorum()
    foreign_node = 1 if before["leaderId"] != 1 else 2
    cluster.stop(foreign_node)
    shutil.rmtree(data_folder(cluster, foreign_node))
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    foreign = uuid_text(runtime.entropy.uuid())
    trio.run(lambda: format_folder(runtime, str(data_folder(cluster, foreign_node)), cluster_id=foreign,
                                   node_id=NodeId(foreign_node)))  # fmt: skip
    since = log_size(cluster, foreign_node)
    cluster.start(foreign_node)
    wait_until(
        lambda: "of another cluster" in new_lines(cluster, foreign_node, since),
        "it names the other cluster",
    )
    time.sleep(4)  # longer than the fetch timeout: it had the time to stand for election
    said = new_lines(cluster, foreign_node, since)
    print(f"the foreign node, running: {foreign_node in cluster.running()}, said:\n{said[-700:]}")
    others = ",".join(f"{cluster.host}:{cluster.node(n).client_port}" for n in (1, 2, 3) if n != foreign_node)
    ask_cluster(others, lambda client: create_topic(client, "meanwhile", partitions=1, replication_factor=2))
    cluster.kill(foreign_node)
    after = cluster.describe_quorum()
    assert (after["leaderId"], after["leaderEpoch"]) == (before["leaderId"], before["leaderEpoch"])
    assert 1 <= said.count("of another cluster") <= 2, "once for each of the others"
