"""`quorate brokers`: list, drain, unregister."""

from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption, ThrottleOption
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from quorate.broker.admin.admin_client import AdminClient
    from quorate.broker.admin.replicas import ClusterView

app = typer.Typer(
    no_args_is_help=True,
    help="The brokers of the cluster, and what is on them.",
    epilog="Example: quorate brokers list",
)


@app.command("list", epilog="Example: quorate brokers list --json")
def list_brokers(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """List the brokers: live ones, fenced ones, and those that only have replicas assigned."""
    from quorate.broker.admin import replicas

    view = ask(bootstrap, replicas.read_cluster)
    states = list(view.partitions.values())
    assigned = {int(each) for state in states for each in state.replica_nodes}
    found = [
        {
            "id": each,
            "address": str(broker.address) if (broker := view.brokers.get(each)) else None,
            "rack": broker.rack if broker else None,
            "state": "live" if broker else "fenced" if each in view.fenced else "not registered",
            "leads": sum(int(state.leader_id) == each for state in states),
            "replicas": sum(each in state.replica_nodes for state in states),
            "inSync": sum(each in state.isr_nodes for state in states),
        }
        for each in sorted({*view.brokers, *view.fenced, *assigned})
    ]
    if as_json:
        print_json(found)
    else:
        print_rows(
            ("broker", "state", "address", "rack", "leads", "replicas", "in sync"),
            [
                [row[name] for name in ("id", "state", "address", "rack", "leads", "replicas", "inSync")]
                for row in found
            ],
        )


@app.command("drain", epilog="Example: quorate brokers drain 3 --throttle 50000000")
def drain_broker(
    broker_id: Annotated[int, typer.Argument(min=0, metavar="ID", help="The broker to empty.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    throttle: ThrottleOption = None,
    wait: Annotated[bool, typer.Option(help="Show the progress until the broker is empty.")] = True,
    wait_for_down: Annotated[
        bool,
        typer.Option(
            "--wait-for-down",
            help="Go on waiting for moves that need a broker that is down. Default: name them and end.",
        ),
    ] = False,
) -> None:
    """Move every replica off a broker, to the live brokers with the fewest, in other racks where there are.

    It serves meanwhile, or may be down: the other replicas then have the records. The exit code is 1 if
    partitions can't be moved because nobody that is up has them. Given again, the command goes on where it
    was interrupted: it asks the cluster what is left. A broker that is drained still counts as one for new
    topics: stop it then.
    """
    from quorate.cli.reassigning.draining import Drain

    drain = Drain(broker_id, throttle=throttle, wait=wait, wait_for_down=wait_for_down, say=typer.echo)
    ask(bootstrap, drain.run)


@app.command(epilog="Example: quorate brokers unregister 3")
def unregister(
    broker_id: Annotated[int, typer.Argument(min=0, metavar="ID", help="The broker to forget.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    force: Annotated[
        bool, typer.Option("--force", help="Also a live one, or one that partitions have a replica on.")
    ] = False,
) -> None:
    """Remove a broker that will not come back from the cluster's metadata.

    It leaves the ISRs, and its registration is gone. Replicas stay assigned to it: drain it before. A broker
    that runs, or is started again, registers anew.
    """
    from quorate.broker.admin import brokers, replicas

    async def act(admin: "AdminClient") -> None:
        if not force:
            _check_unused(broker_id, await replicas.read_cluster(admin))
        await brokers.unregister_broker(admin, broker_id)

    ask(bootstrap, act)
    typer.echo(f"Broker {broker_id} is no longer registered")


def _check_unused(broker_id: int, view: "ClusterView") -> None:
    if broker_id in view.brokers:
        raise CommandError(
            f"broker {broker_id} is live: drain it and stop it first. --force unregisters it nevertheless, "
            "as Kafka does; it loses its leaderships, and registers again if it goes on"
        )
    left = [key for key, state in view.partitions.items() if broker_id in map(int, state.replica_nodes)]
    if left:
        raise CommandError(
            f"{len(left)} partitions have a replica on broker {broker_id}, {min(left)} "
            f"for one: move them with quorate brokers drain {broker_id}. --force leaves them assigned to it"
        )
