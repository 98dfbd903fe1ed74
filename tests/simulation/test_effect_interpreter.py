"""Every effect has one case in the driver, and one in the interpreter that simulation and explorer share."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import get_args

import pytest

from quorate.raft.core import Core, Effect, Send, VoteRequest, effects
from quorate.raft.core.events import Event, Timer, TimerKind
from quorate.raft.driver.driver import Driver
from quorate.simulation.violations import SafetyViolation
from quorate.types import NodeId, Offset
from tests.simulator.core.core_world import CoreInterpreter, CoreWorld
from tests.simulator.effect_interpreter import EffectInterpreter
from tests.simulator.explorer.core_model.interpreter import Interpreter

EFFECTS = {each.__name__ for each in get_args(Effect)}


def cases(function: Callable[..., object]) -> list[str]:
    """The classes that its match statements name."""
    found = []
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.MatchClass):
            found.append(node.cls.attr if isinstance(node.cls, ast.Attribute) else ast.unparse(node.cls))
    return found


@pytest.mark.parametrize(
    "function", [EffectInterpreter.carry_out, Driver._carry_out], ids=lambda each: each.__qualname__
)
def test_each_effect_has_a_case(function: Callable[..., object]) -> None:
    assert sorted(cases(function)) == sorted(EFFECTS)


def test_the_simulated_core_and_the_explorer_have_no_dispatch_of_their_own() -> None:
    assert CoreInterpreter.carry_out is Interpreter.carry_out is EffectInterpreter.carry_out


def test_a_barrier_of_the_driver_is_one_of_the_core() -> None:
    barriers = {each.__name__ for each in get_args(Effect) if each.is_barrier}
    assert barriers == {effects.Persist.__name__, effects.Truncate.__name__, effects.InstallSnapshot.__name__}


class StandsWithAllOfItsLog(Core):
    """Asks for votes with records that it has not synced."""

    def step(self, event: Event) -> tuple[Effect, ...]:
        for effect in (out := super().step(event)):
            if isinstance(effect, Send) and isinstance(effect.message, VoteRequest):
                object.__setattr__(effect.message, "end_offset", Offset(self.log_end_offset + 1))
        return out


def test_a_simulated_core_that_stands_with_what_it_has_not_synced_is_found_at_once() -> None:
    world = CoreWorld(voters=2, core=StandsWithAllOfItsLog)
    world.start(NodeId(1))
    with pytest.raises(SafetyViolation, match="what a candidate stands with is durable"):
        world.fire(NodeId(1), Timer(TimerKind.ELECTION))
