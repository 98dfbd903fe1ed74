"""A real Spark, one session for all."""

import json
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from quorate.broker.metadata.metadata_records import NoOp, PartitionChange
from quorate.log.batches.batch import CRC_START, HEADER_BYTES
from quorate.spark_source import leadership_history

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
    created = frame.where("type = 'Topic' and topic = 'orders'").collect()
    assert json.loads(created[0]["record"])["name"] == "orders"


def test_one_data_frame_counts_the_same_after_the_log_grew(spark: SparkSession, sample: Any) -> None:
    frame = spark.read.format("quorate").load(str(sample.folder))
    before = frame.count()
    sample.append(NoOp())
    sample.write()
    assert frame.where("offset >= 0").count() == before
    assert spark.read.format("quorate").load(str(sample.folder)).count() == before + 1


def test_the_leadership_history_shows_each_leader_with_its_times(
    spark: SparkSession, session_sample: Any
) -> None:
    history = leadership_history(spark, path=str(session_sample.folder), topic="orders")
    rows = [row for row in history.collect() if row["partition"] == 0]
    assert [(row["leader"], row["leader_epoch"], row["isr"]) for row in rows] == [
        (1, 0, [1, 2]),
        (2, 1, [2]),
        (2, 1, [2, 1]),
        (1, 2, [2, 1]),
    ]
    assert [row["valid_to"] for row in rows] == [*(row["valid_from"] for row in rows[1:]), None]
    elections = leadership_history(
        spark, path=str(session_sample.folder), topic="orders", elections_only=True
    ).where("partition = 0")
    assert [(row["leader"], row["leader_epoch"]) for row in elections.collect()] == [(1, 0), (2, 1), (1, 2)]
    (removed,) = leadership_history(spark, path=str(session_sample.folder), topic="logs").collect()
    assert removed["valid_to"] is not None


def test_a_wrong_option_fails_with_its_message(spark: SparkSession, session_sample: Any) -> None:
    with pytest.raises(Exception, match="unknown option 'startingoffset'"):
        spark.read.format("quorate").option("startingOffset", 1).load(str(session_sample.folder)).count()


def test_a_live_cluster_is_read_in_the_workers(spark: SparkSession, sample: Any, new_broker: Any) -> None:
    brokers = [new_broker(sample), new_broker(sample)]
    frame = (
        spark.read.format("quorate")
        .option("bootstrapServers", ",".join(str(broker.address) for broker in brokers))
        .option("minPartitions", 2)
        .load()
    )
    assert offsets(frame) == [offset for offset, *_ in sample.records]


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
