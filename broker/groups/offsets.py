"""A group's committed offsets."""

from collections.abc import Iterator
from typing import NamedTuple

from quorate.broker.groups.records import OffsetValue


class _Held(NamedTuple):
    value: OffsetValue
    record_offset: int


class GroupOffsets:
    """By topic and partition. What is later in the log wins, in whatever order commits are answered."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], _Held] = {}

    def put(self, topic: str, partition: int, value: OffsetValue, *, record_offset: int) -> None:
        """`record_offset`: where its record is in the log."""
        held = self._held.get((topic, partition))
        if held is None or record_offset > held.record_offset:
            self._held[topic, partition] = _Held(value, record_offset)

    def remove(self, topic: str, partition: int) -> None:
        self._held.pop((topic, partition), None)

    def get(self, topic: str, partition: int) -> OffsetValue | None:
        held = self._held.get((topic, partition))
        return None if held is None else held.value

    def __iter__(self) -> Iterator[tuple[str, int, OffsetValue]]:
        for (topic, partition), held in self._held.items():
            yield topic, partition, held.value

    def __len__(self) -> int:
        return len(self._held)
