"""One of several directories of log.dirs fails: the broker runs on, and others take over what was in it."""

import pytest
import trio

from quorate.broker.replication.replica_manager import ReplicaManager
from quorate.broker.replication.storage.log_directory import LogDirectory
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.histories.history import AppendOutcome
from quorate.simulation.world.disk_faults import DiskOperation
from tests.simulator.brokers.broker_clients import TOPIC, BrokerClientSettings
from tests.simulator.brokers.broker_cluster import BrokerHost
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario

PARTITIONS = 8


def manager_of(node: BrokerHost) -> ReplicaManager:
    broker = node.serving.broker
    assert broker is not None
    return broker._manager


def folder_of(node: BrokerHost, partition: int) -> LogDirectory:
    found = manager_of(node)._logs.folders.log_directory_of(TOPIC, partition)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_others_lead_the_partitions_of_a_failed_directory_while_the_broker_serves_the_rest(
    seed: int,
) -> None:
    async def scenario(scene: BrokerScene) -> None:
        cluster, clients = scene.cluster, scene.clients
        await trio.sleep(2)
        broken, place = next(
            (node, folder)
            for number in range(PARTITIONS)
            if (folder := folder_of(node := scene.leader_of(number), number)).path != FOLDER
        )
        directories = manager_of(broken).replicas.directories
        led = [number for number in range(PARTITIONS) if scene.leader_of(number) is broken]
        lost = [number for number in range(PARTITIONS) if folder_of(broken, number) is place]
        assert len(lost) < PARTITIONS
        broken.disk.fail(DiskOperation.APPEND, path_part=f"{place.path}/", times=10**6)
        with trio.fail_after(5):
            while any(broken.id in cluster.states(TOPIC)[number].isr for number in lost):  # noqa: ASYNC110
                await trio.sleep(0.05)
        states = cluster.states(TOPIC)
        for number in lost:
            assert states[number].leader not in (broken.id, -1)
            assert broken.id not in (*states[number].isr, *states[number].elr)
        assert directories.failed_ids == (place.id,)
        for number in led:
            assert number in lost or states[number].leader == broken.id, "what is sound stays"
        leader = cluster.leader()
        assert leader is not None
        assert broken.is_unfenced(leader.image)
        registered = leader.image.broker(broken.id)
        assert registered is not None
        assert registered.log_dirs == directories.online_ids
        since = trio.current_time()
        await trio.sleep(5)
        for number in range(PARTITIONS):
            appends = clients.histories[number].appends
            assert any(
                each.invoked_at > since and each.outcome is AppendOutcome.ACKNOWLEDGED for each in appends
            )
        broken.disk.clear_faults()
        await cluster.crash(broken, power_loss=False)
        cluster.start(broken)

    run_scenario(
        seed,
        scenario,
        clients=BrokerClientSettings(idempotent=3, plain=3, think_max_s=0.1),
        partitions=PARTITIONS,
        values={"log.dirs": f"{FOLDER},more"},
    )
