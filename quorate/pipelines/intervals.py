"""Intervals: the runs of successive states in which a condition holds."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from quorate.pipelines.histories import BEGIN, END, all_but, position

PARTITION: Final = ("topic_id", "partition_id")
"""The key of a partition: a topic that was created again has another id."""


def intervals(
    history: DataFrame, condition: Column, /, *, keys: Sequence[str] = PARTITION, **merged: Column
) -> DataFrame:
    """Return a row for each longest run of successive states of a key in which `condition` holds.

    | column | |
    |---|---|
    | the `keys` | |
    | `from_offset`, `from_row`, `valid_from`, `reason`, `record_type` | the begin of the first state |
    | `to_offset`, `to_row`, `valid_to`, `ended_by` | the end of the last one; null: it holds still |
    | `last_offset`, `last_row`, `last_change` | the begin of the last state |
    | `duration_ms` | by the leaders' clocks; null: it holds still |
    | the names of `merged` | aggregates over the states of the run, as `smallest=f.min(f.size("isr"))` |

    `history`: of any entity, with the `keys` of its states. A state that ended by a restart has no successor:
    its run ends there.
    """
    return merge(history.where(condition), keys=keys, **merged)


def with_runs(states: DataFrame, keys: Sequence[str] = PARTITION) -> DataFrame:
    """Return the states with the number of their run in `run`. A state begins another run unless it begins
    where the one before it ends."""
    by_key = Window.partitionBy(*keys).orderBy("from_offset", "from_row")
    end_before = f.lag(position("to_offset", "to_row")).over(by_key)
    begins = f.coalesce(end_before != position("from_offset", "from_row"), f.lit(True))
    # A window function can't be the argument of another one.
    return states.select("*", begins.cast("int").alias("begins")).select(
        all_but("begins"), f.sum("begins").over(by_key).alias("run")
    )


def merge(states: DataFrame, /, *, keys: Sequence[str] = PARTITION, **merged: Column) -> DataFrame:
    """Return the runs of `states` as `intervals` does. What it returns may be among the states of a later
    call: an interval is a longer state."""
    first, last = "first", "last"
    of_run = with_runs(states, keys).groupBy(*keys, "run")
    runs = of_run.agg(
        first_in_run(f.struct(*BEGIN, "reason", "record_type")).alias(first),
        f.max_by(f.struct(*END, *BEGIN), position("from_offset", "from_row")).alias(last),
        *(column.alias(name) for name, column in merged.items()),
    )
    return runs.select(
        *keys,
        *(f.col(f"{first}.{name}") for name in (*BEGIN, "reason", "record_type")),
        *(f.col(f"{last}.{name}") for name in END),
        f.col(f"{last}.from_offset").alias("last_offset"),
        f.col(f"{last}.from_row").alias("last_row"),
        f.col(f"{last}.valid_from").alias("last_change"),
        milliseconds(f.col(f"{first}.valid_from"), f.col(f"{last}.valid_to")).alias("duration_ms"),
        *merged,
    )


def first_in_run(value: str | Column) -> Column:
    """Return an aggregate: the value of a run's first state."""
    return f.min_by(value, position("from_offset", "from_row"))


def milliseconds(begin: str | Column, end: str | Column) -> Column:
    """Return the time between two timestamps; null if one is."""
    return f.unix_millis(end) - f.unix_millis(begin)


def valid_at(alias: str, offset: str) -> Column:
    """Return the condition that a state of the table `alias` is valid after the record at an offset."""
    over = f.coalesce(f.col(f"{alias}.to_offset") <= f.col(offset), f.lit(False))
    return (f.col(f"{alias}.from_offset") <= f.col(offset)) & ~over
