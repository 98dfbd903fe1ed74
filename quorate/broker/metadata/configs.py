"""The effective configuration of topics.

A topic's value is its own override, else the dynamic default of all brokers, else what the node's
`server.properties` says, else Kafka's default.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.config_key import ConfigKey, Synonym, split_list
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.metadata.topic_keys import BROKER_KEYS, TOPIC_KEYS
from quorate.error_code import ErrorCode


class ConfigSource(enum.IntEnum):
    """The source of a value, with Kafka's numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


ALL_BROKERS: Final = ConfigResource(ConfigType.BROKER, "")
"""The resource that holds the dynamic defaults of all brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configuration of a topic as brokers use it. Durations in ms, sizes in bytes, -1: no limit."""

    cleanup_compact: bool
    cleanup_delete: bool
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    index_interval_bytes: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    log_append_time: bool
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_ms: int


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
    return key.initial, ConfigSource.DEFAULT


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
            value, source = key.initial, ConfigSource.DEFAULT
        else:
            value, source = str(int(key.initial) // synonym.factor), ConfigSource.DEFAULT
        yield ConfigDescription(key=key, name=name, value=value, source=source)


def effective(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> TopicConfig:
    """Return the effective configuration of a topic, whether it exists or not. `static`: the node's checked
    server.properties."""
    held = {each.name: each.value for each in describe_topic(image, topic, static=static)}
    policies = split_list(held["cleanup.policy"])
    return TopicConfig(
        cleanup_compact="compact" in policies,
        cleanup_delete="delete" in policies,
        compression_gzip_level=int(held["compression.gzip.level"]),
        compression_lz4_level=int(held["compression.lz4.level"]),
        compression_type=held["compression.type"],
        compression_zstd_level=int(held["compression.zstd.level"]),
        index_interval_bytes=int(held["index.interval.bytes"]),
        max_message_bytes=int(held["max.message.bytes"]),
        message_timestamp_after_max_ms=int(held["message.timestamp.after.max.ms"]),
        message_timestamp_before_max_ms=int(held["message.timestamp.before.max.ms"]),
        log_append_time=held["message.timestamp.type"] == "LogAppendTime",
        min_insync_replicas=int(held["min.insync.replicas"]),
        retention_bytes=int(held["retention.bytes"]),
        retention_ms=int(held["retention.ms"]),
        segment_bytes=int(held["segment.bytes"]),
        segment_index_bytes=int(held["segment.index.bytes"]),
        segment_ms=int(held["segment.ms"]),
    )


def unclean_elections(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> bool:
    """True if `topic` may have a leader from outside its ISR and ELR. As `effective`, for this key alone."""
    return is_true(_value(image, topic, "unclean.leader.election.enable", static=static))


def min_insync_replicas(image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> int:
    """Return the effective value of this key alone. A partition with fewer replicas needs no more than it
    has."""
    return int(_value(image, topic, "min.insync.replicas", static=static))


def _value(image: MetadataImage, topic: str, name: str, *, static: Mapping[str, str]) -> str:
    held = image.configs(ConfigResource(ConfigType.TOPIC, topic)).get(name)
    if held is None:
        held, _ = _default(TOPIC_KEYS[name], dynamic=image.configs(ALL_BROKERS), static=static)
    return held


def is_true(value: str) -> bool:
    return value.strip().lower() == "true"
