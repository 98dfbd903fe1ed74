"""The tables of all keys, collected from the classes of settings. Pages and DescribeConfigs show them in this
order."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.settings.authorizer_settings import AuthorizerSettings
from quorate.broker.settings.broker_settings import (
    ControllerTuning,
    LeaderBalance,
    LifecycleTimes,
    ShutdownSettings,
    TopicSettings,
)
from quorate.broker.settings.client_settings import FETCH_MAX_BYTES, FETCH_SESSIONS, KafkaServerConfig
from quorate.broker.settings.config_key import ConfigKey, Synonym, UpdateMode
from quorate.broker.settings.credential_settings import CredentialSettings
from quorate.broker.settings.group_config import SINGLE_GROUPS, GroupConfig
from quorate.broker.settings.kafka_keys import KAFKA_KEYS, THREADS
from quorate.broker.settings.listener_keys import VALIDATOR_IGNORED, ListenerKeys
from quorate.broker.settings.node_keys import (
    DebugSettings,
    DirectoryKeys,
    MetricsSettings,
    NodeKeys,
    QuorumSettings,
)
from quorate.broker.settings.replication_config import THROTTLES, ReplicationConfig
from quorate.broker.settings.setting import keys_of
from quorate.broker.settings.storage_config import CLEANER_IGNORED, StorageConfig
from quorate.broker.settings.topic_config import UNCLEAN_LEADER_ELECTION, WITHOUT_EFFECT, TopicConfig

_UNITS: Final = {60_000: ", in minutes", 3_600_000: ", in hours"}


def _by_name(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    return MappingProxyType({key.name: key for key in keys})


TOPIC_KEYS: Final = _by_name(
    *sorted(
        (*keys_of(TopicConfig), UNCLEAN_LEADER_ELECTION, *WITHOUT_EFFECT),
        key=lambda key: key.name,
    )
)
"""Every key of a topic by its name."""

GROUP_KEYS: Final = _by_name(*SINGLE_GROUPS)
"""Every key of a group by its name."""

BROKER_KEYS: Final[Mapping[str, tuple[ConfigKey, Synonym]]] = MappingProxyType(
    {synonym.name: (key, synonym) for key in TOPIC_KEYS.values() for synonym in key.synonyms}
)
"""The broker keys that set the defaults of topics. They may change while brokers run."""


def _topic_defaults() -> Iterator[ConfigKey]:
    for name, (key, synonym) in BROKER_KEYS.items():
        # Of the keys of one default, Kafka's brokers reload the one that counts most: the hours are static.
        dynamic = synonym is key.synonyms[0]
        yield ConfigKey(
            name=name,
            type=key.type,
            default=key.default if synonym.factor == 1 else str(int(key.initial) // synonym.factor),
            check=key.check,
            doc=f"The default of topics' {key.name}{_UNITS.get(synonym.factor, '')}. {key.doc}",
            effect=key.effect,
            why=key.why,
            update=UpdateMode.CLUSTER_WIDE if dynamic else UpdateMode.READ_ONLY,
        )


_TOPIC_DEFAULTS: Final = tuple(_topic_defaults())

CONFIG_KEYS: Final = _by_name(
    *keys_of(NodeKeys),
    *keys_of(ListenerKeys),
    VALIDATOR_IGNORED,
    *keys_of(AuthorizerSettings),
    *keys_of(CredentialSettings),
    *keys_of(QuorumSettings),
    *keys_of(DirectoryKeys),
    *keys_of(StorageConfig),
    *CLEANER_IGNORED,
    *keys_of(TopicSettings),
    *keys_of(LifecycleTimes),
    *keys_of(ControllerTuning),
    *keys_of(ShutdownSettings),
    *keys_of(LeaderBalance),
    *keys_of(ReplicationConfig),
    *keys_of(KafkaServerConfig),
    FETCH_MAX_BYTES,
    FETCH_SESSIONS,
    *keys_of(GroupConfig),
    *keys_of(MetricsSettings),
    *keys_of(DebugSettings),
    *_TOPIC_DEFAULTS,
    *THREADS,
    *KAFKA_KEYS,
)
"""Every key of `server.properties` by its name."""
LISTENER_KEYS: Final = _by_name(*keys_of(ListenerKeys), VALIDATOR_IGNORED)
"""The keys that may be set for one listener."""


def _dynamic(keys: Iterable[ConfigKey]) -> Iterator[ConfigKey]:
    return (key for key in keys if key.update is not UpdateMode.READ_ONLY)


BROKER_VALUES: Final = _by_name(
    *_TOPIC_DEFAULTS,
    *_dynamic(keys_of(KafkaServerConfig)),
    *_dynamic(keys_of(ReplicationConfig)),
    *THROTTLES,
    *_dynamic(CONFIG_KEYS.values()),
)
"""The keys of brokers that the metadata knows: those that set defaults of topics, and those that may change
while brokers run (KIP-226)."""
DYNAMIC_KEYS: Final = _by_name(*_dynamic(BROKER_VALUES.values()))
"""The keys that may change while brokers run, by name."""
