"""Clients of simulated cores: they append and read, and record the answers."""

from dataclasses import dataclass, field

from quorate.raft.core import (
    AppendProposal,
    Effect,
    HighWatermarkAdvanced,
    ReadIndexConfirmed,
    ReadIndexFailed,
    RejectProposal,
    Role,
    RoleChanged,
)
from quorate.simulation.histories.history import AppendCall, AppendOutcome, ClientRead, History
from quorate.types import NodeId, Offset
from tests.simulator.core.core_node import CoreNode
from tests.simulator.core.core_swarm import CoreSwarm


@dataclass(slots=True)
class Call:
    """A call of a client. `invoked_at` counts steps: no two events share one."""

    client: str
    node: NodeId
    incarnation: int
    invoked_at: int
    append: AppendCall | None
    """The append; None for a read."""
    needs: Offset | None = None
    """The high watermark at which a read may be answered."""


@dataclass(slots=True)
class CoreClients:
    """Ask the nodes that believe to lead, one call at a time each (a new client for each call that is
    stuck)."""

    swarm: CoreSwarm
    history: History = field(default_factory=lambda: History(whole=False))
    """Cores know no batches: of one that was not acknowledged, the end may be lost."""
    open: list[Call] = field(default_factory=list)
    """The calls not answered yet."""
    busy: dict[NodeId, None] = field(default_factory=dict)
    """Nodes that may not be asked to append, because they transfer leadership."""
    _calls: int = 0
    _refused: int = 0
    _read_rounds: int = 0
    _by_proposal: dict[int, tuple[Call, AppendCall]] = field(default_factory=dict)
    _by_round: dict[tuple[NodeId, int], Call] = field(default_factory=dict)
    _moment: int = 0
    _finished: bool = False

    def __post_init__(self) -> None:
        self.swarm.on_step_effect.append(self._observe)
        self.swarm.plan(0, self._append)
        self.swarm.plan(0, self._read)

    def finish(self) -> None:
        """Stop beginning calls."""
        self._finished = True

    # --- calls ---

    def _append(self) -> None:
        if self._finished:
            return
        swarm = self.swarm
        swarm.plan(swarm.random.randint(0, 2 * swarm.settings.append_every_ms), self._append)
        node = self._target()
        if node is None or node in self.busy:
            return
        count, first = swarm.random.randint(1, 3), swarm.next_value
        records = [b"%d" % value for value in range(first, first + count)]
        append = self.history.invoke(f"client-{self._calls}", records, self._moment + 1)
        self._by_proposal[first] = self._begin(node, append), append
        swarm.propose(node, count)

    def _read(self) -> None:
        if self._finished:
            return
        swarm = self.swarm
        swarm.plan(swarm.random.randint(0, 2 * swarm.settings.read_every_ms), self._read)
        node = self._target()
        if node is None:
            return
        self._read_rounds += 1
        self._by_round[node, self._read_rounds] = self._begin(node, None)
        swarm.read_index(node, self._read_rounds)

    def _target(self) -> NodeId | None:
        """Draw a node, mostly one that believes it leads. There may be several."""
        running = self.swarm.running
        leading = [node for node in running if self.swarm.nodes[node].up.role is Role.LEADER]
        if leading and self.swarm.random.random() < 0.95:
            return self.swarm.random.choice(leading)
        return self.swarm.random.choice(running) if running else None

    def _begin(self, node: NodeId, append: AppendCall | None) -> Call:
        self._moment += 1
        incarnation = self.swarm.nodes[node].incarnation
        call = Call(f"client-{self._calls}", node, incarnation, self._moment, append)
        self._calls += 1
        self.open.append(call)
        return call

    # --- answers ---

    def _observe(self, machine: CoreNode, effect: Effect) -> None:
        match effect:
            case AppendProposal():
                _, append = self._by_proposal[effect.proposal]
                append.base_offset, append.epoch = effect.base_offset, effect.epoch
            case RejectProposal():
                call, append = self._by_proposal[effect.proposal]
                self._refuse(call)
                self.history.fail(append, self._moment)
            case HighWatermarkAdvanced():
                self._committed(machine, effect.high_watermark)
            case RoleChanged() if effect.role is not Role.LEADER:
                # Another leader may or may not commit the records of a former one.
                for call in self._calls_of(machine):
                    if call.append is not None and call.append.base_offset >= 0:
                        self._forget(call)
            case ReadIndexConfirmed():
                for call in self._asked_up_to(machine, effect.read_round):
                    call.needs = effect.read_index
                self._committed(machine, machine.high_watermark or Offset(0))
            case ReadIndexFailed():
                for call in self._asked_up_to(machine, effect.read_round):
                    self._refuse(call)
            case _:
                pass

    def _calls_of(self, machine: CoreNode) -> list[Call]:
        return [
            call for call in self.open if call.node == machine.id and call.incarnation == machine.incarnation
        ]

    def _asked_up_to(self, machine: CoreNode, read_round: int) -> list[Call]:
        """Return the reads that wait for their round."""
        keys = [key for key in self._by_round if key[0] == machine.id and key[1] <= read_round]
        calls = [self._by_round.pop(key) for key in keys]
        return [call for call in calls if call.incarnation == machine.incarnation and call in self.open]

    def _committed(self, machine: CoreNode, high_watermark: Offset) -> None:
        for call in self._calls_of(machine):
            append = call.append
            if append is None:
                if call.needs is not None and call.needs <= high_watermark:
                    self._end(call)
                    read = ClientRead(call.client, call.invoked_at, self._moment, high_watermark)
                    self.history.reads.append(read)
            elif 0 <= append.base_offset <= high_watermark - len(append.records):
                self._end(call)
                self.history.acknowledge(append, append.base_offset, append.epoch, self._moment)

    def _refuse(self, call: Call) -> None:
        self._refused += 1
        self._end(call)

    def _end(self, call: Call) -> None:
        self._moment += 1
        self._forget(call)

    def _forget(self, call: Call) -> None:
        if call in self.open:
            self.open.remove(call)

    # --- checks ---

    def stuck(self) -> list[Call]:
        """Return the calls that wait at a process that still lives. Those of dead ones get no answer."""
        return [
            call
            for call in self.open
            if (machine := self.swarm.nodes[call.node]).core is not None
            and machine.incarnation == call.incarnation
        ]

    def check(self) -> None:
        """Every answer fits the committed log, and some order of all calls explains them. Raises
        `SafetyViolation`."""
        committed = enumerate(self.swarm.committed)
        self.history.check((offset, b"%d" % entry.value) for offset, entry in committed if entry.value >= 0)

    def count(self) -> dict[str, int]:
        """Return the number of calls by outcome."""
        appended, read = self.history.count(AppendOutcome.ACKNOWLEDGED), len(self.history.reads)
        unknown = self._calls - appended - read - self._refused
        return {"appended": appended, "read": read, "refused": self._refused, "unknown": unknown}
