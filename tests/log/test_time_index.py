"""The index by time: Kafka's file, what is in it after every change, and what is found with it."""

import random
import struct
from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio

from quorate.log import Log, LogConfig, LogError
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import build_batch, records_of
from quorate.simulation.world.simulated_disk import SimulatedDisk, SimulatedFile
from quorate.types import Offset
from tests.log.conftest import new_log, overtake

Opener = Callable[..., Awaitable[Log]]
F = "data/t-0"
FIRST = f"{F}/{0:020}"
CONFIG = LogConfig(index_interval_bytes=200, tail_bytes=0, segment_bytes=3000)
ONE = LogConfig(index_interval_bytes=200, tail_bytes=0)
"""All in one segment."""


def fill(log: Log, timestamps: Sequence[int], *, epoch: int = 1) -> None:
    for timestamp in timestamps:
        base = log.end_offset
        batch = build_batch(base_offset=base, epoch=epoch, timestamp_ms=timestamp, values=[b"x" * 20])
        log.append_own(batch, base_offset=base, end_offset=base + 1, epoch=epoch)


def entries(disk: SimulatedDisk, stem: str = FIRST) -> list[tuple[int, int]]:
    data = disk.content(f"{stem}.timeindex")
    assert len(data) % 12 == 0
    return list(struct.iter_unpack(">qi", data))


def check_as_kafkas_dump_tool_does(disk: SimulatedDisk) -> int:
    """How many entries it has looked at: each must name the batch that it leads to by the index by offset,
    with that batch's largest timestamp, and timestamps must grow."""
    looked_at = 0
    for name in disk.list(F):
        if not name.endswith(".timeindex"):
            continue
        stem = f"{F}/{name.removesuffix('.timeindex')}"
        base = int(name.removesuffix(".timeindex"))
        by_offset = []
        if disk.exists(f"{stem}.index"):
            by_offset = list(struct.iter_unpack(">ii", disk.content(f"{stem}.index")))
        before = -1
        for timestamp, relative in entries(disk, stem):
            position = max((at for offset, at in by_offset if offset <= relative), default=0)
            data = disk.content(f"{stem}.log")[position:]
            batch = next(b for b in read_batches(data) if b.header.end_offset > base + relative)
            assert batch.header.end_offset - 1 == base + relative
            assert max(record.timestamp for record in records_of(batch)) == timestamp
            assert timestamp > before
            before = timestamp
            looked_at += 1
    return looked_at


def naive(log_timestamps: Sequence[int], timestamp: int, start: int = 0) -> int | None:
    return next((o for o, at in enumerate(log_timestamps) if at >= timestamp and o >= start), None)


async def test_entries_are_kafkas_twelve_bytes_and_only_for_timestamps_that_grow(open_log: Opener) -> None:
    disk, log = await new_log(ONE)
    fill(log, [50, 40, 60, 60, 10, 10, 10, 70, 65])
    await log.flush()
    # 89 bytes a batch: an entry by offset is due at every third, and one for the newest at the flush.
    assert entries(disk) == [(60, 2), (70, 7)]
    assert disk.content(f"{FIRST}.timeindex")[:12] == bytes(7) + b"\x3c" + bytes(3) + b"\x02"
    assert check_as_kafkas_dump_tool_does(disk) == 2


@pytest.mark.parametrize("seed", range(12))
async def test_a_search_by_time_equals_a_walk_over_all_records(seed: int, open_log: Opener) -> None:
    draw = random.Random(seed)
    disk, log = await new_log(CONFIG)
    stamps: list[int] = []
    recovery_point = 0
    for _ in range(25):
        match draw.randrange(6):
            case 0 if log.end_offset:
                cut = draw.randint(max(0, int(log.end_offset) - 30), int(log.end_offset))
                await log.truncate(Offset(cut))
                del stamps[cut:]
                recovery_point = min(recovery_point, cut)
            case 1:
                recovery_point = int(await log.flush())
            case 2:
                clean = draw.random() < 0.5
                if clean:
                    await log.flush_and_close()
                    recovery_point = int(log.end_offset)
                else:
                    await log.sync()
                    disk.crash_process() if draw.random() < 0.5 else disk.lose_power(draw)
                log = await open_log(disk, config=CONFIG, recovery_point=recovery_point, clean_shutdown=clean)
                assert log.end_offset == len(stamps)
                recovery_point = int(log.recovery_point)
            case _:
                trend = draw.choice((1, 3, -2, 0))
                begin = stamps[-1] if stamps else 1000
                more = [max(0, begin + trend * n + draw.randint(-5, 5)) for n in range(draw.randint(1, 30))]
                fill(log, more)
                stamps += more
        for timestamp in (0, *draw.choices(range(800, 1400), k=8), max(stamps, default=0)):
            start = draw.choice((0, draw.randint(0, len(stamps))))
            found = await log.offset_for_timestamp(timestamp, from_offset=start)
            assert found == naive(stamps, timestamp, start)
        assert log.max_timestamp() == max(stamps, default=None)
    await log.flush_and_close()
    assert check_as_kafkas_dump_tool_does(disk) > 0


@pytest.mark.slow
async def test_a_search_reads_little_however_long_the_log(open_log: Opener, monkeypatch) -> None:
    _, log = await new_log(ONE)
    fill(log, range(1000, 21_000))
    read = 0
    honest = SimulatedFile.read

    async def counted(self: SimulatedFile, position: int, size: int) -> bytes:
        nonlocal read
        data = await honest(self, position, size)
        read += len(data)
        return data

    monkeypatch.setattr(SimulatedFile, "read", counted)
    for timestamp in (0, 1000, 7777, 20_999, 21_000):
        read = 0
        found = await log.offset_for_timestamp(timestamp)
        assert found == (None if timestamp == 21_000 else max(0, timestamp - 1000))
        assert read < 30_000, f"{read} bytes of {log.size_bytes} for {timestamp}"


@pytest.mark.bug("KAFKA-4734")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "odd", "last", "zeros", "of another"])
async def test_a_missing_or_damaged_index_is_rebuilt(clean: bool, damage: str, open_log: Opener) -> None:
    disk, log = await new_log(CONFIG)
    stamps = list(range(1000, 1100))
    fill(log, stamps)
    await log.flush_and_close()
    whole = {name: disk.content(f"{F}/{name}") for name in disk.list(F) if name.endswith("index")}
    assert len(whole) >= 4
    for name in whole:
        if not name.endswith(".timeindex"):
            continue
        path, size = f"{F}/{name}", len(whole[name])
        if damage == "missing":
            disk.remove(path)
            continue
        file = disk.open(path)
        match damage:
            case "empty":
                file.truncate(0)
            case "half":
                file.truncate(size // 24 * 12)
            case "odd":
                file.truncate(size - 5)
            case "last":
                disk.flip(path, size - 6, bit=1)
            case "zeros":
                file.append([bytes(24)])
            case _:
                file.write_at(size - 12, struct.pack(">qi", 5, 1))
    log = await open_log(disk, config=CONFIG, recovery_point=100, clean_shutdown=clean)
    assert [await log.offset_for_timestamp(at) for at in (0, 1000, 1042, 1099, 1100)] == [0, 0, 42, 99, None]
    assert log.max_timestamp() == 1099
    await log.flush_and_close()
    assert {name: disk.content(f"{F}/{name}") for name in disk.list(F) if name.endswith("index")} == whole


async def test_damage_that_comes_while_the_log_is_open_is_noticed_when_it_is_used(open_log: Opener) -> None:
    disk, log = await new_log(ONE)
    fill(log, range(1000, 1200))
    await log.flush()
    size = len(disk.content(f"{FIRST}.timeindex"))
    for position in range(0, size, 12):
        disk.flip(f"{FIRST}.timeindex", position + 7, bit=0)
    assert [await log.offset_for_timestamp(at) for at in (1000, 1111, 1199)] == [0, 111, 199]
    fill(log, [1300])
    assert await log.offset_for_timestamp(1250) == 200


async def test_a_truncation_takes_entries_and_the_largest_timestamp_back(open_log: Opener) -> None:
    disk, log = await new_log(ONE)
    fill(log, [*range(1000, 1100), 5000])
    await log.flush()
    assert entries(disk)[-1] == (5000, 100)
    await log.truncate(Offset(50))
    assert log.max_timestamp() == 1049
    assert entries(disk)[-1] == (1049, 49)
    assert await log.offset_for_timestamp(1050) is None
    fill(log, range(1040, 1060), epoch=2)
    assert await log.offset_for_timestamp(1050) == 60


async def test_the_newest_timestamp_is_known_after_a_start_and_keeps_old_segments(open_log: Opener) -> None:
    """It was that of the last few KiB only: retention by time took what is not old."""
    disk, log = await new_log(CONFIG)
    fill(log, [900_000, *[100] * 60, *[1_000_000] * 30])
    await log.flush_and_close()
    log = await open_log(disk, config=CONFIG, recovery_point=91, clean_shutdown=True)
    assert log.segment_count > 2
    assert not await log.delete_old_segments(
        retention_bytes=None, retention_ms=200_000, high_watermark=Offset(91)
    )
    assert log.log_start_offset == 0


async def test_a_full_index_by_time_rolls_the_segment(open_log: Opener) -> None:
    disk = SimulatedDisk()
    config = LogConfig(index_interval_bytes=1, segment_index_bytes=36, tail_bytes=0)
    log = await open_log(disk, config=config)
    fill(log, range(1000, 1010))
    await log.flush_and_close()
    assert log.segment_count > 2
    assert max(len(disk.content(f"{F}/{n}")) for n in disk.list(F) if n.endswith(".timeindex")) <= 36


async def test_the_metadata_log_has_none(open_log: Opener) -> None:
    disk = SimulatedDisk()
    config = LogConfig(own_recovery_point=True, tail_bytes=0, segment_bytes=3000)
    log = await open_log(disk, config=config)
    fill(log, range(1000, 1100))
    await log.flush_and_close()
    log = await open_log(disk, config=config)
    assert not [name for name in disk.list(F) if name.endswith(".timeindex")]
    assert log.max_timestamp() == 1099
    assert [await log.offset_for_timestamp(at) for at in (0, 1042, 1100)] == [0, 42, None]


async def test_a_search_that_the_log_changes_under_starts_again(open_log: Opener) -> None:
    disk, log = await new_log(CONFIG)
    fill(log, range(1000, 1100))
    found: list[Offset | None] = []

    async def search() -> None:
        found.append(await log.offset_for_timestamp(1090))

    async with trio.open_nursery() as nursery:
        disk.stall(syncs=False)
        nursery.start_soon(search)
        await trio.testing.wait_all_tasks_blocked()
        released = overtake(disk)
        await log.truncate(Offset(80))
        fill(log, [1085, 1095])
        released.set()
    assert found == [81]
    async with trio.open_nursery() as nursery:
        disk.stall(syncs=False)
        nursery.start_soon(search)
        await trio.testing.wait_all_tasks_blocked()
        released = overtake(disk)
        await log.truncate_fully_and_start_at(Offset(200))
        fill(log, [1050])
        released.set()
    assert found == [81, None]


async def test_appends_during_a_rebuild_are_in_the_new_index(open_log: Opener) -> None:
    disk, log = await new_log(ONE)
    fill(log, range(1000, 3000))
    for position in range(4, 60, 8):
        log._active.indexes.offsets._positions[position // 8] += 7
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(log.read, 10, 1000)
        for number in range(40):
            fill(log, [3000 + number])
            await trio.lowlevel.checkpoint()
    for offset in (0, 5, 10, 1999, 2000, 2039):
        assert next(read_batches(await log.read(offset, 1))).header.base_offset == offset
    assert await log.offset_for_timestamp(3020) == 2020
    await log.flush_and_close()
    assert check_as_kafkas_dump_tool_does(disk) > 100
    with pytest.raises(LogError):
        fill(log, [1])


async def test_an_index_of_what_is_cut_during_its_rebuild_is_not_taken(open_log: Opener) -> None:
    disk, log = await new_log(ONE)
    fill(log, range(1000, 1600))
    positions = log._active.indexes.offsets._positions
    for number in range(len(positions)):
        positions[number] += 7
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.read, 590, 1000)
        for _ in range(4):
            await trio.lowlevel.checkpoint()
        log._active.cut(0, 0)
        log._forget_memory(Offset(0))
        fill(log, range(2000, 2700), epoch=2)
    for offset in (0, 300, 650, 699):
        assert next(read_batches(await log.read(offset, 1))).header.base_offset == offset
        assert await log.offset_for_timestamp(2000 + offset) == offset
    await log.flush_and_close()
    assert check_as_kafkas_dump_tool_does(disk) > 100
