"""Kafka's primitive encodings: numbers, varints, strings, arrays and tagged fields."""

from quorate.kafka_bytes.primitives import MAX_ELEMENTS, MAX_STRING_BYTES, MAX_TAGS, Cursor, Pieces
from quorate.kafka_bytes.varints import MalformedError, read_uvarint, read_varint, uvarint, varint

__all__ = [
    "MAX_ELEMENTS",
    "MAX_STRING_BYTES",
    "MAX_TAGS",
    "Cursor",
    "MalformedError",
    "Pieces",
    "read_uvarint",
    "read_varint",
    "uvarint",
    "varint",
]
