"""Verification of a log beside its use: what of it can't be read as it was written."""

import random
from collections.abc import Awaitable, Callable

import pytest

from quorate.log.log import Log
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import DamagedLogError
from quorate.log.segments.offset_index import ENTRY_BYTES
from quorate.log.segments.segment_check import SegmentFindings
from quorate.log.segments.time_index import TIME_ENTRY_BYTES
from quorate.runtime.disk import DiskError
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Offset
from tests.log.conftest import new_log

Opener = Callable[..., Awaitable[Log]]
Builder = Callable[..., bytes]
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=300, tail_bytes=0)
FIRST = "data/t-0/00000000000000000000"


async def unpaced(size: int) -> None:
    pass


async def filled(open_log: Opener, batch: Builder, disk: SimulatedDisk, *, count: int = 60) -> Log:
    """A log of several segments, whose batches have one size, growing timestamps and two epochs."""
    log = await open_log(disk, config=SMALL)
    for number in range(count):
        log.append_as_follower(batch(number, epoch=1 + number // 20, timestamp_ms=1000 + number))
    await log.flush()
    return log


async def verified(log: Log, *, closed: bool = True) -> dict[int, SegmentFindings | None]:
    return {base: await log.verify_segment(base, pace=unpaced) for base in log.bases(closed=closed)}


async def test_a_whole_log_has_no_damage_and_is_read_to_its_end(open_log: Opener, batch: Builder) -> None:
    log = await filled(open_log, batch, SimulatedDisk())
    found = await verified(log, closed=False)
    assert len(found) == log.segment_count > 2
    assert all(each is not None and not each.damaged and each.wrong_index is None for each in found.values())
    assert sum(each.bytes_read for each in found.values() if each is not None) == log.size_bytes
    assert list(await verified(log)) == list(found)[:-1]


async def test_a_flip_of_any_bit_is_found_and_costs_one_batch(open_log: Opener, batch: Builder) -> None:
    size = len(batch(0, timestamp_ms=1000))
    for position in range(2 * size, 3 * size):
        disk = SimulatedDisk()
        log = await filled(open_log, batch, disk, count=30)
        disk.flip(f"{FIRST}.log", position, bit=position % 8)
        findings = await log.verify_segment(Offset(0), pace=unpaced)
        assert findings is not None
        (damaged,) = findings.damaged
        assert (damaged.path, damaged.position) == (f"{FIRST}.log", 2 * size), position
        assert damaged.start_offset == 2
        # Where the length is what is damaged, the index says where the next batch is.
        last = 3 if not 2 * size + 8 <= position < 2 * size + 12 else 6
        assert 3 <= damaged.end_offset <= last, (position, damaged)


async def test_batches_behind_damage_are_checked_too(open_log: Opener, batch: Builder) -> None:
    disk = SimulatedDisk()
    log = await filled(open_log, batch, disk)
    size = len(batch(0, timestamp_ms=1000))
    for number in (1, 9):
        disk.flip(f"{FIRST}.log", number * size + 70, bit=3)
    findings = await log.verify_segment(Offset(0), pace=unpaced)
    assert findings is not None
    assert [(each.start_offset, each.end_offset) for each in findings.damaged] == [(1, 2), (9, 10)]


async def test_a_segment_that_was_cut_short_is_damaged_up_to_the_next(
    open_log: Opener, batch: Builder
) -> None:
    disk = SimulatedDisk()
    log = await filled(open_log, batch, disk)
    size = len(batch(0, timestamp_ms=1000))
    end = log.bases()[1]
    disk.open(f"{FIRST}.log").truncate((end - 2) * size + 10)
    findings = await log.verify_segment(Offset(0), pace=unpaced)
    assert findings is not None
    assert [(each.start_offset, each.end_offset) for each in findings.damaged] == [(end - 2, end)]


@pytest.mark.parametrize("suffix, entry", [(".index", ENTRY_BYTES), (".timeindex", TIME_ENTRY_BYTES)])
@pytest.mark.parametrize("fault", ["missing", "torn", "flipped", "from the future"])
async def test_an_index_that_is_wrong_is_made_anew(
    open_log: Opener, batch: Builder, suffix: str, entry: int, fault: str
) -> None:
    disk = SimulatedDisk()
    log = await filled(open_log, batch, disk)
    path = FIRST + suffix
    before = disk.content(path)
    assert len(before) >= 3 * entry
    match fault:
        case "missing":
            disk.remove(path)
        case "torn":
            disk.open(path).truncate(len(before) - 5)
        case "flipped":
            disk.flip(path, entry + entry - 1, bit=1)
        case _:
            disk.open(path).append([(1 << 30).to_bytes(entry, "big")])
    findings = await log.verify_segment(Offset(0), pace=unpaced)
    assert findings is not None and not findings.damaged
    assert disk.content(path) == before
    assert await log.offset_for_timestamp(1005) == 5
    again = await log.verify_segment(Offset(0), pace=unpaced)
    assert again is not None and again.wrong_index is None


async def test_a_time_index_that_is_gone_does_not_hinder_a_search(open_log: Opener, batch: Builder) -> None:
    disk = SimulatedDisk()
    log = await filled(open_log, batch, disk)
    disk.remove(f"{FIRST}.timeindex")
    assert await log.offset_for_timestamp(1007) == 7


async def test_a_segment_that_goes_or_is_cut_meanwhile_has_no_findings(
    open_log: Opener, batch: Builder
) -> None:
    log = await filled(open_log, batch, SimulatedDisk(), count=100)
    third = log.bases()[2]

    async def retention(size: int) -> None:
        await log.advance_log_start(third)

    assert await log.verify_segment(Offset(0), pace=retention) is None

    async def truncation(size: int) -> None:
        await log.truncate(Offset(third + 1))

    assert await log.verify_segment(third, pace=truncation) is None
    log.close()
    assert await log.verify_segment(third, pace=unpaced) is None


async def test_a_disk_error_is_told(open_log: Opener, batch: Builder) -> None:
    disk = SimulatedDisk()
    log = await filled(open_log, batch, disk)

    async def broken(size: int) -> None:
        raise DiskError("unreadable sector", path=FIRST)

    with pytest.raises(DiskError):
        await log.verify_segment(Offset(0), pace=broken)


async def test_large_batches_and_random_flips(open_log: Opener, batch: Builder) -> None:
    """Batches beyond a chunk, and beyond what one step of the CRC takes."""
    source = random.Random(5)
    for _ in range(20):
        disk = SimulatedDisk()
        log = await open_log(
            disk, config=LogConfig(segment_bytes=6_000_000, tail_bytes=0, max_batch_bytes=9**9)
        )
        for size in (10, 300_000, 5_000_000, 10, 700_000, 2_000_000):
            log.append_as_follower(batch(int(log.end_offset), size=size))
        end = disk.open(f"{FIRST}.log").size
        position = source.randrange(end)
        disk.flip(f"{FIRST}.log", position, bit=source.randrange(8))
        findings = await log.verify_segment(Offset(0), pace=unpaced)
        assert findings is not None and len(findings.damaged) == 1, position
        assert findings.damaged[0].position <= position


async def test_batches_around_damage_can_be_read(open_log: Opener, batch: Builder) -> None:
    """Whichever byte of a header is damaged: the batches before and behind it are found."""
    size = len(batch(0, timestamp_ms=1000))
    for position in range(4 * size, 4 * size + 61):
        disk = SimulatedDisk()
        log = await filled(open_log, batch, disk)
        whole = disk.content(f"{FIRST}.log")
        disk.flip(f"{FIRST}.log", position, bit=position % 8)
        findings = await log.verify_segment(Offset(0), pace=unpaced)
        assert findings is not None
        (damaged,) = findings.damaged
        assert await log.read(0, 10**6, end_offset=damaged.start_offset) == whole[: 4 * size], position
        behind = await log.read(damaged.end_offset, 10**6)
        assert behind == whole[damaged.end_offset * size :], position
        assert await log.offset_for_timestamp(1003) == 3
        assert await log.offset_for_timestamp(1004) == damaged.end_offset


async def test_a_walk_into_unknown_damage_gives_what_is_before_it(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log(LogConfig(tail_bytes=0))
    for number in range(9):
        log.append_as_follower(batch(number))
    size = len(batch(0))
    disk.flip(f"{FIRST}.log", 2 * size + 8, bit=7)  # the length
    assert await log.read(0, 10**6) == disk.content(f"{FIRST}.log")[: 2 * size]
    with pytest.raises(DamagedLogError):
        await log.read(2, 10**6)
