"""A broker as the handlers of its APIs see it, with the parts that a test gives it and no others."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from quorate.broker.access.authorizer import OPEN
from quorate.broker.apis.context import Broker
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import ConnectionContext, RequestContext

CONFIG = (
    "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=C\n"
    "controller.quorum.voters=1@h:1\nlisteners=PLAINTEXT://:2,C://h:1\nlog.dirs=/d"
)


def broker_of(**parts: Any) -> Broker:
    given: dict[str, Any] = {
        "config": ServerConfig.parse(CONFIG),
        "cluster_id": "c",
        "metadata": MetadataCache(),
        "authorizer": OPEN,
        "wall_clock": SimpleNamespace(now_ms=lambda: 1_800_000_000_000),
    }
    given |= parts
    all_parts: dict[str, Any] = {each.name: given.get(each.name) for each in fields(Broker)}
    return Broker(**all_parts)


def context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(
        ConnectionContext(id=1, peer="p:1", listener="PLAINTEXT"), key.api, version, 1, None
    )
