"""One change of the voter set at a time, by the rules of KIP-853."""

from dataclasses import dataclass
from typing import assert_never

from quorate.error_code import ErrorCode
from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.effects import AppendVoters, VotersChanged
from quorate.raft.core.events import AddVoter, AdoptVoters, RemoveVoter, UpdateVoter, VoterChange
from quorate.raft.core.roles.tracker import Replicas
from quorate.raft.core.shared_state import NodeState
from quorate.types import NodeId, Offset, ReplicaKey, Voter, VotersAt, VoterSet


@dataclass(frozen=True, slots=True)
class Refused:
    error: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class _Pending:
    request: int
    offset: Offset
    """The offset of the KRaftVoters record."""


class VoterChanges(Cloneable):
    """The change that a leader has written and that is not committed yet, if any."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: _Pending | None = None

    def make(self, node: NodeState, request: int, voters: VoterSet) -> bool:
        """Append the voter set that `outcome` returned, unless it changes nothing. Returns whether the voters
        changed."""
        if voters == node.voters and node.log.voters.is_dynamic:
            node.out.append(VotersChanged(request, ErrorCode.NONE))
            return False
        self._append_voters(node, request, voters)
        return True

    def outcome(
        self, node: NodeState, replicas: Replicas, change: VoterChange, *, high_watermark: Offset | None
    ) -> VoterSet | Refused:
        """Return the voter set after `change`, or its refusal. `high_watermark`: the leader's of this
        epoch."""
        refused = self._refusal_now(node, change, high_watermark=high_watermark)
        if refused is not None:
            return refused
        outcome = _apply_change(node, replicas, change)
        if isinstance(outcome, VoterSet) and (silent := replicas.lacks_majority_of(node, outcome)):
            return _no_majority(node, outcome, silent)
        return outcome

    def note_commit(self, node: NodeState, high_watermark: Offset) -> None:
        """End the pending change if the high watermark has passed it."""
        if self._pending is not None and self._pending.offset < high_watermark:
            node.out.append(VotersChanged(self._pending.request, ErrorCode.NONE))
            self._pending = None

    def fail(self, node: NodeState) -> None:
        """End the pending change as unknown: the next leader may commit it or not."""
        if self._pending is not None:
            node.out.append(
                VotersChanged(
                    self._pending.request,
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    "this node stopped leading before the change was committed; ask for the voters",
                    unknown=True,
                )
            )
            self._pending = None

    def _refusal_now(
        self, node: NodeState, change: VoterChange, *, high_watermark: Offset | None
    ) -> Refused | None:
        history = node.log.voters
        if not history.is_dynamic and not isinstance(change, AdoptVoters):
            return Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                "the voters are those of the configuration; write them into the log first (kraft.version 1)",
            )
        if self._pending is not None:
            return Refused(ErrorCode.REQUEST_TIMED_OUT, "another change is under way; try again")
        if high_watermark is None:
            # Two leaders, each with one uncommitted change of the same set, could each have a majority.
            return Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "this leader has not committed anything in its epoch yet; try again",
            )
        offset = history.latest_offset
        if offset is not None and offset >= high_watermark:
            return Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "the last change, of another leader, is not committed yet; try again",
            )
        return None

    def _append_voters(self, node: NodeState, request: int, voters: VoterSet) -> None:
        log = node.log
        first = not log.voters.is_dynamic
        base_offset = log.append(count=2 if first else 1, epoch=node.epoch)
        offset = Offset(log.end_offset - 1)
        log.voters.append(VotersAt(offset, voters))
        node.out.append(AppendVoters(log.generation, base_offset, node.epoch, voters, first))
        self._pending = _Pending(request, offset)


def _apply_change(node: NodeState, replicas: Replicas, change: VoterChange) -> VoterSet | Refused:
    """Return the voter set after `change`, or its refusal."""
    voters = node.voters
    match change:
        case AddVoter(voter):
            return _add_voter(node, replicas, voter)
        case RemoveVoter(key):
            if not any(voter.key == key for voter in voters):
                return _no_such_voter(key)
            if len(voters) == 1:
                return Refused(
                    ErrorCode.VOTER_NOT_FOUND, f"node {key.id} is the last voter; add another one first"
                )
            return voters.without(key.id)
        case UpdateVoter(voter):
            if not any(other.key == voter.key for other in voters):
                return _no_such_voter(voter.key)
            return voters.with_voter(voter)
        case AdoptVoters():
            return voters if node.log.voters.is_dynamic else _adopt_voters(node, replicas)
        case _:
            assert_never(change)


def _add_voter(node: NodeState, replicas: Replicas, voter: Voter) -> VoterSet | Refused:
    voters, key = node.voters, voter.key
    if key.id in voters:
        return Refused(
            ErrorCode.DUPLICATE_VOTER,
            f"node {key.id} is a voter already; if its disk was replaced, remove the old one first",
        )
    observer = replicas.observers.get(key.id)
    if observer is None or observer.key != key:
        return Refused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"node {key.id} with directory {key.directory_id} does not fetch here; start it first",
        )
    if not observer.caught_up or not observer.is_alive:
        return Refused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"node {key.id} has not caught up with this leader within the last "
            f"{node.config.fetch_timeout_ms} ms; see that it runs and reaches this node, then try again",
        )
    return voters.with_voter(voter)


def _adopt_voters(node: NodeState, replicas: Replicas) -> VoterSet | Refused:
    """Return the static set with the directories that its voters fetch with, or the refusal."""
    adopted: list[Voter] = []
    for voter in node.voters:
        replica = replicas.followers.get(voter.key.id)
        key = node.key if voter.key.id == node.id else None if replica is None else replica.fetched_as
        if key is None:
            return Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"node {voter.key.id} has not fetched here yet, so its directory is unknown; start it",
            )
        adopted.append(Voter(key, voter.endpoint))
    return VoterSet(tuple(adopted))


def _no_majority(node: NodeState, voters: VoterSet, silent: tuple[NodeId, ...]) -> Refused:
    """It would count from its append on, and wait for a commit that does not come (etcd calls the check
    strict-reconfig-check; KRaft has none)."""
    ids = ", ".join(str(voter) for voter in silent)
    return Refused(
        ErrorCode.REQUEST_TIMED_OUT,
        f"of the voters {list(voters.ids)} that this would leave, {ids} did not fetch within the last "
        f"{node.config.fetch_timeout_ms} ms, and the others are no majority; start what is down, or take "
        "it out of the voters first",
    )


def _no_such_voter(key: ReplicaKey) -> Refused:
    return Refused(
        ErrorCode.VOTER_NOT_FOUND,
        f"node {key.id} with directory {key.directory_id} is no voter; describe the quorum to see who is",
    )
