"""Every state of the ISR protocol within a bound, breadth first, so that the first violation is one of the
nearest."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import trio

from tests.simulator.isr_explorer.broker_steps import StepClock
from tests.simulator.isr_explorer.isr_actions import IsrAction
from tests.simulator.isr_explorer.isr_bounds import IsrBound
from tests.simulator.isr_explorer.isr_world import BrokenError, IsrWorld
from tests.simulator.isr_explorer.scene import IsrState

Way: TypeAlias = tuple[tuple[IsrState, IsrAction], ...]
"""Each state from the first on, and the action in it."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A violation, and a shortest way to it."""

    invariant: str
    way: Way


@dataclass(slots=True)
class Explored:
    """The result of an exploration."""

    world: IsrWorld
    states: int
    transitions: int
    depth: int
    """Steps from the first state to the farthest."""
    complete: bool
    """Nothing within the bound was left out."""
    breach: Breach | None


def explore_isr(
    bound: IsrBound,
    *,
    states_max: int | None = None,
    progress: Callable[[int, int, int], None] | None = None,
) -> Explored:
    """Visit all states. `progress` gets (states, transitions, depth) after each level. Memory: about 200
    bytes per state."""
    clock = StepClock()
    world = IsrWorld(bound, clock)
    return trio.run(_explore, world, states_max, progress, clock=clock)


async def _explore(
    world: IsrWorld, states_max: int | None, progress: Callable[[int, int, int], None] | None
) -> Explored:
    first = world.begin()
    numbers: dict[bytes, int] = {array("I", first).tobytes(): 0}
    parents = array("I", [0])
    level: list[tuple[int, IsrState]] = [(0, first)]
    transitions = depth = 0

    async def way_to(number: int) -> Way:
        packed = list(numbers)
        way: list[tuple[IsrState, IsrAction]] = []
        while number:
            parent = parents[number]
            before: IsrState = tuple(array("I", packed[parent]))
            after = tuple(array("I", packed[number]))
            action = next(each for each, found in await world.successors(before) if found == after)
            way.append((before, action))
            number = parent
        return tuple(reversed(way))

    while level and (world.bound.steps is None or depth < world.bound.steps):
        ahead: list[tuple[int, IsrState]] = []
        for number, state in level:
            try:
                successors = await world.successors(state)
            except BrokenError as broken:
                way = (*await way_to(number), (state, broken.action))
                breach = Breach(broken.invariant, way)
                return Explored(world, len(parents), transitions, depth + 1, False, breach)
            for _, after in successors:
                transitions += 1
                packed = array("I", after).tobytes()
                if packed not in numbers:
                    numbers[packed] = len(parents)
                    ahead.append((len(parents), after))
                    parents.append(number)
            if states_max is not None and len(parents) >= states_max:
                return Explored(world, len(parents), transitions, depth + 1, False, None)
        level = ahead
        depth += bool(level)
        if progress is not None:
            progress(len(parents), transitions, depth)
    return Explored(world, len(parents), transitions, depth, True, None)
