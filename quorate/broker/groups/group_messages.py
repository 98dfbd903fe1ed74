"""The requests of members to a group, and the answers. Fields as in Kafka's messages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from quorate.types import UNKNOWN_EPOCH, Epoch, Offset


class GroupMovedError(Exception):
    """Another broker coordinates the group, or did meanwhile."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """An assignment strategy that a member offers, with its subscription in that strategy's bytes."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    group_id: str
    member_id: str
    """Empty for a new member."""
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    """The protocols in the member's order of preference."""
    needs_member_id: bool
    """True if a new member first gets an id and joins again with it (KIP-394; version 4 on)."""
    skips_assignment: bool = False
    """True if the member can be told that it leads and must not assign anew (KIP-814; version 9 on)."""
    reason: str = ""
    """The member's reason to join (KIP-800; version 8 on)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    error: ErrorCode = ErrorCode.none
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    """True for a leader that finds the assignment made, and gets the members all the same (KIP-814)."""
    members: tuple[JoinedMember, ...] = ()
    """All of them for the leader, none for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRef:
    """The member that sends a request, and its generation (-1: outside the group's protocol)."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    generation: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    member: MemberRef
    protocol_type: str | None = None
    protocol: str | None = None
    """None: not given, before version 5."""
    assignments: tuple[tuple[str, bytes], ...] = ()
    """(member id, assignment), from the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: Offset
    leader_epoch: Epoch = UNKNOWN_EPOCH
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    offset: Offset
    leader_epoch: Epoch
    metadata: str


class MemberDescription(NamedTuple):
    """A member as DescribeGroups shows it. A tuple, for there may be thousands in a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """`state`: by Kafka's name. `protocol`: the assignor of a stable group, else ""."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...] = ()


JoinReply: TypeAlias = Callable[[JoinResult], None]
SyncReply: TypeAlias = Callable[[SyncResult], None]
