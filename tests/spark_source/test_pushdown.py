"""Filters that the source uses: what it leaves out would not have matched."""

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from quorate.spark_source import MetadataLogSource
from quorate.spark_source.batch_query import FilteringBatchReader
from quorate.spark_source.filters import Filters, used
from quorate.spark_source.scan import LogRange
from tests.spark_source.conftest import read_rows

Path = tuple[str, ...]
FEED = {"readChangeFeed": True}
T0 = datetime.fromtimestamp(1_700_000_000, UTC)
OFFSETS = st.integers(-1, 28)
TIMES = st.builds(
    lambda seconds, us: T0 + timedelta(seconds=seconds, microseconds=us),
    st.integers(-1, 26),
    st.integers(-2, 2),
)
TYPES = st.sampled_from(["Topic", "PartitionChange", "Config", "LeaderChange", "NoOp", "Unknown", "other"])
TOPICS = st.sampled_from(["orders", "logs", "none"])
NUMBERS = st.integers(-1, 3)
COLUMNS: list[tuple[dict[str, object], dict[Path, st.SearchStrategy[Any]]]] = [
    ({"view": "records"}, {("offset",): OFFSETS, ("timestamp",): TIMES, ("recordType",): TYPES}),
    ({"view": "records", "includeControl": True}, {("recordType",): TYPES, ("key",): st.just(b"")}),
    (
        {"view": "decoded"},
        {
            ("offset",): OFFSETS,
            ("timestamp",): TIMES,
            ("type",): TYPES,
            ("partition_change", "partition_id"): NUMBERS,
            ("topic", "name"): TOPICS,
        },
    ),
    (
        {"view": "changes"},
        {
            ("offset",): OFFSETS,
            ("timestamp",): TIMES,
            ("record_type",): TYPES,
            ("reason",): st.sampled_from(["BROKER_GONE", "other"]),
            ("partition", "topic"): TOPICS,
            ("partition", "partition_id"): NUMBERS,
            ("broker", "broker_id"): NUMBERS,
        },
    ),
    (
        {"view": "partitions", **FEED},
        {("offset",): OFFSETS, ("timestamp",): TIMES, ("topic",): TOPICS, ("partition_id",): NUMBERS},
    ),
    ({"view": "partitions"}, {("topic",): TOPICS, ("partition_id",): NUMBERS, ("leader",): NUMBERS}),
    ({"view": "topics"}, {("name",): TOPICS}),
    ({"view": "brokers", **FEED}, {("offset",): OFFSETS, ("broker_id",): NUMBERS}),
]
COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


def value_at(row: Any, path: Path) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row


def verdict(each: Filter, row: dict[str, Any]) -> bool | None:
    """As SQL has it: None is unknown."""
    match each:
        case Not(child):
            found = verdict(child, row)
            return None if found is None else not found
        case IsNull(path):
            return value_at(row, path) is None
        case IsNotNull(path):
            return value_at(row, path) is not None
        case EqualNullSafe(path, value):
            return bool(value_at(row, path) == value)
        case In(path, values):
            found = value_at(row, path)
            if found is not None and found in values:
                return True
            return None if found is None or None in values else False
    shown, value = value_at(row, each.attribute), each.value  # type: ignore[attr-defined]
    return None if shown is None or value is None else COMPARISONS[type(each)](shown, value)


@st.composite
def filters(draw: st.DrawFn, columns: dict[Path, st.SearchStrategy[Any]]) -> Filter:
    path = draw(st.sampled_from(sorted(columns)))
    values = columns[path]
    kind = draw(st.sampled_from([*COMPARISONS, EqualNullSafe, In, IsNull, IsNotNull, Not]))
    if kind is Not:
        return Not(draw(filters(columns)))
    if kind in (IsNull, IsNotNull):
        return kind(path)  # type: ignore[call-arg]
    if kind is In:
        return In(path, tuple(draw(st.lists(st.none() | values, max_size=3))))
    return kind(path, draw(st.none() | values))  # type: ignore[call-arg]


def reader_of(log: Any, **options: object) -> FilteringBatchReader:
    given = {"path": log.folder, "pushFilters": True} | options
    source = MetadataLogSource({name: str(value) for name, value in given.items()})
    reader = source.reader(source.schema())
    assert isinstance(reader, FilteringBatchReader)
    return reader


def rows_of(reader: FilteringBatchReader) -> list[dict[str, Any]]:
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data())
def test_what_is_left_out_would_not_have_matched(session_sample: Any, data: st.DataObject) -> None:
    options, columns = data.draw(st.sampled_from(COLUMNS))
    asked = data.draw(st.lists(filters(columns), min_size=1, max_size=3))
    reader = reader_of(session_sample, **options)
    # Spark filters again.
    assert list(reader.pushFilters(asked)) == asked

    def matching(rows: list[dict[str, Any]]) -> list[str]:
        return in_any_order([row for row in rows if all(verdict(each, row) is True for each in asked)])

    assert matching(rows_of(reader)) == matching(read_rows(path=session_sample.folder, **options))


def test_equality_with_null_leaves_nothing_out() -> None:
    """It is true of the rows that have no such value, those of other entities."""
    for path in (("topic",), ("partition", "topic"), ("offset",), ("type",)):
        assert used([EqualNullSafe(path, None)]) == Filters()


@pytest.mark.parametrize(("view", "column"), [("records", "recordType"), ("decoded", "type")])
def test_only_records_of_the_types_that_are_asked_for_are_read(
    session_sample: Any, view: str, column: str
) -> None:
    """The decoded view took Raft's own records for damaged ones."""
    reader = reader_of(session_sample, view=view)
    list(reader.pushFilters([EqualTo((column,), "Topic")]))
    assert [row["offset"] for row in rows_of(reader)] == [8, 19]


def test_only_the_offsets_that_are_asked_for_are_planned(session_sample: Any) -> None:
    reader = reader_of(session_sample)
    list(reader.pushFilters([GreaterThan(("offset",), 20), LessThan(("offset",), 24)]))
    (part,) = reader.partitions()
    assert isinstance(part, LogRange)
    assert (part.start, part.end) == (20, 25)
    list(reader.pushFilters([GreaterThan(("offset",), 1000)]))
    assert reader.partitions() == []


def test_only_the_partitions_that_are_asked_for_are_kept(session_sample: Any) -> None:
    reader = reader_of(session_sample, view="partitions")
    list(reader.pushFilters([EqualTo(("topic",), "orders"), In(("partition_id",), (0, 2))]))
    assert [(row["topic"], row["partition_id"]) for row in rows_of(reader)] == [("orders", 0), ("orders", 2)]


def test_a_query_without_the_option_has_no_reader_that_spark_would_refuse(session_sample: Any) -> None:
    source = MetadataLogSource({"path": str(session_sample.folder)})
    assert not isinstance(source.reader(source.schema()), FilteringBatchReader)
