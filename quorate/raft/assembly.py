"""One node's parts, wired together."""

from collections.abc import Callable
from functools import partial

import trio

from quorate.error_code import ErrorCode
from quorate.log import PositionOutOfRangeError, SnapshotMissingError
from quorate.log.batches.batch import Batch, read_headers
from quorate.log.batches.control import voters_in
from quorate.raft.clients.client_service import NO_REMOTE_APPENDS
from quorate.raft.core import (
    BatchSpan,
    CommitHeard,
    Core,
    Event,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    Received,
    Role,
    VoterChange,
)
from quorate.raft.driver.driver import Driver, Routes
from quorate.raft.leadership import Announcer, LeadershipView
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_description import CodeSupport, QuorumDescription, ReplicaTimes
from quorate.raft.quorum_errors import (
    InvalidAppendError,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumStoppedError,
    RequestRefusedError,
)
from quorate.raft.sessions.sessions import Sessions
from quorate.raft.snapshots.snapshot_cleaning import Retention
from quorate.raft.snapshots.snapshot_taking import SnapshotTriggers
from quorate.raft.state_machine.append_queue import QueuedAppend
from quorate.raft.state_machine.code_versions import code_version_of
from quorate.raft.state_machine.interface import StateMachine
from quorate.raft.storage.storage import Storage
from quorate.raft.telemetry import Telemetry
from quorate.raft.transport.description_frames import QuorumView
from quorate.raft.transport.endpoint_check import EndpointCheck
from quorate.raft.transport.fetch_sizes import FetchSizes
from quorate.raft.transport.forwarding import Forwarder
from quorate.raft.transport.peer_set import PeerSet
from quorate.raft.transport.peers import Peer
from quorate.raft.transport.quorum_server import CLIENT_KINDS, Server
from quorate.raft.transport.snapshot_frames import ListedSnapshot, SnapshotRead
from quorate.raft.transport.view_asking import ask_view
from quorate.raft.waiters import IndexWaiter
from quorate.raft.watch.freshness import Freshness
from quorate.raft.watch.health import Health
from quorate.raft.watch.hearing import Hearing
from quorate.raft.watch.misconfiguration import Misconfiguration
from quorate.raft.watch.state_comparison import StateComparison
from quorate.runtime import DiskError, Listener, Runtime, Tasks, get_logger, loop_clock, uuid_text
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId

log = get_logger(__name__)

_FRAME_OVERHEAD = 64 * 1024


def spans_of(
    records: memoryview, *, on_control_batch: Callable[[Batch], None] | None = None
) -> list[BatchSpan]:
    """Return the core's view of fetched batches, whose CRCs have been checked. Raises `InvalidBatchError`."""
    spans = []
    for header in read_headers(records):
        voters = None
        if header.is_control:
            batch = Batch(header, records[header.position : header.position + header.size])
            voters = voters_in(batch)
            if on_control_batch is not None:
                on_control_batch(batch)
        spans.append(
            BatchSpan(
                Offset(header.base_offset), Offset(header.end_offset), Epoch(header.leader_epoch), voters
            )
        )
    return spans


class Node:
    """Core, driver, peers and server of one node; `quorate.raft.quorum.Quorum` is its public face."""

    def __init__(
        self,
        config: QuorumConfig,
        storage: Storage,
        state_machine: StateMachine[object],
        *,
        runtime: Runtime,
        telemetry: Telemetry,
    ) -> None:
        self.network = runtime.network
        self._config = config
        self._runtime = runtime
        self._times = ReplicaTimes()
        self._misconfiguration = Misconfiguration(config.node_id, config.voters, config.names)
        # Other threads ask too, and trio.current_time() raises there.
        now = loop_clock()
        self.freshness = Freshness(fetch_timeout_ms=config.core.fetch_timeout_ms, now=now)
        self._fetch_sizes = FetchSizes(config.core.fetch_max_bytes)
        self.key = ReplicaKey(config.node_id, uuid_text(storage.meta.directory_id))
        max_frame_bytes = self._max_frame_bytes = (
            config.max_batch_bytes + config.core.fetch_max_bytes + _FRAME_OVERHEAD
        )
        self.skipped = storage.skipped.as_tuple()
        self.leadership = LeadershipView()
        core = Core(
            config=config.core,
            cluster_id=config.cluster_id,
            key=self.key,
            endpoint=config.own_endpoint,
            voters=config.voters,
            bootstrap=config.bootstrap,
            election=storage.election,
            log=storage.recovered,
        )
        self.hearing = Hearing(
            core,
            timeout_ms=config.core.fetch_timeout_ms,
            now=now,
            changed=lambda: announcer.note_silence(silent=self.hearing.silent),
        )
        announcer = Announcer(config.node_id, self.leadership, on_leader=self.hearing.note_new_leader)
        self.forwarder = Forwarder(
            runtime.network,
            cluster_id=config.cluster_id,
            max_frame_bytes=max_frame_bytes,
            max_append_bytes=config.max_batch_bytes,
            connect_timeout_ms=config.connect_timeout_ms,
            # A leader without its majority resigns after 1.5 of these, and says so.
            silence_timeout_ms=2 * config.core.fetch_timeout_ms,
            on_committed=self._deliver_commit,
        )
        self.server = Server(
            cluster_id=config.cluster_id,
            inbound=self,
            max_frame_bytes=max_frame_bytes,
            max_append_bytes=config.max_batch_bytes,
        )
        self.client_server = Server(
            cluster_id=config.cluster_id,
            inbound=self,
            max_frame_bytes=config.max_batch_bytes + _FRAME_OVERHEAD,
            max_append_bytes=config.max_batch_bytes,
            kinds=CLIENT_KINDS,
        )
        self.support = CodeSupport(code_version_of(state_machine), isinstance(state_machine, Sessions))
        self.ask_view = partial(
            ask_view,
            runtime.network,
            cluster_id=config.cluster_id,
            connect_timeout_ms=config.connect_timeout_ms,
            timeout_ms=config.core.request_timeout_ms,
        )
        self.states = StateComparison(
            self.key,
            voters=lambda: self.driver.core.voters,
            ask=self.ask_view,
            telemetry=telemetry,
            entropy=runtime.entropy,
            pause_ms=config.core.fetch_timeout_ms,
        )
        self.driver = Driver(
            core=core,
            storage=storage,
            state_machine=state_machine,
            runtime=runtime,
            telemetry=telemetry,
            max_batch_bytes=config.max_batch_bytes,
            max_pending_bytes=config.max_pending_bytes,
            fetch_max_bytes=config.core.fetch_max_bytes,
            snapshot_triggers=SnapshotTriggers(
                max_new_bytes=config.snapshot_max_new_bytes,
                max_interval_ms=config.snapshot_max_interval_ms,
            ),
            retention=Retention(max_bytes=config.retention_bytes, max_ms=config.retention_ms),
            compare_state=self.states.note if config.compare_states else None,
            announcer=announcer,
            forwarder=self.forwarder,
            routes=Routes(self._send_request, self.server.send_response, self._flush_all),
            not_leader=self.not_leader,
            lease_clock=runtime.steady_clock if config.core.read_lease_ms else None,
        )
        self._endpoint_check = EndpointCheck(
            runtime.network,
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            connect_timeout_ms=config.connect_timeout_ms,
            timeout_ms=config.core.request_timeout_ms,
        )
        self._tasks = Tasks()
        self._peers = PeerSet(
            self.driver.core, self._make_peer, tasks=self._tasks, deliver=self.driver.deliver
        )
        self.failure: BaseException | None = None
        self.stopped = False
        self.leaving = False
        """True when no new append is accepted any more."""
        self.check_voters()
        telemetry.booted(runtime.wall_clock.now_ms())
        telemetry.unknown_voter_connections(0)

    async def run(
        self, listener: Listener | None, client_listener: Listener | None, scope: trio.CancelScope
    ) -> None:
        """Run all background tasks. A failure is kept in `failure` and cancels `scope`."""
        try:
            async with self._tasks.running() as nursery:
                nursery.start_soon(self.forwarder.run)
                nursery.start_soon(self.hearing.run)
                nursery.start_soon(self.states.run)
                if listener is not None:
                    nursery.start_soon(self.server.run, listener)
                if client_listener is not None:
                    nursery.start_soon(self.client_server.run, client_listener)
                await self.driver.run()
        except BaseExceptionGroup as group:
            failures = group.subgroup(lambda error: not isinstance(error, trio.Cancelled))
            if failures is None:
                raise
            error: BaseException = failures
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            if not isinstance(error, Exception):
                raise
            log.error(
                "the node stops", node=self._config.node_id, reason=str(error), kind=type(error).__name__
            )
            self.failure = error
            stopped = QuorumStoppedError(f"node {self._config.node_id} stopped: {error}")
            stopped.__cause__ = error
            self.driver.stop(stopped)
            scope.cancel()

    async def leave(self) -> None:
        """Let appends that are under way end, then resign and wait until another node leads, an election
        timeout at most."""
        self.leaving = True
        with trio.move_on_after(self._config.drain_timeout_ms / 1000):
            await self.driver.appends.wait_empty()
            await self.forwarder.wait_idle()
        if self.leadership.role is Role.LEADER and len(self.driver.core.voters) > 1:
            self.driver.resign()
            with trio.move_on_after(self._config.core.election_timeout_ms / 1000):
                await self.leadership.wait_other_leader(self._config.node_id)

    def not_leader(self) -> NotLeaderError:
        """Return the error of an operation that only a leader can do."""
        leader, core = self.known_leader, self.driver.core
        endpoint = None if leader is None else core.endpoint_of(leader)
        return NotLeaderError(
            leader=leader, epoch=core.epoch, endpoint=endpoint, problem=self._why_leaderless()
        )

    @property
    def known_leader(self) -> NodeId | None:
        """The same as `Quorum.leader`."""
        return None if self.hearing.is_silent else self.leadership.current.leader

    def _why_leaderless(self) -> str | None:
        """Return the reason why no leader is known. None: an election is under way, as usual."""
        if not self.hearing.is_silent:
            return None
        whom = "majority of the voters" if self.driver.core.role is Role.LEADER else "leader"
        return f"no {whom} was heard for {self.hearing.silence_ms} ms,"

    @property
    def health(self) -> Health:
        """The same as `Quorum.health`."""
        leader, view = self.known_leader, self.leadership
        reason: str | None = None
        if self.failure is not None:
            reason = f"the node has stopped: {self.failure}"
        elif self.stopped:
            reason = "the node has stopped"
        elif self.leaving:
            reason = "the node is stopping"
        elif leader is None:
            reason = f"{self._why_leaderless() or 'nobody is known to lead'} in epoch {view.current.epoch}"
        return Health(
            healthy=reason is None,
            reason=reason,
            node_id=self._config.node_id,
            role=view.role,
            leader=leader,
            epoch=view.current.epoch,
            applied_offset=self.driver.applier.applied_offset,
            staleness_ms=self.staleness_ms,
        )

    def check_voters(self) -> None:
        """Log once if the configured voters don't count, and whether they differ from those in the log."""
        core = self.driver.core
        if core.has_dynamic_voters:
            self._misconfiguration.check_voters_in_log(core.voters)

    def describe(self) -> QuorumDescription:
        return self._times.describe(self.driver.core, self.key, now_ms=self._runtime.wall_clock.now_ms())

    @property
    def staleness_ms(self) -> int | None:
        """The same as `Quorum.staleness_ms`."""
        return self.freshness.staleness_ms(self.driver.core, self.driver.applier.applied_offset)

    def _make_peer(self, node: NodeId, endpoint: Endpoint) -> Peer:
        config = self._config
        return Peer(
            node,
            config.node_id,
            endpoint,
            cluster_id=config.cluster_id,
            runtime=self._runtime,
            deliver=self._deliver_answer,
            on_hung_up=self.hearing.note_hung_up,
            spans_of=partial(spans_of, on_control_batch=self._on_control_batch),
            connect_timeout_ms=config.connect_timeout_ms,
            request_timeout_ms=config.core.request_timeout_ms,
            max_frame_bytes=self._max_frame_bytes,
        )

    def _on_control_batch(self, batch: Batch) -> None:
        # Voters in the log stand in place of those that are configured.
        if self.driver.core.voters == self._config.voters:
            self._misconfiguration.check_control_batch(batch)

    def _deliver_answer(self, event: Event) -> None:
        if not isinstance(event, Received):
            self.driver.deliver(event)
            return
        message = event.message
        if isinstance(message, FetchResponse | FetchSnapshotResponse):
            self._fetch_sizes.note_answer(message.correlation)
        if isinstance(message, FetchResponse):
            sent_at = self.freshness.sent_at(message)
            self.driver.deliver(event)
            self.freshness.note_answer(message, sent_at, self.driver.core)
        else:
            self.driver.deliver(event)
        self.hearing.note_message(message)

    def _deliver_commit(self, epoch: Epoch, end_offset: Offset) -> None:
        self.driver.deliver(CommitHeard(epoch, end_offset))

    def _send_request(self, message: Message) -> None:
        if isinstance(message, FetchRequest):
            self.freshness.note_request(message)
        if isinstance(message, FetchRequest | FetchSnapshotRequest):
            message = self._fetch_sizes.limited(message)
        self._peers.send(message)

    def _flush_all(self) -> None:
        self._peers.flush()
        self.server.flush()

    # Requests from the server

    def receive(self, message: Message) -> None:
        self.driver.deliver(Received(message))
        self.hearing.note_message(message)
        if (
            isinstance(message, FetchRequest)
            and message.cluster_id == self._config.cluster_id
            and self._times.note_fetch(message, self.driver.core, now_ms=self._runtime.wall_clock.now_ms())
        ):
            self._misconfiguration.check_fetch(message.replica)

    def append(self, append: QueuedAppend) -> None:
        driver = self.driver
        if not self._config.remote_appends:
            append.waiter.failed(InvalidAppendError(NO_REMOTE_APPENDS))
        elif self.leaving or driver.core.role is not Role.LEADER:
            # The check of a follower's state machine does not count.
            append.waiter.failed(driver.requests.not_leader())
        else:
            try:
                driver.propose(append)
            except InvalidAppendError as error:
                append.waiter.failed(error)

    def commit_waiting(self) -> None:
        self.driver.commit_waiting()

    async def wait_room(self) -> None:
        await self.driver.wait_room()

    def read_index(self, waiter: IndexWaiter) -> None:
        self.driver.requests.read_index(waiter)

    async def check_change(self, change: VoterChange) -> None:
        """Raise the reason for which the leader would refuse the change now, including its endpoint."""
        self.driver.requests.check_change(change)
        await self._endpoint_check.check(change)

    async def change_voters(self, change: VoterChange) -> None:
        await self.check_change(change)
        await self.driver.requests.change_voters(change)

    async def transfer_leadership(self, successor: NodeId) -> None:
        await self.driver.requests.transfer_leadership(successor)

    async def take_snapshot(self) -> SnapshotId:
        return await self.driver.snapshots.taker.take()

    def list_snapshots(self) -> tuple[ListedSnapshot, ...]:
        return tuple(
            ListedSnapshot(each.snapshot, each.size_bytes, each.last_timestamp_ms)
            for each in self.driver.snapshots.contents
        )

    async def read_snapshot(self, asked: SnapshotRead) -> tuple[bytes, int]:
        try:
            return await self.driver.snapshots.read_chunk(asked.snapshot, asked.position, asked.max_bytes)
        except SnapshotMissingError as error:
            raise RequestRefusedError(ErrorCode.SNAPSHOT_NOT_FOUND, str(error)) from error
        except PositionOutOfRangeError as error:
            raise RequestRefusedError(ErrorCode.POSITION_OUT_OF_RANGE, str(error)) from error
        except DiskError as error:
            # A client must not stop the node. It stops when it needs the file itself.
            raise OutcomeUnknownError(f"the snapshot can't be read: {error}") from error

    def is_voter(self, node: NodeId) -> bool:
        return node != self._config.node_id and node in self.driver.core.voters

    @property
    def view(self) -> QuorumView:
        core = self.driver.core
        leader = self.leadership.current.leader
        return QuorumView(
            cluster_id=self._config.cluster_id,
            leader=leader,
            epoch=self.leadership.current.epoch,
            leader_endpoint=None if leader is None else core.endpoint_of(leader),
            description=self.describe() if core.role is Role.LEADER and leader == core.node_id else None,
            node=self.key,
            states=self.states.states,
            support=self.support,
        )
