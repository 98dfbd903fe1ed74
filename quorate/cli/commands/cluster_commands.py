"""`quorate cluster`: a whole cluster on this machine, and the health and balance of any."""

from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from quorate.cli.commands.health_commands import health
from quorate.cli.commands.options import BootstrapOption, JsonOption, ThrottleOption
from quorate.cli.console.cli_errors import CommandError, ExitCode, fail, fail_each, user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows
from quorate.cli.node.secured_cluster import ADMIN

if TYPE_CHECKING:
    import threading

    from quorate.broker.admin.admin_client import AdminClient
    from quorate.cli.node.local_cluster import LocalCluster

app = typer.Typer(no_args_is_help=True, epilog="Example: quorate cluster start")


@app.callback()
def cluster() -> None:
    """A whole cluster: one on this machine, to develop against, or any other."""


app.command(epilog="Example: quorate cluster health -b localhost:9092")(health)

_CHOSEN_BY_EPHEMERAL: Final = ("data", "port", "controller_port", "metrics_port", "voters")


@app.command(epilog="Example: quorate cluster start --nodes 3 --data ./quorate-data --port 9092")
def start(
    context: typer.Context,
    nodes: Annotated[int, typer.Option(min=1, max=9, help="The number of nodes.")] = 3,
    data: Annotated[
        Path, typer.Option(help="The folder with the cluster's data. Created if missing.")
    ] = Path("quorate-data"),
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="The client port of node 1. The other nodes use the next ones. 0: free ports.",
        ),
    ] = 9092,
    controller_port: Annotated[
        int,
        typer.Option(
            min=1, max=65535, help="The controller port of node 1. The other nodes use the next ones."
        ),
    ] = 19092,
    metrics_port: Annotated[
        int,
        typer.Option(min=1, max=65535, help="The metrics port of node 1. The other nodes use the next ones."),
    ] = 7071,
    voters: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=9,
            help="The number of first voters. The voter set is then in the log, so that `quorate quorum "
            "add-voter` and `remove-voter` can change it. Default: all nodes are voters, by configuration.",
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Encrypt everything, and ask everybody who they are: certificates between nodes, passwords "
            "of clients, ACLs. A client file with a first super user is made in the folder.",
        ),
    ] = False,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="A key of server.properties for every node, such as num.partitions=4. Repeatable.",
        ),
    ] = None,
    ephemeral: Annotated[
        bool,
        typer.Option(
            "--ephemeral",
            help="For one test run: free ports, and a folder that is removed. The cluster ends with the "
            "program that started it, and takes commands on its standard input.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON when the cluster is ready.")
    ] = False,
) -> None:
    """Run a cluster in the foreground until Ctrl-C, then stop it in order. A restart uses the same data.

    It does not restart a node that dies: it prints a message, and the other nodes continue.
    """
    import signal
    import threading

    from quorate.cli.node.local_cluster import LocalCluster, parse_settings

    if ephemeral:
        for name in _CHOSEN_BY_EPHEMERAL:
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                option = f"--{name.replace('_', '-')}"
                raise wrong_usage(f"--ephemeral chooses its folder and its ports; leave {option} out")
        _run_ephemeral(nodes, config or (), secure=secure, as_json=as_json)
    if voters is not None and voters > nodes:
        raise wrong_usage(f"--voters {voters}: there are only {nodes} nodes")
    ranges = {"--port": port, "--controller-port": controller_port, "--metrics-port": metrics_port}
    if port:
        behind = {"behind --controller-port": controller_port + nodes} if secure else {}
        _check_ports(ranges | behind, nodes)
    with user_errors():
        settings = parse_settings(config or ())
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    local = LocalCluster.plan(
        data,
        nodes=nodes,
        client_port=port,
        controller_port=controller_port,
        metrics_port=metrics_port,
        voters=voters,
        secure=secure,
        overrides=settings,
    )
    with user_errors():
        try:
            with local.locked():
                cluster_id = local.prepare()
                local.start()
                local.wait_ready(stop=stop)
                if not stop.is_set():
                    _say_ready(local, cluster_id, as_json=as_json)
                _watch(local, stop)
                typer.echo("stopping", err=as_json)
                codes = local.stop()
        finally:
            local.kill_all()
    failed = {node: code for node, code in codes.items() if code}
    if failed:
        raise fail(
            f"nodes did not stop cleanly: {failed} (node: exit code); see server.log in {local.folder}",
            ExitCode.FAILED,
        )
    typer.echo("stopped", err=as_json)


@app.command(epilog="Example: quorate cluster balance --dry-run")
def balance(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the plan, as a file for `quorate reassign-partitions`."
        ),
    ] = None,
    throttle: ThrottleOption = None,
    wait: Annotated[bool, typer.Option(help="Show the progress until all is moved.")] = True,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take back every move that is under way, and plan nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Spread replicas, and then preferred leaders, evenly over the live brokers, and over racks first.

    For when a broker was added, or racks have changed. As few replicas move as that needs. Partitions without
    a leader stay where they are, and so do replicas on brokers that are down: `quorate brokers drain` moves
    those. With Ctrl-C the moves go on.
    """
    from quorate.broker.admin.replicas import read_cluster
    from quorate.cli.reassigning.assignment_files import dump_assignments
    from quorate.cli.reassigning.balancing import Balance, cancel_all, check_idle, plan_balance

    if cancel:
        cancelled = ask(bootstrap, cancel_all)
        taken_back = [key for key, refused in cancelled.items() if not refused]
        if as_json:
            print_json({"cancelled": [key._asdict() for key in taken_back]})
        else:
            typer.echo(f"Took back {len(taken_back)} moves" if cancelled else "No partition is being moved")
        fail_each([f"{key}: {refused}" for key, refused in cancelled.items() if refused])
        return

    def say(line: str) -> None:
        typer.echo(line, err=as_json)

    async def act(admin: "AdminClient") -> None:
        view = await read_cluster(admin)
        if not dry_run:
            check_idle(view)
        plan = plan_balance(view)
        if save is not None:
            save.write_text(dump_assignments(plan.changes) + "\n", encoding="utf-8")
        if as_json:
            print_json(
                {
                    "brokers": [asdict(each) for each in plan.shares],
                    "replicasThatMove": plan.moving,
                    "partitions": [
                        {"topic": key.topic, "partition": key.partition, "replicas": list(replicas)}
                        for key, replicas in plan.changes.items()
                    ],
                    "leftOut": [key._asdict() for key in plan.left_out],
                }
            )
        else:
            print_rows(
                ("broker", "rack", "replicas", "planned", "preferred leader of", "planned"),
                [astuple(each) for each in plan.shares],
            )
        if plan.left_out:
            first, many = plan.left_out[0], len(plan.left_out)
            say(f"{many} partitions have no leader, {first} for one, and stay as they are")
        if dry_run and not plan.changes:
            say("No replica has to move")
        elif dry_run:
            say(f"{plan.moving} replicas of {len(plan.changes)} partitions would move. Nothing was changed")
        else:
            await Balance(throttle, wait, say).run(admin, view, plan)

    ask(bootstrap, act)


def _run_ephemeral(nodes: int, config: Sequence[str], *, secure: bool, as_json: bool) -> NoReturn:
    """Become the program that runs clusters for tests, with the input, output and process id of this one."""
    import os
    import sys

    settings = [part for each in config for part in ("--config", each)]
    flags = [*(["--secure"] if secure else []), *(["--json"] if as_json else [])]
    os.execv(
        sys.executable,
        [sys.executable, "-m", "quorate.testing", "--nodes", str(nodes), *settings, *flags],
    )


def _watch(local: "LocalCluster", stop: "threading.Event") -> None:
    """Return when `stop` is set. Reports each node that ends by itself; raises `CommandError` when all
    have."""
    reported: set[int] = set()
    while not stop.wait(0.5):
        for number in local.ended():
            if number in reported:
                continue
            reported.add(number)
            said = f"node {number} exited:\n{local.last_lines(number)}"
            if not local.running():
                raise CommandError(said)
            typer.echo(
                f"{said}\nThe other nodes continue. To restart it: "
                f"quorate server start {local.node(number).config_file}",
                err=True,
            )


def _check_ports(ranges: dict[str, int], nodes: int) -> None:
    taken: dict[int, str] = {}
    for option, first in ranges.items():
        for port in range(first, first + nodes):
            if port > 65535:
                raise wrong_usage(f"{option} {first}: {nodes} nodes would need port {port}")
            if port in taken:
                raise wrong_usage(
                    f"{option} {first} and {taken[port]} both reach port {port}; choose ranges of {nodes} "
                    "ports that do not meet"
                )
            taken[port] = f"{option} {first}"


def _say_ready(local: "LocalCluster", cluster_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json(local.as_dict(cluster_id))
        return
    typer.echo(f"cluster {cluster_id} is ready, data in {local.folder}")
    typer.echo(f"bootstrap servers: {local.bootstrap}")
    if local.secure:
        secrets = local.secrets
        typer.echo(f"client file of the super user {ADMIN}: {secrets.client_file} (Java, --command-config)")
        typer.echo(f"                               {secrets.librdkafka_file} (librdkafka, kcat -F)")
        typer.echo(f"token of the metrics: {secrets.metrics_token}")
    for node in local.nodes:
        metrics = local.metrics_url(node.node_id)
        places = f"metrics at {metrics}, log {node.log_file}"
        if local.overrides.get("metrics.http.page", "true").lower() == "true":
            places = f"page at {metrics.removesuffix('metrics')}, {places}"
        typer.echo(f"node {node.node_id}: {places}")
    typer.echo("Ctrl-C stops it")
