"""The public quorum: replicated state for anybody's service."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import trio

from quorate.log import Log
from quorate.raft.arguments import check_duration, check_new_voter
from quorate.raft.assembly import Node
from quorate.raft.core import AddVoter, AdoptVoters, RemoveVoter, Role, UpdateVoter
from quorate.raft.errors import (
    InvalidAppendError,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumBusyError,
    QuorumError,
    QuorumForkedError,
    QuorumStoppedError,
)
from quorate.raft.leader_calls import LeaderCalls
from quorate.raft.leadership import Leadership
from quorate.raft.membership import Membership
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_description import QuorumDescription
from quorate.raft.state_machine import Appended, QueuedAppend, StateMachine, check_shape
from quorate.raft.storage import SkippedBatch, open_storage
from quorate.raft.telemetry import NoTelemetry, Telemetry
from quorate.raft.transport import ApplicationHandler, size_of
from quorate.raft.watch import Health
from quorate.runtime import Address, Runtime, get_logger, tell_forked
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VoterSet

log = get_logger(__name__)

Outcome = TypeVar("Outcome")
Opened = TypeVar("Opened")
"""Of `open`'s own: a type checker can't infer the class's from a call on the bare class."""


class _LocalAppendWaiter:
    """`AppendWaiter` of a task on this node."""

    __slots__ = ("base_offset", "done", "epoch", "error", "results")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.error: QuorumError | None = None
        self.base_offset = Offset(0)
        self.epoch = Epoch(0)
        self.results: Sequence[object] = ()

    def applied(
        self, base_offset: Offset, epoch: Epoch, results: Sequence[object], batch_end_offset: Offset
    ) -> None:
        self.base_offset, self.epoch, self.results = base_offset, epoch, results
        self.done.set()

    def failed(self, error: QuorumError) -> None:
        self.error = error
        self.done.set()


class PendingAppend(Generic[Outcome]):
    """An append in the leader's queue: its place among other appends is taken."""

    __slots__ = ("_waiter",)

    def __init__(self, waiter: _LocalAppendWaiter) -> None:
        self._waiter = waiter

    async def wait(self) -> Appended[Outcome]:
        """Return when committed and applied here. Raises `NotLeaderError` or `QuorumStoppedError` when
        nothing happened, `OutcomeUnknownError`."""
        waiter = self._waiter
        await waiter.done.wait()
        if waiter.error is not None:
            raise waiter.error
        return Appended(waiter.base_offset, waiter.epoch, tuple(waiter.results))  # type: ignore[arg-type]


class Quorum(Generic[Outcome]):
    """One node of a quorum. Open with `Quorum.open`; its methods belong to the trio run that opened it."""

    def __init__(self, config: QuorumConfig, node: Node) -> None:
        self._config = config
        self._node = node
        self._calls = LeaderCalls(node, retry_backoff_ms=config.core.retry_backoff_ms)
        self._stopped = False

    def forked(self) -> None:
        """In the child of a fork: whatever is asked of this object from now on raises `QuorumForkedError`."""
        self.__class__ = _ForkedQuorum

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: QuorumConfig,
        state_machine: StateMachine[Opened],
        *,
        runtime: Runtime | None = None,
        telemetry: Telemetry | None = None,
    ) -> AsyncGenerator["Quorum[Opened]", None]:
        """Recover this node's folder, join the quorum, and leave it in order at the end of the block: appends
        that are under way end (for `drain_timeout_ms` at most), then a leader resigns.

        Raises `QuorumConfigError` for a configuration that can't work, or a state machine that lacks a
        method; `QuorumStateError` or `LogError` when the folder can't be used (the message says what to do),
        `AddressInUseError`, `DiskLockedError`; and, at the end, `QuorumStoppedError` when something stopped
        the node in between (its `__cause__` says what), after cancelling the block. What the block raises
        comes out as it is, unless it is a `QuorumError` of a node that was stopped by something else.
        Cancelled, it leaves like after a crash: at once, and with nothing lost.
        """
        check_shape(state_machine)
        runtime = runtime or real_runtime(sync=SyncStrategy.INLINE)
        storage = await open_storage(runtime, config)
        listener = None
        try:
            config.check_voters(in_log=bool(storage.recovered.voters))
            address = config.listen_address
            if address is not None:
                listener = await runtime.network.listen(address)
            node = Node(config, storage, state_machine, runtime=runtime, telemetry=telemetry or NoTelemetry())
            await node.driver.snapshots.load_latest()
            quorum: Quorum[Opened] = Quorum(config, node)
            tell_forked(quorum)
            raised: Exception | None = None
            try:
                async with _single_errors(), trio.open_nursery() as nursery:
                    nursery.start_soon(node.run, listener, nursery.cancel_scope)
                    nursery.start_soon(Membership(config, node, quorum._calls).run)
                    try:
                        yield quorum
                        await node.leave()
                    except Exception as error:
                        # Kept out of the nursery, which would wrap it.
                        raised = error
                    nursery.cancel_scope.cancel()
            finally:
                quorum._stopped = node.stopped = True
                node.driver.stop(QuorumStoppedError("the quorum on this node has stopped"))
            if node.failure is None:
                await storage.log.flush_and_close()
                await storage.watermark.store()
            if raised is not None and not (node.failure is not None and isinstance(raised, QuorumError)):
                raise raised
            if node.failure is not None:
                raise QuorumStoppedError(f"node {config.node_id} stopped: {node.failure}") from node.failure
        finally:
            if listener is not None:
                listener.close()
            storage.snapshots.close()
            storage.log.close()
            storage.lock.release()

    # What is known

    @property
    def node_id(self) -> NodeId:
        return self._config.node_id

    @property
    def leader(self) -> NodeId | None:
        """Who leads, as far as this node knows; itself only when it may serve (see `Leadership`). None, too,
        once no leader was heard for the fetch timeout (`CoreConfig.fetch_timeout_ms`), or as leader no
        majority of the voters."""
        return self._node.known_leader

    @property
    def epoch(self) -> Epoch:
        return self._node.leadership.current.epoch

    @property
    def role(self) -> Role:
        return self._node.leadership.role

    @property
    def is_leader(self) -> bool:
        return self.leader == self._config.node_id

    @property
    def high_watermark(self) -> Offset | None:
        """First uncommitted offset, None while unknown."""
        return self._node.driver.core.high_watermark

    @property
    def applied_offset(self) -> Offset:
        """First offset that is not applied here."""
        return self._node.driver.applier.applied_offset

    @property
    def log(self) -> Log:
        """The replicated log, to read from. What is above the high watermark may yet be cut."""
        return self._node.driver.log

    def leadership_changes(self) -> AsyncIterator[Leadership]:
        """The current view, then each change; a slow reader sees the latest. Raises `QuorumStoppedError`."""
        return self._node.leadership.changes()

    async def wait_leader(self, *, timeout_ms: int | None = None) -> NodeId:
        """Return when a leader is known; by default without a limit. Raises `NotLeaderError` when none is in
        time, which says for how long nobody was heard, `QuorumStoppedError`."""
        check_duration("timeout_ms", timeout_ms)
        with trio.move_on_after(math.inf if timeout_ms is None else timeout_ms / 1000):
            while (leader := self.leader) is None:
                await self._node.leadership.wait_change()
            return leader
        raise self._not_leader()

    @property
    def health(self) -> Health:
        """Whether this node takes part in a quorum that works, and if not, why. Asks nobody; from any
        thread."""
        return self._node.health

    async def wait_applied(self, end_offset: Offset) -> None:
        """Return when everything below `end_offset` is applied here. Raises `QuorumStoppedError`."""
        if self.applied_offset < end_offset:
            await self._node.forwarder.wait_applied(end_offset)

    def endpoint_of(self, node: NodeId) -> Address | None:
        """Where a voter, or the leader, listens."""
        endpoint = self._node.driver.core.endpoint_of(node)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    @property
    def voters(self) -> VoterSet:
        """The latest voter set in this node's log, committed or not; the configured one if there is none."""
        return self._node.driver.core.voters

    @property
    def has_dynamic_voters(self) -> bool:
        """Whether the voters are in the log, where they can be changed (KIP-853, kraft.version 1)."""
        return self._node.driver.core.has_dynamic_voters

    def describe(self) -> QuorumDescription:
        """Raises `NotLeaderError` when another node has to be asked."""
        if self._node.driver.core.role is not Role.LEADER:
            raise self._not_leader()
        return self._node.describe()

    async def ask_description(self, *, timeout_ms: int = 10_000) -> QuorumDescription:
        """As the leader knows it, wherever that is. Raises `NotLeaderError` when none answered in time,
        `QuorumStoppedError`."""
        self._check_call(timeout_ms=timeout_ms)
        return await self._calls.describe(timeout_ms=timeout_ms)

    def _not_leader(self) -> NotLeaderError:
        return self._node.not_leader()

    # Reading

    async def wait_read_index(
        self, *, max_staleness_ms: int | None = None, timeout_ms: int = 10_000
    ) -> Offset:
        """Return when everything that was committed before this call is applied here: what is read of the
        state machine from then on, until the next `await`, is linearizable. Returns the applied offset.

        With `max_staleness_ms`, what was committed that long before the call need be applied. A node knows
        that by itself, without a message, where it is no less than `staleness_ms`, and so never below 1.5
        fetch timeouts (3 s by default).

        Raises `NotLeaderError` if no leader could prove in time that it is one, `QuorumStoppedError`.
        """
        self._check_call(timeout_ms=timeout_ms)
        check_duration("max_staleness_ms", max_staleness_ms)
        staleness_ms = self.staleness_ms if max_staleness_ms is not None else None
        if staleness_ms is None or max_staleness_ms is None or staleness_ms > max_staleness_ms:
            with trio.move_on_after(timeout_ms / 1000):
                read_index = await self._calls.read_index(timeout_ms=timeout_ms)
                await self.wait_applied(read_index)
                return self.applied_offset
            raise self._not_leader()
        return self.applied_offset

    @property
    def staleness_ms(self) -> int | None:
        """By how much the applied state may lag behind what is committed, at most, as far as this node knows;
        None if it knows no bound.

        A leader that a majority no longer hears resigns within 1.5 fetch timeouts, so what it said is no
        older than that when it says it: this is never less than 1.5 fetch timeouts. Assumes that the nodes'
        clocks run at about the same rate. May be read from any thread.
        """
        return self._node.staleness_ms

    # Voters and leadership

    async def add_voter(self, voter: Voter, *, timeout_ms: int = 30_000) -> None:
        """Let an observer that has caught up vote from now on (KIP-853). Waits for it to catch up.

        `voter.key` must have the directory id of its `meta.properties`. Raises `RequestRefusedError`
        (DUPLICATE_VOTER: remove the old disk's first; UNSUPPORTED_VERSION: `adopt_voters` first;
        REQUEST_TIMED_OUT: it has not caught up lately, or nothing answers at its endpoint; INVALID_REQUEST:
        another node does), `NotLeaderError`, `OutcomeUnknownError`.
        """
        self._check_call(timeout_ms=timeout_ms)
        check_new_voter(voter)
        await self._calls.change_voters(AddVoter(voter), timeout_ms=timeout_ms)

    async def remove_voter(self, key: ReplicaKey, *, timeout_ms: int = 30_000) -> None:
        """Let a voter vote no more (KIP-853); the leader too, which resigns once that is committed. Raises as
        `add_voter`, with VOTER_NOT_FOUND if this id with this directory is none, or is the last."""
        self._check_call(timeout_ms=timeout_ms)
        await self._calls.change_voters(RemoveVoter(key), timeout_ms=timeout_ms)

    async def update_voter(self, voter: Voter, *, timeout_ms: int = 30_000) -> None:
        """Tell where a voter listens now. Nodes do this by themselves when their endpoint changes. Raises as
        `remove_voter`."""
        self._check_call(timeout_ms=timeout_ms)
        await self._calls.change_voters(UpdateVoter(voter), timeout_ms=timeout_ms)

    async def adopt_voters(self, *, timeout_ms: int = 30_000) -> None:
        """Write the configured voters into the log, so that they can be changed from now on (the upgrade to
        kraft.version 1). Every voter must be running. No effect when it was done before."""
        self._check_call(timeout_ms=timeout_ms)
        await self._calls.change_voters(AdoptVoters(), timeout_ms=timeout_ms)

    async def transfer_leadership(self, to: NodeId, *, timeout_ms: int = 10_000) -> None:
        """Return when `to` leads. Appends meanwhile wait, and go to the successor; none is lost or of unknown
        outcome by it. Raises `RequestRefusedError` when `to` is no voter or could not take over."""
        self._check_call(timeout_ms=timeout_ms)
        await self._calls.transfer_leadership(to, timeout_ms=timeout_ms)

    # Snapshots

    async def take_snapshot(self) -> SnapshotId:
        """Take one now, of all that is applied on this node; the id of the latest, which holds it. The quorum
        takes them by itself (`snapshot_max_new_bytes`, `snapshot_max_interval_ms`), so nobody needs to call
        this but to bound what a restart replays. Durable when it returns. Raises `SnapshotNotTakenError`,
        `QuorumStoppedError`."""
        self._check_running()
        return await self._node.driver.snapshots.take()

    def snapshots(self) -> tuple[SnapshotId, ...]:
        """Those on this node's disk, ascending."""
        return self._node.driver.snapshots.ids

    @property
    def skipped(self) -> tuple[SkippedBatch, ...]:
        """Committed batches that this node leaves out (`skip_batch`), ascending. The same on every node, or
        their states differ."""
        return self._node.skipped

    # Appending

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[Outcome]:
        """Append records as one atomic unit; return when they are committed and applied on this node.

        On a node that does not lead they are forwarded to the leader (not without `remote_appends`), whose
        state machine is asked about them first if it has a `check`. Raises `InvalidAppendError`,
        `QuorumBusyError` or `NotLeaderError` when nothing happened, `OutcomeUnknownError` when time ran
        out, a connection or the leadership was lost, or this node stopped after sending, and
        `QuorumStoppedError` when it has stopped and nothing happened. If cancelled, the outcome is unknown.
        """
        self._check_call(timeout_ms=timeout_ms)
        self._check(records)
        sent = waits_for_room = False
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                seen = self._node.leadership.current
                try:
                    if self._node.driver.core.role is Role.LEADER:
                        waits_for_room = True
                        await self._node.wait_room()
                        sent, waits_for_room = True, False
                        return await self.append_nowait(records).wait()
                    leader = seen.leader
                    address = None if leader is None else self.endpoint_of(leader)
                    if leader is not None and not self._config.remote_appends:
                        break
                    if leader is not None and address is not None:
                        self._check_staying()
                        sent = True
                        base_offset, epoch, results = await self._node.forwarder.append(
                            leader, address, records
                        )
                        return Appended(base_offset, epoch, tuple(results))  # type: ignore[arg-type]
                except NotLeaderError:
                    sent = False
                # Nothing happened: try again when somebody else leads, or shortly.
                with trio.move_on_after(self._config.core.retry_backoff_ms / 1000):
                    while self._node.leadership.current == seen:
                        await self._node.leadership.wait_change()
        if sent:
            raise OutcomeUnknownError(f"the append was not answered within {timeout_ms} ms")
        if waits_for_room:
            raise QuorumBusyError(
                f"appends of {self._config.max_pending_bytes} bytes waited for their commit for {timeout_ms} "
                "ms; append less at once, or raise max_pending_bytes"
            )
        raise self._not_leader()

    @property
    def next_offset(self) -> Offset:
        """As leader: the offset of the first record of the next `append_nowait`, whatever the quorum writes
        of its own (a voter set) before that is committed."""
        return self._node.driver.next_offset

    def append_nowait(
        self, records: Sequence[bytes], *, epoch: Epoch | None = None
    ) -> PendingAppend[Outcome]:
        """As leader (of `epoch`, if given): take the next place in the log, now; `wait` on the answer tells
        the rest. It does not wait for room among `max_pending_bytes`: who calls it bounds what is on its way.

        Raises `NotLeaderError` when this node does not lead, `InvalidAppendError`, `QuorumStoppedError`.
        """
        size = self._check(records)
        driver = self._node.driver
        core = driver.core
        if core.role is not Role.LEADER or epoch not in (None, core.epoch):
            raise self._not_leader()
        waiter = _LocalAppendWaiter()
        driver.propose(QueuedAppend(records, size, waiter))
        driver.commit_soon()
        return PendingAppend(waiter)

    def _check_staying(self) -> None:
        if self._node.leaving:
            raise QuorumStoppedError("this node is stopping, and nothing was appended")

    def _check_call(self, *, timeout_ms: int) -> None:
        """Of one that may take so long."""
        self._check_running()
        check_duration("timeout_ms", timeout_ms)

    def _check_running(self) -> None:
        if self._stopped or self._node.failure is not None:
            raise QuorumStoppedError("the quorum on this node has stopped") from self._node.failure

    def _check(self, records: Sequence[bytes]) -> int:
        self._check_running()
        self._check_staying()
        if not records:
            raise InvalidAppendError("an append needs at least one record")
        for record in records:
            if not isinstance(record, bytes):
                raise InvalidAppendError(f"records must be bytes, not {type(record).__name__}")
        size = size_of(records)
        if size > self._config.max_batch_bytes:
            raise InvalidAppendError(
                f"the records have {size} bytes together, max_batch_bytes is {self._config.max_batch_bytes}; "
                "append them in parts"
            )
        return size

    # The application's own requests

    def serve_requests(self, handler: ApplicationHandler | None) -> None:
        """Answer what other nodes send with `request_leader`; the handler runs in a task per request."""
        self._node.server.handler = handler

    async def request_leader(self, payload: bytes) -> bytes:
        """Send `payload` to the application on the node that leads; its answer.

        Raises `NotLeaderError` when nobody is known to lead or it can't be reached, `OutcomeUnknownError`
        when the connection broke before the answer.
        """
        leader = self.leader
        handler = self._node.server.handler
        if leader is not None and leader == self._config.node_id and handler is not None:
            return await handler(payload)
        address = None if leader is None else self.endpoint_of(leader)
        if leader is None or address is None:
            raise self._not_leader()
        return await self._node.forwarder.request(leader, address, payload)

    def resign(self) -> None:
        """Stop leading, so that a successor is elected. No effect on a node that does not lead."""
        self._node.driver.resign()


class _ForkedQuorum(Quorum[Outcome]):
    """What a `Quorum` is in a process that was forked off. Already the look-up of a method raises: a call
    that is handed to the thread of a trio that does not run here would wait for ever."""

    def __getattribute__(self, name: str) -> object:
        if name.startswith("_"):
            return super().__getattribute__(name)
        raise QuorumForkedError(
            "this process was forked after the quorum was opened, and nothing of it runs here; open it in "
            "the process that uses it, once for each folder (gunicorn: one worker, without --preload, opened "
            "in post_worker_init; multiprocessing: the start method spawn)"
        )


@asynccontextmanager
async def _single_errors() -> AsyncGenerator[None, None]:
    """What the block raised (an interrupt, say), without the group that the nursery makes of it."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from group.exceptions[0].__cause__
