"""The removal of a folder of a directory: a crash on the way is finished at the next start."""

from collections.abc import Container
from typing import Final

import trio

from quorate.runtime import Disk

DELETED_MARK: Final = "partition.deleted"
"""Ours: in a folder whose removal has begun, so that what a crash leaves of it is removed, not opened."""


async def remove_folder(disk: Disk, folder: str) -> None:
    """Remove a folder, a file at a time. Raises `DiskError`."""
    mark = f"{folder}/{DELETED_MARK}"
    disk.open(mark, create=True).close()
    await disk.sync_folder(folder)
    await empty_folder(disk, folder, but=(DELETED_MARK,))
    # A power loss may undo any of these removals, but not after that of the mark.
    await disk.sync_folder(folder)
    disk.remove_folder(folder)


async def empty_folder(disk: Disk, folder: str, *, but: Container[str]) -> None:
    """Remove the files of a folder but those, one at a time. Raises `DiskError`."""
    for name in disk.list(folder):
        if name not in but:
            disk.remove(f"{folder}/{name}")
            await trio.lowlevel.checkpoint()
