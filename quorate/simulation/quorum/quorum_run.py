"""A seed of the quorum: draw a cluster and its faults, break it, heal it, and check its invariants."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import trio

from quorate.raft import NotLeaderError, OutcomeUnknownError, SessionLimits
from quorate.raft.core import CoreConfig
from quorate.raft.sessions.session_table import Verdict
from quorate.simulation.cluster_run import ClusterRun, ClusterRunSettings, derived
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.faults.voter_faults import adopt_voters
from quorate.simulation.histories.history import AppendOutcome, History
from quorate.simulation.patience import must_end
from quorate.simulation.quorum.quorum_clients import AppendingClients, ClientSettings
from quorate.simulation.quorum.quorum_cluster import ClusterSettings, QuorumCluster, QuorumNode
from quorate.simulation.quorum.quorum_faults import QuorumFaults
from quorate.simulation.quorum.quorum_watchers import Watchers
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from quorate.simulation.world.scheduler import Scheduler
from quorate.simulation.world.simulated_network import LinkQuality, NetworkSettings
from quorate.simulation.world.simulated_runtime import DiskSpeed, draw_sync_at_once

_CONVERGE_TIMEOUTS = 20
"""Election timeouts until a healed cluster must agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRunSettings(ClusterRunSettings):
    """The quorum of a run, its clients and its faults."""

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    clients: ClientSettings = field(default_factory=ClientSettings)
    blackout_at_end: bool = True
    """All hosts lose power once more after they agreed."""

    @classmethod
    def draw(cls, source: random.Random) -> "QuorumRunSettings":
        """Return settings that `source` draws: other sizes, timeouts and faults for each seed."""
        fetch_timeout_ms = source.choice((600, 1000, 2000))
        faults = FaultSettings.draw(source, tuple(Fault))
        dynamic = source.random() < 0.5
        snapshot_bytes = source.choice((1000, 5000, 20_000))
        rates = tuple(source.choice((0.5, 0.8, 1.0, 1.25, 2.0)) for _ in range(8))
        settings = cls(
            cluster=ClusterSettings(
                voters=source.choice((3, 3, 3, 4, 5, 5, 7, 1, 2)),
                observers=source.choice((0, 0, 1)),
                dynamic=dynamic,
                snapshot_bytes=snapshot_bytes if Fault.SNAPSHOT in faults.kinds else 20 * 1024 * 1024,
                retention_bytes=source.choice((1, 10_000, 100 * 1024 * 1024)),
                clock_rates=rates if Fault.CLOCK_RATE in faults.kinds else (),
                core=CoreConfig(
                    election_timeout_ms=source.choice((300, 1000)),
                    fetch_timeout_ms=fetch_timeout_ms,
                    request_timeout_ms=source.choice((600, 2000)),
                    fetch_max_wait_ms=source.choice((100, 300)),
                    fetch_max_bytes=source.choice((512, 8 * 1024 * 1024)),
                    high_watermark_wait_ms=source.choice((0, 0, 5)),
                ),
                segment_bytes=source.choice((2048, 16 * 1024, 1024 * 1024)),
                recovery_point_bytes=source.choice((1024, 8 * 1024, 64 * 1024)),
                network=NetworkSettings(
                    link=LinkQuality(latency_max_s=source.choice((0.001, 0.01, 0.1))),
                    window_bytes=source.choice((2048, 256 * 1024, 256 * 1024)),
                    short_read_chance=source.choice((0.0, 0.1, 0.3)),
                ),
                disk=DiskSpeed(sync_max_s=source.choice((0.001, 0.005, 0.05))),
            ),
            clients=ClientSettings(
                in_process=source.randint(1, 3),
                remote=source.randint(0, 2),
                readers=source.randint(0, 2),
                think_max_s=source.choice((0.2, 0.5, 1.0)),
                padding_max=source.choice((20, 300)),
            ),
            faults=faults,
            faults_s=source.uniform(3.0, 8.0),
            blackout_at_end=source.random() < 0.5,
        )
        # Drawn last, so that the seeds of before have everything else as they had it.
        cluster = replace(settings.cluster, sync_at_once=draw_sync_at_once(source))
        clients = replace(
            settings.clients,
            sessions=source.random() < 0.5,
            session_limits=SessionLimits(
                sessions_max=source.choice((2, 10_000)),
                window=source.choice((1, 64)),
                idle_ms=source.choice((4000, 3_600_000)),
            ),
            watchers=source.choice((0, 0, 1, 2)),
        )
        return replace(settings, cluster=cluster, clients=clients)

    @property
    def drawn_cluster(self) -> ClusterSettings:
        """The composition of the cluster, without the clocks of a fault that is skipped."""
        if Fault.CLOCK_RATE in self.faults.skipped:
            return replace(self.cluster, clock_rates=())
        return self.cluster

    @property
    def patience_s(self) -> float:
        """The time in which a healed cluster must agree."""
        core, rates = self.cluster.core, self.cluster.clock_rates
        longest_ms = max(core.election_timeout_ms, core.fetch_timeout_ms, core.request_timeout_ms)
        return _CONVERGE_TIMEOUTS * longest_ms * max(rates, default=1.0) / 1000


class RunningClients(Protocol):
    """Clients that call from `run` on, until some time after `finish`."""

    async def run(self) -> None: ...

    def finish(self) -> None: ...


async def break_and_heal(
    cluster: QuorumCluster,
    clients: RunningClients,
    faults: QuorumFaults,
    settings: QuorumRunSettings,
) -> None:
    """Put a cluster that clients use through its faults, and heal it. The calls of the clients still end."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clients.run)
        with trio.move_on_after(settings.faults_s):
            await faults.run()
        cluster.heal()
        await cluster.start_all()
        await trio.sleep(2 * settings.patience_s / _CONVERGE_TIMEOUTS)
        clients.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    digest: str
    """The digest of the trace: equal for equal runs."""
    events: int
    virtual_s: float
    acknowledged: int
    failed: int
    unknown: int
    repeated: int
    """The repeated appends that the session table answered."""
    lost: int
    """The appends of sessions that were lost."""
    read: int
    bounded: int
    """The reads of bounded staleness."""
    watched: int
    """The records that watchers heard of."""
    gone: int
    """The watches that were told that their records are gone."""
    committed: int
    epoch: int
    elections: int
    """The epochs in which a leader committed something."""
    crashes: int
    faults: dict[str, int]

    @property
    def seen(self) -> dict[str, int]:
        return {
            "appends": self.acknowledged,
            "repeats answered from the session table": self.repeated,
            "appends of lost sessions": self.lost,
            "linearizable reads": self.read,
            "bounded reads": self.bounded,
            "watched records": self.watched,
            "watches of what is gone": self.gone,
            "elections": self.elections,
            "crashes": self.crashes,
        }


class QuorumRun(ClusterRun[QuorumRunSettings, QuorumCluster, RunResult]):
    """A seed's run of a whole quorum: broken, healed, and checked throughout."""

    name = "quorum"
    limit_s = 600.0

    def __init__(
        self, seed: int, settings: QuorumRunSettings, *, show: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, settings, show=show)
        self.history = History()

    def _cluster(self, source: random.Random, scheduler: Scheduler, nursery: trio.Nursery) -> QuorumCluster:
        return QuorumCluster(self.settings.drawn_cluster, source, scheduler, nursery, self.trace)

    async def _phases(self, cluster: QuorumCluster, source: random.Random) -> RunResult:
        await cluster.boot()
        if self.settings.cluster.dynamic:
            await adopt_voters(cluster)
        clients = AppendingClients(cluster, self.history, self.settings.clients, derived(source))
        faults = QuorumFaults(cluster, self.settings.faults, derived(source))
        # From a source of its own, so that runs without watchers are what they were.
        watchers = Watchers(
            cluster, self.settings.clients.watchers, random.Random(f"{self.name}-watchers/{self.seed}")
        )
        async with trio.open_nursery() as nursery:
            watchers.start(nursery)
            await break_and_heal(cluster, clients, faults, self.settings)
            with must_end(self.settings.patience_s, "ReconfigurationNotStuck: a lost voter is not removed"):
                await faults.repair()
            await cluster.converge(within_s=self.settings.patience_s)
            await self._append_through_every_node(cluster)
            leader = await cluster.converge(within_s=self.settings.patience_s)
            await watchers.finish_at_the_end(self.settings.patience_s)
        self._check(cluster, leader, watchers)
        if self.settings.blackout_at_end:
            await cluster.crash(*cluster.nodes, power_loss=True)
            await cluster.start_all()
            leader = await cluster.converge(within_s=self.settings.patience_s)
            self._check(cluster, leader, watchers)
        for node in list(cluster.running):
            await cluster.stop(node)
        refused = list(cluster.refused.values())
        return RunResult(
            digest=self.trace.digest,
            events=self.trace.events,
            virtual_s=round(trio.current_time(), 3),
            acknowledged=self.history.count(AppendOutcome.ACKNOWLEDGED),
            failed=self.history.count(AppendOutcome.FAILED),
            unknown=self.history.count(AppendOutcome.UNKNOWN),
            repeated=refused.count(Verdict.APPLIED) + refused.count(Verdict.FORGOTTEN),
            lost=refused.count(Verdict.LOST),
            read=len(self.history.reads),
            bounded=len(self.history.bounded_reads),
            watched=watchers.heard,
            gone=watchers.gone,
            committed=cluster.checker.committed.end_offset,
            epoch=0 if cluster.checker.committed.last is None else cluster.checker.committed.last.epoch,
            elections=cluster.checker.committed.epochs,
            crashes=cluster.crashes,
            faults={
                fault.value: count
                for fault, count in sorted(faults.counts.items(), key=lambda item: item[0].value)
            },
        )

    async def _append_through_every_node(self, cluster: QuorumCluster) -> None:
        """A healed cluster takes appends, whichever node is asked."""
        for node in list(cluster.running):
            with trio.move_on_after(self.settings.patience_s):
                if await self._append_until_known(node):
                    continue
            raise LivenessViolation(
                f"an append through {node.name} was not answered within {self.settings.patience_s} s"
            )

    async def _append_until_known(self, node: QuorumNode) -> bool:
        for _ in range(1000):
            if await self._append(node):
                return True
            await trio.sleep(0.01)
        return False

    async def _append(self, node: QuorumNode) -> bool:
        record = b"last words %d of %s" % (len(self.history.appends), node.name.encode())
        append = self.history.invoke(node.name, [record], trio.current_time())
        try:
            appended = await node.serving.append(append.records)
        except OutcomeUnknownError:
            return False
        except NotLeaderError:
            self.history.fail(append, trio.current_time())
            return False
        self.history.acknowledge(append, appended.base_offset, appended.epoch, trio.current_time())
        return True

    def _check(self, cluster: QuorumCluster, leader: QuorumNode, watchers: Watchers) -> None:
        assert leader.state_machine is not None
        self.history.check(leader.state_machine.journal.entries)
        watchers.check(leader.state_machine.journal.entries)
        state = list(leader.state_machine.take_snapshot())
        for node in cluster.running:
            if node.state_machine is None or list(node.state_machine.take_snapshot()) != state:
                raise SafetyViolation(f"{node.name} and {leader.name} agree on offsets but not on state")
