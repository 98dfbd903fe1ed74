"""The tables of a pipeline. The docstring of a function says what its table is, and the names of its
parameters what it is made of."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from quorate.pipelines import histories, incidents, measures, outages

BRONZE: Final[Mapping[str, str]] = {
    "records": "The records of the metadata log, as they are.",
    "changes": "The change feed of all entities.",
}
"""The streaming tables: a view of the source each, with its sentence."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a function makes of others, all of them DataFrames."""

    make: Callable[..., DataFrame]

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the tables that it is made of."""
        return tuple(inspect.signature(self.make).parameters)

    @property
    def comment(self) -> str:
        """A sentence about it: the first of its docstring."""
        sentence = inspect.cleandoc(self.make.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        rows = sentence.removeprefix("Return ")
        return rows[:1].upper() + rows[1:]

    def of(self, tables: Mapping[str, DataFrame]) -> DataFrame:
        """Return the table, made of some of `tables`."""
        return self.make(*(tables[name] for name in self.reads))


TABLES: Final = tuple(
    Table(make)
    for make in (
        histories.partition_history,
        histories.broker_history,
        histories.topic_history,
        histories.config_history,
        histories.quorum_history,
        outages.under_replicated,
        outages.under_min_isr,
        outages.leaderless,
        measures.time_to_new_leader,
        measures.leadership_churn,
        measures.isr_changes,
        measures.reassignments,
        measures.imbalance,
        measures.controller_failovers,
        measures.slowest_changes,
        incidents.incidents,
    )
)
"""Silver, then gold. Each reads `changes` or tables before it."""


def all_tables(changes: DataFrame, *, persist: bool = False) -> dict[str, DataFrame]:
    """Return every table by its name, made of the change feed: rows of `view=changes`. Nothing is computed
    yet. `persist`: compute only once what others read, and keep it while the session lasts."""
    kept = {name for table in TABLES for name in table.reads} if persist else set()
    tables = {"changes": changes.persist() if "changes" in kept else changes}
    for table in TABLES:
        rows = table.of(tables)
        tables[table.name] = rows.persist() if table.name in kept else rows
    return tables


def read_changes(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return the change feed from the begin of the log to its end as it is now. `options`: of the source."""
    reader = spark.read.format("quorate").options(**options)
    return reader.options(view="changes", startingOffsets="earliest").load()
