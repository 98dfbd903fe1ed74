"""Kafka's protocol for our server and client: framing, versions, codecs, error codes.

A frame's way in: `framing` cuts it out of the stream, `headers` reads the API and the client, `request_codec`
turns the body into a message in the form of the newest version (hand-written for Produce and Fetch; kio
behind `guard` for the rest), the connection in `connection` hands it to a `RequestHandler` and sends the
answers back in order.
"""

from quorate.broker.wire import own_messages
from quorate.broker.wire.api import APIS, Api, ApiKey, own_api
from quorate.broker.wire.budget import Account, MemoryBudget
from quorate.broker.wire.connection_quotas import ConnectionQuotas
from quorate.broker.wire.exchanges import (
    Answer,
    CloseConnection,
    Deferred,
    EncodedResponse,
    Refusal,
    Request,
    RequestContext,
    Response,
)
from quorate.broker.wire.feature_levels import Features, SupportedFeature
from quorate.broker.wire.kafka_client import SentFetch, WireClient, open_client
from quorate.broker.wire.kafka_server import WireServer
from quorate.broker.wire.loop_time import LoopTime
from quorate.broker.wire.newest_version import BY_NAME
from quorate.broker.wire.throttle_times import with_throttle
from quorate.broker.wire.wire_errors import ErrorTable, KafkaError, wire_code

__all__ = [
    "APIS",
    "BY_NAME",
    "Account",
    "Answer",
    "Api",
    "ApiKey",
    "CloseConnection",
    "ConnectionQuotas",
    "Deferred",
    "EncodedResponse",
    "ErrorTable",
    "Features",
    "KafkaError",
    "LoopTime",
    "MemoryBudget",
    "Refusal",
    "Request",
    "RequestContext",
    "Response",
    "SentFetch",
    "SupportedFeature",
    "WireClient",
    "WireServer",
    "open_client",
    "own_api",
    "own_messages",
    "wire_code",
    "with_throttle",
]
