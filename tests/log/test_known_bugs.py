"""What went wrong with logs elsewhere: their recovery, their retention and their compaction."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import trio
import trio.testing

from quorate.log import Log, LogConfig
from quorate.log.batches.batch import Batch, read_batches
from quorate.log.batches.records import RecordContent, build_keyed_batch, records_of
from quorate.log.log_errors import CompactionAbandonedError, DamagedLogError, OffsetOutOfRangeError
from quorate.runtime import DiskError
from quorate.simulation.world.disk_faults import DiskOperation
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Offset
from tests.log.conftest import FreePace, compacted, new_log

OpenLog = Callable[..., Awaitable[Log]]
F = "data/t-0"
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes=0)
NOW = 1_000_000


def append(log: Log, key: str, value: str, *, timestamp_ms: int = 1000, epoch: int = 1) -> None:
    batch = build_keyed_batch(
        base_offset=int(log.end_offset),
        epoch=epoch,
        timestamp_ms=timestamp_ms,
        records=[RecordContent(key.encode(), value.encode())],
    )
    log.append_as_follower(batch)


async def offsets(log: Log) -> list[int]:
    """The offsets of all records, each batch read by itself."""
    found: list[int] = []
    position = int(log.log_start_offset)
    while position < log.end_offset:
        batch = next(iter(read_batches(await log.read(position, 1))))
        found += [record.offset for record in records_of(batch) if record.offset >= log.log_start_offset]
        position = batch.header.end_offset
    return found


def names(disk: SimulatedDisk, suffix: str) -> list[str]:
    return sorted(name for name in disk.list(F) if name.endswith(suffix))


# Recovery


@pytest.mark.bug("KAFKA-10101")
@pytest.mark.parametrize("seed", range(8))
async def test_recovered_records_survive_a_power_loss_before_any_flush(open_log: OpenLog, seed: int) -> None:
    disk, log = await new_log(SMALL)
    for number in range(5):
        append(log, "k", f"{number}")
    point = int(await log.flush())
    for number in range(30):
        append(log, "k", f"{number}")
    disk.crash_process()
    log = await open_log(disk, config=SMALL, recovery_point=point)
    assert (log.end_offset, log.recovery_point) == (35, 35)
    disk.lose_power(random.Random(seed))
    for recovery_point in (35, point):
        log = await open_log(disk, config=SMALL, recovery_point=recovery_point)
        assert await offsets(log) == list(range(35))
        disk.crash_process()


@pytest.mark.parametrize("seed", range(20))
async def test_a_log_whose_first_start_was_killed_survives_a_power_loss_in_the_second(
    open_log: OpenLog, seed: int
) -> None:
    """Found by a simulated quorum, seed 1003681 of its sessions: the name of the recovery point was not yet
    durable, that of the first segment was soon after, and the third start took the missing one for damage."""
    disk = SimulatedDisk()
    own = replace(SMALL, own_recovery_point=True)
    for _ in range(2):
        disk.fail(DiskOperation.SYNC_FOLDER, path_part=F)
        with pytest.raises(DiskError):
            await open_log(disk, config=own)
        disk.clear_faults()
        disk.crash_process()
    disk.lose_power(random.Random(seed))
    log = await open_log(disk, config=own)
    assert log.end_offset == 0


@pytest.mark.bug("KAFKA-13603")
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_a_log_that_retention_has_emptied_keeps_its_end(open_log: OpenLog, clean: bool) -> None:
    """The one segment that is left has no record and no index."""
    disk, log = await new_log(SMALL)
    for number in range(10):
        append(log, "k", f"{number}")
    assert log.roll_if_older(2000)
    await log.flush()
    await log.delete_old_segments(retention_bytes=None, retention_ms=1, high_watermark=log.end_offset)
    assert (log.log_start_offset, log.segment_count) == (10, 1)
    await log.flush_and_close()
    for name in names(disk, "index"):
        disk.remove(f"{F}/{name}")
    log = await open_log(disk, config=SMALL, recovery_point=10, clean_shutdown=clean)
    assert (log.log_start_offset, log.end_offset) == (10, 10)
    assert (log.recovered.cut_bytes, log.recovered.rewritten_bytes) == (0, 0)
    append(log, "k", "next")
    assert await offsets(log) == [10]


@pytest.mark.bug("KAFKA-12955")
async def test_of_a_log_with_a_damaged_segment_exactly_what_follows_the_damage_goes(
    open_log: OpenLog,
) -> None:
    disk, log = await new_log(SMALL)
    for number in range(30):
        append(log, "k", f"{number}")
    await log.flush_and_close()
    segments = names(disk, ".log")
    assert len(segments) > 5
    whole = {name: disk.content(f"{F}/{name}") for name in segments}
    third = f"{F}/{segments[2]}"
    disk.flip(third, len(disk.content(third)) - 1, bit=0)
    log = await open_log(disk, config=SMALL, recovery_point=0)
    end = int(segments[3][:20]) - 1
    assert await offsets(log) == list(range(end))
    assert names(disk, ".log") == segments[:3]
    assert [disk.content(f"{F}/{name}") for name in segments[:2]] == [whole[name] for name in segments[:2]]


# Retention


@pytest.mark.bug("KAFKA-12177")
async def test_one_pass_of_retention_does_all_that_any_rule_allows(open_log: OpenLog) -> None:
    """Two segments are too old, and the log starts in the second."""
    log = await open_log(SimulatedDisk(), config=SMALL)
    while log.segment_count < 4:
        age = 900_000 if log.segment_count > 2 else 1000
        append(log, "k", "v", timestamp_ms=age)
    bases = [int(one.base_offset) for one, _ in log.closed_spans()]
    log.raise_log_start(Offset(bases[1] + 1))

    async def removed() -> int:
        return await log.delete_old_segments(
            retention_bytes=None, retention_ms=500_000, high_watermark=log.end_offset
        )

    assert await removed() == 2
    assert (log.log_start_offset, log.segment_count) == (bases[2], 2)
    assert await removed() == 0


@pytest.mark.slow
@pytest.mark.bug("KAFKA-16073")
async def test_a_read_that_meets_retention_has_records_or_is_out_of_range_of_the_new_start(
    open_log: OpenLog, autojump_clock: trio.testing.MockClock
) -> None:
    disk = SimulatedDisk(sync_delay=0.01)
    log = await open_log(disk, config=SMALL)
    for number in range(40):
        append(log, "k", f"{number}")
    await log.flush()
    outcomes: set[str] = set()
    done = False

    async def read(offset: int) -> None:
        while not done:
            try:
                batch = next(iter(read_batches(await log.read(offset, 1))))
                assert batch.header.base_offset == offset
                outcomes.add("records")
            except OffsetOutOfRangeError as error:
                assert error.log_start_offset > offset, "a consumer would begin at a wrong offset"
                outcomes.add("out of range")
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        for offset in range(0, 40, 3):
            nursery.start_soon(read, offset)
        await trio.sleep(0.05)
        await log.delete_old_segments(retention_bytes=1, retention_ms=None, high_watermark=log.end_offset)
        await trio.sleep(0.05)
        done = True
    assert outcomes == {"records", "out of range"}


@pytest.mark.bug("redpanda PR 12565")
@pytest.mark.parametrize("seed", range(10))
async def test_rolls_by_time_beside_appends_and_syncs_lose_and_repeat_nothing(
    open_log: OpenLog, seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    draw = random.Random(seed)
    disk = SimulatedDisk(sync_delay=lambda path: draw.choice((0.0, 0.001, 0.02)))
    log = await open_log(disk, config=SMALL)

    async def often(do: Callable[[], object], pause_s: float) -> None:
        for _ in range(60):
            do()
            await trio.sleep(draw.random() * pause_s)

    async def flush() -> None:
        for _ in range(20):
            await (log.flush() if draw.random() < 0.5 else log.sync())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(often, lambda: append(log, "k", "v"), 0.01)
        nursery.start_soon(often, lambda: log.roll_if_older(2000), 0.02)
        nursery.start_soon(flush)
    assert log.segment_count > 10, "it was hardly ever rolled by time"
    assert await offsets(log) == list(range(60))
    await log.flush()
    disk.lose_power(draw)
    log = await open_log(disk, config=SMALL, recovery_point=60)
    assert await offsets(log) == list(range(60))


# Compaction


@pytest.mark.bug("KAFKA-7385")
async def test_a_part_of_which_only_offsets_are_left_keeps_its_end_and_its_newest_timestamp(
    open_log: OpenLog,
) -> None:
    """More than the cleaner writes at once: whole pieces have no record left. Epochs keep the offsets in
    headers of their own."""
    config = LogConfig(index_interval_bytes=100, tail_bytes=0)
    disk, log = await new_log(config)
    for number in range(60):
        append(log, "k", "v" * 20_000, timestamp_ms=1000 + number, epoch=1 + number // 10)
    log.configure(replace(config, segment_bytes=1))
    append(log, "k", "last", epoch=6)
    log.configure(config)
    await compacted(log, delete_retention_ms=1000)
    (segment, end), *others = list(log.closed_spans())
    assert not others
    assert (segment.base_offset, end) == (0, 60)
    batches: list[Batch] = []
    while not batches or batches[-1].header.end_offset < 60:
        at = batches[-1].header.end_offset if batches else 0
        batches.append(next(iter(read_batches(await log.read(at, 1)))))
    assert [(each.header.base_offset, each.header.count) for each in batches] == [
        (10 * number, 0) for number in range(5)
    ] + [(50, 0), (59, 1)]
    assert log.max_timestamp() == 1059
    log.close()
    log = await open_log(disk, config=config, recovery_point=61, clean_shutdown=True)
    assert (log.end_offset, log.max_timestamp()) == (61, 1059)


@pytest.mark.bug("KAFKA-6834")
async def test_a_batch_above_todays_limit_is_compacted_and_a_length_of_nonsense_is_damage(
    open_log: OpenLog,
) -> None:
    disk = SimulatedDisk()
    config = LogConfig(index_interval_bytes=100, tail_bytes=0, max_batch_bytes=4 << 20)
    log = await open_log(disk, config=config)
    append(log, "k", "v" * (2 << 20))
    append(log, "l", "v" * (2 << 20))
    append(log, "k", "new")
    log.configure(replace(config, max_batch_bytes=1 << 20, segment_bytes=1))
    append(log, "end", "1")
    log.configure(replace(config, max_batch_bytes=1 << 20))
    result = await compacted(log, delete_retention_ms=1000)
    assert (result.records_before, result.records_after) == (3, 2)
    assert await offsets(log) == [1, 2, 3]
    file = disk.open(f"{F}/{0:020}.log")
    position = file.size - len(build_keyed_batch(
        base_offset=2, epoch=1, timestamp_ms=1000, records=[RecordContent(b"k", b"new")]
    ))  # fmt: skip
    file.write_at(position + 8, (1 << 30).to_bytes(4, "big"))
    with pytest.raises(DamagedLogError):
        await compacted(log, delete_retention_ms=1000)


@pytest.mark.bug("redpanda PR 17019")
@pytest.mark.parametrize("reads", range(1, 12))
@pytest.mark.parametrize("where", ["first", "boundary", "second"])
async def test_a_prefix_that_goes_while_segments_are_merged_leaves_the_rest_whole(
    open_log: OpenLog, reads: int, where: str
) -> None:
    disk, log = await new_log(SMALL)
    for number in range(12):
        append(log, f"k{number}", "v")
    append(log, "k0", "v")
    log.configure(replace(SMALL, segment_bytes=10_000))
    bases = [int(one.base_offset) for one, _ in log.closed_spans()]
    assert len(bases) >= 2
    start = {"first": 1, "boundary": bases[1], "second": bases[1] + 1}[where]

    async def cut() -> None:
        await log.advance_log_start(Offset(start))

    try:
        await compacted(log, pace=FreePace(cut, reads=reads), delete_retention_ms=1000)
    except CompactionAbandonedError:
        pass
    else:
        await cut()
    first = next(one.base_offset for one, _ in log.closed_spans())
    assert first <= log.log_start_offset == start
    assert await offsets(log) == [each for each in range(1, 13) if each >= start]
    log.close()
    again = await open_log(disk, config=SMALL)
    assert [each for each in await offsets(again) if each >= start] == [
        each for each in range(1, 13) if each >= start
    ]


@pytest.mark.bug("redpanda PR 25974")
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_a_compacted_segments_indexes_count_from_its_own_base(open_log: OpenLog, clean: bool) -> None:
    disk = SimulatedDisk()
    config = LogConfig(segment_bytes=3000, index_interval_bytes=200, tail_bytes=0)
    log = await open_log(disk, config=config)
    for number in range(200):
        append(log, f"k{number % 150}", "v" * 10, timestamp_ms=1000 + number)
    await compacted(log, delete_retention_ms=1000)
    found = await offsets(log)
    await log.flush_and_close()
    log = await open_log(disk, config=config, recovery_point=200, clean_shutdown=clean)
    bases = [int(one.base_offset) for one, _ in log.closed_spans()]
    assert len(bases) > 2
    for segment, end in log.closed_spans():
        entries = [segment.indexes.offsets.entry(number) for number in range(len(segment.indexes.offsets))]
        assert entries, "there is nothing to look up in"
        assert all(entry is not None and 0 <= entry[0] < end - segment.base_offset for entry in entries)
    for offset in found:
        batch = next(iter(read_batches(await log.read(offset, 1))))
        assert batch.header.base_offset <= offset < batch.header.end_offset
        assert await log.offset_for_timestamp(1000 + offset) == offset
