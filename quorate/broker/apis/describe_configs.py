"""DescribeConfigs of topics and brokers."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.metadata import (
    BROKER_VALUES,
    ConfigDescription,
    ConfigKey,
    ConfigSource,
    ConfigSynonym,
    Effect,
    describe_broker,
    describe_topic,
    of_broker,
    of_topic,
)
from quorate.broker.settings import CONFIG_KEYS
from quorate.broker.wire import Answer, KafkaError, RequestContext
from quorate.runtime import Address

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource

_Fields = dict[str, object]
_TOPIC: Final = 2
_BROKER: Final = 4
_AT_ONCE: Final = 5
"""Resources that are answered in one piece; each has some 30 entries."""


def handle(broker: Broker, context: RequestContext, request: "DescribeConfigsRequest") -> Answer:
    """Describe resources; many in slices, each as it is at one moment."""
    results = (_resource(broker, asked, request) for asked in request.resources)
    if len(request.resources) <= _AT_ONCE:
        return respond(context, results=results)
    return respond_in_slices(context, results=results)


def _resource(broker: Broker, asked: "DescribeConfigsResource", request: "DescribeConfigsRequest") -> _Fields:
    head: _Fields = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    try:
        entries = list(_entries(broker, asked.resource_type, asked.resource_name, request))
    except KafkaError as error:
        return head | {"error_code": error.code, "error_message": error.message, "configs": ()}
    if asked.configuration_keys:
        # They may be many, and each may be in it often.
        wanted = {str(entry["name"]) for entry in entries}.intersection(asked.configuration_keys)
        entries = [entry for entry in entries if entry["name"] in wanted]
    return head | {"error_code": ErrorCode.none, "configs": entries}


def _entries(broker: Broker, kind: int, name: str, request: "DescribeConfigsRequest") -> Iterator[_Fields]:
    static = broker.config.static
    image = broker.image
    if kind == _TOPIC:
        if image.topic(name) is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
        for each in describe_topic(image, name, static=static):
            yield _entry(each, of_topic(image, name, each.key, static=static), request)
    elif kind == _BROKER:
        if name not in ("", str(broker.config.node_id)):
            raise KafkaError(
                ErrorCode.invalid_request,
                f"This is broker {broker.config.node_id}; ask broker {name} itself for its configuration.",
            )
        for each in describe_broker(image, static=static):
            yield _entry(each, of_broker(image, each.name, static=static), request)
        if name:
            for key in CONFIG_KEYS.values():
                if key.name not in BROKER_VALUES and key.effect is not Effect.REFUSED:
                    yield _of_node(broker, key, request)
    else:
        raise KafkaError(ErrorCode.invalid_request, f"Resource type {kind} has no configuration here.")


def _entry(
    each: ConfigDescription, synonyms: Iterable[ConfigSynonym], request: "DescribeConfigsRequest"
) -> _Fields:
    return _fields(each.key, request, name=each.name, value=each.value, source=each.source, synonyms=synonyms)


def _of_node(broker: Broker, key: ConfigKey, request: "DescribeConfigsRequest") -> _Fields:
    """Describe a key that only server.properties sets."""
    config = broker.config
    value, is_set = config.values[key.name], key.name in config.from_file
    if key.name == "broker.id":
        value, is_set = str(config.node_id), True
    elif key.name == "advertised.listeners":
        # The ports that were bound, where the file says 0.
        own = broker.image.broker(config.node_id)
        listeners = config.advertised if own is None else own.listeners
        value = ",".join(f"{each.name}://{Address(each.host, each.port)}" for each in listeners)
    synonyms = [ConfigSynonym(key.name, value, ConfigSource.STATIC_BROKER)] if is_set else []
    if key.default is not None:
        synonyms.append(ConfigSynonym(key.name, key.default, ConfigSource.DEFAULT))
    source = ConfigSource.STATIC_BROKER if is_set else ConfigSource.DEFAULT
    return _fields(key, request, name=key.name, value=value, source=source, synonyms=synonyms, read_only=True)


def _fields(
    key: ConfigKey,
    request: "DescribeConfigsRequest",
    *,
    name: str,
    value: str,
    source: ConfigSource,
    synonyms: Iterable[ConfigSynonym],
    read_only: bool = False,
) -> _Fields:
    return {
        "name": name,
        "value": value,
        "read_only": read_only,
        "config_source": int(source),
        "is_sensitive": False,
        "config_type": int(key.type),
        "documentation": key.doc if request.include_documentation else None,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": int(each.source)} for each in synonyms
        ]
        if request.include_synonyms
        else (),
    }
