"""The metadata log's persisted high watermark."""

import random

import pytest
import trio
import trio.testing
from captured_logs import captured_logs

from quorate.log.checkpoints import UnreadableCheckpointError
from quorate.raft.storage.watermark import WatermarkCheckpoint, load_high_watermark
from quorate.runtime.disk import write_file_atomically
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Offset

FOLDER = "node/__cluster_metadata-0"
END = Offset(40)
"""The end offset of the log beside the file."""
PATH = f"{FOLDER}/replication-offset-checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    return disk


async def test_a_folder_without_the_file_has_no_known_high_watermark(disk: SimulatedDisk) -> None:
    assert load_high_watermark(disk, FOLDER) is None


async def test_the_file_is_in_kafkas_format(disk: SimulatedDisk) -> None:
    checkpoint = WatermarkCheckpoint(disk, FOLDER, end_offset=END)
    checkpoint.note_high_watermark(Offset(17))
    await checkpoint.store()
    assert disk.content(PATH) == b"0\n1\n__cluster_metadata 0 17\n"
    assert load_high_watermark(disk, FOLDER) == 17


async def test_a_moving_high_watermark_is_written_at_most_once_per_interval(
    disk: SimulatedDisk, autojump_clock: trio.testing.MockClock
) -> None:
    checkpoint = WatermarkCheckpoint(disk, FOLDER, end_offset=END, interval_ms=1000)
    written: list[int | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checkpoint.run)
        for offset in range(1, 26):
            checkpoint.note_high_watermark(Offset(offset))
            await trio.sleep(0.1)
            seen = load_high_watermark(disk, FOLDER)
            if not written or written[-1] != seen:
                written.append(seen)
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert written[0] == 1
    assert len(written) == 3, written
    assert load_high_watermark(disk, FOLDER) == 25


async def test_the_stored_high_watermark_never_goes_back(disk: SimulatedDisk) -> None:
    first = WatermarkCheckpoint(disk, FOLDER, end_offset=END)
    first.note_high_watermark(Offset(9))
    first.note_high_watermark(Offset(4))
    await first.store()
    again = WatermarkCheckpoint(disk, FOLDER, end_offset=END)
    again.note_high_watermark(Offset(3))
    await again.store()
    assert load_high_watermark(disk, FOLDER) == 9


async def test_a_stored_high_watermark_survives_a_power_loss(disk: SimulatedDisk) -> None:
    checkpoint = WatermarkCheckpoint(disk, FOLDER, end_offset=END)
    checkpoint.note_high_watermark(Offset(5))
    await disk.sync_folder("node")
    await checkpoint.store()
    disk.lose_power(random.Random(7))
    assert load_high_watermark(disk, FOLDER) == 5


UNBELIEVABLE = {
    "empty": b"",
    "truncated": b"0\n1\n__cluster_metadata 0 17",
    "a line too few": b"0\n2\n__cluster_metadata 0 17\n",
    "binary": bytes(range(256)) * 4,
    "zeros": bytes(29),
    "a flipped bit in the version": b"p\n1\n__cluster_metadata 0 17\n",
    "a flipped bit in the offset": b"0\n1\n__cluster_metadata 0 1w\n",
    "more digits than a number may have": b"0\n1\n__cluster_metadata 0 " + b"9" * 5000 + b"\n",
    "beyond the log's end": b"0\n1\n__cluster_metadata 0 917\n",
}


@pytest.mark.parametrize("content", UNBELIEVABLE.values(), ids=UNBELIEVABLE.keys())
async def test_an_invalid_high_watermark_file_is_ignored_and_written_again(
    disk: SimulatedDisk, content: bytes
) -> None:
    disk.open(PATH, create=True).append([content])
    with captured_logs() as lines:
        checkpoint = WatermarkCheckpoint(disk, FOLDER, end_offset=END)
    (said,) = lines
    assert (said["log_level"], said["path"]) == ("warning", PATH)
    assert said["reason"]
    await checkpoint.store()
    assert disk.content(PATH) == content, "nothing is known yet that could be written"
    checkpoint.note_high_watermark(Offset(3))
    await checkpoint.store()
    assert load_high_watermark(disk, FOLDER) == 3


async def test_each_flipped_bit_is_ignored_or_leaves_a_bound_within_the_log(disk: SimulatedDisk) -> None:
    """Those that make a later version are refused, as in every file, and leave it unchanged."""
    whole = b"0\n1\n__cluster_metadata 0 17\n"
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        await write_file_atomically(disk, PATH, flipped)
        with captured_logs():
            if bytes(flipped[:2]) in (b"1\n", b"2\n", b"4\n", b"8\n"):
                with pytest.raises(UnreadableCheckpointError, match="a newer quorate wrote it"):
                    WatermarkCheckpoint(disk, FOLDER, end_offset=END)
                assert disk.content(PATH) == bytes(flipped)
                continue
            checkpoint = WatermarkCheckpoint(disk, FOLDER, end_offset=END)
        checkpoint.note_high_watermark(END)
        await checkpoint.store()
        assert load_high_watermark(disk, FOLDER) == END


@pytest.mark.costly
@pytest.mark.parametrize("content", UNBELIEVABLE.values(), ids=UNBELIEVABLE.keys())
async def test_a_node_starts_votes_and_commits_whatever_the_file_says(
    autojump_clock: trio.testing.MockClock, world, content: bytes
) -> None:
    """The file is no part of what a vote, a commit or an apply goes by."""
    await world.start(1, 2, 3)
    await (await world.leader()).append([b"a", b"b"])
    for node in (1, 2, 3):
        await world.stop(node)
    for node in (1, 2):
        await write_file_atomically(world.hosts[node].disk, f"data/{PATH.partition('/')[2]}", content)
    await world.start(1, 2)
    leader = await world.leader()
    appended = await leader.append([b"c"])
    end = appended.base_offset + 1
    for node in (1, 2):
        await world.until(lambda node=node: world.journals[node].records == [b"a", b"b", b"c"])
        disk = world.hosts[node].disk
        await world.until(lambda disk=disk: hinted(disk) == end)


def hinted(disk: SimulatedDisk) -> Offset | None:
    try:
        return load_high_watermark(disk, f"data/{FOLDER.partition('/')[2]}")
    except UnreadableCheckpointError:
        return None
