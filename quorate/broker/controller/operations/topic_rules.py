"""The settings of topics that elections go by."""

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from quorate.broker.metadata import MetadataImage, min_insync_replicas, unclean_elections


class ElectionSettings(NamedTuple):
    """What one topic says."""

    unclean: bool
    """`unclean.leader.election.enable`"""
    min_isr: int
    """`min.insync.replicas`"""


class TopicRules:
    """Settings looked up once for each topic: for one step, in which the image's configs don't change."""

    __slots__ = ("_by_topic", "_image", "_static")

    def __init__(self, image: MetadataImage, static: Mapping[str, str]) -> None:
        self._image = image
        self._static = static
        self._by_topic: dict[uuid.UUID, ElectionSettings] = {}

    def of(self, topic_id: uuid.UUID) -> ElectionSettings:
        """Return the settings of a topic that is there."""
        held = self._by_topic.get(topic_id)
        if held is None:
            name = self._image.topics[topic_id].name
            held = self._by_topic[topic_id] = ElectionSettings(
                unclean=unclean_elections(self._image, name, static=self._static),
                min_isr=min_insync_replicas(self._image, name, static=self._static),
            )
        return held
