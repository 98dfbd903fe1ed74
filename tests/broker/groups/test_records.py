"""The offsets topic's records, against Kafka's bytes."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups.group_records import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    group_record,
    offset_record,
    read_group,
    read_key,
    read_offset,
)
from quorate.kafka_bytes.varints import MalformedError

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_MEMBERS = st.builds(
    MemberValue,
    member_id=_TEXT,
    instance_id=st.none() | _TEXT,
    client_id=_TEXT,
    client_host=_TEXT,
    rebalance_timeout_ms=_INT32,
    session_timeout_ms=_INT32,
    subscription=st.binary(max_size=50),
    assignment=st.binary(max_size=50),
)
_GROUPS = st.builds(
    GroupValue,
    protocol_type=_TEXT,
    generation=_INT32,
    protocol=st.none() | _TEXT,
    leader=st.none() | _TEXT,
    state_timestamp_ms=_INT64,
    members=st.lists(_MEMBERS, max_size=3).map(tuple),
)
_OFFSETS = st.builds(
    OffsetValue, offset=_INT64, leader_epoch=_INT32, metadata=_TEXT, commit_timestamp_ms=_INT64
)


@given(key=st.builds(OffsetKey, _TEXT, _TEXT, _INT32), value=_OFFSETS)
def test_an_offset_reads_back_as_it_was_written(key: OffsetKey, value: OffsetValue) -> None:
    record = offset_record(key, value)
    assert record.key is not None and record.value is not None
    assert read_key(record.key) == key
    assert read_offset(record.value) == value


@given(key=st.builds(GroupKey, _TEXT), value=_GROUPS)
def test_a_group_reads_back_as_it_was_written(key: GroupKey, value: GroupValue) -> None:
    record = group_record(key, value)
    assert record.key is not None and record.value is not None
    assert read_key(record.key) == key
    assert read_group(record.value) == value


@given(data=st.binary(max_size=80))
def test_bytes_that_are_no_record_are_refused_and_nothing_else(data: bytes) -> None:
    for read in (read_key, read_offset, read_group):
        with contextlib.suppress(MalformedError):
            read(data)


def test_an_offset_is_in_kafkas_bytes() -> None:
    record = offset_record(
        OffsetKey("g", "top", 7),
        OffsetValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp_ms=99),
    )
    # OffsetCommitKey.json version 1, OffsetCommitValue.json version 3
    assert record.key == struct.pack(">hh1sh3si", 1, 1, b"g", 3, b"top", 7)
    assert record.value == struct.pack(">hqih1sq", 3, 5, 2, 1, b"m", 99)


def test_values_of_kafkas_older_versions_are_read() -> None:
    assert read_offset(struct.pack(">hqh1sqq", 1, 5, 1, b"m", 99, 100)).offset == 5
    group = struct.pack(">hh1sih1sh1si", 0, 1, b"c", 4, 1, b"r", 1, b"x", 0)
    with pytest.raises(MalformedError):
        read_group(group[:-1])
    assert read_group(group) == GroupValue(protocol_type="c", generation=4, protocol="r", leader="x")


def test_a_tombstone_has_a_key_and_no_value() -> None:
    assert offset_record(OffsetKey("g", "t", 0), None).value is None
    assert group_record(GroupKey("g"), None).value is None
