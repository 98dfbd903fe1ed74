"""Real nodes in namespaces, and a connection to each that is opened when it is needed."""

from typing import Any, Final

import trio

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.runtime.network import Address
from quorate.runtime.real import RealNetwork
from tests.kit.namespaces import Namespaces

PATIENCE_S: Final = 3.0
"""The time that an operator waits for one answer."""


class NotAskedError(Exception):
    """No node got the request."""


class Cluster:
    """The nodes, and connections to them."""

    def __init__(self, namespaces: Namespaces, stack: trio.Nursery) -> None:
        self.namespaces = namespaces
        self._nursery = stack
        self._clients: dict[int, WireClient] = {}

    async def call(
        self,
        node: int,
        api: ApiKey,
        *,
        timeout_s: float = PATIENCE_S,
        at_most: int | None = None,
        **values: Any,
    ) -> Any:
        """Ask a node. Raises `NotAskedError` if it can't be reached. A connection that fails is forgotten."""
        client = await self._client(node)
        try:
            return await client.call(api, timeout_s=timeout_s, at_most=at_most, **values)
        except BaseException:
            if self._clients.get(node) is client:
                del self._clients[node]
            raise

    async def _client(self, node: int) -> WireClient:
        held = self._clients.get(node)
        if held is None:
            address = Address(self.namespaces.host(node), 9092)
            try:
                held = await self._nursery.start(self._hold, address)
            except Exception as error:
                raise NotAskedError from error
            self._clients[node] = held
        return held

    async def _hold(self, address: Address, *, task_status: trio.TaskStatus[WireClient]) -> None:
        begun = False
        try:
            async with open_client(RealNetwork(), address, timeout_s=2) as client:
                begun = True
                task_status.started(client)
                await trio.sleep_forever()
        except Exception:
            if not begun:
                raise
