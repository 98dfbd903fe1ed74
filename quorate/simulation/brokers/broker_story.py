"""A scenario of a broker cluster, step by step, beside producers and consumers who never rest."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import trio

from quorate.simulation.brokers.broker_admin import Administrator
from quorate.simulation.brokers.broker_clients import TOPIC, BrokerClients, BrokerClientSettings
from quorate.simulation.brokers.broker_cluster import BrokerCluster, BrokerClusterSettings, BrokerHost
from quorate.simulation.brokers.broker_run import check_answers
from quorate.simulation.faults import FOLDER
from quorate.simulation.quorum import first_of
from quorate.simulation.violations import LivenessViolation
from quorate.simulation.world import Scheduler, Trace, logs_into, run

_PATIENCE_S = 60.0
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
}
"""Brokers that lose patience early, so that a story is short."""


@dataclass(frozen=True, slots=True)
class BrokerScene:
    """What a story can act on."""

    cluster: BrokerCluster
    clients: BrokerClients
    scheduler: Scheduler

    def leader_of(self, partition: int) -> BrokerHost:
        """Of the topic's partition, as the active controller has it."""
        return self.cluster.nodes[self.cluster.states(TOPIC)[partition].leader - 1]


def tell(
    seed: int,
    story: Callable[[BrokerScene], Awaitable[None]],
    *,
    clients: BrokerClientSettings,
    partitions: int = 1,
    values: Mapping[str, str] | None = None,
    log_dirs: tuple[str, ...] = (FOLDER,),
    show: Callable[[str], None] | None = None,
) -> None:
    """Run `story` in a cluster of three in sync; then heal it, let everybody finish, and check the answers
    they got. `values`: keys of server.properties on top of `QUICK`, but for `log.dirs`.

    Raises `SafetyViolation`, `LivenessViolation`, and what the story raises.
    """
    trace = Trace(show)

    async def program(scheduler: Scheduler) -> None:
        source = random.Random(f"broker story/{seed}")
        settings = BrokerClusterSettings(
            partitions=partitions, min_isr=2, values=QUICK | dict(values or {}), log_dirs=log_dirs
        )
        cluster: BrokerCluster | None = None
        try:
            async with trio.open_nursery() as nursery:
                cluster = BrokerCluster(settings, source, scheduler, nursery, trace)
                await _tell(
                    BrokerScene(cluster, BrokerClients(cluster, clients, source), scheduler), story, source
                )
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from group
        finally:
            if cluster is not None and cluster.violation is not None:
                raise cluster.violation

    with logs_into(trace):
        run(seed, program)


async def _tell(
    scene: BrokerScene, story: Callable[[BrokerScene], Awaitable[None]], source: random.Random
) -> None:
    cluster, clients = scene.cluster, scene.clients
    await cluster.boot()
    await Administrator(cluster, source).create(TOPIC, partitions=cluster.settings.partitions)
    await cluster.converge(within_s=_PATIENCE_S)
    async with trio.open_nursery() as consumers:
        consumers.start_soon(clients.consume)
        async with trio.open_nursery() as producers:
            producers.start_soon(clients.produce)
            await story(scene)
            cluster.heal()
            await cluster.start_all()
            clients.finish()
            producers.cancel_scope.deadline = trio.current_time() + 2 * _PATIENCE_S
        if producers.cancel_scope.cancelled_caught:
            raise LivenessViolation("a producer was never answered")
        await cluster.converge(within_s=_PATIENCE_S)
        consumers.cancel_scope.cancel()
    await check_answers(cluster, clients)
