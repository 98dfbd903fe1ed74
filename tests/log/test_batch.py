import random

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from quorate.log.batches.batch import HEADER_BYTES, read_batches, read_header, read_headers, stamp
from quorate.log.batches.control import (
    ControlType,
    LeaderChange,
    control_type_of,
    leader_change_batch,
    read_leader_change,
)
from quorate.log.batches.records import RecordContent, build_batch, build_keyed_batch, records_of
from quorate.log.log_errors import BatchTooLargeError, InvalidBatchError, OffsetGapError

small = st.binary(max_size=40) | st.binary(min_size=60, max_size=70) | st.just(b"x" * 9000)


@given(
    base=st.integers(0, 2**60),
    epoch=st.integers(0, 2**31 - 1),
    timestamp=st.integers(0, 2**45),
    values=st.lists(small, min_size=1, max_size=80),
)
def test_values_read_back_here_and_in_aiokafka(
    base: int, epoch: int, timestamp: int, values: list[bytes]
) -> None:
    data = build_batch(base_offset=base, epoch=epoch, timestamp_ms=timestamp, values=values)
    (batch,) = read_batches(data)
    assert (batch.header.base_offset, batch.header.leader_epoch, batch.header.count) == (
        base,
        epoch,
        len(values),
    )
    expected = [(base + delta, timestamp, None, value) for delta, value in enumerate(values)]
    assert [tuple(record) for record in records_of(batch)] == expected
    theirs = DefaultRecordBatch(data)
    assert theirs.validate_crc()
    assert [(one.offset, one.timestamp, one.key, one.value) for one in theirs] == expected


@given(
    records=st.lists(st.builds(RecordContent, st.none() | small, st.none() | small), min_size=1, max_size=30),
    control=st.booleans(),
)
def test_keyed_records_read_back_here_and_in_kafka_python(
    records: list[RecordContent], control: bool
) -> None:
    data = build_keyed_batch(
        base_offset=7, epoch=2, timestamp_ms=1234, records=records, control=control, producer_id=9
    )
    (batch,) = read_batches(data)
    assert batch.header.is_control == control
    assert [(one.key, one.value) for one in records_of(batch)] == [tuple(one) for one in records]
    if not control:
        theirs = MemoryRecords(data).next_batch()
        assert theirs is not None
        assert [(one.offset, one.key, one.value) for one in theirs] == [
            (7 + delta, *one) for delta, one in enumerate(records)
        ]


@given(values=st.lists(st.tuples(st.none() | small, small), min_size=1, max_size=30))
def test_a_stock_producers_batch_is_read(values: list[tuple[bytes | None, bytes]]) -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=2**24)
    for delta, (key, value) in enumerate(values):
        builder.append(timestamp=1000 + delta, key=key, value=value, headers=[("h", b"v")])
    builder.close()
    (batch,) = read_batches(bytes(builder.buffer()))
    assert [tuple(record) for record in records_of(batch)] == [
        (delta, 1000 + delta, key, value) for delta, (key, value) in enumerate(values)
    ]


def test_more_records_than_the_tables_hold_read_back() -> None:
    values = [str(number).encode() for number in range(5000)]
    (batch,) = read_batches(build_batch(base_offset=0, epoch=0, timestamp_ms=0, values=values))
    assert [record.value for record in records_of(batch)] == values


def test_a_compressed_batch_keeps_its_header_and_refuses_to_be_decoded() -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=1, batch_size=2**20)
    builder.append(timestamp=1, key=None, value=b"x" * 1000, headers=[])
    builder.close()
    (batch,) = read_batches(bytes(builder.buffer()))
    assert batch.header.codec == 1
    with pytest.raises(InvalidBatchError, match="compressed"):
        records_of(batch)


def test_stamping_changes_offset_and_epoch_and_leaves_the_crc_valid() -> None:
    data = build_batch(base_offset=0, epoch=0, timestamp_ms=0, values=[b"a", b"b"])
    header = read_header(data)
    stamped = stamp(40, header.length, 6) + data[16:]
    again = read_header(stamped)
    assert (again.base_offset, again.end_offset, again.leader_epoch) == (40, 42, 6)


DATA = build_batch(base_offset=5, epoch=3, timestamp_ms=0, values=[b"first", b"second"])


def test_a_batch_cut_anywhere_is_refused() -> None:
    for size in range(1, len(DATA)):
        with pytest.raises(InvalidBatchError, match="byte 0"):
            list(read_headers(DATA[:size]))


def test_any_bit_flip_behind_the_epoch_is_noticed() -> None:
    for position in range(8, len(DATA)):
        if 12 <= position < 16:
            continue
        damaged = bytearray(DATA)
        damaged[position] ^= 1 << random.Random(position).randrange(8)
        with pytest.raises(InvalidBatchError):
            list(read_headers(damaged))


def test_the_position_of_the_bad_batch_is_named() -> None:
    damaged = DATA + build_batch(base_offset=9, epoch=3, timestamp_ms=0, values=[b"x"])
    with pytest.raises(OffsetGapError, match=f"byte {len(DATA)}: base offset 9, expected 7"):
        list(read_headers(damaged))
    assert [one.base_offset for one in read_headers(damaged, contiguous=False)] == [5, 9]


def test_a_batch_above_the_limit_is_refused_before_its_crc() -> None:
    with pytest.raises(BatchTooLargeError):
        list(read_headers(DATA, max_bytes=len(DATA) - 1))


def test_gaps_inside_a_batch_are_refused_unless_it_may_be_compacted() -> None:
    data = bytearray(build_batch(base_offset=0, epoch=0, timestamp_ms=0, values=[b"x"]))
    data[26] = 3
    with pytest.raises(InvalidBatchError, match="does not match"):
        read_header(data, check_crc=False)
    assert read_header(data, check_crc=False, dense=False).end_offset == 4


@given(garbage=st.binary(min_size=0, max_size=60), count=st.integers(1, 2**31 - 1))
def test_garbage_for_records_is_an_error_of_ours(garbage: bytes, count: int) -> None:
    from quorate.log.batches.batch import seal

    data = seal(
        garbage,
        base_offset=0,
        epoch=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )
    (batch,) = read_batches(data)
    try:
        records = records_of(batch)
    except InvalidBatchError:
        return
    assert len(records) == count


def test_a_leader_change_has_kafkas_bytes() -> None:
    data = leader_change_batch(
        base_offset=42, epoch=7, timestamp_ms=1, leader=1, voters=(1, 2, 3), granting_voters=(1, 3)
    )
    (batch,) = read_batches(data)
    (record,) = records_of(batch)
    assert (batch.header.base_offset, batch.header.is_control) == (42, True)
    assert control_type_of(record) is ControlType.LEADER_CHANGE
    assert record.key == bytes.fromhex("0000 0002")
    # version, leader, compact array of 3, compact array of 2, no tagged fields.
    assert record.value == bytes.fromhex(
        "0000 00000001 04 0000000100 0000000200 0000000300 03 0000000100 0000000300 00"
    )
    assert read_leader_change(record.value) == LeaderChange(
        leader=1, voters=(1, 2, 3), granting_voters=(1, 3)
    )
    with pytest.raises(ValueError, match="LeaderChange"):
        read_leader_change(record.value[:9])


def test_a_header_is_61_bytes() -> None:
    assert HEADER_BYTES == 61
