"""Gold: each outage of a broker, with its consequences."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from quorate.pipelines.histories import BEGIN, END, all_but
from quorate.pipelines.intervals import milliseconds, valid_at
from quorate.pipelines.outages import broker_outages

_KEY: Final = ("broker_id", "from_offset")
_COUNTS: Final = ("partitions", "led")


def incidents(
    broker_history: DataFrame,
    quorum_history: DataFrame,
    under_replicated: DataFrame,
    time_to_new_leader: DataFrame,
) -> DataFrame:
    """Return each time that a broker that had been in service was fenced or shutting down.

    | column | |
    |---|---|
    | `broker_id`, `reason`, `last_heard`, begin and end | of the outage, as `broker_outages` has them |
    | `duration_ms` | from `last_heard`, or else `valid_from`, to `valid_to`; null: it lasts |
    | `same_process` | the process that came back is the one that went |
    | `led_quorum` | it was the active controller, and its successor fenced it |
    | `partitions`, `topics` | the number of partitions under-replicated because of it, and their topics |
    | `replicated_at` | the last of them was in sync again; null: there were none, or one isn't |
    | `led` | the number of partitions that it led |
    | `outage_ms`, `longest_outage_ms` | the median and the longest time until one had another leader |
    """
    outages = (
        broker_outages(broker_history)
        # A broker that registers for the first time is fenced, without a reason.
        .where(f.col("reason").isNotNull())
        .alias("outage")
    )
    key = [f.col(f"outage.{name}").alias(name) for name in _KEY]
    replicas = (
        outages.join(
            under_replicated.select("*", f.explode("causes").alias("cause")).alias("short"),
            (f.col("outage.broker_id") == f.col("short.cause.broker")) & _during("short.cause.since_offset"),
        )
        .groupBy(*key)
        .agg(
            f.count_distinct("short.topic_id", "short.partition_id").alias("partitions"),
            f.array_sort(f.collect_set("short.topic")).alias("topics"),
            f.when(f.bool_and(f.col("short.valid_to").isNotNull()), f.max("short.valid_to")).alias(
                "replicated_at"
            ),
        )
    )
    elections = (
        outages.join(
            time_to_new_leader.alias("election"),
            (f.col("outage.broker_id") == f.col("election.old_leader")) & _during("election.lost_offset"),
        )
        .groupBy(*key)
        .agg(
            f.count("*").alias("led"),
            f.median("election.outage_ms").cast("bigint").alias("outage_ms"),
            f.max("election.outage_ms").alias("longest_outage_ms"),
        )
    )
    # The successor heard its predecessor until it was elected itself, or in older versions never.
    heard = f.col("outage.last_heard")
    led_quorum = (
        f.col("quorum.old_leader").eqNullSafe(f.col("outage.broker_id"))
        & (heard.isNull() | (heard <= f.col("quorum.led_since")))
        & (f.col("outage.reason") != "CONTROLLED_SHUTDOWN")
    )
    return (
        outages.join(
            f.broadcast(_with_old_leader(quorum_history).alias("quorum")),
            valid_at("quorum", "outage.from_offset"),
            "left",
        )
        .select(
            *(
                f.col(f"outage.{name}").alias(name)
                for name in ("broker_id", *BEGIN, *END, "reason", "last_heard")
            ),
            milliseconds(
                f.coalesce("outage.last_heard", "outage.valid_from"), f.col("outage.valid_to")
            ).alias("duration_ms"),
            (f.col("outage.incarnation_id") == f.col("outage.last_incarnation_id")).alias("same_process"),
            led_quorum.alias("led_quorum"),
        )
        .join(replicas, [*_KEY], "left")
        .join(elections, [*_KEY], "left")
        .select(all_but(*_COUNTS), *(f.coalesce(name, f.lit(0)).alias(name) for name in _COUNTS))
    )


def _during(offset: str) -> Column:
    """Return the condition that the outage had begun with this offset, and had not ended."""
    ended = f.col("outage.to_offset") <= f.col(offset)
    return (f.col(offset) >= f.col("outage.from_offset")) & ~f.coalesce(ended, f.lit(False))


def _with_old_leader(quorum_history: DataFrame) -> DataFrame:
    """Return the states of the quorum with `old_leader`, the last leader that was another broker, and
    `led_since`, the time at which the leader took its place."""
    in_order = Window.partitionBy(f.lit(0)).orderBy("from_offset", "from_row")
    before = f.lag("leader").over(in_order)
    change = f.struct(before.alias("old_leader"), f.col("valid_from").alias("led_since"))
    return (
        quorum_history.select("*", f.when(before != f.col("leader"), change).alias("changed"))
        .select(all_but("changed"), f.last("changed", ignorenulls=True).over(in_order).alias("change"))
        .select("*", "change.*")
    )
