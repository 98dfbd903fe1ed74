"""The outages of partitions as a continuous stream: a fold over micro-batches of the change feed.

It uses no watermark and none of Spark's stateful operators: what is open at the end of a batch is carried to
the next one in tables. So late timestamps lose nothing, and every cut into batches gives the intervals of one
batch query.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from quorate.pipelines.histories import BEGIN, Entity, history
from quorate.pipelines.intervals import PARTITION
from quorate.pipelines.outages import HOLDS, MIN_ISR, NO_LEADER, inactive, merged, slices
from quorate.pipelines.pipeline_errors import PipelineError

_STATES: Final = ("partitions", "brokers", "configs")


def advance(before: Mapping[str, DataFrame], changes: DataFrame) -> dict[str, DataFrame]:
    """Return the outages that `changes` ended or left open, and the states that the next call needs.

    Outages have the names of their tables (`under_replicated`, ...) and their columns; those with a null
    `to_offset` are open. The states are `partitions`, `brokers` and `configs`: they are small, as whole
    partitions and brokers in service are left out.

    `changes`: the rows of `view=changes` that follow those of the call before, in whole record batches.
    `before`: what that call returned; empty for the first one.
    """
    # Each is read by several outages. Without a cut Spark plans the histories once for each time, and a plan
    # of a batch fills half a gigabyte.
    partitions = history(changes, Entity.PARTITION, earlier=before.get("partitions")).localCheckpoint()
    brokers = inactive(history(changes, Entity.BROKER, earlier=before.get("brokers"))).localCheckpoint()
    configs = history(changes, Entity.CONFIG, earlier=before.get("configs"))
    configs = configs.where(f.col("name") == MIN_ISR).localCheckpoint()
    since = f.broadcast(changes.agg(f.min(f.coalesce("batch_offset", "offset")).alias("since")))
    outages = {}
    for name, holds in HOLDS.items():
        # The call before merged what had ended by then.
        rows = (
            slices(holds(partitions, configs), brokers)
            .crossJoin(since)
            .where(f.col("to_offset").isNull() | (f.col("to_offset") >= f.col("since")))
            .drop("since")
        )
        outages[name] = merged(rows.unionByName(_begun(before[name])) if name in before else rows)
    valid = f.col("to_offset").isNull()
    absent = (f.size("isr") < f.size("replicas")) | (f.col("leader") == NO_LEADER)
    open_partitions = partitions.where(valid & absent)
    # The cause of a slice, and the setting at its begin, are states that may have ended since.
    oldest = f.broadcast(open_partitions.agg(f.min("from_offset").alias("oldest")))

    def needed(states: DataFrame) -> DataFrame:
        return states.crossJoin(oldest).where(valid | (f.col("to_offset") > f.col("oldest"))).drop("oldest")

    return {
        **outages,
        "partitions": open_partitions,
        "brokers": needed(brokers),
        "configs": needed(configs),
    }


def _begun(outages: DataFrame) -> DataFrame:
    """Return the open outages up to their last states, which are among the slices once more."""
    longer = (f.col("last_offset") > f.col("from_offset")) | (f.col("last_row") > f.col("from_row"))
    return outages.where(f.col("to_offset").isNull() & longer).select(
        *PARTITION,
        "topic",
        *BEGIN,
        f.col("last_offset").alias("to_offset"),
        f.col("last_row").alias("to_row"),
        f.col("last_change").alias("valid_to"),
        f.lit("change").alias("ended_by"),
        "reason",
        "record_type",
        "smallest_isr",
        "causes",
    )


def follow_outages(changes: DataFrame, folder: str) -> DataStreamWriter:
    """Return the writer of a streaming query that keeps the tables of outages in `folder`, as Parquet.

    `changes`: a stream of `view=changes` from `earliest`. `folder`: a path or URI that Spark can write, for
    the tables, what is carried between batches, and the checkpoint. A batch that is run again after a
    failure overwrites what it wrote.
    """
    writer = changes.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.foreachBatch(_OutageSink(folder))


def read_outages(spark: SparkSession, folder: str, name: str) -> DataFrame:
    """Return a table of outages that `follow_outages` keeps in `folder`: those that are over, and those that
    are open after the newest batch."""
    rows = spark.read.parquet(f"{folder}/{name}")
    newest = f.broadcast(rows.agg(f.max("batch").alias("newest")))
    over = f.col("to_offset").isNotNull()
    return rows.crossJoin(newest).where(over | (f.col("batch") == f.col("newest"))).drop("batch", "newest")


@dataclass(frozen=True, slots=True)
class _OutageSink:
    """Runs `advance` on each batch. Batch N reads what batch N-1 wrote, so that it can be run again."""

    folder: str

    def __call__(self, changes: DataFrame, batch: int) -> None:
        changes = changes.persist()
        try:
            after = advance(self._before(changes.sparkSession, batch), changes)
            for name in HOLDS:
                after[name].write.mode("overwrite").parquet(f"{self.folder}/{name}/batch={batch}")
            for name in _STATES:
                after[name].write.mode("overwrite").parquet(f"{self._slot(batch)}/{name}")
            done = changes.sparkSession.range(1).select(f.lit(batch).alias("batch"))
            done.write.mode("overwrite").parquet(f"{self._slot(batch)}/done")
        finally:
            changes.unpersist()

    def _slot(self, batch: int) -> str:
        """Return the place of a batch's states. The next batch but one overwrites them."""
        return f"{self.folder}/carried/{batch % 2}"

    def _before(self, spark: SparkSession, batch: int) -> dict[str, DataFrame]:
        if batch == 0:
            return {}
        slot = self._slot(batch - 1)
        try:
            done = [row["batch"] for row in spark.read.parquet(f"{slot}/done").collect()]
        except AnalysisException:
            done = []
        if done != [batch - 1]:
            raise PipelineError(
                f"{self.folder} has no states of batch {batch - 1}, which batch {batch} continues. Its "
                "checkpoint and its tables belong together: begin anew in an empty folder"
            )
        return {
            **{name: spark.read.parquet(f"{slot}/{name}") for name in _STATES},
            **{name: spark.read.parquet(f"{self.folder}/{name}/batch={batch - 1}") for name in HOLDS},
        }
