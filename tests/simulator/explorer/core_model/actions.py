"""The transitions of the nodes, each computed once and numbered.

The numbers are names for things that are kept once, in tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from quorate.raft.core import (
    ChangeVoters,
    Core,
    CoreConfig,
    Event,
    LogStartMoved,
    Propose,
    ReadIndex,
    Received,
    RemoveVoter,
    Request,
    RequestFailed,
    Resign,
    Role,
    SnapshotChecked,
    SnapshotDamaged,
    SnapshotTaken,
    TimerFired,
    TimerKind,
    TransferLeadership,
    Unreachable,
)
from quorate.types import Endpoint, EpochEnd, NodeId, ReplicaKey, SnapshotId, Voter, VoterSet
from tests.simulator.core.core_node import CoreFactory
from tests.simulator.explorer.core_model import canonical, steps
from tests.simulator.explorer.core_model import explored_invariants as invariants
from tests.simulator.explorer.core_model.bounds import Bound, Budget
from tests.simulator.explorer.core_model.coverage import Coverage
from tests.simulator.explorer.core_model.machine import (
    CrashPoint,
    Machine,
    NodeDisk,
    Observation,
    Packet,
    Snapshot,
    StepOutcome,
    end_of,
    up_to,
)
from tests.simulator.explorer.model import Broken, Memo, Table

CLUSTER_ID: Final = "explored"
CONFIG: Final = CoreConfig()
DIRECTORY: Final = "directory"
"""The directory of every node: directories distinguish a node's disks, and no node changes its disk here."""

FREE: Final = -1
REQUEST: Final = -2
"""The cost of giving a request up: nothing if it is lost, else a timeout."""

TIMER_COST: Final = {
    TimerKind.ELECTION: Budget.TIMEOUTS,
    TimerKind.FETCH: Budget.TIMEOUTS,
    TimerKind.CHECK_QUORUM: Budget.TIMEOUTS,
    TimerKind.TRANSFER: Budget.TIMEOUTS,
    TimerKind.BEGIN_QUORUM: Budget.TICKS,
    TimerKind.FETCH_WAIT: Budget.TICKS,
    TimerKind.BACKOFF: FREE,
}

_LEADERS_ONLY: Final[tuple[Event, ...]] = (
    Propose(0, 1),
    Resign(),
    TransferLeadership(NodeId(1)),
    ReadIndex(1),
    ChangeVoters(0, RemoveVoter(ReplicaKey(NodeId(1), DIRECTORY))),
)


@dataclass(frozen=True, slots=True)
class Action:
    """The event between one state and the next: enough to describe it, and to repeat it."""

    what: str
    """deliver, repeat, lose, step, crash, power or start."""
    node: int
    """The index of the node; for a lost message, of its destination."""
    event: int = -1
    """Number of the event, or of the message."""
    keep: int = -1
    """The number of batches that remained after a power loss."""
    crash_point: int = -1
    """The store before which the node crashed in the middle of the step."""


@dataclass(slots=True)
class Transition:
    """The result of an event for a machine, in numbers."""

    machine: int
    sent: tuple[int, ...]
    observations: tuple[Observation, ...]
    forgotten: tuple[NodeId, ...]
    crash_points: tuple[tuple[NodeDisk, tuple[int, ...], tuple[Observation, ...]], ...]
    broken: str


class Transitions:
    """The transitions of the nodes of one `Bound`. `core` is the shipped one, or a broken one for a test of
    the tests."""

    def __init__(self, bound: Bound, *, core: CoreFactory = Core) -> None:
        self.bound = bound
        self._core = core
        self.names = tuple(NodeId(number) for number in range(1, bound.voters + bound.observers + 1))
        self._index = {each: index for index, each in enumerate(self.names)}
        self.static = VoterSet(
            tuple(Voter(ReplicaKey(each), endpoint(each)) for each in self.names[: bound.voters])
        )
        self.coverage = Coverage()

        self.machines: Table[Machine] = Table(Machine.identity)
        self.packets: Table[Packet] = Table()
        self.events: Table[Event] = Table()

        self.received = Memo(self._receive)
        """The transition of (machine, packet)."""
        self.stepped = Memo(self._step)
        """The transition of (machine, event)."""
        self.started = Memo(self._start)
        """The transition of a machine that starts."""
        self.crashed = Memo(self._crash)
        """The machine after a crash that keeps so many batches: (machine, batches)."""
        self.stale = self.packets.mapped(_as_stale)
        """The packet as one whose sender waits for no answer."""
        self.own_events = Memo(self._own_events)
        """The events of a machine as `enabled`, but for a leader's requests."""

    def voter(self, node: NodeId) -> Voter:
        """Return the voter with its directory, as the log names it."""
        return Voter(ReplicaKey(node, DIRECTORY), endpoint(node))

    def _make(self, each: Machine) -> Core:
        core = self._core(
            config=CONFIG,
            cluster_id=CLUSTER_ID,
            key=each.key,
            endpoint=endpoint(each.key.id),
            voters=self.static,
            election=each.disk.election,
            log=each.disk.recovered(),
            last_correlation=canonical.CURRENT,
        )
        canonical.fresh(core)
        return core

    def _receive(self, key: tuple[int, int]) -> Transition:
        number, packet = key[0], self.packets[key[1]]
        return self._moved(number, Received(packet.message), packet)

    def _step(self, key: tuple[int, int]) -> Transition:
        return self._moved(key[0], self.events[key[1]], None)

    def _start(self, number: int) -> Transition:
        return self._in_numbers(steps.start(self.machines[number], self._make))

    def _moved(self, number: int, event: Event, packet: Packet | None) -> Transition:
        each = self.machines[number]
        self.coverage.saw(each.up.role, event)
        if isinstance(event, TimerFired):
            each = replace(each, timers=each.timers - {event.timer})
        elif isinstance(event, SnapshotTaken):
            snapshot = Snapshot(event.snapshot, up_to(each.disk.history, event.snapshot.end_offset))
            each = replace(each, disk=replace(each.disk, snapshots=(*each.disk.snapshots, snapshot)))
        elif isinstance(event, LogStartMoved):
            each = replace(each, disk=replace(each.disk, log_start_offset=event.start.end_offset))
        return self._in_numbers(steps.step(each, event, packet, fetch_batches=self.bound.fetch_batches))

    def _in_numbers(self, outcome: StepOutcome) -> Transition:
        if outcome.broken:
            return Transition(-1, (), (), (), (), outcome.broken)
        return Transition(
            self.machines.number(outcome.machine),
            tuple(self.packets.number(packet) for packet in outcome.sent),
            outcome.observations,
            outcome.forgotten,
            tuple(self._crash_point(crash_point) for crash_point in outcome.crash_points),
            "",
        )

    def _crash_point(
        self, crash_point: CrashPoint
    ) -> tuple[NodeDisk, tuple[int, ...], tuple[Observation, ...]]:
        """Return the crash's result. Requests of a crashed node get no awaited answer."""
        sent = (
            self.stale[self.packets.number(packet)]
            if isinstance(packet.message, Request)
            else self.packets.number(packet)
            for packet in crash_point.sent
        )
        return crash_point.disk, tuple(sent), crash_point.observations

    def _crash(self, key: tuple[int, int]) -> int:
        each, keep = self.machines[key[0]], key[1]
        disk = each.disk
        if keep < len(disk.history):
            disk = replace(disk, history=disk.history[:keep])
        # The remaining data is synced before it counts, so its former sync state means nothing.
        return self.machines.number(each.down(replace(disk, synced=disk.end_offset)))

    # --- what may happen to a machine by itself ---

    def _own_events(self, number: int) -> tuple[tuple[int, int], ...]:
        events = self._events_of(self.machines[number])
        numbered = tuple((self.events.number(event), cost) for event, cost in events)
        self._check_refusals(number)
        return numbered

    def _check_refusals(self, number: int) -> None:
        """Check that events for only a leader, or only a follower, change nothing elsewhere. Raises
        Broken."""
        each = self.machines[number]
        role = each.up.role
        refused = [] if role is Role.FOLLOWER else [Unreachable(self.names[0])]
        node = self._index[each.key.id]
        for event in refused if role is Role.LEADER else [*refused, *_LEADERS_ONLY]:
            action = Action("step", node, self.events.number(event))
            transition = self.stepped[number, action.event]
            if transition.broken or transition.machine != number or transition.sent:
                raise Broken(action, transition.broken or f"as {role.value} a node does not heed {event}")

    def _events_of(self, each: Machine) -> Iterator[tuple[Event, int]]:
        core = each.up
        for timer in sorted(each.timers, key=lambda timer: (timer.kind.value, timer.node or 0)):
            yield TimerFired(timer), TIMER_COST[timer.kind]
        for sync in each.syncs:
            yield sync, FREE
        for peer in canonical.asked(core):
            yield RequestFailed(peer, canonical.CURRENT), REQUEST
        leader = core.leader
        if core.role is Role.FOLLOWER and leader is not None:
            yield Unreachable(leader), Budget.TIMEOUTS
        if core.role is Role.LEADER:
            yield Resign(), Budget.RESIGNATIONS
            for peer in core.voters.ids:
                if peer != core.node_id:
                    yield TransferLeadership(peer), Budget.TRANSFERS
        if each.checking is not None and each.partial is not None:
            voters = invariants.voters_in(each.partial.history, VoterSet(()))
            yield SnapshotChecked(each.checking, voters if len(voters) else None), FREE
            yield SnapshotDamaged(each.checking), Budget.DAMAGES
        else:
            yield from self._snapshots_of(each)

    def _snapshots_of(self, each: Machine) -> Iterator[tuple[Event, int]]:
        disk = each.disk
        committed = up_to(disk.history, min(each.up.high_watermark or 0, disk.synced))
        latest = disk.snapshots[-1] if disk.snapshots else None
        if committed and (latest is None or latest.id.end_offset < end_of(committed)):
            taken = SnapshotId(end_of(committed), committed[-1].epoch)
            yield SnapshotTaken(taken), Budget.SNAPSHOTS
        if latest is not None and latest.id.end_offset > disk.log_start_offset:
            start = EpochEnd(latest.id.epoch, latest.id.end_offset)
            yield LogStartMoved(start), Budget.SNAPSHOTS


def endpoint(node: NodeId) -> Endpoint:
    return Endpoint(f"node-{node}", 9093)


def _as_stale(packet: Packet) -> Packet:
    return replace(packet, message=replace(packet.message, correlation=canonical.STALE))
