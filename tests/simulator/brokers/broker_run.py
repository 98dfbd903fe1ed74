"""A seed of a broker cluster: break it within the budget, heal it, and check the clients' answers."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import trio

from quorate.broker.settings.node_keys import RACK_AWARE
from quorate.simulation.cluster_run import Clients, ClusterRun, ClusterRunSettings, derived
from quorate.simulation.faults.faults import Fault, Faults, FaultSettings
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.faults.voter_faults import VoterFaults, VotersIn
from quorate.simulation.histories.history import AppendOutcome
from quorate.simulation.patience import must_end
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from quorate.simulation.world.scheduler import Scheduler
from quorate.simulation.world.simulated_network import LinkQuality, NetworkSettings
from quorate.simulation.world.simulated_runtime import DiskSpeed, draw_sync_at_once
from tests.simulator.brokers.bit_rot import ROT_CONFIGS, ROT_VALUES, BitRot, RotSettings
from tests.simulator.brokers.broker_admin import Administrator
from tests.simulator.brokers.broker_clients import (
    TOPIC,
    BrokerClients,
    BrokerClientSettings,
    everything_of,
)
from tests.simulator.brokers.broker_cluster import (
    CONTROLLER_PORT,
    MORE,
    BrokerCluster,
    BrokerClusterSettings,
    BrokerHost,
)
from tests.simulator.brokers.broker_members import GroupMembers
from tests.simulator.brokers.compacted_mix import COMPACTING, CompactedMix, draw_compacted
from tests.simulator.brokers.compacted_topic import CompactedSettings
from tests.simulator.brokers.directory_faults import DirectoryFaults
from tests.simulator.brokers.loss_budget import LossBudget
from tests.simulator.brokers.lost_disks import LostDisks
from tests.simulator.brokers.operating.operators import Operators, OperatorSettings
from tests.simulator.brokers.replica_moves import DirectoryMover, Reassigner
from tests.simulator.brokers.settled_cluster import check_work_ends

_PATIENCE_S = 60.0
"""Virtual time until a healed cluster must have every replica in sync and every producer an answer."""

BROKER_FAULTS = (
    Fault.CRASH,
    Fault.POWER_LOSS,
    Fault.CRASH_THEN_POWER_LOSS,
    Fault.STOP,
    Fault.PAUSE,
    Fault.PARTITION,
    Fault.ONE_WAY,
    Fault.SLOW_LINK,
    Fault.CUT,
    Fault.HALF_OPEN,
    Fault.SLOW_DISK,
    Fault.STALLED_DISK,
    Fault.SYNC_ERROR,
    Fault.CLOCK_JUMP,
    Fault.RESIGN,
)
"""The faults of brokers. Partition data is not synced on append, so faults against which only syncs protect
are beyond the budget."""

DIRECTORY_FAULTS = (Fault.LOST_DIRECTORY, Fault.ABSENT_DIRECTORY, Fault.DIRECTORY_TWICE)
"""Additional faults, where brokers have two directories of log.dirs."""


class BrokerFaults(Faults[BrokerHost]):
    """Keeps to the budget of partitions (`LossBudget`). Processes may be killed at any time beside that. Of
    the brokers all but one vote at least, and one at most has lost the folder with its vote in it
    (`LostDisks`)."""

    clock_jumps_ms = (-86_400_000, -3_600_000, -1000, 1000, 3_600_000, 86_400_000)

    def __init__(
        self, cluster: BrokerCluster, settings: FaultSettings, source: random.Random, budget: LossBudget
    ) -> None:
        super().__init__(cluster, settings, source)
        self._brokers = cluster
        self._may_lose = budget.take
        self.directories = DirectoryFaults(
            cluster, source, budget, choose=self._draw_node, sleep_duration=self._sleep_duration
        )
        self._actions |= {
            Fault.LOST_DIRECTORY: self.directories.lose,
            Fault.ABSENT_DIRECTORY: self.directories.take_away,
            Fault.DIRECTORY_TWICE: self.directories.mount_twice,
        }
        self.voters = VoterFaults(
            cluster,
            source,
            port=CONTROLLER_PORT,
            may_go=lambda voters: len(voters) == len(cluster.nodes) and not self.disks.voter_is_lost,
            among_appends=True,
            joining=cluster.settings.auto_join,
        )
        self.disks = LostDisks(
            cluster,
            self.voters,
            source,
            choose=self._draw_node,
            may_lose=lambda node: budget.is_spare(node) and budget.take(node),
            sleep_duration=self._sleep_duration,
        )
        if cluster.settings.voters_in is not VotersIn.CONFIGURATION:
            self._actions[Fault.VOTERS] = self.voters.change
            self._actions[Fault.LOST_DISK] = self.disks.lose

    def add(self, fault: Fault, do: Callable[[], Awaitable[None]]) -> None:
        """Carry out `fault` by this action, in place of the one for any cluster."""
        self._actions[fault] = do

    async def repair(self) -> None:
        """Let every broker vote again once all is healed. Raises `LivenessViolation`."""
        if self._brokers.settings.voters_in is VotersIn.CONFIGURATION:
            return
        stuck = f"ReconfigurationNotStuck: a voter is not added {_PATIENCE_S:g} s after the last fault"
        with must_end(_PATIENCE_S, stuck):
            await self.voters.all_vote()

    async def _sync_error(self) -> None:
        if self._may_lose(node := self._draw_node()):
            self._fail_disk(node)

    async def _power_loss(self) -> None:
        if self._may_lose(node := self._draw_node()):
            await self._cut_power(node)

    async def _crash_then_power_loss(self) -> None:
        node = self._draw_node()
        await self._cluster.crash(node, power_loss=False)
        if self._random.random() < 0.5:
            self._start(node)
        await trio.sleep(self._random.random() * self._random.choice((0.02, 0.5, 3.0)))
        if self._may_lose(node):
            await self._cluster.crash(node, power_loss=True)
        await self._sleep_duration()
        self._start(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRunSettings(ClusterRunSettings):
    cluster: BrokerClusterSettings = field(default_factory=BrokerClusterSettings)
    clients: BrokerClientSettings = field(default_factory=BrokerClientSettings)
    faults: FaultSettings = field(default_factory=lambda: FaultSettings(kinds=BROKER_FAULTS))
    reassigns: bool = False
    """Replicas are moved meanwhile, between brokers and between directories."""
    operators: OperatorSettings = field(default_factory=OperatorSettings)
    compacted: CompactedSettings | None = None
    """A compacted topic beside the other one; None: there is none."""
    rot: RotSettings | None = None
    """Bits flip in old segments; None: they don't."""

    @classmethod
    def draw(cls, source: random.Random) -> "BrokerRunSettings":
        faults = FaultSettings.draw(source)
        kinds = tuple(kind for kind in faults.kinds if kind in BROKER_FAULTS)
        settings = cls(
            cluster=BrokerClusterSettings(
                min_isr=source.choice((2, 2, 2, 3)),
                partitions=source.choice((1, 2)),
                values={
                    "broker.heartbeat.interval.ms": source.choice(("200", "500")),
                    "broker.session.timeout.ms": source.choice(("1500", "3000")),
                    "replica.lag.time.max.ms": source.choice(("1000", "3000")),
                    "replica.fetch.wait.max.ms": "300",
                    "offsets.topic.num.partitions": "1",
                    "group.initial.rebalance.delay.ms": "100",
                    "group.min.session.timeout.ms": "1000",
                    "controller.quorum.election.timeout.ms": "500",
                    "controller.quorum.fetch.timeout.ms": "1000",
                },
                network=NetworkSettings(
                    link=LinkQuality(latency_max_s=source.choice((0.001, 0.01, 0.05))),
                    short_read_chance=source.choice((0.0, 0.1)),
                ),
                disk=DiskSpeed(sync_max_s=source.choice((0.001, 0.01))),
            ),
            clients=BrokerClientSettings(
                idempotent=1,
                plain=source.choice((0, 1)),
                consumers=1,
                members=source.choice((0, 1, 2)),
                churn=source.random() < 0.5,
                think_max_s=source.choice((0.2, 0.6)),
            ),
            faults=replace(faults, kinds=kinds or (Fault.CRASH,)),
            faults_s=source.uniform(4.0, 8.0),
        )
        # Drawn last, so that the seeds of before have everything else as they had it.
        sync_at_once = draw_sync_at_once(source)
        values = {"quorate.controller.partitions.per.step": source.choice(("1", "2", "128"))}
        cluster = replace(
            settings.cluster, sync_at_once=sync_at_once, values={**settings.cluster.values, **values}
        )
        kinds = settings.faults.kinds
        if source.random() >= 0.5:
            kinds += tuple(kind for kind in DIRECTORY_FAULTS if source.random() < 0.6)
            cluster = replace(cluster, log_dirs=(FOLDER, MORE))
        if source.random() < 0.5:
            cluster = replace(cluster, voters_in=source.choice((VotersIn.ADOPTED, VotersIn.FORMATTED)))
            kinds += (Fault.VOTERS,)
            if source.random() < 0.6:
                kinds += (Fault.LOST_DISK,)
            cluster = replace(cluster, auto_join=source.random() < 0.5)
        reassigns = source.random() < 0.5
        operators = OperatorSettings(
            count=source.choice((0, 1, 1, 2)), pause_max_s=source.choice((0.3, 0.7, 1.5))
        )
        compacted = draw_compacted(source, jumps=Fault.CLOCK_JUMP in kinds)
        if compacted is not None:
            cluster = replace(cluster, values={**cluster.values, **COMPACTING})
        if source.random() < 0.5:
            cluster = replace(cluster, values={**cluster.values, "replica.selector.class": RACK_AWARE})
        rot = None
        if source.random() < 0.4 and not reassigns and cluster.min_isr < cluster.brokers:
            # Replicas that are moved meanwhile would have to come from a damaged leader, and a broker may not
            # fetch anew while the ISR can't do without it.
            rot = RotSettings(mends_itself=source.random() < 0.5)
            own = {"quorate.replica.refetch.damaged": str(rot.mends_itself).lower()}
            cluster = replace(cluster, values={**cluster.values, **ROT_VALUES, **own})
            kinds += (Fault.DAMAGE,) * 3
        return replace(
            settings,
            rot=rot,
            cluster=cluster,
            faults=replace(settings.faults, kinds=kinds),
            reassigns=reassigns,
            operators=operators,
            compacted=compacted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRunResult:
    digest: str
    events: int
    virtual_s: float
    acknowledged: int
    """The acknowledged produces."""
    records: int
    """The records in these appends."""
    failed: int
    unknown: int
    read: int
    read_nearby: int
    """The records that were read from followers (KIP-392)."""
    commits: int
    outlived: int
    """The number of times that a member of the group went on in its generation with another coordinator."""
    topics: int
    reassignments: int
    """The reassignments and cancellations that were granted."""
    directory_changes: int
    """Replicas that were granted another directory."""
    flips: int
    """The bits that flipped at rest."""
    calls: int
    """The administrative calls of operators."""
    compactions: int
    """Passes over logs, in the last lives of the brokers."""
    leader_epochs: tuple[int, ...]
    faults: dict[str, int]

    @property
    def committed(self) -> int:
        return self.records

    @property
    def seen(self) -> dict[str, int]:
        return {
            "reads": self.read,
            "offset commits": self.commits,
            "reassignments": self.reassignments,
            "administrative calls": self.calls,
            "flipped bits": self.flips,
        }


class BrokerRun(ClusterRun[BrokerRunSettings, BrokerCluster, BrokerRunResult]):
    name = "broker"
    limit_s = 1200.0

    def _cluster(self, source: random.Random, scheduler: Scheduler, nursery: trio.Nursery) -> BrokerCluster:
        return BrokerCluster(self.settings.cluster, source, scheduler, nursery, self.trace)

    async def _phases(self, cluster: BrokerCluster, source: random.Random) -> BrokerRunResult:
        await cluster.boot()
        settings = self.settings.clients
        clients = BrokerClients(cluster, settings, derived(source))
        admin = Administrator(cluster, derived(source))
        members = GroupMembers(
            cluster, TOPIC, derived(source), members=settings.members, think_max_s=settings.think_max_s
        )
        budget = LossBudget(cluster)
        faults = BrokerFaults(cluster, self.settings.faults, derived(source), budget)
        reassigner = Reassigner(cluster, TOPIC, derived(source)) if self.settings.reassigns else None
        operators = Operators(cluster, cluster.metadata, derived(source), self.settings.operators, budget)
        mover = DirectoryMover(cluster, TOPIC, derived(source)) if self.settings.reassigns else None
        configs = ROT_CONFIGS if self.settings.rot is not None else {}
        await admin.create(TOPIC, partitions=cluster.settings.partitions, configs=configs)
        await operators.prepare()
        compacted = await CompactedMix.begin(
            cluster, admin, self.settings.compacted, source, reassigns=self.settings.reassigns
        )
        rot: BitRot | None = None
        if self.settings.rot is not None:
            # Drawn only then, so that the seeds without it go as they went before.
            rot = BitRot(cluster, TOPIC, derived(source), budget)
            faults.add(Fault.DAMAGE, rot.flip)
        await cluster.converge(within_s=_PATIENCE_S)
        async with trio.open_nursery() as consumers:
            if rot is not None and self.settings.rot is not None and not self.settings.rot.mends_itself:
                consumers.start_soon(rot.mend)
            consumers.start_soon(clients.consume)
            if compacted is not None:
                consumers.start_soon(compacted.clients.consume)
            async with trio.open_nursery() as others:
                others.start_soon(clients.produce)
                if compacted is not None:
                    others.start_soon(compacted.run)
                others.start_soon(members.run)
                if settings.churn:
                    others.start_soon(admin.churn)
                if reassigner is not None:
                    others.start_soon(reassigner.run)
                others.start_soon(operators.run)
                if mover is not None:
                    others.start_soon(mover.run)
                with trio.move_on_after(self.settings.faults_s):
                    await faults.run()
                cluster.heal()
                await cluster.start_all()
                # One whose disk failed just before may be ending only now.
                consumers.start_soon(cluster.supervise, derived(source))
                for node in cluster.nodes:
                    await faults.directories.unmount_again(node)
                # Two voters have no leader while a folder is put back on one of them.
                await faults.repair()
                for node in cluster.nodes:
                    await faults.directories.restore(node)
                await trio.sleep(2)
                await members.read_on(within_s=_PATIENCE_S)
                parts: tuple[Clients[BrokerCluster] | CompactedMix | None, ...]
                parts = (clients, admin, reassigner, operators, mover, compacted, members)
                for part in parts:
                    if part is not None:
                        part.finish()
                others.cancel_scope.deadline = trio.current_time() + _PATIENCE_S
            if others.cancel_scope.cancelled_caught:
                raise LivenessViolation(
                    f"a client got no answer within {_PATIENCE_S:g} s after the last fault"
                )
            if rot is not None:
                await rot.mended(within_s=_PATIENCE_S)
            await cluster.converge(within_s=_PATIENCE_S)
            if compacted is not None:
                await compacted.clients.consumed(within_s=_PATIENCE_S)
            consumers.cancel_scope.cancel()
        await check_answers(cluster, clients)
        await admin.check(within_s=_PATIENCE_S)
        if reassigner is not None:
            await reassigner.check(within_s=_PATIENCE_S)
        if compacted is not None:
            await compacted.check(within_s=_PATIENCE_S)
        await check_work_ends(cluster, within_s=_PATIENCE_S)
        with must_end(_PATIENCE_S, "the offsets of an operator's group can't be read"):
            await operators.check()
        if members.acknowledged:
            with must_end(_PATIENCE_S, "the group's offsets can't be read"):
                await members.check()
        compactions = 0 if compacted is None else compacted.clients.passes
        leader_epochs = tuple(state.leader_epoch for state in cluster.states(TOPIC).values())
        for node in list(cluster.running):
            await cluster.stop(node)
        histories = list(clients.histories.values())
        return BrokerRunResult(
            digest=self.trace.digest,
            events=self.trace.events,
            virtual_s=round(trio.current_time(), 3),
            acknowledged=sum(history.count(AppendOutcome.ACKNOWLEDGED) for history in histories),
            records=sum(history.acknowledged_records for history in histories),
            failed=sum(history.count(AppendOutcome.FAILED) for history in histories),
            unknown=sum(history.count(AppendOutcome.UNKNOWN) for history in histories),
            read=sum(len(got) for _, got in clients.consumed.values()),
            read_nearby=clients.read_nearby,
            commits=members.commits,
            outlived=members.outlived,
            topics=len(admin.fates),
            reassignments=0 if reassigner is None else reassigner.begun,
            directory_changes=0 if mover is None else mover.begun,
            flips=0 if rot is None else rot.flips,
            calls=operators.calls,
            compactions=compactions,
            leader_epochs=leader_epochs,
            faults={fault.value: count for fault, count in faults.counts.items()},
        )


async def check_answers(cluster: BrokerCluster, clients: BrokerClients) -> None:
    """A consumer that starts now sees everything that was acknowledged, once and where it was said to be,
    and all that any consumer ever saw; and every replica holds the same.

    For a cluster that is in sync and idle. Raises `SafetyViolation`, `LivenessViolation`.
    """
    states = cluster.states(TOPIC)
    for partition, state in states.items():
        leader = cluster.nodes[state.leader - 1].serving.broker
        assert leader is not None
        end = leader.replicas.lookups.partition(TOPIC, partition).log.end_offset
        auditor = f"auditor-{partition}"
        with must_end(_PATIENCE_S, f"{TOPIC}-{partition} can't be read up to {end}"):
            await clients.consume_partition(auditor, partition, until=end)
        final = clients.consumed[auditor][1]
        clients.histories[partition].check(final)
        for client, (read, got) in clients.consumed.items():
            if read == partition and got != final[: len(got)]:
                differing = next(pair for pair, now in zip(got, final, strict=False) if pair != now)
                raise SafetyViolation(f"WhatWasReadStays: {client} read {differing}, which is not there now")
        for node in cluster.nodes:
            broker = node.serving.broker
            assert broker is not None
            log = broker.replicas.lookups.partition(TOPIC, partition).log
            if await everything_of(log) != final:
                raise SafetyViolation(
                    f"ReplicasAgree: {node.name} is in sync and differs in {TOPIC}-{partition}"
                )
