import random
from collections.abc import Awaitable, Callable

import pytest

from quorate.log.log import Log
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import DamagedLogError, LogFailedError
from quorate.runtime.disk import DiskError, read_file, write_file_atomically
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk
from tests.log.conftest import new_log

FIRST = "data/t-0/00000000000000000000.log"
Opener = Callable[..., Awaitable[Log]]
Builder = Callable[..., bytes]


async def fill(log: Log, batch: Builder, count: int, **kwargs: int) -> list[int]:
    """Sizes of the appended batches."""
    sizes = []
    for _ in range(count):
        built = batch(int(log.end_offset), **kwargs)
        log.append_as_follower(built)
        sizes.append(len(built))
    return sizes


async def test_a_tail_torn_at_any_byte_of_the_last_batch_is_cut(open_log: Opener, batch: Builder) -> None:
    size = len(batch(0))
    for kept in range(size):
        disk, log = await new_log()
        await fill(log, batch, 3)
        await log.sync()
        disk.crash_process()
        disk.open(FIRST).truncate(2 * size + kept)
        torn = disk.content(FIRST)[2 * size :]
        log = await open_log(disk)
        assert (log.end_offset, log.size_bytes) == (2, 2 * size)
        assert log.recovered.cut_bytes == len(torn.rstrip(b"\0"))
        assert log.recovered.rewritten_bytes == 2 * size
        await fill(log, batch, 1)
        assert len(await log.read(0, 10**6)) == 3 * size


async def test_a_bad_batch_above_the_recovery_point_is_cut_with_what_follows(
    open_log: Opener, batch: Builder
) -> None:
    size = len(batch(0))
    for position in [position for position in range(size, 2 * size) if not size + 12 <= position < size + 16]:
        disk, log = await new_log()
        await fill(log, batch, 4)
        await log.sync()
        disk.crash_process()
        disk.flip(FIRST, position, bit=position % 8)
        log = await open_log(disk, recovery_point=1)
        # A batch ends in a zero, and zeros at the end are not counted.
        assert (log.end_offset, log.recovered.cut_bytes) == (1, 3 * size - 1)


async def test_any_bit_flip_below_the_recovery_point_of_the_metadata_log_is_an_error(
    open_log: Opener, batch: Builder
) -> None:
    config = LogConfig(own_recovery_point=True)
    size = len(batch(0))
    for position in range(0, 3 * size, 3):
        if 12 <= position % size < 16:
            continue  # the epoch is outside of the CRC
        for clean in (False, True):
            disk, log = await new_log(config)
            await fill(log, batch, 3)
            await log.flush()
            disk.crash_process()
            disk.flip(FIRST, position, bit=position % 8)
            with pytest.raises(DamagedLogError, match=r"replace-a-disk\.md") as caught:
                await open_log(disk, config=config, clean_shutdown=clean)
            assert caught.value.path == FIRST
            assert caught.value.position == position // size * size


async def test_a_flip_in_a_leader_epoch_is_found_where_the_batches_beside_it_are_of_the_same(
    open_log: Opener, batch: Builder
) -> None:
    """No checksum covers it (Kafka's format). Of the first batch of an epoch it may be lower, and of the last
    one higher, without a contradiction: that is the limit which the page on guarantees states."""
    config = LogConfig(own_recovery_point=True)
    size = len(batch(0))
    missed = []
    for number in range(3):
        for bit in range(32):
            disk, log = await new_log(config)
            await fill(log, batch, 3)
            await log.flush()
            disk.crash_process()
            disk.flip(FIRST, number * size + 12 + bit // 8, bit=bit % 8)
            try:
                (await open_log(disk, config=config)).close()
            except DamagedLogError:
                continue
            missed.append(number)
    assert set(missed) == {0, 2}


async def test_a_log_shorter_than_its_recovery_point_is_an_error(open_log: Opener, batch: Builder) -> None:
    disk, log = await new_log()
    (size, *_) = await fill(log, batch, 3)
    await log.flush()
    disk.crash_process()
    disk.open(FIRST).truncate(2 * size)
    with pytest.raises(DamagedLogError, match="ends at offset 2, although it was durable up to 3"):
        await open_log(disk, recovery_point=3)
    assert (await open_log(disk, recovery_point=2)).end_offset == 2


async def test_a_missing_segment_is_an_error_below_the_recovery_point_and_cut_above(
    open_log: Opener, batch: Builder
) -> None:
    config = LogConfig(segment_bytes=100)
    disk, log = await new_log(config)
    await fill(log, batch, 4)
    assert log.segment_count == 4
    await log.flush()
    disk.crash_process()
    disk.remove("data/t-0/00000000000000000001.log")
    with pytest.raises(DamagedLogError, match=r"00000000000000000002\.log"):
        await open_log(disk, config=config, recovery_point=3)
    log = await open_log(disk, config=config, recovery_point=1)
    assert (log.end_offset, log.recovered.cut_segments) == (1, 2)
    assert [name for name in disk.list("data/t-0") if name.endswith(".log")] == ["00000000000000000000.log"]


async def test_no_segments_at_all_are_an_error_if_there_were_some(open_log: Opener, batch: Builder) -> None:
    config = LogConfig(own_recovery_point=True)
    disk, log = await new_log(config)
    await fill(log, batch, 1)
    await log.flush()
    disk.crash_process()
    disk.remove(FIRST)
    with pytest.raises(DamagedLogError, match="durable up to offset 1"):
        await open_log(disk, config=config)


async def test_a_missing_recovery_point_of_the_metadata_log_is_an_error(open_log: Opener) -> None:
    config = LogConfig(own_recovery_point=True)
    disk = SimulatedDisk()
    await open_log(disk, config=config)
    disk.crash_process()
    disk.remove("data/t-0/recovery-point-offset-checkpoint")
    with pytest.raises(DamagedLogError, match="recovery point is missing"):
        await open_log(disk, config=config)


async def test_bytes_that_only_the_cache_has_after_a_failed_sync_are_rewritten_at_the_start(
    open_log: Opener, batch: Builder
) -> None:
    for seed in range(20):
        disk, log = await new_log()
        await fill(log, batch, 3)
        disk.fail(DiskOperation.SYNC, path_part=".log")
        with pytest.raises(DiskError):
            await log.sync()
        disk.crash_process()
        assert (await open_log(disk)).end_offset == 3
        disk.lose_power(random.Random(seed))
        assert (await open_log(disk)).end_offset == 3


@pytest.mark.bug("KAFKA-10778")
@pytest.mark.parametrize("operation", [DiskOperation.APPEND, DiskOperation.SYNC])
async def test_after_a_disk_error_appends_are_refused_until_reopened(
    operation: DiskOperation, open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log()
    await fill(log, batch, 1)
    await log.sync()
    disk.fail(operation, path_part=".log")
    with pytest.raises(DiskError):
        log.append_as_follower(batch(1))
        await log.sync()
    with pytest.raises(LogFailedError):
        log.append_as_follower(batch(int(log.end_offset)))
    with pytest.raises(LogFailedError):
        await log.sync()
    assert await log.read(0, 10**6, end_offset=1) == batch(0)
    disk.crash_process()
    log = await open_log(disk)
    log.append_as_follower(batch(int(log.end_offset)))


async def test_a_write_that_filled_the_disk_leaves_no_half_batch_behind(
    open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log()
    disk.space_left = len(batch(0)) + 10
    log.append_as_follower(batch(0))
    with pytest.raises(DiskError, match="no space"):
        log.append_as_follower(batch(1))
    assert log.end_offset == 1
    disk.crash_process()
    disk.space_left = None
    log = await open_log(disk)
    assert (log.end_offset, log.recovered.cut_bytes) == (1, 8)  # of 10, two zeros at the end


@pytest.mark.parametrize("damage", ["missing", "short", "garbage", "shifted", "empty"])
@pytest.mark.parametrize("clean", [True, False])
async def test_a_wrong_index_is_rebuilt(damage: str, clean: bool, open_log: Opener, batch: Builder) -> None:
    config = LogConfig(index_interval_bytes=200, tail_bytes=0, segment_bytes=2000)
    disk, log = await new_log(config)
    await fill(log, batch, 60)
    await log.flush_and_close()
    path = FIRST.replace(".log", ".index")
    good = read_file(disk, path)
    assert len(good) >= 48
    match damage:
        case "missing":
            disk.remove(path)
        case "short":
            await write_file_atomically(disk, path, good[:-3])
        case "garbage":
            await write_file_atomically(disk, path, bytes(len(good)))
        case "shifted":
            # Still increasing, but in the middle it points into a batch: noticed when used.
            shifted = bytearray(good)
            shifted[23] += 1
            await write_file_atomically(disk, path, shifted)
        case _:
            await write_file_atomically(disk, path, b"")
    log = await open_log(disk, config=config, recovery_point=60, clean_shutdown=clean)
    for offset in range(60):
        assert (await log.read(offset, 1)) == batch(offset)
    if damage == "missing":
        await log.flush_and_close()


async def test_leftovers_are_removed_and_an_empty_newest_segment_is_kept(
    open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log()
    await fill(log, batch, 2)
    await log.sync()
    disk.crash_process()
    for name in ("x.tmp", "00000000000000000000.log.deleted", "00000000000000000007.index"):
        disk.open(f"data/t-0/{name}", create=True)
    disk.open("data/t-0/00000000000000000002.log", create=True)
    log = await open_log(disk)
    assert (log.end_offset, log.segment_count) == (2, 2)
    assert not [name for name in disk.list("data/t-0") if name.endswith((".tmp", ".deleted", "7.index"))]


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"0\n1\n",
        b"0\n1\n1 x\n",
        b"7\n0\n",
        pytest.param(b"0\n2\n5 0\n3 2\n", id="the epoch goes back"),
        pytest.param(b"0\n2\n3 2\n5 0\n", id="the offset goes back"),
    ],
)
async def test_a_damaged_epoch_checkpoint_is_rebuilt_from_the_batches(
    content: bytes | None, open_log: Opener, batch: Builder
) -> None:
    disk, log = await new_log()
    await fill(log, batch, 2, epoch=3)
    await fill(log, batch, 2, epoch=5)
    await log.flush()
    epochs = log.epochs
    assert [(one.epoch, one.start_offset) for one in epochs] == [(3, 0), (5, 2)]
    disk.crash_process()
    path = "data/t-0/leader-epoch-checkpoint"
    assert read_file(disk, path) == b"0\n2\n3 0\n5 2\n"
    if content is None:
        disk.remove(path)
    else:
        await write_file_atomically(disk, path, content)
    assert (await open_log(disk, recovery_point=4)).epochs == epochs


async def test_the_metadata_logs_recovery_point_stays_within_its_bound(
    open_log: Opener, batch: Builder
) -> None:
    config = LogConfig(own_recovery_point=True, recovery_point_interval_bytes=500)
    disk, log = await new_log(config)
    for _ in range(30):
        (size,) = await fill(log, batch, 1)
        await log.sync()
        assert (log.end_offset - log.recovery_point) * size < 500
    assert read_file(disk, "data/t-0/recovery-point-offset-checkpoint").startswith(b"0\n1\nt 0 ")
