"""What stands in a folder of `log.dirs` beside the segments: which partition a folder holds, and how the
broker left."""

import json
import uuid
from typing import Final

from quorate.runtime.disk import Disk, read_file, write_file_atomically
from quorate.runtime.entropy import parse_uuid, uuid_text

PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
DELETED_MARK: Final = "partition.deleted"
"""Ours: in a folder whose removal has begun, so that what a crash leaves of it is removed, not opened."""
_VERSION: Final = 0


class UnreadablePartitionMetadataError(Exception):
    """The folder holds records, and nothing says of which topic they are."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}. Restore the file ('version: 0', then 'topic_id: ' and the topic's id, as "
            "'quorate topics describe' shows it), or move the folder away: the replica is then fetched anew"
        )


def folder_name(topic: str, partition_id: int) -> str:
    return f"{topic}-{partition_id}"


def parse_folder_name(name: str) -> tuple[str, int] | None:
    """None for what is no partition's folder."""
    topic, separator, number = name.rpartition("-")
    return (topic, int(number)) if separator and topic and number.isdecimal() else None


async def store_partition_metadata(disk: Disk, folder: str, topic_id: uuid.UUID) -> None:
    """Durable when it returns."""
    content = f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}\n"
    await write_file_atomically(disk, f"{folder}/{PARTITION_METADATA}", content.encode())


def load_partition_metadata(disk: Disk, folder: str) -> uuid.UUID | None:
    """The topic's id; None if there is no such file. Raises `UnreadablePartitionMetadataError`."""
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
        return parse_uuid(fields["topic_id"])
    except ValueError as error:
        raise UnreadablePartitionMetadataError(path, str(error)) from error


async def store_clean_shutdown(disk: Disk, log_dir: str, broker_epoch: int) -> None:
    """The last thing that an orderly shutdown writes. Kafka's format (KIP-966)."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
    await write_file_atomically(disk, f"{log_dir}/{CLEAN_SHUTDOWN}", content.encode())


async def take_clean_shutdown(disk: Disk, log_dir: str) -> int | None:
    """The broker epoch of the shutdown that left this folder clean, None if none did. The mark is gone,
    durably, when this returns: from now on the folder is dirty."""
    path = f"{log_dir}/{CLEAN_SHUTDOWN}"
    try:
        content = read_file(disk, path)
    except FileNotFoundError:
        return None
    disk.remove(path)
    await disk.sync_folder(log_dir)
    try:
        found = json.loads(content)
        epoch = found["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return None
    return epoch if isinstance(epoch, int) else None
