"""States that differ only by the names of nodes, taken for one wherever that leaves nothing out.

The core is not blind to names: it walks voters in the order of their ids, and a node that knows no leader
asks the lowest first. So a renamed state need not go on as its namesake does, and symmetry is never assumed
here. It is asked of every step of the shipped core, once per (machine, event): the renamed machine, given the
renamed event, must come to the renamed outcome, in what it stores, sends, arms and forgets.

The group: renamings under which the exploration's initial state stays what it is (of an elected leader's two
followers, say). As long as every step on the way to a state was alike under all of them, all its namesakes
are reached just so: one of them, the least, stands for all. A state with a step that is not alike is where
the symmetry ends: that step is taken from each namesake as it is, and what comes after it stands for itself
alone. So the states stood for are exactly those that are visited without this reduction, not only up to
names.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from tests.simulator.explorer.core_model.actions import Action, Transition
from tests.simulator.explorer.core_model.machine import Machine
from tests.simulator.explorer.core_model.renamed_core import renamed
from tests.simulator.explorer.core_model.renaming import Renaming
from tests.simulator.explorer.model import Memo, State

if TYPE_CHECKING:
    from tests.simulator.explorer.core_model.world import World

_BY_ITSELF = ("lose", "crash", "power")
"""Events that happen to a node without its core."""


class Symmetry:
    """The renamings, but for the one that changes nothing, that leave `beginning` as it is."""

    def __init__(self, world: "World", beginning: State) -> None:
        self._world = world
        others = [_Renamed(world, order) for order in _orders(world)]
        self._renamings = [each for each in others if each.state(beginning) == beginning]
        self._kept = Memo(self._is_kept)

    def __bool__(self) -> bool:
        return bool(self._renamings)

    def least(self, state: State) -> State:
        """The one that stands for this state and its namesakes."""
        return min(state, *(each.state(state) for each in self._renamings))

    def namesakes(self, state: State) -> set[State]:
        """Return the state's namesakes, itself among them."""
        return {state, *(each.state(state) for each in self._renamings)}

    def keeps(self, state: State, action: Action) -> bool:
        """Return whether this step is alike under all renamings."""
        if action.what in _BY_ITSELF:
            return True
        number = self._world.machine_of(state, action.node)
        return self._kept["deliver" if action.what == "repeat" else action.what, number, action.event]

    def _is_kept(self, step: tuple[str, int, int]) -> bool:
        return all(each.keeps(*step) for each in self._renamings)


def _orders(world: "World") -> Iterator[tuple[int, ...]]:
    """Yield the orders of the nodes, by index, in which voters stay voters; but for the present one."""
    nodes, voters = len(world.names), world.bound.voters
    for order in permutations(range(voters)):
        for rest in permutations(range(voters, nodes)):
            if (*order, *rest) != tuple(range(nodes)):
                yield (*order, *rest)


class _Renamed:
    """A renaming of one world's things, by their numbers."""

    def __init__(self, world: "World", order: tuple[int, ...]) -> None:
        """The node at index i gets the name, and the place, of the one at `order[i]`."""
        self._world = world
        self._nodes = len(order)
        self._from = tuple(order.index(index) for index in range(len(order)))
        names = world.names
        self._to = Renaming(
            {names[old]: names[new] for old, new in enumerate(order)},
            {
                world.voter(names[old]).endpoint: world.voter(names[new]).endpoint
                for old, new in enumerate(order)
            },
        )
        to = self._to
        self._machines = world.machines.mapped(self._machine)
        self._packets = world.packets.mapped(to.of)
        self._events = world.events.mapped(to.of)
        self._pasts = world.pasts.mapped(to.of)

    def state(self, state: State) -> State:
        after = 2 + self._nodes
        packets = self._renamed_packets(state[after:]) if len(state) > after else ()
        machines = [self._machines[state[2 + index]] for index in self._from]
        return (state[0], self._pasts[state[1]], *machines, *packets)

    def _renamed_packets(self, numbers: tuple[int, ...]) -> list[int]:
        return sorted(self._packets[number] for number in numbers)

    def _machine(self, machine: Machine) -> Machine:
        core = None if machine.core is None else renamed(machine.core, self._to)
        return replace(self._to.of(replace(machine, core=None)), core=core)

    def keeps(self, what: str, number: int, event: int) -> bool:
        """Return whether the machine's namesake does the same, in the other names."""
        world, namesake = self._world, self._machines[number]
        match what:
            case "deliver":
                transition = world.received[number, event]
                other = world.received[namesake, self._packets[event]]
            case "start":
                transition, other = world.started[number], world.started[namesake]
            case _:
                transition, other = world.stepped[number, event], world.stepped[namesake, self._events[event]]
                if not self._may_do_alike(number, namesake):
                    return False
        return self._is_alike(transition, other)

    def _may_do_alike(self, number: int, namesake: int) -> bool:
        ours = {(self._events[event], cost) for event, cost in self._world.own_events[number]}
        return ours == set(self._world.own_events[namesake])

    def _is_alike(self, transition: Transition, other: Transition) -> bool:
        if transition.broken or other.broken:
            return bool(transition.broken) == bool(other.broken)
        to = self._to
        return (
            self._machines[transition.machine] == other.machine
            and self._renamed_packets(transition.sent) == sorted(other.sent)
            and tuple(map(to.of, transition.observations)) == other.observations
            and set(map(to.node, transition.forgotten)) == set(other.forgotten)
            and [
                (to.of(disk), self._renamed_packets(sent), tuple(map(to.of, observations)))
                for disk, sent, observations in transition.crash_points
            ]
            == [(disk, sorted(sent), observations) for disk, sent, observations in other.crash_points]
        )
