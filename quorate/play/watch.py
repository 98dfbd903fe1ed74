"""The invariants of Raft, looked at after every step of a played world."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from quorate.play.play_node import PlayNode, PlayRecord, voters_in
from quorate.types import Epoch, NodeId, Offset, VoterSet


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant, by the name that docs/reference/kraft-rules.md gives it."""

    invariant: str
    text: str


@dataclass(slots=True)
class Watch:
    """What nodes have said and done, which later states must not contradict."""

    first_voters: VoterSet
    committed: list[PlayRecord] = field(default_factory=list)
    """The longest prefix that any node ever called committed."""
    committed_in: dict[Epoch, int] = field(default_factory=dict)
    """The end of what each epoch committed."""
    leaders: dict[Epoch, NodeId] = field(default_factory=dict)
    votes: dict[tuple[NodeId, Epoch], NodeId] = field(default_factory=dict)
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
            reads=dict(self.reads),
            lost=set(self.lost),
            violations=list(self.violations),
        )

    def report(self, invariant: str, text: str) -> None:
        """Note a violation. One that lasts is noted once."""
        if all(each.invariant != invariant for each in self.violations):
            self.violations.append(Violation(invariant, text))

    def note_vote(self, voter: NodeId, epoch: Epoch, candidate: NodeId) -> None:
        given = self.votes.setdefault((voter, epoch), candidate)
        if given != candidate:
            self.report(
                "OneVotePerEpoch",
                f"node {voter} voted for node {given} in epoch {epoch}, and now for node {candidate}",
            )

    def note_leader(self, node: PlayNode, epoch: Epoch) -> None:
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
        if end > len(self.committed):
            self.committed.extend(node.records[len(self.committed) : end])
            self.committed_in[epoch] = end

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
