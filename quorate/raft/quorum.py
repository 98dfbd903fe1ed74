"""The public quorum: replicated state for a service."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Generic, TypeVar

import trio

from quorate.error_code import ErrorCode
from quorate.log import Log
from quorate.log.snapshots.snapshot_file import SnapshotReader
from quorate.raft.arguments import check_duration, check_endpoint, check_new_voter, check_records
from quorate.raft.assembly import Node
from quorate.raft.clients.client_service import ClientService, ReadHandler
from quorate.raft.clients.watch_feed import WatchFeed
from quorate.raft.core import AddVoter, AdoptVoters, RemoveVoter, Role, UpdateVoter
from quorate.raft.knowledge import Knowledge
from quorate.raft.leader_calls import LeaderCalls
from quorate.raft.leadership import Leadership
from quorate.raft.membership import Membership
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_description import CodeSupport, QuorumDescription
from quorate.raft.quorum_errors import (
    InvalidAppendError,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumBusyError,
    QuorumConfigError,
    QuorumError,
    QuorumStoppedError,
    RequestRefusedError,
)
from quorate.raft.state_machine.append_queue import QueuedAppend
from quorate.raft.state_machine.interface import Appended, PlainStateMachine, StateMachine
from quorate.raft.state_machine.plain import with_snapshots
from quorate.raft.storage.storage import open_storage
from quorate.raft.telemetry import NoTelemetry, Telemetry
from quorate.raft.transport.append_frames import size_of
from quorate.raft.transport.caller import ApplicationHandler, Caller, CallerHandler, KafkaHandler, LocalCaller
from quorate.raft.transport.identities import Identity, secured_as
from quorate.raft.waiters import AppendWaiter
from quorate.runtime import (
    Address,
    CertificateEnd,
    NetworkError,
    Runtime,
    TlsFiles,
    TlsFilesError,
    TlsUse,
    get_logger,
    tell_forked,
)
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter

log = get_logger(__name__)

Outcome = TypeVar("Outcome")
T = TypeVar("T")
Opened = TypeVar("Opened")
"""The outcome type of `open`: a type checker can't infer the class's from a call on the bare class."""


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
    """An append in the queue of the leader. Its place in the log is fixed."""

    __slots__ = ("_waiter",)

    def __init__(self, waiter: _LocalAppendWaiter) -> None:
        self._waiter = waiter

    async def wait(self) -> Appended[Outcome]:
        """Return when the append is committed and applied on this node. Raises `NotLeaderError` or
        `QuorumStoppedError` if nothing happened, `OutcomeUnknownError` if it may have."""
        waiter = self._waiter
        await waiter.done.wait()
        if waiter.error is not None:
            raise waiter.error
        return Appended(waiter.base_offset, waiter.epoch, tuple(waiter.results))  # type: ignore[arg-type]


class Quorum(Knowledge, Generic[Outcome]):
    """One node of a Raft quorum. Open it with `Quorum.open`. All methods belong to the trio run that opened
    it, unless they say otherwise."""

    def __init__(self, config: QuorumConfig, node: Node, state_machine: StateMachine[Outcome]) -> None:
        super().__init__(config, node)
        self._calls = LeaderCalls(node, retry_backoff_ms=config.core.retry_backoff_ms)
        self._clients = ClientService(
            self,
            feed=WatchFeed(
                self,
                state_machine,
                max_batch_bytes=config.max_batch_bytes,
                skipped=node.skipped,
                wait_progress=node.leadership.wait_progress,
            ),
            not_leader=node.not_leader,
            takes_appends=config.remote_appends,
        )
        node.client_server.handler = self._clients.answer
        self._stopped = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: QuorumConfig,
        state_machine: StateMachine[Opened] | PlainStateMachine[Opened],
        *,
        runtime: Runtime | None = None,
        telemetry: Telemetry | None = None,
    ) -> AsyncGenerator["Quorum[Opened]", None]:
        """Recover this node's folder, join the quorum, and stop in order at the end of the block. An orderly
        stop first lets appends in progress finish, for `drain_timeout_ms` at most. Then a leader resigns.

        Raises at the start: `QuorumConfigError` for an invalid configuration, or a state machine that lacks a
        method or has a field that can't be in a snapshot, `QuorumStateError` or `LogError` for a folder that
        can't be used, `AddressInUseError`, `DiskLockedError`.

        If an error stops the node inside the block, the block is cancelled and `QuorumStoppedError` is
        raised, with the error as its `__cause__`. Exceptions of the block itself pass through unchanged,
        except a `QuorumError` that this stop has caused. A cancelled block leaves as after a crash: at once,
        without loss of acknowledged records.
        """
        machine = with_snapshots(state_machine)
        runtime = runtime or real_runtime(sync=SyncStrategy.INLINE)
        if config.tls is not None:
            runtime = _secured(runtime, config, config.tls)
        storage = await open_storage(runtime, config)
        listener = client_listener = None
        try:
            config.check_voters(in_log=bool(storage.recovered.voters))
            if config.listen_address is not None:
                listener = await runtime.network.listen(config.listen_address)
            if config.client_listen is not None:
                client_listener = await runtime.network.listen(config.client_listen)
            node = Node(config, storage, machine, runtime=runtime, telemetry=telemetry or NoTelemetry())
            await node.driver.snapshots.receiver.load_latest()
            quorum: Quorum[Opened] = Quorum(config, node, machine)
            tell_forked(quorum)
            raised: Exception | None = None
            try:
                async with _single_errors(), trio.open_nursery() as nursery:
                    nursery.start_soon(node.run, listener, client_listener, nursery.cancel_scope)
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
            for each in (listener, client_listener):
                if each is not None:
                    each.close()
            storage.snapshots.close()
            storage.log.close()
            storage.lock.release()

    # Observation

    @property
    def log(self) -> Log:
        """The replicated log, for reading. Records at or above the high watermark may still be truncated."""
        return self._node.driver.log

    async def leadership_changes(self) -> AsyncIterator[Leadership]:
        """Yield the current leadership, then each change of it. A slow reader gets only the latest. Raises
        `QuorumStoppedError`."""
        seen: Leadership | None = None
        while True:
            seen = await self.wait_leadership(other_than=seen)
            yield seen

    async def wait_leadership(self, *, other_than: Leadership | None = None) -> Leadership:
        """Return the leadership as soon as it is another one. None: the current one. Raises
        `QuorumStoppedError`."""
        return await self._node.leadership.wait_other(other_than)

    async def wait_leader(self, *, timeout_ms: int | None = None) -> NodeId:
        """Return when a leader is known. Without `timeout_ms` it waits for ever. Raises `NotLeaderError` at
        the timeout, `QuorumStoppedError`."""
        check_duration("timeout_ms", timeout_ms)
        with trio.move_on_after(math.inf if timeout_ms is None else timeout_ms / 1000):
            while (leader := self.leader) is None:
                await self._node.leadership.wait_change()
            return leader
        raise self._not_leader()

    async def wait_applied(self, end_offset: Offset) -> None:
        """Return when this node has applied all records below `end_offset`. Raises `QuorumStoppedError`."""
        if self.applied_offset < end_offset:
            await self._node.forwarder.wait_applied(end_offset)

    def endpoint_of(self, node: NodeId) -> Address | None:
        """Return the endpoint of a voter or of the leader. None: it is not known."""
        endpoint = self._node.driver.core.endpoint_of(node)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def describe(self) -> QuorumDescription:
        """Return the leader's description of the quorum (KIP-836). Raises `NotLeaderError` on every other
        node."""
        if self._node.driver.core.role is not Role.LEADER:
            raise self._not_leader()
        return self._node.describe()

    async def ask_description(self, *, timeout_ms: int = 10_000) -> QuorumDescription:
        """Ask the leader for its description of the quorum (KIP-836), from any node. Raises `NotLeaderError`
        if no leader answered in time, `QuorumStoppedError`."""
        self._check_call(timeout_ms=timeout_ms)
        return await self._calls.describe(timeout_ms=timeout_ms)

    def _not_leader(self) -> NotLeaderError:
        return self._node.not_leader()

    # Reading

    async def wait_read_index(
        self, *, max_staleness_ms: int | None = None, timeout_ms: int = 10_000
    ) -> Offset:
        """Return when every record that was committed before this call is applied on this node. A read of the
        state machine is then linearizable, until the next `await`. Returns the applied offset.

        With `max_staleness_ms`, only the records that were committed that long before the call must be
        applied. If it is at least `staleness_ms`, the node needs no message for that. So a node that reads
        all the time asks the leader once in `max_staleness_ms`, whatever its value, and a node that does not
        read knows a bound of 1.5 fetch timeouts (3 s by default) and the time between two of its fetches.

        Raises `NotLeaderError` if no leader could prove in time that it is one, `QuorumStoppedError`.
        """
        self._check_call(timeout_ms=timeout_ms)
        check_duration("max_staleness_ms", max_staleness_ms)
        staleness_ms = self.staleness_ms if max_staleness_ms is not None else None
        if staleness_ms is None or max_staleness_ms is None or staleness_ms > max_staleness_ms:
            with trio.move_on_after(timeout_ms / 1000):
                asked_at = self._node.freshness.now()
                read_index = await self._calls.read_index(timeout_ms=timeout_ms)
                await self.wait_applied(read_index)
                self._node.freshness.note_read(asked_at)
                return self.applied_offset
            raise self._not_leader()
        return self.applied_offset

    async def read(
        self, read: Callable[[], T], *, max_staleness_ms: int | None = None, timeout_ms: int = 10_000
    ) -> T:
        """Read the state machine linearizably: wait as `wait_read_index`, and return the value of `read`.

        The quorum calls `read` between two calls of `apply`. It must not wait, and must return values that
        `apply` does not change later: copy a part of the state that changes in place. Raises the same as
        `wait_read_index`, and the errors of `read`.
        """
        await self.wait_read_index(max_staleness_ms=max_staleness_ms, timeout_ms=timeout_ms)
        return read()

    # Voters and leadership

    @asynccontextmanager
    async def while_leading(self) -> AsyncGenerator[Epoch, None]:
        """Wait until this node leads, and run the block with the leader epoch. The block is cancelled, and
        ends without an error, as soon as this node no longer leads in this epoch.

        For work that only the leader does::

            while True:
                async with quorum.while_leading() as epoch:
                    await work_of_the_leader(epoch)

        Another node may lead before this one knows it. So the work must name the epoch to the systems that it
        changes, and they must refuse an epoch below the highest one seen (a fencing token). Raises
        `QuorumStoppedError`.
        """
        epoch = await self.wait_leading()
        async with _single_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(self._cancel_when_lost, epoch, nursery.cancel_scope)
            yield epoch
            nursery.cancel_scope.cancel()

    async def _cancel_when_lost(self, epoch: Epoch, scope: trio.CancelScope) -> None:
        await self.wait_leadership_lost(epoch)
        scope.cancel()

    async def wait_leading(self) -> Epoch:
        """Return the leader epoch when this node leads and has applied all that earlier leaders committed.
        Raises `QuorumStoppedError`."""
        while not self.is_leader:
            await self._node.leadership.wait_change()
        return self._node.leadership.current.epoch

    async def wait_leadership_lost(self, epoch: Epoch) -> None:
        """Return when this node does not lead in `epoch`, or has heard no majority for the fetch timeout.
        Raises `QuorumStoppedError`."""
        while self.is_leader and self._node.leadership.current.epoch == epoch:
            await self._node.leadership.wait_change()

    async def add_voter(self, voter: Voter, *, timeout_ms: int = 30_000) -> None:
        """Make an observer a voter (KIP-853). The leader first waits until the observer has caught up.

        `voter.key` must contain the directory id of the observer's `meta.properties`. Raises
        `NotLeaderError`, `OutcomeUnknownError` and `RequestRefusedError` with one of these codes.
        DUPLICATE_VOTER: the id is a voter on another disk, which must be removed first. UNSUPPORTED_VERSION:
        call `adopt_voters` first. REQUEST_TIMED_OUT: the observer has not caught up, or nothing answers at
        its endpoint. INVALID_REQUEST: another node answers there.
        """
        self._check_call(timeout_ms=timeout_ms)
        check_new_voter(voter)
        await self._calls.change_voters(AddVoter(voter), timeout_ms=timeout_ms)

    async def remove_voter(self, key: ReplicaKey, *, timeout_ms: int = 30_000) -> None:
        """Remove a voter from the voter set (KIP-853). A leader that removes itself resigns after the commit.
        Raises the same as `add_voter`. VOTER_NOT_FOUND: this id with this directory is not a voter, or is the
        last one."""
        self._check_call(timeout_ms=timeout_ms)
        await self._calls.change_voters(RemoveVoter(key), timeout_ms=timeout_ms)

    async def update_voter(self, voter: Voter, *, timeout_ms: int = 30_000) -> None:
        """Change the endpoint of a voter in the voter set (KIP-853). A node does this by itself when its
        endpoint changes. Raises the same as `remove_voter`."""
        self._check_call(timeout_ms=timeout_ms)
        check_endpoint(voter)
        await self._calls.change_voters(UpdateVoter(voter), timeout_ms=timeout_ms)

    async def adopt_voters(self, *, timeout_ms: int = 30_000) -> None:
        """Write the configured voter set into the log, so that it can be changed (the upgrade to
        kraft.version 1). All voters must be running. No effect if the log has a voter set."""
        self._check_call(timeout_ms=timeout_ms)
        await self._calls.change_voters(AdoptVoters(), timeout_ms=timeout_ms)

    async def transfer_leadership(self, to: NodeId, *, timeout_ms: int = 10_000) -> None:
        """Transfer the leadership to voter `to`, and return when it leads. Appends wait meanwhile and go to
        the successor. None is lost or of unknown outcome because of the transfer. Raises
        `RequestRefusedError` if `to` is not a voter or could not take over."""
        self._check_call(timeout_ms=timeout_ms)
        await self._calls.transfer_leadership(to, timeout_ms=timeout_ms)

    # The version of the code

    async def ask_support(self) -> dict[NodeId, CodeSupport | None]:
        """Ask each voter what its code supports: the version of its state machine, and whether it has
        `Sessions`. None: it gave no answer, or runs a version of quorate that does not say. Any node may ask.
        Raises `QuorumStoppedError`."""
        self._check_running()
        found: dict[NodeId, CodeSupport | None] = {}
        for voter in self.voters:
            if voter.key.id == self.node_id:
                found[voter.key.id] = self._node.support
                continue
            try:
                view = await self._node.ask_view(
                    Address(voter.endpoint.host, voter.endpoint.port), voter.key.id
                )
            except (QuorumError, NetworkError):
                view = None
            is_it = view is not None and view.node is not None and view.node.matches(voter.key)
            found[voter.key.id] = view.support if view is not None and is_it else None
        return found

    async def raise_state_version(self, version: int, *, timeout_ms: int = 10_000) -> None:
        """Let records need `version` of the state machine's code, from here on and for ever. Return when that
        is committed. No effect if `state_version` is not below it.

        On the leader only. It first asks every voter, and raises `RequestRefusedError` (UNSUPPORTED_VERSION)
        if one of them runs older code or does not answer. A node with older code stops at this place of the
        log, and does not start behind it. Raises `NotLeaderError`, `OutcomeUnknownError`,
        `QuorumStoppedError`.
        """
        self._check_call(timeout_ms=timeout_ms)
        with trio.move_on_after(timeout_ms / 1000):
            if version <= self.state_version:
                return
            self._check_supported(version, await self.ask_support())
            if self._node.driver.core.role is not Role.LEADER:
                raise self._not_leader()
            await self._append_now([b""], size_of([b""]), state_version=version).wait()
            return
        raise OutcomeUnknownError(f"the state version was not raised within {timeout_ms} ms; it may be yet")

    def _check_supported(self, version: int, support: dict[NodeId, CodeSupport | None]) -> None:
        lacking = [
            f"node {voter} runs version {found.code_version}" if found else f"node {voter} did not say"
            for voter, found in support.items()
            if found is None or found.code_version < version
        ]
        if lacking:
            raise RequestRefusedError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"not every voter can apply records of version {version}: {', '.join(lacking)}; start "
                f"version {version} of the code there, or remove that voter",
            )

    # Snapshots

    async def take_snapshot(self) -> SnapshotId:
        """Take a snapshot of the applied state of this node, and return its id. It is durable then. The
        quorum takes snapshots by itself (`snapshot_max_new_bytes`, `snapshot_max_interval_ms`). Call this
        only to shorten the next restart. Raises `SnapshotNotTakenError`, `QuorumStoppedError`."""
        self._check_running()
        return await self._node.driver.snapshots.taker.take()

    def snapshots(self) -> tuple[SnapshotId, ...]:
        """The ids of the snapshots on this node's disk, in ascending order."""
        return self._node.driver.snapshots.ids

    def read_snapshot(self, snapshot: SnapshotId) -> SnapshotReader:
        """Open one of `snapshots()`, to iterate over the chunks of its state, with plain calls: pause between
        them. Close it. It stays readable if the snapshot is deleted meanwhile. Raises `SnapshotMissingError`,
        `DamagedSnapshotError`, `DiskError`."""
        return self._node.driver.snapshots.reader(snapshot)

    # Appending

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[Outcome]:
        """Append records as one atomic unit. Return when they are committed, and applied on this node.

        Other nodes forward the records to the leader, if `remote_appends` is set. If the leader's state
        machine has a `check`, it may refuse them. Raises `InvalidAppendError`, `QuorumBusyError`,
        `NotLeaderError` or `QuorumStoppedError` if nothing happened. Raises `OutcomeUnknownError` if the
        timeout ended, the connection or the leadership was lost, or this node stopped after it had sent them.
        The outcome of a cancelled call is unknown as well.
        """
        self._check_call(timeout_ms=timeout_ms)
        self._check_records(records)
        return await self._append_until(trio.current_time() + timeout_ms / 1000, records, timeout_ms)

    async def _append_until(
        self, deadline: float, records: Sequence[bytes], timeout_ms: int
    ) -> Appended[Outcome]:
        """Append until `deadline`, in trio's time. `timeout_ms`: the whole time, for messages."""
        sent = waits_for_room = False
        with trio.move_on_at(deadline):
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
                        # The leader's code may be older, and take for records what it can't apply.
                        self._node.driver.check_versions(records)
                        sent = True
                        base_offset, epoch, results = await self._node.forwarder.append(
                            leader, address, records
                        )
                        return Appended(base_offset, epoch, tuple(results))  # type: ignore[arg-type]
                except NotLeaderError:
                    sent = False
                # Nothing happened: try again when another node leads, or after the backoff.
                with trio.move_on_after(self._config.core.retry_backoff_ms / 1000):
                    while self._node.leadership.current == seen:
                        await self._node.leadership.wait_change()
        if sent:
            raise unanswered_error(timeout_ms)
        if waits_for_room:
            raise QuorumBusyError(
                f"appends of {self._config.max_pending_bytes} bytes waited for their commit for {timeout_ms} "
                "ms; append less at once, or raise max_pending_bytes"
            )
        raise self._not_leader()

    @property
    def next_offset(self) -> Offset:
        """The offset that the next `append_nowait` on this leader gets. A voter-set record that the quorum
        appends meanwhile does not change it."""
        return self._node.driver.next_offset

    def append_nowait(
        self, records: Sequence[bytes], *, epoch: Epoch | None = None
    ) -> PendingAppend[Outcome]:
        """Reserve the next place in the log for these records, on the leader of `epoch` (None: of any epoch).
        `wait` on the returned object gives the outcome. The call does not wait for room within
        `max_pending_bytes`, so the caller must bound its appends.

        Raises `NotLeaderError` if this node does not lead, `InvalidAppendError`, `QuorumStoppedError`.
        """
        size = self._check_records(records)
        core = self._node.driver.core
        if core.role is not Role.LEADER or epoch not in (None, core.epoch):
            raise self._not_leader()
        return self._append_now(records, size)

    def _append_now(
        self, records: Sequence[bytes], size: int, *, state_version: int | None = None
    ) -> PendingAppend[Outcome]:
        waiter = _LocalAppendWaiter()
        self._queue(QueuedAppend(records, size, waiter, state_version))
        return PendingAppend(waiter)

    def _append_at_once(self, records: Sequence[bytes], waiter: AppendWaiter) -> bool:
        """Queue records if this node leads and has room for them, and return True: `waiter` hears how the
        append ends. Otherwise nothing happens. Raises `InvalidAppendError`, `QuorumStoppedError`."""
        size = self._check_records(records)
        driver = self._node.driver
        if driver.core.role is not Role.LEADER or not driver.has_room:
            return False
        self._queue(QueuedAppend(records, size, waiter))
        return True

    def _queue(self, append: QueuedAppend) -> None:
        self._node.driver.propose(append)
        self._node.driver.commit_soon()

    def _check_staying(self) -> None:
        if self._node.leaving:
            raise QuorumStoppedError("this node is stopping, and nothing was appended")

    def _check_call(self, *, timeout_ms: int) -> None:
        """Check the arguments of a call that waits at most `timeout_ms`."""
        self._check_running()
        check_duration("timeout_ms", timeout_ms)

    def _check_running(self) -> None:
        if self._stopped or self._node.failure is not None:
            raise QuorumStoppedError("the quorum on this node has stopped") from self._node.failure

    def _check_records(self, records: Sequence[bytes]) -> int:
        self._check_running()
        self._check_staying()
        check_records(records)
        size = size_of(records)
        if size > self._config.max_batch_bytes:
            raise InvalidAppendError(
                f"the records have {size} bytes together, max_batch_bytes is {self._config.max_batch_bytes}; "
                "append them in parts"
            )
        return size

    # The application's own requests

    def serve_requests(self, handler: ApplicationHandler | None) -> None:
        """Answer the requests that other nodes send with `request_leader`. The handler runs in one task per
        request."""
        if handler is None:
            self.serve_callers(None)
            return
        answer = handler

        async def without_caller(payload: bytes, _: Caller) -> bytes:
            return await answer(payload)

        self.serve_callers(without_caller)

    def serve_callers(self, handler: CallerHandler | None) -> None:
        """Do the same as `serve_requests`. The handler also gets the `Caller`, whose process may have
        ended if its connection is closed."""
        self._node.server.handler = handler

    def serve_kafka(self, handler: KafkaHandler | None) -> None:
        """Give `handler` the connections to the controller listener that speak Kafka's protocol (KIP-919).
        Without one they are closed."""
        self._node.server.kafka_handler = handler

    def serve_reads(self, handler: ReadHandler | None) -> None:
        """Answer the reads of clients (`quorate.client`) with what `handler` returns for their queries.

        The leader calls it as the function of `read`: between two calls of `apply`, so it must not wait, and
        the answer is linearizable. If it raises, the read fails and the node continues."""
        self._clients.read_handler = handler

    async def request_leader(self, payload: bytes) -> bytes:
        """Send `payload` to the handler on the leader (`serve_requests`) and return its answer.

        Raises `NotLeaderError` if no leader is known or reachable, `OutcomeUnknownError` if the connection
        broke before the answer.
        """
        leader = self.leader
        handler = self._node.server.handler
        if leader is not None and leader == self._config.node_id and handler is not None:
            return await handler(payload, LocalCaller())
        address = None if leader is None else self.endpoint_of(leader)
        if leader is None or address is None:
            raise self._not_leader()
        return await self._node.forwarder.request(leader, address, payload)

    def certificates(self) -> Sequence[CertificateEnd]:
        """The ends of the certificates by which this node and the others know each other. Empty without
        `QuorumConfig.tls`."""
        return self._node.network.certificates

    def lost_connections(self) -> AsyncIterator[None]:
        """Yield when the connection to the leader for this node's appends and requests has broken, once
        for several breaks since the last yield. The next request opens another connection."""
        return self._node.forwarder.losses()

    def resign(self) -> None:
        """Resign as leader, so that another voter is elected. No effect on other nodes."""
        self._node.driver.resign()


def unanswered_error(timeout_ms: int) -> OutcomeUnknownError:
    """Return the error of an append that was sent, and has no answer after `timeout_ms`."""
    return OutcomeUnknownError(f"the append was not answered within {timeout_ms} ms")


def _secured(runtime: Runtime, config: QuorumConfig, files: TlsFiles) -> Runtime:
    """Return the same runtime with TLS. Raises `QuorumConfigError`."""
    try:
        own = Identity(config.cluster_id, config.node_id)
        network = secured_as(runtime.network, files, own, config.tls_use)
    except TlsFilesError as error:
        raise QuorumConfigError(f"tls: {error}") from error
    if config.tls_use is not TlsUse.REQUIRED:
        log.warning(
            "the quorum takes connections without TLS: whoever reaches its listener is believed",
            use=config.tls_use.value,
            remedy=f"when every node prefers TLS, demand it ({config.names.tls_use})",
        )
    return replace(runtime, network=network)


@asynccontextmanager
async def _single_errors() -> AsyncGenerator[None, None]:
    """Raise a single error of the block (an interrupt, say) without the group of its nursery."""
    try:
        yield
    except BaseExceptionGroup as group:
        first, *others = group.exceptions
        if others:
            raise
        raise first from first.__cause__
