"""`format("quorate")`."""

from collections.abc import MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from quorate.spark_source.batch_reader import MetadataBatchReader
from quorate.spark_source.errors import OptionError
from quorate.spark_source.options import parse_options
from quorate.spark_source.scan import log_access
from quorate.spark_source.stream_reader import MetadataStreamReader
from quorate.spark_source.views import new_view

FORMAT = "quorate"


class MetadataLogSource(DataSource):
    """The metadata log of a cluster, live or in a folder. Options: `quorate.spark_source.options`.

    What "now" means for a batch query is settled here, once per `load()`: Spark plans each action of a
    DataFrame anew, and all must see the same log.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(dict(options))
        self._schema = new_view(self._options).schema
        self._extent = log_access(self._options).extent()

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return self._schema

    def reader(self, schema: StructType) -> MetadataBatchReader:
        self._check(schema)
        return MetadataBatchReader(self._options, self._extent)

    def streamReader(self, schema: StructType) -> MetadataStreamReader:
        self._check(schema)
        return MetadataStreamReader(self._options)

    def _check(self, schema: StructType) -> None:
        if schema != self._schema:
            raise OptionError(
                f"the schema of view {self._options.view.value} is fixed; leave out .schema(...) and select "
                "the columns you want"
            )


def register(spark: SparkSession) -> None:
    """Make `format("quorate")` known to this session. Executors need quorate installed."""
    spark.dataSource.register(MetadataLogSource)
