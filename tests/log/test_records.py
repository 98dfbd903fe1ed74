"""The decoder of records against one that is slow and plain, on good bytes and bad ones."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.log.batch import Batch, attributes_of, read_batches, seal
from quorate.log.errors import InvalidBatchError
from quorate.log.records import Record, read_varint, records_of, varint

BASE_OFFSET, BASE_TIMESTAMP = 1000, 1_700_000_000_000
# Around where varints get longer.
deltas = st.sampled_from([0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8193, 2**20, 2**40, -(2**40)])
lengths = st.sampled_from([0, 1, 62, 63, 64, 65, 8191, 8192, 8193])
blobs = st.none() | st.binary(max_size=8) | lengths.map(lambda size: b"v" * size)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record_bytes(
    time_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, rest: bytes
) -> bytes:
    body = b"\0" + varint(time_delta) + varint(offset_delta) + sized(key) + sized(value) + rest
    return varint(len(body)) + body


def batch_of(data: bytes, count: int) -> Batch:
    sealed = seal(
        data,
        base_offset=BASE_OFFSET,
        epoch=1,
        attributes=attributes_of(control=False, transactional=False),
        last_offset_delta=count - 1,
        base_timestamp=BASE_TIMESTAMP,
        max_timestamp=BASE_TIMESTAMP,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )
    (batch,) = read_batches(sealed)
    return batch


def naive(data: bytes, count: int) -> list[Record] | None:
    """None if they can't be decoded."""

    def blob(position: int) -> tuple[bytes | None, int]:
        size, position = read_varint(data, position)
        if size < 0:
            return None, position
        if position + size > end:
            raise IndexError
        return data[position : position + size], position + size

    found: list[Record] = []
    position = 0
    try:
        for _ in range(count):
            length, position = read_varint(data, position)
            end = position + length
            if length <= 0 or end > len(data):
                return None
            time_delta, position = read_varint(data, position + 1)
            offset_delta, position = read_varint(data, position)
            key, position = blob(position)
            value, position = blob(position)
            if position >= end:
                return None
            found.append(Record(BASE_OFFSET + offset_delta, BASE_TIMESTAMP + time_delta, key, value))
            position = end
    except IndexError:
        return None
    return found if position == len(data) else None


def decoded(data: bytes, count: int) -> list[Record] | None:
    try:
        return records_of(batch_of(data, count))
    except InvalidBatchError:
        return None


encoded = st.builds(
    record_bytes,
    deltas,
    deltas,
    st.none() | st.binary(max_size=70),
    blobs,
    st.sampled_from([b"\0", b"\2\0\1"]),
)


@given(parts=st.lists(encoded, min_size=1, max_size=4))
def test_records_are_read_as_the_plain_decoder_reads_them(parts: list[bytes]) -> None:
    data = b"".join(parts)
    expected = naive(data, len(parts))
    assert expected is not None
    assert decoded(data, len(parts)) == expected


@given(parts=st.lists(encoded, min_size=1, max_size=3), changes=st.data())
def test_damaged_records_are_refused_or_read_as_the_plain_decoder_does(
    parts: list[bytes], changes: st.DataObject
) -> None:
    data = bytearray(b"".join(parts))
    for _ in range(changes.draw(st.integers(1, 3))):
        # Near the start of a record, where the lengths are.
        near = min(len(data) - 1, changes.draw(st.integers(0, 20)))
        data[near] = changes.draw(st.integers(0, 255))
    cut = changes.draw(st.none() | st.integers(0, len(data)))
    damaged = bytes(data[:cut])
    assert decoded(damaged, len(parts)) == naive(damaged, len(parts))


@given(data=st.binary(max_size=60), count=st.integers(1, 3))
def test_random_bytes_are_refused_or_read_as_the_plain_decoder_does(data: bytes, count: int) -> None:
    assert decoded(data, count) == naive(data, count)
