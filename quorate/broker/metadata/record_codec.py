"""Metadata records as bytes: the CBOR array [type number, version, {field number: value}].

A field that a reader does not know is skipped. A type or a version that it does not know is an error that
says so: skipping it would leave this node with another image than the rest.
"""

import re
from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    AccessControlEntry,
    BeginTransaction,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    EndTransaction,
    FeatureLevel,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    Record,
    RegisterBroker,
    RemoveAccessControlEntry,
    RemoveTopic,
    RemoveUserScramCredential,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
    UserScramCredential,
)
from quorate.broker.metadata.states import NO_ELIGIBLE
from quorate.broker.metadata.topic_partitions import Directories, Remembered, Shape
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
    (18, 0, AccessControlEntry),
    (19, 0, RemoveAccessControlEntry),
    (21, 0, UserScramCredential),
    (22, 0, RemoveUserScramCredential),
    error=RecordDecodeError,
    max_bytes=MAX_RECORD_BYTES,
)
TYPE_NUMBERS: Final = frozenset(_RECORDS.types)
"""The number of every record type that this version of quorate knows."""

encode: Final = _RECORDS.encode
type_of: Final = _RECORDS.type_of
encode_integer: Final[Callable[[int], bytes]] = dump

# A replay decodes millions of Partition and PartitionChange records, which are much alike: two of them differ
# in the topic's id and the partition's number, and often in nothing else. So the bytes of a part are decoded
# once, and found again among the last that were. Whatever is not exactly as `encode` writes it takes the
# general way, and so does every error.

_INTEGER: Final = rb"(?:[\x00-\x17]|\x18[\x18-\xff]|\x19[\x01-\xff].|\x1a[\x00-\x7f]...)"
_BROKERS: Final = rb"(?:\x83%b%b%b|\x80|\x81%b|\x82%b%b|\x84%b%b%b%b|\x85%b%b%b%b%b)" % ((_INTEGER,) * 15)
_BROKER_FIELDS: Final = rb"\x02%b\x03%b(?:\x04%b)?(?:\x05%b)?(?:\x06(?:%b|\x20))?(?:\x07[\x00-\x17])?" % (
    *(_BROKERS,) * 4,
    _INTEGER,
)
"""The encoded fields from `replicas` to `leader_recovery_state`."""
_ROW: Final = re.compile(
    rb"(\x83\x05\x00([\xa0-\xad])\x00\x50(.{16})\x01(%b)(%b)(?:\x08(%b))?(?:\x09(%b))?"
    rb"(?:\x0c([\x81-\x97](?:\x50.{16})+))?)" % (_INTEGER, _BROKER_FIELDS, _INTEGER, _INTEGER),
    re.DOTALL,
)
_BROKER_FIELD: Final = re.compile(rb"[\x02-\x05]%b|[\x06\x07](?:%b|\x20)" % (_BROKERS, _INTEGER), re.DOTALL)
_CHANGE: Final = re.compile(rb"\x83\x06\x00[\xa2-\xad]\x00\x50(.{16})\x01(%b)" % _INTEGER, re.DOTALL)
_MOST_KNOWN: Final = 1 << 16
BYTES_KNOWN_MAX: Final = 512
"""The size of a record whose parts are remembered."""

PARTITION_KIND: Final = b"\x83\x05\x00"
Row: TypeAlias = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes]
"""A Partition record, and its parts: the map's size, the topic's id, the number, the fields of brokers, the
epochs of leader and partition, and the directories; empty where it has none."""


def decode(data: bytes) -> Record:
    """The record in `data`, every field checked. Raises `RecordDecodeError`."""
    kind = data[:3]
    if kind == PARTITION_KIND:
        return _decode_partition(data)
    if kind == b"\x83\x06\x00":
        return _decode_change(data)
    return _RECORDS.decode(data)


# Memos, not state: whatever is forgotten is decoded again.
_known_changes: Final[dict[tuple[bytes, bytes], Callable[..., PartitionChange]]] = {}


class UnlikeError(Exception):
    """Bytes that are not as `encode` writes them. The general decoder says whether they are a record."""


class BrokerFields(Remembered[bytes, tuple[Shape, int]]):
    """Shape and number of fields, by the encoded fields of brokers."""

    __slots__ = ()

    def _made(self, key: bytes) -> tuple[Shape, int]:
        held = len(_BROKER_FIELD.findall(key))
        try:
            record = _RECORDS.decode(
                PARTITION_KIND + bytes((0xA2 + held,)) + b"\x00\x50" + bytes(16) + b"\x01\x00" + key
            )
        except RecordDecodeError:
            raise UnlikeError from None
        if not isinstance(record, Partition) or not record.replicas:
            raise UnlikeError
        shape = (
            record.replicas,
            record.isr,
            record.removing_replicas,
            record.adding_replicas,
            record.leader,
            record.leader_recovery_state,
            NO_ELIGIBLE,
        )
        return shape, held


class DirectoryLists(Remembered[bytes, Directories]):
    """Directories by their encoded list."""

    __slots__ = ()

    def _made(self, key: bytes) -> Directories:
        """Decode a list: `key` has the number of ids, and for each a byte of its type and the id."""
        if key and len(key) != 1 + 17 * (key[0] & 31):
            raise UnlikeError
        return tuple([decode_identifier(key[at : at + 16]) for at in range(2, len(key), 17)])


class Integers(Remembered[bytes, int]):
    """Integers by their encoding; 0 by none."""

    __slots__ = ()

    def _made(self, key: bytes) -> int:
        return integer_of(key) if key else 0


broker_fields: Final = BrokerFields(_MOST_KNOWN)
directory_lists: Final = DirectoryLists(_MOST_KNOWN)
integers: Final = Integers(_MOST_KNOWN)


def row_of(data: bytes) -> Row | None:
    """Return the parts of a record that is as `encode` writes a Partition, and short; None for any other."""
    match = _ROW.fullmatch(data) if len(data) <= BYTES_KNOWN_MAX else None
    if match is None:
        return None
    whole, size, topic_id, number, brokers, leader_epoch, partition_epoch, directories = match.groups(b"")
    return whole, size, topic_id, number, brokers, leader_epoch, partition_epoch, directories


def rows_of(data: bytes) -> list[Row]:
    """Return the parts of all such records in `data`, which may have other bytes between them."""
    return _ROW.findall(data)


def _decode_partition(data: bytes) -> Record:
    row = row_of(data)
    if row is None:
        return _RECORDS.decode(data)
    _, size, topic_id, number, brokers, leader_epoch, partition_epoch, directories = row
    try:
        shape, held = broker_fields[brokers]
        placed = directory_lists[directories]
    except UnlikeError:
        return _RECORDS.decode(data)
    # The map's size has to count all its fields. In the order of their numbers none is there twice.
    if size[0] & 31 != 2 + held + (leader_epoch != b"") + (partition_epoch != b"") + (directories != b""):
        return _RECORDS.decode(data)
    replicas, isr, removing, adding, leader, recovery, _ = shape
    return Partition(
        topic_id=decode_identifier(topic_id),
        partition_id=integer_of(number),
        replicas=replicas,
        isr=isr,
        removing_replicas=removing,
        adding_replicas=adding,
        leader=leader,
        leader_recovery_state=recovery,
        leader_epoch=Epoch(integers[leader_epoch]),
        partition_epoch=integers[partition_epoch],
        directories=placed,
    )


def _decode_change(data: bytes) -> Record:
    match = _CHANGE.match(data)
    if match is None or len(data) > BYTES_KNOWN_MAX:
        return _RECORDS.decode(data)
    topic_id, number = match.groups()
    # The map's size, and all fields but the two.
    key = data[3:4], data[match.end() :]
    known = _known_changes.get(key)
    if known is not None:
        return known(topic_id=decode_identifier(topic_id), partition_id=integer_of(number))
    record = _RECORDS.decode(data)
    if isinstance(record, PartitionChange):
        if len(_known_changes) >= _MOST_KNOWN:
            _known_changes.clear()
        names = (each.name for each in fields_of(record))
        others = {each: getattr(record, each) for each in names if each not in ("topic_id", "partition_id")}
        _known_changes[key] = partial(PartitionChange, **others)
    return record


def integer_of(raw: bytes) -> int:
    """Return the integer that is encoded so."""
    return raw[0] if len(raw) == 1 else int.from_bytes(raw[1:])


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
