"""A group's committed offsets."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from quorate.broker.groups.group_records import OffsetKey, OffsetValue


class _Held(NamedTuple):
    value: OffsetValue
    record_offset: int


_NOTHING: Final[Mapping[int, _Held]] = MappingProxyType({})


class GroupOffsets:
    """The committed offsets of a group, by topic and partition. The record that is later in the log wins, a
    commit or a removal, in whatever order they are answered."""

    __slots__ = ("_held", "_in_flight", "_removed")

    def __init__(self) -> None:
        self._held: dict[str, dict[int, _Held]] = {}
        self._in_flight: dict[int, Collection[OffsetKey]] = {}
        """The keys of each commit that is appended and not answered yet."""
        self._removed: dict[tuple[str, int], int] = {}
        """The offsets of tombstones that a commit in flight may be older than."""

    def __bool__(self) -> bool:
        return bool(self._held)

    # Commits on their way

    def begin(self, keys: Collection[OffsetKey]) -> int:
        """Note a commit that is about to be appended. Returns its ticket."""
        ticket = max(self._in_flight, default=0) + 1
        self._in_flight[ticket] = keys
        return ticket

    def end(self, ticket: int) -> None:
        """Note that a commit has its answer."""
        del self._in_flight[ticket]
        if not self._in_flight:
            self._removed.clear()

    # Records

    def put(self, topic: str, partition: int, value: OffsetValue, *, record_offset: int) -> None:
        """Store a committed offset; `record_offset` is where its record is in the log."""
        if self._removed and record_offset < self._removed.get((topic, partition), -1):
            return
        partitions = self._held.get(topic)
        if partitions is None:
            partitions = self._held[topic] = {}
        held = partitions.get(partition)
        if held is None or record_offset > held.record_offset:
            partitions[partition] = _Held(value, record_offset)

    def remove(self, topic: str, partition: int, *, record_offset: int) -> None:
        """Remove a committed offset, if its record is before the tombstone at `record_offset`."""
        if self._in_flight:
            self._removed[topic, partition] = record_offset
        partitions = self._held.get(topic, {})
        held = partitions.get(partition)
        if held is not None and held.record_offset < record_offset:
            del partitions[partition]
            if not partitions:
                del self._held[topic]

    # What is there

    def get(self, topic: str, partition: int) -> OffsetValue | None:
        held = self._held.get(topic, _NOTHING).get(partition)
        return None if held is None else held.value

    def topics(self) -> list[str]:
        """Return the topics with committed offsets."""
        return list(self._held)

    def of_topic(self, topic: str) -> list[tuple[int, OffsetValue]]:
        """Return a topic's partitions, as they are now."""
        return [(partition, held.value) for partition, held in self._held.get(topic, _NOTHING).items()]

    def in_flight(self) -> set[tuple[str, int]]:
        """Return each topic and partition of a commit that is appended and not answered yet."""
        return {(key.topic, key.partition) for keys in self._in_flight.values() for key in keys}
