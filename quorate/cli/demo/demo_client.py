"""A stock Kafka client, used as anybody would."""

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from quorate.cli.console.cli_errors import CommandError
from quorate.present import present

_SECONDS = 60
_QUIET = {"log_level": 2}
"""Logs critical errors only: a killed broker refuses connections, as expected."""


def create_topic(bootstrap: str, topic: str, *, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    created = admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=replicas)])
    try:
        created[topic].result(timeout=_SECONDS)
    except KafkaException as error:
        raise CommandError(f"topic {topic} could not be created: {error}") from error


def produce(bootstrap: str, topic: str, values: Sequence[bytes]) -> list[int]:
    """Send with acks=all and idempotence. Return the acknowledged offsets in order of sending."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5, **_QUIET}
    )
    offsets: list[int] = []
    errors: list[str] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            errors.append(str(error))
        else:
            offsets.append(present(message.offset(), "the offset of a delivered message"))

    for value in values:
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=delivered)
                break
            except BufferError:
                # The client's queue is full: let it empty.
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(_SECONDS)
    if left or errors:
        raise CommandError(f"{left} records were not acknowledged; {errors[:1]}")
    return offsets


def consume_all(bootstrap: str, topic: str, *, group: str, count: int) -> list[bytes]:
    """Read `count` records from the start, as a member of a consumer group, and commit."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
         "enable.auto.commit": False, **_QUIET}
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        received: list[bytes] = []
        while len(received) < count:
            messages = consumer.consume(count - len(received), timeout=_SECONDS)
            if not messages:
                raise CommandError(f"only {len(received)} of {count} records came within {_SECONDS} s")
            for message in messages:
                if message.error():
                    raise CommandError(str(message.error()))
                received.append(message.value() or b"")
        consumer.commit(asynchronous=False)
        return received
    except KafkaException as error:
        raise CommandError(f"group {group} could not read: {error}") from error
    finally:
        consumer.close()
