"""The metadata log as a Spark data source.

    from quorate.spark_source import leadership_history, spark_session

    spark = spark_session("who led what")
    spark.read.format("quorate").option("bootstrapServers", "localhost:9092").load().show()
    leadership_history(spark, bootstrapServers="localhost:9092").show()

In a session of your own: `register(spark)`.

Names are imported when they are first used: `quorate log dump` reads the log with this package's modules, and
must not need PySpark for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from quorate.runtime import need

if TYPE_CHECKING:
    from quorate.spark_source.cluster import ClusterLog
    from quorate.spark_source.entries import Entry, entries_of, record_json
    from quorate.spark_source.folder import FolderLog
    from quorate.spark_source.java import NoJavaError
    from quorate.spark_source.leadership_view import leadership_history
    from quorate.spark_source.session import spark_session
    from quorate.spark_source.source import MetadataLogSource, register
    from quorate.spark_source.spark_errors import DamagedRecordError, LogUnavailableError, SourceError

_HOMES = {
    "ClusterLog": "cluster",
    "Entry": "entries",
    "FolderLog": "folder",
    "entries_of": "entries",
    "record_json": "entries",
    "DamagedRecordError": "spark_errors",
    "LogUnavailableError": "spark_errors",
    "SourceError": "spark_errors",
    "leadership_history": "leadership_view",
    "NoJavaError": "java",
    "spark_session": "session",
    "MetadataLogSource": "source",
    "register": "source",
}
_ON_PYSPARK = ("leadership_view", "session", "source")


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOMES[name] in _ON_PYSPARK:
        need(f"quorate.spark_source.{name}", "pyspark", "pyarrow", "pandas", extra="spark")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = [
    "ClusterLog",
    "DamagedRecordError",
    "Entry",
    "FolderLog",
    "LogUnavailableError",
    "MetadataLogSource",
    "NoJavaError",
    "SourceError",
    "entries_of",
    "leadership_history",
    "record_json",
    "register",
    "spark_session",
]
