"""Reading a node's folder, without Spark."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cbor2
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from quorate.broker.metadata.metadata_records import NoOp, PartitionChange
from quorate.broker.metadata.record_codec import encode
from quorate.history import DamagedRecordError, FolderLog, UnknownHighWatermarkError
from quorate.runtime.entropy import uuid_text
from quorate.spark_source import MetadataLogSource
from quorate.spark_source.scan import Scan
from quorate.spark_source.source_options import ViewName, parse_options
from quorate.spark_source.spark_errors import DataLossError, LaterVersionError, OptionError
from tests.spark_source.conftest import in_order, read_rows

ENTITIES = [view.value for view in ViewName if view.entity is not None]
FEED = {"readChangeFeed": True}
QUERIES: list[dict[str, object]] = [
    {"view": "records"},
    {"view": "records", "includeControl": True},
    {"view": "decoded"},
    {"view": "changes"},
    *({"view": view} for view in ENTITIES),
    *({"view": view, **FEED} for view in ENTITIES),
]


def read(path: Path, **options: object) -> list[dict[str, Any]]:
    return read_rows(path=path, **options)


def test_rows_are_the_records_as_they_are(sample: Any) -> None:
    rows = read(sample.folder)
    assert [(row["offset"], row["epoch"], row["recordType"], row["value"]) for row in rows] == [
        (offset, epoch, type(record).__name__, encode(record)) for offset, epoch, _, record in sample.records
    ]
    assert [row["timestamp"].timestamp() * 1000 for row in rows] == [at for _, _, at, _ in sample.records]
    same = {(row["key"], row["topic"], row["partition"], row["timestampType"]) for row in rows}
    assert same == {(None, "__cluster_metadata", 0, 0)}


def test_decoded_rows_have_the_fields_of_the_records(sample: Any) -> None:
    by_type = {row["type"]: row for row in read(sample.folder, view="decoded")}
    change = by_type["PartitionChange"]["partition_change"]
    assert (change["partition_id"], change["leader"], change["isr"]) == (0, 1, None)
    assert by_type["UnregisterBroker"]["unregister_broker"] == {"broker_id": 3, "broker_epoch": 6}
    assert by_type["RegisterBroker"]["register_broker"]["listeners"] == [
        {"name": "PLAINTEXT", "host": "localhost", "port": 9093}
    ]
    assert by_type["Config"]["config"]["resource_type"] == "BROKER"
    for name, row in by_type.items():
        shown = [each for each in row.values() if isinstance(each, dict)]
        assert len(shown) == (name != "NoOp"), f"{name} has {len(shown)} structs"


def test_rows_agree_with_a_dump_by_others_decoders(session_sample: Any) -> None:
    """Framing by kafka-python, records by cbor2 alone."""
    fields = {
        4: {0: "name", 1: "topic_id"},
        6: {0: "topic_id", 1: "partition_id", 2: "isr", 3: "leader", 4: "replicas"},
        3: {0: "broker_id", 1: "broker_epoch"},
    }
    compared = 0
    rows = iter(read(session_sample.folder, includeControl=True))
    decoded = iter(in_order_of_offsets(read(session_sample.folder, view="decoded")))
    for file in sorted(session_sample.log_folder.glob("*.log")):
        for batch in dumped(file.read_bytes()):
            for record in batch:
                row = next(rows)
                assert row["offset"] == record.offset
                assert row["timestamp"].timestamp() * 1000 == record.timestamp
                assert row["epoch"] == batch.leader_epoch
                assert row["batchOffset"] == batch.base_offset
                assert (row["key"], row["value"]) == (record.key, record.value)
                if batch.is_control_batch:
                    assert row["recordType"] == "LeaderChange"
                    continue
                shown = next(decoded)
                number, version, body = cbor2.loads(record.value)
                assert (shown["offset"], shown["version"]) == (record.offset, version)
                struct = next((each for each in shown.values() if isinstance(each, dict)), {})
                for key, name in fields.get(number, {}).items():
                    if key in body:
                        value = body[key]
                        expected = uuid_text(uuid.UUID(bytes=value)) if isinstance(value, bytes) else value
                        assert struct[name] == expected
                        compared += 1
    assert next(rows, None) is next(decoded, None) is None
    assert compared > 15


def in_order_of_offsets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["offset"]))


def dumped(data: bytes) -> Iterator[DefaultRecordBatch]:
    records = MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        yield batch


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_every_batch_has_exactly_the_schema_that_spark_checks(
    session_sample: Any, query: dict[str, object]
) -> None:
    """Spark checks only the first: values of later ones with columns in another order would be swapped."""
    for tasks in (1, 3):
        options = {"path": str(session_sample.folder), "minPartitions": str(tasks)}
        source = MetadataLogSource(options | {name: str(value) for name, value in query.items()})
        reader = source.reader(source.schema())
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        # The sample has no quotas.
        assert batches or query["view"] == "quotas"
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        declared = to_arrow_schema(source.schema(), timezone="UTC")
        assert [batch.schema for batch in batches if not batch.schema.equals(declared)] == [], declared
        for batch in batches:
            batch.validate(full=True)
            for field, column in zip(batch.schema, batch.columns, strict=True):
                assert field.nullable or not column.null_count, f"{field.name} has nulls"


@pytest.mark.slow
@given(data=st.data())
def test_any_division_reads_what_one_scan_reads(session_sample: Any, data: st.DataObject) -> None:
    query = data.draw(st.sampled_from([each for each in QUERIES if each["view"] not in ENTITIES]))
    view = data.draw(st.sampled_from(ENTITIES))
    start = data.draw(st.integers(0, session_sample.end))
    end = data.draw(st.integers(start, session_sample.end))
    tasks = data.draw(st.sampled_from([1, 2, 3, 5, session_sample.end + 3]))
    for asked in (query, {"view": view, **FEED}):
        order = in_order_of_offsets if asked["view"] in ("records", "decoded") else in_order
        whole = [row for row in read(session_sample.folder, **asked) if start <= row["offset"] < end]
        bounds = {"startingOffsets": start, "endingOffsets": end}
        rows = read(session_sample.folder, **asked, **bounds, minPartitions=tasks)
        assert order(rows) == order(whole)
        if asked["view"] == "records":
            assert rows == whole


def test_parts_are_as_many_as_asked_for_and_can_be_read_again(session_sample: Any) -> None:
    source = MetadataLogSource({"path": str(session_sample.folder), "minPartitions": "5"})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert len(parts) == 5
    for part in parts:
        assert list(reader.read(part)) == list(reader.read(part))


def test_reading_stops_at_the_persisted_high_watermark(new_log: Callable[..., Any], tell: Any) -> None:
    log = new_log()
    tell(log)
    committed = log.end
    log.append(NoOp())
    log.write(committed=committed)
    assert read(log.folder)[-1]["offset"] == committed - 1
    assert read(log.folder, readUncommitted=True)[-1]["offset"] == committed
    with pytest.raises(OptionError, match=f"committed up to {committed}"):
        read(log.folder, endingOffsets=committed + 1)


def test_a_batch_that_straddles_the_high_watermark_is_trimmed(new_log: Callable[..., Any]) -> None:
    log = new_log()
    log.new_epoch(1)
    log.append(*[NoOp()] * 10)
    log.write(committed=5)
    assert [row["offset"] for row in read(log.folder)] == [1, 2, 3, 4]


def test_a_folder_without_a_persisted_high_watermark_says_what_to_do(new_log: Callable[..., Any]) -> None:
    log = new_log()
    log.new_epoch(1)
    log.append(NoOp())
    log.write(committed=None)
    with pytest.raises(UnknownHighWatermarkError, match="readUncommitted=true"):
        read(log.folder)
    assert [row["offset"] for row in read(log.folder, readUncommitted=True)] == [1]


def test_an_empty_log_has_no_rows(new_log: Callable[..., Any]) -> None:
    log = new_log()
    log.write(committed=None)
    source = MetadataLogSource({"path": str(log.folder)})
    reader = source.reader(source.schema())
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_one_data_frame_shows_one_log_however_it_grows(sample: Any) -> None:
    source = MetadataLogSource({"path": str(sample.folder)})
    before = [part.end for part in source.reader(source.schema()).partitions()]
    sample.append(NoOp())
    sample.write()
    assert [part.end for part in source.reader(source.schema()).partitions()] == before
    assert len(read(sample.folder)) == len(sample.records)


def test_timestamps_bound_a_query(sample: Any) -> None:
    second = sample.records[8][2]
    expected = [offset for offset, _, at, _ in sample.records if at >= second]
    assert [row["offset"] for row in read(sample.folder, startingTimestamp=second)] == expected
    by_topic = f'{{"__cluster_metadata": {{"0": {second}}}}}'
    assert [row["offset"] for row in read(sample.folder, startingOffsetsByTimestamp=by_topic)] == expected
    between = [row["offset"] for row in read(sample.folder, startingTimestamp=second - 999)]
    assert between == expected
    assert len(read(sample.folder, startingTimestamp=0)) == len(sample.records)
    earlier = [offset for offset, _, at, _ in sample.records if at < second]
    assert [row["offset"] for row in read(sample.folder, endingTimestamp=second)] == earlier
    late = sample.now_ms + 1
    assert len(read(sample.folder, endingTimestamp=late)) == len(sample.records)
    with pytest.raises(OptionError, match=f"startingTimestamp={late} or later"):
        read(sample.folder, startingTimestamp=late)
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert read(sample.folder, startingTimestamp=late, **strategy) == []


def test_an_end_before_the_start_is_refused(sample: Any) -> None:
    with pytest.raises(OptionError, match="before the start"):
        read(sample.folder, startingOffsets=5, endingOffsets=3)


LATER = [cbor2.dumps([99, 3, {0: "x", 1: b"\x01"}]), cbor2.dumps([6, 9, {}])]


def test_a_record_of_a_later_version_is_shown_as_it_is(new_log: Callable[..., Any]) -> None:
    log = new_log()
    log.new_epoch(1)
    log.append_raw(*LATER)
    log.write()
    assert [(row["recordType"], row["value"]) for row in read(log.folder)] == [
        ("Unknown", value) for value in LATER
    ]
    rows = read(log.folder, view="decoded", unknownRecords="mark")
    assert [(row["type"], row["version"], row["value"]) for row in rows] == [
        ("Unknown", 3, LATER[0]),
        ("Unknown", 9, LATER[1]),
    ]


@pytest.mark.parametrize("value", LATER)
def test_a_record_of_a_later_version_stops_a_view_that_depends_on_it(
    new_log: Callable[..., Any], value: bytes
) -> None:
    """It vanished, so that what followed was stale."""
    log = new_log()
    log.new_epoch(1)
    log.append_raw(value)
    log.write()
    for query in QUERIES:
        if query["view"] == "records":
            continue
        for tolerant in (False, True):
            with pytest.raises(LaterVersionError, match=r"offset 1, of type .* read view=records"):
                read(log.folder, failOnDataLoss=not tolerant, **query)


@pytest.mark.parametrize("view", ["changes", *ENTITIES])
@pytest.mark.parametrize("tasks", [1, 3])
def test_a_record_of_a_later_version_is_marked_once_if_asked_for(sample: Any, view: str, tasks: int) -> None:
    """Each of several tasks marked it."""
    sample.append_raw(LATER[0])
    sample.append(NoOp())
    sample.write()
    rows = read(sample.folder, view=view, **FEED, unknownRecords="mark", minPartitions=tasks)
    marked = [row for row in rows if row["_change_type"] == "unknown"]
    assert [(row["offset"], row["record_type"]) for row in marked] == [(sample.end - 2, "Unknown")]


@pytest.fixture
def trimmed(new_log: Callable[..., Any], tell: Any) -> Any:
    """The sample without its first segments, up to the first change of a partition: as a snapshot leaves it.
    The log, and where it starts."""
    log = new_log(segment_bytes=400, index_interval_bytes=64)
    tell(log)
    log.write()
    segments = sorted(log.log_folder.glob("*.log"))
    change = next(offset for offset, _, _, record in log.records if isinstance(record, PartitionChange))
    gone = [each for each in segments[:-1] if int(segments[segments.index(each) + 1].stem) <= change]
    assert gone
    for each in gone:
        each.unlink()
    return log, int(segments[len(gone)].stem)


STATEFUL = ["changes", *ENTITIES]


@pytest.mark.parametrize("view", STATEFUL)
def test_a_log_whose_beginning_is_in_a_snapshot_that_is_gone_is_refused(trimmed: Any, view: str) -> None:
    log, start = trimmed
    with pytest.raises(DataLossError, match=f"begins at offset {start}, and the snapshot .*failOnDataLoss"):
        read(log.folder, view=view, **FEED)
    with pytest.raises(DataLossError, match=f"begins at offset {start}, and no snapshot .*failOnDataLoss"):
        read(log.folder, view=view, **FEED, startingOffsets=start + 3)
    assert read(log.folder, view=view, **FEED, startingOffsets=log.end) == []


@pytest.mark.parametrize("view", ["records", "decoded"])
def test_records_are_shown_without_a_snapshot_of_those_before(trimmed: Any, view: str) -> None:
    log, start = trimmed
    with pytest.raises(DataLossError, match=f"begins at offset {start}"):
        read(log.folder, view=view)
    with pytest.raises(DataLossError, match=f"starts at {start}"):
        read(log.folder, view=view, startingOffsets=1)
    kept = [offset for offset, *_ in log.records if offset >= start]
    shown = in_order_of_offsets(read(log.folder, view=view, startingOffsets=start))
    assert [row["offset"] for row in shown] == kept


def test_with_tolerated_loss_a_log_that_begins_late_shows_what_it_has(
    trimmed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    log, start = trimmed
    kept = [offset for offset, *_ in log.records if offset >= start]
    for asked in ({}, {"startingOffsets": 1}):
        rows = read(log.folder, failOnDataLoss=False, **asked)
        assert [row["offset"] for row in rows] == kept
    assert f"the log begins at offset {start}, and the snapshot of what was before is gone" in caplog.text
    # Changes of partitions that nothing creates are passed over.
    tolerated = read(log.folder, view="partitions", **FEED, failOnDataLoss=False)
    assert {(row["topic"], row["_change_type"]) for row in tolerated} == {
        ("logs", "insert"),
        ("logs", "delete"),
    }


def test_damage_below_the_high_watermark_is_no_end_of_an_uncommitted_read(sample: Any) -> None:
    file = next(iter(sample.log_folder.glob("*.log")))
    damaged = bytearray(file.read_bytes())
    damaged[300] ^= 4
    file.write_bytes(damaged)
    with pytest.raises(DamagedRecordError, match=r"\.log, byte \d+"):
        read(sample.folder, readUncommitted=True)
    file.write_bytes(damaged[:300])
    with pytest.raises(DataLossError, match="was known to be committed"):
        read(sample.folder, readUncommitted=True)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["records", "changes"])
def test_reading_a_folder_imports_no_client(sample: Any, view: str) -> None:
    """Spark starts several Python processes for an action, and gives each about ten seconds."""
    program = """
import sys
from quorate.spark_source.source import MetadataLogSource
source = MetadataLogSource({"path": sys.argv[1], "view": sys.argv[2]})
reader = source.reader(source.schema())
assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
print(sorted({"trio", "kio", "hypothesis", "prometheus_client", "typer"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(sample.folder), view], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_segment_that_went_after_planning_is_data_loss(
    new_log: Callable[..., Any], tell: Any, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(segment_bytes=400)
    tell(log)
    log.write()
    planned = []
    for strict in (True, False):
        source = MetadataLogSource({"path": str(log.folder), "failOnDataLoss": str(strict)})
        reader = source.reader(source.schema())
        (part,) = reader.partitions()
        planned.append((reader, part))
    first, second, third = (int(each.stem) for each in sorted(log.log_folder.glob("*.log"))[:3])
    sorted(log.log_folder.glob("*.log"))[1].unlink()
    (strictly, part), (tolerant, _) = planned
    with pytest.raises(DataLossError, match=f"offsets {second} to {third - 1} are gone"):
        list(strictly.read(part))
    rest = [row["offset"] for batch in tolerant.read(part) for row in batch.to_pylist()]
    assert rest == [offset for offset, *_ in log.records if not second <= offset < third]
    assert f"offsets {second} to {third - 1} are gone" in caplog.text
    assert not first


def test_a_schema_of_ones_own_is_refused_in_words_of_the_view(sample: Any) -> None:
    source = MetadataLogSource({"path": str(sample.folder)})
    fields = list(source.schema())
    narrow = [
        StructField("offset", IntegerType(), False) if each.name == "offset" else each for each in fields
    ]
    for wrong in (StructType(fields[:-1]), StructType(fields[::-1]), StructType(narrow)):
        for make in (source.reader, source.streamReader):
            with pytest.raises(OptionError, match=r"schema of view records is fixed; leave out \.schema"):
                make(wrong)


@pytest.mark.parametrize(("view", "tasks"), [("partitions", None), ("topics", 1)])
def test_the_state_of_a_long_log_is_planned_for_all_cores(view: str, tasks: int | None) -> None:
    """It begins and ends at one offset, and yet all before it is read. Only partitions are divided."""
    options = parse_options({"path": "node", "view": view})
    parts = Scan(log=FolderLog(path="node"), options=options).divide(1_000_000, 1_000_000)
    cores = tasks or min(len(os.sched_getaffinity(0)), 20)
    assert [(each.shard, each.shards) for each in parts] == [(shard, cores) for shard in range(cores)]
