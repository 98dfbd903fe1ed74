"""The Spark session of tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from quorate.spark_source import NoJavaError, spark_session
from quorate.spark_source.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def tests_session(config: Mapping[str, str] | None = None) -> Iterator["SparkSession"]:
    """A session for a block. Skips the test if there is no Java."""
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        # Not the first tier alone, which would save a third: under it a pipeline's write failed now and
        # then, by a map that had lost a key, and said that it had not.
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC")
        session = spark_session("quorate tests", config=config)
    # Without the option from here on: each Java that another test starts would say that it was picked up.
    yield session
    session.stop()
