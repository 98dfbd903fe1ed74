"""Every state, breadth first, so that the first violation found is one of the nearest."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from quorate.simulation.explorer.situations import SituationError, begin
from quorate.simulation.explorer.world import Broken, Did, State, World


@dataclass(frozen=True, slots=True)
class Violation:
    promise: str
    path: tuple[tuple[State, Did], ...]
    """From the situation on: each state, and what happened in it."""


@dataclass(slots=True)
class Found:
    """What an exploration came to."""

    states: int
    transitions: int
    depth: int
    """Steps from the situation to the farthest state."""
    complete: bool
    """Nothing within the bound was left out."""
    violation: Violation | None


def explore(
    world: World,
    *,
    states_max: int | None = None,
    progress: Callable[[int, int, int], None] | None = None,
) -> Found:
    """Visit what can be reached. `progress` is told (states, transitions, depth) after each level.

    Memory: about 300 bytes per state, and a few kilobytes per distinct machine."""
    try:
        beginning = begin(world)
    except Broken as broken:
        return Found(0, 0, 0, False, Violation(broken.promise, ()))
    except SituationError as error:
        return Found(0, 0, 0, False, Violation(f"the situation comes about: {error}", ()))
    numbers: dict[bytes, int] = {_packed(beginning): 0}
    parents = array("I", [0])
    level = [(0, beginning)]
    transitions = depth = 0
    steps = world.bound.steps
    while level and (steps is None or depth < steps):
        following: list[tuple[int, State]] = []
        for number, state in level:
            try:
                for _, after in world.successors(state):
                    transitions += 1
                    packed = _packed(after)
                    if packed not in numbers:
                        numbers[packed] = len(parents)
                        following.append((len(parents), after))
                        parents.append(number)
            except Broken as broken:
                path = _path(world, list(numbers), parents, number)
                violation = Violation(broken.promise, (*path, (state, broken.did)))
                return Found(len(parents), transitions, depth + 1, False, violation)
            if states_max is not None and len(parents) >= states_max:
                return Found(len(parents), transitions, depth + 1, False, None)
        level = following
        depth += 1 if following else 0
        if progress is not None:
            progress(len(parents), transitions, depth)
    for machine, did in world.heeded_answers():
        violation = _heeded(world, list(numbers), parents, machine, did)
        return Found(len(parents), transitions, depth, False, violation)
    return Found(len(parents), transitions, depth, True, None)


def _heeded(world: World, states: list[bytes], parents: "array[int]", machine: int, did: Did) -> Violation:
    promise = "an answer that nobody waits for is ignored"
    for number, packed in enumerate(states):
        state = _unpacked(packed)
        if state[2 + did.node] == machine:
            return Violation(promise, (*_path(world, states, parents, number), (state, did)))
    return Violation(promise, ())  # only states out of bounds have that machine


def reachable(world: World) -> set[State]:
    """All states, whole. For small worlds."""
    beginning = begin(world)
    known = {beginning}
    waiting = [beginning]
    while waiting:
        for _, after in world.successors(waiting.pop()):
            if after not in known:
                known.add(after)
                waiting.append(after)
    return known


def _packed(state: State) -> bytes:
    return array("I", state).tobytes()


def _unpacked(packed: bytes) -> State:
    state = array("I")
    state.frombytes(packed)
    return tuple(state)


def _path(
    world: World, states: list[bytes], parents: "array[int]", number: int
) -> tuple[tuple[State, Did], ...]:
    """How the state was first reached."""
    path: list[tuple[State, Did]] = []
    while number:
        parent = parents[number]
        before = _unpacked(states[parent])
        for did, after in world.successors(before):
            if _packed(after) == states[number]:
                path.append((before, did))
                break
        number = parent
    return tuple(reversed(path))
