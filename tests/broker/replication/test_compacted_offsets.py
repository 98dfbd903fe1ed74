"""Committed offsets in a log that is compacted: little is left, and a new coordinator has the right ones."""

import pytest
import trio

from quorate.broker.groups.group import Group
from quorate.broker.groups.group_records import GroupKey, OffsetKey, OffsetValue, group_record, offset_record
from quorate.broker.groups.offsets_topic import OffsetsLog
from quorate.broker.groups.shards import Shards
from quorate.broker.settings.group_config import GroupLimits
from quorate.types import Offset

TOPIC = "__consumer_offsets"
GROUPS = 5
PARTITIONS = 4
COMMITS = 100_000
PER_BATCH = 200


class Written:
    """The coordinator's log on one broker."""

    def __init__(self, broker):
        self.log = OffsetsLog(broker.replicas, broker.wall_clock, timeout_ms=5000)

    async def append(self, records):
        done = trio.Event()
        self.log.append(0, records, lambda error, offset: done.set())
        await done.wait()


async def loaded(broker, nursery):
    """The shard that a new coordinator loads on a broker."""
    shards = Shards(
        Written(broker).log,
        partition_count=lambda: 1,
        new_group=lambda name: Group(name, None, GroupLimits()),
        loaded=lambda shard: None,
    )
    scope = trio.CancelScope()

    async def run():
        with scope:
            await shards.run()

    nursery.start_soon(run)
    shards.elect(0, broker.partition(TOPIC).leader_epoch)
    (shard,) = shards
    with trio.fail_after(10):
        while not shard.loaded:  # noqa: ASYNC110
            await trio.sleep(0.01)
    scope.cancel()
    return shard


async def compacting(make_brokers, **topic):
    cluster = make_brokers(brokers=2, min_isr=1, log_cleaner_backoff_ms=1000)
    await cluster.start()
    cluster.controller.create(TOPIC, replicas=(1, 2))
    cluster.controller.configure(TOPIC, cleanup_policy="compact", **topic)
    await cluster.opened(TOPIC)
    return cluster


async def move(cluster):
    await cluster.caught_up(name=TOPIC)
    await cluster.lead(2, name=TOPIC)


@pytest.mark.slow
@pytest.mark.long
async def test_of_a_hundred_thousand_commits_little_is_left_and_the_offsets_are_right(
    make_brokers, autojump_clock, nursery
):
    cluster = await compacting(make_brokers, segment_bytes=200_000)
    written = Written(cluster[1])
    expected = {}
    for start in range(0, COMMITS, PER_BATCH):
        records = []
        for number in range(start, start + PER_BATCH):
            key = OffsetKey(f"group-{number % GROUPS}", "t", number // GROUPS % PARTITIONS)
            expected[key] = number
            records.append(offset_record(key, OffsetValue(offset=Offset(number), commit_timestamp_ms=1)))
        await written.append(records)
    before = cluster[1].partition(TOPIC).log.size_bytes
    await trio.sleep(60)
    await move(cluster)
    for broker in cluster.brokers.values():
        assert broker.partition(TOPIC).log.size_bytes < before / 10
    shard = await loaded(cluster[2], nursery)
    found = {
        OffsetKey(group, "t", partition): shard.offsets[group].get("t", partition).offset
        for group in shard.offsets
        for partition in range(PARTITIONS)
    }
    assert found == expected


@pytest.mark.bug("KAFKA-9065")
async def test_groups_load_where_the_active_segment_is_empty(make_brokers, autojump_clock, nursery):
    cluster = await compacting(make_brokers, max_compaction_lag_ms=2000)
    written = Written(cluster[1])
    for number in range(10):
        value = OffsetValue(offset=Offset(number), commit_timestamp_ms=1)
        await written.append([offset_record(OffsetKey("g", "t", 0), value)])
    await trio.sleep(30)
    await move(cluster)
    log = cluster[2].partition(TOPIC).log
    assert log.active_base_offset == log.end_offset
    shard = await loaded(cluster[2], nursery)
    assert shard.offsets["g"].get("t", 0).offset == 9


@pytest.mark.bug("redpanda issue 4900")
async def test_a_deleted_group_stays_deleted_when_its_tombstones_are_gone(
    make_brokers, autojump_clock, nursery
):
    cluster = await compacting(make_brokers, max_compaction_lag_ms=2000, delete_retention_ms=5000)
    written = Written(cluster[1])
    key = OffsetKey("g", "t", 0)
    await written.append([offset_record(key, OffsetValue(offset=Offset(1), commit_timestamp_ms=1))])
    await written.append([offset_record(key, None), group_record(GroupKey("g"), None)])
    await trio.sleep(60)
    await move(cluster)
    assert not [each async for each in Written(cluster[2]).log.records(0) if each]
    shard = await loaded(cluster[2], nursery)
    assert not shard.offsets.get("g")
