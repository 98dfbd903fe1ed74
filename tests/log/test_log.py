import random
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from quorate.log.batches.batch import read_batches, read_headers
from quorate.log.checkpoints import UnreadableCheckpointError, load_offsets, store_offsets
from quorate.log.log import Log
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import (
    EpochRegressionError,
    InvalidBatchError,
    LogError,
    OffsetGapError,
    OffsetOutOfRangeError,
)
from quorate.runtime.disk import DiskError, write_file_atomically
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk, SimulatedFile
from quorate.types import Epoch, EpochEnd, EpochStart, Offset
from tests.log.conftest import new_log, overtake

Opener = Callable[..., Awaitable[Log]]
Builder = Callable[..., bytes]
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes=0)


async def fill(log: Log, batch: Builder, batches: int, **kwargs: int) -> None:
    for _ in range(batches):
        log.append_as_follower(batch(int(log.end_offset), **kwargs))


async def test_a_leader_gives_a_clients_batches_offsets_and_its_epoch(
    open_log: Opener, batch: Builder
) -> None:
    log = await open_log(SimulatedDisk())
    await fill(log, batch, 3)
    client = batch(0, 2, epoch=0) + batch(0, 3, epoch=0)
    info = log.append_as_leader(memoryview(bytearray(client)), 4)
    assert (info.base_offset, info.end_offset, info.size_bytes) == (3, 8, len(client))
    headers = list(read_headers(await log.read(3, 10**6)))
    assert [(one.base_offset, one.end_offset, one.leader_epoch) for one in headers] == [(3, 5, 4), (5, 8, 4)]
    assert log.epochs == (EpochStart(Epoch(1), Offset(0)), EpochStart(Epoch(4), Offset(3)))


async def test_a_receive_buffer_may_be_used_again_after_an_append(open_log: Opener, batch: Builder) -> None:
    log = await open_log(SimulatedDisk())
    buffer = bytearray(batch(0))
    log.append_as_follower(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert log.read_tail(0, 10**6) == batch(0)


async def test_gaps_old_epochs_and_damage_are_refused_and_change_nothing(
    open_log: Opener, batch: Builder
) -> None:
    log = await open_log(SimulatedDisk())
    await fill(log, batch, 2, epoch=3)
    size = log.size_bytes
    with pytest.raises(OffsetGapError, match="base offset 3, expected 2"):
        log.append_as_follower(batch(3, epoch=3))
    with pytest.raises(OffsetGapError):
        log.append_as_follower(batch(2, epoch=3) + batch(4, epoch=3))
    with pytest.raises(EpochRegressionError):
        log.append_as_follower(batch(2, epoch=2))
    with pytest.raises(EpochRegressionError):
        log.append_as_leader(batch(0), 2)
    with pytest.raises(OffsetGapError):
        log.append_own(batch(0), base_offset=0, end_offset=1, epoch=3)
    with pytest.raises(InvalidBatchError, match="CRC"):
        log.append_as_follower(batch(2, epoch=3)[:-1] + b"!")
    assert (log.end_offset, log.size_bytes) == (2, size)


async def test_reads_return_whole_batches_within_their_limits(open_log: Opener, batch: Builder) -> None:
    for config in (SMALL, LogConfig(), LogConfig(tail_bytes=500)):
        log = await open_log(SimulatedDisk(), config=config)
        await fill(log, batch, 12, count=3)
        size = len(batch(0, 3))
        for offset in range(36):
            first = offset // 3 * 3
            assert (await log.read(offset, 1)).startswith(batch(first, 3))
            assert await log.read(offset, 1, min_one_batch=False) == b""
            assert await log.read(offset, 10**6, end_offset=first + 2) == b""
            assert await log.read(offset, 10**6, end_offset=first + 3) == batch(first, 3)
            two = await log.read(offset, 2 * size + 40)
            assert [one.header.base_offset for one in read_batches(two)][:1] == [first]
            assert len(two) in (size, 2 * size)
        assert await log.read(36, 100) == b""
        for offset in (-1, 37):
            with pytest.raises(OffsetOutOfRangeError, match=r"\[0, 36\)"):
                await log.read(offset, 100)


async def test_a_slice_covers_exactly_what_a_read_returns(open_log: Opener, batch: Builder) -> None:
    log = await open_log(SimulatedDisk(), config=LogConfig(index_interval_bytes=300, tail_bytes=0))
    await fill(log, batch, 40)
    for offset in range(40):
        for max_bytes in (1, 100, 500, 3000, 10**6):
            for end_offset in (offset, offset + 1, 25, 40):
                expected = b"".join(batch(base) for base in range(offset, min(end_offset, 40)))
                limit = max(1, max_bytes // len(batch(0))) * len(batch(0))
                assert await log.read(offset, max_bytes, end_offset=end_offset) == expected[:limit]
                found = log.slice_of(offset, max_bytes, end_offset=end_offset)
                assert (0 if found is None else found.size) == len(expected[:limit])


async def test_the_log_rolls_by_size_and_by_the_records_time(open_log: Opener, batch: Builder) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    await fill(log, batch, 9)
    assert log.segment_count == 3
    log = await open_log(SimulatedDisk(), config=LogConfig(segment_ms=100))
    await fill(log, batch, 1, timestamp_ms=1000)
    await fill(log, batch, 1, timestamp_ms=1100)
    assert log.segment_count == 1
    await fill(log, batch, 1, timestamp_ms=1101)
    assert log.segment_count == 2


async def test_a_full_index_rolls_and_a_cut_one_has_room_again(open_log: Opener, batch: Builder) -> None:
    config = LogConfig(index_interval_bytes=1, segment_index_bytes=32)
    log = await open_log(SimulatedDisk(), config=config)
    await fill(log, batch, 5)
    assert log.segment_count == 1
    await fill(log, batch, 2)
    assert log.segment_count == 2
    assert await log.truncate(Offset(5)) == 5
    await log.truncate(Offset(0))
    await fill(log, batch, 3)
    assert (log.segment_count, log.end_offset) == (1, 3)


async def test_truncating_forgets_epochs_even_if_no_record_is_cut(open_log: Opener, batch: Builder) -> None:
    _, log = await new_log()
    await fill(log, batch, 2, epoch=1)
    log.start_epoch(Epoch(5))
    assert log.last_epoch == 5
    await log.truncate(Offset(2))
    assert log.last_epoch == 1
    log.append_as_follower(batch(2, epoch=3))


async def test_epochs_answer_as_kip_101_and_279_say(open_log: Opener, batch: Builder) -> None:
    log = await open_log(SimulatedDisk())
    assert log.end_offset_for_epoch(3) is None
    await fill(log, batch, 2, epoch=2)
    await fill(log, batch, 3, epoch=5)
    assert log.end_offset_for_epoch(1) == EpochEnd(Epoch(1), Offset(0))
    assert log.end_offset_for_epoch(2) == EpochEnd(Epoch(2), Offset(2))
    assert log.end_offset_for_epoch(4) == EpochEnd(Epoch(2), Offset(2))
    assert log.end_offset_for_epoch(5) == EpochEnd(Epoch(5), Offset(5))
    assert log.end_offset_for_epoch(9) == EpochEnd(Epoch(5), Offset(5))
    assert [log.epoch_at(offset) for offset in (0, 1, 2, 4)] == [2, 2, 5, 5]


async def test_truncating_below_the_high_watermark_or_the_start_is_refused(
    open_log: Opener, batch: Builder
) -> None:
    log = await open_log(SimulatedDisk(), log_start_offset=10)
    await fill(log, batch, 3)
    log.high_watermark = Offset(12)
    with pytest.raises(LogError, match="high watermark 12"):
        await log.truncate(Offset(11))
    with pytest.raises(OffsetOutOfRangeError):
        await log.truncate(Offset(9))
    assert log.end_offset == 13
    assert await log.truncate(Offset(12)) == 12


@pytest.mark.bug("KAFKA-9491")
async def test_a_full_truncation_starts_anew_and_survives_power_loss(
    open_log: Opener, batch: Builder
) -> None:
    config = LogConfig(segment_bytes=400, own_recovery_point=True)
    for seed in range(10):
        disk, log = await new_log(config)
        await fill(log, batch, 9)
        await log.flush()
        await log.truncate_fully_and_start_at(Offset(100))
        assert (log.log_start_offset, log.end_offset, log.high_watermark, log.epochs) == (100, 100, 100, ())
        disk.lose_power(random.Random(seed))
        log = await open_log(disk, config=config, log_start_offset=100)
        assert (log.log_start_offset, log.end_offset) == (100, 100)
        await fill(log, batch, 1, epoch=7)
        assert log.epochs == (EpochStart(Epoch(7), Offset(100)),)


@pytest.mark.slow
async def test_a_truncation_that_power_loss_interrupts_anywhere_leaves_a_log_that_opens(
    open_log: Opener, batch: Builder
) -> None:
    config = LogConfig(segment_bytes=400, own_recovery_point=True)
    for seed in range(150):
        draw = random.Random(seed)
        disk, log = await new_log(config)
        await fill(log, batch, 12)
        await log.flush()
        with trio.CancelScope() as scope:
            # Each sync is one checkpoint: cancel at one of them.
            syncs, stop_at = disk.syncs, draw.randint(0, 7)
            disk.sync_delay = lambda _, disk=disk, syncs=syncs, stop_at=stop_at, scope=scope: (  # type: ignore[misc]
                scope.cancel() or 0.0 if disk.syncs - syncs >= stop_at else 0.0
            )
            await log.truncate(Offset(2))
        disk.sync_delay = 0.0
        disk.lose_power(draw)
        log = await open_log(disk, config=config)
        assert 2 <= log.end_offset <= 12
        expected = b"".join(batch(offset) for offset in range(log.end_offset))
        got = b""
        while (data := await log.read(len(got) // len(batch(0)), 10**6)) != b"":
            got += data
        assert got == expected


async def test_a_read_that_a_truncation_overtakes_does_not_return_what_was_cut(
    open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log(SMALL)
    await fill(log, batch, 3, epoch=1)
    read: list[bytes] = []

    async def reader() -> None:
        read.append(await log.read(1, 10**6))

    async with trio.open_nursery() as nursery:
        disk.stall(syncs=False)
        nursery.start_soon(reader)
        await trio.testing.wait_all_tasks_blocked()
        released = overtake(disk)
        await log.truncate(Offset(1))
        log.append_as_follower(batch(1, epoch=2, size=200))
        released.set()
    assert read == [batch(1, epoch=2, size=200)]


async def test_an_idle_log_does_not_roll_while_it_is_truncated_and_does_after_it(
    open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log()
    await fill(log, batch, 3)
    rolled: list[bool] = []
    disk.sync_delay = lambda _: rolled.append(log.roll_if_older(2000)) or 0.0
    await log.truncate(Offset(2))
    assert rolled and not any(rolled), f"rolled while it was truncated: {rolled}"
    disk.sync_delay = 0.0
    assert log.roll_if_older(2000)
    assert (log.segment_count, log.end_offset) == (2, 2)


async def test_a_read_that_the_logs_end_overtakes_says_so(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log(SMALL)
    await fill(log, batch, 3, epoch=1)
    async with trio.open_nursery() as nursery:
        disk.stall(syncs=False)

        async def reader() -> None:
            with pytest.raises(OffsetOutOfRangeError):
                await log.read(2, 10**6)

        nursery.start_soon(reader)
        await trio.testing.wait_all_tasks_blocked()
        await log.truncate_fully_and_start_at(Offset(1))
        disk.release()


async def test_a_read_from_the_files_never_holds_up_the_loop(
    open_log: Opener, batch: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    await fill(log, batch, 30)

    def blocking(file: SimulatedFile, position: int, size: int) -> bytes:
        raise AssertionError(f"{file.path} is read at {position} at once")

    monkeypatch.setattr(SimulatedFile, "read_at", blocking)
    for offset in range(30):
        assert (await log.read(offset, 300, end_offset=29)).startswith(batch(offset) if offset < 29 else b"")


async def test_concurrent_syncs_each_cover_what_was_there_at_their_call(
    open_log: Opener, batch: Builder, autojump_clock: trio.testing.MockClock
) -> None:
    disk, log = await new_log(SMALL)
    disk.sync_delay = 1.0
    done: list[tuple[int, int]] = []

    async def sync() -> None:
        end = await log.sync()
        durable = sum(
            len(disk.durable_content(f"data/t-0/{name}") or b"")
            for name in disk.list("data/t-0")
            if name.endswith(".log")
        )
        done.append((end, durable // len(batch(0))))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            await fill(log, batch, 3)
            nursery.start_soon(sync)
            await trio.sleep(0.4)
    assert [end for end, _ in done] == [3, 6, 9, 12]
    assert all(durable >= end for end, durable in done)


async def test_a_log_is_flushed_if_nothing_has_changed_since(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log()
    assert log.is_flushed, "opening makes durable what it shows"
    await fill(log, batch, 1)
    assert not log.is_flushed
    await log.sync()
    assert not log.is_flushed, "its epochs and its recovery point are not"
    await log.flush()
    assert log.is_flushed
    end = log.end_offset
    await log.truncate(Offset(0))
    await fill(log, batch, 1)
    assert log.end_offset == end
    assert not log.is_flushed, "other records end at the same offset"
    await log.flush()
    assert log.is_flushed
    log.start_epoch(Epoch(2))
    assert not log.is_flushed
    disk.fail(DiskOperation.SYNC)
    await fill(log, batch, 1, epoch=2)
    with pytest.raises(DiskError):
        await log.flush()
    assert not log.is_flushed


@pytest.mark.bug("KAFKA-5634")
async def test_retention_removes_old_segments_below_the_high_watermark_only(
    open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log(SMALL)
    await fill(log, batch, 12, timestamp_ms=500_000)
    assert log.segment_count == 3
    assert not await log.delete_old_segments(
        retention_bytes=None, retention_ms=600_000, high_watermark=Offset(12)
    )
    assert (
        await log.delete_old_segments(retention_bytes=None, retention_ms=400_000, high_watermark=Offset(5))
        == 1
    )
    assert log.log_start_offset == 4
    assert await log.delete_old_segments(retention_bytes=1, retention_ms=None, high_watermark=Offset(12)) == 1
    assert (log.log_start_offset, log.end_offset, log.segment_count) == (8, 12, 1)
    assert log.epochs == (EpochStart(Epoch(1), Offset(8)),)
    with pytest.raises(OffsetOutOfRangeError):
        await log.read(7, 100)
    disk.lose_power(random.Random(0))
    assert (await open_log(disk, config=SMALL)).log_start_offset == 8


async def test_the_log_start_may_lie_inside_a_segment(open_log: Opener, batch: Builder) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    await fill(log, batch, 12)
    assert await log.advance_log_start(Offset(6)) == 1
    assert (log.log_start_offset, log.segment_count) == (6, 2)
    assert await log.read(6, 1) == batch(6)


async def test_a_timestamp_finds_the_first_batch_that_reaches_it(open_log: Opener, batch: Builder) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    for timestamp in (10, 30, 20, 40):
        await fill(log, batch, 1, timestamp_ms=timestamp)
    assert [await log.offset_for_timestamp(at) for at in (0, 10, 11, 31, 41)] == [0, 0, 1, 3, None]


async def test_a_clean_shutdown_is_opened_without_rewriting(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log()
    await fill(log, batch, 5)
    await log.flush_and_close()
    with pytest.raises(LogError):
        log.append_as_follower(batch(5))
    log = await open_log(disk, clean_shutdown=True, recovery_point=5)
    assert (log.end_offset, log.recovered.rewritten_bytes) == (5, 0)


async def test_offset_checkpoints_are_kafkas_and_checked() -> None:
    disk = SimulatedDisk()
    assert load_offsets(disk, "f") == {}
    await store_offsets(disk, "f", {("a-b", 0): Offset(5), ("c", 12): Offset(0)})
    assert disk.content("f") == b"0\n2\na-b 0 5\nc 12 0\n"
    assert load_offsets(disk, "f") == {("a-b", 0): 5, ("c", 12): 0}
    for bad in (
        b"",
        b"0\n",
        b"0\n2\na 0 5\n",
        b"1\n0\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 -1\n",
        b"0\n2\na 0 1\na 0 2\n",
        b"0\n1\na 0 " + b"9" * 5000 + b"\n",
        "0\n1\na 0 ٣\n".encode(),
        b"x" * 10_000 + b"\n0\n",
    ):
        await write_file_atomically(disk, "f", bad)
        with pytest.raises(UnreadableCheckpointError) as raised:
            load_offsets(disk, "f")
        assert len(str(raised.value)) < 300


@pytest.mark.bug("KAFKA-12331")
async def test_an_own_batch_that_leaves_a_gap_is_refused_and_nothing_is_written(open_log, batch):
    """The LeaderChange batch came with base offset 0."""
    log = await open_log(SimulatedDisk())
    log.append_own(batch(0, 3), base_offset=0, end_offset=3, epoch=1)
    for base_offset in (0, 2, 4):
        with pytest.raises(OffsetGapError, match=f"base offset {base_offset}, expected 3"):
            log.append_own(batch(base_offset), base_offset=base_offset, end_offset=base_offset + 1, epoch=1)
    assert log.end_offset == 3
    log.append_own(batch(3), base_offset=3, end_offset=4, epoch=1)
    assert len(list(read_batches(await log.read(Offset(0), 10_000)))) == 2


async def test_a_truncation_over_segments_that_dies_halfway_is_opened_again(open_log, batch):
    """The recovery point goes down first, so that what is missing above it is no damage."""
    config = LogConfig(segment_bytes=300, tail_bytes=0, own_recovery_point=True)
    for removals in range(4):
        disk, log = await new_log(config)
        for base_offset in range(20):
            log.append_own(batch(base_offset), base_offset=base_offset, end_offset=base_offset + 1, epoch=1)
        await log.flush()
        assert log.segment_count > 5
        disk.fail(DiskOperation.REMOVE, path_part=".log", skip=removals)
        with pytest.raises(DiskError):
            await log.truncate(Offset(1))
        disk.crash_process()
        disk.clear_faults()
        log = await open_log(disk, config=config)
        assert 1 <= log.end_offset <= 20
        log.append_own(
            batch(log.end_offset), base_offset=log.end_offset, end_offset=log.end_offset + 1, epoch=1
        )
