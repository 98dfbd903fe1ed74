"""Snapshots of this node's own state: when one is due, and how it gets to the disk (KIP-630).

A snapshot is taken between two batches, ends at the applied offset, and is written while further batches are
applied. It counts when it is durable, has its name, and the local log is durable up to its end.

Its digest is compared with that of other nodes' snapshots of the same id (`StateComparison`). So both
triggers stop the applier at a batch that the log alone determines, until the state is copied.
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import trio

from quorate.log import Log
from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.log.snapshots.snapshot_writer import SnapshotWriter
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.present import present
from quorate.raft.quorum_errors import SnapshotNotTakenError
from quorate.raft.snapshots.snapshot_slices import SnapshotSlices
from quorate.raft.state_machine.applier import Applier
from quorate.raft.state_machine.interface import StateMachine
from quorate.raft.state_machine.plain import Freezing
from quorate.runtime import get_logger, in_slices
from quorate.types import Epoch, Offset, SnapshotId, VoterSet

log = get_logger(__name__)

_RETRY_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTriggers:
    """The two triggers of the next snapshot: size and time."""

    max_new_bytes: int
    """The size of the log that was applied since the last snapshot."""
    max_interval_ms: int
    """The time since the last snapshot, if a record was applied meanwhile. By the timestamps of the batches
    there is also one in each interval of this length. 0: no limit."""


class SnapshotTaker:
    """Takes snapshots, and owns the position of the last one."""

    def __init__(
        self,
        state_machine: StateMachine[object],
        applier: Applier,
        source: Log,
        store: SnapshotStore,
        *,
        triggers: SnapshotTriggers,
        form: str | None,
        voters_at: Callable[[Offset], VoterSet | None],
        make_durable: Callable[[Offset], Awaitable[None]],
        taken: Callable[[SnapshotContents], None],
    ) -> None:
        """`form`: that of the state's digests. None: there are none. `voters_at`: returns the voter set in
        the log as of an end offset. None: it is static. `make_durable`: returns when the core knows that the
        log is durable below an offset. `taken`: gets each snapshot that is complete and durable."""
        self._state_machine = state_machine
        self._applier = applier
        self._log = source
        self._store = store
        self._triggers = triggers
        self._form = form
        self._voters_at = voters_at
        self._make_durable = make_durable
        self._taken = taken
        self._one_at_a_time = trio.Lock()
        self._last: SnapshotId | None = None
        self._last_bytes = 0
        """The applier's `applied_bytes` at its end."""
        self._last_at = trio.current_time()

    async def run(self) -> None:
        """Take a snapshot whenever one is due. Runs until cancelled."""
        while True:
            try:
                await self._wait_due()
                if self._one_at_a_time.locked():
                    self._applier.go_on()  # commits must not wait until the other one is written
                await self.take()
            except SnapshotNotTakenError as error:
                self._applier.go_on()
                log.error(
                    "no snapshot was taken; the log grows on until one is",
                    problem=str(error),
                    again_in_seconds=_RETRY_SECONDS,
                )
                await trio.sleep(_RETRY_SECONDS)
            finally:
                self._applier.go_on()

    def replace_state(self, snapshot: SnapshotId) -> None:
        """Note that the state was loaded from `snapshot`. A snapshot of an older state is abandoned."""
        self._note_snapshot(snapshot, self._applier.applied_bytes)

    async def take(self) -> SnapshotId:
        """Return the id of a snapshot of all that is applied now: a new one, unless the last one has it. It
        is durable.

        If cancelled, it may exist or not. Raises `SnapshotNotTakenError`: it does not.
        """
        wanted = self._applier.applied_offset
        if wanted == 0:
            raise SnapshotNotTakenError("nothing was applied yet that a snapshot could hold; append first")
        async with self._one_at_a_time:
            if self._last is None or self._last.end_offset < wanted:
                try:
                    await self._take_snapshot()
                except Exception as error:
                    raise SnapshotNotTakenError(
                        f"taking a snapshot that ends at offset {wanted} or above failed with "
                        f"{type(error).__name__}: {error}"
                    ) from error
            return present(self._last, "the snapshot that was taken")

    async def _take_snapshot(self) -> None:
        applier = self._applier
        started = trio.current_time()
        with applier.held():
            end, applied_bytes = applier.applied_offset, applier.applied_bytes
            last_timestamp_ms, leader_change = applier.last_timestamp_ms, applier.leader_change
            state_version = applier.state_version
            snapshot = SnapshotId(end, self._epoch_below(end))
            chunks = await self._state_chunks()
        try:
            writer = self._store.write(
                snapshot,
                last_timestamp_ms=last_timestamp_ms,
                leader_change=leader_change,
                voters=self._voters_at(end),
                form=self._form,
                state_version=state_version,
            )
            try:
                contents = await self._write_chunks(writer, chunks)
            finally:
                writer.abandon()
        finally:
            _close_iterator(chunks)
        if contents is None:
            return
        self._note_snapshot(snapshot, applied_bytes)
        log.info(
            "took a snapshot",
            end_offset=snapshot.end_offset,
            epoch=snapshot.epoch,
            size_bytes=contents.size_bytes,
            seconds=round(trio.current_time() - started, 3),
        )
        self._taken(contents)

    async def _state_chunks(self) -> Iterator[bytes]:
        """Return the chunks of the applied state, which stands still meanwhile."""
        if not isinstance(self._state_machine, Freezing):
            return iter(self._state_machine.take_snapshot())
        # To copy a million values takes longer than the event loop may be held, and shorter than commits may
        # wait.
        return await in_slices(self._state_machine.freeze())

    async def _write_chunks(self, writer: SnapshotWriter, chunks: Iterator[bytes]) -> SnapshotContents | None:
        """Write the chunks and complete the snapshot. None: a later snapshot arrived meanwhile."""
        end = writer.snapshot.end_offset
        slices = SnapshotSlices(rests=True)
        for chunk in chunks:
            writer.append(chunk)
            await slices.pause(len(chunk))
            await writer.keep_up()
            if self._is_held(end):
                return None
        # The records are applied, and so committed, but maybe not yet durable on this node.
        await self._make_durable(end)
        if self._is_held(end):
            return None
        contents = await writer.freeze()
        return None if self._is_held(end) else contents

    def _is_held(self, end: Offset) -> bool:
        return self._last is not None and self._last.end_offset >= end

    def _epoch_below(self, end: Offset) -> Epoch:
        epoch = self._log.epoch_at(end - 1)
        return self._log.log_start_epoch if epoch is None else epoch

    def _note_snapshot(self, snapshot: SnapshotId, applied_bytes: int) -> None:
        self._last, self._last_bytes, self._last_at = snapshot, applied_bytes, trio.current_time()

    async def _wait_due(self) -> None:
        """Return when a snapshot is due. The applier may be stopped then, at the batch that made it due."""
        triggers, applier = self._triggers, self._applier
        interval = triggers.max_interval_ms / 1000 or math.inf
        begins_interval = False
        while True:
            # A snapshot may have been requested, or loaded, during the wait.
            new_bytes = applier.applied_bytes - self._last_bytes
            is_old = trio.current_time() >= self._last_at + interval
            if new_bytes >= triggers.max_new_bytes or (new_bytes and (is_old or begins_interval)):
                return
            applier.go_on()
            begins_interval = False
            wanted = self._last_bytes + (1 if is_old else triggers.max_new_bytes)
            with trio.move_on_at(math.inf if is_old else self._last_at + interval):
                begins_interval = await applier.stop_at(wanted)


def _close_iterator(chunks: Iterator[bytes]) -> None:
    """Let a generator that is dropped halfway clean up now, not when it is collected."""
    close = getattr(chunks, "close", None)
    if close is not None:
        close()
