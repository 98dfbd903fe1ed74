"""The operations of the controller: pure functions from an image and a request to records.

Each use those above it in this list:

  `outcome`, `directories`
    What an operation returns. The log directories of replicas, and `may_lead`.
  `elections`, `leaderships`, `reassignments`
    Elections of one partition, and of those of an image by their settings. Reassignments end with one.
  `alter_partition`, `brokers`, `directory_changes`, `requested_elections`
    The requests of brokers, and the elections that an administrator asks for.
  `topic_limits`, `placement`, `topic_lifecycle`, `number_of_partitions`
    Topics: created, deleted, with more partitions and with fewer; the placement of new replicas.
  `alter_configs`, `client_quotas`, `features`, `producer_id_blocks`
    One API each.
"""

from quorate.broker.controller.operations.alter_configs import MAX_VALUE_LENGTH, alter_configs
from quorate.broker.controller.operations.alter_partition import alter_partition
from quorate.broker.controller.operations.brokers import (
    fence_broker,
    heartbeat,
    register_broker,
    unregister_broker,
)
from quorate.broker.controller.operations.client_quotas import alter_client_quotas, entities_asked
from quorate.broker.controller.operations.directories import (
    Belongings,
    directory_online,
    is_online,
    may_lead,
)
from quorate.broker.controller.operations.directory_changes import (
    MAX_ASSIGNMENTS,
    assign_replicas_to_dirs,
    leave_offline,
    leave_with,
)
from quorate.broker.controller.operations.features import update_features
from quorate.broker.controller.operations.leaderships import (
    Changes,
    Elections,
    Partitions,
    elect_leaderless,
    elect_preferred,
    leave_isrs,
    settle_elrs,
)
from quorate.broker.controller.operations.number_of_partitions import (
    additional,
    create_partitions,
    shrink_topics,
    surplus,
)
from quorate.broker.controller.operations.outcome import Departure, Groups, Outcome
from quorate.broker.controller.operations.producer_id_blocks import allocate_producer_ids
from quorate.broker.controller.operations.reassignments import (
    alter_partition_reassignments,
    end_reassignments,
    ended,
)
from quorate.broker.controller.operations.requested_elections import elect_leaders
from quorate.broker.controller.operations.topic_lifecycle import (
    Draw,
    asks_too_much,
    create_topics,
    delete_topics,
    partitions_asked_for,
    partitions_of,
)
from quorate.broker.controller.operations.topic_limits import MAX_NEW_PARTITIONS, TOO_MANY, check_name

__all__ = [
    "MAX_ASSIGNMENTS",
    "MAX_NEW_PARTITIONS",
    "MAX_VALUE_LENGTH",
    "TOO_MANY",
    "Belongings",
    "Changes",
    "Departure",
    "Draw",
    "Elections",
    "Groups",
    "Outcome",
    "Partitions",
    "additional",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "alter_partition",
    "alter_partition_reassignments",
    "asks_too_much",
    "assign_replicas_to_dirs",
    "check_name",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "directory_online",
    "elect_leaderless",
    "elect_leaders",
    "elect_preferred",
    "end_reassignments",
    "ended",
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
