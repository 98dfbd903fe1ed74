"""One session's part of the Spark suite, in a process of its own: writes its figures, JSON a line.

Each view is read beside what bounds it: the ceiling of its columns, and Parquet of its rows. With --brokers
the records come from a topic instead, through Spark's Kafka source and `from_json`. A query that is refused
or fails gives a figure with the reason.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from spark.ceiling import CEILING, CeilingSource, take_sample
from spark.spark_processes import PeakMemory, cpu_seconds
from spark.standalone import standalone

from quorate.raft.storage.storage import LOG_FOLDER
from quorate.raft.storage.watermark import load_high_watermark
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.spark_source import MetadataLogSource, SourceError, spark_session
from quorate.spark_source.source import FORMAT

STANDALONE: Final = "standalone"
"""The name of the master that is a cluster of two workers."""
STEPS: Final = ("ceiling", "parquet", "quorate")
BATCH: Final = "batch"
AVAILABLE_NOW: Final = "AvailableNow"
PREPARATION: Final = "preparation"
"""The mode of what precedes the queries."""
PARQUET: Final = "Parquet"
KAFKA: Final = "Kafka and from_json"
LAST: Final = 1_000
"""Offsets at the end of the log that are filtered for."""
LAST_ONES: Final = f"{FORMAT}, the last {LAST:,} offsets"
TOPIC: Final = "metadata-as-json"
_WARM_UP_ROWS: Final = 200_000

Options = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    name: str
    options: Mapping[str, str]
    is_state: bool = False
    """A row for each entity, instead of rows for each record."""


DECODED: Final = View(name="decoded", options={"view": "decoded"})
VIEWS: Final = (
    View(name="records", options={"view": "records"}),
    DECODED,
    View(name="partitions, changes", options={"view": "partitions", "readChangeFeed": "true"}),
    View(name="changes", options={"view": "changes"}),
    View(name="partitions, state", options={"view": "partitions"}, is_state=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One query. The figures are None where it was refused or failed, and `problem` says why."""

    view: str
    source: str
    mode: str
    master: str
    log_records: int
    rows: int | None = None
    wall_s: float | None = None
    jvm_cpu_s: float | None = None
    python_cpu_s: float | None = None
    worker_mib: float | None = None
    """The most memory of one Python process."""
    problem: str = ""


Query = Callable[[], int]
"""A query, run to its end. Returns the number of its rows."""
Queries = dict[tuple[str, str], Query]
"""By source and mode."""


class Cases:
    """The queries of one session over one log. Each is reported as soon as it has run."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        log: Path,
        master: str,
        folder: Path,
        rounds: int,
        report: Callable[[Figures], None],
    ) -> None:
        """`folder`: an empty one, for what is written on the way."""
        self._spark = spark
        self._log = log
        self._master = master
        self._folder = folder
        self._rounds = rounds
        self._report = report
        self._end = int(load_high_watermark(RealDisk(sync=SyncStrategy.INLINE), str(log / LOG_FOLDER)) or 0)
        self._streams = 0
        spark.dataSource.register(CeilingSource)

    def run(self, views: Sequence[View], steps: Sequence[str]) -> None:
        """Read each view from the log, beside what bounds it."""
        for view in views:
            with self._problems_reported(view.name, FORMAT, PREPARATION):
                self._measure_in_turns(view.name, self._of_log(view, steps))

    def run_kafka(self, brokers: str, *, records: int) -> None:
        """Read the log's first records from a topic, into which they are put before, as JSON of `DECODED`."""
        with self._problems_reported(DECODED.name, KAFKA, PREPARATION):
            self._measure_in_turns(DECODED.name, self._of_topic(brokers, min(records, self._end)))

    def _of_log(self, view: View, steps: Sequence[str]) -> Queries:
        options = {"path": str(self._log), **view.options}
        ours = partial(self._frame, FORMAT, options)
        file = {"path": str(self._folder / view.name.replace(", ", "-"))}
        queries: Queries = {}
        if "parquet" in steps and not view.is_state:
            ours().write.parquet(file["path"])
            rows = self._frame("parquet", file).count()
            queries[PARQUET, BATCH] = lambda: self._batch(self._frame("parquet", file), rows)
        else:
            rows = ours().count()
        if "quorate" in steps:
            queries[FORMAT, BATCH] = lambda: self._batch(ours(), rows)
        if view.is_state:
            return queries
        if "quorate" in steps:
            from_start = {**options, "startingOffsets": "earliest"}
            pushed = {**options, "pushFilters": "true"}
            last = col("offset") >= self._end - LAST
            queries[FORMAT, AVAILABLE_NOW] = lambda: self._stream(FORMAT, from_start)
            queries[LAST_ONES, BATCH] = lambda: self._frame(FORMAT, pushed).where(last).count()
        if "ceiling" in steps:
            sample = take_sample(MetadataLogSource(options), Path(f"{file['path']}.arrow"))
            tasks = self._spark.sparkContext.defaultParallelism
            made = sample.options(rows=rows, tasks=tasks)
            self._batch(self._frame(CEILING, sample.options(rows=_WARM_UP_ROWS, tasks=tasks)), rows)
            queries[CEILING, BATCH] = lambda: self._batch(self._frame(CEILING, made), rows)
            queries[CEILING, AVAILABLE_NOW] = lambda: self._stream(CEILING, made)
        return queries

    def _of_topic(self, brokers: str, records: int) -> Queries:
        part = {"path": str(self._log), **DECODED.options, "endingOffsets": str(records)}
        decoded = self._frame(FORMAT, part)
        schema = decoded.schema
        topic = {"kafka.bootstrap.servers": brokers}
        written = decoded.selectExpr("to_json(struct(*)) AS value").write.format("kafka")
        written.options(**topic, topic=TOPIC).save()
        read = {**topic, "subscribe": TOPIC, "startingOffsets": "earliest"}
        rows = self._frame("kafka", read).count()

        def typed(frame: DataFrame) -> DataFrame:
            return frame.select(from_json(col("value").cast("string"), schema).alias("row")).select("row.*")

        return {
            (KAFKA, BATCH): lambda: self._batch(typed(self._frame("kafka", read)), rows),
            (KAFKA, AVAILABLE_NOW): lambda: self._stream("kafka", read, typed),
        }

    def _frame(self, source: str, options: Options) -> DataFrame:
        return self._spark.read.format(source).options(**options).load()

    def _batch(self, frame: DataFrame, rows: int) -> int:
        """`rows`: the number that `frame` has. To count them here would take part of the time measured."""
        frame.write.format("noop").mode("overwrite").save()
        return rows

    def _stream(
        self, source: str, options: Options, change: Callable[[DataFrame], DataFrame] = lambda frame: frame
    ) -> int:
        self._streams += 1
        frame = change(self._spark.readStream.format(source).options(**options).load())
        query = (
            frame.writeStream.format("noop")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(self._folder / f"checkpoint-{self._streams}"))
            .start()
        )
        query.awaitTermination()
        return sum(int(progress["numInputRows"]) for progress in query.recentProgress)

    def _measure_in_turns(self, view: str, queries: Queries) -> None:
        for turn in range(self._rounds):
            # From both ends, so that none is always the one that finds everything warm.
            for (source, mode), query in sorted(queries.items(), reverse=turn % 2 == 1):
                with self._problems_reported(view, source, mode):
                    self._measure(view, source, mode, query)

    def _measure(self, view: str, source: str, mode: str, query: Query) -> None:
        before, began = cpu_seconds(), time.perf_counter()
        with PeakMemory() as peak:
            rows = query()
            wall_s = time.perf_counter() - began
        spent = cpu_seconds().since(before)
        self._report(
            Figures(
                view=view,
                source=source,
                mode=mode,
                master=self._master,
                log_records=self._end,
                rows=rows,
                wall_s=wall_s,
                jvm_cpu_s=spent.jvm,
                python_cpu_s=spent.python,
                worker_mib=peak.worker_mib,
            )
        )

    @contextmanager
    def _problems_reported(self, view: str, source: str, mode: str) -> Iterator[None]:
        try:
            yield
        except (PySparkException, Py4JError, SourceError, ValueError) as error:
            self._report(
                Figures(
                    view=view,
                    source=source,
                    mode=mode,
                    master=self._master,
                    log_records=self._end,
                    problem=_reason(error),
                )
            )


def _reason(error: Exception) -> str:
    """The source's own sentence within Spark's message, or else that message's first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("quorate.")]
    return (ours or lines or [type(error).__name__])[0][:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, help="a node's folder")
    parser.add_argument("--master", default="local[2]", help=f"of Spark, or {STANDALONE}")
    parser.add_argument("--views", nargs="+", default=[view.name for view in VIEWS])
    parser.add_argument("--steps", nargs="+", default=STEPS, choices=STEPS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--brokers", help="read a topic of this cluster instead")
    parser.add_argument("--jars", help="with --brokers: Spark's Kafka source, separated by commas")
    parser.add_argument("--records", type=int, default=1_000_000, help="with --brokers: the most")
    parser.add_argument("--folder", type=Path, required=True, help="an empty one")
    parser.add_argument("--figures", type=Path, required=True, help="the file to append to")
    asked = parser.parse_args()
    # Workers import the ceiling's module, and the packages that this process does.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    is_cluster = asked.master == STANDALONE
    where = standalone(asked.folder / "spark", workers=2) if is_cluster else nullcontext((asked.master, {}))
    with where as (master, settings), asked.figures.open("a") as output:
        settings |= {
            "spark.driver.memory": "1g",
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.sql.python.filterPushdown.enabled": "true",
        }
        if asked.brokers:
            settings["spark.jars"] = asked.jars

        def report(figures: Figures) -> None:
            print(json.dumps(asdict(figures)), file=output, flush=True)

        spark = spark_session("quorate benchmark", master=master, config=settings)
        try:
            cases = Cases(
                spark,
                log=asked.log,
                master=asked.master,
                folder=asked.folder,
                rounds=asked.rounds,
                report=report,
            )
            if asked.brokers:
                cases.run_kafka(asked.brokers, records=asked.records)
            else:
                cases.run([view for view in VIEWS if view.name in asked.views], asked.steps)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
