"""The Spark suite: the cost of a row of each view, beside Spark's transport, Parquet and its Kafka source.

Sessions are processes of their own (`cases`), one after the other. A view and its ceiling share a session.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from brokers import QUIET, serving
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from report import Grid, Report, number
from spark.cases import CEILING, DECODED, KAFKA, LAST_ONES, PARQUET, TOPIC, VIEWS, Figures

from quorate.cli.node.local_cluster import LocalCluster
from quorate.spark_source.source import FORMAT

_BENCHMARKS: Final = Path(__file__).parents[1]
sys.path.append(str(_BENCHMARKS.parent / "scripts" / "kafka_tools"))

import jars  # noqa: E402

_KAFKA_RECORDS: Final = 1_000_000
"""At most, because their JSON is put into a topic first."""
_AIMS: Final = {"records": 0.8, "decoded": 0.5, "partitions, changes": 0.5, "changes": 0.5}
"""The least rate of a view, in that of its ceiling."""
_LAST_ONES_AIM_S: Final = 1.0
TABLE_COLUMNS: Final = (
    "by", "master", "rows", "s", "rows/s", "log records/s", "of ceiling", "aim", "met",
    "JVM CPU s", "Python CPU s", "CPU us/row", "worker MiB",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    masters: Sequence[str]
    """Of Spark, or `cases.STANDALONE`."""
    views: Sequence[str]
    """Names of `cases.VIEWS`; none: all."""
    rounds: int


def run(folder: Path, *, logs: Sequence[Path], plan: Plan) -> Report:
    """`logs`: node's folders, as `make_log` makes them. `folder`: for what is written on the way."""
    report = Report(title="The metadata log in Spark", systems=["quorate"])
    views = plan.views or [view.name for view in VIEWS]
    sessions = count(1)
    for log in logs:
        found: list[Figures] = []
        for master in plan.masters:
            # Spark takes brackets in a path for a pattern, so that it can't have the master's name.
            session = _Session(folder.absolute() / f"session-{next(sessions)}", log, master, plan.rounds)
            found += session.run(report.notes, "--views", *views)
            if DECODED.name in views:
                session = replace(session, folder=folder.absolute() / f"session-{next(sessions)}")
                found += _read_from_kafka(session, report.notes)
        report.rounds.extend({"log": log.name, **asdict(each)} for each in found)
        report.notes.extend(
            f"{each.view}: {each.source}, {each.mode}, {each.master}: {each.problem}"
            for each in found
            if each.problem
        )
        report.grids.append(
            Grid(title=f"The log {log.name}", columns=TABLE_COLUMNS, rows=[*table_rows(found)])
        )
    return report


@dataclass(frozen=True, slots=True)
class _Session:
    """One session of Spark: a process of `cases`."""

    folder: Path
    log: Path
    master: str
    rounds: int

    def run(self, notes: list[str], *arguments: str) -> list[Figures]:
        """Return the figures. If the process fails, `notes` gets the reason."""
        self.folder.mkdir(parents=True)
        figures = self.folder / "figures"
        command = [sys.executable, "-m", "spark.cases", str(self.log.absolute()), "--master", self.master]
        command += ["--folder", str(self.folder), "--figures", str(figures), "--rounds", str(self.rounds)]
        with (self.folder / "out").open("w+") as output:
            done = subprocess.run([*command, *arguments], cwd=_BENCHMARKS, stdout=output, stderr=output)
            output.seek(0)
            said = [line.strip() for line in output if line.strip()]
        if done.returncode:
            reason = (said or [""])[-1]
            asked = " ".join(arguments[:1])
            notes.append(f"Session {self.master} {asked} ended with code {done.returncode}: {reason}")
        lines = figures.read_text().splitlines() if figures.exists() else []
        return [Figures(**json.loads(line)) for line in lines]


def _read_from_kafka(session: _Session, notes: list[str]) -> list[Figures]:
    """Read the same records from a topic of a real node. Without the jars `notes` gets the reason."""
    try:
        packages = ",".join(map(str, jars.of_spark("kafka")))
    except jars.CantRunHereError as missing:
        notes.append(f"Spark's Kafka source was not measured: {missing}")
        return []
    folder = session.folder.with_name(f"{session.folder.name}-node")
    cluster = LocalCluster.plan(folder, nodes=1, client_port=0)
    cluster.prepare()
    with serving(cluster):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(timeout=60)
        asked = ("--brokers", cluster.bootstrap, "--jars", packages, "--records", str(_KAFKA_RECORDS))
        return session.run(notes, *asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    """The medians of a query's rounds."""

    rows: float
    wall_s: float
    jvm_cpu_s: float
    python_cpu_s: float
    worker_mib: float

    @property
    def per_second(self) -> float:
        return self.rows / self.wall_s


def table_rows(found: Sequence[Figures]) -> Iterator[tuple[str, ...]]:
    """The rows of the table: the medians of each query's rounds, by master, view and source."""
    masters = list(dict.fromkeys(each.master for each in found))
    views, sources = [view.name for view in VIEWS], [CEILING, PARQUET, KAFKA, FORMAT, LAST_ONES]
    rounds: dict[tuple[str, str, str, str], list[Figures]] = {}
    for each in found:
        if not each.problem:
            rounds.setdefault((each.master, each.view, each.source, each.mode), []).append(each)
    queries = {key: _median(of_query) for key, of_query in rounds.items()}

    def order(key: tuple[str, str, str, str]) -> tuple[int, int, int, str]:
        master, view, source, mode = key
        return masters.index(master), views.index(view), sources.index(source), mode

    for key in sorted(queries, key=order):
        master, view, source, mode = key
        query, ceiling = queries[key], queries.get((master, view, CEILING, mode))
        of_log = rounds[key][0].log_records if source == FORMAT else None
        ratio = query.per_second / ceiling.per_second if ceiling and source != LAST_ONES else None
        yield (
            f"{view}: {source}, {mode}",
            master,
            f"{query.rows:,.0f}",
            number(query.wall_s),
            number(query.per_second),
            number(of_log / query.wall_s if of_log else None),
            "-" if ratio is None else f"{ratio:.2f}",
            *_judged(view, source, query.wall_s, ratio),
            number(query.jvm_cpu_s),
            number(query.python_cpu_s),
            number((query.jvm_cpu_s + query.python_cpu_s) / max(query.rows, 1) * 1e6),
            number(query.worker_mib),
        )


def _judged(view: str, source: str, wall_s: float, ratio: float | None) -> tuple[str, str]:
    """The aim, and whether it is met."""
    if source == LAST_ONES:
        return f"{_LAST_ONES_AIM_S:g} s", "met" if wall_s <= _LAST_ONES_AIM_S else "missed"
    if source == FORMAT and ratio is not None:
        return f"{_AIMS[view]:g}", "met" if ratio >= _AIMS[view] else "missed"
    return "", ""


def _median(rounds: Sequence[Figures]) -> _Query:
    def of(name: str) -> float:
        return median(getattr(each, name) for each in rounds)

    return _Query(**{field.name: of(field.name) for field in fields(_Query)})
