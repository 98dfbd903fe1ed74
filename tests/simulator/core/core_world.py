"""Cores wired to each other over simulated disks, with the invariants of Raft checked after every step.

`CoreWorld` does nothing by itself: messages, syncs and timers wait until somebody lets them happen. Traces
and hand-made schedules use it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from quorate.raft.core import (
    AppendFetched,
    AppendLeaderChange,
    AppendVoters,
    ArmTimer,
    Core,
    CoreConfig,
    Durable,
    Effect,
    Event,
    Generation,
    InstallSnapshot,
    LogStartMoved,
    Message,
    Propose,
    ReadIndex,
    ReadIndexConfirmed,
    ReadIndexFailed,
    Received,
    Request,
    Role,
    RoleChanged,
    SendRecords,
    SendSnapshotChunk,
    SnapshotChecked,
    SnapshotDamaged,
    SnapshotTaken,
    StoreSnapshotChunk,
    Timer,
    TimerFired,
    Truncate,
)
from quorate.simulation.violations import SafetyViolation
from quorate.types import (
    ElectionState,
    Endpoint,
    EpochEnd,
    NodeId,
    Offset,
    ReplicaKey,
    SnapshotId,
    Voter,
    VoterSet,
)
from tests.simulator.core.core_invariants import Invariants
from tests.simulator.core.core_node import (
    CoreDisk,
    CoreFactory,
    CoreNode,
    CoreRecord,
    chunk_of,
    endpoint_of,
    entries_of,
    records_of,
    snapshot_bytes,
    unpack_entries,
)
from tests.simulator.effect_interpreter import EffectInterpreter, WrittenBatch

CLUSTER_ID = "simulated"
_VOTERS_MAY_CHANGE: Final = (AppendFetched, AppendLeaderChange, AppendVoters, Truncate, InstallSnapshot)


class CoreWorld:
    """Nodes, their disks, and the messages between them. Nothing happens by itself. Any call that breaks an
    invariant raises SafetyViolation."""

    def __init__(
        self,
        *,
        voters: int,
        observers: int = 0,
        dynamic: bool = False,
        config: CoreConfig | None = None,
        core: CoreFactory = Core,
    ) -> None:
        """`dynamic`: the voters are in each voter's bootstrap snapshot, nodes have directories, and observers
        know only the voters' endpoints (KIP-853). Otherwise every node is configured with the voters."""
        self.config = config if config is not None else CoreConfig()
        self._factory = core
        self.now_ms = 0
        self.voters = VoterSet(
            tuple(
                Voter(
                    ReplicaKey(NodeId(node), f"disk-{node}" if dynamic else None), endpoint_of(NodeId(node))
                )
                for node in range(1, voters + 1)
            )
        )
        self.bootstrap = tuple(voter.endpoint for voter in self.voters) if dynamic else ()
        self.nodes = {
            NodeId(node): CoreNode(NodeId(node), self._formatted(NodeId(node), dynamic))
            for node in range(1, voters + observers + 1)
        }
        self.in_flight: list[Message] = []
        """The messages sent and not yet delivered."""
        self.lost_keys: list[ReplicaKey] = []
        """Replicas whose data is lost."""
        self.invariants = Invariants(
            self.nodes,
            configured=VoterSet(()) if dynamic else self.voters,
            is_lost=lambda key: key in self.lost_keys,
        )
        self.on_effect: Callable[[NodeId, Effect], None] | None = None
        """Sees each effect before it is carried out."""
        self.wiped: set[NodeId] = set()
        """The nodes that ever lost their disk: their former data is unknown."""
        self._aliases: dict[tuple[NodeId, int], NodeId] = {}
        """The bootstrap server as which a node was asked, by the asking node and the correlation."""
        self._interpreters = {node: CoreInterpreter(self, machine) for node, machine in self.nodes.items()}
        self._next_value = 0
        self._voters_changed = True

    @property
    def committed(self) -> list[CoreRecord]:
        """The longest prefix that any node ever called committed."""
        return self.invariants.committed

    # --- what can be made to happen ---

    def start(self, node: NodeId) -> tuple[Effect, ...]:
        """Start a node, or restart it from its disk. Recovered data is durable before the first step."""
        machine = self.nodes[node]
        machine.disk.synced = machine.disk.end_offset
        machine.incarnation += 1
        machine.high_watermark = None
        machine.core = self._factory(
            config=self.config_of(node),
            cluster_id=CLUSTER_ID,
            key=machine.key,
            endpoint=endpoint_of(node) if self.bootstrap else None,
            voters=VoterSet(()) if self.bootstrap else self.voters,
            election=machine.disk.election,
            log=machine.disk.recovered(),
            bootstrap=self._bootstrap_of(node),
        )
        self.invariants.last_event = node, "starts"
        self._voters_changed = True
        effects = machine.core.start()
        self._carry_out(machine, effects)
        return effects

    def step(self, node: NodeId, event: Event, *, effects_done: int | None = None) -> tuple[Effect, ...]:
        """Give `node` an event and carry out the effects; only the first `effects_done`, if given, as if it
        crashed then."""
        machine = self.nodes[node]
        self.invariants.last_event = node, event
        machine.up.tell_time(self.clock_of(node))
        effects = machine.up.step(event)
        if effects_done is None:
            self._carry_out(machine, effects)
        else:
            for effect in effects[:effects_done]:
                self._carry_out_one(machine, effect)
        return effects

    def config_of(self, node: NodeId) -> CoreConfig:
        """Return the configuration of a process that starts."""
        return self.config

    def clock_of(self, node: NodeId) -> int:
        """Return the time of the node's clock for leases, in ms."""
        return self.now_ms

    def check_leases(self, elected: CoreNode) -> None:
        """While a leader has a lease, no later epoch has a leader."""
        for machine in self.nodes.values():
            if machine.core is None or machine.core.epoch >= elected.up.epoch:
                continue
            if machine.core.has_read_lease(self.clock_of(machine.id)):
                raise self.invariants.violation(
                    f"a read lease is exclusive: {machine.id} has one of epoch {machine.core.epoch}", elected
                )

    def crash(self, node: NodeId, *, keep: int | None = None) -> None:
        """Stop it. `keep` entries remain, at least those synced; None keeps all, as a process crash does."""
        machine = self.nodes[node]
        machine.stop()
        if keep is not None:
            if keep < machine.disk.synced:
                raise ValueError(
                    f"{machine.disk.synced} entries of node {node} are synced, {keep} is too few"
                )
            del machine.disk.entries[keep:]

    def propose(self, node: NodeId, count: int = 1) -> tuple[Effect, ...]:
        self._next_value += count
        return self.step(node, Propose(self._next_value - count, count))

    def deliver(self, message: Message, *, effects_done: int | None = None) -> tuple[Effect, ...]:
        return self.step(self.reached_by(message), Received(message), effects_done=effects_done)

    def reached_by(self, message: Message) -> NodeId:
        """The node that `message` is for, which may be addressed as a bootstrap server."""
        return self.known_as(message.destination)

    def known_as(self, name: NodeId) -> NodeId:
        """The node of that id, or that is the bootstrap server of that number."""
        return name if name >= 0 else tuple(self.nodes)[-2 - name]

    def _bootstrap_of(self, node: NodeId) -> tuple[Endpoint, ...]:
        """Return the bootstrap servers of a node: the first voters. A node with a new disk gets all nodes,
        because perhaps none of the first voters is one now."""
        if not self.bootstrap or node not in self.wiped:
            return self.bootstrap
        return tuple(endpoint_of(each) for each in self.nodes)

    def wipe(self, node: NodeId) -> None:
        """Give the node, which is down, a new disk for its lost one."""
        machine = self.nodes[node]
        if machine.core is not None:
            raise ValueError(f"node {node} is up; crash it first")
        self.wiped.add(node)
        self.lost_keys.append(machine.key)
        directory_id = None if machine.disk.directory_id is None else machine.disk.directory_id + "-new"
        machine.disk = CoreDisk(directory_id=directory_id)

    def take_snapshot(self, node: NodeId) -> SnapshotId | None:
        """Take a snapshot of all that `node` knows to be committed and has stored; None if that is nothing
        new."""
        machine = self.nodes[node]
        disk = machine.disk
        end = min(machine.up.high_watermark or 0, machine.up.durable_end_offset)
        latest = disk.latest_snapshot
        while 0 < end < len(disk.entries) and disk.entries[end].value == disk.entries[end - 1].value:
            end -= 1  # not inside a batch of control records (Kafka PR 21028)
        if end == 0 or (latest is not None and end <= latest.end_offset):
            return None
        snapshot = SnapshotId(Offset(end), disk.entries[end - 1].epoch)
        disk.snapshots[snapshot] = tuple(disk.entries[:end])
        in_snapshot = disk.voters_below(end, disk.entries)
        voters = machine.up.voters_at(snapshot.end_offset)
        self.invariants.require(voters == in_snapshot, "the core knows the voters of a snapshot", machine)
        self.step(node, SnapshotTaken(snapshot))
        return snapshot

    def move_start(self, node: NodeId) -> None:
        """Move the log start to the end of the latest snapshot; older ones are deleted."""
        machine = self.nodes[node]
        latest = machine.up.snapshot
        if latest is not None and latest.end_offset > machine.disk.log_start_offset:
            machine.disk.move_start(latest)
            self.step(node, LogStartMoved(EpochEnd(latest.epoch, latest.end_offset)))

    def check_snapshot(self, node: NodeId, *, damaged: bool = False) -> tuple[Effect, ...]:
        """Finish the check of a fetched snapshot."""
        machine = self.nodes[node]
        snapshot = machine.checks.pop(0)
        disk = machine.disk
        if damaged:
            disk.part = None
            return self.step(node, SnapshotDamaged(snapshot))
        part = disk.part
        whole = part is not None and part[0] == snapshot and bytes(part[1]) == snapshot_bytes(snapshot)
        self.invariants.require(whole, f"what was fetched is snapshot {snapshot}, whole", machine)
        disk.part = None
        entries = tuple(self.committed[: snapshot.end_offset])
        self.invariants.require(
            len(entries) == snapshot.end_offset, "a snapshot holds what is committed", machine
        )
        disk.snapshots[snapshot] = entries
        voters = next((entry.voters for entry in reversed(entries) if entry.voters is not None), None)
        if voters is None and self.bootstrap:
            voters = self.voters
        return self.step(node, SnapshotChecked(snapshot, voters))

    def read_index(self, node: NodeId, read_round: int) -> tuple[Effect, ...]:
        self.invariants.read_index_asked(self.nodes[node], read_round)
        return self.step(node, ReadIndex(read_round))

    def sync(self, node: NodeId) -> tuple[Effect, ...]:
        """Finish every requested sync, and report it."""
        machine = self.nodes[node]
        done = machine.syncs[-1]
        machine.syncs.clear()
        self.sync_disk(node, done)
        return self.step(node, done)

    def sync_disk(self, node: NodeId, durable: Durable) -> None:
        """The disk has it; the core does not know yet."""
        machine = self.nodes[node]
        if durable.generation == machine.up.generation:
            machine.disk.synced = max(machine.disk.synced, durable.end_offset)

    def fire(self, node: NodeId, timer: Timer) -> tuple[Effect, ...]:
        machine = self.nodes[node]
        if timer not in machine.timers:
            raise ValueError(f"node {node} has no {timer} armed, only {list(machine.timers)}")
        del machine.timers[timer]
        return self.step(node, TimerFired(timer))

    def leader(self) -> NodeId | None:
        """The leader of the highest epoch among the nodes that are up."""
        leading = [
            (core.epoch, node)
            for node, machine in self.nodes.items()
            if (core := machine.core) is not None and core.role is Role.LEADER
        ]
        return max(leading)[1] if leading else None

    # --- effects ---

    def _carry_out(self, machine: CoreNode, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._carry_out_one(machine, effect)
        self.invariants.stepped(machine, voters_changed=self._voters_changed)
        self._voters_changed = False

    def _carry_out_one(self, machine: CoreNode, effect: Effect) -> None:
        if self.on_effect is not None:
            self.on_effect(machine.id, effect)
        if type(effect) in _VOTERS_MAY_CHANGE:
            self._voters_changed = True
        self._interpreters[machine.id].carry_out(effect)

    def send(self, message: Message) -> None:
        self.in_flight.append(self._addressed(message))

    def _addressed(self, message: Message) -> Message:
        """Address an answer as the driver does: it comes from the node that was asked, be it by another
        name."""
        if isinstance(message, Request):
            if message.destination < 0:
                self._aliases[message.source, message.correlation] = message.destination
            return message
        alias = self._aliases.get((message.destination, message.correlation))
        return message if alias is None else replace(message, source=alias)

    def armed(self, machine: CoreNode, effect: ArmTimer) -> None:
        """A timer runs."""

    def _sync_asked(self, machine: CoreNode, durable: Durable) -> None:
        machine.syncs.append(durable)

    def check_asked(self, machine: CoreNode, snapshot: SnapshotId) -> None:
        machine.checks.append(snapshot)

    def chunk_bytes(self) -> int:
        return 8

    def _formatted(self, node: NodeId, dynamic: bool) -> CoreDisk:
        if not dynamic:
            return CoreDisk()
        voters = self.voters if node in self.voters else None
        return CoreDisk(directory_id=f"disk-{node}", bootstrap_voters=voters)

    def sync_soon(self, machine: CoreNode) -> None:
        self._sync_asked(machine, Durable(machine.up.generation, machine.disk.end_offset))

    def records_max(self) -> int:
        return 1000

    def check_logs(self) -> None:
        self.invariants.check_logs()


@dataclass(slots=True)
class CoreInterpreter(EffectInterpreter):
    """Carries out the effects of one node of a world."""

    world: CoreWorld
    machine: CoreNode

    @property
    def node_id(self) -> NodeId:
        return self.machine.id

    @property
    def stored(self) -> CoreDisk:
        return self.machine.disk

    def violation(self, invariant: str) -> SafetyViolation:
        return self.world.invariants.violation(invariant, self.machine)

    def persist(self, state: ElectionState) -> None:
        self.machine.disk.election = state

    def append(self, generation: Generation, batches: tuple[WrittenBatch, ...]) -> None:
        for batch in batches:
            self.machine.disk.entries += entries_of(batch)
        self.world.sync_soon(self.machine)

    def append_fetched(self, effect: AppendFetched) -> None:
        self.machine.disk.entries += unpack_entries(effect)
        self.world.sync_soon(self.machine)

    def truncate(self, end_offset: Offset) -> None:
        self.world.invariants.cut(self.machine, end_offset)
        del self.machine.disk.entries[end_offset:]
        self.machine.disk.synced = end_offset

    def send(self, message: Message) -> None:
        self.world.invariants.said(self.machine, message)
        self.world.send(message)

    def send_records(self, effect: SendRecords) -> None:
        entries, records_max = self.machine.disk.entries, self.world.records_max()
        self.world.send(records_of(effect, entries, records_max=records_max))

    def send_chunk(self, effect: SendSnapshotChunk) -> None:
        known = effect.response.snapshot in self.machine.disk.snapshots
        self.world.send(chunk_of(effect, known=known, chunk_bytes=self.world.chunk_bytes()))

    def store_chunk(self, effect: StoreSnapshotChunk) -> None:
        follows = self.machine.disk.store_chunk(effect)
        self.require(follows, f"chunks of {effect.snapshot} follow each other, not at {effect.position}")

    def check_snapshot(self, snapshot: SnapshotId) -> None:
        self.world.check_asked(self.machine, snapshot)

    def install(self, snapshot: SnapshotId) -> None:
        self.machine.disk.install(snapshot)

    def arm(self, effect: ArmTimer) -> None:
        self.machine.timers.pop(effect.timer, None)
        self.machine.timers[effect.timer] = effect
        self.world.armed(self.machine, effect)

    def cancel(self, timer: Timer) -> None:
        self.machine.timers.pop(timer, None)

    def advance(self, high_watermark: Offset) -> None:
        self.world.invariants.high_watermark_moved(self.machine, high_watermark)

    def change_role(self, effect: RoleChanged) -> None:
        self.world.invariants.role_changed(self.machine, effect)
        if effect.role is Role.LEADER:
            self.world.check_leases(self.machine)

    def end_read(self, effect: ReadIndexConfirmed | ReadIndexFailed) -> None:
        if isinstance(effect, ReadIndexConfirmed):
            read_round, read_index = effect.read_round, effect.read_index
            self.world.invariants.read_index_confirmed(self.machine, read_round, read_index)
