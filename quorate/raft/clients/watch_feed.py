"""The leader's answers to the watches of clients: the records that the state machine applied, in log order.

A watch asks again and again, each time for what follows its last answer, so a slow one waits for itself. What
is near the end of the log comes from memory, and is read and encoded once for all watches that ask for it.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import trio

from quorate.log import Log, OffsetOutOfRangeError
from quorate.log.batches.batch import Batch, read_batches
from quorate.log.batches.records import values_of
from quorate.quorum_state import SkippedBatch
from quorate.raft.clients.client_messages import WatchedRun, encode_gone, encode_runs
from quorate.raft.sessions.sessions import Sessions
from quorate.raft.state_machine.interface import CommittedBatch, StateMachine
from quorate.types import Epoch, Offset

_MAX_BYTES: Final = 256 * 1024
"""The size of an answer, and of the part of the log that is read for it. A single record may be larger."""
_RECORD_OVERHEAD_BYTES: Final = 48
"""The most bytes that a record has in an answer beside itself."""
_ANSWERS_MAX: Final = 8
"""The number of answers to keep for other watches at the same offset."""
_COLD_READS_MAX: Final = 4
"""The number of answers that are read from the disk at once."""


class Watchable(Protocol):
    """The quorum's node, as far as watches use it."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def applied_offset(self) -> Offset: ...

    @property
    def log(self) -> Log: ...


class WatchFeed:
    """Owns the answers that several watches share."""

    def __init__(
        self,
        node: Watchable,
        state_machine: StateMachine[object],
        *,
        max_batch_bytes: int,
        skipped: tuple[SkippedBatch, ...],
        wait_progress: Callable[[], Awaitable[None]],
    ) -> None:
        """`max_batch_bytes`: the size of the largest record, which an answer must have room for. `skipped`:
        the batches that this node does not apply. `wait_progress`: returns when the node has applied more,
        or does not lead any more."""
        self._max_bytes = min(_MAX_BYTES, max_batch_bytes)
        self._node = node
        self._sessions = state_machine if isinstance(state_machine, Sessions) else None
        self._skipped = frozenset(skipped)
        self._wait_progress = wait_progress
        self._shared: dict[Offset, bytes] = {}
        """Answers by the offset that was asked for, all of them up to `_shared_end`."""
        self._shared_end = Offset(0)
        self._cold_reads = trio.CapacityLimiter(_COLD_READS_MAX)

    async def answer(self, from_offset: Offset | None, *, wait_ms: int) -> bytes:
        """Return the applied records from `from_offset` on, encoded, as soon as there are any, or none after
        `wait_ms`. None: no records, and the offset from which on the next ones will be applied. Raises
        `QuorumStoppedError`."""
        node = self._node
        if from_offset is None:
            return encode_runs(node.applied_offset, ())
        if from_offset >= self._earliest:
            with trio.move_on_after(wait_ms / 1000):
                while node.applied_offset <= from_offset and node.is_leader:
                    await self._wait_progress()
            if node.applied_offset <= from_offset:
                return encode_runs(from_offset, ())
        return await self._read(from_offset)

    @property
    def _earliest(self) -> Offset:
        """The first offset from which on all records are here, and known to be applied or not."""
        start = self._node.log.log_start_offset
        return start if self._sessions is None else max(start, self._sessions.applied_since)

    async def _read(self, from_offset: Offset) -> bytes:
        node, log = self._node, self._node.log
        end_offset = node.applied_offset
        if self._shared_end != end_offset:
            self._shared.clear()
            self._shared_end = end_offset
        answer = self._shared.get(from_offset)
        if answer is not None:
            return answer
        records: bytes | None = b""
        is_shared = True
        if from_offset >= self._earliest:
            records = log.read_tail(from_offset, self._max_bytes, end_offset=end_offset)
        if records is None:
            is_shared = False
            try:
                async with self._cold_reads:
                    records = await log.read(from_offset, self._max_bytes, end_offset=end_offset)
            except OffsetOutOfRangeError:
                records = b""
        # Later than the read, during which a snapshot may have taken the place of the records.
        if from_offset < self._earliest:
            return encode_gone(self._earliest)
        answer = self._encode(from_offset, records)
        if is_shared and len(self._shared) < _ANSWERS_MAX:
            self._shared[from_offset] = answer
        return answer

    def _encode(self, from_offset: Offset, records: bytes) -> bytes:
        """Encode the records of whole batches that were applied, from an offset in the first one on."""
        runs: list[WatchedRun] = []
        size, next_offset = 0, from_offset
        for batch in read_batches(records):
            header = batch.header
            next_offset = Offset(header.end_offset)
            run = WatchedRun(Epoch(header.leader_epoch), header.max_timestamp, [])
            for offset, record in self._applied_records(batch):
                if offset < from_offset:
                    continue
                size += len(record) + _RECORD_OVERHEAD_BYTES
                if size > self._max_bytes and (runs or run.records):
                    return encode_runs(offset, [*runs, run])
                run.records.append((offset, record))
            if run.records:
                runs.append(run)
        return encode_runs(next_offset, runs)

    def _applied_records(self, batch: Batch) -> list[tuple[Offset, bytes]]:
        header = batch.header
        base_offset, epoch = Offset(header.base_offset), Epoch(header.leader_epoch)
        if header.is_control or SkippedBatch(base_offset, epoch) in self._skipped:
            return []
        committed = CommittedBatch(
            base_offset=base_offset,
            epoch=epoch,
            timestamp_ms=header.max_timestamp,
            records=values_of(batch),
        )
        if self._sessions is not None:
            return self._sessions.applied_records(committed)
        return [(Offset(offset), record) for offset, record in enumerate(committed.records, base_offset)]
