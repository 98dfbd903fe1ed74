"""Varints: seven bits a byte, the lowest first."""

import mmap

from quorate.runtime import Buffer

_MAX_VARINT = 2**31 - 1


class MalformedError(ValueError):
    """Bytes that are no message of the protocol: the peer's fault, and the end of its connection."""


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """The unsigned varint at `position`, and the position after it. Raises `MalformedError` above 2^31 - 1
    and `IndexError` at the end of the data."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _MAX_VARINT:
                break
            return value, position
    raise MalformedError(f"varint above {_MAX_VARINT}")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Zigzag, as in Kafka's records."""
    return uvarint((value << 1) ^ (value >> 63))


def read_varint(data: bytes | bytearray | mmap.mmap, position: int) -> tuple[int, int]:
    """A zigzag varint and the position after it. Raises `IndexError` if it runs over the end."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    result = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), position
        shift += 7
        if shift > 63:
            raise IndexError
