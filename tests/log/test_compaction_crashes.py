"""A crash or a power loss at every operation of a compaction: what comes back is whole, and is what a reader
may see.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cut_disk import CutDisk

from quorate.log import Log, LogConfig
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import Record, RecordContent, build_keyed_batch, records_of
from quorate.log.segments.segment_files import finish_swaps
from quorate.runtime import DiskError
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.log.conftest import compacted

OpenLog = Callable[..., Awaitable[Log]]
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes=0)
MERGED = LogConfig(segment_bytes=1000, index_interval_bytes=100, tail_bytes=0)
F = "data/t-0"
RULES = {"delete_retention_ms": 100, "now_ms": 5000, "map_bytes": 1 << 16}


async def filled(open_log: OpenLog) -> tuple[CutDisk, Log]:
    disk = CutDisk()
    log = await open_log(disk, config=SMALL)
    for base in range(24):
        epoch = 1 + base // 10
        key, value = b"k%d" % (base % 3), None if base in (9, 20) else b"v%d" % base
        built = build_keyed_batch(
            base_offset=base, epoch=epoch, timestamp_ms=1000 + base, records=[RecordContent(key, value)]
        )
        log.append_as_follower(built)
    await log.flush()
    # Segments are put together as well.
    log.configure(MERGED)
    return disk, log


async def records(log: Log) -> list[Record]:
    found: list[Record] = []
    offset = int(log.log_start_offset)
    while offset < log.end_offset:
        for batch in read_batches(await log.read(offset, 200)):
            assert batch.header.base_offset == offset
            found += records_of(batch)
            offset = batch.header.end_offset
    return found


async def check(log: Log, before: list[Record], after: list[Record], epochs: Any) -> None:
    """The state is of the time between two swaps: each segment is old or new."""
    found = await records(log)
    assert [record for record in found if record in after] == after, "a record that stays is lost"
    assert all(record in before for record in found)
    assert log.end_offset == 24
    assert log.epochs == epochs
    for timestamp in (1000, 1011, 1023):
        at = await log.offset_for_timestamp(timestamp)
        assert at is not None and any(record.timestamp >= timestamp for record in found)
    for offset in range(24):
        batch = next(iter(read_batches(await log.read(offset, 1))))
        assert batch.header.base_offset <= offset < batch.header.end_offset


@pytest.mark.slow
@pytest.mark.bug("pulsar PR 12522")
@pytest.mark.bug("KAFKA-12520")
@pytest.mark.parametrize("clean", [True, False], ids=["all durable", "nothing known to be durable"])
async def test_a_crash_at_any_operation_leaves_each_segment_old_or_new(
    clean: bool, open_log: OpenLog
) -> None:
    disk, log = await filled(open_log)
    before, epochs = await records(log), log.epochs
    await compacted(log, **RULES)
    after = await records(log)
    assert len(after) < len(before)
    operations = swaps = 0
    finished = False
    while not finished:
        for seed in range(-1, 8):
            disk, log = await filled(open_log)
            disk.operations_left = operations
            try:
                await compacted(log, **RULES)
                finished = True
            except DiskError:
                pass
            disk.operations_left = None
            if seed < 0:
                disk.crash_process()
            else:
                disk.lose_power(random.Random(seed))
            swaps += any(name.endswith(".log.swap") for name in disk.list(F))
            for _ in range(2):
                log = await open_log(disk, config=MERGED, recovery_point=24 if clean else 0)
                await check(log, before, after, epochs)
                leftovers = [
                    name for name in disk.list(F) if name.endswith((".cleaned", ".swap", ".deleted"))
                ]
                assert not leftovers
                disk.lose_power(random.Random(seed))
            log = await open_log(disk, config=MERGED, recovery_point=24 if clean else 0)
            await compacted(log, **RULES)
            assert await records(log) == after
        operations += 1
    assert operations > 30
    assert swaps > 10, "no crash came where only the new segment counts"


@pytest.mark.slow
async def test_a_crash_while_a_swap_is_finished_finishes_it_at_the_next_start(open_log: OpenLog) -> None:
    disk, log = await filled(open_log)
    before, epochs = await records(log), log.epochs
    await compacted(log, **RULES)
    after = await records(log)
    operations = 0
    while True:
        seen = 0
        for seed in range(8):
            disk, log = await filled(open_log)
            disk.fail(DiskOperation.SYNC_FOLDER, skip=1)
            with pytest.raises(DiskError):
                await compacted(log, **RULES)
            disk.crash_process()
            assert any(name.endswith(".log.swap") for name in disk.list(F))
            disk.operations_left = operations
            try:
                await finish_swaps(disk, F, MERGED)
                seen += 1
            except DiskError:
                pass
            disk.operations_left = None
            disk.lose_power(random.Random(seed))
            log = await open_log(disk, config=MERGED, recovery_point=24)
            await check(log, before, after, epochs)
        operations += 1
        if seen == 8:
            break
    assert operations > 5


@pytest.mark.bug("KAFKA-7401")
async def test_a_swap_is_finished_below_the_log_start_too(open_log: OpenLog) -> None:
    disk, log = await filled(open_log)
    disk.fail(DiskOperation.SYNC_FOLDER, skip=1)
    with pytest.raises(DiskError):
        await compacted(log, **RULES)
    disk.crash_process()
    log = await open_log(disk, config=MERGED, recovery_point=24, log_start_offset=3)
    assert (log.log_start_offset, log.first_base_offset, log.end_offset) == (3, 0, 24)


async def test_a_log_whose_swap_failed_takes_no_append_before_it_is_opened_again(open_log: OpenLog) -> None:
    for skip in range(3):
        disk, log = await filled(open_log)
        before, epochs = await records(log), log.epochs
        disk.fail(DiskOperation.SYNC_FOLDER, skip=skip)
        with pytest.raises(DiskError):
            await compacted(log, **RULES)
        with pytest.raises(Exception, match="must be opened again"):
            log.append_as_follower(b"")
        assert [record for record in await records(log) if record not in before] == []
        log.close()
        again = await open_log(disk, config=MERGED, recovery_point=24)
        await check(again, before, [], epochs)
