"""The one door into the protocol: an event in, effects out, in order."""

from collections.abc import Hashable, Mapping
from typing import Final, assert_never

from quorate.raft.core.candidate import Candidate
from quorate.raft.core.checks import request_error
from quorate.raft.core.effects import Effect, RejectProposal, Role
from quorate.raft.core.events import (
    Durable,
    Event,
    Propose,
    Received,
    RequestFailed,
    Resign,
    TimerFired,
    TimerKind,
    Unreachable,
)
from quorate.raft.core.follower import Follower
from quorate.raft.core.invariant import invariant
from quorate.raft.core.leader import Leader
from quorate.raft.core.log_state import LogState
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    Message,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.core.node import Node
from quorate.raft.core.prospective import Prospective
from quorate.raft.core.resigned import Resigned
from quorate.raft.core.role_holder import RoleHolder
from quorate.raft.core.transitions import (
    ToUnattached,
)
from quorate.raft.core.types import (
    CoreConfig,
    ElectionState,
    Endpoint,
    Epoch,
    Generation,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    VoterSet,
)
from quorate.raft.core.unattached import Unattached

TELLS_EPOCH: Final = (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Answers whose epoch and leader are to be believed."""


class Core(RoleHolder):
    """One node of the quorum, as a function of its state: `step` takes an event and returns effects.

    `election` is what the quorum-state file holds and `log` what recovery found, all of it durable.
    `endpoint` is where this node listens; None takes it from the voter set, and stays unknown for an
    observer.

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
    ) -> None:
        node = Node(
            config=config,
            cluster_id=cluster_id,
            key=key,
            endpoint=endpoint,
            voters=voters,
            election=election,
            log=LogState(log),
        )
        super().__init__(node)

    def start(self) -> tuple[Effect, ...]:
        """Take the first role, by what was stored (kraft.md section 1). Never Leader, except as the only
        voter."""
        node = self._node
        stored = node.election
        if stored.epoch < node.log.last_epoch:
            # The quorum-state file is older than the log: restored or lost. Its vote is not of the log's
            # epoch.
            node.persist(ElectionState(node.log.last_epoch))
        elif node.is_voter and not node.is_sole_voter:
            if stored.leader == node.id:
                # Nobody's offsets are known here; the order of ids still keeps the others from standing at
                # once.
                successors = tuple(voter.id for voter in node.others)
                return self._begin(Resigned(preferred_successors=successors))
            if stored.leader is None and stored.voted is not None and stored.voted.matches(node.key):
                return self._begin(Candidate(node))
        leader = node.election.leader
        if leader is not None and leader != node.id and not node.is_sole_voter:
            node.leader = leader
            node.leader_endpoint = node.voters.endpoint_of(leader)
            if node.leader_endpoint is not None:
                return self._begin(Follower(leader=leader))
        return self._begin(Unattached())

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
            case Unreachable():
                self._role.on_unreachable(self._node, event.node)
            case Resign():
                if isinstance(self._role, Leader):
                    self._go(self._role.resign())
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
        return self._node.state_key(), self._role.key()

    # --- what can be seen ---

    @property
    def node_id(self) -> NodeId:
        return self._node.id

    @property
    def role(self) -> Role:
        return self._role.role

    @property
    def epoch(self) -> Epoch:
        return self._node.epoch

    @property
    def leader(self) -> NodeId | None:
        """Who leads this epoch, as far as is known. None once this node has resigned from it."""
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
        """The highest known since the process started (exclusive); None before the first."""
        return self._node.high_watermark

    @property
    def epoch_start_offset(self) -> Offset | None:
        """As leader: where this epoch's LeaderChange record is."""
        return self._role.epoch_start_offset if isinstance(self._role, Leader) else None

    @property
    def voters(self) -> VoterSet:
        return self._node.voters

    @property
    def is_voter(self) -> bool:
        return self._node.is_voter

    def replica_end_offsets(self) -> Mapping[ReplicaKey, Offset]:
        """As leader: each replica's last valid fetch offset, and our own durable end. Otherwise empty."""
        return self._role.replica_end_offsets(self._node) if isinstance(self._role, Leader) else {}

    # --- messages ---

    def _receive(self, message: Message) -> None:
        match message:
            case FetchRequest():
                self._fetch_request(message)
            case FetchResponse() | VoteResponse() | BeginQuorumEpochResponse() | EndQuorumEpochResponse():
                self._response(message)
            case VoteRequest():
                self._vote_request(message)
            case BeginQuorumEpochRequest():
                self._begin_request(message)
            case EndQuorumEpochRequest():
                self._end_request(message)
            case _:
                assert_never(message)

    def _fetch_request(self, request: FetchRequest) -> None:
        node = self._node
        error = request_error(node, request)
        if error is ErrorCode.NONE:
            if request.epoch < node.epoch:
                error = ErrorCode.FENCED_LEADER_EPOCH
            elif request.epoch > node.epoch:
                error = ErrorCode.UNKNOWN_LEADER_EPOCH
            elif not isinstance(self._role, Leader):
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif request.offset < node.log.start_offset:
                # Only a snapshot could help, and there are none yet.
                error = ErrorCode.BROKER_NOT_AVAILABLE
            else:
                self._role.on_fetch(node, request)
                return
        node.send(
            FetchResponse(
                source=node.id,
                destination=request.source,
                correlation=request.correlation,
                error=error,
                epoch=node.epoch,
                leader=node.leader,
                leader_endpoint=node.leader_endpoint,
            )
        )

    def _vote_request(self, request: VoteRequest) -> None:
        node = self._node
        error = request_error(node, request)
        granted = False
        if error is ErrorCode.NONE and request.epoch < node.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        if error is ErrorCode.NONE:
            up_to_date = self._is_up_to_date(request)
            is_asked = request.voter.matches(node.key)
            if request.epoch > node.epoch:
                # True of a pre-vote too: its epoch is one that somebody opened before. A vote is given in the
                # same breath, because each Persist costs a sync in the middle of an election.
                gives = is_asked and up_to_date and not request.pre_vote
                self._go(ToUnattached(epoch=request.epoch, voted=request.candidate if gives else None))
            if not is_asked:
                error = ErrorCode.INVALID_VOTER_KEY
            elif request.pre_vote:
                granted = self._role.grants_pre_vote(node, request, up_to_date=up_to_date)
            else:
                granted = self._role.grants_vote(node, request, up_to_date=up_to_date)
                if granted and node.election.voted is None:
                    self._go(ToUnattached(epoch=node.epoch, voted=request.candidate))
        node.send(
            VoteResponse(
                source=node.id,
                destination=request.source,
                correlation=request.correlation,
                error=error,
                epoch=node.epoch,
                leader=node.leader,
                leader_endpoint=node.leader_endpoint,
                granted=granted,
                pre_vote=request.pre_vote,
            )
        )
        if (
            request.pre_vote
            and error is ErrorCode.NONE
            and not granted
            and isinstance(self._role, Prospective)
        ):
            self._role.on_rival(node, request.source)

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        log = self._node.log
        return (request.last_epoch, request.end_offset) >= (log.last_epoch, log.end_offset)

    def _begin_request(self, request: BeginQuorumEpochRequest) -> None:
        node = self._node
        error = request_error(node, request)
        if error is ErrorCode.NONE and request.epoch < node.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        if error is ErrorCode.NONE:
            node.resume(request.source)
            self._heard_of(request.epoch, request.source, request.endpoint, first_hand=True)
            if not request.voter.matches(node.key):
                error = ErrorCode.INVALID_VOTER_KEY
        node.send(
            BeginQuorumEpochResponse(
                source=node.id,
                destination=request.source,
                correlation=request.correlation,
                error=error,
                epoch=node.epoch,
                leader=node.leader,
                leader_endpoint=node.leader_endpoint,
            )
        )

    def _end_request(self, request: EndQuorumEpochRequest) -> None:
        node = self._node
        error = request_error(node, request)
        if error is ErrorCode.NONE and request.epoch < node.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        if error is ErrorCode.NONE:
            self._heard_of(request.epoch, request.source, None, first_hand=True, resigned=True)
            if isinstance(self._role, Follower) and self._role.leader == request.source:
                self._role.on_end_of_epoch(node, request.preferred_successors)
        node.send(
            EndQuorumEpochResponse(
                source=node.id,
                destination=request.source,
                correlation=request.correlation,
                error=error,
                epoch=node.epoch,
                leader=node.leader,
                leader_endpoint=node.leader_endpoint,
            )
        )

    def _response(self, response: Response) -> None:
        """The rule for every response (kraft.md section 2), then the role's own."""
        node = self._node
        source = response.source
        if node.in_flight.get(source) != response.correlation or response.destination != node.id:
            return
        del node.in_flight[source]
        error = response.error
        tells_leader = response.epoch > node.epoch or (
            response.epoch == node.epoch and response.leader is not None
        )
        if tells_leader and error in TELLS_EPOCH:
            before = self._role
            first_hand = response.leader == source
            if first_hand:
                node.resume(source)
            self._heard_of(response.epoch, response.leader, response.leader_endpoint, first_hand=first_hand)
            if self._role is not before:
                return  # what was asked for was the old role's
        if error is ErrorCode.NONE and response.epoch == node.epoch:
            self._go(self._role.on_response(node, response))
        elif error is ErrorCode.NOT_LEADER_OR_FOLLOWER and response.epoch == node.epoch:
            node.pause(source, failed=False)
            self._go(self._role.on_not_leader(node, source))
        else:
            # Behind us, another cluster's, shutting down, or at odds with us about who we are: all may pass.
            # Kafka dies of INVALID_REQUEST; we don't let a peer's bug stop this node.
            node.pause(source, failed=False)
            self._go(self._role.on_unanswered(node, source))

    # --- other events ---

    def _durable(self, generation: Generation, end_offset: Offset) -> None:
        log = self._node.log
        if generation != log.generation:
            invariant(
                generation < log.generation, "no such generation yet", told=generation, current=log.generation
            )
            return  # of a log that has been cut since
        if log.became_durable(end_offset):
            self._role.on_durable(self._node)

    def _ready(self, peer: NodeId | None) -> None:
        if peer is not None and peer in self._node.paused:
            del self._node.paused[peer]
            self._go(self._role.on_ready(self._node, peer))

    def _unanswered(self, peer: NodeId) -> None:
        del self._node.in_flight[peer]
        self._node.pause(peer, failed=True)
        self._go(self._role.on_unanswered(self._node, peer))
