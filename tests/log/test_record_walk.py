"""The walk over a batch's records, against a naive reader of the same bytes."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.kafka_bytes.varints import uvarint, varint
from quorate.log.batches.batch import HEADER_BYTES
from quorate.log.batches.record_walk import (
    _WIDTHS,
    InvalidRecordError,
    RecordWalk,
    _offset_columns,
    timestamp_deltas,
)
from quorate.log.batches.records import RecordContent, build_keyed_batch


def sized(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(index, *, value=b"v", key=None, timestamp=0, headers=(), attributes=0):
    body = bytes([attributes]) + varint(timestamp) + varint(index) + sized(key) + sized(value)
    body += varint(len(headers)) + b"".join(sized(name) + sized(held) for name, held in headers)
    return varint(len(body)) + body


def walked(data, count, *, step=1 << 30, **options):
    walk = RecordWalk(data, count, **options)
    while not walk.step(step):
        pass
    return walk


class Naive:
    """One byte after the other, with no thought of speed."""

    def __init__(self, data):
        self.data = data
        self.position = 0

    def byte(self):
        self.position += 1
        if self.position > len(self.data):
            raise ValueError
        return self.data[self.position - 1]

    def number(self, most=5):
        raw = 0
        for shift in range(most):
            byte = self.byte()
            raw |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)
        raise ValueError

    def skip(self, *, nullable=True):
        size = self.number()
        if size < -1 or (size < 0 and not nullable):
            raise ValueError
        self.position += max(size, 0)
        return size

    def read(self, count):
        """(oldest, newest, keyless) or None if anything is wrong."""
        deltas, keyless = [], []
        try:
            for index in range(count):
                length = self.number()
                start = self.position
                self.byte()
                deltas.append(self.number(10))
                if self.number() != index:
                    return None
                if self.skip() < 0:
                    keyless.append(index)
                self.skip()
                headers = self.number()
                if headers < 0:
                    return None
                for _ in range(headers):
                    self.skip(nullable=False)
                    self.skip()
                if self.position - start != length:
                    return None
        except ValueError:
            return None
        if self.position != len(self.data):
            return None
        return min(deltas), max(deltas), keyless


def same_as_naive(data, count, step):
    expected = Naive(data).read(count)
    try:
        walk = walked(data, count, step=step, keys_needed=True)
    except InvalidRecordError as error:
        assert expected is None, f"refused: {error}, and the naive reader takes it"
        assert 0 <= error.index < count
        return
    assert expected is not None, "accepted, and the naive reader refuses it"
    keyless = [index for start, end in walk.keyless for index in range(start, end)]
    assert (walk.oldest, walk.newest, keyless) == expected


_SHAPES = st.tuples(
    st.integers(0, 5) | st.integers(0, 300),  # damage to a value is none to the walk
    st.sampled_from((None, 0, 1, 10, 70)),
    st.sampled_from((0, 0, 0, 1, 63, 64, -5, 8192, 1 << 40)),
    st.sampled_from(((), (), (), ((b"h", b"x"),), ((b"", None), (b"name", b"y" * 70)))),
)


@given(
    st.lists(st.tuples(_SHAPES, st.integers(1, 40)), min_size=1, max_size=8),
    st.integers(1, 200),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=2),
)
def test_the_walk_takes_and_refuses_what_a_naive_reader_does(runs, step, damage):
    data = bytearray()
    count = 0
    for (value, key, timestamp, headers), times in runs:
        for _ in range(times):
            held = None if key is None else bytes(key)
            data += record(count, value=bytes(value), key=held, timestamp=timestamp, headers=headers)
            count += 1
    for at, byte in damage:
        data[at % len(data)] = byte
    same_as_naive(bytes(data), count, step)


@pytest.mark.slow
@pytest.mark.long
def test_every_bit_that_is_turned_in_a_run_is_judged_as_a_naive_reader_does():
    whole = b"".join(record(index, value=bytes([index] * 5), timestamp=index % 3) for index in range(100))
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        same_as_naive(bytes(data), 100, 1 << 20)


@pytest.mark.slow
def test_long_batches_pass_in_runs_and_one_by_one():
    """Offset deltas grow to three bytes, and beyond what runs are made for."""
    for values in ([b""] * 70_000, [bytes(random.Random(1).randrange(9)) for _ in range(20_000)]):
        batch = build_keyed_batch(
            base_offset=0, epoch=0, timestamp_ms=0, records=[RecordContent(None, each) for each in values]
        )
        walk = walked(batch[HEADER_BYTES:], len(values), step=1000, keys_needed=True)
        assert walk.index == len(values)
        assert walk.keyless == [(0, len(values))]


def test_runs_are_found_so_that_uniform_batches_cost_little(monkeypatch):
    """Otherwise nothing but the clock would show that they are walked one by one."""
    data = b"".join(record(index, value=bytes(100), key=b"k" * 8) for index in range(8000))
    walk = RecordWalk(data, 8000)
    steps = 0
    while not walk.step(1):
        steps += 1
    assert steps < 30, f"{steps} turns for 8000 records that are all alike"


def test_the_columns_of_offset_deltas_are_their_encodings():
    for width, (start, end) in enumerate(pairwise(_WIDTHS), 1):
        encoded = [uvarint(2 * delta) for delta in range(start, end)]
        assert _offset_columns(width) == tuple(bytes(column) for column in zip(*encoded, strict=True))


@pytest.mark.parametrize(
    ("data", "count", "index", "problem"),
    [
        (record(0), 5, 1, "runs over the batch's end"),
        (record(0) + b"xy", 1, 0, "2 bytes follow it"),
        (record(0) + record(0), 2, 1, "offset delta is 0, not 1"),
        (record(0) + record(2), 2, 1, "offset delta is 2, not 1"),
        (varint(1 << 30) + record(0)[1:], 1, 0, "its length says 1073741824"),
        (varint(-3) + record(0)[1:], 1, 0, "length is negative"),
        (b"\xff" * 12, 1, 0, "more than 5 bytes"),
        (varint(6) + b"\x00\x00\x00" + varint(-2) + varint(-1) + b"\x00", 1, 0, "key's length is negative"),
        (varint(6) + b"\x00\x00\x00" + varint(-1) + varint(-2) + b"\x00", 1, 0, "value's length is negative"),
        (varint(6) + b"\x00\x00\x00" + varint(-1) + varint(-1) + varint(-1), 1, 0, "headers is negative"),
        (b"", 1, 0, "runs over the batch's end"),
        (record(0), (1 << 31) - 1, 1, "runs over the batch's end"),
    ],
)
def test_an_invalid_record_is_named_with_its_fault(data, count, index, problem):
    with pytest.raises(InvalidRecordError, match=problem) as raised:
        walked(data, count)
    assert raised.value.index == index


def test_numbers_may_be_encoded_longer_than_they_need():
    """As Kafka's readers take them."""
    body = b"\x00" + b"\x80\x00" + b"\x80\x00" + varint(-1) + b"\x82\x00" + b"v" + b"\x80\x00"
    data = uvarint(2 * len(body)) + body
    same_as_naive(data, 1, 1)
    assert walked(data, 1).index == 1


def test_timestamps_are_given_for_every_record():
    deltas = [3, -7, 1 << 50, 0, 0]
    data = b"".join(record(index, timestamp=delta) for index, delta in enumerate(deltas))
    walk = walked(data, 5)
    assert (walk.oldest, walk.newest) == (-7, 1 << 50)
    assert list(timestamp_deltas(data, 5)) == deltas
