"""The configuration of a topic: Kafka's names, values and bounds."""

import re
from dataclasses import dataclass
from typing import Final

from quorate.broker.settings.config_key import (
    LONG_MAX,
    ConfigKey,
    Synonym,
    ValueType,
    choice,
    choices,
    fixed_key,
    flag_key,
    int_key,
    key_of,
    list_key,
    long_key,
    number,
    only,
    ratio,
    real_key,
    text_key,
)
from quorate.broker.settings.setting import setting, shared

_ALL_LOCAL: Final = "there is no tiered storage, so all data is local and retention.* applies to it."
_NO_TIERS: Final = "there is no tiered storage."
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


def _has_compact(policies: tuple[str, ...]) -> bool:
    return "compact" in policies


def _has_delete(policies: tuple[str, ...]) -> bool:
    return "delete" in policies


def _is_append_time(kind: str) -> bool:
    return kind == "LogAppendTime"


# fmt: off
_CLEANUP_POLICY: Final = list_key("cleanup.policy", "delete",
    "delete: old segments are deleted by age and size. compact: every record needs a key, and the newest "
    "record of each key is kept. Both may be set.",
    check=choices("compact", "delete"), synonyms=("log.cleanup.policy",))
MIN_INSYNC_REPLICAS: Final = int_key("min.insync.replicas", 1,
    "The minimum size of the ISR for a write with acks=all. With a smaller ISR the broker refuses the "
    "write.", low=1, synonyms=("min.insync.replicas",))
UNCLEAN_LEADER_ELECTION: Final = flag_key("unclean.leader.election.enable", False,
    "true: a replica outside the ISR may become leader if no other can. Records are lost then.",
    synonyms=("unclean.leader.election.enable",))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configuration of a topic as brokers use it. Fields have the names of their keys, with `_` for `.`.
    Durations are in ms, sizes in bytes. -1 is no limit."""

    cleanup_compact: bool = setting(_CLEANUP_POLICY.into(_has_compact))
    cleanup_delete: bool = shared(_CLEANUP_POLICY.into(_has_delete))
    compression_gzip_level: int = setting(int_key("compression.gzip.level", -1,
        "The gzip level, if the broker compresses: 1 to 9. -1: gzip's default.",
        low=-1, high=9, check=_gzip_level, synonyms=("compression.gzip.level",)))
    compression_lz4_level: int = setting(int_key("compression.lz4.level", 9,
        "The lz4 level, if the broker compresses: 1 to 17. 9 is the fastest. Every other level compresses "
        "more.", low=1, high=17, synonyms=("compression.lz4.level",)))
    compression_type: str = setting(text_key("compression.type", "producer",
        "The compression of batches on disk. producer: each batch keeps the compression that its producer "
        "chose.",
        check=choice("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=("compression.type",)))
    compression_zstd_level: int = setting(int_key("compression.zstd.level", 3,
        "The zstd level, if the broker compresses. Levels above 11 take many times as long.",
        low=-131_072, high=22, synonyms=("compression.zstd.level",)))
    delete_retention_ms: int = setting(long_key("delete.retention.ms", 86_400_000,
        "The time that a compacted topic keeps tombstones, after the first compaction that finds one to be "
        "its key's newest record.", low=0, synonyms=("log.cleaner.delete.retention.ms",)))
    follower_replication_throttled_replicas: str = setting(key_of(
        ValueType.LIST, "follower.replication.throttled.replicas", "",
        "The followers whose replication is throttled, as partition:broker pairs. *: all.",
        str, check=_replicas))
    index_interval_bytes: int = setting(int_key("index.interval.bytes", 4096,
        "The size of the log between two entries of the offset index.",
        low=0, synonyms=("log.index.interval.bytes",)))
    leader_replication_throttled_replicas: str = setting(key_of(
        ValueType.LIST, "leader.replication.throttled.replicas", "",
        "The leaders whose replication is throttled, as partition:broker pairs. *: all.",
        str, check=_replicas))
    max_compaction_lag_ms: int = setting(long_key("max.compaction.lag.ms", LONG_MAX,
        "The maximum time that a record waits for compaction, whatever min.cleanable.dirty.ratio says. A "
        "compacted topic's segment is rolled after it.",
        low=1, synonyms=("log.cleaner.max.compaction.lag.ms",),
        why="Kafka rolls a segment with an append only."))
    max_message_bytes: int = setting(int_key("max.message.bytes", 1_048_588,
        "The maximum size of a record batch.", low=0, synonyms=("message.max.bytes",)))
    message_timestamp_after_max_ms: int = setting(long_key("message.timestamp.after.max.ms", 3_600_000,
        "The maximum time that a record's timestamp may be ahead of the broker's clock.",
        low=0, synonyms=("log.message.timestamp.after.max.ms",)))
    message_timestamp_before_max_ms: int = setting(long_key("message.timestamp.before.max.ms", LONG_MAX,
        "The maximum time that a record's timestamp may be behind the broker's clock.",
        low=0, synonyms=("log.message.timestamp.before.max.ms",)))
    log_append_time: bool = setting(text_key("message.timestamp.type", "CreateTime",
        "CreateTime: records keep the timestamp of their producer. LogAppendTime: the broker sets the time "
        "of the append.",
        check=choice("CreateTime", "LogAppendTime"),
        synonyms=("log.message.timestamp.type",)).into(_is_append_time))
    min_cleanable_dirty_ratio: float = setting(real_key("min.cleanable.dirty.ratio", "0.5",
        "A log is compacted when this share of its bytes has never been compacted, and may be. The active "
        "segment does not count.", check=ratio, synonyms=("log.cleaner.min.cleanable.ratio",)))
    min_compaction_lag_ms: int = setting(long_key("min.compaction.lag.ms", 0,
        "The minimum time that a record stays uncompacted.",
        low=0, synonyms=("log.cleaner.min.compaction.lag.ms",)))
    min_insync_replicas: int = setting(MIN_INSYNC_REPLICAS)
    retention_bytes: int = setting(long_key("retention.bytes", -1,
        "The size of a partition that retention leaves. Above it the oldest segments are deleted. -1: no "
        "limit.", low=-(1 << 63), synonyms=("log.retention.bytes",)))
    retention_ms: int = setting(long_key("retention.ms", 604_800_000,
        "The maximum age of the newest record of a segment. Older segments are deleted. -1: no limit.",
        low=-1,
        synonyms=("log.retention.ms", Synonym("log.retention.minutes", 60_000),
            Synonym("log.retention.hours", 3_600_000))))
    segment_bytes: int = setting(int_key("segment.bytes", 1 << 30,
        "The maximum size of a segment.", low=14, synonyms=("log.segment.bytes",)))
    segment_index_bytes: int = setting(int_key("segment.index.bytes", 10 << 20,
        "The maximum size of a segment's index.", low=4, synonyms=("log.index.size.max.bytes",)))
    segment_ms: int = setting(long_key("segment.ms", 604_800_000,
        "The maximum time between the first record of a segment and the roll to the next one.",
        low=1, synonyms=("log.roll.ms", Synonym("log.roll.hours", 3_600_000))))


WITHOUT_EFFECT: Final[tuple[ConfigKey, ...]] = (
    long_key("file.delete.delay.ms", 60_000,
        "The time between the deletion of a segment and that of its files.",
        low=0, synonyms=("log.segment.delete.delay.ms",),
        no_effect="files are deleted at once; reads in progress still finish."),
    fixed_key(ValueType.LONG, "flush.messages", LONG_MAX,
        "The number of records after which a partition syncs.", _SYNCS,
        synonyms=("log.flush.interval.messages",)),
    fixed_key(ValueType.LONG, "flush.ms", LONG_MAX,
        "The time after which a partition syncs.", _SYNCS, synonyms=("log.flush.interval.ms",)),
    long_key("local.retention.bytes", -2,
        "The size of a tiered partition that stays on the broker. -2: as retention.bytes.",
        low=-2, synonyms=("log.local.retention.bytes",), no_effect=_ALL_LOCAL),
    long_key("local.retention.ms", -2,
        "The time that records of a tiered topic stay on the broker. -2: as retention.ms.",
        low=-2, synonyms=("log.local.retention.ms",), no_effect=_ALL_LOCAL),
    flag_key("preallocate", False,
        "true: the file of a new segment is allocated at its full size.",
        synonyms=("log.preallocate",), no_effect="segments of partitions grow as they are written."),
    flag_key("remote.log.copy.disable", False,
        "true: no further segments are copied to tiered storage.", no_effect=_NO_TIERS),
    flag_key("remote.log.delete.on.disable", False,
        "true: the segments in tiered storage are deleted when it is disabled.",
        no_effect=_NO_TIERS),
    flag_key("remote.storage.enable", False,
        "true: old segments are copied to tiered storage.",
        check=only("false", _NO_TIERS), no_effect=_NO_TIERS),
    long_key("segment.jitter.ms", 0,
        "The maximum random time by which a segment is rolled before segment.ms.",
        low=0, synonyms=("log.roll.jitter.ms", Synonym("log.roll.jitter.hours", 3_600_000)),
        no_effect="segments roll when the first append after segment.ms comes."),
)
# fmt: on
