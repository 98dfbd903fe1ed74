"""A listener for clients with a test's own handler, on the simulated network, and raw frames for it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any

import trio

from quorate.broker.apis.api_table import BROKER_APIS
from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, response_type
from quorate.broker.wire.exchanges import RequestContext, Response
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.kafka_server import WireServer
from quorate.broker.wire.listener_security import UNPROTECTED, ListenerSecurity
from quorate.broker.wire.loop_time import RequestTimes
from quorate.broker.wire.sasl.credentials import Credentials, Tokens
from quorate.broker.wire.wire_errors import ErrorTable
from quorate.runtime.entropy import Entropy
from quorate.runtime.network import Address, NetworkError, Stream
from quorate.simulation.world.simulated_network import NetworkSettings, SimulatedNetwork
from quorate.simulation.world.simulated_runtime import InlineCompute

HOME = Address("broker", 9092)


class Handler:
    """Does as the test says: `act` maps an API's name to a function of context and request."""

    apis = BROKER_APIS

    def __init__(self, **act: Callable[[RequestContext, Any], Any]) -> None:
        self.act = act
        self.seen: list[tuple[str, RequestContext, Any]] = []

    async def handle(self, context: RequestContext, request: Any) -> Any:
        name = ApiKey(context.api.key).name.lower()
        self.seen.append((name, context, request))
        outcome = self.act[name](context, request)
        return await outcome if hasattr(outcome, "__await__") else outcome


def heartbeat_ok(context: RequestContext, request: object) -> Response:
    return build(response_type(ApiKey.HEARTBEAT, context.version))


@asynccontextmanager
async def serving(
    handler: Any,
    *,
    settings: NetworkSettings | None = None,
    errors: ErrorTable | None = None,
    times: RequestTimes | None = None,
    security: ListenerSecurity = UNPROTECTED,
    credentials: Credentials | None = None,
    tokens: Tokens | None = None,
    **config: Any,
) -> AsyncIterator[tuple[SimulatedNetwork, WireServer]]:
    net = SimulatedNetwork(Random(1), settings or NetworkSettings())
    listener = await net.for_node("broker").listen(HOME)
    server = WireServer(
        listener,
        handler,
        KafkaServerConfig(**config),
        errors=errors,
        times=times,
        security=security,
        credentials=credentials,
        entropy=Entropy(Random(2)),
        compute=InlineCompute(),
        tokens=tokens,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        yield net, server
        nursery.cancel_scope.cancel()


def client(
    net: SimulatedNetwork, name: str = "client", **options: Any
) -> AbstractAsyncContextManager[WireClient]:
    return open_client(net.for_node(name), HOME, **options)


def frame(api_key: int, version: int, number: int, body: bytes, client_id: bytes = b"raw") -> bytes:
    flexible = APIS[api_key].flexible(version) if api_key in APIS else False
    head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + number.to_bytes(4, "big")
    head += len(client_id).to_bytes(2, "big") + client_id + (b"\0" if flexible else b"")
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


async def read_until_closed(stream: Stream) -> bytes:
    data = b""
    try:
        while piece := await stream.receive_some():
            data += piece
    except NetworkError:
        pass
    return data
