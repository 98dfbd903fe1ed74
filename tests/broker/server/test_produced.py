"""Records that other clients produce over sockets, by the topic's configuration."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio
from aiokafka import AIOKafkaProducer
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.kafka_bytes.varints import varint
from quorate.log.batches.batch import seal
from quorate.runtime.network import NetworkError
from tests.broker.server.client_requests import produce_request
from tests.broker.server.conftest import Nodes

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 300


def create(bootstrap: str, name: str, config: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=config or {})])[name].result(timeout=30)


def values(tag: str) -> list[bytes]:
    """Return values of all sizes, from nothing to more than a block of any codec, and half a megabyte."""
    small = [f"{tag}-{number} ".encode() * (number * number % 997) for number in range(COUNT)]
    return [*small, bytes(range(256)) * 2000]


def produce_by_confluent(bootstrap: str, topic: str, codec: str, sent: list[bytes]) -> list[tuple[int, int]]:
    """Produce, and return the timestamps of the answers. The producer is idempotent, as others reorder
    the records that they send again."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 50,
            "enable.idempotence": True,
        }
    )
    answered: list[tuple[int, int]] = []

    def delivered(error: object, message: Any) -> None:
        assert error is None, error
        answered.append(message.timestamp())

    for value in sent:
        producer.produce(topic, value, b"key", on_delivery=delivered)
    assert producer.flush(30) == 0
    return answered


def produce_by_kafka_python(bootstrap: str, topic: str, codec: str, sent: list[bytes]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
    )
    for future in [producer.send(topic, value, b"key") for value in sent]:
        future.get(timeout=30)
    producer.close()


def produce_by_aiokafka(bootstrap: str, topic: str, codec: str, sent: list[bytes]) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
        )
        await producer.start()
        try:
            for each in [await producer.send(topic, value, b"key") for value in sent]:
                await each
        finally:
            await producer.stop()

    asyncio.run(run())


def consumed(bootstrap: str, topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    got: list[Any] = []
    deadline = time.monotonic() + 30
    while len(got) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.5):
            assert message.error() is None, message.error()
            got.append(message)
    consumer.close()
    return got


def read_by_kafka_python(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    got = []
    for message in consumer:
        got.append(message.value)
        if len(got) == count:
            break
    consumer.close()
    return got


async def run_in_thread(work: Callable[..., Any], *args: object) -> Any:
    return await trio.to_thread.run_sync(work, *args)


@pytest.mark.slow
async def test_stock_clients_produce_in_every_codec_and_read_it_back(nodes: Nodes) -> None:
    """kafka-python needs packages that are not here for all but gzip."""
    with trio.fail_after(120):
        await run_in_thread(create, nodes.bootstrap, "t")
        sent = []
        for codec in CODECS:
            for client in (produce_by_confluent, produce_by_aiokafka, produce_by_kafka_python):
                if client is produce_by_kafka_python and codec not in ("none", "gzip"):
                    continue
                each = values(f"{client.__name__}-{codec}")
                await run_in_thread(client, nodes.bootstrap, "t", codec, each)
                sent += each
        got = await run_in_thread(consumed, nodes.bootstrap, "t", len(sent))
        assert [message.value() for message in got] == sent


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
async def test_a_topics_compression_is_what_clients_read(nodes: Nodes, codec: str) -> None:
    wanted = "uncompressed" if codec == "none" else codec
    with trio.fail_after(90):
        await run_in_thread(create, nodes.bootstrap, "t", {"compression.type": wanted})
        sent = []
        for each in CODECS:
            one = values(each)
            await run_in_thread(produce_by_confluent, nodes.bootstrap, "t", each, one)
            sent += one
        got = await run_in_thread(consumed, nodes.bootstrap, "t", len(sent))
        assert [message.value() for message in got] == sent
        if codec in ("none", "gzip"):
            assert await run_in_thread(read_by_kafka_python, nodes.bootstrap, "t", len(sent)) == sent


@pytest.mark.slow
async def test_log_append_time_is_in_the_answer_and_in_what_is_read(nodes: Nodes) -> None:
    with trio.fail_after(60):
        await run_in_thread(create, nodes.bootstrap, "own", {"message.timestamp.type": "LogAppendTime"})
        await run_in_thread(create, nodes.bootstrap, "theirs")
        before = time.time_ns() // 1_000_000
        for topic, kind in (("own", TIMESTAMP_LOG_APPEND_TIME), ("theirs", TIMESTAMP_CREATE_TIME)):
            for codec in ("none", "lz4"):
                answered = await run_in_thread(
                    produce_by_confluent, nodes.bootstrap, topic, codec, [b"v"] * 5
                )
                assert {each for each, _ in answered} == {kind}
        got = await run_in_thread(consumed, nodes.bootstrap, "own", 10)
        after = time.time_ns() // 1_000_000
        for message in got:
            kind, timestamp = message.timestamp()
            assert kind == TIMESTAMP_LOG_APPEND_TIME
            assert before <= timestamp <= after


def lying(records: bytes, *, count: int, attributes: int = 0, timestamp_ms: int = 1000) -> bytes:
    return seal(
        records,
        base_offset=0,
        epoch=-1,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def one_record() -> bytes:
    body = b"\x00\x00\x00" + varint(-1) + varint(1) + b"v" + b"\x00"
    return varint(len(body)) + body


async def test_a_batch_that_lies_is_refused_and_stops_no_consumer(nodes: Nodes) -> None:
    """Version 7 has no place for the words; version 8 names the records (KIP-467)."""
    one = one_record()
    lies = (
        (lying(one, count=1, attributes=7), ErrorCode.unsupported_compression_type),
        (lying(b"no gzip at all", count=1, attributes=1), ErrorCode.invalid_record),
        (lying(one, count=5), ErrorCode.invalid_record),
        (lying(varint(1 << 30) + one[1:], count=1), ErrorCode.invalid_record),
        (lying(one, count=2**31 - 1), ErrorCode.invalid_record),
        (lying(one, count=1, timestamp_ms=1 << 62), ErrorCode.invalid_timestamp),
    )
    with trio.fail_after(60):
        await run_in_thread(create, nodes.bootstrap, "t")
        await run_in_thread(produce_by_confluent, nodes.bootstrap, "t", "none", [b"before"])
        async with nodes.client(1) as client:
            for data, error in lies:
                for version in (3, 7, 8, 11):
                    request = produce_request("t", data, version=version)
                    answer = (await client.produce(request))[0].partitions[0]
                    assert answer.error is error
                    assert answer.base_offset == -1
                    assert bool(answer.error_message) == (version >= 8)
                    assert all(version >= 8 and index >= 0 for index, _ in answer.record_errors)
        await run_in_thread(produce_by_confluent, nodes.bootstrap, "t", "none", [b"after"])
        got = await run_in_thread(consumed, nodes.bootstrap, "t", 2)
        assert [(message.offset(), message.value()) for message in got] == [(0, b"before"), (1, b"after")]


async def test_acks_0_to_a_broker_that_can_not_append_closes_the_connection(nodes: Nodes) -> None:
    """A client that is told nothing then looks for the leader. After a pause of its leader one sent 1,691
    records in 40 s to a broker that did not keep them."""
    good = lying(one_record(), count=1)
    with trio.fail_after(60):
        await run_in_thread(create, nodes.bootstrap, "t")
        await run_in_thread(produce_by_confluent, nodes.bootstrap, "t", "none", [b"before"])
        for topic, data, closes in (
            ("t", good, False),
            ("t", lying(one_record(), count=1, attributes=7), True),
            ("unknown", good, True),
            ("__consumer_offsets", good, True),
        ):
            async with nodes.client(1) as client:
                await client.produce(produce_request(topic, data, acks=0))
                if closes:
                    with pytest.raises(NetworkError):
                        await client.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
                else:
                    await client.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        got = await run_in_thread(consumed, nodes.bootstrap, "t", 2)
        assert [message.value() for message in got] == [b"before", b"v"]
