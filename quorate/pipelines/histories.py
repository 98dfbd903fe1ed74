"""Silver: the states of each entity of a change feed, and how long each was valid.

The order of changes is that of (offset, row). Timestamps are those of the leaders' clocks, and may go back.
"""

import enum
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f


class Entity(enum.Enum):
    """What a row of the change feed is about. The value names its struct."""

    PARTITION = "partition"
    TOPIC = "topic"
    BROKER = "broker"
    CONFIG = "config"
    QUORUM = "quorum"


_KEYS: Final[Mapping[Entity, tuple[str, ...]]] = {
    Entity.PARTITION: ("topic_id", "partition_id"),
    Entity.TOPIC: ("topic_id",),
    Entity.BROKER: ("broker_id",),
    Entity.CONFIG: ("resource_type", "resource_name", "name"),
    Entity.QUORUM: (),
}

BEGIN: Final = ("from_offset", "from_row", "valid_from")
END: Final = ("to_offset", "to_row", "valid_to", "ended_by")


def position(offset: str | Column, row: str | Column) -> Column:
    """Return the place of a row in the order of all changes, which compares as (offset, row)."""
    return f.struct(_column(offset).alias("offset"), _column(row).alias("row"))


def all_but(*columns: str) -> Column:
    """Return the columns that are not named, for `select`.

    The functions of a pipeline's tables use neither `withColumn` nor `drop` nor `distinct`. In Spark Connect
    these look up the tables that they read when they are declared. A declarative pipeline has none then, or
    has those of the run before: it would read what they were, and not wait for their flows.
    """
    return f.expr(f"* except ({', '.join(columns)})")


def _column(each: str | Column) -> Column:
    return f.col(each) if isinstance(each, str) else each


def history(changes: DataFrame, entity: Entity, *, earlier: DataFrame | None = None) -> DataFrame:
    """Return each state that an entity had: the fields of its struct, and these columns.

    | column | |
    |---|---|
    | `from_offset`, `from_row`, `valid_from` | the change that began it, with its timestamp |
    | `to_offset`, `to_row`, `valid_to` | the change that ended it; null: it is still valid |
    | `ended_by` | `change`, `delete`, or `restart`: the feed began anew from a snapshot |
    | `batch_offset`, `snapshot`, `record_type`, `reason`, `last_heard` | of the change that began it |

    `changes`: rows of `view=changes`. `earlier`: states that an earlier call returned for the rows before
    these. They are returned again, with their ends if they had none.
    """
    kind = f.col("_change_type")
    began = changes.where((f.col("entity") == entity.value) & (kind != "update_preimage")).select(
        *(f.col(of).alias(name) for name, of in zip(BEGIN, ("offset", "row", "timestamp"), strict=True)),
        *("batch_offset", "snapshot", "record_type", "reason", "last_heard"),
        (kind == "delete").alias("deletes"),
        f.lit(None).cast(_END_TYPE).alias("known_end"),
        f"{entity.value}.*",
    )
    if earlier is not None:
        known_end = f.when(f.col("to_offset").isNotNull(), f.struct(*END))
        again = earlier.withColumns({"deletes": f.lit(False), "known_end": known_end}).drop(*END)
        began = began.unionByName(again, allowMissingColumns=True)
    by_key = Window.partitionBy(*(_KEYS[entity] or (f.lit(0),))).orderBy("from_offset", "from_row")
    successor = _end(*BEGIN, f.when(f.col("deletes"), "delete").otherwise("change"))
    restarts = changes.where(kind == "snapshot").agg(
        f.array_sort(f.collect_list(_end("offset", "row", "timestamp", f.lit("restart")))).alias("restarts")
    )
    here = position("from_offset", "from_row")
    restart = f.filter("restarts", lambda each: position(each["to_offset"], each["to_row"]) > here)
    return (
        began.select("*", f.lead(successor).over(by_key).alias("successor"))
        .where(~f.col("deletes"))
        .crossJoin(f.broadcast(restarts))
        .select("*", f.least("known_end", "successor", f.get(restart, 0)).alias("end"))
        .select(all_but("deletes", "known_end", "successor", "restarts", "end"), "end.*")
    )


_END_TYPE: Final = "struct<to_offset: bigint, to_row: int, valid_to: timestamp, ended_by: string>"


def _end(offset: str, row: str, time: str, by: Column) -> Column:
    """Return an end. Ends compare by their place, as no two changes of a key have the same."""
    columns = (f.col(offset), f.col(row), f.col(time), by)
    return f.struct(*(column.alias(name) for column, name in zip(columns, END, strict=True)))


def partition_history(changes: DataFrame) -> DataFrame:
    """Return each state of each partition: leader, ISR, replicas, directories and epochs, with the reason."""
    return history(changes, Entity.PARTITION)


def broker_history(changes: DataFrame) -> DataFrame:
    """Return each state of each broker: registered, fenced, unfenced, shutting down, its directories."""
    return history(changes, Entity.BROKER)


def topic_history(changes: DataFrame) -> DataFrame:
    """Return each state of each topic: its name, its id and its first leader epochs."""
    return history(changes, Entity.TOPIC)


def config_history(changes: DataFrame) -> DataFrame:
    """Return each value of each configuration key of topics, brokers and groups."""
    return history(changes, Entity.CONFIG)


def quorum_history(changes: DataFrame) -> DataFrame:
    """Return each state of the metadata quorum: its leader, leader epoch and voters."""
    return history(changes, Entity.QUORUM)
