"""`quorate brokers`: list, drain."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.cli_errors import CommandError
from quorate.cli.cli_options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption
from quorate.cli.commands.reassign_commands import ThrottleOption

if TYPE_CHECKING:
    from quorate.broker.wire import WireClient

app = typer.Typer(
    no_args_is_help=True,
    help="The brokers of the cluster, and what is on them.",
    epilog="Example: quorate brokers list",
)


@app.command("list", epilog="Example: quorate brokers list --json")
def list_brokers(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """List the brokers: live ones, and those that only have replicas assigned."""
    from quorate.cli.bootstrap import run_with_client
    from quorate.cli.reassigning import ClusterView, read_cluster

    def rows(view: ClusterView) -> list[dict[str, object]]:
        states = list(view.partitions.values())
        ids = sorted({*view.brokers, *(int(each) for state in states for each in state.replica_nodes)})
        return [
            {
                "id": each,
                "address": str(broker.address) if (broker := view.brokers.get(each)) else None,
                "rack": broker.rack if broker else None,
                "leads": sum(int(state.leader_id) == each for state in states),
                "replicas": sum(each in state.replica_nodes for state in states),
                "inSync": sum(each in state.isr_nodes for state in states),
            }
            for each in ids
        ]

    found = rows(run_with_client(bootstrap, read_cluster))
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich.table import Table

    from quorate.cli.text_tables import print_table

    table = Table()
    for column in ("broker", "address", "rack", "leads", "replicas", "in sync"):
        table.add_column(column)
    for row in found:
        table.add_row(
            str(row["id"]),
            str(row["address"] or "not live"),
            str(row["rack"] or ""),
            *(str(row[each]) for each in ("leads", "replicas", "inSync")),
        )
    print_table(table)


@app.command(epilog="Example: quorate brokers drain 3 --throttle 50000000")
def drain(
    broker_id: Annotated[int, typer.Argument(min=0, metavar="ID", help="The broker to empty.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    throttle: ThrottleOption = None,
    wait: Annotated[bool, typer.Option(help="Show the progress until the broker is empty.")] = True,
) -> None:
    """Move every replica off a broker, to the live brokers with the fewest, in other racks where there are.

    It serves meanwhile. Given again, the command goes on where it was interrupted: it asks the cluster what
    is left. A broker that is drained still counts as one for new topics: stop it then.
    """
    import trio

    from quorate.cli.bootstrap import run_with_client
    from quorate.cli.reassigning import (
        POLL_SECONDS,
        begin_moves,
        drained,
        end_throttles,
        progress_of,
        read_cluster,
        summary,
    )

    async def act(client: "WireClient") -> None:
        before, topics, said = None, set[str](), ""
        while True:
            view = await read_cluster(client)
            targets = view.targets()
            racks = {each.broker_id: each.rack for each in view.brokers.values()}
            plan = drained(targets, broker_id, racks=racks)
            if plan:
                # Topics may be created meanwhile, with replicas here.
                refused = await begin_moves(client, view, plan, throttle=throttle)
                if refused:
                    key, reason = min(refused.items())
                    raise CommandError(f"{key.topic}-{key.partition}: {reason}")
                typer.echo(f"Began to move {len(plan)} replicas off broker {broker_id}")
                topics |= {key.topic for key in plan}
                continue
            leaving = {key: move for key, move in view.moves.items() if broker_id in move.removing}
            topics |= {key.topic for key in leaving}
            if not leaving or not wait:
                break
            progress = await progress_of(leaving, view)
            line = summary(progress, before)
            if line != said:
                typer.echo(line)
            before, said = progress, line
            await trio.sleep(POLL_SECONDS)
        if leaving:
            typer.echo(
                f"{len(leaving)} replicas are leaving broker {broker_id}; give the command again to watch"
            )
            return
        if topics and throttle is not None:
            await end_throttles(client, topics)
        typer.echo(f"Broker {broker_id} has no replicas")

    run_with_client(bootstrap, act)
