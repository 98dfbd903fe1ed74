"""A directory that failed, and a controller that can't be told of it (KIP-858)."""

import uuid

import pytest
import trio
import trio.testing

from quorate.broker.failure_reports import FailureReports, UnreportedFailureError
from quorate.broker.replication.replica_manager import ReplicaManager
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.world.disk_faults import DiskOperation
from tests.simulator.brokers.broker_clients import TOPIC, BrokerClientSettings
from tests.simulator.brokers.broker_cluster import BrokerHost
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario

ONE, TWO = uuid.UUID(int=1001), uuid.UUID(int=1002)
TIMEOUT_S = 4.0


def manager_of(node: BrokerHost) -> ReplicaManager:
    broker = node.serving.broker
    assert broker is not None
    return broker._manager


@pytest.mark.slow
@pytest.mark.bug("KAFKA-15649")
@pytest.mark.parametrize(("seed", "reported"), [(1, False), (2, False), (6, True)])
def test_a_broker_that_cannot_report_a_failed_directory_stops_in_time(seed: int, reported: bool) -> None:
    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        await trio.sleep(2)
        for number in range(6):
            broken = scene.leader_of(number)
            place = manager_of(broken)._logs.folders.log_directory_of(TOPIC, number)
            assert place is not None
            if place.path != FOLDER:
                break
        manager = manager_of(broken)
        if not reported:
            others = [node.name for node in cluster.nodes if node is not broken]
            cluster.network.partition([broken.name], others)
        broken.disk.fail(DiskOperation.APPEND, path_part=f"{place.path}/", times=10**6)
        broken.disk_failing = True
        with trio.fail_after(3):
            while not manager.replicas.directories.failed_ids:  # noqa: ASYNC110
                await trio.sleep(0.01)
        since = trio.current_time()
        await trio.sleep(TIMEOUT_S - 0.1)
        assert broken.open, "too early"
        await trio.sleep(1.5)
        assert broken.open is reported
        with trio.fail_after(10):
            while any(  # noqa: ASYNC110
                cluster.states(TOPIC)[number].leader in (broken.id, -1)
                for number in range(6)
                if not reported or manager._logs.folders.log_directory_of(TOPIC, number) is place
            ):
                await trio.sleep(0.1)
        assert trio.current_time() - since < 15
        broken.disk.clear_faults()
        if broken.open:
            await cluster.crash(broken, power_loss=False)
            cluster.start(broken)

    run_scenario(
        seed,
        scenario,
        clients=BrokerClientSettings(idempotent=2, plain=1, think_max_s=0.3),
        partitions=6,
        values={
            "log.dirs": f"{FOLDER},more",
            "log.dir.failure.timeout.ms": str(int(TIMEOUT_S * 1000)),
        },
    )


async def test_a_failed_directory_stops_the_broker_only_while_it_leads_partitions_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    led: set[uuid.UUID] = set()
    reports = FailureReports(timeout_s=30)
    with pytest.raises(ExceptionGroup) as raised:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reports.run, lambda directory: directory in led)
            await trio.sleep(5)
            reports.failed([ONE, TWO])
            await trio.sleep(29)
            reports.reported([ONE])
            reports.failed([ONE, TWO])  # as each further error of a disk says it
            led.add(ONE)
            await trio.sleep(100)
            led.add(TWO)
            since = trio.current_time()
            await trio.sleep(50)
    assert raised.group_contains(UnreportedFailureError, match=r"log\.dir\.failure\.timeout\.ms")
    assert trio.current_time() - since <= 1


async def test_time_runs_from_the_failure_and_not_from_its_last_repetition(
    autojump_clock: trio.testing.MockClock,
) -> None:
    reports = FailureReports(timeout_s=30)
    failed_at = trio.current_time()
    with pytest.raises(ExceptionGroup) as raised:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reports.run, lambda directory: True)
            for _ in range(100):
                reports.failed([ONE])
                await trio.sleep(1)
    assert raised.group_contains(UnreportedFailureError)
    assert 30 <= trio.current_time() - failed_at <= 31
