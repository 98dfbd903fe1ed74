"""`quorate storage`: a node's folder before its first start."""

import json
from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.config_file import ConfigOption, load_config
from quorate.cli.errors import ExitCode, fail, user_errors
from quorate.cli.options import JsonOption

app = typer.Typer(
    no_args_is_help=True,
    help="Prepare and inspect a node's folder.",
    epilog="Example: quorate storage info -c server.properties",
)


@app.command("random-uuid", epilog="Example: quorate storage random-uuid")
def random_uuid() -> None:
    """Draw a cluster id."""
    import random

    from quorate.runtime.entropy import Entropy, uuid_text

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
    if not cluster_id.strip() or any(character.isspace() for character in cluster_id):
        raise fail(
            "--cluster-id is empty or has blanks in it; draw one with `quorate storage random-uuid`",
            ExitCode.USAGE,
        )
    server = load_config(config)
    folder = server.metadata_log_dir
    with user_errors():
        import trio

        from quorate.quorum_state.meta_properties import load_meta_properties
        from quorate.raft.errors import QuorumConfigError
        from quorate.raft.storage import format_folder
        from quorate.runtime.entropy import uuid_text
        from quorate.runtime.real import SyncStrategy, real_runtime

        runtime = real_runtime(sync=SyncStrategy.INLINE)
        if ignore_formatted and (Path(folder) / "meta.properties").exists():
            load_meta_properties(runtime.disk, folder).check(
                folder, cluster_id=cluster_id, node_id=server.node_id
            )
            typer.echo(f"{folder} is formatted already")
            return

        async def main() -> str:
            meta = await format_folder(runtime, folder, cluster_id=cluster_id, node_id=server.node_id)
            return uuid_text(meta.directory_id)

        try:
            directory_id = trio.run(main)
        except QuorumConfigError as error:
            # Formatted already: nothing is wrong with the configuration.
            raise fail(str(error), ExitCode.STORAGE) from None
    typer.echo(
        f"formatted {folder} for node {server.node_id} of cluster {cluster_id}, directory id {directory_id}"
    )


@app.command(epilog="Example: quorate storage info -c server.properties --json")
def info(config: ConfigOption, as_json: JsonOption = False) -> None:
    """Show whose a folder is, and the vote it remembers."""
    server = load_config(config)
    folder = server.metadata_log_dir
    with user_errors():
        from quorate.quorum_state.election_state import QuorumStateFile
        from quorate.quorum_state.meta_properties import load_meta_properties
        from quorate.raft.core.types import NodeId
        from quorate.raft.storage import LOG_FOLDER
        from quorate.runtime.entropy import uuid_text
        from quorate.runtime.real import SyncStrategy, real_runtime

        disk = real_runtime(sync=SyncStrategy.INLINE).disk
        meta = load_meta_properties(disk, folder)
        election = QuorumStateFile(
            disk, f"{folder}/{LOG_FOLDER}", cluster_id=meta.cluster_id, node=NodeId(meta.node_id)
        ).load()
        shown: dict[str, object] = {
            "folder": folder,
            "cluster.id": meta.cluster_id,
            "node.id": meta.node_id,
            "directory.id": uuid_text(meta.directory_id),
            "leader.epoch": election.epoch,
            "leader.id": -1 if election.leader is None else election.leader,
            "voted.id": -1 if election.voted is None else election.voted.id,
        }
    if as_json:
        typer.echo(json.dumps(shown))
    else:
        for name, value in shown.items():
            typer.echo(f"{name}: {value}")
    if meta.node_id != server.node_id:
        raise fail(
            f"node.id in {config} is {server.node_id}, the folder is node {meta.node_id}'s: correct node.id, "
            "or point log.dirs at this node's folder",
            ExitCode.STORAGE,
        )
