"""The demo's last look, by Spark at the metadata log: the topic's leadership history, and a report."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from quorate.cli.console.cli_errors import CommandError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tables: TypeAlias = "Mapping[str, DataFrame]"
"""The tables of `quorate.pipelines` by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldIncident:
    """An outage of a broker, as the report tells it."""

    broker: int
    title: str
    led: int
    """The number of partitions that it led."""
    outage: str
    """The longest time until one of them had another leader, with its unit; empty if it led none."""


class SparkAhead:
    """A Spark session that starts while other things happen: it takes longer than the rest of the demo."""

    def __init__(self, report_file: Path) -> None:
        self._report_file = report_file
        self._session: SparkSession | None = None
        self._error: CommandError | None = None
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            # The plots of the report take a second to import.
            import quorate.pipelines.report.page  # noqa: F401
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

    def read_tables(self, bootstrap: str) -> Tables:
        """Return the tables over the log as it is now. Spark reads the log once for all of them. Raises
        `CommandError` when there is no Spark or no Java."""
        self._thread.join()
        if self._error is not None or self._session is None:
            raise self._error or CommandError(
                "Spark did not start; see above, or leave it out with --no-spark"
            )
        from quorate.pipelines.tables import all_tables, read_changes

        return all_tables(read_changes(self._session, {"bootstrapServers": bootstrap}), persist=True)

    def write_report(self, tables: Tables) -> list[ToldIncident]:
        """Write the report, and return the incidents in it by their time."""
        from quorate.pipelines.report.facts import collect_facts
        from quorate.pipelines.report.page import write_page
        from quorate.pipelines.report.story import duration_text, incident_title

        facts = collect_facts(tables, progress=lambda _: None)
        write_page(self._report_file, facts, title="What happened in the demo")
        return [
            ToldIncident(
                broker=each["broker_id"],
                title=incident_title(each),
                led=each["led"],
                outage=duration_text(each["longest_outage_ms"]),
            )
            for each in facts.incidents
        ]

    def stop(self) -> None:
        self._thread.join()
        if self._session is not None:
            self._session.stop()


def leadership_rows(tables: Tables, topic: str) -> list[dict[str, object]]:
    """Return a row per state of the topic's partitions, in log order."""
    history = tables["partition_history"]
    of_topic = history.where(history["topic"] == topic).orderBy("from_offset", "from_row")
    return [row.asDict() for row in of_topic.collect()]


def leader_of(row: dict[str, object]) -> int:
    """Return the leader, or -1 where there was none."""
    leader = row["leader"]
    assert isinstance(leader, int)  # noqa: S101 (for the type checker)
    return leader
