"""The two ways from a command to a cluster: through its brokers, or at its controllers."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from quorate.cli.console.cli_errors import user_errors, wrong_usage

if TYPE_CHECKING:
    from pathlib import Path

    from quorate.broker.admin.admin_client import AdminClient
    from quorate.broker.admin.controllers import Controllers
    from quorate.runtime import Address, Network

Answer = TypeVar("Answer")

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
_CONNECT_SECONDS = 5.0
_CLIENT_ID: Final = "quorate-cli"


_command_config: "Path | None" = None
"""The file of the command that this process runs."""


def configure(path: "Path | None") -> None:
    """Reach clusters as the file says from here on."""
    global _command_config
    _command_config = path


def command_config() -> "Path | None":
    """Return the file of `--command-config`. None: the cluster is open."""
    return _command_config


def network() -> "Network":
    """Return the network by which this command reaches clusters. Exits with what is wrong in its file."""
    from quorate.cli.console.command_config import network_by

    return network_by(_command_config)


def parse_addresses(text: str, *, option: str = "--bootstrap-server") -> "list[Address]":
    """Parse `host:port,host:port`. Exits with the wrong entry."""
    from quorate.runtime import Address

    try:
        addresses = [Address.parse(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise wrong_usage(f"{option}: {error}") from None
    if not addresses:
        raise wrong_usage(f"{option} names no address; write host:port")
    return addresses


def ask_cluster(
    bootstrap: str, action: "Callable[[AdminClient], Awaitable[Answer]]", *, through: "Network | None" = None
) -> Answer:
    """Connect to the cluster and run `action`. `through`: the network, in place of the command's. Raises
    `NetworkError` and the errors of `action`."""
    import trio

    from quorate.broker.admin.admin_client import open_admin

    used = network() if through is None else through

    async def main() -> Answer:
        async with open_admin(
            used,
            parse_addresses(bootstrap),
            client_id=_CLIENT_ID,
            connect_timeout_s=_CONNECT_SECONDS,
        ) as admin:
            return await action(admin)

    return trio.run(main)


def ask(bootstrap: str, action: "Callable[[AdminClient], Awaitable[Answer]]") -> Answer:
    """Run `ask_cluster` for a command: an error ends it with a message and an exit code."""
    with user_errors():
        return ask_cluster(bootstrap, action)


def ask_quorum(
    brokers: str | None,
    controllers: str | None,
    *,
    timeout_ms: int,
    at_controllers: "Callable[[Controllers], Awaitable[Answer]]",
    through_brokers: "Callable[[AdminClient], Awaitable[Answer]] | None" = None,
) -> Answer:
    """Ask the quorum. Without `through_brokers`, a broker only names the controllers, and they are asked.

    An error ends the command with a message and an exit code.
    """
    if brokers is not None and controllers is not None:
        raise wrong_usage("give --bootstrap-server or --bootstrap-controller, not both")
    with user_errors():
        import trio

        from quorate.broker.admin import quorum
        from quorate.broker.admin.controllers import Controllers

        if controllers is not None:
            addresses = parse_addresses(controllers, option="--bootstrap-controller")
        elif through_brokers is not None:
            return ask_cluster(brokers or DEFAULT_BOOTSTRAP, through_brokers)
        else:
            addresses = ask_cluster(brokers or DEFAULT_BOOTSTRAP, quorum.controllers_of)

        async def main() -> Answer:
            return await at_controllers(Controllers(network(), addresses, timeout_ms=timeout_ms))

        return trio.run(main)
