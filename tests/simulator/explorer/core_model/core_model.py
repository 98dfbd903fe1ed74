"""The core's transition system as the search sees it."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from tests.simulator.explorer.core_model.actions import Action
from tests.simulator.explorer.core_model.descriptions import describe, describe_machine
from tests.simulator.explorer.core_model.initial_states import InitialStateError, begin
from tests.simulator.explorer.core_model.symmetry import Symmetry
from tests.simulator.explorer.core_model.world import World
from tests.simulator.explorer.model import Broken, Model, State


class CoreModel(World, Model[Action]):
    """All states of one `Bound`, and their symmetry."""

    @property
    def steps_max(self) -> int | None:
        return self.bound.steps

    def begin(self) -> State:
        try:
            return begin(self)
        except InitialStateError as error:
            raise Broken(Action("begin", -1), f"the initial state comes about: {error}") from error

    async def next_states(self, state: State) -> Iterable[tuple[Action, State]]:
        return self.successors(state)

    def symmetry(self, beginning: State) -> Symmetry | None:
        return Symmetry(self, beginning) or None

    def violations_of_all(self) -> Iterator[tuple[str, Action, Callable[[State], bool]]]:
        for machine, action in self.heeded_answers():
            yield (
                "an answer that nobody waits for is ignored",
                action,
                partial(self._has, machine, action.node),
            )

    def _has(self, machine: int, node: int, state: State) -> bool:
        return self.machine_of(state, node) == machine

    @property
    def beginning(self) -> str:
        return f"the initial state '{self.bound.initial}'"

    def describe(self, action: Action) -> str:
        return describe(self, action)

    def describe_state(self, state: State) -> Iterator[str]:
        yield from map(describe_machine, self.machines_of(state))

    def describe_step(self, before: State, action: Action, after: State) -> Iterator[str]:
        machine = self.machines_of(after)[action.node]
        if machine is not self.machines_of(before)[action.node]:
            yield describe_machine(machine)
