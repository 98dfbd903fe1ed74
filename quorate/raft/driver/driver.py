"""Carries out what the core asks for, in order.

Events are stepped in the task that brings them, one after another, and their effects are carried out on
the spot: a received Fetch is answered before the task that read it from its socket runs on. Only barriers
(a quorum-state write, a truncation, the installation of a snapshot) and syncs wait for the disk, each in a
task of its own; while a barrier is under way, events queue up.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

import trio

from quorate.log.batches.control import KRAFT_VERSION
from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.present import present
from quorate.raft.core import (
    ChangeVoters,
    Core,
    Durable,
    Effect,
    Event,
    FetchSnapshotResponse,
    Message,
    Propose,
    Request,
    Resign,
    Role,
    RoleChanged,
    Timer,
    TimerFired,
)
from quorate.raft.core import effects as fx
from quorate.raft.driver.driver_times import DriverTimes
from quorate.raft.driver.late_reads import LateReads
from quorate.raft.driver.leader_requests import LeaderRequests
from quorate.raft.driver.log_writing import LogWriter
from quorate.raft.leadership import Announcer
from quorate.raft.quorum_errors import NotLeaderError, OutcomeUnknownError, QuorumStoppedError
from quorate.raft.snapshots.snapshot_cleaning import Retention
from quorate.raft.snapshots.snapshot_keeping import Snapshots
from quorate.raft.snapshots.snapshot_taking import SnapshotTriggers
from quorate.raft.state_machine.append_queue import AppendQueue, QueuedAppend
from quorate.raft.state_machine.applier import Applier
from quorate.raft.state_machine.code_versions import version_check
from quorate.raft.state_machine.interface import StateMachine
from quorate.raft.state_machine.record_check import record_check
from quorate.raft.storage.storage import Storage
from quorate.raft.telemetry import Telemetry
from quorate.raft.transport.forwarding import Forwarder
from quorate.runtime import Buffer, Runtime, SteadyClock, Timers, get_logger, loop_clock
from quorate.types import Epoch, Offset

log = get_logger(__name__)

_EVENTS_MAX = 1000
"""The most events that wait behind a barrier. Above it, connections are not read until the barrier is
complete."""


@dataclass(frozen=True, slots=True)
class Routes:
    """The ways by which messages leave the node. `flush` sends the messages that the other methods queued."""

    send_request: Callable[[Message], None]
    send_response: Callable[[Message, Buffer], None]
    flush: Callable[[], None]


class Driver:
    """Owns the core, the log and the state machine of one node."""

    __slots__ = (
        "_announcer",
        "_barrier_wake",
        "_blocked",
        "_check_records",
        "_check_versions",
        "_commit_wake",
        "_effects",
        "_events",
        "_failed",
        "_failure",
        "_fetch_max_bytes",
        "_fetched",
        "_forwarder",
        "_late_reads",
        "_lease_clock",
        "_now",
        "_routes",
        "_runs",
        "_runtime",
        "_state_file",
        "_stepping",
        "_sync_wake",
        "_telemetry",
        "_timers",
        "_times",
        "_unblocked",
        "_watermark",
        "_writer",
        "appends",
        "applier",
        "core",
        "log",
        "requests",
        "snapshots",
    )

    def __init__(
        self,
        *,
        core: Core,
        storage: Storage,
        state_machine: StateMachine[object],
        runtime: Runtime,
        telemetry: Telemetry,
        max_batch_bytes: int,
        max_pending_bytes: int,
        fetch_max_bytes: int,
        snapshot_triggers: SnapshotTriggers,
        retention: Retention,
        compare_state: Callable[[SnapshotContents], None] | None,
        announcer: Announcer,
        forwarder: Forwarder,
        routes: Routes,
        not_leader: Callable[[], NotLeaderError],
        lease_clock: SteadyClock | None,
    ) -> None:
        """`lease_clock`: for the core, if it uses read leases."""
        self.core = core
        self.log = storage.log
        self._state_file = storage.state_file
        self._watermark = storage.watermark
        self._runtime = runtime
        self._telemetry = telemetry
        self._announcer = announcer
        self._forwarder = forwarder
        self._fetch_max_bytes = fetch_max_bytes
        self._check_records = record_check(state_machine)
        self._check_versions = version_check(state_machine, lambda: self.applier.state_version)
        self.appends = AppendQueue(max_batch_bytes=max_batch_bytes, max_pending_bytes=max_pending_bytes)
        self._now = loop_clock()
        self._lease_clock = lease_clock
        self._writer = LogWriter(
            storage.log,
            self.appends,
            runtime.wall_clock,
            telemetry,
            self._now,
            kraft_version=lambda: KRAFT_VERSION if core.has_dynamic_voters else 0,
        )
        self.requests = LeaderRequests(core, self.deliver, not_leader=not_leader)
        self.applier = Applier(
            state_machine,
            storage.log,
            self.appends,
            on_applied=self._report_applied,
            skipped=storage.skipped,
            interval_ms=snapshot_triggers.max_interval_ms,
        )
        self.snapshots = Snapshots(
            self,
            storage,
            state_machine,
            runtime.wall_clock,
            telemetry,
            triggers=snapshot_triggers,
            retention=retention,
            compare=compare_state,
        )
        self._timers: Timers[Timer] = Timers(lambda timer: self.deliver(TimerFired(timer)))
        self._routes = routes
        self._runs = False
        """True once `run` has begun. Before, events queue up."""
        self._events: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        """The effects that wait behind a barrier."""
        self._fetched = False
        """True if this step appended records of the leader, which must be synced."""
        self._stepping = False
        self._blocked = False
        self._barrier_wake = trio.Event()
        self._unblocked = trio.Event()
        self._sync_wake = trio.Event()
        self._commit_wake = trio.Event()
        self._failure: BaseException | None = None
        self._failed = trio.Event()
        self._times = DriverTimes(telemetry, self._now)
        self._late_reads = LateReads(
            storage.log,
            generation=lambda epoch: self.core.generation if self._leads(epoch) else None,
            answer=self._send_late_records,
        )

    async def run(self) -> None:
        """Start and drive the core until cancelled. Raises what stops the node."""
        self._runs = True
        async with trio.open_nursery() as nursery:
            for task in (
                self._timers.run,
                self._run_barriers,
                self._run_syncs,
                self._late_reads.run,
                self._run_commits,
                self.applier.run,
                self.snapshots.run,
                self._watermark.run,
                self._raise_failure,
            ):
                nursery.start_soon(task)
            self._effects.extend(self.core.start())
            self._process_events()

    # Events in

    def deliver(self, event: Event) -> None:
        """Step the core with `event`: now, or after the barrier that is under way. Never raises: an error
        stops the node."""
        self._events.append(event)
        self._process_events()

    def propose(self, append: QueuedAppend) -> None:
        """Queue an append, for `commit_waiting` or `commit_soon` to propose. There is no other way into the
        queue, and so into the log. Raises `InvalidAppendError` when the state machine refuses the records."""
        if append.state_version is None:
            self.check_versions(append.records)
            if self._check_records is not None:
                self._check_records(append.records)
        self.appends.add(append)

    def check_versions(self, records: Sequence[bytes]) -> None:
        """Refuse records that need a version above the state version, as far as this node has applied the
        log: it only grows. Raises `InvalidAppendError`."""
        if self._check_versions is not None:
            self._check_versions(records)

    @property
    def next_offset(self) -> Offset:
        """The offset of the first record of the next append, if this node continues to lead."""
        return Offset(self.core.log_end_offset + self.appends.waiting_records)

    def commit_waiting(self) -> None:
        """Propose the queued appends now."""
        if self.appends.has_waiting:
            self._process_events()

    def commit_soon(self) -> None:
        """Propose when the tasks that are ready now have run, so that their appends share a batch."""
        self._commit_wake.set()

    def resign(self) -> None:
        """Stop leading; no effect on a node that does not lead."""
        if self.core.role is Role.LEADER:
            self.deliver(Resign())

    def _process_events(self) -> None:
        if self._stepping or self._blocked or self._failure is not None or not self._runs:
            return
        self._stepping = True
        started = self._now()
        try:
            self._step_all()
            self._routes.flush()
            if self._fetched and not self._acknowledge_records():
                self.applier.leave_to_task()
            else:
                self.applier.catch_up()
        except Exception as error:
            self.fail(error)
        finally:
            self._stepping = False
        self._times.add_work(started)

    def _acknowledge_records(self) -> bool:
        """Sync the fetched records, and let the core acknowledge them with its next Fetch, for which the
        leader waits. False: the disk syncs in another thread, and `_run_syncs` does it."""
        self._fetched = False
        end_offset = self.log.sync_at_once()
        if end_offset is None:
            self._sync_wake.set()
            return False
        self._events.append(Durable(self.core.generation, end_offset))
        self._step_all()
        self._routes.flush()
        return True

    def _step_all(self) -> None:
        core, events = self.core, self._events
        while self._carry_out_all():
            # `next_offset` has promised the queued appends their places: our own voter set goes behind them.
            if (
                self.appends.has_waiting
                and not self.requests.holds_appends_back
                and (not events or isinstance(events[0], ChangeVoters))
            ):
                number, proposal = self.appends.next_proposal()
                self._tell_time()
                self._effects.extend(core.step(Propose(number, proposal.count)))
            elif events:
                self._tell_time()
                self._effects.extend(core.step(events.popleft()))
            else:
                return

    def _tell_time(self) -> None:
        if self._lease_clock is not None:
            self.core.tell_time(self._lease_clock.now_ms())

    @property
    def has_read_lease(self) -> bool:
        """The same as `Quorum.has_read_lease`."""
        return self._lease_clock is not None and self.core.has_read_lease(self._lease_clock.now_ms())

    def _carry_out_all(self) -> bool:
        """Carry out the effects. False: a barrier is the next one."""
        effects = self._effects
        while effects:
            effect = effects[0]
            if effect.is_barrier:
                self._blocked = True
                self._barrier_wake.set()
                return False
            effects.popleft()
            self._carry_out(effect)
        return True

    # Effects out

    def _carry_out(self, effect: Effect) -> None:
        # Each case costs those below it. So the effects of a commit come first, the most frequent on top.
        match effect:
            case fx.ArmTimer(timer, min_ms, max_ms):
                milliseconds = min_ms if min_ms == max_ms else self._runtime.entropy.between(min_ms, max_ms)
                self._timers.arm(timer, milliseconds / 1000)
            case fx.HighWatermarkAdvanced(high_watermark):
                self._telemetry.high_watermark(high_watermark)
                self.log.high_watermark = high_watermark
                self._watermark.note_high_watermark(high_watermark)
                self._writer.measure_commits(high_watermark)
                self.applier.advance(high_watermark)
            case fx.Send(message):
                self._send_message(message)
            case fx.SendRecords():
                self._send_records(effect)
            case fx.AppendFetched():
                self._writer.append_fetched(effect)
                self._fetched = True
            case fx.AppendProposal():
                self._writer.append_proposal(effect)
                self._sync_wake.set()
            case fx.CancelTimer(timer):
                self._timers.cancel(timer)
            case fx.AppendLeaderChange():
                self._writer.append_leader_change(effect)
                self._sync_wake.set()
            case fx.RejectProposal():
                self.appends.reject(
                    effect.proposal,
                    NotLeaderError(
                        leader=effect.leader,
                        epoch=effect.epoch,
                        endpoint=None if effect.leader is None else self.core.endpoint_of(effect.leader),
                    ),
                )
            case fx.RoleChanged():
                self._report_role(effect)
            case fx.SendSnapshotChunk():
                self.snapshots.sender.send(effect)
            case fx.StoreSnapshotChunk():
                self.snapshots.receiver.store_chunk(effect)
            case fx.CheckSnapshot():
                self.snapshots.receiver.check(effect)
            case fx.AppendVoters():
                self._writer.append_voters(effect)
                self._sync_wake.set()
            case fx.VotersChanged():
                self.requests.end_change(effect)
            case fx.ReadIndexConfirmed():
                self.requests.confirm_reads(effect)
            case fx.ReadIndexFailed():
                self.requests.fail_reads(effect)
            case fx.TransferEnded():
                self.requests.end_transfer(effect)
            case fx.Persist() | fx.Truncate() | fx.InstallSnapshot():
                raise AssertionError("barriers are carried out by _run_barriers")
            case _:
                assert_never(effect)

    def _send_message(self, message: Message) -> None:
        if isinstance(message, Request):
            self._routes.send_request(message)
        else:
            self._routes.send_response(message, b"")

    def _send_records(self, effect: fx.SendRecords) -> None:
        # A peer may ask for more than we want in memory.
        max_bytes = min(effect.max_bytes, self._fetch_max_bytes)
        records = self.log.read_tail(effect.start_offset, max_bytes)
        if records is None:
            self._late_reads.read_later(effect, max_bytes)
        else:
            self._routes.send_response(effect.response, records)

    def _report_applied(self, base_offset: Offset, results: Sequence[object], applied_offset: Offset) -> None:
        self._forwarder.applied(base_offset, results, applied_offset)
        self._announcer.note_applied(applied_offset)

    def _report_role(self, effect: RoleChanged) -> None:
        log.info(
            "role changed",
            node=self.core.node_id,
            role=effect.role.value,
            epoch=effect.epoch,
            leader=effect.leader,
            log_end_offset=self.core.log_end_offset,
        )
        self._times.note_role(effect)
        if effect.role is not Role.LEADER:
            self.requests.end_transfers()
            self.appends.fail_in_log(
                OutcomeUnknownError(
                    f"this node stopped leading (epoch {effect.epoch}) before the append was committed; "
                    "it may be committed by the next leader"
                )
            )
        self._telemetry.role_changed(
            effect.role,
            is_voter=self.core.is_voter,
            epoch=effect.epoch,
            leader=effect.leader,
            voted=effect.voted,
        )
        self._announcer.note_role(effect)

    # Waits for the disk

    async def _run_barriers(self) -> None:
        while True:
            await self._barrier_wake.wait()
            self._barrier_wake = trio.Event()
            while self._effects:
                barrier = self._effects[0]
                if barrier.is_barrier is False:
                    break
                await self._complete_barrier(barrier)
                self._effects.popleft()
            self._blocked = False
            self._process_events()
            if not self._blocked:
                unblocked, self._unblocked = self._unblocked, trio.Event()
                unblocked.set()

    async def _complete_barrier(self, barrier: fx.Persist | fx.Truncate | fx.InstallSnapshot) -> None:
        match barrier:
            case fx.Persist(state):
                await self._state_file.store(state)
            case fx.Truncate():
                await self.log.truncate(barrier.end_offset)
                self._writer.report_log_end()
            case fx.InstallSnapshot():
                await self.snapshots.receiver.install(barrier)
            case _:
                assert_never(barrier)

    async def wait_unblocked(self) -> None:
        """Return when no barrier is under way: events delivered before the next await are stepped at once. No
        checkpoint if that is so."""
        while self._blocked:
            await self._unblocked.wait()

    @property
    def _has_room_for_events(self) -> bool:
        return not self._blocked or len(self._events) <= _EVENTS_MAX

    @property
    def has_room(self) -> bool:
        """True if not too many appends wait for their commit, and not too many events behind a barrier."""
        return self.appends.has_room and self._has_room_for_events

    async def wait_room(self) -> None:
        """Return when there is room for appends and requests of other nodes. No checkpoint if that is so."""
        await self.appends.wait_room()
        while not self._has_room_for_events:
            await self._unblocked.wait()

    async def make_durable(self, end_offset: Offset) -> None:
        """Return when the core knows that the log is durable below `end_offset`, which it has appended. A
        failure stops the node, and is raised."""
        while True:
            await self.wait_unblocked()
            if self.core.durable_end_offset >= end_offset:
                return
            try:
                await self._sync_log()
            except Exception as error:
                self.fail(error)
                raise

    async def _run_syncs(self) -> None:
        while True:
            await self._sync_wake.wait()
            self._sync_wake = trio.Event()
            await self._sync_log()

    async def _sync_log(self) -> None:
        generation = self.core.generation
        end_offset = await self.log.sync()
        self.deliver(Durable(generation, Offset(end_offset)))

    async def _run_commits(self) -> None:
        while True:
            await self._commit_wake.wait()
            self._commit_wake = trio.Event()
            self._process_events()

    def _send_late_records(self, effect: fx.SendRecords, records: Buffer) -> None:
        self._routes.send_response(effect.response, records)
        self._routes.flush()

    def answer_snapshot_fetch(self, response: FetchSnapshotResponse) -> None:
        """Answer with a chunk that was read, unless another node leads by now."""
        if self._leads(response.epoch):
            self._routes.send_response(response, b"")
            self._routes.flush()

    def _leads(self, epoch: Epoch) -> bool:
        return self.core.role is Role.LEADER and self.core.epoch == epoch

    # Failure

    def fail(self, error: BaseException) -> None:
        """Stop the node because of `error`. A later error has no effect."""
        if self._failure is None:
            self._failure = error
            self._failed.set()

    async def _raise_failure(self) -> None:
        await self._failed.wait()
        raise present(self._failure, "the failure that stops the node")

    def stop(self, error: QuorumStoppedError) -> None:
        """Fail every operation that waits. No event is stepped afterwards. An operation that may have
        happened ends in `OutcomeUnknownError`."""
        self.fail(error)
        self.appends.fail_all(error)
        self.requests.stop(error)
        self._forwarder.stop(error)
        self._announcer.stop(error)
