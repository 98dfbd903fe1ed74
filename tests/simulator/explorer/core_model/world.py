"""All nodes together: what may happen next in a state, and what it comes to.

A state is a short tuple of small numbers: the budgets left, the past, the machine of each node, and the
messages under way (a multiset, so sorted). The numbers are names for things that are kept once, in tables.
What a machine makes of an event is computed once, so most transitions are a few look-ups.

Answers that nobody waits for are left out; they must do nothing (`InFlight.heeded_answers` checks that).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from quorate.raft.core import (
    AddVoter,
    ChangeVoters,
    Core,
    Event,
    Propose,
    ReadIndex,
    RemoveVoter,
    Request,
    Role,
)
from quorate.simulation.violations import SafetyViolation
from quorate.types import ReplicaKey
from tests.simulator.core.core_node import CoreFactory
from tests.simulator.explorer.core_model import explored_invariants as invariants
from tests.simulator.explorer.core_model.actions import DIRECTORY, FREE, REQUEST, Action, Transition
from tests.simulator.explorer.core_model.bounds import Bound, Budget
from tests.simulator.explorer.core_model.explored_invariants import Past
from tests.simulator.explorer.core_model.in_flight import InFlight
from tests.simulator.explorer.core_model.machine import History, Machine, NodeDisk, Observation, Packet, up_to
from tests.simulator.explorer.model import Broken, Memo, State, Table

_MACHINES: Final = 2
"""The index of the first machine in a State."""


class World(InFlight):
    """The transition system of one `Bound`. `core` is the shipped one, or a broken one for a test of the
    tests."""

    def __init__(self, bound: Bound, *, core: CoreFactory = Core, reduce: bool = True) -> None:
        super().__init__(bound, core=core, reduce=reduce)
        self.cut = 0
        """Transitions that led out of bounds."""

        self.pasts: Table[Past] = Table()
        self.budgets: Table[tuple[int, ...]] = Table()

        self._spent = Memo(self._spend)
        """The budgets of (budgets, kind) after one more event of that kind."""
        self._histories: Table[History] = Table()
        self._history_of = Memo(self._history)
        self._matched = Memo(self._logs_match)
        """True for two histories that match."""
        self._heights = Memo(self._height)
        """The epoch of a machine, and the batches in its log."""
        self._end = _MACHINES + len(self.names)
        """The index of the first packet in a State."""
        self.epoch_max = self.batches_max = self.in_flight_max = 10**6

    # --- the beginning ---

    def down(self) -> State:
        """Return the state in which every node is down, with an empty disk. No bound counts yet."""
        self.epoch_max = self.batches_max = self.in_flight_max = 10**6
        machines = tuple(
            self.machines.number(Machine(ReplicaKey(each, DIRECTORY), None, NodeDisk()))
            for each in self.names
        )
        return (self.budgets.number(self.bound.budgets), self.pasts.number(Past()), *machines)

    def limit(self, state: State) -> None:
        """Begin the bound at this state, without the steps that the initial state needed."""
        self.epoch_max = self.bound.epochs + max(m.disk.election.epoch for m in self.machines_of(state))
        self.batches_max = self.bound.batches + max(len(m.disk.history) for m in self.machines_of(state))
        self.in_flight_max = self.bound.in_flight

    def machines_of(self, state: State) -> list[Machine]:
        return [self.machines[number] for number in state[_MACHINES : self._end]]

    def machine_of(self, state: State, node: int) -> int:
        """Return the number of a node's machine. Nodes by index."""
        return state[_MACHINES + node]

    def packets_of(self, state: State) -> list[tuple[int, Packet]]:
        return [(number, self.packets[number]) for number in state[self._end :]]

    def happens(self, state: State, node: int, event: Event) -> State:
        """Apply one event at no cost to the budgets. For initial states. Raises Broken."""
        number = self.events.number(event)
        transition = self.stepped[state[_MACHINES + node], number]
        return self._after(Action("step", node, number), state, transition)

    def arrives(self, state: State, packet: int) -> State:
        """Deliver a packet. For initial states. Raises Broken."""
        node = self.destination(packet)
        transition = self.received[state[_MACHINES + node], packet]
        return self._after(Action("deliver", node, packet), state, transition, taken=packet)

    def starts(self, state: State, node: int) -> State:
        """Start a node. For initial states. Raises Broken."""
        return self._after(Action("start", node), state, self.started[state[_MACHINES + node]])

    def _after(
        self, action: Action, state: State, transition: Transition, *, taken: int | None = None
    ) -> State:
        return next(self._apply(action, state, transition, state[0], taken=taken))[1]

    def falls(self, state: State, node: int) -> State:
        """A process crash. For initial states."""
        number = state[_MACHINES + node]
        down = self.crashed[number, len(self.machines[number].disk.history)]
        return self._fallen(state, node, down, state[0])

    def vanishes(self, state: State, packet: int) -> State:
        """The message is lost. For initial states."""
        return self._without(state, packet, state[0])

    # --- what may happen next ---

    def successors(self, state: State) -> Iterator[tuple[Action, State]]:
        """Every state that one thing can lead to, some more than once. Raises Broken."""
        budgets = state[0]
        left = self.budgets[budgets]
        machines, packets = state[_MACHINES : self._end], state[self._end :]
        can_crash = left[Budget.CRASHES] > 0
        can_lose_power = left[Budget.POWER_LOSSES] > 0

        before = -1
        for packet in packets:
            if packet == before:
                continue
            before = packet
            node = self.destination(packet)
            number = machines[node]
            if left[Budget.LOSSES]:
                after = self._without(state, packet, self._spent[budgets, Budget.LOSSES])
                yield Action("lose", node, packet), after
            if self.machines[number].core is None:
                continue
            transition = self.received[number, packet]
            action = Action("deliver", node, packet)
            yield from self._apply(action, state, transition, budgets, taken=packet)
            if left[Budget.DUPLICATES]:
                spent = self._spent[budgets, Budget.DUPLICATES]
                yield from self._apply(Action("repeat", node, packet), state, transition, spent)
            if can_crash and transition.crash_points:
                yield from self._crashes_midway(action, state, transition, taken=packet)

        for node, number in enumerate(machines):
            each = self.machines[number]
            if each.core is None:
                transition, action = self.started[number], Action("start", node)
                yield from self._apply(action, state, transition, budgets)
                if can_crash and transition.crash_points:
                    yield from self._crashes_midway(action, state, transition)
                continue
            for event, cost in self.enabled(number, left):
                if cost == REQUEST:
                    cost = FREE if self.is_lost(node, event, machines, packets) else Budget.TIMEOUTS
                if cost != FREE and not left[cost]:
                    continue
                spent = budgets if cost == FREE else self._spent[budgets, cost]
                action = Action("step", node, event)
                transition = self.stepped[number, event]
                yield from self._apply(action, state, transition, spent)
                if can_crash and transition.crash_points and spent == budgets:
                    yield from self._crashes_midway(action, state, transition)
            if can_crash:
                down = self.crashed[number, len(each.disk.history)]
                spent = self._spent[budgets, Budget.CRASHES]
                yield Action("crash", node), self._fallen(state, node, down, spent)
            if can_lose_power:
                disk = each.disk
                spent = self._spent[budgets, Budget.POWER_LOSSES]
                for keep in range(len(up_to(disk.history, disk.synced)), len(disk.history)):
                    down = self.crashed[number, keep]
                    yield Action("power", node, keep=keep), self._fallen(state, node, down, spent)

    def enabled(self, number: int, left: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Yield (event, cost) for the events that may happen to a machine by itself."""
        yield from self.own_events[number]
        if self.machines[number].up.role is Role.LEADER:
            if left[Budget.APPENDS]:
                yield self.events.number(Propose(self._used(left, Budget.APPENDS), 1)), Budget.APPENDS
            if left[Budget.READS]:
                yield self.events.number(ReadIndex(self._used(left, Budget.READS) + 1)), Budget.READS
            if left[Budget.VOTER_CHANGES]:
                request = self._used(left, Budget.VOTER_CHANGES)
                for change in self._changes(self.machines[number].up):
                    yield self.events.number(ChangeVoters(request, change)), Budget.VOTER_CHANGES

    def _used(self, left: tuple[int, ...], budget: Budget) -> int:
        return self.bound.budgets[budget] - left[budget]

    def _changes(self, core: Core) -> Iterator[AddVoter | RemoveVoter]:
        for voter in core.voters:
            yield RemoveVoter(voter.key)
        for each in self.names:
            if each not in core.voters:
                yield AddVoter(self.voter(each))

    # --- what it comes to ---

    def _apply(
        self,
        action: Action,
        state: State,
        transition: Transition,
        budgets: int,
        *,
        taken: int | None = None,
    ) -> Iterator[tuple[Action, State]]:
        """Yield the one next state, or none if it is out of bounds."""
        if transition.broken:
            raise Broken(action, transition.broken)
        node = action.node
        machines, packets = self._parts(state, without=taken)
        changed = machines[node] != transition.machine
        machines[node] = transition.machine
        if transition.forgotten:
            packets = self.forget(node, transition.forgotten, packets, machines)
        if transition.sent:
            packets.extend(transition.sent)
        if len(packets) and (transition.sent or transition.forgotten):
            packets = self.settled(packets)
        if (changed and self._is_high(transition.machine)) or len(packets) > self.in_flight_max:
            self.cut += 1
            return
        past = state[1]
        if action.what == "step":
            event = self.events[action.event]
            if isinstance(event, ReadIndex):
                asked = invariants.asked_to_read(self.pasts[past], self.names[node], event.read_round)
                past = self.pasts.number(asked)
        past = self._observe(action, past, transition.observations, machines, state[_MACHINES + node])
        packets.sort()
        yield action, (budgets, past, *machines, *packets)

    def _parts(self, state: State, *, without: int | None = None) -> tuple[list[int], list[int]]:
        """Return the machines and the packets, but for one packet."""
        packets = list(state[self._end :])
        if without is not None:
            packets.remove(without)
        return list(state[_MACHINES : self._end]), packets

    def _is_high(self, machine: int) -> bool:
        """Return whether a machine is out of bounds."""
        epoch, batches = self._heights[machine]
        return epoch > self.epoch_max or batches > self.batches_max

    def _crashes_midway(
        self, action: Action, state: State, transition: Transition, *, taken: int | None = None
    ) -> Iterator[tuple[Action, State]]:
        """Yield the states after a crash in the middle of the step."""
        node = action.node
        budgets, number = self._spent[state[0], Budget.CRASHES], state[_MACHINES + node]
        for crash_point, (disk, sent, observations) in enumerate(transition.crash_points):
            here = replace(action, crash_point=crash_point)
            machines, packets = self._parts(state, without=taken)
            disk = replace(disk, synced=disk.end_offset)
            down = machines[node] = self.machines.number(self.machines[number].down(disk))
            past = self._observe(here, state[1], observations, machines, number)
            fallen = self._fallen((budgets, past, *machines, *packets, *sent), node, down, budgets)
            if len(fallen) - self._end > self.in_flight_max or self._is_high(down):
                self.cut += 1
            else:
                yield here, fallen

    def _fallen(self, state: State, node: int, down: int, budgets: int) -> State:
        """The node is down: its connections break, and with them end all answers on the way to it."""
        machines, packets = self._parts(state)
        machines[node] = down
        here = self.names[node]
        packets = self.forget(node, tuple(each for each in self.names if each != here), packets, machines)
        kept = []
        for packet in packets:
            message = self.packets[packet].message
            if message.destination != here or isinstance(message, Request):
                kept.append(packet)
        kept.sort()
        past = self.pasts.number(invariants.crashed(self.pasts[state[1]], here))
        return (budgets, past, *machines, *kept)

    def _without(self, state: State, packet: int, budgets: int) -> State:
        machines, packets = self._parts(state, without=packet)
        return (budgets, state[1], *machines, *packets)

    def _observe(
        self,
        action: Action,
        past: int,
        observations: tuple[Observation, ...],
        machines: list[int],
        before: int,
    ) -> int:
        node = action.node
        number, history = machines[node], self._history_of[machines[node]]
        changed = history != self._history_of[before]
        moved = self._heights[number][0] != self._heights[before][0]
        if not (observations or changed or moved):
            return past
        now = self.pasts[past]
        things = [self.machines[each] for each in machines]
        try:
            if observations:
                now = invariants.seen(now, node, observations, things, self.static)
        except SafetyViolation as violation:
            raise Broken(action, str(violation)) from violation
        if changed:
            for other in machines:
                if other != number and not self._matched[history, self._history_of[other]]:
                    one, two = self.machines[number], self.machines[other]
                    raise Broken(
                        action,
                        f"logs match up to where their epochs do: node {one.key.id} {one.disk.history}, "
                        f"node {two.key.id} {two.disk.history}",
                    )
        return self.pasts.number(invariants.pruned(now, things))

    # --- computed once ---

    def _logs_match(self, pair: tuple[int, int]) -> bool:
        return invariants.logs_match(self._histories[pair[0]], self._histories[pair[1]])

    def _history(self, number: int) -> int:
        return self._histories.number(self.machines[number].disk.history)

    def _spend(self, key: tuple[int, int]) -> int:
        counts = list(self.budgets[key[0]])
        counts[key[1]] -= 1
        return self.budgets.number(tuple(counts))

    def _height(self, number: int) -> tuple[int, int]:
        disk = self.machines[number].disk
        return disk.election.epoch, len(disk.history)
