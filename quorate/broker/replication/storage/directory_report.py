"""The directories of `log.dirs` as DescribeLogDirs shows them."""

import os.path
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

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
    """One folder. Without a `failure` it has `space`, `logs`, those that are open, as they go on, and
    `futures`."""

    path: str
    """Absolute."""
    failure: str | None = None
    space: DiskSpace | None = None
    logs: Mapping[TopicPartition, Log] = field(default_factory=dict)
    futures: Mapping[TopicPartition, FutureProgress] = field(default_factory=dict)


def report(
    disk: Disk,
    path: str,
    *,
    failure: str | None,
    logs: Mapping[TopicPartition, Log] | None = None,
    futures: Mapping[TopicPartition, FutureProgress] | None = None,
) -> DirectoryReport:
    """Describe a folder. One whose file system can't tell its space counts as failed."""
    absolute = os.path.abspath(path)
    if failure is None:
        try:
            return DirectoryReport(
                path=absolute, space=disk.space(path), logs=logs or {}, futures=futures or {}
            )
        except DiskError as error:
            failure = str(error)
    return DirectoryReport(path=absolute, failure=failure)
