"""A world of cores in which everything happens by itself: messages, timers, syncs, clients and faults, all
drawn from one `random.Random`. No trio, no bytes: thousands of steps in a tenth of a second.

Messages may be lost, duplicated and reordered. Answers only ever reach the process that asked, because they
come back on its connection.
"""

import heapq
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from quorate.raft.core import (
    AppendFetched,
    AppendLeaderChange,
    AppendProposal,
    AppendVoters,
    ArmTimer,
    Core,
    CoreConfig,
    Durable,
    Effect,
    Event,
    HighWatermarkAdvanced,
    Message,
    Received,
    Request,
    RequestFailed,
    Role,
    RoleChanged,
    TimerFired,
    Unreachable,
)
from quorate.types import NodeId, Offset, SnapshotId, VoterSet
from tests.simulator.core.core_node import CoreFactory, CoreNode
from tests.simulator.core.core_swarm_settings import CoreFault, CoreSwarmSettings
from tests.simulator.core.core_world import CoreWorld

_APPENDS: Final = (AppendProposal, AppendFetched, AppendLeaderChange, AppendVoters)


class DiskFailed(Exception):
    """An operation of a simulated disk failed: its node stops."""


class CoreSwarm(CoreWorld):
    """Run it for a number of steps, or until a condition holds. `CoreFaults` breaks it, and `CoreClients`
    sends it requests."""

    def __init__(
        self,
        settings: CoreSwarmSettings,
        source: random.Random,
        *,
        core: CoreFactory = Core,
        show: Callable[[str], None] | None = None,
    ) -> None:
        """`show` gets the trace of a run, line by line."""
        self._core = core
        self._show = show
        self.use(settings)
        super().__init__(
            voters=settings.voters,
            observers=settings.observers,
            dynamic=settings.dynamic,
            config=settings.config,
            core=self._core_of_a_new_process,
        )
        self.random = source
        self._draw = source.random
        self.steps = 0
        """The number of events given to cores."""
        self.digest = 0
        """The digest of all steps: equal for equal runs."""
        self.on_step_effect: list[Callable[[CoreNode, Effect], None]] = []
        """See each effect after it was carried out."""
        self.cuts: dict[tuple[NodeId, NodeId], int] = {}
        """The number of faults that cut each direction of a link now."""
        self.slow: dict[NodeId, int] = {}
        """The factor by which a node and its disk are slower than others."""
        self.clock_rates: dict[NodeId, float] = dict.fromkeys(self.nodes, 1.0)
        self.failing: dict[NodeId, CoreFault] = {}
        """Disks that are about to fail."""
        self.retired: dict[NodeId, None] = {}
        """Nodes that stay down: their log is damaged."""
        self.voter_sets: list[tuple[Offset, VoterSet]] = []
        """Each that was ever appended, with the offset of its record."""
        self._paused: dict[NodeId, list[Callable[[], None]]] = {}
        self._arrivals: dict[tuple[NodeId, NodeId], int] = {}
        self._events: list[tuple[int, int, Callable[..., object], tuple[object, ...]]] = []
        self._sequence = 0
        self._processes = 0
        if CoreFault.CLOCK_RATE in self._active:
            for node in self.nodes:
                self.clock_rates[node] = source.choice(settings.clock_rates)
        for node in self.nodes:
            self.start(node)

    def use(self, settings: CoreSwarmSettings) -> None:
        """Use these settings from now on."""
        self.settings = settings
        self._active = frozenset(settings.kinds) - settings.skipped

    # --- time ---

    def plan(self, after_ms: int, action: Callable[..., object], *arguments: object) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now_ms + after_ms, self._sequence, action, arguments))

    def run_steps(self, steps: int) -> None:
        """Run until the nodes have made that many steps in all."""
        while self.steps < steps:
            self._next()

    def run_until(self, condition: Callable[[], bool], *, within_ms: int) -> bool:
        """Run until the condition holds. Return whether it did in time."""
        until = self.now_ms + within_ms
        while not condition():
            if self._events[0][0] > until:
                return False
            self._next()
        return True

    def _next(self) -> None:
        self.now_ms, _, action, arguments = heapq.heappop(self._events)
        action(*arguments)

    def trace(self, line: str) -> None:
        if self._show is not None:
            self._show(f"{self.now_ms:>7} ms  {line}")

    # --- nodes ---

    @property
    def next_value(self) -> int:
        """The first value of the next proposal."""
        return self._next_value

    def committed_voters(self) -> VoterSet:
        """The last voter set that is committed."""
        found = (entry.voters for entry in reversed(self.committed) if entry.voters is not None)
        return next(found, self.voters)

    @property
    def running(self) -> list[NodeId]:
        """Nodes that are up and not paused."""
        return [
            node
            for node, machine in self.nodes.items()
            if machine.core is not None and node not in self._paused
        ]

    def _core_of_a_new_process(self, **parts: object) -> Core:
        # An answer to an earlier process must match nothing that this one asks: its connection is closed.
        self._processes += 1
        return self._core(**parts, last_correlation=self._processes * 1_000_000)  # type: ignore[arg-type]

    def start_soon(self, node: NodeId, after_ms: int) -> None:
        """Start the node later, unless it is up by then, or must not start."""

        def start() -> None:
            if self.nodes[node].core is None and node not in self.retired:
                self.start(node)

        self.plan(after_ms, start)

    def step(self, node: NodeId, event: Event, *, effects_done: int | None = None) -> tuple[Effect, ...]:
        self.steps += 1
        self.digest = zlib.crc32(
            b"%d %d %s" % (self.now_ms, node, type(event).__name__.encode()), self.digest
        )
        if effects_done is None and CoreFault.CRASH_MIDWAY in self._active and self._draw() < 0.002:
            effects_done = self.random.randint(0, 4)
        try:
            effects = super().step(node, event, effects_done=effects_done)
        except DiskFailed as failure:
            self._crash_for_a_while(node, f"stops: {failure}")
            return ()
        if effects_done is not None:
            what = f"crashes after {effects_done} effects of {type(event).__name__}"
            self._crash_for_a_while(node, what)
        return effects

    def start(self, node: NodeId) -> tuple[Effect, ...]:
        self.trace(f"node {node} starts")
        try:
            return super().start(node)
        except DiskFailed as failure:
            self._crash_for_a_while(node, f"stops: {failure}")
            return ()

    def _crash_for_a_while(self, node: NodeId, what: str, *, power_loss: bool = False) -> None:
        self.trace(f"node {node} {what}")
        if power_loss:
            self.lose_power(node)
        else:
            self.crash(node)
        self.start_soon(node, 1 + int(self.random.expovariate(1 / self.settings.duration_ms)))

    def crash(self, node: NodeId, *, keep: int | None = None) -> None:
        super().crash(node, keep=keep)
        self._paused.pop(node, None)
        self.invariants.check_durability(self.nodes[node])

    def lose_power(self, node: NodeId) -> None:
        """Cut the power. A drawn part of the unsynced data remains."""
        disk = self.nodes[node].disk
        self.crash(node, keep=self.random.randint(disk.synced, len(disk.entries)))

    def pause(self, node: NodeId) -> None:
        self._paused.setdefault(node, [])

    def resume(self, node: NodeId) -> None:
        """Deliver the delayed events now, in order."""
        for action in self._paused.pop(node, ()):
            self.plan(0, action)

    def _give(self, node: NodeId, incarnation: int, event: Event) -> None:
        """Give the event to the node unless it has crashed since; later if it is paused."""
        machine = self.nodes[node]
        if machine.core is None or machine.incarnation != incarnation:
            return
        held = self._paused.get(node)
        if held is None:
            self.step(node, event)
        else:
            held.append(lambda: self._give(node, incarnation, event))

    # --- messages ---

    def send(self, message: Message) -> None:
        message = self._addressed(message)
        source, destination = self._sent_by(message), self.reached_by(message)
        if isinstance(message, Request):
            incarnation = self.nodes[source].incarnation
            if self.nodes[destination].core is None and self._draw() < 0.7:
                wait_ms = self._latency_ms(source, destination)
                self.plan(wait_ms, self._give, source, incarnation, Unreachable(message.destination))
            else:
                wait_ms = self._clock_ms(source, self.config.request_timeout_ms)
            failed = RequestFailed(message.destination, message.correlation)
            self.plan(wait_ms, self._give, source, incarnation, failed)
        copies = 1
        if CoreFault.LOSS in self._active and self._draw() < 0.1:
            copies = 0
        elif CoreFault.DUPLICATION in self._active and self._draw() < 0.1:
            copies = 2
        link = source, destination
        for _ in range(copies):
            at_ms = self.now_ms + self._latency_ms(source, destination)
            if CoreFault.REORDERING not in self._active:
                at_ms = self._arrivals[link] = max(at_ms, self._arrivals.get(link, 0))
            self.plan(at_ms - self.now_ms, self._arrive, source, destination, message)

    def _sent_by(self, message: Message) -> NodeId:
        return self.known_as(message.source)

    def _arrive(self, source: NodeId, destination: NodeId, message: Message) -> None:
        machine = self.nodes[destination]
        if machine.core is not None and not self.cuts.get((source, destination)):
            self._give(destination, machine.incarnation, Received(message))

    def _latency_ms(self, source: NodeId, destination: NodeId) -> int:
        latency_ms = int(self._draw() * (self.settings.latency_ms_max + 1))
        if self.slow:
            latency_ms *= max(self.slow.get(source, 1), self.slow.get(destination, 1))
        if CoreFault.DELAY in self._active and self._draw() < 0.05:
            latency_ms += self.random.randint(0, 1000)
        return latency_ms

    # --- clocks and disks ---

    def _clock_ms(self, node: NodeId, duration_ms: int) -> int:
        return int(duration_ms * self.clock_rates[node])

    def clock_of(self, node: NodeId) -> int:
        return int(self.now_ms / self.clock_rates[node])

    def config_of(self, node: NodeId) -> CoreConfig:
        lease_ms = self.config.read_lease_ms
        # Some nodes are restarted with another setting.
        if not lease_ms or self._draw() < 0.7:
            return self.config
        return replace(self.config, read_lease_ms=self.random.choice((0, lease_ms // 2, lease_ms * 3 // 2)))

    def armed(self, machine: CoreNode, effect: ArmTimer) -> None:
        duration_ms = effect.min_ms + int(self._draw() * (effect.max_ms - effect.min_ms + 1))
        self.plan(self._clock_ms(machine.id, duration_ms), self._fire, machine, machine.incarnation, effect)

    def _fire(self, machine: CoreNode, incarnation: int, effect: ArmTimer) -> None:
        # Armed again or cancelled since: not this one.
        if machine.incarnation != incarnation or machine.timers.get(effect.timer) is not effect:
            return
        held = self._paused.get(machine.id)
        if held is not None:
            held.append(lambda: self._fire(machine, incarnation, effect))
            return
        del machine.timers[effect.timer]
        self.step(machine.id, TimerFired(effect.timer))

    def _sync_asked(self, machine: CoreNode, durable: Durable) -> None:
        self.plan(self._sync_ms(machine.id), self._synced, machine, machine.incarnation, durable)

    def _synced(self, machine: CoreNode, incarnation: int, durable: Durable) -> None:
        if machine.core is None or machine.incarnation != incarnation:
            return
        if self.failing.get(machine.id) is CoreFault.SYNC_ERROR:
            del self.failing[machine.id]
            self._crash_for_a_while(machine.id, "stops: a sync failed", power_loss=self._draw() < 0.5)
            return
        self.sync_disk(machine.id, durable)
        # Known later, and in any order.
        self.plan(self._sync_ms(machine.id), self._give, machine.id, incarnation, durable)

    def check_asked(self, machine: CoreNode, snapshot: SnapshotId) -> None:
        super().check_asked(machine, snapshot)
        self.plan(5 * self._sync_ms(machine.id), self._checked, machine, machine.incarnation)

    def _checked(self, machine: CoreNode, incarnation: int) -> None:
        if machine.core is None or machine.incarnation != incarnation or not machine.checks:
            return
        held = self._paused.get(machine.id)
        if held is not None:
            held.append(lambda: self._checked(machine, incarnation))
            return
        damaged = CoreFault.DAMAGED_SNAPSHOT in self._active and self._draw() < 0.3
        self.check_snapshot(machine.id, damaged=damaged)

    def _sync_ms(self, node: NodeId) -> int:
        return int(self._draw() * (self.settings.sync_ms_max + 1)) * self.slow.get(node, 1)

    def records_max(self) -> int:
        return self.settings.records_max

    def chunk_bytes(self) -> int:
        return self.settings.chunk_bytes

    # --- effects ---

    def _carry_out_one(self, machine: CoreNode, effect: Effect) -> None:
        kind = type(effect)
        if kind in _APPENDS:
            self._fail_append(machine)
        super()._carry_out_one(machine, effect)
        if isinstance(effect, AppendVoters):
            offset = Offset(len(machine.disk.entries) - 1)
            self.voter_sets.append((offset, effect.voters))
            self.trace(f"node {machine.id} makes voters {list(effect.voters.ids)}, at {offset}")
        elif isinstance(effect, RoleChanged):
            self.trace(f"node {machine.id} is {effect.role.value} in epoch {effect.epoch} of {effect.leader}")
        elif isinstance(effect, HighWatermarkAdvanced) and machine.up.role is Role.LEADER:
            self.trace(f"node {machine.id} commits below {effect.high_watermark}")
        for see in self.on_step_effect:
            see(machine, effect)

    def _fail_append(self, machine: CoreNode) -> None:
        failing = self.failing.get(machine.id)
        if failing is CoreFault.WRITE_ERROR:
            del self.failing[machine.id]
            raise DiskFailed("an append failed")
        if failing is CoreFault.FULL_DISK:
            raise DiskFailed("its disk is full")
