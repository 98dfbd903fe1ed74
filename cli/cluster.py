"""`quorate cluster`: a whole cluster on this machine."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.errors import ExitCode, fail, user_errors
from quorate.cli.local_cluster import LocalCluster, LocalClusterError

app = typer.Typer(no_args_is_help=True, help="A cluster on this machine, to develop against.")


@app.callback()
def cluster() -> None:
    """A cluster on this machine, to develop against."""


@app.command(epilog="Example: quorate cluster start --nodes 3 --data ./quorate-data --port 9092")
def start(
    nodes: Annotated[int, typer.Option(min=1, max=9, help="How many nodes.")] = 3,
    data: Annotated[Path, typer.Option(help="Keeps the cluster's data; made if it is not there.")] = Path(
        "quorate-data"
    ),
    port: Annotated[int, typer.Option(help="Client port of node 1; the others follow.")] = 9092,
    controller_port: Annotated[int, typer.Option(help="Controller port of node 1.")] = 19092,
    metrics_port: Annotated[int, typer.Option(help="/metrics port of node 1.")] = 7071,
) -> None:
    """Run a cluster in the foreground until Ctrl-C, then stop it in order. Starts again on the same data."""
    local = LocalCluster.plan(
        data, nodes=nodes, client_port=port, controller_port=controller_port, metrics_port=metrics_port
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with user_errors():
            cluster_id = local.prepare()
            local.start()
            local.wait_ready()
        typer.echo(f"cluster {cluster_id} is ready, data in {local.folder}")
        typer.echo(f"bootstrap servers: {local.bootstrap}")
        for node in local.nodes:
            typer.echo(
                f"node {node.node_id}: metrics at {local.metrics_url(node.node_id)}, log {node.log_file}"
            )
        typer.echo("Ctrl-C stops it")
        while not stop.wait(0.5):
            gone = [node.node_id for node in local.nodes if node.node_id not in local.running()]
            if gone:
                raise fail(f"node {gone[0]} exited:\n{local.last_lines(gone[0])}", ExitCode.FAILED)
        typer.echo("stopping")
        codes = local.stop()
    except LocalClusterError as error:
        raise fail(str(error), ExitCode.FAILED) from None
    finally:
        local.kill_all()
    failed = {node: code for node, code in codes.items() if code}
    if failed:
        raise fail(f"nodes did not stop cleanly: {failed} (node: exit code)", ExitCode.FAILED)
    typer.echo("stopped")
