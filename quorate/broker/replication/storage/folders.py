"""The folders in a directory of `log.dirs`: their names, the files in them beside the segments, and their
removal.

A partition's folder is `topic-partition`, with the partition's identity in `partition.metadata`. A *future
replica* is a copy of a replica in another directory (KIP-113), in a folder with a name of its own. The mark
`partition.moved` is the one step that decides which of the two is the replica: before it is durable, the
copy is only a copy. From then on the folder with the mark is not the replica any more, wherever the copy's
directory is. The folder of a damaged log that was set aside is no replica any more. It is kept until a
person removes it.
"""

import json
import re
import uuid
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import trio

from quorate.log import LEADER_EPOCHS, Log, TopicPartition
from quorate.runtime import (
    Disk,
    DiskError,
    parse_uuid,
    read_file,
    replace_file,
    uuid_text,
    write_file_atomically,
)
from quorate.types import Epoch

PARTITION_METADATA: Final = "partition.metadata"
_VERSION: Final = 0
_FIRST_EPOCH: Final = "first_leader_epoch"
"""Not in Kafka: a line of the file of a partition that began with another leader epoch than 0."""


class UnreadablePartitionMetadataError(Exception):
    """The folder holds records, and no file names their topic."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}. If a newer quorate wrote it, start that one. Otherwise write it anew, in "
            f"two lines: 'version: {_VERSION}', then 'topic_id: ' and the topic's id, as `quorate topics "
            "describe --json` shows it"
        )


def folder_name(topic: str, partition_id: int) -> str:
    return f"{topic}-{partition_id}"


def parse_folder_name(name: str) -> tuple[str, int] | None:
    """Return the topic and partition, or None for another folder."""
    topic, separator, number = name.rpartition("-")
    return (topic, int(number)) if separator and topic and number.isdecimal() else None


class PartitionIdentity(NamedTuple):
    """The partition that a folder's records are of, among all that had its name."""

    topic_id: uuid.UUID
    first_epoch: Epoch = Epoch(0)
    """The leader epoch with which it began: another than 0 where the topic was shrunk and has grown again."""


async def store_partition_metadata(disk: Disk, folder: str, identity: PartitionIdentity) -> None:
    """Write the file of a folder that is being made. It is durable when the log in the folder is open. Kafka
    does not read beyond the topic's id."""
    content = f"version: {_VERSION}\ntopic_id: {uuid_text(identity.topic_id)}\n"
    if identity.first_epoch:
        content += f"{_FIRST_EPOCH}: {identity.first_epoch}\n"
    await replace_file(disk, f"{folder}/{PARTITION_METADATA}", content.encode())


def load_partition_metadata(disk: Disk, folder: str) -> PartitionIdentity | None:
    """Return what the file says; None if there is none. Raises `UnreadablePartitionMetadataError`."""
    path = f"{folder}/{PARTITION_METADATA}"
    try:
        text = read_file(disk, path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UnreadablePartitionMetadataError(path, "not text") from error
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != str(_VERSION) or "topic_id" not in fields:
        raise UnreadablePartitionMetadataError(path, f"not partition metadata of version {_VERSION}")
    try:
        return PartitionIdentity(parse_uuid(fields["topic_id"]), Epoch(int(fields.get(_FIRST_EPOCH, "0"))))
    except ValueError as error:
        raise UnreadablePartitionMetadataError(path, str(error)) from error


MOVED_MARK: Final = "partition.moved"
"""Not in Kafka: it is in the folder of a replica that was moved to another directory."""
NAME_MAX: Final = 255
"""The longest name of a folder, in bytes, as file systems have it."""
_FUTURE_SUFFIX: Final = "-future"
_UNIQUE_LENGTH: Final = 32
_MARK_VERSION: Final = 0


class UnreadableMovedMarkError(Exception):
    """A folder says that its replica was moved, but not where to."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}. The replica in this folder was moved to another directory of this broker: "
            "find the folder of the same name there, or the one that ends in -future. If it is there, remove "
            "this one, and take the ending off the other's name; then start again"
        )


class MovedTo(NamedTuple):
    """The replica in the folder with this mark is in another directory now."""

    directory: uuid.UUID
    folder: str
    """The name there as a future replica. A start that still finds it renames it."""


class Departed(NamedTuple):
    """A folder with the mark. It stays until metadata names another directory: a broker that finds nothing
    where metadata says that its replica is would begin an empty log there."""

    identity: PartitionIdentity
    moved: MovedTo


@dataclass(slots=True)
class FutureFolder:
    """A future replica's folder. Mutable; owned by its directory."""

    name: str
    identity: PartitionIdentity
    log: Log | None = None
    """None until it is opened after a start."""
    sealed: bool = False
    """The mark is being written: the copied replica's log start counts here too."""


def future_folder_name(topic: str, partition_id: int, unique: uuid.UUID) -> str:
    """Return Kafka's name, `topic-partition.unique-future`."""
    return f"{folder_name(topic, partition_id)}.{unique.hex}{_FUTURE_SUFFIX}"


def fits_future_name(topic: str, partition_id: int) -> bool:
    """Return whether a file system takes the name of a future replica's folder."""
    return len(future_folder_name(topic, partition_id, uuid.UUID(int=0)).encode()) <= NAME_MAX


def parse_future_name(name: str) -> TopicPartition | None:
    """Return the topic and partition, or None for another folder."""
    stem, _, unique = name.removesuffix(_FUTURE_SUFFIX).rpartition(".")
    if not name.endswith(_FUTURE_SUFFIX) or len(unique) != _UNIQUE_LENGTH:
        return None
    return parse_folder_name(stem)


async def store_moved(disk: Disk, folder: str, moved: MovedTo) -> None:
    """Write the mark durably. Raises `DiskError`; it may be there then, or not."""
    fields = {"version": _MARK_VERSION, "directory": uuid_text(moved.directory), "folder": moved.folder}
    await write_file_atomically(disk, f"{folder}/{MOVED_MARK}", json.dumps(fields).encode())


def load_moved(disk: Disk, folder: str) -> MovedTo:
    """Read the mark. Raises `UnreadableMovedMarkError`."""
    path = f"{folder}/{MOVED_MARK}"
    try:
        fields = json.loads(read_file(disk, path))
        if not isinstance(fields, dict) or fields.get("version") != _MARK_VERSION:
            raise UnreadableMovedMarkError(path, f"not a mark of version {_MARK_VERSION}")
        return MovedTo(parse_uuid(str(fields["directory"])), str(fields["folder"]))
    except (ValueError, KeyError, RecursionError) as error:
        raise UnreadableMovedMarkError(path, f"unreadable ({error})") from error


_DAMAGED_SUFFIX: Final = "-damaged"


class SetAsideFolder(NamedTuple):
    """A folder with a damaged log."""

    path: str
    topic: str
    """Its beginning, where the whole name was too long for a folder's."""
    partition_id: int


def damaged_folder_name(topic: str, partition_id: int, unique: uuid.UUID) -> str:
    """Return `topic-partition.unique-damaged`; of a long topic the beginning, so that a file system takes
    it."""
    end = f"-{partition_id}.{unique.hex}{_DAMAGED_SUFFIX}"
    return f"{topic[: NAME_MAX - len(end)]}{end}"


def parse_damaged_name(log_directory: str, name: str) -> SetAsideFolder | None:
    """Return what a folder of a directory holds, or None for another folder."""
    stem, _, unique = name.removesuffix(_DAMAGED_SUFFIX).rpartition(".")
    key = parse_folder_name(stem)
    if not name.endswith(_DAMAGED_SUFFIX) or len(unique) != _UNIQUE_LENGTH or key is None:
        return None
    return SetAsideFolder(f"{log_directory}/{name}", *key)


DELETED_MARK: Final = "partition.deleted"
"""Not in Kafka: it is in a folder whose removal has begun, so that the rest after a crash is removed, not
opened."""


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


_FILES: Final = (PARTITION_METADATA, LEADER_EPOCHS, MOVED_MARK, DELETED_MARK)
_OWN_FILE: Final = re.compile(
    rf"({'|'.join(map(re.escape, _FILES))}|[0-9]{{20}}\..*)(\.tmp)?",
    re.DOTALL,
)
"""The names of the files that quorate, or Kafka, makes in a partition's folder."""


class ForeignFolderError(Exception):
    """A folder that has the name of a partition's and is none: nothing in it may be touched."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__(
            f"{path} has the name of a partition's folder, and is none: '{name}' in it is no file of a "
            "partition. Move the folder away, or give log.dirs a directory of its own; one entry of "
            "log.dirs can't be in another"
        )


def foreign_file(names: Iterable[str]) -> str | None:
    """Return the first of these names that no file in a partition's folder has, or None."""
    return next((name for name in names if _OWN_FILE.fullmatch(name) is None), None)


class FolderSync:
    """The syncs of one folder, shared by the tasks that ask at once. There is one sync at a time. The next
    serves all that asked during it."""

    __slots__ = ("_asked", "_disk", "_done", "_error", "_path", "_turn")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._turn = trio.Lock()
        self._asked = 0
        self._done = 0
        """The number of the calls that the syncs have answered."""
        self._error: DiskError | None = None
        """The error of the last sync."""

    async def sync(self) -> None:
        """Make what was created, renamed and removed in the folder before the call durable. Raises
        `DiskError`."""
        self._asked += 1
        number = self._asked
        async with self._turn:
            if self._done < number:
                asked, self._error = self._asked, None
                try:
                    await self._disk.sync_folder(self._path)
                except DiskError as error:
                    # It is for all of them: the next sync may not make their changes durable.
                    self._error = error
                self._done = asked
            if self._error is not None:
                raise self._error
