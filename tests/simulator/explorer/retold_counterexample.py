"""A counterexample of the core's explorer as a script, from empty disks to the broken invariant."""

import contextlib
from typing import Final

from quorate.play import steps as st
from quorate.play.start import Start
from quorate.raft.core import Event, Message
from tests.simulator.explorer.core_model.actions import DIRECTORY, Action
from tests.simulator.explorer.core_model.canonical import CURRENT
from tests.simulator.explorer.core_model.core_model import CoreModel
from tests.simulator.explorer.core_model.initial_states import begin
from tests.simulator.explorer.core_model.machine import end_of
from tests.simulator.explorer.model import Broken, State, Violation
from tests.simulator.retelling.teller import CannotRetell, Teller

_STORES_MAX: Final = 5


class _Recording(CoreModel):
    """Remembers what leads to the initial state."""

    def __init__(self, model: CoreModel) -> None:
        super().__init__(model.bound)
        self.done: list[tuple[Action, Event | Message | None]] = []

    def happens(self, state: State, node: int, event: Event) -> State:
        self.done.append((Action("step", node), event))
        return super().happens(state, node, event)

    def arrives(self, state: State, packet: int) -> State:
        self._note("deliver", packet)
        return super().arrives(state, packet)

    def vanishes(self, state: State, packet: int) -> State:
        self._note("lose", packet)
        return super().vanishes(state, packet)

    def starts(self, state: State, node: int) -> State:
        self.done.append((Action("start", node), None))
        return super().starts(state, node)

    def falls(self, state: State, node: int) -> State:
        self.done.append((Action("crash", node), None))
        return super().falls(state, node)

    def _note(self, what: str, packet: int) -> None:
        self.done.append((Action(what, self.destination(packet)), self.packets[packet].message))


def retell_counterexample(model: CoreModel, violation: Violation[Action], *, title: str, source: str) -> str:
    """Return the script. Raises `CannotRetell`."""
    bound = model.bound
    start = Start(
        nodes=bound.voters + bound.observers, voters=bound.voters, down=True, fetch=bound.fetch_batches
    )
    teller = Teller(start, lambda _: DIRECTORY)
    beginning = _Recording(model)
    with contextlib.suppress(Broken):  # if it is broken on the way there, the last event breaks it
        begin(beginning)
    teller.say(f"First, the way to {model.beginning}. It takes {len(beginning.done)} events.")
    for action, what in beginning.done:
        _tell(teller, model, action, what)
    states = [state for state, _ in violation.path]
    if states:
        _must_agree(teller, model, states[0])
        teller.say(
            f"From here on it is the counterexample: {len(states)} steps, each told before it happens."
        )
    for index, (state, action) in enumerate(violation.path):
        told = model.describe(action)
        teller.say(f"{index + 1}. {told[0].upper()}{told[1:]}.")
        after = states[index + 1] if index + 1 < len(states) else None
        if action.crash_point >= 0:
            teller = _tell_crash_midway(teller, model, action, after)
        else:
            _tell(teller, model, action, _content(model, action), keep=_kept(model, state, action))
        if after is not None:
            _must_agree(teller, model, after)
    teller.say(f"The explorer says that this is broken: {violation.invariant}.")
    return teller.script(title=title, source=source)


def _content(model: CoreModel, action: Action) -> Event | Message | None:
    if action.what in ("deliver", "repeat", "lose"):
        return model.packets[action.event].message
    return model.events[action.event] if action.what == "step" else None


def _kept(model: CoreModel, state: State, action: Action) -> int:
    """Return the end of what a loss of power leaves."""
    return end_of(model.machines_of(state)[action.node].disk.history[: max(0, action.keep)])


def _tell(
    teller: Teller, model: CoreModel, action: Action, what: Event | Message | None, *, keep: int = 0
) -> None:
    node = model.names[action.node]
    match action.what, what:
        case "start", None:
            teller.take(st.Restart(node))
        case "crash", None:
            teller.take(st.Crash(node))
            teller.lose_answers_to(node)
        case "power", None:
            teller.take(st.Crash(node, power=True, keep=keep))
            teller.lose_answers_to(node)
        case ("deliver" | "repeat" | "lose") as kind, message if isinstance(message, Message):
            way, awaited = (message.source, node), message.correlation == CURRENT
            if kind == "lose":
                teller.lose(message, way, awaited=awaited)
            else:
                teller.deliver(message, way, awaited=awaited, stays=kind == "repeat")
        case "step", event if event is not None and not isinstance(event, Message):
            teller.happen(node, event)
        case kind, _:
            raise CannotRetell(f"no step for {kind}")


def _tell_crash_midway(teller: Teller, model: CoreModel, action: Action, after: State | None) -> Teller:
    """Find out before which store the node crashes: the explorer counts only those after which a crash makes
    a difference."""
    node = model.names[action.node]
    for stores in range(1, _STORES_MAX):
        tried = teller.copy()
        tried.take(st.Doom(node, stores))
        _tell(tried, model, action, _content(model, action))
        if tried.world.nodes[node].core is not None:
            break
        tried.lose_answers_to(node)
        try:
            if after is not None:
                _must_agree(tried, model, after)
        except CannotRetell:
            continue
        return tried
    raise CannotRetell(f"node {node} does not crash where the explorer lets it")


def _must_agree(teller: Teller, model: CoreModel, state: State) -> None:
    for machine in model.machines_of(state):
        teller.must_agree(
            machine.key.id,
            role="down" if machine.core is None else machine.core.role.value,
            election=machine.disk.election,
            end_offset=machine.disk.end_offset,
        )
