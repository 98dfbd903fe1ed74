"""The tables of a project beside those of a batch query."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from quorate.pipelines.tables import TABLES, all_tables, read_changes


def check_tables(spark: SparkSession, project: Path, log: Path) -> None:
    """Fail if a table of the project is not what a batch query makes of the whole log, a node's folder."""
    expected = all_tables(read_changes(spark, {"path": str(log)}).cache())
    for name in ("changes", *(table.name for table in TABLES)):
        table = spark.read.parquet(str(project / "tables" / name))
        assert _rows(table.select(*expected[name].columns)) == _rows(expected[name]), name


def _rows(frame: DataFrame) -> list[str]:
    return sorted(frame.toJSON().collect())
