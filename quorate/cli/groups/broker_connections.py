"""Connections to each broker of a cluster, and to the coordinator of a group."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, TypeVar, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire import ApiKey, KafkaError, WireClient, open_client
from quorate.cli.console import run_with_client
from quorate.runtime import Address, NetworkError
from quorate.runtime.real import RealNetwork

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
    from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponsePartition

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.1
_CONNECT_SECONDS: Final = 5.0
_GROUP: Final = 0
_AGAIN: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


class BrokerConnections:
    """Connections to brokers by id, each opened when it is first needed."""

    def __init__(self, bootstrap: WireClient, stack: AsyncExitStack) -> None:
        self.bootstrap = bootstrap
        self._stack = stack
        self._open: dict[Address, WireClient] = {}

    async def to(self, address: Address) -> WireClient:
        """Return the connection to this address. Raises `NetworkError`."""
        client = self._open.get(address)
        if client is None:
            opened = open_client(RealNetwork(), address, client_id="quorate-cli", timeout_s=_CONNECT_SECONDS)
            client = self._open[address] = await self._stack.enter_async_context(opened)
        return client

    async def addresses(self) -> dict[int, Address]:
        """Return the address of each live broker."""
        answer = await self._metadata(())
        return {int(each.node_id): Address(each.host, each.port) for each in answer.brokers}

    async def partitions(self, topics: Sequence[str]) -> dict[str, list["MetadataResponsePartition"]]:
        """Return the partitions of each of these topics that exists."""
        if not topics:
            return {}
        answer = await self._metadata(topics)
        return {
            str(each.name): sorted(each.partitions, key=lambda part: part.partition_index)
            for each in answer.topics
            if each.error_code is not ErrorCode.unknown_topic_or_partition
        }

    async def _metadata(self, topics: Sequence[str]) -> "MetadataResponse":
        answer = await self.bootstrap.call(
            ApiKey.METADATA,
            topics=[{"topic_id": None, "name": each} for each in topics],
            allow_auto_topic_creation=False,
        )
        return cast("MetadataResponse", answer)

    async def ask_coordinator(
        self, group: str, ask: Callable[[WireClient], Awaitable[tuple[ErrorCode, T]]]
    ) -> tuple[ErrorCode, T]:
        """Ask the coordinator of a group, and its next one as long as the group moves. Raises `KafkaError`
        when the group has none for 30 s, and `NetworkError`."""
        deadline = trio.current_time() + _PATIENCE_SECONDS
        while True:
            address, error = await self._coordinator(group)
            if address is not None:
                try:
                    answer = await ask(await self.to(address))
                except NetworkError:
                    # It has just gone: its address leads elsewhere, or nowhere, in a moment.
                    self._open.pop(address, None)
                    if trio.current_time() > deadline:
                        raise
                else:
                    error = answer[0]
                    if error not in _AGAIN:
                        return answer
            if trio.current_time() > deadline:
                raise KafkaError(error, f"group {group}: {error.name.upper()}; try again in a moment")
            await trio.sleep(_PAUSE_SECONDS)

    async def _coordinator(self, group: str) -> tuple[Address | None, ErrorCode]:
        answer = await self.bootstrap.call(ApiKey.FIND_COORDINATOR, key_type=_GROUP, coordinator_keys=[group])
        (found,) = cast("FindCoordinatorResponse", answer).coordinators
        if found.error_code is ErrorCode.none:
            return Address(found.host, found.port), ErrorCode.coordinator_not_available
        if found.error_code not in _AGAIN:
            raise KafkaError(found.error_code, f"group {group}: {found.error_message or found.error_code}")
        return None, found.error_code


def run_with_brokers(bootstrap: str, action: Callable[[BrokerConnections], Awaitable[T]]) -> T:
    """Run `action` with the brokers of a cluster. An error ends the command with a message and a code."""

    async def main(client: WireClient) -> T:
        async with AsyncExitStack() as stack:
            return await action(BrokerConnections(client, stack))

    return run_with_client(bootstrap, main)
