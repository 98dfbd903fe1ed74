"""The survey of the snapshots in a folder at a start, and the removal of obsolete files."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from quorate.log.log_errors import DamagedSnapshotError
from quorate.log.segments.cold_reads import read_cold
from quorate.log.snapshots.snapshot_file import (
    BOOTSTRAP,
    SUFFIX,
    SnapshotContents,
    SnapshotScan,
    name_of,
    parse_name,
    read_head,
)
from quorate.log.snapshots.snapshot_writer import PART_SUFFIX
from quorate.runtime import Disk, File, Slices, get_logger
from quorate.types import SnapshotId

log = get_logger(__name__)

DELETED_SUFFIX = ".deleted"
DAMAGED_SUFFIX = ".damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    whole: tuple[SnapshotContents, ...]
    """The whole snapshots with the bootstrap's, in ascending order. Of the last one every CRC was checked."""
    damaged: tuple[DamagedSnapshotError, ...]
    """The damaged ones above the newest whole one, in ascending order. Their files are unchanged."""


async def survey(disk: Disk, folder: str) -> Survey:
    """Remove the leftovers of incomplete and deleted snapshots, and check the newest snapshot.

    Raises `DamagedSnapshotError` for a bootstrap snapshot that can't be read and has no successor;
    `DiskError`.
    """
    names = disk.list(folder)
    leftovers = [name for name in names if SUFFIX in name and name.endswith((DELETED_SUFFIX, PART_SUFFIX))]
    for name in leftovers:
        log.info("removed what was left of a snapshot", path=f"{folder}/{name}")
        _remove(disk, f"{folder}/{name}")
    whole: list[SnapshotContents] = []
    damaged: list[DamagedSnapshotError] = []
    for snapshot in sorted(one for name in names if (one := parse_name(name)) is not None):
        found = _read_head(disk, folder, snapshot)
        if isinstance(found, SnapshotContents):
            whole.append(found)
        elif found is not None:
            damaged.append(found)
    while whole:
        checked = await _check_whole(disk, folder, whole.pop().snapshot)
        if isinstance(checked, SnapshotContents):
            whole.append(checked)
            break
        damaged.append(checked)
    newest = whole[-1].snapshot if whole else None
    older = [error for error in damaged if newest is not None and error.snapshot < newest]
    set_aside(disk, older)
    if leftovers or older:
        await disk.sync_folder(folder)
    damaged = sorted((error for error in damaged if error not in older), key=lambda error: error.snapshot)
    for error in damaged:
        if error.snapshot == BOOTSTRAP:
            raise error
    return Survey(whole=tuple(whole), damaged=tuple(damaged))


def _read_head(
    disk: Disk, folder: str, snapshot: SnapshotId
) -> SnapshotContents | DamagedSnapshotError | None:
    """Read the head of a snapshot. None: the file vanished after it was listed (KAFKA-13098)."""
    path = f"{folder}/{name_of(snapshot)}"
    try:
        with contextlib.closing(disk.open(path)) as file:
            return read_head(file, snapshot)
    except FileNotFoundError:
        log.info("a snapshot vanished while the folder was read", path=path)
        return None
    except DamagedSnapshotError as error:
        return error


async def _check_whole(
    disk: Disk, folder: str, snapshot: SnapshotId
) -> SnapshotContents | DamagedSnapshotError:
    try:
        with contextlib.closing(disk.open(f"{folder}/{name_of(snapshot)}")) as file:
            return await verify(file, snapshot)
    except DamagedSnapshotError as error:
        return error


async def verify(file: File, snapshot: SnapshotId) -> SnapshotContents:
    """Read it all, letting others run in between. Raises `DamagedSnapshotError`, `DiskError`."""
    scan = SnapshotScan(file, snapshot)
    slices = Slices()
    while (batch := await read_cold(scan.next())) is not None:
        # Another writer's batch may have a good CRC over invalid records. An accepted one can be read.
        scan.records(batch)
        await slices.pause()
    return scan.contents


def set_aside(disk: Disk, damaged: Iterable[DamagedSnapshotError]) -> None:
    """Remove damaged snapshots that are not needed: an empty file is deleted, another one keeps its bytes
    under another name. Durable after a sync of the folder."""
    for error in damaged:
        file = disk.open(error.path)
        size = file.size
        file.close()
        log.warning(
            "set a damaged snapshot aside", path=error.path, position=error.position, problem=error.problem
        )
        if size:
            disk.rename(error.path, error.path + DAMAGED_SUFFIX)
        else:
            disk.remove(error.path)


def _remove(disk: Disk, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        disk.remove(path)
