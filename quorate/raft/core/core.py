"""The entry into the protocol: an event in, effects out, in order."""

from collections.abc import Hashable, Mapping
from typing import assert_never

from quorate.error_code import ErrorCode
from quorate.invariant import invariant
from quorate.present import present
from quorate.raft.core.core_config import CoreConfig, Generation
from quorate.raft.core.effects import (
    Effect,
    InstallSnapshot,
    ReadIndexFailed,
    RejectProposal,
    Role,
    TransferEnded,
    VotersChanged,
)
from quorate.raft.core.events import (
    ChangeVoters,
    CommitHeard,
    Durable,
    Event,
    LogStartMoved,
    Propose,
    ReadIndex,
    Received,
    RequestFailed,
    Resign,
    SnapshotChecked,
    SnapshotDamaged,
    SnapshotTaken,
    TimerFired,
    TimerKind,
    TransferLeadership,
    Unreachable,
    VoterChange,
)
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Message,
    Response,
    VoteRequest,
)
from quorate.raft.core.replica_log.incoming_snapshot import Arrival, IncomingSnapshot
from quorate.raft.core.replica_log.replica_log import ReplicaLog
from quorate.raft.core.request_handlers import (
    answer_begin_epoch,
    answer_end_epoch,
    answer_fetch,
    answer_fetch_snapshot,
    answer_vote,
)
from quorate.raft.core.response_handlers import end_pause, give_up_request, take_response
from quorate.raft.core.role_holder import RoleHolder
from quorate.raft.core.roles.candidate import Candidate
from quorate.raft.core.roles.follower import Follower
from quorate.raft.core.roles.leader import Leader
from quorate.raft.core.roles.resigned import Resigned
from quorate.raft.core.roles.unattached import Unattached
from quorate.raft.core.roles.voter_changes import Refused
from quorate.raft.core.shared_state import NodeState
from quorate.types import (
    ElectionState,
    Endpoint,
    Epoch,
    EpochEnd,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    SnapshotId,
    VoterSet,
)


class Core:
    """One node of the quorum, as a function of its state: `step` takes an event and returns effects.

    `election` is what the quorum-state file holds and `log` what recovery found, all of it durable.
    `endpoint` is where this node listens; None takes it from the voter set, and stays unknown for an
    observer. `voters` are those of the configuration, and may be empty (a node that joins): they count while
    there are none in the log (KIP-853). `bootstrap` are servers to ask for the leader: requests to the first
    have the destination -2, to the next -3, and so on, and its answers must come with that source.
    `last_correlation`: the first request gets the one after it. A driver whose network may still bring the
    answers to an earlier process passes one that no earlier process reached.

    Not safe to share between tasks. After an InvariantError the state may be half changed: drop the core, and
    stop the node.
    """

    __slots__ = ("_node", "_roles")

    def __init__(
        self,
        *,
        config: CoreConfig,
        cluster_id: str,
        key: ReplicaKey,
        endpoint: Endpoint | None,
        voters: VoterSet,
        election: ElectionState,
        log: RecoveredLog,
        bootstrap: tuple[Endpoint, ...] = (),
        last_correlation: int = 0,
    ) -> None:
        self._node = NodeState(
            config=config,
            cluster_id=cluster_id,
            key=key,
            endpoint=endpoint,
            bootstrap=bootstrap,
            election=election,
            log=ReplicaLog(log, static_voters=voters),
            correlation=last_correlation,
        )
        self._roles = RoleHolder(self._node)

    def start(self) -> tuple[Effect, ...]:
        """Take the first role, by the stored epoch, vote and leader
        (docs/reference/kraft-rules.md#the-first-role)."""
        node = self._node
        log = node.log
        if log.snapshot is not None and not log.holds(log.snapshot):
            # It was fetched and checked, and the node stopped before it was installed.
            log.voters.truncate(log.snapshot.end_offset)
            log.reset(log.snapshot, log.voters.at(log.snapshot.end_offset))
            node.out.append(InstallSnapshot(log.generation, log.snapshot))
            node.look_up_voters()
        node.keep_stored_promise()
        stored = node.election
        if stored.epoch < log.last_epoch:
            # The quorum-state file is older than the log: restored or lost. Its vote is not of the log's
            # epoch.
            node.persist(ElectionState(log.last_epoch))
        elif not node.is_sole_voter:
            if stored.leader == node.id:
                # No offsets are known here. The order of ids still keeps the others from standing at once.
                successors = tuple(voter.id for voter in node.others)
                return self._roles.begin(Resigned(preferred_successors=successors))
            has_voted_for_itself = stored.voted is not None and stored.voted.matches(node.key)
            may_stand = node.may_stand and not node.promised
            if stored.leader is None and has_voted_for_itself and may_stand:
                return self._roles.begin(Candidate(node))
        leader = node.election.leader
        if leader is not None and leader != node.id and not node.is_sole_voter:
            node.leader = leader
            node.leader_endpoint = node.voters.endpoint_of(leader)
            if node.leader_endpoint is not None:
                return self._roles.begin(Follower(leader=leader))
        return self._roles.begin(Unattached(heeds_outside_ids=node.election.voted is None))

    def tell_time(self, now_ms: int) -> None:
        """Tell the time of the next step, by a clock that never stops or goes back, not even while the
        process or the host is suspended. Before each step; of no effect where `read_lease_ms` is 0. A time
        that is too early makes leases too long: read the clock after the event has come."""
        if self._node.config.read_lease_ms:
            self._node.now_ms = now_ms

    def step(self, event: Event) -> tuple[Effect, ...]:
        """Raises InvariantError if a rule of the protocol is broken, here or by a peer: the node must
        stop."""
        node, roles = self._node, self._roles
        match event:
            case Received():
                self._receive(event.message)
            case Durable():
                self._note_durable(event.generation, event.end_offset)
            case Propose():
                if isinstance(roles.role, Leader):
                    roles.role.on_propose(node, event)
                else:
                    node.out.append(RejectProposal(event.proposal, node.leader, node.epoch))
            case TimerFired():
                if event.timer.kind is TimerKind.BACKOFF:
                    end_pause(roles, event.timer.node)
                elif event.timer.kind is TimerKind.PROMISE:
                    node.note_promise_over()
                    roles.go(roles.role.on_promise_ended(node))
                else:
                    roles.go(roles.role.on_timer(node, event.timer))
            case RequestFailed():
                if node.in_flight.get(event.destination) == event.correlation:
                    give_up_request(roles, event.destination)
            case CommitHeard():
                if isinstance(roles.role, Follower) and event.epoch == node.epoch:
                    roles.role.on_commit_heard(node, event.end_offset)
            case Unreachable():
                roles.role.on_unreachable(node, event.node)
            case Resign():
                if isinstance(roles.role, Leader):
                    roles.go(roles.role.resign())
            case TransferLeadership():
                if isinstance(roles.role, Leader):
                    roles.go(roles.role.on_transfer(node, event))
                else:
                    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    node.out.append(TransferEnded(event.successor, error))
            case ReadIndex():
                if isinstance(roles.role, Leader):
                    roles.role.on_read_index(node, event)
                else:
                    node.out.append(ReadIndexFailed(event.read_round, node.leader, node.epoch))
            case ChangeVoters():
                if isinstance(roles.role, Leader):
                    roles.role.on_change_voters(node, event)
                else:
                    refused = present(self.refusal_of(event.change), "the refusal of a follower")
                    node.out.append(VotersChanged(event.request, refused.error, refused.message))
            case SnapshotTaken():
                self._snapshot_taken(event.snapshot)
            case LogStartMoved():
                self._log_start_moved(event.start)
            case SnapshotChecked():
                self._snapshot_checked(event)
            case SnapshotDamaged():
                self._snapshot_damaged(event.snapshot)
            case _:
                assert_never(event)
        return roles.take_effects()

    def clone(self) -> "Core":
        """Return an independent copy. Immutable values are shared."""
        twin = type(self).__new__(type(self))
        twin._roles = self._roles.clone()
        twin._node = twin._roles.node
        return twin

    def key(self) -> Hashable:
        """Return a key that is equal for two cores exactly if they behave alike from here on."""
        return self._node.state_key(), self._roles.role.state_key()

    # --- the state as others see it: values, or copies ---

    @property
    def node_id(self) -> NodeId:
        return self._node.id

    @property
    def role(self) -> Role:
        return self._roles.role.role

    @property
    def epoch(self) -> Epoch:
        return self._node.epoch

    @property
    def leader(self) -> NodeId | None:
        """The leader of this epoch, if known. None once this node has resigned from it."""
        return self._node.leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return self._node.leader_endpoint

    @property
    def voted(self) -> ReplicaKey | None:
        return self._node.election.voted

    @property
    def election(self) -> ElectionState:
        return self._node.election

    @property
    def log_start_offset(self) -> Offset:
        return self._node.log.start_offset

    @property
    def log_end_offset(self) -> Offset:
        return self._node.log.end_offset

    @property
    def log_end_epoch(self) -> Epoch:
        return self._node.log.last_epoch

    @property
    def durable_end_offset(self) -> Offset:
        return self._node.log.durable_end_offset

    @property
    def generation(self) -> Generation:
        return self._node.log.generation

    @property
    def high_watermark(self) -> Offset | None:
        """The highest high watermark (exclusive) known since the process started, at least the end of the
        latest snapshot. None: none is known yet."""
        return self._node.high_watermark

    @property
    def epoch_start_offset(self) -> Offset | None:
        """The offset of this epoch's LeaderChange record. None: this node does not lead."""
        return self._roles.role.epoch_start_offset if isinstance(self._roles.role, Leader) else None

    @property
    def snapshot(self) -> SnapshotId | None:
        """The latest complete snapshot of this node's log."""
        return self._node.log.snapshot

    @property
    def voters(self) -> VoterSet:
        """The latest voter set in the log, committed or not. Without one, the configured set."""
        return self._node.voters

    @property
    def has_dynamic_voters(self) -> bool:
        """True if the voter set is in the log (kraft.version 1)."""
        return self._node.log.voters.is_dynamic

    def voters_at(self, end_offset: Offset) -> VoterSet | None:
        """Return the voter set that a snapshot ending at `end_offset` must hold. None: kraft.version 0. It is
        known from the log start on."""
        return self._node.log.voters.at(end_offset)

    def endpoint_of(self, node: NodeId) -> Endpoint | None:
        """Return the endpoint of `node`: a voter, the leader, or a bootstrap server, whose ids are -2, -3,
        ..."""
        return self._node.endpoint_of(node)

    @property
    def is_voter(self) -> bool:
        return self._node.is_voter

    def refusal_of(self, change: VoterChange) -> Refused | None:
        """Return the refusal that `ChangeVoters` would get now. None: it would be carried out."""
        if isinstance(self._roles.role, Leader):
            return self._roles.role.refusal_of(self._node, change)
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead; ask the leader")

    def replica_end_offsets(self) -> Mapping[ReplicaKey, Offset]:
        """Return, on the leader, each replica's last valid fetch offset, and its own durable end. Otherwise
        empty."""
        role = self._roles.role
        return role.replica_end_offsets(self._node) if isinstance(role, Leader) else {}

    def has_read_lease(self, now_ms: int) -> bool:
        """Return whether this node leads and answers reads without a round, at this time of its lease
        clock."""
        role = self._roles.role
        return isinstance(role, Leader) and role.has_lease(self._node, now_ms=now_ms)

    # --- events ---

    def _receive(self, message: Message) -> None:
        match message:
            case FetchRequest():
                answer_fetch(self._roles, message)
            case Response():
                take_response(self._roles, message)
            case FetchSnapshotRequest():
                answer_fetch_snapshot(self._roles, message)
            case VoteRequest():
                answer_vote(self._roles, message)
            case BeginQuorumEpochRequest():
                answer_begin_epoch(self._roles, message)
            case EndQuorumEpochRequest():
                answer_end_epoch(self._roles, message)
            case _:
                assert_never(message)

    def _note_durable(self, generation: Generation, end_offset: Offset) -> None:
        log = self._node.log
        if generation != log.generation:
            invariant(
                generation < log.generation,
                "no such generation yet",
                given=generation,
                current=log.generation,
            )
            return  # of a log that has been cut since
        if log.note_durable(end_offset):
            self._roles.go(self._roles.role.on_durable(self._node))

    def _snapshot_taken(self, snapshot: SnapshotId) -> None:
        node = self._node
        latest = node.log.snapshot
        if latest is not None and snapshot.end_offset <= latest.end_offset:
            return  # a later one came from the leader meanwhile
        invariant(
            node.high_watermark is not None and snapshot.end_offset <= node.high_watermark,
            "a snapshot holds only what is committed",
            snapshot=snapshot,
            high_watermark=node.high_watermark,
        )
        node.log.note_snapshot(snapshot)

    def _log_start_moved(self, start: EpochEnd) -> None:
        if start.end_offset > self._node.log.start_offset:
            self._node.log.move_start(start)

    def _snapshot_checked(self, event: SnapshotChecked) -> None:
        incoming = self._node.incoming
        if incoming is None or incoming.id != event.snapshot or incoming.arrival is not Arrival.CHECKING:
            return  # another one is wanted by now
        incoming.arrival = Arrival.CHECKED
        incoming.voters = event.voters
        if isinstance(self._roles.role, Follower):
            self._roles.role.on_snapshot_checked(self._node)

    def _snapshot_damaged(self, snapshot: SnapshotId) -> None:
        incoming = self._node.incoming
        if incoming is None or incoming.id != snapshot or incoming.arrival is not Arrival.CHECKING:
            return
        self._node.incoming = IncomingSnapshot(snapshot)
        if isinstance(self._roles.role, Follower):
            self._roles.role.on_snapshot_damaged(self._node)
