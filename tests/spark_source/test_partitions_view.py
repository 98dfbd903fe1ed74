"""Rows of the partitions view, from records alone."""

import uuid

from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    ChangeReason,
    Partition,
    PartitionChange,
    Record,
    Topic,
)
from quorate.spark_source.entries import Entry
from quorate.spark_source.views.partitions_view import PartitionsView

ID = uuid.UUID(int=5)


def entry(offset: int, record: Record) -> Entry:
    return Entry(
        offset=offset,
        epoch=1,
        timestamp_ms=1000,
        batch_offset=offset,
        control=False,
        type=type(record).__name__,
        version=0,
        record=record,
        value=b"",
    )


def eligible(view: PartitionsView, offset: int, record: Record) -> tuple[object, object]:
    (row,) = view.rows(entry(offset, record))
    named = dict(zip(PartitionsView.schema.names, row, strict=True))
    return named["elr"], named["last_known_elr"]


def test_each_state_lists_its_eligible_leader_replicas() -> None:
    view = PartitionsView()
    assert list(view.rows(entry(0, Topic(name="t", topic_id=ID)))) == []
    created = Partition(
        topic_id=ID, partition_id=0, replicas=(1, 2, 3), isr=(1,), leader=1, eligible_leader_replicas=(2,)
    )
    assert eligible(view, 1, created) == ([2], [])
    unchanged = PartitionChange(topic_id=ID, partition_id=0, isr=(1,))
    assert eligible(view, 2, unchanged) == ([2], [])
    gone = PartitionChange(
        topic_id=ID,
        partition_id=0,
        isr=(),
        leader=NO_LEADER,
        eligible_leader_replicas=(),
        last_known_elr=(1,),
    )
    assert eligible(view, 3, gone) == ([], [1])


def test_without_the_beginning_of_the_log_only_changes_are_shown() -> None:
    change = PartitionChange(topic_id=ID, partition_id=0, isr=(1,))
    assert eligible(PartitionsView(), 1, change) == (None, None)
    change = PartitionChange(topic_id=ID, partition_id=0, eligible_leader_replicas=(2,))
    assert eligible(PartitionsView(), 1, change) == ([2], None)


def test_each_change_says_why() -> None:
    view = PartitionsView()
    created = Partition(topic_id=ID, partition_id=0, replicas=(1, 2), isr=(1, 2), leader=1)
    change = PartitionChange(topic_id=ID, partition_id=0, isr=(1,), reason=ChangeReason.REPLICA_LAGGED)
    of_old = PartitionChange(topic_id=ID, partition_id=0, isr=(1, 2))
    rows = [
        row for at, each in enumerate((change, created, change, of_old)) for row in view.rows(entry(at, each))
    ]
    at = PartitionsView.schema.names.index("reason")
    assert [row[at] for row in rows] == ["REPLICA_LAGGED", None, "REPLICA_LAGGED", None]
