"""The metadata of a large cluster: three brokers, each with a replica of each of 100,000 partitions."""

import gc
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerEndpoint,
    FeatureLevel,
    Partition,
    Record,
    RegisterBroker,
    Topic,
)

TOPICS = 1000
PARTITIONS = 100
"""The number of partitions of each topic."""


def directory(broker_id: int, number: int = 0) -> uuid.UUID:
    return uuid.UUID(int=(8 << 100) + (broker_id << 10) + number)


def topic_id(number: int) -> uuid.UUID:
    """The id of the topic `t<number>`."""
    return uuid.UUID(int=(7 << 100) + number)


def records() -> Iterator[Record]:
    yield FeatureLevel(name="metadata.version", level=1)
    for broker_id in (1, 2, 3):
        yield RegisterBroker(
            broker_id=broker_id,
            incarnation_id=uuid.UUID(int=broker_id),
            broker_epoch=broker_id,
            fenced=False,
            listeners=(BrokerEndpoint(name="PLAINTEXT", host=f"b{broker_id}", port=9092),),
            log_dirs=(directory(broker_id), directory(broker_id, 1)),
        )
    for number in range(TOPICS):
        yield Topic(name=f"t{number}", topic_id=topic_id(number))
        for partition_id in range(PARTITIONS):
            replicas = ((1, 2, 3), (2, 3, 1), (3, 1, 2))[partition_id % 3]
            yield Partition(
                topic_id=topic_id(number),
                partition_id=partition_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
            )


def large_image() -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(records()):
        image.apply(record, offset=offset, epoch=1)
    return image


@contextmanager
def no_full_collection() -> Iterator[None]:
    """A full collection takes as long as there are objects, of whatever test made them: it is the process's
    matter and not an operation's."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
