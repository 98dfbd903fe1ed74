"""The connections between brokers: their number doesn't depend on what is in the cluster, or on how many
clients ask for something at once."""

import random
from collections import Counter
from functools import partial

import pytest
import trio

from quorate.broker.admin import topics
from quorate.runtime import Address, TlsFiles
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.world.scheduler import Scheduler, run
from quorate.simulation.world.simulated_network import SimulatedNetwork, SimulatedStream
from quorate.simulation.world.trace import Trace, logs_into
from tests.simulator.brokers.broker_cluster import AGAIN, BrokerCluster, BrokerClusterSettings
from tests.simulator.brokers.one_broker import open_one

Pair = tuple[str, str]
MOST = 5
"""From one broker to another: the quorum's requests, what is forwarded to the active controller, the watch of
a controller over the broker's process, the fetcher, and the question if leaders of new partitions serve."""
CREATORS = 20
PARTITIONS = 6


async def create(cluster: BrokerCluster, name: str, *, partitions: int) -> None:
    """Over a connection of its own, to the first broker."""
    async with open_one(cluster, cluster.nodes[0], "client", timeout_s=30, margin_s=70) as admin:
        await topics.create_topic(admin, name, partitions=partitions, replication_factor=3)


@pytest.mark.slow
def test_brokers_hold_a_bounded_number_of_connections_to_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    few: Counter[Pair] = Counter()
    many: Counter[Pair] = Counter()
    peaks: Counter[Pair] = Counter()
    connect = SimulatedNetwork.connect

    def held(network: SimulatedNetwork) -> Counter[Pair]:
        return Counter(
            (there.source, there.target)
            for there, back in network._pipes
            if not (there.over and back.over) and "client" not in (there.source, there.target)
        )

    async def counted(
        network: SimulatedNetwork, node: str, address: Address, files: TlsFiles | None
    ) -> SimulatedStream:
        stream = await connect(network, node, address, files)
        for pair, count in held(network).items():
            peaks[pair] = max(peaks[pair], count)
        return stream

    async def program(scheduler: Scheduler) -> None:
        settings = BrokerClusterSettings(min_isr=2, partitions=1, log_dirs=(FOLDER, AGAIN))
        async with trio.open_nursery() as nursery:
            cluster = BrokerCluster(settings, random.Random(1), scheduler, nursery, Trace(None))
            await cluster.boot()
            await cluster.converge(within_s=600)
            await create(cluster, "first", partitions=3)
            await trio.sleep(10)
            few.update(held(cluster.network))
            with monkeypatch.context() as patched:
                patched.setattr(SimulatedNetwork, "connect", counted)
                async with trio.open_nursery() as creators:
                    for number in range(CREATORS):
                        creators.start_soon(partial(create, cluster, f"t{number}", partitions=PARTITIONS))
                await trio.sleep(10)
            many.update(held(cluster.network))
            nursery.cancel_scope.cancel()

    with logs_into(Trace(None)):
        run(1, program)
    assert len(few) == 6, "each of three brokers to each other"
    assert many == few, "topics cost no connection"
    assert max(peaks.values()) <= MOST, f"while {CREATORS} topics were created at once"
