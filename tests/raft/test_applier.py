"""How committed records get to the state machine: once, in order, from memory or from the log."""

from collections.abc import Sequence
from typing import cast

import trio
import trio.testing

from quorate.log import Log
from quorate.log.batches.records import build_batch
from quorate.raft.state_machine.append_queue import AppendQueue, Proposal, QueuedAppend
from quorate.raft.state_machine.applier import Applier
from quorate.raft.state_machine.interface import CommittedBatch, StateMachine
from quorate.types import Epoch, Offset


class Kept:
    """A state machine that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def apply(self, batch: CommittedBatch) -> Sequence[object]:
        self.records += batch.records
        return [None] * len(batch.records)


class SlowLog:
    """A log of one-record batches whose reads wait."""

    log_start_offset = Offset(0)

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values = values
        self.asked = trio.Event()
        self.answer = trio.Event()

    async def read(self, offset: int, max_bytes: int, *, end_offset: int) -> bytes:
        self.asked.set()
        await self.answer.wait()
        return b"".join(
            build_batch(base_offset=each, epoch=1, timestamp_ms=0, values=[self._values[each]])
            for each in range(offset, end_offset)
        )


class Nobody:
    def applied(
        self, base_offset: Offset, epoch: Epoch, results: Sequence[object], batch_end_offset: Offset
    ) -> None:
        pass

    def failed(self, error: Exception) -> None:
        raise error


async def test_records_applied_from_memory_during_a_log_read_are_not_applied_again() -> None:
    values = [b"first", b"second"]
    kept, log, appends = Kept(), SlowLog(values), AppendQueue(max_batch_bytes=1000, max_pending_bytes=1000)
    applier = Applier(cast(StateMachine[object], kept), cast(Log, log), appends, on_applied=lambda *_: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(applier.run)
        applier.advance(Offset(2))
        applier.leave_to_task()
        await log.asked.wait()
        appends.in_log.append(
            Proposal(
                appends=[QueuedAppend([values[0]], 5, Nobody())],
                count=1,
                end_offset=Offset(1),
                epoch=Epoch(1),
            )
        )
        applier.advance(Offset(2))
        assert kept.records == values[:1], "it was in memory"
        log.answer.set()
        await trio.testing.wait_all_tasks_blocked()
        assert kept.records == values
        nursery.cancel_scope.cancel()
