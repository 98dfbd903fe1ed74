"""The demo's last look: the topic's leadership history, as Spark reads it from the metadata log."""

import threading
from typing import TYPE_CHECKING

from quorate.cli.console.cli_errors import CommandError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkAhead:
    """A Spark session that starts while other things happen: it takes longer than the rest of the demo."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._error: CommandError | None = None
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            from quorate.spark_source import NoJavaError, spark_session
        except ImportError as error:
            self._error = CommandError(
                f"{error.name} is missing: pip install 'quorate[spark]', or leave Spark out with --no-spark"
            )
            return
        try:
            self._session = spark_session("quorate demo")
            # The first query loads most of the engine.
            self._session.range(1).collect()
        except NoJavaError as error:
            self._error = CommandError(f"{error}; or leave Spark out with --no-spark")

    def leadership_rows(self, bootstrap: str, topic: str) -> list[dict[str, object]]:
        """Return a row per state of the topic's partitions, in log order:
        `quorate.spark_source.leadership_history`. Raises `CommandError` when there is no Spark or no Java."""
        from quorate.spark_source import leadership_history

        self._thread.join()
        if self._error is not None or self._session is None:
            raise self._error or CommandError(
                "Spark did not start; see above, or leave it out with --no-spark"
            )
        history = leadership_history(self._session, topic=topic, bootstrapServers=bootstrap)
        return [row.asDict() for row in history.collect()]

    def stop(self) -> None:
        self._thread.join()
        if self._session is not None:
            self._session.stop()


def leader_of(row: dict[str, object]) -> int:
    """Return the leader, or -1 where there was none."""
    leader = row["leader"]
    assert isinstance(leader, int)  # noqa: S101 (for the type checker)
    return leader
