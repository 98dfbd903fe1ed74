"""The state machine of sessions: each append once, on every replica alike, from the log alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.raft import (
    CommittedBatch,
    InvalidAppendError,
    InvalidArgumentError,
    QuorumConfigError,
    SessionLimits,
    Sessions,
    SnapshotId,
)
from quorate.raft.sessions.session_records import (
    CloseSession,
    Command,
    OpenSession,
    SessionAppend,
    SessionId,
    encode_command,
)
from quorate.raft.sessions.session_table import SessionAnswer, SessionOpened, Verdict, decode_results
from quorate.raft.state_machine.plain import with_snapshots
from quorate.raft.state_machine.record_check import record_check
from quorate.types import Epoch, Offset

LIMITS = SessionLimits(sessions_max=3, window=4, idle_ms=1000)


@dataclass
class PlainSums:
    """Adds up numbers. The result is the sum after each; `object` gives a result that can't be kept."""

    total: int = 0
    offsets: list[int] = field(default_factory=list)

    def check(self, records: Sequence[bytes]) -> None:
        for record in records:
            if record == b"bad":
                raise ValueError("no number")

    def apply(self, batch: CommittedBatch) -> list[object]:
        results: list[object] = []
        for offset, record in enumerate(batch.records, batch.base_offset):
            self.offsets.append(offset)
            if record == b"object":
                results.append(self)
            elif record == b"long":
                results.append("x" * 20_000)
            else:
                self.total += int(record)
                results.append(self.total)
        return results


class Sums(PlainSums):
    """With a loader of its own."""

    def take_snapshot(self) -> Iterator[bytes]:
        return iter([b"%d" % self.total, repr(self.offsets).encode()])

    def load_snapshot(self, snapshot: SnapshotId) -> "SumsLoader":
        return SumsLoader(self)


class SumsLoader:
    def __init__(self, sums: Sums) -> None:
        self.sums, self.chunks = sums, []

    def add(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    def install(self) -> None:
        self.sums.total, self.sums.offsets = (eval(chunk) for chunk in self.chunks)


class Replica:
    """A replica with sessions, and the end of its log."""

    def __init__(self, sums: PlainSums | None = None) -> None:
        self.sums = Sums() if sums is None else sums
        self.machine = Sessions(self.sums)
        self.end = 0
        self.now_ms = 1_000_000

    def apply(self, *records: bytes, after_ms: int = 0) -> Sequence[object]:
        """Apply one batch; the results."""
        self.now_ms += after_ms
        batch = CommittedBatch(
            base_offset=Offset(self.end), epoch=Epoch(7), timestamp_ms=self.now_ms, records=records
        )
        results = self.machine.apply(batch)
        assert len(results) == len(records)
        self.end += len(records)
        return results

    def open(self, limits: SessionLimits = LIMITS, *, after_ms: int = 0) -> int:
        """Open a session; its id."""
        self.apply(encode_command(OpenSession(limits)), after_ms=after_ms)
        return self.end - 1

    def add(
        self, session: int, sequence: int, *records: bytes, first_open: int = 0, after_ms: int = 0
    ) -> SessionAnswer:
        results = self.apply(header(session, sequence, len(records), first_open), *records, after_ms=after_ms)
        answer = results[0]
        assert isinstance(answer, SessionAnswer)
        return answer

    def verdict(self, *args: int | bytes, **kwargs: int) -> Verdict:
        return self.add(*args, **kwargs).verdict

    @property
    def state(self) -> list[bytes]:
        return list(self.machine.take_snapshot())

    def copy(self) -> "Replica":
        """Another replica, from a snapshot of this one."""
        other = Replica(type(self.sums)())
        loader = other.machine.load_snapshot(SnapshotId(Offset(self.end), Epoch(7)))
        for chunk in self.state:
            loader.add(chunk)
        loader.install()
        other.end, other.now_ms = self.end, self.now_ms
        return other


def header(session: int, sequence: int, count: int = 1, first_open: int = 0) -> bytes:
    return encode_command(
        SessionAppend(session=SessionId(session), sequence=sequence, first_open=first_open, count=count)
    )


def results_of(answer: SessionAnswer) -> tuple[object, ...]:
    assert answer.kept is not None and answer.kept.results is not None, answer
    return decode_results(answer.kept.results)


@pytest.fixture(params=[Sums, PlainSums])
def replica(request: pytest.FixtureRequest) -> Replica:
    return Replica(request.param())


# Once


@pytest.mark.bug("jetcd issue 1444")
def test_a_repeated_append_is_answered_as_the_first_time_and_not_applied(replica: Replica) -> None:
    session = replica.open()
    first = replica.add(session, 0, b"5", b"7")
    assert results_of(first) == (5, 12)
    assert replica.add(session, 0, b"5", b"7") == first
    assert replica.sums.total == 12
    assert first.kept is not None
    assert first.kept.base_offset == session + 2, "the offset of the first record behind the command"
    assert replica.sums.offsets == [session + 2, session + 3]


def test_a_repetition_in_the_same_batch_is_not_applied(replica: Replica) -> None:
    session = replica.open()
    append = [header(session, 0), b"5"]
    results = replica.apply(*append, *append, b"1")
    assert replica.sums.total == 6
    assert results[0] == results[2] and results[1] == 5 and results[3] is None and results[4] == 6


def test_the_same_number_of_another_session_is_another_append(replica: Replica) -> None:
    one, two = replica.open(), replica.open()
    assert results_of(replica.add(one, 0, b"5")) == (5,)
    assert results_of(replica.add(two, 0, b"7")) == (12,)
    assert results_of(replica.add(one, 0, b"5")) == (5,)


def test_appends_without_a_session_pass_as_they_are(replica: Replica) -> None:
    assert replica.apply(b"5", b"5") == [5, 10]
    assert replica.machine.open_sessions == 0


@pytest.mark.bug("Copycat issue 261")
def test_an_append_that_arrives_late_is_applied_once_and_holds_nothing_up(replica: Replica) -> None:
    session = replica.open()
    replica.add(session, 1, b"1")
    assert results_of(replica.add(session, 0, b"2")) == (3,)
    assert results_of(replica.add(session, 0, b"2")) == (3,)


# The window


def test_an_append_below_the_window_is_refused_and_not_applied(replica: Replica) -> None:
    session = replica.open()
    replica.add(session, 0, b"5")
    replica.add(session, 1, b"5", first_open=1)
    assert replica.verdict(session, 0, b"5") is Verdict.FORGOTTEN
    assert replica.sums.total == 10


def test_the_answer_of_the_least_open_append_is_kept(replica: Replica) -> None:
    session = replica.open()
    replica.add(session, 0, b"5")
    replica.add(session, 1, b"5", first_open=0)
    assert results_of(replica.add(session, 0, b"5")) == (5,)
    replica.add(session, 2, b"5", first_open=1)
    assert results_of(replica.add(session, 1, b"5")) == (10,)


def test_an_append_above_the_window_is_refused_and_not_applied(replica: Replica) -> None:
    session = replica.open()
    assert replica.verdict(session, LIMITS.window - 1, b"5") is Verdict.APPLIED
    assert replica.verdict(session, LIMITS.window, b"5") is Verdict.AHEAD
    assert replica.sums.total == 5
    assert replica.verdict(session, LIMITS.window, b"5", first_open=1) is Verdict.APPLIED


def test_a_session_keeps_its_window_when_another_is_opened_with_a_smaller_one(replica: Replica) -> None:
    session = replica.open()
    replica.open(replace(LIMITS, window=1))
    assert replica.copy().verdict(session, LIMITS.window - 1, b"5") is Verdict.APPLIED
    assert replica.verdict(session, LIMITS.window - 1, b"5") is Verdict.APPLIED
    assert replica.verdict(session, LIMITS.window, b"5") is Verdict.AHEAD


# The end of a session


def test_a_session_ends_when_the_log_was_idle_for_it(replica: Replica) -> None:
    idle, busy = replica.open(), replica.open()
    for _ in range(10):
        replica.add(busy, 0, b"5", after_ms=100)
    assert replica.machine.open_sessions == 2, "idle for as long as it may"
    assert replica.verdict(busy, 0, b"5", after_ms=1) is Verdict.APPLIED
    assert replica.verdict(idle, 0, b"5") is Verdict.LOST
    assert replica.sums.total == 5


def test_the_append_of_a_session_that_its_own_batch_ends_is_not_applied(replica: Replica) -> None:
    session = replica.open()
    for _ in range(10):
        replica.apply(b"1", after_ms=100)
    assert replica.verdict(session, 0, b"5", after_ms=100) is Verdict.LOST


@pytest.mark.bug("Copycat issue 70")
@pytest.mark.parametrize("gap_ms", [3 * LIMITS.idle_ms, -10 * LIMITS.idle_ms], ids=["later", "earlier"])
def test_no_leader_for_long_or_a_clock_that_jumps_ends_no_session(replica: Replica, gap_ms: int) -> None:
    session = replica.open()
    replica.add(session, 0, b"5")
    assert replica.verdict(session, 0, b"5", after_ms=gap_ms) is Verdict.APPLIED
    assert replica.verdict(session, 0, b"5", after_ms=-gap_ms) is Verdict.APPLIED
    assert replica.sums.total == 5


def test_too_many_sessions_end_the_one_that_was_used_longest_ago(replica: Replica) -> None:
    one, two, three = replica.open(), replica.open(), replica.open()
    replica.add(one, 0, b"1")
    four = replica.open()
    assert replica.verdict(two, 0, b"1") is Verdict.LOST
    assert all(replica.verdict(each, 0, b"1") is Verdict.APPLIED for each in (one, three, four))


def test_too_many_kept_bytes_end_the_session_that_was_used_longest_ago(replica: Replica) -> None:
    class Long(Sums):
        def apply(self, batch: CommittedBatch) -> list[object]:
            return ["x" * 10_000 for _ in batch.records]

    replica.machine = Sessions(Long())
    limits = replace(LIMITS, kept_max_bytes=64 * 1024)
    one, two = replica.open(limits), replica.open(limits)
    for sequence in range(3):
        replica.add(one, sequence, b"")
        replica.add(two, sequence, b"")
    assert replica.machine.open_sessions == 2, "six answers of 10 kB"
    replica.add(two, 3, b"")
    assert replica.verdict(one, 0, b"") is Verdict.LOST
    replica.add(two, 4, b"", first_open=4)
    three = replica.open(limits)
    for sequence in range(4):
        replica.add(three, sequence, b"")
    assert replica.machine.open_sessions == 2, "the answers below the window are dropped, and not counted"
    alone = Replica()
    alone.machine = Sessions(Long())
    session = alone.open(replace(limits, window=8))
    assert all(alone.verdict(session, each, b"") is Verdict.APPLIED for each in range(8)), "it is in use"


def test_a_session_that_is_opened_without_limits_has_those_in_effect(replica: Replica) -> None:
    assert replica.apply(encode_command(OpenSession())) == [SessionOpened(SessionLimits())]
    replica.open(LIMITS)
    assert replica.apply(encode_command(OpenSession())) == [SessionOpened(LIMITS)]
    assert replica.copy().apply(encode_command(OpenSession())) == [SessionOpened(LIMITS)]


def test_a_closed_session_is_lost(replica: Replica) -> None:
    session = replica.open()
    other = replica.open()
    assert replica.apply(encode_command(CloseSession(SessionId(session))))
    assert replica.verdict(session, 0, b"5") is Verdict.LOST
    assert replica.verdict(other, 0, b"5") is Verdict.APPLIED
    assert replica.apply(encode_command(CloseSession(SessionId(session)))), "once more has no effect"


def test_a_session_that_was_never_opened_is_lost(replica: Replica) -> None:
    assert replica.verdict(99, 0, b"5") is Verdict.LOST
    assert replica.sums.total == 0


# Results


@pytest.mark.parametrize("record", [b"object", b"long"])
def test_results_that_are_not_plain_or_too_large_are_not_kept(replica: Replica, record: bytes) -> None:
    session = replica.open()
    results = replica.apply(header(session, 0), record)
    answer = results[0]
    assert isinstance(answer, SessionAnswer)
    assert answer.kept is not None and answer.kept.results is None
    assert results[1] in (replica.sums, "x" * 20_000), "who waits for it gets them"
    assert replica.add(session, 0, record) == answer
    assert replica.sums.offsets == [session + 2], "applied once all the same"


def test_a_state_machine_with_too_few_results_for_one_append_is_found(replica: Replica) -> None:
    class Silent(Sums):
        def apply(self, batch: CommittedBatch) -> list[object]:
            return []

    replica.machine = Sessions(Silent())
    session = replica.open()
    with pytest.raises(ValueError, match="0 results for 1 records"):
        replica.add(session, 0, b"5")


# Snapshots


def test_a_replica_from_a_snapshot_answers_as_the_one_that_took_it(replica: Replica) -> None:
    one, two = replica.open(), replica.open()
    first = replica.add(one, 0, b"5")
    replica.add(two, 3, b"7", first_open=2, after_ms=50)
    copy = replica.copy()
    assert copy.state == replica.state
    assert copy.add(one, 0, b"5") == first
    assert copy.verdict(two, 1, b"7") is Verdict.FORGOTTEN
    assert copy.sums.total == 12
    replica.add(one, 0, b"5")
    replica.verdict(two, 1, b"7")
    for _ in range(12):  # the clock and the limits are in it too
        for each in (replica, copy):
            each.apply(b"1", after_ms=90)
        assert copy.state == replica.state
    assert copy.machine.open_sessions == 0


def test_a_snapshot_holds_the_state_of_its_call_while_appends_go_on(replica: Replica) -> None:
    session = replica.open()
    replica.add(session, 0, b"5")
    before, chunks = replica.state, replica.machine.take_snapshot()
    replica.add(session, 1, b"5", first_open=1)
    replica.open()
    assert list(chunks) == before


@pytest.mark.slow
@pytest.mark.costly
def test_many_answers_are_several_chunks(replica: Replica) -> None:
    limits = replace(LIMITS, window=200, sessions_max=100)
    for _ in range(20):
        session = replica.open(limits)
        for sequence in range(200):
            replica.add(session, sequence, b"5")
    own = [each for each in replica.state if each.startswith(b"\x00quorate.sessions")]
    assert len(own) > 2
    assert replica.copy().state == replica.state


def test_the_table_is_copied_one_session_after_another(replica: Replica) -> None:
    """Ten thousand at once would hold the event loop for 36 ms."""
    for _ in range(20):
        replica.open(replace(LIMITS, sessions_max=100))
    assert sum(1 for _ in replica.machine.freeze()) >= 20


def test_a_snapshot_of_the_state_machine_alone_can_be_loaded(replica: Replica) -> None:
    alone = with_snapshots(type(replica.sums)(5, [0]))
    loader = replica.machine.load_snapshot(SnapshotId(Offset(1), Epoch(1)))
    for chunk in alone.take_snapshot():
        loader.add(chunk)
    loader.install()
    assert replica.sums.total == 5
    assert replica.machine.open_sessions == 0


def test_a_dropped_snapshot_closes_the_state_machines_own(replica: Replica) -> None:
    closed = []

    class Closing(Sums):
        def take_snapshot(self) -> Iterator[bytes]:
            try:
                yield b"1"
                yield b"2"
            finally:
                closed.append(True)

    chunks = Sessions(Closing()).take_snapshot()
    while not next(chunks).startswith(b"1"):
        pass
    chunks.close()
    assert closed


# Every replica alike, whatever the log holds

commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        OpenSession,
        st.builds(
            SessionLimits,
            sessions_max=st.integers(1, 3),
            window=st.integers(1, 4),
            idle_ms=st.just(1000),
            kept_max_bytes=st.just(64 * 1024),
        ),
    ),
    st.builds(CloseSession, st.integers(0, 30)),
)
appends = st.builds(
    lambda session, sequence, back, count: (session, sequence, max(0, sequence - back), count),
    st.integers(0, 30),
    st.integers(0, 6),
    st.integers(0, 6),
    st.integers(1, 3),
)
batches = st.lists(st.tuples(st.lists(st.one_of(commands, appends), max_size=5), st.integers(-200, 400)))


def records_of(step: Command | tuple[int, int, int, int]) -> list[bytes]:
    if isinstance(step, tuple):
        session, sequence, first_open, count = step
        return [header(session, sequence, count, first_open), *[b"1"] * count]
    return [encode_command(step)]


@given(batches, st.integers(0, 20))
@pytest.mark.hypothesis
def test_no_log_applies_an_append_twice_and_a_snapshot_changes_nothing(
    log: list[tuple[list[Command | tuple[int, int, int, int]], int]], snapshot_at: int
) -> None:
    replica = Replica()
    other: Replica | None = None
    applied: set[tuple[int, int]] = set()
    for number, (steps, after_ms) in enumerate(log):
        if number == snapshot_at:
            other = replica.copy()
        records = [b"1", *(record for step in steps for record in records_of(step))]
        before = len(replica.sums.offsets)
        results = replica.apply(*records, after_ms=after_ms)
        assert len(replica.sums.offsets) - before == sum(isinstance(each, int) for each in results)
        if other is not None:
            assert list(other.apply(*records, after_ms=after_ms)) == list(results)
        position = 1
        for step in steps:
            if isinstance(step, tuple) and results[position + 1] is not None:
                assert step[:2] not in applied
                applied.add(step[:2])
            position += len(records_of(step))
    if other is not None:
        assert other.state == replica.state


# Bad input


def test_the_check_of_the_state_machine_gets_the_clients_records_alone(replica: Replica) -> None:
    check = record_check(replica.machine)
    assert check is not None
    check([header(0, 0), b"5"])
    check([encode_command(OpenSession(LIMITS)), encode_command(OpenSession())])
    with pytest.raises(InvalidAppendError, match=r"^the state machine refuses the records: Val"):
        check([header(0, 0), b"bad"])
    with pytest.raises(InvalidAppendError, match="no num"):
        check([b"5", header(0, 0), b"5", b"bad"])


@pytest.mark.parametrize(
    "records",
    [
        [header(0, 0, count=2), b"5"],
        [header(0, 0)],
        [header(0, 0, count=0), b"5"],
        [header(0, 0)[:-1], b"5"],
        [header(0, 3, first_open=4), b"5"],
        [header(-1, -1, first_open=-1), b"5"],
        [b"5", encode_command(OpenSession(LIMITS)) + b"1"],
        [encode_command(OpenSession(LIMITS)).replace((3).to_bytes(8, "big"), (2**40).to_bytes(8, "big"))],
        [encode_command(CloseSession(SessionId(1)))[:-9] + b"\x09" + bytes(8)],
        [encode_command(CloseSession(SessionId(1)))[:-9]],
    ],
)
def test_a_damaged_command_is_refused_before_it_is_in_the_log(replica: Replica, records: list[bytes]) -> None:
    with pytest.raises(InvalidAppendError, match="begins as a command"):
        replica.machine.check(records)


def test_a_record_within_an_append_may_look_like_a_command(replica: Replica) -> None:
    class Any(Sums):
        def apply(self, batch: CommittedBatch) -> list[object]:
            self.offsets += range(batch.base_offset, batch.base_offset + len(batch.records))
            return list(batch.records)

        check = None

    replica.sums = Any()
    replica.machine = Sessions(replica.sums)
    session = replica.open()
    records = [encode_command(CloseSession(SessionId(session))), header(session, 0)]
    replica.machine.check([header(session, 0, 2), *records])
    assert results_of(replica.add(session, 0, *records)) == tuple(records)
    assert replica.machine.open_sessions == 1


@pytest.mark.parametrize(
    ("name", "value"), [("sessions_max", 0), ("window", 257), ("idle_ms", 999), ("kept_max_bytes", 2**40)]
)
def test_a_limit_out_of_range_names_the_field(name: str, value: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{name} is {value}; it must be"):
        SessionLimits(**{name: value})


def test_a_state_machine_without_a_method_is_named() -> None:
    with pytest.raises(QuorumConfigError, match="object has no method apply"):
        Sessions(object())
