"""DescribeConfigs of topics, brokers, groups and this broker's loggers, and ListConfigResources: the
resources that have, or may have, configs."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.access.needs import of_each, whole
from quorate.broker.apis import answers
from quorate.broker.apis.alter_configs import CLIENT_METRICS, LOGGER, check_is_here, check_may, config_type
from quorate.broker.apis.api_row import ApiRow, refuse_by_code
from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.apis.loggers import DYNAMIC_BROKER_LOGGER, describe_loggers
from quorate.broker.controller.operations.topic_limits import check_name
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.config_synonyms import (
    ConfigSynonym,
    of_all_brokers,
    of_broker,
    of_group,
    of_topic,
)
from quorate.broker.metadata.configs import (
    ConfigDescription,
    ConfigSource,
    describe_all_brokers,
    describe_broker,
    describe_group,
    describe_topic,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.settings.all_keys import BROKER_VALUES, CONFIG_KEYS
from quorate.broker.settings.config_key import ConfigKey, Effect, ValueType
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Refusal, RequestContext
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.error_code import ErrorCode
from quorate.runtime import Address, Slices

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

_KNOWN_TYPES: Final = frozenset({*map(int, ConfigType), LOGGER, CLIENT_METRICS})
_TYPES_PER_STEP: Final = 1000
_AT_ONCE: Final = 5
"""Resources that are answered in one piece; each has some 30 entries."""
_LISTED_TYPES: Final = (ConfigType.TOPIC, ConfigType.BROKER, LOGGER, CLIENT_METRICS, ConfigType.GROUP)


async def handle_describe_configs(
    broker: Broker, context: RequestContext, request: "DescribeConfigsRequest"
) -> Answer:
    """Describe resources; many in slices, each as it is at one moment. Raises `KafkaError`."""
    slices = Slices()
    for number, asked in enumerate(request.resources, 1):
        if asked.resource_type not in _KNOWN_TYPES:
            raise KafkaError(WireErrorCode.invalid_request, f"Unknown resource type {asked.resource_type}")
        if number % _TYPES_PER_STEP == 0:
            await slices.pause()
    results = (_resource(broker, context, asked, request) for asked in request.resources)
    if len(request.resources) <= _AT_ONCE:
        return respond(context, answers.DescribeConfigsResponse(results=results))
    return respond_in_slices(context, answers.DescribeConfigsResponse(results=results))


def _resource(
    broker: Broker,
    context: RequestContext,
    asked: "DescribeConfigsResource",
    request: "DescribeConfigsRequest",
) -> answers.DescribeConfigsResult:
    head: answers.DescribeConfigsResult = {
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
    }
    try:
        check_may(broker, context, AclOperation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name)
        entries = list(_entries(broker, asked.resource_type, asked.resource_name, request))
    except ApiError as error:
        return {
            **head,
            "error_code": wire_code(error.code),
            "error_message": error.message or None,
            "configs": (),
        }
    if asked.configuration_keys:
        # They may be many, and each may be in it often.
        wanted = {entry.get("name") for entry in entries}.intersection(asked.configuration_keys)
        entries = [entry for entry in entries if entry.get("name") in wanted]
    return {**head, "error_code": WireErrorCode.none, "configs": entries}


def _entries(
    broker: Broker, kind: int, name: str, request: "DescribeConfigsRequest"
) -> Iterator[answers.DescribeConfigsResourceResult]:
    static = broker.config.static
    image = broker.image
    match kind:
        case ConfigType.TOPIC:
            check_name(name)
            if image.topic(name) is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            for each in describe_topic(image, name, static=static):
                yield _entry(each, of_topic(image, name, each.key, static=static), request)
        case ConfigType.BROKER if not name:
            for each in describe_all_brokers(image):
                yield _entry(each, of_all_brokers(image, each.name), request)
        case ConfigType.BROKER:
            check_is_here(broker.config.node_id, name)
            for each in describe_broker(image, static=static):
                yield _entry(each, of_broker(image, each.name, static=static), request)
            for key in CONFIG_KEYS.values():
                if key.name not in BROKER_VALUES and key.effect is not Effect.REFUSED:
                    yield _node_entry(broker, key, request)
        case ConfigType.GROUP:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty.")
            for each in describe_group(image, name):
                yield _entry(each, of_group(image, name, each.key), request)
        case 8:
            check_is_here(broker.config.node_id, name)
            for logger, level in describe_loggers():
                yield _logger_entry(logger, level)
        case _:
            config_type(kind)


def _entry(
    each: ConfigDescription, synonyms: Iterable[ConfigSynonym], request: "DescribeConfigsRequest"
) -> answers.DescribeConfigsResourceResult:
    return _described(
        each.key,
        request,
        name=each.name,
        value=each.value,
        source=each.source,
        synonyms=synonyms,
        read_only=each.read_only,
    )


def _logger_entry(name: str, level: str) -> answers.DescribeConfigsResourceResult:
    return {
        "name": name,
        "value": level,
        "read_only": False,
        "config_source": DYNAMIC_BROKER_LOGGER,
        "is_sensitive": False,
        "config_type": int(ValueType.STRING),
        "documentation": None,
        "synonyms": (),
    }


def _node_entry(
    broker: Broker, key: ConfigKey, request: "DescribeConfigsRequest"
) -> answers.DescribeConfigsResourceResult:
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
    return _described(
        key, request, name=key.name, value=value, source=source, synonyms=synonyms, read_only=True
    )


def _described(
    key: ConfigKey,
    request: "DescribeConfigsRequest",
    *,
    name: str,
    value: str,
    source: ConfigSource,
    synonyms: Iterable[ConfigSynonym],
    read_only: bool = False,
) -> answers.DescribeConfigsResourceResult:
    hidden = key.type is ValueType.PASSWORD
    return {
        "name": name,
        "value": None if hidden else value,
        "read_only": read_only,
        "config_source": int(source),
        "is_sensitive": hidden,
        "config_type": int(key.type),
        "documentation": key.doc if request.include_documentation else None,
        "synonyms": [
            {"name": each.name, "value": None if hidden else each.value, "source": int(each.source)}
            for each in synonyms
        ]
        if request.include_synonyms
        else (),
    }


def handle_list_config_resources(
    broker: Broker, context: RequestContext, request: "ListConfigResourcesRequest"
) -> Answer:
    """List resources. Version 0 knows client metrics only, of which there are none."""
    asked = set(map(int, request.resource_types)) or set(map(int, _LISTED_TYPES))
    if context.version == 0:
        asked = {CLIENT_METRICS}
    elif not asked <= set(map(int, _LISTED_TYPES)):
        return respond(
            context,
            answers.ListConfigResourcesResponse(
                error_code=WireErrorCode.unsupported_version, config_resources=()
            ),
        )
    resources: Iterator[answers.ConfigResource] = (
        {"resource_name": name, "resource_type": int(kind)}
        for kind in _LISTED_TYPES
        if kind in asked
        for name in _resource_names(broker.image, kind)
    )
    return respond_in_slices(
        context,
        answers.ListConfigResourcesResponse(error_code=WireErrorCode.none, config_resources=resources),
    )


def _resource_names(image: MetadataImage, kind: int) -> Iterator[str]:
    # Copies: other tasks run between two elements, and may change what is listed.
    match kind:
        case ConfigType.TOPIC:
            yield from list(image.topic_names())
        case ConfigType.BROKER | 8:
            yield from map(str, sorted(image.brokers))
        case ConfigType.GROUP:
            yield from [each.name for each in list(image.configured()) if each.type is ConfigType.GROUP]
        case _:
            pass


def _refuse(request: "DescribeConfigsRequest", refusal: Refusal) -> answers.DescribeConfigsResponse:
    return {
        "results": (
            {
                "error_code": refusal.code,
                "error_message": refusal.message,
                "resource_type": each.resource_type,
                "resource_name": each.resource_name,
            }
            for each in request.resources
        )
    }


ROWS: Final = (
    ApiRow["DescribeConfigsRequest"](
        ApiKey.DESCRIBE_CONFIGS.api,
        _refuse,
        needs=(
            of_each(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
            of_each(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP),
            of_each(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, when="of brokers and their loggers"),
        ),
        brokers=handle_describe_configs,
    ),
    ApiRow["ListConfigResourcesRequest"](
        ApiKey.LIST_CONFIG_RESOURCES.api,
        refuse_by_code,
        needs=(whole(AclOperation.DESCRIBE_CONFIGS),),
        brokers=handle_list_config_resources,
    ),
)
