"""Stock clients against a toy broker in a process of its own: framing and codecs serve them."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.system]

VALUES = [b"small", b"", bytes(range(256)) * 2000, *(b"%d" % number for number in range(500))]


@pytest.fixture
def bootstrap():
    script = Path(__file__).with_name("toy_broker.py")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        assert process.poll() is None, "the broker died"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("acks", "compression"),
    [
        ("all", "none"),
        (1, "none"),
        (0, "none"),
        ("all", "gzip"),
        ("all", "snappy"),
        ("all", "lz4"),
        ("all", "zstd"),
    ],
)
def test_confluent_kafka_produces_and_consumes(bootstrap, acks, compression):
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "compression.type": compression})
    failed = []
    for value in VALUES:
        producer.produce("t", value, partition=0, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(20) == 0
    assert failed == []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    got = []
    while len(got) < len(VALUES):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        got.append(message.value())
    consumer.close()
    assert got == VALUES


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_kafka_python_produces_and_consumes(bootstrap, compression):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression)
    sent = [producer.send("t", value, partition=0) for value in VALUES]
    producer.flush(20)
    assert [future.get(20).offset for future in sent] == list(range(len(VALUES)))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("t", 0)])
    got = []
    while len(got) < len(VALUES):
        polled = consumer.poll(20_000)
        assert polled
        got += [record.value for records in polled.values() for record in records]
    consumer.close()
    assert got == VALUES


def test_aiokafka_produces_and_consumes(bootstrap):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def main():
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
        await producer.start()
        sent = [await producer.send("t", value, partition=0) for value in VALUES]
        offsets = [(await future).offset for future in sent]
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition("t", 0)])
        got = [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in VALUES]
        await consumer.stop()
        return offsets, got

    offsets, got = asyncio.run(main())
    assert offsets == list(range(len(VALUES)))
    assert got == VALUES
