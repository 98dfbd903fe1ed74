"""The two ways from a command to a quorum: through its brokers, or at its controllers."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from quorate.cli.commands.cli_options import DEFAULT_BOOTSTRAP
from quorate.cli.console import ExitCode, fail

if TYPE_CHECKING:
    from quorate.broker.admin import Controllers
    from quorate.broker.wire import WireClient

Answer = TypeVar("Answer")

BrokersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help="Brokers, separated by commas. The command uses the first that answers. "
        f"Default: {DEFAULT_BOOTSTRAP}, unless --bootstrap-controller is given.",
    ),
]
ControllersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        "-C",
        metavar="HOST:PORT",
        help="Controller listeners of the quorum's nodes, separated by commas. For a quorum without brokers, "
        "such as an embedded one.",
    ),
]
TimeoutOption = Annotated[int, typer.Option("--timeout-ms", min=1, help="The time limit, in milliseconds.")]


def ask_quorum(
    brokers: str | None,
    controllers: str | None,
    *,
    timeout_ms: int,
    at_controllers: "Callable[[Controllers], Awaitable[Answer]]",
    through_brokers: "Callable[[WireClient], Awaitable[Answer]] | None" = None,
) -> Answer:
    """Ask the quorum. Without `through_brokers`, a broker only names the controllers, and they are asked.

    An error ends the command with a message and an exit code.
    """
    if brokers is not None and controllers is not None:
        raise fail("give --bootstrap-server or --bootstrap-controller, not both", ExitCode.USAGE)
    from quorate.cli.console import user_errors

    with user_errors():
        import trio

        from quorate.broker.admin import Controllers
        from quorate.cli.console import connect_any, parse_addresses
        from quorate.cli.kafka_requests import controllers_of
        from quorate.runtime.real import RealNetwork

        async def main() -> Answer:
            if controllers is not None:
                found = parse_addresses(controllers, option="--bootstrap-controller")
            else:
                async with connect_any(parse_addresses(brokers or DEFAULT_BOOTSTRAP)) as client:
                    if through_brokers is not None:
                        return await through_brokers(client)
                    found = await controllers_of(client)
            return await at_controllers(Controllers(RealNetwork(), found, timeout_ms=timeout_ms))

        return trio.run(main)
