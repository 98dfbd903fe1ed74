"""The node whose log the others copy."""

from collections.abc import Hashable, Iterator, Mapping
from typing import ClassVar, Final, Self

from quorate.raft.core import requests
from quorate.raft.core.effects import (
    AppendLeaderChange,
    AppendProposal,
    ArmTimer,
    CancelTimer,
    Role,
    SendRecords,
)
from quorate.raft.core.events import Propose, Timer, TimerKind
from quorate.raft.core.invariant import invariant
from quorate.raft.core.messages import (
    BeginQuorumEpochResponse,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    Response,
    VoteRequest,
)
from quorate.raft.core.node import BEGIN_QUORUM, CHECK_QUORUM, Node
from quorate.raft.core.replica_progress import ReplicaProgress
from quorate.raft.core.role import RoleState
from quorate.raft.core.transitions import ToResigned, Transition
from quorate.raft.core.types import EpochEnd, NodeId, Offset, ReplicaKey
from quorate.raft.core.voters import majority_end

OBSERVERS_MAX: Final = 1000
"""Observers remembered; the one not heard of for longest makes room for the next."""


class Leader(RoleState):
    """Appends, answers Fetches, and moves the high watermark by what the Fetches acknowledge.

    It offers records before they are durable here, and counts itself only when they are.
    """

    __slots__ = (
        "_fetched",
        "_fetched_needed",
        "_followers",
        "_granting_voters",
        "_observers",
        "_voter_ends",
        "epoch_start_offset",
        "high_watermark",
    )

    role: ClassVar[Role] = Role.LEADER

    def __init__(self, node: Node, *, granting_voters: tuple[NodeId, ...]) -> None:
        self.epoch_start_offset = node.log.end_offset
        """Where the LeaderChange record is."""
        self.high_watermark: Offset | None = None
        """None until a record of this epoch is committed; what we commit before is not known to be so
        (KIP-595)."""
        self._granting_voters = granting_voters
        self._followers = {voter.id: ReplicaProgress(voter) for voter in node.others}
        self._observers: dict[NodeId, ReplicaProgress] = {}
        self._voter_ends: dict[NodeId, Offset] = {voter.key.id: Offset(0) for voter in node.voters}
        self._fetched: set[NodeId] = set()
        """The voters that have fetched since the check-quorum timer started."""
        self._fetched_needed = node.voters.majority - (1 if node.is_voter else 0)
        if node.is_voter:
            self._voter_ends[node.id] = node.log.durable_end_offset

    def timers(self, node: Node) -> tuple[TimerKind, ...]:
        return (TimerKind.CHECK_QUORUM, TimerKind.BEGIN_QUORUM) if self._followers else ()

    def enter(self, node: Node) -> Transition | None:
        base_offset = node.log.append(count=1, epoch=node.epoch)
        invariant(
            base_offset == self.epoch_start_offset, "the epoch starts at the log end", base_offset=base_offset
        )
        node.out.append(
            AppendLeaderChange(
                node.log.generation,
                base_offset=base_offset,
                epoch=node.epoch,
                leader=node.id,
                voters=node.voters.ids,
                granting_voters=self._granting_voters,
            )
        )
        if self._followers:
            self._arm_check_quorum(node)
            self._arm_begin_quorum(node)
            self._tell_unaware(node)
        return None

    def leave(self, node: Node) -> None:
        for replica in self._replicas():
            if replica.parked is not None:
                node.out.append(CancelTimer(replica.fetch_wait))
                self._refuse(node, replica.parked)
                replica.parked = None

    # --- what happens to a leader ---

    def on_propose(self, node: Node, event: Propose) -> None:
        invariant(event.count > 0, "a proposal has records", proposal=event.proposal, count=event.count)
        log = node.log
        base_offset = log.end_offset
        end_offset = Offset(base_offset + event.count)
        log.end_offset = end_offset  # the epoch began with LeaderChange
        node.out.append(
            AppendProposal(log.generation, event.proposal, base_offset, end_offset, node.election.epoch)
        )
        for replica in self._replicas():
            if replica.parked is not None:
                self._answer_parked(node, replica)

    def on_durable(self, node: Node) -> None:
        if node.is_voter:
            self._voter_ends[node.id] = node.log.durable_end_offset
            self._advance(node)

    def on_fetch(self, node: Node, request: FetchRequest) -> None:
        """A Fetch of this epoch, well-formed."""
        replica = self._replica(node, request.replica)
        superseded = replica.parked
        if superseded is not None:
            replica.parked = None
            self._answer(node, superseded)
        diverging = node.log.divergence(offset=request.offset, epoch=request.last_fetched_epoch)
        replica.acknowledged = True
        if diverging is not None:
            # Says nothing of what the replica has in common with us (KAFKA-13141).
            self._answer(node, request, diverging=diverging)
            return
        replica.end_offset = request.offset
        if replica.is_voter:
            replica.fetched_in_period = True
            self._voter_fetched(node, request.source)
            self._voter_ends[request.source] = request.offset
            self._advance(node)
        self._answer_or_park(node, replica, request)

    def on_timer(self, node: Node, timer: Timer) -> Transition | None:
        if timer.kind is TimerKind.CHECK_QUORUM:
            return self.resign()
        if timer.kind is TimerKind.BEGIN_QUORUM:
            for replica in self._followers.values():
                # In place of one that is in flight: that may be lost, and its timeout is longer than this
                # period.
                if not replica.fetched_in_period and replica.key.id not in node.paused:
                    requests.begin_epoch(node, replica.key)
                replica.fetched_in_period = False
            self._arm_begin_quorum(node)
        elif timer.kind is TimerKind.FETCH_WAIT:
            for replica in self._replicas():
                if replica.fetch_wait == timer and replica.parked is not None:
                    parked = replica.parked
                    replica.parked = None
                    self._answer(node, parked)
        return None

    def resign(self) -> Transition:
        """The others by what they have, the most up to date first; equals by id."""
        others = sorted(self._followers.values(), key=lambda replica: (-replica.end_offset, replica.key.id))
        return ToResigned(preferred_successors=tuple(replica.key.id for replica in others))

    def on_ready(self, node: Node, peer: NodeId) -> Transition | None:
        self._tell_unaware(node)
        return None

    def on_response(self, node: Node, response: Response) -> Transition | None:
        if isinstance(response, BeginQuorumEpochResponse) and response.source in self._followers:
            self._followers[response.source].acknowledged = True
        return None

    def grants_vote(self, node: Node, request: VoteRequest, *, up_to_date: bool) -> bool:
        return False

    def grants_pre_vote(self, node: Node, request: VoteRequest, *, up_to_date: bool) -> bool:
        return False

    def replica_end_offsets(self, node: Node) -> Mapping[ReplicaKey, Offset]:
        """The last valid fetch offset of each replica, 0 before the first; our own is what is durable."""
        ends = {replica.key: replica.end_offset for replica in self._replicas()}
        ends[node.key] = node.log.durable_end_offset
        return ends

    def clone(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.epoch_start_offset = self.epoch_start_offset
        twin.high_watermark = self.high_watermark
        twin._granting_voters = self._granting_voters
        twin._followers = {node: replica.clone() for node, replica in self._followers.items()}
        twin._observers = {node: replica.clone() for node, replica in self._observers.items()}
        twin._voter_ends = self._voter_ends.copy()
        twin._fetched = self._fetched.copy()
        twin._fetched_needed = self._fetched_needed
        return twin

    def key(self) -> Hashable:
        return (
            self.role,
            self.epoch_start_offset,
            self.high_watermark,
            self._granting_voters,
            tuple(replica.state_key() for replica in self._followers.values()),
            tuple(replica.state_key() for replica in self._observers.values()),
            tuple(self._voter_ends.items()),
            tuple(sorted(self._fetched)),
        )

    # --- replicas ---

    def _replicas(self) -> Iterator[ReplicaProgress]:
        yield from self._followers.values()
        yield from self._observers.values()

    def _replica(self, node: Node, key: ReplicaKey) -> ReplicaProgress:
        """A voter's id with another directory is an observer: it does not have what the voter
        acknowledged."""
        follower = self._followers.get(key.id)
        if follower is not None and follower.key.matches(key):
            return follower
        observer = self._observers.pop(key.id, None)
        if observer is None:
            if len(self._observers) >= OBSERVERS_MAX:
                oldest = self._observers.pop(next(iter(self._observers)))
                if oldest.parked is not None:
                    node.out.append(CancelTimer(oldest.fetch_wait))
                    self._answer(node, oldest.parked)
            observer = ReplicaProgress(key, is_voter=False)
        observer.key = key
        self._observers[key.id] = observer  # last again
        return observer

    def _voter_fetched(self, node: Node, voter: NodeId) -> None:
        self._fetched.add(voter)
        if len(self._fetched) >= self._fetched_needed:
            self._arm_check_quorum(node)

    def _advance(self, node: Node) -> None:
        end = majority_end(self._voter_ends.values(), epoch_start=self.epoch_start_offset)
        # Less than before only if a voter lost its log (KAFKA-12181); committed is committed.
        if end is None or (self.high_watermark is not None and end <= self.high_watermark):
            return
        self.high_watermark = end
        node.advance_high_watermark(end)
        for replica in self._replicas():
            if replica.parked is not None:
                self._tell_high_watermark(node, replica)

    # --- answers ---

    def _answer_or_park(self, node: Node, replica: ReplicaProgress, request: FetchRequest) -> None:
        may_wait = request.max_wait_ms > 0 and request.max_bytes > 0
        if not may_wait or request.offset < node.log.end_offset:
            self._answer(node, request)
            return
        replica.parked = request
        if self._has_news_for(request):
            self._tell_high_watermark(node, replica)
        else:
            node.out.append(ArmTimer(replica.fetch_wait, request.max_wait_ms, request.max_wait_ms))

    def _has_news_for(self, request: FetchRequest) -> bool:
        known = request.high_watermark
        return self.high_watermark is not None and (known is None or known < self.high_watermark)

    def _tell_high_watermark(self, node: Node, replica: ReplicaProgress) -> None:
        """The replica waits at our log end and does not know our high watermark: tell it, now or with the
        records that come within `high_watermark_wait_ms`."""
        wait_ms = node.config.high_watermark_wait_ms
        if wait_ms == 0:
            self._answer_parked(node, replica)
        else:
            node.out.append(ArmTimer(replica.fetch_wait, 0, wait_ms))

    def _answer_parked(self, node: Node, replica: ReplicaProgress) -> None:
        # FETCH_WAIT is left to fire, or to be armed again with the next Fetch: nothing parked, nothing done.
        parked = replica.parked
        if parked is not None:
            replica.parked = None
            self._answer(node, parked)

    def _answer(self, node: Node, request: FetchRequest, *, diverging: EpochEnd | None = None) -> None:
        response = FetchResponse(
            source=node.id,
            destination=request.source,
            correlation=request.correlation,
            epoch=node.election.epoch,
            leader=node.id,
            leader_endpoint=node.endpoint,
            high_watermark=self.high_watermark,
            log_start_offset=node.log.start_offset,
            diverging=diverging,
        )
        if diverging is None and request.max_bytes > 0 and request.offset < node.log.end_offset:
            node.out.append(SendRecords(response, request.offset, request.max_bytes))
        else:
            node.send(response)

    def _refuse(self, node: Node, request: FetchRequest) -> None:
        node.send(
            FetchResponse(
                source=node.id,
                destination=request.source,
                correlation=request.correlation,
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                epoch=node.epoch,
                leader=node.leader,
                leader_endpoint=node.leader_endpoint,
            )
        )

    # --- keeping the quorum together ---

    def _tell_unaware(self, node: Node) -> None:
        for replica in self._followers.values():
            if not replica.acknowledged and node.may_ask(replica.key.id):
                requests.begin_epoch(node, replica.key)

    def _arm_check_quorum(self, node: Node) -> None:
        self._fetched.clear()
        timeout_ms = node.config.fetch_timeout_ms * 3 // 2
        node.out.append(ArmTimer(CHECK_QUORUM, timeout_ms, timeout_ms))

    def _arm_begin_quorum(self, node: Node) -> None:
        period_ms = node.config.fetch_timeout_ms // 2
        node.out.append(ArmTimer(BEGIN_QUORUM, period_ms, period_ms))
