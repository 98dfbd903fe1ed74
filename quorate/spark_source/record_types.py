"""The types of records by name, found without decoding the rest."""

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorate.broker.metadata.record_codec import type_of
from quorate.history import DamagedRecordError
from quorate.history.entries import UNKNOWN, head_of, type_of_control, type_of_value
from quorate.spark_source.chunks import Chunk, Longs
from quorate.spark_source.spark_errors import LaterVersionError

_ARRAY: Final = 0x83
_SMALL: Final = 24
"""CBOR integers below this are one byte."""
_NAMES: Final = tuple(
    UNKNOWN if of is None else of.__name__
    for of in (type_of(number, version) for number in range(_SMALL) for version in range(_SMALL))
)
"""By number and version, both small."""


@dataclass(frozen=True, slots=True)
class RecordTypes:
    """The types of the records of a chunk, `Unknown` for one of a later version of quorate."""

    codes: Longs
    """The number of each record's type in `names`."""
    names: list[str]

    def column(self) -> pa.Array:
        """Return the name of each."""
        return pa.array(self.names, pa.string()).take(pa.array(self.codes))

    def take(self, index: Longs) -> "RecordTypes":
        """Return those of the records in these places."""
        return RecordTypes(self.codes[index], self.names)

    def are_in(self, wanted: Set[str]) -> npt.NDArray[np.bool_]:
        """Return which are of these types."""
        return np.array([each in wanted for each in self.names])[self.codes]


def types_of(chunk: Chunk) -> RecordTypes:
    """Return the types of the records, of Raft's own too. Raises `DamagedRecordError`."""
    heads = chunk.words()
    number, version = heads >> 8 & 0xFF, heads >> 16 & 0xFF
    short = (heads & 0xFF == _ARRAY) & (number < _SMALL) & (version < _SMALL)
    short &= chunk.stops - chunk.starts > 3
    short[list(chunk.keys)] = False
    codes = np.where(short, number * _SMALL + version, 0).astype(np.int64)
    names = list(_NAMES)
    for at in np.flatnonzero(~short).tolist():
        codes[at] = len(names)
        names.append(_type_at(chunk, at))
    return RecordTypes(codes, names)


def _type_at(chunk: Chunk, at: int) -> str:
    try:
        return type_of_control(chunk.control(at)) if at in chunk.keys else type_of_value(chunk.value(at))
    except ValueError as error:
        raise DamagedRecordError(f"the record at offset {chunk.places.offsets[at]}: {error}") from error


def later_version(offset: int, value: bytes) -> LaterVersionError:
    """Return the error for a record of a later version, where rows after it depend on what it says."""
    head = head_of(value)
    return LaterVersionError(
        f"the record at offset {offset}, of type {head.number} and version {head.version}, was written by a "
        "later version of quorate, and later rows may depend on it. Upgrade quorate where Spark runs, or set "
        "unknownRecords=mark to have a row that says so, or read view=records, which shows it as it is"
    )
