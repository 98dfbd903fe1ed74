"""Typed messages in CBOR: both directions of each made from one table."""

from quorate.cbor.arrays import Array
from quorate.cbor.kinds import (
    Kind,
    boolean,
    identifier,
    integer,
    integers,
    number,
    one_of,
    optional,
    sequence,
    text,
)
from quorate.cbor.maps import RETIRED, Messages, Row, Struct, row
from quorate.cbor.plain import SchemaError, dump, load

__all__ = [
    "RETIRED",
    "Array",
    "Kind",
    "Messages",
    "Row",
    "SchemaError",
    "Struct",
    "boolean",
    "dump",
    "identifier",
    "integer",
    "integers",
    "load",
    "number",
    "one_of",
    "optional",
    "row",
    "sequence",
    "text",
]
