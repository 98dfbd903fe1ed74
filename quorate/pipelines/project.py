"""A project for Spark's declarative pipelines: its files, and the tables that they declare."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

from quorate.pipelines.pipeline_errors import PipelineError
from quorate.pipelines.tables import BRONZE, TABLES, Table

SPEC: Final = "spark-pipeline.yml"
DEFAULTS: Final = "spark-defaults.conf"
_SOURCE: Final = "spark.quorate.source."
_PLACES: Final = {"path", "bootstrapServers", "kafka.bootstrap.servers"}
_FORMAT: Final = "spark.sql.sources.default"

_SPEC_TEXT: Final = """\
# A project for Spark's declarative pipelines. To run it:
#   quorate pipeline run
#   spark-pipelines --properties-file {defaults} run
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  # The options of format("quorate").
{source}
  # The format of the tables. The packages of others than Parquet belong in {defaults}.
  {format_key}: {format}
"""
_DEFAULTS_TEXT: Final = """\
# What a Spark session must know before it starts. Without a catalog on disk, a second run would not find the
# tables of the first.
spark.sql.catalogImplementation hive
spark.sql.warehouse.dir {tables}
spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={catalog};create=true
spark.driver.memory 1g
"""
_TABLES_TEXT: Final = '''\
"""The tables of quorate. Add files with tables of your own beside this one."""

from pyspark.sql import SparkSession

from quorate.pipelines.project import declare_tables

declare_tables(SparkSession.active())
'''


def create_project(folder: Path, source: Mapping[str, str], *, table_format: str = "parquet") -> None:
    """Write a project into a new or empty folder. Raises `PipelineError` if there is something in it.

    `source`: the options of `format("quorate")`, such as `bootstrapServers` or `path`.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PipelineError(f"{folder} is not empty; name a new folder for the pipeline")
    options = source_settings(source)
    (folder / "transformations").mkdir(parents=True)
    (folder / SPEC).write_text(
        _SPEC_TEXT.format(
            name=json.dumps(folder.name),
            storage=json.dumps((folder / "storage").as_uri()),
            source="\n".join(f"  {key}: {json.dumps(value)}" for key, value in options.items()),
            format_key=_FORMAT,
            format=json.dumps(table_format),
            defaults=DEFAULTS,
        )
    )
    (folder / DEFAULTS).write_text(
        _DEFAULTS_TEXT.format(tables=(folder / "tables").as_uri(), catalog=folder / "catalog")
    )
    (folder / "transformations" / "tables.py").write_text(_TABLES_TEXT)


def source_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a Spark session that say the options of the source."""
    return {_SOURCE + name: value for name, value in options.items()}


def at_place(configuration: Mapping[str, str], place: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with another place of the log, or their own if `place` is empty. `place`: the
    option of the source that names it."""
    kept = {
        key: value
        for key, value in configuration.items()
        if not place or key.removeprefix(_SOURCE) not in _PLACES
    }
    return {**kept, **source_settings(place)}


def session_defaults(folder: Path) -> dict[str, str]:
    """Return the settings in the project's file of defaults."""
    file = folder / DEFAULTS
    lines = file.read_text().splitlines() if file.is_file() else []
    pairs = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return {pair[0]: pair[-1].strip() for pair in pairs}


def declare_tables(spark: SparkSession) -> None:
    """Declare the tables of `quorate.pipelines` to Spark's declarative pipelines: call it in a file of a
    project's transformations.

    Bronze is two streaming tables. Silver and gold are materialized
    views, which each run makes anew. Settings of the session named `spark.quorate.source.*` are the options
    of the source.
    """
    settings = spark.conf.getAll.items()
    options = {key.removeprefix(_SOURCE): value for key, value in settings if key.startswith(_SOURCE)}
    for view, comment in BRONZE.items():
        pipelines.table(name=view, comment=comment)(partial(_stream, spark, options, view))
    for table in TABLES:
        pipelines.materialized_view(name=table.name, comment=table.comment)(partial(_of_tables, spark, table))


def _stream(spark: SparkSession, options: Mapping[str, str], view: str) -> DataFrame:
    every = {"startingOffsets": "earliest", **options, "view": view}
    return spark.readStream.format("quorate").options(**every).load()


def _of_tables(spark: SparkSession, table: Table) -> DataFrame:
    return table.of({name: spark.read.table(name) for name in table.reads})
