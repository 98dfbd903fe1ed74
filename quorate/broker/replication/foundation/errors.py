"""The errors of partitions, replicas and directories."""

from collections.abc import Sequence

from quorate.broker.replication.foundation.purgatory import Watchers
from quorate.error_code import ErrorCode
from quorate.types import Epoch


class PartitionError(Exception):
    """A request that one partition refuses, with the error code for the client. `records`: the rejected
    records of a batch, each with its index in the batch and the reason (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, *, records: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.records = tuple(records)


class NotOpenedError(PartitionError):
    """This broker leads the partition in `leader_epoch` and has yet to open its log. `opening` hears of the
    end of that, however it ends."""

    def __init__(self, message: str, *, leader_epoch: Epoch, opening: Watchers) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
        self.leader_epoch = leader_epoch
        self.opening = opening


class ReplicaFailedError(Exception):
    """The replica can't continue: to follow its leader would lose committed records, or its log failed."""


class AllDirectoriesFailedError(Exception):
    """The broker stops, because all directories of `log.dirs` have failed, or the folder of the metadata log
    has."""


class DuplicateReplicaError(Exception):
    """A partition has a folder in two directories, both of the same topic id. One is older; only an
    operator can tell which."""

    def __init__(self, partition: str, first: str, second: str) -> None:
        super().__init__(
            f"{partition} is in {first} and in {second}: one is a copy from before that directory was "
            "missing. Keep the one in the directory that the metadata names for this broker (the partition's "
            "`directories` in `quorate log dump`), or the newer one if it names neither; move the other "
            "folder away, outside of log.dirs, and start again"
        )
