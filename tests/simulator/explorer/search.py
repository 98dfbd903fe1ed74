"""Every state, breadth first, so that the first violation found is one of the nearest."""

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.simulator.explorer.actions import Action, Broken
from tests.simulator.explorer.initial_states import InitialStateError, begin
from tests.simulator.explorer.symmetry import Symmetry
from tests.simulator.explorer.world import State, World


@dataclass(frozen=True, slots=True)
class Violation:
    invariant: str
    path: tuple[tuple[State, Action], ...]
    """Each state from the initial one on, and the action in it."""


@dataclass(slots=True)
class Found:
    """The result of an exploration."""

    states: int
    """The distinct states, where one that stands for its namesakes counts once."""
    stands_for: int
    """States that there would be without `Symmetry`."""
    transitions: int
    depth: int
    """Steps from the initial state to the farthest state."""
    complete: bool
    """The search left out nothing within the bound."""
    violation: Violation | None


def explore(
    world: World,
    *,
    states_max: int | None = None,
    progress: Callable[[int, int, int], None] | None = None,
    symmetric: bool = True,
) -> Found:
    """Visit what can be reached. `progress` gets (states, transitions, depth) after each level.

    Memory: about 300 bytes per state, and a few kilobytes per distinct machine."""
    try:
        beginning = begin(world)
    except Broken as broken:
        return Found(0, 0, 0, 0, False, Violation(broken.invariant, ()))
    except InitialStateError as error:
        return Found(0, 0, 0, 0, False, Violation(f"the initial state comes about: {error}", ()))
    return _Search(world, beginning, symmetric=symmetric).run(states_max, progress)


def reachable(world: World, *, symmetric: bool = False) -> set[State]:
    """All states, whole; with `symmetric`, found as `explore` does. For small worlds."""
    search = _Search(world, begin(world), symmetric=symmetric)
    search.run(None, None)
    return set(search.states())


class _Search:
    """A state that stands for its namesakes too is free, until a step is not alike for all of them."""

    def __init__(self, world: World, beginning: State, *, symmetric: bool) -> None:
        self._world = world
        symmetry = Symmetry(world, beginning) if symmetric else None
        self._symmetry = symmetry if symmetry else None
        self._numbers: dict[bytes, int] = {}
        """The number of each state by its content; a free one has a mark at the end."""
        self._parents = array("I")
        self._covered = 0
        """States that are also stood for by a free one, which was found later."""
        self._namesakes = 0
        self._transitions = 0
        self._level: list[tuple[int, State, bool]] = []
        if self._symmetry is None:
            self._reach(beginning, 0)
        else:
            self._reach_free(beginning, 0)

    def run(self, states_max: int | None, progress: Callable[[int, int, int], None] | None) -> Found:
        world = self._world
        depth = 0
        steps = world.bound.steps
        while self._level and (steps is None or depth < steps):
            level, self._level = self._level, []
            for number, state, is_free in level:
                at = state
                try:
                    if is_free:
                        for at in self._expand_free(number, state):
                            self._expand_unlike(number, at)
                    else:
                        self._expand(number, state)
                except Broken as broken:
                    path = self._path(number, at)
                    return self._found(depth + 1, Violation(broken.invariant, (*path, (at, broken.action))))
                if states_max is not None and len(self._parents) >= states_max:
                    return self._found(depth + 1, None)
            depth += 1 if self._level else 0
            if progress is not None:
                progress(len(self._parents) - self._covered, self._transitions, depth)
        for machine, action in world.heeded_answers():
            return self._found(depth, self._heeded(machine, action))
        return self._found(depth, None, complete=True)

    def states(self) -> Iterator[State]:
        """All that were visited or stood for."""
        for packed in self._numbers:
            state, is_free = _unpacked(packed)
            yield from self._alike(state) if is_free else (state,)

    # --- from one state to the next ---

    def _expand(self, number: int, state: State) -> None:
        numbers = self._numbers
        for _, after in self._world.successors(state):
            self._transitions += 1
            if self._symmetry is not None:
                self._reach(after, number)
            elif (packed := _packed(after)) not in numbers:
                self._add(packed, after, number, is_free=False)

    def _expand_free(self, number: int, state: State) -> Iterable[State]:
        """Return the states, of this and its namesakes, from which to take steps that are not alike."""
        symmetry = self._symmetry
        assert symmetry is not None
        is_alike = True
        for action, after in self._world.successors(state):
            self._transitions += 1
            if symmetry.keeps(state, action):
                self._reach_free(after, number)
            else:
                is_alike = False
        return () if is_alike else sorted(symmetry.namesakes(state))

    def _expand_unlike(self, number: int, state: State) -> None:
        symmetry = self._symmetry
        assert symmetry is not None
        for action, after in self._world.successors(state):
            if not symmetry.keeps(state, action):
                self._transitions += 1
                self._reach(after, number)

    def _reach(self, state: State, parent: int) -> None:
        """Record a state that stands for itself alone."""
        packed = _packed(state)
        if packed in self._numbers:
            return
        if self._symmetry is not None and _packed(self._symmetry.least(state)) + _FREE in self._numbers:
            return
        self._add(packed, state, parent, is_free=False)

    def _reach_free(self, state: State, parent: int) -> None:
        symmetry = self._symmetry
        assert symmetry is not None
        least = symmetry.least(state)
        packed = _packed(least) + _FREE
        if packed not in self._numbers:
            self._add(packed, least, parent, is_free=True)
            namesakes = symmetry.namesakes(least)
            self._namesakes += len(namesakes) - 1
            self._covered += sum(_packed(each) in self._numbers for each in namesakes)

    def _add(self, packed: bytes, state: State, parent: int, *, is_free: bool) -> None:
        number = len(self._parents)
        self._numbers[packed] = number
        self._level.append((number, state, is_free))
        self._parents.append(parent)

    # --- what it came to ---

    def _found(self, depth: int, violation: Violation | None, *, complete: bool = False) -> Found:
        states = len(self._parents) - self._covered
        return Found(states, states + self._namesakes, self._transitions, depth, complete, violation)

    def _alike(self, state: State) -> Iterable[State]:
        return (state,) if self._symmetry is None else sorted(self._symmetry.namesakes(state))

    def _heeded(self, machine: int, action: Action) -> Violation:
        invariant = "an answer that nobody waits for is ignored"
        for number, packed in enumerate(self._numbers):
            state, is_free = _unpacked(packed)
            for at in self._alike(state) if is_free else (state,):
                if self._world.machine_of(at, action.node) == machine:
                    return Violation(invariant, (*self._path(number, at), (at, action)))
        return Violation(invariant, ())  # only states out of bounds have that machine

    def _path(self, number: int, state: State) -> tuple[tuple[State, Action], ...]:
        """Return the steps by which the state, or the namesake that stands for it, was first reached. In its
        own names: after a state that stands for several, the path goes on from the one that leads there."""
        packed = list(self._numbers)
        path: list[tuple[State, Action]] = []
        while number:
            number = self._parents[number]
            parent, is_free = _unpacked(packed[number])
            came = (
                (before, action)
                for before in (self._alike(parent) if is_free else (parent,))
                for action, after in self._world.successors(before)
                if after == state
            )
            step = next(came)
            path.append(step)
            state = step[0]
        return tuple(reversed(path))


_FREE = b"*"


def _packed(state: State) -> bytes:
    return array("I", state).tobytes()


def _unpacked(packed: bytes) -> tuple[State, bool]:
    """A state, and whether it is a free one."""
    is_free = len(packed) % array("I").itemsize != 0
    state = array("I")
    state.frombytes(packed[:-1] if is_free else packed)
    return tuple(state), is_free
