"""`quorate demo`, and what it needs to begin."""

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from quorate.cli.console.cli_errors import user_errors, wrong_usage


def demo(
    file: Annotated[
        Path, typer.Option("--file", "-f", help="The file to send.", exists=True, dir_okay=False)
    ] = Path("README.md"),
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Show the Spark table, and write the report.")
    ] = True,
    report: Annotated[
        Path, typer.Option("--report", help="The file for the report of what happened.", dir_okay=False)
    ] = Path("report.html"),
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Keep the folders of the nodes in this new folder, to read their logs."),
    ] = None,
) -> None:
    """Show an operator's day in a minute: send a file through three nodes, kill the leader halfway, watch the
    lag of a group, move a partition, drain a broker, compare what came back with what was sent, and report
    what happened."""
    try:
        from quorate.cli.demo.demo_run import run_demo
    except ImportError as error:
        if error.name != "confluent_kafka":
            raise
        raise wrong_usage("the demo needs a Kafka client: pip install 'quorate[demo]'") from None
    with user_errors():
        content = file.read_bytes()
    if not content:
        raise wrong_usage(f"{file} is empty; choose a file with something in it")
    if data is not None and data.exists():
        raise wrong_usage(f"{data} exists; name a new folder with --data")
    if spark and not report.absolute().parent.is_dir():
        raise wrong_usage(f"the folder of {report} does not exist; name another file with --report")
    # The nodes end with the demo: an exception passes the `finally` of `run_demo`, a signal alone does not.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    with _folder(data) as folder:
        run_demo(folder, file.name, content, report_file=report if spark else None)


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Provide a folder that is not there yet: the one to keep, or one that is removed at the end."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="quorate-demo-") as folder:
        yield Path(folder) / "cluster"


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
