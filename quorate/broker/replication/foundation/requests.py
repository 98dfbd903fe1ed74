"""The requests of API handlers to the replica manager, and its answers. Plain values; wire types stay
outside."""

import uuid
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from quorate.error_code import ErrorCode
from quorate.runtime import Buffer, Steps, let_go
from quorate.types import UNKNOWN_EPOCH, UNKNOWN_OFFSET, Epoch, Offset
from quorate.value import value

TopicRef: TypeAlias = str | uuid.UUID
"""A topic by name or by id."""

CONSUMER = -1
"""The replica id of consumers."""


@value(frozen=True, slots=True)
class ProduceItem:
    """Record batches for one partition. They may be views of a receive buffer: the callee keeps no
    reference."""

    topic: TopicRef
    partition_id: int
    records: Buffer


@value(frozen=True, slots=True, kw_only=True)
class ProduceResult:
    """The outcome for one partition. `append_time_ms`: -1 if the timestamps are the producer's."""

    topic: TopicRef
    partition_id: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    base_offset: Offset = UNKNOWN_OFFSET
    append_time_ms: int = -1
    log_start_offset: Offset = UNKNOWN_OFFSET
    record_errors: tuple[tuple[int, str], ...] = ()
    """The index of a record in its batch, and the fault in it."""
    duplicate: bool = False
    """The batch was sent before; the offsets are those of its first append."""


@value(frozen=True, slots=True)
class FetchItem:
    """The part of a Fetch request for one partition."""

    topic: TopicRef
    partition_id: int
    fetch_offset: Offset
    max_bytes: int
    current_leader_epoch: Epoch = UNKNOWN_EPOCH
    """The leader epoch that the client believes in; -1: not checked."""
    last_fetched_epoch: Epoch = UNKNOWN_EPOCH
    """A follower's epoch of the record before `fetch_offset`; -1: none, or not checked."""
    log_start_offset: Offset = UNKNOWN_OFFSET
    """The log start of a follower."""


@value(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The part of a Fetch request that applies to all its partitions. `max_bytes`: the limit over all
    partitions; one batch is returned even if it is larger (KIP-74)."""

    items: Sequence[FetchItem]
    max_wait_ms: int
    min_bytes: int = 1
    max_bytes: int = 57_671_680
    replica_id: int = CONSUMER
    replica_epoch: int = -1
    """The follower's broker epoch (KIP-903)."""
    zstd: bool = True
    """True if the client's version of Fetch knows zstd (KIP-110)."""
    any_replica: bool = False
    """Whether a follower may answer, and a leader name one: the version of a consumer knows it (KIP-392)."""
    rack_id: str = ""
    """The consumer's rack; "" if it has none."""
    listener: str = ""
    """The listener at which the consumer would look for another replica."""
    permission: "ReadPermission | None" = None
    """What its client may read; None: everything."""

    @property
    def from_follower(self) -> bool:
        """Return whether a follower sent the request."""
        return self.replica_id >= 0

    def let_go_steps(self) -> Steps[None]:
        """Drop the references to all partitions."""
        if isinstance(self.items, list):
            yield from let_go(self.items)


class ReadPermission(Protocol):
    """What the client of a fetch may read, looked at whenever a partition is read for it: also after a wait,
    and in a session (NATS 2026-26)."""

    @property
    def version(self) -> object:
        """Return a value that differs whenever an earlier `allows` may no longer hold."""
        ...

    def allows(self, topic: TopicRef) -> bool: ...


@value(frozen=True, slots=True, kw_only=True)
class SessionRef:
    """The fetch session that a request names (KIP-227)."""

    session_id: int
    """0: none yet."""
    epoch: int
    """-1: full, without a session; 0: full, and one is wanted; above: only the changes since the last."""
    with_ids: bool
    """Whether the request names topics by id."""


@value(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """The answer for one partition. `high_watermark` and `last_stable_offset` are exclusive; -1: unknown.
    Without transactions both are equal. `records` are whole batches, which must not be changed."""

    topic: TopicRef
    partition_id: int
    error: ErrorCode = ErrorCode.NONE
    high_watermark: Offset = UNKNOWN_OFFSET
    last_stable_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    diverging_epoch: tuple[Epoch, Offset] | None = None
    """(epoch, its end offset) where the follower's log departs."""
    leader: tuple[int, Epoch] | None = None
    """(leader, leader epoch), as this broker knows them, with the errors that a client can use them for."""
    records: tuple[Buffer, ...] = ()
    preferred_read_replica: int = -1
    """The broker that a consumer had better read from; -1: this one (KIP-392)."""

    @property
    def size(self) -> int:
        """Return the size of the records in bytes."""
        return sum(map(len, self.records))

    @property
    def urgent(self) -> bool:
        """Return whether the answer must not wait for more records."""
        return (
            self.error is not ErrorCode.NONE
            or self.diverging_epoch is not None
            or self.preferred_read_replica >= 0
        )


@value(frozen=True, slots=True, kw_only=True)
class OffsetResult:
    """Answer to ListOffsets: -1 everywhere if no record matches."""

    error: ErrorCode = ErrorCode.NONE
    offset: Offset = UNKNOWN_OFFSET
    timestamp: int = -1
    leader_epoch: Epoch = UNKNOWN_EPOCH


@value(frozen=True, slots=True, kw_only=True)
class EpochEndResult:
    """Answer to OffsetForLeaderEpoch: the largest epoch not above the one asked for, its end exclusive."""

    error: ErrorCode = ErrorCode.NONE
    leader_epoch: Epoch = UNKNOWN_EPOCH
    end_offset: Offset = UNKNOWN_OFFSET


@value(frozen=True, slots=True)
class DeleteRecordsItem:
    """Delete the records of a partition below `offset` (exclusive). -1: below the high watermark."""

    topic: TopicRef
    partition_id: int
    offset: Offset


@value(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResult:
    """The outcome for one partition. `low_watermark`: the lowest log start of all live replicas; -1 with
    an error."""

    topic: TopicRef
    partition_id: int
    error: ErrorCode = ErrorCode.NONE
    low_watermark: Offset = UNKNOWN_OFFSET


@value(frozen=True, slots=True, kw_only=True)
class DescribedProducer:
    """An idempotent producer of one partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """The sequence of its last record (inclusive)."""
    last_timestamp_ms: int
    """The wall clock when this broker saw its last batch: the time until it expires counts from here. Kafka
    has the largest timestamp in that batch, which the producer chooses."""
