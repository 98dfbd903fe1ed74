"""Kafka's flexible encoding (KIP-482), as far as control records need it: compact arrays and strings, uuids,
tagged fields."""

import struct
from collections.abc import Iterable
from uuid import UUID

from quorate.log.batches.records import unsigned_varint
from quorate.runtime import parse_uuid, uuid_text

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT16 = struct.Struct(">H")
_ZERO_UUID = bytes(16)
_MAX_VARINT_BYTES = 5
NO_TAGS = b"\x00"


def compact_array(items: Iterable[bytes]) -> bytes:
    encoded = list(items)
    return unsigned_varint(len(encoded) + 1) + b"".join(encoded)


def compact_string(text: str) -> bytes:
    data = text.encode()
    return unsigned_varint(len(data) + 1) + data


def encode_uuid(text: str | None) -> bytes:
    """`text` is of 22 characters (`uuid_text`); None is the zero uuid. Raises `ValueError`."""
    return _ZERO_UUID if text is None else parse_uuid(text).bytes


class CompactReader:
    """Reads one value from its start on. Every method raises `ValueError` where the bytes end too early or
    make no sense."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, size: int) -> bytes:
        start, end = self._position, self._position + size
        if end > len(self._data):
            raise ValueError(f"it ends after {len(self._data)} bytes, {end} are needed")
        self._position = end
        return self._data[start:end]

    def _integer(self, form: struct.Struct) -> int:
        value: int = form.unpack(self._take(form.size))[0]
        return value

    def int16(self) -> int:
        return self._integer(_INT16)

    def uint16(self) -> int:
        return self._integer(_UINT16)

    def int32(self) -> int:
        return self._integer(_INT32)

    def int64(self) -> int:
        return self._integer(_INT64)

    def unsigned_varint(self) -> int:
        result = 0
        for number in range(_MAX_VARINT_BYTES):
            byte = self._take(1)[0]
            result |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                return result
        raise ValueError(f"the varint before byte {self._position} is too long")

    def array_length(self) -> int:
        """Of a compact array that may not be null, each of whose items takes a byte or more."""
        length = self.unsigned_varint() - 1
        if not 0 <= length <= len(self._data) - self._position:
            raise ValueError(f"an array of {length} items before byte {self._position}")
        return length

    def string(self) -> str:
        length = self.unsigned_varint() - 1
        if length < 0:
            raise ValueError(f"a null string before byte {self._position}")
        return self._take(length).decode()

    def uuid(self) -> str | None:
        """None for the zero uuid."""
        data = self._take(16)
        return None if data == _ZERO_UUID else uuid_text(UUID(bytes=data))

    def skip_tags(self) -> None:
        """Tagged fields, which newer versions may add."""
        for _ in range(self.unsigned_varint()):
            self.unsigned_varint()
            self._take(self.unsigned_varint())
