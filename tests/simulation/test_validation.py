"""The core's offsets are validated after each step, wherever it is simulated or explored."""

import pytest

from quorate.raft.core.replica_log.replica_log import ReplicaLog
from quorate.simulation.violations import SafetyViolation
from quorate.types import EpochEnd, NodeId, Offset
from tests.simulator.core.core_world import CoreWorld
from tests.simulator.explorer.exploration import Task, run

NODE = NodeId(1)


@pytest.fixture
def moves_start_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    move_start = ReplicaLog.move_start

    def planted(self: ReplicaLog, start: EpochEnd) -> None:
        move_start(self, start)
        self.start_offset = Offset(start.end_offset + 1)

    monkeypatch.setattr(ReplicaLog, "move_start", planted)


@pytest.mark.usefixtures("moves_start_too_far")
def test_a_simulated_core_with_offsets_out_of_order_is_found() -> None:
    world = CoreWorld(voters=1)
    world.start(NODE)
    world.sync(NODE)
    world.propose(NODE)
    world.sync(NODE)
    assert world.take_snapshot(NODE) is not None
    with pytest.raises(SafetyViolation, match="not in order: log start <= snapshot end "):
        world.move_start(NODE)


@pytest.mark.usefixtures("moves_start_too_far")
def test_an_explored_core_with_offsets_out_of_order_is_found() -> None:
    report = run(Task(suite="small", name="snapshots"))
    assert any("not in order: log start <= snapshot end " in line for line in report.counterexample)
