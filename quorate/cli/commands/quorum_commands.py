"""`quorate quorum`: the leader of the metadata quorum, its voters, and their progress."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BrokersOption, ControllersOption, JsonOption, TimeoutOption
from quorate.cli.console.cli_errors import CommandError, user_errors, wrong_usage
from quorate.cli.console.connections import ask_quorum
from quorate.cli.console.output import print_json, print_table, time_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quorate.broker.admin.admin_client import AdminClient
    from quorate.broker.admin.controllers import Controllers
    from quorate.cli.console.rows import Rows
    from quorate.raft import QuorumDescription
    from quorate.types import ReplicaKey, Voter

_CHANGE_MS = 30_000

app = typer.Typer(
    no_args_is_help=True,
    help="The metadata quorum.",
    epilog="Example: quorate quorum describe -b localhost:9092",
)


def quorum_table(quorum: "QuorumDescription") -> "Rows":
    from quorate.broker.admin.quorum import leader_end_offset
    from quorate.cli.console.rows import Rows

    high_watermark = "?" if quorum.high_watermark is None else quorum.high_watermark
    leader_end = leader_end_offset(quorum)
    rows = [
        (
            replica.key.id,
            "leader" if replica.key.id == quorum.leader else status,
            replica.key.directory_id or "-",
            "?" if replica.log_end_offset is None else replica.log_end_offset,
            "?" if replica.log_end_offset is None else leader_end - replica.log_end_offset,
            _time(replica.last_fetch_ms),
            _time(replica.last_caught_up_ms),
        )
        for status, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for replica in replicas
    ]
    return Rows(
        ("node", "status", "directory id", "log end offset", "lag", "last fetch", "last caught up"),
        rows,
        title=f"leader {quorum.leader}, epoch {quorum.epoch}, high watermark {high_watermark}",
    )


def _time(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return "-"
    return time_text(timestamp_ms, lambda at: at.strftime("%H:%M:%S"))


@app.command(epilog="Example: quorate quorum describe -b localhost:9092 --json")
def describe(
    brokers: BrokersOption = None,
    controllers: ControllersOption = None,
    timeout_ms: TimeoutOption = 10_000,
    as_json: JsonOption = False,
) -> None:
    """Show the leader, the epoch, and each replica's directory id, log end offset and lag."""
    from quorate.broker.admin.quorum import describe_quorum

    described = ask_quorum(
        brokers,
        controllers,
        timeout_ms=timeout_ms,
        at_controllers=lambda found: found.describe(),
        through_brokers=describe_quorum,
    )
    _show(described, as_json=as_json)


def _change(
    brokers: str | None,
    controllers: str | None,
    timeout_ms: int,
    *,
    at_controllers: "Callable[[Controllers], Awaitable[None]]",
    through_brokers: "Callable[[AdminClient], Awaitable[None]] | None" = None,
    as_json: bool,
) -> None:
    """Change the quorum one way or the other, and show it afterwards."""

    async def through_controllers(found: "Controllers") -> "QuorumDescription":
        await at_controllers(found)
        return await found.describe()

    described = ask_quorum(
        brokers,
        controllers,
        timeout_ms=timeout_ms,
        at_controllers=through_controllers,
        through_brokers=None if through_brokers is None else _described_after(through_brokers),
    )
    _show(described, as_json=as_json)


def _described_after(
    change: "Callable[[AdminClient], Awaitable[None]]",
) -> "Callable[[AdminClient], Awaitable[QuorumDescription]]":
    from quorate.broker.admin.quorum import describe_quorum

    async def run(admin: "AdminClient") -> "QuorumDescription":
        await change(admin)
        return await describe_quorum(admin)

    return run


def _show(described: "QuorumDescription", *, as_json: bool) -> None:
    if as_json:
        from quorate.broker.admin.quorum import quorum_as_dict

        print_json(quorum_as_dict(described))
    else:
        print_table(quorum_table(described))


@app.command(
    epilog="Example: quorate quorum add-voter 4@four.example:9093:q1Sh-9_ISia_zwGINzRvyQ -b localhost:9092"
)
def add_voter(
    voter: Annotated[
        str | None, typer.Argument(help="The voter: id@host:port:directory-id, with its controller listener.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="Instead of VOTER, on the node itself: its server.properties.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    brokers: BrokersOption = None,
    controllers: ControllersOption = None,
    timeout_ms: TimeoutOption = _CHANGE_MS,
    as_json: JsonOption = False,
) -> None:
    """Make a running observer a voter.

    Waits until the observer has caught up and the change is committed, then shows the quorum.
    """
    added = _voter(voter, config)

    from quorate.broker.admin.quorum import add_voter as add

    _change(
        brokers,
        controllers,
        timeout_ms,
        at_controllers=lambda found: found.add_voter(added),
        through_brokers=lambda admin: add(admin, added, timeout_ms=timeout_ms),
        as_json=as_json,
    )


def _voter(text: str | None, config: Path | None) -> "Voter":
    from quorate.cli.commands.voter_texts import parse_voter, voter_of_folder

    with user_errors():
        if text is not None and config is None:
            return parse_voter(text)
        if config is not None and text is None:
            from quorate.cli.node.node_process import load_config

            return voter_of_folder(load_config(config))
        raise wrong_usage("give the voter as id@host:port:directory-id, or --config, one of the two")


@app.command(epilog="Example: quorate quorum remove-voter 3 -b localhost:9092")
def remove_voter(
    node: Annotated[int, typer.Argument(help="The voter's node id.", min=0)],
    directory_id: Annotated[
        str | None,
        typer.Option(
            help="The voter's directory id, so that a node with a new disk is not removed. Default: the one "
            "that the quorum knows."
        ),
    ] = None,
    brokers: BrokersOption = None,
    controllers: ControllersOption = None,
    timeout_ms: TimeoutOption = _CHANGE_MS,
    as_json: JsonOption = False,
) -> None:
    """Remove a voter. Its node may be down; a running one becomes an observer.

    Waits until the change is committed, then shows the quorum. A removed leader resigns.
    """
    directory = _directory(directory_id)

    from quorate.broker.admin.quorum import describe_quorum
    from quorate.broker.admin.quorum import remove_voter as remove

    async def through_brokers(admin: "AdminClient") -> None:
        key = _key_of(await describe_quorum(admin), node, directory)
        await remove(admin, key, timeout_ms=timeout_ms)

    async def at_controllers(found: "Controllers") -> None:
        await found.remove_voter(_key_of(await found.describe(), node, directory))

    _change(
        brokers,
        controllers,
        timeout_ms,
        at_controllers=at_controllers,
        through_brokers=through_brokers,
        as_json=as_json,
    )


def _directory(text: str | None) -> str | None:
    from quorate.cli.commands.voter_texts import parse_directory

    if text is None:
        return None
    try:
        return parse_directory(text)
    except ValueError as error:
        raise wrong_usage(f"--directory-id: {error}") from None


def _key_of(described: "QuorumDescription", node: int, directory: str | None) -> "ReplicaKey":
    from quorate.types import NodeId, ReplicaKey

    if directory is not None:
        return ReplicaKey(NodeId(node), directory)
    for voter in described.voters:
        if voter.key.id == node:
            return voter.key
    ids = ", ".join(str(voter.key.id) for voter in described.voters)
    raise CommandError(f"node {node} is no voter; these are: {ids}")


@app.command(epilog="Example: quorate quorum transfer 2 -b localhost:9092")
def transfer(
    node: Annotated[int, typer.Argument(help="The node id of the new leader.", min=0)],
    brokers: BrokersOption = None,
    controllers: ControllersOption = None,
    timeout_ms: TimeoutOption = 10_000,
    as_json: JsonOption = False,
) -> None:
    """Transfer the leadership of the quorum to another voter, for example before maintenance. Loses nothing.

    It uses the controller listeners, also with --bootstrap-server, because Kafka's protocol has no such
    request.
    """
    from quorate.types import NodeId

    _change(
        brokers,
        controllers,
        timeout_ms,
        at_controllers=lambda found: found.transfer(NodeId(node)),
        as_json=as_json,
    )


@app.command(epilog="Example: quorate quorum adopt-voters -b localhost:9092")
def adopt_voters(
    brokers: BrokersOption = None,
    controllers: ControllersOption = None,
    timeout_ms: TimeoutOption = _CHANGE_MS,
    as_json: JsonOption = False,
) -> None:
    """Write the voters of controller.quorum.voters into the log, so that they can be changed.

    All of them must be running. A second call has no effect. It uses the controller listeners, also with
    --bootstrap-server.
    """
    _change(
        brokers,
        controllers,
        timeout_ms,
        at_controllers=lambda found: found.adopt_voters(),
        as_json=as_json,
    )
