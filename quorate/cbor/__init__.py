"""Typed messages in CBOR: both directions of each made from its dataclass."""

from quorate.cbor.arrays import Array, Arrays
from quorate.cbor.kinds import Kind, decode_identifier, optional, sequence
from quorate.cbor.maps import Messages
from quorate.cbor.plain import SchemaError, dump, load

__all__ = [
    "Array",
    "Arrays",
    "Kind",
    "Messages",
    "SchemaError",
    "decode_identifier",
    "dump",
    "load",
    "optional",
    "sequence",
]
