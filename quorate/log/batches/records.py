"""The records in a batch: encoding and decoding of uncompressed ones."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quorate.kafka_bytes.varints import read_varint, varint
from quorate.log.batches.batch import HEADER_BYTES, Batch, BatchHeader, attributes_of, seal
from quorate.log.batches.record_walk import RecordBytes
from quorate.log.log_errors import InvalidBatchError
from quorate.runtime import WORK


class RecordContent(NamedTuple):
    """The key and the value of a record. None is null; a null value makes a tombstone."""

    key: bytes | None
    value: bytes | None


class Record(NamedTuple):
    """One decoded record. `timestamp` is ms since the Unix epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


_TABLE_SIZE = 4096
_VARINTS = tuple(map(varint, range(_TABLE_SIZE)))
_NULL = varint(-1)
_NULL_BYTE = _NULL[0]
# What stands between a record's length and its value's length when the key is null.
_PREFIXES = tuple(b"\x00\x00" + delta + _NULL for delta in _VARINTS)


def build_batch(
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    values: Sequence[bytes],
    control: bool = False,
    transactional: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch of records without keys. At least one."""
    parts: list[bytes] = []
    add = parts.extend
    varints, prefixes, table_size = _VARINTS, _PREFIXES, _TABLE_SIZE
    for delta, value in enumerate(values):
        size = len(value)
        value_size = varints[size] if size < table_size else varint(size)
        prefix = prefixes[delta] if delta < table_size else b"\x00\x00" + varint(delta) + _NULL
        body = len(prefix) + len(value_size) + size + 1
        add((varints[body] if body < table_size else varint(body), prefix, value_size, value, b"\x00"))
    return _seal(
        parts,
        len(values),
        base_offset=base_offset,
        epoch=epoch,
        timestamp_ms=timestamp_ms,
        attributes=attributes_of(control=control, transactional=transactional),
        producer=(producer_id, producer_epoch, base_sequence),
    )


def build_keyed_batch(
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    records: Sequence[RecordContent],
    control: bool = False,
    transactional: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch of records with keys. At least one."""
    parts: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        body = b"\x00\x00" + varint(delta) + _sized(key) + _sized(value) + b"\x00"
        parts += (varint(len(body)), body)
    return _seal(
        parts,
        len(records),
        base_offset=base_offset,
        epoch=epoch,
        timestamp_ms=timestamp_ms,
        attributes=attributes_of(control=control, transactional=transactional),
        producer=(producer_id, producer_epoch, base_sequence),
    )


def _sized(data: bytes | None) -> bytes:
    return _NULL if data is None else varint(len(data)) + data


def _seal(
    parts: list[bytes],
    count: int,
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    attributes: int,
    producer: tuple[int, int, int],
) -> bytes:
    if not count:
        raise ValueError("a batch has at least one record")
    return seal(
        b"".join(parts),
        base_offset=base_offset,
        epoch=epoch,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        count=count,
    )


def records_of(batch: Batch) -> list[Record]:
    """Decode the records. Raises `InvalidBatchError`, also for a compressed batch."""
    return next(record_pieces(batch, most=batch.header.count), [])


def record_pieces(batch: Batch, *, most: int) -> Iterator[list[Record]]:
    """Yield the records, at most so many at a time, each piece decoded when it is asked for. Raises
    `InvalidBatchError`, also for a compressed batch, and for a fault in a later piece once that is asked
    for."""
    header = batch.header
    if header.codec:
        raise InvalidBatchError(f"compressed (codec {header.codec})", position=header.position)
    data = bytes(batch.data[HEADER_BYTES:])
    position = index = 0
    while index < header.count:
        count = min(most, header.count - index)
        records, position = _decode(header, data, position, count, index)
        index += count
        if index == header.count:
            _check_end(header, data, position)
        yield records
    if not header.count:
        _check_end(header, data, 0)


def _check_end(header: BatchHeader, data: bytes, position: int) -> None:
    if position != len(data):
        problem = f"{len(data) - position} bytes follow the last record"
        raise InvalidBatchError(problem, position=header.position)


def _decode(
    header: BatchHeader, data: bytes, position: int, count: int, index: int
) -> tuple[list[Record], int]:
    """Decode `count` records from `position` on, the first of them the batch's record `index`. Returns also
    the position behind them."""
    WORK.records += count
    size = len(data)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    records: list[Record] = []
    add, new = records.append, tuple.__new__
    try:
        # Varints of one byte, and lengths of two, are read in place: calls would double the cost of a record.
        for _ in range(count):
            if (byte := data[position]) < 0x80:
                end = position + 1 + ((byte >> 1) ^ -(byte & 1))
                position += 2
            elif (high := data[position + 1]) < 0x80:
                byte += (high << 7) - 0x80
                end = position + 2 + ((byte >> 1) ^ -(byte & 1))
                position += 3
            else:
                length, position = read_varint(data, position)
                end = position + length
                position += 1
            if end > size or end < position:
                raise IndexError
            if (byte := data[position]) < 0x80:
                timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
                position += 1
            else:
                delta, position = read_varint(data, position)
                timestamp = base_timestamp + delta
            if (byte := data[position]) < 0x80:
                offset = base_offset + ((byte >> 1) ^ -(byte & 1))
                position += 1
            elif (high := data[position + 1]) < 0x80:
                byte += (high << 7) - 0x80
                offset = base_offset + ((byte >> 1) ^ -(byte & 1))
                position += 2
            else:
                delta, position = read_varint(data, position)
                offset = base_offset + delta
            if data[position] == _NULL_BYTE:
                key = None
                position += 1
            else:
                key, position = _read_sized(data, position, end)
            value: bytes | None
            if not (byte := data[position]) & 1 and byte < 0x80:
                start = position + 1
                position = start + (byte >> 1)
                value = data[start:position]
            elif not byte & 1 and (high := data[position + 1]) < 0x80:
                start = position + 2
                position = start + ((byte + (high << 7) - 0x80) >> 1)
                value = data[start:position]
            else:
                value, position = _read_sized(data, position, end)
            if position >= end:
                raise IndexError
            if append_time is not None:
                timestamp = append_time
            # As `Record(...)`, at half the cost.
            add(new(Record, (offset, timestamp, key, value)))
            position = end
    except IndexError:
        problem = f"record {index + len(records)} runs over its end"
        raise InvalidBatchError(problem, position=header.position) from None
    return records, position


def values_of(batch: Batch) -> list[bytes]:
    """Only the values, null as empty. Raises `InvalidBatchError` as `records_of`."""
    values = plain_values_of(batch)
    return [record.value or b"" for record in records_of(batch)] if values is None else values


def plain_values_of(batch: Batch) -> list[bytes] | None:
    """The values of records that differ in nothing else: no key, and offset after offset at the batch's time.
    None for any others, right or wrong."""
    header = batch.header
    if header.codec:
        return None
    values = _plain_values(bytes(batch.data[HEADER_BYTES:]), header.count)
    if values is not None:
        WORK.records += header.count
    return values


def _plain_values(data: bytes, count: int) -> list[bytes] | None:
    """The values of records as `build_batch` lays them out; None for any others, right or wrong.

    What stands before a value is known but for the two lengths, and often these are as in the record before:
    then one comparison takes the place of decoding. One byte follows a value, the number of headers.
    """
    values: list[bytes] = []
    add = values.append
    prefixes, table_size = _PREFIXES, _TABLE_SIZE
    length = value_length = b""
    prefix_size = start = size = position = 0
    try:
        for delta in range(count):
            prefix = prefixes[delta] if delta < table_size else b"\x00\x00" + varint(delta) + _NULL
            if len(prefix) != prefix_size or not data.startswith(length + prefix + value_length, position):
                prefix_size = len(prefix)
                body, after = read_varint(data, position)
                size, value_start = read_varint(data, after + prefix_size)
                if size < 0 or after + body != value_start + size + 1 or not data.startswith(prefix, after):
                    return None
                length, value_length = data[position:after], data[after + prefix_size : value_start]
                start = value_start - position
            position += start
            add(data[position : position + size])
            position += size + 1
    except IndexError:
        return None
    return values if position == len(data) else None


def stamps_of(header: BatchHeader, records: RecordBytes) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of each of a batch's records, uncompressed, in order and one at a time. Raises
    `InvalidBatchError`."""
    append_time = header.max_timestamp if header.is_log_append_time else None
    position, size = 0, len(records)
    for number in range(header.count):
        try:
            length, start = read_varint(records, position)
            timestamp_delta, after = read_varint(records, start + 1)
            offset_delta, after = read_varint(records, after)
        except IndexError:
            length, start, timestamp_delta, offset_delta, after = -1, 0, 0, 0, 0
        position = start + length
        if length < 0 or after > position or position > size:
            problem = f"record {number} runs over its end"
            raise InvalidBatchError(problem, position=header.position)
        WORK.records += 1
        yield (
            header.base_offset + offset_delta,
            header.base_timestamp + timestamp_delta if append_time is None else append_time,
        )


def _read_sized(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    after = position + size
    if after > end:
        raise IndexError
    return data[position:after], after
