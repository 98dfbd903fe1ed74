"""`view=partitions`: the history of every partition's leader, ISR and replicas, one row per change."""

from collections.abc import Iterable
from typing import ClassVar
from uuid import UUID

from pyspark.sql.types import StructType

from quorate.broker.metadata.metadata_records import (
    Partition,
    PartitionChange,
    RemoveTopic,
    ShrinkTopic,
    Topic,
)
from quorate.broker.metadata.states import PartitionState, changed, placed
from quorate.history import Entry
from quorate.runtime import uuid_text
from quorate.spark_source.views.typed_view import BOUNDS, TypedView
from quorate.spark_source.views.view import (
    BOOLEAN,
    INTEGER,
    INTEGERS,
    PARTITION,
    PARTITION_CHANGE,
    REMOVE_TOPIC,
    SHRINK_TOPIC,
    TEXT,
    TOPIC,
    Row,
    TopicNames,
    common,
    said,
    schema,
)

_KINDS = BOUNDS | {TOPIC, SHRINK_TOPIC, REMOVE_TOPIC, PARTITION, PARTITION_CHANGE}


class PartitionsView(TypedView):
    """`change`: created, changed or removed (with the state it had). Each row holds the partition's whole
    state from its `timestamp` on; `elected` says that the change named a leader, even the same one. `elr` and
    `last_known_elr` list replicas that may lead where none in sync can (KIP-966). `reason`: why it changed,
    as `BROKER_FENCED`; null where it was created or removed, and in records of versions that did not say.

    Where the log no longer has a partition's beginning, what only that would say is null.
    """

    schema: ClassVar[StructType] = schema(
        ("change", TEXT),
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INTEGER),
        ("leader", INTEGER),
        ("leader_epoch", INTEGER),
        ("partition_epoch", INTEGER),
        ("isr", INTEGERS),
        ("replicas", INTEGERS),
        ("elected", BOOLEAN),
        ("elr", INTEGERS),
        ("last_known_elr", INTEGERS),
        ("reason", TEXT),
    )
    remembers: ClassVar[frozenset[int]] = _KINDS
    wants: ClassVar[frozenset[int] | None] = _KINDS

    def __init__(self) -> None:
        super().__init__()
        self._names = TopicNames()
        self._topics: dict[UUID, dict[int, PartitionState]] = {}

    def rows_of(self, entry: Entry) -> Iterable[Row]:
        match entry.record:
            case Topic() as record:
                self._names.created(record)
            case Partition(topic_id=topic_id, partition_id=number) as record:
                state = self._topics.setdefault(topic_id, {})[number] = placed(record)
                name = self._names.of(topic_id)
                yield _row(entry, "created", name, topic_id, number, state, elected=True)
            case PartitionChange(topic_id=topic_id, partition_id=number) as change:
                yield self._changed(entry, topic_id, number, change)
            case ShrinkTopic(topic_id=topic_id, num_partitions=left):
                name, states = self._names.of(topic_id), self._topics.get(topic_id, {})
                for number in sorted(each for each in states if each >= left):
                    yield _row(entry, "removed", name, topic_id, number, states.pop(number), elected=False)
            case RemoveTopic(topic_id=topic_id):
                name = self._names.removed(topic_id)
                for number, state in sorted(self._topics.pop(topic_id, {}).items()):
                    yield _row(entry, "removed", name, topic_id, number, state, elected=False)

    def _changed(self, entry: Entry, topic_id: UUID, number: int, change: PartitionChange) -> Row:
        name = self._names.of(topic_id)
        elected = change.leader is not None
        before = self._topics.get(topic_id, {}).get(number)
        if before is None:
            isr, replicas = _listed(change.isr), _listed(change.replicas)
            elr, last_known = _listed(change.eligible_leader_replicas), _listed(change.last_known_elr)
            known = (change.leader, None, None, isr, replicas, elected, elr, last_known, said(change))
            return (*common(entry), "changed", name, uuid_text(topic_id), number, *known)
        state = self._topics[topic_id][number] = changed(before, change)
        return _row(entry, "changed", name, topic_id, number, state, elected=elected, reason=said(change))


def _listed(brokers: tuple[int, ...] | None) -> list[int] | None:
    return None if brokers is None else list(brokers)


def _row(
    entry: Entry,
    change: str,
    topic: str | None,
    topic_id: UUID,
    partition: int,
    state: PartitionState,
    *,
    elected: bool,
    reason: str | None = None,
) -> Row:
    return (
        *common(entry),
        change,
        topic,
        uuid_text(topic_id),
        partition,
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        list(state.isr),
        list(state.replicas),
        elected,
        list(state.eligible.elr),
        list(state.eligible.last_known),
        reason,
    )
