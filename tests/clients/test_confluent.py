"""confluent-kafka (librdkafka) through the death of a leader."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.clients


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
    )
    received: list[bytes] = []
    try:
        consumer.subscribe([topic])
        while len(received) < count:
            messages = consumer.consume(1000, timeout=30)
            assert messages, f"{len(received)} of {count} records, then nothing for 30 s"
            for message in messages:
                assert message.error() is None, message.error()
                received.append(message.value() or b"")
        assert consumer.consume(10, timeout=0.5) == [], "there is more than was sent"
    finally:
        consumer.close()
    return received


@pytest.mark.parametrize("idempotent", [True, False])
def test_nothing_is_lost_through_a_leaders_death(
    killable,
    values: list[bytes],
    check: Callable[..., None],
    idempotent: bool,
) -> None:
    topic = f"confluent-{idempotent}".lower()
    admin = AdminClient({"bootstrap.servers": killable.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(timeout=30)
    retries = 0

    def statistics(text: str) -> None:
        nonlocal retries
        retries = sum(broker["txretries"] for broker in json.loads(text)["brokers"].values())

    producer = Producer(
        {
            "bootstrap.servers": killable.bootstrap,
            "acks": "all",
            "enable.idempotence": idempotent,
            "retries": 1_000_000,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "statistics.interval.ms": 100,
            "stats_cb": statistics,
        }
    )
    errors: list[str] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            errors.append(str(error))

    for number, value in enumerate(values):
        if number == len(values) // 2:
            producer.poll(0.05)
            killable.kill_leader(topic)
        producer.produce(topic, value, on_delivery=delivered)
        producer.poll(0.0005)
    assert producer.flush(60) == 0
    producer.poll(0.3)
    assert not errors, errors[:3]
    assert retries > 0, "the kill came at a moment when nothing had to be retried"
    if idempotent:
        check(consume(killable.bootstrap, topic, len(values)), values, once=True)
    else:
        received = consume_at_least(killable.bootstrap, topic, values)
        check(received, values, once=False)


def consume_at_least(bootstrap: str, topic: str, values: list[bytes]) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
    )
    received: list[bytes] = []
    try:
        consumer.subscribe([topic])
        while set(received) != set(values):
            messages = consumer.consume(1000, timeout=30)
            assert messages, f"{len(set(received))} of {len(values)} records, then nothing for 30 s"
            received += [message.value() or b"" for message in messages if message.error() is None]
    finally:
        consumer.close()
    return received
