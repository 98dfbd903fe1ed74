"""Consumers in racks of their own read from the followers there, through kills and changes of the leader."""

import pytest
import trio

from quorate.broker.settings.node_keys import RACK_AWARE
from tests.simulator.brokers.broker_clients import TOPIC, BrokerClientSettings
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario

CLIENTS = BrokerClientSettings(idempotent=1, plain=0, consumers=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_records_read_from_followers_are_a_prefix_of_the_log_after_any_death(seed: int) -> None:
    """The scenario's end compares what each consumer has read with the final log."""

    nearby: list[int] = []

    async def scenario(scene: BrokerScene) -> None:
        for turn in range(4):
            await trio.sleep(4)
            nearby.append(scene.clients.read_nearby)
            state = scene.cluster.states(TOPIC)[turn % 3]
            victim = scene.cluster.nodes[(state.leader if turn % 2 else state.isr[-1]) - 1]
            await scene.cluster.crash(victim, power_loss=False)
            await trio.sleep(1)
            scene.cluster.start(victim)

    run_scenario(seed, scenario, clients=CLIENTS, partitions=3, values={"replica.selector.class": RACK_AWARE})
    assert nearby[-1] > 0
