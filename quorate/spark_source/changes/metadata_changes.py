"""The state of the cluster, fed with the log, and each change of it.

The records of a transaction (KIP-868) take effect with its end: until then they are held back, and those of
an aborted one are dropped. Each keeps its own place in the log. Raft's own records are part of none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, assert_never
from uuid import UUID

import numpy as np

from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    AccessControlEntry,
    BeginTransaction,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    ConfigType,
    EndTransaction,
    FeatureLevel,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    QuotaEntity,
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
from quorate.broker.metadata.record_codec import RecordDecodeError, decode, encode
from quorate.broker.metadata.states import BrokerState, ConfigResource, TopicState
from quorate.broker.metadata.supported_features import KRAFT_VERSION
from quorate.history import DamagedRecordError
from quorate.history.entries import KRaftVersion, control_of
from quorate.log.batches.control import LeaderChange, read_leader_change
from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.runtime import uuid_text
from quorate.spark_source.changes.entities import NO_QUORUM, Entity, QuorumState
from quorate.spark_source.changes.partition_table import (
    PartitionRows,
    PartitionTable,
    UnknownPartitionError,
    Wanted,
)
from quorate.spark_source.chunks import Chunk, Longs, Places, all_but, places_of_batch, snapshot_places
from quorate.spark_source.partition_records import partition_records
from quorate.spark_source.record_types import later_version
from quorate.types import VoterSet

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

K = TypeVar("K")
R = TypeVar("R", bound="DataclassInstance")

_ENDS: Final = tuple(
    int.from_bytes(encode(each())[:3], "little") for each in (EndTransaction, AbortTransaction)
)


class MisfitError(ValueError):
    """A record that does not fit the state before it."""


class EntityRow(NamedTuple):
    """A change of anything but a partition. None: it was not there."""

    at: int
    """The place of the record."""
    first_row: int
    """The number of rows that the record made before."""
    entity: Entity
    before: "DataclassInstance | None"
    after: "DataclassInstance | None"


@dataclass(slots=True)
class Changed:
    """The changes that a stretch of the log made. Places are those of its records."""

    places: Places
    entities: list[EntityRow] = field(default_factory=list)
    partitions: PartitionRows | None = None
    types: dict[int, str] = field(default_factory=dict)
    """The types of records with rows, but for those that are of one partition."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why brokers changed."""
    last_heard_ms: dict[int, int] = field(default_factory=dict)
    """When the controller last heard of a broker that it fenced."""
    unknown: list[int] = field(default_factory=list)
    """The places of records that a later version of quorate wrote."""


class MetadataChanges:
    """The metadata after the chunks that it was fed with, from the beginning of the log or from a snapshot.

    `entities`: those whose state and changes are asked for. `wanted`: the partitions, if not all.
    `mark_unknown`: pass over records that a later version of quorate wrote, and report them; else they are an
    error. `lenient`: pass over records that don't fit, because the log has lost others.
    """

    def __init__(
        self,
        *,
        entities: frozenset[Entity],
        wanted: Wanted | None = None,
        mark_unknown: bool = False,
        lenient: bool = False,
    ) -> None:
        self._entities = entities
        self._mark_unknown = mark_unknown
        self._lenient = lenient
        self._partitions = PartitionTable(wanted if Entity.PARTITION in entities else _nothing)
        # A topic that is shrunk has to know the leader epochs of its partitions.
        self._reads_partitions = bool(entities & {Entity.PARTITION, Entity.TOPIC})
        self._brokers: dict[int, BrokerState] = {}
        self._topics: dict[UUID, TopicState] = {}
        self._configs: dict[ConfigResource, dict[str, Config]] = {}
        self._quotas: dict[tuple[QuotaEntity, str], ClientQuota] = {}
        self._features: dict[str, FeatureLevel] = {}
        self._quorum = NO_QUORUM
        self._held: list[Chunk] = []
        """The records of an open transaction, as they came."""
        self._in_transaction = False
        self._chunk = Chunk.of([], _NO_PLACES)
        self._collects = False
        self._changed = Changed(_NO_PLACES)

    # Feeding

    def begin(self, contents: SnapshotContents) -> Changed:
        """Begin with a snapshot, whose chunks follow. Return what it says besides them: the quorum."""
        self._changed = Changed(snapshot_places(contents, 1))
        epoch = contents.snapshot.epoch
        begun = QuorumState(leader=None, leader_epoch=epoch, kraft_version=0, voters=())
        if contents.leader_change is not None:
            try:
                begun = begun.led(read_leader_change(contents.leader_change), epoch)
            except ValueError as error:
                raise DamagedRecordError(f"the snapshot {contents.snapshot}: {error}") from error
        self._quorum = begun if contents.voters is None else begun.with_voters(contents.voters)
        if Entity.QUORUM in self._entities:
            self._changed.types[0] = "SnapshotHeader"
            self._changed.entities.append(EntityRow(0, 0, Entity.QUORUM, None, self._quorum))
        return self._changed

    def feed(self, chunk: Chunk) -> None:
        """Apply the next records. Raises `DamagedRecordError`, `LaterVersionError`."""
        self._apply_chunk(chunk, collect=False)

    def changes(self, chunk: Chunk) -> Changed:
        """Apply the next records, and return what they change. The next call makes it void. Raises as
        `feed`."""
        return self._apply_chunk(chunk, collect=True)

    def _apply_chunk(self, chunk: Chunk, *, collect: bool) -> Changed:
        self._partitions.tidy()
        self._collects = collect
        changed = self._changed = Changed(chunk.places)
        self._chunk, ends = chunk, _ends_in(chunk)
        if self._held:
            if not len(ends):
                self._hold(0)
                return changed
            ends = ends + sum(map(len, self._held))
            self._chunk = chunk = Chunk.joined([*self._held, chunk])
            changed.places = chunk.places
            self._held = []
        self._apply_all(chunk, ends)
        changed.partitions = self._partitions.take_rows()
        return changed

    def _apply_all(self, chunk: Chunk, ends: Longs) -> None:
        records = partition_records(chunk)
        # Where nobody asks for partitions, only the others.
        others = all_but(records.at, len(chunk) + 1)
        if self._reads_partitions:
            self._partitions.begin(records)
        at = 0
        while True:
            if self._reads_partitions:
                at = self._partitions.apply(at, collect=self._collects_partitions)
            else:
                at = int(others[np.searchsorted(others, at)])
            if at == len(chunk):
                return
            try:
                if at in chunk.keys:
                    self._apply_control(at)
                    at += 1
                else:
                    at = self._apply_value(at, ends)
            except (MisfitError, UnknownPartitionError) as error:
                if not self._lenient:
                    raise DamagedRecordError(
                        f"the record at {self._place(at)} does not fit those before: {error}"
                    ) from error
                at += 1
            except ValueError as error:
                # RecordDecodeError and SchemaError are ValueErrors.
                raise DamagedRecordError(f"the record at {self._place(at)}: {error}") from error

    def _place(self, at: int) -> str:
        return f"offset {self._changed.places.offsets[at]}"

    def _apply_value(self, at: int, ends: Longs) -> int:
        """Apply the record at place `at`, or make it one that `PartitionTable.apply` takes. Return the next
        place."""
        value = self._chunk.value(at)
        try:
            record = decode(value)
        except RecordDecodeError as error:
            if error.__cause__ is not None:
                raise
            self._pass_over(at, value)
            return at + 1
        match record:
            case Partition() | PartitionChange():
                if not self._reads_partitions:
                    return at + 1
                self._partitions.learn(at, record)
                return at
            case BeginTransaction():
                return self._begin(at, ends)
            case EndTransaction() | AbortTransaction():
                if not self._in_transaction:
                    raise MisfitError(f"{type(record).__name__}, and no transaction is open")
                self._in_transaction = False
            case _:
                self._apply(at, record)
        return at + 1

    def _begin(self, at: int, ends: Longs) -> int:
        if self._in_transaction:
            raise MisfitError("a transaction begins within another")
        ends = ends[np.searchsorted(ends, at) :]
        if not len(ends):
            self._hold(at)
            return len(self._chunk)
        end = int(ends[0])
        if self._chunk.words()[end] & 0xFFFFFF == _ENDS[1]:
            self._apply_controls(at, end)
            return end + 1
        self._in_transaction = True
        return at + 1

    def _hold(self, start: int) -> None:
        """Hold back the records from place `start` on, but for Raft's own."""
        self._apply_controls(start, len(self._chunk))
        self._held.append(self._chunk.take(np.arange(start, len(self._chunk))).without_control())

    def _apply_controls(self, start: int, end: int) -> None:
        for at in self._chunk.keys:
            if start <= at < end:
                self._apply_control(at)

    def _pass_over(self, at: int, value: bytes) -> None:
        if not self._mark_unknown:
            raise later_version(int(self._changed.places.offsets[at]), value)
        self._changed.unknown.append(at)

    # Single records

    def _apply_control(self, at: int) -> None:
        try:
            name, record = control_of(self._chunk.control(at))
        except ValueError as error:
            raise DamagedRecordError(f"the record at {self._place(at)}: {error}") from error
        quorum = self._quorum
        match record:
            case LeaderChange():
                after = quorum.led(record, int(self._changed.places.epochs[at]))
            case VoterSet():
                after = quorum.with_voters(record)
            case KRaftVersion(version):
                after = QuorumState(
                    leader=quorum.leader,
                    leader_epoch=quorum.leader_epoch,
                    kraft_version=version,
                    voters=quorum.voters,
                )
            case _:
                return
        if self._collects:
            self._changed.types[at] = name
        self._note(at, Entity.QUORUM, None if quorum == NO_QUORUM else quorum, after)
        self._quorum = after

    def _apply(self, at: int, record: Record) -> None:
        if self._collects:
            self._changed.types[at] = type(record).__name__
        match record:
            case Topic():
                self._create_topic(at, record)
            case ShrinkTopic() | RemoveTopic():
                self._remove_partitions(at, record)
            case RegisterBroker():
                self._set_broker(at, record.broker_id, BrokerState.of(record))
            case BrokerRegistrationChange():
                self._change_broker(at, record)
            case UnregisterBroker(broker_id=broker_id, broker_epoch=epoch):
                self._registered(broker_id, epoch)
                self._set_broker(at, broker_id, None)
            case Config():
                self._configure(at, record)
            case FeatureLevel():
                level = record if record.level and record.name != KRAFT_VERSION else None
                self._put(at, Entity.FEATURE, self._features, record.name, level)
            case ClientQuota():
                quota = record if record.value is not None else None
                self._put(at, Entity.QUOTA, self._quotas, (record.entity, record.key), quota)
            case ProducerIds() | NoOp():
                pass
            case AccessControlEntry() | RemoveAccessControlEntry():
                pass
            case UserScramCredential() | RemoveUserScramCredential():
                pass
            case _:
                raise MisfitError(f"a {type(record).__name__} in this place")

    def _create_topic(self, at: int, record: Topic) -> None:
        if record.topic_id in self._topics:
            raise MisfitError(f"topic {record.name} is there already")
        self._topics[record.topic_id] = TopicState(
            name=record.name, topic_id=record.topic_id, first_epochs=record.first_epochs
        )
        self._partitions.create_topic(record.name, record.topic_id)
        self._note(at, Entity.TOPIC, None, record)

    def _remove_partitions(self, at: int, record: ShrinkTopic | RemoveTopic) -> None:
        topic_id = record.topic_id
        before = self._topics.pop(topic_id, None)
        if before is None:
            raise MisfitError(f"topic {uuid_text(topic_id)} is not there")
        left = record.num_partitions if isinstance(record, ShrinkTopic) else 0
        removed = self._partitions.remove(
            at, topic_id, left=left, first_row=2, collect=self._collects_partitions
        )
        if left:
            # Where nobody asks for partitions or topics, none was read.
            after = self._topics[topic_id] = before.shrunk(removed, left=left) if removed else before
            self._note(at, Entity.TOPIC, before.record, after.record)
            return
        self._note(at, Entity.TOPIC, before.record, None)
        for config in self._configs.pop(ConfigResource(ConfigType.TOPIC, before.name), {}).values():
            self._note(at, Entity.CONFIG, config, None)

    def _change_broker(self, at: int, record: BrokerRegistrationChange) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        if record.reason is not None:
            self._changed.reasons[at] = record.reason.name
        if record.last_heard_ms is not None:
            self._changed.last_heard_ms[at] = record.last_heard_ms
        self._set_broker(at, record.broker_id, broker.changed(record))

    def _set_broker(self, at: int, broker_id: int, after: BrokerState | None) -> None:
        before = self._brokers.pop(broker_id, None)
        if after is not None:
            self._brokers[broker_id] = after
        self._note(
            at,
            Entity.BROKER,
            None if before is None else before.record,
            None if after is None else after.record,
        )
        self._partitions.set_broker(at, broker_id, after, first_row=2, collect=self._collects_partitions)

    def _registered(self, broker_id: int, epoch: int) -> BrokerState:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            held = "not registered" if broker is None else f"registered with epoch {broker.epoch}"
            raise MisfitError(f"a change for broker {broker_id} of epoch {epoch}, which is {held}")
        return broker

    def _configure(self, at: int, record: Config) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        held = self._configs.setdefault(resource, {})
        self._put(at, Entity.CONFIG, held, record.name, None if record.value is None else record)
        if not held:
            del self._configs[resource]

    def _put(self, at: int, entity: Entity, held: dict[K, R], key: K, after: R | None) -> None:
        before = held.pop(key, None)
        if after is not None:
            held[key] = after
        self._note(at, entity, before, after)

    def _note(
        self, at: int, entity: Entity, before: "DataclassInstance | None", after: "DataclassInstance | None"
    ) -> None:
        """Note a change for its rows, if it is one."""
        if not self._collects or entity not in self._entities or before == after:
            return
        rows = self._changed.entities
        first_row = rows[-1].first_row + 1 if rows and rows[-1].at == at else 0
        rows.append(EntityRow(at, first_row, entity, before, after))

    @property
    def _collects_partitions(self) -> bool:
        return self._collects and Entity.PARTITION in self._entities

    # Reading

    def records(self, entity: Entity) -> Sequence["DataclassInstance"]:
        """Return the state of every thing of this kind, but for partitions."""
        match entity:
            case Entity.TOPIC:
                return [each.record for each in self._topics.values()]
            case Entity.BROKER:
                return [each.record for each in self._brokers.values()]
            case Entity.CONFIG:
                return [config for held in self._configs.values() for config in held.values()]
            case Entity.QUOTA:
                return [*self._quotas.values()]
            case Entity.FEATURE:
                return [*self._features.values()]
            case Entity.QUORUM:
                return [] if self._quorum == NO_QUORUM else [self._quorum]
            case Entity.PARTITION:
                raise ValueError("partitions are a table of their own")
        assert_never(entity)

    @property
    def partitions(self) -> PartitionTable:
        """The partitions, for their columns."""
        return self._partitions


def _nothing(_name: str, _topic_id: UUID, _number: int) -> bool:
    return False


_NO_PLACES: Final = places_of_batch(0, offset=0, epoch=0, timestamp_ms=0)


def _ends_in(chunk: Chunk) -> Longs:
    """The places of the records that end a transaction."""
    heads = chunk.words() & 0xFFFFFF
    ends = (heads == _ENDS[0]) | (heads == _ENDS[1])
    ends[list(chunk.keys)] = False
    return np.flatnonzero(ends)
