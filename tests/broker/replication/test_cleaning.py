"""Compaction as a broker does it: which logs, when, how fast, and beside what else changes them."""

import contextlib

import pytest
import trio
from captured_logs import captured_logs

from quorate.broker.replication.replica.replica_parts import CompactionPass, CompactionStoppedError
from quorate.broker.replication.upkeep.log_cleaner import CleaningThrottle, PassPace
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.error_code import ErrorCode
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import RecordContent, build_keyed_batch, records_of
from quorate.log.checkpoints import CLEANED, UnreadableCheckpointError, load_offsets
from quorate.runtime.disk import write_file_atomically
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.broker.replication.conftest import Cluster

PATH = f"data/{CLEANED}"
ONE_BATCH = 100
"""A size of segments that hold one batch each."""


def keyed(*records, producer=(-1, -1, -1), timestamp_ms=1000):
    """A batch of `key=value`, or `key` alone for a tombstone."""
    pairs = (record.partition("=") for record in records)
    return build_keyed_batch(
        base_offset=0,
        epoch=-1,
        timestamp_ms=timestamp_ms,
        records=[
            RecordContent(key.encode(), value.encode() if equals else None) for key, equals, value in pairs
        ],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )


async def write(broker, *batches, acks=-1, name="t", partition_id=0, **fields):
    """Each of `batches` is a batch of one record of now, in the form of `keyed`."""
    for record in batches:
        data = keyed(record, timestamp_ms=broker.wall_clock.now_ms(), **fields)
        pending = broker.send(data, acks=acks, name=name, partition_id=partition_id)
        await pending.wait()
        assert not pending.results()[0].error


async def held(broker, *, name="t", partition_id=0):
    """The records in a replica's log, as `offset:key=value`."""
    data = await broker.log_bytes(name, partition_id)
    return [
        f"{each.offset}:{each.key.decode()}" + ("" if each.value is None else f"={each.value.decode()}")
        for batch in read_batches(data)
        for each in records_of(batch)
    ]


@pytest.fixture
def compacting(make_cluster):
    """Brokers with one compacted topic."""

    async def start(*, brokers=1, topic=None, **config):
        cluster = await make_cluster(brokers, **({"log_cleaner_backoff_ms": 1000} | config))
        cluster.controller.configure(
            **({"cleanup_policy": "compact", "segment_bytes": ONE_BATCH} | (topic or {}))
        )
        return cluster

    return start


def cleaned_end(broker, *, name="t", partition_id=0):
    where = broker.manager._logs.folders.log_directory_of(name, partition_id)
    return where.cleaned.get((name, partition_id), 0)


async def test_the_last_record_of_each_key_stays(compacting, autojump_clock):
    cluster = await compacting(brokers=2)
    await write(cluster[1], "a=1", "b=1", "a=2", "c=1", "b=2", "end=1")
    await cluster.caught_up()
    await trio.sleep(10)
    for broker in cluster.brokers.values():
        assert await held(broker) == ["2:a=2", "3:c=1", "4:b=2", "5:end=1"]
    fetched = await cluster[1].fetch(0)
    assert not fetched.error


@pytest.mark.bug("redpanda PR 24500")
async def test_a_tombstone_goes_after_its_time_though_nothing_is_written(compacting, autojump_clock):
    cluster = await compacting(topic={"delete_retention_ms": 60_000})
    await write(cluster[1], "a=1", "a", "b=1", "end=1")
    await trio.sleep(10)
    assert await held(cluster[1]) == ["1:a", "2:b=1", "3:end=1"]
    await trio.sleep(120)
    assert await held(cluster[1]) == ["2:b=1", "3:end=1"]
    passes = cluster[1].replicas.cleaning.passes
    await trio.sleep(600)
    assert cluster[1].replicas.cleaning.passes == passes


@pytest.mark.slow
@pytest.mark.bug("KAFKA-8522")
async def test_a_tombstone_goes_after_its_time_however_seldom_something_is_written(
    compacting, autojump_clock
):
    hour_ms = 3_600_000
    cluster = await compacting(
        topic={"delete_retention_ms": 5 * hour_ms, "min_cleanable_dirty_ratio": "0.01"},
        log_cleaner_backoff_ms=60_000,
    )
    await write(cluster[1], "a=1", "a", "b=1")
    await trio.sleep(600)
    for hour in range(4):
        assert "1:a" in await held(cluster[1]), hour
        await write(cluster[1], f"c={hour}")
        await trio.sleep(hour_ms / 1000)
    for _ in range(2):
        await write(cluster[1], "c=last")
        await trio.sleep(hour_ms / 1000)
    assert "1:a" not in await held(cluster[1])
    assert "2:b=1" in await held(cluster[1])


async def test_a_log_is_compacted_once_it_is_dirty_enough(compacting, autojump_clock):
    cluster = await compacting(topic={"min_cleanable_dirty_ratio": "0.5"})
    await write(cluster[1], *(f"k{number}=1" for number in range(10)), "end=1")
    await trio.sleep(10)
    assert cleaned_end(cluster[1]) == 10
    await write(cluster[1], *(f"k{number}=2" for number in range(9)))
    await trio.sleep(10)
    assert cleaned_end(cluster[1]) == 10
    await write(cluster[1], *(f"k{number}=2" for number in range(3)))
    await trio.sleep(10)
    assert cleaned_end(cluster[1]) == 22


async def test_the_dirtiest_log_comes_first(compacting, autojump_clock):
    cluster = await compacting(partitions=3, log_cleaner_threads=0)
    for partition, count in enumerate((3, 9, 6)):
        for number in range(count):
            await write(cluster[1], f"k={number}", partition_id=partition)
    where = cluster[1].manager._logs.folders.log_directory_of("t", 0)
    # What is clean already makes the difference.
    where.cleaned |= {("t", 0): 1, ("t", 1): 7, ("t", 2): 2}
    with captured_logs() as lines:
        cluster[1].manager._parts.storage.cleaner.reconfigure(
            ReplicationConfig(log_cleaner_threads=1, log_cleaner_backoff_ms=1000)
        )
        cluster.controller.configure(min_cleanable_dirty_ratio="0.01")
        await trio.sleep(10)
    order = [line["partition"] for line in lines if line["event"] == "a log was compacted"]
    assert order == ["t-2", "t-0", "t-1"]


async def test_nothing_above_the_high_watermark_is_compacted(compacting, autojump_clock):
    cluster = await compacting(brokers=2, replica_lag_time_max_ms=1_000_000)
    await write(cluster[1], "a=1", "a=2", "end=1")
    await cluster.caught_up()
    cluster.cut_off(2)
    await write(cluster[1], "a=3", "a=4", "end=2", "more=1", acks=1)
    await trio.sleep(10)
    assert await held(cluster[1]) == ["1:a=2", "2:end=1", "3:a=3", "4:a=4", "5:end=2", "6:more=1"]
    cluster.heal()
    await cluster.caught_up()
    await trio.sleep(10)
    assert await held(cluster[1]) == ["4:a=4", "5:end=2", "6:more=1"]


async def test_a_record_stays_for_the_minimum_lag(compacting, autojump_clock):
    cluster = await compacting(topic={"min_compaction_lag_ms": 60_000})
    await write(cluster[1], "a=1", "a=2", "end=1")
    await trio.sleep(30)
    assert await held(cluster[1]) == ["0:a=1", "1:a=2", "2:end=1"]
    await trio.sleep(60)
    assert await held(cluster[1]) == ["1:a=2", "2:end=1"]


async def test_a_record_that_waited_too_long_is_compacted_though_little_is_dirty(compacting, autojump_clock):
    cluster = await compacting(
        topic={
            "min_cleanable_dirty_ratio": "1.0",
            "max_compaction_lag_ms": 60_000,
            "segment_bytes": 1 << 20,
        }
    )
    await write(cluster[1], "a=1", "a=2", "b=1")
    await trio.sleep(30)
    assert await held(cluster[1]) == ["0:a=1", "1:a=2", "2:b=1"]
    # Nothing is appended any more that would roll the segment.
    await trio.sleep(60)
    assert await held(cluster[1]) == ["1:a=2", "2:b=1"]
    await cluster.restart(1, stop=True)
    await write(cluster[1], "a=3")
    assert await held(cluster[1]) == ["1:a=2", "2:b=1", "3:a=3"]


async def test_a_checkpoint_says_how_far_logs_are_compacted(compacting, autojump_clock):
    cluster = await compacting()
    await write(cluster[1], "a=1", "a=2", "end=1")
    await trio.sleep(10)
    assert load_offsets(cluster[1].disk, PATH) == {("t", 0): 2}
    await cluster[1].crash()
    with captured_logs() as lines:
        await cluster[1].start()
        await cluster.opened()
        await trio.sleep(10)
    assert cleaned_end(cluster[1]) == 2
    assert not [line for line in lines if line["event"] == "a log was compacted"]


@pytest.mark.parametrize("content", [b"", b"0\n1\nt 0 x\n", b"\xff\xfe", b"0\n2\nt 0 1\n"])
async def test_a_checkpoint_that_makes_no_sense_counts_as_none(compacting, autojump_clock, content):
    cluster = await compacting()
    await write(cluster[1], "a=1", "a=2", "end=1")
    await trio.sleep(10)
    await cluster[1].stop()
    await write_file_atomically(cluster[1].disk, PATH, content)
    with captured_logs() as lines:
        await cluster[1].start()
        await cluster.opened()
        await trio.sleep(10)
    assert [line["event"] for line in lines if "compacted from their" in str(line["event"])] == [
        "a checkpoint can't be read, and is written anew; logs are compacted from their starts"
    ]
    assert load_offsets(cluster[1].disk, PATH) == {("t", 0): 2}


async def test_a_checkpoint_of_a_newer_version_is_refused(compacting, autojump_clock):
    cluster = await compacting()
    await cluster[1].stop()
    await write_file_atomically(cluster[1].disk, PATH, b"7\n0\n")
    with pytest.raises(UnreadableCheckpointError, match="newer quorate"):
        await cluster[1].start()


@pytest.mark.bug("KAFKA-3330")
async def test_a_truncation_takes_the_checkpoint_down(compacting, autojump_clock):
    cluster = await compacting(brokers=2, topic={"min_cleanable_dirty_ratio": "0.01"})
    await write(cluster[1], "a=1", "a=2", "end=1")
    await cluster.caught_up()
    cluster.cut_off(1)
    await write(cluster[1], "a=3", acks=1)
    partition = cluster[1].partition()
    partition.log.high_watermark = partition.log.end_offset  # as in an unclean election
    await write(cluster[1], "a=4", "end=2", acks=1)
    partition.log.high_watermark = partition.log.end_offset
    await trio.sleep(10)
    assert cleaned_end(cluster[1]) == 5
    cluster.controller.elect(2, isr=(2,))
    cluster.heal()
    await cluster.until(lambda: cluster[1].partition().log.end_offset == 3)
    assert cleaned_end(cluster[1]) <= 3
    for record in ("b=1", "a=5", "b=2", "a=6", "end=3"):
        await write(cluster[2], record, acks=1)
        await cluster.caught_up()
    await trio.sleep(10)
    assert await held(cluster[1]) == await held(cluster[2]) == ["2:end=1", "5:b=2", "6:a=6", "7:end=3"]


@pytest.mark.bug("KAFKA-3330")
async def test_a_checkpoint_beyond_the_end_is_dropped_and_said_once(compacting, autojump_clock):
    cluster = await compacting()
    await write(cluster[1], "a=1", "a=2", "end=1")
    await trio.sleep(10)
    await cluster[1].stop()
    await write_file_atomically(cluster[1].disk, PATH, b"0\n1\nt 0 900\n")
    with captured_logs() as lines:
        await cluster[1].start()
        await cluster.opened()
        await write(cluster[1], "a=3", "end=2")
        await trio.sleep(60)
    assert len([line for line in lines if str(line["event"]).startswith("a log ends below")]) == 1
    assert await held(cluster[1]) == ["2:end=1", "3:a=3", "4:end=2"]
    assert load_offsets(cluster[1].disk, PATH) == {("t", 0): 4}


@pytest.mark.bug("KAFKA-3123")
async def test_a_truncation_that_failed_leaves_no_pause_behind(compacting, autojump_clock):
    cluster = await compacting()
    partition = cluster[1].partition()
    with pytest.raises(RuntimeError, match="truncation"):
        async with partition.compaction.closed("the log is being cut"):
            assert not partition.compaction.is_open
            raise RuntimeError("truncation")
    await write(cluster[1], "a=1", "a=2", "end=1")
    await trio.sleep(10)
    assert await held(cluster[1]) == ["1:a=2", "2:end=1"]


@pytest.mark.bug("KAFKA-8764")
async def test_a_log_is_not_chosen_again_and_again(compacting, autojump_clock):
    cluster = await compacting(partitions=2)
    await write(cluster[1], "a=1", "a=2", "a=3", "a=4", "end=1")
    await trio.sleep(10)
    where = cluster[1].manager._logs.folders.log_directory_of("t", 0)
    where.cleaned["t", 0] = 1  # in a hole
    await trio.sleep(10)
    passes = cluster[1].replicas.cleaning.passes
    for record in ("a=1", "a=2", "end=1"):
        await write(cluster[1], record, partition_id=1)
    await trio.sleep(600)
    assert cluster[1].replicas.cleaning.passes == passes + 1
    assert await held(cluster[1], partition_id=1) == ["1:a=2", "2:end=1"]


@pytest.mark.bug("KAFKA-9133")
async def test_a_log_start_in_the_active_segment_leaves_nothing_to_compact(compacting, autojump_clock):
    cluster = await compacting(topic={"cleanup_policy": "compact,delete", "retention_ms": -1})
    await write(cluster[1], "a=1", "a=2", "a=3")
    cluster.controller.configure(segment_bytes=1 << 20)
    await write(cluster[1], "a=4", "a=5")
    assert not (await cluster[1].deleted(4)).error
    await trio.sleep(60)
    assert cluster[1].replicas.cleaning.passes <= 1
    assert not any(logs for logs, _ in cluster[1].replicas.cleaning.uncleanable.values())
    assert await held(cluster[1]) == ["3:a=4", "4:a=5"] or await held(cluster[1]) == ["4:a=5"]


async def test_records_are_deleted_only_where_the_policy_has_delete(compacting, autojump_clock):
    cluster = await compacting()
    await write(cluster[1], "a=1", "a=2", "end=1")
    refused = await cluster[1].deleted(1)
    assert refused.error is ErrorCode.POLICY_VIOLATION
    cluster.controller.configure(cleanup_policy="compact,delete")
    assert not (await cluster[1].deleted(1)).error


@pytest.mark.slow
async def test_a_topic_with_both_policies_is_compacted_and_loses_old_segments(compacting, autojump_clock):
    cluster = await compacting(
        topic={
            "cleanup_policy": "compact,delete",
            "retention_ms": 3_600_000,
        }
    )
    await write(cluster[1], "a=1", "a=2", "b=1")
    await trio.sleep(60)
    assert await held(cluster[1]) == ["1:a=2", "2:b=1"]
    await trio.sleep(7200)
    await write(cluster[1], "c=1")
    await trio.sleep(600)
    assert await held(cluster[1]) == ["3:c=1"]


@pytest.mark.bug("KAFKA-7278")
async def test_retention_may_remove_what_a_pass_is_reading(compacting, autojump_clock):
    cluster = await compacting(
        topic={"cleanup_policy": "compact,delete", "segment_bytes": 200, "retention_ms": -1},
        log_cleaner_io_max_bytes_per_second=50.0,
    )
    await write(cluster[1], *(f"k{number % 3}={number}" for number in range(20)))
    gate = cluster[1].partition().compaction
    await cluster.until(lambda: gate._pass is not None)
    assert not (await cluster[1].deleted(10)).error
    await trio.sleep(600)
    assert [each.partition("=")[2] for each in await held(cluster[1])] == [*map(str, range(15, 20))]
    assert cluster[1].partition().failure is None
    assert cluster[1].partition().log.log_start_offset == 10


@pytest.mark.slow
@pytest.mark.bug("KAFKA-12840")
async def test_a_pass_is_given_up_when_the_policy_changes(compacting, autojump_clock):
    cluster = await compacting(log_cleaner_io_max_bytes_per_second=50.0)
    await write(cluster[1], *(f"k={number}" for number in range(20)))
    before = await held(cluster[1])
    gate = cluster[1].partition().compaction
    await cluster.until(lambda: gate._pass is not None)
    cluster.controller.configure(cleanup_policy="delete")
    await trio.sleep(600)
    assert await held(cluster[1]) == before
    assert not [name for name in cluster[1].disk.list("data/t-0") if "cleaned" in name or "swap" in name]
    cluster.controller.configure(cleanup_policy="compact")
    await trio.sleep(600)
    assert await held(cluster[1]) == ["18:k=18", "19:k=19"]


@pytest.mark.bug("KAFKA-6568")
async def test_a_topic_is_deleted_while_it_is_compacted(compacting, autojump_clock):
    cluster = await compacting(log_cleaner_io_max_bytes_per_second=200.0)
    cluster.controller.create("u", replicas=(1,), number=2)
    cluster.controller.configure("u", cleanup_policy="compact", segment_bytes=ONE_BATCH)
    await cluster.opened("u")
    await write(cluster[1], *(f"k={number}" for number in range(20)))
    gate = cluster[1].partition().compaction
    await cluster.until(lambda: gate._pass is not None)
    cluster.controller.delete()
    await cluster.until(lambda: not cluster[1].disk.exists("data/t-0"), within_s=5)
    await write(cluster[1], "a=1", "a=2", "end=1", name="u")
    await trio.sleep(60)
    assert await held(cluster[1], name="u") == ["1:a=2", "2:end=1"]
    assert load_offsets(cluster[1].disk, PATH) == {("u", 0): 2}
    # Another one of the name begins anew.
    cluster.controller.create(replicas=(1,), number=3)
    await cluster.opened()
    assert cleaned_end(cluster[1]) == 0


@pytest.mark.bug("KAFKA-5490")
async def test_a_producer_goes_on_after_its_records_were_compacted_away(compacting, autojump_clock):
    cluster = await compacting(brokers=2)
    for sequence in range(6):
        await write(cluster[1], "k=mine", producer=(7, 0, sequence))
    await write(cluster[1], "k=other", "end=1")
    await cluster.caught_up()
    await trio.sleep(10)
    assert await held(cluster[2]) == ["6:k=other", "7:end=1"]
    await cluster[2].crash()
    for name in cluster[2].disk.list("data/t-0"):
        if name.endswith(".producers"):
            cluster[2].disk.remove(f"data/t-0/{name}")
    await cluster[2].start()
    await cluster.opened()
    await cluster.caught_up()
    await cluster.lead(2)
    await write(cluster[2], "k=mine again", producer=(7, 0, 6))
    repeated = cluster[2].send(keyed("k=mine", producer=(7, 0, 8)))
    assert repeated.results()[0].error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_damaged_log_is_set_aside_and_others_go_on(compacting, autojump_clock):
    cluster = await compacting(partitions=2, log_cleaner_threads=0)
    for partition in (0, 1):
        for record in ("a=1", "a=2", "a=3", "end=1"):
            await write(cluster[1], record, partition_id=partition)
    disk = cluster[1].disk
    path = f"data/t-0/{1:020}.log"
    file = disk.open(path)
    file.write_at(file.size - 2, b"\xff")
    file.close()
    cleaner = cluster[1].manager._parts.storage.cleaner
    with captured_logs() as lines:
        cleaner.reconfigure(ReplicationConfig(log_cleaner_threads=1, log_cleaner_backoff_ms=1000))
        await trio.sleep(600)
    said = [line for line in lines if str(line["event"]).startswith("a log can't be compacted, and is")]
    assert [each["partition"] for each in said] == ["t-0"]
    assert path in str(said[0]["reason"])
    assert await held(cluster[1], partition_id=1) == ["2:a=3", "3:end=1"]
    count, size = cluster[1].replicas.cleaning.uncleanable["data"]
    assert (count, size > 0) == (1, True)
    assert cluster[1].partition().failure is None


async def test_a_full_disk_pauses_compaction_and_nothing_else(compacting, autojump_clock):
    cluster = await compacting(log_cleaner_threads=0)
    await write(cluster[1], "a=1", "a=2", "end=1")
    before = await held(cluster[1])
    cluster[1].disk.space_left = 20
    cluster[1].manager._parts.storage.cleaner.reconfigure(
        ReplicationConfig(log_cleaner_threads=1, log_cleaner_backoff_ms=1000)
    )
    await trio.sleep(10)
    assert await held(cluster[1]) == before
    assert cluster[1].partition().failure is None
    assert not [name for name in cluster[1].disk.list("data/t-0") if "cleaned" in name]
    cluster[1].disk.space_left = None
    await trio.sleep(120)
    assert await held(cluster[1]) == ["1:a=2", "2:end=1"]


@pytest.mark.costly
@pytest.mark.costly
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("space", range(0, 720, 40))
async def test_a_disk_that_fills_at_any_place_of_a_pass_costs_no_key(
    compacting, autojump_clock, space, killed
):
    """700 bytes are enough for the whole pass and its checkpoints."""
    cluster = await compacting(log_cleaner_threads=0, topic={"segment_bytes": 400})
    await write(cluster[1], *(f"k{number % 3}={number}" for number in range(30)), "end=1")
    before, disk = await held(cluster[1]), cluster[1].disk
    after = ["27:k0=27", "28:k1=28", "29:k2=29", "30:end=1"]
    disk.space_left = space
    cluster[1].manager._parts.storage.cleaner.reconfigure(
        ReplicationConfig(log_cleaner_threads=1, log_cleaner_backoff_ms=1000)
    )
    await trio.sleep(10)
    now = await held(cluster[1])
    assert (now == after) == (space > 660)
    assert [each for each in now if each in after] == after
    assert all(each in before for each in now)
    assert cluster[1].partition().failure is None
    assert not [name for name in disk.list("data/t-0") if name.endswith((".cleaned", ".swap", ".deleted"))]
    if killed:
        await cluster[1].crash()
    disk.space_left = None
    if killed:
        await cluster[1].start()
        await cluster.opened()
        assert await held(cluster[1]) == now
    else:
        await trio.sleep(120)
        assert await held(cluster[1]) == after
        assert load_offsets(disk, PATH) == {("t", 0): 30}


@pytest.mark.slow
async def test_a_pass_keeps_to_the_rate(compacting, autojump_clock):
    cluster = await compacting(
        topic={"segment_bytes": 1000}, log_cleaner_io_max_bytes_per_second=10_000.0, log_cleaner_threads=0
    )
    await write(cluster[1], *(f"k={number}{'.' * 800}" for number in range(100)))
    began = trio.current_time()
    cluster[1].manager._parts.storage.cleaner.reconfigure(
        ReplicationConfig(log_cleaner_io_max_bytes_per_second=10_000.0, log_cleaner_backoff_ms=1000)
    )
    await cluster.until(lambda: cluster[1].replicas.cleaning.passes, within_s=600)
    # Twice 88,000 bytes are read, and some hundred are written.
    assert 16 <= trio.current_time() - began <= 22


async def test_a_raised_rate_counts_at_once(autojump_clock):
    throttle, under_way = CleaningThrottle(1.0), CompactionPass()
    pace = PassPace(throttle, under_way)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pace.moved, 1_000_000, 0)
        await trio.sleep(5)
        throttle.configure(float("inf"))
        with trio.fail_after(2):
            while nursery.child_tasks:  # noqa: ASYNC110
                await trio.sleep(0.1)


async def test_a_pass_that_waits_for_its_rate_ends_at_once(autojump_clock):
    throttle, under_way = CleaningThrottle(1.0), CompactionPass()
    pace = PassPace(throttle, under_way)
    async with trio.open_nursery() as nursery:

        async def use():
            with pytest.raises(CompactionStoppedError, match="enough"):
                await pace.moved(1_000_000, 0)

        nursery.start_soon(use)
        await trio.sleep(5)
        under_way.stop("enough")
        with trio.fail_after(0.1):
            while nursery.child_tasks:  # noqa: ASYNC110
                await trio.sleep(0.01)


async def test_nothing_is_compacted_where_the_cleaner_is_off(compacting, autojump_clock):
    cluster = await compacting(log_cleaner_enable=False)
    await write(cluster[1], "a=1", "a=2", "end=1")
    await trio.sleep(600)
    assert await held(cluster[1]) == ["0:a=1", "1:a=2", "2:end=1"]


async def test_more_keys_than_the_table_takes_are_compacted_in_several_passes(compacting, autojump_clock):
    cluster = await compacting(
        topic={"min_cleanable_dirty_ratio": "0.01"}, log_cleaner_dedupe_buffer_size=24 * 8
    )
    await write(cluster[1], *(f"k{number % 10}={number}" for number in range(30)), "end=1")
    await trio.sleep(60)
    assert cluster[1].replicas.cleaning.passes > 1
    assert [each.partition(":")[0] for each in await held(cluster[1])] == [*map(str, range(20, 31))]


@pytest.mark.parametrize("threads", [2, 1000, 2**31 - 1])
async def test_as_many_passes_run_at_once_as_have_a_table_to_speak_of(compacting, autojump_clock, threads):
    """Divided among a thousand, 1 MiB would take no batch of a hundred keys."""
    cluster = await compacting(
        topic={"segment_bytes": 10_000}, log_cleaner_threads=threads, log_cleaner_dedupe_buffer_size=1 << 20
    )
    for number in range(3):
        pending = cluster[1].send(keyed(*(f"k{key}={number}" for key in range(500))))
        await pending.wait()
    await cluster.until(lambda: cluster[1].replicas.cleaning.passes)
    await write(cluster[1], "end=1")
    assert len(await held(cluster[1])) < 1501
    assert cluster[1].replicas.cleaning.uncleanable["data"] == (0, 0)


@pytest.mark.bug("KAFKA-8002")
async def test_a_compacted_replica_moves_to_another_directory_and_is_compacted_there(
    compacting, autojump_clock
):
    cluster = await compacting(log_dirs=("data", "more"), topic={"min_cleanable_dirty_ratio": "0.01"})
    await write(cluster[1], "a=1", "a=2", "b=1", "end=1")
    await trio.sleep(10)
    logs = cluster[1].manager._logs
    first = logs.folders.log_directory_of("t", 0).path
    second = "more" if first == "data" else "data"
    for target, other in ((second, first), (first, second)):
        before = cleaned_end(cluster[1])
        await cluster[1].replicas.moves.move("t", 0, target)
        cluster.controller.elect(1)
        await cluster.until(lambda: logs.folders.log_directory_of("t", 0).path == target)  # noqa: B023
        assert cleaned_end(cluster[1]) == before
        await trio.sleep(30)
        files = [load_offsets(cluster[1].disk, f"{path}/{CLEANED}") for path in (target, other)]
        assert files == [{("t", 0): before}, {}] or files[0] == {("t", 0): before}
        await write(cluster[1], "a=3", "a=4", "end=2")
        await trio.sleep(10)
        left = [each.partition(":")[2] for each in await held(cluster[1])]
        assert (len(left), left.count("a=4"), left.count("b=1")) == (4, 1, 1), left
        assert load_offsets(cluster[1].disk, f"{target}/{CLEANED}") == {("t", 0): cleaned_end(cluster[1])}


async def test_no_pass_begins_while_a_replica_moves(compacting, autojump_clock):
    cluster = await compacting(log_dirs=("data", "more"), log_cleaner_io_max_bytes_per_second=50.0)
    await write(cluster[1], *(f"k={number}" for number in range(20)))
    gate = cluster[1].partition().compaction
    await cluster.until(lambda: gate._pass is not None)
    logs = cluster[1].manager._logs
    target = "more" if logs.folders.log_directory_of("t", 0).path == "data" else "data"
    quota = cluster[1].manager._parts.base.quotas.moves
    quota.bound = 100.0
    quota.record(1000, now=trio.current_time())
    await cluster[1].replicas.moves.move("t", 0, target)
    await trio.sleep(1)
    looks = 0
    while logs.folders.log_directory_of("t", 0).path != target:
        assert gate._pass is None
        looks += 1
        await trio.sleep(0.5)
    assert looks >= 10
    # The copy is one segment, and closed now.
    await write(cluster[1], "end=1", "end=2")
    await trio.sleep(600)
    assert await held(cluster[1]) == ["19:k=19", "20:end=1", "21:end=2"]


@pytest.mark.slow
async def test_a_crash_at_any_time_of_a_pass_loses_no_key(autojump_clock):
    for power in (False, True):
        for delay_ms in range(0, 40, 3):
            async with trio.open_nursery() as nursery:
                cluster = Cluster(nursery, brokers=1, min_isr=1, log_cleaner_backoff_ms=20)
                await cluster.with_topic(replicas=(1,))
                cluster.controller.configure(cleanup_policy="compact", segment_bytes=150)
                await write(cluster[1], *(f"k{number % 4}={number}" for number in range(20)))
                await cluster[1].partition().log.flush()
                await cluster[1].manager._logs.store_recovery_points()
                await trio.sleep(delay_ms / 1000)
                await cluster.restart(1, power=power)
                folded = {}
                for each in await held(cluster[1]):
                    key, _, value = each.partition(":")[2].partition("=")
                    folded[key] = value
                assert folded == {"k0": "16", "k1": "17", "k2": "18", "k3": "19"}, (power, delay_ms)
                with contextlib.suppress(Exception):
                    await cluster[1].stop()
                nursery.cancel_scope.cancel()


async def test_an_idle_log_is_not_read(compacting, autojump_clock):
    cluster = await compacting(topic={"min_cleanable_dirty_ratio": 1.0})
    await write(cluster[1], "a=1", "a=2", "end=1")
    await trio.sleep(5)
    cleaning = cluster[1].replicas.cleaning
    assert cleaning.dirtiest > 0.5, "each look would read the first dirty batch"
    cluster[1].disk.fail(DiskOperation.READ, path_part=".log")
    looked_at = cleaning.looked_at
    await trio.sleep(60)
    assert cleaning.looked_at > looked_at + 50
    assert not cluster[1].replicas.directories.failed_ids
