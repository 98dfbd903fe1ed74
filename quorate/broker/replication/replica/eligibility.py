"""The replicas that may join an ISR, as its leader knows them."""

import uuid

from quorate.broker.controller.operations import may_lead
from quorate.broker.metadata import MetadataImage


def may_join(
    image: MetadataImage, topic_id: uuid.UUID, partition_id: int, broker_id: int, broker_epoch: int
) -> bool:
    """Return whether the broker may join the partition's ISR: `Eligible`, by what `image` says.
    `broker_epoch`: in its fetches, -1 unknown."""
    broker = image.broker(broker_id)
    if broker is None or broker_epoch not in (-1, broker.epoch):
        return False
    state = image.partition(topic_id, partition_id)
    return state is not None and may_lead(image, state, broker_id)
