"""The decoder of records against one that is slow and plain, on good bytes and bad ones."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.kafka_bytes.varints import read_varint, varint
from quorate.log.batches import records as records_module
from quorate.log.batches.batch import HEADER_BYTES, Batch, attributes_of, read_batches, seal
from quorate.log.batches.records import (
    Record,
    RecordContent,
    build_batch,
    build_keyed_batch,
    record_pieces,
    records_of,
    values_of,
)
from quorate.log.log_errors import InvalidBatchError

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


def values(data: bytes, count: int) -> list[bytes] | None:
    try:
        return values_of(batch_of(data, count))
    except InvalidBatchError:
        return None


def naive_values(data: bytes, count: int) -> list[bytes] | None:
    records = naive(data, count)
    return None if records is None else [record.value or b"" for record in records]


def plain_record(offset_delta: int, value: bytes) -> bytes:
    return record_bytes(0, offset_delta, None, value, b"\0")


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
    assert values(data, len(parts)) == naive_values(data, len(parts))


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
    assert values(damaged, len(parts)) == naive_values(damaged, len(parts))


@given(data=st.binary(max_size=60), count=st.integers(1, 3))
def test_random_bytes_are_refused_or_read_as_the_plain_decoder_does(data: bytes, count: int) -> None:
    assert decoded(data, count) == naive(data, count)
    assert values(data, count) == naive_values(data, count)


@given(
    sizes=st.lists(lengths, min_size=1, max_size=4),
    change=st.none() | st.tuples(st.integers(0, 30), st.integers(0, 255)),
    start=st.sampled_from([0, 0, 1, 62]),
)
def test_values_are_read_as_the_plain_decoder_reads_them(
    sizes: list[int], change: tuple[int, int] | None, start: int
) -> None:
    """Records as ours are laid out, each of a size as the one before it or not, and one byte damaged."""
    values_in = [b"first"] * start + [b"v" * size for size in sizes for _ in range(2)]
    data = bytearray(b"".join(plain_record(delta, value) for delta, value in enumerate(values_in)))
    assert values(bytes(data), len(values_in)) == values_in
    if change is not None:
        data[-1 - change[0] % len(data)] = change[1]
        assert values(bytes(data), len(values_in)) == naive_values(bytes(data), len(values_in))


def test_a_record_whose_length_is_that_of_a_shorter_one_before_it_is_refused() -> None:
    # From the 64th on an offset delta takes a byte more; the lengths here go on as if it did not.
    values_in = [b"ab\0"] * 65
    records = [plain_record(delta, value) for delta, value in enumerate(values_in)]
    lie = records[63][:1] + records[64][1:-1]
    assert values(b"".join([*records[:64], lie]), 65) is None
    assert values(b"".join(records), 65) == values_in


@pytest.mark.parametrize("value", [b"abc", b""])
def test_records_that_end_before_or_after_their_batch_are_refused(value: bytes) -> None:
    data = plain_record(0, value) + plain_record(1, value)
    for wrong in (data[:-1], data + b"\0"):
        assert values(wrong, 2) is None
    assert values(data, 2) == [value, value]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 300, 5000])
def test_our_own_batches_take_the_short_way(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values_in = [b"%d" % (number * number % 1000) * (number % 40) for number in range(count)]
    sealed = build_batch(base_offset=5, epoch=1, timestamp_ms=BASE_TIMESTAMP, values=values_in)
    (batch,) = read_batches(sealed)
    monkeypatch.setattr(records_module, "records_of", None)
    assert values_of(batch) == values_in


def test_records_of_another_layout_are_read_as_by_the_plain_decoder() -> None:
    # At the places where our records have a value's length and the value, this one has other bytes.
    keyed = record_bytes(0, 0, b"\x04", b"v", b"\0")
    assert values(keyed, 1) == naive_values(keyed, 1) == [b"v"]
    # The first claims to reach to the end of the second; there is no second, then.
    two = plain_record(0, b"a") + plain_record(1, b"b")
    claims_both = varint(len(two) - 1) + two[1:]
    # No number of headers after a null value.
    cut_off = record_bytes(0, 0, None, None, b"")
    assert values(claims_both, 2) is naive_values(claims_both, 2) is None
    assert values(cut_off, 1) is naive_values(cut_off, 1) is None


def test_pieces_of_a_batch_are_its_records_in_order() -> None:
    records = [RecordContent(b"k%d" % number, b"v" * number) for number in range(10)]
    (batch,) = read_batches(build_keyed_batch(base_offset=5, epoch=1, timestamp_ms=9, records=records))
    pieces = list(record_pieces(batch, most=4))
    assert [len(each) for each in pieces] == [4, 4, 2]
    assert [record for piece in pieces for record in piece] == records_of(batch)


def test_a_header_that_compaction_left_without_records_has_none() -> None:
    (batch,) = read_batches(build_batch(base_offset=5, epoch=1, timestamp_ms=9, values=[b"x"]))
    empty = Batch(replace(batch.header, count=0), batch.data[:HEADER_BYTES])
    assert (records_of(empty), list(record_pieces(empty, most=4))) == ([], [])
    with pytest.raises(InvalidBatchError, match="follow the last record"):
        records_of(Batch(empty.header, batch.data))
