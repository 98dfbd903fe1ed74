"""The state of a node that all its roles share."""

from dataclasses import replace
from typing import TypedDict

from quorate.error_code import ErrorCode
from quorate.invariant import invariant
from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.core_config import CoreConfig
from quorate.raft.core.effects import (
    ArmTimer,
    CancelTimer,
    Effect,
    HighWatermarkAdvanced,
    Persist,
    Role,
    RoleChanged,
    Send,
)
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import Message, Request
from quorate.raft.core.replica_log.incoming_snapshot import IncomingSnapshot
from quorate.raft.core.replica_log.replica_log import ReplicaLog
from quorate.types import ElectionState, Endpoint, Epoch, NodeId, Offset, ReplicaKey, VoterSet

ELECTION = Timer(TimerKind.ELECTION)
FETCH = Timer(TimerKind.FETCH)
CHECK_QUORUM = Timer(TimerKind.CHECK_QUORUM)
BEGIN_QUORUM = Timer(TimerKind.BEGIN_QUORUM)
TRANSFER = Timer(TimerKind.TRANSFER)
PROMISE = Timer(TimerKind.PROMISE)
FIRST_BOOTSTRAP = NodeId(-2)
"""A bootstrap server has no known id: the first is -2, the next -3, ..."""


class ResponseFields(TypedDict):
    """The fields of `Response`."""

    source: NodeId
    destination: NodeId
    correlation: int
    error: ErrorCode
    epoch: Epoch
    leader: NodeId | None
    leader_endpoint: Endpoint | None


_DERIVED = {
    **dict.fromkeys(("bootstrap", "cluster_id", "config"), "given at the start"),
    **dict.fromkeys(("is_voter", "may_know_leader", "others", "voters"), "found by look_up_voters"),
    "id": "in the key",
    "now_ms": "told before each step",
    "out": "empty between two steps",
}


class NodeState(Cloneable, derived=_DERIVED):
    """Identity, stored election state, log, requests in flight, and the effects of the step that is under
    way.

    One request is in flight per destination, as in Kafka, whatever its kind: a role only ever asks one kind
    of thing of a peer. A new role forgets what the old one asked, so that late answers (an earlier round's
    votes, an earlier leader's records) find nothing in flight and are ignored.
    """

    __slots__ = (
        "bootstrap",
        "cluster_id",
        "config",
        "correlation",
        "election",
        "endpoint",
        "heard_of",
        "high_watermark",
        "id",
        "in_flight",
        "incoming",
        "is_voter",
        "key",
        "leader",
        "leader_endpoint",
        "log",
        "may_know_leader",
        "now_ms",
        "others",
        "out",
        "paused",
        "promised",
        "voters",
    )

    def __init__(
        self,
        *,
        config: CoreConfig,
        cluster_id: str,
        key: ReplicaKey,
        endpoint: Endpoint | None,
        bootstrap: tuple[Endpoint, ...],
        election: ElectionState,
        log: ReplicaLog,
        correlation: int,
    ) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.key = key
        self.id = key.id
        self.endpoint = endpoint
        self.bootstrap = bootstrap
        """Servers to ask for the leader: destinations -2, -3, ..."""
        self.election = election
        """The state on disk, or on its way there before any later effect."""
        self.leader: NodeId | None = None
        """The leader that this node names to others. None once it has resigned itself."""
        self.leader_endpoint: Endpoint | None = None
        self.heard_of: tuple[NodeId, Endpoint] | None = None
        """An id outside the voter sets that claims to lead, and its endpoint. It is asked for the leader."""
        self.log = log
        self.high_watermark = log.snapshot.end_offset if log.snapshot is not None else None
        """The highest since the process started, at least the end of the latest snapshot. It never goes
        back."""
        self.incoming: IncomingSnapshot | None = None
        """The snapshot that is being fetched. It outlives a role, so that its fetch can continue."""
        self.correlation = correlation
        self.in_flight: dict[NodeId, int] = {}
        self.paused: dict[NodeId, bool] = {}
        """The peers that are not asked until their BACKOFF timer fires. True: a request to it failed."""
        self.promised = False
        """True while this node keeps a promise: it does not stand for election, and grants no vote or
        pre-vote."""
        self.now_ms = 0
        """The time of the step that is under way, by the lease clock; 0 without read leases."""
        self.out: list[Effect] = []
        self.voters: VoterSet
        self.is_voter: bool
        self.others: tuple[ReplicaKey, ...]
        self.may_know_leader: tuple[NodeId, ...]
        """The nodes to ask for the leader: the other voters, the other bootstrap servers, and `heard_of`."""
        self.look_up_voters()

    def hear_of(self, source: NodeId, endpoint: Endpoint) -> None:
        """Ask this outside id too. Only one is remembered, so that they can't crowd out known nodes."""
        self.heard_of = (source, endpoint)
        self.look_up_voters()

    def look_up_voters(self) -> bool:
        """Find the voter set in effect after a change of the log's voter history. Returns whether this node
        became, or ceased to be, a voter."""
        voters = self.log.voters.latest
        was_voter = getattr(self, "is_voter", None)
        self.voters = voters
        self.is_voter = voters.has(self.key)
        self.others = tuple(voter.key for voter in voters if voter.key.id != self.id)
        if self.endpoint is None:
            self.endpoint = voters.endpoint_of(self.id)
        known = (self.endpoint, *(voters.endpoint_of(voter.id) for voter in self.others))
        servers = (
            NodeId(FIRST_BOOTSTRAP - index)
            for index, endpoint in enumerate(self.bootstrap)
            if endpoint not in known
        )
        if self.heard_of is not None and self.heard_of[0] in voters:
            self.heard_of = None  # a voter now
        heard_of = () if self.heard_of is None else (self.heard_of[0],)
        self.may_know_leader = (*(voter.id for voter in self.others), *servers, *heard_of)
        return self.is_voter != was_voter

    @property
    def epoch(self) -> Epoch:
        return self.election.epoch

    @property
    def is_sole_voter(self) -> bool:
        return self.is_voter and len(self.voters) == 1

    @property
    def may_stand(self) -> bool:
        """True for voters, and for a node that an uncommitted voter set removes. That set may be only in its
        log, and then only it can lead to commit it (Raft dissertation section 4.2.2). In KRaft such a node
        waits: of two voters, if the leader removed itself and restarted, both would wait for ever."""
        if self.is_voter:
            return True
        history = self.log.voters
        if not history.removed_by_latest(self.key):
            return False
        offset = history.latest_offset
        return self.high_watermark is None or (offset is not None and offset >= self.high_watermark)

    def endpoint_of(self, node: NodeId) -> Endpoint | None:
        """Return the endpoint of `node`, if known. The leader's own statement takes precedence."""
        if node == self.leader and self.leader_endpoint is not None:
            return self.leader_endpoint
        if node <= FIRST_BOOTSTRAP:
            index = FIRST_BOOTSTRAP - node
            return self.bootstrap[index] if index < len(self.bootstrap) else None
        voter = self.voters.endpoint_of(node)
        if voter is None and self.heard_of is not None and self.heard_of[0] == node:
            return self.heard_of[1]
        return voter

    def keep_stored_promise(self) -> None:
        """Keep what an earlier process may have promised just before its end."""
        if self.election.promise_ms:
            self._arm_promise(self.election.promise_ms)

    def renew_promise(self) -> bool:
        """Promise the leader, whose answer has just come, to elect nobody for `read_lease_ms`. The length is
        stored first, for the next process, which may be configured with another. False: no promise is given,
        because leases are off, or an earlier process may have given a longer one."""
        lease_ms, stored_ms = self.config.read_lease_ms, self.election.promise_ms
        if lease_ms == 0 or lease_ms < stored_ms:
            return False
        self._store_promise(lease_ms)
        self._arm_promise(lease_ms)
        return True

    def _arm_promise(self, promise_ms: int) -> None:
        self.promised = True
        self.out.append(ArmTimer(PROMISE, promise_ms, promise_ms))

    def note_promise_over(self) -> None:
        """The PROMISE timer fired, so that no promise runs any more, whoever gave it."""
        self.promised = False
        if self.config.read_lease_ms < self.election.promise_ms:
            self._store_promise(self.config.read_lease_ms)

    def _store_promise(self, promise_ms: int) -> None:
        if promise_ms != self.election.promise_ms:
            self.election = replace(self.election, promise_ms=promise_ms)
            self.out.append(Persist(self.election))

    def persist(self, election: ElectionState) -> None:
        """Store `election`, with a barrier. The stored promise stays. No effect if it is stored already."""
        if self.election.promise_ms:
            election = replace(election, promise_ms=self.election.promise_ms)
        if election != self.election:
            invariant(
                election.epoch >= self.election.epoch,
                "an epoch never goes back",
                to=election,
                of=self.election,
            )
            if election.epoch == self.election.epoch:
                invariant(
                    self.election.voted is None or self.election.voted == election.voted,
                    "a vote is given once in an epoch",
                    given=self.election.voted,
                    now=election.voted,
                )
                invariant(
                    self.election.leader is None or self.election.leader == election.leader,
                    "an epoch has one leader",
                    known=self.election.leader,
                    now=election.leader,
                )
            self.election = election
            self.out.append(Persist(election))

    def next_correlation(self, destination: NodeId) -> int:
        """Return the correlation of a new request to `destination`, which replaces one in flight."""
        self.correlation += 1
        self.in_flight[destination] = self.correlation
        return self.correlation

    def may_ask(self, peer: NodeId) -> bool:
        return peer not in self.in_flight and peer not in self.paused

    def pause(self, peer: NodeId, *, failed: bool) -> None:
        """Do not ask `peer` for `retry_backoff_ms`: it `failed` to answer, or had nothing to say."""
        if peer not in self.paused:
            wait_ms = self.config.retry_backoff_ms
            self.out.append(ArmTimer(Timer(TimerKind.BACKOFF, peer), wait_ms, wait_ms))
        self.paused[peer] = failed

    def resume_answering(self) -> None:
        """End the pauses of the peers that answered their last request, because there is a new one to ask."""
        for peer in [peer for peer, failed in self.paused.items() if not failed]:
            self.resume(peer)

    def resume(self, peer: NodeId) -> None:
        """End the pause of `peer`."""
        if peer in self.paused:
            del self.paused[peer]
            self.out.append(CancelTimer(Timer(TimerKind.BACKOFF, peer)))

    def send(self, message: Message) -> None:
        self.out.append(Send(message))

    def answer_to(self, request: Request, error: ErrorCode = ErrorCode.NONE) -> ResponseFields:
        """Return the fields that every response has."""
        return {
            "source": self.id,
            "destination": request.source,
            "correlation": request.correlation,
            "error": error,
            "epoch": self.epoch,
            "leader": self.leader,
            "leader_endpoint": self.leader_endpoint,
        }

    def arm_election(self) -> None:
        """Arm the election timer with a time from [T, 2T - 1], so that two nodes rarely stand at once."""
        timeout_ms = self.config.election_timeout_ms
        self.out.append(ArmTimer(ELECTION, timeout_ms, 2 * timeout_ms - 1))

    def cancel(self, kind: TimerKind) -> None:
        self.out.append(CancelTimer(Timer(kind)))

    def report_role(self, role: Role, epoch_start_offset: Offset | None = None) -> None:
        self.out.append(
            RoleChanged(
                role,
                self.election.epoch,
                self.leader,
                self._voted_id(),
                epoch_start_offset=epoch_start_offset,
            )
        )

    def _voted_id(self) -> NodeId | None:
        return self.election.voted.id if self.election.voted is not None else None

    def advance_high_watermark(self, high_watermark: Offset) -> None:
        """Raise the high watermark to `high_watermark`. No effect if it is there already."""
        if self.high_watermark is not None and high_watermark <= self.high_watermark:
            return
        invariant(
            high_watermark <= self.log.end_offset,
            "the high watermark must not pass the log end",
            high_watermark=high_watermark,
            log_end_offset=self.log.end_offset,
        )
        self.high_watermark = high_watermark
        self.out.append(HighWatermarkAdvanced(high_watermark))
