"""The history of leaders: the partitions view with the end of each state."""

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from quorate.spark_source.source import FORMAT


def leadership_history(
    spark: SparkSession,
    *,
    topic: str | None = None,
    elections_only: bool = False,
    **options: str | int | bool,
) -> DataFrame:
    """Return each state of each partition, in log order, with the columns topic, partition, leader,
    leader_epoch, partition_epoch, isr, valid_from, valid_to (exclusive; null: still valid) and offset.

    `topic` limits it to one topic. `elections_only` gives one row per leader epoch, with the ISR of its
    start. `options` are the options of the source, such as `path` or `bootstrapServers`. The leader of a
    partition without a leader is -1.
    """
    reader = spark.read.format(FORMAT).option("view", "partitions")
    for name, value in options.items():
        reader = reader.option(name, value)
    changes = reader.load()
    if topic is not None:
        changes = changes.where(f.col("topic") == topic)
    removed = f.col("change") == "removed"
    if elections_only:
        changes = changes.where(f.col("elected") | removed)
    following = Window.partitionBy("topic_id", "partition").orderBy("offset")
    states = changes.withColumn("valid_to", f.lead("timestamp").over(following)).where(~removed)
    return states.select(
        "topic",
        "partition",
        "leader",
        "leader_epoch",
        "partition_epoch",
        "isr",
        f.col("timestamp").alias("valid_from"),
        "valid_to",
        "offset",
    ).orderBy("topic", "partition", "offset")
