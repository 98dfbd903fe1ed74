"""`quorate demo`, and what it needs to begin."""

import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from quorate.cli.console.cli_errors import user_errors, wrong_usage


def demo(
    file: Annotated[
        Path, typer.Option("--file", "-f", help="The file to send.", exists=True, dir_okay=False)
    ] = Path("README.md"),
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Show the Spark table.")] = True,
) -> None:
    """Show an operator's day in a minute: send a file through three nodes, kill the leader halfway, watch the
    lag of a group, move a partition, drain a broker, and compare what came back with what was sent."""
    try:
        from quorate.cli.demo.demo_run import run_demo
    except ImportError as error:
        if error.name != "confluent_kafka":
            raise
        raise wrong_usage("the demo needs a Kafka client: pip install 'quorate[demo]'") from None
    with user_errors():
        data = file.read_bytes()
    if not data:
        raise wrong_usage(f"{file} is empty; choose a file with something in it")
    # The nodes end with the demo: an exception passes the `finally` of `run_demo`, a signal alone does not.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    with tempfile.TemporaryDirectory(prefix="quorate-demo-") as folder:
        run_demo(Path(folder) / "cluster", file.name, data, with_spark=spark)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
