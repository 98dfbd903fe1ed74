"""Reading a node's folder, without Spark."""

import json
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

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NoOp, PartitionChange
from quorate.broker.metadata.record_codec import decode, encode
from quorate.history import DamagedRecordError, LogUnavailableError
from quorate.runtime.entropy import uuid_text
from quorate.spark_source import MetadataLogSource
from quorate.spark_source.scan import Scan, arrow_schema, log_access
from quorate.spark_source.source_options import parse_options
from quorate.spark_source.spark_errors import DataLossError, LaterVersionError, OptionError
from quorate.spark_source.views.registry import new_view
from tests.spark_source.conftest import read_rows

VIEWS = ["records", "partitions", "topics", "brokers"]


def read(path: Path, **options: object) -> list[dict[str, Any]]:
    return read_rows(path=path, **options)


def test_rows_are_the_records_with_their_keys(sample: Any) -> None:
    rows = read(sample.write())
    assert [(row["offset"], row["epoch"]) for row in rows] == [
        (offset, epoch) for offset, epoch, _, _ in sample.records
    ]
    assert [row["timestamp"].timestamp() * 1000 for row in rows] == [at for _, _, at, _ in sample.records]
    by_type = {row["type"]: row for row in rows}
    change = by_type["PartitionChange"]
    assert (change["topic"], change["partition"]) == ("orders", 0)
    assert by_type["RemoveTopic"]["topic"] == "logs"
    assert by_type["Config"]["broker"] == 3
    assert by_type["UnregisterBroker"]["broker"] == 3
    assert json.loads(by_type["RegisterBroker"]["record"])["listeners"] == [
        {"name": "PLAINTEXT", "host": "localhost", "port": 9093}
    ]


def test_rows_agree_with_a_dump_by_others_decoders(session_sample: Any) -> None:
    """Framing by kafka-python, records by cbor2 alone."""
    fields = {
        4: {0: "name", 1: "topic_id"},
        6: {0: "topic_id", 1: "partition_id", 2: "isr", 3: "leader", 4: "replicas"},
        3: {0: "broker_id", 1: "broker_epoch"},
    }
    compared = 0
    rows = iter(read(session_sample.folder, includeControl=True))
    for file in sorted(session_sample.log_folder.glob("*.log")):
        for batch in dumped(file.read_bytes()):
            for record in batch:
                row = next(rows)
                assert row["offset"] == record.offset
                assert row["timestamp"].timestamp() * 1000 == record.timestamp
                assert row["control"] == batch.is_control_batch
                assert row["epoch"] == batch.leader_epoch
                assert row["batch_offset"] == batch.base_offset
                if batch.is_control_batch:
                    assert row["type"] == "LeaderChange"
                    continue
                number, version, body = cbor2.loads(record.value)
                assert row["version"] == version
                shown = json.loads(row["record"])
                for key, name in fields.get(number, {}).items():
                    if key in body:
                        value = body[key]
                        expected = uuid_text(uuid.UUID(bytes=value)) if isinstance(value, bytes) else value
                        assert shown[name] == expected
                        compared += 1
    assert next(rows, None) is None
    assert compared > 15


def dumped(data: bytes) -> Iterator[DefaultRecordBatch]:
    records = MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        yield batch


@pytest.mark.parametrize("view", VIEWS)
def test_batches_have_exactly_the_schema_that_spark_checks(sample: Any, view: str) -> None:
    source = MetadataLogSource({"path": str(sample.folder), "view": view})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert batches
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert all(batch.schema.equals(arrow_schema(source.schema())) for batch in batches)


@given(data=st.data())
def test_any_division_reads_what_one_scan_reads(session_sample: Any, data: st.DataObject) -> None:
    view = data.draw(st.sampled_from(VIEWS))
    start = data.draw(st.integers(0, session_sample.end))
    end = data.draw(st.integers(start, session_sample.end))
    tasks = data.draw(st.integers(1, session_sample.end + 3))
    options = parse_options({"path": str(session_sample.folder), "view": view})
    scan = Scan(access=log_access(options), fail_on_data_loss=True)
    whole = [row for row in scan.rows(new_view(options), 0, session_sample.end) if start <= row[0] < end]
    rows = read(
        session_sample.folder, view=view, startingOffsets=start, endingOffsets=end, minPartitions=tasks
    )
    assert [row["offset"] for row in rows] == [row[0] for row in whole]
    one = read(session_sample.folder, view=view, startingOffsets=start, endingOffsets=end, minPartitions=1)
    assert rows == one


def test_parts_are_as_many_as_asked_for_and_can_be_read_again(session_sample: Any) -> None:
    source = MetadataLogSource({"path": str(session_sample.folder), "minPartitions": "5"})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert len(parts) == 5
    for part in parts:
        assert list(reader.read(part)) == list(reader.read(part))


def test_partition_history_ends_where_the_image_does(sample: Any) -> None:
    image = MetadataImage()
    for offset, epoch, _, record in sample.records:
        image.apply(decode(encode(record)), offset=offset, epoch=epoch)
    last: dict[int, dict[str, Any]] = {}
    for row in read(sample.folder, view="partitions"):
        if row["topic"] == "orders":
            last[row["partition"]] = row
    topic = image.topic("orders")
    assert topic is not None
    for number, row in last.items():
        state = image.partition(topic.topic_id, number)
        assert state is not None
        assert (row["leader"], row["leader_epoch"], row["partition_epoch"]) == (
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
        )
        assert tuple(row["isr"]) == state.isr
    assert len(last) == 3


def test_a_partitions_history_is_told_change_by_change(sample: Any) -> None:
    rows = [row for row in read(sample.folder, view="partitions") if row["topic"] == "orders"]
    told = [
        (
            row["change"],
            row["leader"],
            row["leader_epoch"],
            row["partition_epoch"],
            row["isr"],
            row["elected"],
        )
        for row in rows
        if row["partition"] == 0
    ]
    assert told == [
        ("created", 1, 0, 0, [1, 2], True),
        ("changed", 2, 1, 1, [2], True),
        ("changed", 2, 1, 2, [2, 1], False),
        ("changed", 1, 2, 3, [2, 1], True),
    ]


def test_topics_are_told_from_creation_to_removal(sample: Any) -> None:
    rows = read(sample.folder, view="topics")
    assert [(row["change"], row["topic"], row["config"], row["value"]) for row in rows] == [
        ("created", "orders", None, None),
        ("configured", "orders", "min.insync.replicas", "2"),
        ("created", "logs", None, None),
        ("removed", "logs", None, None),
    ]


def test_brokers_are_told_from_registration_to_their_end(sample: Any) -> None:
    rows = [row for row in read(sample.folder, view="brokers") if row["broker"] in (1, 3)]
    assert [(row["broker"], row["change"], row["fenced"]) for row in rows] == [
        (1, "registered", True),
        (1, "unfenced", False),
        (3, "registered", True),
        (3, "unfenced", False),
        (1, "fenced", True),
        (3, "unregistered", False),
    ]
    assert rows[-1]["rack"] == "rack-3"
    assert rows[0]["listeners"] == ["PLAINTEXT://localhost:9091"]


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
    log.write(committed=None)
    with pytest.raises(LogUnavailableError, match="readUncommitted=true"):
        read(log.folder)


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
    earlier = [offset for offset, _, at, _ in sample.records if at < second]
    assert [row["offset"] for row in read(sample.folder, endingTimestamp=second)] == earlier
    late = sample.now_ms + 1
    assert len(read(sample.folder, endingTimestamp=late)) == len(sample.records)
    with pytest.raises(OptionError, match="startingTimestamp"):
        read(sample.folder, startingTimestamp=late)
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert read(sample.folder, startingTimestamp=late, **strategy) == []


def test_an_end_before_the_start_is_refused(sample: Any) -> None:
    with pytest.raises(OptionError, match="before the start"):
        read(sample.folder, startingOffsets=5, endingOffsets=3)


def test_a_record_of_a_later_version_is_shown_as_it_is(new_log: Callable[..., Any]) -> None:
    log = new_log()
    log.new_epoch(1)
    log.append_raw(cbor2.dumps([99, 3, {0: "x", 1: b"\x01"}]), cbor2.dumps([4, 200, {}]))
    rows = read(log.write())
    assert [(row["type"], row["version"]) for row in rows] == [("Unknown", 3), ("Unknown", 200)]
    assert json.loads(rows[0]["record"]) == {"type": 99, "fields": {"0": "x", "1": "01"}}


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


@pytest.mark.parametrize("view", ["partitions", "topics", "brokers"])
def test_a_typed_view_refuses_a_log_whose_beginning_is_in_a_snapshot(trimmed: Any, view: str) -> None:
    log, start = trimmed
    for options in ({}, {"startingOffsets": start + 3}):
        with pytest.raises(DataLossError, match=rf"before offset {start}, and view={view} .*failOnDataLoss"):
            read(log.folder, view=view, **options)
    assert read(log.folder, view=view, startingOffsets=log.end) == []


def test_a_record_whose_topics_name_is_in_a_snapshot_is_refused_and_others_are_not(trimmed: Any) -> None:
    log, _ = trimmed
    with pytest.raises(DataLossError, match=r"whose name was in what a snapshot .* failOnDataLoss=false"):
        read(log.folder)
    logs = next(offset for offset, _, _, record in log.records if getattr(record, "name", "") == "logs")
    rows = read(log.folder, startingOffsets=logs, endingOffsets=logs + 2)
    assert [row["topic"] for row in rows] == ["logs", "logs"]


def test_with_tolerated_loss_a_log_that_begins_late_shows_its_records(
    trimmed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    log, start = trimmed
    rows = read(log.folder, failOnDataLoss=False)
    assert rows[0]["offset"] >= start
    assert next(row for row in rows if row["type"] == "PartitionChange")["topic"] is None
    tolerated = read(log.folder, view="partitions", failOnDataLoss=False)
    history = next(row for row in tolerated if row["change"] == "changed")
    assert (history["leader"], history["leader_epoch"], history["isr"]) == (2, None, [2])
    assert f"a snapshot has taken the place of what was before offset {start}" in caplog.text
    with pytest.raises(DataLossError, match=f"starts at {start}"):
        read(log.folder, startingOffsets=1)
    assert read(log.folder, startingOffsets=1, failOnDataLoss=False) == rows


@pytest.mark.parametrize("value", [cbor2.dumps([99, 3, {}]), cbor2.dumps([6, 9, {}])])
def test_a_record_of_a_later_version_stops_a_typed_view(new_log: Callable[..., Any], value: bytes) -> None:
    """It vanished, so that what followed was stale."""
    log = new_log()
    log.new_epoch(1)
    log.append_raw(value)
    log.write()
    assert [row["type"] for row in read(log.folder)] == ["Unknown"]
    for tolerant in (False, True):
        with pytest.raises(LaterVersionError, match=r"offset 1, of type .* read view=records"):
            read(log.folder, view="partitions", failOnDataLoss=not tolerant)


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


def test_reading_a_folder_imports_no_client(sample: Any) -> None:
    """Spark starts several Python processes for an action, and gives each about ten seconds."""
    program = """
import sys
from quorate.spark_source.source import MetadataLogSource
source = MetadataLogSource({"path": sys.argv[1]})
reader = source.reader(source.schema())
assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
print(sorted({"trio", "kio", "hypothesis", "prometheus_client", "typer"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(sample.folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_missing_segment_in_the_middle_is_data_loss(new_log: Callable[..., Any], tell: Any) -> None:
    log = new_log(segment_bytes=400)
    tell(log)
    log.write()
    sorted(log.log_folder.glob("*.log"))[1].unlink()
    with pytest.raises(DataLossError, match="are gone"):
        read(log.folder)
    assert read(log.folder, failOnDataLoss=False)
