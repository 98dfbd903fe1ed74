"""The keys of topics and of their defaults: Kafka's names, values and bounds."""

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

_ALL_LOCAL: Final = "there is no tiered storage, so all data is local and retention.* applies to it."
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
    """`brokers`: the broker keys that set the default. `no_effect`: why the key has no effect."""
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
    name: str, default: int, low: int, doc: str, *brokers: str | Synonym, why: str = "", no_effect: str = ""
) -> ConfigKey:
    check = number(low, LONG_MAX)
    return _key(name, ValueType.LONG, str(default), check, doc, *brokers, why=why, no_effect=no_effect)


def _flag(
    name: str, default: bool, doc: str, *brokers: str, only_false: str = "", no_effect: str = ""
) -> ConfigKey:
    check = only("false", only_false) if only_false else true_or_false
    return _key(
        name, ValueType.BOOLEAN, str(default).lower(), check, doc, *brokers, no_effect=no_effect or only_false
    )


_COMPRESSION: Final = choice("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

# fmt: off
_KEYS: Final = (
    _key("cleanup.policy", ValueType.LIST, "delete", choices("compact", "delete"),
        "delete: old segments are deleted by age and size. compact: every record needs a key, and "
        "the newest record of each key is kept. Both may be set.",
        "log.cleanup.policy"),
    _key("compression.gzip.level", ValueType.INT, "-1", _gzip_level,
        "The gzip level, if the broker compresses: 1 to 9. -1: gzip's default.", "compression.gzip.level"),
    _int("compression.lz4.level", 9, 1,
        "The lz4 level, if the broker compresses: 1 to 17. 9 is the fastest. Every other level compresses "
        "more.", "compression.lz4.level", high=17),
    _key("compression.type", ValueType.STRING, "producer", _COMPRESSION,
        "The compression of batches on disk. producer: each batch keeps the compression that its producer "
        "chose.", "compression.type"),
    _int("compression.zstd.level", 3, -131072,
        "The zstd level, if the broker compresses. Levels above 11 take many times as long.",
        "compression.zstd.level", high=22),
    _long("delete.retention.ms", 86_400_000, 0,
        "The time that a compacted topic keeps tombstones, after the first compaction that finds one to be "
        "its key's newest record.",
        "log.cleaner.delete.retention.ms"),
    _long("file.delete.delay.ms", 60_000, 0,
        "The time between the deletion of a segment and that of its files.",
        "log.segment.delete.delay.ms",
        no_effect="files are deleted at once; reads in progress still finish."),
    _key("flush.messages", ValueType.LONG, str(LONG_MAX), only(str(LONG_MAX), _SYNCS),
        "The number of records after which a partition syncs.",
        "log.flush.interval.messages", no_effect=f"{_SYNCS}."),
    _key("flush.ms", ValueType.LONG, str(LONG_MAX), only(str(LONG_MAX), _SYNCS),
        "The time after which a partition syncs.", "log.flush.interval.ms", no_effect=f"{_SYNCS}."),
    _key("follower.replication.throttled.replicas", ValueType.LIST, "", _replicas,
        "The followers whose replication is throttled, as partition:broker pairs. *: all."),
    _int("index.interval.bytes", 4096, 0,
        "The size of the log between two entries of the offset index.", "log.index.interval.bytes"),
    _key("leader.replication.throttled.replicas", ValueType.LIST, "", _replicas,
        "The leaders whose replication is throttled, as partition:broker pairs. *: all."),
    _key("local.retention.bytes", ValueType.LONG, "-2", number(-2, LONG_MAX),
        "The size of a tiered partition that stays on the broker. -2: as retention.bytes.",
        "log.local.retention.bytes", no_effect=_ALL_LOCAL),
    _key("local.retention.ms", ValueType.LONG, "-2", number(-2, LONG_MAX),
        "The time that records of a tiered topic stay on the broker. -2: as retention.ms.",
        "log.local.retention.ms", no_effect=_ALL_LOCAL),
    _long("max.compaction.lag.ms", LONG_MAX, 1,
        "The maximum time that a record waits for compaction, whatever min.cleanable.dirty.ratio says. A "
        "compacted topic's segment is rolled after it.",
        "log.cleaner.max.compaction.lag.ms",
        why="Kafka rolls a segment with an append only."),
    _int("max.message.bytes", 1_048_588, 0, "The maximum size of a record batch.", "message.max.bytes"),
    _long("message.timestamp.after.max.ms", 3_600_000, 0,
        "The maximum time that a record's timestamp may be ahead of the broker's clock.",
        "log.message.timestamp.after.max.ms"),
    _long("message.timestamp.before.max.ms", LONG_MAX, 0,
        "The maximum time that a record's timestamp may be behind the broker's clock.",
        "log.message.timestamp.before.max.ms"),
    _key("message.timestamp.type", ValueType.STRING, "CreateTime", choice("CreateTime", "LogAppendTime"),
        "CreateTime: records keep the timestamp of their producer. LogAppendTime: the broker sets the time "
        "of the append.", "log.message.timestamp.type"),
    _key("min.cleanable.dirty.ratio", ValueType.DOUBLE, "0.5", ratio,
        "A log is compacted when this share of its bytes has never been compacted, and may be. The active "
        "segment does not count.",
        "log.cleaner.min.cleanable.ratio"),
    _long("min.compaction.lag.ms", 0, 0,
        "The minimum time that a record stays uncompacted.",
        "log.cleaner.min.compaction.lag.ms"),
    _int("min.insync.replicas", 1, 1,
        "The minimum size of the ISR for a write with acks=all. With a smaller ISR the broker refuses the "
        "write.", "min.insync.replicas"),
    _flag("preallocate", False,
        "true: the file of a new segment is allocated at its full size.",
        "log.preallocate", no_effect="segments of partitions grow as they are written."),
    _flag("remote.log.copy.disable", False,
        "true: no further segments are copied to tiered storage.", no_effect="there is no tiered storage."),
    _flag("remote.log.delete.on.disable", False,
        "true: the segments in tiered storage are deleted when it is disabled.",
        no_effect="there is no tiered storage."),
    _flag("remote.storage.enable", False,
        "true: old segments are copied to tiered storage.", only_false="there is no tiered storage."),
    _key("retention.bytes", ValueType.LONG, "-1", number(-(1 << 63), LONG_MAX),
        "The size of a partition that retention leaves. Above it the oldest segments are deleted. -1: no "
        "limit.", "log.retention.bytes"),
    _long("retention.ms", 604_800_000, -1,
        "The maximum age of the newest record of a segment. Older segments are deleted. -1: no limit.",
        "log.retention.ms",
        Synonym("log.retention.minutes", 60_000), Synonym("log.retention.hours", 3_600_000)),
    _int("segment.bytes", 1 << 30, 14, "The maximum size of a segment.", "log.segment.bytes"),
    _int("segment.index.bytes", 10 << 20, 4,
        "The maximum size of a segment's index.", "log.index.size.max.bytes"),
    _long("segment.jitter.ms", 0, 0,
        "The maximum random time by which a segment is rolled before segment.ms.",
        "log.roll.jitter.ms", Synonym("log.roll.jitter.hours", 3_600_000),
        no_effect="segments roll when the first append after segment.ms comes."),
    _long("segment.ms", 604_800_000, 1,
        "The maximum time between the first record of a segment and the roll to the next one.",
        "log.roll.ms", Synonym("log.roll.hours", 3_600_000)),
    _flag("unclean.leader.election.enable", False,
        "true: a replica outside the ISR may become leader if no other can. Records are lost then.",
        "unclean.leader.election.enable"),
)
# fmt: on

TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({key.name: key for key in _KEYS})
"""Every key of a topic by its name."""

BROKER_KEYS: Final[Mapping[str, tuple[ConfigKey, Synonym]]] = MappingProxyType(
    {synonym.name: (key, synonym) for key in TOPIC_KEYS.values() for synonym in key.synonyms}
)
"""The broker keys that set the defaults of topics. They may change while brokers run."""
