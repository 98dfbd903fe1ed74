"""A fetch session (KIP-227): what a client fetches, remembered, so that a request names only what is new and
an answer only what has changed.

A partition costs nothing while it stays as it is. It observes its replica; a change makes it dirty, and a
request looks at what it names and at what is dirty. Kafka walks the whole session in every request.
"""

from collections.abc import Iterator
from typing import TypeAlias

from quorate.broker.replication.purgatory import Waiter, Watchers
from quorate.broker.replication.replica import FetchClock, PartitionReplica
from quorate.broker.replication.requests import FetchItem, FetchResult, TopicRef
from quorate.error_code import ErrorCode
from quorate.types import UNKNOWN_OFFSET

PartitionKey: TypeAlias = tuple[TopicRef, int]

_LAST_EPOCH = 2**31 - 1


class SessionPartition:
    """One partition of a session, with what the client asked for and what it was told."""

    __slots__ = (
        "_sent_high_watermark",
        "_sent_log_start",
        "item",
        "opening",
        "replica",
        "session",
        "touched",
    )

    def __init__(self, session: "FetchSession", item: FetchItem) -> None:
        self.session = session
        self.item = item
        self.replica: PartitionReplica | None = None
        """The replica that it observes."""
        self.opening: Watchers | None = None
        """Where it waits for the replica's log to be opened."""
        self.touched = False
        """Whether it has changed since it was last read."""
        self._sent_high_watermark = self._sent_log_start = UNKNOWN_OFFSET

    def changed(self, *, wake: bool) -> None:
        """The replica has changed (`Observer`)."""
        self.touched = True
        self.session.mark(self, wake=wake or self.session.eager)

    def observe(self, replica: PartitionReplica | None) -> None:
        """Observe this replica, in place of another that had the same name."""
        if self.replica is replica:
            return
        self.let_go()
        self.replica = replica
        if replica is not None:
            replica.watchers.attach(self, follower=self.session.from_follower)

    def await_opening(self, opening: Watchers) -> None:
        """Change next when the replica's log is open."""
        self.let_go()
        self.opening = opening
        opening.attach(self, follower=True)
        self.session.dirty.pop(self, None)

    def let_go(self) -> None:
        """Observe nothing any more."""
        if self.opening is not None:
            self.opening.detach(self)
            self.opening = None
        if self.replica is not None:
            self.replica.watchers.detach(self)
            if self.session.from_follower:
                self.replica.leave_session(self.session.replica_id, self.session.clock)
            self.replica = None

    def is_news(self, result: FetchResult) -> bool:
        """Return whether an incremental answer has to have this result."""
        return bool(
            result.records
            or result.urgent
            or result.high_watermark != self._sent_high_watermark
            or result.log_start_offset != self._sent_log_start
        )

    def not_sent(self) -> None:
        """What was sent is of no use to the client any more."""
        self._sent_high_watermark = self._sent_log_start = UNKNOWN_OFFSET

    def sent(self, result: FetchResult) -> None:
        """`result` is in an answer. After an error, the first good result is news."""
        failed = result.error is not ErrorCode.NONE
        self._sent_high_watermark = UNKNOWN_OFFSET if failed else result.high_watermark
        self._sent_log_start = UNKNOWN_OFFSET if failed else result.log_start_offset


class FetchSession:
    """Its `epoch` is that of the next incremental request."""

    __slots__ = (
        "_partitions",
        "answered",
        "clock",
        "counted",
        "created_at",
        "dirty",
        "eager",
        "epoch",
        "from_follower",
        "parked",
        "replica_epoch",
        "replica_id",
        "session_id",
        "used_at",
        "with_ids",
        "woken",
    )

    def __init__(
        self, session_id: int, *, with_ids: bool, replica_id: int, replica_epoch: int, now: float
    ) -> None:
        self.session_id = session_id
        self.with_ids = with_ids
        """Whether its requests name topics by id (Fetch 13 and later)."""
        self.replica_id = replica_id
        self.from_follower = replica_id >= 0
        self.replica_epoch = replica_epoch
        """The follower's broker epoch: another life of it begins another session."""
        self.epoch = 1
        self.created_at = self.used_at = now
        self.eager = False
        """Whether it is told of a high watermark that moved too, without waiting for records."""
        self.answered = False
        """Whether it was told of all its partitions once."""
        self.clock = FetchClock(now)
        self.counted = 0
        """How many partitions the cache counts for it: a request may be overtaken while it names its own."""
        self.dirty: dict[SessionPartition, None] = {}
        """What the next request looks at; what gave records last comes last."""
        self.woken = False
        """Whether a change came that a waiting fetch can be answered with."""
        self.parked: Waiter | None = None
        self._partitions: dict[PartitionKey, SessionPartition] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def closed(self) -> bool:
        return self.epoch < 0

    def next_epoch(self) -> int:
        """Let the epoch move on, and return it."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        return self.epoch

    def name(self, item: FetchItem) -> SessionPartition:
        """Take in what a request says of a partition: it is new, or fetched from elsewhere."""
        key = (item.topic, item.partition_id)
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = SessionPartition(self, item)
        elif found.item.current_leader_epoch != item.current_leader_epoch:
            found.not_sent()
        found.item = item
        found.touched = True
        self.dirty[found] = None
        return found

    def forget(self, key: PartitionKey) -> None:
        """Fetch it no longer. An unknown one is passed over, as Kafka does."""
        found = self._partitions.pop(key, None)
        if found is not None:
            self.dirty.pop(found, None)
            found.let_go()

    def mark(self, partition: SessionPartition, *, wake: bool) -> None:
        """A partition is dirty."""
        self.dirty[partition] = None
        if wake:
            self.woken = True
            if self.parked is not None:
                self.parked.complete()

    def mark_all(self) -> Iterator[None]:
        """Make everything dirty, in steps."""
        for partition in list(self._partitions.values()):
            self.dirty[partition] = None
            yield

    def close(self) -> Iterator[None]:
        """Observe nothing any more, in steps. What waits is answered that the session is no more."""
        self.epoch = -1
        if self.parked is not None:
            self.parked.complete()
        while self._partitions:
            self._partitions.popitem()[1].let_go()
            yield
        self.dirty.clear()
