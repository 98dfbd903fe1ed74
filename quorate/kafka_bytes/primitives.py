"""Fields one after the other, read and written.

Versions are either flexible (KIP-482: varint lengths, tagged fields) or not; both `Cursor` and `Pieces` are
told which at construction, so that a codec names its fields once for all versions.
"""

import struct
import uuid
from collections.abc import Sequence
from typing import Final, Self

from quorate.kafka_bytes.varints import MalformedError, read_uvarint, uvarint
from quorate.runtime import Buffer

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_ZERO_UUID = bytes(16)
MAX_ELEMENTS: Final = 250_000
"""Of all arrays of one message together. At some 200 bytes an element, they make about 50 MiB of objects."""
MAX_STRING_BYTES: Final = 32767
"""As in Kafka, whose older encoding has room for no more."""
MAX_TAGS: Final = 1000
"""Tagged fields of one struct. Messages have some two of them."""
_ATTACH_BYTES = 4096


class Cursor:
    """Reads fields one after the other. Every read that would leave the data raises `MalformedError`."""

    __slots__ = ("data", "elements_left", "end", "flexible", "position")

    def __init__(self, data: memoryview, *, flexible: bool, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.flexible = flexible
        self.elements_left = MAX_ELEMENTS

    def skip(self, size: int) -> int:
        """The position of the next `size` bytes, and move behind them."""
        start = self.position
        if size > self.end - start:
            raise MalformedError(f"{size} bytes at {start} of {self.end}")
        self.position = start + size
        return start

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack_from(self.data, self.skip(layout.size))

    def int8(self) -> int:
        byte = self.data[self.skip(1)]
        return byte - 256 if byte > 127 else byte

    def int16(self) -> int:
        (value,) = _INT16.unpack_from(self.data, self.skip(2))
        return int(value)

    def uint16(self) -> int:
        return self.int16() & 0xFFFF

    def int32(self) -> int:
        (value,) = _INT32.unpack_from(self.data, self.skip(4))
        return int(value)

    def int64(self) -> int:
        (value,) = _INT64.unpack_from(self.data, self.skip(8))
        return int(value)

    def uvarint(self) -> int:
        try:
            value, self.position = read_uvarint(self.data, self.position)
        except IndexError:
            raise MalformedError(f"varint cut off at {self.end}") from None
        return value

    def uuid(self) -> uuid.UUID | None:
        """None for the zero UUID."""
        start = self.skip(16)
        raw = bytes(self.data[start : start + 16])
        return None if raw == _ZERO_UUID else uuid.UUID(bytes=raw)

    def nullable_string(self) -> str | None:
        size = self.uvarint() - 1 if self.flexible else self.int16()
        if size < 0:
            if size != -1:
                raise MalformedError(f"string of {size} bytes")
            return None
        start = self.skip(size)
        if size > MAX_STRING_BYTES:
            raise MalformedError(f"string of {size} bytes, above {MAX_STRING_BYTES}")
        try:
            return str(self.data[start : start + size], "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(f"string at {start} is not UTF-8") from error

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise MalformedError(f"null string at {self.position}")
        return value

    def records(self) -> memoryview | None:
        """Record bytes as a view: nothing is copied, and the frame lives as long as the view."""
        size = self.uvarint() - 1 if self.flexible else self.int32()
        if size < 0:
            if size != -1:
                raise MalformedError(f"records of {size} bytes")
            return None
        start = self.skip(size)
        return self.data[start : start + size]

    def blob(self) -> bytes:
        """Bytes that may not be null, copied."""
        view = self.records()
        if view is None:
            raise MalformedError(f"null bytes at {self.position}")
        return bytes(view)

    def nullable_count(self, element_bytes: int) -> int | None:
        """An array's length, checked against what is left: each element has at least `element_bytes`."""
        count = self.uvarint() - 1 if self.flexible else self.int32()
        if count < 0:
            if count != -1:
                raise MalformedError(f"array of {count} elements")
            return None
        if count * element_bytes > self.end - self.position:
            raise MalformedError(f"array of {count} elements in {self.end - self.position} bytes")
        self.elements_left -= count
        if self.elements_left < 0:
            raise MalformedError(f"more than {MAX_ELEMENTS} array elements")
        return count

    def count(self, element_bytes: int) -> int:
        count = self.nullable_count(element_bytes)
        if count is None:
            raise MalformedError(f"null array at {self.position}")
        return count

    def tags(self) -> Sequence[tuple[int, memoryview]]:
        """The tagged fields here, unknown ones included; empty when not flexible."""
        if not self.flexible:
            return ()
        count = self.uvarint()
        if count == 0:
            return ()
        if count * 2 > self.end - self.position or count > MAX_TAGS:
            raise MalformedError(f"{count} tagged fields in {self.end - self.position} bytes")
        fields = []
        last = -1
        for _ in range(count):
            tag = self.uvarint()
            if tag <= last:
                raise MalformedError(f"tag {tag} after {last}")
            last = tag
            size = self.uvarint()
            start = self.skip(size)
            fields.append((tag, self.data[start : start + size]))
        return fields

    def finish(self) -> None:
        if self.position != self.end:
            raise MalformedError(f"{self.end - self.position} bytes after the message")


class Pieces:
    """Collects a message for a vectored send: fields are packed together, attached bytes stay themselves.

    `write` makes it a target for kio's writers as well.
    """

    __slots__ = ("_parts", "_tail", "flexible")

    def __init__(self, *, flexible: bool = True) -> None:
        self._parts: list[Buffer] = []
        self._tail = bytearray()
        self.flexible = flexible

    def write(self, data: Buffer) -> None:
        """Copies what is small; what is large is cheaper to attach."""
        if len(data) >= _ATTACH_BYTES:
            self.attach(data)
        else:
            self._tail += data

    def attach(self, data: Buffer) -> None:
        """Pass `data` on by identity. It must not change until it was sent."""
        if not len(data):
            return
        if self._tail:
            self._parts.append(self._tail)
            self._tail = bytearray()
        self._parts.append(data)

    def int16(self, value: int) -> Self:
        self._tail += _INT16.pack(value)
        return self

    def uint16(self, value: int) -> Self:
        self._tail += value.to_bytes(2, "big")
        return self

    def int32(self, value: int) -> Self:
        self._tail += _INT32.pack(value)
        return self

    def int64(self, value: int) -> Self:
        self._tail += _INT64.pack(value)
        return self

    def int8(self, value: int) -> None:
        self._tail.append(value & 0xFF)

    def uuid(self, value: uuid.UUID | None) -> Self:
        self._tail += _ZERO_UUID if value is None else value.bytes
        return self

    def string(self, value: str | None) -> Self:
        if value is None:
            self._tail += b"\0" if self.flexible else b"\xff\xff"
            return self
        raw = value.encode()
        self._tail += uvarint(len(raw) + 1) if self.flexible else _INT16.pack(len(raw))
        self._tail += raw
        return self

    def count(self, value: int | None) -> Self:
        size = -1 if value is None else value
        self._tail += uvarint(size + 1) if self.flexible else _INT32.pack(size)
        return self

    def blob(self, value: bytes) -> Self:
        """Copied."""
        self.count(len(value))._tail += value
        return self

    def records(self, parts: Sequence[Buffer] | None) -> None:
        """Record bytes given as parts, attached and never copied. None is null."""
        self.count(None if parts is None else sum(map(len, parts)))
        for part in parts or ():
            self.attach(part)

    def tags(self, fields: Sequence[tuple[int, bytes]] = ()) -> Self:
        """Tagged fields in ascending order; nothing when not flexible."""
        if not fields:
            if self.flexible:
                self._tail.append(0)
        elif self.flexible:
            self._tail += uvarint(len(fields))
            for tag, value in fields:
                self._tail += uvarint(tag) + uvarint(len(value)) + value
        return self

    def finish(self) -> list[Buffer]:
        if self._tail:
            self._parts.append(self._tail)
            self._tail = bytearray()
        return self._parts

    def joined(self) -> bytes:
        """All of it, copied."""
        return b"".join(self.finish()) if self._parts else bytes(self._tail)
