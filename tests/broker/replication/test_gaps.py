"""A replica's long work lets other tasks run, by the processor's time of the loop's thread."""

import os
import random
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from gaps import within_gap
from large_metadata import no_full_collection

from quorate.broker.metadata.metadata_records import LeaderRecoveryState
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.following.leader_session import by_topic, forgotten_by_topic
from quorate.broker.replication.following.taking_in import append_replicated
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.failures import Failures
from quorate.broker.replication.foundation.purgatory import Purgatory
from quorate.broker.replication.foundation.replication_quota import ReplicationQuotas
from quorate.broker.replication.foundation.requests import FetchItem, FetchOptions, ProduceItem, SessionRef
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.producing.batch_check import BatchChecker, ProduceRules
from quorate.broker.replication.producing.producer_snapshot import decode_steps, encode_steps
from quorate.broker.replication.producing.producer_state import KeptBatch, Producer, ProducerState
from quorate.broker.replication.replica.partition_replica import PartitionReplica, ReplicaContext
from quorate.broker.replication.replica.roles import FollowerState
from quorate.broker.replication.serving.fetch_sessions import FetchSessions
from quorate.broker.replication.serving.incremental_fetch import SessionFetches
from quorate.broker.replication.serving.partition_reader import PartitionReader
from quorate.broker.replication.serving.plain_fetch import FetchService
from quorate.broker.replication.serving.produce_service import ProduceService
from quorate.broker.wire.budget import MemoryBudget
from quorate.broker.wire.codecs.fetch_codec import FetchPartition
from quorate.error_code import ErrorCode
from quorate.log import Log, LogConfig
from quorate.log.batches.records import build_batch
from quorate.runtime.entropy import Entropy
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.runtime.slices import in_slices
from quorate.simulation.world.simulated_runtime import InlineCompute

pytestmark = pytest.mark.real_time

PRODUCERS = 100_000
RULES = ProduceRules(
    max_message_bytes=1 << 20,
    codec=None,
    log_append_time=False,
    before_max_ms=1 << 60,
    after_max_ms=1 << 60,
    keys_needed=False,
)


@pytest.fixture(autouse=True)
def _without_full_collections() -> Iterator[None]:
    with no_full_collection():
        yield


async def partition_of(folder: Path, state: PartitionState) -> PartitionReplica:
    disk = RealDisk(sync=SyncStrategy.THREAD)
    disk.make_folder(str(folder))
    log = await Log.open(disk, f"{folder}/t-0", LogConfig(), now_ms=lambda: 0)
    context = ReplicaContext(
        broker_id=1,
        disk=disk,
        lag_s=10,
        metadata=CurrentMetadata({}),
        proposals=cast(Any, None),
        failures=Failures(),
        stats=ReplicationStats(),
    )
    made = PartitionReplica(
        context,
        topic="t",
        topic_id=uuid.UUID(int=1),
        partition_id=0,
        log=log,
        min_isr=1,
        rules=RULES,
    )
    made.apply(state)
    return made


def state_led_by(leader: int) -> PartitionState:
    return PartitionState(
        replicas=(1, 2),
        isr=(1, 2),
        removing_replicas=(),
        adding_replicas=(),
        leader=leader,
        leader_recovery_state=LeaderRecoveryState.RECOVERED,
        leader_epoch=1,
        partition_epoch=0,
    )


async def test_a_follower_takes_in_many_small_batches_in_slices(tmp_path: Path) -> None:
    partition = await partition_of(tmp_path, state_led_by(2))
    role = partition.role
    assert isinstance(role, FollowerState)
    batches: list[bytes] = []
    for offset in range(30_000):
        batches.append(
            build_batch(
                base_offset=offset,
                epoch=1,
                timestamp_ms=1,
                values=[b"x"],
                producer_id=offset % 1000,
                producer_epoch=0,
                base_sequence=offset // 1000,
            )
        )
    records = b"".join(batches)
    taken = await within_gap(
        append_replicated(partition, role, records, high_watermark=20_000), what="append_replicated"
    )
    assert taken == len(records)
    assert (partition.log.end_offset, partition.high_watermark) == (30_000, 20_000)
    assert len(partition.producers.producers) == 1000


async def test_a_follower_whose_role_ends_takes_in_no_more(tmp_path: Path) -> None:
    partition = await partition_of(tmp_path, state_led_by(2))
    role = partition.role
    assert isinstance(role, FollowerState)
    records = b"".join(
        build_batch(base_offset=offset, epoch=1, timestamp_ms=1, values=[b"x"]) for offset in range(30_000)
    )

    async def deposed() -> None:
        partition.apply(state_led_by(1)._replace(leader_epoch=2, partition_epoch=1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(deposed)
        taken = await append_replicated(partition, role, records, high_watermark=30_000)
    assert 0 < taken < len(records)
    assert partition.high_watermark < 30_000
    assert partition.log.end_offset == taken // (len(records) / 30_000)


def many_producers() -> ProducerState:
    state = ProducerState(end_offset=5, now_ms=lambda: 0)
    for number in range(PRODUCERS):
        batches = deque([KeptBatch(0, 0, number, number, -1)] * 5, 5)
        state.producers[number] = Producer(0, batches, 0)
    return state


async def test_the_state_of_many_producers_is_saved_loaded_and_expires_in_slices() -> None:
    state = many_producers()
    data = await within_gap(in_slices(encode_steps(state)), what="saving producers")
    loaded = ProducerState(now_ms=lambda: 0)
    await within_gap(in_slices(decode_steps(loaded, data)), what="loading producers")
    assert loaded.producers == state.producers
    gone = await within_gap(in_slices(loaded.expire_steps(after_ms=-1)), what="expiry of producers")
    assert (gone, loaded.producers) == (PRODUCERS, {})


def produce_service(writable: Callable[[object, int], PartitionReplica]) -> ProduceService:
    checker = BatchChecker(InlineCompute(), lambda: 1, uncompressed_max_bytes=1 << 20)
    return ProduceService(writable, Purgatory(), checker, ReplicationStats())


async def test_a_produce_to_many_partitions_appends_in_slices(tmp_path: Path) -> None:
    partition = await partition_of(tmp_path, state_led_by(1)._replace(replicas=(1,), isr=(1,)))
    service = produce_service(lambda topic, number: partition)
    batch = build_batch(base_offset=0, epoch=0, timestamp_ms=1, values=[b"x"])
    items = [ProduceItem("t", number, batch) for number in range(10_000)]
    pending = await within_gap(
        service.produce(items, acks=-1, timeout_ms=1000, zstd=True, memory=MemoryBudget(1 << 20)),
        what="a Produce to 10,000 partitions",
    )
    assert pending.done
    assert [each.base_offset for each in pending.results()] == list(range(10_000))


async def test_a_leader_deposed_between_two_appends_of_a_produce_acknowledges_none(tmp_path: Path) -> None:
    """The request waits for its append from the same step on, so a deposed leader takes it back."""
    first = await partition_of(tmp_path / "1", state_led_by(1))
    second = await partition_of(tmp_path / "2", state_led_by(1))
    looks: list[int] = []

    def writable(topic: object, number: int) -> PartitionReplica:
        looks.append(number)
        if looks == [0, 1, 0, 1]:
            # As in the pause after the first append.
            assert first.log.end_offset == 1
            first.apply(state_led_by(2)._replace(leader_epoch=2, partition_epoch=1))
        return (first, second)[number]

    service = produce_service(writable)
    batch = build_batch(base_offset=0, epoch=0, timestamp_ms=1, values=[b"x"])
    items = [ProduceItem("t", number, batch) for number in range(2)]
    pending = await service.produce(items, acks=-1, timeout_ms=1000, zstd=True, memory=MemoryBudget(1 << 20))
    assert not pending.done
    assert pending.results()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    second.stop()
    assert pending.done
    assert [each.error for each in pending.results()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


def reader_of(partition: PartitionReplica) -> PartitionReader:
    return PartitionReader(
        lambda topic, number: partition,
        Failures(),
        CurrentMetadata({}),
        cut_off=lambda _: False,
        quotas=ReplicationQuotas(1),
        stats=ReplicationStats(),
        selects=True,
    )


@pytest.mark.parametrize("replica_id", [-1, 2])
async def test_a_session_of_many_partitions_is_begun_read_and_ended_in_slices(
    tmp_path: Path, replica_id: int
) -> None:
    partition = await partition_of(tmp_path, state_led_by(1))
    purgatory = Purgatory()
    sessions = FetchSessions(Entropy(random.Random(1)), slots=1)
    service = SessionFetches(
        reader_of(partition),
        purgatory,
        sessions,
        max_bytes=1 << 20,
        doubtful=lambda: replica_id < 0,
        tells_high_watermarks=True,
    )
    items = [FetchItem("t", number, 0, 1 << 20) for number in range(100_000)]
    options = FetchOptions(items=items, max_wait_ms=0, replica_id=replica_id)
    wanted = SessionRef(session_id=0, epoch=0, with_ids=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sessions.run)
        session = await within_gap(service.enter(wanted, options, []), what="a session of 100,000 partitions")
        results = await within_gap(service.begin(session, options), what="its first answer")
        assert len(results) == 100_000
        keys = [("t", number) for number in range(50_000)]
        more = SessionRef(session_id=session.session_id, epoch=1, with_ids=False)
        await within_gap(service.enter(more, replace(options, items=[]), keys), what="50,000 left out")
        assert len(session) == 50_000
        service.close(session)

        async def ended() -> None:
            while len(session):
                await trio.lowlevel.checkpoint()

        await within_gap(ended(), what="the end of a session")
        nursery.cancel_scope.cancel()


async def test_a_followers_request_of_many_partitions_is_put_together_in_slices() -> None:
    topic_id = uuid.UUID(int=7)
    parts = {(topic_id, number): FetchPartition(number) for number in range(100_000)}
    named = await within_gap(in_slices(by_topic(parts)), what="a request that names 100,000 partitions")
    assert len(named[0].partitions) == 100_000
    forgotten = await within_gap(in_slices(forgotten_by_topic(parts)), what="one that forgets as many")
    assert len(forgotten[0].partitions) == 100_000


@pytest.mark.parametrize("replica_id", [-1, 2])
async def test_a_fetch_of_many_partitions_reads_and_waits_in_slices(tmp_path: Path, replica_id: int) -> None:
    partition = await partition_of(tmp_path, state_led_by(1))
    purgatory = Purgatory()
    service = FetchService(reader_of(partition), purgatory, max_bytes=1 << 20)
    options = FetchOptions(
        items=[FetchItem("t", number, 0, 1 << 20) for number in range(20_000)],
        max_wait_ms=50,
        replica_id=replica_id,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(purgatory.run)
        results = await within_gap(service.fetch(options), what="a Fetch of 20,000 partitions")
        nursery.cancel_scope.cancel()
    assert len(results) == 20_000
    assert not any(each.error or each.records for each in results)


def test_the_space_of_a_large_file_is_freed_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: dict[str, threading.Thread] = {}
    done = threading.Event()
    close = os.close

    def noted(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        close(fd)
        if path.endswith(" (deleted)"):
            closed[path] = threading.current_thread()
            done.set()

    def remove_with(remove: Callable[[RealDisk], None]) -> None:
        done.clear()
        remove(disk)
        assert done.wait(60)

    monkeypatch.setattr(os, "close", noted)
    disk = RealDisk(sync=SyncStrategy.INLINE)
    folder = tmp_path / "t-0"
    folder.mkdir()
    for name in ("a", "b", "small"):
        with (folder / name).open("wb") as file:
            file.truncate(17 << 20 if name != "small" else 100)
    disk.remove(f"{folder}/small")
    remove_with(lambda disk: disk.remove(f"{folder}/a"))
    assert [each.name for each in folder.iterdir()] == ["b"]
    remove_with(lambda disk: disk.remove_folder(str(folder)))
    assert not folder.exists()
    assert len(closed) == 2
    assert threading.main_thread() not in closed.values()
    with pytest.raises(FileNotFoundError):
        disk.remove(f"{folder}/a")
    disk.remove_folder(str(folder))
