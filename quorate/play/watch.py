"""The invariants of Raft, looked at after every step of a played world."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from quorate.play.play_node import PlayNode, PlayRecord, voters_in
from quorate.raft.core import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Message,
    Role,
    VoteRequest,
    VoteResponse,
)
from quorate.types import ElectionState, Epoch, NodeId, Offset, VoterSet


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant, by the name that docs/explanation/verification.md gives it."""

    invariant: str
    text: str


@dataclass(slots=True)
class Watch:
    """What nodes have said and done, which later states must not contradict."""

    first_voters: VoterSet
    strict: bool = False
    """Look also at what each node must keep by itself, as the explorer does. Not where a node plays by a rule
    that is wrong on purpose: what that leads to is to be seen, and not the rule."""
    committed: list[PlayRecord] = field(default_factory=list)
    """The longest prefix that any node ever called committed."""
    committed_in: dict[Epoch, int] = field(default_factory=dict)
    """The end of what each epoch committed."""
    leaders: dict[Epoch, NodeId] = field(default_factory=dict)
    votes: dict[tuple[NodeId, Epoch], NodeId] = field(default_factory=dict)
    leads: dict[NodeId, Epoch] = field(default_factory=dict)
    """The epoch in which each node that leads does."""
    reads: dict[tuple[NodeId, int], int] = field(default_factory=dict)
    """The committed end when each read was asked for."""
    lost: set[NodeId] = field(default_factory=set)
    """The nodes whose disks were lost: what was on them is not missed."""
    violations: list[Violation] = field(default_factory=list)
    """All so far, each once."""

    def copy(self) -> "Watch":
        return replace(
            self,
            committed=list(self.committed),
            committed_in=dict(self.committed_in),
            leaders=dict(self.leaders),
            votes=dict(self.votes),
            leads=dict(self.leads),
            reads=dict(self.reads),
            lost=set(self.lost),
            violations=list(self.violations),
        )

    def report(self, invariant: str, text: str) -> None:
        """Note a violation. One that lasts is noted once."""
        if all(each.invariant != invariant for each in self.violations):
            self.violations.append(Violation(invariant, text))

    def _note_vote(self, voter: NodeId, epoch: Epoch, candidate: NodeId) -> None:
        given = self.votes.setdefault((voter, epoch), candidate)
        if given != candidate:
            self.report(
                "OneVotePerEpoch",
                f"node {voter} voted for node {given} in epoch {epoch}, and now for node {candidate}",
            )

    def note_role(self, node: PlayNode, role: Role, epoch: Epoch) -> None:
        self.leads.pop(node.id, None)
        if role is Role.CANDIDATE:
            self._note_vote(node.id, epoch, node.id)
        elif role is Role.LEADER:
            self.leads[node.id] = epoch
            self._note_leader(node, epoch)

    def _note_leader(self, node: PlayNode, epoch: Epoch) -> None:
        known = self.leaders.setdefault(epoch, node.id)
        if known != node.id:
            self.report("ElectionSafety", f"nodes {known} and {node.id} both lead epoch {epoch}")
        end = max((end for each, end in self.committed_in.items() if each < epoch), default=0)
        if node.records[:end] != self.committed[:end]:
            self.report(
                "LeaderCompleteness",
                f"node {node.id} leads epoch {epoch} without a record that was committed before",
            )

    def note_commit(self, node: PlayNode, epoch: Epoch, end: Offset) -> None:
        shared = min(end, len(self.committed))
        if node.records[:shared] != self.committed[:shared]:
            self.report("LogMatching", f"node {node.id} calls another record committed than was committed")
        if self.strict:
            self._note_counted(node, end)
        if end > len(self.committed):
            self.committed.extend(node.records[len(self.committed) : end])
            self.committed_in[epoch] = end

    def _note_counted(self, node: PlayNode, end: Offset) -> None:
        own, last = self.leads.get(node.id), node.records[end - 1].epoch if end else 0
        if own not in (None, last):
            self.report(
                "CommitsAreOfTheLeadersEpoch",
                f"node {node.id} leads epoch {own}, and what it commits ends with a record of epoch {last}",
            )
        if own is None and end > len(self.committed):
            self.report("Durability", f"node {node.id} calls committed what no leader has committed")

    def note_election(self, node: PlayNode, new: ElectionState) -> None:
        """Look at what a node is about to store."""
        old = node.election
        if not self.strict or new.epoch > old.epoch:
            return
        if new.epoch < old.epoch:
            self.report(
                "EpochNeverGoesBack", f"node {node.id} goes back from epoch {old.epoch} to {new.epoch}"
            )
        elif old.voted not in (None, new.voted):
            self.report("OneVotePerEpoch", f"node {node.id} changes its vote in epoch {old.epoch}")
        elif old.leader not in (None, new.leader):
            self.report("ElectionSafety", f"node {node.id} changes the leader of epoch {old.epoch}")

    def note_cut(self, node: PlayNode, end: Offset) -> None:
        """Look at what a node is about to cut from its log, from `end` on."""
        if self.strict and any(
            one == other for one, other in zip(node.records[end:], self.committed[end:], strict=False)
        ):
            self.report("Durability", f"node {node.id} cuts committed records from its log, from {end} on")

    def note_message(self, node: PlayNode, message: Message) -> None:
        """Look at what a node says, and whether it is on its disk."""
        election, end = node.election, Offset(0)
        voted = None if election.voted is None else election.voted.id
        told, is_stored = f"epoch {message.epoch}", message.epoch <= election.epoch
        match message:
            case VoteResponse() if message.granted and not message.pre_vote:
                self._note_vote(node.id, message.epoch, message.destination)
                is_stored &= message.epoch == election.epoch and voted == message.destination
                told = f"its vote for node {message.destination}"
            case VoteRequest():
                is_stored &= message.pre_vote or voted == node.id
                told, end = f"that it stands in epoch {message.epoch}", message.end_offset
            case FetchRequest():
                end = message.offset
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                is_stored &= election.leader == node.id
            case _:
                pass
        if self.strict and not (is_stored and end <= node.synced):
            told = told if end <= node.synced else f"a log up to {end}"
            self.report("DurableBeforeSent", f"node {node.id} says {told}, which is not yet on its disk")

    def note_read(self, node: NodeId, number: int, end: Offset) -> None:
        asked_at = self.reads[node, number]
        if end < asked_at:
            self.report(
                "ReadsAreLinearizable",
                f"node {node} answered a read with what is below offset {end}, and before the read "
                f"everything below {asked_at} was committed",
            )

    def look(self, nodes: Mapping[NodeId, PlayNode]) -> None:
        """Look at the state after a step."""
        sets = self._voter_sets(nodes)
        for offset, record in enumerate(self.committed):
            having = {node for node, each in nodes.items() if _has(each, offset, record)}
            counted = having | self.lost
            if not any(len(counted.intersection(each.ids)) >= each.majority for each in sets):
                ids = ", ".join(map(str, sorted(having))) or "none"
                self.report(
                    "Durability",
                    f"offset {offset} is committed, and durable only on {ids}: no majority",
                )
        for one, other in combinations(nodes.values(), 2):
            for offset in _differ_below_equal_epochs(one.records, other.records):
                self.report(
                    "LogMatching",
                    f"nodes {one.id} and {other.id} have the same epoch at an offset above {offset}, and "
                    f"different records at {offset}",
                )

    def _voter_sets(self, nodes: Mapping[NodeId, PlayNode]) -> list[VoterSet]:
        """Return the voters that are committed, and those of later records: a leader may have counted by
        them."""
        end = len(self.committed)
        later = [record.voters for node in nodes.values() for record in node.records[end:]]
        committed = voters_in(self.committed) or self.first_voters
        return [committed, *(each for each in later if each is not None)]


def _has(node: PlayNode, offset: int, record: PlayRecord) -> bool:
    return node.synced > offset and node.records[offset] == record


def _differ_below_equal_epochs(one: list[PlayRecord], other: list[PlayRecord]) -> Iterator[int]:
    """Yield an offset where two logs differ although they have one epoch at a later or the same offset (Raft
    section 5.3)."""
    shared = min(len(one), len(other))
    last = next((at for at in reversed(range(shared)) if one[at].epoch == other[at].epoch), -1)
    yield from (at for at in range(last + 1) if one[at] != other[at])
