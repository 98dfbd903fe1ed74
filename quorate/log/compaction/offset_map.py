"""The last offset of each key, in bounded memory.

As Kafka's `SkimpyOffsetMap`: a table of key hashes and offsets, 24 bytes a slot. Equal hashes count as equal
keys; with 128 bits of BLAKE2 nobody finds two keys that have one. The table is in parts that are made when
they are needed, because a large one would take the event loop tens of ms to make and to free.
"""

import struct
from hashlib import blake2b
from typing import Final

from quorate.runtime import Steps

SLOT_BYTES: Final = 24
_HASH_BYTES: Final = 16
_PART_SLOTS: Final = 1 << 14
_LOAD: Final = 0.75
"""Above it, a key that is not there takes more than some steps to find out."""
_PARTS = struct.Struct(">QQ")
_OFFSET = struct.Struct(">q")
_EMPTY: Final = bytes(_HASH_BYTES)


class OffsetMap:
    """Mutable; takes at most `capacity` keys."""

    __slots__ = ("_parts", "_slots", "capacity", "keys")

    def __init__(self, *, map_bytes: int, keys_max: int) -> None:
        """`keys_max`: more are not needed."""
        slots = min(map_bytes // SLOT_BYTES, int(keys_max / _LOAD) + 1)
        count = max(1, -(-slots // _PART_SLOTS))
        self._slots = max(2, slots // count)
        self._parts: list[bytearray | None] = [None] * count
        self.capacity = int(self._slots * count * _LOAD)
        self.keys = 0

    @property
    def room(self) -> int:
        """How many more keys it takes."""
        return self.capacity - self.keys

    def put(self, key: bytes, offset: int) -> None:
        """`offset` is the last one of `key`. There must be room."""
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        one, other = _PARTS.unpack(digest)
        number = one % len(self._parts)
        part = self._parts[number]
        if part is None:
            part = self._parts[number] = bytearray(self._slots * SLOT_BYTES)
        at = other % self._slots * SLOT_BYTES
        end = len(part)
        while (held := part[at : at + _HASH_BYTES]) != digest:
            if held == _EMPTY:
                part[at : at + _HASH_BYTES] = digest
                self.keys += 1
                break
            at += SLOT_BYTES
            if at == end:
                at = 0
        _OFFSET.pack_into(part, at + _HASH_BYTES, offset)

    def last_offset(self, key: bytes) -> int:
        """The last offset of `key`; -1 if there is none."""
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        one, other = _PARTS.unpack(digest)
        part = self._parts[one % len(self._parts)]
        if part is None:
            return -1
        at = other % self._slots * SLOT_BYTES
        end = len(part)
        while (held := part[at : at + _HASH_BYTES]) != digest:
            if held == _EMPTY:
                return -1
            at += SLOT_BYTES
            if at == end:
                at = 0
        offset: int = _OFFSET.unpack_from(part, at + _HASH_BYTES)[0]
        return offset

    def free(self) -> Steps[None]:
        """Forget everything, in pieces."""
        while self._parts:
            self._parts.pop()
            yield
