"""The metadata log as a Spark data source.

    from quorate.spark_source import leadership_history, spark_session

    spark = spark_session("who led what")
    spark.read.format("quorate").option("bootstrapServers", "localhost:9092").load().show()
    leadership_history(spark, bootstrapServers="localhost:9092").show()

In a session of your own: `register(spark)`.
"""

from quorate.spark_source.errors import SourceError
from quorate.spark_source.history import leadership_history
from quorate.spark_source.java import find_java
from quorate.spark_source.session import spark_session
from quorate.spark_source.source import MetadataLogSource, register

__all__ = [
    "MetadataLogSource",
    "SourceError",
    "find_java",
    "leadership_history",
    "register",
    "spark_session",
]
