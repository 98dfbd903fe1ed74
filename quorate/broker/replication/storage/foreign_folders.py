"""Folders in `log.dirs` that have the name of a partition's folder, and are none."""

import re
from collections.abc import Iterable
from typing import Final

from quorate.broker.replication.storage.directory_files import PARTITION_METADATA
from quorate.broker.replication.storage.folder_removal import DELETED_MARK
from quorate.broker.replication.storage.future_folders import MOVED_MARK
from quorate.log import LEADER_EPOCHS

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
