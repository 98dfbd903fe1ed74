"""kafka-python through the death of a leader."""

from collections.abc import Callable

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

pytestmark = pytest.mark.clients


def test_nothing_is_lost_or_doubled_through_a_leaders_death(
    killable,
    values: list[bytes],
    check: Callable[..., None],
) -> None:
    topic = "kafka-python"
    servers = killable.bootstrap.split(",")
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(topic, 1, 3)])
    admin.close()
    producer = KafkaProducer(
        bootstrap_servers=servers, acks="all", enable_idempotence=True, batch_size=400, linger_ms=1,
        request_timeout_ms=5000, delivery_timeout_ms=60_000,
    )  # fmt: skip
    futures = []
    for number, value in enumerate(values):
        if number == len(values) // 2:
            killable.kill_leader(topic)
        futures.append(producer.send(topic, value))
    producer.flush(timeout=60)
    offsets = [future.get(timeout=60).offset for future in futures]
    metrics = producer.metrics()["producer-metrics"]
    producer.close()
    assert offsets == list(range(len(values)))
    assert metrics["record-retry-rate"] > 0, "the kill came at a moment when nothing had to be retried"
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, group_id="kafka-python-group", auto_offset_reset="earliest",
        consumer_timeout_ms=8000,
    )  # fmt: skip
    received = []
    for message in consumer:
        received.append(message.value)
        if len(received) == len(values):
            break
    consumer.close()
    check(received, values, once=True)
