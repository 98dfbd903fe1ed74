"""A scenario of a broker cluster, step by step, beside producers and consumers that never rest."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import trio

from quorate.simulation.cluster_run import ClusterRun
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.violations import LivenessViolation
from quorate.simulation.world.scheduler import Scheduler
from tests.simulator.brokers.broker_admin import Administrator
from tests.simulator.brokers.broker_clients import TOPIC, BrokerClients, BrokerClientSettings
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerClusterSettings, BrokerHost
from tests.simulator.brokers.broker_run import BrokerRunSettings, check_answers

_PATIENCE_S = 60.0
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
}
"""Brokers that lose patience early, so that a scenario is short."""


@dataclass(frozen=True, slots=True)
class BrokerScene:
    """The parts that a scenario can act on."""

    cluster: BrokerCluster
    clients: BrokerClients
    scheduler: Scheduler

    def leader_of(self, partition: int) -> BrokerHost:
        """Return the leader of the topic's partition, as the active controller has it."""
        return self.cluster.nodes[self.cluster.states(TOPIC)[partition].leader - 1]


Scenario = Callable[[BrokerScene], Awaitable[None]]


def run_scenario(
    seed: int,
    scenario: Scenario,
    *,
    clients: BrokerClientSettings,
    partitions: int = 1,
    min_isr: int = 2,
    values: Mapping[str, str] | None = None,
    log_dirs: tuple[str, ...] = (FOLDER,),
    show: Callable[[str], None] | None = None,
) -> None:
    """Run `scenario` in a cluster of three in sync; then heal it, let everybody finish, and check the answers
    they got. `values`: keys of server.properties on top of `QUICK`, but for `log.dirs`.

    Raises `SafetyViolation`, `LivenessViolation`, and what the scenario raises.
    """
    settings = BrokerRunSettings(
        cluster=BrokerClusterSettings(
            partitions=partitions, min_isr=min_isr, values=QUICK | dict(values or {}), log_dirs=log_dirs
        ),
        clients=clients,
    )
    _ScenarioRun(seed, settings, scenario, show=show).execute()


class _ScenarioRun(ClusterRun[BrokerRunSettings, BrokerCluster, None]):
    name = "broker story"
    """Part of the seed: another name would give the seeds of tests other runs."""

    def __init__(
        self,
        seed: int,
        settings: BrokerRunSettings,
        scenario: Scenario,
        *,
        show: Callable[[str], None] | None,
    ) -> None:
        super().__init__(seed, settings, show=show)
        self._scenario = scenario

    def _cluster(self, source: random.Random, scheduler: Scheduler, nursery: trio.Nursery) -> BrokerCluster:
        return BrokerCluster(self.settings.cluster, source, scheduler, nursery, self.trace)

    async def _phases(self, cluster: BrokerCluster, source: random.Random) -> None:
        clients = BrokerClients(cluster, self.settings.clients, source)
        await _play(BrokerScene(cluster, clients, cluster.scheduler), self._scenario, source)


async def _play(scene: BrokerScene, scenario: Scenario, source: random.Random) -> None:
    cluster, clients = scene.cluster, scene.clients
    await cluster.boot()
    await Administrator(cluster, source).create(TOPIC, partitions=cluster.settings.partitions)
    await cluster.converge(within_s=_PATIENCE_S)
    async with trio.open_nursery() as consumers:
        consumers.start_soon(clients.consume)
        async with trio.open_nursery() as producers:
            producers.start_soon(clients.produce)
            await scenario(scene)
            cluster.heal()
            await cluster.start_all()
            clients.finish()
            producers.cancel_scope.deadline = trio.current_time() + 2 * _PATIENCE_S
        if producers.cancel_scope.cancelled_caught:
            raise LivenessViolation("a producer was never answered")
        await cluster.converge(within_s=_PATIENCE_S)
        consumers.cancel_scope.cancel()
    await check_answers(cluster, clients)
