"""Clients that watch, read at the leader and read within a bound of staleness, under all faults: they see
what was applied and nothing else. Faults planted in watches and in bounded reads are found."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import trio
from planted import Plant, shown_by_a_seed

from quorate.client import Watch, Watched
from quorate.log import Log
from quorate.raft.clients.watch import WatchedLeader
from quorate.raft.clients.watch_feed import Watchable, WatchFeed
from quorate.raft.quorum import Quorum
from quorate.raft.sessions.session_table import SessionTable
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.quorum.quorum_clients import ClientSettings
from quorate.types import Offset
from tests.simulator.seeds import Subject, run_quietly, session_run

SEEDS_MAX = 60

pytestmark = pytest.mark.slow
"""The seeds of test_quorum_seeds.py have watchers, too."""


def test_clients_see_what_was_applied_and_nothing_else() -> None:
    totals = run_quietly(Subject.SESSIONS, range(1, 17))
    assert not totals.failures
    for name, least in {
        "appends": 200,
        "repeats answered from the session table": 3,
        "appends of lost sessions": 10,
        "linearizable reads": 100,
        "bounded reads": 30,
        "watched records": 200,
        "watches of what is gone": 5,
        "elections": 15,
        "crashes": 10,
    }.items():
        assert totals.seen[name] >= least, totals.seen_by_name


def test_a_leader_that_was_paused_answers_no_bounded_read_from_an_older_state() -> None:
    """It answered before it looked at its timers, and so took itself for the leader."""
    pauses = FaultSettings(kinds=(Fault.PAUSE,), mean_interval_s=0.7, mean_duration_s=2.0)
    clients = ClientSettings(
        in_process=1, remote=1, readers=0, bounded_readers=4, think_max_s=0.4, sessions=True
    )
    bounded = 0
    for seed in (35, 42, 48):
        run = session_run(seed)
        cluster = replace(run.settings.cluster, clock_rates=(), dynamic=False)
        run.settings = replace(run.settings, cluster=cluster, clients=clients, faults=pauses, faults_s=4.0)
        bounded += run.execute().bounded
    assert bounded > 50


def a_new_leader_is_asked_for_the_last_record_again(patch: pytest.MonkeyPatch) -> None:
    ask = WatchedLeader._ask
    answered_by: dict[int, object] = {}

    async def ask_again(
        self: WatchedLeader, from_offset: Offset | None, *, wait_ms: int
    ) -> tuple[Offset, list[Watched]]:
        answer = await ask(self, from_offset, wait_ms=wait_ms)
        before = answered_by.get(id(self))
        answered_by[id(self)] = self._leader._channel
        if from_offset and before is not None and before is not self._leader._channel:
            return await ask(self, Offset(from_offset - 1), wait_ms=0)
        return answer

    patch.setattr(WatchedLeader, "_ask", ask_again)


def a_call_that_is_cancelled_loses_its_record(patch: pytest.MonkeyPatch) -> None:
    honest = Watch.__anext__

    async def slowly(self: Watch) -> Watched:
        watched = await honest(self)
        await trio.sleep(0.05)
        return watched

    patch.setattr(Watch, "__anext__", slowly)


class _UpToTheLogEnd:
    """A node that takes all of its log for applied."""

    def __init__(self, node: Watchable) -> None:
        self._node = node

    @property
    def is_leader(self) -> bool:
        return self._node.is_leader

    @property
    def applied_offset(self) -> Offset:
        return self._node.log.end_offset

    @property
    def log(self) -> Log:
        return self._node.log


def what_is_not_committed_is_shown(patch: pytest.MonkeyPatch) -> None:
    begin = WatchFeed.__init__

    def begin_at_the_log_end(self: WatchFeed, node: Watchable, *parts: object, **options: object) -> None:
        begin(self, _UpToTheLogEnd(node), *parts, **options)  # type: ignore[arg-type]

    patch.setattr(WatchFeed, "__init__", begin_at_the_log_end)


def what_a_session_repeats_is_shown_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionTable, "was_refused", lambda self, offset: False)


def what_a_snapshot_replaced_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    answer = WatchFeed.answer

    async def from_the_earliest(self: WatchFeed, from_offset: Offset | None, *, wait_ms: int) -> bytes:
        start = None if from_offset is None else max(from_offset, self._earliest)
        return await answer(self, start, wait_ms=wait_ms)

    patch.setattr(WatchFeed, "answer", from_the_earliest)


def a_bounded_read_is_of_the_state_as_it_is(patch: pytest.MonkeyPatch) -> None:
    honest = Quorum.wait_read_index

    async def wait(
        self: Quorum[object], *, max_staleness_ms: int | None = None, timeout_ms: int = 10_000
    ) -> Offset:
        if max_staleness_ms is not None:
            return self.applied_offset
        return await honest(self, timeout_ms=timeout_ms)

    patch.setattr(Quorum, "wait_read_index", wait)


PLANTS: Sequence[tuple[Plant, str, int]] = (
    (a_new_leader_is_asked_for_the_last_record_again, "WatchedIsApplied: .*(twice|not applied there)", 15),
    (a_call_that_is_cancelled_loses_its_record, "WatchedIsApplied: .*did not hear", 3),
    (what_is_not_committed_is_shown, "WatchedIsCommitted: .*: not committed", 1),
    (what_a_session_repeats_is_shown_again, "WatchedIsApplied: .*not applied there", 1),
    (what_a_snapshot_replaced_is_passed_over, "WatchedIsApplied: .*did not hear", 4),
    (a_bounded_read_is_of_the_state_as_it_is, "too stale", 3),
)


@pytest.mark.parametrize(("plant", "expected", "first"), PLANTS, ids=[plant.__name__ for plant, *_ in PLANTS])
def test_a_seed_shows_that(plant: Plant, expected: str, first: int) -> None:
    shown_by_a_seed(
        plant,
        lambda seed: session_run(seed).execute(),
        expected=expected,
        first=first,
        seeds_max=SEEDS_MAX,
    )
