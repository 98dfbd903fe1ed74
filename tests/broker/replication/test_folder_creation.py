"""The creation of a partition's folder, and what a power loss leaves of it."""

import random
import uuid
from copy import deepcopy

import pytest
import trio
import trio.testing
from cut_disk import CutDisk

from quorate.broker.replication.foundation.errors import AllDirectoriesFailedError
from quorate.broker.replication.storage.folders import (
    FolderSync,
    ForeignFolderError,
    PartitionIdentity,
    UnreadablePartitionMetadataError,
    load_partition_metadata,
)
from quorate.broker.replication.storage.log_directory import Directory
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.log import LogConfig
from quorate.runtime import Disk, DiskError
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk

DIRECTORY = Directory(path="d", id=uuid.UUID(int=1))
IDENTITY = PartitionIdentity(uuid.UUID(int=2))
SEGMENT = "00000000000000000000.log"


async def started(disk: Disk) -> LogManager:
    return await LogManager.open(disk, [DIRECTORY], now_ms=lambda: 0, boot_id="boot")


async def created(disk: Disk, partitions: int = 2) -> None:
    logs = await started(disk)
    async with trio.open_nursery() as nursery:
        for number in range(partitions):
            nursery.start_soon(logs.open_log, "t", number, IDENTITY, LogConfig())


async def test_a_power_loss_at_any_operation_leaves_what_the_next_start_takes_or_removes() -> None:
    left = set()
    for cut in range(1000):
        disk = CutDisk()
        disk.make_folder("d")
        disk.operations_left = cut
        finished = False
        try:
            await created(disk)
            finished = True
        except* (DiskError, AllDirectoriesFailedError):
            pass
        for seed in range(20):
            copy = deepcopy(disk)
            copy.operations_left = None
            copy.lose_power(random.Random(seed))
            for folder in ("d/t-0", "d/t-1"):
                names = copy.list(folder) if copy.exists(folder) else []
                left.add(frozenset(names) & {SEGMENT, "partition.metadata"})
                assert not finished or len(names) == 2, "it was durable"
            await created(copy)
            for folder in ("d/t-0", "d/t-1"):
                assert load_partition_metadata(copy, folder) == IDENTITY
            copy.crash_process()
        if finished:
            break
    assert left == {
        frozenset(names)
        for names in ((), (SEGMENT,), ("partition.metadata",), (SEGMENT, "partition.metadata"))
    }


@pytest.mark.parametrize("segment", [SEGMENT, "00000000000000000005.log"])
async def test_a_folder_that_has_had_records_and_lacks_its_metadata_stops_the_start(segment: str) -> None:
    disk = SimulatedDisk()
    disk.make_folder("d/t-0")
    file = disk.open(f"d/t-0/{segment}", create=True)
    if segment == SEGMENT:
        file.append([b"record"])
    with pytest.raises(UnreadablePartitionMetadataError, match="missing"):
        await started(disk)


@pytest.mark.parametrize(
    ("folder", "name"), [("backup-2024", "letters.txt"), ("disk-1", "meta.properties"), ("a-1", "b")]
)
async def test_a_folder_of_others_with_the_name_of_a_partitions_is_not_emptied(
    folder: str, name: str
) -> None:
    """Without partition.metadata it was taken for the rest of an interrupted creation, and removed with all
    its contents. It may be a foreign folder, or another one of log.dirs."""
    disk = SimulatedDisk()
    disk.make_folder(f"d/{folder}")
    for each in (name, SEGMENT):
        disk.open(f"d/{folder}/{each}", create=True).close()
    with pytest.raises(ForeignFolderError, match=f"{folder} has the name .* '{name}' in it") as raised:
        await started(disk)
    assert "Move the folder away" in str(raised.value)
    assert disk.list(f"d/{folder}") == sorted([name, SEGMENT])


async def test_folders_that_are_created_at_once_share_the_syncs_of_the_directory(
    autojump_clock: object,
) -> None:
    disk = SimulatedDisk(sync_delay=0.01)
    disk.make_folder("d")
    synced: list[str] = []
    disk.on_sync = synced.append
    await created(disk, partitions=8)
    assert synced.count("d") == 1


async def test_a_sync_that_had_begun_before_does_not_count(autojump_clock: object) -> None:
    disk = SimulatedDisk(sync_delay=1.0)
    disk.make_folder("d")
    folder = FolderSync(disk, "d")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(folder.sync)
        await trio.sleep(0.5)
        disk.make_folder("d/late")
        await folder.sync()
        disk.lose_power(random.Random(0))
    assert disk.exists("d/late")


async def test_a_failure_is_told_to_all_whose_sync_it_was(autojump_clock: object) -> None:
    disk = SimulatedDisk(sync_delay=1.0)
    disk.make_folder("d")
    disk.fail(DiskOperation.SYNC_FOLDER)
    folder = FolderSync(disk, "d")
    told: set[str] = set()

    async def sync(name: str) -> None:
        try:
            await folder.sync()
            told.add(f"{name} is durable")
        except DiskError:
            told.add(f"{name} is not")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync, "one")
        nursery.start_soon(sync, "another")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(sync, "a later one")
    assert told == {"one is not", "another is not", "a later one is durable"}
