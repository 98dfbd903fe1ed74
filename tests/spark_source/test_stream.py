"""The streaming reader, called as Spark calls it, without Spark."""

import json
import pickle
import shutil
import uuid
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from quorate.broker.metadata.metadata_records import Config, ConfigType, NoOp, Topic
from quorate.log.batches.batch import read_header
from quorate.spark_source import MetadataLogSource, stream_reader
from quorate.spark_source.spark_errors import DataLossError, OptionError, SourceError
from quorate.spark_source.stream_reader import MetadataStreamReader
from tests.spark_source.conftest import in_order, read_rows

PARTITIONS = {"view": "partitions", "readChangeFeed": True}


def position(log: Any, offset: int) -> dict[str, object]:
    """A position as Spark has it in a checkpoint."""
    batches = [read_header(data, 0) for base, _, data in log.batches if base < offset]
    return {
        "offset": offset,
        "epoch": batches[-1].leader_epoch,
        "batchCrc": batches[-1].crc,
        "cluster": log.cluster,
        "view": "records",
        "opening": "",
    }


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


def end_of(log: Any, **options: object) -> Any:
    """The position of a stream that has read everything."""
    reader = stream(log, **options)
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
        '{"offset": 0, "epoch": -1, "batchCrc": -1, "cluster": "hIYbZ8XNQqiEnzUO1CPmSw", '
        '"view": "records", "opening": ""}'
    )
    assert end_of(sample) == position(sample, sample.end)
    assert reader.reportLatestOffset()["offset"] == sample.end


@pytest.mark.slow
@settings(max_examples=25)
@given(
    limit=st.integers(1, 30), tasks=st.integers(1, 4), view=st.sampled_from(["records", "decoded", "changes"])
)
def test_a_stream_in_any_steps_reads_what_a_batch_reads(
    session_sample: Any, limit: int, tasks: int, view: str
) -> None:
    rows, end, batches = run(session_sample, maxOffsetsPerTrigger=limit, minPartitions=tasks, view=view)
    order = in_order if view == "changes" else by_offset
    assert order(rows) == order(batch_rows(session_sample, view=view))
    assert end["offset"] == session_sample.end
    assert 1 <= batches <= session_sample.end


@pytest.mark.parametrize("limit", [1, 3, 4, 9])
def test_a_stream_cuts_no_record_batch(new_log: Callable[..., Any], limit: int) -> None:
    """What was appended together took effect together."""
    log = new_log()
    log.new_epoch(1)
    for count in (3, 1, 7, 2):
        log.append(*[NoOp()] * count)
    log.write()
    reader = stream(log, maxOffsetsPerTrigger=limit)
    ends = [stored(reader.initialOffset())]
    while (end := stored(reader.latestOffset(ends[-1], reader.getDefaultReadLimit()))) != ends[-1]:
        ends.append(end)
    whole = {0, *(base for base, _, _ in log.batches), log.end}
    assert {each["offset"] for each in ends} <= whole
    sizes = [after["offset"] - before["offset"] for before, after in pairwise(ends)]
    assert all(size <= max(limit, 7) for size in sizes)
    assert ends[-1]["offset"] == log.end


def by_offset(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: int(row["offset"]))


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("view", ["topics", "configs", "brokers", "features", "quorum", "partitions"])
def test_records_without_news_for_the_view_hold_up_no_stream(
    session_sample: Any, view: str, limit: int
) -> None:
    """A stream whose next `maxOffsetsPerTrigger` records were of other views stayed there for ever."""
    options = {"view": view, "readChangeFeed": True}
    rows, _, _ = run(session_sample, maxOffsetsPerTrigger=limit, **options)
    assert in_order(rows) == in_order(batch_rows(session_sample, **options))
    assert rows


def test_news_of_other_views_make_no_batch(sample: Any) -> None:
    options = {"view": "configs", "readChangeFeed": True}
    reader = stream(sample, **options)
    _, end, _ = run(sample, **options)
    for _ in range(3):
        sample.append(NoOp(), Topic(name=f"t{sample.end}", topic_id=uuid.UUID(int=sample.end)))
        sample.write()
        assert reader.latestOffset(end, ReadAllAvailable()) == end
    sample.append(
        Config(resource_type=ConfigType.TOPIC, resource_name="orders", name="retention.ms", value="1")
    )
    sample.write()
    rows, _, batches = run(sample, end, **options)
    assert ([row["name"] for row in rows], batches) == (["retention.ms"], 1)


def test_a_batch_waits_for_enough_offsets_or_long_enough(
    sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(stream_reader, "time", SimpleNamespace(monotonic=lambda: now[0]))
    end = end_of(sample)
    reader = stream(sample, minOffsetsPerTrigger=10, maxTriggerDelay="5s")
    sample.append(*[NoOp()] * 9)
    sample.write()
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    now[0] += 4.9
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    now[0] += 0.2
    delayed = stored(reader.latestOffset(end, ReadAllAvailable()))
    assert delayed["offset"] == sample.end
    sample.append(*[NoOp()] * 10)
    sample.write()
    enough = stored(reader.latestOffset(delayed, ReadAllAvailable()))
    assert enough["offset"] == sample.end
    # A restart begins to wait anew, and AvailableNow takes the rest at once.
    sample.append(NoOp())
    sample.write()
    again = stream(sample, minOffsetsPerTrigger=10, maxTriggerDelay="5s")
    assert again.latestOffset(enough, ReadAllAvailable()) == enough
    rows, _, _ = run(sample, enough, minOffsetsPerTrigger=10)
    assert [row["offset"] for row in rows] == [sample.end - 1]


def test_a_stream_goes_on_after_a_restart_where_it_was(sample: Any) -> None:
    first, at, _ = run(sample, **PARTITIONS, maxOffsetsPerTrigger=5)
    sample.append(NoOp())
    sample.new_epoch(3)
    sample.append(*[record for *_, record in sample.records if type(record).__name__ == "PartitionChange"])
    sample.write()
    second, _, _ = run(sample, at, **PARTITIONS, maxOffsetsPerTrigger=5)
    assert first + second == batch_rows(sample, **PARTITIONS)
    assert len(second) == 6


@pytest.mark.parametrize(
    "option", [{}, {"startingOffsets": "latest"}, {"startingOffsets": 3}, {"startingTimestamp": 0}], ids=str
)
def test_a_checkpoint_wins_over_the_options_of_the_start(sample: Any, option: dict[str, object]) -> None:
    half = position(sample, 12)
    given = {"path": str(sample.folder)} | {name: str(value) for name, value in option.items()}
    source = MetadataLogSource(given)
    reader = source.streamReader(source.schema())
    end = stored(reader.latestOffset(half, ReadAllAvailable()))
    rows = rows_between(reader, half, end, sample)
    assert [row["offset"] for row in rows] == [offset for offset, *_ in sample.records if offset >= 12]


def test_a_stream_from_the_latest_never_shows_what_was_before(sample: Any) -> None:
    begun = sample.end
    options = {"startingOffsets": "latest", "maxOffsetsPerTrigger": 1}
    at = stored(stream(sample, **options).initialOffset())
    seen: list[int] = []
    for _ in range(4):
        sample.append(NoOp(), NoOp())
        sample.write()
        reader = stream(sample, **options)
        end = stored(reader.latestOffset(at, reader.getDefaultReadLimit()))
        seen += [row["offset"] for row in rows_between(reader, at, end, sample, **options)]
        at = end
    assert seen == list(range(begun, begun + 8))


def test_ranges_of_control_records_are_no_loss_and_make_no_batch(
    new_log: Callable[..., Any],
) -> None:
    log = new_log()
    for epoch in range(3):
        log.new_epoch(1 + epoch)
    log.append(NoOp())
    log.new_epoch(1)
    log.write()
    rows, end, batches = run(log, maxOffsetsPerTrigger=1)
    assert ([row["offset"] for row in rows], end["offset"], batches) == ([3], 4, 1)
    rows, _, batches = run(log, maxOffsetsPerTrigger=1, view="decoded")
    assert ([row["offset"] for row in rows], batches) == ([3], 1)
    rows, end, batches = run(log, maxOffsetsPerTrigger=1, includeControl=True)
    assert ([row["offset"] for row in rows], end["offset"], batches) == ([0, 1, 2, 3, 4], 5, 5)
    assert batch_rows(log, startingOffsets=0, endingOffsets=3) == []
    assert batch_rows(log, startingOffsets=4) == []
    rows, _, batches = run(log, view="topics", readChangeFeed=True)
    assert (rows, batches) == ([], 0)


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
    beyond = position(sample, sample.end)
    assert reader.latestOffset(beyond, ReadAllAvailable()) == beyond


def test_available_now_fails_if_the_log_became_shorter_than_it_was_when_it_began(
    sample: Any, new_log: Callable[..., Any], tell: Any
) -> None:
    """It was done early, without a word."""
    reader = stream(sample)
    reader.prepareForTriggerAvailableNow()
    target = sample.end
    middle = stored(reader.latestOffset(stored(reader.initialOffset()), ReadMaxRows(8)))
    shorter = new_log()
    tell(shorter)
    del shorter.batches[-2:]
    shorter.end = 23
    shorter.write()
    shutil.rmtree(sample.folder)
    shorter.folder.rename(sample.folder)
    with pytest.raises(DataLossError, match=f"ends at 23, and ended at {target} when the query began"):
        reader.latestOffset(middle, ReadMaxRows(100))


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
    assert [row["recordType"] for row in rows_between(reader, first, end, sample)] == ["NoOp"]


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
    # It has grown beyond the checkpoint.
    assert other.end > end["offset"]
    with pytest.raises(DataLossError, match=r"of epoch 2 and .*, and is of epoch 5 "):
        stream(other).latestOffset(end, ReadAllAvailable())
    with pytest.raises(DataLossError, match="replaced or cut"):
        stream(other).partitions(stored(stream(other).initialOffset()), end)


def test_a_log_made_anew_with_the_same_epochs_is_refused_once_it_is_long_enough(
    sample: Any, new_log: Callable[..., Any], tell: Any
) -> None:
    """Its first records were skipped, in silence."""
    end = end_of(sample)
    other = new_log()
    tell(other)
    base, _, _ = other.batches.pop()
    count, other.end = other.end - base, base
    other.append(*[NoOp()] * count)
    other.write()
    assert other.end == end["offset"]
    with pytest.raises(DataLossError, match=r"of epoch 2 and .*, and is of epoch 2 .* replaced or cut"):
        stream(other).latestOffset(end, ReadAllAvailable())


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
    rows = rows_between(reader, back, last, other, failOnDataLoss=False)
    assert [row["recordType"] for row in rows] == ["NoOp"]


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
    beyond = position(sample, 5_000_000)
    source = MetadataLogSource(options)
    with pytest.raises(DataLossError, match=f"is at offset 5000000, and the log ends at {sample.end}"):
        source.streamReader(source.schema()).latestOffset(beyond, ReadAllAvailable())
    tolerant = MetadataLogSource(options | {"failOnDataLoss": "false"})
    reader = tolerant.streamReader(tolerant.schema())
    assert reader.latestOffset(beyond, ReadAllAvailable())["offset"] == sample.end


def test_a_running_stream_needs_no_beginning_that_it_has_read(new_log: Callable[..., Any], tell: Any) -> None:
    log = new_log(segment_bytes=400)
    tell(log)
    log.write()
    whole = batch_rows(log, **PARTITIONS)
    reader = stream(log, **PARTITIONS, minPartitions=4)
    start = stored(reader.initialOffset())
    middle = stored(reader.latestOffset(start, ReadMaxRows(log.end - 8)))
    rows = rows_between(reader, start, middle, log, **PARTITIONS)
    sorted(log.log_folder.glob("*.log"))[0].unlink()
    end = stored(reader.latestOffset(middle, ReadAllAvailable()))
    assert in_order(rows + rows_between(reader, middle, end, log, **PARTITIONS)) == in_order(whole)
    # The worker holds the state at the end now, and can't make that of the middle again.
    with pytest.raises(DataLossError, match="no snapshot is left of what was before"):
        rows_between(reader, middle, end, log, **PARTITIONS)
    with pytest.raises(DataLossError, match="the state at offset"):
        stream(log, **PARTITIONS).partitions(middle, end)


def test_a_checkpoint_of_another_view_is_refused(sample: Any) -> None:
    for view in ("decoded", "changes"):
        with pytest.raises(OptionError, match=f"view=records, and the query reads view={view}"):
            stream(sample, view=view).latestOffset(end_of(sample), ReadAllAvailable())


def test_a_foreign_checkpoint_is_named(sample: Any) -> None:
    with pytest.raises(SourceError, match="the checkpoint belongs to another"):
        stream(sample).latestOffset({"__cluster_metadata": {"0": 5}}, ReadAllAvailable())
    older = {"offset": 5, "epoch": 1, "cluster": sample.cluster}
    with pytest.raises(SourceError, match="older version of quorate: use a new one"):
        stream(sample).latestOffset(older, ReadAllAvailable())


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
    assert [(row["recordType"], row["epoch"]) for row in more] == [("NoOp", 3)]
