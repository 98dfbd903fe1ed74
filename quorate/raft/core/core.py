"""The one door into the protocol: an event in, effects out, in order."""

from collections.abc import Hashable
from typing import assert_never

from quorate.error_code import ErrorCode
from quorate.raft.core.core_config import CoreConfig, Generation
from quorate.raft.core.effects import (
    Effect,
    InstallSnapshot,
    ReadIndexFailed,
    RejectProposal,
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
)
from quorate.raft.core.invariant import invariant
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Message,
    Response,
    VoteRequest,
)
from quorate.raft.core.observable import Observable
from quorate.raft.core.replica_log import Arrival, IncomingSnapshot, ReplicaLog
from quorate.raft.core.request_handlers import RequestHandlers
from quorate.raft.core.response_handlers import ResponseHandlers
from quorate.raft.core.roles import Candidate, Follower, Leader, Resigned, Unattached
from quorate.raft.core.shared_state import NodeState
from quorate.types import (
    ElectionState,
    Endpoint,
    EpochEnd,
    Offset,
    RecoveredLog,
    ReplicaKey,
    SnapshotId,
    VoterSet,
)


class Core(RequestHandlers, ResponseHandlers, Observable):
    """One node of the quorum, as a function of its state: `step` takes an event and returns effects.

    `election` is what the quorum-state file holds and `log` what recovery found, all of it durable.
    `endpoint` is where this node listens; None takes it from the voter set, and stays unknown for an
    observer. `voters` are those of the configuration, and may be empty (a node that joins): they count while
    there are none in the log (KIP-853). `bootstrap` are servers to ask for the leader: requests to the first
    have the destination -2, to the next -3, and so on, and its answers must come with that source.

    Not safe to share between tasks. After an InvariantError the state may be half changed: drop the core, and
    stop the node.
    """

    __slots__ = ()

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
    ) -> None:
        node = NodeState(
            config=config,
            cluster_id=cluster_id,
            key=key,
            endpoint=endpoint,
            bootstrap=bootstrap,
            election=election,
            log=ReplicaLog(log, static_voters=voters),
        )
        super().__init__(node)

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
        stored = node.election
        if stored.epoch < log.last_epoch:
            # The quorum-state file is older than the log: restored or lost. Its vote is not of the log's
            # epoch.
            node.persist(ElectionState(log.last_epoch))
        elif not node.is_sole_voter:
            if stored.leader == node.id:
                # Nobody's offsets are known here; the order of ids still keeps the others from standing at
                # once.
                successors = tuple(voter.id for voter in node.others)
                return self._begin(Resigned(preferred_successors=successors))
            has_voted_for_itself = stored.voted is not None and stored.voted.matches(node.key)
            if stored.leader is None and has_voted_for_itself and node.may_stand:
                return self._begin(Candidate(node))
        leader = node.election.leader
        if leader is not None and leader != node.id and not node.is_sole_voter:
            node.leader = leader
            node.leader_endpoint = node.voters.endpoint_of(leader)
            if node.leader_endpoint is not None:
                return self._begin(Follower(leader=leader))
        return self._begin(Unattached(heeds_strangers=node.election.voted is None))

    def step(self, event: Event) -> tuple[Effect, ...]:
        """Raises InvariantError if a rule of the protocol is broken, here or by a peer: the node must
        stop."""
        match event:
            case Received():
                self._receive(event.message)
            case Durable():
                self._durable(event.generation, event.end_offset)
            case Propose():
                if isinstance(self._role, Leader):
                    self._role.on_propose(self._node, event)
                else:
                    self._node.out.append(RejectProposal(event.proposal, self._node.leader, self._node.epoch))
            case TimerFired():
                if event.timer.kind is TimerKind.BACKOFF:
                    self._ready(event.timer.node)
                else:
                    self._go(self._role.on_timer(self._node, event.timer))
            case RequestFailed():
                if self._node.in_flight.get(event.destination) == event.correlation:
                    self._unanswered(event.destination)
            case CommitHeard():
                if isinstance(self._role, Follower) and event.epoch == self._node.epoch:
                    self._role.on_commit_heard(self._node, event.end_offset)
            case Unreachable():
                self._role.on_unreachable(self._node, event.node)
            case Resign():
                if isinstance(self._role, Leader):
                    self._go(self._role.resign())
            case TransferLeadership():
                if isinstance(self._role, Leader):
                    self._go(self._role.on_transfer(self._node, event))
                else:
                    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    self._node.out.append(TransferEnded(event.successor, error))
            case ReadIndex():
                if isinstance(self._role, Leader):
                    self._role.on_read_index(self._node, event)
                else:
                    node = self._node
                    node.out.append(ReadIndexFailed(event.read_round, node.leader, node.epoch))
            case ChangeVoters():
                if isinstance(self._role, Leader):
                    self._role.on_change_voters(self._node, event)
                else:
                    refused = self.refusal_of(event.change)
                    assert refused is not None
                    self._node.out.append(VotersChanged(event.request, refused.error, refused.message))
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
        return self._take()

    def clone(self) -> "Core":
        """An independent copy. Cheap: what is immutable is shared."""
        twin = type(self).__new__(type(self))
        twin._node = self._node.clone()
        twin._role = self._role.clone()
        return twin

    def key(self) -> Hashable:
        """Equal for two cores exactly if they behave alike from here on."""
        return self._node.state_key(), self._role.state_key()

    # --- events ---

    def _receive(self, message: Message) -> None:
        match message:
            case FetchRequest():
                self._fetch_request(message)
            case Response():
                self._response(message)
            case FetchSnapshotRequest():
                self._fetch_snapshot_request(message)
            case VoteRequest():
                self._vote_request(message)
            case BeginQuorumEpochRequest():
                self._begin_request(message)
            case EndQuorumEpochRequest():
                self._end_request(message)
            case _:
                assert_never(message)

    def _durable(self, generation: Generation, end_offset: Offset) -> None:
        log = self._node.log
        if generation != log.generation:
            invariant(
                generation < log.generation, "no such generation yet", told=generation, current=log.generation
            )
            return  # of a log that has been cut since
        if log.note_durable(end_offset):
            self._go(self._role.on_durable(self._node))

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
            return  # not wanted any more
        incoming.arrival = Arrival.CHECKED
        incoming.voters = event.voters
        if isinstance(self._role, Follower):
            self._role.on_snapshot_checked(self._node)

    def _snapshot_damaged(self, snapshot: SnapshotId) -> None:
        incoming = self._node.incoming
        if incoming is None or incoming.id != snapshot or incoming.arrival is not Arrival.CHECKING:
            return
        self._node.incoming = IncomingSnapshot(snapshot)
        if isinstance(self._role, Follower):
            self._role.on_snapshot_damaged(self._node)
