"""An administrator's requests to one broker of a simulated cluster, each sent once.

`AdminClient` looks for the broker that answers, and for the next one when that has gone. A simulated
administrator must know which broker it asked, and how often: a request without an answer may have been
carried out.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from kio.schema.errors import ErrorCode

from quorate.broker.admin import replicas
from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import Address
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost

T = TypeVar("T")


class OneBroker(AdminClient):
    """Sends every request over the one connection that it has."""

    async def broker(self, broker_id: str, *, of: str) -> WireClient:
        return self.any_broker

    async def ask_coordinator(
        self, group: str, ask: Callable[[WireClient], Awaitable[tuple[ErrorCode, T]]]
    ) -> tuple[ErrorCode, T]:
        """Ask this broker, whether or not it coordinates the group."""
        return await ask(self.any_broker)


@asynccontextmanager
async def open_one(
    cluster: BrokerCluster,
    host: BrokerHost,
    client: str,
    *,
    client_id: str = "quorate",
    timeout_s: float = 3.0,
    margin_s: float = 0.0,
) -> AsyncIterator[OneBroker]:
    """Connect `client` to a host. The cluster has `timeout_s` to carry a request out, and its answer
    `margin_s` more."""
    network, wait_s = cluster.client_network(client), timeout_s + margin_s
    async with open_client(network, host.address, client_id=client_id, timeout_s=wait_s) as connection:

        async def connect(address: Address) -> WireClient:
            return connection

        yield OneBroker(network, connection, connect, timeout_s=timeout_s, margin_s=margin_s)


async def code_of(request: Awaitable[object]) -> ErrorCode:
    """Return the error code of a request that raises its refusal; `none` if it was granted."""
    try:
        await request
    except KafkaError as error:
        return error.code
    return ErrorCode.none


async def reassign_partition(
    admin: AdminClient, name: str, partition_id: int, target: Sequence[int] | None
) -> None:
    """Begin a reassignment, or cancel the one under way. Raises `KafkaError`."""
    wanted = {TopicPartition(name, partition_id): None if target is None else tuple(target)}
    for refusal in (await replicas.refused_reassignments(admin, wanted)).values():
        raise refusal
