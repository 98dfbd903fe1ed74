"""`format("quorate")`."""

from collections.abc import MutableMapping
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from quorate.history import FolderLog, MetadataHistory, UnknownHighWatermarkError
from quorate.spark_source.batch_query import FilteringBatchReader, MetadataBatchReader
from quorate.spark_source.scan import Scan, schema_of
from quorate.spark_source.source_options import SourceOptions, parse_options
from quorate.spark_source.spark_errors import OptionError
from quorate.spark_source.stream_reader import MetadataStreamReader

FORMAT = "quorate"


class MetadataLogSource(DataSource):
    """A Spark data source of a cluster's metadata log, from brokers or from a folder.
    `quorate.spark_source.source_options` has its options.

    Each `load()` fixes the end of the log for batch queries. Spark plans every action of a DataFrame again,
    and all must read the same log.
    """

    takes_filters: ClassVar[bool] = False
    """True: Spark passes filters in the sessions in which it is registered."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(dict(options))
        self._schema = from_arrow_schema(schema_of(self._options), prefer_timestamp_ntz=False)
        self._scan = Scan(log=history_of(self._options), options=self._options)
        try:
            self._extent = self._scan.log.extent()
        except UnknownHighWatermarkError as error:
            raise UnknownHighWatermarkError(
                f"{error}. Set readUncommitted=true to read all that was written"
            ) from error

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
        asked = self._options.push_filters
        filters = self.takes_filters if asked is None else asked
        return (FilteringBatchReader if filters else MetadataBatchReader)(self._scan, self._extent)

    def streamReader(self, schema: StructType) -> MetadataStreamReader:
        """Return the reader of a streaming query. Raises `OptionError` if `schema` is not the view's."""
        self._check(schema)
        return MetadataStreamReader(self._scan)

    def _check(self, schema: StructType) -> None:
        if schema != self._schema:
            raise OptionError(
                f"the schema of view {self._options.view.value} is fixed; leave out .schema(...) and select "
                "the columns you want"
            )


class FilteringLogSource(MetadataLogSource):
    """The source in a session that passes filters to sources in Python. In others Spark refuses a reader that
    could take them, so the source that Spark finds by itself needs the option `pushFilters`."""

    takes_filters: ClassVar[bool] = True


def history_of(options: SourceOptions) -> MetadataHistory:
    """Return the log that the options name. Raises `OptionError`."""
    if options.path is not None:
        return FolderLog(path=options.path, read_uncommitted=options.read_uncommitted)
    # A folder's reader needs neither trio nor a client.
    from quorate.broker.wire.client_protection import ClientNetwork, ClientProtectionError
    from quorate.history import ClusterLog

    try:
        network = ClientNetwork(dict(options.protection))
    except ClientProtectionError as error:
        raise OptionError(f"kafka.{error}") from None
    return ClusterLog(
        network=network,
        bootstrap_servers=options.bootstrap_servers,
        retries=options.retries,
        retry_interval_ms=options.retry_interval_ms,
        request_timeout_ms=options.request_timeout_ms,
    )


def register(spark: SparkSession) -> None:
    """Register `format("quorate")` in this Spark session, and have the session pass filters to sources in
    Python. Executors need an installed quorate."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(FilteringLogSource)
