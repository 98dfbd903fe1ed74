"""Configuration keys of topics and their brokers' defaults: Kafka's names, defaults and bounds.

A topic's value is its own override, else the dynamic default of all brokers, else what the node's
`server.properties` says, else Kafka's default.
"""

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.broker.controller.errors import ApiError, ErrorCode
from quorate.broker.controller.image import ConfigResource, MetadataImage
from quorate.broker.controller.records import ConfigType

_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1
_WHOLE_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")


class ValueType(enum.IntEnum):
    """Kafka's numbers for config types in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(enum.IntEnum):
    """Where a value comes from; Kafka's numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key that sets a topic key's default, its value times `factor` (hours in ms)."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    type: ValueType
    default: str
    check: Callable[[str], None]
    """Raises `ValueError` for a value that may not stand here."""
    synonyms: tuple[Synonym, ...]
    """The first that is set wins."""
    doc: str


def _number(low: int, high: int) -> Callable[[str], None]:
    def check(value: str) -> None:
        if _WHOLE_NUMBER.fullmatch(value) is None:
            raise ValueError("not a number")
        number = int(value)
        if not low <= number <= high:
            raise ValueError(f"Value must be at least {low} and at most {high}")

    return check


def _ratio(value: str) -> None:
    try:
        number = float(value)
    except ValueError:
        raise ValueError("not a number") from None
    if not 0 <= number <= 1:
        raise ValueError("Value must be between 0 and 1")


def _boolean(value: str) -> None:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")


def _choice(*allowed: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value not in allowed:
            raise ValueError(f"String must be one of: {', '.join(allowed)}")

    return check


def _choices(*allowed: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        items = split_list(value)
        if not items or any(item not in allowed for item in items):
            raise ValueError(f"String must be one or more of: {', '.join(allowed)}")

    return check


def split_list(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())


def _int(name: str, default: int, low: int, doc: str, *synonyms: Synonym) -> ConfigKey:
    return ConfigKey(name, ValueType.INT, str(default), _number(low, _INT_MAX), synonyms, doc)


def _long(name: str, default: int, low: int, doc: str, *synonyms: Synonym) -> ConfigKey:
    return ConfigKey(name, ValueType.LONG, str(default), _number(low, _LONG_MAX), synonyms, doc)


TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {
        key.name: key
        for key in (
            ConfigKey(
                "cleanup.policy",
                ValueType.LIST,
                "delete",
                _choices("compact", "delete"),
                (Synonym("log.cleanup.policy"),),
                "What happens to old segments: deleted by age and size, compacted by key, or both.",
            ),
            ConfigKey(
                "compression.type",
                ValueType.STRING,
                "producer",
                _choice("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
                (Synonym("compression.type"),),
                "How batches are compressed on disk; 'producer' keeps what the producer chose.",
            ),
            _long(
                "delete.retention.ms",
                86_400_000,
                0,
                "How long a compacted topic keeps tombstones, in ms.",
                Synonym("log.cleaner.delete.retention.ms"),
            ),
            _int(
                "index.interval.bytes",
                4096,
                0,
                "Bytes of log between two entries of the offset index.",
                Synonym("log.index.interval.bytes"),
            ),
            _int(
                "max.message.bytes",
                1_048_588,
                0,
                "The largest record batch accepted, in bytes.",
                Synonym("message.max.bytes"),
            ),
            _long(
                "message.timestamp.after.max.ms",
                3_600_000,
                0,
                "How far a record's timestamp may be ahead of the broker's clock, in ms.",
                Synonym("log.message.timestamp.after.max.ms"),
            ),
            _long(
                "message.timestamp.before.max.ms",
                _LONG_MAX,
                0,
                "How far a record's timestamp may be behind the broker's clock, in ms.",
                Synonym("log.message.timestamp.before.max.ms"),
            ),
            ConfigKey(
                "message.timestamp.type",
                ValueType.STRING,
                "CreateTime",
                _choice("CreateTime", "LogAppendTime"),
                (Synonym("log.message.timestamp.type"),),
                "Whether records keep their producer's timestamp or get the broker's.",
            ),
            ConfigKey(
                "min.cleanable.dirty.ratio",
                ValueType.DOUBLE,
                "0.5",
                _ratio,
                (Synonym("log.cleaner.min.cleanable.ratio"),),
                "The share of the log that must be new before it is compacted.",
            ),
            _long(
                "min.compaction.lag.ms",
                0,
                0,
                "How long a record stays uncompacted at least, in ms.",
                Synonym("log.cleaner.min.compaction.lag.ms"),
            ),
            _int(
                "min.insync.replicas",
                1,
                1,
                "How many replicas must have a record before acks=all is answered.",
                Synonym("min.insync.replicas"),
            ),
            _long(
                "retention.bytes",
                -1,
                -(1 << 63),
                "The size beyond which a partition's oldest segments are deleted; -1: no limit.",
                Synonym("log.retention.bytes"),
            ),
            _long(
                "retention.ms",
                604_800_000,
                -1,
                "The age beyond which segments are deleted, in ms; -1: no limit.",
                Synonym("log.retention.ms"),
                Synonym("log.retention.minutes", 60_000),
                Synonym("log.retention.hours", 3_600_000),
            ),
            _int(
                "segment.bytes",
                1 << 30,
                14,
                "The size at which a new segment is begun.",
                Synonym("log.segment.bytes"),
            ),
            _int(
                "segment.index.bytes",
                10 << 20,
                4,
                "The size of the index at which a new segment is begun.",
                Synonym("log.index.size.max.bytes"),
            ),
            _long(
                "segment.ms",
                604_800_000,
                1,
                "The age at which a new segment is begun, in ms.",
                Synonym("log.roll.ms"),
                Synonym("log.roll.hours", 3_600_000),
            ),
            ConfigKey(
                "unclean.leader.election.enable",
                ValueType.BOOLEAN,
                "false",
                _boolean,
                (Synonym("unclean.leader.election.enable"),),
                "Whether a replica outside the ISR may lead when nobody else can, losing records.",
            ),
        )
    }
)

BROKER_KEYS: Final[Mapping[str, tuple[ConfigKey, Synonym]]] = MappingProxyType(
    {synonym.name: (key, synonym) for key in TOPIC_KEYS.values() for synonym in key.synonyms}
)
"""The broker keys that may be changed while brokers run: the topic keys' defaults."""

ALL_BROKERS: Final = ConfigResource(ConfigType.BROKER, "")
"""The resource that holds the dynamic defaults of all brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What a topic is configured to, all of it. Durations in ms, sizes in bytes, -1: no limit."""

    cleanup_compact: bool
    cleanup_delete: bool
    compression_type: str
    delete_retention_ms: int
    index_interval_bytes: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    log_append_time: bool
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_ms: int
    unclean_leader_election_enable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDescription:
    """One key as DescribeConfigs shows it."""

    key: ConfigKey
    name: str
    value: str
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


def check_value(name: str, value: str, *, of: ConfigType) -> None:
    """Refuse with `ApiError` a key that the resource doesn't have, or a value that may not stand there."""
    if of is ConfigType.TOPIC:
        key = TOPIC_KEYS.get(name)
    else:
        known = BROKER_KEYS.get(name)
        key = None if known is None else known[0]
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
    key: ConfigKey, *, dynamic: Mapping[str, str], static: Mapping[str, str]
) -> tuple[str, ConfigSource]:
    for values, source in (
        (dynamic, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (static, ConfigSource.STATIC_BROKER),
    ):
        for synonym in key.synonyms:
            held = values.get(synonym.name)
            if held is not None:
                return _scaled(held, synonym), source
    return key.default, ConfigSource.DEFAULT


def describe_topic(
    image: MetadataImage, topic: str, *, static: Mapping[str, str]
) -> Iterator[ConfigDescription]:
    """Every key of a topic, its value and where that comes from. `static`: the node's server.properties."""
    overrides = image.configs(ConfigResource(ConfigType.TOPIC, topic))
    dynamic = image.configs(ALL_BROKERS)
    for key in TOPIC_KEYS.values():
        held = overrides.get(key.name)
        if held is not None:
            yield ConfigDescription(key=key, name=key.name, value=held, source=ConfigSource.DYNAMIC_TOPIC)
        else:
            value, source = _default(key, dynamic=dynamic, static=static)
            yield ConfigDescription(key=key, name=key.name, value=value, source=source)


def describe_broker(image: MetadataImage, *, static: Mapping[str, str]) -> Iterator[ConfigDescription]:
    """The dynamic keys of a broker; those that are set nowhere with the topic key's default."""
    dynamic = image.configs(ALL_BROKERS)
    for name, (key, synonym) in BROKER_KEYS.items():
        if name in dynamic:
            value, source = dynamic[name], ConfigSource.DYNAMIC_DEFAULT_BROKER
        elif name in static:
            value, source = static[name], ConfigSource.STATIC_BROKER
        elif synonym.factor == 1:
            value, source = key.default, ConfigSource.DEFAULT
        else:
            value, source = str(int(key.default) // synonym.factor), ConfigSource.DEFAULT
        yield ConfigDescription(key=key, name=name, value=value, source=source)


def effective(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> TopicConfig:
    """What holds for a topic, whether it exists or not. `static`: the node's checked server.properties."""
    held = {each.name: each.value for each in describe_topic(image, topic, static=static)}
    policies = split_list(held["cleanup.policy"])
    return TopicConfig(
        cleanup_compact="compact" in policies,
        cleanup_delete="delete" in policies,
        compression_type=held["compression.type"],
        delete_retention_ms=int(held["delete.retention.ms"]),
        index_interval_bytes=int(held["index.interval.bytes"]),
        max_message_bytes=int(held["max.message.bytes"]),
        message_timestamp_after_max_ms=int(held["message.timestamp.after.max.ms"]),
        message_timestamp_before_max_ms=int(held["message.timestamp.before.max.ms"]),
        log_append_time=held["message.timestamp.type"] == "LogAppendTime",
        min_cleanable_dirty_ratio=float(held["min.cleanable.dirty.ratio"]),
        min_compaction_lag_ms=int(held["min.compaction.lag.ms"]),
        min_insync_replicas=int(held["min.insync.replicas"]),
        retention_bytes=int(held["retention.bytes"]),
        retention_ms=int(held["retention.ms"]),
        segment_bytes=int(held["segment.bytes"]),
        segment_index_bytes=int(held["segment.index.bytes"]),
        segment_ms=int(held["segment.ms"]),
        unclean_leader_election_enable=is_true(held["unclean.leader.election.enable"]),
    )


def unclean_elections(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> bool:
    """Whether `topic` may be led from outside its ISR and ELR. As `effective`, for this key alone."""
    return is_true(_value(image, topic, "unclean.leader.election.enable", static=static))


def min_insync_replicas(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> int:
    """As `effective`, for this key alone. A partition with fewer replicas needs no more than it has."""
    return int(_value(image, topic, "min.insync.replicas", static=static))


def _value(image: MetadataImage, topic: str, name: str, *, static: Mapping[str, str]) -> str:
    held = image.configs(ConfigResource(ConfigType.TOPIC, topic)).get(name)
    if held is None:
        held, _ = _default(TOPIC_KEYS[name], dynamic=image.configs(ALL_BROKERS), static=static)
    return held


def is_true(value: str) -> bool:
    return value.strip().lower() == "true"
