"""The explorer finds what is wrong, and nothing in the core that ships."""

from collections.abc import Collection

import pytest

from quorate.raft.core import request_handlers
from quorate.raft.core.core import Core
from quorate.raft.core.effects import Role
from quorate.raft.core.events import Event
from quorate.raft.core.messages import Response
from quorate.types import Offset
from tests.simulator.explorer import counterexample
from tests.simulator.explorer.core_model.actions import Action
from tests.simulator.explorer.core_model.bounds import SMALL, SUITES, Bound, budgets
from tests.simulator.explorer.core_model.canonical import STALE
from tests.simulator.explorer.core_model.core_model import CoreModel
from tests.simulator.explorer.core_model.coverage import KINDS, UNREACHABLE
from tests.simulator.explorer.core_model.initial_states import INITIAL_STATES
from tests.simulator.explorer.exploration import Task, run
from tests.simulator.explorer.model import Violation
from tests.simulator.explorer.search import explore, reachable


@pytest.mark.costly
@pytest.mark.parametrize("name", SMALL)
def test_the_core_keeps_its_invariants_in_every_state_of_the_small_bound(name: str) -> None:
    report = run(Task(suite="small", name=name))
    assert not report.counterexample, "\n".join(report.counterexample)
    assert report.complete


@pytest.mark.slow
def test_exploring_again_finds_the_same_states() -> None:
    first, second = (run(Task(suite="small", name="voters")) for _ in range(2))
    assert (first.states, first.transitions, first.depth) == (second.states, second.transitions, second.depth)


@pytest.mark.slow
def test_every_initial_state_of_a_suite_exists_and_comes_about() -> None:
    assert {bound.initial for suite in SUITES.values() for bound in suite.values()} <= set(INITIAL_STATES)
    for initial_state in INITIAL_STATES:
        found = explore(CoreModel(Bound(initial=initial_state, budgets=budgets())), states_max=2)
        assert found.violation is None, initial_state


LITTLE = (
    Bound(initial="elected", budgets=budgets(appends=1, duplicates=1), in_flight=30),
    Bound(initial="elected", budgets=budgets(resignations=1), in_flight=30),
    Bound(initial="behind the start", budgets=budgets(duplicates=1), in_flight=30),
    Bound(initial="short candidate", budgets=budgets(), in_flight=30),
)


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.long
@pytest.mark.parametrize("bound", LITTLE, ids=lambda bound: bound.initial)
def test_omitting_stale_answers_omits_no_other_state(bound: Bound) -> None:
    """All states without the reduction, with those answers struck out, are the states with it."""
    whole = CoreModel(bound, reduce=False)
    reduced = CoreModel(bound, reduce=True)
    without, with_it = _in_full(whole), _in_full(reduced)
    assert len(without) > 10
    assert without == with_it


def _in_full(world: CoreModel) -> set[object]:
    """Each state by what it is, not by numbers, which depend on the way there."""
    names = len(world.names)
    return {
        (
            world.budgets[state[0]],
            world.pasts[state[1]],
            tuple(world.machines[number].identity() for number in state[2 : 2 + names]),
            frozenset(
                _counted(
                    [
                        packet
                        for _, packet in world.packets_of(state)
                        if packet.message.correlation != STALE or not isinstance(packet.message, Response)
                    ]
                )
            ),
        )
        for state in reachable(world)
    }


def _counted(packets: Collection[object]) -> set[tuple[object, int]]:
    return {(packet, sum(each == packet for each in packets)) for packet in packets}


def test_a_high_watermark_from_an_older_epochs_record_is_found_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KAFKA-12619: >= in place of >."""

    def planted(ends: Collection[Offset], *, epoch_start: Offset) -> Offset | None:
        end = sorted(ends)[len(ends) - 1 - len(ends) // 2]
        return end if end >= epoch_start else None

    monkeypatch.setattr("quorate.raft.core.roles.tracker.majority_end_offset", planted)
    violation, lines = _violation(Bound(initial="premature", budgets=budgets(), in_flight=5))
    assert "older epochs' records commit only with one of the leader's own" in violation.invariant
    assert len(violation.path) < 20
    assert lines[0].startswith("BROKEN: ")


def test_a_way_to_a_violation_can_be_gone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_handlers, "_is_up_to_date", lambda roles, request: True)
    bound = Bound(initial="short candidate", budgets=budgets())
    world = CoreModel(bound)
    violation = explore(world).violation
    assert violation is not None
    again = CoreModel(bound)
    repeated = counterexample.replay(again, counterexample.path_of(world, violation))
    assert repeated is not None
    assert list(counterexample.lines_of(again, repeated)) == list(counterexample.lines_of(world, violation))
    with pytest.raises(ValueError, match="nothing called ffffff can happen after 0 steps"):
        counterexample.replay(CoreModel(bound), "ffffff")


def test_a_step_that_fails_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Core.step

    def failing(self: Core, event: Event) -> object:
        if self.role is Role.RESIGNED:
            raise KeyError("planted")
        return step(self, event)

    monkeypatch.setattr(Core, "step", failing)
    violation, _ = _violation(Bound(initial="elected", budgets=budgets(resignations=1)))
    assert violation.invariant == "no step fails: KeyError: 'planted'"


def test_the_list_of_unreachable_cases_names_real_events() -> None:
    assert {kind for _, kind in UNREACHABLE} <= set(KINDS)
    assert all(reason for reason in UNREACHABLE.values())


def _violation(bound: Bound) -> tuple[Violation[Action], list[str]]:
    world = CoreModel(bound)
    violation = explore(world).violation
    assert violation is not None
    return violation, list(counterexample.lines_of(world, violation))
