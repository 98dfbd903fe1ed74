"""The types of records by name, found without decoding the rest."""

from typing import Final

from quorate.history import DamagedRecordError
from quorate.history.entries import head_of, type_of_value
from quorate.spark_source.spark_errors import LaterVersionError

_HEAD_BYTES: Final = 3
_ARRAY: Final = b"\x83"


class TypeNames:
    """The types of encoded records. All that are written alike begin with the same bytes."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def of(self, value: bytes, offset: int) -> str:
        """Return the type of the record at this offset, `Unknown` for one of a later version of quorate.
        Raises `DamagedRecordError`."""
        head = value[:_HEAD_BYTES]
        name = self._known.get(head)
        if name is None:
            try:
                name = type_of_value(value)
            except ValueError as error:
                raise DamagedRecordError(f"the record at offset {offset}: {error}") from error
            if head.startswith(_ARRAY) and max(head[1:]) < 0x18:
                self._known[head] = name
        return name


def later_version(offset: int, value: bytes) -> LaterVersionError:
    """Return the error for a record of a later version, where rows after it depend on what it says."""
    head = head_of(value)
    return LaterVersionError(
        f"the record at offset {offset}, of type {head.number} and version {head.version}, was written by a "
        "later version of quorate, and later rows may depend on it. Upgrade quorate where Spark runs, or set "
        "unknownRecords=mark to have a row that says so, or read view=records, which shows it as it is"
    )
