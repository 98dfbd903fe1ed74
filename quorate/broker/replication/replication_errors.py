"""The errors of partitions, replicas and directories."""

from collections.abc import Sequence

from quorate.error_code import ErrorCode


class PartitionError(Exception):
    """A request that one partition refuses, with the code that the client is given. `records`: which records
    of a batch are at fault, by their indexes in it, and why (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, *, records: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.records = tuple(records)


class ReplicaFailedError(Exception):
    """The replica can't go on: its leader's request would lose committed records, or its log failed."""


class AllFoldersFailedError(Exception):
    """The broker stops: all folders of `log.dirs` failed, or the one of the metadata log did."""


class DuplicateReplicaError(Exception):
    """A partition has a folder in two directories, both of the same topic id: one is older, and only a person
    can say which."""

    def __init__(self, partition: str, first: str, second: str) -> None:
        super().__init__(
            f"{partition} is in {first} and in {second}: one is a copy from before that directory was "
            "missing. Keep the one in the directory that the metadata names for this broker (the partition's "
            "`directories` in `quorate log dump`), or the newer one if it names neither; move the other "
            "folder away, outside of log.dirs, and start again"
        )
