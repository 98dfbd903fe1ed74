"""The metadata log as a Spark data source.

    from quorate.spark_source import spark_session

    spark = spark_session("who led what")
    spark.read.format("quorate").option("bootstrapServers", "localhost:9092").load().show()
    spark.read.format("quorate").option("view", "partitions").load("./quorate-data/1/data").show()

In a session of your own: `register(spark)`.

`quorate.history` reads the log without Spark. Names are imported when they are first used, because only some
of them need PySpark.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily
from quorate.runtime import need

if TYPE_CHECKING:
    from quorate.history import DamagedRecordError, LogUnavailableError
    from quorate.spark_source.java import NoJavaError
    from quorate.spark_source.session import spark_session
    from quorate.spark_source.source import MetadataLogSource, register
    from quorate.spark_source.spark_errors import SourceError

_HOMES = {
    "DamagedRecordError": "quorate.history",
    "LogUnavailableError": "quorate.history",
    "SourceError": "quorate.spark_source.spark_errors",
    "NoJavaError": "quorate.spark_source.java",
    "spark_session": "quorate.spark_source.session",
    "MetadataLogSource": "quorate.spark_source.source",
    "register": "quorate.spark_source.source",
}
_ON_PYSPARK = ("spark_session", "MetadataLogSource", "register")

_find = lazily(__name__, _HOMES)


def __getattr__(name: str) -> object:
    if name in _ON_PYSPARK:
        need(f"quorate.spark_source.{name}", "pyspark", "pyarrow", "pandas", extra="spark")
    return _find(name)


__all__ = [
    "DamagedRecordError",
    "LogUnavailableError",
    "MetadataLogSource",
    "NoJavaError",
    "SourceError",
    "register",
    "spark_session",
]
