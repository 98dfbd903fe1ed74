"""Classic consumer groups."""

from quorate.broker.groups.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    assigned_partitions,
    subscribed_topics,
)
from quorate.broker.groups.coordinator import (
    MOST_NAME_CHARACTERS,
    OFFSETS_TOPIC,
    GroupCoordinator,
    GroupLogError,
    partition_of,
)
from quorate.broker.groups.group_administration import GroupAdministration
from quorate.broker.groups.group_filter import CLASSIC, GroupFilter, ListedGroup
from quorate.broker.groups.group_messages import (
    CommittedOffset,
    GroupDescription,
    GroupMovedError,
    JoinRequest,
    JoinResult,
    MemberDescription,
    MemberRef,
    OffsetToCommit,
    Protocol,
    SyncRequest,
    SyncResult,
)
from quorate.broker.groups.offsets_log import OffsetsLog

__all__ = [
    "CLASSIC",
    "CONSUMER_PROTOCOL_TYPE",
    "MOST_NAME_CHARACTERS",
    "OFFSETS_TOPIC",
    "CommittedOffset",
    "GroupAdministration",
    "GroupCoordinator",
    "GroupDescription",
    "GroupFilter",
    "GroupLogError",
    "GroupMovedError",
    "JoinRequest",
    "JoinResult",
    "ListedGroup",
    "MemberDescription",
    "MemberRef",
    "OffsetToCommit",
    "OffsetsLog",
    "Protocol",
    "SyncRequest",
    "SyncResult",
    "assigned_partitions",
    "partition_of",
    "subscribed_topics",
]
