"""A check that bytes are the records that a batch's header says, without decoding them.

Of every record it checks the length, the place in the batch, and that the fields fill it exactly. Keys and
values are not read. Runs of records that are laid out alike, as most batches are in
part, are compared column by column, a fifth of the cost and as exact.
"""

import mmap
from collections.abc import Iterator
from functools import cache
from typing import Final, TypeAlias

RecordBytes: TypeAlias = bytes | bytearray | mmap.mmap
"""The types with fast indexing. A memoryview has none."""

_NULL: Final = 1
"""-1, as a varint of one byte."""
_LOW: Final = bytes(int(byte >= 0x80) for byte in range(256))
"""Translates the last byte of a varint to 0."""
_HIGH: Final = bytes(int(byte < 0x80) for byte in range(256))
"""Translates any byte of a varint but the last to 0."""
_WIDTHS: Final = (0, 64, 8192, 1 << 16)
"""Offset deltas from `_WIDTHS[n - 1]` below `_WIDTHS[n]` take n bytes as a varint. (Three bytes reach
further; a batch of more records is walked.)"""
_RUN_MIN: Final = 8
"""Shorter runs cost more to find than to walk."""
_RUN_MAX: Final = 8192
"""About a ms."""
_PATIENCE_MAX: Final = 512
_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10


class InvalidRecordError(Exception):
    """`index`: of the record in its batch, from 0."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"record {index}: {problem}")
        self.index = index
        self.problem = problem


class RecordWalk:
    """Over the records of one batch, decompressed: `data` must be exactly `count` of them.

    `step` until it is true; then the rest is known. `oldest` and `newest` are the least and greatest
    timestamp deltas, in ms from the batch's base timestamp; `keyless` are, if `keys_needed`, the indexes of
    records with a null key, in order, as half-open ranges.
    """

    __slots__ = (
        "_count",
        "_data",
        "_keys_needed",
        "_patience",
        "_position",
        "_retry_at",
        "index",
        "keyless",
        "newest",
        "oldest",
    )

    def __init__(self, data: RecordBytes, count: int, *, keys_needed: bool = False) -> None:
        self._data = data
        self._count = count
        self._keys_needed = keys_needed
        self._position = 0
        self._patience = 1
        self._retry_at = 0 if count > _RUN_MIN else count
        self.index = 0
        """The number of records that were checked."""
        self.oldest = 1 << 63
        self.newest = -(1 << 63)
        self.keyless: list[tuple[int, int]] = []

    def step(self, records: int) -> bool:
        """Check about `records` more. Returns whether all are checked. Raises `InvalidRecordError`."""
        data = self._data
        stop = min(self._count, self.index + records)
        while self.index < stop:
            try:
                self._walk(data, stop)
            except IndexError:
                raise InvalidRecordError(self.index, "it runs over the batch's end") from None
        if self.index < self._count:
            return False
        rest = len(data) - self._position
        if rest:
            raise InvalidRecordError(self.index - 1, f"{rest} bytes follow it, and it is the batch's last")
        return True

    def _walk(self, data: RecordBytes, stop: int) -> None:
        """To `stop`, or to the end of a run. Varints of one and two bytes are read in place: calls would
        double the cost."""
        position, index = self._position, self.index
        oldest, newest = self.oldest, self.newest
        last = -1
        keys_needed, size = self._keys_needed, len(data)
        retry_at = self._retry_at
        try:
            while index < stop:
                start = position
                if (byte := data[position]) < 0x80:
                    position += 1
                elif (high := data[position + 1]) < 0x80:
                    byte += (high << 7) - 0x80
                    position += 2
                else:
                    byte, position = _varint(data, position, index)
                if byte & 1:
                    raise InvalidRecordError(index, "its length is negative")
                end = position + (byte >> 1)
                # The attributes of a record have no meaning yet.
                body = position
                timestamp_at = position = position + 1
                if (byte := data[position]) < 0x80:
                    position += 1
                else:
                    byte, position = _varint(data, position, index, _VARLONG_BYTES)
                if byte != last:
                    last = byte
                    delta = (byte >> 1) ^ -(byte & 1)
                    newest, oldest = max(newest, delta), min(oldest, delta)
                offset_at = position
                if (byte := data[position]) < 0x80:
                    position += 1
                elif (high := data[position + 1]) < 0x80:
                    byte += (high << 7) - 0x80
                    position += 2
                else:
                    byte, position = _varint(data, position, index)
                if byte != index + index:
                    raise InvalidRecordError(
                        index, f"its offset delta is {(byte >> 1) ^ -(byte & 1)}, not {index}"
                    )
                key_at = position
                if (byte := data[position]) == _NULL:
                    position += 1
                    if keys_needed:
                        self._note_keyless(index, index + 1)
                else:
                    if byte < 0x80:
                        position += 1
                    else:
                        byte, position = _varint(data, position, index)
                    if byte & 1:
                        raise InvalidRecordError(index, "its key's length is negative")
                    position += byte >> 1
                value_at = position
                if (byte := data[position]) < 0x80:
                    position += 1
                elif (high := data[position + 1]) < 0x80:
                    byte += (high << 7) - 0x80
                    position += 2
                else:
                    byte, position = _varint(data, position, index)
                if not byte & 1:
                    position += byte >> 1
                elif byte != _NULL:
                    raise InvalidRecordError(index, "its value's length is negative")
                if data[position]:
                    position = _past_headers(data, position, index)
                    plain = False
                else:
                    position += 1
                    plain = True
                if position != end:
                    raise InvalidRecordError(
                        index, f"its fields take {position - body} bytes, its length says {end - body}"
                    )
                index += 1
                # The first look is in place too: most records of varied sizes need no other.
                if plain and index >= retry_at and position < size and data[position] == data[start]:
                    like = _Layout(start, timestamp_at, offset_at, key_at, value_at, end)
                    run = _run(data, like, index, self._count)
                    if run >= _RUN_MIN:
                        times = _timestamps(data, like, run)
                        oldest, newest = min(oldest, *times), max(newest, *times)
                        if keys_needed and data[key_at] == _NULL:
                            self._note_keyless(index, index + run)
                        index += run
                        position += run * (end - start)
                        self._patience = 1
                        return
                    self._patience = min(2 * self._patience, _PATIENCE_MAX)
                    retry_at = index + self._patience
        finally:
            self._position, self.index = position, index
            self.oldest, self.newest = oldest, newest
            self._retry_at = retry_at

    def _note_keyless(self, start: int, end: int) -> None:
        if self.keyless and self.keyless[-1][1] == start:
            start = self.keyless.pop()[0]
        self.keyless.append((start, end))


class _Layout:
    """The positions of the fields of one record without headers."""

    __slots__ = ("end", "key_at", "offset_at", "start", "timestamp_at", "value_at")

    def __init__(
        self, start: int, timestamp_at: int, offset_at: int, key_at: int, value_at: int, end: int
    ) -> None:
        self.start = start
        self.timestamp_at = timestamp_at
        self.offset_at = offset_at
        self.key_at = key_at
        self.value_at = value_at
        self.end = end


def _run(data: RecordBytes, like: _Layout, index: int, count: int) -> int:
    """Return the number of records, from the one with `index` right after `like`, with the layout of `like`:
    the same lengths of everything, offsets that count on, no headers. Each of them is then as valid as
    `like`.

    Of every byte of structure the column over all candidates is compared; the first that differs ends the
    run.
    """
    stride = like.end - like.start
    width = like.key_at - like.offset_at
    if width >= len(_WIDTHS):
        return 0
    run = min(count - index, _WIDTHS[width] - index, (len(data) - like.end) // stride, _RUN_MAX)
    if run < _RUN_MIN or data[like.end + (_RUN_MIN - 1) * stride] != data[like.start]:
        return 0
    # Lengths of the record, its key and its value; and that no headers follow.
    fixed = [*_varint_at(data, like.start), *_varint_at(data, like.key_at), *_varint_at(data, like.value_at)]
    for at in (*fixed, like.end - 1):
        column = data[at + stride : at + stride * (run + 1) : stride]
        run = len(column) - len(column.lstrip(data[at : at + 1]))
        if run < _RUN_MIN:
            return 0
    for at in range(like.timestamp_at, like.offset_at):
        last = at == like.offset_at - 1
        column = data[at + stride : at + stride * (run + 1) : stride].translate(_LOW if last else _HIGH)
        run = len(column) - len(column.lstrip(b"\x00"))
        if run < _RUN_MIN:
            return 0
    first = index - _WIDTHS[width - 1]
    if first < 0:
        return 0
    for number, expected in enumerate(_offset_columns(width)):
        at = like.offset_at + number + stride
        if data[at : at + stride * run : stride] != expected[first : first + run]:
            return 0  # walked, which finds the one that is wrong
    return run


def _timestamps(data: RecordBytes, like: _Layout, run: int) -> tuple[int, int]:
    """The least and the greatest timestamp delta of a run after `like`."""
    stride = like.end - like.start
    columns = [
        data[at + stride : at + stride * (run + 1) : stride]
        for at in range(like.timestamp_at, like.offset_at)
    ]
    deltas = [
        (raw >> 1) ^ -(raw & 1)
        for raw in (
            sum((byte & 0x7F) << 7 * number for number, byte in enumerate(each))
            for each in {*zip(*columns, strict=True)}
        )
    ]
    return min(deltas), max(deltas)


@cache
def _offset_columns(width: int) -> tuple[bytes, ...]:
    """The bytes of all offset deltas of `width` bytes: the first bytes, the second bytes, ..."""
    return tuple(
        _offset_column(number, last=number == width - 1)[_WIDTHS[width - 1] : _WIDTHS[width]]
        for number in range(width)
    )


def _offset_column(number: int, *, last: bool) -> bytes:
    """The byte with this number of all offset deltas up to the largest in a run. A byte has seven bits, and a
    delta is doubled: so the first repeats after 64 deltas, and each other takes a value for as many deltas as
    the bytes before it have."""
    more = 0 if last else 0x80
    if number == 0:
        period = bytes(2 * delta | more for delta in range(64))
    else:
        period = b"".join(bytes([value | more]) * (64 << 7 * (number - 1)) for value in range(128))
    return (period * -(-_WIDTHS[-1] // len(period)))[: _WIDTHS[-1]]


def _varint_at(data: RecordBytes, at: int) -> range:
    """Return the positions of the bytes of the varint."""
    end = at
    while data[end] >= 0x80:
        end += 1
    return range(at, end + 1)


def _varint(data: RecordBytes, at: int, index: int, most: int = _VARINT_BYTES) -> tuple[int, int]:
    """Return the bits of a varint, without the zigzag decoding, and the position after it."""
    result = 0
    for number in range(most):
        byte = data[at + number]
        result |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return result, at + number + 1
    raise InvalidRecordError(index, f"a number takes more than {most} bytes")


def _past_headers(data: RecordBytes, at: int, index: int) -> int:
    count, at = _varint(data, at, index)
    if count & 1:
        raise InvalidRecordError(index, "its number of headers is negative")
    for _ in range(count >> 1):
        size, at = _varint(data, at, index)
        if size & 1:
            raise InvalidRecordError(index, "a header's key has no length")
        size, at = _varint(data, at + (size >> 1), index)
        if not size & 1:
            at += size >> 1
        elif size != _NULL:
            raise InvalidRecordError(index, "the length of a header's value is negative")
    return at


def timestamp_deltas(data: RecordBytes, count: int) -> Iterator[int]:
    """Return the timestamp delta of every record of `data`, which a walk has found to be valid."""
    position = 0
    for index in range(count):
        length, position = _varint(data, position, index)
        raw, _ = _varint(data, position + 1, index, _VARLONG_BYTES)
        yield (raw >> 1) ^ -(raw & 1)
        position += length >> 1
