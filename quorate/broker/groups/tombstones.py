"""Deletions in `__consumer_offsets`: tombstones of offsets and groups, and how all of them end."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_records import GroupKey, OffsetKey, group_record, offset_record
from quorate.broker.groups.shard import GroupOffsets, Shard
from quorate.broker.groups.shards import Shards
from quorate.runtime import Slices
from quorate.types import Offset

Key: TypeAlias = tuple[str, int]
"""Topic and partition."""
_AT_ONCE: Final = 200
"""Tombstones in a batch; some 2 ms."""


class Tombstones:
    """Appends of tombstones, and their outcome once all have one: the first error, or NONE."""

    def __init__(self, shards: Shards, shard: Shard, ended: Callable[[ErrorCode], None]) -> None:
        self._shards = shards
        self._shard = shard
        self._ended = ended
        self._waiting = 1
        """Appends without an answer; the last one's place is kept until all have begun."""
        self._error = ErrorCode.none

    def append_offsets(self, group_id: str, offsets: GroupOffsets, keys: Sequence[Key]) -> None:
        """Append the tombstones of these offsets (topic and partition), which are forgotten when they are
        stored."""
        if not keys:
            return

        def stored(error: ErrorCode, base_offset: Offset) -> None:
            if error is ErrorCode.none:
                for place, (topic, partition) in enumerate(keys, base_offset):
                    offsets.remove(topic, partition, record_offset=place)
            self._settle(error)

        self._waiting += 1
        records = [offset_record(OffsetKey(group_id, *key), None) for key in keys]
        self._shards.append(self._shard, records, stored)

    async def append_all(self, group_id: str, offsets: GroupOffsets, keys: Iterable[Key]) -> None:
        """Do the same as `append_offsets` for any number of them, in batches."""
        slices = Slices()
        for piece in in_pieces(keys):
            self.append_offsets(group_id, offsets, piece)
            await slices.pause()

    def append_group(self, group_id: str) -> None:
        """Append the tombstone of the group itself."""
        self._waiting += 1
        record = group_record(GroupKey(group_id), None)
        self._shards.append(self._shard, [record], lambda error, base_offset: self._settle(error))

    def refuse(self, error: ErrorCode) -> None:
        """Report `error` at the end, unless there was another before."""
        self._error = self._error or error

    def all_begun(self) -> None:
        """End when all appends have their answer: no further one begins."""
        self._settle(ErrorCode.none)

    def _settle(self, error: ErrorCode) -> None:
        self._error = self._error or error
        self._waiting -= 1
        if not self._waiting:
            self._ended(self._error)


def in_pieces(keys: Iterable[Key]) -> Iterator[list[Key]]:
    """Yield the keys in the order given, as many as one batch takes at a time. Yield at least one piece."""
    piece: list[Key] = []
    for key in keys:
        if len(piece) == _AT_ONCE:
            yield piece
            piece = []
        piece.append(key)
    yield piece
