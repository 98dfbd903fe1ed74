"""The invariants of a quorum after every step of every node: small named checks of the nodes' own statements.

By the names of the TLA+ specifications of KRaft
(docs/reference/kraft-rules.md#invariants): ElectionSafety is
`OneLeaderPerEpoch`; LogMatching, NoLogDivergence and AckedValueNotLost are `CommittedPrefixAgrees` with
`CommittedIsDurableOnAMajority`; LeaderCompleteness is `LeaderHasEverythingCommitted`; NoIllegalState and
ValidRolesAndStates are held by the core, whose `InvariantError` stops a node, which nodes never do by
themselves (`NodesStayUp`). What must happen at last (EventuallyLeaderElected, NotStuckInProspective,
ValuesEventuallyAcked, ReconfigurationNotStuck) is looked at when all is healed, in `quorum_run`.

Nodes tell through the same `Telemetry` that metrics use, so the code that is checked is the code that ships.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quorate.log.batches.batch import read_batches
from quorate.quorum_state import QUORUM_STATE
from quorate.raft import NoTelemetry
from quorate.raft.core import InvariantError, Role
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.simulation.checkers.node_view import NodeView, RoleSeen, read_log
from quorate.simulation.violations import SafetyViolation
from quorate.simulation.world.step_costs import uncounted
from quorate.simulation.world.trace import Trace
from quorate.types import Epoch, NodeId, Offset


@dataclass(frozen=True, slots=True)
class CommittedPiece:
    """A batch of the committed log, byte for byte."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    data: bytes


class CommittedLog:
    """The records that any node ever reported as committed."""

    def __init__(self) -> None:
        self._pieces: dict[int, CommittedPiece] = {}
        self._bases: list[Offset] = []
        self._last_in: dict[Epoch, CommittedPiece] = {}
        self.end_offset = Offset(0)
        self.last: CommittedPiece | None = None

    @property
    def epochs(self) -> int:
        """The number of epochs in which something was committed."""
        return len(self._last_in)

    def at(self, base_offset: int) -> CommittedPiece | None:
        return self._pieces.get(base_offset)

    def holding(self, offset: Offset) -> CommittedPiece | None:
        """Return the batch that has the record at `offset`. None: the offset is not committed."""
        position = bisect_right(self._bases, offset)
        return self._pieces[self._bases[position - 1]] if position and offset < self.end_offset else None

    def last_before(self, epoch: Epoch) -> CommittedPiece | None:
        """The newest batch that was committed in an epoch older than `epoch`. A batch of an older epoch may
        be committed in a newer one, and a leader of an epoch between, elected late, may lack it."""
        older = [known for known in self._last_in if known < epoch]
        return self._last_in[max(older)] if older else None

    def add(self, piece: CommittedPiece, *, epoch: Epoch) -> None:
        """`epoch`: in which it was committed; at least its own."""
        self._last_in[epoch] = piece
        self._pieces[piece.base_offset] = piece
        self._bases.append(piece.base_offset)
        self.end_offset = piece.end_offset
        self.last = piece


class Invariant:
    """A named invariant. Hooks raise `SafetyViolation`; those that it has no interest in stay empty."""

    def role_changed(self, node: NodeView, seen: RoleSeen) -> None:
        pass

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        pass

    def applied(self, node: NodeView, batch: CommittedBatch) -> None:
        pass

    def loaded(self, node: NodeView, end_offset: Offset) -> None:
        """A snapshot of the records below `end_offset` became the node's state."""


class OneLeaderPerEpoch(Invariant):
    def __init__(self) -> None:
        self._leaders: dict[Epoch, NodeId] = {}

    def role_changed(self, node: NodeView, seen: RoleSeen) -> None:
        leader = node.id if seen.role is Role.LEADER else seen.leader
        if leader is not None and self._leaders.setdefault(seen.epoch, leader) != leader:
            raise SafetyViolation(
                f"two leaders in epoch {seen.epoch}: {self._leaders[seen.epoch]} and {leader}, says {node.id}"
            )


class OneVotePerEpoch(Invariant):
    """The invariant holds across restarts."""

    def __init__(self) -> None:
        self._votes: dict[tuple[NodeId, int, Epoch], NodeId] = {}

    def role_changed(self, node: NodeView, seen: RoleSeen) -> None:
        if seen.voted is not None:
            first = self._votes.setdefault((node.id, node.disks, seen.epoch), seen.voted)
            if first != seen.voted:
                raise SafetyViolation(
                    f"node {node.id} voted twice in epoch {seen.epoch}: for {first}, then for {seen.voted}"
                )


class VotesAreDurable(Invariant):
    """The quorum-state file on the device has a vote, with its epoch, before the vote is sent."""

    def role_changed(self, node: NodeView, seen: RoleSeen) -> None:
        if seen.voted is None:
            return
        stored = node.disk.durable_content(f"{node.folder}/{LOG_FOLDER}/{QUORUM_STATE}")
        state = json.loads(stored or b"{}")
        if (state.get("leaderEpoch"), state.get("votedId")) != (seen.epoch, seen.voted):
            raise SafetyViolation(
                f"node {node.id} voted for {seen.voted} in epoch {seen.epoch}, but its device holds {state}"
            )


class EpochNeverGoesBack(Invariant):
    """The invariant holds across restarts."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[NodeId, int], Epoch] = {}

    def role_changed(self, node: NodeView, seen: RoleSeen) -> None:
        newest = self._epochs.get((node.id, node.disks), Epoch(0))
        if seen.epoch < newest:
            raise SafetyViolation(f"node {node.id} went back from epoch {newest} to {seen.epoch}")
        self._epochs[node.id, node.disks] = seen.epoch


class HighWatermarkNeverGoesBack(Invariant):
    """The high watermark never goes back in the life of a process."""

    def __init__(self) -> None:
        self._highest: dict[tuple[NodeId, int], Offset] = {}

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        highest = self._highest.get((node.id, node.life), Offset(0))
        if offset < highest:
            raise SafetyViolation(
                f"the high watermark of node {node.id} went back from {highest} to {offset}"
            )
        self._highest[node.id, node.life] = offset


class OffsetsAreInOrder(Invariant):
    """The offsets of a node are in order, from the log start to the log end; see
    `quorate.raft.core.validate`."""

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        try:
            node.validate()
        except InvariantError as error:
            raise SafetyViolation(f"node {node.id}: {error}") from error


class CommittedPrefixAgrees(Invariant):
    """The committed records are the same on every node, to the byte, and never change."""

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed
        self._checked: dict[tuple[NodeId, int], Offset] = {}

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        # Records now only in a snapshot were checked while others had them in their logs.
        position = max(self._checked.get((node.id, node.life), Offset(0)), node.log.log_start_offset)
        if offset > node.log.end_offset:
            raise SafetyViolation(
                f"the high watermark of node {node.id} is {offset}, its log ends at {node.log.end_offset}"
            )
        while position < offset:
            data = read_log(node, position, offset)
            if not data:
                raise SafetyViolation(f"node {node.id} has no whole batch in [{position}, {offset})")
            for batch in read_batches(data):
                header = batch.header
                piece = CommittedPiece(
                    Offset(header.base_offset),
                    Offset(header.end_offset),
                    Epoch(header.leader_epoch),
                    data[header.position : header.position + header.size],
                )
                self._check(node, piece, epoch=piece.epoch if role is None else role.epoch)
                position = piece.end_offset
        self._checked[node.id, node.life] = position

    def _check(self, node: NodeView, piece: CommittedPiece, *, epoch: Epoch) -> None:
        known = self._committed.at(piece.base_offset)
        if known is None and piece.base_offset == self._committed.end_offset:
            self._committed.add(piece, epoch=epoch)
        elif known != piece:
            was = "nothing" if known is None else f"a batch of epoch {known.epoch} to {known.end_offset}"
            raise SafetyViolation(
                f"node {node.id} committed a batch of epoch {piece.epoch} to {piece.end_offset} at offset "
                f"{piece.base_offset}, where {was} was committed before"
            )


class CommitsAreOfTheLeadersEpoch(Invariant):
    """Older epochs' records commit only together with one of the leader's own (Raft §5.4.2)."""

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        last = self._committed.last
        if role is None or role.role is not Role.LEADER or last is None or last.end_offset != offset:
            return
        if last.epoch != role.epoch:
            raise SafetyViolation(
                f"node {node.id}, leader of epoch {role.epoch}, committed up to {offset} by counting copies "
                f"of a record of epoch {last.epoch}"
            )


class CommittedIsDurableOnAMajority(Invariant):
    """The committed records are on a majority's devices, not just in caches. Nodes that lost synced bytes are
    given the benefit of the doubt."""

    def __init__(
        self, committed: CommittedLog, voters_of: Callable[[NodeView], Sequence[NodeView | None]]
    ) -> None:
        self._committed = committed
        self._voters_of = voters_of
        self._checked = Offset(0)

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        last = self._committed.last
        if last is None or last.end_offset <= self._checked:
            return
        self._checked = last.end_offset
        voters = self._voters_of(node)
        having = [each for each in voters if each is None or each.damaged or _is_durable(each, last)]
        if 2 * len(having) <= len(voters):
            names = [each.id for each in having if each is not None]
            raise SafetyViolation(
                f"node {node.id} committed up to {offset}, but only the devices of nodes {names} have it"
            )


def _is_durable(node: NodeView, piece: CommittedPiece) -> bool:
    """Return whether the log on its device has the piece, or a snapshot there."""
    folder = f"{node.folder}/{LOG_FOLDER}"
    for path in node.disk.durable_names(folder):
        if path.endswith(".log") and piece.data in (node.disk.durable_content(path) or b""):
            return True
        if path.endswith(".checkpoint") and int(path.rpartition("/")[2][:20]) >= piece.end_offset:
            return True
    return False


class LeaderHasEverythingCommitted(Invariant):
    """Leader completeness (Raft §5.4): all that was committed in older epochs."""

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed

    def role_changed(self, node: NodeView, seen: RoleSeen) -> None:
        last = self._committed.last_before(seen.epoch)
        if seen.role is not Role.LEADER or last is None or node.log.log_start_offset >= last.end_offset:
            return
        has = (
            read_log(node, last.base_offset, last.end_offset)
            if node.log.end_offset > last.base_offset
            else b""
        )
        if has != last.data:
            raise SafetyViolation(
                f"node {node.id} leads epoch {seen.epoch} with a log that ends at {node.log.end_offset} and "
                f"lacks the batch of epoch {last.epoch} at [{last.base_offset}, {last.end_offset}) that was "
                "committed in an older one"
            )


class AppliedIsCommittedAndInOrder(Invariant):
    """Each node's state machine gets each committed record once per life, in order."""

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed
        self._next: dict[tuple[NodeId, int], int] = {}

    def applied(self, node: NodeView, batch: CommittedBatch) -> None:
        piece = self._committed.at(batch.base_offset)
        end = batch.base_offset + len(batch.records)
        if piece is None or (piece.end_offset, piece.epoch) != (end, batch.epoch):
            raise SafetyViolation(
                f"node {node.id} applied [{batch.base_offset}, {end}), which is not committed"
            )
        position = self._next.get((node.id, node.life), 0)
        while position < batch.base_offset:
            skipped = self._committed.at(position)
            if skipped is None or not next(iter(read_batches(skipped.data))).header.is_control:
                raise SafetyViolation(
                    f"node {node.id} skipped offset {position} when it applied {batch.base_offset}"
                )
            position = skipped.end_offset
        if position != batch.base_offset:
            raise SafetyViolation(f"node {node.id} applied offset {batch.base_offset} again")
        self._next[node.id, node.life] = end

    def loaded(self, node: NodeView, end_offset: Offset) -> None:
        if end_offset < self._next.get((node.id, node.life), 0):
            raise SafetyViolation(f"node {node.id} went back to a snapshot of what is below {end_offset}")
        if end_offset > self._committed.end_offset:
            raise SafetyViolation(
                f"node {node.id} loaded a snapshot of offset {end_offset - 1}, which is not committed"
            )
        self._next[node.id, node.life] = end_offset


@dataclass(slots=True)
class Checker:
    """All invariants of one cluster. The first violation goes to `found`: `Driver` would take a raised one
    for a failure of its node."""

    nodes: Sequence[NodeView]
    trace: Trace
    found: Callable[[str, SafetyViolation], None]
    voters_of: Callable[[NodeView], Sequence[NodeView | None]] | None = None
    """Returns the voters as a node knows them, with None for a voter whose disk is lost. By default they are
    `nodes`."""
    committed: CommittedLog = field(default_factory=CommittedLog)
    broken: bool = False
    invariants: tuple[Invariant, ...] = ()

    def __post_init__(self) -> None:
        committed = self.committed
        self.invariants = (
            OneLeaderPerEpoch(),
            OneVotePerEpoch(),
            VotesAreDurable(),
            EpochNeverGoesBack(),
            HighWatermarkNeverGoesBack(),
            OffsetsAreInOrder(),
            # This one extends `committed`, which those behind it look at.
            CommittedPrefixAgrees(committed),
            CommitsAreOfTheLeadersEpoch(committed),
            CommittedIsDurableOnAMajority(committed, self.voters_of or (lambda _: self.nodes)),
            LeaderHasEverythingCommitted(committed),
            AppliedIsCommittedAndInOrder(committed),
        )

    def check(self, hook: Callable[[Invariant], None]) -> None:
        if self.broken:
            return
        with uncounted():
            for invariant in self.invariants:
                try:
                    hook(invariant)
                except SafetyViolation as violation:
                    self.broken = True
                    self.found(type(invariant).__name__, violation)
                    return


class WatchedTelemetry(NoTelemetry):
    """`Telemetry` of one process. Its reports are checked and traced."""

    __slots__ = ("_checker", "_node", "_role")

    def __init__(self, node: NodeView, checker: Checker) -> None:
        self._node = node
        self._checker = checker
        self._role: RoleSeen | None = None

    def role_changed(
        self, role: Role, *, is_voter: bool, epoch: Epoch, leader: NodeId | None, voted: NodeId | None
    ) -> None:
        if not self._node.alive:
            return
        seen = self._role = RoleSeen(role, epoch, leader, voted)
        self._checker.trace.add(
            f"node-{self._node.id}", f"{role.value} epoch={epoch} leader={leader} voted={voted}"
        )
        self._checker.check(lambda invariant: invariant.role_changed(self._node, seen))

    def high_watermark(self, offset: Offset) -> None:
        if not self._node.alive:
            return
        self._checker.trace.add(f"node-{self._node.id}", f"high watermark {offset}")
        self._checker.check(lambda invariant: invariant.high_watermark(self._node, offset, self._role))
