"""Messages of ours that Kafka lacks, in the form of kio's classes: its codec and our guard work on them.

ApiVersions does not name them, so no client of Kafka's meets them.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

_REFETCH: Final = i16(10_034)
_DAMAGE: Final = i16(10_035)
_STATE_CHANGES: Final = i16(10_060)
_STATES: Final = i16(10_075)
_SEAL_AGAIN: Final = i16(10_051)
_UNUSED_ACLS: Final = i16(10_029)


class _OwnMessage:
    """Every API of ours has one version, which is flexible."""

    __slots__ = ()
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


class OwnStruct(_OwnMessage):
    """The base of structs within answers."""

    __slots__ = ()
    __type__: ClassVar = EntityType.nested


class OwnRequest(_OwnMessage):
    """The base of requests. A request has the number of its API as `__api_key__`, as its answer does."""

    __slots__ = ()
    __type__: ClassVar = EntityType.request
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnResponse(_OwnMessage):
    """The base of answers, with the fields that every answer begins with."""

    __type__: ClassVar = EntityType.response
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStateChangesRequest(OwnRequest):
    """Asks a broker for the state changes of its own replicas."""

    __api_key__: ClassVar[i16] = _STATE_CHANGES
    topic_name: str | None = field(metadata={"kafka_type": "string"}, default=None)
    """The only topic of interest; None: all."""
    partition_index: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    """The only partition of interest; -1: all."""
    pending_only: bool = field(metadata={"kafka_type": "bool"}, default=False)
    """Without those that have ended."""
    limit: i32 = field(metadata={"kafka_type": "int32"}, default=i32(10_000))
    """The largest number of changes, of those that have ended the newest, and the oldest that are pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournaledChange(OwnStruct):
    """A state change of one replica of the answering broker."""

    __api_key__: ClassVar[i16] = _STATE_CHANGES
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    change: str = field(metadata={"kafka_type": "string"})
    """A `ChangeKind`."""
    outcome: str = field(metadata={"kafka_type": "string"})
    """A `ChangeOutcome`."""
    problem: str | None = field(metadata={"kafka_type": "string"})
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    metadata_offset: i64 = field(metadata={"kafka_type": "int64"})
    """The last offset (inclusive) of the records that it came with."""
    received_ms: i64 = field(metadata={"kafka_type": "int64"})
    """Since the Unix epoch, by the broker's clock."""
    duration_us: i64 = field(metadata={"kafka_type": "int64"})
    """From its receipt to its end, or to now while it is pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStateChangesResponse(OwnResponse):
    """The changes, and how far the broker is."""

    __api_key__: ClassVar[i16] = _STATE_CHANGES
    broker_id: BrokerId = field(metadata={"kafka_type": "int32"}, default=BrokerId(-1))
    received_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    completed_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    dropped_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    """Up to this offset (inclusive) the broker no longer knows all changes that have ended; -1: it does."""
    pending: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    backlog: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    oldest_ms: i64 = field(metadata={"kafka_type": "int64"}, default=i64(0))
    changes: tuple[JournaledChange, ...] = ()
    now_ms: i64 = field(metadata={"kafka_type": "int64", "tag": 0}, default=i64(-1))
    """The broker's clock when it answered, since the Unix epoch; -1: a broker of an earlier version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStatesRequest(OwnRequest):
    """Asks any broker for the states of a topic's partitions and replicas."""

    __api_key__: ClassVar[i16] = _STATES
    topic_name: TopicName = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInState(OwnStruct):
    __api_key__: ClassVar[i16] = _STATES
    broker_id: BrokerId = field(metadata={"kafka_type": "int32"})
    state: str = field(metadata={"kafka_type": "string"})
    """A `ReplicaPhase`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInState(OwnStruct):
    __api_key__: ClassVar[i16] = _STATES
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    state: str = field(metadata={"kafka_type": "string"})
    """A `PartitionPhase`."""
    leader_id: BrokerId = field(metadata={"kafka_type": "int32"})
    replicas: tuple[ReplicaInState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStatesResponse(OwnResponse):
    """The states as the answering broker's metadata has them."""

    __api_key__: ClassVar[i16] = _STATES
    partitions: tuple[PartitionInState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchReplicaRequest(OwnRequest):
    """Asks a broker to set aside the log of one of its replicas, and to fetch the records again."""

    __api_key__: ClassVar[i16] = _REFETCH
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchReplicaResponse(OwnResponse):
    """The place of the damaged log, or the reason why the replica keeps it."""

    __api_key__: ClassVar[i16] = _REFETCH
    path: str | None = field(metadata={"kafka_type": "string"}, default=None)
    """Where the damaged log is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDamageRequest(OwnRequest):
    """Asks a broker for the damage of its own replicas."""

    __api_key__: ClassVar[i16] = _DAMAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedReplica(OwnStruct):
    """One range of records that can't be read, or a log that can't be opened."""

    __api_key__: ClassVar[i16] = _DAMAGE
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    segment: str | None = field(metadata={"kafka_type": "string"})
    """None: the log can't be opened."""
    position: i64 = field(metadata={"kafka_type": "int64"})
    start_offset: i64 = field(metadata={"kafka_type": "int64"})
    end_offset: i64 = field(metadata={"kafka_type": "int64"})
    """Exclusive."""
    problem: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideLog(OwnStruct):
    """The folder of a damaged log that no longer belongs to a replica."""

    __api_key__: ClassVar[i16] = _DAMAGE
    path: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDamageResponse(OwnResponse):
    """The damaged ranges, and the logs that were set aside."""

    __api_key__: ClassVar[i16] = _DAMAGE
    damaged: tuple[DamagedReplica, ...] = ()
    set_aside: tuple[SetAsideLog, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SealAgainRequest(OwnRequest):
    """Asks any broker to have all users' credentials sealed by the first key of the active controller."""

    __api_key__: ClassVar[i16] = _SEAL_AGAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SealAgainResponse(OwnResponse):
    """How many credentials were sealed, were sealed by that key before, and could not be opened."""

    __api_key__: ClassVar[i16] = _SEAL_AGAIN
    sealed: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    kept: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    unopened: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    missing_key: str | None = field(metadata={"kafka_type": "string"}, default=None)
    """The id of a key that sealed one that could not be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUnusedAclsRequest(OwnRequest):
    """Asks a broker for the ACLs that none of its decisions has needed since it started."""

    __api_key__: ClassVar[i16] = _UNUSED_ACLS


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedAcl(OwnStruct):
    """An ACL, with Kafka's numbers."""

    __api_key__: ClassVar[i16] = _UNUSED_ACLS
    resource_type: i8 = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    pattern_type: i8 = field(metadata={"kafka_type": "int8"})
    principal: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    permission_type: i8 = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUnusedAclsResponse(OwnResponse):
    """The ACLs, and how long the broker has looked."""

    __api_key__: ClassVar[i16] = _UNUSED_ACLS
    counted_ms: i64 = field(metadata={"kafka_type": "int64"}, default=i64(0))
    """Since the broker's first decision. 0: it has made none."""
    acls: tuple[UnusedAcl, ...] = ()
