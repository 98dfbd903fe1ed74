"""A group's committed offsets."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from quorate.broker.groups.group_records import OffsetValue


class _Held(NamedTuple):
    value: OffsetValue
    record_offset: int


_NOTHING: Final[Mapping[int, _Held]] = MappingProxyType({})


class GroupOffsets:
    """The committed offsets of a group, by topic and partition. The one that is later in the log wins, in
    whatever order commits are answered."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[str, dict[int, _Held]] = {}

    def put(self, topic: str, partition: int, value: OffsetValue, *, record_offset: int) -> None:
        """Store a committed offset; `record_offset` is where its record is in the log."""
        partitions = self._held.get(topic)
        if partitions is None:
            partitions = self._held[topic] = {}
        held = partitions.get(partition)
        if held is None or record_offset > held.record_offset:
            partitions[partition] = _Held(value, record_offset)

    def remove(self, topic: str, partition: int) -> None:
        partitions = self._held.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self._held[topic]

    def get(self, topic: str, partition: int) -> OffsetValue | None:
        held = self._held.get(topic, _NOTHING).get(partition)
        return None if held is None else held.value

    def topics(self) -> list[str]:
        """Return the topics with committed offsets."""
        return list(self._held)

    def of_topic(self, topic: str) -> list[tuple[int, OffsetValue]]:
        """Return a topic's partitions, as they are now."""
        return [(partition, held.value) for partition, held in self._held.get(topic, _NOTHING).items()]
