"""The demo's last look: the topic's leadership history, as Spark reads it from the metadata log."""

from quorate.cli.errors import CommandError


def leadership_rows(bootstrap: str, topic: str) -> list[dict[str, object]]:
    """A row per state of the topic's partitions, in log order: `quorate.spark_source.leadership_history`."""
    try:
        from quorate.spark_source import NoJavaError, leadership_history, spark_session
    except ImportError as error:
        raise CommandError(
            f"{error.name} is missing: pip install 'quorate[spark]', or leave Spark out with --no-spark"
        ) from None
    try:
        spark = spark_session("quorate demo")
    except NoJavaError as error:
        raise CommandError(f"{error}; or leave Spark out with --no-spark") from None
    try:
        history = leadership_history(spark, topic=topic, bootstrapServers=bootstrap)
        return [row.asDict() for row in history.collect()]
    finally:
        spark.stop()


def leader_of(row: dict[str, object]) -> int:
    """-1 where nobody could lead."""
    leader = row["leader"]
    assert isinstance(leader, int)
    return leader
