"""`CoreCluster` draws everything that happens to cores from one `random.Random`: same seed, same trace.

It is a `CoreWorld`, so the invariants of Raft are checked after every step.
"""

import heapq
import random as random_module
from collections.abc import Callable
from dataclasses import replace

from quorate.raft.core.core import Core
from quorate.raft.core.effects import (
    ArmTimer,
    Effect,
    Role,
)
from quorate.raft.core.events import (
    AddVoter,
    AdoptVoters,
    ChangeVoters,
    Durable,
    Event,
    Received,
    RemoveVoter,
    RequestFailed,
    Resign,
    TimerFired,
    TransferLeadership,
    Unreachable,
    UpdateVoter,
    VoterChange,
)
from quorate.raft.core.messages import Message, Request
from quorate.raft.core.types import (
    CoreConfig,
    Endpoint,
    NodeId,
    SnapshotId,
    Voter,
    VoterSet,
)
from quorate.simulation.core_faults import Faults as Faults
from quorate.simulation.core_node import CoreFactory as CoreFactory
from quorate.simulation.core_node import CoreNode
from quorate.simulation.core_node import Entry as Entry
from quorate.simulation.core_world import CoreWorld as CoreWorld
from quorate.simulation.core_world import endpoint_of
from quorate.simulation.violations import SafetyViolation as SafetyViolation


class CoreCluster(CoreWorld):
    """A world in which everything happens, in an order and at times that `random` draws.

    `run` under faults, then `heal` and `run` again: the cluster must come back.
    """

    def __init__(
        self,
        *,
        random: random_module.Random,
        voters: int,
        observers: int = 0,
        dynamic: bool = False,
        faults: Faults | None = None,
        config: CoreConfig | None = None,
        core: CoreFactory = Core,
    ) -> None:
        super().__init__(voters=voters, observers=observers, dynamic=dynamic, config=config, core=core)
        self.random = random
        self.faults = faults if faults is not None else Faults.draw(random)
        self.now_ms = 0
        self.trace: list[str] = []
        """One line per event, if `tracing`."""
        self.tracing = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._asked = 0
        """Numbers read barriers and voter changes."""
        self._cuts: set[tuple[NodeId, NodeId]] = set()
        for node in self.nodes:
            self.start(node)
        self._plan(self.faults.propose_every_ms, self._propose)
        if self.faults.fault_every_ms:
            self._plan(self.random.randint(0, self.faults.fault_every_ms), self._fault)
        if self.faults.administer_every_ms:
            self._plan(self.random.randint(0, self.faults.administer_every_ms), self._administer)

    def run(self, events: int) -> None:
        """Let that many things happen."""
        for _ in range(events):
            at_ms, _, action = heapq.heappop(self._events)
            self.now_ms = at_ms
            action()

    def run_until(self, condition: Callable[[], bool], *, events_max: int) -> bool:
        """Whether it came true."""
        for _ in range(events_max):
            if condition():
                return True
            self.run(1)
        return condition()

    def heal(self) -> None:
        """No more faults; everybody is up and connected."""
        self.faults = Faults.none()
        self._cuts.clear()
        for node, machine in self.nodes.items():
            if machine.core is None:
                self.start(node)

    def step(self, node: NodeId, event: Event, *, effects_done: int | None = None) -> tuple[Effect, ...]:
        effects = super().step(node, event, effects_done=effects_done)
        if self.tracing:
            self.trace.append(f"{self.now_ms} {node} {event} -> {list(effects)}")
        return effects

    # --- what happens ---

    def _plan(self, after_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now_ms + after_ms, self._sequence, action))

    def _give(self, node: NodeId, incarnation: int, event: Event) -> None:
        """Unless it has crashed since. Sometimes it crashes half-way through."""
        machine = self.nodes[node]
        if machine.core is None or machine.incarnation != incarnation:
            return
        if self.faults.crash and self.random.random() < self.faults.crash * 0.002:
            self.step(node, event, effects_done=self.random.randint(0, 4))
            self._crash(node)
        else:
            self.step(node, event)

    def _send(self, message: Message) -> None:
        message = self._addressed(message)
        faults = self.faults
        source, destination = self._sent_by(message), self.reached_by(message)
        incarnation = self.nodes[source].incarnation
        lost = self.random.random() < faults.loss
        if isinstance(message, Request):
            failed = RequestFailed(message.destination, message.correlation)
            is_refused = self.nodes[destination].core is None and self.random.random() < 0.7
            wait_ms = self._latency_ms() if is_refused else self.config.request_timeout_ms
            self._plan(wait_ms, lambda: self._give(source, incarnation, failed))
            if is_refused:
                self._plan(wait_ms, lambda: self._give(source, incarnation, Unreachable(message.destination)))
        if not lost:
            copies = 2 if self.random.random() < faults.duplication else 1
            for _ in range(copies):
                self._plan(self._latency_ms(), lambda: self._arrive(message))

    def _sent_by(self, message: Message) -> NodeId:
        source = message.source
        return source if source >= 0 else self.voters.ids[-2 - source]

    def _arrive(self, message: Message) -> None:
        source, destination = self._sent_by(message), self.reached_by(message)
        machine = self.nodes[destination]
        if machine.core is not None and (source, destination) not in self._cuts:
            self._give(destination, machine.incarnation, Received(message))

    def _armed(self, machine: CoreNode, effect: ArmTimer) -> None:
        node, incarnation = machine.id, machine.incarnation

        def fire() -> None:
            # Armed again or cancelled since: not this one.
            if machine.incarnation == incarnation and machine.timers.get(effect.timer) is effect:
                del machine.timers[effect.timer]
                self._give(node, incarnation, TimerFired(effect.timer))

        self._plan(self.random.randint(effect.min_ms, effect.max_ms), fire)

    def _sync_asked(self, machine: CoreNode, durable: Durable) -> None:
        node, incarnation = machine.id, machine.incarnation

        def synced() -> None:
            if machine.core is None or machine.incarnation != incarnation:
                return
            self.sync_disk(node, durable)
            # Known later, and in any order.
            self._plan(
                self.random.randint(0, self.faults.sync_ms_max),
                lambda: self._give(node, incarnation, durable),
            )

        self._plan(self.random.randint(0, self.faults.sync_ms_max), synced)

    def _check_asked(self, machine: CoreNode, snapshot: SnapshotId) -> None:
        super()._check_asked(machine, snapshot)
        node, incarnation = machine.id, machine.incarnation

        def checked() -> None:
            if machine.core is not None and machine.incarnation == incarnation and machine.checks:
                self.check_snapshot(node, damaged=self.random.random() < 0.1 * bool(self.faults.loss))

        self._plan(self.random.randint(0, 5 * self.faults.sync_ms_max), checked)

    def _administer(self) -> None:
        """What operators and applications ask for."""
        every_ms = self.faults.administer_every_ms
        if not every_ms:
            return
        self._plan(self.random.randint(0, 2 * every_ms), self._administer)
        up = [node for node, machine in self.nodes.items() if machine.core is not None]
        if not up:
            return
        node = self.random.choice(up)
        core = self.nodes[node].up
        self._asked += 1
        match self.random.randrange(6):
            case 0:
                self.take_snapshot(node)
            case 1:
                self.move_start(node)
            case 2:
                self.read_barrier(node, self._asked)
            case 3:
                self.step(node, TransferLeadership(self.random.choice(list(self.nodes))))
            case _:
                other = self.nodes[self.random.choice(list(self.nodes))]
                voter = Voter(other.key, endpoint_of(other.id))
                self.step(node, ChangeVoters(self._asked, self._change_of(core, other, voter)))

    def _change_of(self, core: Core, other: CoreNode, voter: Voter) -> VoterChange:
        if not core.has_dynamic_voters:
            return AdoptVoters()
        if self.random.random() < 0.2:
            return UpdateVoter(replace(voter, endpoint=Endpoint(f"moved-{self._asked}", 9093)))
        for old in core.voters:
            if old.key.id == other.id and (
                old.key != other.key or self._are_alive(core.voters.without(other.id))
            ):
                return RemoveVoter(old.key)
        return AddVoter(voter)

    def _may_wipe(self, node: NodeId) -> bool:
        """Within the promise: of every set that may count now, a majority never loses its disk."""
        disks = [machine.disk for machine in self.nodes.values()]
        in_logs = [entry.voters for disk in disks for entry in disk.entries if entry.voters is not None]
        return all(self._are_alive(voters, but=node) for voters in [self.voters, *in_logs])

    def _are_alive(self, voters: VoterSet, but: NodeId | None = None) -> bool:
        kept = [voter for voter in voters.ids if voter not in self.wiped and voter != but]
        return len(kept) >= voters.majority

    def _propose(self) -> None:
        self._plan(self.random.randint(0, 2 * self.faults.propose_every_ms), self._propose)
        leaders = [
            node
            for node, machine in self.nodes.items()
            if machine.core is not None and machine.core.role is Role.LEADER
        ]
        if leaders:
            self.propose(self.random.choice(leaders), self.random.randint(1, 3))

    def _fault(self) -> None:
        faults = self.faults
        if not faults.fault_every_ms:
            return
        self._plan(self.random.randint(0, 2 * faults.fault_every_ms), self._fault)
        node = self.random.choice(list(self.nodes))
        machine = self.nodes[node]
        if machine.core is None:
            self.start(node)
        elif self.random.random() < faults.crash:
            self._crash(node)
        elif self.random.random() < faults.partition:
            self._cut_or_heal()
        elif machine.core.role is Role.LEADER and self.random.random() < 0.5:
            self.step(node, Resign())
        else:
            other = self.random.choice(list(self.nodes))
            self.step(node, Unreachable(other))

    def _crash(self, node: NodeId) -> None:
        disk = self.nodes[node].disk
        power_cut = self.random.random() < self.faults.power_cut
        self.crash(node, keep=self.random.randint(disk.synced, len(disk.entries)) if power_cut else None)
        if self.bootstrap and self.random.random() < self.faults.wipe and self._may_wipe(node):
            self.wipe(node)
        if self.faults.fault_every_ms:
            self._plan(self.random.randint(1, 2000), lambda: self._restart(node))
        else:
            self.start(node)

    def _restart(self, node: NodeId) -> None:
        if self.nodes[node].core is None:
            self.start(node)

    def _cut_or_heal(self) -> None:
        """Split the nodes in two, sometimes only in one direction; or connect all again."""
        if self._cuts or len(self.nodes) == 1:
            self._cuts.clear()
            return
        nodes = list(self.nodes)
        self.random.shuffle(nodes)
        here = nodes[: self.random.randint(1, len(nodes) - 1)]
        one_way = self.random.random() < 0.3
        for a in here:
            for b in nodes[len(here) :]:
                self._cuts.add((a, b))
                if not one_way:
                    self._cuts.add((b, a))

    def _records_max(self) -> int:
        return self.faults.records_max

    def _latency_ms(self) -> int:
        return self.random.randint(0, self.faults.latency_ms_max)
