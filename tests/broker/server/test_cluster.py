"""Three nodes in this process, and clients that others wrote."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from surviving_consumer import messages

from tests.broker.server.conftest import MakeNodes, Nodes


def produce_all(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
    futures = [producer.send(topic, value) for value in values]
    for future in futures:
        future.get(timeout=20)
    producer.close()


def consume_group(bootstrap: str, topic: str, count: int, *, group: str = "g") -> list[bytes]:
    """Consume as a member of a group, and commit at the end."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20_000,
    )
    got = []
    for message in messages(consumer):
        got.append(message.value)
        if len(got) == count:
            break
    consumer.commit()
    consumer.close()
    return got


def run_in_thread(work: Callable[..., Any], *args: object) -> Any:
    return trio.to_thread.run_sync(work, *args)


async def test_kafka_python_produces_and_consumes_with_a_group(nodes: Nodes) -> None:
    values = [b"v%d" % n for n in range(100)]
    with trio.fail_after(40):
        await run_in_thread(produce_all, nodes.bootstrap, "t", values)
        assert await run_in_thread(consume_group, nodes.bootstrap, "t", 60) == values[:60]
        # The next member of the group goes on where the first committed.
        assert await run_in_thread(consume_group, nodes.bootstrap, "t", 40) == values[60:]


def aio_round(bootstrap: str) -> list[bytes]:
    import asyncio

    async def run() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        for n in range(20):
            await producer.send_and_wait("a", b"v%d" % n)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            "a", bootstrap_servers=bootstrap, group_id="aio", auto_offset_reset="earliest"
        )
        await consumer.start()
        got = [(await consumer.getone()).value for _ in range(20)]
        await consumer.stop()
        return got

    return asyncio.run(run())


async def test_aiokafka_produces_and_consumes_with_a_group(nodes: Nodes) -> None:
    with trio.fail_after(40):
        assert await run_in_thread(aio_round, nodes.bootstrap) == [b"v%d" % n for n in range(20)]


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("how", ["stop", "crash"])
async def test_records_outlive_their_leader(make_nodes: MakeNodes, how: str) -> None:
    nodes = await make_nodes(
        3,
        {
            "min.insync.replicas": "2",
            "default.replication.factor": "3",
            "offsets.topic.replication.factor": "3",
        },
    )
    bootstrap = nodes.bootstrap
    first, second = [b"a%d" % n for n in range(50)], [b"b%d" % n for n in range(50)]
    with trio.fail_after(60):
        await run_in_thread(produce_all, bootstrap, "t", first)
        assert await run_in_thread(consume_group, bootstrap, "t", 30) == first[:30]
        image = nodes.servers[1].metadata.image
        leader = image.partitions(image.topic("t").topic_id)[0].leader
        await (nodes.stop(leader) if how == "stop" else nodes.crash(leader))
        await run_in_thread(produce_all, bootstrap, "t", second)
        assert await run_in_thread(consume_group, bootstrap, "t", 70) == first[30:] + second
        await nodes.start(leader)
        await nodes.servers[leader].wait_ready()
        back = nodes.servers[leader].metadata

        def in_sync(image: Any) -> bool:
            states = image.partitions(image.topic("t").topic_id)
            return all(sorted(state.isr) == [1, 2, 3] for state in states)

        await back.wait_until(in_sync)


def create_with_librdkafka(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(topic, num_partitions=3)], request_timeout=25)
    created[topic].result(timeout=25)


@pytest.mark.slow
async def test_an_admin_client_that_is_there_before_the_cluster_creates_its_topic(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(3, start=False)
    bootstrap = ",".join(str(nodes.address(node)) for node in (1, 2, 3))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_in_thread, create_with_librdkafka, bootstrap, "early")
            await nodes.start_all()
    assert nodes.servers[1].metadata.image.topic("early") is not None
