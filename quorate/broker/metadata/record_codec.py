"""Metadata records as bytes: the CBOR array [type number, version, {field number: value}].

A field that a reader does not know is skipped. A type or a version that it does not know is an error that
says so: skipping it would leave this node with another image than the rest.
"""

import re
import uuid
from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    EndTransaction,
    FeatureLevel,
    LeaderRecoveryState,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    Record,
    RegisterBroker,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.cbor import Messages, decode_identifier, dump
from quorate.types import Epoch

MAX_RECORD_BYTES: Final = 1 << 20


class RecordDecodeError(ValueError):
    """Bytes that are no metadata record this version knows."""


# Numbers are for ever: a record type that goes leaves its number unused.
_RECORDS: Final[Messages[Record]] = Messages(
    "metadata record",
    (0, 0, NoOp),
    (1, 0, RegisterBroker),
    (2, 0, BrokerRegistrationChange),
    (3, 0, UnregisterBroker),
    (4, 0, Topic),
    (5, 0, Partition),
    (6, 0, PartitionChange),
    (7, 0, RemoveTopic),
    (8, 0, Config),
    (9, 0, FeatureLevel),
    (10, 0, ProducerIds),
    (11, 0, BeginTransaction),
    (12, 0, EndTransaction),
    (13, 0, AbortTransaction),
    (14, 0, ShrinkTopic),
    (15, 0, ClientQuota),
    error=RecordDecodeError,
    max_bytes=MAX_RECORD_BYTES,
)
TYPE_NUMBERS: Final = frozenset(_RECORDS.types)
"""The number of every record type that this version of quorate knows."""

encode: Final = _RECORDS.encode
encode_integer: Final[Callable[[int], bytes]] = dump

# A replay decodes millions of Partition and PartitionChange records, which are much alike: two of them differ
# in the topic's id and the partition's number, and often in nothing else. So the bytes of a part are decoded
# once, and found again among the last that were. Whatever is not exactly as `encode` writes it takes the
# general way, and so does every error.

INTEGER: Final = rb"(?:[\x00-\x17]|\x18[\x18-\xff]|\x19[\x01-\xff].|\x1a[\x00-\x7f]...)"
_BROKERS: Final = rb"(?:\x83%b%b%b|\x80|\x81%b|\x82%b%b|\x84%b%b%b%b|\x85%b%b%b%b%b)" % ((INTEGER,) * 15)
BROKER_FIELDS: Final = rb"\x02%b\x03%b(?:\x04%b)?(?:\x05%b)?(?:\x06(?:%b|\x20))?(?:\x07[\x00-\x17])?" % (
    *(_BROKERS,) * 4,
    INTEGER,
)
"""The encoded fields from `replicas` to `leader_recovery_state`."""
_PARTITION: Final = re.compile(
    rb"\x83\x05\x00([\xa0-\xad])\x00\x50(.{16})\x01(%b)(%b)(?:\x08(%b))?(?:\x09(%b))?"
    rb"(?:\x0c([\x81-\x97])((?:\x50.{16})+))?" % (INTEGER, BROKER_FIELDS, INTEGER, INTEGER),
    re.DOTALL,
)
BROKER_FIELD: Final = re.compile(rb"[\x02-\x05]%b|[\x06\x07](?:%b|\x20)" % (_BROKERS, INTEGER), re.DOTALL)
_CHANGE: Final = re.compile(rb"\x83\x06\x00[\xa2-\xad]\x00\x50(.{16})\x01(%b)" % INTEGER, re.DOTALL)
_MOST_KNOWN: Final = 1 << 16
_MOST_BYTES_KNOWN: Final = 512

_K = TypeVar("_K")
_V = TypeVar("_V")
_Brokers: TypeAlias = tuple[
    int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], int, LeaderRecoveryState
]
"""The number of the fields, and their values."""


def decode(data: bytes) -> Record:
    """The record in `data`, every field checked. Raises `RecordDecodeError`."""
    kind = data[:3]
    if kind == b"\x83\x05\x00":
        return _decode_partition(data)
    if kind == b"\x83\x06\x00":
        return _decode_change(data)
    return _RECORDS.decode(data)


# Memos, not state: whatever is forgotten is decoded again.
_known_brokers: Final[dict[bytes, _Brokers]] = {}
_known_directories: Final[dict[bytes, tuple[uuid.UUID, ...]]] = {}
_known_changes: Final[dict[tuple[bytes, bytes], Callable[..., PartitionChange]]] = {}


def _decode_partition(data: bytes) -> Record:
    match = _PARTITION.fullmatch(data)
    if match is None:
        return _RECORDS.decode(data)
    fields, topic_id, number, raw_brokers, leader_epoch, partition_epoch, count, raw_directories = (
        match.groups()
    )
    # In the order of their numbers, so that none is there twice; the map's size has to count them all.
    others = 2 + (leader_epoch is not None) + (partition_epoch is not None) + (count is not None)
    brokers = _known_brokers.get(raw_brokers)
    if brokers is None:
        return _learn_brokers(data, raw_brokers, size=(fields[0] & 31) - others)
    held, replicas, isr, removing, adding, leader, recovery = brokers
    directories: tuple[uuid.UUID, ...] = ()
    if count is not None:
        if len(raw_directories) != 17 * (count[0] & 31):
            return _RECORDS.decode(data)
        directories = _known_directories.get(raw_directories) or _learn_directories(raw_directories)
    if fields[0] & 31 != others + held:
        return _RECORDS.decode(data)
    return Partition(
        topic_id=decode_identifier(topic_id),
        partition_id=integer_of(number),
        replicas=replicas,
        isr=isr,
        removing_replicas=removing,
        adding_replicas=adding,
        leader=leader,
        leader_recovery_state=recovery,
        leader_epoch=Epoch(0 if leader_epoch is None else integer_of(leader_epoch)),
        partition_epoch=0 if partition_epoch is None else integer_of(partition_epoch),
        directories=directories,
    )


def _learn_brokers(data: bytes, raw_brokers: bytes, *, size: int) -> Record:
    """Decode a record, and remember the meaning of the part that should have `size` fields."""
    record = _RECORDS.decode(data)
    if isinstance(record, Partition) and len(BROKER_FIELD.findall(raw_brokers)) == size:
        _make_room(_known_brokers)
        _known_brokers[raw_brokers] = (
            size,
            record.replicas,
            record.isr,
            record.removing_replicas,
            record.adding_replicas,
            record.leader,
            record.leader_recovery_state,
        )
    return record


def _learn_directories(raw: bytes) -> tuple[uuid.UUID, ...]:
    """Decode a list of ids, and remember it: `raw` has for each a byte of its type and the id."""
    _make_room(_known_directories)
    ids = [decode_identifier(raw[at : at + 16]) for at in range(1, len(raw), 17)]
    directories = _known_directories[raw] = tuple(ids)
    return directories


def _decode_change(data: bytes) -> Record:
    match = _CHANGE.match(data)
    if match is None or len(data) > _MOST_BYTES_KNOWN:
        return _RECORDS.decode(data)
    topic_id, number = match.groups()
    # The map's size, and all fields but the two.
    key = data[3:4], data[match.end() :]
    known = _known_changes.get(key)
    if known is not None:
        return known(topic_id=decode_identifier(topic_id), partition_id=integer_of(number))
    record = _RECORDS.decode(data)
    if isinstance(record, PartitionChange):
        _make_room(_known_changes)
        names = (each.name for each in fields_of(record))
        others = {each: getattr(record, each) for each in names if each not in ("topic_id", "partition_id")}
        _known_changes[key] = partial(PartitionChange, **others)
    return record


def integer_of(raw: bytes) -> int:
    return raw[0] if len(raw) == 1 else int.from_bytes(raw[1:])


def _make_room(known: dict[_K, _V]) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()


class RunEncoder:
    """An encoder for records that are much alike: partitions of one topic that differ in their number alone
    share all other bytes."""

    __slots__ = ("_around",)

    def __init__(self) -> None:
        self._around: dict[tuple[int, ...], tuple[Partition, bytes, bytes]] = {}
        """The last partition with these replicas, and its bytes before and behind its number."""

    def encode(self, record: Record) -> bytes:
        if not isinstance(record, Partition):
            return encode(record)
        held = self._around.get(record.replicas)
        if held is None or not _alike(held[0], record):
            zero = encode(replace(record, partition_id=0))
            one = encode(replace(record, partition_id=1))
            at = next(place for place, pair in enumerate(zip(zero, one, strict=True)) if pair[0] != pair[1])
            held = self._around[record.replicas] = (record, zero[:at], zero[at + 1 :])
        return held[1] + encode_integer(record.partition_id) + held[2]


def _alike(one: Partition, other: Partition) -> bool:
    """Return whether two partitions differ in their number alone, by the identity of their parts: to compare
    ids would take as long as to encode them."""
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
