"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "localhost:9092"

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help="Brokers, separated by commas. The command uses the first that answers.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON with stable fields, for programs.")]
ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", help="The node's server.properties.", exists=True, dir_okay=False)
]
