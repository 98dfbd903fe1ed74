"""Kafka's record batch, version 2: the 61-byte header, and whole batches in a buffer.

The CRC covers everything from the attributes on, so that base offset and leader epoch can be stamped
without touching it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from crc32c import crc32c

from quorate.log.log_errors import NEWER_WROTE_IT, BatchTooLargeError, InvalidBatchError, OffsetGapError
from quorate.runtime import WORK, Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_END = 12
_LENGTH = struct.Struct(">i")
"""`length` counts what comes after itself."""
CRC_START = 21
STAMP_BYTES = 16
MAGIC = 2
_STAMP = struct.Struct(">qii")
_PEEKED = struct.Struct(">8xi9xh")
_CODEC = 0x07
_TIMESTAMP_TYPE = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40
NO_PRODUCER = -1
"""The producer's id, epoch and sequence of a batch that has none."""


@dataclass(slots=True)
class BatchHeader:
    """One header, and where it was found. Not changed after it was read (not frozen, because that would
    double the cost of a small append)."""

    position: int
    """Byte at which the batch starts in the buffer that it was read from."""
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.length + LENGTH_END

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _CODEC

    @property
    def is_control(self) -> bool:
        return is_control(self.attributes)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & _TIMESTAMP_TYPE != 0

    @property
    def is_bare(self) -> bool:
        """True if its offsets have no record any more: a compaction removed them."""
        return not self.count

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time at which the batch's tombstones may be removed (KIP-534). None: no compaction has set
        it."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first record, or the closest bound in the header: a delete horizon takes
        its field."""
        return first_timestamp_of(self.attributes, self.base_timestamp, self.max_timestamp)


@dataclass(slots=True)
class Batch:
    """A header and the bytes of its whole batch."""

    header: BatchHeader
    data: memoryview


def is_control(attributes: int) -> bool:
    """Return `BatchHeader.is_control` of a header's attributes."""
    return attributes & _CONTROL != 0


def first_timestamp_of(attributes: int, base_timestamp: int, max_timestamp: int) -> int:
    """Return `BatchHeader.first_timestamp` of a header's fields."""
    return max_timestamp if attributes & _DELETE_HORIZON else base_timestamp


def with_delete_horizon(attributes: int) -> int:
    """Return `attributes` for a batch whose base timestamp is its delete horizon."""
    return attributes | _DELETE_HORIZON


def attributes_of(*, control: bool, transactional: bool) -> int:
    return (_CONTROL if control else 0) | (_TRANSACTIONAL if transactional else 0)


def attributes_with(attributes: int, *, codec: int, log_append_time: bool) -> int:
    """Return `attributes` with another compression and another kind of timestamp."""
    kept = attributes & ~(_CODEC | _TIMESTAMP_TYPE)
    return kept | codec | (_TIMESTAMP_TYPE if log_append_time else 0)


def read_header(
    buffer: Buffer,
    position: int = 0,
    *,
    check_crc: bool = True,
    dense: bool = True,
    max_bytes: int = 2**31 - 1,
) -> BatchHeader:
    """The header at `position`, of a batch that is whole and undamaged.

    `dense`: every offset must have its record, as in what was never compacted. Otherwise the batch may be a
    bare header, which only says that its offsets have no record. Raises `InvalidBatchError`.
    """
    WORK.batches += 1
    left = len(buffer) - position
    if left < HEADER_BYTES:
        raise InvalidBatchError(f"{left} bytes are too few for a header", position=position)
    header = BatchHeader(position, *HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        problem = f"magic is {header.magic}, only {MAGIC} is supported"
        if header.magic > MAGIC:
            problem += f": the byte is damaged, or {NEWER_WROTE_IT}"
        raise InvalidBatchError(problem, position=position)
    size = header.length + LENGTH_END
    if size < HEADER_BYTES:
        raise InvalidBatchError(f"length {header.length} is too small", position=position)
    if size > max_bytes:
        raise BatchTooLargeError(f"{size} bytes are more than the allowed {max_bytes}", position=position)
    if size > left:
        raise InvalidBatchError(f"cut off: {left} of {size} bytes", position=position)
    bare = not (header.count or dense) and size == HEADER_BYTES
    if header.base_offset < 0 or header.last_offset_delta < 0 or (header.count < 1 and not bare):
        raise InvalidBatchError(
            f"base offset {header.base_offset}, last offset delta {header.last_offset_delta} and count "
            f"{header.count} make no sense",
            position=position,
        )
    if dense and header.count != header.last_offset_delta + 1:
        raise InvalidBatchError(
            f"count {header.count} does not match last offset delta {header.last_offset_delta}",
            position=position,
        )
    if check_crc:
        found = crc32c(memoryview(buffer)[position + CRC_START : position + size])
        if found != header.crc:
            raise InvalidBatchError(f"CRC is {found:#010x}, expected {header.crc:#010x}", position=position)
    return header


def peek(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return size and codec of the whole batch at `position`, unchecked."""
    length, attributes = _PEEKED.unpack_from(buffer, position)
    return length + LENGTH_END, attributes & _CODEC


def read_headers(
    buffer: Buffer,
    *,
    check_crc: bool = True,
    dense: bool = True,
    contiguous: bool = True,
    max_bytes: int = 2**31 - 1,
) -> Iterator[BatchHeader]:
    """Headers of the whole batches that fill `buffer`, in order. Raises `InvalidBatchError` at the first bad
    one, `OffsetGapError` if `contiguous` and one does not start where the one before ended."""
    position = 0
    expected: int | None = None
    while position < len(buffer):
        header = read_header(buffer, position, check_crc=check_crc, dense=dense, max_bytes=max_bytes)
        if contiguous and expected is not None and header.base_offset != expected:
            raise OffsetGapError(f"base offset {header.base_offset}, expected {expected}", position=position)
        yield header
        expected = header.end_offset
        position += header.length + LENGTH_END


def runs_of(buffer: Buffer, *, most: int) -> Iterator[memoryview]:
    """Yield `buffer` in runs of at most `most` whole batches, unchecked. From an invalid length on, the rest
    is one run."""
    view = memoryview(buffer)
    size = len(view)
    start = position = 0
    while start < size:
        for _ in range(most):
            if position + LENGTH_END > size:
                position = size
                break
            stated = stated_size(view, position)
            position += stated
            if stated < LENGTH_END or position >= size:
                position = size
                break
        yield view[start:position]
        start = position


def stated_size(buffer: Buffer, position: int) -> int:
    """Return the size of the batch at `position` by its length field, which may be damaged."""
    length: int = _LENGTH.unpack_from(buffer, position + 8)[0]
    return length + LENGTH_END


def read_batches(buffer: Buffer, *, check_crc: bool = True) -> Iterator[Batch]:
    """The whole batches that fill `buffer`, in order. Offsets may have gaps. Raises `InvalidBatchError`."""
    view = memoryview(buffer)
    for header in read_headers(buffer, check_crc=check_crc, dense=False, contiguous=False):
        yield Batch(header, view[header.position : header.position + header.size])


def stamp(base_offset: int, length: int, epoch: int) -> bytes:
    """Return the first 16 bytes of a batch, which a leader writes in place of the client's."""
    return _STAMP.pack(base_offset, length, epoch)


def bare_header(*, base_offset: int, end_offset: int, epoch: int, max_timestamp: int) -> bytes:
    """Return a header for the offsets in [base_offset, end_offset), fewer than 2^31, without their records.
    `max_timestamp`: the newest of those records."""
    return _without_records(
        base_offset, end_offset, epoch, max_timestamp, 0, (NO_PRODUCER, NO_PRODUCER, NO_PRODUCER)
    )


def without_records(header: BatchHeader) -> bytes:
    """Return the batch without its records, but with its producer's last sequence."""
    return _without_records(
        header.base_offset,
        header.end_offset,
        header.leader_epoch,
        header.max_timestamp,
        header.attributes & _TIMESTAMP_TYPE,
        (header.producer_id, header.producer_epoch, header.base_sequence),
    )


def _without_records(
    base_offset: int,
    end_offset: int,
    epoch: int,
    max_timestamp: int,
    attributes: int,
    producer: tuple[int, int, int],
) -> bytes:
    return seal(
        b"",
        base_offset=base_offset,
        epoch=epoch,
        attributes=attributes,
        last_offset_delta=end_offset - 1 - base_offset,
        base_timestamp=max_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        count=0,
    )


def seal(
    records: bytes,
    *,
    base_offset: int,
    epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """A whole batch from its encoded records."""
    header = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        header,
        0,
        base_offset,
        HEADER_BYTES - LENGTH_END + len(records),
        epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    crc = crc32c(records, crc32c(memoryview(header)[CRC_START:]))
    header[17:21] = crc.to_bytes(4, "big")
    return bytes(header) + records
