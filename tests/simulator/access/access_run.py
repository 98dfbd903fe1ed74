"""A seed of a secured broker cluster: its users, its super user and its outsiders under faults."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from quorate.simulation.cluster_run import ClusterRun, ClusterRunSettings, derived
from quorate.simulation.faults.faults import Fault, Faults, FaultSettings
from quorate.simulation.patience import holds_within
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from quorate.simulation.world.scheduler import Scheduler
from quorate.simulation.world.simulated_network import LinkQuality, NetworkSettings
from quorate.simulation.world.simulated_runtime import draw_sync_at_once
from tests.simulator.access.access_admin import AccessAdministrator
from tests.simulator.access.access_cluster import AccessCluster
from tests.simulator.access.access_users import AccessUsers
from tests.simulator.access.outsiders import Outsiders
from tests.simulator.brokers.broker_cluster import BrokerClusterSettings, BrokerHost
from tests.simulator.brokers.broker_scenario import QUICK

_PATIENCE_S = 60.0

ACCESS_FAULTS = (
    Fault.CRASH,
    Fault.POWER_LOSS,
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
"""The faults of nodes. Records of partitions are not looked at, so there is no budget for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRunSettings(ClusterRunSettings):
    cluster: BrokerClusterSettings = field(default_factory=BrokerClusterSettings)
    faults: FaultSettings = field(default_factory=lambda: FaultSettings(kinds=ACCESS_FAULTS))
    pause_max_s: float = 0.1
    """The longest time between two requests of one client."""
    delays: bool = True
    """Nodes hear of new metadata late."""
    outsiders: int = 2
    """The peers that lie to the controllers."""

    @classmethod
    def draw(cls, source: random.Random) -> "AccessRunSettings":
        share = source.choice((0.3, 0.6))
        kinds = tuple(kind for kind in ACCESS_FAULTS if kind is Fault.RESIGN or source.random() < share)
        return cls(
            cluster=BrokerClusterSettings(
                min_isr=1,
                partitions=1,
                values=QUICK
                | {
                    "metadata.log.max.record.bytes.between.snapshots": source.choice(
                        ("300", "1500", "20000")
                    ),
                    "metadata.log.segment.bytes": "1024",
                    "metadata.max.retention.bytes": "1000",
                    "quorate.controller.partitions.per.step": source.choice(("1", "128")),
                },
                network=NetworkSettings(link=LinkQuality(latency_max_s=source.choice((0.001, 0.01)))),
                sync_at_once=draw_sync_at_once(source),
            ),
            faults=FaultSettings(
                kinds=kinds,
                mean_interval_s=source.choice((0.3, 0.6)),
                mean_duration_s=source.choice((0.2, 0.6)),
            ),
            faults_s=source.uniform(0.8, 2.0),
            pause_max_s=source.choice((0.05, 0.15)),
            delays=source.random() < 0.7,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRunResult:
    digest: str
    events: int
    virtual_s: float
    committed: int
    """The records of the metadata log that clients asked for."""
    faults: dict[str, int]
    seen: dict[str, int]


class AccessRun(ClusterRun[AccessRunSettings, AccessCluster, AccessRunResult]):
    name = "access"
    limit_s = 600.0

    def _cluster(self, source: random.Random, scheduler: Scheduler, nursery: trio.Nursery) -> AccessCluster:
        return AccessCluster(self.settings.cluster, source, scheduler, nursery, self.trace)

    async def _phases(self, cluster: AccessCluster, source: random.Random) -> AccessRunResult:
        await cluster.boot()
        pause_s = self.settings.pause_max_s
        admin = AccessAdministrator(cluster, derived(source), pause_max_s=2 * pause_s)
        users = AccessUsers(cluster, admin, derived(source), pause_max_s=pause_s)
        outsiders = Outsiders(
            cluster, derived(source), count=self.settings.outsiders, pause_max_s=3 * pause_s
        )
        faults: Faults[BrokerHost] = Faults(cluster, self.settings.faults, derived(source))
        await self._wait(lambda: all(node.open for node in cluster.nodes), "a node does not start")
        async with trio.open_nursery() as supervised:
            async with trio.open_nursery() as clients:
                for each in (admin, users, outsiders):
                    clients.start_soon(each.run)
                await self._wait(lambda: admin.changes >= 2, "the super user is not answered")
                with trio.move_on_after(self.settings.faults_s):
                    async with trio.open_nursery() as breaking:
                        breaking.start_soon(faults.run)
                        if self.settings.delays:
                            breaking.start_soon(cluster.delay_metadata, derived(source))
                cluster.heal()
                await cluster.start_all()
                supervised.start_soon(cluster.supervise, derived(source))
                for each in (admin, users, outsiders):
                    each.finish()
                clients.cancel_scope.deadline = trio.current_time() + _PATIENCE_S
            if clients.cancel_scope.cancelled_caught:
                raise LivenessViolation(
                    f"a client got no answer within {_PATIENCE_S:g} s after the last fault"
                )
            await self._wait(lambda: self._agree(cluster), "the images do not agree")
            supervised.cancel_scope.cancel()
        for node in cluster.nodes:
            if (wrong := cluster.unlike(node)) is not None:
                raise SafetyViolation(f"ImagesHaveTheRightsOfTheLog: {wrong}")
        await users.ask_everywhere()
        users.judge_denials()
        outsiders.check()
        snapshots = sum(node.serving.quorum.log.log_start_offset > 0 for node in cluster.nodes)
        return AccessRunResult(
            digest=self.trace.digest,
            events=self.trace.events,
            virtual_s=round(trio.current_time(), 3),
            committed=cluster.history.checked,
            faults={fault.value: count for fault, count in faults.counts.items()},
            seen={
                "requests allowed": cluster.decided[True],
                "requests denied": cluster.decided[False],
                "changes of rights": admin.changes,
                "logins": users.logins[True],
                "refused logins": users.logins[False],
                "lies": outsiders.lies,
                "nodes with a snapshot": snapshots,
                "epochs": cluster.checker.committed.epochs,
            },
        )

    async def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        if not await holds_within(_PATIENCE_S, condition):
            raise LivenessViolation(f"{otherwise} within {_PATIENCE_S:g} s")

    def _agree(self, cluster: AccessCluster) -> bool:
        """Return whether every node serves clients, with everything that is committed."""
        leader = cluster.leader()
        if leader is None or not all(node.open and node.alive for node in cluster.nodes):
            return False
        image = leader.image
        return all(node.image == image and node.is_unfenced(image) for node in cluster.nodes)
