"""A sample of a metadata log, in a folder and at brokers, and a Spark session to read it."""

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from log_fixtures import new_broker, new_log, story
from written_log import WrittenLog, write_sample

from quorate.spark_source import MetadataLogSource
from tests.kit.spark_sessions import tests_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["new_broker", "new_log", "story"]


def read_rows(**options: object) -> list[dict[str, Any]]:
    """All rows, as Spark would read them: everything that crosses processes is pickled."""
    made = MetadataLogSource({name: str(value) for name, value in options.items()})
    source = pickle.loads(pickle.dumps(made))
    reader = source.reader(source.schema())
    partitions = [pickle.loads(pickle.dumps(part)) for part in reader.partitions()]
    reader = pickle.loads(pickle.dumps(reader))
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a change feed in the order of the log, those of several partitions in any that is fixed."""
    return sorted(rows, key=lambda row: (row["offset"], row["row"], repr(row)))


@pytest.fixture
def sample(new_log: Callable[..., WrittenLog]) -> WrittenLog:
    """The sample in one segment, written and committed."""
    log = new_log()
    write_sample(log)
    log.write()
    return log


@pytest.fixture
def tell() -> Callable[[WrittenLog], None]:
    return write_sample


@pytest.fixture(scope="session")
def session_sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenLog]:
    """As `sample`, over many small segments; not to be changed."""
    log = WrittenLog(
        folder=tmp_path_factory.mktemp("spark") / "node", segment_bytes=400, index_interval_bytes=64
    )
    write_sample(log)
    log.write()
    yield log


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One session for all tests."""
    with tests_session() as session:
        yield session
