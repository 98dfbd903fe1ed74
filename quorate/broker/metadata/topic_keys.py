"""The keys of topics and their brokers' defaults: Kafka's names, defaults and bounds."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata.config_key import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    Effect,
    Synonym,
    ValueType,
    choice,
    choices,
    number,
    only,
    ratio,
    true_or_false,
)

_COMPACTION: Final = "quorate does not compact yet."
_ALL_LOCAL: Final = "there is no tiered storage, so all data is local and retention.* applies to it."
_UNTHROTTLED: Final = "replication is not throttled."
_SYNCS: Final = (
    "brokers sync by log.flush.offset.checkpoint.interval.ms, and acks=all counts replicas, not syncs; leave "
    "the key out"
)
_REPLICA_LIST: Final = re.compile(r"|\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*")


def _replicas(value: str) -> None:
    if _REPLICA_LIST.fullmatch(value.replace(" ", "")) is None:
        raise ValueError("it must be * or pairs of partition:broker, separated by commas")


def _gzip_level(value: str) -> None:
    number(-1, 9)(value)
    if int(value) == 0:
        raise ValueError("it must be between 1 and 9, or -1 for the usual level")


def _key(
    name: str,
    kind: ValueType,
    default: str,
    check: Callable[[str], None],
    doc: str,
    *brokers: str | Synonym,
    why: str = "",
    no_effect: str = "",
) -> ConfigKey:
    """`brokers`: the brokers' keys that set the default. `no_effect`: why the key does nothing."""
    return ConfigKey(
        name=name,
        type=kind,
        default=default,
        check=check,
        doc=doc,
        effect=Effect.NONE if no_effect else Effect.EFFECTIVE,
        why=no_effect or why,
        synonyms=tuple(Synonym(each) if isinstance(each, str) else each for each in brokers),
    )


def _int(
    name: str,
    default: int,
    low: int,
    doc: str,
    *brokers: str | Synonym,
    high: int = INT_MAX,
    no_effect: str = "",
) -> ConfigKey:
    check = number(low, high)
    return _key(name, ValueType.INT, str(default), check, doc, *brokers, no_effect=no_effect)


def _long(
    name: str, default: int, low: int, doc: str, *brokers: str | Synonym, no_effect: str = ""
) -> ConfigKey:
    check = number(low, LONG_MAX)
    return _key(name, ValueType.LONG, str(default), check, doc, *brokers, no_effect=no_effect)


def _flag(
    name: str, default: bool, doc: str, *brokers: str, only_false: str = "", no_effect: str = ""
) -> ConfigKey:
    check = only("false", only_false) if only_false else true_or_false
    return _key(
        name, ValueType.BOOLEAN, str(default).lower(), check, doc, *brokers, no_effect=no_effect or only_false
    )


_KEYS: Final = (
    _key(
        "cleanup.policy",
        ValueType.LIST,
        "delete",
        choices("compact", "delete"),
        "delete: old segments are deleted by age and size. compact: every record needs a key, and old "
        "segments are not deleted.",
        "log.cleanup.policy",
        why="quorate does not compact yet: a topic with compact alone keeps every record.",
    ),
    _key(
        "compression.gzip.level",
        ValueType.INT,
        "-1",
        _gzip_level,
        "The level of gzip where a broker compresses: 1 to 9, or -1 for the usual one.",
        "compression.gzip.level",
    ),
    _int(
        "compression.lz4.level",
        9,
        1,
        "The level of lz4 where a broker compresses: 9 is the fast one, all others compress more.",
        "compression.lz4.level",
        high=17,
    ),
    _key(
        "compression.type",
        ValueType.STRING,
        "producer",
        choice("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "How batches are compressed on disk; producer keeps the producer's choice.",
        "compression.type",
    ),
    _int(
        "compression.zstd.level",
        3,
        -131072,
        "The level of zstd where a broker compresses; above 11 it costs many times as much.",
        "compression.zstd.level",
        high=22,
    ),
    _long(
        "delete.retention.ms",
        86_400_000,
        0,
        "How long a compacted topic keeps tombstones, in ms.",
        "log.cleaner.delete.retention.ms",
        no_effect=_COMPACTION,
    ),
    _long(
        "file.delete.delay.ms",
        60_000,
        0,
        "How long the files of a deleted segment stay, in ms.",
        "log.segment.delete.delay.ms",
        no_effect="files go at once; a file that is being read is read to its end.",
    ),
    _key(
        "flush.messages",
        ValueType.LONG,
        str(LONG_MAX),
        only(str(LONG_MAX), _SYNCS),
        "Sync after so many records.",
        "log.flush.interval.messages",
        no_effect=f"{_SYNCS}.",
    ),
    _key(
        "flush.ms",
        ValueType.LONG,
        str(LONG_MAX),
        only(str(LONG_MAX), _SYNCS),
        "Sync after so long, in ms.",
        "log.flush.interval.ms",
        no_effect=f"{_SYNCS}.",
    ),
    _key(
        "follower.replication.throttled.replicas",
        ValueType.LIST,
        "",
        _replicas,
        "Replicas whose fetching is throttled, as partition:broker; *: all.",
        no_effect=_UNTHROTTLED,
    ),
    _int(
        "index.interval.bytes",
        4096,
        0,
        "Bytes of log between two entries of the offset index.",
        "log.index.interval.bytes",
    ),
    _key(
        "leader.replication.throttled.replicas",
        ValueType.LIST,
        "",
        _replicas,
        "Replicas whose followers are throttled, as partition:broker; *: all.",
        no_effect=_UNTHROTTLED,
    ),
    _key(
        "local.retention.bytes",
        ValueType.LONG,
        "-2",
        number(-2, LONG_MAX),
        "Of a tiered topic, the bytes that stay on the broker; -2: as retention.bytes.",
        "log.local.retention.bytes",
        no_effect=_ALL_LOCAL,
    ),
    _key(
        "local.retention.ms",
        ValueType.LONG,
        "-2",
        number(-2, LONG_MAX),
        "Of a tiered topic, the age up to which data stays on the broker; -2: as retention.ms.",
        "log.local.retention.ms",
        no_effect=_ALL_LOCAL,
    ),
    _long(
        "max.compaction.lag.ms",
        LONG_MAX,
        1,
        "The longest that a record stays uncompacted, in ms.",
        "log.cleaner.max.compaction.lag.ms",
        no_effect=_COMPACTION,
    ),
    _int(
        "max.message.bytes", 1_048_588, 0, "The largest record batch accepted, in bytes.", "message.max.bytes"
    ),
    _long(
        "message.timestamp.after.max.ms",
        3_600_000,
        0,
        "How far a record's timestamp may be ahead of the broker's clock, in ms.",
        "log.message.timestamp.after.max.ms",
    ),
    _long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        0,
        "How far a record's timestamp may be behind the broker's clock, in ms.",
        "log.message.timestamp.before.max.ms",
    ),
    _key(
        "message.timestamp.type",
        ValueType.STRING,
        "CreateTime",
        choice("CreateTime", "LogAppendTime"),
        "CreateTime: records keep their producer's timestamp. LogAppendTime: they get the broker's.",
        "log.message.timestamp.type",
    ),
    _key(
        "min.cleanable.dirty.ratio",
        ValueType.DOUBLE,
        "0.5",
        ratio,
        "The share of the log that must be new before it is compacted.",
        "log.cleaner.min.cleanable.ratio",
        no_effect=_COMPACTION,
    ),
    _long(
        "min.compaction.lag.ms",
        0,
        0,
        "The least time that a record stays uncompacted, in ms.",
        "log.cleaner.min.compaction.lag.ms",
        no_effect=_COMPACTION,
    ),
    _int(
        "min.insync.replicas",
        1,
        1,
        "How many replicas must have a record before acks=all is answered.",
        "min.insync.replicas",
    ),
    _flag(
        "preallocate",
        False,
        "Whether a segment's file gets its full size when it is begun.",
        "log.preallocate",
        no_effect="segments of partitions grow as they are written.",
    ),
    _flag(
        "remote.log.copy.disable",
        False,
        "Of a tiered topic, whether nothing more is copied away.",
        no_effect="there is no tiered storage.",
    ),
    _flag(
        "remote.log.delete.on.disable",
        False,
        "Whether the remote data goes when tiering is switched off.",
        no_effect="there is no tiered storage.",
    ),
    _flag(
        "remote.storage.enable",
        False,
        "Whether old segments go to tiered storage.",
        only_false="there is no tiered storage.",
    ),
    _key(
        "retention.bytes",
        ValueType.LONG,
        "-1",
        number(-(1 << 63), LONG_MAX),
        "The size beyond which a partition's oldest segments are deleted; -1: no limit.",
        "log.retention.bytes",
    ),
    _long(
        "retention.ms",
        604_800_000,
        -1,
        "The age beyond which segments are deleted, in ms; -1: no limit.",
        "log.retention.ms",
        Synonym("log.retention.minutes", 60_000),
        Synonym("log.retention.hours", 3_600_000),
    ),
    _int("segment.bytes", 1 << 30, 14, "The size at which a new segment is begun.", "log.segment.bytes"),
    _int(
        "segment.index.bytes",
        10 << 20,
        4,
        "The size of the index at which a new segment is begun.",
        "log.index.size.max.bytes",
    ),
    _long(
        "segment.jitter.ms",
        0,
        0,
        "The most that is taken at random from segment.ms, so that segments don't all roll at once.",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", 3_600_000),
        no_effect="segments roll when the first append after segment.ms comes.",
    ),
    _long(
        "segment.ms",
        604_800_000,
        1,
        "The age at which a new segment is begun, in ms.",
        "log.roll.ms",
        Synonym("log.roll.hours", 3_600_000),
    ),
    _flag(
        "unclean.leader.election.enable",
        False,
        "Whether a replica outside the ISR may lead when nobody else can, losing records.",
        "unclean.leader.election.enable",
    ),
)

TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({key.name: key for key in _KEYS})
"""Every key of a topic by its name."""

BROKER_KEYS: Final[Mapping[str, tuple[ConfigKey, Synonym]]] = MappingProxyType(
    {synonym.name: (key, synonym) for key in TOPIC_KEYS.values() for synonym in key.synonyms}
)
"""The broker keys that may be changed while brokers run: the topic keys' defaults."""
