"""Three real nodes in one process, on loopback and real files."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

from quorate.cli.node.free_ports import free_ports
from quorate.log.batches.batch import read_headers
from quorate.raft.core.core_config import CoreConfig
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.quorum_errors import (
    InvalidAppendError,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumConfigError,
    QuorumStoppedError,
    StateMachineError,
)
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import format_folder
from quorate.runtime.disk import DiskLockedError
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import NodeId

FAST = CoreConfig(
    election_timeout_ms=300, fetch_timeout_ms=5000, fetch_max_wait_ms=200, request_timeout_ms=5000
)
"""Elections are quick, and a machine that is busy for seconds causes none."""
CLUSTER = "tests-cluster-id-00001"


class Journal:
    """A state machine that keeps every record; its result is the record's offset and content."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.offsets: list[int] = []

    def apply(self, batch: CommittedBatch) -> Sequence[tuple[int, bytes]]:
        results = []
        for position, record in enumerate(batch.records):
            if record == b"poison":
                raise ValueError("poisoned")
            self.records.append(record)
            self.offsets.append(batch.base_offset + position)
            results.append((batch.base_offset + position, record))
        return results

    def take_snapshot(self):
        raise AssertionError("nothing here is large or old enough")

    def load_snapshot(self, snapshot):
        raise AssertionError("there is no snapshot")


class Cluster:
    """Nodes that can be stopped and started one by one."""

    def __init__(self, folder: Path, nursery: trio.Nursery, ports: list[int]) -> None:
        self.folder = folder
        self.nursery = nursery
        self.runtime = real_runtime(sync=SyncStrategy.INLINE)
        self.voters = parse_voters(",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(ports, 1)))
        self.nodes: dict[int, Quorum] = {}
        self.journals: dict[int, Journal] = {}
        self.stops: dict[int, trio.Event] = {}
        self.stopped: dict[int, trio.Event] = {}
        self.failures: dict[int, BaseException] = {}
        """Of nodes that stopped by themselves. A test takes out those that it expects."""

    def config(self, node: int) -> QuorumConfig:
        return QuorumConfig(
            node_id=NodeId(node),
            cluster_id=CLUSTER,
            folder=str(self.folder / str(node)),
            voters=self.voters,
            core=FAST,
        )

    async def format(self) -> None:
        for node in self.voters.ids:
            await format_folder(self.runtime, str(self.folder / str(node)), cluster_id=CLUSTER, node_id=node)

    async def start(self, *nodes: int) -> None:
        for node in nodes:
            await self.nursery.start(self._run, node)

    async def _run(self, node: int, task_status: trio.TaskStatus[None]) -> None:
        journal = self.journals[node] = Journal()
        stop = self.stops[node] = trio.Event()
        stopped = self.stopped[node] = trio.Event()
        try:
            async with Quorum.open(self.config(node), journal, runtime=self.runtime) as quorum:
                self.nodes[node] = quorum
                task_status.started()
                await stop.wait()
        except QuorumStoppedError as error:
            self.failures[node] = error
        finally:
            stopped.set()

    async def stop(self, node: int) -> None:
        self.stops[node].set()
        await self.stopped[node].wait()
        del self.nodes[node]

    async def leader(self) -> Quorum:
        while True:
            for quorum in self.nodes.values():
                if quorum.is_leader:
                    return quorum
            await trio.sleep(0.005)

    async def follower(self) -> Quorum:
        leader = await self.leader()
        return next(quorum for quorum in self.nodes.values() if quorum is not leader)


@pytest.fixture
async def cluster(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path, nursery, free_ports(3))
    await cluster.format()
    yield cluster
    assert cluster.failures == {}, "nodes stopped by themselves, and the test did not expect it"


async def test_an_append_is_committed_and_applied_on_all_nodes(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(10):
        leader = await cluster.leader()
        first = await leader.append([b"a", b"b"])
        second = await leader.append([b"c"])
        assert second.base_offset == first.base_offset + 2
        assert first.results == ((first.base_offset, b"a"), (first.base_offset + 1, b"b"))
        for quorum in cluster.nodes.values():
            await quorum.wait_applied(second.base_offset + 1)
    assert {tuple(journal.records) for journal in cluster.journals.values()} == {(b"a", b"b", b"c")}


async def test_a_follower_forwards_and_answers_with_its_own_result(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(10):
        follower = await cluster.follower()
        appended = await follower.append([b"via", b"follower"])
    assert appended.results == (
        (appended.base_offset, b"via"),
        (appended.base_offset + 1, b"follower"),
    )
    assert cluster.journals[follower.node_id].records == [b"via", b"follower"]


@pytest.mark.slow
async def test_concurrent_appends_share_batches_and_keep_their_own_results(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    results: dict[int, tuple[int, bytes]] = {}

    async def append(quorum: Quorum, number: int) -> None:
        appended = await quorum.append([b"%d" % number])
        results[number] = appended.results[0]

    with trio.fail_after(20):
        leader = await cluster.leader()
        follower = await cluster.follower()
        async with trio.open_nursery() as appends:
            for number in range(300):
                appends.start_soon(append, leader if number % 2 else follower, number)
    assert [results[number][1] for number in range(300)] == [b"%d" % number for number in range(300)]
    assert len({offset for offset, _ in results.values()}) == 300
    written = list(read_headers(await leader.log.read(0, 1_000_000)))
    assert len(written) < 100, f"300 appends at once took {len(written)} batches"


async def test_a_leader_that_stops_resigns_and_nothing_is_lost(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(20):
        leader = await cluster.leader()
        await leader.append([b"before"])
        await cluster.stop(leader.node_id)
        successor = await cluster.leader()
        assert successor.epoch > 0
        await successor.append([b"after"])
        await cluster.start(leader.node_id)
        returned = cluster.nodes[leader.node_id]
        await returned.wait_applied(successor.applied_offset)
    assert cluster.journals[leader.node_id].records == [b"before", b"after"]


async def test_a_whole_cluster_restarts_on_its_data(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(30):
        leader = await cluster.leader()
        for number in range(20):
            await leader.append([b"%d" % number])
        for node in (1, 2, 3):
            await cluster.stop(node)
        await cluster.start(1, 2, 3)
        await (await cluster.leader()).append([b"more"])
    leader = await cluster.leader()
    assert cluster.journals[leader.node_id].records == [*(b"%d" % number for number in range(20)), b"more"]


async def test_without_a_majority_an_append_ends_as_outcome_unknown_or_not_leader(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(20):
        leader = await cluster.leader()
        await leader.append([b"one"])
        for node in [node for node in (1, 2, 3) if node != leader.node_id]:
            await cluster.stop(node)
        with pytest.raises((OutcomeUnknownError, NotLeaderError)):
            await leader.append([b"two"], timeout_ms=400)


async def test_a_state_machine_that_raises_stops_its_node_at_that_offset(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(20):
        leader = await cluster.leader()
        await leader.append([b"fine"])
        with pytest.raises((QuorumStoppedError, OutcomeUnknownError)):
            await leader.append([b"poison"])
        await cluster.stopped[leader.node_id].wait()
    failure = cluster.failures[leader.node_id].__cause__
    assert isinstance(failure, StateMachineError)
    assert failure.offset == leader.applied_offset
    assert "poisoned" in str(failure)
    cluster.failures.clear()  # followers may have applied it too


async def test_an_append_that_can_not_work_is_refused_before_anything_happens(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(10):
        leader = await cluster.leader()
        end = leader.log.end_offset
        with pytest.raises(InvalidAppendError, match="at least one record"):
            await leader.append([])
        with pytest.raises(InvalidAppendError, match="max_batch_bytes"):
            await leader.append([bytes(9 * 1024 * 1024)])
        with pytest.raises(InvalidAppendError, match="str"):
            await leader.append(["text"])  # type: ignore[list-item]
        assert leader.log.end_offset == end


async def test_a_second_process_on_the_same_folder_is_refused(cluster: Cluster) -> None:
    await cluster.start(1)
    with pytest.raises(DiskLockedError, match="another process"):
        async with Quorum.open(cluster.config(1), Journal(), runtime=real_runtime(sync=SyncStrategy.INLINE)):
            pass


async def test_after_the_block_appends_are_refused(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(10):
        leader = await cluster.leader()
        await cluster.stop(leader.node_id)
    with pytest.raises(QuorumStoppedError):
        await leader.append([b"late"])


async def test_leadership_changes_tell_the_latest_view(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    seen = []
    with trio.fail_after(20):
        leader = await cluster.leader()
        follower = await cluster.follower()

        async def watch() -> None:
            async for change in follower.leadership_changes():
                seen.append(change)

        async with trio.open_nursery() as watching:
            watching.start_soon(watch)
            await cluster.stop(leader.node_id)
            successor = await cluster.leader()
            await follower.wait_applied(successor.applied_offset)
            await trio.testing.wait_all_tasks_blocked(0.05)
            watching.cancel_scope.cancel()
    assert seen[0].leader == leader.node_id
    assert seen[-1].epoch == successor.epoch


async def test_the_body_of_open_may_raise_its_own_errors(cluster: Cluster) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with Quorum.open(cluster.config(1), Journal(), runtime=cluster.runtime):
            raise KeyError("mine")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1@localhost:9093,x@localhost:9094", "'x@localhost:9094'"),
        ("1@localhost", "'1@localhost'"),
        ("1@a:1,1@b:2", "distinct"),
    ],
)
def test_voters_that_can_not_be_parsed_are_named(text: str, problem: str) -> None:
    with pytest.raises(QuorumConfigError, match=problem):
        parse_voters(text)


async def test_application_requests_reach_the_leader(cluster: Cluster) -> None:
    await cluster.start(1, 2, 3)
    with trio.fail_after(10):
        leader = await cluster.leader()

        async def answer(payload: bytes) -> bytes:
            return payload.upper()

        leader.serve_requests(answer)
        async with AsyncExitStack():
            follower = await cluster.follower()
            assert await follower.request_leader(b"hello") == b"HELLO"
            assert await leader.request_leader(b"own") == b"OWN"
