"""The settings of listeners and of what clients may ask for."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.broker.settings.config_key import (
    INT_MAX,
    ValueType,
    int_key,
    key_of,
    long_key,
    number,
    seconds,
    split_list,
)
from quorate.broker.settings.setting import nested, setting


def overrides_of(text: str) -> Mapping[str, int]:
    """Parse `address:count,address:count`. Raises `ValueError` that says what is wrong."""
    found: dict[str, int] = {}
    for item in split_list(text):
        host, _, count = item.rpartition(":")
        try:
            address = str(ipaddress.ip_address(host.strip().removeprefix("[").removesuffix("]")))
        except ValueError:
            raise ValueError(f"{item!r:.60} is not address:count, with an IP address") from None
        number(0, INT_MAX)(count)
        if address in found:
            raise ValueError(f"it names {address} twice; name each address once")
        found[address] = int(count)
    return MappingProxyType(found)


# fmt: off
REQUEST_MAX_BYTES: Final = int_key("socket.request.max.bytes", 100 << 20,
    "The maximum size of a request, and of a produced batch after decompression.", low=1)
FETCH_MAX_BYTES: Final = int_key("fetch.max.bytes", 55 << 20,
    "The maximum size of an answer to the fetch of a consumer.", low=1024)
FETCH_SESSIONS: Final = int_key("max.incremental.fetch.session.cache.slots", 1000,
    "The maximum number of fetch sessions (KIP-227). A client without one names all its partitions in each "
    "fetch.", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRules:
    """The limits of connections. `creation_rate` is in connections per second."""

    max_connections: int = setting(int_key("max.connections", 10_000,
        "The maximum number of connections of a broker, over its listeners. At it, clients wait. A broker "
        "that connects to a listener of its own takes the place of the client that was silent for longest.",
        low=1, kafkas="2147483647", dynamic=True))
    max_connections_per_ip: int = setting(int_key("max.connections.per.ip", INT_MAX,
        "The maximum number of connections from one address.", low=1, dynamic=True))
    per_ip_overrides: Mapping[str, int] = setting(key_of(
        ValueType.STRING, "max.connections.per.ip.overrides", "",
        "Other maximums for some addresses: address:count, separated by commas.",
        overrides_of, check=overrides_of, dynamic=True,
        why="Kafka takes names of hosts too, and looks them up."))
    creation_rate: int = setting(int_key("max.connection.creation.rate", INT_MAX,
        "The maximum number of connections that a broker accepts per second, after a burst of ten seconds' "
        "worth. Above it, clients wait. It does not apply to a listener of brokers alone.",
        low=1, dynamic=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaServerConfig:
    """The limits of a listener. Durations are in seconds, sizes in bytes.

    Kafka's defaults for connections and queued bytes are unlimited. Ours are not, so that memory is bounded
    without tuning. The last fields are tuned together, and no key sets them.
    """

    request_max_bytes: int = setting(REQUEST_MAX_BYTES)
    connections: ConnectionRules = nested(ConnectionRules)
    idle_timeout_s: float = setting(long_key("connections.max.idle.ms", 600_000,
        "The time after which an idle connection is closed.", low=1).into(seconds))
    queued_max_request_bytes: int = setting(long_key("queued.max.request.bytes", 256 << 20,
        "The maximum size of all requests of a listener in memory, and of what is unpacked to check their "
        "batches. A connection waits while there is no room. Requests above 2 MiB have three quarters of it.",
        low=1, kafkas="-1"))
    queued_max_response_bytes: int = 256 << 20
    max_pending_responses: int = 500
    max_pending_response_bytes: int = 8 << 20
    frame_timeout_s: float = 60.0
    send_timeout_s: float = 60.0
    sweep_interval_s: float = 1.0
    relief_interval_s: float = 0.1
# fmt: on
