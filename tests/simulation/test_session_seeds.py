"""Clients that repeat what has an unknown outcome, in sessions: no seed applies an append twice, and replicas
agree on their sessions. Faults planted in the sessions are found."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import trio
from planted import Plant, shown_by_a_seed

from quorate.raft import SessionLimits
from quorate.raft.sessions.session_records import SessionAppend
from quorate.raft.sessions.session_table import KeptAnswer, SessionAnswer, SessionTable, Verdict
from quorate.runtime import Steps
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.quorum.quorum_clients import ClientSettings
from quorate.simulation.quorum.quorum_run import QuorumRun
from tests.simulator.seeds import quorum_run

SEEDS_MAX = 20


def faulty(seed: int, limits: SessionLimits | None = None) -> QuorumRun:
    """Three voters that lose their leader all the time, small snapshots, and busy clients in sessions."""
    run = quorum_run(seed)
    cluster = replace(
        run.settings.cluster, voters=3, snapshot_bytes=2000, retention_bytes=1, segment_bytes=2048
    )
    run.settings = replace(
        run.settings,
        cluster=cluster,
        clients=ClientSettings(
            in_process=3, think_max_s=0.1, sessions=True, session_limits=limits or SessionLimits()
        ),
        faults=FaultSettings(
            kinds=(Fault.CRASH, Fault.PARTITION, Fault.PAUSE, Fault.SNAPSHOT, Fault.CLOCK_JUMP),
            mean_interval_s=0.5,
            mean_duration_s=1.0,
        ),
        faults_s=6.0,
    )
    return run


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Counter[Verdict | None]:
    """The decisions on appends, on all replicas. None: it was new."""
    counts: Counter[Verdict | None] = Counter()
    judge = SessionTable.judge

    def counted(self: SessionTable, append: SessionAppend) -> SessionAnswer | None:
        answer = judge(self, append)
        counts[None if answer is None else answer.verdict] += 1
        return answer

    monkeypatch.setattr(SessionTable, "judge", counted)
    return counts


@pytest.mark.parametrize(("seed", "repeats"), [(1, 3), (2, 0)])
def test_no_seed_applies_an_append_twice_in_sessions(
    seed: int, repeats: int, verdicts: Counter[Verdict | None]
) -> None:
    """`repeats`: the least number of appends that must be repeated, or nothing is shown."""
    faulty(seed).execute()
    assert verdicts[None] > 200, "nothing was appended"
    assert verdicts[Verdict.APPLIED] >= repeats, "nothing was repeated, so nothing was shown"


@pytest.mark.slow
def test_sessions_that_are_lost_in_the_midst_of_their_appends_double_nothing(
    verdicts: Counter[Verdict | None],
) -> None:
    for seed in (1, 2):
        faulty(seed, SessionLimits(sessions_max=2, window=1, idle_ms=4000)).execute()
    assert verdicts[None] > 100, "nothing was appended"
    assert verdicts[Verdict.LOST] > 10, "no session was lost"


def sessions_are_off(patch: pytest.MonkeyPatch) -> None:
    judge = SessionTable.judge

    def forgetful(self: SessionTable, append: SessionAppend) -> SessionAnswer | None:
        answer = judge(self, append)
        return None if answer is not None and answer.verdict is Verdict.APPLIED else answer

    patch.setattr(SessionTable, "judge", forgetful)


def answers_are_not_in_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    freeze = SessionTable.freeze

    def without(self: SessionTable) -> Steps[Iterator[bytes]]:
        empty = SessionTable()
        empty._limits, empty._clock_ms = self._limits, self._clock_ms
        empty._last_timestamp_ms = self._last_timestamp_ms
        for session in self._sessions:
            empty.open(session, self._limits)
        return freeze(empty)

    patch.setattr(SessionTable, "freeze", without)


def a_session_ends_by_the_replicas_own_clock(patch: pytest.MonkeyPatch) -> None:
    def by_own_clock(self: SessionTable, timestamp_ms: int) -> None:
        now_ms = int(1000 * trio.current_time())
        for session in [each for each, row in self._sessions.items() if now_ms - row.active_ms > 500]:
            self.close(session)
        self._clock_ms = now_ms

    patch.setattr(SessionTable, "pass_time", by_own_clock)


def an_answer_is_of_any_session(patch: pytest.MonkeyPatch) -> None:
    judge, keep = SessionTable.judge, SessionTable.keep
    kept: dict[tuple[int, int], KeptAnswer] = {}

    def remember(self: SessionTable, append: SessionAppend, answer: KeptAnswer) -> SessionAnswer:
        kept[id(self), append.sequence] = answer
        return keep(self, append, answer)

    def mistaken(self: SessionTable, append: SessionAppend) -> SessionAnswer | None:
        answer = judge(self, append)
        known = kept.get((id(self), append.sequence))
        return SessionAnswer(Verdict.APPLIED, known) if answer is None and known is not None else answer

    patch.setattr(SessionTable, "keep", remember)
    patch.setattr(SessionTable, "judge", mistaken)


PLANTS: Sequence[tuple[Plant, str, int]] = (
    (sessions_are_off, "appended twice", 1),
    (
        answers_are_not_in_the_snapshot,
        "appended twice|acknowledged elsewhere|but not on state|states differ",
        1,
    ),
    # A replica that lost the session answers for one that did not.
    (
        a_session_ends_by_the_replicas_own_clock,
        "but not on state|refused but appended|but lost|states differ",
        1,
    ),
    (an_answer_is_of_any_session, "was answered|acknowledged elsewhere|acknowledged but lost", 1),
)


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "expected", "first"), PLANTS, ids=[plant.__name__ for plant, *_ in PLANTS])
def test_a_seed_shows_that(plant: Plant, expected: str, first: int) -> None:
    shown_by_a_seed(
        plant, lambda seed: faulty(seed).execute(), expected=expected, first=first, seeds_max=SEEDS_MAX
    )
