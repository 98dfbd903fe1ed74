"""`quorate reassign-partitions`: generate, execute, verify, cancel, list."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption, ThrottleOption
from quorate.cli.console.cli_errors import CommandError, ExitCode, fail, fail_each, user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from quorate.broker.admin.admin_client import AdminClient, TopicPartition
    from quorate.broker.admin.log_dirs import PlacedReplica

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
    from quorate.broker.admin.replicas import read_cluster
    from quorate.cli.reassigning.assignment_files import dump_assignments, load_topics
    from quorate.cli.reassigning.replica_plan import spread

    topics = load_topics(topics_file)
    brokers = _ids(broker_list)
    view = ask(bootstrap, read_cluster)
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
    from quorate.broker.admin.log_dirs import move_replicas
    from quorate.broker.admin.replicas import read_cluster
    from quorate.cli.reassigning.assignment_files import dump_assignments, load_assignments, load_directories
    from quorate.cli.reassigning.moves import begin_moves

    plan = load_assignments(plan_file)
    directories = load_directories(plan_file)

    async def act(admin: "AdminClient") -> "dict[TopicPartition, str]":
        view = await read_cluster(admin)
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
        refused = await begin_moves(admin, view, plan, throttle=throttle)
        wanted = {key: path for key, path in directories.items() if key[:2] not in refused}
        if wanted:
            unmoved.update(await move_replicas(admin, wanted, patient=True))
        return refused

    unmoved: dict[PlacedReplica, str] = {}
    refused = ask(bootstrap, act)
    begun = sorted(key for key in plan if key not in refused)
    if begun:
        typer.echo(f"Successfully started partition reassignments for {','.join(map(str, begun))}")
    for key in sorted(key for key in directories if key not in unmoved and key[:2] not in refused):
        typer.echo(f"Successfully started the move of {key[0]}-{key[1]}-{key[2]} to {directories[key]}")
    stayed = [
        f"the replica of {topic}-{partition} on broker {broker}: {reason}"
        for (topic, partition, broker), reason in sorted(unmoved.items())
    ]
    fail_each([*stayed, *_refusals(refused)])


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

    from quorate.broker.admin.log_dirs import is_under_way, states_of_moves
    from quorate.cli.reassigning.assignment_files import load_assignments, load_directories
    from quorate.cli.reassigning.moves import POLL_SECONDS, check_moves, end_throttles

    plan = load_assignments(plan_file)
    directories = load_directories(plan_file)

    async def act(admin: "AdminClient") -> None:
        before = None
        while True:
            checked = await check_moves(admin, plan)
            places = await states_of_moves(admin, directories) if directories else {}
            if as_json:
                print_json(checked.as_dict(before) | _places_as_dict(directories, places))
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
        if not preserve_throttles and await end_throttles(admin, {key.topic for key in plan}):
            typer.echo("Removed the throttles", err=as_json)
        if checked.different:
            raise CommandError("some partitions have other replicas than the file says")
        if any(places.values()):
            raise CommandError("some replicas are in other directories than the file says")

    ask(bootstrap, act)


@app.command(epilog="Example: quorate reassign-partitions cancel --reassignment-json-file moves.json")
def cancel(
    plan_file: PlanOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    preserve_throttles: Annotated[bool, typer.Option(help="Leave the throttles as they are.")] = False,
) -> None:
    """Cancel the moves of a file that are under way: the partitions keep the replicas that they had."""
    from quorate.broker.admin.replicas import alter_reassignments, read_cluster
    from quorate.cli.reassigning.assignment_files import load_assignments
    from quorate.cli.reassigning.moves import end_throttles

    plan = load_assignments(plan_file)

    async def act(admin: "AdminClient") -> "tuple[list[TopicPartition], dict[TopicPartition, str]]":
        view = await read_cluster(admin)
        moving = sorted(key for key in plan if key in view.moves)
        refused = await alter_reassignments(admin, dict.fromkeys(moving)) if moving else {}
        if not preserve_throttles and not refused:
            await end_throttles(admin, {key.topic for key in plan})
        return [key for key in moving if key not in refused], refused

    cancelled, refused = ask(bootstrap, act)
    if cancelled:
        typer.echo(f"Successfully cancelled partition reassignments for {','.join(map(str, cancelled))}")
    elif not refused:
        typer.echo("None of the file's partitions is being moved")
    fail_each(_refusals(refused))


@app.command("list", epilog="Example: quorate reassign-partitions list")
def list_moves(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """List every move under way, with the bytes that are left."""
    from quorate.broker.admin.replicas import read_cluster
    from quorate.cli.reassigning.moves import progress_of

    async def act(admin: "AdminClient") -> list[dict[str, object]]:
        view = await read_cluster(admin)
        progress = await progress_of(admin, view.moves, view)
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

    moves = ask(bootstrap, act)
    if as_json:
        print_json(moves)
        return
    print_rows(
        ("topic", "partition", "replicas", "adding", "removing", "bytes left"),
        [
            (
                move["topic"],
                move["partition"],
                *(str(move[each]).strip("[]") for each in ("replicas", "adding", "removing")),
                "unknown" if move["bytesLeft"] is None else move["bytesLeft"],
            )
            for move in moves
        ],
    )


def _places_as_dict(
    directories: "Mapping[PlacedReplica, str]", places: "Mapping[PlacedReplica, str]"
) -> dict[str, object]:
    """Return, for programs, the replicas whose directory the file names, and what is left of their moves."""
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
        raise wrong_usage(f"--broker-list: {text!r} is not of the form 1,2,3") from None
    if len(set(ids)) != len(ids):
        raise wrong_usage(f"--broker-list: {text!r} names a broker twice")
    return ids


def _refusals(refused: "dict[TopicPartition, str]") -> list[str]:
    return [f"{key}: {reason}" for key, reason in sorted(refused.items())]
