"""The node whose log the others copy."""

from collections.abc import Mapping
from typing import ClassVar

from quorate.error_code import ErrorCode
from quorate.invariant import invariant
from quorate.raft.core import outgoing_requests as requests
from quorate.raft.core.effects import (
    AppendLeaderChange,
    AppendProposal,
    ArmTimer,
    CancelTimer,
    Role,
    SendSnapshotChunk,
    VotersChanged,
)
from quorate.raft.core.events import (
    ChangeVoters,
    Propose,
    ReadIndex,
    Timer,
    TimerKind,
    TransferLeadership,
    VoterChange,
)
from quorate.raft.core.fetch_answers import answer_fetch, refuse_fetch
from quorate.raft.core.messages import (
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Response,
    VoteRequest,
)
from quorate.raft.core.roles.read_index import ReadIndexRounds
from quorate.raft.core.roles.read_lease import holds_lease, note_promise
from quorate.raft.core.roles.replica_progress import ReplicaProgress
from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.roles.tracker import Replicas
from quorate.raft.core.roles.transfer import Transfer
from quorate.raft.core.roles.transitions import ToResigned, Transition
from quorate.raft.core.roles.voter_changes import Refused, VoterChanges
from quorate.raft.core.shared_state import BEGIN_QUORUM, CHECK_QUORUM, NodeState
from quorate.types import NodeId, Offset, ReplicaKey, VotersAt, VoterSet


class Leader(RoleState, derived={"_granting_voters": "written when the role began"}):
    """Appends, answers Fetches, and moves the high watermark by what the Fetches acknowledge.

    It offers records before they are durable here, and counts itself only when they are, and only while it is
    a voter: one that removed itself leads until that is committed (KIP-853).
    """

    __slots__ = (
        "_changes",
        "_granting_voters",
        "_read_index",
        "_replicas",
        "_transfer",
        "epoch_start_offset",
        "high_watermark",
    )

    role: ClassVar[Role] = Role.LEADER

    def __init__(self, node: NodeState, *, granting_voters: tuple[NodeId, ...]) -> None:
        self.epoch_start_offset = node.log.end_offset
        """The offset of the LeaderChange record."""
        self.high_watermark: Offset | None = None
        """None until a record of this epoch is committed. Before, no record is known to be committed
        (KIP-595)."""
        self._granting_voters = granting_voters
        self._replicas = Replicas(node)
        self._read_index = ReadIndexRounds()
        self._changes = VoterChanges()
        self._transfer = Transfer()

    def timers(self, node: NodeState) -> tuple[TimerKind, ...]:
        kinds: list[TimerKind] = []
        if self._replicas.followers:
            kinds.append(TimerKind.CHECK_QUORUM)
        if self._replicas.need_periods:
            kinds.append(TimerKind.BEGIN_QUORUM)
        if self._transfer.successor is not None:
            kinds.append(TimerKind.TRANSFER)
        return tuple(kinds)

    def enter(self, node: NodeState) -> Transition | None:
        log = node.log
        # A voter set of the bootstrap snapshot must get into the log, for nodes that start without it.
        voter_set = node.voters if log.voters.latest_offset == -1 else None
        base_offset = log.append(count=1 if voter_set is None else 3, epoch=node.epoch)
        invariant(
            base_offset == self.epoch_start_offset, "the epoch starts at the log end", base_offset=base_offset
        )
        if voter_set is not None:
            log.voters.append(VotersAt(Offset(base_offset + 2), voter_set))
        node.out.append(
            AppendLeaderChange(
                log.generation,
                base_offset=base_offset,
                epoch=node.epoch,
                leader=node.id,
                voters=node.voters.ids,
                granting_voters=self._granting_voters,
                voter_set=voter_set,
            )
        )
        if self._replicas.followers:
            self._arm_check_quorum(node)
            self._arm_begin_quorum(node)
            self._tell_unaware(node)
        return None

    def leave(self, node: NodeState) -> None:
        for replica in self._replicas:
            if replica.parked is not None:
                node.out.append(CancelTimer(replica.fetch_wait))
                refuse_fetch(node, replica.parked)
                replica.parked = None
        self._changes.fail(node)
        self._read_index.fail(node)

    # --- requests to a leader ---

    def on_propose(self, node: NodeState, event: Propose) -> None:
        invariant(event.count > 0, "a proposal has records", proposal=event.proposal, count=event.count)
        log = node.log
        base_offset = log.append(count=event.count, epoch=node.election.epoch)
        node.out.append(
            AppendProposal(log.generation, event.proposal, base_offset, log.end_offset, node.election.epoch)
        )
        self._offer(node)

    def refusal_of(self, node: NodeState, change: VoterChange) -> Refused | None:
        outcome = self._outcome_of(node, change)
        return outcome if isinstance(outcome, Refused) else None

    def _outcome_of(self, node: NodeState, change: VoterChange) -> VoterSet | Refused:
        if self._transfer.successor is not None:
            return Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"leadership is being transferred to node {self._transfer.successor}; ask the next leader",
            )
        return self._changes.outcome(node, self._replicas, change, high_watermark=self.high_watermark)

    def on_change_voters(self, node: NodeState, event: ChangeVoters) -> None:
        outcome = self._outcome_of(node, event.change)
        if isinstance(outcome, Refused):
            node.out.append(VotersChanged(event.request, outcome.error, outcome.message))
        elif self._changes.make(node, event.request, outcome):
            self._count_new_voters(node)
            self._offer(node)

    def on_read_index(self, node: NodeState, event: ReadIndex) -> None:
        high_watermark = self.high_watermark
        self._read_index.ask(event.read_round, high_watermark=high_watermark)
        if high_watermark is not None and holds_lease(node, self._replicas, now_ms=node.now_ms):
            self._read_index.confirm_all(node, high_watermark=high_watermark)
            return
        for replica in self._replicas.followers.values():
            self._answer_parked(node, replica)
        self._read_index.check(node, high_watermark=self.high_watermark)

    def has_lease(self, node: NodeState, *, now_ms: int) -> bool:
        """Return whether reads need no round at this time."""
        return self.high_watermark is not None and holds_lease(node, self._replicas, now_ms=now_ms)

    def on_transfer(self, node: NodeState, event: TransferLeadership) -> Transition | None:
        self._transfer.ask(node, self._replicas, event.successor)
        return self._next_transition(node)

    def on_fetch(self, node: NodeState, request: FetchRequest) -> Transition | None:
        """Handle a well-formed Fetch of this epoch."""
        replica = self._find_replica(node, request)
        note_promise(replica, request)
        if replica.is_voter:
            self._read_index.count_round(request.source, request.read_round)
        log = node.log
        snapshot = log.snapshot_for(offset=request.offset, epoch=request.last_fetched_epoch)
        diverging = None
        if snapshot is None:
            diverging = log.divergence(offset=request.offset, epoch=request.last_fetched_epoch)
        if snapshot is not None or diverging is not None:
            # The offset does not say up to where the logs are equal (KAFKA-13141).
            answer_fetch(
                node,
                request,
                high_watermark=self.high_watermark,
                read_round=self._read_index.round,
                diverging=diverging,
                snapshot=snapshot,
            )
            self._read_index.check(node, high_watermark=self.high_watermark)
            return None
        replica.end_offset = request.offset
        replica.silent_periods = 0
        if self.high_watermark is not None and request.offset >= self.high_watermark:
            self._mark_caught_up(node, replica)
        if replica.is_voter:
            self._count_for_quorum(node, replica)
            self._replicas.voter_end_offsets[request.source] = request.offset
            self._advance_high_watermark(node)
            self._read_index.check(node, high_watermark=self.high_watermark)
        self._answer_or_park(node, replica, request)
        return self._next_transition(node)

    def on_fetch_snapshot(self, node: NodeState, request: FetchSnapshotRequest) -> None:
        """Handle a well-formed FetchSnapshot of this epoch."""
        replica = self._find_replica(node, request)
        if replica.is_voter:
            self._count_for_quorum(node, replica)
        response = FetchSnapshotResponse(
            **node.answer_to(request), snapshot=request.snapshot, position=request.position
        )
        node.out.append(SendSnapshotChunk(response, request.max_bytes))

    # --- other events of a leader ---

    def on_durable(self, node: NodeState) -> Transition | None:
        if node.is_voter:
            self._replicas.voter_end_offsets[node.id] = node.log.durable_end_offset
            self._advance_high_watermark(node)
        return self._next_transition(node)

    def on_timer(self, node: NodeState, timer: Timer) -> Transition | None:
        if timer.kind is TimerKind.CHECK_QUORUM:
            return self.resign()
        if timer.kind is TimerKind.BEGIN_QUORUM:
            for replica in self._replicas.followers.values():
                # In place of one that is in flight: that may be lost, and its timeout is longer than this
                # period.
                if replica.silent_periods and replica.key.id not in node.paused:
                    requests.begin_epoch(node, replica.key)
            for replica in self._replicas:
                replica.end_period()
            if self._replicas.need_periods:
                self._arm_begin_quorum(node)
        elif timer.kind is TimerKind.FETCH_WAIT:
            for replica in self._replicas:
                if replica.fetch_wait == timer:
                    self._answer_parked(node, replica)
        elif timer.kind is TimerKind.TRANSFER:
            self._transfer.give_up(node)
        return None

    def resign(self) -> Transition:
        """Resign. The preferred successors are the chosen one, if any, then the others by their log ends."""
        by_offset = self._replicas.by_offset()
        chosen = tuple(node for node in by_offset if node == self._transfer.successor)
        return ToResigned(preferred_successors=(*chosen, *(node for node in by_offset if node not in chosen)))

    def on_ready(self, node: NodeState, peer: NodeId) -> Transition | None:
        self._tell_unaware(node)
        return None

    def on_response(self, node: NodeState, response: Response) -> Transition | None:
        follower = self._replicas.followers.get(response.source)
        if isinstance(response, BeginQuorumEpochResponse) and follower is not None:
            follower.acknowledged = True
        return None

    def grants_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        return False

    def grants_pre_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        return False

    def replica_end_offsets(self, node: NodeState) -> Mapping[ReplicaKey, Offset]:
        """Return the last valid fetch offset of each replica, 0 before the first, and our own durable end."""
        return {**self._replicas.end_offsets(), node.key: node.log.durable_end_offset}

    # --- replicas ---

    def _find_replica(self, node: NodeState, request: FetchRequest | FetchSnapshotRequest) -> ReplicaProgress:
        """Return the replica that asks. It knows the leader, and does not wait for its earlier Fetch any
        more."""
        replica, evicted = self._replicas.find(request.replica)
        if evicted is not None:
            self._forget(node, evicted)
        self._answer_parked(node, replica)
        replica.acknowledged = True
        replica.fetched_as = request.replica
        return replica

    def _mark_caught_up(self, node: NodeState, replica: ReplicaProgress) -> None:
        if replica.caught_up:
            return
        had_periods = self._replicas.need_periods
        replica.caught_up = True
        if not had_periods and self._replicas.need_periods:
            self._arm_begin_quorum(node)

    def _count_for_quorum(self, node: NodeState, replica: ReplicaProgress) -> None:
        replica.silent_periods = 0
        if self._replicas.voter_fetched(replica.key.id):
            self._arm_check_quorum(node)

    def _advance_high_watermark(self, node: NodeState) -> None:
        end = self._replicas.majority_end_offset(epoch_start=self.epoch_start_offset)
        # Lower than before only if a voter lost its log (KAFKA-12181), or the voters changed. Committed
        # records stay committed.
        if end is None or (self.high_watermark is not None and end <= self.high_watermark):
            return
        self.high_watermark = end
        node.advance_high_watermark(end)
        self._changes.note_commit(node, end)
        self._read_index.check(node, high_watermark=end)
        for replica in self._replicas:
            if replica.parked is not None:
                self._tell_high_watermark(node, replica)

    def _next_transition(self, node: NodeState) -> Transition | None:
        """Resign when the chosen successor has the whole log, or our removal from the voters is committed."""
        if not node.is_voter and self.high_watermark is not None:
            offset = node.log.voters.latest_offset
            if offset is not None and offset < self.high_watermark:
                return self.resign()
        is_due = self._transfer.is_due(node, self._replicas, high_watermark=self.high_watermark)
        return self.resign() if is_due else None

    def _count_new_voters(self, node: NodeState) -> None:
        """Count by the voter set that was just appended, committed or not."""
        had_followers, had_periods = bool(self._replicas.followers), self._replicas.need_periods
        changed_role = node.look_up_voters()
        for removed in self._replicas.set_voters(node):
            node.in_flight.pop(removed.key.id, None)
            if self._replicas.observers.get(removed.key.id) is not removed:
                self._forget(node, removed)
        if self._replicas.followers:
            self._arm_check_quorum(node)
        elif had_followers:
            node.cancel(TimerKind.CHECK_QUORUM)
        if self._replicas.need_periods and not had_periods:
            self._arm_begin_quorum(node)
        elif had_periods and not self._replicas.need_periods:
            node.cancel(TimerKind.BEGIN_QUORUM)
        if changed_role:
            node.report_role(self.role, self.epoch_start_offset)
        self._advance_high_watermark(node)

    def _forget(self, node: NodeState, replica: ReplicaProgress) -> None:
        if replica.parked is not None:
            node.out.append(CancelTimer(replica.fetch_wait))
            self._answer_parked(node, replica)

    # --- answers ---

    def _offer(self, node: NodeState) -> None:
        """Answer the parked Fetches, because there are new records."""
        for replica in self._replicas:
            if replica.parked is not None:
                self._answer_parked(node, replica)

    def _answer_or_park(self, node: NodeState, replica: ReplicaProgress, request: FetchRequest) -> None:
        may_wait = request.max_wait_ms > 0 and request.max_bytes > 0
        if not may_wait or request.offset < node.log.end_offset:
            self._answer(node, request)
            return
        replica.parked = request
        if replica.is_voter and request.read_round < self._read_index.round:
            self._answer_parked(node, replica)
        elif self._has_news_for(request):
            self._tell_high_watermark(node, replica)
        else:
            node.out.append(ArmTimer(replica.fetch_wait, request.max_wait_ms, request.max_wait_ms))

    def _has_news_for(self, request: FetchRequest) -> bool:
        known = request.high_watermark
        return self.high_watermark is not None and (known is None or known < self.high_watermark)

    def _tell_high_watermark(self, node: NodeState, replica: ReplicaProgress) -> None:
        """The replica waits at our log end and does not know our high watermark: tell it, now or with the
        records that come within `high_watermark_wait_ms`."""
        wait_ms = node.config.high_watermark_wait_ms
        if wait_ms == 0:
            self._answer_parked(node, replica)
        else:
            node.out.append(ArmTimer(replica.fetch_wait, wait_ms, wait_ms))

    def _answer_parked(self, node: NodeState, replica: ReplicaProgress) -> None:
        # FETCH_WAIT is left to fire, or to be armed again with the next Fetch: nothing parked, nothing done.
        parked = replica.parked
        if parked is not None:
            replica.parked = None
            self._answer(node, parked)

    def _answer(self, node: NodeState, request: FetchRequest) -> None:
        answer_fetch(node, request, high_watermark=self.high_watermark, read_round=self._read_index.round)

    # --- keeping the quorum together ---

    def _tell_unaware(self, node: NodeState) -> None:
        for replica in self._replicas.followers.values():
            if not replica.acknowledged and node.may_ask(replica.key.id):
                requests.begin_epoch(node, replica.key)

    def _arm_check_quorum(self, node: NodeState) -> None:
        self._replicas.start_period()
        timeout_ms = node.config.fetch_timeout_ms * 3 // 2
        node.out.append(ArmTimer(CHECK_QUORUM, timeout_ms, timeout_ms))

    def _arm_begin_quorum(self, node: NodeState) -> None:
        period_ms = node.config.fetch_timeout_ms // 2
        node.out.append(ArmTimer(BEGIN_QUORUM, period_ms, period_ms))
