"""DescribeConfigs of topics and brokers."""

from collections.abc import Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond
from quorate.broker.config import CONFIG_KEYS
from quorate.broker.controller.config_key import Effect
from quorate.broker.controller.configs import ConfigDescription, ConfigSource, describe_broker, describe_topic
from quorate.broker.wire.errors import KafkaError
from quorate.broker.wire.messages import Answer, RequestContext

_Fields = dict[str, object]
_TOPIC: Final = 2
_BROKER: Final = 4


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    return respond(context, results=[_resource(broker, asked, request) for asked in request.resources])


def _resource(broker: Broker, asked: Any, request: Any) -> _Fields:
    head: _Fields = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    try:
        entries = list(_entries(broker, asked.resource_type, asked.resource_name, request))
    except KafkaError as error:
        return head | {"error_code": error.code, "error_message": error.message, "configs": ()}
    wanted = asked.configuration_keys
    if wanted:
        entries = [entry for entry in entries if entry["name"] in wanted]
    return head | {"error_code": ErrorCode.none, "configs": entries}


def _entries(broker: Broker, kind: int, name: str, request: Any) -> Iterator[_Fields]:
    static = broker.config.static
    if kind == _TOPIC:
        if broker.image.topic(name) is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
        for each in describe_topic(broker.image, name, static=static):
            yield _entry(each, request)
    elif kind == _BROKER:
        if name not in ("", str(broker.config.node_id)):
            raise KafkaError(
                ErrorCode.invalid_request,
                f"This is broker {broker.config.node_id}; ask broker {name} itself for its configuration.",
            )
        dynamic = {each.name: each for each in describe_broker(broker.image, static=static)}
        for each in dynamic.values():
            yield _entry(each, request)
        if name:
            yield from _static(broker, dynamic, request)
    else:
        raise KafkaError(ErrorCode.invalid_request, f"Resource type {kind} has no configuration here.")


def _entry(each: ConfigDescription, request: Any) -> _Fields:
    return {
        "name": each.name,
        "value": each.value,
        "read_only": each.read_only,
        "is_default": each.source is ConfigSource.DEFAULT,
        "config_source": int(each.source),
        "is_sensitive": each.sensitive,
        "config_type": int(each.key.type),
        "documentation": each.key.doc if _documented(request) else None,
        "synonyms": (),
    }


def _static(broker: Broker, dynamic: dict[str, ConfigDescription], request: Any) -> Iterator[_Fields]:
    for name, key in CONFIG_KEYS.items():
        if name in dynamic or key.effect is Effect.REFUSED:
            continue
        value = broker.config.values[name]
        default = value == (key.default or "")
        yield {
            "name": name,
            "value": value,
            "read_only": True,
            "is_default": default,
            "config_source": int(ConfigSource.DEFAULT if default else ConfigSource.STATIC_BROKER),
            "is_sensitive": False,
            "config_type": int(key.type),
            "documentation": key.doc if _documented(request) else None,
            "synonyms": (),
        }


def _documented(request: Any) -> bool:
    return bool(getattr(request, "include_documentation", False))
