"""A large topic is there whole or not at all, whatever happens between the pieces of its creation."""

import random
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.simulation.patience import holds_within
from tests.simulator.brokers.broker_admin import Administrator
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_cluster import BrokerHost
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario

PATIENCE_S = 60.0
PARTITIONS = 12
CLIENTS = BrokerClientSettings(idempotent=1, plain=1)
ONE_A_STEP = {"quorate.controller.partitions.per.step": "1"}


async def until(condition: Callable[[], bool], *, every_s: float = 0.0001) -> None:
    assert await holds_within(30, condition, every_s=every_s)


async def watch(scene: BrokerScene) -> None:
    """No node's image ever has a part of the topic."""
    began = trio.current_time()
    while True:
        for node in scene.cluster.nodes:
            topic = None if node.server is None else node.image.topic("large")
            if topic is not None:
                assert len(node.image.partitions(topic.topic_id)) == PARTITIONS
        await trio.sleep(0.0005 if trio.current_time() < began + 5 else 0.1)


async def create_and(
    scene: BrokerScene, meanwhile: Callable[[BrokerHost], Awaitable[None]], *, pieces: int
) -> bool:
    """Create the topic, and do `meanwhile` with the active controller once it has applied so many records of
    the transaction. Whether the transaction was open then."""
    cluster = scene.cluster
    admin = Administrator(cluster, random.Random(1))
    first = cluster.leader()
    assert first is not None
    metadata = first.serving.metadata
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, scene)
        async with trio.open_nursery() as creating:
            creating.start_soon(partial(admin.create, "large", partitions=PARTITIONS))
            await until(lambda: metadata.in_transaction)
            begun = metadata.offset
            await until(lambda: metadata.offset >= begun + pieces or not metadata.in_transaction)
            was_open = metadata.in_transaction
            await meanwhile(first)
        await cluster.start_all()
        await cluster.converge(within_s=PATIENCE_S)
        for node in cluster.nodes:
            await until(lambda node=node: node.image.topic("large") is not None, every_s=0.01)
            assert not node.serving.metadata.in_transaction
        nursery.cancel_scope.cancel()
    images = [node.image for node in cluster.nodes]
    topic = images[0].topic("large")
    assert topic is not None
    assert {len(image.partitions(topic.topic_id)) for image in images} == {PARTITIONS}
    return was_open


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [0, 1, 2, 5, 9, 12, 13])
@pytest.mark.parametrize("how", ["is killed", "loses power", "resigns"])
def test_the_controller_goes_between_any_two_pieces(how: str, pieces: int) -> None:
    halfway: list[bool] = []

    async def scenario(scene: BrokerScene) -> None:
        async def go(first: BrokerHost) -> None:
            if how == "resigns":
                scene.cluster.resign(first)
            else:
                await scene.cluster.crash(first, power_loss=how == "loses power")

        halfway.append(await create_and(scene, go, pieces=pieces))

    run_scenario(pieces, scenario, clients=CLIENTS, values=ONE_A_STEP)
    assert halfway == [pieces < PARTITIONS]


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [0, 3, 8])
def test_every_node_starts_again_from_a_snapshot_of_half_a_topic(pieces: int) -> None:
    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster

        async def are_killed_with_snapshots(first: BrokerHost) -> None:
            for node in cluster.nodes:
                await node.serving.quorum.take_snapshot()
            async with trio.open_nursery() as nursery:
                for node in cluster.nodes:
                    nursery.start_soon(partial(cluster.crash, node, power_loss=False))
            await cluster.start_all()

        assert await create_and(scene, are_killed_with_snapshots, pieces=pieces)

    run_scenario(pieces, scenario, clients=CLIENTS, values=ONE_A_STEP)


def test_a_transaction_that_is_published_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Early(BatchLoader):
        @property
        def image(self):  # type: ignore[no-untyped-def, override]
            return self._image if self._hidden is None else self._hidden.image

        @image.setter
        def image(self, image) -> None:  # type: ignore[no-untyped-def]
            self._image = image

    monkeypatch.setattr("quorate.broker.metadata_cache.BatchLoader", Early)
    with pytest.raises(AssertionError):
        test_the_controller_goes_between_any_two_pieces("resigns", 5)
