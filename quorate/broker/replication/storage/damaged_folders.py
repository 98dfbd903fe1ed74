"""The folders of damaged logs that were set aside: no replicas any more, kept until a person removes them."""

import uuid
from typing import Final, NamedTuple

from quorate.broker.replication.storage.directory_files import parse_folder_name
from quorate.broker.replication.storage.future_folders import NAME_MAX

_SUFFIX: Final = "-damaged"
_UNIQUE_LENGTH: Final = 32


class SetAsideFolder(NamedTuple):
    """A folder with a damaged log."""

    path: str
    topic: str
    """Its beginning, where the whole name was too long for a folder's."""
    partition_id: int


def damaged_folder_name(topic: str, partition_id: int, unique: uuid.UUID) -> str:
    """Return `topic-partition.unique-damaged`; of a long topic the beginning, so that a file system takes
    it."""
    end = f"-{partition_id}.{unique.hex}{_SUFFIX}"
    return f"{topic[: NAME_MAX - len(end)]}{end}"


def parse_damaged_name(log_directory: str, name: str) -> SetAsideFolder | None:
    """Return what a folder of a directory holds, or None for another folder."""
    stem, _, unique = name.removesuffix(_SUFFIX).rpartition(".")
    key = parse_folder_name(stem)
    if not name.endswith(_SUFFIX) or len(unique) != _UNIQUE_LENGTH or key is None:
        return None
    return SetAsideFolder(f"{log_directory}/{name}", *key)
