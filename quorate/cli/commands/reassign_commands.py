"""`quorate reassign-partitions`: generate, execute, verify, cancel, list."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.cli_options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption
from quorate.cli.console import CommandError, ExitCode, fail, user_errors

if TYPE_CHECKING:
    from quorate.broker.wire import WireClient
    from quorate.cli.reassigning import Directories, Replica

app = typer.Typer(
    no_args_is_help=True,
    help="Move replicas between brokers, and change how many there are.",
    epilog="Example: quorate reassign-partitions verify --reassignment-json-file moves.json",
)

PlanOption = Annotated[
    Path,
    typer.Option(
        "--reassignment-json-file",
        metavar="FILE",
        help='{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}.',
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


@app.command(
    epilog="Example: quorate reassign-partitions generate --topics-to-move-json-file topics.json "
    "--broker-list 1,2,3"
)
def generate(
    topics_file: Annotated[
        Path,
        typer.Option(
            "--topics-to-move-json-file",
            metavar="FILE",
            help='{"version": 1, "topics": [{"topic": "t"}]}.',
        ),
    ],
    broker_list: Annotated[str, typer.Option(metavar="IDS", help="The brokers to use, such as 1,2,3.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    disable_rack_aware: Annotated[
        bool, typer.Option(help="Spread the replicas over brokers without a look at their racks.")
    ] = False,
) -> None:
    """Propose where the replicas of some topics could be on some brokers. Nothing is moved: the proposal is a
    file for `execute`, and the present assignment is one to come back to."""
    from quorate.cli.console import run_with_client
    from quorate.cli.reassigning import dump_assignments, load_topics, read_cluster, spread

    topics = load_topics(topics_file)
    brokers = _ids(broker_list)
    view = run_with_client(bootstrap, read_cluster)
    targets = view.targets()
    missing = [each for each in topics if not any(key.topic == each for key in targets)]
    if missing:
        raise fail(f"topic {missing[0]} does not exist", ExitCode.FAILED)
    away = [each for each in brokers if each not in view.brokers]
    if away:
        raise fail(f"broker {away[0]} is not live: quorate brokers list shows who is", ExitCode.FAILED)
    moved = {key: replicas for key, replicas in targets.items() if key.topic in topics}
    racks = {each: None if disable_rack_aware else view.brokers[each].rack for each in brokers}
    others = [replicas for key, replicas in targets.items() if key not in moved]
    with user_errors():
        proposal = spread(moved, racks=racks, others=others)
    typer.echo(f"Current partition replica assignment\n{dump_assignments(moved)}\n")
    typer.echo(f"Proposed partition reassignment configuration\n{dump_assignments(proposal)}")


@app.command(
    epilog="Example: quorate reassign-partitions execute --reassignment-json-file moves.json "
    "--throttle 50000000"
)
def execute(
    plan_file: PlanOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    throttle: ThrottleOption = None,
    additional: Annotated[
        bool, typer.Option(help="Begin although other moves are under way, or change the throttle of these.")
    ] = False,
) -> None:
    """Begin the moves of a file, and return when they have begun. The present assignment is printed first: a
    file to come back to."""
    from quorate.cli.console import run_with_client
    from quorate.cli.kafka_requests import move_replicas
    from quorate.cli.reassigning import (
        begin_moves,
        dump_assignments,
        load_assignments,
        load_directories,
        read_cluster,
    )

    plan = load_assignments(plan_file)
    directories = load_directories(plan_file)

    async def act(client: "WireClient") -> "dict[Replica, str]":
        view = await read_cluster(client)
        unknown = [each for each in plan if each not in view.partitions]
        if unknown:
            raise CommandError(f"partition {unknown[0].partition} of topic {unknown[0].topic} does not exist")
        if view.moves and not additional:
            raise CommandError(
                f"{len(view.moves)} partitions are being moved already. Wait for them (verify), cancel them, "
                "or add --additional"
            )
        current = {key: view.servers(key) for key in plan}
        typer.echo(f"Current partition replica assignment\n\n{dump_assignments(current)}\n")
        typer.echo("Save this to use as the --reassignment-json-file option during rollback")
        refused = await begin_moves(client, view, plan, throttle=throttle)
        wanted = {key: path for key, path in directories.items() if (key[0], key[1]) not in refused}
        if wanted:
            addresses = {each.broker_id: each.address for each in view.brokers.values()}
            unmoved.update(await move_replicas(addresses, wanted, patient=True))
        return refused

    unmoved: dict[tuple[str, int, int], str] = {}
    refused = run_with_client(bootstrap, act)
    begun = sorted(key for key in plan if key not in refused)
    if begun:
        typer.echo(f"Successfully started partition reassignments for {_names(begun)}")
    for key in sorted(key for key in directories if key not in unmoved and key[:2] not in refused):
        typer.echo(f"Successfully started the move of {key[0]}-{key[1]}-{key[2]} to {directories[key]}")
    for (topic, partition, broker), reason in sorted(unmoved.items()):
        fail(f"the replica of {topic}-{partition} on broker {broker}: {reason}", ExitCode.FAILED)
    _say_refused(refused)
    if unmoved:
        raise typer.Exit(ExitCode.FAILED)


@app.command(epilog="Example: quorate reassign-partitions verify --reassignment-json-file moves.json --watch")
def verify(
    plan_file: PlanOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    preserve_throttles: Annotated[
        bool, typer.Option(help="Leave the throttles as they are when all is done.")
    ] = False,
    watch: Annotated[bool, typer.Option(help="Go on until all is done.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the state of a file's moves: done, under way with the bytes that are left, or neither. When all
    are done, throttles are removed."""
    import trio

    from quorate.cli.console import run_with_client
    from quorate.cli.kafka_requests import is_under_way, states_of_moves
    from quorate.cli.reassigning import (
        POLL_SECONDS,
        check_moves,
        end_throttles,
        load_assignments,
        load_directories,
    )

    plan = load_assignments(plan_file)
    directories = load_directories(plan_file)

    async def act(client: "WireClient") -> None:
        before = None
        while True:
            checked = await check_moves(client, plan)
            places = await states_of_moves(client, directories) if directories else {}
            if as_json:
                typer.echo(json.dumps(checked.as_dict(before) | _places_as_dict(directories, places)))
            else:
                typer.echo("\n".join(checked.lines(before)))
                for (topic, partition, broker), left in places.items():
                    state = f"is not completed: {left}" if left else "is completed"
                    typer.echo(
                        f"The move of replica {topic}-{partition}-{broker} between directories {state}."
                    )
            if not checked.under_way and not any(map(is_under_way, places.values())):
                break
            if not watch:
                return
            before = checked.progress
            await trio.sleep(POLL_SECONDS)
        if not preserve_throttles and await end_throttles(client, {key.topic for key in plan}):
            typer.echo("Removed the throttles", err=as_json)
        if checked.different:
            raise CommandError("some partitions have other replicas than the file says")
        if any(places.values()):
            raise CommandError("some replicas are in other directories than the file says")

    run_with_client(bootstrap, act)


@app.command(epilog="Example: quorate reassign-partitions cancel --reassignment-json-file moves.json")
def cancel(
    plan_file: PlanOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    preserve_throttles: Annotated[bool, typer.Option(help="Leave the throttles as they are.")] = False,
) -> None:
    """Cancel the moves of a file that are under way: the partitions keep the replicas that they had."""
    from quorate.cli.console import run_with_client
    from quorate.cli.reassigning import alter_reassignments, end_throttles, load_assignments, read_cluster

    plan = load_assignments(plan_file)

    async def act(client: "WireClient") -> "tuple[list[Replica], dict[Replica, str]]":
        view = await read_cluster(client)
        moving = sorted(key for key in plan if key in view.moves)
        refused = await alter_reassignments(client, dict.fromkeys(moving)) if moving else {}
        if not preserve_throttles and not refused:
            await end_throttles(client, {key.topic for key in plan})
        return [key for key in moving if key not in refused], refused

    cancelled, refused = run_with_client(bootstrap, act)
    if cancelled:
        typer.echo(f"Successfully cancelled partition reassignments for {_names(cancelled)}")
    elif not refused:
        typer.echo("None of the file's partitions is being moved")
    _say_refused(refused)


@app.command("list", epilog="Example: quorate reassign-partitions list")
def list_moves(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """List every move under way, with the bytes that are left."""
    from quorate.cli.console import run_with_client
    from quorate.cli.reassigning import progress_of, read_cluster

    async def act(client: "WireClient") -> list[dict[str, object]]:
        view = await read_cluster(client)
        progress = await progress_of(view.moves, view)
        return [
            {
                "topic": key.topic,
                "partition": key.partition,
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
                "bytesLeft": progress.left[key],
            }
            for key, move in sorted(view.moves.items())
        ]

    moves = run_with_client(bootstrap, act)
    if as_json:
        typer.echo(json.dumps(moves))
        return
    from rich.table import Table

    from quorate.cli.console import print_table

    table = Table()
    for column in ("topic", "partition", "replicas", "adding", "removing", "bytes left"):
        table.add_column(column)
    for move in moves:
        left = move["bytesLeft"]
        table.add_row(
            str(move["topic"]),
            str(move["partition"]),
            *(str(move[each]).strip("[]") for each in ("replicas", "adding", "removing")),
            "unknown" if left is None else str(left),
        )
    print_table(table)


def _places_as_dict(
    directories: "Directories", places: "Mapping[tuple[str, int, int], str]"
) -> dict[str, object]:
    """For programs: the replicas of which the file names the directory, and what is left of their moves."""
    if not directories:
        return {}
    return {
        "directories": [
            {"topic": key[0], "partition": key[1], "broker": key[2], "logDir": directories[key], "left": left}
            for key, left in places.items()
        ]
    }


def _ids(text: str) -> list[int]:
    try:
        ids = [int(each) for each in text.split(",")]
    except ValueError:
        raise fail(f"--broker-list: {text!r} is not of the form 1,2,3", ExitCode.USAGE) from None
    if len(set(ids)) != len(ids):
        raise fail(f"--broker-list: {text!r} names a broker twice", ExitCode.USAGE)
    return ids


def _names(keys: "list[Replica]") -> str:
    return ",".join(f"{key.topic}-{key.partition}" for key in keys)


def _say_refused(refused: "dict[Replica, str]") -> None:
    for key, reason in sorted(refused.items()):
        typer.secho(f"quorate: {key.topic}-{key.partition}: {reason}", err=True, fg=typer.colors.RED)
    if refused:
        raise typer.Exit(ExitCode.FAILED)
