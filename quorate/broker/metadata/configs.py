"""The effective configuration of topics.

The value of a topic's key is its own override, else the node's own dynamic value, else the dynamic default of
all brokers, else that of the node's `server.properties`, else Kafka's default (KIP-226).
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.settings.all_keys import BROKER_VALUES, DYNAMIC_KEYS, GROUP_KEYS, TOPIC_KEYS
from quorate.broker.settings.config_key import ConfigKey, Synonym, TypedKey, UpdateMode
from quorate.broker.settings.setting import read
from quorate.broker.settings.topic_config import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION, TopicConfig
from quorate.error_code import ErrorCode

T = TypeVar("T")


class ConfigSource(enum.IntEnum):
    """The source of a value, with Kafka's numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    GROUP = 8


ALL_BROKERS: Final = ConfigResource(ConfigType.BROKER, "")
"""The resource that holds the dynamic defaults of all brokers."""


class StaticConfig(Mapping[str, str]):
    """The settings of a node's server.properties, with the id of the node: its own dynamic values come before
    those of all brokers."""

    __slots__ = ("_values", "resource")

    def __init__(self, values: Mapping[str, str], *, node_id: int) -> None:
        self._values = dict(values)
        self.resource = ConfigResource(ConfigType.BROKER, str(node_id))
        """The resource that holds the dynamic values of this node alone."""

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def stored(image: MetadataImage, resource: ConfigResource) -> Mapping[str, str]:
    """Return the resource's own settings, without those that this version would not take: another one may
    have stored them (KAFKA-10803)."""
    held = image.configs(resource)
    refused = dict(refused_settings(image, resource))
    return {name: value for name, value in held.items() if name not in refused} if refused else held


def refused_settings(image: MetadataImage, resource: ConfigResource) -> Iterator[tuple[str, str]]:
    """Yield each stored setting of the resource that this version would not take, and why."""
    for name, value in image.configs(resource).items():
        why = _fault(resource.type, name, value)
        if why is not None:
            yield name, why


@lru_cache(maxsize=512)
def _fault(of: ConfigType, name: str, value: str) -> str | None:
    try:
        check_value(name, value, of=of)
    except ApiError as error:
        return error.message
    return None


def levels(
    image: MetadataImage, static: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, str], ConfigSource]]:
    """Return the places of a node's settings, the one that counts most first. `static`: of no node in
    particular, unless it is a `StaticConfig`."""
    if isinstance(static, StaticConfig):
        yield stored(image, static.resource), ConfigSource.DYNAMIC_BROKER
    yield stored(image, ALL_BROKERS), ConfigSource.DYNAMIC_DEFAULT_BROKER
    yield static, ConfigSource.STATIC_BROKER


def dynamic_values(image: MetadataImage, static: StaticConfig) -> Mapping[str, str]:
    """Return the values of brokers' keys that were set on the node while it ran."""
    held = {**stored(image, ALL_BROKERS), **stored(image, static.resource)}
    return {name: value for name, value in held.items() if name in DYNAMIC_KEYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDescription:
    """One key as DescribeConfigs shows it."""

    key: ConfigKey
    name: str
    value: str
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


_KEYS_OF: Final[Mapping[ConfigType, Mapping[str, ConfigKey]]] = {
    ConfigType.TOPIC: TOPIC_KEYS,
    ConfigType.BROKER: DYNAMIC_KEYS,
    ConfigType.GROUP: GROUP_KEYS,
}


def key_of(name: str, *, of: ConfigType) -> ConfigKey | None:
    """Return the key that a resource of this kind may have, or None."""
    return _KEYS_OF[of].get(name)


def check_together(values: Mapping[str, str]) -> None:
    """Refuse with `ApiError` a topic's own values that contradict one another, as Kafka does. Others it
    takes: a min.insync.replicas above the number of replicas, a retention below the size of a segment."""
    name = "compaction.lag.ms"
    low, high = (
        int(values.get(f"{bound}.{name}", TOPIC_KEYS[f"{bound}.{name}"].initial)) for bound in ("min", "max")
    )
    if low > high:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.{name} ({low}) > max.{name} ({high}); raise the second or "
            "lower the first",
        )


def check_value(name: str, value: str, *, of: ConfigType) -> None:
    """Refuse with `ApiError` a key that the resource doesn't have, or a value that may not stand there."""
    key = _KEYS_OF[of].get(name)
    if key is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown {of.name.lower()} config name: {name}")
    try:
        key.check(value)
    except ValueError as error:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Invalid value {value:.100} for configuration {name}: {error}"
        ) from error


def _scaled(value: str, synonym: Synonym) -> str:
    if synonym.factor == 1 or int(value) < 0:
        return value  # a negative number means no limit, in whatever unit
    return str(int(value) * synonym.factor)


def _default(
    key: ConfigKey, places: Iterable[tuple[Mapping[str, str], ConfigSource]]
) -> tuple[str, ConfigSource]:
    for values, source in places:
        for synonym in key.synonyms:
            held = values.get(synonym.name)
            if held is not None:
                return _scaled(held, synonym), source
    return key.initial, ConfigSource.DEFAULT


def describe_topic(
    image: MetadataImage, topic: str, *, static: Mapping[str, str]
) -> Iterator[ConfigDescription]:
    """Yield every key of a topic, its value and the source of it. `static`: the node's server.properties."""
    yield from _described(
        stored(image, ConfigResource(ConfigType.TOPIC, topic)), tuple(levels(image, static))
    )


def _described(
    overrides: Mapping[str, str], places: Iterable[tuple[Mapping[str, str], ConfigSource]]
) -> Iterator[ConfigDescription]:
    for key in TOPIC_KEYS.values():
        held = overrides.get(key.name)
        if held is not None:
            yield ConfigDescription(key=key, name=key.name, value=held, source=ConfigSource.DYNAMIC_TOPIC)
        else:
            value, source = _default(key, places)
            yield ConfigDescription(key=key, name=key.name, value=value, source=source)


def describe_broker(image: MetadataImage, *, static: Mapping[str, str]) -> Iterator[ConfigDescription]:
    """Yield the keys of a broker that set topics' defaults, or may change while it runs; those without a
    value with their default."""
    places = tuple(levels(image, static))
    for key in BROKER_VALUES.values():
        value, source = key.initial, ConfigSource.DEFAULT
        for values, place in places:
            if key.name in values:
                value, source = values[key.name], place
                break
        yield ConfigDescription(
            key=key,
            name=key.name,
            value=value,
            source=source,
            read_only=key.update is UpdateMode.READ_ONLY,
        )


def describe_all_brokers(image: MetadataImage) -> Iterator[ConfigDescription]:
    """Yield the keys that are set for all brokers, and no others."""
    for name, value in stored(image, ALL_BROKERS).items():
        key = BROKER_VALUES.get(name)
        if key is not None:
            yield ConfigDescription(
                key=key, name=name, value=value, source=ConfigSource.DYNAMIC_DEFAULT_BROKER
            )


def describe_group(image: MetadataImage, group: str) -> Iterator[ConfigDescription]:
    """Yield every key of a group, its value and the source of it. The group need not exist."""
    own = stored(image, ConfigResource(ConfigType.GROUP, group))
    for key in GROUP_KEYS.values():
        held = own.get(key.name)
        yield ConfigDescription(
            key=key,
            name=key.name,
            value=key.initial if held is None else held,
            source=ConfigSource.DEFAULT if held is None else ConfigSource.GROUP,
        )


def effective(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> TopicConfig:
    """Return the effective configuration of a topic, whether it exists or not. `static`: the node's checked
    server.properties."""
    own = stored(image, ConfigResource(ConfigType.TOPIC, topic))
    return _effective(
        tuple(own.items()),
        tuple((tuple(values.items()), source) for values, source in levels(image, static)),
    )


_Settings = tuple[tuple[str, str], ...]


# Most topics have no settings of their own, so that thousands of replicas that open share one result.
@lru_cache(maxsize=256)
def _effective(own: _Settings, places: tuple[tuple[_Settings, ConfigSource], ...]) -> TopicConfig:
    levels_of = [(dict(values), source) for values, source in places]
    return read(TopicConfig, {each.name: each.value for each in _described(dict(own), levels_of)})


def unclean_elections(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> bool:
    """True if `topic` may have a leader from outside its ISR and ELR. As `effective`, for this key alone."""
    return _value(image, topic, UNCLEAN_LEADER_ELECTION, static=static)


def min_insync_replicas(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> int:
    """Return the effective value of this key alone. A partition with fewer replicas needs no more than it
    has."""
    return _value(image, topic, MIN_INSYNC_REPLICAS, static=static)


def _value(image: MetadataImage, topic: str, key: TypedKey[T], *, static: Mapping[str, str]) -> T:
    held = stored(image, ConfigResource(ConfigType.TOPIC, topic)).get(key.name)
    if held is None:
        held, _ = _default(key, levels(image, static))
    return key.parse(held)
