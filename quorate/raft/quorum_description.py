"""The time of each replica's last fetch, for DescribeQuorum (KIP-836). The core reads no clock, so the driver
records it."""

from dataclasses import dataclass

from quorate.raft.core import Core, FetchRequest, Role
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId

_OBSERVER_SILENCE_MS = 300_000
"""After this long an observer is forgotten (KIP-836)."""
_REPLICAS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """The leader's view of one replica (KIP-836). Times are in ms of the leader's wall clock. None: not
    known."""

    key: ReplicaKey
    endpoint: Endpoint | None = None
    """The endpoint of a voter. Observers may have none."""
    log_end_offset: Offset | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The leader's view of its quorum (KIP-836). The high watermark is exclusive. None: it is not known
    yet."""

    leader: NodeId
    epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[ReplicaStatus, ...]
    observers: tuple[ReplicaStatus, ...]


@dataclass(frozen=True, slots=True)
class StateAt:
    """The digest of a node's state below the end of a snapshot (see `StateDigest`)."""

    snapshot: SnapshotId
    form: str
    digest: str


@dataclass(frozen=True, slots=True)
class CodeSupport:
    """The abilities of the code that a node runs."""

    code_version: int
    """The `code_version` of its state machine: the highest state version that it can apply."""
    sessions: bool
    """True if its state machine is a `Sessions`."""


@dataclass(slots=True)
class _Times:
    last_fetch_ms: int
    last_fetch_log_end_offset: Offset
    """The leader's log end at the last fetch."""
    last_caught_up_ms: int | None = None


class ReplicaTimes:
    """The times of the replicas, kept by the leader for its epoch, and for a thousand of them at most."""

    __slots__ = ("_epoch", "_times")

    def __init__(self) -> None:
        self._epoch = Epoch(0)
        self._times: dict[ReplicaKey, _Times] = {}

    def note_fetch(self, request: FetchRequest, core: Core, *, now_ms: int) -> bool:
        """Record a request after the core has stepped it. Returns whether it counts: this node leads in its
        epoch and took it."""
        if not _was_taken(request, core):
            return False
        if core.epoch != self._epoch:
            self._epoch = core.epoch
            self._times.clear()
        times = self._times.get(request.replica)
        if times is None:
            if len(self._times) >= _REPLICAS_MAX:
                del self._times[min(self._times, key=lambda key: self._times[key].last_fetch_ms)]
            times = self._times[request.replica] = _Times(now_ms, Offset(-1))
        if request.offset >= core.log_end_offset:
            times.last_caught_up_ms = now_ms
        elif 0 <= times.last_fetch_log_end_offset <= request.offset:
            # It has what was there when it fetched before: it was caught up then.
            times.last_caught_up_ms = times.last_fetch_ms
        times.last_fetch_ms = now_ms
        times.last_fetch_log_end_offset = core.log_end_offset
        return True

    def describe(self, core: Core, own: ReplicaKey, *, now_ms: int) -> QuorumDescription:
        """Return the leader's view. This node must lead."""
        ends = core.replica_end_offsets()
        if core.epoch != self._epoch:
            self._times.clear()

        def status(key: ReplicaKey) -> ReplicaStatus:
            if key.id == own.id:
                return ReplicaStatus(
                    key=own,
                    log_end_offset=core.log_end_offset,
                    last_fetch_ms=now_ms,
                    last_caught_up_ms=now_ms,
                    endpoint=core.voters.endpoint_of(key.id),
                )
            known = next((replica for replica in ends if replica.matches(key)), None)
            # A voter of the configuration has no directory, its fetches name one: the latest is the voter's.
            fetching, times = max(
                ((each, times) for each, times in self._times.items() if each.matches(key)),
                key=lambda fetched: fetched[1].last_fetch_ms,
                default=(key, None),
            )
            return ReplicaStatus(
                key=fetching if key.directory_id is None else key,
                log_end_offset=None if known is None else ends[known],
                last_fetch_ms=None if times is None else times.last_fetch_ms,
                last_caught_up_ms=None if times is None else times.last_caught_up_ms,
                endpoint=core.voters.endpoint_of(key.id),
            )

        observers = [
            status(key)
            for key, times in self._times.items()
            # A voter's node with another directory is none of the voters: it may not vote.
            if not any(voter.key.matches(key) for voter in core.voters)
            and now_ms - times.last_fetch_ms <= _OBSERVER_SILENCE_MS
        ]
        return QuorumDescription(
            leader=own.id,
            epoch=core.epoch,
            high_watermark=core.high_watermark,
            voters=tuple(status(voter.key) for voter in core.voters),
            observers=tuple(sorted(observers, key=lambda replica: replica.key.id)),
        )


def _was_taken(request: FetchRequest, core: Core) -> bool:
    """Return whether the leader counted the request: for it, in its epoch, and of a log that matches."""
    if (
        core.role is not Role.LEADER
        or request.epoch != core.epoch
        or request.destination != core.node_id
        or request.source != request.replica.id
    ):
        return False
    if request.last_fetched_epoch == core.log_end_epoch and request.offset <= core.log_end_offset:
        return True  # what every follower that keeps up asks
    ends = core.replica_end_offsets()
    return any(key.matches(request.replica) and end == request.offset for key, end in ends.items())
