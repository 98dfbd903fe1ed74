"""`quorate storage`: a node's folder before its first start."""

import json
import random
from pathlib import Path
from typing import Annotated

import trio
import typer

from quorate.broker.config import ServerConfig
from quorate.cli.errors import ExitCode, fail, user_errors
from quorate.quorum_state.meta_properties import load_meta_properties
from quorate.raft.storage import format_folder
from quorate.runtime.entropy import Entropy, uuid_text
from quorate.runtime.real import SyncStrategy, real_runtime

app = typer.Typer(no_args_is_help=True, help="Prepare and inspect a node's folder.")

ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", help="The node's server.properties.", exists=True, dir_okay=False)
]


@app.command("random-uuid", epilog="Example: quorate storage random-uuid")
def random_uuid() -> None:
    """Draw a cluster id."""
    typer.echo(uuid_text(Entropy(random.SystemRandom()).uuid()))


@app.command(
    "format", epilog="Example: quorate storage format -t $(quorate storage random-uuid) -c server.properties"
)
def format_storage(
    config: ConfigOption,
    cluster_id: Annotated[str, typer.Option("--cluster-id", "-t", help="The same on every node.")],
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Leave a folder that is formatted as it is.")
    ] = False,
) -> None:
    """Give an empty folder its identity: cluster id, node id, directory id, and a vote not yet given."""
    with user_errors():
        server = ServerConfig.parse(config.read_text())
        folder = server.metadata_log_dir
        if ignore_formatted and (Path(folder) / "meta.properties").exists():
            typer.echo(f"{folder} is formatted already")
            return
        runtime = real_runtime(sync=SyncStrategy.INLINE)

        async def main() -> str:
            meta = await format_folder(runtime, folder, cluster_id=cluster_id, node_id=server.node_id)
            return uuid_text(meta.directory_id)

        directory_id = trio.run(main)
    typer.echo(
        f"formatted {folder} for node {server.node_id} of cluster {cluster_id}, directory id {directory_id}"
    )


@app.command(epilog="Example: quorate storage info -c server.properties --json")
def info(
    config: ConfigOption,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show whose a folder is."""
    with user_errors():
        server = ServerConfig.parse(config.read_text())
        folder = server.metadata_log_dir
        meta = load_meta_properties(real_runtime(sync=SyncStrategy.INLINE).disk, folder)
    shown = {
        "folder": folder,
        "cluster.id": meta.cluster_id,
        "node.id": meta.node_id,
        "directory.id": uuid_text(meta.directory_id),
    }
    if as_json:
        typer.echo(json.dumps(shown))
    else:
        for name, value in shown.items():
            typer.echo(f"{name}: {value}")
    if meta.node_id != server.node_id:
        raise fail(
            f"node.id in {config} is {server.node_id}, the folder is node {meta.node_id}'s", ExitCode.STORAGE
        )
