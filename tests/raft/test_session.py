"""The client's side of a session: it repeats until the outcome is known, and never doubles an append."""

from collections.abc import Sequence

import pytest
import trio
import trio.lowlevel
import trio.testing

from quorate.raft import (
    Appended,
    CommittedBatch,
    InvalidAppendError,
    InvalidArgumentError,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumBusyError,
    QuorumConfigError,
    QuorumStoppedError,
    Session,
    SessionLimits,
    SessionLostError,
    Sessions,
    SessionWindowError,
)
from quorate.raft.sessions.session_records import SessionAppend, split_parts
from quorate.types import Epoch, Offset


class Journal:
    """Keeps every record; its result is the record's length."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def apply(self, batch: CommittedBatch) -> Sequence[object]:
        self.records.extend(batch.records)
        return [len(record) for record in batch.records]

    def take_snapshot(self):
        return iter(list(self.records))

    def load_snapshot(self, snapshot):
        return JournalLoader(self)


class JournalLoader:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.records: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        self.records.append(chunk)

    def install(self) -> None:
        self.journal.records = self.records


class Sessioned(Sessions):
    """A journal with sessions. `records` are the journal's."""

    def __init__(self) -> None:
        self.journal = Journal()
        super().__init__(self.journal)

    @property
    def records(self) -> list[bytes]:
        return self.journal.records


class Replica:
    """An appender to one replica, whose answers are lost on request. `lost`: what is raised in place of each
    of the next answers, after the append was applied; `refused`: before."""

    def __init__(self) -> None:
        self.machine = Sessioned()
        self.end = 0
        self.lost: list[Exception] = []
        self.refused: list[Exception] = []
        self.headers: list[SessionAppend] = []
        self.gate: trio.Event | None = None

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        self.headers += [
            part.command for part in split_parts(records) if isinstance(part.command, SessionAppend)
        ]
        if self.refused:
            raise self.refused.pop(0)
        if self.gate is not None:
            with trio.move_on_after(timeout_ms / 1000) as waiting:
                await self.gate.wait()
            if waiting.cancelled_caught:
                raise OutcomeUnknownError("no answer in time")
        await trio.lowlevel.checkpoint()
        batch = CommittedBatch(
            base_offset=Offset(self.end), epoch=Epoch(1), timestamp_ms=1, records=tuple(records)
        )
        results = self.machine.apply(batch)
        self.end += len(records)
        if self.lost:
            raise self.lost.pop(0)
        return Appended(batch.base_offset, Epoch(1), tuple(results))


UNKNOWN = OutcomeUnknownError("the answer is lost")


@pytest.mark.bug("etcd issue 5130")
async def test_an_append_whose_answer_is_lost_is_repeated_and_applied_once(autojump_clock):
    replica = Replica()
    async with Session.open(replica) as session:
        replica.lost = [UNKNOWN, UNKNOWN]
        appended = await session.append([b"one", b"three"])
        assert appended.results == (3, 5)
        assert appended.base_offset == session.id + 2, "where it was applied, not where it was repeated"
        assert replica.machine.records == [b"one", b"three"]
        assert len(replica.headers) == 3


async def test_a_session_is_closed_at_the_end_of_its_block(autojump_clock):
    replica = Replica()
    async with Session.open(replica):
        assert replica.machine.open_sessions == 1
    assert replica.machine.open_sessions == 0


async def test_a_lost_answer_to_the_opening_leaves_a_second_session_that_harms_nobody(autojump_clock):
    replica = Replica()
    replica.lost = [UNKNOWN]
    async with Session.open(replica) as session:
        assert replica.machine.open_sessions == 2
        assert (await session.append([b"one"])).results == (3,)


@pytest.mark.bug("kazoo issue 687")
async def test_repetitions_end_at_the_timeout(autojump_clock):
    replica = Replica()
    async with Session.open(replica) as session:
        replica.gate = trio.Event()
        began = trio.current_time()
        with pytest.raises(OutcomeUnknownError):
            await session.append([b"one"], timeout_ms=3000)
        assert trio.current_time() - began == pytest.approx(3, abs=0.1)


@pytest.mark.bug("Copycat PR 100")
async def test_an_append_in_doubt_of_a_lost_session_is_unknown_and_not_carried_over(autojump_clock):
    replica = Replica()
    async with Session.open(replica) as session:
        replica.machine._table.close(session.id)
        with pytest.raises(SessionLostError, match="does not know session 0"):
            await session.append([b"one"])
        replica.lost = [UNKNOWN]
        with pytest.raises(OutcomeUnknownError, match="an earlier attempt"):
            await session.append([b"one"])
    assert replica.machine.records == []


@pytest.mark.parametrize(
    "error",
    [
        NotLeaderError(leader=None, epoch=Epoch(1)),
        InvalidAppendError("refused"),
        QuorumStoppedError("stopped"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_without_effect_passes_unless_an_attempt_is_in_doubt(autojump_clock, error):
    replica = Replica()
    async with Session.open(replica) as session:
        replica.refused = [error]
        with pytest.raises(type(error)):
            await session.append([b"one"])
        replica.refused = [UNKNOWN, error]
        with pytest.raises(OutcomeUnknownError, match="the repetition failed"):
            await session.append([b"one"])


async def test_appends_under_way_at_once_are_as_many_as_the_window(autojump_clock):
    replica = Replica()
    async with (
        Session.open(replica, limits=SessionLimits(window=2)) as session,
        trio.open_nursery() as nursery,
    ):
        replica.gate = trio.Event()
        for _ in range(5):
            nursery.start_soon(session.append, [b"one"])
        await trio.testing.wait_all_tasks_blocked()
        assert [(each.sequence, each.first_open) for each in replica.headers] == [(0, 0), (1, 0)]
        with pytest.raises(QuorumBusyError, match="2 appends of this session, as many as its"):
            await session.append([b"one"], timeout_ms=100)
        replica.gate.set()
    assert len(replica.machine.records) == 5
    assert all(each.sequence - each.first_open < 2 for each in replica.headers)


async def test_an_append_that_was_given_up_does_not_block_the_window(autojump_clock):
    replica = Replica()
    async with Session.open(replica, limits=SessionLimits(window=1)) as session:
        replica.gate = trio.Event()
        for _ in range(3):
            with trio.move_on_after(0.1):
                await session.append([b"gone"])
        replica.gate.set()
        assert (await session.append([b"one"])).results == (3,)
        assert replica.headers[-1].first_open == 3, "nothing below is repeated, so nothing is kept for it"


async def test_results_that_are_not_kept_are_given_once_and_then_unknown(autojump_clock):
    replica = Replica()
    marker = object()
    replica.machine.journal.apply = lambda batch: [marker for _ in batch.records]
    async with Session.open(replica) as session:
        assert (await session.append([b"one"])).results == (marker,)
        replica.lost = [UNKNOWN]
        with pytest.raises(OutcomeUnknownError, match="was applied at offset 4"):
            await session.append([b"one"])


@pytest.mark.bug("Ratis PR 904")
async def test_a_timeout_longer_than_the_sessions_memory_is_refused(autojump_clock):
    replica = Replica()
    async with Session.open(replica, limits=SessionLimits(idle_ms=5000)) as session:
        with pytest.raises(InvalidArgumentError, match="timeout_ms is 5001, above the session's idle_ms"):
            await session.append([b"one"], timeout_ms=5001)


async def test_an_empty_append_is_refused_and_uses_no_number(autojump_clock):
    replica = Replica()
    async with Session.open(replica) as session:
        with pytest.raises(InvalidAppendError, match="at least one record"):
            await session.append([])
        await session.append([b"one"])
    assert [each.sequence for each in replica.headers] == [0]


async def test_two_clients_with_one_session_get_an_error(autojump_clock):
    replica = Replica()
    async with Session.open(replica) as session:
        other: Session[int] = Session(session.id, replica, SessionLimits())
        for _ in range(3):
            await session.append([b"one"])
        with pytest.raises(SessionWindowError, match="no two clients may use one session"):
            await other.append([b"two"])
    assert replica.machine.records == [b"one"] * 3


async def test_a_quorum_without_sessions_says_so(autojump_clock, world):
    quorum = await world.start_one()
    with pytest.raises(QuorumConfigError, match="Sessions"):
        async with Session.open(quorum):
            raise AssertionError("it was opened")


@pytest.mark.bug("Ratis PR 1339")
async def test_a_session_goes_on_through_any_node_after_the_leader_died(autojump_clock, world):
    await world.start(1, 2, 3, journal=Sessioned)
    leader = await world.leader()
    follower = (await world.followers())[0]
    async with Session.open(follower) as session:
        await session.append([b"one"])
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(session.append, [b"two"])
            await trio.lowlevel.checkpoint()
            await world.crash(leader.node_id)
    await world.start(leader.node_id, journal=Sessioned)
    machines = world.journals
    await world.until(lambda: all(len(each.records) == 21 for each in machines.values()))
    assert len({tuple(machine.take_snapshot()) for machine in machines.values()}) == 1


async def test_a_repetition_after_a_restart_from_a_snapshot_is_answered(autojump_clock, world):
    quorum = await world.start_one(journal=Sessioned)
    async with Session.open(quorum) as session:
        first = await session.append([b"one"])
        await quorum.take_snapshot()
        await world.crash(1)
        await world.start(1, journal=Sessioned)
        again: Session[int] = Session(session.id, await world.leader(), SessionLimits())
        assert await again.append([b"one"]) == first
        assert world.journals[1].records == [b"one"]
