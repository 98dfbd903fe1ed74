"""The directories of `log.dirs` as the rest of the node sees them."""

import os.path
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from quorate.broker.replication.storage.directory_files import Proof
from quorate.log import Log, TopicPartition
from quorate.runtime import Disk, DiskError, DiskSpace


class FutureProgress(NamedTuple):
    """A future replica, and the replica in another directory that it is a copy of, if that is open."""

    log: Log
    current: Log | None

    @property
    def offset_lag(self) -> int:
        """The records that it has yet to copy; -1: unknown."""
        return -1 if self.current is None else max(self.current.end_offset - self.log.end_offset, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryReport:
    """One directory. Without a `failure` it has `space`, `logs`, those that are open, as they go on, and
    `futures`."""

    path: str
    """Absolute."""
    failure: str | None = None
    space: DiskSpace | None = None
    logs: Mapping[TopicPartition, Log] = field(default_factory=dict)
    futures: Mapping[TopicPartition, FutureProgress] = field(default_factory=dict)


class DirectoriesView(Protocol):
    """Reads of `LogManager`."""

    @property
    def online_ids(self) -> tuple[uuid.UUID, ...]:
        """The ids of the directories that work: what the broker registers."""
        ...

    @property
    def failed_ids(self) -> tuple[uuid.UUID, ...]:
        """The ids of the directories that have failed since the start."""
        ...

    @property
    def unused_dirs(self) -> tuple[str, ...]:
        """The paths of those that were bad at the start, or have failed since."""
        ...

    @property
    def proof(self) -> Proof:
        """The broker's newest life whose data is all here."""
        ...

    def reports(self) -> list[DirectoryReport]:
        """Describe every directory of `log.dirs` and the logs in it."""
        ...


def report(
    disk: Disk,
    path: str,
    *,
    failure: str | None,
    logs: Mapping[TopicPartition, Log] | None = None,
    futures: Mapping[TopicPartition, FutureProgress] | None = None,
) -> DirectoryReport:
    """Describe a directory. One whose file system can't tell its space counts as failed."""
    absolute = os.path.abspath(path)
    if failure is None:
        try:
            return DirectoryReport(
                path=absolute, space=disk.space(path), logs=logs or {}, futures=futures or {}
            )
        except DiskError as error:
            failure = str(error)
    return DirectoryReport(path=absolute, failure=failure)
