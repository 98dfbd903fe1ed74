"""Configs of topics, brokers, loggers and groups."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never, cast

from quorate.broker.admin.admin_client import AdminClient, check
from quorate.broker.admin.topics import topic_names
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.response import DescribeConfigsResourceResult, DescribeConfigsResponse
    from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
    from kio.schema.list_config_resources.v1.response import ListConfigResourcesResponse

_SET: Final = 0
_DELETE: Final = 1
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
"""The names of the places that a value may come from, by Kafka's numbers."""


class EntityType(enum.Enum):
    """The kinds of entities with configs, as kafka-configs names them. Each has Kafka's number of the type of
    resource, and the source of values that are an entity's own."""

    TOPICS = ("topics", 2, 1)
    BROKERS = ("brokers", 4, 2)
    BROKER_LOGGERS = ("broker-loggers", 8, 6)
    GROUPS = ("groups", 32, 8)

    def __init__(self, text: str, number: int, own_source: int) -> None:
        self.text = text
        self.number = number
        self.own_source = own_source


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that has configs. An empty name: the defaults of all brokers."""

    type: EntityType
    name: str

    def __str__(self) -> str:
        return f"{self.type.text} {self.name or '(default)'}"


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


async def entities(admin: AdminClient, kind: EntityType) -> list[Entity]:
    """Return all entities of a kind: topics, brokers and their defaults, groups that have configs."""
    match kind:
        case EntityType.TOPICS:
            names = await topic_names(admin)
        case EntityType.GROUPS:
            answer = await admin.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[kind.number])
            resources = cast("ListConfigResourcesResponse", answer).config_resources
            names = sorted(each.resource_name for each in resources)
        case EntityType.BROKERS:
            names = [*sorted(map(str, await admin.addresses())), ""]
        case EntityType.BROKER_LOGGERS:
            names = sorted(map(str, await admin.addresses()))
        case _:
            assert_never(kind)
    return [Entity(kind, name) for name in names]


async def describe_configs(admin: AdminClient, entity: Entity, *, everything: bool) -> list[DescribedConfig]:
    """Return the configs of an entity by name: its own, or with `everything` all that hold."""
    answer = await admin.call(
        ApiKey.DESCRIBE_CONFIGS,
        at=await _responsible(admin, entity),
        resources=[
            {
                "resource_type": entity.type.number,
                "resource_name": entity.name,
                "configuration_keys": None,
            }
        ],
        include_synonyms=True,
    )
    (result,) = cast("DescribeConfigsResponse", answer).results
    check(result.error_code, result.error_message, of=str(entity))
    own = entity.type.own_source if entity.name else _DEFAULT_BROKER_SOURCE
    return sorted(
        (_described(each) for each in result.configs if everything or each.config_source == own),
        key=lambda each: each.name,
    )


def _described(entry: "DescribeConfigsResourceResult") -> DescribedConfig:
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
    admin: AdminClient,
    entity: Entity,
    changes: Mapping[str, str | None],
    *,
    replaces: bool = False,
    validate_only: bool = False,
    of: str = "",
) -> None:
    """Set keys, and delete those with None, all or none. `replaces`: every other key of the entity is deleted
    too. `of`: the beginning of a refusal's message, by default the entity."""
    answer = await admin.call(
        ApiKey.ALTER_CONFIGS if replaces else ApiKey.INCREMENTAL_ALTER_CONFIGS,
        at=await _responsible(admin, entity),
        resources=[
            {
                "resource_type": entity.type.number,
                "resource_name": entity.name,
                "configs": [
                    {"name": name, "value": value}
                    if replaces
                    # Kafka's tools delete with an empty value.
                    else {
                        "name": name,
                        "config_operation": _SET if value is not None else _DELETE,
                        "value": value or "",
                    }
                    for name, value in changes.items()
                    if value is not None or not replaces
                ],
            }
        ],
        validate_only=validate_only,
    )
    (result,) = cast("IncrementalAlterConfigsResponse", answer).responses
    check(result.error_code, result.error_message, of=of or str(entity))


async def _responsible(admin: AdminClient, entity: Entity) -> WireClient:
    """Connect to the broker that answers for the entity: a broker itself, any one for all others."""
    if entity.type not in (EntityType.BROKERS, EntityType.BROKER_LOGGERS) or not entity.name:
        return admin.any_broker
    return await admin.broker(entity.name, of=str(entity))
