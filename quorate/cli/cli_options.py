"""Options that several commands share."""

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
