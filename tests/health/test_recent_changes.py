"""The end of the log says when and why, back to a day as long as there is time, and then goes on."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

import pytest

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    ChangeReason,
    Partition,
    PartitionChange,
    Record,
    RegisterBroker,
    Topic,
)
from quorate.broker.metadata.record_codec import encode
from quorate.health import RecentChangesReader, observing
from quorate.health.observation import Place, RecentChanges
from quorate.history import Extent, MetadataHistory, StoredSnapshot
from quorate.history.slabs import Slab, whole_batches
from quorate.log.batches.control import leader_change_batch
from quorate.log.batches.records import build_batch
from quorate.log.snapshots.snapshot_file import SnapshotReader
from quorate.quorum_state import SkippedBatches
from quorate.types import SnapshotId

NOW: Final = 1_800_000_000_000
HOUR: Final = 3_600_000
ORDERS: Final = uuid.UUID(int=7)


@dataclass
class WrittenHistory(MetadataHistory):
    """A log in memory, a record a batch."""

    written: list[tuple[int, bytes]] = field(default_factory=list)
    """The times and the batches."""
    asked: list[int] = field(default_factory=list)
    """The first offset of each read."""

    @property
    def place(self) -> str:
        return "memory"

    def write(self, ago_ms: int, record: Record) -> None:
        time_ms, offset = NOW - ago_ms, len(self.written)
        batch = build_batch(base_offset=offset, epoch=1, timestamp_ms=time_ms, values=[encode(record)])
        self.written.append((time_ms, batch))

    def elect(self, ago_ms: int) -> None:
        time_ms, offset = NOW - ago_ms, len(self.written)
        batch = leader_change_batch(
            base_offset=offset, epoch=1, timestamp_ms=time_ms, leader=1, voters=[1], granting_voters=[1]
        )
        self.written.append((time_ms, batch))

    def extent(self, *, at_least: int = 0) -> Extent:
        return Extent(cluster="c", start_offset=0, end_offset=len(self.written))

    def slabs(self, start: int, end: int) -> Iterator[Slab]:
        self.asked.append(start)
        for _, batch in self.written[start:end]:
            yield whole_batches(batch, start=start)[0]

    def snapshots(self, warn: Callable[[str], None]) -> Sequence[StoredSnapshot]:
        return ()

    def opened(self, snapshot: SnapshotId) -> AbstractContextManager[SnapshotReader]:
        raise NotImplementedError

    def skipped(self) -> SkippedBatches:
        return SkippedBatches()

    def offset_at(self, time_ms: int) -> int | None:
        return next((offset for offset, (at, _) in enumerate(self.written) if at >= time_ms), None)


def changed(isr: tuple[int, ...], reason: ChangeReason) -> PartitionChange:
    return PartitionChange(topic_id=ORDERS, partition_id=0, isr=isr, reason=reason)


def fenced(*, broker: int = 2) -> BrokerRegistrationChange:
    return BrokerRegistrationChange(
        broker_id=broker, broker_epoch=1, fenced=True, reason=ChangeReason.BROKER_GONE, last_heard_ms=NOW
    )


def story() -> tuple[WrittenHistory, MetadataImage]:
    """A log whose records are 30, 20, 3 and 1 hours old, and some minutes."""
    log, image = WrittenHistory(), MetadataImage()
    log.elect(30 * HOUR)
    log.write(20 * HOUR, RegisterBroker(broker_id=2, incarnation_id=ORDERS, broker_epoch=1))
    topic = Topic(name="orders", topic_id=ORDERS)
    made = Partition(topic_id=ORDERS, partition_id=0, replicas=(1, 2), isr=(1, 2), leader=1)
    log.write(3 * HOUR, topic)
    log.write(3 * HOUR, made)
    log.write(HOUR, changed((1,), ChangeReason.REPLICA_LAGGED))
    log.elect(120_000)
    log.write(60_000, fenced())
    for offset, record in enumerate((topic, made), start=2):
        image.apply(record, offset=offset, epoch=1)
    return log, image


def read(
    reader: RecentChangesReader,
    log: WrittenHistory,
    image: MetadataImage,
    has_time: Callable[[], bool] = lambda: True,
    now_ms: int = NOW,
) -> RecentChanges:
    return reader.read(
        log,
        image,
        end_offset=len(log.written),
        offset_at=log.offset_at,
        now_ms=now_ms,
        has_time=has_time,
    )


def test_the_changes_of_a_day_are_in_their_order_and_older_ones_are_left_out() -> None:
    log, image = story()
    found = read(RecentChangesReader(), log, image)
    assert found.since_ms == NOW - 24 * HOUR
    assert found.elections == (NOW - 120_000,)
    registered, fence = found.brokers[2]
    assert (registered.registered, registered.time_ms) == (True, NOW - 20 * HOUR)
    assert (fence.fenced, fence.reason, fence.last_heard_ms) == (True, ChangeReason.BROKER_GONE, NOW)
    made, change = found.partitions[Place("orders", 0)]
    assert (made.leader, made.isr) == (1, (1, 2))
    assert (change.isr, change.reason) == ((1,), ChangeReason.REPLICA_LAGGED)


def test_without_time_only_the_newest_are_read_and_it_says_since_when() -> None:
    log, image = story()
    left = [True, True, False]
    found = read(RecentChangesReader(), log, image, has_time=lambda: left.pop(0))
    # Two batches of the last 15 minutes, and one of two hours, which had not all.
    assert found.since_ms == NOW - 900_000
    assert [each.fenced for each in found.brokers[2]] == [True]
    assert found.partitions == {}


def test_the_next_read_goes_on_where_the_last_one_ended() -> None:
    log, image = story()
    reader = RecentChangesReader()
    read(reader, log, image)
    end = len(log.written)
    log.write(0, changed((1, 2), ChangeReason.REPLICA_CAUGHT_UP))
    log.asked.clear()
    found = read(reader, log, image)
    assert log.asked == [end]
    assert [each.isr for each in found.partitions[Place("orders", 0)]] == [(1, 2), (1,), (1, 2)]
    log.asked.clear()
    assert read(reader, log, image) == found
    assert log.asked == []


def test_changes_that_are_older_than_a_day_or_of_deleted_topics_are_forgotten_as_the_reads_go_on() -> None:
    log, image = story()
    reader = RecentChangesReader()
    read(reader, log, image)
    later = read(reader, log, image, now_ms=NOW + 23 * HOUR + 30 * 60_000)
    assert later.since_ms == NOW - 30 * 60_000
    assert later.partitions == {}
    assert [each.fenced for each in later.brokers[2]] == [True]
    assert later.elections == (NOW - 120_000,)
    assert read(reader, log, image, now_ms=NOW + 48 * HOUR).brokers == {}

    reader = RecentChangesReader()
    read(reader, log, image)
    deleted = read(reader, log, MetadataImage(), now_ms=NOW + HOUR)
    assert deleted.partitions == {}
    assert deleted.brokers != {}


def test_no_more_changes_are_kept_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "CHANGES_MAX", 20)
    log, image = story()
    reader = RecentChangesReader()
    found = read(reader, log, image)
    for ago_ms in range(1000, 0, -10):
        log.write(ago_ms, changed((1,), ChangeReason.REPLICA_LAGGED))
        found = read(reader, log, image)
        kept = found.partitions[Place("orders", 0)]
        assert len(kept) <= 20
        assert kept[-1].time_ms == NOW - ago_ms, "the newest are there"
    assert found.since_ms > NOW - 1000, "what was forgotten is said"
