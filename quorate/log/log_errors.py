"""Errors of a log, grouped by the party that can act on them."""

from typing import Final

from quorate.types import Offset, SnapshotId

NEWER_WROTE_IT: Final = "a newer quorate wrote it"
"""Ends a problem that another version of quorate may have none with."""
START_NEWER: Final = "Start the version of quorate that wrote it, or a newer one"
AS_NEW_REPLICA: Final = (
    "or move the folder away and let the node come back empty as a new replica: "
    "docs/how-to/replace-a-disk.md says when that is safe"
)
_OTHERWISE: Final = (
    "If that can't be: a partition's replica is fetched anew (docs/how-to/recover-a-damaged-replica.md), and "
    "its folder stays where it is. A node whose metadata log is damaged comes back as a new replica: move "
    "the folder away, docs/how-to/replace-a-disk.md says when that is safe"
)


class LogError(Exception):
    """The root of the errors of this package."""


class InvalidBatchError(LogError):
    """The sender's records are invalid. The log is unchanged.

    `position`: the byte in the given buffer at which the invalid batch starts.
    """

    def __init__(self, problem: str, *, position: int) -> None:
        super().__init__(f"record batch at byte {position}: {problem}")
        self.problem = problem
        self.position = position


class BatchTooLargeError(InvalidBatchError):
    """A batch is larger than `LogConfig.max_batch_bytes`. The log is unchanged."""


class OffsetGapError(InvalidBatchError):
    """The records don't start at the log's end, or not at the end of the batch before."""


class EpochRegressionError(InvalidBatchError):
    """The records are of an older epoch than the log's last ones."""


class OffsetOutOfRangeError(LogError):
    """The offset is outside of [log start, log end]."""

    def __init__(self, offset: int, *, log_start_offset: Offset, end_offset: Offset) -> None:
        super().__init__(
            f"offset {offset} is outside of the log, which is [{log_start_offset}, {end_offset})"
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.end_offset = end_offset


class LogFailedError(LogError):
    """An earlier write or sync of this log failed, so the end of its files is unknown. Open the log again,
    which recovers it (KAFKA-10778)."""


class LogInterruptedError(LogFailedError):
    """A change of this log was cancelled halfway. The disk works. Open the log again, which recovers it."""


class CompactionAbandonedError(LogError):
    """The log was truncated, closed or moved while it was compacted. Completed groups of segments stay
    compacted, the others are unchanged. The next compaction begins anew."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder}: the log was cut, closed or moved while it was compacted")


class DamagedLogError(LogError):
    """A part of the log that was durable can't be read. The node must not start with this log."""

    _why = "This was durable once, so it can't be cut off"

    def __init__(self, path: str, position: int, problem: str) -> None:
        if problem.endswith(NEWER_WROTE_IT):
            remedy = f"{START_NEWER}. If none did, restore the folder from this node's disk. {_OTHERWISE}"
        else:
            remedy = f"Restore the folder from this node's disk. {_OTHERWISE}"
        super().__init__(f"{path}, byte {position}: {problem}. {self._why}. {remedy}")
        self.path = path
        self.position = position
        self.problem = problem


class IncompleteLogError(DamagedLogError):
    """A part of the log is missing or can't be read, although a killed process leaves it whole and its
    partition counts on it."""

    _why = (
        "The process that wrote it was only killed, so its last append at most may be torn; the rest is not "
        "cut off as long as the partition counts on this replica"
    )


class DamagedSnapshotError(LogError):
    """A snapshot has a bad CRC, or lacks or repeats a part. No part of it may be used."""

    def __init__(self, path: str, position: int, problem: str, *, snapshot: SnapshotId) -> None:
        if problem.endswith(NEWER_WROTE_IT):
            remedy = f"{START_NEWER}. If none did, restore the file from this node's disk, {AS_NEW_REPLICA}"
        else:
            remedy = (
                "A damaged snapshot is never loaded. Restore the file from this node's disk, "
                f"{AS_NEW_REPLICA}"
            )
        super().__init__(f"{path}, byte {position}: {problem}. {remedy}")
        self.path = path
        self.position = position
        self.problem = problem
        self.snapshot = snapshot


class SnapshotMissingError(LogError):
    """The snapshot never existed here, or was deleted (SNAPSHOT_NOT_FOUND)."""

    def __init__(self, snapshot: SnapshotId) -> None:
        super().__init__(f"no snapshot {snapshot.end_offset}-{snapshot.epoch}")
        self.snapshot = snapshot


class PositionOutOfRangeError(LogError):
    """The snapshot has no bytes at this position (POSITION_OUT_OF_RANGE)."""

    def __init__(self, snapshot: SnapshotId, position: int, *, size: int) -> None:
        super().__init__(
            f"position {position} of snapshot {snapshot.end_offset}-{snapshot.epoch}, which has {size} bytes"
        )
        self.snapshot = snapshot
        self.position = position
        self.size = size


class UncoveredLogStartError(LogError):
    """The log starts above offset 0, and no snapshot holds what came before (KAFKA-14240)."""

    def __init__(self, folder: str, log_start_offset: int, latest: SnapshotId | None) -> None:
        has = "there is none" if latest is None else f"the latest ends at {latest.end_offset}"
        super().__init__(
            f"{folder}: the log starts at offset {log_start_offset}, so a snapshot must end there or above, "
            f"but {has}. Restore the .checkpoint file from this node's disk, {AS_NEW_REPLICA}"
        )
        self.log_start_offset = log_start_offset
        self.latest = latest
