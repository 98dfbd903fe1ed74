"""`quorate quotas`: how much of the cluster clients may use."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption, ValidateOption
from quorate.cli.console.cli_errors import ExitCode, fail, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from quorate.broker.admin.admin_client import AdminClient
    from quorate.broker.admin.quotas import QuotaOwner

app = typer.Typer(
    no_args_is_help=True,
    help="Quotas: how much of the cluster users, client ids and addresses may use.",
    epilog="Example: quorate quotas set --client-id loader producer_byte_rate=10000000",
)

UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user.")]
UserDefaultOption = Annotated[
    bool, typer.Option("--user-default", help="Each user that has no quota of its own.")
]
ClientOption = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id.")]
ClientDefaultOption = Annotated[
    bool, typer.Option("--client-id-default", help="Each client id that has no quota of its own.")
]
IpOption = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address of clients.")]
IpDefaultOption = Annotated[
    bool, typer.Option("--ip-default", help="Each address that has no quota of its own.")
]
_OWNERS = "--user, --client-id or both, or --ip, or their defaults"


def _owner(
    user: str | None,
    user_default: bool,
    client_id: str | None,
    client_id_default: bool,
    ip: str | None,
    ip_default: bool,
) -> "QuotaOwner":
    from quorate.broker.admin.quotas import QuotaOwner

    def named() -> Iterator[tuple[str, str | None]]:
        for kind, name, default in (
            ("user", user, user_default),
            ("client-id", client_id, client_id_default),
            ("ip", ip, ip_default),
        ):
            if name is not None and default:
                raise wrong_usage(f"--{kind} and --{kind}-default exclude one another; leave one out")
            if name == "":
                raise wrong_usage(f"--{kind} is empty; for the default write --{kind}-default")
            if name is not None or default:
                yield kind, name

    names = dict(named())
    if "ip" in names and len(names) > 1:
        raise wrong_usage("--ip stands alone; leave out the user and the client id")
    return QuotaOwner(names)


def _named(owner: "QuotaOwner") -> "QuotaOwner":
    if not owner.names:
        raise wrong_usage(f"name whose quotas: {_OWNERS}")
    return owner


def _values(texts: list[str]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for text in texts:
        key, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not key or not math.isfinite(value):
            raise wrong_usage(f"{text!r} is not of the form quota=number")
        if key in values:
            raise wrong_usage(f"{key} is given twice")
        values[key] = value
    return values


@app.command("list", epilog="Example: quorate quotas list --user alice --json")
def list_all(
    user: UserOption = None,
    user_default: UserDefaultOption = False,
    client_id: ClientOption = None,
    client_id_default: ClientDefaultOption = False,
    ip: IpOption = None,
    ip_default: IpDefaultOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show the quotas that are set: all, or those of a user, client id or address.

    With --user alone, those of the user together with client ids are shown too.
    """
    owner = _owner(user, user_default, client_id, client_id_default, ip, ip_default)
    from quorate.broker.admin.quotas import ENTITY_TYPES, list_quotas

    found = ask(bootstrap, lambda admin: list_quotas(admin, owner))
    if as_json:
        print_json([each.as_dict() for each in found])
        return
    rows = [
        (
            *(
                "" if kind not in each.owner.names else each.owner.names[kind] or "(default)"
                for kind in ENTITY_TYPES
            ),
            key,
            f"{value:.15g}",
        )
        for each in found
        for key, value in each.quotas.items()
    ]
    print_rows(("user", "client id", "ip", "quota", "value"), rows)


@app.command("set", epilog="Example: quorate quotas set --user alice request_percentage=25")
def set_quotas(
    quotas: Annotated[
        list[str],
        typer.Argument(
            metavar="QUOTA=NUMBER...",
            help="producer_byte_rate, consumer_byte_rate (bytes per second), request_percentage (of a "
            "broker's event loop), controller_mutation_rate (partitions created or deleted per second); "
            "of an address connection_creation_rate (connections per second).",
        ),
    ],
    user: UserOption = None,
    user_default: UserDefaultOption = False,
    client_id: ClientOption = None,
    client_id_default: ClientDefaultOption = False,
    ip: IpOption = None,
    ip_default: IpDefaultOption = False,
    validate_only: ValidateOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set quotas of a user, a client id, both together, or an address: all or none. They count at once."""
    owner = _named(_owner(user, user_default, client_id, client_id_default, ip, ip_default))
    values = _values(quotas)
    from quorate.broker.admin.quotas import alter_quotas

    ask(bootstrap, lambda admin: alter_quotas(admin, owner, values, validate_only=validate_only))
    typer.echo(f"{'would set' if validate_only else 'set'} {', '.join(values)} of {owner}")


@app.command("remove", epilog="Example: quorate quotas remove --user alice request_percentage")
def remove_quotas(
    quotas: Annotated[
        list[str] | None, typer.Argument(metavar="QUOTA...", help="The quotas. Default: all that are set.")
    ] = None,
    user: UserOption = None,
    user_default: UserDefaultOption = False,
    client_id: ClientOption = None,
    client_id_default: ClientDefaultOption = False,
    ip: IpOption = None,
    ip_default: IpDefaultOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove quotas of a user, a client id, both together, or an address. The next quota in the order of
    precedence then applies."""
    owner = _named(_owner(user, user_default, client_id, client_id_default, ip, ip_default))
    from quorate.broker.admin.quotas import alter_quotas, list_quotas

    async def remove(admin: "AdminClient") -> list[str]:
        held = [
            key
            for each in await list_quotas(admin, owner)
            if each.owner.names == owner.names
            for key in each.quotas
        ]
        missing = [key for key in quotas or () if key not in held]
        if missing:
            raise fail(
                f"{owner} has no quota {missing[0]}; it has {', '.join(held) or 'none'}", ExitCode.FAILED
            )
        removed = list(dict.fromkeys(quotas or held))
        if removed:
            await alter_quotas(admin, owner, dict.fromkeys(removed))
        return removed

    removed = ask(bootstrap, remove)
    typer.echo(f"removed {', '.join(removed)} of {owner}" if removed else f"{owner} has no quotas")
