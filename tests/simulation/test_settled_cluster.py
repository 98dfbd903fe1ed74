"""A run looks at the replicas only once nothing is left to be replicated."""

import random

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin.admin_client import TopicPartition
from tests.simulator.brokers.broker_admin import Administrator
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario
from tests.simulator.brokers.one_broker import open_one
from tests.simulator.brokers.operating import operator_requests as requests
from tests.simulator.brokers.settled_cluster import check_work_ends

OWN = "own"


@pytest.mark.slow
def test_the_end_of_a_run_waits_for_replicas_that_are_in_the_isr_and_lack_records() -> None:
    """A follower behind a half-open connection lacked a record that nobody was answered, and was in the ISR
    still when the run compared the replicas (seed 9303155)."""

    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        admin = Administrator(cluster, random.Random(1))
        await admin.create(OWN, partitions=1)
        await cluster.converge(within_s=10)
        await trio.sleep(1)
        leader = cluster.nodes[cluster.states(OWN)[0].leader - 1]
        # The active controller hears from the leader still: no other takes its place.
        followers = sorted(
            (node for node in cluster.nodes if node is not leader), key=lambda node: node is cluster.leader()
        )

        def ends() -> list[int]:
            brokers = (node.serving.broker for node in (leader, *followers))
            return [
                broker.replicas.lookups.partition(OWN, 0).log.end_offset
                for broker in brokers
                if broker is not None
            ]

        cluster.network.half_open(followers[0].name, leader.name)
        async with open_one(cluster, leader, "asker", client_id="asker", margin_s=7) as admin:
            error, _ = await requests.produce(admin, TopicPartition(OWN, 0), b"one")
        assert error is ErrorCode.request_timed_out
        assert (ends(), len(cluster.states(OWN)[0].isr)) == ([1, 0, 1], 3)
        await check_work_ends(cluster, within_s=60)
        assert ends() == [1, 1, 1]

    run_scenario(
        1,
        scenario,
        clients=BrokerClientSettings(idempotent=0, plain=0, consumers=0),
        values={"replica.lag.time.max.ms": "20000"},
    )
