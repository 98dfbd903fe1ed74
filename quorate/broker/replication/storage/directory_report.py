"""The folders of `log.dirs` as DescribeLogDirs shows them."""

import os.path
from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.log import Log, TopicPartition
from quorate.runtime import Disk, DiskError, DiskSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryReport:
    """One folder. Without a `failure` it has `space`, and `logs`: those that are open, as they go on."""

    path: str
    """Absolute."""
    failure: str | None = None
    space: DiskSpace | None = None
    logs: Mapping[TopicPartition, Log] = field(default_factory=dict)


def report(
    disk: Disk, path: str, *, failure: str | None, logs: Mapping[TopicPartition, Log]
) -> DirectoryReport:
    """Describe a folder. One whose file system can't tell its space counts as failed."""
    absolute = os.path.abspath(path)
    if failure is None:
        try:
            return DirectoryReport(path=absolute, space=disk.space(path), logs=logs)
        except DiskError as error:
            failure = str(error)
    return DirectoryReport(path=absolute, failure=failure)
