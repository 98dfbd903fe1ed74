"""A pass over the image's partitions, a few at a time, while records are applied in between."""

import uuid
from collections.abc import Iterator

from quorate.broker.metadata import MetadataImage, PartitionKey, PartitionState
from quorate.runtime import WORK


class Sweep:
    """Visits each partition that is there when the sweep begins, unless its topic is deleted before its turn.

    A partition that a record creates later isn't visited: whoever creates one decides with the image as it is
    then.
    """

    __slots__ = ("_partition_id", "_topic", "_topic_ids")

    def __init__(self, image: MetadataImage) -> None:
        self._topic_ids: list[uuid.UUID] = list(image.topics)
        self._topic = 0
        self._partition_id = 0

    @property
    def ended(self) -> bool:
        return self._topic == len(self._topic_ids)

    def look(self, image: MetadataImage, *, most: int) -> Iterator[tuple[PartitionKey, PartitionState]]:
        """Up to `most` further partitions. Where the iterator is left, the next one goes on. Nothing may be
        applied to the image while the iterator is in use."""
        left = most
        while left and self._topic < len(self._topic_ids):
            topic_id = self._topic_ids[self._topic]
            states = image.partitions(topic_id)
            first = self._partition_id
            # As one slice, because a look at a single partition costs as much again.
            for partition_id, state in enumerate(states[first : first + left], first):
                self._partition_id += 1
                left -= 1
                WORK.records += 1
                yield PartitionKey(topic_id, partition_id), state
            if self._partition_id >= len(states):
                # A topic without partitions counts too, so that a million of them don't make one piece.
                left -= left > 0 and not states
                self._topic += 1
                self._partition_id = 0
