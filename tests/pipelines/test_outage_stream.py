"""The fold over micro-batches: any cut gives the intervals of one batch query."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from quorate.pipelines.outage_stream import advance, follow_outages, read_outages
from quorate.pipelines.tables import all_tables
from tests.kit.change_feed import SCHEMA, ChangeFeed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
OUTAGES = ("under_replicated", "under_min_isr", "leaderless")
COLUMNS = (
    *("topic_id", "partition_id", "topic", "from_offset", "valid_from", "reason", "record_type"),
    *("to_offset", "valid_to", "ended_by", "duration_ms", "smallest_isr", "causes"),
)
Frame = Callable[..., DataFrame]


def told(random: Random) -> ChangeFeed:
    """A story of brokers that come and go, of lagging replicas, settings, topics and restarts."""
    feed = ChangeFeed()
    feed.elect_controller(1)
    for broker in (1, 2, 3):
        feed.register(broker)
        feed.unfence(broker)
    feed.create("orders", [1, 2, 3], [2, 3, 1])
    for number in range(40):
        feed.wait(random.choice((-30, 1, 5)))
        broker = random.choice((1, 2, 3))
        fenced = feed.brokers[broker]["fenced"]
        match random.randrange(7):
            case 0 if not fenced:
                feed.fence(broker, "BROKER_FENCED", last_heard=feed.now)
            case 1 if fenced:
                feed.register(broker)
            case 2 if fenced:
                feed.unfence(broker)
            case 3:
                name = random.choice(("", "orders"))
                kind = "TOPIC" if name else "BROKER"
                held = (kind, name, "min.insync.replicas") in feed.configs
                value = None if held and random.random() < 0.5 else random.choice(("1", "2", "3"))
                feed.configure(kind, name, "min.insync.replicas", value)
            case 4 if number % 5 == 0:
                feed.restart()
            case 5 if number % 3 == 0 and "logs" in feed.topics:
                feed.remove("logs")
            case 5 if "logs" not in feed.topics:
                feed.create("logs", [3, 1])
            case _:
                (topic, partition), state = random.choice(
                    sorted(feed.partitions.items(), key=lambda each: each[0])
                )
                isr = random.sample(state["replicas"], random.randint(1, len(state["replicas"])))
                leader = random.choice((-1, *isr))
                feed.change(topic, partition, "REPLICA_LAGGED", isr=isr, leader=leader)
    return feed


def cut(feed: ChangeFeed, random: Random, parts: int) -> list[list[dict[str, Any]]]:
    """The rows in parts, each of which ends with a record batch."""
    ends = [
        at
        for at in range(1, len(feed.rows))
        if feed.rows[at]["offset"] != feed.rows[at - 1]["offset"]
        and (
            feed.rows[at]["batch_offset"] is None
            or feed.rows[at]["batch_offset"] != feed.rows[at - 1]["batch_offset"]
        )
    ]
    chosen = [0, *sorted(random.sample(ends, parts - 1)), len(feed.rows)]
    return [feed.rows[begin:end] for begin, end in pairwise(chosen)]


def rows_of(frame: DataFrame) -> list[Any]:
    return frame.select(*COLUMNS).orderBy("topic_id", "partition_id", "from_offset").collect()


def checkpointed(spark: SparkSession, tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The tables, computed: a plan of all batches would grow."""
    return {name: spark.createDataFrame(each.collect(), each.schema) for name, each in tables.items()}


@pytest.mark.parametrize("seed", range(3))
def test_any_cut_gives_the_intervals_of_one_batch_query(spark: SparkSession, frame: Frame, seed: int) -> None:
    random = Random(seed)
    feed = told(random)
    expected = all_tables(frame(feed))
    carried: dict[str, DataFrame] = {}
    over: dict[str, list[Any]] = {name: [] for name in OUTAGES}
    for rows in cut(feed, random, parts=4):
        carried = checkpointed(spark, advance(carried, frame(feed, rows)))
        for name in OUTAGES:
            over[name] += rows_of(carried[name].where("to_offset is not null"))
    for name in OUTAGES:
        still = rows_of(carried[name].where("to_offset is null"))
        seen = sorted(
            over[name] + still, key=lambda row: (row["topic_id"], row["partition_id"], row["from_offset"])
        )
        assert seen == rows_of(expected[name]), f"{name} of seed {seed}"


def test_whole_partitions_and_brokers_in_service_are_not_carried(feed: ChangeFeed, frame: Frame) -> None:
    feed.create("orders", [1, 2], [2, 1])
    feed.change("orders", 1, "REPLICA_LAGGED", isr=[2])
    feed.configure("TOPIC", "orders", "retention.ms", "1000")
    after = advance({}, frame(feed))
    assert [row["partition_id"] for row in after["partitions"].collect()] == [1]
    assert after["brokers"].collect() == []
    assert after["configs"].collect() == []


@pytest.fixture
def parts(spark: SparkSession, feed: ChangeFeed, frame: Frame, tmp_path: Path) -> Path:
    """A folder of files that a stream reads one by one."""
    feed.create("orders", [1, 2, 3])
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
    feed.wait(5)
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1, 2])
    feed.wait(5)
    feed.change("orders", 0, "REPLICA_CAUGHT_UP", isr=[1, 2, 3])
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1, 3])
    folder = tmp_path / "changes"
    for number, rows in enumerate(cut(feed, Random(1), parts=4)):
        frame(feed, rows).coalesce(1).write.parquet(str(folder / str(number)))
    return folder


def stream(spark: SparkSession, parts: Path, folder: Path) -> None:
    changes = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(parts / "*"))
    follow_outages(changes, str(folder)).trigger(availableNow=True).start().awaitTermination()


def test_a_stream_keeps_the_tables_and_repeats_a_batch_without_a_trace(
    spark: SparkSession, feed: ChangeFeed, frame: Frame, parts: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "outages"
    stream(spark, parts, folder)
    expected = rows_of(all_tables(frame(feed))["under_replicated"])
    assert len(expected) == 2
    assert rows_of(read_outages(spark, str(folder), "under_replicated")) == expected
    # As if the driver had died after the last batch was written, and before it was committed.
    last = max((folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    stream(spark, parts, folder)
    assert rows_of(read_outages(spark, str(folder), "under_replicated")) == expected


def test_a_checkpoint_without_its_tables_is_refused(spark: SparkSession, parts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "outages"
    stream(spark, parts, folder)
    last = max((folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    (folder / "carried").rename(tmp_path / "lost")
    with pytest.raises(StreamingQueryException, match="belong together: begin anew in an empty folder"):
        stream(spark, parts, folder)
