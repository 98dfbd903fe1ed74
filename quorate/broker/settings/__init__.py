"""Settings, one declaration each: the keys of nodes, topics and groups, and fields with their values."""

from quorate.broker.settings.all_keys import (
    BROKER_KEYS,
    BROKER_VALUES,
    CONFIG_KEYS,
    DYNAMIC_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
)
from quorate.broker.settings.broker_settings import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    ControllerTuning,
    LeaderBalance,
    LifecycleTimes,
    ShutdownSettings,
    TopicSettings,
)
from quorate.broker.settings.client_settings import ConnectionRules, KafkaServerConfig
from quorate.broker.settings.config_key import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    Effect,
    Synonym,
    TypedKey,
    UpdateMode,
    ValueType,
    split_exactly,
)
from quorate.broker.settings.group_config import GroupConfig, GroupLimits, OffsetRetention
from quorate.broker.settings.node_keys import (
    MAX_REGISTERED_NAME,
    QUORUM_FETCH_TIMEOUT,
    RACK_AWARE,
    DebugSettings,
    DirectoryKeys,
    MetricsSettings,
    NodeKeys,
    QuorumSettings,
)
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.broker.settings.setting import nested, read, read_fields
from quorate.broker.settings.topic_config import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    TopicConfig,
)

__all__ = [
    "BROKER_KEYS",
    "BROKER_VALUES",
    "CONFIG_KEYS",
    "DYNAMIC_KEYS",
    "GROUP_KEYS",
    "HEARTBEAT_INTERVAL",
    "INT_MAX",
    "LONG_MAX",
    "MAX_REGISTERED_NAME",
    "MIN_INSYNC_REPLICAS",
    "QUORUM_FETCH_TIMEOUT",
    "RACK_AWARE",
    "SESSION_TIMEOUT",
    "TOPIC_KEYS",
    "UNCLEAN_LEADER_ELECTION",
    "ConfigKey",
    "ConnectionRules",
    "ControllerTuning",
    "DebugSettings",
    "DirectoryKeys",
    "Effect",
    "GroupConfig",
    "GroupLimits",
    "KafkaServerConfig",
    "LeaderBalance",
    "LifecycleTimes",
    "MetricsSettings",
    "NodeKeys",
    "OffsetRetention",
    "QuorumSettings",
    "ReplicationConfig",
    "ShutdownSettings",
    "Synonym",
    "TopicConfig",
    "TopicSettings",
    "TypedKey",
    "UpdateMode",
    "ValueType",
    "nested",
    "read",
    "read_fields",
    "split_exactly",
]
