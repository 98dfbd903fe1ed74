"""The streaming reader, called as Spark calls it, without Spark."""

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from quorate.broker.metadata.metadata_records import NoOp
from quorate.spark_source import MetadataLogSource
from quorate.spark_source.spark_errors import DataLossError, OptionError, SourceError
from quorate.spark_source.stream_reader import MetadataStreamReader
from tests.spark_source.conftest import read_rows


def stream(log: Any, **options: object) -> MetadataStreamReader:
    given = {"path": str(log.folder), "startingOffsets": "earliest"}
    source = MetadataLogSource(given | {name: str(value) for name, value in options.items()})
    return source.streamReader(source.schema())


def stored(offset: Any) -> Any:
    """Through Spark's checkpoint."""
    return json.loads(json.dumps(offset))


def rows_between(
    reader: MetadataStreamReader, start: Any, end: Any, log: Any, **options: object
) -> list[Any]:
    """Planned by `reader`, read by another that was made elsewhere, as Spark does."""
    parts = [pickle.loads(pickle.dumps(part)) for part in reader.partitions(start, end)]
    other = pickle.loads(pickle.dumps(stream(log, **options)))
    return [row for part in parts for batch in other.read(part) for row in batch.to_pylist()]


def end_of(log: Any) -> Any:
    """The position of a stream that has read everything."""
    reader = stream(log)
    return stored(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))


def run(log: Any, position: Any = None, **options: object) -> tuple[list[Any], Any, int]:
    """An AvailableNow query: its rows, its last offset, its number of batches."""
    reader = stream(log, **options)
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    position = stored(reader.initialOffset()) if position is None else position
    rows: list[Any] = []
    batches = 0
    while (end := stored(reader.latestOffset(position, limit))) != position:
        rows += rows_between(reader, position, end, log, **options)
        reader.commit(end)
        position = end
        batches += 1
    reader.stop()
    return rows, position, batches


def batch_rows(log: Any, **options: object) -> list[Any]:
    return read_rows(path=log.folder, **options)


def test_offsets_have_fixed_keys_in_a_fixed_order(sample: Any) -> None:
    reader = stream(sample)
    assert json.dumps(reader.initialOffset()) == (
        '{"offset": 0, "epoch": -1, "cluster": "hIYbZ8XNQqiEnzUO1CPmSw"}'
    )
    assert end_of(sample) == {"offset": sample.end, "epoch": 2, "cluster": sample.cluster}
    assert reader.reportLatestOffset()["offset"] == sample.end


@settings(max_examples=25)
@given(limit=st.integers(1, 30), tasks=st.integers(1, 4), view=st.sampled_from(["records", "partitions"]))
def test_a_stream_in_any_steps_reads_what_a_batch_reads(
    session_sample: Any, limit: int, tasks: int, view: str
) -> None:
    rows, position, batches = run(session_sample, maxOffsetsPerTrigger=limit, minPartitions=tasks, view=view)
    assert rows == batch_rows(session_sample, view=view)
    assert position["offset"] == session_sample.end
    assert batches == -(-session_sample.end // limit)


def test_a_stream_goes_on_after_a_restart_where_it_was(sample: Any) -> None:
    first, position, _ = run(sample, view="partitions", maxOffsetsPerTrigger=5)
    sample.append(NoOp())
    sample.new_epoch(3)
    sample.append(*[record for *_, record in sample.records if type(record).__name__ == "PartitionChange"])
    sample.write()
    second, _, _ = run(sample, position, view="partitions", maxOffsetsPerTrigger=5)
    assert first + second == batch_rows(sample, view="partitions")
    assert len(second) == 3


def test_the_batch_that_failed_is_planned_again_before_anything_else(sample: Any) -> None:
    reader = stream(sample, maxOffsetsPerTrigger=7)
    start = stored(reader.initialOffset())
    middle = stored(reader.latestOffset(start, ReadMaxRows(7)))
    end = stored(reader.latestOffset(middle, ReadMaxRows(7)))
    planned = reader.partitions(middle, end)
    sample.append(NoOp())
    sample.write()
    restarted = stream(sample, maxOffsetsPerTrigger=7)
    assert pickle.dumps(restarted.partitions(middle, end)) == pickle.dumps(planned)
    assert reader.partitions(start, middle)[0].start == 0


def test_available_now_ends_where_the_log_did_when_it_began(sample: Any) -> None:
    reader = stream(sample)
    reader.prepareForTriggerAvailableNow()
    target = sample.end
    sample.append(NoOp())
    sample.write()
    end = stored(reader.latestOffset(stored(reader.initialOffset()), ReadAllAvailable()))
    assert end["offset"] == target
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    beyond = {"offset": sample.end, "epoch": 2, "cluster": sample.cluster}
    assert reader.latestOffset(beyond, ReadAllAvailable()) == beyond


def test_the_read_limit_is_the_option(sample: Any) -> None:
    assert stream(sample, maxOffsetsPerTrigger=9).getDefaultReadLimit() == ReadMaxRows(9)
    assert stream(sample).getDefaultReadLimit() == ReadAllAvailable()
    reader = stream(sample)
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger"):
        reader.latestOffset(reader.initialOffset(), ReadMaxBytes(10))


def test_a_new_stream_begins_at_the_end_unless_told_otherwise(sample: Any) -> None:
    source = MetadataLogSource({"path": str(sample.folder)})
    reader = source.streamReader(source.schema())
    first = reader.initialOffset()
    assert first["offset"] == sample.end
    sample.append(NoOp())
    sample.write()
    assert reader.initialOffset() == first
    end = reader.latestOffset(first, ReadAllAvailable())
    assert [row["type"] for row in rows_between(reader, first, end, sample)] == ["NoOp"]


def test_a_batch_without_new_records_has_no_partition(sample: Any) -> None:
    reader = stream(sample)
    end = end_of(sample)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert reader.partitions(end, end) == []
    assert list(reader.read(InputPartition(None))) == []


def test_another_clusters_log_is_refused(sample: Any, new_log: Callable[..., Any], tell: Any) -> None:
    end = end_of(sample)
    other = new_log(cluster="AAAAAAAAAAAAAAAAAAAAAQ")
    tell(other)
    other.append(NoOp())
    other.write()
    with pytest.raises(DataLossError, match=f"cluster {sample.cluster}"):
        stream(other).latestOffset(end, ReadAllAvailable())
    tolerant = stream(other, failOnDataLoss=False)
    assert tolerant.latestOffset(end, ReadAllAvailable())["offset"] == other.end


def test_a_log_with_another_past_is_refused(sample: Any, new_log: Callable[..., Any], tell: Any) -> None:
    end = end_of(sample)
    other = new_log()
    other.epoch = 3
    tell(other)
    other.append(NoOp())
    other.write()
    with pytest.raises(DataLossError, match="epoch 2, and is of epoch 5"):
        stream(other).latestOffset(end, ReadAllAvailable())
    with pytest.raises(DataLossError, match="replaced or cut"):
        stream(other).partitions(stored(stream(other).initialOffset()), end)


def test_a_log_that_became_shorter_is_refused(sample: Any, new_log: Callable[..., Any]) -> None:
    end = end_of(sample)
    other = new_log()
    other.new_epoch(1)
    other.write()
    with pytest.raises(DataLossError, match="the log ends at 1"):
        stream(other).latestOffset(end, ReadAllAvailable())


def test_with_tolerated_loss_a_stream_continues_at_the_end_of_a_shorter_log(
    sample: Any, new_log: Callable[..., Any]
) -> None:
    end = end_of(sample)
    other = new_log()
    other.new_epoch(1)
    other.write()
    reader = stream(other, failOnDataLoss=False)
    back = stored(reader.latestOffset(end, ReadAllAvailable()))
    assert back["offset"] == other.end
    assert reader.partitions(end, back) == []
    other.append(NoOp())
    other.write()
    last = stored(reader.latestOffset(back, ReadAllAvailable()))
    assert [row["type"] for row in rows_between(reader, back, last, other, failOnDataLoss=False)] == ["NoOp"]


def test_a_checkpoint_beyond_a_live_clusters_end_is_refused_once_no_broker_has_more(
    sample: Any, new_broker: Callable[..., Any]
) -> None:
    """It waited for ever, in silence."""
    brokers = [new_broker(sample), new_broker(sample)]
    options = {
        "bootstrapServers": ",".join(str(broker.address) for broker in brokers),
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "1",
    }
    beyond = {"offset": 5_000_000, "epoch": 2, "cluster": sample.cluster}
    source = MetadataLogSource(options)
    with pytest.raises(DataLossError, match=f"is at offset 5000000, and the log ends at {sample.end}"):
        source.streamReader(source.schema()).latestOffset(beyond, ReadAllAvailable())
    tolerant = MetadataLogSource(options | {"failOnDataLoss": "false"})
    reader = tolerant.streamReader(tolerant.schema())
    assert reader.latestOffset(beyond, ReadAllAvailable())["offset"] == sample.end


def test_a_running_stream_of_a_typed_view_needs_no_beginning_that_it_has_read(
    new_log: Callable[..., Any], tell: Any
) -> None:
    log = new_log(segment_bytes=400)
    tell(log)
    log.write()
    whole = batch_rows(log, view="partitions")
    reader = stream(log, view="partitions", minPartitions=4)
    start = stored(reader.initialOffset())
    middle = stored(reader.latestOffset(start, ReadMaxRows(log.end - 8)))
    rows = rows_between(reader, start, middle, log, view="partitions")
    sorted(log.log_folder.glob("*.log"))[0].unlink()
    end = stored(reader.latestOffset(middle, ReadAllAvailable()))
    assert rows + rows_between(reader, middle, end, log, view="partitions") == whole
    with pytest.raises(DataLossError, match="a snapshot has taken the place"):
        stream(log, view="partitions").partitions(middle, end)


def test_a_foreign_checkpoint_is_named(sample: Any) -> None:
    with pytest.raises(SourceError, match="the checkpoint belongs to another"):
        stream(sample).latestOffset({"__cluster_metadata": {"0": 5}}, ReadAllAvailable())


def test_a_stream_follows_the_cluster_past_a_dead_and_a_lagging_broker(
    sample: Any, new_broker: Callable[..., Any]
) -> None:
    first, second = new_broker(sample), new_broker(sample)
    options = {
        "bootstrapServers": f"{first.address},{second.address}",
        "startingOffsets": "earliest",
        "fetchOffset.retryIntervalMs": "1",
    }
    source = MetadataLogSource(options)
    reader = source.streamReader(source.schema())
    start = stored(reader.initialOffset())
    end = stored(reader.latestOffset(start, ReadAllAvailable()))
    parts = reader.partitions(start, end)
    # Between two triggers: the one that was asked lags behind what is known to be committed.
    first.committed = 3
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [offset for offset, _, _, _ in sample.records]
    first.stop()
    sample.new_epoch(2)
    sample.append(NoOp())
    last = stored(reader.latestOffset(end, ReadAllAvailable()))
    more = [
        row for part in reader.partitions(end, last) for each in reader.read(part) for row in each.to_pylist()
    ]
    assert [(row["type"], row["epoch"]) for row in more] == [("NoOp", 3)]
