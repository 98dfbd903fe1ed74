"""Every state of a model, breadth first, so that the first violation found is one of the nearest."""

from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic

import trio

from tests.simulator.explorer.model import Action, Broken, Model, State, Violation


@dataclass(slots=True)
class Found(Generic[Action]):
    """The result of an exploration."""

    states: int
    """The distinct states, where one that stands for its namesakes counts once."""
    stands_for: int
    """States that there would be without symmetry."""
    transitions: int
    depth: int
    """Steps from the initial state to the farthest state."""
    complete: bool
    """The search left out nothing within the bound."""
    violation: Violation[Action] | None


def explore(
    model: Model[Action],
    *,
    states_max: int | None = None,
    progress: Callable[[int, int, int], None] | None = None,
    symmetric: bool = True,
) -> Found[Action]:
    """Visit all reachable states. `progress` gets (states, transitions, depth) after each level. A state
    takes about 300 bytes of memory, besides the model's tables."""

    async def search() -> Found[Action]:
        try:
            beginning = model.begin()
        except Broken as broken:
            return Found(0, 0, 0, 0, False, Violation(broken.invariant, ()))
        return await _Search(model, beginning, symmetric=symmetric).run(states_max, progress)

    return trio.run(search, clock=model.clock)


def reachable(model: Model[Action], *, symmetric: bool = False) -> set[State]:
    """All states, whole; with `symmetric`, found as `explore` does. For small models."""

    async def search() -> set[State]:
        found = _Search(model, model.begin(), symmetric=symmetric)
        await found.run(None, None)
        return set(found.states())

    return trio.run(search, clock=model.clock)


class _Search(Generic[Action]):
    """A state that stands for its namesakes too is free, until a step is not alike for all of them."""

    def __init__(self, model: Model[Action], beginning: State, *, symmetric: bool) -> None:
        self._model = model
        self._symmetry = model.symmetry(beginning) if symmetric else None
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

    async def run(
        self, states_max: int | None, progress: Callable[[int, int, int], None] | None
    ) -> Found[Action]:
        depth = 0
        steps_max = self._model.steps_max
        while self._level and (steps_max is None or depth < steps_max):
            level, self._level = self._level, []
            for number, state, is_free in level:
                at = state
                try:
                    if is_free:
                        for at in await self._expand_free(number, state):
                            await self._expand_unlike(number, at)
                    else:
                        await self._expand(number, state)
                except Broken as broken:
                    path = await self._path(number, at)
                    return self._found(depth + 1, Violation(broken.invariant, (*path, (at, broken.action))))
                if states_max is not None and len(self._parents) >= states_max:
                    return self._found(depth + 1, None)
            depth += 1 if self._level else 0
            if progress is not None:
                progress(len(self._parents) - self._covered, self._transitions, depth)
        for invariant, action, breaks in self._model.violations_of_all():
            return self._found(depth, await self._first(invariant, action, breaks))
        return self._found(depth, None, complete=True)

    def states(self) -> Iterator[State]:
        """All that were visited or stood for."""
        for packed in self._numbers:
            yield from self._alike(*_unpacked(packed))

    # --- from one state to the next ---

    async def _expand(self, number: int, state: State) -> None:
        numbers = self._numbers
        for _, after in await self._model.next_states(state):
            self._transitions += 1
            if self._symmetry is not None:
                self._reach(after, number)
            elif (packed := _packed(after)) not in numbers:
                self._add(packed, after, number, is_free=False)

    async def _expand_free(self, number: int, state: State) -> Iterable[State]:
        """Return the states, of this and its namesakes, from which to take steps that are not alike."""
        symmetry = self._symmetry
        assert symmetry is not None
        is_alike = True
        for action, after in await self._model.next_states(state):
            self._transitions += 1
            if symmetry.keeps(state, action):
                self._reach_free(after, number)
            else:
                is_alike = False
        return () if is_alike else sorted(symmetry.namesakes(state))

    async def _expand_unlike(self, number: int, state: State) -> None:
        symmetry = self._symmetry
        assert symmetry is not None
        for action, after in await self._model.next_states(state):
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

    # --- the result ---

    def _found(
        self, depth: int, violation: Violation[Action] | None, *, complete: bool = False
    ) -> Found[Action]:
        states = len(self._parents) - self._covered
        return Found(states, states + self._namesakes, self._transitions, depth, complete, violation)

    def _alike(self, state: State, is_free: bool) -> Iterable[State]:
        """Return the state, and if it is free its namesakes."""
        if self._symmetry is None or not is_free:
            return (state,)
        return sorted(self._symmetry.namesakes(state))

    async def _first(
        self, invariant: str, action: Action, breaks: Callable[[State], bool]
    ) -> Violation[Action]:
        for number, packed in enumerate(self._numbers):
            for at in self._alike(*_unpacked(packed)):
                if breaks(at):
                    return Violation(invariant, (*await self._path(number, at), (at, action)))
        return Violation(invariant, ())  # only states out of bounds

    async def _path(self, number: int, state: State) -> tuple[tuple[State, Action], ...]:
        """Return the steps by which the state, or the namesake that stands for it, was first reached. In its
        own names: after a state that stands for several, the path goes on from the one that leads there."""
        packed = list(self._numbers)
        path: list[tuple[State, Action]] = []
        while number:
            number = self._parents[number]
            step = await anext(self._steps_to(state, self._alike(*_unpacked(packed[number]))))
            path.append(step)
            state = step[0]
        return tuple(reversed(path))

    async def _steps_to(self, state: State, parents: Iterable[State]) -> AsyncIterator[tuple[State, Action]]:
        for before in parents:
            for action, after in await self._model.next_states(before):
                if after == state:
                    yield before, action


_FREE = b"*"


def _packed(state: State) -> bytes:
    return array("I", state).tobytes()


def _unpacked(packed: bytes) -> tuple[State, bool]:
    """A state, and whether it is a free one."""
    is_free = len(packed) % array("I").itemsize != 0
    state = array("I")
    state.frombytes(packed[:-1] if is_free else packed)
    return tuple(state), is_free
