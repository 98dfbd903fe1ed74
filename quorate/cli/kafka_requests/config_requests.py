"""The requests of `quorate configs`, with answers for programs."""

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, assert_never

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResourceResult, DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import ListConfigResourcesResponse
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.metadata.v9.response import MetadataResponse
from kio.static.primitive import i8

from quorate.broker.wire import KafkaError, WireClient
from quorate.cli.console import connect_any
from quorate.cli.kafka_requests.cluster_requests import topic_names
from quorate.runtime import Address

_SET: Final = i8(0)
_DELETE: Final = i8(1)


class EntityType(enum.Enum):
    """The kinds of entities with configs, as kafka-configs names them."""

    TOPICS = "topics"
    BROKERS = "brokers"
    BROKER_LOGGERS = "broker-loggers"
    GROUPS = "groups"

    @property
    def number(self) -> i8:
        """Kafka's number of the type of resource."""
        return i8(_NUMBERS[self])

    @property
    def own_sources(self) -> frozenset[int]:
        """The sources of values that are the entity's own."""
        return _OWN_SOURCES[self]


_NUMBERS: Final = {
    EntityType.TOPICS: 2,
    EntityType.BROKERS: 4,
    EntityType.BROKER_LOGGERS: 8,
    EntityType.GROUPS: 32,
}
_OWN_SOURCES: Final = {
    EntityType.TOPICS: frozenset({1}),
    EntityType.BROKERS: frozenset({2}),
    EntityType.BROKER_LOGGERS: frozenset({6}),
    EntityType.GROUPS: frozenset({8}),
}
_DEFAULT_BROKER_SOURCE: Final = 3
SOURCES: Final[Mapping[int, str]] = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "CLIENT_METRICS_CONFIG",
    8: "GROUP_CONFIG",
}


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that has configs. An empty name: the defaults of all brokers."""

    type: EntityType
    name: str

    def __str__(self) -> str:
        return f"{self.type.value} {self.name or '(default)'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPlace:
    """A place that has a value."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """A key, its value, and the places behind it, the one in effect first."""

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigPlace, ...]


async def entities(client: WireClient, kind: EntityType) -> list[Entity]:
    """Return what there is of a kind: topics, brokers and their defaults, groups that have configs."""
    match kind:
        case EntityType.TOPICS:
            names = await topic_names(client)
        case EntityType.GROUPS:
            answer = await client.send(
                ListConfigResourcesRequest(resource_types=(kind.number,)), ListConfigResourcesResponse
            )
            names = sorted(each.resource_name for each in answer.config_resources)
        case EntityType.BROKERS:
            names = [*sorted(await _brokers(client)), ""]
        case EntityType.BROKER_LOGGERS:
            names = sorted(await _brokers(client))
        case _:
            assert_never(kind)
    return [Entity(kind, name) for name in names]


async def describe_configs(client: WireClient, entity: Entity, *, everything: bool) -> list[DescribedConfig]:
    """Return the configs of an entity by name: its own, or with `everything` all that hold. Raises
    `KafkaError`."""
    async with _responsible(client, entity) as asked:
        response = await asked.send(
            DescribeConfigsRequest(
                resources=(
                    DescribeConfigsResource(
                        resource_type=entity.type.number, resource_name=entity.name, configuration_keys=None
                    ),
                ),
                include_synonyms=True,
            ),
            DescribeConfigsResponse,
        )
    result = response.results[0]
    if result.error_code is not ErrorCode.none:
        raise _refused(entity, result.error_code, result.error_message)
    own = entity.type.own_sources if entity.name else frozenset({_DEFAULT_BROKER_SOURCE})
    return sorted(
        (_described(each) for each in result.configs if everything or each.config_source in own),
        key=lambda each: each.name,
    )


def _described(entry: DescribeConfigsResourceResult) -> DescribedConfig:
    return DescribedConfig(
        name=entry.name,
        value=entry.value,
        source=_source(entry.config_source),
        read_only=entry.read_only,
        sensitive=entry.is_sensitive,
        synonyms=tuple(
            ConfigPlace(name=each.name, value=each.value, source=_source(each.source))
            for each in entry.synonyms
        ),
    )


def _source(number: int) -> str:
    return SOURCES.get(number, f"UNKNOWN_{number}")


async def alter_configs(
    client: WireClient,
    entity: Entity,
    *,
    add: Mapping[str, str],
    delete: Sequence[str],
    validate_only: bool,
) -> None:
    """Set and delete keys, all or none. Raises `KafkaError`."""
    changes = [AlterableConfig(name=name, config_operation=_SET, value=value) for name, value in add.items()]
    # Kafka's tools delete with an empty value.
    changes += [AlterableConfig(name=name, config_operation=_DELETE, value="") for name in delete]
    async with _responsible(client, entity) as asked:
        response = await asked.send(
            IncrementalAlterConfigsRequest(
                resources=(
                    AlterConfigsResource(
                        resource_type=entity.type.number, resource_name=entity.name, configs=tuple(changes)
                    ),
                ),
                validate_only=validate_only,
            ),
            IncrementalAlterConfigsResponse,
        )
    result = response.responses[0]
    if result.error_code is not ErrorCode.none:
        raise _refused(entity, result.error_code, result.error_message)


def _refused(entity: Entity, code: ErrorCode, message: str | None) -> KafkaError:
    return KafkaError(code, f"{entity}: {message or code.name.upper()}")


@asynccontextmanager
async def _responsible(client: WireClient, entity: Entity) -> AsyncIterator[WireClient]:
    """Connect to the broker that answers for the entity: a broker itself, any one for all others."""
    if entity.type not in (EntityType.BROKERS, EntityType.BROKER_LOGGERS) or not entity.name:
        yield client
        return
    address = (await _brokers(client)).get(entity.name)
    if address is None:
        raise KafkaError(
            ErrorCode.broker_id_not_registered, f"{entity}: no broker that runs has the id {entity.name}"
        )
    async with connect_any([address]) as asked:
        yield asked


async def _brokers(client: WireClient) -> dict[str, Address]:
    """Return the addresses of the brokers that run, by id."""
    response = await client.send(
        MetadataRequest(
            topics=(),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        ),
        MetadataResponse,
    )
    return {str(each.node_id): Address(each.host, each.port) for each in response.brokers}


def entity_as_dict(entity: Entity, configs: Sequence[DescribedConfig]) -> dict[str, object]:
    """Return an entity's configs for programs. A name of None: the defaults of all brokers."""
    return {
        "entityType": entity.type.value,
        "entityName": entity.name or None,
        "configs": [
            {
                "name": each.name,
                "value": each.value,
                "source": each.source,
                "readOnly": each.read_only,
                "sensitive": each.sensitive,
                "synonyms": [
                    {"name": place.name, "value": place.value, "source": place.source}
                    for place in each.synonyms
                ],
            }
            for each in configs
        ],
    }
