"""Classic consumer groups."""

from quorate.broker.groups.coordinator import (
    OFFSETS_TOPIC,
    GroupConfig,
    GroupCoordinator,
    GroupLogError,
    partition_of,
)
from quorate.broker.groups.group import GroupLimits
from quorate.broker.groups.group_messages import (
    CommittedOffset,
    GroupMovedError,
    JoinRequest,
    JoinResult,
    MemberRef,
    OffsetToCommit,
    Protocol,
    SyncRequest,
    SyncResult,
)

__all__ = [
    "OFFSETS_TOPIC",
    "CommittedOffset",
    "GroupConfig",
    "GroupCoordinator",
    "GroupLimits",
    "GroupLogError",
    "GroupMovedError",
    "JoinRequest",
    "JoinResult",
    "MemberRef",
    "OffsetToCommit",
    "Protocol",
    "SyncRequest",
    "SyncResult",
    "partition_of",
]
