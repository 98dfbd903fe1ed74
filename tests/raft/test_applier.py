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

    def __init__(self, values: Sequence[bytes], timestamps_ms: Sequence[int] | None = None) -> None:
        self._values = values
        self._timestamps_ms = timestamps_ms or [0] * len(values)
        self.asked = trio.Event()
        self.answer = trio.Event()

    async def read(self, offset: int, max_bytes: int, *, end_offset: int) -> bytes:
        self.asked.set()
        await self.answer.wait()
        return b"".join(
            build_batch(
                base_offset=each,
                epoch=1,
                timestamp_ms=self._timestamps_ms[each],
                values=[self._values[each]],
            )
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


async def stops_of(applier: Applier, count: int, stops: list[tuple[int, bool]]) -> None:
    """Stop again and again, and note where, and whether it was at the beginning of an interval."""
    while True:
        begins_interval = await applier.stop_at(applier.applied_bytes + count)
        stops.append((applier.applied_offset, begins_interval))
        await trio.testing.wait_all_tasks_blocked()
        applier.go_on()


async def test_a_stop_is_behind_the_batch_that_reaches_it_though_more_are_committed() -> None:
    values = [b"%d" % number for number in range(10)]
    kept, log, appends = Kept(), SlowLog(values), AppendQueue(max_batch_bytes=1000, max_pending_bytes=1000)
    log.answer.set()
    applier = Applier(cast(StateMachine[object], kept), cast(Log, log), appends, on_applied=lambda *_: None)
    size = len(build_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[values[0]]))
    stops: list[tuple[int, bool]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(applier.run)
        nursery.start_soon(stops_of, applier, 3 * size - 1, stops)
        await trio.testing.wait_all_tasks_blocked()
        applier.advance(Offset(10))
        applier.leave_to_task()
        for _ in range(20):
            await trio.testing.wait_all_tasks_blocked()
        assert stops == [(3, False), (6, False), (9, False)]
        assert kept.records == values, "they are applied when it goes on"
        nursery.cancel_scope.cancel()


async def test_an_interval_begins_with_the_batch_whose_timestamp_is_in_another_one() -> None:
    """Whatever a new leader's clock says. The first batch begins none: nobody knows what was before."""
    timestamps = [1500, 1600, 2000, 2999, 7000, 6999, 7000, 7001]
    log = SlowLog([b"x"] * len(timestamps), timestamps)
    log.answer.set()
    applier = Applier(
        cast(StateMachine[object], Kept()),
        cast(Log, log),
        AppendQueue(max_batch_bytes=1000, max_pending_bytes=1000),
        on_applied=lambda *_: None,
        interval_ms=1000,
    )
    stops: list[tuple[int, bool]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(applier.run)
        nursery.start_soon(stops_of, applier, 10**9, stops)
        await trio.testing.wait_all_tasks_blocked()
        applier.advance(Offset(len(timestamps)))
        applier.leave_to_task()
        for _ in range(30):
            await trio.testing.wait_all_tasks_blocked()
        assert stops == [(3, True), (5, True), (6, True), (7, True)]
        assert applier.applied_offset == len(timestamps)
        nursery.cancel_scope.cancel()


async def test_a_stop_and_a_freeze_end_each_on_its_own() -> None:
    """A caller that takes back its stop must not let the state move under another one's snapshot."""
    log = SlowLog([b"x"] * 4)
    log.answer.set()
    kept = Kept()
    applier = Applier(
        cast(StateMachine[object], kept),
        cast(Log, log),
        AppendQueue(max_batch_bytes=1000, max_pending_bytes=1000),
        on_applied=lambda *_: None,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(applier.run)
        nursery.start_soon(applier.stop_at, 1)
        await trio.testing.wait_all_tasks_blocked()
        applier.advance(Offset(4))
        applier.leave_to_task()
        await trio.testing.wait_all_tasks_blocked()
        assert applier.applied_offset == 1
        with applier.held():
            applier.go_on()
            await trio.testing.wait_all_tasks_blocked()
            assert applier.applied_offset == 1
        await trio.testing.wait_all_tasks_blocked()
        assert applier.applied_offset == 4
        nursery.cancel_scope.cancel()
