"""`__consumer_offsets`: which partition a group lives in, and what a coordinator needs of those led here."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from quorate.log.batches import Record, RecordContent
from quorate.types import Offset

OFFSETS_TOPIC: Final = "__consumer_offsets"


class GroupLogError(Exception):
    """The partition can't be read here: another broker leads it, or its log failed."""


class GroupLog(Protocol):
    """The partitions of `__consumer_offsets` that are led here."""

    def records(self, partition: int) -> AsyncIterator[Sequence[Record]]:
        """Read everything up to the log end offset as of the call, some hundred records at a time. Raises
        `GroupLogError`."""
        ...

    def append(
        self, partition: int, records: Sequence[RecordContent], done: Callable[[ErrorCode, Offset], None]
    ) -> None:
        """Append with acks=all, now. `done` gets the partition's error and the base offset, maybe before this
        returns."""
        ...


def java_hash(text: str) -> int:
    """Java's String.hashCode: clients and tools expect groups where Kafka would put them."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(group_id: str, partitions: int) -> int:
    """Return the partition by Kafka's Utils.abs: the one number without an absolute value counts as 0."""
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
