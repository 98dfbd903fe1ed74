"""Gold: elections, changes of ISRs, reassignments, balance, and the longest of what took time."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as f

from quorate.pipelines.histories import all_but, position
from quorate.pipelines.intervals import PARTITION, first_in_run, intervals, milliseconds, valid_at
from quorate.pipelines.outages import NO_LEADER, broker_outages, inactive

LONGEST: Final = 100
"""The number of rows of each kind in `slowest_changes`."""


def time_to_new_leader(partition_history: DataFrame, broker_history: DataFrame) -> DataFrame:
    """Return each election of a leader in place of one that was lost, or of another one.

    | column | |
    |---|---|
    | `topic_id`, `partition_id`, `topic`, `old_leader`, `leader`, `leader_epoch`, `reason` | |
    | `lost_offset`, `lost_at` | the change with which the old leader did not lead any more |
    | `last_heard` | of the old leader, if it was fenced then: its last heartbeat |
    | `elected_offset`, `elected_at` | the election |
    | `leaderless_ms` | from the loss to the election: 0 if one change was both |
    | `outage_ms` | from the last heartbeat, or else the loss, to the election, by the leaders' clocks |
    """
    led = f.struct("leader", "to_offset", "to_row", "valid_to", "ended_by")
    before = (
        Window.partitionBy(*PARTITION)
        .orderBy("from_offset", "from_row")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    known = (f.col("leader") != NO_LEADER) | (f.col("ended_by") != "change")
    elections = (
        partition_history.select(
            "*",
            f.last(f.when(known, led), ignorenulls=True).over(before).alias("old"),
            f.lag(f.col("leader") == NO_LEADER).over(_in_order()).alias("without"),
        )
        .where(
            (f.col("leader") != NO_LEADER)
            & (f.col("old.ended_by") == "change")
            & ((f.col("leader") != f.col("old.leader")) | f.col("without"))
        )
        .alias("election")
    )
    at_loss = valid_at("gone", "election.old.to_offset")
    lost = f.col("election.old.valid_to")
    heard = f.col("gone.last_heard")
    return elections.join(
        f.broadcast(inactive(broker_history).alias("gone")),
        (f.col("gone.broker_id") == f.col("election.old.leader")) & at_loss,
        "left",
    ).select(
        *(f.col(f"election.{name}").alias(name) for name in (*PARTITION, "topic")),
        f.col("election.old.leader").alias("old_leader"),
        *(f.col(f"election.{name}").alias(name) for name in ("leader", "leader_epoch", "reason")),
        f.col("election.old.to_offset").alias("lost_offset"),
        lost.alias("lost_at"),
        heard.alias("last_heard"),
        f.col("election.from_offset").alias("elected_offset"),
        f.col("election.valid_from").alias("elected_at"),
        milliseconds(lost, f.col("election.valid_from")).alias("leaderless_ms"),
        milliseconds(f.coalesce(heard, lost), f.col("election.valid_from")).alias("outage_ms"),
    )


def _in_order() -> WindowSpec:
    return Window.partitionBy(*PARTITION).orderBy("from_offset", "from_row")


def _with_before(partition_history: DataFrame, column: str) -> DataFrame:
    """Return the states that follow another one, with what that had in `before`."""
    before = f.lag(f.struct(f.col(column).alias("before"), "to_offset", "to_row")).over(_in_order())
    follows = position("last.to_offset", "last.to_row") == position("from_offset", "from_row")
    return (
        partition_history.select("*", before.alias("last"))
        .where(follows)
        .select(all_but("last"), "last.before")
    )


def leadership_churn(partition_history: DataFrame) -> DataFrame:
    """Return how often each partition's leader changed, by the reason: `changes`, with the `first_change` and
    `last_change`. To have no leader is a change too."""
    return (
        _with_before(partition_history, "leader")
        .where("leader != before")
        .groupBy(*PARTITION, "topic", "reason")
        .agg(
            f.count("*").alias("changes"),
            f.min_by("valid_from", position("from_offset", "from_row")).alias("first_change"),
            f.max_by("valid_from", position("from_offset", "from_row")).alias("last_change"),
        )
    )


def isr_changes(partition_history: DataFrame) -> DataFrame:
    """Return each change of an ISR: the brokers that it `lost` and `gained`, the `isr` that it became, and
    the number of `replicas`."""
    return (
        _with_before(partition_history, "isr")
        .selectExpr(
            *(*PARTITION, "topic", "from_offset as offset", "valid_from as timestamp", "reason"),
            *("array_except(before, isr) as lost", "array_except(isr, before) as gained"),
            *("isr", "size(replicas) as replicas"),
        )
        .where("size(lost) > 0 or size(gained) > 0")
    )


def reassignments(partition_history: DataFrame) -> DataFrame:
    """Return the intervals in which replicas were added or removed, with the `original` and the `target`
    replicas of their begin."""
    moving = (f.size("adding_replicas") > 0) | (f.size("removing_replicas") > 0)
    return intervals(
        partition_history,
        moving,
        topic=first_in_run("topic"),
        original=first_in_run(f.array_except("replicas", "adding_replicas")),
        target=first_in_run(f.array_except("replicas", "removing_replicas")),
    )


def imbalance(partition_history: DataFrame) -> DataFrame:
    """Return what each broker leads, after each offset with which that changed.

    `leaders`: the partitions that it leads. `preferred`: those whose first replica it is. `preferred_led`:
    those of them that it leads. Without imbalance the three are equal.
    """
    counts = ("leaders", "preferred", "preferred_led")
    by_broker = Window.partitionBy("broker").orderBy("offset")
    return (
        partition_history.selectExpr(
            """array(struct(leader as broker, 1 as leaders, 0 as preferred, 0 as preferred_led),
                struct(replicas[0] as broker, 0 as leaders, 1 as preferred,
                    int(leader = replicas[0]) as preferred_led)) as shares""",
            """inline(array(struct(from_offset as offset, valid_from as timestamp, 1 as sign),
                struct(to_offset as offset, valid_to as timestamp, -1 as sign)))""",
        )
        .select("offset", "timestamp", "sign", f.inline("shares"))
        .where(f.col("offset").isNotNull() & (f.col("broker") != NO_LEADER))
        .groupBy("broker", "offset")
        .agg(
            f.max("timestamp").alias("timestamp"),
            *(f.sum(f.col("sign") * f.col(name)).alias(name) for name in counts),
        )
        .where(" or ".join(f"{name} != 0" for name in counts))
        .select(
            "broker", "offset", "timestamp", *(f.sum(name).over(by_broker).alias(name) for name in counts)
        )
    )


def controller_failovers(quorum_history: DataFrame) -> DataFrame:
    """Return each election of an active controller: `leader`, `leader_epoch`, and the `old_leader`, which may
    be the same one."""
    before = f.lag(f.struct("leader", "leader_epoch")).over(
        Window.partitionBy(f.lit(0)).orderBy("from_offset", "from_row")
    )
    return (
        quorum_history.select("*", before.alias("before"))
        .where(f.col("leader_epoch") > f.col("before.leader_epoch"))
        .select(
            f.col("from_offset").alias("offset"),
            f.col("valid_from").alias("timestamp"),
            "leader",
            "leader_epoch",
            f.col("before.leader").alias("old_leader"),
        )
    )


def slowest_changes(
    under_replicated: DataFrame,
    under_min_isr: DataFrame,
    leaderless: DataFrame,
    reassignments: DataFrame,
    time_to_new_leader: DataFrame,
    broker_history: DataFrame,
) -> DataFrame:
    """Return the longest of each `kind` of change that has ended, with its `rank`.

    `place`: the partition as topic-partition, or the broker. Of `new_leader` the duration is the outage.
    """
    partition = f.concat_ws("-", "topic", f.col("partition_id").cast("string"))
    of_partitions = {
        "under_replicated": under_replicated,
        "under_min_isr": under_min_isr,
        "leaderless": leaderless,
        "reassignment": reassignments,
    }
    ended = [_ended(kind, frame, partition) for kind, frame in of_partitions.items()]
    ended.append(
        _ended(
            "broker_outage",
            # A broker that registers for the first time is fenced, without a reason.
            broker_outages(broker_history).where(f.col("reason").isNotNull()),
            f.concat(f.lit("broker "), f.col("broker_id").cast("string")),
        )
    )
    ended.append(
        time_to_new_leader.select(
            f.lit("new_leader").alias("kind"),
            partition.alias("place"),
            f.col("lost_offset").alias("from_offset"),
            f.coalesce("last_heard", "lost_at").alias("valid_from"),
            f.col("elected_offset").alias("to_offset"),
            f.col("elected_at").alias("valid_to"),
            f.col("outage_ms").alias("duration_ms"),
            "reason",
        )
    )
    together = ended[0]
    for each in ended[1:]:
        together = together.unionByName(each)
    longest = Window.partitionBy("kind").orderBy(f.desc("duration_ms"), "from_offset", "place")
    return together.select("*", f.row_number().over(longest).alias("rank")).where(f.col("rank") <= LONGEST)


def _ended(kind: str, frame: DataFrame, place: Column) -> DataFrame:
    columns = ("from_offset", "valid_from", "to_offset", "valid_to", "duration_ms", "reason")
    return frame.where(f.col("duration_ms").isNotNull()).select(
        f.lit(kind).alias("kind"), place.alias("place"), *columns
    )
