"""Kafka's error codes, as far as partitions answer with them. Numbers and names are Kafka's own."""

import enum
from collections.abc import Sequence


class ErrorCode(enum.IntEnum):
    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    KAFKA_STORAGE_ERROR = 56
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    UNKNOWN_TOPIC_ID = 100


class PartitionError(Exception):
    """A request that one partition refuses, with the code that the client is given. `records`: which records
    of a batch are at fault, by their indexes in it, and why (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, *, records: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.records = tuple(records)


class ReplicaFailedError(Exception):
    """This replica can't go on: what its leader asks for would lose committed records, or its log failed."""


class AllFoldersFailedError(Exception):
    """No folder of `log.dirs` is left to serve, or the one of the metadata log failed: the broker stops."""


class DuplicateReplicaError(Exception):
    """A partition has a folder in two directories: one of them is older, and only a person can say which."""

    def __init__(self, partition: str, first: str, second: str) -> None:
        super().__init__(
            f"{partition} is in {first} and in {second}: one is a copy from before that directory was "
            "missing. Keep the one in the directory that the metadata names for this broker (the partition's "
            "`directories` in `quorate log dump`), or the newer one if it names neither; move the other "
            "folder away, outside of log.dirs, and start again"
        )
