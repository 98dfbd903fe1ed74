"""The connections of an administrator, each to the node that can answer.

Any broker answers for the cluster and hands changes on to the active controller. A broker answers itself for
its own settings and directories, a group's coordinator for the group, a partition's leader for its records.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, cast

import trio
from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.wire_errors import KafkaError
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Address, Network, NetworkError

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.response import DescribeClusterResponse
    from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
    from kio.schema.metadata.v12.response import MetadataResponse

T = TypeVar("T")
R = TypeVar("R", bound=ResponsePayload)

_MARGIN_S: Final = 5.0
"""The time for an answer, on top of the time that the cluster has to carry a request out."""
_PAUSE_S: Final = 0.1
_GROUP: Final = 0
_AGAIN: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A live broker."""

    broker_id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """The registered brokers, as one of them knows them."""

    live: Mapping[int, BrokerView]
    fenced: frozenset[int]
    """Empty where the broker that was asked does not name them (before DescribeCluster 2)."""


class AdminClient:
    """Sends requests to the nodes that answer them, over connections that are opened when first needed.

    Made by `open_admin`. Many tasks may use it. All that it does, and all functions of this package, raise
    `KafkaError` with Kafka's code and a message for a refusal, `NetworkError` if no broker can be reached,
    and `MalformedError` for an answer that is not Kafka's.
    """

    def __init__(
        self,
        network: Network,
        any_broker: WireClient,
        connect: Callable[[Address], Awaitable[WireClient]],
        *,
        timeout_s: float,
        margin_s: float = _MARGIN_S,
    ) -> None:
        self.network = network
        self.any_broker = any_broker
        """The connection to the first broker that answered."""
        self.timeout_s = timeout_s
        """The time that the cluster has to carry out a request, in seconds."""
        self._connect = connect
        self._margin_s = margin_s
        self._open: dict[Address, WireClient] = {}

    async def call(
        self,
        api_key: ApiKey,
        *,
        at: WireClient | None = None,
        timeout_s: float | None = None,
        **values: object,
    ) -> ResponsePayload:
        """Send a request of the highest common version to any broker, or over the connection `at`.
        `timeout_s`: for the answer."""
        return await (at or self.any_broker).call(api_key, timeout_s=timeout_s, at_most=None, **values)

    async def change(
        self,
        api_key: ApiKey,
        *,
        at: WireClient | None = None,
        timeout_s: float | None = None,
        **values: object,
    ) -> ResponsePayload:
        """Send a request, as `call` does, that the cluster has `timeout_s` (by default the client's) to carry
        out, and wait a little longer for its answer."""
        wait_s = (self.timeout_s if timeout_s is None else timeout_s) + self._margin_s
        return await (at or self.any_broker).call(api_key, timeout_s=wait_s, at_most=None, **values)

    async def send(self, request: RequestPayload, response: type[R]) -> R:
        """Send a request of ours, which Kafka lacks, to any broker."""
        return await self.any_broker.send(request, response)

    async def to(self, address: Address) -> WireClient:
        """Return the connection to this address."""
        client = self._open.get(address)
        if client is None or client.broken is not None:
            client = await self._connect(address)
            self._open[address] = client
        return client

    async def brokers(self) -> Brokers:
        """Return the registered brokers."""
        answer = cast(
            "DescribeClusterResponse",
            await self.call(
                ApiKey.DESCRIBE_CLUSTER,
                include_cluster_authorized_operations=False,
                include_fenced_brokers=True,
            ),
        )
        check(answer.error_code, answer.error_message or "the cluster can't be described")
        # Version 1 of the answer has no such field: all of its brokers are live.
        fenced = frozenset(
            int(each.broker_id) for each in answer.brokers if getattr(each, "is_fenced", False)
        )
        return Brokers(
            live={
                int(each.broker_id): BrokerView(
                    broker_id=int(each.broker_id), address=Address(each.host, int(each.port)), rack=each.rack
                )
                for each in answer.brokers
                if int(each.broker_id) not in fenced
            },
            fenced=fenced,
        )

    async def addresses(self) -> dict[int, Address]:
        """Return the address of each live broker."""
        return {each.broker_id: each.address for each in (await self.brokers()).live.values()}

    async def broker(self, broker_id: str, *, of: str) -> WireClient:
        """Return the connection to a broker. Raises `KafkaError` if none of this id is live. `of`: what the
        error concerns."""
        for each, address in (await self.addresses()).items():
            if str(each) == broker_id:
                return await self.to(address)
        reason = f"no broker that runs has the id {broker_id}"
        raise refusal(ErrorCode.broker_id_not_registered, reason, of=of)

    async def metadata(self, topics: Sequence[str] | None) -> "MetadataResponse":
        """Return the brokers, and these topics; None: all topics."""
        answer = await self.call(
            ApiKey.METADATA,
            topics=None if topics is None else [{"topic_id": None, "name": each} for each in topics],
            allow_auto_topic_creation=False,
        )
        return cast("MetadataResponse", answer)

    async def ask_coordinator(
        self, group: str, ask: Callable[[WireClient], Awaitable[tuple[ErrorCode, T]]]
    ) -> tuple[ErrorCode, T]:
        """Ask the coordinator of a group, and its next one as long as the group moves. Raises `KafkaError`
        if the group has none for `timeout_s`."""
        deadline = trio.current_time() + self.timeout_s
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
            await trio.sleep(_PAUSE_S)

    async def _coordinator(self, group: str) -> tuple[Address | None, ErrorCode]:
        answer = await self.call(ApiKey.FIND_COORDINATOR, key_type=_GROUP, coordinator_keys=[group])
        (found,) = cast("FindCoordinatorResponse", answer).coordinators
        if found.error_code is ErrorCode.none:
            return Address(found.host, found.port), ErrorCode.coordinator_not_available
        if found.error_code not in _AGAIN:
            raise KafkaError(found.error_code, f"group {group}: {found.error_message or found.error_code}")
        return None, found.error_code


@asynccontextmanager
async def open_admin(
    network: Network,
    addresses: Sequence[Address],
    *,
    client_id: str = "quorate-admin",
    connect_timeout_s: float = 5.0,
    timeout_s: float = 30.0,
) -> AsyncIterator[AdminClient]:
    """Connect to the first of the addresses that answers. `connect_timeout_s` bounds each connection and each
    short request. Raises `NetworkError` with the problem of each address if none answers."""
    hold = partial(_hold, network, client_id=client_id, timeout_s=connect_timeout_s)
    failure: Exception | None = None
    async with trio.open_nursery() as connections:
        try:
            yield AdminClient(
                network,
                await _first(connections, hold, addresses),
                partial(connections.start, hold),
                timeout_s=timeout_s,
            )
        except Exception as error:
            # Kept out of the nursery, which would wrap it.
            failure = error
        connections.cancel_scope.cancel()
    if failure is not None:
        raise failure


class _Hold(Protocol):
    """Opens a connection and keeps it until it is cancelled."""

    async def __call__(self, address: Address, *, task_status: trio.TaskStatus[WireClient]) -> None: ...


async def _hold(
    network: Network,
    address: Address,
    *,
    client_id: str,
    timeout_s: float,
    task_status: trio.TaskStatus[WireClient],
) -> None:
    async with open_client(network, address, client_id=client_id, timeout_s=timeout_s) as client:
        task_status.started(client)
        await trio.sleep_forever()


async def _first(connections: trio.Nursery, hold: _Hold, addresses: Sequence[Address]) -> WireClient:
    problems: list[str] = []
    last: NetworkError | None = None
    for address in addresses:
        try:
            client: WireClient = await connections.start(hold, address)
        except MalformedError:
            problems.append(f"{address} does not speak Kafka's protocol")
        except NetworkError as error:
            problems.append(str(error))
            last = error
        else:
            return client
    raise NetworkError(
        f"no broker answered: {'; '.join(problems)}. Give the address of a broker's client listener"
    ) from last


def check(code: ErrorCode, message: str | None, *, of: str = "") -> None:
    """Raise `KafkaError` for any code but that of success. `of`: what the error concerns."""
    if code is not ErrorCode.none:
        raise refusal(code, message, of=of)


def refusal(code: ErrorCode, message: str | None, *, of: str = "") -> KafkaError:
    """Return the error of a refused request. `of`: what the error concerns."""
    reason = message or code.name.upper()
    return KafkaError(code, f"{of}: {reason}" if of else reason)


def by_topic(parts: "Mapping[TopicPartition, dict[str, object]]") -> list[dict[str, object]]:
    """Group fields of partitions by topic, as most of Kafka's requests have them."""
    topics: dict[str, list[dict[str, object]]] = {}
    for key, fields in parts.items():
        topics.setdefault(key.topic, []).append({"partition_index": key.partition, **fields})
    return [{"name": name, "partitions": held} for name, held in topics.items()]
