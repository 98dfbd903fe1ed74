"""The rows that a report shows: few, whatever the length of the log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from quorate.pipelines.intervals import milliseconds

Rows: TypeAlias = list[dict[str, Any]]
"""Rows of a table. Timestamps are ms since the Unix epoch."""

_ROWS_MAX: Final = 200
_POINTS: Final = 400
"""Points of a line over the time of the report."""
BUCKET_MS: Final = 100
"""The width of a bucket in the distribution of outages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a report is written from."""

    first_ms: int
    last_ms: int
    first_offset: int
    last_offset: int
    brokers: int
    partitions: int
    incidents: Rows
    under_replicated: Rows
    """(bucket_ms, change): how many more intervals are open after a bucket of time than before it."""
    leaderless: Rows
    """The same."""
    new_leaders: Rows
    """Per reason: elections, and percentiles of the outage."""
    outages: Rows
    """(reason, outage_ms, elections): the distribution of those that took time, in buckets."""
    leaders: Rows
    """(broker, bucket_ms, leaders): the last value in each bucket of time."""
    topics: Rows
    """Per topic: how often and how long its partitions were under-replicated, below min ISR, leaderless."""
    reassignments: Rows
    controller_failovers: Rows
    slowest_changes: Rows
    leadership_churn: Rows


def collect_facts(tables: Mapping[str, DataFrame], *, progress: Callable[[str], None]) -> Facts:
    """Query the tables of a pipeline. `progress` gets the name of each query before it runs."""
    progress("the extent of the log")
    extent = _rows(
        tables["changes"].agg(
            f.min("timestamp").alias("first_ms"),
            f.max("timestamp").alias("last_ms"),
            f.min("offset").alias("first_offset"),
            f.max("offset").alias("last_offset"),
        )
    )[0]
    bucket_ms = max(1, ((extent["last_ms"] or 0) - (extent["first_ms"] or 0)) // _POINTS)
    valid = f.col("to_offset").isNull()
    queries = {
        "brokers": tables["broker_history"].where(valid),
        "partitions": tables["partition_history"].where(valid),
        "incidents": tables["incidents"].orderBy("from_offset").limit(_ROWS_MAX),
        "under_replicated": _open_over_time(tables["under_replicated"], bucket_ms),
        "leaderless": _open_over_time(tables["leaderless"], bucket_ms),
        "new_leaders": _percentiles(tables["time_to_new_leader"]),
        "outages": tables["time_to_new_leader"]
        .where("outage_ms > 0")
        .groupBy("reason", _bucket(f.col("outage_ms"), BUCKET_MS).alias("outage_ms"))
        .agg(f.count("*").alias("elections"))
        .orderBy("outage_ms")
        .limit(_POINTS * 10),
        "leaders": tables["imbalance"]
        .groupBy("broker", _time(f.col("timestamp"), bucket_ms))
        .agg(f.max_by("leaders", "offset").alias("leaders"))
        .orderBy("broker", "bucket_ms"),
        "topics": _by_topic(tables),
        "reassignments": tables["reassignments"].orderBy("from_offset").limit(_ROWS_MAX),
        "controller_failovers": tables["controller_failovers"].orderBy("offset").limit(_ROWS_MAX),
        "slowest_changes": tables["slowest_changes"]
        .where("rank <= 10 and duration_ms > 0")
        .orderBy("kind", "rank"),
        "leadership_churn": tables["leadership_churn"]
        .orderBy(f.desc("changes"), "topic", "partition_id")
        .limit(20),
    }
    found: dict[str, Any] = {}
    for name, query in queries.items():
        progress(name.replace("_", " "))
        found[name] = query.count() if name in ("brokers", "partitions") else _rows(query)
    found |= {name: value or 0 for name, value in extent.items()}
    return Facts(**found)


def _rows(query: DataFrame) -> Rows:
    """Collect a query. Python would show timestamps in the zone of this machine."""
    columns = [
        f.unix_millis(each.name).alias(each.name)
        if isinstance(each.dataType, TimestampType)
        else f.col(each.name)
        for each in query.schema
    ]
    return [row.asDict() for row in query.select(*columns).collect()]


def _bucket(number: Column, width: int) -> Column:
    return f.floor(number / width) * width


def _time(timestamp: Column, bucket_ms: int) -> Column:
    return _bucket(f.unix_millis(timestamp), bucket_ms).alias("bucket_ms")


def _open_over_time(intervals: DataFrame, bucket_ms: int) -> DataFrame:
    begin = f.struct(f.col("valid_from").alias("timestamp"), f.lit(1).alias("sign"))
    end = f.struct(f.col("valid_to").alias("timestamp"), f.lit(-1).alias("sign"))
    return (
        intervals.select(f.inline(f.array(begin, end)))
        .where(f.col("timestamp").isNotNull())
        .groupBy(_time(f.col("timestamp"), bucket_ms))
        .agg(f.sum("sign").alias("change"))
        .orderBy("bucket_ms")
    )


def _percentiles(elections: DataFrame) -> DataFrame:
    return (
        elections.groupBy("reason")
        .agg(
            f.count("*").alias("elections"),
            *(
                f.percentile_approx("outage_ms", share).alias(f"p{round(share * 100)}_ms")
                for share in (0.5, 0.95, 0.99)
            ),
            f.max("outage_ms").alias("max_ms"),
        )
        .orderBy(f.desc("elections"))
    )


def _by_topic(tables: Mapping[str, DataFrame]) -> DataFrame:
    kinds = ("under_replicated", "under_min_isr", "leaderless")
    every = [
        tables[kind].select(f.lit(kind).alias("kind"), "topic", "valid_from", "valid_to") for kind in kinds
    ]
    together = every[0].unionByName(every[1]).unionByName(every[2])
    return (
        together.groupBy("topic", "kind")
        .agg(
            f.count("*").alias("intervals"),
            f.sum(milliseconds("valid_from", "valid_to")).alias("total_ms"),
            f.max(milliseconds("valid_from", "valid_to")).alias("longest_ms"),
            f.count_if(f.col("valid_to").isNull()).alias("open"),
        )
        .orderBy(f.desc("total_ms"), "topic", "kind")
        .limit(_ROWS_MAX)
    )
