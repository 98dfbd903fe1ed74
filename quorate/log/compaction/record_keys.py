"""The records of a batch as a compaction sees them: where each is, its key, and whether it has a value."""

from typing import Final, NamedTuple

from quorate.kafka_bytes.varints import read_varint, varint
from quorate.log.batches.record_walk import RecordBytes

_NULL: Final = 1
"""-1, as a varint of one byte."""


class KeyedRecord(NamedTuple):
    """A record in its batch's bytes: [start, end). Deltas are to the batch's base."""

    start: int
    end: int
    body: int
    """The position of the attributes, after the length."""
    after_timestamp: int
    """The position of the offset delta."""
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


class UnreadableRecordsError(ValueError):
    """The bytes are not the records that the batch's header describes."""


class KeyWalk:
    """Over the records of one batch, decompressed: `data` must be exactly `count` of them."""

    __slots__ = ("_count", "_data", "_number", "_position", "left")

    def __init__(self, data: RecordBytes, count: int) -> None:
        self._data = data
        self._count = count
        self._number = 0
        self._position = 0
        self.left = count
        """The number of records that `next` has not returned yet."""

    def next(self, most: int) -> list[KeyedRecord]:
        """The next records, up to `most`. Raises `UnreadableRecordsError`."""
        data, position = self._data, self._position
        size = len(data)
        found: list[KeyedRecord] = []
        add, new = found.append, tuple.__new__
        last = min(self._count, self._number + most)
        try:
            # Varints of one byte, and lengths of two, are read in place: calls would double the cost.
            for _ in range(last - self._number):
                start = position
                if (byte := data[position]) < 0x80:
                    body = position + 1
                    end = body + ((byte >> 1) ^ -(byte & 1))
                elif (high := data[position + 1]) < 0x80:
                    byte += (high << 7) - 0x80
                    body = position + 2
                    end = body + ((byte >> 1) ^ -(byte & 1))
                else:
                    length, body = read_varint(data, position)
                    end = body + length
                if end > size or end <= body:
                    raise IndexError
                position = body + 1
                if (byte := data[position]) < 0x80:
                    timestamp_delta = (byte >> 1) ^ -(byte & 1)
                    position += 1
                else:
                    timestamp_delta, position = read_varint(data, position)
                after_timestamp = position
                if (byte := data[position]) < 0x80:
                    offset_delta = (byte >> 1) ^ -(byte & 1)
                    position += 1
                else:
                    offset_delta, position = read_varint(data, position)
                key: bytes | None = None
                if (byte := data[position]) == _NULL:
                    position += 1
                else:
                    if byte < 0x80:
                        key_size = (byte >> 1) ^ -(byte & 1)
                        position += 1
                    else:
                        key_size, position = read_varint(data, position)
                    if key_size >= 0:
                        key = bytes(data[position : position + key_size])
                        position += key_size
                if position >= end:
                    raise IndexError
                has_value = (byte := data[position]) != _NULL
                if byte & 1 and byte > 0x7F:
                    # A negative length in more bytes than it needs.
                    has_value = read_varint(data, position)[0] >= 0
                add(
                    new(
                        KeyedRecord,
                        (
                            start,
                            end,
                            body,
                            after_timestamp,
                            timestamp_delta,
                            offset_delta,
                            key,
                            has_value,
                        ),
                    )
                )
                position = end
        except IndexError:
            raise UnreadableRecordsError(f"record {self._number + len(found)} runs over its end") from None
        self._number, self._position, self.left = last, position, self._count - last
        if last == self._count and position != size:
            raise UnreadableRecordsError(f"{size - position} bytes follow the last record")
        return found


def with_timestamp_delta(data: RecordBytes, record: KeyedRecord, delta: int) -> bytes:
    """Return the bytes of a record with another timestamp delta, for another base timestamp."""
    stamp = varint(delta)
    length = record.end - record.after_timestamp + 1 + len(stamp)
    return b"".join(
        (
            varint(length),
            data[record.body : record.body + 1],
            stamp,
            data[record.after_timestamp : record.end],
        )
    )
