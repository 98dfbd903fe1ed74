"""`quorate pipeline`: tables over the metadata log, kept up to date by Spark, and a report made of them."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quorate.cli.commands.options import JsonOption
from quorate.cli.console.cli_errors import CommandError, ExitCode, UsageError, user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, parse_addresses
from quorate.cli.console.output import print_json, time_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quorate.pipelines.pipeline_run import PipelineEvent
    from quorate.pipelines.report.facts import Facts

app = typer.Typer(
    no_args_is_help=True,
    help="Tables of what happened in a cluster, made by Spark from its metadata log, and a report.",
    epilog="Example: quorate pipeline report -b localhost:9092 -o report.html",
)

FolderArgument = Annotated[Path, typer.Argument(metavar="[DIR]", help="The folder of the project.")]
BrokersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server", "-b", metavar="HOST:PORT", help="Brokers of the cluster, separated by commas."
    ),
]
PathOption = Annotated[
    Path | None,
    typer.Option(
        "--path",
        "-p",
        help="A folder of a node, down or running, with the log.",
        exists=True,
        file_okay=False,
    ),
]
RemoteOption = Annotated[
    str | None,
    typer.Option(
        "--remote", metavar="sc://HOST:PORT", help="A Spark Connect server. Default: Spark in this process."
    ),
]
EventsOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON per event.")]


@app.command(epilog="Example: quorate pipeline init history --bootstrap-server localhost:9092")
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the project.")],
    brokers: BrokersOption = None,
    path: PathOption = None,
    table_format: Annotated[
        str, typer.Option("--format", help="The format of the tables: parquet, orc, ...")
    ] = "parquet",
) -> None:
    """Create a project for Spark's declarative pipelines. Default: it reads from localhost:9092.

    `spark-pipelines` runs it as well. Tables of your own go into files in its folder `transformations`.
    """
    with _explained():
        from quorate.pipelines.project import create_project

        source = _source(brokers, path) or {"bootstrapServers": DEFAULT_BOOTSTRAP}
        create_project(folder, source, table_format=table_format)
    typer.echo(f"{folder} is ready. To fill its tables: quorate pipeline run {folder}")


@app.command(epilog="Example: quorate pipeline run history")
def run(
    folder: FolderArgument = Path(),
    brokers: BrokersOption = None,
    path: PathOption = None,
    remote: RemoteOption = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Empty the tables, and read the whole log again.")
    ] = False,
    as_json: EventsOption = False,
) -> None:
    """Bring the tables up to date with the log. Only what is new in the log is read.

    The place to read from is that of `init`, unless another one of the same cluster is given.
    """
    _run(folder, _source(brokers, path), remote, as_json, full_refresh=full_refresh)
    if not as_json:
        typer.echo("All tables are up to date.")


@app.command(epilog="Example: quorate pipeline dry-run history")
def dry_run(
    folder: FolderArgument = Path(),
    brokers: BrokersOption = None,
    path: PathOption = None,
    remote: RemoteOption = None,
    as_json: EventsOption = False,
) -> None:
    """Check the tables of a project without reading or writing any."""
    _run(folder, _source(brokers, path), remote, as_json, dry=True)
    if not as_json:
        typer.echo("All tables can be made.")


@app.command(epilog="Example: quorate pipeline report history --output report.html")
def report(
    folder: FolderArgument = Path(),
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.", dir_okay=False)] = Path(
        "report.html"
    ),
    brokers: BrokersOption = None,
    path: PathOption = None,
    remote: RemoteOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what happened as one page of HTML: incidents, their causes, timelines and tables.

    It reads the tables of a project, or with -b or --path the log itself, which needs no project.
    """
    source = _source(brokers, path)
    if source and remote is not None:
        raise wrong_usage("--remote is for the tables of a project: leave out -b and --path")
    with _explained():
        from quorate.pipelines.pipeline_run import open_tables
        from quorate.pipelines.report.page import write_page
        from quorate.pipelines.report.story import count_text

        with _tables_of_log(source) if source else open_tables(folder, remote=remote) as tables:
            facts = _facts(tables)
        write_page(output, facts, title="What happened in the cluster")
    if as_json:
        print_json(
            {
                "file": str(output),
                "incidents": facts.incidents,
                "newLeaders": facts.new_leaders,
                "reassignments": facts.reassignments,
            }
        )
    else:
        typer.echo(f"{output}: {count_text(len(facts.incidents), 'incident')}")


@contextmanager
def _tables_of_log(source: Mapping[str, str]) -> "Iterator[dict[str, DataFrame]]":
    from quorate.pipelines.tables import all_tables, read_changes
    from quorate.spark_source import spark_session

    spark = spark_session("quorate pipeline report")
    try:
        yield all_tables(read_changes(spark, source), persist=True)
    finally:
        spark.stop()


def _facts(tables: "Mapping[str, DataFrame]") -> "Facts":
    from quorate.pipelines.report.facts import collect_facts

    return collect_facts(tables, progress=lambda step: typer.echo(f"reading {step}", err=True))


def _source(brokers: str | None, path: Path | None) -> dict[str, str]:
    """Return the options of the source for the place that is given, or none."""
    if brokers is not None and path is not None:
        raise wrong_usage("give --bootstrap-server or --path, not both")
    if path is not None:
        return {"path": str(path.absolute())}
    return {} if brokers is None else {"bootstrapServers": ",".join(map(str, parse_addresses(brokers)))}


def _run(
    folder: Path,
    source: Mapping[str, str],
    remote: str | None,
    as_json: bool,
    *,
    dry: bool = False,
    full_refresh: bool = False,
) -> None:
    with _explained():
        from quorate.pipelines.pipeline_run import run_pipeline

        for event in run_pipeline(folder, place=source, remote=remote, dry=dry, full_refresh=full_refresh):
            _show(event, as_json)


_WAITING: Final = re.compile(r"is (?:QUEUED|PLANNING|STARTING)\.$")
_QUALIFIED: Final = re.compile(r"^Flow (?:\w+\.)*")


def _show(event: "PipelineEvent", as_json: bool) -> None:
    if as_json:
        print_json({"timestamp": event.timestamp_ms, "message": event.message})
    elif not _WAITING.search(event.message):
        at = time_text(event.timestamp_ms, lambda time: time.strftime("%H:%M:%S"))
        typer.echo(f"{at} {_QUALIFIED.sub('', event.message)}", err=True)


_ENDED: Final = (
    "Spark does not answer any more. If its process ended for lack of memory, raise spark.driver.memory in "
    "spark-defaults.conf, and run it again"
)
_OURS: Final = re.compile(r"^quorate(?:\.\w+)+\.(\w+): (.+)$", re.MULTILINE)
"""The last line of the stack trace of an error of ours, in a message of Spark's."""


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of Spark into a message and an exit code. Of an error that the source raised in one of
    Spark's processes, only the text is left."""
    with user_errors():
        from quorate.pipelines.pipeline_errors import PipelineError
        from quorate.runtime import MissingExtraError, need

        try:
            need("quorate pipeline", "pyspark", "pyarrow", "pandas", "grpc", "yaml", "plotly", extra="spark")
            yield
        except (PipelineError, MissingExtraError) as error:
            raise UsageError(str(error)) from None
        except Exception as error:
            from pyspark.errors import PySparkException

            if not isinstance(error, PySparkException):
                raise
            raise _command_error(str(error)) from None


def _command_error(text: str) -> CommandError:
    ours = _OURS.search(text)
    if "StatusCode.UNAVAILABLE" in text:
        return CommandError(_ENDED, ExitCode.UNAVAILABLE)
    if ours is None:
        return CommandError(f"Spark: {text.strip().splitlines()[0]}")
    unavailable = ours[1].endswith("UnavailableError")
    return CommandError(ours[2], ExitCode.UNAVAILABLE if unavailable else ExitCode.FAILED)
