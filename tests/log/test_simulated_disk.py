"""The disk that the other tests trust."""

import random
from copy import deepcopy

import pytest
import trio
import trio.testing

from quorate.runtime.disk import (
    Disk,
    DiskError,
    DiskFullError,
    DiskLockedError,
    read_file,
    write_file_atomically,
)
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk


async def _two_part_file(seed: int | None, *, folder_synced: bool = True) -> bytes | None:
    disk: SimulatedDisk = SimulatedDisk()
    _: Disk = disk
    disk.make_folder("d")
    file = disk.open("d/f", create=True)
    file.append([b"a" * 2000])
    await file.sync()
    if folder_synced:
        await disk.sync_folder("d")
    file.append([b"b" * 1000, b"c" * 1000])
    if seed is None:
        disk.crash_process()
    else:
        disk.lose_power(random.Random(seed))
    return read_file(disk, "d/f") if disk.exists("d/f") else None


async def test_a_process_crash_loses_nothing_that_was_written() -> None:
    assert await _two_part_file(None, folder_synced=False) == b"a" * 2000 + b"b" * 1000 + b"c" * 1000


async def test_a_power_loss_keeps_what_was_synced_and_any_part_of_the_rest() -> None:
    seen = {await _two_part_file(seed) for seed in range(300)}
    contents = [content for content in seen if content is not None]
    assert len(contents) == len(seen)
    assert all(content.startswith(b"a" * 2000) for content in contents)
    assert b"a" * 2000 in seen
    assert b"a" * 2000 + b"b" * 1000 + b"c" * 1000 in seen
    assert any(b"\0" in content for content in contents), "sectors out of order"
    assert any(len(content) % 512 and 2000 < len(content) < 4000 for content in contents), "torn"


async def test_a_new_name_may_vanish_until_its_folder_is_synced() -> None:
    seen = [await _two_part_file(seed, folder_synced=False) for seed in range(50)]
    assert None in seen
    assert any(content is not None for content in seen)


async def test_an_atomic_write_leaves_the_old_content_or_the_new_one() -> None:
    seen = set()
    for seed in range(200):
        disk = SimulatedDisk()
        disk.make_folder("d")
        await write_file_atomically(disk, "d/f", b"old")
        draw = random.Random(seed)
        disk.fail(DiskOperation.SYNC if draw.random() < 0.5 else DiskOperation.SYNC_FOLDER, path_part="d")
        with pytest.raises(DiskError):
            await write_file_atomically(disk, "d/f", b"new")
        disk.lose_power(draw)
        seen.add(read_file(disk, "d/f"))
    assert seen == {b"old", b"new"}


async def test_a_folder_that_is_made_anew_keeps_its_files_when_the_removal_of_the_old_one_is_synced() -> None:
    disk = SimulatedDisk()
    for content in (b"old", b"new"):
        disk.make_folder("d/f")
        await write_file_atomically(disk, "d/f/id", content)
        if content == b"old":
            await disk.sync_folder("d")
            disk.remove("d/f/id")
            disk.remove_folder("d/f")
    await disk.sync_folder("d")
    disk.lose_power(random.Random(1))
    assert read_file(disk, "d/f/id") == b"new"


async def test_a_slow_sync_of_a_folder_takes_no_rename_that_was_made_after_it_began(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The same names are renamed each time that a file is replaced."""
    delay = 0.0
    disk = SimulatedDisk(sync_delay=lambda path: delay)
    disk.make_folder("d")
    async with trio.open_nursery() as nursery:
        file = disk.open("d/f.tmp", create=True)
        file.append([b"first"])
        await file.sync()
        disk.rename("d/f.tmp", "d/f")
        delay = 1.0
        nursery.start_soon(disk.sync_folder, "d")
        await trio.sleep(0.1)
        delay = 0.0
        await disk.sync_folder("d")
        file = disk.open("d/f.tmp", create=True)
        file.append([b"second"])
        await file.sync()
        disk.rename("d/f.tmp", "d/f")
        await trio.sleep(2)
    assert disk.durable_content("d/f") == b"first"
    await disk.sync_folder("d")
    assert disk.durable_content("d/f") == b"second"


async def test_bytes_of_a_failed_sync_stay_undurable_after_the_next_one() -> None:
    disk = SimulatedDisk()
    file = disk.open("f", create=True)
    await disk.sync_folder(".")
    file.append([b"first"])
    disk.fail(DiskOperation.SYNC)
    with pytest.raises(DiskError):
        await file.sync()
    file.append([b"second"])
    await file.sync()
    assert disk.content("f") == b"firstsecond"
    assert disk.durable_content("f") == b"\0" * 5 + b"second"
    file.write_at(0, b"first")
    await file.sync()
    assert disk.durable_content("f") == b"firstsecond"


async def test_a_sync_covers_what_was_written_at_its_call_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = SimulatedDisk(sync_delay=1.0)
    file = disk.open("f", create=True)
    await disk.sync_folder(".")
    file.append([b"one"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.sleep(0.5)
        file.append([b"two"])
        nursery.start_soon(file.sync)
        await trio.sleep(0.6)
        assert disk.durable_content("f") == b"one"
    assert disk.durable_content("f") == b"onetwo"


async def test_faults_full_disks_and_cuts_are_errors() -> None:
    disk = SimulatedDisk()
    file = disk.open("f", create=True)
    disk.fail(DiskOperation.APPEND, skip=1)
    file.append([b"x"])
    with pytest.raises(DiskError):
        file.append([b"x"])
    disk.space_left = 3
    with pytest.raises(DiskFullError):
        file.append([b"1234"])
    disk.space_left = None
    disk.cut()
    with pytest.raises(DiskError):
        disk.exists("f")
    disk.crash_process()
    with pytest.raises(DiskError):
        file.append([b"x"])
    assert read_file(disk, "f") == b"x123"


async def test_a_stalled_disk_goes_on_when_released() -> None:
    disk = SimulatedDisk()
    file = disk.open("f", create=True)
    disk.stall()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        assert disk.syncs == 0
        disk.release()
    assert disk.syncs == 1


async def test_a_lock_is_held_until_released_or_the_process_dies() -> None:
    disk = SimulatedDisk()
    held = disk.lock("lock")
    with pytest.raises(DiskLockedError):
        disk.lock("lock")
    held.release()
    disk.lock("lock")
    disk.crash_process()
    disk.lock("lock")


async def test_a_bit_flip_shows_at_once_and_after_a_power_loss() -> None:
    disk = SimulatedDisk()
    await write_file_atomically(disk, "f", b"\x00\x00")
    disk.flip("f", 1, bit=3)
    assert read_file(disk, "f") == b"\x00\x08"
    disk.lose_power(random.Random(1))
    assert read_file(disk, "f") == b"\x00\x08"


async def _renamed_folder(seed: int | None, *, synced: bool = False) -> tuple[list[str], list[str]]:
    """A folder with a durable file and a new one is renamed. The names in the old and in the new folder,
    after the power loss."""
    disk = SimulatedDisk()
    disk.make_folder("d/old")
    file = disk.open("d/old/first", create=True)
    await file.sync()
    await disk.sync_folder("d/old")
    disk.open("d/old/second", create=True)
    disk.rename("d/old", "d/new")
    file.append([b"after"])
    assert read_file(disk, "d/new/first") == b"after"
    assert (disk.list("d"), disk.list("d/new")) == (["new"], ["first", "second"])
    if synced:
        await disk.sync_folder("d")
    if seed is not None:
        disk.lose_power(random.Random(seed))
    return disk.list("d/old"), disk.list("d/new")


async def test_a_renamed_folder_is_there_once_with_what_was_in_it() -> None:
    assert await _renamed_folder(None) == ([], ["first", "second"])
    seen = [await _renamed_folder(seed) for seed in range(100)]
    for old, new in seen:
        assert bool(old) != bool(new), "it has one name"
        assert "first" in old + new
    assert {bool(old) for old, _ in seen} == {True, False}
    assert {"second" in old + new for old, new in seen} == {True, False}
    for seed in range(20):
        old, new = await _renamed_folder(seed, synced=True)
        assert not old
        assert "first" in new


async def test_a_folder_is_listed_again_if_its_removal_is_lost() -> None:
    disk = SimulatedDisk()
    disk.make_folder("d/old")
    await disk.open("d/old/first", create=True).sync()
    await disk.sync_folder("d/old")
    disk.remove_folder("d/old")
    assert disk.list("d") == []
    seen = set()
    for seed in range(20):
        copy = deepcopy(disk)
        copy.lose_power(random.Random(seed))
        assert copy.list("d") == (["old"] if copy.list("d/old") else [])
        seen.add(bool(copy.list("d/old")))
    assert seen == {True, False}


async def test_a_removal_that_an_operator_has_synced_is_not_undone() -> None:
    """Of the folder that an operator had given up, a power loss brought back all but partition.metadata, and
    the broker refused to start (seed 9307546)."""
    disk = SimulatedDisk()
    disk.make_folder("d/old")
    await disk.open("d/old/first", create=True).sync()
    await disk.sync_folder("d/old")
    disk.remove_folder("d/old")
    disk.settle("d")
    for seed in range(20):
        copy = deepcopy(disk)
        copy.lose_power(random.Random(seed))
        assert copy.list("d") == []


async def test_a_folder_does_not_take_the_place_of_one_that_has_something() -> None:
    disk = SimulatedDisk()
    for folder in ("old", "new"):
        disk.make_folder(folder)
        disk.open(f"{folder}/file", create=True)
    with pytest.raises(DiskError, match="not empty"):
        disk.rename("old", "new")


async def test_a_stalled_disk_that_is_cut_holds_up_nobody(autojump_clock: object) -> None:
    """A killed process waited for its disk in a step that can't be cancelled, and whoever was to release the
    disk had ended: the run never did (seed 9305477)."""
    disk = SimulatedDisk()
    disk.make_folder("data")
    disk.stall()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:

            async def sync() -> None:
                with pytest.raises(DiskError, match="the disk is gone"):
                    await disk.sync_folder("data")

            nursery.start_soon(sync)
            await trio.testing.wait_all_tasks_blocked()
            disk.cut()
    assert not disk.is_stalled
