"""Reading with kafka-python while brokers die."""

from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError


def messages(consumer: KafkaConsumer) -> Iterator[Any]:
    """Its messages. kafka-python raises if it asks a broker for metadata that has just died, and goes on at
    the next poll."""
    while True:
        try:
            yield next(consumer)
        except StopIteration:
            return
        except KafkaConnectionError:
            pass
