"""Clients of simulated cores: they append and read, and record the answers."""

from collections.abc import Hashable
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
from quorate.simulation.histories import Operation, check_history
from quorate.simulation.histories.models import AppendBatch, KnownLog, Read
from quorate.simulation.violations import SafetyViolation
from quorate.types import NodeId, Offset
from tests.simulator.core.core_node import CoreNode
from tests.simulator.core.core_swarm import CoreSwarm


@dataclass(slots=True)
class Call:
    """A call of a client. `invoked_at` and `ended_at` count steps: no two events share one."""

    client: str
    node: NodeId
    incarnation: int
    invoked_at: int
    first_value: int = -1
    count: int = 0
    """The number of records; 0 is a read."""
    base_offset: Offset | None = None
    epoch: int = 0
    ended_at: int | None = None
    failed: bool = False
    read_to: int | None = None
    """The end of the records that a read saw."""
    needs: Offset | None = None
    """The high watermark at which a read may be answered."""


@dataclass(slots=True)
class CoreClients:
    """Ask whoever believes to lead, one call at a time each (a new client for each call that is stuck)."""

    swarm: CoreSwarm
    calls: list[Call] = field(default_factory=list)
    open: list[Call] = field(default_factory=list)
    """The calls not answered yet."""
    busy: dict[NodeId, None] = field(default_factory=dict)
    """Nodes that may not be asked to append, because they transfer leadership."""
    _read_rounds: int = 0
    _by_proposal: dict[int, Call] = field(default_factory=dict)
    _by_round: dict[tuple[NodeId, int], Call] = field(default_factory=dict)
    _moment: int = 0
    _finished: bool = False

    def __post_init__(self) -> None:
        self.swarm.on_step_effect.append(self._observe)
        self.swarm.plan(0, self._append)
        self.swarm.plan(0, self._read)

    def finish(self) -> None:
        """Begin no more calls."""
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
        count = swarm.random.randint(1, 3)
        call = self._begin(node, count)
        self._by_proposal[call.first_value] = call
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
        self._by_round[node, self._read_rounds] = self._begin(node, 0)
        swarm.read_index(node, self._read_rounds)

    def _target(self) -> NodeId | None:
        """Draw a node, mostly one that believes it leads. There may be several."""
        running = self.swarm.running
        leading = [node for node in running if self.swarm.nodes[node].up.role is Role.LEADER]
        if leading and self.swarm.random.random() < 0.95:
            return self.swarm.random.choice(leading)
        return self.swarm.random.choice(running) if running else None

    def _begin(self, node: NodeId, count: int) -> Call:
        self._moment += 1
        machine = self.swarm.nodes[node]
        call = Call(f"client-{len(self.calls)}", node, machine.incarnation, self._moment)
        call.first_value, call.count = self.swarm.next_value, count
        self.calls.append(call)
        self.open.append(call)
        return call

    # --- answers ---

    def _observe(self, machine: CoreNode, effect: Effect) -> None:
        match effect:
            case AppendProposal():
                call = self._by_proposal[effect.proposal]
                call.base_offset, call.epoch = effect.base_offset, effect.epoch
            case RejectProposal():
                self._end(self._by_proposal[effect.proposal], failed=True)
            case HighWatermarkAdvanced():
                self._committed(machine, effect.high_watermark)
            case RoleChanged() if effect.role is not Role.LEADER:
                # Another leader may or may not commit the records of a former one.
                for call in self._calls_of(machine):
                    if call.count and call.base_offset is not None:
                        self._forget(call)
            case ReadIndexConfirmed():
                for call in self._asked_up_to(machine, effect.read_round):
                    call.needs = effect.read_index
                self._committed(machine, machine.high_watermark or Offset(0))
            case ReadIndexFailed():
                for call in self._asked_up_to(machine, effect.read_round):
                    self._end(call, failed=True)
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
            if call.count:
                if call.base_offset is not None and call.base_offset + call.count <= high_watermark:
                    self._end(call)
            elif call.needs is not None and call.needs <= high_watermark:
                call.read_to = high_watermark
                self._end(call)

    def _end(self, call: Call, *, failed: bool = False) -> None:
        self._moment += 1
        call.ended_at, call.failed = self._moment, failed
        self._forget(call)

    def _forget(self, call: Call) -> None:
        if call in self.open:
            self.open.remove(call)

    # --- what is checked ---

    def stuck(self) -> list[Call]:
        """Return the calls that wait at a process that still lives. Those of dead ones get no answer."""
        return [
            call
            for call in self.open
            if (machine := self.swarm.nodes[call.node]).core is not None
            and machine.incarnation == call.incarnation
        ]

    def check(self) -> None:
        """Every answer fits the committed log, and some order of all calls explains them."""
        committed = self.swarm.committed
        offsets = {entry.value: offset for offset, entry in enumerate(committed) if entry.value >= 0}
        operations = []
        for call in self.calls:
            operation = self._operation(call, offsets)
            if operation is not None:
                operations.append(operation)
        starts = sorted(
            operation.answer
            for operation in operations
            if isinstance(operation.request, AppendBatch) and isinstance(operation.answer, int)
        )
        check_history(KnownLog(tuple(starts)), operations).require()

    def _operation(
        self, call: Call, offsets: dict[int, int]
    ) -> Operation[AppendBatch | Read, Hashable] | None:
        ended_at = None if call.failed else call.ended_at
        request: AppendBatch | Read
        answer: int
        if call.count:
            found = [offsets.get(call.first_value + index) for index in range(call.count)]
            if call.failed and any(offset is not None for offset in found):
                raise SafetyViolation(f"refused but appended at {found}: {call}")
            base = found[0]
            if ended_at is not None and (base is None or base != call.base_offset):
                raise SafetyViolation(f"acknowledged, but lost or elsewhere, at {found}: {call}")
            if base is None:
                return None
            there = [offset for offset in found if offset is not None]
            # Cores know no batches: of one that was not acknowledged, the end may be lost.
            if there != list(range(base, base + len(there))) or (ended_at is not None and None in found):
                raise SafetyViolation(f"torn apart, at {found}: {call}")
            request, answer = AppendBatch(), base
        elif ended_at is None or call.read_to is None:
            return None
        else:
            request, answer = Read(), call.read_to
        if ended_at is None:
            # It took effect there: the log says so.
            return Operation(client=call.client, request=request, answer=answer, invoked_at=call.invoked_at)
        return Operation(
            client=call.client,
            request=request,
            answer=answer,
            invoked_at=call.invoked_at,
            returned_at=ended_at,
        )

    def count(self) -> dict[str, int]:
        """Return the number of calls by outcome."""
        counts = {"appended": 0, "read": 0, "refused": 0, "unknown": 0}
        for call in self.calls:
            if call.failed:
                counts["refused"] += 1
            elif call.ended_at is None:
                counts["unknown"] += 1
            else:
                counts["appended" if call.count else "read"] += 1
        return counts
