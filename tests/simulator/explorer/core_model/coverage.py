"""The coverage of an exploration: events by role, and the impossible pairs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from quorate.raft.core import Event, Received, Role, TimerFired, TimerKind

Pair = tuple[Role, str]


def kind_of(event: Event) -> str:
    match event:
        case Received():
            return type(event.message).__name__
        case TimerFired():
            return _timer(event.timer.kind)
        case _:
            return type(event).__name__


def _timer(kind: TimerKind) -> str:
    return f"{kind.value} timer"


MESSAGES: Final = (
    "VoteRequest",
    "VoteResponse",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
)
TIMERS: Final = tuple(_timer(kind) for kind in TimerKind if kind is not TimerKind.PROMISE)
"""Read leases are off here: nothing is explored that measures time."""
LOCAL: Final = (
    "RequestFailed",
    "Unreachable",
    "Durable",
    "Propose",
    "Resign",
    "TransferLeadership",
    "ReadIndex",
    "ChangeVoters",
    "SnapshotTaken",
    "LogStartMoved",
    "SnapshotChecked",
    "SnapshotDamaged",
)
KINDS: Final = (*MESSAGES, *TIMERS, *LOCAL)

UNREACHABLE: Final[Mapping[Pair, str]] = {
    **{
        (role, _timer(kind)): "only a leader arms it, and who stops leading cancels it"
        for kind in (TimerKind.CHECK_QUORUM, TimerKind.BEGIN_QUORUM, TimerKind.TRANSFER)
        for role in Role
        if role is not Role.LEADER
    },
    **{
        (
            role,
            _timer(TimerKind.ELECTION),
        ): "this role waits for no election and cancels the timer on the way in"
        for role in (Role.FOLLOWER, Role.LEADER)
    },
    **{
        (role, _timer(TimerKind.FETCH)): "only a follower arms it, and who stops following cancels it"
        for role in Role
        if role is not Role.FOLLOWER
    },
    **{
        (
            role,
            kind,
        ): "who checks a snapshot lacks what is committed: no majority grants it a pre-vote, and nobody "
        "gets to this role but by one (a restart forgets the check)"
        for kind in ("SnapshotChecked", "SnapshotDamaged")
        for role in (Role.CANDIDATE, Role.LEADER, Role.RESIGNED)
    },
}
"""Pairs that no run of a driver brings about either, and why."""


class Coverage:
    """Distinct (machine, event) pairs by role and kind of event."""

    def __init__(self, counts: Mapping[Pair, int] | None = None) -> None:
        self.counts: Counter[Pair] = Counter(counts or {})

    def saw(self, role: Role, event: Event) -> None:
        self.counts[role, kind_of(event)] += 1

    def add(self, other: "Coverage") -> None:
        self.counts.update(other.counts)

    def missing(self) -> tuple[Pair, ...]:
        """Pairs that should have been reached and were not."""
        return tuple(
            (role, kind)
            for role in Role
            for kind in KINDS
            if not self.counts[role, kind] and (role, kind) not in UNREACHABLE
        )

    def surprising(self) -> tuple[Pair, ...]:
        """Pairs that were reached although `UNREACHABLE` says that they can't be."""
        return tuple(pair for pair in UNREACHABLE if self.counts[pair])

    def table(self) -> Iterator[str]:
        """A line per kind of event, a column per role: distinct (machine, event) pairs; - cannot be."""
        yield f"{'':26}" + "".join(f"{role.value:>13}" for role in Role)
        for kind in KINDS:
            cells = ("-" if (role, kind) in UNREACHABLE else str(self.counts[role, kind]) for role in Role)
            yield f"{kind:26}" + "".join(f"{cell:>13}" for cell in cells)
