"""The Kafka requests of commands, with answers for programs. Loaded when a command needs them."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.cli.kafka_requests.cluster_requests import (
        add_voter,
        controllers_of,
        create_partitions,
        create_topic,
        delete_topic,
        describe_quorum,
        describe_topics,
        leader_end_offset,
        live_brokers,
        only_partitions,
        quorum_as_dict,
        remove_voter,
        shrink_topic,
        topic_as_dict,
        topic_names,
        unregister_broker,
    )
    from quorate.cli.kafka_requests.config_requests import (
        DescribedConfig,
        Entity,
        EntityType,
        alter_configs,
        describe_configs,
        entities,
        entity_as_dict,
    )
    from quorate.cli.kafka_requests.damage_requests import damage_as_dict, describe_damage, refetch_replica
    from quorate.cli.kafka_requests.data_requests import (
        BrokerDirectories,
        TopicPartition,
        delete_records,
        describe_log_dirs,
        log_dirs_as_dict,
    )
    from quorate.cli.kafka_requests.directory_requests import (
        PlacedReplica,
        addresses_of_brokers,
        is_under_way,
        move_replicas,
        states_of_moves,
    )
    from quorate.cli.kafka_requests.election_requests import elect_leaders
    from quorate.cli.kafka_requests.feature_requests import describe_features, set_features
    from quorate.cli.kafka_requests.quota_requests import (
        OwnedQuotas,
        QuotaOwner,
        alter_quotas,
        list_quotas,
    )

__all__ = [
    "BrokerDirectories",
    "DescribedConfig",
    "Entity",
    "EntityType",
    "OwnedQuotas",
    "PlacedReplica",
    "QuotaOwner",
    "TopicPartition",
    "add_voter",
    "addresses_of_brokers",
    "alter_configs",
    "alter_quotas",
    "controllers_of",
    "create_partitions",
    "create_topic",
    "damage_as_dict",
    "delete_records",
    "delete_topic",
    "describe_configs",
    "describe_damage",
    "describe_features",
    "describe_log_dirs",
    "describe_quorum",
    "describe_topics",
    "elect_leaders",
    "entities",
    "entity_as_dict",
    "is_under_way",
    "leader_end_offset",
    "list_quotas",
    "live_brokers",
    "log_dirs_as_dict",
    "move_replicas",
    "only_partitions",
    "quorum_as_dict",
    "refetch_replica",
    "remove_voter",
    "set_features",
    "shrink_topic",
    "states_of_moves",
    "topic_as_dict",
    "topic_names",
    "unregister_broker",
]

_HOMES: Final = MappingProxyType(
    {
        "remove_voter": "quorate.cli.kafka_requests.cluster_requests",
        "add_voter": "quorate.cli.kafka_requests.cluster_requests",
        "delete_records": "quorate.cli.kafka_requests.data_requests",
        "damage_as_dict": "quorate.cli.kafka_requests.damage_requests",
        "describe_damage": "quorate.cli.kafka_requests.damage_requests",
        "refetch_replica": "quorate.cli.kafka_requests.damage_requests",
        "BrokerDirectories": "quorate.cli.kafka_requests.data_requests",
        "DescribedConfig": "quorate.cli.kafka_requests.config_requests",
        "Entity": "quorate.cli.kafka_requests.config_requests",
        "EntityType": "quorate.cli.kafka_requests.config_requests",
        "OwnedQuotas": "quorate.cli.kafka_requests.quota_requests",
        "QuotaOwner": "quorate.cli.kafka_requests.quota_requests",
        "TopicPartition": "quorate.cli.kafka_requests.data_requests",
        "alter_configs": "quorate.cli.kafka_requests.config_requests",
        "alter_quotas": "quorate.cli.kafka_requests.quota_requests",
        "controllers_of": "quorate.cli.kafka_requests.cluster_requests",
        "create_partitions": "quorate.cli.kafka_requests.cluster_requests",
        "create_topic": "quorate.cli.kafka_requests.cluster_requests",
        "delete_topic": "quorate.cli.kafka_requests.cluster_requests",
        "describe_configs": "quorate.cli.kafka_requests.config_requests",
        "describe_features": "quorate.cli.kafka_requests.feature_requests",
        "describe_log_dirs": "quorate.cli.kafka_requests.data_requests",
        "describe_quorum": "quorate.cli.kafka_requests.cluster_requests",
        "describe_topics": "quorate.cli.kafka_requests.cluster_requests",
        "PlacedReplica": "quorate.cli.kafka_requests.directory_requests",
        "addresses_of_brokers": "quorate.cli.kafka_requests.directory_requests",
        "is_under_way": "quorate.cli.kafka_requests.directory_requests",
        "move_replicas": "quorate.cli.kafka_requests.directory_requests",
        "states_of_moves": "quorate.cli.kafka_requests.directory_requests",
        "elect_leaders": "quorate.cli.kafka_requests.election_requests",
        "entities": "quorate.cli.kafka_requests.config_requests",
        "entity_as_dict": "quorate.cli.kafka_requests.config_requests",
        "leader_end_offset": "quorate.cli.kafka_requests.cluster_requests",
        "list_quotas": "quorate.cli.kafka_requests.quota_requests",
        "live_brokers": "quorate.cli.kafka_requests.cluster_requests",
        "log_dirs_as_dict": "quorate.cli.kafka_requests.data_requests",
        "only_partitions": "quorate.cli.kafka_requests.cluster_requests",
        "quorum_as_dict": "quorate.cli.kafka_requests.cluster_requests",
        "set_features": "quorate.cli.kafka_requests.feature_requests",
        "shrink_topic": "quorate.cli.kafka_requests.cluster_requests",
        "topic_as_dict": "quorate.cli.kafka_requests.cluster_requests",
        "topic_names": "quorate.cli.kafka_requests.cluster_requests",
        "unregister_broker": "quorate.cli.kafka_requests.cluster_requests",
    }
)

__getattr__ = lazily(__name__, _HOMES)
