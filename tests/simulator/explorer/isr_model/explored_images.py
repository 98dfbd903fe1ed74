"""The metadata images of an exploration, each content once."""

import uuid
from typing import Final, TypeAlias

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerEndpoint,
    Config,
    ConfigType,
    Partition,
    RegisterBroker,
    Topic,
)
from quorate.broker.metadata.states import ConfigResource, PartitionState
from tests.simulator.explorer.model import Table

CLUSTER: Final = "explored"
TOPIC: Final = "topic"
TOPIC_ID: Final = uuid.UUID(int=7 << 64)
LISTENERS: Final = (BrokerEndpoint(name="PLAINTEXT", host="host", port=9092),)
_RESOURCE: Final = ConfigResource(ConfigType.TOPIC, TOPIC)


def incarnation_id(broker_id: int, life: int) -> uuid.UUID:
    """Return the incarnation id with which a process registers."""
    return uuid.UUID(int=(1 << 64) + 1000 * broker_id + life)


def directory_id(broker_id: int, number: int) -> uuid.UUID:
    """Return the id of a broker's directory."""
    return uuid.UUID(int=(2 << 64) + 1000 * broker_id + number)


def first_epoch_of(broker_id: int) -> int:
    """Return the broker epoch of a broker's first life. Numbers instead of offsets: only equality of epochs
    counts, and the order of one broker's."""
    return 1000 * broker_id


def next_epoch_of(broker_id: int, life: int, known: int) -> int:
    """Return the broker epoch of the next registration in a life. `known`: the newest in use."""
    return max(known, first_epoch_of(broker_id) + 10 * (life - 1)) + 1


Images: TypeAlias = Table[MetadataImage]
"""Images by their content. None is ever changed."""


def numbered_images() -> Images:
    """Return a table without an image."""
    return Table(
        lambda image: (
            tuple(image.brokers[each] for each in sorted(image.brokers)),
            partition_of(image),
            tuple(sorted(image.configs(_RESOURCE).items())),
        )
    )


def partition_of(image: MetadataImage) -> PartitionState:
    """Return the only partition's state."""
    state = image.partition(TOPIC_ID, 0)
    assert state is not None
    return state


def first_image(
    *,
    brokers: tuple[int, ...],
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    folders: int,
    min_isr: int,
    unclean: bool,
) -> MetadataImage:
    """Return an image in which the first of `isr` leads in epoch 0 and all brokers are active."""
    image = MetadataImage()
    for each in brokers:
        record = RegisterBroker(
            broker_id=each,
            incarnation_id=incarnation_id(each, 1),
            broker_epoch=first_epoch_of(each),
            listeners=LISTENERS,
            fenced=False,
            log_dirs=tuple(directory_id(each, number) for number in range(folders)),
        )
        image.apply(record, offset=0, epoch=1)
    image.apply(Topic(name=TOPIC, topic_id=TOPIC_ID), offset=0, epoch=1)
    placed = Partition(
        topic_id=TOPIC_ID,
        partition_id=0,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        directories=tuple(directory_id(each, 0) for each in replicas),
    )
    image.apply(placed, offset=0, epoch=1)
    for name, value in (
        ("min.insync.replicas", str(min_isr)),
        ("unclean.leader.election.enable", str(unclean).lower()),
    ):
        image.apply(set_config(name, value), offset=0, epoch=1)
    return image


def set_config(name: str, value: str) -> Config:
    """Return the record of a topic's setting."""
    return Config(resource_type=ConfigType.TOPIC, resource_name=TOPIC, name=name, value=value)
