"""A coordinator that takes over: what it makes of the log, whatever is in it."""

from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from captured_logs import captured_logs
from gaps import within_gap
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group import Group
from quorate.broker.groups.group_administration import GroupFilter
from quorate.broker.groups.group_messages import MemberRef
from quorate.broker.groups.group_records import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    group_record,
    offset_record,
)
from quorate.broker.groups.loading import Loading
from quorate.broker.groups.offsets_topic import GroupLogError, OffsetsLog, partition_of
from quorate.broker.groups.shard import Shard
from quorate.broker.groups.shards import Shards
from quorate.broker.settings.group_config import GroupLimits
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import Record, RecordContent, build_keyed_batch
from quorate.runtime.real import short_collections

LATER = b"\x00\x63"
"""Version 99, where a record's version stands."""


def commit_of(
    group: str, offset: int, *, topic: str = "t", partition: int = 0, metadata: str = ""
) -> RecordContent:
    value = OffsetValue(offset=offset, metadata=metadata, commit_timestamp_ms=1)
    return offset_record(OffsetKey(group, topic, partition), value)


def of_later_version(record: RecordContent) -> RecordContent:
    assert record.value is not None
    return RecordContent(record.key, LATER + record.value[2:])


async def loaded(cluster, *records: RecordContent) -> None:
    """Another coordinator takes over with these in the log, all in the partition of group g1."""
    cluster.log.partitions[partition_of("g1", 4)] = list(records)
    await cluster.restart()


def neighbours(count: int) -> list[str]:
    """Other groups of the partition of g1."""
    names = [f"n{number}" for number in range(1000)]
    return [name for name in names if partition_of(name, 4) == partition_of("g1", 4)][:count]


def offset_of(cluster, group: str, *, topic: str = "t", partition: int = 0) -> int | None:
    found = cluster.groups.fetch_offset(group, topic, partition)
    return None if found is None else int(found.offset)


# Order


@pytest.mark.bug("KAFKA-5600")
async def test_the_last_of_a_thousand_commits_counts(cluster, autojump_clock) -> None:
    await loaded(cluster, *(commit_of("g1", each, partition=each % 3) for each in range(1000)))
    assert [offset_of(cluster, "g1", partition=each) for each in range(3)] == [999, 997, 998]


async def test_a_key_that_many_share_a_part_of_is_read_as_itself(cluster, autojump_clock) -> None:
    other = neighbours(1)[0]
    keys = [
        (group, topic, partition) for group in ("g1", other) for topic in ("t", "tt") for partition in (0, 7)
    ]
    await loaded(
        cluster,
        *(
            commit_of(group, number + 10 * turn, topic=topic, partition=partition, metadata="m" * turn)
            for turn in range(2)
            for number, (group, topic, partition) in enumerate(keys)
        ),
        offset_record(OffsetKey("g1", "t", 7), None),
    )
    found = [offset_of(cluster, group, topic=topic, partition=partition) for group, topic, partition in keys]
    assert found == [10, None, 12, 13, 14, 15, 16, 17]


async def test_a_group_whose_tombstone_is_followed_by_commits_is_there(cluster, autojump_clock) -> None:
    await loaded(
        cluster,
        commit_of("g1", 1),
        group_record(GroupKey("g1"), None),
        commit_of("g1", 2),
    )
    assert [each.group_id for each in await cluster.groups.administration.groups(GroupFilter())] == ["g1"]
    assert offset_of(cluster, "g1") == 2


# Members


def group_of(*members: str, generation: int = 5) -> RecordContent:
    return group_record(
        GroupKey("g1"),
        GroupValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range",
            leader=members[0],
            members=tuple(
                MemberValue(
                    member_id=each,
                    instance_id=None,
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout_ms=60_000,
                    session_timeout_ms=10_000,
                    subscription=b"sub",
                    assignment=each.encode(),
                )
                for each in members
            ),
        ),
    )


async def test_members_and_generation_are_those_of_the_newest_record(cluster, autojump_clock) -> None:
    await loaded(cluster, group_of("a", "gone", generation=4), group_of("a", "b"))
    alive = MemberRef(group_id="g1", member_id="b", generation=5)
    assert cluster.groups.heartbeat(alive) is ErrorCode.none
    assert cluster.commit(alive, 3).answers == [[ErrorCode.none]]
    earlier = MemberRef(group_id="g1", member_id="b", generation=4)
    assert cluster.groups.heartbeat(earlier) is ErrorCode.illegal_generation
    gone = MemberRef(group_id="g1", member_id="gone", generation=4)
    assert cluster.groups.heartbeat(gone) is ErrorCode.unknown_member_id


# What is in the way


class Over:
    """A log over another one."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class Halting(Over):
    """A log whose reads fail after the first piece, three times."""

    failures = 3

    async def records(self, partition: int) -> AsyncIterator[Sequence[Record]]:
        async for piece in self._log.records(partition):
            half = len(piece) // 2
            yield piece[:half]
            if piece and self.failures:
                self.failures -= 1
                raise GroupLogError("the disk failed")
            yield piece[half:]


@pytest.mark.bug("redpanda PR 17673")
async def test_a_load_that_fails_halfway_serves_nothing_and_is_done_again(cluster, autojump_clock) -> None:
    cluster.log = Halting(cluster.log)
    cluster.log.partitions[partition_of("g1", 4)] = [
        commit_of("g1", each, partition=each) for each in range(10)
    ]
    await cluster.restart()
    assert cluster.log.failures == 2
    assert cluster.groups.check("g1") is ErrorCode.coordinator_load_in_progress
    await trio.sleep(1)
    assert cluster.groups.check("g1") is ErrorCode.none
    assert [offset_of(cluster, "g1", partition=each) for each in range(10)] == list(range(10))


class Slow(Over):
    """A log whose reads end when they are let go."""

    def __init__(self, log: Any) -> None:
        super().__init__(log)
        self.go = trio.Event()

    async def records(self, partition: int) -> AsyncIterator[Sequence[Record]]:
        async for piece in self._log.records(partition):
            yield piece
        await self.go.wait()


@pytest.mark.bug("KAFKA-16030")
async def test_a_partition_that_is_lost_while_it_is_loaded_is_never_served(cluster, autojump_clock) -> None:
    slow = cluster.log = Slow(cluster.log)
    cluster.groups = cluster._start()
    await trio.testing.wait_all_tasks_blocked()
    assert cluster.groups.check("g1") is ErrorCode.coordinator_load_in_progress
    cluster.groups.resign(partition_of("g1", 4))
    assert cluster.groups.check("g1") is ErrorCode.not_coordinator
    slow.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert cluster.groups.check("g1") is ErrorCode.not_coordinator


async def test_while_groups_are_loaded_members_are_told_at_once(cluster, autojump_clock) -> None:
    leader, _ = await cluster.stable_pair()
    slow = cluster.log = Slow(cluster.log)
    cluster.groups = cluster._start()
    await trio.testing.wait_all_tasks_blocked()
    loading = ErrorCode.coordinator_load_in_progress
    assert cluster.start_join().answers[0].error is loading
    assert cluster.commit(cluster.ref(leader), 1).answers == [[loading]]
    assert cluster.groups.check("g1") is loading
    assert cluster.start_sync(leader).answers[0].error is ErrorCode.rebalance_in_progress
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.none
    assert cluster.groups.leave("g1", leader.member_id, None) is loading
    slow.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.none


# Records that can't be read


@pytest.mark.parametrize(
    "key",
    [b"", b"\x00", LATER + b"whatever", b"\x00\x01\x00\x09g", b"\xff\xff", b"\x00\x02\x00\x01\xff", None],
    ids=["empty", "cut", "later kind", "cut name", "negative", "no text", "none"],
)
async def test_a_key_that_means_nothing_here_is_passed_over(
    cluster, autojump_clock, key: bytes | None
) -> None:
    with captured_logs() as lines:
        await loaded(
            cluster, commit_of("g1", 1), RecordContent(key, b"value"), commit_of("g1", 2, partition=1)
        )
    assert (offset_of(cluster, "g1"), offset_of(cluster, "g1", partition=1)) == (1, 2)
    assert [line["offset"] for line in lines if line["event"].startswith("passed over")] == [1]


@pytest.mark.parametrize(
    "damaged",
    [
        of_later_version(commit_of("g1", 7)),
        RecordContent(commit_of("g1", 7).key, b"\x00\x03garbage"),
        RecordContent(commit_of("g1", 7).key, b""),
        of_later_version(group_of("a")),
        RecordContent(group_of("a").key, b"\x00\x03\x00\x08garbage!"),
    ],
    ids=["later offset", "garbage offset", "empty offset", "later group", "garbage group"],
)
async def test_a_group_with_a_record_that_cannot_be_read_is_not_served_and_keeps_everything(
    cluster, autojump_clock, damaged: RecordContent
) -> None:
    """Its members would go on from older offsets, or in an older generation."""
    other = neighbours(1)[0]
    written = [
        group_of("a", generation=4),
        commit_of("g1", 6),
        commit_of(other, 1),
        damaged,
        commit_of(other, 2),
    ]
    with captured_logs() as lines:
        await loaded(cluster, *written)
    refused = ErrorCode.coordinator_not_available
    groups = cluster.groups
    member = MemberRef(group_id="g1", member_id="a", generation=4)
    assert groups.check("g1") is refused
    assert groups.heartbeat(member) is refused
    assert cluster.commit(member, 9).answers == [[refused]]
    assert cluster.start_join("a").answers[0].error is refused
    assert groups.administration.describe("g1") is refused
    assert offset_of(cluster, other) == 2
    (line,) = [each for each in lines if each["event"].startswith("a group is not served")]
    assert (line["group"], line["offset"]) == ("g1", 3)
    # Nothing of it expires, whatever the clock says.
    cluster.clock.ms = 1 << 50
    cluster.missing.add(("t", 0))
    groups.expiry.partition_deleted("t", 0)
    await groups.expiry.expire()
    await trio.sleep(2)
    assert cluster.log.partitions[partition_of("g1", 4)][: len(written)] == written
    of_g1 = [each.key for each in cluster.log.partitions[partition_of("g1", 4)][len(written) :]]
    assert group_of("a").key not in of_g1 and commit_of("g1", 0).key not in of_g1


async def test_a_group_is_served_once_a_later_record_of_the_key_can_be_read(cluster, autojump_clock) -> None:
    await loaded(
        cluster,
        commit_of("g1", 5),
        commit_of("g1", 5, partition=1),
        of_later_version(commit_of("g1", 6)),
        commit_of("g1", 7, partition=1),
        commit_of("g1", 8),
        of_later_version(group_of("a")),
        group_of("a"),
    )
    assert cluster.groups.check("g1") is ErrorCode.none
    assert (offset_of(cluster, "g1"), offset_of(cluster, "g1", partition=1)) == (8, 7)


async def test_a_group_that_is_not_served_can_be_deleted(cluster, autojump_clock) -> None:
    await loaded(
        cluster,
        group_of("a"),
        of_later_version(commit_of("g1", 6)),
        commit_of("g1", 7, partition=1),
    )
    answers: list[ErrorCode] = []
    await cluster.groups.administration.delete("g1", answers.append)
    assert answers == [ErrorCode.none]
    assert cluster.groups.check("g1") is ErrorCode.none
    tombstones = [each.key for each in cluster.log.partitions[partition_of("g1", 4)] if each.value is None]
    keys = {group_of("a").key, commit_of("g1", 0).key, commit_of("g1", 0, partition=1).key}
    assert (set(tombstones), len(tombstones)) == (keys, 3)
    await cluster.move()
    assert cluster.groups.check("g1") is ErrorCode.none
    assert offset_of(cluster, "g1", partition=1) is None


async def test_many_records_that_cannot_be_read_make_few_lines(cluster, autojump_clock) -> None:
    names = neighbours(100)
    with captured_logs() as lines:
        await loaded(
            cluster,
            *(of_later_version(commit_of(name, 1)) for name in names),
            *(RecordContent(LATER, b"") for _ in range(100)),
        )
    assert len([line for line in lines if line["log_level"] in ("error", "warning")]) == 10 + 1 + 10 + 1
    assert all(cluster.groups.check(name) is ErrorCode.coordinator_not_available for name in names)


# The partition's log


class Partition:
    """A replica that leads, with what a load asks it for."""

    def __init__(self, data: bytes, end: int) -> None:
        self.log = self
        self._batches = [(each.header.end_offset, bytes(each.data)) for each in read_batches(data)]
        self.log_start_offset = 0
        self.end_offset = end
        self.leader_epoch = 1

    def partition(self, topic: str, partition: int) -> "Partition":
        return self

    def check_leading(self) -> "Partition":
        return self

    async def read(self, offset: int, max_bytes: int, *, end_offset: int) -> bytes:
        found = bytearray()
        for _, data in self._batches[bisect_right(self._batches, offset, key=lambda each: each[0]) :]:
            if found and len(found) + len(data) > max_bytes:
                break
            found += data
        return bytes(found)


def offsets_log(partition: Partition) -> OffsetsLog:
    replicas = SimpleNamespace(lookups=partition)
    return OffsetsLog(replicas, None, timeout_ms=1000)


def batch_at(offset: int, *records: RecordContent) -> bytes:
    return build_keyed_batch(base_offset=offset, epoch=1, timestamp_ms=1, records=records)


async def read_offsets(partition: Partition) -> list[int]:
    return [each.offset async for piece in offsets_log(partition).records(0) for each in piece]


@pytest.mark.bug("KAFKA-9065")
async def test_a_log_that_compaction_left_holes_in_is_loaded_to_its_end() -> None:
    data = batch_at(3, commit_of("g1", 1)) + batch_at(40, commit_of("g1", 2), commit_of("g1", 3))
    assert await read_offsets(Partition(data, end=42)) == [3, 40, 41]
    assert await read_offsets(Partition(data, end=90)) == [3, 40, 41]
    assert await read_offsets(Partition(b"", end=90)) == []


async def test_a_log_that_is_shorter_than_it_was_is_not_taken_for_all_of_it() -> None:
    class Shrinking(Partition):
        async def read(self, offset: int, max_bytes: int, *, end_offset: int) -> bytes:
            self.end_offset = 1
            return b""

    with pytest.raises(GroupLogError, match="ends at 1, and not at 90"):
        await read_offsets(Shrinking(b"", end=90))


async def test_a_leader_that_was_elected_anew_does_not_go_on_loading() -> None:
    class Elected(Partition):
        async def read(self, offset: int, max_bytes: int, *, end_offset: int) -> bytes:
            self.leader_epoch += 1
            return await super().read(offset, max_bytes, end_offset=end_offset)

    with pytest.raises(GroupLogError, match="elected again"):
        await read_offsets(Elected(batch_at(0, commit_of("g1", 1)), end=1))


# Size


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize("per_batch", [1, 1000, 50_000])
async def test_many_offsets_are_loaded_in_slices(per_batch: int) -> None:
    count = 50_000
    records = [commit_of(f"g{each // 100}", each, partition=each % 100) for each in range(count)]
    data = b"".join(batch_at(at, *records[at : at + per_batch]) for at in range(0, count, per_batch))

    shards = Shards(
        offsets_log(Partition(data, end=count)),
        partition_count=lambda: 1,
        new_group=lambda name: Group(name, None, GroupLimits()),
        loaded=lambda shard: None,
    )

    async def load() -> None:
        shards.elect(0, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shards.run)
            while shards.of("g0") is ErrorCode.coordinator_load_in_progress:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    with short_collections():  # as the server has them
        await within_gap(load(), what="a load")
    (shard,) = shards
    assert sum(len(held.of_topic("t")) for held in shard.offsets.values()) == count


def test_a_loading_keeps_no_more_than_the_shard() -> None:
    """What keys have in common is kept once for each group and topic."""
    loading = Loading(Shard(0, 0, lambda name: Group(name, None, GroupLimits())))
    records = [commit_of("g1", each, partition=each) for each in range(100)]
    loading.replay([Record(number, 0, *each) for number, each in enumerate(records)])
    assert len(loading._places) == 1


async def test_a_member_that_is_never_heard_after_a_load_is_gone_after_its_session(
    cluster, autojump_clock
) -> None:
    await loaded(cluster, group_of("a", "b"))
    await trio.sleep(9)
    assert cluster.groups.heartbeat(MemberRef(group_id="g1", member_id="b", generation=5)) is ErrorCode.none
    await trio.sleep(2)
    alive = [each.member_id for each in cluster.groups.group("g1").describe().members]
    assert alive == ["b"]
