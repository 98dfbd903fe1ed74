"""A Spark session, and the tables of a story."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate.pipelines.tables import all_tables
from tests.kit.change_feed import SCHEMA, ChangeFeed
from tests.kit.spark_sessions import tests_session
from tests.pipelines.spark_processes import SparkProcesses


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests."""
    with tests_session({"spark.sql.adaptive.enabled": "false"}) as session:
        yield session


@pytest.fixture
def feed() -> ChangeFeed:
    """A cluster of three brokers, all in service, with controller 1."""
    feed = ChangeFeed()
    feed.elect_controller(1)
    for broker in (1, 2, 3):
        feed.register(broker)
        feed.unfence(broker)
    feed.wait(10)
    return feed


@pytest.fixture
def frame(spark: SparkSession) -> Callable[..., DataFrame]:
    """Make the rows of a story, or some of them, a DataFrame: not in order, as Spark promises none."""

    def made(feed: ChangeFeed, rows: list[dict[str, object]] | None = None) -> DataFrame:
        return spark.createDataFrame(feed.tuples(rows)[::-1], SCHEMA)

    return made


@pytest.fixture
def tables(frame: Callable[..., DataFrame]) -> Callable[[ChangeFeed], dict[str, DataFrame]]:
    """All tables of a story, with the change feed at hand."""

    def made(feed: ChangeFeed) -> dict[str, DataFrame]:
        return all_tables(frame(feed).cache())

    return made


@pytest.fixture
def spark_processes(spark: SparkSession, tmp_path: Path) -> Iterator[SparkProcesses]:
    """Programs of Spark beside the session of the tests, which shows that there is a Java. None is left."""
    processes = SparkProcesses(tmp_path)
    yield processes
    processes.kill_all()
