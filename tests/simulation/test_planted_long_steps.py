"""A step without end loses elections in simulation, as it does in life: each test plants one, in a cluster
whose machines are so slow that little data stands for much, and sees the quorum's leader deposed by it."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping

import pytest
import trio

from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.log.batches.records import build_batch
from quorate.log.log import Log
from quorate.log.segments.walk import HeaderWalk, read_now
from quorate.raft.quorum_errors import QuorumError
from quorate.types import Offset
from tests.simulator.brokers.broker_admin import Administrator
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_cluster import BrokerHost
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario

SEEDS = (1, 2, 3)
CLIENTS = BrokerClientSettings(idempotent=1, plain=0, think_max_s=2.0)
BATCHES = 3000
PARTITIONS = 120
T0 = 1_000_000


async def led_by(scene: BrokerScene, wanted: BrokerHost) -> None:
    """Wait until the quorum is."""
    with trio.fail_after(120):
        while (leader := scene.cluster.leader()) is not wanted:
            if leader is not None:
                with contextlib.suppress(QuorumError):
                    await leader.quorum.transfer_leadership(wanted.id)
            await trio.sleep(1)
    await trio.sleep(2)


def partition_of(host: BrokerHost, topic: str) -> PartitionReplica:
    broker = host.serving.broker
    assert broker is not None
    return broker.replicas.lookups.partition(topic, 0)


async def a_consumer_asks_for_a_time(scene: BrokerScene) -> bool:
    """Whether that deposed the leader of the quorum."""
    cluster = scene.cluster
    await Administrator(cluster, cluster._random).create("long", partitions=1)
    await cluster.converge(within_s=60)
    await trio.sleep(2)
    host = cluster.nodes[cluster.states("long")[0].leader - 1]
    partition = partition_of(host, "long")
    for number in range(BATCHES):
        at = T0 + number
        partition.log.append_as_leader(
            build_batch(base_offset=0, epoch=0, timestamp_ms=at, values=[b"x" * 20]), partition.leader_epoch
        )
    with trio.fail_after(60):
        while partition.high_watermark < BATCHES:
            partition.watchers.appended()
            await trio.sleep(0.1)
    await led_by(scene, host)
    epoch = host.quorum.epoch
    scene.scheduler.costs.slowness = 5.0 / (BATCHES * 8e-6)
    found = []

    async def ask() -> None:
        broker = host.serving.broker
        assert broker is not None
        found.append(await broker.replicas.queries.list_offset("long", 0, timestamp=T0 + BATCHES - 1))

    async with trio.open_nursery() as nursery:
        with scene.scheduler.process(host.name):
            nursery.start_soon(ask)
    await trio.sleep(5)
    scene.scheduler.costs.slowness = 1.0
    assert [each.offset for each in found] == [BATCHES - 1]
    return cluster.leader() is not host or host.quorum.epoch != epoch


async def a_broker_with_many_partitions_dies(scene: BrokerScene) -> bool:
    """Whether what follows from it deposed the leader of the quorum."""
    cluster = scene.cluster
    await Administrator(cluster, cluster._random).create("many", partitions=PARTITIONS)
    await cluster.converge(within_s=60)
    leader = cluster.leader()
    assert leader is not None
    await led_by(scene, leader)
    epoch = leader.quorum.epoch
    dying = next(node for node in cluster.nodes if node is not leader)
    scene.scheduler.costs.slowness = 700
    await cluster.crash(dying, power_loss=False)
    await trio.sleep(20)
    scene.scheduler.costs.slowness = 1.0
    assert all(dying.id not in state.isr for state in cluster.states("many").values())
    return cluster.leader() is not leader or leader.quorum.epoch != epoch


async def a_topic_of_many_partitions_is_created(scene: BrokerScene) -> bool:
    """Whether that deposed the leader of the quorum."""
    cluster = scene.cluster
    leader = cluster.leader()
    assert leader is not None
    await led_by(scene, leader)
    epoch = leader.quorum.epoch
    scene.scheduler.costs.slowness = 3000
    with trio.move_on_after(20):
        await Administrator(cluster, cluster._random).create("many", partitions=PARTITIONS)
    scene.scheduler.costs.slowness = 1.0
    return cluster.leader() is not leader or leader.quorum.epoch != epoch


def deposed(
    scenario: Callable[[BrokerScene], Awaitable[bool]], seed: int, values: Mapping[str, str] | None = None
) -> bool:
    said = []

    async def note(scene: BrokerScene) -> None:
        said.append(await scenario(scene))

    run_scenario(seed, note, clients=CLIENTS, values=values)
    (answer,) = said
    return answer


@pytest.mark.slow
def test_a_walk_over_all_batches_in_one_step_deposes_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Review D1, as it was."""
    assert not any(deposed(a_consumer_asks_for_a_time, seed) for seed in SEEDS)

    async def walk(self: Log, timestamp: int, *, from_offset: int = 0) -> Offset | None:
        for segment in self._segments:
            batches = HeaderWalk(segment.file, 0, segment.size)
            while (spot := read_now(batches.next())) is not None:
                if spot.max_timestamp >= timestamp and spot.end_offset > from_offset:
                    return Offset(spot.base_offset)
        return None

    monkeypatch.setattr(Log, "offset_for_timestamp", walk)
    assert any(deposed(a_consumer_asks_for_a_time, seed) for seed in SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario", [a_broker_with_many_partitions_dies, a_topic_of_many_partitions_is_created]
)
def test_a_controllers_step_over_all_partitions_deposes_the_leader(
    scenario: Callable[[BrokerScene], Awaitable[bool]],
) -> None:
    def in_steps_of(partitions: int) -> Iterator[bool]:
        values = {"quorate.controller.partitions.per.step": str(partitions)}
        return (deposed(scenario, seed, values) for seed in SEEDS)

    assert not any(in_steps_of(4))
    assert any(in_steps_of(PARTITIONS))
