"""The simulation finds what it is for: each test breaks a rule of the shipped code; a seed must show it.

Accepting a stale durable completion has no seed here: a follower asks for records only when all of its log is
durable, and only an answer truncates, so the driver can't produce one; the last test holds that.
tests/raft/core arranges one by hand.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from planted import Plant, shown_by_a_seed

from quorate.log.log import Log
from quorate.log.recovery import _Recovery
from quorate.log.segments.segment import Segment
from quorate.quorum_state.election_state import QuorumStateFile
from quorate.raft import leadership, quorum
from quorate.raft.core import request_handlers
from quorate.raft.core.effects import Persist
from quorate.raft.core.roles import tracker as replicas
from quorate.raft.driver.driver import Driver
from quorate.raft.quorum_errors import NotLeaderError, OutcomeUnknownError, QuorumError
from quorate.raft.state_machine import append_queue
from quorate.raft.state_machine.applier import Applier
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.quorum.quorum_clients import ClientSettings
from quorate.simulation.quorum.quorum_run import QuorumRun
from quorate.simulation.world.simulated_disk import SimulatedFile
from quorate.types import ElectionState, Epoch, Offset
from tests.simulator.seeds import quorum_run

SEEDS_MAX = 60


def a_vote_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    honest = QuorumStateFile.store

    async def store(self: QuorumStateFile, state: ElectionState) -> None:
        if state.voted is None:
            await honest(self, state)

    patch.setattr(QuorumStateFile, "store", store)


def a_vote_is_said_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    carry_out = Driver._carry_out_all

    def persist_last(self: Driver) -> bool:
        if not self._blocked:
            ordered = sorted(self._effects, key=lambda effect: isinstance(effect, Persist))
            self._effects.clear()
            self._effects.extend(ordered)
        return carry_out(self)

    patch.setattr(Driver, "_carry_out_all", persist_last)


def an_append_is_acknowledged_before_its_sync(patch: pytest.MonkeyPatch) -> None:
    async def sync(self: Log) -> Offset:
        return self.end_offset

    patch.setattr(Log, "sync", sync)


def a_follower_acknowledges_in_the_pass_what_it_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    honest = SimulatedFile.sync_at_once

    def sync_at_once(self: SimulatedFile) -> bool:
        return (self._disk.syncs_at_once and not self._disk.is_stalled) or honest(self)

    patch.setattr(SimulatedFile, "sync_at_once", sync_at_once)


def a_recovered_tail_is_acknowledged_without_being_rewritten(patch: pytest.MonkeyPatch) -> None:
    async def rewrite(self: _Recovery, segment: Segment, start: int, end: int) -> None:
        pass

    patch.setattr(_Recovery, "_rewrite", rewrite)


def an_older_epochs_record_is_committed_by_counting(patch: pytest.MonkeyPatch) -> None:
    honest = replicas.majority_end_offset

    def majority_end_offset(ends: Sequence[Offset], *, epoch_start: Offset) -> Offset | None:
        return honest(ends, epoch_start=Offset(-1))

    patch.setattr(replicas, "majority_end_offset", majority_end_offset)


def a_truncation_is_skipped(patch: pytest.MonkeyPatch) -> None:
    async def truncate(self: Log, end_offset: Offset) -> Offset:
        return end_offset

    patch.setattr(Log, "truncate", truncate)


def a_shorter_log_gets_the_vote(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(request_handlers, "_is_up_to_date", lambda roles, request: True)


def a_leader_is_announced_before_it_has_applied(patch: pytest.MonkeyPatch) -> None:
    def announce(self: leadership.Announcer) -> None:
        role = self._role
        self._view.set(role.role, leadership.Leadership(role.epoch, role.leader))

    patch.setattr(leadership.Announcer, "_announce", announce)


def a_lost_leaders_appends_are_called_refused(patch: pytest.MonkeyPatch) -> None:
    fail = append_queue.AppendQueue.fail_in_log

    def fail_in_log(self: append_queue.AppendQueue, error: QuorumError) -> None:
        fail(self, NotLeaderError(leader=None, epoch=Epoch(0)))

    patch.setattr(append_queue.AppendQueue, "fail_in_log", fail_in_log)


def an_append_of_unknown_outcome_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    append = quorum.Quorum.append

    async def append_stubbornly(self, records, *, timeout_ms=10_000):
        for _ in range(3):
            try:
                return await append(self, records, timeout_ms=timeout_ms // 3)
            except OutcomeUnknownError as error:
                unknown = error
        raise unknown

    patch.setattr(quorum.Quorum, "append", append_stubbornly)


def the_applied_end_runs_away(patch: pytest.MonkeyPatch) -> None:
    def went_on(self: Applier, end: Offset, *, batch_bytes: int, timestamp_ms: int) -> None:
        self.applied_offset = Offset(end + 1_000_000)

    patch.setattr(Applier, "_advance_to", went_on)


CRASHES = (Fault.CRASH_THEN_POWER_LOSS, Fault.SLOW_DISK, Fault.STALLED_DISK)
ELECTIONS = (Fault.CRASH, Fault.PARTITION, Fault.PAUSE)

PLANTS: Sequence[tuple[Plant, tuple[Fault, ...], str, int]] = (
    (a_vote_is_not_stored, ELECTIONS, "VotesAreDurable", 1),
    (a_vote_is_said_before_it_is_stored, ELECTIONS, "VotesAreDurable", 1),
    (an_append_is_acknowledged_before_its_sync, CRASHES, "CommittedIsDurableOnAMajority", 1),
    (a_follower_acknowledges_in_the_pass_what_it_has_not_synced, CRASHES, "CommittedIsDurableOnAMajority", 1),
    (a_recovered_tail_is_acknowledged_without_being_rewritten, CRASHES, "DamagedLogError|Durable", 3),
    (an_older_epochs_record_is_committed_by_counting, ELECTIONS, "CommitsAreOfTheLeadersEpoch", 1),
    (the_applied_end_runs_away, ELECTIONS, "OffsetsAreInOrder: .* applied <= high watermark", 1),
    (a_truncation_is_skipped, ELECTIONS, "OffsetGapError", 4),
    (a_shorter_log_gets_the_vote, ELECTIONS, "LeaderHasEverythingCommitted|OneLeader|CommittedPrefix", 2),
    (a_leader_is_announced_before_it_has_applied, ELECTIONS, "LeaderIsCurrent", 9),
    (a_lost_leaders_appends_are_called_refused, ELECTIONS, "refused but appended|appended twice", 1),
    # Or the second try finds no leader, and calls it refused.
    (an_append_of_unknown_outcome_is_tried_again, ELECTIONS, "appended twice|refused but appended", 6),
)


def faulty(seed: int, kinds: tuple[Fault, ...]) -> QuorumRun:
    """Three voters, busy clients, and faults of these kinds all the time."""
    run = quorum_run(seed)
    run.settings = replace(
        run.settings,
        cluster=replace(run.settings.cluster, voters=3),
        clients=ClientSettings(in_process=2, remote=1, think_max_s=0.3),
        faults=FaultSettings(kinds=kinds, mean_interval_s=0.5, mean_duration_s=3.0),
        faults_s=8.0,
    )
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "kinds", "expected", "first"), PLANTS, ids=[plant.__name__ for plant, *_ in PLANTS]
)
def test_a_seed_shows_that(plant: Plant, kinds: tuple[Fault, ...], expected: str, first: int) -> None:
    shown_by_a_seed(
        plant, lambda seed: faulty(seed, kinds).execute(), expected=expected, first=first, seeds_max=SEEDS_MAX
    )


@pytest.mark.slow
def test_no_log_is_cut_while_it_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why no seed can show that a stale completion is believed: there are none. Who lets followers ask before
    all of their log is durable has to plant that fault here."""
    syncing: dict[int, int] = {}
    cuts: list[bool] = []
    honest_sync, honest_truncate = Log.sync, Log.truncate

    async def sync(self: Log) -> Offset:
        syncing[id(self)] = syncing.get(id(self), 0) + 1
        try:
            return await honest_sync(self)
        finally:
            syncing[id(self)] -= 1

    async def truncate(self: Log, end_offset: Offset) -> Offset:
        cuts.append(syncing.get(id(self), 0) > 0)
        return await honest_truncate(self, end_offset)

    monkeypatch.setattr(Log, "sync", sync)
    monkeypatch.setattr(Log, "truncate", truncate)
    for seed in range(1, SEEDS_MAX + 1):
        faulty(seed, (*ELECTIONS, Fault.SLOW_DISK)).execute()
        if len(cuts) >= 5:
            break
    assert len(cuts) >= 5
    assert not any(cuts)
