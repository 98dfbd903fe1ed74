"""The metadata log's persisted high watermark."""

import random

import pytest
import trio
import trio.testing

from quorate.log.checkpoints import UnreadableCheckpointError
from quorate.raft.core.types import Offset
from quorate.raft.watermark import WatermarkCheckpoint, load_high_watermark
from quorate.simulation.disk import SimulatedDisk

FOLDER = "node/__cluster_metadata-0"
PATH = f"{FOLDER}/replication-offset-checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    return disk


async def test_a_folder_without_the_file_has_no_known_high_watermark(disk: SimulatedDisk) -> None:
    assert load_high_watermark(disk, FOLDER) is None


async def test_the_file_is_in_kafkas_format(disk: SimulatedDisk) -> None:
    checkpoint = WatermarkCheckpoint(disk, FOLDER)
    checkpoint.advanced(Offset(17))
    await checkpoint.store()
    assert disk.content(PATH) == b"0\n1\n__cluster_metadata 0 17\n"
    assert load_high_watermark(disk, FOLDER) == 17


async def test_a_moving_high_watermark_is_written_at_most_once_per_interval(
    disk: SimulatedDisk, autojump_clock: trio.testing.MockClock
) -> None:
    checkpoint = WatermarkCheckpoint(disk, FOLDER, interval_ms=1000)
    written: list[int | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checkpoint.run)
        for offset in range(1, 26):
            checkpoint.advanced(Offset(offset))
            await trio.sleep(0.1)
            seen = load_high_watermark(disk, FOLDER)
            if not written or written[-1] != seen:
                written.append(seen)
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert written[0] == 1
    assert len(written) == 3, written
    assert load_high_watermark(disk, FOLDER) == 25


async def test_it_never_goes_back(disk: SimulatedDisk) -> None:
    first = WatermarkCheckpoint(disk, FOLDER)
    first.advanced(Offset(9))
    first.advanced(Offset(4))
    await first.store()
    again = WatermarkCheckpoint(disk, FOLDER)
    again.advanced(Offset(3))
    await again.store()
    assert load_high_watermark(disk, FOLDER) == 9


async def test_it_survives_a_power_loss_once_stored(disk: SimulatedDisk) -> None:
    checkpoint = WatermarkCheckpoint(disk, FOLDER)
    checkpoint.advanced(Offset(5))
    await disk.sync_folder("node")
    await checkpoint.store()
    disk.lose_power(random.Random(7))
    assert load_high_watermark(disk, FOLDER) == 5


async def test_a_damaged_file_is_named(disk: SimulatedDisk) -> None:
    disk.open(PATH, create=True).append([b"0\n2\n__cluster_metadata 0 17\n"])
    with pytest.raises(UnreadableCheckpointError, match="replication-offset-checkpoint"):
        WatermarkCheckpoint(disk, FOLDER)
