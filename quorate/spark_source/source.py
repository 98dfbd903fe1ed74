"""`format("quorate")`."""

from collections.abc import MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from quorate.history import LogUnavailableError, UnknownHighWatermarkError
from quorate.spark_source.batch_query import MetadataBatchReader
from quorate.spark_source.scan import log_access
from quorate.spark_source.source_options import parse_options
from quorate.spark_source.spark_errors import OptionError
from quorate.spark_source.stream_reader import MetadataStreamReader
from quorate.spark_source.views.registry import new_view

FORMAT = "quorate"


class MetadataLogSource(DataSource):
    """A Spark data source of a cluster's metadata log, from brokers or from a folder.
    `quorate.spark_source.source_options` has its options.

    Each `load()` fixes the end of the log for batch queries. Spark plans every action of a DataFrame again,
    and all must read the same log.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(dict(options))
        self._schema = new_view(self._options).schema
        try:
            self._extent = log_access(self._options).extent()
        except UnknownHighWatermarkError as error:
            raise LogUnavailableError(f"{error}; or set readUncommitted=true to read all there is") from error

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`: quorate."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of the selected view."""
        return self._schema

    def reader(self, schema: StructType) -> MetadataBatchReader:
        """Return the reader of a batch query. Raises `OptionError` if `schema` is not the view's."""
        self._check(schema)
        return MetadataBatchReader(self._options, self._extent)

    def streamReader(self, schema: StructType) -> MetadataStreamReader:
        """Return the reader of a streaming query. Raises `OptionError` if `schema` is not the view's."""
        self._check(schema)
        return MetadataStreamReader(self._options)

    def _check(self, schema: StructType) -> None:
        if schema != self._schema:
            raise OptionError(
                f"the schema of view {self._options.view.value} is fixed; leave out .schema(...) and select "
                "the columns you want"
            )


def register(spark: SparkSession) -> None:
    """Register `format("quorate")` in this Spark session. Executors need an installed quorate."""
    spark.dataSource.register(MetadataLogSource)
