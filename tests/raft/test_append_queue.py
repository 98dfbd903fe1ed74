"""Appends joined into batches, and applied in order, once."""

import itertools

import pytest
import trio

from quorate.log import Log, LogConfig
from quorate.log.batches.records import build_batch
from quorate.raft.quorum_errors import OutcomeUnknownError, QuorumStoppedError, StateMachineError
from quorate.raft.state_machine.append_queue import AppendQueue, QueuedAppend
from quorate.raft.state_machine.applier import Applier
from quorate.simulation.world.simulated_disk import SimulatedDisk


class Waiter:
    def __init__(self):
        self.ended = []

    def applied(self, base_offset, epoch, results, batch_end_offset):
        self.ended.append((base_offset, epoch, tuple(results)))

    def failed(self, error):
        self.ended.append(error)


def pending(*records):
    return QueuedAppend(records, sum(map(len, records)), Waiter())


def queue_of(max_batch_bytes=100, max_pending_bytes=1000):
    return AppendQueue(max_batch_bytes=max_batch_bytes, max_pending_bytes=max_pending_bytes)


def test_waiting_appends_are_joined_in_order_up_to_a_batch():
    queue = queue_of()
    for size in (40, 40, 40, 200, 10):
        queue.add(pending(bytes(size)))
    sizes = []
    while queue.has_waiting:
        number, proposal = queue.next_proposal()
        assert queue.take(number) is proposal
        sizes.append([append.size for append in proposal.appends])
    assert sizes == [[40, 40], [40], [200], [10]]


def test_each_append_of_a_group_gets_its_own_results():
    queue = queue_of()
    one, two = pending(b"a", b"b"), pending(b"c")
    queue.add(one)
    queue.add(two)
    number, proposal = queue.next_proposal()
    proposal.base_offset, proposal.epoch = 7, 3
    queue.in_log.append(queue.take(number))
    queue.resolve_first([10, 20, 30])
    assert one.waiter.ended == [(7, 3, (10, 20))]
    assert two.waiter.ended == [(9, 3, (30,))]
    assert queue._pending_bytes == 0


def test_an_append_fails_exactly_once_in_each_stage():
    queue = queue_of(max_batch_bytes=1)
    appends = [pending(b"x") for _ in range(3)]
    for append in appends:
        queue.add(append)
    queue.in_log.append(queue.take(queue.next_proposal()[0]))
    queue.next_proposal()
    error = QuorumStoppedError("over")
    queue.fail_all(error)
    queue.fail_all(error)
    in_log, *others = [append.waiter.ended for append in appends]
    assert others == [[error]] * 2
    assert [type(each) for each in in_log] == [OutcomeUnknownError]
    assert queue._pending_bytes == 0


class Machine:
    def __init__(self):
        self.applied = []

    def apply(self, batch):
        if b"bad" in batch.records:
            raise ValueError("bad record")
        self.applied.append((batch.base_offset, list(batch.records)))
        return [None] * len(batch.records)


class Rig:
    """A log, an applier, and a leader's queue."""

    def __init__(self, log):
        self.log = log
        self.machine = Machine()
        self.appends = queue_of(max_batch_bytes=1 << 20, max_pending_bytes=1 << 20)
        self.told = []
        self.applier = Applier(
            self.machine,
            log,
            self.appends,
            on_applied=lambda base, results, end: self.told.append((base, len(results), end)),
        )

    def append(self, *records, own=None):
        base = self.log.end_offset
        batch = build_batch(base_offset=base, epoch=1, timestamp_ms=5, values=list(records))
        self.log.append_own(batch, base_offset=base, end_offset=base + len(records), epoch=1)
        if own is not None:
            self.appends.add(own)
            number, proposal = self.appends.next_proposal()
            proposal.base_offset, proposal.end_offset, proposal.epoch = base, self.log.end_offset, 1
            self.appends.in_log.append(self.appends.take(number))


@pytest.fixture
async def rig():
    log = await Log.open(SimulatedDisk(), "log-0", LogConfig(), now_ms=lambda: 0)
    return Rig(log)


async def test_committed_records_in_memory_are_applied_without_a_checkpoint(rig):
    own = pending(b"a", b"b")
    rig.append(b"a", b"b", own=own)
    rig.applier.advance(2)
    rig.applier.catch_up()
    assert rig.machine.applied == [(0, [b"a", b"b"])]
    assert own.waiter.ended == [(0, 1, (None, None))]
    assert rig.told == [(0, 2, 2)]


async def test_nothing_above_the_high_watermark_is_applied(rig, nursery):
    nursery.start_soon(rig.applier.run)
    rig.append(b"a")
    rig.append(b"b")
    rig.append(b"c", own=pending(b"c"))
    rig.applier.advance(2)
    rig.applier.catch_up()
    await trio.testing.wait_all_tasks_blocked()
    assert rig.machine.applied == [(0, [b"a"]), (1, [b"b"])]


async def test_records_in_the_logs_memory_are_applied_without_a_checkpoint(rig):
    own = pending(b"b")
    rig.append(b"a")
    rig.append(b"b", own=own)
    rig.append(b"c")
    rig.applier.advance(2)
    assert rig.machine.applied == [], "a follower answers before it applies"
    rig.applier.catch_up()
    assert rig.machine.applied == [(0, [b"a"]), (1, [b"b"])]
    assert own.waiter.ended == [(1, 1, (None,))], "told from the proposals, though the log has it too"


async def test_memory_waits_for_what_has_to_be_read_first(rig, nursery):
    own = pending(b"b")
    rig.append(b"a")
    rig.append(b"b", own=own)
    rig.applier.advance(2)
    rig.applier.leave_to_task()
    assert rig.machine.applied == []
    nursery.start_soon(rig.applier.run)
    await trio.testing.wait_all_tasks_blocked()
    assert rig.machine.applied == [(0, [b"a"]), (1, [b"b"])]
    assert own.waiter.ended == [(1, 1, (None,))]


async def test_a_high_watermark_within_a_batch_waits_for_the_whole_and_does_not_spin(rig, nursery):
    nursery.start_soon(rig.applier.run)
    rig.append(b"a", b"b")
    rig.applier.advance(1)
    rig.applier.catch_up()
    await trio.testing.wait_all_tasks_blocked()
    assert rig.machine.applied == []
    rig.applier.advance(2)
    rig.applier.catch_up()
    await trio.testing.wait_all_tasks_blocked()
    assert rig.machine.applied == [(0, [b"a", b"b"])]


async def test_a_long_catch_up_lets_others_run(rig):
    clock = 0.0

    class Slow(Machine):
        def apply(self, batch):
            # A millisecond of work each.
            end = trio.current_time() + 0.001
            while trio.current_time() < end:
                pass
            return super().apply(batch)

    rig.applier._state_machine = rig.machine = Slow()
    for _ in range(100):
        rig.append(b"x")
    gaps = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.applier.run)
        rig.applier.advance(100)
        rig.applier.catch_up()
        clock = len(rig.machine.applied)
        assert 0 < clock <= 10, "the step that commits applies a slice"
        while len(rig.machine.applied) < 100:
            await trio.lowlevel.checkpoint()
            gaps.append(len(rig.machine.applied) - clock)
            clock = len(rig.machine.applied)
        nursery.cancel_scope.cancel()
    assert max(gaps) <= 10
    assert [base for base, _ in rig.machine.applied] == list(range(100))


async def test_an_error_of_apply_names_the_offset_and_leaves_later_appends_waiting(rig):
    own = pending(b"bad")
    rig.append(b"fine", own=pending(b"fine"))
    rig.append(b"bad", own=own)
    with pytest.raises(StateMachineError, match="ValueError") as raised:
        rig.applier.advance(2)
        rig.applier.catch_up()
    assert raised.value.offset == 1
    assert rig.applier.applied_offset == 1
    assert own.waiter.ended == []
    rig.appends.fail_all(QuorumStoppedError("stops"))
    assert len(own.waiter.ended) == 1


async def test_much_that_commits_at_once_is_applied_in_slices(rig, nursery):
    class Slow(Machine):
        def apply(self, batch):
            end = trio.current_time() + 0.001
            while trio.current_time() < end:
                pass
            return super().apply(batch)

    rig.applier._state_machine = rig.machine = Slow()
    owns = [pending(bytes([number])) for number in range(40)]
    for own in owns:
        rig.append(*own.records, own=own)
    rig.applier.advance(40)
    rig.applier.catch_up()
    in_the_step = len(rig.machine.applied)
    assert 0 < in_the_step < 20, "the step that commits applies a slice"
    slices = [in_the_step]
    nursery.start_soon(rig.applier.run)
    while rig.applier.applied_offset < 40:
        await trio.lowlevel.checkpoint()
        slices.append(len(rig.machine.applied))
    assert max(after - before for before, after in itertools.pairwise(slices)) < 20
    assert [base for base, _ in rig.machine.applied] == list(range(40)), "in order, and once"
    assert [own.waiter.ended for own in owns] == [[(number, 1, (None,))] for number in range(40)]


async def test_records_in_memory_are_preferred_to_records_read_from_the_log(rig, nursery):
    """Its waiters are told from memory: a batch that was applied from the log would leave them waiting."""
    rig.append(b"a")
    owns = [pending(b"b"), pending(b"c")]
    for own in owns:
        rig.append(*own.records, own=own)
    nursery.start_soon(rig.applier.run)
    rig.applier.advance(3)
    rig.applier.catch_up()
    await trio.testing.wait_all_tasks_blocked()
    assert [own.waiter.ended for own in owns] == [[(1, 1, (None,))], [(2, 1, (None,))]]
    assert [base for base, _ in rig.machine.applied] == [0, 1, 2]
