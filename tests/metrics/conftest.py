"""Simulated clusters for the tests of metrics, and the samples that their nodes show."""

import random
from collections.abc import Awaitable, Callable, Mapping

import trio
from prometheus_client import CollectorRegistry

from quorate.simulation.world.scheduler import Scheduler, run
from quorate.simulation.world.trace import Trace, logs_into
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerClusterSettings


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """The samples by name, with the values of their labels."""
    return {
        sample.name + "".join(f"{{{value}}}" for value in sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def in_a_cluster(
    scenario: Callable[[BrokerCluster, Scheduler], Awaitable[None]], values: Mapping[str, str]
) -> list[str]:
    """Run `scenario` in a cluster that has converged. Returns the cluster's log lines."""
    lines: list[str] = []
    trace = Trace(lines.append)

    async def program(scheduler: Scheduler) -> None:
        settings = BrokerClusterSettings(min_isr=1, partitions=1, values=dict(values))
        async with trio.open_nursery() as nursery:
            cluster = BrokerCluster(settings, random.Random(1), scheduler, nursery, trace)
            await cluster.boot()
            await cluster.converge(within_s=60)
            await scenario(cluster, scheduler)
            assert cluster.violation is None
            nursery.cancel_scope.cancel()

    with logs_into(trace):
        run(1, program)
    return lines


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.01)
