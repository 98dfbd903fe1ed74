"""Creations that wait for the leaders of their partitions: each for its own, and all together over one
connection to each leader."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.apis.api_table import BROKER_APIS
from quorate.broker.apis.leader_readiness import LeaderReadiness
from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, response_type
from quorate.broker.wire.exchanges import RequestContext
from quorate.broker.wire.kafka_server import WireServer
from quorate.runtime import Address, Listener
from quorate.simulation.world.simulated_network import SimulatedNetwork

LEADER = Address("leader", 9092)


class Leader:
    """Serves the topics in `served`, but for the partitions in `unopened`."""

    apis = BROKER_APIS

    def __init__(self) -> None:
        self.served: set[str] = set()
        self.unopened: set[int] = set()
        self.asked: list[int] = []
        """The number of partitions in each request."""
        self.server: WireServer | None = None

    async def handle(self, context: RequestContext, request: Any) -> Any:
        assert context.api.key == ApiKey.LIST_OFFSETS
        self.asked.append(sum(len(topic.partitions) for topic in request.topics))
        return build(
            response_type(context.api, context.version),
            topics=[
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": part.partition_index,
                            "error_code": ErrorCode.none
                            if topic.name in self.served and part.partition_index not in self.unopened
                            else ErrorCode.not_leader_or_follower,
                        }
                        for part in topic.partitions
                    ],
                }
                for topic in request.topics
            ],
        )

    async def run(self, listener: Listener) -> None:
        self.server = WireServer(listener, cast(Any, self), KafkaServerConfig())
        await self.server.run()

    @property
    def connections(self) -> tuple[int, int]:
        """Open now, and ever opened."""
        assert self.server is not None
        found = self.server.statistics()
        return found.connections, found.connections_accepted


def metadata_of_any_topic(partitions: int) -> Any:
    """Broker 2 leads all partitions of every topic."""
    return SimpleNamespace(
        image=SimpleNamespace(
            topic=lambda name: SimpleNamespace(topic_id=name),
            partitions=lambda topic_id: [SimpleNamespace(leader=2)] * partitions,
            broker=lambda broker_id: SimpleNamespace(fenced=False),
        )
    )


@asynccontextmanager
async def asking(
    leader: Leader, *, partitions: int = 1
) -> AsyncIterator[tuple[LeaderReadiness, SimulatedNetwork, trio.Nursery]]:
    network = SimulatedNetwork(random.Random(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.run, await network.for_node("leader").listen(LEADER))
        yield (
            LeaderReadiness(
                network.for_node("broker"),
                broker_id=1,
                metadata=metadata_of_any_topic(partitions),
                lookups=cast(Any, None),
                connect=lambda broker_id: LEADER,
                tasks=nursery,
            ),
            network,
            nursery,
        )
        nursery.cancel_scope.cancel()


async def create(readiness: LeaderReadiness, ready: list[str], name: str, patience_s: float = 100) -> None:
    await readiness.wait({name: 0}, deadline=trio.current_time() + patience_s)
    ready.append(name)


@pytest.mark.slow
async def test_a_thousand_creations_share_a_connection_and_each_waits_for_its_own_topic(
    autojump_clock: object,
) -> None:
    leader, ready = Leader(), list[str]()
    async with asking(leader) as (readiness, _, nursery):
        leader.served = {f"t{number}" for number in range(999)}
        for number in range(1000):
            nursery.start_soon(create, readiness, ready, f"t{number}")
        await trio.sleep(0.5)
        assert len(ready) == 999
        assert leader.connections == (1, 1)
        leader.served.add("t999")
        await trio.sleep(0.5)
        assert ready[-1] == "t999"
        assert leader.connections == (0, 1), "nobody waits any more"


async def test_a_creation_that_gives_up_leaves_the_connection_to_the_others(autojump_clock: object) -> None:
    leader, ready = Leader(), list[str]()
    async with asking(leader) as (readiness, _, nursery):
        nursery.start_soon(create, readiness, ready, "impatient", 0.3)
        await trio.sleep(0.1)
        nursery.start_soon(create, readiness, ready, "patient", 2.0)
        await trio.sleep(0.5)
        assert ready == ["impatient"]
        assert leader.connections == (1, 1)
        leader.served = {"patient"}
        await trio.sleep(0.2)
        assert ready == ["impatient", "patient"]
        assert leader.connections == (0, 1)


@pytest.mark.slow
async def test_a_connection_that_breaks_is_opened_again_once_for_all(autojump_clock: object) -> None:
    leader, ready = Leader(), list[str]()
    async with asking(leader) as (readiness, network, nursery):
        for number in range(20):
            nursery.start_soon(create, readiness, ready, f"t{number}")
            await trio.sleep(0.007)  # so that somebody always has it
        await trio.sleep(0.5)
        network.cut("broker", "leader")
        await trio.sleep(0.5)
        assert leader.connections == (1, 2)
        leader.served = {f"t{number}" for number in range(20)}
        await trio.sleep(0.5)
        assert len(ready) == 20
        assert leader.connections == (0, 2)


async def test_the_last_partition_is_asked_for_alone_until_it_is_served_and_then_all_are(
    autojump_clock: object,
) -> None:
    leader, ready = Leader(), list[str]()
    async with asking(leader, partitions=50) as (readiness, _, nursery):
        nursery.start_soon(create, readiness, ready, "t")
        await trio.sleep(0.5)
        assert set(leader.asked) == {1}
        leader.asked.clear()
        leader.served, leader.unopened = {"t"}, {3, 7}
        await trio.sleep(0.5)
        assert (leader.asked[:2], set(leader.asked[2:])) == ([1, 50], {2}), "two are not there yet"
        leader.unopened = set()
        await trio.sleep(0.1)
        assert ready == ["t"]


async def test_an_only_partition_is_asked_for_once(autojump_clock: object) -> None:
    leader = Leader()
    leader.served = {"t"}
    async with asking(leader) as (readiness, _, _):
        await readiness.wait({"t": 0}, deadline=trio.current_time() + 1)
        assert leader.asked == [1]


@pytest.mark.parametrize(
    ("partitions", "first", "waits"), [(100, 0, True), (101, 0, False), (1000, 990, True)]
)
async def test_few_new_partitions_are_waited_for_and_many_are_not(
    autojump_clock: object, partitions: int, first: int, waits: bool
) -> None:
    leader = Leader()
    async with asking(leader, partitions=partitions) as (readiness, _, _):
        began = trio.current_time()
        await readiness.wait({"t": first}, deadline=began + 100)
        assert (trio.current_time() - began > 1) is waits
        leader.asked.clear()
        leader.served = {"t"}
        await readiness.wait({"t": first}, deadline=began + 100)
        assert leader.asked[-1:] == ([partitions - first] if waits else [])
