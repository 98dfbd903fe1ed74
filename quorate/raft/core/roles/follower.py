"""A node that copies the leader's log."""

from typing import ClassVar

from quorate.invariant import invariant
from quorate.raft.core import outgoing_requests as requests
from quorate.raft.core.effects import (
    AppendFetched,
    ArmTimer,
    CheckSnapshot,
    InstallSnapshot,
    Role,
    StoreSnapshotChunk,
    Truncate,
)
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import FetchResponse, FetchSnapshotResponse, Response, VoteRequest
from quorate.raft.core.replica_log.incoming_snapshot import Arrival, IncomingSnapshot
from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.roles.transitions import ToProspective, ToUnattached, Transition
from quorate.raft.core.shared_state import FETCH, NodeState
from quorate.types import EpochEnd, NodeId, Offset, SnapshotId

LOST_ROUNDS_MAX = 10
"""The end of the count: 2**10 times any wait is beyond its limit."""
RIVALS_WAITS = 4
"""Times `broken_connection_wait_ms`: the longest wait for a rival whose pre-vote was granted."""


class Follower(RoleState):
    """Fetches, appends, and fetches again once what it appended is durable: that fetch is the
    acknowledgement.

    If the leader's log begins above ours, or differs from it below its start, a snapshot replaces our log
    (KIP-630). Until that is whole, checked and durable nothing changes here. While it is checked the node
    starts no election: it is too far behind to win one, and would have to fetch the snapshot again.
    """

    __slots__ = (
        "_fits",
        "_has_fetched",
        "_leader_lost",
        "_leader_resigned",
        "_lease_time_ms",
        "_loading",
        "_lost_rounds",
        "_read_round",
        "_stands_when_free",
        "leader",
    )

    role: ClassVar[Role] = Role.FOLLOWER

    def __init__(self, *, leader: NodeId, lost_rounds: int = 0, leader_resigned: bool = False) -> None:
        self.leader = leader
        self._has_fetched = False
        self._leader_lost = leader_resigned
        """True if the leader resigned, or its connection broke and it has not answered since."""
        self._leader_resigned = leader_resigned
        """True if the leader resigned: nothing can be fetched from it in this epoch."""
        self._lost_rounds = min(lost_rounds, LOST_ROUNDS_MAX)
        self._loading = False
        """True if `node.incoming` is fetched from this leader, or checked, to be installed."""
        self._fits = False
        """True if our log is a prefix of this leader's: it has answered without asking for a truncation."""
        self._read_round = 0
        """The read-index round in the leader's last answer."""
        self._lease_time_ms = 0
        """The leader's time in its last answer, at which our promise began; 0 if we gave none."""
        self._stands_when_free = False
        """True if the wait for the leader is over, and this node only waits for the end of its promise."""

    @property
    def heeds_outside_ids(self) -> bool:
        # The voters that we know have a round first, also when the leader resigned or can't be reached.
        return self._lost_rounds > 0 and not self._has_fetched

    def timers(self, node: NodeState) -> tuple[TimerKind, ...]:
        return (TimerKind.FETCH,)

    def enter(self, node: NodeState) -> Transition | None:
        # An observer has nothing to win by asking other nodes. It gives the leader its time to answer.
        if self._lost_rounds and node.may_stand:
            self._arm_short(node)
        else:
            self._arm(node)
        self._fetch(node)
        return None

    def on_timer(self, node: NodeState, timer: Timer) -> Transition | None:
        if timer.kind is not TimerKind.FETCH:
            return None
        if self._is_checking(node):
            self._show_presence(node)
            return None
        if node.may_stand:
            if node.promised:
                self._stands_when_free = True
                return None
            return ToProspective(lost_rounds=self._lost_rounds, leader_resigned=self._leader_resigned)
        # A voter that has not noticed yet may name the same leader again. So the waits grow, as those of a
        # voter do.
        return ToUnattached(epoch=node.epoch, lost_rounds=min(self._lost_rounds + 1, LOST_ROUNDS_MAX))

    def on_promise_ended(self, node: NodeState) -> Transition | None:
        # The leader's last answer reached all voters at about the same time.
        if self._stands_when_free:
            self._stands_when_free = False
            self._arm_short(node)
        return None

    def on_ready(self, node: NodeState, peer: NodeId) -> Transition | None:
        if peer == self.leader:
            self._fetch(node)
        return None

    def on_durable(self, node: NodeState) -> Transition | None:
        self._fetch(node)
        return None

    def on_commit_heard(self, node: NodeState, end_offset: Offset) -> None:
        # Before the first answer that fits, our log may hold what the leader's does not. One that asks for a
        # cut is no such answer: it may be the first of several.
        if self._fits:
            node.advance_high_watermark(Offset(min(node.log.end_offset, end_offset)))

    def on_not_leader(self, node: NodeState, peer: NodeId) -> Transition | None:
        if peer != self.leader:
            return None
        self._leader_lost = True
        # A voter hears of it by EndQuorumEpoch, with its place in the queue. An observer is told nothing
        # else.
        return None if node.is_voter else ToUnattached(epoch=node.epoch, leader_resigned=True)

    def on_unreachable(self, node: NodeState, peer: NodeId) -> None:
        if peer == self.leader and not self._leader_lost:
            self._leader_lost = True
            self._arm_short(node)

    def on_end_of_epoch(self, node: NodeState, preferred_successors: tuple[NodeId, ...]) -> None:
        """The leader resigned. The first successor stands at once, the others one after the other
        (KIP-595)."""
        self._leader_lost = True
        self._leader_resigned = True
        backoff_max_ms = node.config.election_backoff_max_ms
        if node.id in preferred_successors:
            place = preferred_successors.index(node.id)
            last = len(preferred_successors) - 1
            wait_ms = min(backoff_max_ms, (backoff_max_ms >> last) << (place - 1)) if place else 0
        else:
            wait_ms = backoff_max_ms
        node.out.append(ArmTimer(FETCH, wait_ms, wait_ms))

    def on_response(self, node: NodeState, response: Response) -> Transition | None:
        if isinstance(response, FetchResponse):
            heard = self._take_records(node, response)
        elif isinstance(response, FetchSnapshotResponse):
            heard = self._take_chunk(node, response)
        else:
            return None
        invariant(response.source == self.leader, "only the leader is fetched from", response=response)
        if not heard:
            node.pause(self.leader, failed=False)
            return None
        self._has_fetched = True
        self._leader_lost = False
        self._lost_rounds = 0
        self._stands_when_free = False
        self._arm(node)
        self._fetch(node)
        return None

    def on_refused(self, node: NodeState, response: Response) -> Transition | None:
        if isinstance(response, FetchSnapshotResponse) and not self._is_checking(node):
            # The leader has a later one, and will say so when it is fetched from.
            self._drop_incoming(node)
        return None

    def on_snapshot_checked(self, node: NodeState) -> None:
        if self._loading:
            self._install(node)
            self._arm(node)
            self._fetch(node)

    def on_snapshot_damaged(self, node: NodeState) -> None:
        """Pause before the fetch of the snapshot begins again."""
        if self._loading:
            node.pause(self.leader, failed=False)

    def grants_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        return False

    def grants_pre_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        # A follower that hears the leader refuses, so no other node is elected while a majority hears it
        # (KIP-996). Once the leader has resigned or can't be reached, the follower grants before its own
        # timer ends.
        return up_to_date and (self._leader_lost or not self._has_fetched or request.leader_resigned)

    def on_pre_vote_granted(self, node: NodeState) -> None:
        # Our own wait may end before its candidate asks for our vote, and the votes be split. A leader that
        # resigned has put its successors in an order.
        if self._leader_lost and not self._leader_resigned and node.may_stand and not self._is_checking(node):
            first_ms = node.config.broken_connection_wait_ms
            longest_ms = max(self._short_wait_ms(node), RIVALS_WAITS * first_ms)
            node.out.append(ArmTimer(FETCH, first_ms, longest_ms))

    # --- timers and requests ---

    def _arm(self, node: NodeState) -> None:
        timeout_ms = node.config.fetch_timeout_ms
        if self._is_checking(node):
            timeout_ms //= 2
        node.out.append(ArmTimer(FETCH, timeout_ms, timeout_ms))

    def _arm_short(self, node: NodeState) -> None:
        """Arm the timer for a soon start of a pre-vote, or of an observer's search for the leader. The wait
        grows with the lost rounds, because the leader may be well and only this node cut off."""
        wait_ms = self._short_wait_ms(node)
        # The draw keeps voters from standing at once; an observer only needs to be slower each time.
        least_ms = wait_ms // 2 if self._lost_rounds and not node.may_stand else 0
        node.out.append(ArmTimer(FETCH, least_ms, wait_ms))

    def _short_wait_ms(self, node: NodeState) -> int:
        first_ms = node.config.broken_connection_wait_ms
        longest_ms = max(first_ms, node.config.election_backoff_max_ms)
        return min(longest_ms, first_ms << self._lost_rounds)

    def _fetch(self, node: NodeState) -> None:
        if not node.log.is_durable or self._leader_resigned or not node.may_ask(self.leader):
            return
        config = node.config
        if not self._loading:
            requests.fetch(
                node,
                self.leader,
                max_wait_ms=config.fetch_max_wait_ms,
                max_bytes=config.fetch_max_bytes,
                read_round=self._read_round,
                lease_time_ms=self._lease_time_ms,
            )
        elif node.incoming is not None and node.incoming.arrival is Arrival.FETCHING:
            incoming = node.incoming
            requests.fetch_snapshot(
                node,
                self.leader,
                incoming.id,
                position=incoming.position,
                max_bytes=config.fetch_max_bytes,
            )

    # --- the log ---

    def _take_records(self, node: NodeState, response: FetchResponse) -> bool:
        """Take in the answer of a Fetch. False, and no change: it does not fit our log."""
        self._read_round = response.read_round
        wants_promise = response.lease_time_ms > 0 and not self._leader_resigned
        self._lease_time_ms = response.lease_time_ms if wants_promise and node.renew_promise() else 0
        if response.snapshot is not None:
            return self._begin_load(node, response.snapshot)
        if response.diverging is not None:
            return self._truncate(node, response.diverging)
        if response.batches and not self._append(node, response):
            return False
        self._fits = True
        if response.high_watermark is not None:
            node.advance_high_watermark(Offset(min(node.log.end_offset, response.high_watermark)))
        return True

    def _append(self, node: NodeState, response: FetchResponse) -> bool:
        """Append the fetched batches. False, and no change: they don't continue our log."""
        log = node.log
        if not log.follows(response.batches, leader_epoch=node.epoch):
            return False
        has_voters = log.append_batches(response.batches)
        node.out.append(AppendFetched(log.generation, response.batches, response.records))
        if has_voters:
            self._look_up_voters(node)
        return True

    def _truncate(self, node: NodeState, diverging: EpochEnd) -> bool:
        """Truncate to the last point that our log and the leader's may share (KIP-595). False: nothing is to
        be cut."""
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
        self._look_up_voters(node)
        return True

    def _look_up_voters(self, node: NodeState) -> None:
        if node.look_up_voters():
            node.report_role(self.role)

    # --- a snapshot in place of the log ---

    def _is_checking(self, node: NodeState) -> bool:
        incoming = node.incoming
        return self._loading and incoming is not None and incoming.arrival is Arrival.CHECKING

    def _begin_load(self, node: NodeState, snapshot: SnapshotId) -> bool:
        """Begin to fetch the snapshot, or continue an earlier fetch of it. False: it has nothing that the log
        lacks."""
        log = node.log
        floor = log.start_offset if node.high_watermark is None else node.high_watermark
        # Not the log end: a log that differs from the leader's below its start may be longer than the
        # snapshot.
        if snapshot.end_offset <= floor or snapshot.epoch > node.epoch:
            return False
        incoming = node.incoming
        if incoming is None or incoming.id != snapshot:
            incoming = node.incoming = IncomingSnapshot(snapshot)
        self._loading = True
        if incoming.arrival is Arrival.CHECKED:
            self._install(node)
        return True

    def _take_chunk(self, node: NodeState, response: FetchSnapshotResponse) -> bool:
        """Take in a chunk. False: it is empty, or not the one that was asked for."""
        incoming = node.incoming
        if not self._loading or incoming is None or incoming.arrival is not Arrival.FETCHING:
            return True  # the request only showed that this node is alive
        end = response.position + response.length
        if response.snapshot != incoming.id or response.position != incoming.position or end > response.size:
            self._drop_incoming(node)
            return False
        if response.length == 0:
            return False
        node.out.append(StoreSnapshotChunk(incoming.id, incoming.position, response.chunk))
        incoming.position = end
        if end == response.size:
            incoming.arrival = Arrival.CHECKING
            node.out.append(CheckSnapshot(incoming.id))
        return True

    def _show_presence(self, node: NodeState) -> None:
        """Show the leader that this node is alive, so that it does not resign during a long check."""
        incoming = node.incoming
        if self.leader in node.in_flight or self._leader_resigned:
            self._leader_lost = True
        elif incoming is not None and node.may_ask(self.leader):
            requests.fetch_snapshot(node, self.leader, incoming.id, position=0, max_bytes=0)
        self._arm(node)

    def _drop_incoming(self, node: NodeState) -> None:
        node.incoming = None
        self._loading = False

    def _install(self, node: NodeState) -> None:
        incoming = node.incoming
        invariant(incoming is not None, "there is a snapshot to install")
        assert incoming is not None  # noqa: S101 (for the type checker)
        self._drop_incoming(node)
        log = node.log
        log.reset(incoming.id, incoming.voters)
        self._fits = True
        node.out.append(InstallSnapshot(log.generation, incoming.id))
        self._look_up_voters(node)
        node.advance_high_watermark(incoming.id.end_offset)
