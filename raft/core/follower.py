"""A node that copies the leader's log."""

from collections.abc import Hashable
from typing import ClassVar, Self

from quorate.raft.core import requests
from quorate.raft.core.effects import AppendFetched, ArmTimer, Role, Truncate
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.invariant import invariant
from quorate.raft.core.messages import FetchResponse, Response, VoteRequest
from quorate.raft.core.node import FETCH, Node
from quorate.raft.core.role import RoleState
from quorate.raft.core.transitions import ToProspective, ToUnattached, Transition
from quorate.raft.core.types import EpochEnd, NodeId, Offset

LOST_ROUNDS_MAX = 10
"""Where counting stops: 2**10 times any wait is beyond its bound."""


class Follower(RoleState):
    """Fetches, appends, and fetches again once what it appended is durable: that fetch is the
    acknowledgement."""

    __slots__ = ("_has_fetched", "_leader_gone", "_leader_resigned", "_lost_rounds", "leader")

    role: ClassVar[Role] = Role.FOLLOWER

    def __init__(self, *, leader: NodeId, lost_rounds: int = 0, leader_resigned: bool = False) -> None:
        self.leader = leader
        self._has_fetched = False
        self._leader_gone = leader_resigned
        """It resigned, or its connection broke and it has not answered since."""
        self._leader_resigned = leader_resigned
        """Nothing can be fetched from it in this epoch any more."""
        self._lost_rounds = min(lost_rounds, LOST_ROUNDS_MAX)

    def timers(self, node: Node) -> tuple[TimerKind, ...]:
        return (TimerKind.FETCH,)

    def enter(self, node: Node) -> Transition | None:
        if self._lost_rounds:
            self._arm_short(node)
        else:
            self._arm(node)
        self._fetch(node)
        return None

    def on_timer(self, node: Node, timer: Timer) -> Transition | None:
        if timer.kind is not TimerKind.FETCH:
            return None
        if node.is_voter:
            return ToProspective(lost_rounds=self._lost_rounds)
        return ToUnattached(epoch=node.epoch)

    def on_ready(self, node: Node, peer: NodeId) -> Transition | None:
        if peer == self.leader:
            self._fetch(node)
        return None

    def on_durable(self, node: Node) -> None:
        self._fetch(node)

    def on_not_leader(self, node: Node, peer: NodeId) -> Transition | None:
        if peer != self.leader:
            return None
        self._leader_gone = True
        # A voter hears of it by EndQuorumEpoch, with its place in the queue. An observer is told nothing
        # else.
        return None if node.is_voter else ToUnattached(epoch=node.epoch)

    def on_unreachable(self, node: Node, peer: NodeId) -> None:
        if peer == self.leader and not self._leader_gone:
            self._leader_gone = True
            self._arm_short(node)

    def on_end_of_epoch(self, node: Node, preferred_successors: tuple[NodeId, ...]) -> None:
        """The leader resigned. The first successor stands at once, the others one after the other
        (KIP-595)."""
        self._leader_gone = True
        self._leader_resigned = True
        backoff_max_ms = node.config.election_backoff_max_ms
        if node.id in preferred_successors:
            place = preferred_successors.index(node.id)
            last = len(preferred_successors) - 1
            wait_ms = min(backoff_max_ms, (backoff_max_ms >> last) << (place - 1)) if place else 0
        else:
            wait_ms = backoff_max_ms
        node.out.append(ArmTimer(FETCH, wait_ms, wait_ms))

    def on_response(self, node: Node, response: Response) -> Transition | None:
        if not isinstance(response, FetchResponse):
            return None
        invariant(response.source == self.leader, "only the leader is fetched from", response=response)
        if response.diverging is not None:
            heard = self._truncate(node, response.diverging)
        elif response.batches:
            heard = self._append(node, response)
        else:
            heard = True
        if not heard:
            node.pause(self.leader, failed=False)
            return None
        if response.high_watermark is not None and response.diverging is None:
            node.advance_high_watermark(Offset(min(node.log.end_offset, response.high_watermark)))
        self._has_fetched = True
        self._leader_gone = False
        self._lost_rounds = 0
        self._arm(node)
        self._fetch(node)
        return None

    def grants_vote(self, node: Node, request: VoteRequest, *, up_to_date: bool) -> bool:
        return False

    def grants_pre_vote(self, node: Node, request: VoteRequest, *, up_to_date: bool) -> bool:
        # Who hears the leader refuses, so nobody can be elected while a majority does (KIP-996). Once the
        # leader has resigned or can't be reached we no longer hear it, and need not wait out our own timer to
        # say so.
        return up_to_date and (self._leader_gone or not self._has_fetched)

    def clone(self) -> Self:
        twin = type(self)(
            leader=self.leader, lost_rounds=self._lost_rounds, leader_resigned=self._leader_resigned
        )
        twin._has_fetched = self._has_fetched
        twin._leader_gone = self._leader_gone
        return twin

    def key(self) -> Hashable:
        return (
            self.role,
            self.leader,
            self._has_fetched,
            self._leader_gone,
            self._leader_resigned,
            self._lost_rounds,
        )

    def _arm(self, node: Node) -> None:
        timeout_ms = node.config.fetch_timeout_ms
        node.out.append(ArmTimer(FETCH, timeout_ms, timeout_ms))

    def _arm_short(self, node: Node) -> None:
        """Ask for votes soon; later and later as rounds are lost, because the leader may be well and only
        we cut off."""
        first_ms = node.config.broken_connection_wait_ms
        longest_ms = max(first_ms, node.config.election_backoff_max_ms)
        node.out.append(ArmTimer(FETCH, 0, min(longest_ms, first_ms << self._lost_rounds)))

    def _fetch(self, node: Node) -> None:
        if node.log.is_durable and not self._leader_resigned and node.may_ask(self.leader):
            config = node.config
            requests.fetch(
                node, self.leader, max_wait_ms=config.fetch_max_wait_ms, max_bytes=config.fetch_max_bytes
            )

    def _append(self, node: Node, response: FetchResponse) -> bool:
        """False, and no change, if the batches don't continue our log."""
        log = node.log
        if not log.follows(response.batches, leader_epoch=node.epoch):
            return False
        log.append_batches(response.batches)
        node.out.append(AppendFetched(log.generation, response.batches, response.records))
        return True

    def _truncate(self, node: Node, diverging: EpochEnd) -> bool:
        """Cut to the last point that our log and the leader's may share (KIP-595). False if that is no
        cut."""
        log = node.log
        end = Offset(min(diverging.end_offset, log.end_of(diverging.epoch).end_offset))
        if end >= log.end_offset:
            return False
        invariant(
            node.high_watermark is None or end >= node.high_watermark,
            "the leader asks to cut committed records; one of us has lost data, compare the logs",
            leader=self.leader,
            diverging=diverging,
            high_watermark=node.high_watermark,
            log_end_offset=log.end_offset,
        )
        log.truncate(end)
        node.out.append(Truncate(log.generation, end))
        return True
