"""The explorer's reduction by symmetry leaves nothing out, also of a core that is not alike for all nodes."""

import pytest

from quorate.raft.core.core import Core
from quorate.raft.core.effects import Effect, Send, SendRecords
from quorate.raft.core.events import Event, Propose, Resign
from quorate.raft.core.roles.tracker import Replicas
from quorate.types import NodeId, Offset
from tests.simulator.explorer import counterexample
from tests.simulator.explorer.core_model.bounds import SMALL, Bound, budgets
from tests.simulator.explorer.core_model.core_model import CoreModel
from tests.simulator.explorer.core_model.initial_states import begin
from tests.simulator.explorer.core_model.symmetry import Symmetry
from tests.simulator.explorer.search import explore, reachable

REDUCED = {
    "elected": Bound(initial="elected", budgets=budgets(appends=1, duplicates=1), in_flight=4),
    "power": Bound(initial="elected", budgets=budgets(appends=1, power_losses=1), in_flight=4),
    "transfer": Bound(initial="elected", budgets=budgets(resignations=1, transfers=1), in_flight=4),
    "voters": Bound(initial="dynamic", budgets=budgets(voter_changes=1)),
    "elections of two": Bound(initial="cold", budgets=budgets(timeouts=1), voters=2, epochs=1),
    "four voters": Bound(initial="elected", budgets=budgets(reads=1), voters=4, in_flight=4),
    "snapshots": Bound(initial="elected", budgets=budgets(snapshots=1, appends=1), in_flight=4),
}
"""Bounds with namesakes."""


@pytest.mark.slow
@pytest.mark.parametrize("bound", REDUCED.values(), ids=REDUCED)
def test_the_states_stood_for_are_those_without_symmetry(bound: Bound) -> None:
    world = CoreModel(bound)
    assert reachable(world, symmetric=True) == reachable(world)
    found = explore(CoreModel(bound))
    whole = explore(CoreModel(bound), symmetric=False)
    assert found.states < 0.6 * whole.states
    assert (found.stands_for, found.depth) == (whole.states, whole.depth)


@pytest.mark.parametrize("name", SMALL)
def test_symmetry_omits_no_state_of_a_small_bound(name: str) -> None:
    world = CoreModel(SMALL[name])
    assert reachable(world, symmetric=True) == reachable(world)


def test_a_renamed_state_is_another_and_its_own_namesakes_are_the_same() -> None:
    world = CoreModel(REDUCED["four voters"])
    beginning = begin(world)
    symmetry = Symmetry(world, beginning)
    assert symmetry.namesakes(beginning) == {beginning}
    after = [state for _, state in world.successors(beginning)]
    several = [state for state in after if len(symmetry.namesakes(state)) > 1]
    assert several
    for state in several:
        for namesake in symmetry.namesakes(state):
            assert symmetry.namesakes(namesake) == symmetry.namesakes(state)
            assert symmetry.least(namesake) == symmetry.least(state)


# A core that is not alike for all nodes: here the symmetry must end


class SlightsOne(Core):
    """As leader it tells of what it is asked for everybody but node 3, for no reason but its name."""

    def step(self, event: Event) -> tuple[Effect, ...]:
        effects = super().step(event)
        return (
            effects
            if not isinstance(event, Propose | Resign)
            else tuple(each for each in effects if not _is_for_3(each))
        )


def _is_for_3(effect: Effect) -> bool:
    match effect:
        case Send():
            return effect.message.destination == NodeId(3)
        case SendRecords():
            return effect.response.destination == NodeId(3)
        case _:
            return False


@pytest.mark.slow
@pytest.mark.parametrize("name", ["elected", "transfer", "snapshots"])
def test_symmetry_reduction_omits_no_state_where_the_core_compares_ids(name: str) -> None:
    bound = REDUCED[name]
    world = CoreModel(bound, core=SlightsOne)
    stood_for, every_state = reachable(world, symmetric=True), reachable(world)
    assert stood_for == every_state
    found = explore(CoreModel(bound, core=SlightsOne))
    assert found.states < found.stands_for == len(every_state)


FAULTY = Bound(initial="elected", budgets=budgets(appends=1), in_flight=4)


def plant_one_voter_enough(patch: pytest.MonkeyPatch, *nodes: int) -> None:
    """What these have counts for committed, whoever else has it."""
    honest = Replicas.majority_end_offset

    def planted(self: Replicas, *, epoch_start: Offset) -> Offset | None:
        ends = [
            honest(self, epoch_start=epoch_start),
            *(self.voter_end_offsets[NodeId(node)] for node in nodes),
        ]
        end = max(end or Offset(0) for end in ends)
        return end if end > epoch_start else None

    patch.setattr(Replicas, "majority_end_offset", planted)


@pytest.mark.parametrize("nodes", [(1,), (2,), (3,), (2, 3)], ids=str)
def test_a_fault_is_found_in_as_many_steps_as_without_symmetry(
    nodes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_one_voter_enough(monkeypatch, *nodes)
    found, whole = (explore(CoreModel(FAULTY), symmetric=symmetric).violation for symmetric in (True, False))
    assert found is not None
    assert whole is not None
    assert len(found.path) == len(whole.path)
    assert "durable on a majority" in found.invariant


def test_the_way_to_a_violation_is_told_in_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_one_voter_enough(monkeypatch, 3)
    world = CoreModel(FAULTY)
    violation = explore(world).violation
    assert violation is not None
    again = CoreModel(FAULTY)
    repeated = counterexample.replay(again, counterexample.path_of(world, violation))
    assert repeated is not None
    assert list(counterexample.lines_of(again, repeated)) == list(counterexample.lines_of(world, violation))
