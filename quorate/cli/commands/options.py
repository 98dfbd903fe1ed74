"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.console.connections import DEFAULT_BOOTSTRAP

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help="Brokers, separated by commas. The command uses the first that answers.",
    ),
]
BrokersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help="Brokers, separated by commas. The command uses the first that answers. "
        f"Default: {DEFAULT_BOOTSTRAP}, unless --bootstrap-controller is given.",
    ),
]
ControllersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        "-C",
        metavar="HOST:PORT",
        help="Controller listeners of the quorum's nodes, separated by commas. For a quorum without brokers, "
        "such as an embedded one.",
    ),
]
TimeoutOption = Annotated[int, typer.Option("--timeout-ms", min=1, help="The time limit, in milliseconds.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON with stable fields, for programs.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON per batch.")]
RecordsOption = Annotated[
    bool, typer.Option("--records/--no-records", help="Print the records of each batch.")
]
ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", help="The node's server.properties.", exists=True, dir_okay=False)
]
ValidateOption = Annotated[
    bool, typer.Option("--validate-only", help="Say whether the change would be accepted.")
]
ReplicasOption = Annotated[
    list[str],
    typer.Option(
        "--replica",
        metavar="TOPIC:PARTITION:BROKER",
        help="A replica, by its partition and its broker. Repeatable.",
    ),
]
ThrottleOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="BYTES",
        help="The bytes per second that each broker may send, and receive, for replicas that are not in "
        "sync. `verify` removes it when all is done.",
    ),
]
