"""A real Spark, one session for all."""

from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from written_log import ORDERS

from quorate.broker.metadata.metadata_records import NoOp, PartitionChange, Topic
from quorate.broker.metadata.record_codec import decode
from quorate.log.batches.batch import CRC_START, HEADER_BYTES
from quorate.spark_source.source_options import ViewName

pytestmark = pytest.mark.spark


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in frame.select("offset").collect())


def undecodable(batch: bytes) -> bytes:
    """The batch with a valid checksum over a first record that is no CBOR."""
    spoiled = bytearray(batch)
    spoiled[batch.index(0x83, HEADER_BYTES)] = 0xFF
    spoiled[17:21] = crc32c(bytes(spoiled[CRC_START:])).to_bytes(4, "big")
    return bytes(spoiled)


def test_a_batch_query_reads_the_folder(spark: SparkSession, session_sample: Any) -> None:
    frame = spark.read.format("quorate").option("minPartitions", 3).load(str(session_sample.folder))
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.orderBy("offset").collect()
    assert [row["offset"] for row in rows] == [offset for offset, *_ in session_sample.records]
    assert [row["timestamp"].timestamp() * 1000 for row in rows] == [
        at for _, _, at, _ in session_sample.records
    ]
    (created,) = frame.where("recordType = 'Topic' and offset < 10").collect()
    assert decode(bytes(created["value"])) == Topic(name="orders", topic_id=ORDERS)


@pytest.mark.slow
def test_one_data_frame_counts_the_same_after_the_log_grew(spark: SparkSession, sample: Any) -> None:
    frame = spark.read.format("quorate").load(str(sample.folder))
    before = frame.count()
    sample.append(NoOp())
    sample.write()
    assert frame.where("offset >= 0").count() == before
    assert spark.read.format("quorate").load(str(sample.folder)).count() == before + 1


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("view", [view.value for view in ViewName])
def test_spark_takes_every_view_with_its_schema(spark: SparkSession, session_sample: Any, view: str) -> None:
    reader = spark.read.format("quorate").option("view", view).option("minPartitions", 2)
    feeds = [reader] if view in ("records", "decoded") else [reader, reader.option("readChangeFeed", True)]
    for each in feeds:
        rows = each.load(str(session_sample.folder)).collect()
        # The sample has no quotas.
        assert rows or view == "quotas"


@pytest.mark.slow
def test_the_state_is_that_of_the_moment(spark: SparkSession, session_sample: Any) -> None:
    def leaders(**options: object) -> list[tuple[int, int]]:
        frame = spark.read.format("quorate").option("view", "partitions").options(**options)  # type: ignore[arg-type]
        rows = frame.load(str(session_sample.folder)).where("topic = 'orders'").orderBy("partition_id")
        return [(row["leader"], row["leader_epoch"]) for row in rows.collect()]

    assert leaders(versionAsOf=13) == [(1, 0), (2, 0), (3, 0)]
    assert leaders(versionAsOf=14) == [(2, 1), (2, 0), (3, 0)]
    assert leaders() == [(1, 2), (2, 0), (3, 0)]
    at = {offset: ms for offset, _, ms, _ in session_sample.records}
    assert leaders(timestampAsOf=at[14]) == leaders(versionAsOf=14)


def test_the_change_feed_shows_each_leader_in_order(spark: SparkSession, session_sample: Any) -> None:
    rows = (
        spark.read.format("quorate")
        .option("view", "partitions")
        .option("readChangeFeed", True)
        .load(str(session_sample.folder))
        .where("topic = 'orders' and partition_id = 0 and _change_type <> 'update_preimage'")
        .orderBy("offset", "row")
        .collect()
    )
    assert [(row["offset"], row["leader"], row["leader_epoch"], row["isr"]) for row in rows] == [
        (9, 1, 0, [1, 2]),
        (14, 2, 1, [2]),
        (15, 2, 1, [2]),
        (21, 2, 1, [2, 1]),
        (22, 1, 2, [2, 1]),
    ]


@pytest.mark.slow
def test_filters_that_are_pushed_change_no_result(spark: SparkSession, session_sample: Any) -> None:
    for view, column, condition in [
        ("records", "offset", "offset > 14 and recordType <> 'NoOp'"),
        ("decoded", "offset", "type in ('Topic', 'Partition') and timestamp > '2023-11-14 22:13:25'"),
        ("changes", "offset", "partition.topic = 'orders' and partition.partition_id = 0"),
        ("partitions", "partition_id", "topic <=> 'orders' and partition_id >= 1"),
    ]:
        frame = spark.read.format("quorate").option("view", view)
        pushed = frame.option("pushFilters", True).load(str(session_sample.folder))
        plain = frame.option("pushFilters", False).load(str(session_sample.folder)).cache()
        wanted = sorted(row[column] for row in plain.where(condition).collect())
        assert sorted(row[column] for row in pushed.where(condition).collect()) == wanted, view
        assert wanted


def test_a_wrong_option_fails_with_its_message(spark: SparkSession, session_sample: Any) -> None:
    with pytest.raises(Exception, match="unknown option 'startingoffset'"):
        spark.read.format("quorate").option("startingOffset", 1).load(str(session_sample.folder)).count()


@pytest.mark.slow
def test_a_live_cluster_is_read_in_the_workers(spark: SparkSession, sample: Any, new_broker: Any) -> None:
    brokers = [new_broker(sample), new_broker(sample)]
    frame = (
        spark.read.format("quorate")
        .option("bootstrapServers", ",".join(str(broker.address) for broker in brokers))
        .option("minPartitions", 2)
        .load()
    )
    assert offsets(frame) == [offset for offset, *_ in sample.records]


@pytest.mark.slow
def test_a_stream_that_was_killed_goes_on_exactly_once(
    spark: SparkSession, sample: Any, tmp_path: Path
) -> None:
    source = (
        spark.readStream.format("quorate")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 6)
    )

    def run(*, until_failure: bool = False) -> None:
        query = (
            source.load(str(sample.folder))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        if until_failure:
            with pytest.raises(StreamingQueryException, match="the record at offset"):
                query.awaitTermination()
        else:
            query.awaitTermination()

    # One record can't be decoded: its task fails after Spark has logged the offsets of the batch.
    file = next(iter(sample.log_folder.glob("*.log")))
    whole = file.read_bytes()
    batch = next(batch for base, _, batch in sample.batches if base >= 14)
    file.write_bytes(whole.replace(batch, undecodable(batch)))
    run(until_failure=True)
    seen = offsets(spark.read.parquet(str(tmp_path / "rows")))
    assert 0 < len(seen) < len(sample.records)
    file.write_bytes(whole)
    sample.new_epoch(3)
    sample.append(*[record for *_, record in sample.records if isinstance(record, PartitionChange)])
    sample.write()
    run()
    assert offsets(spark.read.parquet(str(tmp_path / "rows"))) == [offset for offset, *_ in sample.records]
