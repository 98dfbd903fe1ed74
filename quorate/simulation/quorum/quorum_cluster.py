"""A quorum of simulated hosts that run the shipped `Quorum`."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import trio

from quorate.log import Log
from quorate.present import present
from quorate.raft import Quorum, QuorumConfig, Sessions
from quorate.raft.core import CoreConfig, Role
from quorate.raft.sessions.session_table import SessionAnswer, Verdict
from quorate.raft.sessions.sessions import SessionResult
from quorate.raft.state_machine.interface import CommittedBatch, SnapshotLoader, StateMachine
from quorate.raft.storage.storage import format_folder
from quorate.runtime import Address, uuid_text
from quorate.simulation.checkers.invariants import Checker, WatchedTelemetry
from quorate.simulation.checkers.node_view import NodeView, validate_quorum
from quorate.simulation.faults.hosts import FOLDER, HostCluster
from quorate.simulation.faults.voter_faults import VotingNode
from quorate.simulation.patience import holds_within
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from quorate.simulation.world.scheduler import Scheduler
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.simulation.world.simulated_network import NetworkSettings
from quorate.simulation.world.simulated_runtime import DiskSpeed, SimulatedRuntime
from quorate.simulation.world.trace import Trace
from quorate.types import Endpoint, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VoterSet


class Journal:
    """`StateMachine` that keeps each record with its offset. A record's result is its offset."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes]] = []

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        offsets = range(batch.base_offset, batch.base_offset + len(batch.records))
        self.entries.extend(zip(offsets, batch.records, strict=True))
        return offsets

    def take_snapshot(self) -> Iterator[bytes]:
        return (offset.to_bytes(8, "big") + record for offset, record in self.entries.copy())

    def load_snapshot(self, snapshot: SnapshotId) -> "JournalLoader":
        return JournalLoader(self)


class JournalLoader:
    """`SnapshotLoader` of a journal: a chunk per record."""

    __slots__ = ("_entries", "_journal")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: list[tuple[int, bytes]] = []

    def add(self, chunk: bytes) -> None:
        self._entries.append((int.from_bytes(chunk[:8], "big"), chunk[8:]))

    def install(self) -> None:
        self._journal.entries = self._entries


JournalResult = int | SessionResult | None
"""The result of a record of a journal with sessions."""


class WatchedJournal(Sessions[int]):
    """A journal with sessions. `applied` is called with each batch, `answered` with its results, and `loaded`
    with the end of each snapshot that is installed."""

    __slots__ = ("_answered", "_applied", "_loaded", "journal")

    def __init__(
        self,
        *,
        applied: Callable[[CommittedBatch], None],
        answered: Callable[[CommittedBatch, Sequence[JournalResult]], None],
        loaded: Callable[[Offset], None],
    ) -> None:
        self.journal = Journal()
        super().__init__(self.journal)
        self._applied = applied
        self._answered = answered
        self._loaded = loaded

    def apply(self, batch: CommittedBatch) -> Sequence[JournalResult]:
        self._applied(batch)
        results = super().apply(batch)
        self._answered(batch, results)
        return results

    def load_snapshot(self, snapshot: SnapshotId) -> SnapshotLoader:
        return WatchedLoader(super().load_snapshot(snapshot), lambda: self._loaded(snapshot.end_offset))


class WatchedLoader:
    """A `SnapshotLoader`. `installed` is called when its snapshot is installed."""

    __slots__ = ("_installed", "_loader", "add")

    def __init__(self, loader: SnapshotLoader, installed: Callable[[], None]) -> None:
        self._loader = loader
        self._installed = installed
        self.add = loader.add

    def install(self) -> None:
        self._loader.install()
        self._installed()


CLUSTER_ID = "simulated-cluster-0001"
PORT = 9093
CLIENT_PORT = 9099


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The composition of a cluster."""

    voters: int = 3
    observers: int = 0
    dynamic: bool = False
    """The voters are in the log, so that they can be changed (KIP-853)."""
    core: CoreConfig = field(default_factory=CoreConfig)
    segment_bytes: int = 1024 * 1024
    recovery_point_bytes: int = 64 * 1024
    snapshot_bytes: int = 20 * 1024 * 1024
    """The bytes of log after which a node takes a snapshot."""
    retention_bytes: int = 100 * 1024 * 1024
    """The bytes of log and snapshots to keep; older ones are deleted where possible."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    disk: DiskSpeed = field(default_factory=DiskSpeed)
    sync_at_once: tuple[bool, ...] = ()
    """True for nodes whose disk syncs in the pass that asks (`SyncStrategy.INLINE`), in turn: a follower then
    acknowledges in the pass that received."""
    clock_rates: tuple[float, ...] = ()
    """The number of its own ms that each node takes for one of the others': 2.0 is a clock at half speed. A
    process only measures durations on its monotonic clock, and all of them are configured, so the simulation
    scales its configuration. (A wait that a request asks for is measured by the node that parks it.)"""
    steady_rates: tuple[float, ...] = ()
    """The rates of the nodes' clocks for leases, in turn. The promises of voters are measured at rate 1, so
    0.8 is the bound."""


class QuorumNode(VotingNode):
    """`quorum` and `state_machine` are those of its running process."""

    def __init__(self, config: QuorumConfig, host: SimulatedRuntime) -> None:
        super().__init__(config.node_id, host)
        self.config = config
        self.quorum: Quorum[object] | None = None
        self.state_machine: WatchedJournal | None = None

    @property
    def journal(self) -> Journal | None:
        return None if self.state_machine is None else self.state_machine.journal

    @property
    def open(self) -> bool:
        return self.quorum is not None

    @property
    def electorate(self) -> Quorum[object] | None:
        return self.quorum

    @property
    def log(self) -> Log:
        return self.serving.log

    def validate(self) -> None:
        validate_quorum(self.serving)

    @property
    def serving(self) -> Quorum[object]:
        """Raises `ValueError` if there is none."""
        if self.quorum is None:
            raise ValueError(f"{self.name} is down")
        return self.quorum

    @property
    def address(self) -> Address | None:
        return self.config.listen_address


class QuorumCluster(HostCluster[QuorumNode]):
    """Voters first, then observers. `checker` watches every step of every node."""

    def __init__(
        self,
        settings: ClusterSettings,
        source: random.Random,
        scheduler: Scheduler,
        nursery: trio.Nursery,
        trace: Trace,
    ) -> None:
        self.settings = settings
        self.lost_directories: dict[str, QuorumNode] = {}
        """Directory ids of lost disks, and whose they were."""
        self.refused: dict[int, Verdict] = {}
        """The verdicts on the appends in sessions that were not applied, by the offsets of their commands."""
        nodes = settings.voters + settings.observers
        super().__init__(
            nodes,
            settings.network,
            settings.disk,
            settings.sync_at_once,
            source,
            scheduler,
            nursery,
            trace,
        )
        self.checker = Checker(self.voters, trace, self.found, self._voters_of)

    @property
    def voters(self) -> Sequence[QuorumNode]:
        return self.nodes[: self.settings.voters]

    def _voters_of(self, view: NodeView) -> Sequence[QuorumNode | None]:
        quorum = self.nodes[view.id - 1].quorum
        if quorum is None:
            return self.voters
        holders: list[QuorumNode | None] = []
        for voter in quorum.voters:
            holder = self.nodes[voter.key.id - 1]
            is_lost = voter.key.directory_id is not None and voter.key.directory_id in self.lost_directories
            holders.append(None if is_lost else holder)
        return holders

    def _node(self, number: int, host: SimulatedRuntime) -> QuorumNode:
        voters = tuple(
            Voter(ReplicaKey(NodeId(voter)), Endpoint(f"node-{voter}", PORT))
            for voter in range(1, self.settings.voters + 1)
        )
        config = QuorumConfig(
            node_id=NodeId(number),
            cluster_id=CLUSTER_ID,
            folder=FOLDER,
            voters=VoterSet(voters),
            observer=number > self.settings.voters,
            # Observers too, where they may become voters.
            listen=Address(f"node-{number}", PORT) if self.settings.dynamic else None,
            client_listen=Address(f"node-{number}", CLIENT_PORT),
            core=self._clocked(number),
            segment_bytes=self.settings.segment_bytes,
            recovery_point_bytes=self.settings.recovery_point_bytes,
            snapshot_max_new_bytes=self.settings.snapshot_bytes,
            retention_bytes=self.settings.retention_bytes,
        )
        rates = self.settings.steady_rates
        host.steady_clock.rate = rates[(number - 1) % len(rates)] if rates else 1.0
        return QuorumNode(config, host)

    def _clocked(self, number: int) -> CoreConfig:
        core, rates = self.settings.core, self.settings.clock_rates
        rate = rates[(number - 1) % len(rates)] if rates else 1.0
        if rate == 1.0:
            return core
        return replace(
            core,
            election_timeout_ms=int(core.election_timeout_ms * rate),
            fetch_timeout_ms=int(core.fetch_timeout_ms * rate),
            election_backoff_max_ms=int(core.election_backoff_max_ms * rate),
            request_timeout_ms=int(core.request_timeout_ms * rate),
            retry_backoff_ms=int(core.retry_backoff_ms * rate),
            fetch_max_wait_ms=int(core.fetch_max_wait_ms * rate),
            broken_connection_wait_ms=int(core.broken_connection_wait_ms * rate),
        )

    async def boot(self) -> None:
        """Format every folder and start every node."""
        for node in self.nodes:
            node.directory_id = await self._format(node, node.disk)
        for node in self.nodes:
            self.start(node)

    async def _format(self, node: QuorumNode, disk: SimulatedDisk) -> str:
        """Return the directory id."""
        runtime = node.host.runtime(disk)
        meta = await format_folder(runtime, FOLDER, cluster_id=CLUSTER_ID, node_id=node.id)
        return uuid_text(meta.directory_id)

    async def replace_disk(self, node: QuorumNode) -> None:
        """Replace the node's disk by a formatted one, or keep it if another fault has started the node again.
        The node comes back as another replica that knows only bootstrap servers. Only where the voters are in
        the log: otherwise it would vote again in epochs that it forgot."""
        spare = node.host.spare_disk()
        directory_id = await self._format(node, spare)
        await self.crash(node, power_loss=True)
        if node.up:
            return
        self.lost_directories[node.directory_id] = node
        node.disks += 1
        node.host.disk = spare
        node.directory_id = directory_id
        endpoints = tuple(Endpoint(f"node-{number}", PORT) for number in range(1, len(self.nodes) + 1))
        node.config = replace(
            node.config, voters=VoterSet(()), bootstrap=endpoints, listen=Address(node.name, PORT)
        )
        self.trace.add(node.name, f"has a new disk, {node.directory_id}")

    def _state_machine(self, node: QuorumNode) -> StateMachine[object]:
        """Return the state machine of a process that starts."""
        node.state_machine = WatchedJournal(
            applied=lambda batch: self._applied(node, batch),
            answered=self._answered,
            loaded=lambda end_offset: self._loaded(node, end_offset),
        )
        return node.state_machine

    async def _process(self, node: QuorumNode) -> None:
        async with Quorum[object].open(
            node.config,
            self._state_machine(node),
            runtime=node.host.runtime(),
            telemetry=WatchedTelemetry(node, self.checker),
        ) as quorum:
            quorum.serve_reads(lambda _: b"%d" % quorum.applied_offset)
            node.quorum = quorum
            await node.stop.wait()

    def _process_ended(self, node: QuorumNode) -> None:
        node.quorum = None

    def _applied(self, node: QuorumNode, batch: CommittedBatch) -> None:
        if node.alive:
            self.checker.check(lambda invariant: invariant.applied(node, batch))

    def _answered(self, batch: CommittedBatch, results: Sequence[JournalResult]) -> None:
        for offset, (answer, first) in enumerate(pairwise(results), batch.base_offset):
            if isinstance(answer, SessionAnswer) and first is None:
                self.refused[offset] = answer.verdict

    def _loaded(self, node: QuorumNode, end_offset: Offset) -> None:
        if node.alive:
            self.trace.add(node.name, f"loads a snapshot of what is below {end_offset}")
            self.checker.check(lambda invariant: invariant.loaded(node, end_offset))

    def leader(self) -> QuorumNode | None:
        known = [node for node in self.running if node.serving.is_leader]
        return max(known, key=lambda node: node.serving.epoch, default=None)

    def resign(self, leader: QuorumNode) -> None:
        leader.serving.resign()

    def check_leaders(self) -> None:
        """A node that says it leads has applied all that older epochs committed, so its state is current.
        While one has a read lease, none leads in a later epoch."""
        for node in self.running:
            if node.serving.has_read_lease and any(
                other.serving.role is Role.LEADER and other.serving.epoch > node.serving.epoch
                for other in self.running
            ):
                self.found(
                    "ReadLeaseIsExclusive",
                    SafetyViolation(f"node {node.id} has a read lease in epoch {node.serving.epoch}"),
                )
            if node.serving.is_leader:
                before = self.checker.committed.last_before(node.serving.epoch)
                applied = node.serving.applied_offset
                if before is not None and applied < before.end_offset:
                    self.found(
                        "LeaderIsCurrent",
                        SafetyViolation(
                            f"node {node.id} says it leads epoch {node.serving.epoch}, but has applied "
                            f"{applied} of the {before.end_offset} that older epochs committed"
                        ),
                    )

    async def converge(self, *, within_s: float) -> QuorumNode:
        """Wait until one node leads, all running ones know it, and all have applied everything; the leader.
        Raises `LivenessViolation`."""
        if await holds_within(within_s, self._agree, every_s=0.05):
            return present(self.leader(), "the leader that all agree on")
        states = ", ".join(
            f"{node.name} {node.serving.role.value} epoch {node.serving.epoch} leader {node.serving.leader} "
            f"high watermark {node.serving.high_watermark} applied {node.serving.applied_offset} "
            f"log end {node.log.end_offset}"
            for node in self.running
        )
        raise LivenessViolation(f"no agreement {within_s:g} s after the last fault: {states}")

    def _agree(self) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        end = leader.log.end_offset
        return all(
            node.quorum is not None
            and node.quorum.leader == leader.id
            and node.quorum.high_watermark == node.quorum.applied_offset == node.log.end_offset == end
            for node in self.nodes
            if node.up
        )
