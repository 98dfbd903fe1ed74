"""The groups of one partition of `__consumer_offsets`, and their committed offsets."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from quorate.broker.groups.group import Group
from quorate.broker.groups.group_records import OffsetKey, OffsetValue
from quorate.types import Epoch


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

    # Commits under way

    def begin(self, keys: Collection[OffsetKey]) -> int:
        """Record that a commit is about to be appended. Return its ticket."""
        ticket = max(self._in_flight, default=0) + 1
        self._in_flight[ticket] = keys
        return ticket

    def end(self, ticket: int) -> None:
        """Record that a commit has its answer."""
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

    # Reading

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


@dataclass(slots=True)
class SetAside:
    """A group with a record in the log that can't be read here. It is not served until it is deleted, or
    loaded by a broker that can."""

    offsets: GroupOffsets
    unreadable: list[OffsetKey]
    """The committed offsets that can't be read."""


@dataclass(slots=True)
class Shard:
    """The groups of one partition of `__consumer_offsets`, for one leadership of it. `groups` and `offsets`
    are by group id; a group in `set_aside` is in neither."""

    partition: int
    leader_epoch: Epoch
    new_group: Callable[[str], Group]
    loaded: bool = False
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: dict[str, GroupOffsets] = field(default_factory=dict)
    set_aside: dict[str, SetAside] = field(default_factory=dict)
    is_closed: bool = False
    unwritable_since: float | None = None
    """The time at which an append first failed because of the state of the partition; None after one that
    succeeded."""

    def existing(self, group_id: str) -> Group | None:
        """Return a group that has members or offsets, or had. A refused join leaves an object behind that is
        no group."""
        group = self.groups.get(group_id)
        if group is None or (group.is_vacant and not self.offsets.get(group_id)):
            return None
        return group

    def group(self, group_id: str) -> Group:
        """Return the group, a new one if there is none."""
        held = self.groups.get(group_id)
        if held is None:
            held = self.groups[group_id] = self.new_group(group_id)
        return held

    def offsets_of(self, group_id: str) -> GroupOffsets:
        """Return the group's committed offsets, of which there may be none."""
        held = self.offsets.get(group_id)
        if held is None:
            held = self.offsets[group_id] = GroupOffsets()
        return held
