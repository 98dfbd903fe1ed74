"""`quorate quorum`: who leads, and how far the others are."""

import datetime
import json
from typing import TYPE_CHECKING

import typer

from quorate.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.response import PartitionData as DescribedQuorum
    from rich.table import Table

app = typer.Typer(
    no_args_is_help=True,
    help="The metadata quorum.",
    epilog="Example: quorate quorum describe -b localhost:9092",
)


@app.callback()
def quorum() -> None:
    """The metadata quorum."""


def quorum_table(quorum: "DescribedQuorum") -> "Table":
    from rich.table import Table

    from quorate.cli.cluster_requests import leader_end_offset

    table = Table(
        title=f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, "
        f"high watermark {quorum.high_watermark}",
        title_justify="left",
    )
    for column in ("node", "status", "log end offset", "lag", "last fetch", "last caught up"):
        table.add_column(column, justify="left" if column == "status" else "right")
    leader_end = leader_end_offset(quorum)
    for status, replicas in (("voter", quorum.current_voters), ("observer", quorum.observers)):
        for replica in replicas:
            known = replica.log_end_offset >= 0
            table.add_row(
                str(replica.replica_id),
                "leader" if replica.replica_id == quorum.leader_id else status,
                str(replica.log_end_offset) if known else "?",
                str(leader_end - replica.log_end_offset) if known else "?",
                _time(replica.last_fetch_timestamp),
                _time(replica.last_caught_up_timestamp),
            )
    return table


def _time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "-"
    return datetime.datetime.fromtimestamp(timestamp_ms / 1000).strftime("%H:%M:%S.%f")[:-3]


@app.command(epilog="Example: quorate quorum describe -b localhost:9092 --json")
def describe(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """Show the leader, the epoch, and each replica's log end offset and lag."""
    from quorate.cli.bootstrap import run_with_client
    from quorate.cli.cluster_requests import describe_quorum, quorum_as_dict

    described = run_with_client(bootstrap, describe_quorum)
    if as_json:
        typer.echo(json.dumps(quorum_as_dict(described)))
        return
    from rich.console import Console

    Console().print(quorum_table(described))
