"""The types that all packages share: nodes, epochs, and places in a log (KIP-595, KIP-630, KIP-853)."""

from collections.abc import Iterator
from typing import Annotated, Final, NewType

from quorate.bounds import Integer
from quorate.value import value

NodeId = NewType("NodeId", int)
Epoch = NewType("Epoch", int)
Offset = NewType("Offset", int)
"""A position in the log. Names say whether it is inclusive (`last_offset`, `base_offset`) or exclusive
(`end_offset`, the high watermark)."""


class SecretBytes(bytes):
    """Bytes that nothing shows: neither a log line, nor JSON, nor a table of Spark."""

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__


HIDDEN: Final = "[hidden]"
"""The text that is shown in the place of a secret."""

UNKNOWN_EPOCH: Final = Epoch(-1)
UNKNOWN_OFFSET: Final = Offset(-1)
"""The value in Kafka's messages for none."""
MAX_VOTERS: Final = 1000
"""Of one quorum, in a message of its nodes; as many observers."""


@value(frozen=True, slots=True)
class ReplicaKey:
    """The identity of a replica: its node id and the id of the directory with its log (KIP-853). A missing
    directory id matches every directory."""

    id: NodeId
    directory_id: str | None = None

    def matches(self, other: "ReplicaKey") -> bool:
        """Return True if both keys may name the same replica: equal node ids, and no different directory
        ids."""
        return self.id == other.id and (
            self.directory_id is None or other.directory_id is None or self.directory_id == other.directory_id
        )


@value(frozen=True, slots=True)
class Endpoint:
    """The host and the port at which a node is reached."""

    host: str
    port: Annotated[int, Integer(low=1, high=65535)]


@value(frozen=True, slots=True)
class Voter:
    """A voter: its identity, and the endpoint at which other nodes reach it."""

    key: ReplicaKey
    endpoint: Endpoint


@value(frozen=True, slots=True)
class VoterSet:
    """A set of voters, ordered by id. Iteration has the same order on every node."""

    voters: tuple[Voter, ...]

    def __post_init__(self) -> None:
        ids = [voter.key.id for voter in self.voters]
        if sorted(set(ids)) != ids:
            raise ValueError(f"voter ids must be distinct and in order, not {ids}")

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    def __contains__(self, node: object) -> bool:
        return any(voter.key.id == node for voter in self.voters)

    @property
    def ids(self) -> tuple[NodeId, ...]:
        """The ids of the voters, in ascending order."""
        return tuple(voter.key.id for voter in self.voters)

    @property
    def majority(self) -> int:
        """The number of voters that form a majority."""
        return len(self.voters) // 2 + 1

    def has(self, key: ReplicaKey) -> bool:
        """Return True if a voter of this set matches `key`."""
        return any(voter.key.matches(key) for voter in self.voters)

    def endpoint_of(self, node: NodeId) -> Endpoint | None:
        """Return the endpoint of the voter with this id. None: it is not a voter."""
        return next((voter.endpoint for voter in self.voters if voter.key.id == node), None)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Return a copy of this set with `voter`, which replaces a voter of the same id."""
        others = (other for other in self.voters if other.key.id != voter.key.id)
        return VoterSet(tuple(sorted((*others, voter), key=lambda each: each.key.id)))

    def without(self, node: NodeId) -> "VoterSet":
        """Return a copy of this set without the voter of this id."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key.id != node))


@value(frozen=True, slots=True)
class EpochEnd:
    """An epoch and the end offset (exclusive) of its records."""

    epoch: Epoch
    end_offset: Offset


@value(frozen=True, slots=True)
class EpochStart:
    """An epoch and the offset of its first record."""

    epoch: Epoch
    start_offset: Offset


@value(frozen=True, slots=True, order=True)
class SnapshotId:
    """The id of a snapshot: it contains all records below `end_offset` (exclusive), and the last of them has
    `epoch` (KIP-630). `SnapshotId(0, 0)` is the bootstrap snapshot, which contains only the first voters."""

    end_offset: Offset
    epoch: Epoch


@value(frozen=True, slots=True)
class StateDigest:
    """A digest of the state that a snapshot holds. Two nodes that took a snapshot of one id have the same
    state if their digests are equal. Digests of different forms can't be compared."""

    form: str
    """The way in which the state was written: the version of quorate, and of the state machine."""
    digest: str
    """In hexadecimal digits, over all chunks of the state."""


@value(frozen=True, slots=True)
class VotersAt:
    """The voter set from a KRaftVoters control record on (KIP-853): it counts as soon as it is in the log."""

    offset: Offset
    """Of the record; of a snapshot's voters, the last offset that the snapshot holds (-1 in the
    bootstrap)."""
    voters: VoterSet


@value(frozen=True, slots=True)
class ElectionState:
    """The content of the quorum-state file (KIP-595). It is durable before any message depends on it."""

    epoch: Epoch
    leader: NodeId | None = None
    voted: ReplicaKey | None = None
    promise_ms: int = 0
    """The longest promise of read leases that this node may have given and that may still run. After a start
    it elects nobody for this time."""


@value(frozen=True, slots=True, kw_only=True)
class RecoveredLog:
    """The content of the local log at the start, all of it durable."""

    epochs: tuple[EpochStart, ...] = ()
    """Epoch cache: strictly increasing epochs and start offsets."""
    log_start_offset: Offset = Offset(0)
    start_epoch: Epoch = Epoch(0)
    """Of the record below the log start, which only a snapshot still holds; 0 at offset 0."""
    end_offset: Offset = Offset(0)
    snapshot: SnapshotId | None = None
    """The latest complete snapshot in the folder. Not the bootstrap's. Its end is at or above the log
    start."""
    voters: tuple[VotersAt, ...] = ()
    """Voter sets found in the latest snapshot and in the log above it, by offset. Empty while the set is
    static."""

    @property
    def last_epoch(self) -> Epoch:
        return self.epochs[-1].epoch if self.epochs else self.start_epoch
