"""A log after a killed process: a start cuts off a torn append, and nothing else."""

from collections.abc import Awaitable, Callable

import pytest

from quorate.log.log import Log
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import DamagedLogError, IncompleteLogError
from quorate.simulation.world.simulated_disk import SimulatedDisk
from tests.log.conftest import new_log

FIRST = "data/t-0/00000000000000000000.log"
THIRD = "data/t-0/00000000000000000002.log"
SEGMENTS = LogConfig(segment_bytes=100)
"""One batch in each."""
Opener = Callable[..., Awaitable[Log]]
Builder = Callable[..., bytes]


async def killed(open_log: Opener, batch: Builder, *, config: LogConfig = LogConfig()) -> SimulatedDisk:  # noqa: B008
    """A disk with four batches of one record, none of them synced, whose process has ended."""
    disk, log = await new_log(config)
    for offset in range(4):
        log.append_as_follower(batch(offset))
    disk.crash_process()
    return disk


async def test_an_append_torn_at_any_byte_is_cut(open_log: Opener, batch: Builder) -> None:
    size = len(batch(0))
    for kept in range(size):
        disk = await killed(open_log, batch)
        disk.open(FIRST).truncate(3 * size + kept)
        log = await open_log(disk, complete_to=3)
        assert (log.end_offset, log.size_bytes) == (3, 3 * size)


@pytest.mark.slow
async def test_a_bit_flipped_in_any_batch_is_an_error_and_nothing_is_cut(
    open_log: Opener, batch: Builder
) -> None:
    """A flip in the length too, which makes a whole batch look like one that was torn."""
    size = len(batch(0))
    missed = []
    for position in range(4 * size):
        if 12 <= position % size < 16:
            continue  # no checksum covers the leader epoch
        for bit in (0, 3, 7):
            disk = await killed(open_log, batch)
            disk.flip(FIRST, position, bit=bit)
            before = disk.content(FIRST)
            try:
                log = await open_log(disk, complete_to=0)
            except IncompleteLogError as error:
                assert (error.path, error.position) == (FIRST, position // size * size)
            else:
                missed.append((position, bit, log.end_offset))
            assert disk.content(FIRST) == before
            assert (await open_log(disk)).end_offset < 4, "without the proof it is cut"
    assert not missed


async def test_zeros_in_the_place_of_records_are_an_error(open_log: Opener, batch: Builder) -> None:
    size = len(batch(0))
    disk = await killed(open_log, batch)
    disk.open(FIRST).write_at(2 * size, bytes(2 * size))
    with pytest.raises(IncompleteLogError):
        await open_log(disk, complete_to=0)
    reserving = LogConfig(reserve_bytes=4096)
    assert (await open_log(disk, complete_to=2, config=reserving)).end_offset == 2


async def test_a_missing_segment_is_an_error_though_the_recovery_point_is_below(
    open_log: Opener, batch: Builder
) -> None:
    disk = await killed(open_log, batch, config=SEGMENTS)
    disk.remove(THIRD)
    with pytest.raises(IncompleteLogError, match=r"starts at offset 3, the one before ends at 2"):
        await open_log(disk, config=SEGMENTS, complete_to=0, recovery_point=1)
    assert disk.exists("data/t-0/00000000000000000003.log")


async def test_a_batch_torn_in_the_middle_of_the_log_is_an_error(open_log: Opener, batch: Builder) -> None:
    disk = await killed(open_log, batch, config=SEGMENTS)
    disk.open(THIRD).truncate(len(batch(2)) - 1)
    with pytest.raises(IncompleteLogError):
        await open_log(disk, config=SEGMENTS, complete_to=0)


@pytest.mark.parametrize("clean", [False, True])
async def test_a_log_that_ends_at_a_batch_below_what_it_had_is_an_error(
    open_log: Opener, batch: Builder, clean: bool
) -> None:
    """No byte is wrong: only a checkpoint tells."""
    disk = await killed(open_log, batch, config=SEGMENTS)
    for offset in (3, 2):
        disk.remove(f"data/t-0/{offset:020}.log")
    with pytest.raises(IncompleteLogError, match="ends at offset 2, although it had all records below 3"):
        await open_log(disk, config=SEGMENTS, complete_to=3, clean_shutdown=clean)
    log = await open_log(disk, config=SEGMENTS, complete_to=2, clean_shutdown=clean)
    assert log.end_offset == 2


async def test_a_torn_append_below_what_the_log_had_is_not_cut(open_log: Opener, batch: Builder) -> None:
    disk = await killed(open_log, batch)
    disk.open(FIRST).truncate(4 * len(batch(0)) - 1)
    before = disk.content(FIRST)
    with pytest.raises(IncompleteLogError):
        await open_log(disk, complete_to=4)
    assert disk.content(FIRST) == before


async def test_a_log_without_a_file_is_not_begun_anew_below_what_it_had(
    open_log: Opener, batch: Builder
) -> None:
    disk = await killed(open_log, batch)
    disk.remove(FIRST)
    with pytest.raises(IncompleteLogError, match="ends at offset 0, although it had all records below 4"):
        await open_log(disk, complete_to=4)
    assert not disk.exists(FIRST)
    assert (await open_log(disk, complete_to=0)).end_offset == 0


async def test_the_error_names_no_durability_that_was_never_promised(
    open_log: Opener, batch: Builder
) -> None:
    disk = await killed(open_log, batch)
    disk.flip(FIRST, 70, bit=1)
    with pytest.raises(DamagedLogError) as raised:
        await open_log(disk, complete_to=0)
    assert "only killed" in str(raised.value)
    assert "durable once" not in str(raised.value)
