"""The replicas of a leader's log and their progress."""

from collections.abc import Iterator, Mapping
from typing import Final

from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.majority import majority_end_offset
from quorate.raft.core.roles.replica_progress import ReplicaProgress
from quorate.raft.core.shared_state import NodeState
from quorate.types import NodeId, Offset, ReplicaKey, VoterSet

OBSERVERS_MAX: Final = 1000
"""The most observers that are remembered. The one that was silent for longest makes room for the next."""


class Replicas(Cloneable, derived={"_fetched_needed": "a majority of the voters"}):
    """The other voters and the observers of one epoch. The leader itself is only in `voter_end_offsets`."""

    __slots__ = ("_fetched", "_fetched_needed", "followers", "observers", "voter_end_offsets")

    def __init__(self, node: NodeState) -> None:
        self.followers: dict[NodeId, ReplicaProgress] = {}
        self.observers: dict[NodeId, ReplicaProgress] = {}
        self.voter_end_offsets: dict[NodeId, Offset] = {}
        """The durable end of each voter's log, 0 where unknown."""
        self._fetched: set[NodeId] = set()
        """The voters that have fetched since the check-quorum timer started."""
        self._fetched_needed = 0
        self.set_voters(node)

    def __iter__(self) -> Iterator[ReplicaProgress]:
        yield from self.followers.values()
        yield from self.observers.values()

    def set_voters(self, node: NodeState) -> tuple[ReplicaProgress, ...]:
        """Follow the node's voter set. A new voter becomes a follower, a removed one an observer, each
        with its progress. Return the followers that became observers."""
        before, self.followers = self.followers, {}
        for key in node.others:
            known = before.pop(key.id, None)
            if known is not None and not known.key.matches(key):
                before[key.id] = known
                known = None
            observer = self.observers.get(key.id)
            if known is None and observer is not None and observer.key.matches(key):
                known = self.observers.pop(key.id)
            if known is None:
                known = ReplicaProgress(key)
            known.key = key
            known.is_voter = True
            self.followers[key.id] = known
        for replica in before.values():
            replica.is_voter = False
            # Its id may have come back with another directory.
            self.observers.setdefault(replica.key.id, replica)
        self.voter_end_offsets = {
            voter.key.id: Offset(0)
            if voter.key.id not in self.followers
            else self.followers[voter.key.id].end_offset
            for voter in node.voters
        }
        if node.is_voter:
            self.voter_end_offsets[node.id] = node.log.durable_end_offset
        self._fetched_needed = node.voters.majority - (1 if node.is_voter else 0)
        return tuple(before.values())

    def find(self, key: ReplicaKey) -> tuple[ReplicaProgress, ReplicaProgress | None]:
        """Return the replica that fetches with `key`, and the one that it displaced, if any.

        A voter's id with another directory is an observer: it does not have what the voter acknowledged.
        """
        follower = self.followers.get(key.id)
        if follower is not None and follower.key.matches(key):
            return follower, None
        evicted: ReplicaProgress | None = None
        observer = self.observers.pop(key.id, None)
        if observer is None or not observer.key.matches(key):
            evicted = observer
            if evicted is None and len(self.observers) >= OBSERVERS_MAX:
                evicted = self.observers.pop(next(iter(self.observers)))
            observer = ReplicaProgress(key, is_voter=False)
        observer.key = key
        self.observers[key.id] = observer  # last again
        return observer, evicted

    @property
    def need_periods(self) -> bool:
        """Return whether any replica's silence matters."""
        return bool(self.followers) or any(observer.caught_up for observer in self.observers.values())

    def lacks_majority_of(self, node: NodeState, voters: VoterSet) -> tuple[NodeId, ...]:
        """Return those of `voters` that have not fetched lately, if the others are no majority: a change to
        that set could not be committed. Empty: it could."""
        silent = tuple(voter.key.id for voter in voters if not self._is_alive(node, voter.key))
        return silent if len(voters) - len(silent) < voters.majority else ()

    def _is_alive(self, node: NodeState, key: ReplicaKey) -> bool:
        if key.matches(node.key):
            return True
        known = (self.followers.get(key.id), self.observers.get(key.id))
        return any(each is not None and each.key.matches(key) and each.is_alive for each in known)

    def voter_fetched(self, voter: NodeId) -> bool:
        """Note a voter's Fetch. Returns whether a majority has now fetched in this period of check-quorum."""
        self._fetched.add(voter)
        return len(self._fetched) >= self._fetched_needed

    def start_period(self) -> None:
        self._fetched.clear()

    def majority_end_offset(self, *, epoch_start: Offset) -> Offset | None:
        return majority_end_offset(self.voter_end_offsets.values(), epoch_start=epoch_start)

    def by_offset(self) -> tuple[NodeId, ...]:
        """Return the other voters by their log ends, the highest first, then by id."""
        ordered = sorted(self.followers.values(), key=lambda replica: (-replica.end_offset, replica.key.id))
        return tuple(replica.key.id for replica in ordered)

    def end_offsets(self) -> Mapping[ReplicaKey, Offset]:
        return {replica.key: replica.end_offset for replica in self}
