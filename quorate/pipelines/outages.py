"""Gold: when partitions were under-replicated, below min.insync.replicas or without a leader, and why.

A controller fences a broker, with the time of its last heartbeat, before the broker leaves its ISRs. So the
cause of a missing replica is the state of its broker where the partition's state begins.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from quorate.pipelines.histories import BEGIN, END, all_but, position
from quorate.pipelines.intervals import PARTITION, first_in_run, merge, valid_at, with_runs

NO_LEADER: Final = -1
MIN_ISR: Final = "min.insync.replicas"


def under_replicated(partition_history: DataFrame, broker_history: DataFrame) -> DataFrame:
    """Return the intervals in which a partition had fewer replicas in the ISR than it has replicas.

    They have the columns of `intervals`, `topic`, `smallest_isr` (the number of its members), and `causes`:
    for each broker whose replica was missing, when it first was (`since_offset`, `since`), the `reason`, and
    `last_heard` if it was fenced: the time of its last heartbeat.
    """
    return merged(slices(_short(partition_history, None), inactive(broker_history)))


def under_min_isr(
    partition_history: DataFrame, config_history: DataFrame, broker_history: DataFrame
) -> DataFrame:
    """Return the intervals in which a partition's ISR had fewer members than min.insync.replicas (or than its
    replicas, if they are fewer), so that it refused writes. They have the columns of `under_replicated`."""
    states = _below_min_isr(partition_history, config_history)
    return merged(slices(states, inactive(broker_history)))


def leaderless(partition_history: DataFrame, broker_history: DataFrame) -> DataFrame:
    """Return the intervals in which a partition had no leader, with the columns of `under_replicated`."""
    return merged(slices(_led_by_none(partition_history, None), inactive(broker_history)))


def _short(partitions: DataFrame, _: DataFrame | None) -> DataFrame:
    return partitions.where(f.size("isr") < f.size("replicas"))


def _led_by_none(partitions: DataFrame, _: DataFrame | None) -> DataFrame:
    return partitions.where(f.col("leader") == NO_LEADER)


def _below_min_isr(partitions: DataFrame, configs: DataFrame) -> DataFrame:
    """Return the states below the setting, cut where it changes."""
    settings = f.broadcast(min_isr(configs)).alias("setting")
    own = settings.groupBy("topic").agg(f.first("topic").alias("own"))
    states = _short(partitions, None).join(f.broadcast(own), "topic", "left").alias("state")
    same_topic = f.col("state.own").eqNullSafe(f.col("setting.topic"))
    begin, end = f.greatest(_begin("state"), _begin("setting")), f.least(_end("state"), _end("setting"))
    by_setting = begin["from_offset"] > f.col("state.from_offset")
    return (
        states.join(
            settings, same_topic & ~_ends_before("state", "setting") & ~_ends_before("setting", "state")
        )
        .where(f.size("isr") < f.least(f.col("min_isr"), f.size("replicas")))
        .select(
            *PARTITION,
            *("state.topic", "isr", "replicas", "offline_replicas"),
            f.when(by_setting, "CONFIG_CHANGED").otherwise(f.col("reason")).alias("reason"),
            f.when(by_setting, "Config").otherwise(f.col("record_type")).alias("record_type"),
            begin.alias("begin"),
            end.alias("end"),
        )
        .select("*", "begin.*", "end.*")
    )


def _begin(alias: str) -> Column:
    return f.struct(*(f.col(f"{alias}.{name}") for name in BEGIN))


def _end(alias: str) -> Column:
    """Return the end of a state; null: it has none."""
    return f.when(
        f.col(f"{alias}.to_offset").isNotNull(), f.struct(*(f.col(f"{alias}.{name}") for name in END))
    )


def _ends_before(one: str, other: str) -> Column:
    """Return the condition that a state ended when the other began, or before."""
    end = position(f"{one}.to_offset", f"{one}.to_row")
    begin = position(f"{other}.from_offset", f"{other}.from_row")
    return f.col(f"{one}.to_offset").isNotNull() & (end <= begin)


def min_isr(config_history: DataFrame) -> DataFrame:
    """Return the values of min.insync.replicas over time: its topic's, else the cluster's default, else 1.

    Columns: `topic` (null: every topic that never had a value of its own), `min_isr`, and begin and end as in
    a history. The first value begins before the first offset. The values of a topic have no gap.
    """
    of_topic, of_all = "resource_type = 'TOPIC'", "resource_type = 'BROKER' and resource_name = ''"
    # A record batch takes effect as a whole, and the first row after a restart is its marker.
    events = config_history.where(f"name = '{MIN_ISR}' and ({of_topic} or {of_all})").selectExpr(
        f"if({of_topic}, resource_name, null) as topic",
        f"{of_topic} as own",
        """inline(array_compact(array(
                struct(coalesce(batch_offset, from_offset) as from_offset, 0 as from_row, valid_from, value),
                if(ended_by != 'change', struct(
                    to_offset as from_offset, if(ended_by = 'restart', 0, to_row) as from_row,
                    valid_to as valid_from, string(null) as value), null))))""",
    )
    topics = events.agg(f.collect_set("topic").alias("own")).selectExpr(
        "explode(array_append(own, string(null))) as topic"
    )
    defaults = topics.crossJoin(events.where("not own").select(all_but("topic")))
    first = topics.selectExpr(
        *("topic", "-1L as from_offset", "0 as from_row", "timestamp(null) as valid_from"),
        *("string(null) as value", "false as own"),
    )
    by_topic = Window.partitionBy("topic").orderBy(*BEGIN[:2], f.col("value").isNotNull())
    so_far = by_topic.rowsBetween(Window.unboundedPreceding, 0)

    def latest(condition: str) -> Column:
        value = f.when(f.expr(condition), f.struct("value"))
        return f.last(value, ignorenulls=True).over(so_far)["value"].try_cast("int")

    following = f.struct(*(f.col(of).alias(name) for of, name in zip(BEGIN, END[:-1], strict=True)))
    return (
        events.where("own")
        .unionByName(defaults)
        .unionByName(first)
        .select(
            "topic",
            f.coalesce(latest("own"), latest("not own"), f.lit(1)).alias("min_isr"),
            *BEGIN,
            f.lead(following).over(by_topic).alias("next"),
        )
        .select(all_but("next"), "next.*", f.lit("change").alias("ended_by"))
        .where("to_offset is null or to_offset > from_offset or to_row > from_row")
    )


def slices(states: DataFrame, inactive_brokers: DataFrame) -> DataFrame:
    """Return what an outage is merged from: the states in which it holds, each with its causes."""
    place = ("from_offset", "from_row")
    absent = f.array_union(f.array_except("replicas", "isr"), "offline_replicas")
    replicas = states.select(
        *PARTITION, *BEGIN, f.col("reason").alias("why"), f.explode(absent).alias("absent")
    ).alias("replica")
    cause = f.struct(
        f.col("replica.from_offset").alias("since_offset"),
        f.col("absent").alias("broker"),
        f.coalesce("gone.reason", "why").alias("reason"),
        f.col("gone.last_heard").alias("last_heard"),
        f.col("replica.valid_from").alias("since"),
    )
    valid = valid_at("gone", "replica.from_offset")
    causes = (
        replicas.join(
            f.broadcast(inactive_brokers.alias("gone")),
            (f.col("gone.broker_id") == f.col("absent")) & valid,
            "left",
        )
        .groupBy(*(f.col(f"replica.{name}").alias(name) for name in (*PARTITION, *place)))
        .agg(f.collect_list(cause).alias("causes"))
    )
    return states.select(
        *PARTITION, "topic", *BEGIN, *END, "reason", "record_type", f.size("isr").alias("smallest_isr")
    ).join(causes, [*PARTITION, *place], "left")


def merged(outages: DataFrame) -> DataFrame:
    """Return the intervals of an outage: of its slices, or of intervals that its slices prolong."""
    every = f.array_sort(f.flatten(f.collect_list("causes")))
    brokers = f.transform("causes", lambda cause: cause["broker"])
    # Of each broker the first: since it was missing.
    first = f.filter("causes", lambda cause, at: f.array_position(brokers, cause["broker"]) == at + 1)
    return merge(
        outages,
        topic=first_in_run("topic"),
        smallest_isr=f.min("smallest_isr"),
        causes=every,
    ).select(all_but("causes"), first.alias("causes"))


def inactive(broker_history: DataFrame) -> DataFrame:
    """Return the states in which a broker was fenced or shutting down. `reason` and `last_heard` are those of
    the change that took it out of service, also in the states that follow."""
    by_run = Window.partitionBy("broker_id", "run").orderBy("from_offset", "from_row")
    so_far = by_run.rowsBetween(Window.unboundedPreceding, 0)
    states = broker_history.where(f.col("fenced") | f.col("in_controlled_shutdown"))
    known = f.coalesce("reason", "inactive_reason")
    return with_runs(states, ("broker_id",)).select(
        all_but("run", "reason", "last_heard"),
        f.first(known, ignorenulls=True).over(so_far).alias("reason"),
        f.last("last_heard", ignorenulls=True).over(so_far).alias("last_heard"),
    )


def broker_outages(broker_history: DataFrame) -> DataFrame:
    """Return the intervals in which a broker was fenced or shutting down, also before it was first unfenced.

    They have the columns of `intervals`; `last_heard`, of a fencing; and `incarnation_id`,
    `last_incarnation_id` of the process at begin and end: one that was stopped and resumed is the same.
    """
    return merge(
        inactive(broker_history),
        keys=("broker_id",),
        last_heard=f.min("last_heard"),
        incarnation_id=first_in_run("incarnation_id"),
        last_incarnation_id=f.max_by("incarnation_id", position("from_offset", "from_row")),
    )


HOLDS: Final[Mapping[str, Callable[[DataFrame, DataFrame], DataFrame]]] = {
    "under_replicated": _short,
    "under_min_isr": _below_min_isr,
    "leaderless": _led_by_none,
}
"""The states in which each outage holds, of the histories of partitions and of configurations."""
