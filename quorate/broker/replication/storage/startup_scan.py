"""The scan of the directories when a broker starts: what is in each, and which of two folders of a partition
is its replica. Work that a crash interrupted is finished."""

from collections.abc import Sequence
from typing import Final

from quorate.broker.replication.foundation.errors import DuplicateReplicaError
from quorate.broker.replication.storage.folders import (
    DELETED_MARK,
    MOVED_MARK,
    PARTITION_METADATA,
    Departed,
    ForeignFolderError,
    FutureFolder,
    PartitionIdentity,
    UnreadablePartitionMetadataError,
    folder_name,
    foreign_file,
    load_moved,
    load_partition_metadata,
    parse_damaged_name,
    parse_folder_name,
    parse_future_name,
    remove_folder,
)
from quorate.broker.replication.storage.log_directory import Directory, LogDirectory
from quorate.broker.replication.storage.proofs import (
    load_clean_shutdown,
    load_page_cache,
    remove_clean_shutdown,
    store_page_cache,
)
from quorate.log import TopicPartition, segment_bases
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError, get_logger

log = get_logger(__name__)

_METADATA_TOPIC: Final = "__cluster_metadata"


async def open_directory(disk: Disk, directory: Directory, boot_id: str) -> LogDirectory:
    """Read what is in a directory. Raises `DiskError`, `UnreadableCheckpointError`,
    `UnreadablePartitionMetadataError`, `UnreadableMovedMarkError`, `ForeignFolderError`."""
    path = directory.path
    left = load_clean_shutdown(disk, path)
    proof = load_page_cache(disk, path, boot_id=boot_id)
    if left is not None:
        # Before the mark goes: a process that is killed before it registers has spoilt nothing.
        proof = left
        store_page_cache(disk, path, proof, boot_id=boot_id)
    await remove_clean_shutdown(disk, path)
    opened = LogDirectory(disk, directory, clean=left is not None, proof=proof)
    await _scan(disk, opened)
    return opened


async def settle_duplicates(disk: Disk, opened: Sequence[LogDirectory]) -> None:
    """Remove the empty folder of a replica that was made elsewhere after the disk failed. Of folders of one
    name that are of different partitions, all but one are set aside: metadata will say which counts
    (`Namesakes`). Raises `DuplicateReplicaError` for two of the same partition."""
    found: dict[TopicPartition, list[LogDirectory]] = {}
    for each in opened:
        for key in each.identities:
            found.setdefault(key, []).append(each)
    for key, directories in found.items():
        for each in directories[::-1]:
            if len(directories) > 1 and key in each.unbegun:
                path = f"{each.path}/{folder_name(*key)}"
                log.info("a folder that no log was begun in is removed", path=path)
                directories.remove(each)
                each.forget(key)
                await remove_folder(disk, path)
        _tell_apart(key, directories)


def _tell_apart(key: TopicPartition, directories: Sequence[LogDirectory]) -> None:
    kept: dict[PartitionIdentity, LogDirectory] = {}
    for each in directories:
        first = kept.setdefault(each.identities[key], each)
        if first is not each:
            folder = folder_name(*key)
            raise DuplicateReplicaError(folder, f"{first.path}/{folder}", f"{each.path}/{folder}")
    for each in directories[1:]:
        each.note_namesake(key)


async def settle_moves(disk: Disk, opened: Sequence[LogDirectory]) -> None:
    """Let each future replica whose mark is there take its place. Remove futures that none may continue:
    beside the replica that they are a copy of, or in several directories."""
    for source in opened:
        for key, departed in source.departed.items():
            for target in opened:
                future = target.futures.get(key)
                if target.id == departed.moved.directory and future is not None:
                    await _finish_move(disk, key, target, departed)
    found: dict[TopicPartition, list[LogDirectory]] = {}
    for each in opened:
        for key in each.futures:
            found.setdefault(key, []).append(each)
    for key, directories in found.items():
        for each in directories:
            if len(directories) > 1 or key in each.identities:
                future = each.futures.pop(key)
                log.info("a future replica is not continued", path=f"{each.path}/{future.name}")
                await remove_folder(disk, f"{each.path}/{future.name}")


async def _finish_move(disk: Disk, key: TopicPartition, target: LogDirectory, departed: Departed) -> None:
    future = target.futures[key]
    if future.name != departed.moved.folder or future.identity != departed.identity:
        return
    folder = f"{target.path}/{folder_name(*key)}"
    try:
        if key in target.departed:
            # Of an earlier move, the other way.
            await remove_folder(disk, folder)
            del target.departed[key]
        disk.rename(f"{target.path}/{future.name}", folder)
        await disk.sync_folder(target.path)
    except DescriptorsExhaustedError:
        raise
    except DiskError as error:
        if target.holds_metadata:
            raise
        target.failure = str(error)
        log.error("a moved replica can't take its place", path=folder, reason=str(error))
        return
    log.info("a move between directories is finished", path=folder)
    del target.futures[key]
    target.identities[key] = future.identity


async def _scan(disk: Disk, where: LogDirectory) -> None:
    removed: set[TopicPartition] = set()
    for name in disk.list(where.path):
        future_of = parse_future_name(name)
        key = future_of or parse_folder_name(name)
        folder = f"{where.path}/{name}"
        files = disk.list(folder) if key is not None else []
        aside = parse_damaged_name(where.path, name) if key is None else None
        if aside is not None:
            where.set_aside.append(aside)
        if key is None or key[0] == _METADATA_TOPIC:
            continue
        if DELETED_MARK in files:
            removed.add(key)
            await remove_folder(disk, folder)
            continue
        identity = load_partition_metadata(disk, folder)
        begun = any(file.endswith(".log") for file in files)
        if identity is None:
            if future_of is None and _has_begun(disk, folder):
                raise UnreadablePartitionMetadataError(f"{folder}/{PARTITION_METADATA}", "missing")
            foreign = foreign_file(files)
            if foreign is not None:
                raise ForeignFolderError(folder, foreign)
            # Its creation was interrupted before anything could be written to it.
            await remove_folder(disk, folder)
        elif future_of is not None:
            if not begun or key in where.futures:
                await remove_folder(disk, folder)
            else:
                where.futures[key] = FutureFolder(name, identity)
        elif MOVED_MARK in files:
            where.departed[key] = Departed(identity, load_moved(disk, folder))
        else:
            where.identities[key] = identity
            if not begun:
                where.unbegun.add(key)
    for key, offset in where.high_watermarks.items():
        if offset > 0 and key not in (removed | where.identities.keys() | where.departed.keys()):
            where.vanished[key] = offset
    # The files go on naming what is gone, until something of the same name is made.
    for known in (where.recovery_points, where.high_watermarks, where.log_starts, where.cleaned):
        for key in [key for key in known if key not in where.identities and key not in where.futures]:
            del known[key]


def _has_begun(disk: Disk, folder: str) -> bool:
    """Return whether there is more than the first segment without a record: that one and the metadata become
    durable together, and a power loss may show either alone."""
    bases = segment_bases(disk, folder)
    if bases != [0]:
        return bool(bases)
    first = disk.open(f"{folder}/{0:020}.log")
    try:
        return first.size > 0
    finally:
        first.close()
