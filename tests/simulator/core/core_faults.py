"""The faults of a `CoreSwarm`, at random moments, within the budget that it must survive.

The budget: anything may happen to processes, links, clocks and unsynced records; of every voter set that may
decide anything, a minority loses its disk for good or has its log damaged.
"""

import random
from collections.abc import Callable, Iterable
from typing import Final

from quorate.raft.core import (
    AddVoter,
    AdoptVoters,
    ChangeVoters,
    Effect,
    RemoveVoter,
    Resign,
    Role,
    RoleChanged,
    TransferEnded,
    TransferLeadership,
    Unreachable,
    UpdateVoter,
    VoterChange,
    VotersChanged,
)
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from tests.simulator.core.core_clients import CoreClients
from tests.simulator.core.core_node import CoreNode, endpoint_of
from tests.simulator.core.core_swarm import CoreSwarm
from tests.simulator.core.core_swarm_settings import CoreFault


class CoreFaults:
    """Breaks a swarm until `heal`."""

    def __init__(self, swarm: CoreSwarm, clients: CoreClients) -> None:
        self._swarm = swarm
        self._clients = clients
        self.counts: dict[CoreFault, int] = {}
        self._asked = 0
        self._over = False
        self._actions: Final[dict[CoreFault, Callable[[random.Random], None]]] = {
            CoreFault.PARTITION: self._partition,
            CoreFault.ONE_WAY: self._one_way,
            CoreFault.FLAPPING: self._flapping,
            CoreFault.BROKEN_CONNECTION: self._broken_connection,
            CoreFault.SLOW_NODE: self._slow_node,
            CoreFault.PAUSE: self._pause,
            CoreFault.CRASH: self._crash,
            CoreFault.POWER_LOSS: self._power_loss,
            CoreFault.BLACKOUT: self._blackout,
            CoreFault.WRITE_ERROR: self._write_error,
            CoreFault.SYNC_ERROR: self._sync_error,
            CoreFault.FULL_DISK: self._full_disk,
            CoreFault.BIT_FLIP: self._bit_flip,
            CoreFault.LOST_DISK: self._lost_disk,
            CoreFault.VOTERS: self._voters,
            CoreFault.SNAPSHOT: self._snapshot,
            CoreFault.RESIGN: self._resign,
            CoreFault.TRANSFER: self._transfer,
        }
        self._kinds = [kind for kind in swarm.settings.kinds if kind in self._actions]
        swarm.on_step_effect.append(self._observe)
        if self._kinds:
            self._plan_next()

    def _plan_next(self) -> None:
        every_ms = self._swarm.settings.fault_every_ms
        self._swarm.plan(int(self._swarm.random.expovariate(1 / every_ms)), self._next)

    def _next(self) -> None:
        if self._over:
            return
        self._plan_next()
        swarm = self._swarm
        kind = swarm.random.choice(self._kinds)
        # From a source of its own, so that leaving it out changes as little else as can be.
        source = random.Random(swarm.random.getrandbits(64))
        if kind in swarm.settings.skipped:
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        swarm.trace(f"fault: {kind.value}")
        self._actions[kind](source)

    def heal(self) -> None:
        """End all cuts, slowness, pauses, full disks and downtimes, except for nodes that are down for
        good."""
        swarm = self._swarm
        swarm.trace("all is healed")
        self._over = True
        swarm.use(swarm.settings.healed())
        swarm.cuts.clear()
        swarm.slow.clear()
        swarm.failing.clear()
        for node in swarm.nodes:
            swarm.resume(node)
            swarm.start_soon(node, 0)

    # --- the budget ---

    def _active_sets(self) -> Iterable[VoterSet]:
        """Voter sets that may decide anything now or later: the last committed one, and all that may be in a
        log above it."""
        swarm = self._swarm
        end = len(swarm.committed)
        yield swarm.committed_voters()
        for offset, voters in swarm.voter_sets:
            if offset >= end:
                yield voters

    def _may_lose(self, key: ReplicaKey) -> bool:
        return all(self._survives(voters, [*self._swarm.lost_keys, key]) for voters in self._active_sets())

    def _survives(self, voters: VoterSet, lost: Iterable[ReplicaKey]) -> bool:
        lost_voters = [voter for voter in voters if voter.key in lost]
        return len(voters) - len(lost_voters) >= voters.majority

    # --- helpers ---

    def _draw_node(self, source: random.Random) -> NodeId:
        """Draw a node, mostly the leader: that is where it hurts."""
        leader = self._swarm.leader()
        if leader is not None and source.random() < 0.4:
            return leader
        return source.choice(list(self._swarm.nodes))

    def _draw_duration_ms(self, source: random.Random) -> int:
        return 1 + int(source.expovariate(1 / self._swarm.settings.duration_ms))

    def _cut(self, links: list[tuple[NodeId, NodeId]], for_ms: int) -> None:
        cuts = self._swarm.cuts
        for link in links:
            cuts[link] = cuts.get(link, 0) + 1

        def mend() -> None:
            for link in links:
                # Unless all was healed since.
                if cuts.get(link):
                    cuts[link] -= 1

        self._swarm.plan(for_ms, mend)

    # --- links and clocks ---

    def _partition(self, source: random.Random) -> None:
        nodes = list(self._swarm.nodes)
        source.shuffle(nodes)
        cut = source.randint(0, len(nodes) - 1)
        left, right = nodes[:cut], nodes[cut:]
        links = [(a, b) for a in left for b in right] + [(b, a) for a in left for b in right]
        self._cut(links, self._draw_duration_ms(source))

    def _one_way(self, source: random.Random) -> None:
        node = self._draw_node(source)
        others = [other for other in self._swarm.nodes if other != node]
        if source.random() < 0.5:
            others = others[:1]
        deaf = source.random() < 0.5
        self._cut(
            [(other, node) if deaf else (node, other) for other in others], self._draw_duration_ms(source)
        )

    def _flapping(self, source: random.Random) -> None:
        node, other = self._draw_node(source), source.choice(list(self._swarm.nodes))
        links = [(node, other), (other, node)]
        for _ in range(source.randint(3, 12)):
            self._swarm.plan(self._draw_duration_ms(source), self._cut, links, source.randint(1, 200))

    def _broken_connection(self, source: random.Random) -> None:
        node = self._draw_node(source)
        if node in self._swarm.running:
            self._swarm.step(node, Unreachable(source.choice(list(self._swarm.nodes))))

    def _slow_node(self, source: random.Random) -> None:
        node = self._draw_node(source)
        self._swarm.slow[node] = source.choice((5, 50))
        self._swarm.plan(self._draw_duration_ms(source), self._swarm.slow.pop, node, None)

    def _pause(self, source: random.Random) -> None:
        node = self._draw_node(source)
        if node in self._swarm.running:
            self._swarm.pause(node)
            self._swarm.plan(self._draw_duration_ms(source), self._swarm.resume, node)

    # --- processes, hosts and disks ---

    def _crash(self, source: random.Random) -> None:
        node = self._draw_node(source)
        if self._swarm.nodes[node].core is not None:
            self._swarm.crash(node)
            self._swarm.start_soon(node, self._draw_duration_ms(source))

    def _power_loss(self, source: random.Random) -> None:
        node = self._draw_node(source)
        self._swarm.lose_power(node)
        self._swarm.start_soon(node, self._draw_duration_ms(source))

    def _blackout(self, source: random.Random) -> None:
        for node in self._swarm.nodes:
            self._swarm.lose_power(node)
            self._swarm.start_soon(node, source.randint(0, 200))

    def _write_error(self, source: random.Random) -> None:
        self._swarm.failing[self._draw_node(source)] = CoreFault.WRITE_ERROR

    def _sync_error(self, source: random.Random) -> None:
        self._swarm.failing[self._draw_node(source)] = CoreFault.SYNC_ERROR

    def _full_disk(self, source: random.Random) -> None:
        node = self._draw_node(source)
        self._swarm.failing[node] = CoreFault.FULL_DISK
        self._swarm.plan(self._draw_duration_ms(source), self._swarm.failing.pop, node, None)

    def _bit_flip(self, source: random.Random) -> None:
        swarm, node = self._swarm, self._draw_node(source)
        machine = swarm.nodes[node]
        if machine.disk.synced == 0 or node in swarm.retired or not self._may_lose(machine.key):
            return
        if swarm.settings.dynamic and source.random() < 0.7:
            self._replace(node, source)
            return
        swarm.trace(f"node {node} finds damage in its log, and stays down")
        swarm.crash(node)
        swarm.retired[node] = None
        swarm.lost_keys.append(machine.key)

    def _lost_disk(self, source: random.Random) -> None:
        node = self._draw_node(source)
        if node not in self._swarm.retired and self._may_lose(self._swarm.nodes[node].key):
            self._replace(node, source)

    def _replace(self, node: NodeId, source: random.Random) -> None:
        swarm = self._swarm
        swarm.crash(node)
        swarm.wipe(node)
        swarm.invariants.check_durability(swarm.nodes[node])
        swarm.trace(f"node {node} has a new disk, {swarm.nodes[node].key.directory_id}")
        swarm.start_soon(node, self._draw_duration_ms(source))

    # --- what operators ask for ---

    def _leading(self) -> NodeId | None:
        swarm = self._swarm
        leading = [node for node in swarm.running if swarm.nodes[node].up.role is Role.LEADER]
        return max(leading, key=lambda node: swarm.nodes[node].up.epoch, default=None)

    def _resign(self, source: random.Random) -> None:
        node = self._leading()
        if node is not None:
            self._swarm.step(node, Resign())

    def _transfer(self, source: random.Random) -> None:
        node = self._leading()
        if node is not None and node not in self._clients.busy:
            self._clients.busy[node] = None
            self._swarm.step(node, TransferLeadership(source.choice(list(self._swarm.nodes))))

    def _snapshot(self, source: random.Random) -> None:
        node = self._draw_node(source)
        if node in self._swarm.running:
            self._swarm.take_snapshot(node)
            if node in self._swarm.running and source.random() < 0.6:
                self._swarm.move_start(node)

    def _voters(self, source: random.Random) -> None:
        node = self._leading()
        if node is None or node in self._clients.busy:
            return
        swarm = self._swarm
        other = swarm.nodes[source.choice(list(swarm.nodes))]
        if not swarm.nodes[node].up.has_dynamic_voters and source.random() < 0.8:
            self.ask(node, AdoptVoters())
        elif source.random() < 0.15:
            moved = Endpoint(f"moved-{self._asked}", 9093)
            self.ask(node, UpdateVoter(Voter(other.key, moved)))
        elif source.random() < 0.1:
            self.ask(node, AdoptVoters())
        elif swarm.nodes[node].up.voters.has(other.key):
            self.ask(node, RemoveVoter(other.key))
        else:
            self.ask(node, AddVoter(Voter(other.key, endpoint_of(other.id))))

    def ask(self, node: NodeId, change: VoterChange) -> None:
        """Ask for the change, unless too much of the resulting voter set would be lost."""
        voters = list(self._swarm.nodes[node].up.voters)
        match change:
            case AddVoter(voter):
                voters = [each for each in voters if each.key.id != voter.key.id] + [voter]
            case RemoveVoter(key):
                voters = [each for each in voters if each.key != key]
            case _:
                pass
        after = VoterSet(tuple(sorted(voters, key=lambda each: each.key.id)))
        if len(after) and self._survives(after, self._swarm.lost_keys):
            self._asked += 1
            self._swarm.trace(f"node {node} is asked for {change}")
            self._swarm.step(node, ChangeVoters(self._asked, change))

    def repair_voters(self) -> bool:
        """Remove the lost replicas, as operators do after a loss. Return whether all is well; if not, call
        again later."""
        swarm = self._swarm
        node = self._leading()
        if node is None:
            return False
        voters = swarm.nodes[node].up.voters
        lost_voters = [voter.key for voter in voters if voter.key in swarm.lost_keys]
        if not lost_voters or not swarm.settings.dynamic:
            return True
        self.ask(node, RemoveVoter(lost_voters[0]))
        return False

    def _observe(self, machine: CoreNode, effect: Effect) -> None:
        if isinstance(effect, TransferEnded) or (
            isinstance(effect, RoleChanged) and effect.role is not Role.LEADER
        ):
            self._clients.busy.pop(machine.id, None)
        elif isinstance(effect, VotersChanged):
            self._swarm.trace(f"node {machine.id} answers: {effect.error.name} {effect.message}")
