"""A run with a compacted topic keeps to Kafka's rule: nobody is away for longer than tombstones stay."""

import random

import pytest
import trio

from tests.simulator.brokers.broker_admin import Administrator
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario
from tests.simulator.brokers.compacted_mix import COMPACTING, CompactedMix
from tests.simulator.brokers.compacted_topic import COMPACTED, CompactedSettings

PATIENCE_S = 60.0


@pytest.mark.slow
def test_a_follower_behind_a_half_open_connection_is_back_before_tombstones_go() -> None:
    """It waited for half a minute, and had keys that were deleted meanwhile (seed 9303803)."""

    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        source = random.Random(1)
        settings = CompactedSettings(keys=20, segment_bytes=300)
        admin = Administrator(cluster, source)
        mix = await CompactedMix.begin(cluster, admin, settings, source, reassigns=False)
        assert mix is not None
        await cluster.converge(within_s=PATIENCE_S)
        async with trio.open_nursery() as consumers:
            consumers.start_soon(mix.clients.consume)
            async with trio.open_nursery() as producers:
                producers.start_soon(mix.run)
                await trio.sleep(3)
                leader = cluster.nodes[cluster.states(COMPACTED)[0].leader - 1]
                follower = next(each for each in cluster.nodes if each not in (leader, cluster.leader()))
                cluster.network.half_open(follower.name, leader.name)
                await trio.sleep(4)
                mix.finish()
            await cluster.converge(within_s=PATIENCE_S)
            await mix.clients.consumed(within_s=PATIENCE_S)
            consumers.cancel_scope.cancel()
        await mix.check(within_s=PATIENCE_S)

    run_scenario(
        1, scenario, clients=BrokerClientSettings(idempotent=0, plain=0, consumers=0), values=COMPACTING
    )
