"""Space reserved in a log's file: its rest after a crash is never taken for records."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from captured_logs import captured_logs

from quorate.log.log import Log
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import DamagedLogError
from quorate.runtime.disk import DiskError, read_file
from quorate.runtime.real.real_disk import RealDisk, SyncStrategy
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk
from tests.log.conftest import new_log

FIRST = "data/t-0/00000000000000000000.log"
CONFIG = LogConfig(reserve_bytes=1000)
Opener = Callable[..., Awaitable[Log]]
Builder = Callable[..., bytes]


def physical_size(disk: SimulatedDisk, path: str = FIRST) -> int:
    return disk.open(path).size


async def test_a_log_makes_room_in_steps_and_gives_it_back_when_closed(
    open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log(CONFIG)
    sizes = set()
    while log.size_bytes < 2500:
        log.append_as_follower(batch(int(log.end_offset)))
        sizes.add(physical_size(disk))
    assert sizes == {1000, 2000, 3000}
    size = log.size_bytes
    await log.flush_and_close()
    assert physical_size(disk) == size
    disk.lose_power(random.Random(1))
    assert physical_size(disk) == size
    assert (await open_log(disk, config=CONFIG, clean_shutdown=True)).size_bytes == size


async def test_the_reserve_is_cut_after_a_crash_without_a_word(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log(CONFIG)
    for offset in range(3):
        log.append_as_follower(batch(offset))
    size = log.size_bytes
    await log.sync()
    disk.lose_power(random.Random(0))
    assert read_file(disk, FIRST)[size:] == bytes(1000 - size)
    with captured_logs() as lines:
        log = await open_log(disk, config=CONFIG, recovery_point=1)
    assert lines == []
    assert (log.end_offset, log.size_bytes, log.recovered.cut_bytes) == (3, size, 0)
    assert physical_size(disk) == size
    disk.lose_power(random.Random(0))
    assert physical_size(disk) == size


async def test_a_batch_torn_before_reserved_zeros_is_cut_with_a_log_line(
    open_log: Opener, batch: Builder
) -> None:
    last = batch(2)
    for kept in range(8, len(last) - 1):
        disk, log = await new_log(CONFIG)
        for offset in range(3):
            log.append_as_follower(batch(offset))
        size = log.size_bytes
        disk.crash_process()
        file = disk.open(FIRST)
        file.write_at(size - len(last) + kept, bytes(len(last) - kept))
        with captured_logs() as lines:
            log = await open_log(disk, config=CONFIG)
        written = len(last[:kept].rstrip(b"\0"))
        assert [line["bytes"] for line in lines] == [written]
        assert (log.end_offset, log.recovered.cut_bytes) == (2, written)


async def test_a_batch_after_zeros_is_a_torn_tail(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log(CONFIG)
    for offset in range(3):
        log.append_as_follower(batch(offset))
    size = len(batch(0))
    disk.crash_process()
    disk.open(FIRST).write_at(size, bytes(size))
    with captured_logs() as lines:
        log = await open_log(disk, config=CONFIG)
    assert [line["event"] for line in lines] == ["cut the torn end of a log"]
    assert (log.end_offset, log.recovered.cut_bytes) == (1, 2 * size - 1)  # a batch ends in a zero


async def test_zeros_where_records_were_durable_are_damage(open_log: Opener, batch: Builder) -> None:
    for own in (False, True):
        config = LogConfig(reserve_bytes=1000, own_recovery_point=own)
        disk, log = await new_log(config)
        for offset in range(3):
            log.append_as_follower(batch(offset))
        await log.flush()
        disk.crash_process()
        size = len(batch(0))
        disk.open(FIRST).write_at(2 * size, bytes(size))
        with pytest.raises(DamagedLogError) as caught:
            await open_log(disk, config=config, recovery_point=3)
        assert (caught.value.path, caught.value.position) == (FIRST, 2 * size)


@pytest.mark.parametrize("own", [False, True])
async def test_a_roll_may_leave_its_reserve_behind_below_the_recovery_point(
    own: bool, open_log: Opener, batch: Builder
) -> None:
    config = LogConfig(segment_bytes=1000, reserve_bytes=1000, own_recovery_point=own)
    left_behind = 0
    for seed in range(40):
        disk, log = await new_log(config)
        while log.segment_count == 1:
            if log.size_bytes + len(batch(0)) > 1000:
                await log.flush()
            log.append_as_follower(batch(int(log.end_offset)))
        point = int(log.recovery_point)
        assert point == log.end_offset - 1
        if seed % 2:
            disk.crash_process()
            log = await open_log(disk, config=config, recovery_point=point)
            point = int(log.recovery_point) if own else point + 1
        disk.lose_power(random.Random(seed))
        left_behind += physical_size(disk) == 1000
        log = await open_log(disk, config=config, recovery_point=point)
        assert log.end_offset in (point, point + 1)
        assert len(await log.read(0, 10**6)) >= 900
        log = await open_log(disk, config=config, recovery_point=int(log.end_offset), clean_shutdown=True)
    assert left_behind


async def test_a_roll_cuts_the_reserve_off_what_it_leaves(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log(LogConfig(segment_bytes=700, reserve_bytes=600))
    while log.segment_count == 1:
        log.append_as_follower(batch(int(log.end_offset)))
    await log.sync()
    disk.lose_power(random.Random(0))
    assert physical_size(disk) == 700 // len(batch(0)) * len(batch(0))
    assert len(await log_content(open_log, disk)) == physical_size(disk) + len(batch(0))


async def log_content(open_log: Opener, disk: SimulatedDisk) -> bytes:
    log = await open_log(disk, config=CONFIG)
    return await log.read(0, 10**6) + await log.read(int(log.end_offset) - 1, 10**6)


async def test_no_room_for_a_reserve_is_no_error_until_there_is_none_for_records(
    open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log(CONFIG)
    disk.space_left = 500
    while log.size_bytes + len(batch(0)) <= 500:
        log.append_as_follower(batch(int(log.end_offset)))
        assert physical_size(disk) == log.size_bytes
    with pytest.raises(DiskError):
        log.append_as_follower(batch(int(log.end_offset)))


async def test_a_disk_that_fails_a_reserve_fails_the_append(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log(CONFIG)
    disk.fail(DiskOperation.RESERVE)
    with pytest.raises(DiskError):
        log.append_as_follower(batch(0))
    assert log.end_offset == 0


async def test_a_real_file_keeps_its_size_when_it_is_given_room(tmp_path: Path) -> None:
    disk = RealDisk(sync=SyncStrategy.INLINE)
    path = str(tmp_path / "f")
    file = disk.open(path, create=True)
    file.append([b"abc"])
    file.reserve(4096)
    file.reserve(10)
    assert (file.size, (tmp_path / "f").stat().st_size) == (3, 4096)
    assert file.append([b"de"]) == 3
    await file.sync()
    assert file.size == 5
    assert (file.read_at(0, 100), await file.read(1, 100)) == (b"abcde", b"bcde")
    assert read_file(disk, path) == b"abcde".ljust(4096, b"\0")
    file.truncate(file.size)
    assert read_file(disk, path) == b"abcde"
    file.close()
    other = disk.open(path)
    with pytest.raises(DiskError):
        file.read_at(0, 1)  # not of the file that has the descriptor's number now
    other.close()


async def test_a_real_device_without_room_is_left_as_it_was(tmp_path: Path) -> None:
    disk = RealDisk(sync=SyncStrategy.INLINE)
    path = tmp_path / "f"
    file = disk.open(str(path), create=True)
    file.append([b"abc"])
    file.reserve(2**62)
    assert (file.size, path.stat().st_size) == (3, 3)
    assert file.append([b"d"]) == 3
    file.close()
