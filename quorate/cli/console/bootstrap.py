"""Connections of the command line to a cluster."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from quorate.cli.console.cli_errors import ExitCode, fail, user_errors

if TYPE_CHECKING:
    from quorate.broker.wire import WireClient
    from quorate.runtime import Address

Answer = TypeVar("Answer")

_CONNECT_SECONDS = 5.0


def parse_addresses(text: str, *, option: str = "--bootstrap-server") -> "list[Address]":
    """Parse `host:port,host:port`. Exits with the wrong entry."""
    from quorate.runtime import Address

    try:
        addresses = [Address.parse(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise fail(f"{option}: {error}", ExitCode.USAGE) from None
    if not addresses:
        raise fail(f"{option} names no address; write host:port", ExitCode.USAGE)
    return addresses


@asynccontextmanager
async def connect_any(addresses: "Sequence[Address]") -> "AsyncIterator[WireClient]":
    """Connect to the first of the addresses that answers. Raises `NetworkError` naming all if none does."""
    from quorate.broker.wire import open_client
    from quorate.broker.wire.codecs import MalformedError
    from quorate.runtime import NetworkError
    from quorate.runtime.real import RealNetwork

    problems: list[str] = []
    for address in addresses:
        async with AsyncExitStack() as stack:
            opened = open_client(RealNetwork(), address, client_id="quorate-cli", timeout_s=_CONNECT_SECONDS)
            try:
                client = await stack.enter_async_context(opened)
            except MalformedError:
                problems.append(f"{address} does not speak Kafka's protocol")
                continue
            except NetworkError as error:
                problems.append(str(error))
                continue
            yield client
            return
    raise NetworkError(
        f"no broker answered: {'; '.join(problems)}. Give the address of a broker's client listener"
    )


def ask_cluster(bootstrap: str, action: "Callable[[WireClient], Awaitable[Answer]]") -> Answer:
    """Connect to the cluster and run `action`. Raises `NetworkError` and the errors of `action`."""
    import trio

    async def main() -> Answer:
        async with connect_any(parse_addresses(bootstrap)) as client:
            return await action(client)

    return trio.run(main)


def run_with_client(bootstrap: str, action: "Callable[[WireClient], Awaitable[Answer]]") -> Answer:
    """Run `ask_cluster` for a command: an error ends it with a message and an exit code."""
    with user_errors():
        return ask_cluster(bootstrap, action)
