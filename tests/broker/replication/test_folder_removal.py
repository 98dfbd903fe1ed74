"""The removal of a partition's folder, and what a power loss leaves of it."""

import random

from quorate.broker.replication.storage.folders import DELETED_MARK, remove_folder
from quorate.runtime.disk import write_file_atomically
from quorate.simulation.world.simulated_disk import SimulatedDisk

FILES = ("00000000000000000000.log", "partition.metadata")


async def test_a_power_loss_leaves_no_part_of_a_removed_folder_without_its_mark() -> None:
    """A part without the mark would be opened as the replica."""
    left = set()
    for seed in range(100):
        disk = SimulatedDisk()
        disk.make_folder("d/t-0")
        for name in FILES:
            await write_file_atomically(disk, f"d/t-0/{name}", b"x")
        await remove_folder(disk, "d/t-0")
        disk.lose_power(random.Random(seed))
        left.add(tuple(name for name in (*FILES, DELETED_MARK) if disk.exists(f"d/t-0/{name}")))
    assert left == {(), (DELETED_MARK,)}
