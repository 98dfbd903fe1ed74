"""A run of a project by Spark's declarative pipelines, through Spark Connect."""

import os
import secrets
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.pipelines.cli import PipelineSpec, change_dir, load_pipeline_spec, register_definitions
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from quorate.pipelines.pipeline_errors import PipelineError
from quorate.pipelines.project import SPEC, at_place, session_defaults
from quorate.pipelines.tables import BRONZE, TABLES
from quorate.spark_source import spark_session

_CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""The environment variable by which PySpark's functions make expressions for Connect."""


@dataclass(frozen=True, slots=True)
class PipelineEvent:
    """A step of a run, such as that a flow is running."""

    timestamp_ms: int
    message: str


def run_pipeline(
    folder: Path,
    *,
    place: Mapping[str, str],
    remote: str | None = None,
    dry: bool = False,
    full_refresh: bool = False,
) -> Iterator[PipelineEvent]:
    """Run the project in `folder`, and yield what happens until all tables are up to date.

    `place`: the option of the source that names another place of the log than the project's, or none.
    `remote`: the URL of a Spark Connect server; None: Spark runs in this process while the run lasts. `dry`:
    only check the tables. `full_refresh`: read the whole log again. Raises `PipelineError` if there is no
    project, and PySpark's errors.
    """
    file, spec = _spec(folder)
    configuration = at_place(spec.configuration, place)
    with _connected(file.parent, configuration, remote=remote) as spark:
        graph = create_dataflow_graph(spark, spec.catalog, spec.database, configuration)
        registry = SparkConnectGraphElementRegistry(spark, graph)
        # It prints what it finds.
        with redirect_stdout(sys.stderr):
            register_definitions(file, registry, spec, spark, graph)
        yield from _events(
            start_run(
                spark,
                graph,
                full_refresh=None,
                full_refresh_all=full_refresh,
                refresh=None,
                dry=dry,
                storage=spec.storage,
            )
        )


@contextmanager
def open_tables(folder: Path, *, remote: str | None = None) -> Iterator[dict[str, DataFrame]]:
    """Provide the tables of the project in `folder` by their names, as the last run left them."""
    file, spec = _spec(folder)
    with _connected(file.parent, spec.configuration, remote=remote) as spark:
        if spec.catalog is not None:
            spark.catalog.setCurrentCatalog(spec.catalog)
        if spec.database is not None:
            spark.catalog.setCurrentDatabase(spec.database)
        names = (*BRONZE, *(table.name for table in TABLES))
        if missing := [name for name in names if not spark.catalog.tableExists(name)]:
            raise PipelineError(f"{folder} has no table {missing[0]} yet: run quorate pipeline run {folder}")
        yield {name: spark.read.table(name) for name in names}


def _spec(folder: Path) -> tuple[Path, PipelineSpec]:
    file = folder.absolute() / SPEC
    if not file.is_file():
        raise PipelineError(f"{folder} has no {SPEC}: create a project with quorate pipeline init {folder}")
    return file, load_pipeline_spec(file)


def _events(results: Iterable[dict[str, Any]]) -> Iterator[PipelineEvent]:
    for result in results:
        if "pipeline_event_result" in result:
            event = result["pipeline_event_result"].event
            yield PipelineEvent(event.timestamp.ToMilliseconds(), event.message)


@contextmanager
def _connected(
    folder: Path, configuration: Mapping[str, str], *, remote: str | None
) -> Iterator[SparkSession]:
    """Provide a session of a Spark Connect server: the one at `remote`, or one in this process, which has the
    defaults of the project in `folder`. `configuration`: settings of the session."""
    local = None
    if remote is None:
        # Spark's own local server has one port for all, and would fail beside another one.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
        }
        # Server and client take it from there. Arguments of a process are for all to see.
        os.environ.setdefault("SPARK_CONNECT_AUTHENTICATE_TOKEN", secrets.token_urlsafe())
        # The catalog's database logs where its process was started.
        with change_dir(folder):
            config = {**session_defaults(folder), **configuration, **server}
            local = spark_session("quorate pipeline", config=config)
        remote = f"sc://localhost:{port}"
    os.environ[_CONNECT_MODE] = "1"
    try:
        session = ConnectSession.builder.remote(remote).config(map=dict(configuration)).create()
        if local is not None:
            # A server on this machine that does not answer has ended. The default is to ask for ten minutes.
            session.client.set_retry_policies([DefaultPolicy(max_retries=4)])
            warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
        try:
            # PySpark's annotations have one class for both.
            yield cast("SparkSession", session)
        finally:
            session.stop()
    finally:
        del os.environ[_CONNECT_MODE]
        if local is not None:
            with suppress(OSError, Py4JError):  # its process may have ended
                local.stop()
