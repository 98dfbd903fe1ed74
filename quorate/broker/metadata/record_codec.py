"""Metadata records as bytes: the CBOR array [type number, version, {field number: value}].

A field that a reader does not know is skipped. A type or a version that it does not know is an error that
says so: skipping it would leave this node with another image than the rest.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    BrokerEndpoint,
    BrokerRegistrationChange,
    Config,
    ConfigType,
    EndTransaction,
    FeatureLevel,
    FeatureRange,
    LeaderRecoveryState,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    Record,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
)
from quorate.broker.metadata.schema import (
    SchemaError,
    Struct,
    boolean,
    dump,
    field,
    identifier,
    integer,
    integers,
    load,
    one_of,
    optional,
    sequence,
    text,
)

MAX_RECORD_BYTES: Final = 1 << 20
MAX_REPLICAS: Final = 1 << 10
"""Replicas of one partition."""


class RecordDecodeError(ValueError):
    """Bytes that are no metadata record this version knows."""


broker_id = integer(low=0)
leader_id = integer(low=-1)
epoch = integer(low=0)
offset = integer(bits=64, low=0)
partition_id = integer(low=0)
replicas = integers(most=MAX_REPLICAS, low=0)
directories = sequence(identifier, most=MAX_REPLICAS)
topic_name = text(most=249)
recovery_state = one_of(LeaderRecoveryState)

listener = Struct(
    BrokerEndpoint,
    field(0, "name", text(most=255)),
    field(1, "host", text(most=255)),
    field(2, "port", integer(low=0)),
)
feature_range = Struct(
    FeatureRange,
    field(0, "name", text(most=255)),
    field(1, "min_level", integer(bits=16, low=0)),
    field(2, "max_level", integer(bits=16, low=0)),
)
listeners = sequence(listener.kind, most=64)
features = sequence(feature_range.kind, most=256)
log_dirs = sequence(identifier, most=256)
rack = optional(text(most=255))

# Numbers are for ever: a record type that goes leaves its number unused.
_TYPES: Final[tuple[tuple[int, int, type[object], Struct[object]], ...]] = cast(
    "tuple[tuple[int, int, type[object], Struct[object]], ...]",
    (
        (
            0,
            0,
            NoOp,
            Struct(NoOp),
        ),
        (
            1,
            0,
            RegisterBroker,
            Struct(
                RegisterBroker,
                field(0, "broker_id", broker_id),
                field(1, "incarnation_id", identifier),
                field(2, "broker_epoch", offset),
                field(3, "listeners", listeners),
                field(4, "rack", rack),
                field(5, "features", features),
                field(6, "fenced", boolean),
                field(7, "in_controlled_shutdown", boolean),
                field(8, "log_dirs", log_dirs),
            ),
        ),
        (
            2,
            0,
            BrokerRegistrationChange,
            Struct(
                BrokerRegistrationChange,
                field(0, "broker_id", broker_id),
                field(1, "broker_epoch", offset),
                field(2, "fenced", optional(boolean)),
                field(3, "in_controlled_shutdown", optional(boolean)),
                field(4, "log_dirs", optional(log_dirs)),
            ),
        ),
        (
            3,
            0,
            UnregisterBroker,
            Struct(
                UnregisterBroker,
                field(0, "broker_id", broker_id),
                field(1, "broker_epoch", offset),
            ),
        ),
        (
            4,
            0,
            Topic,
            Struct(
                Topic,
                field(0, "name", topic_name),
                field(1, "topic_id", identifier),
            ),
        ),
        (
            5,
            0,
            Partition,
            Struct(
                Partition,
                field(0, "topic_id", identifier),
                field(1, "partition_id", partition_id),
                field(2, "replicas", replicas),
                field(3, "isr", replicas),
                field(4, "removing_replicas", replicas),
                field(5, "adding_replicas", replicas),
                field(6, "leader", leader_id),
                field(7, "leader_recovery_state", recovery_state),
                field(8, "leader_epoch", epoch),
                field(9, "partition_epoch", epoch),
                field(10, "eligible_leader_replicas", replicas),
                field(11, "last_known_elr", replicas),
                field(12, "directories", directories),
            ),
        ),
        (
            6,
            0,
            PartitionChange,
            Struct(
                PartitionChange,
                field(0, "topic_id", identifier),
                field(1, "partition_id", partition_id),
                field(2, "isr", optional(replicas)),
                field(3, "leader", optional(leader_id)),
                field(4, "replicas", optional(replicas)),
                field(5, "removing_replicas", optional(replicas)),
                field(6, "adding_replicas", optional(replicas)),
                field(7, "leader_recovery_state", optional(recovery_state)),
                field(8, "eligible_leader_replicas", optional(replicas)),
                field(9, "last_known_elr", optional(replicas)),
                field(10, "directories", optional(directories)),
            ),
        ),
        (
            7,
            0,
            RemoveTopic,
            Struct(RemoveTopic, field(0, "topic_id", identifier)),
        ),
        (
            8,
            0,
            Config,
            Struct(
                Config,
                field(0, "resource_type", one_of(ConfigType)),
                field(1, "resource_name", text(most=249)),
                field(2, "name", text(most=255)),
                field(3, "value", optional(text())),
            ),
        ),
        (
            9,
            0,
            FeatureLevel,
            Struct(
                FeatureLevel,
                field(0, "name", text(most=255)),
                field(1, "level", integer(bits=16, low=0)),
            ),
        ),
        (
            10,
            0,
            ProducerIds,
            Struct(
                ProducerIds,
                field(0, "broker_id", broker_id),
                field(1, "broker_epoch", offset),
                field(2, "next_producer_id", offset),
            ),
        ),
        (
            11,
            0,
            BeginTransaction,
            Struct(BeginTransaction, field(0, "name", optional(text()))),
        ),
        (
            12,
            0,
            EndTransaction,
            Struct(EndTransaction),
        ),
        (
            13,
            0,
            AbortTransaction,
            Struct(AbortTransaction, field(0, "reason", optional(text()))),
        ),
    ),
)
_BY_TYPE: Final[Mapping[type[object], tuple[int, int, Struct[object]]]] = {
    of: (number, version, struct) for number, version, of, struct in _TYPES
}
_BY_NUMBER: Final[Mapping[object, tuple[int, Struct[object]]]] = {
    number: (version, struct) for number, version, _, struct in _TYPES
}

TYPE_NUMBERS: Final = frozenset(number for number, *_ in _TYPES)
"""Of every record type that this version of quorate knows."""


def encode(record: Record) -> bytes:
    number, version, struct = _BY_TYPE[type(record)]
    return dump([number, version, struct.encode(record)])


class RunEncoder:
    """`encode` for records of which many are alike: partitions of one topic that differ in their number alone
    share all other bytes."""

    __slots__ = ("_around",)

    def __init__(self) -> None:
        self._around: dict[tuple[int, ...], tuple[Partition, bytes, bytes]] = {}
        """By replicas, the last partition, and what is before and behind its number."""

    def encode(self, record: Record) -> bytes:
        if not isinstance(record, Partition):
            return encode(record)
        held = self._around.get(record.replicas)
        if held is None or not _alike(held[0], record):
            zero = encode(replace(record, partition_id=0))
            one = encode(replace(record, partition_id=1))
            at = next(place for place, pair in enumerate(zip(zero, one, strict=True)) if pair[0] != pair[1])
            held = self._around[record.replicas] = (record, zero[:at], zero[at + 1 :])
        return held[1] + dump(record.partition_id) + held[2]


def _alike(one: Partition, other: Partition) -> bool:
    """Whether they differ in their number and in nothing else, by the same objects: to compare ids would take
    as long as to encode them."""
    return (
        one.topic_id is other.topic_id
        and one.replicas == other.replicas
        and one.isr is other.isr
        and one.removing_replicas is other.removing_replicas
        and one.adding_replicas is other.adding_replicas
        and one.leader == other.leader
        and one.leader_recovery_state is other.leader_recovery_state
        and one.leader_epoch == other.leader_epoch
        and one.partition_epoch == other.partition_epoch
        and one.eligible_leader_replicas is other.eligible_leader_replicas
        and one.last_known_elr is other.last_known_elr
        and one.directories is other.directories
    )


def record_version(record: Record) -> int:
    """The version that `encode` writes for a record of this type."""
    return _BY_TYPE[type(record)][1]


def decode(data: bytes) -> Record:
    """The record in `data`, every field checked. Raises `RecordDecodeError`, and nothing else, for bytes
    that are none."""
    try:
        raw = load(data, max_bytes=MAX_RECORD_BYTES)
        if type(raw) is not list or len(raw) != 3:
            raise RecordDecodeError("a metadata record is [type, version, fields]")
        number, version, body = raw
        if type(number) is not int or type(version) is not int:
            raise RecordDecodeError("a metadata record's type and version are integers")
        known = _BY_NUMBER.get(number)
        if known is None or not 0 <= version <= known[0]:
            raise RecordDecodeError(
                f"metadata record type {number} version {version} is not known to this version of quorate: "
                "upgrade this node before the cluster's features"
            )
        return cast(Record, known[1].decode(body))
    except SchemaError as error:
        raise RecordDecodeError(f"not a metadata record: {error}") from error
