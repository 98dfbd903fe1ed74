"""Simulated hosts that run the shipped `BrokerServer`, each broker and controller in one."""

import random
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from quorate.broker.controller.broker_tending import FENCING_THE_DEAD
from quorate.broker.failure_reports import UnreportedFailureError
from quorate.broker.log_directories import SameDirectoryError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import PartitionState
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.replication.foundation.errors import AllDirectoriesFailedError, DuplicateReplicaError
from quorate.broker.replication.hosting.state_changes import ROLE_CHANGED, ChangeSummary
from quorate.broker.replication.replica.partition_replica import RoleChange
from quorate.broker.server import BrokerServer
from quorate.log import Log
from quorate.quorum_state import META_PROPERTIES
from quorate.raft import Quorum
from quorate.raft.storage.storage import format_folder
from quorate.runtime import Address, DiskError, Network, parse_uuid, uuid_text
from quorate.simulation.checkers.invariants import Checker, WatchedTelemetry
from quorate.simulation.checkers.node_view import LostReplica, NodeView, validate_quorum
from quorate.simulation.faults.hosts import FOLDER, HostCluster
from quorate.simulation.faults.voter_faults import VotersIn, VotingNode, adopt_voters
from quorate.simulation.patience import holds_within
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from quorate.simulation.world.scheduler import Scheduler, current_process
from quorate.simulation.world.simulated_disk import SimulatedDisk, Volume
from quorate.simulation.world.simulated_network import NetworkSettings
from quorate.simulation.world.simulated_runtime import DiskSpeed, SimulatedRuntime
from quorate.simulation.world.trace import LogEntry, Trace
from quorate.types import Endpoint, ReplicaKey, Voter, VoterSet
from tests.simulator.administration.committed_rules import OneLeaderPerLeaderEpoch
from tests.simulator.administration.replica_folders import duplicates, keep_one_of_two
from tests.simulator.brokers.metadata_invariants import CommittedMetadata, MetadataChangesAreLegal

CLUSTER_ID = "simulated-brokers-0001"
CLIENT_PORT = 9092
CONTROLLER_PORT = 9093
MORE = "more"
"""A second directory of log.dirs."""
BOOTSTRAP = "controller.quorum.bootstrap.servers"
VOTERS = "controller.quorum.voters"
AGAIN = "again"
"""The second mount point of a directory of log.dirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerClusterSettings:
    """`values`: keys of server.properties that differ from their defaults."""

    brokers: int = 3
    min_isr: int = 2
    partitions: int = 2
    values: Mapping[str, str] = field(default_factory=dict)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    disk: DiskSpeed = field(default_factory=DiskSpeed)
    sync_at_once: tuple[bool, ...] = ()
    """True for hosts whose disk syncs in the pass that asks (`SyncStrategy.INLINE`), in turn."""
    voters_in: VotersIn = VotersIn.CONFIGURATION
    auto_join: bool = False
    """Brokers become voters by themselves, where the voters are in the log."""
    log_dirs: tuple[str, ...] = (FOLDER,)
    """The folders of every broker; the first holds the metadata log too."""


def rack_of(number: int) -> str:
    """The rack of a broker: each is in one of its own."""
    return f"rack-{number}"


class BrokerHost(VotingNode):
    """`server` and `quorum` are those of its running process."""

    def __init__(
        self, number: int, host: SimulatedRuntime, values: Mapping[str, str], log_dirs: tuple[str, ...]
    ) -> None:
        """`values`: its server.properties but for log.dirs, which faults change."""
        super().__init__(number, host)
        self._values = dict(values)
        self.log_dirs = log_dirs
        self.rotten = False
        """A bit has flipped in one of its replicas, which is still in use (`BitRot`)."""
        self.away: Volume | None = None
        """The contents of the second directory of log.dirs, while it is taken away."""
        self.server: BrokerServer | None = None
        self.quorum: Quorum[None] | None = None

    @property
    def open(self) -> bool:
        return self.server is not None

    @property
    def electorate(self) -> Quorum[None] | None:
        return None if self.server is None else self.server.quorum

    @property
    def config(self) -> ServerConfig:
        values = {"log.dirs": ",".join(self.log_dirs)} | self._values
        return ServerConfig.parse("\n".join(f"{key}={value}" for key, value in values.items()))

    def votes_by_the_log(self, servers: Iterable[str]) -> None:
        """Name only bootstrap servers in its configuration, from its next start on."""
        self._values.pop(VOTERS, None)
        self._values[BOOTSTRAP] = ",".join(servers)

    @property
    def directories(self) -> set[uuid.UUID]:
        """The ids in its directories of log.dirs, whether or not a process runs."""
        files = (self.disk.durable_content(f"{folder}/{META_PROPERTIES}") for folder in self.config.log_dirs)
        lines = [line for file in files if file is not None for line in file.decode().splitlines()]
        return {
            parse_uuid(value)
            for key, _, value in (line.partition("=") for line in lines)
            if key == "directory.id"
        }

    def duplicates(self) -> Iterator[str]:
        """Yield the partitions with a folder in both of its directories, where it can't tell which is the
        replica."""
        if len(self.log_dirs) == 2:
            yield from duplicates(self.disk, *self.log_dirs)

    @property
    def degraded(self) -> bool:
        """Return whether it serves without one of its directories of log.dirs, which has failed."""
        broker = None if self.server is None or not self.alive else self.server.broker
        return broker is not None and len(broker.replicas.directories.online_ids) < len(self.config.log_dirs)

    @property
    def address(self) -> Address:
        return Address(self.name, CLIENT_PORT)

    @property
    def serving(self) -> BrokerServer:
        """Raises `ValueError` if there is none."""
        if self.server is None:
            raise ValueError(f"{self.name} is down")
        return self.server

    @property
    def log(self) -> Log:
        """Return the quorum's log."""
        if self.quorum is None:
            raise ValueError(f"{self.name} is down")
        return self.quorum.log

    def validate(self) -> None:
        if self.quorum is not None:
            validate_quorum(self.quorum)
        if self.server is not None and self.server.broker is not None and self.alive:
            for partition in self.server.broker.replicas.hosted.partitions():
                partition.validate()

    @property
    def image(self) -> MetadataImage:
        return self.serving.metadata.image

    def is_unfenced(self, image: MetadataImage) -> bool:
        """Return whether `image` has the running incarnation unfenced."""
        broker = None if self.server is None or not self.alive else self.server.broker
        own = None if broker is None else broker.lifecycle.own
        return own is not None and image.is_active(self.id) and image.broker(self.id) == own


class _WatchedQuorum(WatchedTelemetry):
    __slots__ = ("_host",)

    def __init__(self, host: BrokerHost, checker: Checker) -> None:
        super().__init__(host, checker)
        self._host = host

    def opened(self, quorum: Quorum[None]) -> None:
        self._host.quorum = quorum


class BrokerCluster(HostCluster[BrokerHost]):
    """`checker` watches every step of every node's quorum."""

    disk_errors = (
        DiskError,
        AllDirectoriesFailedError,
        DuplicateReplicaError,
        SameDirectoryError,
        UnreportedFailureError,
    )

    def __init__(
        self,
        settings: BrokerClusterSettings,
        source: random.Random,
        scheduler: Scheduler,
        nursery: trio.Nursery,
        trace: Trace,
    ) -> None:
        self.settings = settings
        self._lost: dict[str, LostReplica] = {}
        """The lost replicas by directory id."""
        super().__init__(
            settings.brokers,
            settings.network,
            settings.disk,
            settings.sync_at_once,
            source,
            scheduler,
            nursery,
            trace,
        )
        self.checker = Checker(self.nodes, trace, self.found, self._voters_of)
        trace.on_event = self._logged
        legal = MetadataChangesAreLegal(self.checker.committed)
        self.metadata = CommittedMetadata(legal)
        self.checker.invariants += (legal, self.metadata)
        self._leader_epochs = OneLeaderPerLeaderEpoch()
        self.creating = 0
        """Topics whose creation was asked for and not answered yet."""
        self.unregistering = 0
        """The number of brokers whose removal an operator asked for, without a known outcome yet."""
        self.has_flipped = False
        """A bit has flipped at rest (`BitRot`)."""
        self.fenced_dead = 0
        """The number of brokers that a controller has fenced because their process was gone."""

    @property
    def voters(self) -> Sequence[BrokerHost]:
        return self.nodes

    def _logged(self, event: str, fields: LogEntry) -> None:
        """Check the line against the state of the cluster."""
        if event == ROLE_CHANGED:
            self._role_changed(fields)
        elif event == FENCING_THE_DEAD:
            self._fenced_dead(fields)

    def _logged_error(self, line: str) -> None:
        if not (line.startswith("error a replica is damaged") and self._logging().rotten):
            super()._logged_error(line)

    def _logging(self) -> BrokerHost:
        return next(each for each in self.nodes if each.name == current_process())

    def _role_changed(self, fields: LogEntry) -> None:
        node = self._logging()
        leader, leader_epoch = fields["leader"], fields["leader_epoch"]
        assert isinstance(leader, int)
        assert isinstance(leader_epoch, int)
        leads = fields["role"] == RoleChange.LEADER.value
        try:
            self._leader_epochs.reported(node.id, str(fields["partition"]), leader_epoch, leader, leads=leads)
        except SafetyViolation as violation:
            self.found("OneLeaderPerLeaderEpoch", violation)

    def _fenced_dead(self, fields: LogEntry) -> None:
        """Check that a process which a controller takes for dead doesn't run: neither a pause nor a fault of
        the network shows that it has ended."""
        self.fenced_dead += 1
        for node in self.running:
            broker = node.serving.broker
            if (
                broker is not None
                and (node.id, broker.lifecycle.broker_epoch) == (fields["broker_id"], fields["broker_epoch"])
                and not (node.stop.is_set() or node.disk_failing or node.disk.has_failed)
            ):
                self.found(
                    "WhoRunsIsNotDead",
                    SafetyViolation(f"{node.name} runs, and is fenced because its process is gone"),
                )

    def _voters_of(self, view: NodeView) -> Sequence[NodeView]:
        quorum = self.nodes[view.id - 1].quorum
        if quorum is None:
            return self.nodes
        keys = (voter.key for voter in quorum.voters)
        return [self._lost.get(key.directory_id or "", self.nodes[key.id - 1]) for key in keys]

    def _node(self, number: int, host: SimulatedRuntime) -> BrokerHost:
        addresses = {
            voter: f"node-{voter}:{CONTROLLER_PORT}" for voter in range(1, self.settings.brokers + 1)
        }
        if self.settings.voters_in is VotersIn.FORMATTED:
            quorum = {BOOTSTRAP: ",".join(addresses.values())}
        else:
            voters = (f"{voter}@{address}" for voter, address in addresses.items())
            quorum = {VOTERS: ",".join(voters)}
        values = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{host.name}:{CLIENT_PORT},CONTROLLER://{host.name}:{CONTROLLER_PORT}",
            "metrics.http.port": "-1",
            "min.insync.replicas": str(self.settings.min_isr),
            "default.replication.factor": str(self.settings.brokers),
            "num.partitions": str(self.settings.partitions),
            "broker.rack": rack_of(number),
        }
        if self.settings.auto_join:
            values["controller.quorum.auto.join.enable"] = "true"
        values |= quorum | dict(self._protection(number, host)) | dict(self.settings.values)
        return BrokerHost(number, host, values, self.settings.log_dirs)

    def _protection(self, number: int, host: SimulatedRuntime) -> Mapping[str, str]:
        """Return the keys of server.properties that protect the listeners of a host."""
        return {}

    def client_network(self, client: str) -> Network:
        """Return the network of a client's host."""
        return self.network.for_node(client)

    async def boot(self) -> None:
        """Format every folder, start every node, and see to it that the voters are where they should be."""
        voters = self._first_voters() if self.settings.voters_in is VotersIn.FORMATTED else None
        for node in self.nodes:
            meta = await format_folder(
                node.host.runtime(), FOLDER, cluster_id=CLUSTER_ID, node_id=node.id, voters=voters
            )
            node.directory_id = uuid_text(meta.directory_id)
        for node in self.nodes:
            self.start(node)
        if self.settings.voters_in is VotersIn.ADOPTED:
            await adopt_voters(self)

    async def formatted(self, node: BrokerHost) -> tuple[Volume, str]:
        """An empty folder for a new replica of the node, and its directory id."""
        disk = SimulatedDisk()
        meta = await format_folder(node.host.runtime(disk), FOLDER, cluster_id=CLUSTER_ID, node_id=node.id)
        return disk.unmount(FOLDER), uuid_text(meta.directory_id)

    def replace_folder(self, node: BrokerHost, empty: Volume, directory_id: str) -> None:
        """Lose the folder with the metadata log, and put `empty` in its place. Only where the voters are in
        the log: the node's configuration names no voters from now on. No process may run."""
        lost = SimulatedDisk()
        lost.mount(FOLDER, node.disk.unmount(FOLDER))
        self._lost[node.directory_id] = LostReplica(
            id=node.id, folder=FOLDER, disk=lost, life=node.life, disks=node.disks
        )
        node.disk.mount(FOLDER, empty)
        node.disks += 1
        node.directory_id = directory_id
        node.votes_by_the_log(f"{other.name}:{CONTROLLER_PORT}" for other in self.nodes)
        self.trace.add(node.name, f"has an empty {FOLDER}, {directory_id}")

    def _first_voters(self) -> VoterSet:
        """Each with the directory id that formatting gives it."""
        keys = [ReplicaKey(node.id, uuid_text(node.host.runtime().entropy.uuid())) for node in self.nodes]
        return VoterSet(tuple(Voter(key, Endpoint(f"node-{key.id}", CONTROLLER_PORT)) for key in keys))

    def start(self, node: BrokerHost) -> None:
        super().start(node)
        if node.log_dirs != self.settings.log_dirs or any(node.duplicates()):
            # It says what it misses, or refuses to start.
            node.disk_failing = True

    async def supervise(self, source: random.Random) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().supervise, source)
            if len(self.settings.log_dirs) > 1:
                nursery.start_soon(self._mend_folders)

    async def _mend_folders(self) -> None:
        """Start brokers again that run on without a folder that has failed, and choose where one is down and
        has a partition in both folders by then."""
        while True:
            await trio.sleep(1)
            for node in self.nodes:
                degraded = node.degraded
                if degraded:
                    await self.crash(node, power_loss=False)
                leader = self.leader()
                if not node.up and leader is not None and any(node.duplicates()):
                    keep_one_of_two(node.disk, node.id, leader.image, *node.log_dirs)
                if degraded and not node.up and not node.damaged:
                    self.start(node)

    async def _process(self, node: BrokerHost) -> None:
        watched = _WatchedQuorum(node, self.checker)
        async with BrokerServer.open(node.config, runtime=node.host.runtime(), telemetry=watched) as server:
            node.server = server
            await node.stop.wait()

    def _process_ended(self, node: BrokerHost) -> None:
        node.server = node.quorum = None

    def leader(self) -> BrokerHost | None:
        known = [node for node in self.running if node.serving.quorum.is_leader]
        return max(known, key=lambda node: node.serving.quorum.epoch, default=None)

    def resign(self, leader: BrokerHost) -> None:
        leader.serving.quorum.resign()

    # Partitions

    def states(self, topic: str) -> Mapping[int, PartitionState]:
        """Return the states that the active controller's node has applied; empty if none is known."""
        leader = self.leader()
        if leader is None:
            return {}
        found = leader.image.topic(topic)
        if found is None:
            return {}
        return dict(enumerate(leader.image.partitions(found.topic_id)))

    def all_in_sync(self) -> bool:
        """Return whether the active controller's node has every replica in its ISR, and every broker unfenced
        in the running incarnation."""
        leader = self.leader()
        if leader is None:
            return False
        return all(node.is_unfenced(leader.image) for node in self.nodes) and all(
            len(state.isr) == len(state.replicas) for _, state in leader.image.all_partitions()
        )

    def unfinished_changes(self) -> dict[str, ChangeSummary]:
        """Return how far the brokers are that have not ended all state changes of their replicas."""
        brokers = ((node.name, node.serving.broker) for node in self.running)
        found = {
            name: broker.replicas.journal.summary(now=trio.current_time())
            for name, broker in brokers
            if broker is not None
        }
        return {name: each for name, each in found.items() if each.pending or each.backlog}

    def may_create(self) -> bool:
        """Return whether every partition that is created now has a replica that can lead: every broker is
        registered, none is being unregistered, and every active one has all directories that metadata gives
        it. False without a leader."""
        leader = self.leader()
        if leader is None or self.unregistering:
            return False
        image = leader.image
        brokers = [(node, image.broker(node.id)) for node in self.nodes]
        return all(
            broker is not None and (not image.is_active(node.id) or set(broker.log_dirs) <= node.directories)
            for node, broker in brokers
        )

    async def converge(self, *, within_s: float) -> None:
        """Wait until every replica of every partition is in sync, and no state change is left. Raises
        `LivenessViolation`."""
        if await holds_within(within_s, lambda: self.all_in_sync() and not self.unfinished_changes()):
            return
        leader = self.leader()
        partitions = [] if leader is None else leader.image.all_partitions()
        states = {key: (state.leader, state.isr) for key, state in partitions}
        nodes = {node.name: node.open for node in self.nodes}
        raise LivenessViolation(
            f"not all in sync {within_s:g} s after the last fault: partitions' leader and ISR {states}, "
            f"nodes open {nodes}, state changes that have not ended {self.unfinished_changes()}"
        )
