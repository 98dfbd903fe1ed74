"""A broker refuses to start with one partition in two directories, and an operator chooses."""

import random
from collections.abc import Callable

import pytest
import trio

from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.patience import holds_within
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.simulator.brokers.broker_clients import TOPIC, BrokerClientSettings
from tests.simulator.brokers.broker_cluster import MORE
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario
from tests.simulator.brokers.one_broker import open_one, reassign_partition

PATIENCE_S = 60.0
PARTITIONS = 4


async def seen(condition: Callable[[], bool]) -> None:
    assert await holds_within(PATIENCE_S, condition, every_s=0.01)


@pytest.mark.slow
def test_a_replica_that_was_made_again_while_its_directory_had_failed_is_there_once_in_the_end() -> None:
    """Nothing could be deleted in the directory that had failed: the broker was started again with a second
    replica in the other one, and refused (seed 9305008)."""

    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        node = next(each for each in cluster.nodes if each is not cluster.leader())
        others = tuple(each.id for each in cluster.nodes if each is not node)
        partition = next(p for p in range(PARTITIONS) if node.disk.exists(f"{MORE}/{TOPIC}-{p}"))
        node.disk_failing = True
        node.disk.fail(DiskOperation.APPEND, path_part=f"{MORE}/{TOPIC}")

        async def reassign(replicas: tuple[int, ...]) -> None:
            async with open_one(cluster, node, "asker", client_id="asker", timeout_s=10) as admin:
                await reassign_partition(admin, TOPIC, partition, replicas)

        async with trio.open_nursery() as nursery:
            await seen(lambda: node.degraded)
            await reassign(others)
            await seen(lambda: node.id not in cluster.states(TOPIC)[partition].replicas)
            await reassign((*others, node.id))
            await seen(lambda: any(node.duplicates()))
            nursery.start_soon(cluster.supervise, random.Random(1))
            await trio.sleep(5)
            await cluster.converge(within_s=PATIENCE_S)
            nursery.cancel_scope.cancel()
        assert node.life == 2
        assert not node.disk.exists(f"{MORE}/{TOPIC}-{partition}")

    run_scenario(
        1,
        scenario,
        clients=BrokerClientSettings(idempotent=1, plain=0),
        partitions=PARTITIONS,
        log_dirs=(FOLDER, MORE),
    )
