"""A state taken apart, while a step changes it; and the tables of all that states are made of."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import PartitionState
from tests.simulator.explorer.isr_model.broker_steps import BrokerSteps, StepClock
from tests.simulator.explorer.isr_model.controller_steps import ControllerSteps, ControlState, Decision
from tests.simulator.explorer.isr_model.explored_broker import ExploredBroker, Process
from tests.simulator.explorer.isr_model.explored_images import numbered_images, partition_of
from tests.simulator.explorer.isr_model.isr_bounds import Budget, IsrBound
from tests.simulator.explorer.isr_model.isr_invariants import IsrPast, check, exposed, moved
from tests.simulator.explorer.isr_model.isr_packets import Packet
from tests.simulator.explorer.model import State, Table

T = TypeVar("T")

_HEAD = 3
"""A state begins with the numbers of the budgets left, the past and the controller. Those of each broker
follow, and then those of the packets, in order."""


class Tables:
    """Everything that occurs in an exploration, each once, and each step of one broker or of the controller,
    computed once."""

    def __init__(self, bound: IsrBound, clock: StepClock) -> None:
        self.bound = bound
        self.ids = tuple(range(1, bound.brokers + 1))
        self.images = numbered_images()
        self.steps = BrokerSteps(self.images, clock)
        self.controller = ControllerSteps(self.images, at_once=bound.at_once)
        self.lefts: Table[tuple[int, ...]] = Table()
        self.pasts: Table[IsrPast] = Table()
        self.controls: Table[ControlState] = Table()
        self.machines: Table[ExploredBroker] = Table(ExploredBroker.key)
        self.packets: Table[Packet] = Table()
        self.decisions: dict[object, tuple[int, Decision]] = {}
        self.steps_taken: dict[tuple[int, object], tuple[int, object] | None] = {}
        """The broker after each step, and the step's outcome, by the broker before and what distinguishes the
        step. None: there is no such step."""
        self.checked: dict[tuple[int, ...], int] = {}

    def scene(self, state: State) -> "Scene":
        """Return a state taken apart."""
        end = _HEAD + len(self.ids)
        brokers = dict(zip(self.ids, state[_HEAD:end], strict=True))
        return Scene(self, self.lefts[state[0]], state[1], state[2], brokers, list(state[end:]))

    def numbered(self, past: IsrPast, control: ControlState, machines: dict[int, ExploredBroker]) -> State:
        """Return a state with nothing under way and all budgets left."""
        return (
            self.lefts.number(self.bound.budgets),
            self.pasts.number(past),
            self.controls.number(control),
            *(self.machines.number(machines[each]) for each in self.ids),
        )


@dataclass(slots=True)
class Scene:
    """Brokers and packets are numbers."""

    tables: Tables
    left: tuple[int, ...]
    past: int
    control: int
    brokers: dict[int, int]
    packets: list[int]

    # What is there

    def state(self) -> State:
        """Return the state that it has become."""
        return (
            self.tables.lefts.number(self.left),
            self.past,
            self.control,
            *self.brokers.values(),
            *sorted(self.packets),
        )

    def machine(self, broker_id: int) -> ExploredBroker:
        """Return a broker."""
        return self.tables.machines[self.brokers[broker_id]]

    def process(self, broker_id: int) -> Process:
        """Return the process of a broker that has one."""
        process = self.machine(broker_id).process
        assert process is not None
        return process

    @property
    def controlling(self) -> ControlState:
        """The controller's knowledge."""
        return self.tables.controls[self.control]

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""
        return self.tables.images[self.controlling.image]

    @property
    def partition(self) -> PartitionState:
        """The partition's newest state."""
        return partition_of(self.image)

    def under_way(self) -> Iterator[Packet]:
        """Yield the packets."""
        return map(self.tables.packets.__getitem__, self.packets)

    # What changes it

    def send(self, packet: Packet) -> None:
        """Add a packet."""
        self.packets.append(self.tables.packets.number(packet))

    def spend(self, what: Budget) -> None:
        """Note that it happened once more."""
        self.left = (*self.left[:what], self.left[what] - 1, *self.left[what + 1 :])

    def past_becomes(self, change: Callable[[IsrPast], IsrPast]) -> None:
        """Change the facts that the invariants remember."""
        self.past = self.tables.pasts.number(change(self.tables.pasts[self.past]))

    def step(self, broker_id: int, what: object, act: Callable[[ExploredBroker], ExploredBroker]) -> None:
        """Let a broker take a step. `what` distinguishes it from every other step."""
        self.step_with(broker_id, what, lambda machine: (act(machine), None))

    def step_with(
        self, broker_id: int, what: object, act: Callable[[ExploredBroker], tuple[ExploredBroker, T] | None]
    ) -> T | None:
        """Let a broker take a step with an outcome. None: there is no such step."""
        key = (self.brokers[broker_id], what)
        if key not in self.tables.steps_taken:
            self._take_down(key, act(self.machine(broker_id)))
        return cast("T | None", self._repeat(broker_id, key))

    async def step_awaited(
        self,
        broker_id: int,
        what: object,
        act: Callable[[ExploredBroker], Awaitable[tuple[ExploredBroker, T]]],
    ) -> T:
        """Do the same for a step of asynchronous code."""
        key = (self.brokers[broker_id], what)
        if key not in self.tables.steps_taken:
            self._take_down(key, await act(self.machine(broker_id)))
        return cast("T", self._repeat(broker_id, key))

    def _take_down(self, key: tuple[int, object], result: tuple[ExploredBroker, object] | None) -> None:
        self.tables.steps_taken[key] = (
            None if result is None else (self.tables.machines.number(result[0]), result[1])
        )

    def _repeat(self, broker_id: int, key: tuple[int, object]) -> object:
        """Take a step that was computed before, and return its outcome."""
        result = self.tables.steps_taken[key]
        if result is None:
            return None
        self.brokers[broker_id], outcome = result
        return outcome

    def decide(self, what: object, act: Callable[[ControlState], Decision]) -> Decision:
        """Let the controller take a step, and send the committed images to every broker."""
        tables, key = self.tables, (self.control, what)
        found = tables.decisions.get(key)
        if found is None:
            decision = act(self.controlling)
            found = tables.decisions[key] = (tables.controls.number(decision.state), decision)
        self.control, decision = found
        if decision.committed_changes:
            machines = {each: self.machine(each) for each in self.brokers}
            for change in decision.committed_changes:
                past = moved(tables.pasts[self.past], change, machines, unclean=tables.bound.unclean)
                self.past = tables.pasts.number(past)
        if decision.images:
            for each in self.brokers:
                self.step(each, decision.images, lambda machine: _shown(machine, decision.images))
        return decision

    def check(self) -> bool:
        """Take in the records that leaders expose, and check the invariants. Return False if the state is out
        of bounds. Raises `SafetyViolation`."""
        checked = self.tables.checked
        key = (self.past, self.controlling.image, *self.brokers.values())
        past = checked.get(key)
        if past is None:
            past = checked[key] = self._checked()
        if past < 0:
            return False
        self.past = past
        return True

    def _checked(self) -> int:
        tables = self.tables
        machines = [tables.machines[number] for number in self.brokers.values()]
        for machine in machines:
            if machine.process is not None and len(machine.process.inbox) > tables.bound.behind:
                return -1
        past = tables.pasts[self.past]
        for machine in machines:
            past = exposed(past, machine)
        check(past, self.partition, machines)
        return tables.pasts.number(past)


def _shown(machine: ExploredBroker, images: tuple[int, ...]) -> ExploredBroker:
    process = machine.process
    if process is None or (process.view < 0 and not process.inbox):
        return machine
    later = process.copied()
    later.inbox = (*process.inbox, *images)
    return replace(machine, process=later)
