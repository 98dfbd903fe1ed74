"""All partitions, and what happens to them as columns.

Partitions are much alike: a cluster of two million has some thousand different lists of replicas, and the
same few things happen to all. So a partition is two epochs and the number of its *shape*, which is everything
else that its record says. What a record says is a number too (`partition_records`), and what it makes of a
shape is found out once, by the functions that the nodes use (`states`), and remembered. A handful of look-ups
is left to do for a record. The columns of rows are taken from those of the few shapes that the rows have.
"""

import uuid
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa

from quorate.broker.metadata.metadata_records import MIGRATING, Partition, PartitionChange
from quorate.broker.metadata.partition_runs import partition_record
from quorate.broker.metadata.record_codec import RecordDecodeError, decode, encode
from quorate.broker.metadata.states import BrokerState, PartitionState, changed, placed
from quorate.runtime import uuid_text
from quorate.spark_source.chunks import Longs
from quorate.spark_source.columns import columns, fields_of, list_of
from quorate.spark_source.partition_records import PartitionRecords, numbered, said_in
from quorate.types import Epoch

Wanted = Callable[[str, uuid.UUID, int], bool]
"""Whether the partition of this number is asked for, of the topic of this name and id."""

_OWN: Final = ("topic_id", "partition_id", "leader_epoch", "partition_epoch")
"""The fields of a record that are no part of a shape."""
_SHAPE_FIELDS: Final = tuple(fields_of(Partition, without=_OWN))
_BROKERS: Final = list_of(pa.int32())
PARTITION_FIELDS: Final = (
    pa.field("topic", pa.string()),
    *fields_of(Partition),
    pa.field("offline_replicas", _BROKERS),
)
"""The columns of a partition: those of its record, the topic's name, and the replicas whose broker is fenced
or not registered, or whose directory is not online."""

_UNWANTED: Final = -2
_NONE: Final = -1
_KNOWN_MAX: Final = 1 << 17
"""The number of shapes and of changes that are remembered."""
_NO_KEYS: Final = array("i")
_PLACES: Final = 2
_ANY_ID: Final = uuid.UUID(int=0)


class UnknownPartitionError(ValueError):
    """A record names a partition or a topic that is not there."""


@dataclass(slots=True)
class _Topic:
    number: int
    keys: "array[int]" = field(default_factory=lambda: array("i"))
    """The index of each partition, by its number in the topic. Empty once the topic is gone."""


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """What happened to partitions: the record at place `at` made shape `after` of shape `before`. -1: the
    partition was not there. The epochs are those before, or of a partition that is new."""

    at: Longs
    key: Longs
    before: Longs
    after: Longs
    leader_epoch: Longs
    partition_epoch: Longs
    change: Longs
    """The number of the PartitionChange. -1: another record."""
    first_row: Longs
    """The number of rows that the record made for other entities."""
    offline_before: Longs
    offline_after: Longs

    def __len__(self) -> int:
        return len(self.at)

    def part(self, start: int, end: int) -> "PartitionRows":
        """Return those in [start, end)."""
        return PartitionRows(*(getattr(self, each.name)[start:end] for each in fields(self)))


@dataclass(frozen=True, slots=True)
class ShownPartitions:
    """Rows of partitions in columns: one for each before, and one for each after."""

    at: Longs
    """The place of the record."""
    row: Longs
    """The place of the row among those that its record made for this partition and for other entities."""
    is_before: Longs
    """1 for a row of what was before."""
    has_other: Longs
    """1 where the partition was there before and after."""
    change: Longs
    columns: list[pa.Array]
    """Those of `PARTITION_FIELDS`."""


def _longs() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class _Collected:
    """Rows of one time between two changes of brokers."""

    at: "array[int]" = field(default_factory=_longs)
    key: "array[int]" = field(default_factory=_longs)
    before: "array[int]" = field(default_factory=_longs)
    after: "array[int]" = field(default_factory=_longs)
    leader_epoch: "array[int]" = field(default_factory=_longs)
    partition_epoch: "array[int]" = field(default_factory=_longs)
    change: "array[int]" = field(default_factory=_longs)
    first_row: dict[int, int] = field(default_factory=dict)
    """By the place among them, where it is not 0."""


@dataclass(slots=True)
class _Stretch:
    """The records of partitions in a chunk, by their places in it."""

    topics: list[int]
    numbers: list[int]
    said: list[int]
    """-1 for any other record."""
    topic_ids: list[uuid.UUID]
    keys: "list[array[int]]"
    """Those of each topic, as far as they were looked up."""


class PartitionTable:
    """The partitions of every topic. `wanted` limits it to some, and records of others are read over."""

    def __init__(self, wanted: Wanted | None = None) -> None:
        self._wanted = wanted
        self._brokers: Mapping[int, BrokerState] = {}
        self._topics: dict[uuid.UUID, _Topic] = {}
        self._topic_names: list[str] = []
        self._topic_ids: list[uuid.UUID] = []
        self._topic_texts: list[str] = []
        """The ids, as rows have them."""
        self._topic_of = array("i")
        self._number_of = array("i")
        self._shape_of = array("i")
        self._leader_epochs = array("i")
        self._partition_epochs = array("i")
        self._removed: list[int] = []
        """Indexes of partitions that are gone, and that rows may still name."""
        self._free: list[int] = []
        self._removed_topics: list[int] = []
        self._free_topics: list[int] = []
        """As those, numbers of topics."""
        self._shapes: list[PartitionState] = []
        """With epochs of 0."""
        self._shape_numbers: dict[PartitionState, int] = {}
        self._shape_columns: list[pa.Array] = columns([], _SHAPE_FIELDS)
        """Those of the first shapes, as many as were shown."""
        self._said: list[Partition | PartitionChange] = []
        """What records say. What they name is of no meaning here."""
        self._said_numbers: dict[bytes, int] = {}
        self._elections: list[int] = []
        """1 for a change that names a leader, 2 for a Partition record, else 0, by the number of what is
        said."""
        self._afters: dict[int, int] = {}
        """The shape that something said makes of another, or of none, by the numbers of both."""
        self._offline: list[list[int]] = [[]]
        self._offline_numbers: dict[tuple[int, ...], int] = {(): 0}
        self._offline_of: dict[int, int] = {}
        """The number of the list of offline replicas, by shape, with the brokers as they are."""
        self._collected = _Collected()
        self._blocks: list[PartitionRows] = []
        self._stretch = _Stretch([], [], [], [], [])

    # Records of partitions

    def begin(self, records: PartitionRecords) -> None:
        """Begin with the records of a chunk, which `apply` applies."""
        known = np.array([self._said_at(records, each) for each in range(len(records.examples))], np.int64)
        columns = np.full((3, len(records.chunk)), _NONE)
        columns[:, records.at] = (
            records.topics,
            records.numbers,
            known[records.said] if len(known) else records.said,
        )
        keys = [_NO_KEYS] * len(records.topic_ids)
        topics, numbers, said = columns.tolist()
        self._stretch = _Stretch(topics, numbers, said, records.topic_ids.copy(), keys)

    def _said_at(self, records: PartitionRecords, said: int) -> int:
        encoded = records.said_bytes(said)
        number = self._said_numbers.get(encoded)
        if number is not None:
            return number
        try:
            record = decode(records.chunk.value(records.examples[said]))
        except RecordDecodeError:
            # Its error is that of the record, once it is its turn.
            return _NONE
        return self._learn(encoded, record) if isinstance(record, Partition | PartitionChange) else _NONE

    def apply(self, start: int, *, collect: bool) -> int:
        """Apply the records of the chunk from place `start` on, as long as they are of partitions and fit.
        Return the place of the first that is not, or does not."""
        rows = self._collected
        at, key, before, after = rows.at.append, rows.key.append, rows.before.append, rows.after.append
        old_leader_epoch, old_partition_epoch = rows.leader_epoch.append, rows.partition_epoch.append
        changed_by = rows.change.append
        stretch = self._stretch
        topics, numbers, all_said, keys_of = stretch.topics, stretch.numbers, stretch.said, stretch.keys
        shapes, leader_epochs, partition_epochs = (
            self._shape_of,
            self._leader_epochs,
            self._partition_epochs,
        )
        elections, find_after = self._elections, self._afters.get
        for place in range(start, len(all_said)):
            said = all_said[place]
            if said < 0:
                return place
            election, number, keys = elections[said], numbers[place], keys_of[topics[place]]
            if number >= len(keys):
                topic = self._topics.get(stretch.topic_ids[topics[place]])
                if topic is None or (
                    number > len(topic.keys) if election == _PLACES else number >= len(topic.keys)
                ):
                    return place
                keys = keys_of[topics[place]] = topic.keys
                if election == _PLACES:
                    self._add(place, topic, said, collect=collect)
                    continue
            elif election == _PLACES:
                return place
            index = keys[number]
            old = shapes[index]
            if old == _UNWANTED:
                # A topic that is shrunk remembers the highest.
                leader_epochs[index] += election
                continue
            new = find_after(old << 32 | said)
            if new is None:
                new = self._after(old, said)
            leader_epoch, partition_epoch = leader_epochs[index], partition_epochs[index]
            shapes[index] = new
            leader_epochs[index] = leader_epoch + election
            partition_epochs[index] = partition_epoch + 1
            if collect:
                at(place)
                key(index)
                before(old)
                after(new)
                old_leader_epoch(leader_epoch)
                old_partition_epoch(partition_epoch)
                changed_by(said)
        return len(all_said)

    def learn(self, at: int, record: Partition | PartitionChange) -> None:
        """Make the record at place `at` one that `apply` applies. It names the partition otherwise than the
        nodes write it, or does not fit. Raises `UnknownPartitionError`."""
        topic = self._topics.get(record.topic_id)
        held = 0 if topic is None else len(topic.keys)
        place = f"partition {record.partition_id} of topic {uuid_text(record.topic_id)}"
        if isinstance(record, Partition) and (topic is None or record.partition_id != held):
            raise UnknownPartitionError(
                f"it is of {place}, where "
                + ("there is no such topic" if topic is None else f"{held} comes next")
            )
        if isinstance(record, PartitionChange) and record.partition_id >= held:
            raise UnknownPartitionError(f"it changes {place}, which is not there")
        stretch, encoded = self._stretch, said_in(encode(record))
        number = self._said_numbers.get(encoded)
        stretch.said[at] = self._learn(encoded, record) if number is None else number
        stretch.topics[at], stretch.numbers[at] = len(stretch.keys), record.partition_id
        stretch.topic_ids.append(record.topic_id)
        stretch.keys.append(_NO_KEYS)

    def _learn(self, encoded: bytes, record: Partition | PartitionChange) -> int:
        number = self._said_numbers[encoded] = len(self._said)
        self._said.append(record)
        placed = isinstance(record, Partition)
        self._elections.append(_PLACES if placed else int(record.leader is not None))
        return number

    def _add(self, at: int, topic: _Topic, said: int, *, collect: bool) -> None:
        """Add the next partition of a topic."""
        record, number = self._said[said], len(topic.keys)
        if not isinstance(record, Partition):
            raise TypeError(f"a {type(record).__name__} adds no partition")
        name, topic_id = self._topic_names[topic.number], self._topic_ids[topic.number]
        wanted = self._wanted is None or self._wanted(name, topic_id, number)
        shape = _UNWANTED
        if wanted:
            known = self._afters.get(_NONE << 32 | said)
            shape = self._after(_NONE, said) if known is None else known
        index = self._free.pop() if self._free else len(self._shape_of)
        for values, value in (
            (self._topic_of, topic.number),
            (self._number_of, number),
            (self._shape_of, shape),
            (self._leader_epochs, record.leader_epoch),
            (self._partition_epochs, record.partition_epoch),
        ):
            values[index : index + 1] = array("i", (value,))
        topic.keys.append(index)
        if wanted and collect:
            self._collect(at, index, before=_NONE, after=shape)

    def create_topic(self, name: str, topic_id: uuid.UUID) -> None:
        """A topic without partitions."""
        number = self._free_topics.pop() if self._free_topics else len(self._topic_names)
        self._topics[topic_id] = _Topic(number)
        self._topic_names[number : number + 1] = [name]
        self._topic_ids[number : number + 1] = [topic_id]
        self._topic_texts[number : number + 1] = [uuid_text(topic_id)]

    def remove(
        self, at: int, topic_id: uuid.UUID, *, left: int, first_row: int, collect: bool
    ) -> list[PartitionState]:
        """Remove a topic's partitions but for the first `left`, and return the removed in order. `first_row`:
        the number of rows that the record makes for other entities. Raises `UnknownPartitionError`."""
        topic = self._topics.get(topic_id)
        if topic is None:
            raise UnknownPartitionError(f"it is of topic {uuid_text(topic_id)}, which is not there")
        states = []
        for index in topic.keys[left:]:
            states.append(self._state(index))
            if collect and self._shape_of[index] != _UNWANTED:
                self._collect(at, index, before=self._shape_of[index], after=_NONE, first_row=first_row)
            self._shape_of[index] = _NONE
            self._removed.append(index)
        del topic.keys[left:]
        if not left:
            del self._topics[topic_id]
            self._removed_topics.append(topic.number)
        return states

    def set_broker(
        self, at: int, broker_id: int, broker: BrokerState | None, *, first_row: int, collect: bool
    ) -> None:
        """Take notice of a broker's registration. None: it has none any more. Partitions that have other
        offline replicas by it make rows."""
        old = self._brokers.get(broker_id)
        brokers = {each: state for each, state in self._brokers.items() if each != broker_id}
        if broker is not None:
            brokers[broker_id] = broker
        if _serves_alike(old, broker):
            self._brokers = brokers
            return
        self._seal()
        concerned = self._shapes_with(broker_id, old, broker)
        if not concerned or not collect:
            self._brokers = brokers
            self._forget_offline(concerned)
            return
        shape_of = np.frombuffer(self._shape_of, np.int32)
        keys = np.flatnonzero(np.isin(shape_of, concerned)).astype(np.int64)
        shapes = shape_of[keys].astype(np.int64)
        del shape_of  # An array that is looked at can't grow.
        before = self._offline_numbers_of(shapes)
        self._brokers = brokers
        self._forget_offline(concerned)
        count = len(keys)
        self._blocks.append(
            PartitionRows(
                at=np.full(count, at),
                key=keys,
                before=shapes,
                after=shapes,
                leader_epoch=_taken(self._leader_epochs, keys),
                partition_epoch=_taken(self._partition_epochs, keys),
                change=np.full(count, _NONE),
                first_row=np.full(count, first_row),
                offline_before=before,
                offline_after=self._offline_numbers_of(shapes),
            )
        )

    def _forget_offline(self, shapes: Iterable[int]) -> None:
        for each in shapes:
            self._offline_of.pop(each, None)

    # Reading

    def take_rows(self) -> PartitionRows | None:
        """Return what was collected since the last time. None: nothing."""
        self._seal()
        blocks, self._blocks = self._blocks, []
        if not blocks:
            return None
        return PartitionRows(
            *(
                np.concatenate([getattr(block, each.name) for block in blocks])
                for each in fields(PartitionRows)
            )
        )

    def shown(self, rows: PartitionRows) -> ShownPartitions:
        """Return the columns of these rows."""
        was, is_ = (rows.before >= 0).astype(np.int64), (rows.after >= 0).astype(np.int64)
        entry = np.repeat(np.arange(len(rows)), was + is_)
        first = np.cumsum(was + is_) - was - is_
        is_new = np.arange(len(entry)) - first[entry] + 1 - was[entry]
        change = rows.change[entry]
        by_change = is_new * (change >= 0)
        elections = np.array([*self._elections, 0], np.int64)
        updated = (was & is_)[entry]
        return ShownPartitions(
            at=rows.at[entry],
            row=rows.first_row[entry] + is_new * updated,
            is_before=1 - is_new,
            has_other=updated,
            change=change,
            columns=self._columns(
                rows.key[entry],
                np.where(is_new == 1, rows.after[entry], rows.before[entry]),
                leader_epochs=rows.leader_epoch[entry] + by_change * elections[change],
                partition_epochs=rows.partition_epoch[entry] + by_change,
                offline=np.where(is_new == 1, rows.offline_after[entry], rows.offline_before[entry]),
            ),
        )

    def reasons(self, changes: Longs) -> pa.Array:
        """Return the reason that each of these changes names. Null for -1."""
        different, places = numbered(changes + 1)
        reasons = [None if each == 0 else self._reason(each - 1) for each in different.tolist()]
        return pa.array(reasons, pa.string()).take(pa.array(places))

    def _reason(self, change: int) -> str | None:
        record = self._said[change]
        return record.reason.name if isinstance(record, PartitionChange) and record.reason else None

    def live(self) -> Longs:
        """Return the indexes of the wanted partitions that are there."""
        return np.flatnonzero(np.frombuffer(self._shape_of, np.int32) >= 0).astype(np.int64)

    def state_columns(self, keys: Longs) -> list[pa.Array]:
        """Return the columns of these partitions as they are."""
        shapes = _taken(self._shape_of, keys)
        return self._columns(
            keys,
            shapes,
            leader_epochs=_taken(self._leader_epochs, keys),
            partition_epochs=_taken(self._partition_epochs, keys),
            offline=self._offline_numbers_of(shapes),
        )

    def tidy(self) -> None:
        """Forget what no partition has any more. Rows that were taken before can't be shown afterwards."""
        self._free += self._removed
        self._removed.clear()
        self._free_topics += self._removed_topics
        self._removed_topics.clear()
        if len(self._said) > _KNOWN_MAX:
            self._said.clear()
            self._elections.clear()
            self._said_numbers.clear()
            self._afters.clear()
        if len(self._offline) > _KNOWN_MAX:
            self._offline[1:] = []
            self._offline_numbers = {(): 0}
            self._offline_of.clear()
        if len(self._afters) > _KNOWN_MAX:
            self._afters.clear()
        if len(self._shapes) > _KNOWN_MAX:
            self._drop_shapes()

    # Within

    def _drop_shapes(self) -> None:
        """Drop those that no partition has any more."""
        shape_of = np.frombuffer(self._shape_of, np.int32)
        used = np.unique(shape_of[shape_of >= 0])
        numbers = np.full(len(self._shapes), _NONE, np.int32)
        numbers[used] = np.arange(len(used), dtype=np.int32)
        kept = np.where(shape_of >= 0, numbers[shape_of], shape_of).astype(np.int32)
        del shape_of
        self._shape_of = array("i", kept.tobytes())
        self._shapes = [self._shapes[each] for each in used]
        self._shape_numbers = {shape: number for number, shape in enumerate(self._shapes)}
        self._shape_columns = columns([], _SHAPE_FIELDS)
        self._afters.clear()
        self._offline_of.clear()

    def _collect(self, at: int, index: int, *, before: int, after: int, first_row: int = 0) -> None:
        rows = self._collected
        if first_row:
            rows.first_row[len(rows.at)] = first_row
        rows.at.append(at)
        rows.key.append(index)
        rows.before.append(before)
        rows.after.append(after)
        rows.leader_epoch.append(self._leader_epochs[index])
        rows.partition_epoch.append(self._partition_epochs[index])
        rows.change.append(_NONE)

    def _seal(self) -> None:
        """Make a block of the collected rows: the offline replicas of later ones are others."""
        rows = self._collected
        if not rows.at:
            return
        first_row = np.zeros(len(rows.at), np.int64)
        for place, number in rows.first_row.items():
            first_row[place] = number
        before, after = _viewed(rows.before), _viewed(rows.after)
        self._blocks.append(
            PartitionRows(
                at=_viewed(rows.at),
                key=_viewed(rows.key),
                before=before,
                after=after,
                leader_epoch=_viewed(rows.leader_epoch),
                partition_epoch=_viewed(rows.partition_epoch),
                change=_viewed(rows.change),
                first_row=first_row,
                offline_before=self._offline_numbers_of(before),
                offline_after=self._offline_numbers_of(after),
            )
        )
        self._collected = _Collected()

    def _after(self, shape: int, said: int) -> int:
        """The shape that something said makes of another, or of none."""
        record = self._said[said]
        after = (
            changed(self._shapes[shape], record) if isinstance(record, PartitionChange) else placed(record)
        )
        number = self._afters[shape << 32 | said] = self._shape_number(after)
        return number

    def _shape_number(self, state: PartitionState) -> int:
        shape = state._replace(leader_epoch=Epoch(0), partition_epoch=0)
        number = self._shape_numbers.get(shape)
        if number is None:
            number = self._shape_numbers[shape] = len(self._shapes)
            self._shapes.append(shape)
        return number

    def _state(self, index: int) -> PartitionState:
        """The partition at `index`. Of one that isn't wanted only the epochs are known."""
        shape = self._shape_of[index]
        return (self._shapes[shape] if shape >= 0 else _UNKNOWN)._replace(
            leader_epoch=Epoch(self._leader_epochs[index]), partition_epoch=self._partition_epochs[index]
        )

    def _shapes_with(self, broker_id: int, old: BrokerState | None, new: BrokerState | None) -> list[int]:
        """The shapes with a replica on this broker that is offline before or after, and not both."""
        return [
            number
            for number, shape in enumerate(self._shapes)
            if broker_id in shape.replicas
            and _is_offline(old, directory := shape.directory_of(broker_id)) != _is_offline(new, directory)
        ]

    def _offline_numbers_of(self, shapes: Longs) -> Longs:
        different, places = numbered(shapes + 1)
        known = self._offline_of
        numbers = []
        for each in (different - 1).tolist():
            number = known.get(each)
            if number is None:
                number = known[each] = self._offline_number(self._shapes[each]) if each >= 0 else 0
            numbers.append(number)
        return np.array(numbers, np.int64)[places]

    def _offline_number(self, shape: PartitionState) -> int:
        brokers = self._brokers
        directories: Iterable[uuid.UUID] = shape.directories or repeat(MIGRATING)
        offline = tuple(
            each
            for each, directory in zip(shape.replicas, directories, strict=False)
            if _is_offline(brokers.get(each), directory)
        )
        number = self._offline_numbers.get(offline)
        if number is None:
            number = self._offline_numbers[offline] = len(self._offline)
            self._offline.append(list(offline))
        return number

    def _columns(
        self, keys: Longs, shapes: Longs, *, leader_epochs: Longs, partition_epochs: Longs, offline: Longs
    ) -> list[pa.Array]:
        topics, topic_at = numbered(_taken(self._topic_of, keys))
        names = pa.array([self._topic_names[each] for each in topics], pa.string())
        ids = pa.array([self._topic_texts[each] for each in topics], pa.string())
        if len(self._shape_columns[0]) < len(self._shapes):
            new = self._shapes[len(self._shape_columns[0]) :]
            more = columns([partition_record(_ANY_ID, 0, each) for each in new], _SHAPE_FIELDS)
            self._shape_columns = [
                pa.concat_arrays(parts) for parts in zip(self._shape_columns, more, strict=True)
            ]
        shape_at = pa.array(shapes)
        lists, list_at = numbered(offline)
        by_name = {
            "topic": names.take(pa.array(topic_at)),
            "topic_id": ids.take(pa.array(topic_at)),
            "partition_id": pa.array(_taken(self._number_of, keys).astype(np.int32)),
            "leader_epoch": pa.array(leader_epochs.astype(np.int32)),
            "partition_epoch": pa.array(partition_epochs.astype(np.int32)),
            "offline_replicas": pa.array([self._offline[each] for each in lists], _BROKERS).take(
                pa.array(list_at)
            ),
            **{
                each.name: column.take(shape_at)
                for each, column in zip(_SHAPE_FIELDS, self._shape_columns, strict=True)
            },
        }
        return [by_name[each.name] for each in PARTITION_FIELDS]


_UNKNOWN: Final = placed(Partition(topic_id=_ANY_ID, partition_id=0, replicas=(), isr=()))


def _viewed(values: "array[int]") -> Longs:
    return np.frombuffer(values, np.int64)


def _taken(values: "array[int]", keys: Longs) -> Longs:
    return np.frombuffer(values, np.int32)[keys].astype(np.int64)


def _is_offline(broker: BrokerState | None, directory: uuid.UUID) -> bool:
    return broker is None or broker.fenced or not broker.has_online(directory)


def _serves_alike(one: BrokerState | None, other: BrokerState | None) -> bool:
    """True if a replica on the broker is offline in both of its states or in none."""
    if one is None or other is None:
        return (one is None or one.fenced) and (other is None or other.fenced)
    return one.fenced == other.fenced and (one.fenced or one.log_dirs == other.log_dirs)
