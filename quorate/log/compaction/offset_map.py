"""The last offset of each key, in bounded memory.

As in Kafka's cleaner, a table of key hashes and offsets, 24 bytes a slot. Equal hashes count as equal
keys: with 128 bits of BLAKE2, two keys with one hash can't be found. The table is in parts that are made when
they are needed, because making or freeing a large one would block the event loop for tens of ms.
"""

import struct
from hashlib import blake2b
from typing import Final

from quorate.runtime import Steps

SLOT_BYTES: Final = 24
_HASH_BYTES: Final = 16
_PART_SLOTS: Final = 1 << 14
_ROOMY: Final = 0.75
"""The share of all slots that is used. With more, the search for an absent key takes many steps."""
_CROWDED: Final = 0.9
"""The share of one part's slots that is used. Only keys that were chosen for it exceed that."""
_PARTS = struct.Struct(">QQ")
_OFFSET = struct.Struct(">q")
_EMPTY: Final = bytes(_HASH_BYTES)


class OffsetMap:
    """Mutable; takes at most `capacity` keys."""

    __slots__ = ("_crowded", "_parts", "_slots", "_used", "capacity", "keys")

    def __init__(self, *, map_bytes: int, keys_max: int) -> None:
        """`keys_max`: the largest number of keys to expect."""
        # A little more, for what the division into parts takes.
        wanted = int(keys_max / _ROOMY * 1.001) + 2
        slots = min(map_bytes // SLOT_BYTES, wanted)
        count = max(1, -(-slots // _PART_SLOTS))
        self._slots = max(2, slots // count)
        self._parts: list[bytearray | None] = [None] * count
        self._used = [0] * count
        self._crowded = max(1, int(self._slots * _CROWDED))
        self.capacity = int(self._slots * count * _ROOMY)
        self.keys = 0

    @property
    def room(self) -> int:
        """The number of further keys that it takes."""
        return self.capacity - self.keys

    def put(self, key: bytes, offset: int) -> bool:
        """Note `offset` as the last one of `key`. Return False if there is no place for it. While there is
        room, that happens only with keys that were chosen for it."""
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
                if self._used[number] == self._crowded:
                    return False
                self._used[number] += 1
                part[at : at + _HASH_BYTES] = digest
                self.keys += 1
                break
            at += SLOT_BYTES
            if at == end:
                at = 0
        _OFFSET.pack_into(part, at + _HASH_BYTES, offset)
        return True

    def last_offset(self, key: bytes) -> int:
        """Return the last offset of `key`. -1: there is none."""
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
        """Free the memory, part by part."""
        while self._parts:
            self._parts.pop()
            yield
