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
        help="A broker, or several separated by commas: the first that answers is asked.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs. Fields stay what they are.")
]
