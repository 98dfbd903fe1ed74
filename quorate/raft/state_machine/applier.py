"""Feeds committed records to the state machine, in order and once.

On the leader the proposals are still in memory when they commit, and applying is part of the step that
committed them, for as long as a step may take. A follower applies what is in the log's memory, once it has
answered. A task continues from there, and reads the records that are not in memory from the log.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import trio

from quorate.log import Log, OffsetOutOfRangeError
from quorate.log.batches.batch import Batch, read_batches
from quorate.log.batches.control import leader_change_in, state_version_in
from quorate.log.batches.records import values_of
from quorate.quorum_state import SkippedBatches
from quorate.raft.quorum_errors import StateMachineError
from quorate.raft.state_machine.append_queue import AppendQueue, Proposal
from quorate.raft.state_machine.code_versions import code_version_of, too_old
from quorate.raft.state_machine.interface import CommittedBatch, StateMachine
from quorate.runtime import SLICE_SECONDS, WORK, Slices
from quorate.types import Epoch, Offset

_READ_BYTES = 1024 * 1024
_NEVER = 2**63
_NONE_SKIPPED = SkippedBatches()


class Applier:
    """Owns the applied offset."""

    def __init__(
        self,
        state_machine: StateMachine[object],
        log: Log,
        appends: AppendQueue,
        *,
        on_applied: Callable[[Offset, Sequence[object], Offset], None],
        skipped: SkippedBatches = _NONE_SKIPPED,
        interval_ms: int = 0,
    ) -> None:
        """`interval_ms`: the length of the intervals of the log's own time (see `stop_at`). 0: there are
        none."""
        self._skipped = skipped or None
        self._state_machine = state_machine
        self._code_version = code_version_of(state_machine)
        self.state_version = 0
        """The version of the state machine's code that the next records may need."""
        self._log = log
        self._appends = appends
        self._on_applied = on_applied
        self._high_watermark = Offset(0)
        self._is_held = False
        """Either of the next two: nothing is applied."""
        self._is_frozen = False
        self._is_stopped = False
        self._wake = trio.Event()
        self.applied_offset: Offset = log.log_start_offset
        """The exclusive end of the applied records: always the end of a batch, or of a snapshot."""
        self.applied_bytes = 0
        """The size of the log's batches that were applied since the process started."""
        self.last_timestamp_ms = 0
        """The timestamp of the last applied batch. 0: there is none."""
        self.leader_change: bytes | None = None
        """The value of the last LeaderChange record that was applied. None: there is none, or it is not
        known."""
        self._interval_ms = interval_ms
        self._interval_start_ms, self._interval_end_ms = (0, 0) if interval_ms else (-_NEVER, _NEVER)
        """The interval of the last batch's timestamp. Empty: there is none."""
        self._stop_bytes = _NEVER
        self._stop: trio.Event | None = None
        self._begins_interval = False

    def advance(self, high_watermark: Offset) -> None:
        """Apply the proposals that are committed. `catch_up` or `leave_to_task` has to follow. Raises
        `StateMachineError`."""
        self._high_watermark = high_watermark
        self._apply_from_memory()

    def catch_up(self) -> None:
        """Apply one slice of what is committed and in the log's memory, and leave the rest to the task.
        Raises `StateMachineError`."""
        if self.applied_offset < self._high_watermark:
            self._apply_from_tail()
            self._apply_from_memory()
            self.leave_to_task()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Apply nothing during the block, so that the state stands still. One block at a time. Its end also
        ends a stop (`stop_at`)."""
        self._is_frozen = self._is_held = True
        try:
            yield
        finally:
            self._is_frozen = self._is_stopped = self._is_held = False
            self.leave_to_task()

    async def stop_at(self, count: int) -> bool:
        """Stop behind the first batch that brings `applied_bytes` to `count`, or whose timestamp is not in
        the interval of the batch before. Return True if it is the latter. One caller at a time, who must let
        the applier `go_on`, also if it is cancelled.

        Which batch that is depends on the log alone. So the nodes whose last snapshots have one end stop
        behind the same batch, and the beginning of an interval is the same batch on all of them. A batch that
        was applied before this call does not count.
        """
        stop = self._stop = trio.Event()
        self._stop_bytes = count
        try:
            await stop.wait()
        finally:
            self._stop, self._stop_bytes = None, _NEVER
        return self._begins_interval

    def go_on(self) -> None:
        """Apply again, after a stop. No effect if there is none."""
        if self._is_stopped:
            self._is_stopped = False
            self._is_held = self._is_frozen
            self.leave_to_task()

    def leave_to_task(self) -> None:
        """Let the task apply what is committed."""
        if self.applied_offset < self._high_watermark:
            self._wake.set()

    def replace_state(
        self, end_offset: Offset, *, last_timestamp_ms: int, leader_change: bytes | None, state_version: int
    ) -> None:
        """Note that the state is that of a snapshot ending at `end_offset`, above the applied offset."""
        self.applied_offset = end_offset
        self.last_timestamp_ms = last_timestamp_ms
        if self._interval_ms:
            self._set_interval(last_timestamp_ms)
        self.leader_change = leader_change
        self.state_version = state_version
        self._on_applied(end_offset, (), end_offset)

    def _advance_to(self, end: Offset, *, batch_bytes: int, timestamp_ms: int) -> None:
        self.applied_offset = end
        self.last_timestamp_ms = timestamp_ms
        self.applied_bytes += batch_bytes
        if not self._interval_start_ms <= timestamp_ms < self._interval_end_ms:
            is_first = not self._interval_end_ms
            self._set_interval(timestamp_ms)
            if not is_first:
                self._reach_stop(begins_interval=True)
        if self.applied_bytes >= self._stop_bytes:
            self._reach_stop(begins_interval=False)

    def _set_interval(self, timestamp_ms: int) -> None:
        self._interval_start_ms = timestamp_ms - timestamp_ms % self._interval_ms
        self._interval_end_ms = self._interval_start_ms + self._interval_ms

    def _reach_stop(self, *, begins_interval: bool) -> None:
        if self._stop is not None and not self._is_stopped:
            self._begins_interval = begins_interval
            self._is_stopped = self._is_held = True
            self._stop.set()

    def _apply_from_memory(self) -> None:
        """Apply one slice of the proposals in memory."""
        proposal = self._next_in_memory()
        if proposal is None:
            return
        slice_end = trio.current_time() + SLICE_SECONDS
        while True:
            # Removed only when applied: if `apply` raises, the waiters must still get the error.
            self._appends.resolve_first(self._apply_proposal(proposal))
            # Looked up each time: a task that a result wakes may make this node fail the rest.
            proposal = self._next_in_memory()
            if proposal is None or trio.current_time() >= slice_end:
                return

    def _next_in_memory(self) -> Proposal | None:
        proposals = self._appends.in_log
        if not proposals or self._is_held:
            return None
        proposal = proposals[0]
        is_next = proposal.base_offset == self.applied_offset and proposal.end_offset <= self._high_watermark
        return proposal if is_next else None

    def _apply_proposal(self, proposal: Proposal) -> Sequence[object]:
        if proposal.state_version is not None:
            self._set_state_version(proposal.state_version, proposal.base_offset, proposal.epoch)
            end = proposal.end_offset
            self._advance_to(end, batch_bytes=proposal.batch_bytes, timestamp_ms=proposal.timestamp_ms)
            self._on_applied(proposal.base_offset, (), end)
            return (None,)
        batch = CommittedBatch(
            base_offset=proposal.base_offset,
            epoch=proposal.epoch,
            timestamp_ms=proposal.timestamp_ms,
            records=proposal.records(),
            state_version=self.state_version,
        )
        return self._apply(batch, end=proposal.end_offset, batch_bytes=proposal.batch_bytes)

    def _apply(self, batch: CommittedBatch, *, end: Offset, batch_bytes: int) -> Sequence[object]:
        base, records = batch.base_offset, batch.records
        WORK.records += len(records)
        results: Sequence[object]
        if self._skipped is not None and self._skipped.skips(base, batch.epoch):
            results = [None] * len(records)
        else:
            results = self._call_apply(batch)
        self._advance_to(end, batch_bytes=batch_bytes, timestamp_ms=batch.timestamp_ms)
        self._on_applied(base, results, end)
        return results

    def _call_apply(self, batch: CommittedBatch) -> Sequence[object]:
        base, records = batch.base_offset, batch.records
        try:
            results = self._state_machine.apply(batch)
        except Exception as error:
            raise StateMachineError(
                f"apply raised {type(error).__name__} ({error}) for the batch at offset {base}, epoch "
                f"{batch.epoch}; this node stops here. Mend the state machine and restart: the batch will be "
                "applied again. If no version of it can, skip this batch, on every node alike: "
                "docs/how-to/skip-a-batch.md",
                offset=base,
                epoch=batch.epoch,
            ) from error
        try:
            count = len(results)
        except TypeError:
            count = -1
        if count != len(records):
            returned = f"{count} results" if count >= 0 else f"a {type(results).__name__}"
            raise StateMachineError(
                f"apply returned {returned} for the {len(records)} records at offset {base}; "
                "return one result per record",
                offset=base,
                epoch=batch.epoch,
            )
        return results

    def _apply_from_tail(self) -> None:
        """Apply one slice of the log's memory."""
        if self._is_held or self.applied_offset < self._log.log_start_offset:
            return  # or a snapshot has taken the log's place
        records = self._log.read_tail(self.applied_offset, _READ_BYTES, end_offset=self._high_watermark)
        slice_end = trio.current_time() + SLICE_SECONDS
        for batch in read_batches(records or b""):
            if self._next_in_memory() is not None:
                return  # it is applied from there, for its waiters
            self._apply_batch(batch)
            if self._is_stopped or trio.current_time() >= slice_end:
                return

    async def run(self) -> None:
        """Apply the records that must be read from the log. Runs until cancelled. Raises
        `StateMachineError`."""
        while True:
            self._wake = trio.Event()
            while self.applied_offset < self._high_watermark and not self._is_held:
                applied_before = self.applied_offset
                if self._next_in_memory() is None:
                    await self._apply_from_log()
                else:
                    self._apply_from_memory()
                if self.applied_offset == applied_before:
                    # The high watermark is inside a batch: wait for the rest of it.
                    break
                if self.applied_offset < self._high_watermark:
                    await trio.lowlevel.checkpoint()
            await self._wake.wait()

    async def _apply_from_log(self) -> None:
        offset = self.applied_offset
        try:
            data = await self._log.read(offset, _READ_BYTES, end_offset=self._high_watermark)
        except OffsetOutOfRangeError:
            if self._log.log_start_offset > offset:
                # A snapshot has taken the log's place, and takes the state's or has done so.
                return
            raise
        slices = Slices()
        for number, batch in enumerate(read_batches(data)):
            if number:
                await slices.pause()
            if self._is_held or self._next_in_memory() is not None:
                break  # it is applied from there, for its waiters
            # Otherwise it was applied from memory meanwhile.
            if batch.header.base_offset == self.applied_offset:
                self._apply_batch(batch)

    def _apply_batch(self, batch: Batch) -> None:
        header = batch.header
        base, end = Offset(header.base_offset), Offset(header.end_offset)
        if header.is_control:
            # Of voters alone: the epoch's leader is as it was.
            self.leader_change = leader_change_in(batch) or self.leader_change
            version = state_version_in(batch)
            if version is not None:
                self._set_state_version(version, base, Epoch(header.leader_epoch))
            self._advance_to(end, batch_bytes=header.size, timestamp_ms=header.max_timestamp)
            self._on_applied(base, (), end)
        else:
            committed = CommittedBatch(
                base_offset=base,
                epoch=Epoch(header.leader_epoch),
                timestamp_ms=header.max_timestamp,
                records=values_of(batch),
                state_version=self.state_version,
            )
            self._apply(committed, end=end, batch_bytes=header.size)

    def _set_state_version(self, version: int, offset: Offset, epoch: Epoch) -> None:
        if version > self._code_version:
            what = f"records from offset {offset} on"
            raise too_old(self._state_machine, what, version, offset=offset, epoch=epoch)
        self.state_version = max(version, self.state_version)
