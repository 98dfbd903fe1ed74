"""`quorate storage`: a node's folder before its first start."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import ConfigOption, JsonOption
from quorate.cli.console.cli_errors import ExitCode, UsageError, fail, user_errors, wrong_usage
from quorate.cli.console.output import print_json
from quorate.cli.node.node_process import load_config
from quorate.present import present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.broker.metadata.metadata_records import UserScramCredential
    from quorate.broker.node_config.server_config import ServerConfig
    from quorate.raft import PlainStateMachine, StateMachine
    from quorate.runtime import Runtime
    from quorate.types import VoterSet

app = typer.Typer(
    no_args_is_help=True,
    help="Prepare and inspect a node's folder.",
    epilog="Example: quorate storage info -c server.properties",
)


@app.command("random-uuid", epilog="Example: quorate storage random-uuid")
def random_uuid() -> None:
    """Generate a random id for a cluster or a directory."""
    import random

    from quorate.runtime import Entropy, uuid_text

    typer.echo(uuid_text(Entropy(random.SystemRandom()).uuid()))


@app.command(
    "format",
    epilog="Example: quorate storage format -t $(quorate storage random-uuid) -c server.properties "
    "--standalone",
)
def format_storage(
    config: ConfigOption,
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", "-t", help="The cluster's id, equal on every node.")
    ],
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Do nothing if the folder is already formatted.")
    ] = False,
    standalone: Annotated[
        bool,
        typer.Option("--standalone", "-s", help="This controller is the only voter of a new cluster."),
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="VOTERS",
            help="The first voters of a new cluster: id@host:port:directory-id, separated by commas. Equal "
            "on each of them. `quorate storage random-uuid` generates directory ids.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option(
            "--no-initial-controllers",
            "-N",
            help="This node joins an existing cluster as an observer.",
        ),
    ] = False,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="USER",
            help="A user of the new cluster: SCRAM-SHA-512=[name=alice,password=...]. Others can read it in "
            "the list of processes: prefer --add-scram-from. Give each controller the same users.",
        ),
    ] = None,
    add_scram_from: Annotated[
        Path | None,
        typer.Option(
            "--add-scram-from",
            metavar="FILE",
            help="A file that only its owner may read, whose lines are what --add-scram takes.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prepare the folder of a new node: cluster id, node id, directory id and an empty vote.

    For a controller without controller.quorum.voters in its configuration, name the first voters with one of
    --standalone, --initial-controllers and --no-initial-controllers.
    """
    if not cluster_id.strip() or any(character.isspace() for character in cluster_id):
        raise wrong_usage(
            "--cluster-id is empty or has blanks in it; draw one with `quorate storage random-uuid`"
        )
    server = load_config(config)
    folder = server.metadata_log_dir
    with user_errors():
        voters = _first_voters(
            server,
            standalone=standalone,
            initial_controllers=initial_controllers,
            no_initial_controllers=no_initial_controllers,
        )
        import trio

        from quorate.broker.node_config.first_records import write_first_records
        from quorate.quorum_state import load_meta_properties
        from quorate.raft import QuorumConfigError
        from quorate.raft.storage.storage import format_folder
        from quorate.runtime import uuid_text
        from quorate.runtime.real import SyncStrategy, real_runtime

        runtime = real_runtime(sync=SyncStrategy.INLINE)
        users = _first_users(server, runtime, add_scram or (), add_scram_from)
        formatted = (Path(folder) / "meta.properties").exists()
        if ignore_formatted and formatted:
            meta = load_meta_properties(runtime.disk, folder)
            meta.check(folder, cluster_id=cluster_id, node_id=server.node_id)
            said = f"{folder} is formatted already"
        else:
            try:
                if not formatted:
                    trio.run(write_first_records, runtime.disk, folder, users)
                meta = trio.run(
                    partial(
                        format_folder,
                        runtime,
                        folder,
                        cluster_id=cluster_id,
                        node_id=server.node_id,
                        voters=voters,
                    )
                )
            except QuorumConfigError as error:
                # Formatted already: nothing is wrong with the configuration.
                raise fail(str(error), ExitCode.STORAGE) from None
            said = f"formatted {folder} for node {server.node_id} of cluster {cluster_id}"
        directory_id = uuid_text(meta.directory_id)
    if as_json:
        print_json(
            {
                "folder": folder,
                "clusterId": cluster_id,
                "nodeId": server.node_id,
                "directoryId": directory_id,
            }
        )
    else:
        typer.echo(f"{said}, directory id {directory_id}")


def _first_users(
    server: "ServerConfig", runtime: "Runtime", arguments: "Sequence[str]", file: Path | None
) -> "Sequence[UserScramCredential]":
    """Return the credentials of the first users, as they go into the log. Raises `UsageError`."""
    from quorate.broker.access.sealing import Sealer, SealingFileError
    from quorate.broker.admin.first_users import FirstUserError, first_user

    named = [(f"--add-scram {number}", each) for number, each in enumerate(arguments, start=1)]
    if file is not None:
        named += _users_in(file)
    if not named:
        return ()
    if not server.is_controller:
        raise UsageError(
            f"node {server.node_id} is no controller, and writes no first users; give them to the controllers"
        )
    users: dict[tuple[str, int], UserScramCredential] = {}
    for place, argument in named:
        try:
            user = first_user(argument, runtime.entropy)
        except FirstUserError as error:
            raise UsageError(f"{place}: {error}") from None
        if (user.name, user.mechanism) in users:
            raise UsageError(f"{place}: user {user.name} has a password for this mechanism already")
        users[user.name, user.mechanism] = user
    if not server.credentials.sealing_key:
        return tuple(users.values())
    try:
        sealer = Sealer(runtime.disk, server.credentials.sealing_key)
    except SealingFileError as error:
        raise UsageError(str(error)) from None
    return tuple(map(sealer.seal, users.values()))


def _users_in(file: Path) -> list[tuple[str, str]]:
    """Return the lines of the file, each with its place. Raises `UsageError`."""
    try:
        mode = file.stat().st_mode & 0o777
        if mode & 0o077:
            raise UsageError(
                f"--add-scram-from: {file} can be read by others (its mode is {mode:04o}); chmod 600 it"
            )
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--add-scram-from: {file} can't be read: {type(error).__name__}; name a text file"
        ) from None
    found = [(f"{file}:{number}", line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise UsageError(f"--add-scram-from: {file} names no user")
    return found


def _first_voters(
    server: "ServerConfig", *, standalone: bool, initial_controllers: str | None, no_initial_controllers: bool
) -> "VoterSet | None":
    """Return the first voters in the log, or None for none. Raises `UsageError`."""
    choices = "--standalone, --initial-controllers and --no-initial-controllers"
    chosen = standalone + (initial_controllers is not None) + no_initial_controllers
    if chosen > 1:
        raise UsageError(f"give only one of {choices}")
    if chosen and server.voters:
        raise UsageError(
            f"controller.quorum.voters names the voters, so {choices} have no effect; for voters that can "
            "change, remove it and set controller.quorum.bootstrap.servers"
        )
    if not chosen and server.is_controller and not server.voters:
        raise UsageError(
            "the configuration has no controller.quorum.voters, so name the first voters: --standalone for "
            "the first node of a new cluster, --initial-controllers for each of several, "
            "--no-initial-controllers for a node that is to be added to a cluster"
        )
    if no_initial_controllers or not chosen:
        return None
    endpoint = server.quorum(cluster_id="any").own_endpoint
    if not server.is_controller or endpoint is None:
        raise UsageError(
            f"node {server.node_id} is no controller, so it can't vote; use --no-initial-controllers"
        )
    from quorate.cli.commands.voter_texts import parse_voters_with_directories
    from quorate.types import ReplicaKey, Voter, VoterSet

    if initial_controllers is None:
        return VoterSet((Voter(ReplicaKey(server.node_id), endpoint),))
    voters = parse_voters_with_directories(initial_controllers)
    if server.node_id not in voters:
        raise UsageError(
            f"--initial-controllers does not name node {server.node_id}; name it, or use "
            "--no-initial-controllers and add it later"
        )
    return voters


@app.command(epilog="Example: quorate storage info -c server.properties --json")
def info(config: ConfigOption, as_json: JsonOption = False) -> None:
    """Show the identity of a node's folder, and its epoch and vote."""
    server = load_config(config)
    folder = server.metadata_log_dir
    with user_errors():
        from quorate.quorum_state import QuorumStateFile, load_meta_properties
        from quorate.raft.storage.storage import LOG_FOLDER
        from quorate.runtime import uuid_text
        from quorate.runtime.real import SyncStrategy, real_runtime
        from quorate.types import NodeId

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
        print_json(shown)
    else:
        for name, value in shown.items():
            typer.echo(f"{name}: {value}")
    if meta.node_id != server.node_id:
        raise fail(
            f"node.id in {config} is {server.node_id}, the folder is node {meta.node_id}'s: correct node.id, "
            "or point log.dirs at this node's folder",
            ExitCode.STORAGE,
        )


@app.command(
    epilog="Example: quorate storage restore ./backup/00000000000000001817-0000000004.checkpoint ./node-1 "
    "--state-machine store:Store -t orders-2 --node-id 1"
)
def restore(
    snapshot: Annotated[
        Path, typer.Argument(help="A copy of a node's snapshot, under its name. It is only read.")
    ],
    folder: Annotated[Path, typer.Argument(help="The folder to be, new or empty.")],
    state_machine: Annotated[
        str,
        typer.Option(
            "--state-machine",
            metavar="MODULE:NAME",
            help="The class of the state machine, or a function that makes one. The module is looked for in "
            "the current directory too.",
        ),
    ],
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", "-t", help="The id of the new cluster, equal on every node.")
    ],
    node_id: Annotated[int, typer.Option("--node-id", min=0, help="The id of this node.")],
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="VOTERS",
            help="The voters of the new cluster, if they are to be in its log: id@host:port:directory-id, "
            "separated by commas. Default: the program names them (`voters=`).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prepare a folder of a new cluster of an embedded quorum, whose log begins with the state in a snapshot.

    Restore every voter from the same file. What the old cluster committed after the snapshot is lost. Refuses
    a folder that is not empty, a damaged snapshot, and one of another state machine. For brokers there is no
    restore: the records of their topics are not in the metadata.
    """
    with user_errors():
        import trio

        from quorate.cli.commands.voter_texts import parse_voters_with_directories
        from quorate.log.snapshots.snapshot_file import name_of, parse_name
        from quorate.raft.storage.restoring import restore_folder, restored_id
        from quorate.runtime import uuid_text
        from quorate.runtime.real import SyncStrategy, real_runtime
        from quorate.types import NodeId

        voters = None if initial_controllers is None else parse_voters_with_directories(initial_controllers)
        meta = trio.run(
            partial(
                restore_folder,
                real_runtime(sync=SyncStrategy.INLINE),
                str(folder),
                str(snapshot),
                state_machine=_state_machine(state_machine),
                cluster_id=cluster_id,
                node_id=NodeId(node_id),
                voters=voters,
            )
        )
        restored = restored_id(present(parse_name(snapshot.name), "the id of a restored snapshot"))
        directory_id = uuid_text(meta.directory_id)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "clusterId": cluster_id,
                "nodeId": node_id,
                "directoryId": directory_id,
                "endOffset": restored.end_offset,
                "epoch": restored.epoch,
            }
        )
    else:
        typer.echo(
            f"restored {folder} for node {node_id} of cluster {cluster_id}, directory id {directory_id}: the "
            f"log begins with {name_of(restored)}"
        )


def _state_machine(name: str) -> "StateMachine[object] | PlainStateMachine[object]":
    """Make the state machine that a user has named. Raises `UsageError`."""
    import importlib
    import sys

    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise UsageError(f"--state-machine is {name!r}; write the module and the class, as in store:Store")
    sys.path.insert(0, str(Path.cwd()))
    try:
        make = getattr(importlib.import_module(module), attribute)
        made: StateMachine[object] | PlainStateMachine[object] = make()
    except Exception as error:
        raise UsageError(
            f"--state-machine {name} could not be made: {type(error).__name__}: {error}; name a module that "
            "can be imported, and a class in it that needs no arguments"
        ) from error
    finally:
        del sys.path[0]
    return made
