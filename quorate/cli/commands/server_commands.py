"""`quorate server`: one node in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.node.node_process import LogLevel, NodeStart, run_node

app = typer.Typer(no_args_is_help=True, epilog="Example: quorate server start server.properties")


@app.callback()
def server() -> None:
    """One node."""


@app.command(epilog="Example: quorate server start server.properties --log-json")
def start(
    config: Annotated[Path, typer.Argument(help="server.properties.", exists=True, dir_okay=False)],
    log_level: Annotated[LogLevel, typer.Option(help="The lowest level of logged events.")] = LogLevel.INFO,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log in JSON.")] = False,
) -> None:
    """Run a node until SIGINT or SIGTERM, which stop it in order.

    It prints a line to standard output when it listens, and logs to standard error. A second signal ends it
    at once.
    """
    run_node(NodeStart(config=config, log_level=log_level, log_json=log_json))
