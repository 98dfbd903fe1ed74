"""The operations of the controller: pure functions from an image and a request to records."""

from quorate.broker.controller.operations.alter_configs import MAX_VALUE_LENGTH, alter_configs, changed_values
from quorate.broker.controller.operations.alter_partition import alter_partition
from quorate.broker.controller.operations.belongings import Belongings
from quorate.broker.controller.operations.brokers import (
    fence_broker,
    heartbeat,
    register_broker,
    unregister_broker,
)
from quorate.broker.controller.operations.client_quotas import alter_client_quotas, entities_asked
from quorate.broker.controller.operations.directory_changes import (
    MAX_ASSIGNMENTS,
    assign_replicas_to_dirs,
    leave_offline,
    leave_with,
)
from quorate.broker.controller.operations.features import update_features
from quorate.broker.controller.operations.leaderships import (
    Partitions,
    elect_leaderless,
    elect_preferred,
    leave_isrs,
    settle_elrs,
)
from quorate.broker.controller.operations.online_directories import directory_online, is_online, may_lead
from quorate.broker.controller.operations.outcome import Departure, Groups, Outcome
from quorate.broker.controller.operations.partition_reassignments import (
    alter_partition_reassignments,
)
from quorate.broker.controller.operations.producer_id_blocks import allocate_producer_ids
from quorate.broker.controller.operations.reassignment import ReassignmentRules, end_reassignments
from quorate.broker.controller.operations.requested_elections import elect_leaders
from quorate.broker.controller.operations.topics import (
    MAX_NEW_PARTITIONS,
    PROTECTED_TOPICS,
    TOO_MANY,
    Draw,
    additional,
    asks_too_much,
    check_name,
    create_partitions,
    create_topics,
    delete_topics,
    partitions_asked_for,
    partitions_of,
    shrink_topics,
    surplus,
)

__all__ = [
    "MAX_ASSIGNMENTS",
    "MAX_NEW_PARTITIONS",
    "MAX_VALUE_LENGTH",
    "PROTECTED_TOPICS",
    "TOO_MANY",
    "Belongings",
    "Departure",
    "Draw",
    "Groups",
    "Outcome",
    "Partitions",
    "ReassignmentRules",
    "additional",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "alter_partition",
    "alter_partition_reassignments",
    "asks_too_much",
    "assign_replicas_to_dirs",
    "changed_values",
    "check_name",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "directory_online",
    "elect_leaderless",
    "elect_leaders",
    "elect_preferred",
    "end_reassignments",
    "entities_asked",
    "fence_broker",
    "heartbeat",
    "is_online",
    "leave_isrs",
    "leave_offline",
    "leave_with",
    "may_lead",
    "partitions_asked_for",
    "partitions_of",
    "register_broker",
    "settle_elrs",
    "shrink_topics",
    "surplus",
    "unregister_broker",
    "update_features",
]
