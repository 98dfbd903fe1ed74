"""The settings of consumer groups: those of a broker, and the keys of single groups (KIP-848)."""

from dataclasses import dataclass
from typing import Final

from quorate.broker.settings.config_key import INT_MAX, ConfigKey, int_key
from quorate.broker.settings.setting import nested, setting

_CLASSIC: Final = (
    "groups have the classic protocol, in which each member brings its own value; set it in the consumers."
)


def _minutes(value: int) -> int:
    return value * 60_000


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The limits of one group."""

    initial_rebalance_delay_ms: int = setting(int_key("group.initial.rebalance.delay.ms", 3000,
        "The time that an empty group waits for further members before its first rebalance.", low=0))
    max_size: int = setting(int_key("group.max.size", INT_MAX,
        "The maximum number of members of a group.", low=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRetention:
    """The time for which committed offsets are kept, in ms."""

    retention_ms: int = setting(int_key("offsets.retention.minutes", 10_080,
        "The time after which an empty group, or one that only commits, loses its committed offsets; so do "
        "the offsets of topics that no consumer of a group subscribes to any more.", low=1).into(_minutes))
    check_interval_ms: int = setting(int_key("offsets.retention.check.interval.ms", 600_000,
        "The time between two searches for committed offsets that have expired.", low=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsTopic:
    """The topic of committed offsets, when it is created."""

    num_partitions: int = setting(int_key("offsets.topic.num.partitions", 50,
        "The number of partitions of __consumer_offsets.", low=1))
    replication_factor: int = setting(int_key("offsets.topic.replication.factor", 3,
        "The number of replicas of __consumer_offsets. If there are fewer brokers when it is created, each "
        "gets a replica.", low=1, high=32_767))
    segment_bytes: int = setting(int_key("offsets.topic.segment.bytes", 100 << 20,
        "The maximum size of a segment of __consumer_offsets.", low=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of a broker's groups. Durations are in ms."""

    min_session_timeout_ms: int = setting(int_key("group.min.session.timeout.ms", 6000,
        "The minimum session timeout that a group member may request.", low=1))
    max_session_timeout_ms: int = setting(int_key("group.max.session.timeout.ms", 1_800_000,
        "The maximum session timeout that a group member may request.", low=1))
    limits: GroupLimits = nested(GroupLimits)
    offset_metadata_max_bytes: int = setting(int_key("offset.metadata.max.bytes", 4096,
        "The maximum size of the metadata of a committed offset.", low=0))
    retention: OffsetRetention = nested(OffsetRetention)
    offsets_topic: OffsetsTopic = nested(OffsetsTopic)
    offsets_commit_timeout_ms: int = setting(int_key("offsets.commit.timeout.ms", 5000,
        "The maximum time that an offset commit waits for the replicas of __consumer_offsets.", low=1))


SINGLE_GROUPS: Final[tuple[ConfigKey, ...]] = (
    int_key("consumer.heartbeat.interval.ms", 5000,
        "The time between two heartbeats of a member of a consumer group.",
        low=5000, high=15_000, no_effect=_CLASSIC),
    int_key("consumer.session.timeout.ms", 45_000,
        "The time without a heartbeat after which a member leaves a consumer group.",
        low=45_000, high=60_000, no_effect=_CLASSIC),
)
"""The keys of single groups."""
# fmt: on
