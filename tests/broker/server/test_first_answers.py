"""The answers to a client that is there before the cluster, and right after it has created a topic.

Three simulated nodes in virtual time.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.server import BrokerServer
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.raft.storage.storage import format_folder
from quorate.runtime.network import Address, NetworkError
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.simulation.world.simulated_runtime import SimulatedRuntime
from quorate.types import NodeId
from tests.broker.server.client_requests import batch, create, produce_request

NODES = (1, 2, 3)


class Cluster:
    """Simulated hosts; `start` runs their nodes."""

    def __init__(self, seed: int, nursery: trio.Nursery) -> None:
        source = random.Random(seed)
        self.network = SimulatedNetwork(source)
        self.hosts = {node: SimulatedRuntime(f"node-{node}", self.network, source) for node in NODES}
        self._nursery = nursery
        self.servers: dict[int, BrokerServer] = {}
        self._opened = {node: trio.Event() for node in NODES}

    def config(self, node: int) -> ServerConfig:
        values = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{each}@node-{each}:9093" for each in NODES),
            "listeners": f"PLAINTEXT://node-{node}:9092,CONTROLLER://node-{node}:9093",
            "log.dirs": "data",
            "default.replication.factor": "3",
        }
        return ServerConfig.parse("\n".join(f"{key}={value}" for key, value in values.items()))

    async def start(self, *nodes: int) -> None:
        for node in nodes or NODES:
            runtime = self.hosts[node].runtime()
            await format_folder(runtime, "data", cluster_id="c", node_id=NodeId(node))
            self._nursery.start_soon(self._run, node)

    async def _run(self, node: int) -> None:
        async with BrokerServer.open(self.config(node), runtime=self.hosts[node].runtime()) as server:
            self.servers[node] = server
            self._opened[node].set()
            await trio.sleep_forever()

    async def wait_ready(self) -> None:
        for node in NODES:
            await self._opened[node].wait()
            await self.servers[node].wait_ready()

    @asynccontextmanager
    async def client(self, node: int) -> AsyncIterator[WireClient]:
        """Connect as soon as the node listens."""
        while True:
            try:
                stream = await self.network.for_node("client").connect(Address(f"node-{node}", 9092))
            except NetworkError:
                await trio.sleep(0.001)
            else:
                stream.close()
                break
        at = Address(f"node-{node}", 9092)
        async with open_client(self.network.for_node("client"), at, timeout_s=60) as client:
            yield client


@asynccontextmanager
async def cluster_of(seed: int) -> AsyncIterator[Cluster]:
    async with trio.open_nursery() as nursery:
        yield Cluster(seed, nursery)
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
async def test_a_client_that_is_there_before_the_cluster_is_never_shown_an_empty_one(
    autojump_clock: object, seed: int
) -> None:
    seen: list[tuple[int, int, int]] = []

    async def ask(cluster: Cluster, node: int) -> None:
        async with cluster.client(node) as client:
            for _ in range(200):
                metadata: Any = await client.call(ApiKey.METADATA, topics=())
                described: Any = await client.call(ApiKey.DESCRIBE_CLUSTER)
                seen.append((node, len(metadata.brokers), metadata.controller_id))
                seen.append((node, len(described.brokers), described.controller_id))
                assert any(each.node_id == node for each in metadata.brokers), "a node names itself"
                await trio.sleep(0.001)

    async with cluster_of(seed) as cluster:
        with trio.fail_after(60):
            async with trio.open_nursery() as asking:
                await cluster.start()
                for node in NODES:
                    asking.start_soon(ask, cluster, node)
    empty = [each for each in seen if not each[1] or each[2] < 0]
    assert not empty, f"(node, brokers, controller): {empty[:5]}"
    assert len(seen) == 2 * 200 * len(NODES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_a_topic_that_create_topics_has_answered_can_be_produced_to_at_once(
    autojump_clock: object, seed: int
) -> None:
    async with cluster_of(seed) as cluster:
        await cluster.start()
        with trio.fail_after(60):
            await cluster.wait_ready()
            for turn in range(12):
                through = NODES[turn % 3]
                async with cluster.client(through) as client:
                    await create(client, f"t{turn}", partitions=6, replicas=3)
                    metadata: Any = await client.call(
                        ApiKey.METADATA,
                        topics=[{"name": f"t{turn}"}],
                    )
                    errors = [
                        await produced(cluster, part.leader_id, f"t{turn}", part.partition_index)
                        for part in metadata.topics[0].partitions
                    ]
                assert errors == [ErrorCode.none] * 6, f"created through node {through}"


async def produced(cluster: Cluster, node: int, topic: str, partition: int) -> ErrorCode:
    """Produce once, and return the code of the answer."""
    request = produce_request(topic, batch(b"v"), partition=partition, acks=1, timeout_ms=1000)
    async with cluster.client(node) as client:
        return (await client.produce(request))[0].partitions[0].error


async def test_a_leader_that_does_not_answer_delays_a_creation_no_longer_than_its_timeout(
    autojump_clock: object,
) -> None:
    async with cluster_of(7) as cluster:
        await cluster.start()
        with trio.fail_after(60):
            await cluster.wait_ready()
            leader = next(node for node in NODES if cluster.servers[node].quorum.leader == node)
            silent = next(node for node in NODES if node != leader)
            cluster.network.partition(
                [f"node-{silent}"], [f"node-{each}" for each in NODES if each != silent]
            )
            async with cluster.client(leader) as client:
                began = trio.current_time()
                await create(client, partitions=6, replicas=3, timeout_s=1)
                assert trio.current_time() - began <= 1.1
