"""Every kind of fault of whole quorums happens, long enough to matter, and none breaks an invariant."""

from dataclasses import replace

import pytest

from quorate.raft.quorum import Quorum
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.quorum.quorum_run import RunResult
from quorate.simulation.violations import SafetyViolation
from tests.simulator.seeds import quorum_run


def faulty(seed: int, *kinds: Fault, voters: int = 3, observers: int = 1) -> RunResult:
    run = quorum_run(seed)
    run.settings = replace(
        run.settings,
        cluster=replace(run.settings.cluster, voters=voters, observers=observers, dynamic=True),
        clients=replace(run.settings.clients, readers=2),
        faults=FaultSettings(kinds=kinds, mean_interval_s=0.4, mean_duration_s=0.5),
        faults_s=6.0,
    )
    return run.execute()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        Fault.CRASH_AT_AWAIT,
        Fault.FLAPPING,
        Fault.SLOW_NODE,
        Fault.WRITE_ERROR,
        Fault.FULL_DISK,
        Fault.TRANSFER,
        Fault.SNAPSHOT,
        Fault.VOTERS,
        Fault.LOST_DISK,
    ],
)
def test_a_quorum_survives(kind: Fault) -> None:
    result = faulty(7, kind)
    assert result.faults[kind.value] >= 3
    assert result.acknowledged > 10  # of 33 calls, where a node dies every quarter of a second
    assert result.read > 5


@pytest.mark.slow
def test_voters_come_and_go_while_disks_are_lost_and_nodes_die() -> None:
    for seed in range(1, 4):
        kinds = (Fault.VOTERS, Fault.LOST_DISK, Fault.CRASH, Fault.POWER_LOSS, Fault.PARTITION)
        result = faulty(seed, *kinds, voters=4, observers=2)
        assert result.acknowledged > 10


@pytest.mark.slow
def test_a_node_that_was_away_for_long_loads_a_snapshot() -> None:
    lines: list[str] = []
    for seed in (1, 2):
        run = quorum_run(seed, show=lines.append)
        run.settings = replace(
            run.settings,
            cluster=replace(
                run.settings.cluster, voters=3, snapshot_bytes=2000, retention_bytes=1, segment_bytes=2048
            ),
            clients=replace(run.settings.clients, in_process=3, think_max_s=0.1, padding_max=300),
            faults=FaultSettings(
                kinds=(Fault.SNAPSHOT, Fault.PARTITION, Fault.CRASH), mean_interval_s=0.5, mean_duration_s=2.0
            ),
            faults_s=8.0,
        )
        run.execute()
    in_one_life: dict[str, int] = {}
    for line in lines:
        _, where, what = line.split(" ", 2)
        if what.startswith("starts, life"):
            in_one_life[where] = 0
        elif what.startswith("loads a snapshot of"):
            in_one_life[where] += 1
            if in_one_life[where] == 2:
                return  # the first may be its own, the second is a leader's
    raise AssertionError("no node loaded a snapshot while it ran")


@pytest.mark.slow
def test_a_read_of_a_deposed_leader_that_asks_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether reads are linearizable is looked at in every run."""

    async def wait_read_index(self: Quorum[int], **_: object) -> int:
        return self.applied_offset

    monkeypatch.setattr(Quorum, "wait_read_index", wait_read_index)
    with pytest.raises(SafetyViolation, match="no order of these operations"):
        for seed in range(1, 20):
            faulty(seed, Fault.PARTITION, Fault.PAUSE)


@pytest.mark.slow
def test_clocks_at_other_rates_are_other_timeouts() -> None:
    seed = next(seed for seed in range(1, 100) if quorum_run(seed).settings.cluster.clock_rates)
    run = quorum_run(seed)
    assert Fault.CLOCK_RATE in run.settings.faults.kinds
    assert run.execute().acknowledged > 0
