"""The folder of a future replica, which is a copy of a replica in another directory (KIP-113), and the mark
that ends the copied one.

The mark is the one step that decides which of the two is the replica. Before it is durable the copy is only a
copy, whatever became of it. From then on the folder that has the mark is not the replica any more, wherever
the copy's directory is.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.broker.replication.storage.directory_files import (
    PartitionIdentity,
    folder_name,
    parse_folder_name,
)
from quorate.log import Log, TopicPartition
from quorate.runtime import Disk, parse_uuid, read_file, uuid_text, write_file_atomically

MOVED_MARK: Final = "partition.moved"
"""Ours: in the folder of a replica that was moved to another directory."""
NAME_MAX: Final = 255
"""The longest name of a folder, in bytes, as file systems have it."""
_SUFFIX: Final = "-future"
_UNIQUE_LENGTH: Final = 32
_VERSION: Final = 0


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
    return f"{folder_name(topic, partition_id)}.{unique.hex}{_SUFFIX}"


def fits_future_name(topic: str, partition_id: int) -> bool:
    """Return whether a file system takes the name of a future replica's folder."""
    return len(future_folder_name(topic, partition_id, uuid.UUID(int=0)).encode()) <= NAME_MAX


def parse_future_name(name: str) -> TopicPartition | None:
    """Return the topic and partition, or None for another folder."""
    stem, _, unique = name.removesuffix(_SUFFIX).rpartition(".")
    if not name.endswith(_SUFFIX) or len(unique) != _UNIQUE_LENGTH:
        return None
    return parse_folder_name(stem)


async def store_moved(disk: Disk, folder: str, moved: MovedTo) -> None:
    """Write the mark durably. Raises `DiskError`; it may be there then, or not."""
    fields = {"version": _VERSION, "directory": uuid_text(moved.directory), "folder": moved.folder}
    await write_file_atomically(disk, f"{folder}/{MOVED_MARK}", json.dumps(fields).encode())


def load_moved(disk: Disk, folder: str) -> MovedTo:
    """Read the mark. Raises `UnreadableMovedMarkError`."""
    path = f"{folder}/{MOVED_MARK}"
    try:
        fields = json.loads(read_file(disk, path))
        if not isinstance(fields, dict) or fields.get("version") != _VERSION:
            raise UnreadableMovedMarkError(path, f"not a mark of version {_VERSION}")
        return MovedTo(parse_uuid(str(fields["directory"])), str(fields["folder"]))
    except (ValueError, KeyError, RecursionError) as error:
        raise UnreadableMovedMarkError(path, f"unreadable ({error})") from error
