"""The committed metadata that this broker's replicas act upon."""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from quorate.broker.controller.operations.directories import may_lead
from quorate.broker.metadata.configs import effective
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.settings.topic_config import TopicConfig

Eligible: TypeAlias = Callable[[int, int], bool]
"""(broker id, broker epoch in its fetches, -1 unknown): may it join an ISR? Registered, unfenced, not
shutting down, its directory online, and the same incarnation that fetches."""


class CurrentMetadata:
    """The newest image and the newest registration. It is made before all parts that read it. Only
    `MetadataIntake` sets `image`, and only `ReplicaManager` sets `broker_epoch`."""

    __slots__ = ("_static", "broker_epoch", "image")

    def __init__(self, static: Mapping[str, str]) -> None:
        """`static`: the node's server.properties."""
        self._static = static
        self.image = MetadataImage()
        self.broker_epoch = -1
        """The epoch of this broker's newest registration; -1 before it."""

    def config(self, topic: str) -> TopicConfig:
        """Return the topic's configuration as it is in the image."""
        return self.config_in(self.image, topic)

    def config_in(self, image: MetadataImage, topic: str) -> TopicConfig:
        """Return the topic's configuration as it is in `image`."""
        return effective(image, topic, static=self._static)

    def eligible(self, topic_id: uuid.UUID, partition_id: int) -> Eligible:
        """Return the rule for joining the partition's ISR, by the image of the time when it is asked."""
        return partial(self._may_join, topic_id, partition_id)

    def _may_join(self, topic_id: uuid.UUID, partition_id: int, broker_id: int, broker_epoch: int) -> bool:
        broker = self.image.broker(broker_id)
        if broker is None or broker_epoch not in (-1, broker.epoch):
            return False
        state = self.image.partition(topic_id, partition_id)
        return state is not None and may_lead(self.image, state, broker_id)
