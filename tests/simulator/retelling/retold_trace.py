"""A golden trace as scripts, one for each of its clusters."""

from collections.abc import Iterator
from typing import Final

from quorate.play import steps as st
from quorate.play.start import Start
from quorate.raft.core import Effect, Event, Message, Received
from quorate.types import NodeId
from tests.simulator.core.core_world import CoreWorld
from tests.simulator.retelling.teller import CannotRetell, Teller
from tests.traces.interpreter import Interpreter

_FETCH: Final = 1000
_BEGINNING: Final = ("cluster", "log", "stored")
_UNKNOWN: Final = ("lease", "wait", "forge", "unchecked", "durable")
"""Commands that teaching mode has no step for."""


class _RetoldWorld(CoreWorld):
    """Tells what happens in it before it does."""

    def __init__(self, *, voters: int, observers: int, dynamic: bool) -> None:
        super().__init__(voters=voters, observers=observers, dynamic=dynamic)
        self._told: Teller | None = None

    @property
    def is_told(self) -> bool:
        return self._told is not None

    @property
    def teller(self) -> Teller:
        """It begins with what is on the disks when the first node starts."""
        if self._told is None:
            disks = [machine.disk for machine in self.nodes.values()]
            epochs = tuple(disk.election.epoch for disk in disks)
            logs = tuple(tuple(entry.epoch for entry in disk.entries) for disk in disks)
            start = Start(
                nodes=len(disks),
                voters=len(self.voters),
                dynamic=bool(self.bootstrap),
                logs=logs if any(logs) else (),
                epochs=epochs if any(epochs) else (),
                down=True,
                fetch=_FETCH,
            )
            self._told = Teller(start, lambda node: self.nodes[node].disk.directory_id)
        return self._told

    def way(self, message: Message) -> tuple[NodeId, NodeId]:
        return self.known_as(message.source), self.reached_by(message)

    def start(self, node: NodeId) -> tuple[Effect, ...]:
        self.teller.take(st.Restart(node))
        return super().start(node)

    def step(self, node: NodeId, event: Event, *, effects_done: int | None = None) -> tuple[Effect, ...]:
        if isinstance(event, Received):
            self.teller.deliver(event.message, self.way(event.message))
        else:
            self.teller.happen(node, event)
        return super().step(node, event, effects_done=effects_done)

    def crash(self, node: NodeId, *, keep: int | None = None) -> None:
        self.teller.take(st.Crash(node, power=keep is not None, keep=keep))
        super().crash(node, keep=keep)

    def wipe(self, node: NodeId) -> None:
        self.teller.take(st.Wipe(node))
        super().wipe(node)


class _Retelling(Interpreter):
    def __init__(self) -> None:
        super().__init__(lambda _: "", lambda _: "")
        self.worlds: list[_RetoldWorld] = []

    def new_world(self, *, voters: int, observers: int, dynamic: bool) -> CoreWorld:
        self.worlds.append(_RetoldWorld(voters=voters, observers=observers, dynamic=dynamic))
        return self.worlds[-1]

    @property
    def told(self) -> _RetoldWorld:
        if not self.worlds:
            raise CannotRetell("the trace has no cluster")
        return self.worlds[-1]

    def run(self, command: str) -> list[str]:
        name = command.split()[0]
        if name in _UNKNOWN or (name in _BEGINNING[1:] and self.told.is_told):
            raise CannotRetell(f"teaching mode has no step for {command!r}")
        shown = super().run(command)
        if name == "state":
            self.must_agree()
        return shown

    def lose(self, message: Message) -> None:
        self.told.teller.lose(message, self.told.way(message))

    def fail(self, message: Message) -> None:
        self.lose(message)

    def must_agree(self) -> None:
        for node, machine in self.told.nodes.items():
            self.told.teller.must_agree(
                node,
                role="down" if machine.core is None else machine.core.role.value,
                election=machine.disk.election,
                end_offset=len(machine.disk.entries),
            )


def retell_trace(text: str, *, title: str) -> Iterator[str]:
    """Yield the scripts. Raises `CannotRetell`."""
    retelling = _Retelling()
    prose: list[str] = []
    for line in text.splitlines():
        name = line[2:].split()[0] if line.startswith("> ") else ""
        if name == "cluster" and retelling.worlds:
            yield _script(retelling, title)
        if name and name not in _BEGINNING and prose:
            retelling.told.teller.say(" ".join(prose))
            prose = []
        if name:
            retelling.run(line[2:])
        elif line and not line.startswith("    "):
            prose.append(line)
    if prose:
        retelling.told.teller.say(" ".join(prose))
    yield _script(retelling, title)


def _script(retelling: _Retelling, title: str) -> str:
    retelling.must_agree()
    number = len(retelling.worlds)
    return retelling.told.teller.script(
        title=title if number == 1 else f"{title} ({number})", source="a golden trace of the core"
    )
