"""The state changes of replicas over their whole life, as each broker journals its own."""

import time
import uuid

import pytest
import trio

from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.hosting.state_changes import (
    Cause,
    ChangeJournal,
    ChangeKind,
    ChangeOutcome,
    kind_of,
)
from quorate.simulation.world.simulated_disk import DiskOperation
from quorate.types import Epoch

K, O = ChangeKind, ChangeOutcome  # noqa: E741


def journaled(broker):
    journal = broker.replicas.journal
    return [*journal.ended(), *journal.pending()]


def life(broker, name="t"):
    """(what, partition, leader epoch, outcome) of the broker's changes, in order."""
    return [
        (each.kind, each.partition_id, each.leader_epoch, each.outcome)
        for each in journaled(broker)
        if each.topic == name and each.kind not in (K.UPDATE, K.DIRECTORY)
    ]


def requested(cluster):
    """The offset of the newest record."""
    return cluster.controller.image.offset


async def test_a_replica_is_started_led_followed_and_deleted_and_each_change_has_its_record(
    make_brokers, autojump_clock
):
    cluster = make_brokers()
    await cluster.start()
    cluster.controller.create()
    created = requested(cluster)
    await cluster.opened()
    assert [life(cluster[each]) for each in (1, 2, 3)] == [
        [(K.LEAD, 0, 0, O.COMPLETED)],
        [(K.FOLLOW, 0, 0, O.COMPLETED)],
        [(K.FOLLOW, 0, 0, O.COMPLETED)],
    ]
    first = journaled(cluster[1])[0]
    assert first.cause.offset == created and first.duration_s > 0, "a log is not opened in no time"

    cluster.controller.elect(2)
    elected = requested(cluster)
    await cluster.opened()
    assert [life(cluster[each])[1:] for each in (1, 2)] == [
        [(K.FOLLOW, 0, 1, O.COMPLETED)],
        [(K.LEAD, 0, 1, O.COMPLETED)],
    ]
    cluster.controller.delete()
    await cluster.until(lambda: all(life(cluster[each])[-1][0] is K.DELETE for each in (1, 2, 3)))
    await cluster.until(lambda: life(cluster[2])[-1] == (K.DELETE, 0, -1, O.COMPLETED))
    offsets = [each.cause.offset for each in journaled(cluster[2])]
    assert elected in offsets and offsets[-1] == requested(cluster)
    summary = cluster[2].manager.intake.changes
    assert (summary.pending, summary.backlog, summary.oldest_ms) == (0, 0, 0)
    assert summary.received_offset == summary.acted_offset == summary.completed_offset == requested(cluster)


async def test_a_change_waits_for_a_slow_disk_with_its_age_and_later_ones_take_its_place(
    make_brokers, autojump_clock
):
    cluster = make_brokers()
    await cluster.start()
    cluster[3].disk.stall()
    before = requested(cluster)
    cluster.controller.create(replicas=(3, 1))
    created = requested(cluster)
    await trio.sleep(7)
    waiting = cluster[3].manager.intake.changes
    assert (waiting.pending, waiting.backlog) == (1, 0)
    assert 7000 <= waiting.oldest_ms <= 7100
    assert waiting.acted_offset == requested(cluster)
    assert before <= waiting.completed_offset < created, "not beyond the record that waits"
    assert cluster[1].manager.intake.changes.pending == 0, "others don't wait for it"

    cluster.controller.elect(1)
    assert life(cluster[3]) == [(K.LEAD, 0, 0, O.SUPERSEDED), (K.FOLLOW, 0, 1, O.PENDING)]
    cluster.controller.change(isr=(1,))
    assert life(cluster[3])[-1] == (K.FOLLOW, 0, 1, O.PENDING), "the role is still to be taken"
    later = cluster[3].manager.intake.changes
    assert later.pending == 1 and later.oldest_ms >= waiting.oldest_ms
    assert later.completed_offset == waiting.completed_offset
    cluster[3].disk.release()
    await cluster.until(lambda: cluster[3].manager.intake.changes.pending == 0)
    assert life(cluster[3])[-1] == (K.FOLLOW, 0, 1, O.COMPLETED)
    assert cluster[3].manager.intake.changes.completed_offset == requested(cluster)


async def test_a_change_that_fails_says_why_and_holds_up_nothing(make_brokers, autojump_clock):
    cluster = make_brokers()
    await cluster.start()
    cluster[2].disk.fail(DiskOperation.OPEN, path_part="t-0/0000", times=100)
    cluster.controller.create(replicas=(1, 2, 3))
    await cluster.until(lambda: life(cluster[2])[-1][-1] is O.FAILED)
    change = journaled(cluster[2])[-1]
    assert change.problem is not None and "t-0" in change.problem
    summary = cluster[2].manager.intake.changes
    assert (summary.pending, summary.completed_offset) == (0, requested(cluster))
    await cluster.until(lambda: cluster[2].errors)
    cluster[2].errors.clear()  # it has no other directory


async def test_a_topic_deleted_and_created_again_in_one_batch_has_both_lives(make_cluster, autojump_clock):
    cluster = await make_cluster()
    cluster[2].hold_metadata()
    first = cluster.controller.topic_id()
    cluster.controller.delete()
    cluster.controller.create(number=2)
    second = cluster.controller.topic_id()
    cluster[2].release_metadata()
    await cluster.opened()
    seen = [(each.topic_id, each.kind, each.outcome) for each in journaled(cluster[2])]
    assert (first, K.DELETE, O.COMPLETED) in seen
    assert (second, K.FOLLOW, O.COMPLETED) in seen
    assert cluster[2].manager.intake.changes.pending == 0


@pytest.mark.slow
async def test_records_that_were_received_and_not_begun_are_the_backlog_with_its_age(
    make_brokers, autojump_clock
):
    cluster = make_brokers()
    await cluster.start()
    # More than a pass of the event loop takes on.
    cluster.controller.create(partitions=500, replicas=(1, 2))
    cluster.controller.create(name="u", replicas=(1, 2), number=2)
    summary = cluster[1].manager.intake.changes
    assert summary.backlog == 2 and summary.received_offset == requested(cluster)
    assert summary.acted_offset < summary.received_offset
    assert summary.completed_offset <= summary.acted_offset
    await cluster.opened()
    assert cluster[1].manager.intake.changes.backlog == 0


def state(leader: int, epoch: int, **other: object) -> PartitionState:
    whole = {
        "replicas": (1, 2),
        "isr": (1, 2),
        "removing_replicas": (),
        "adding_replicas": (),
        "leader": leader,
        "leader_recovery_state": 0,
        "leader_epoch": Epoch(epoch),
        "partition_epoch": 0,
    }
    return PartitionState(**{**whole, **other})  # type: ignore[arg-type]


A, B = uuid.UUID(int=1000), uuid.UUID(int=1001)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (None, state(1, 0), K.LEAD),
        (None, state(2, 0), K.FOLLOW),
        (None, state(-1, 3), K.STOP),
        (state(2, 0), state(1, 1), K.LEAD),
        (state(1, 0), state(1, 1), K.LEAD),
        (state(1, 0), state(2, 1), K.FOLLOW),
        (state(1, 0), state(-1, 1), K.STOP),
        (state(1, 0), state(1, 0, isr=(1,)), K.UPDATE),
        (state(1, 0, directories=(A, B)), state(1, 0, directories=(B, B)), K.DIRECTORY),
        (state(1, 0, directories=(A, B)), state(1, 0, directories=(A, A)), K.UPDATE),
    ],
)
def test_a_change_is_what_its_broker_has_to_do(before, after, kind) -> None:
    assert kind_of(1, before, after) is kind


def test_only_the_newest_finished_changes_are_kept_and_it_is_known_from_where_on() -> None:
    journal, topic = ChangeJournal(kept=3), uuid.UUID(int=7)
    for offset in range(5):
        journal.arrived(Cause(offset, float(offset), offset))
        journal.begin("t", topic, 0, K.LEAD, None, Cause(offset, float(offset), offset))
        journal.completed(topic, 0, now=offset + 0.5)
        journal.acted()
    assert [each.cause.offset for each in journal.ended()] == [2, 3, 4]
    assert journal.dropped_offset == 1
    assert journal.counts == {(K.LEAD, O.COMPLETED): 5}
    assert journal.seconds == 2.5 and sum(journal.buckets) == 5 and journal.buckets[6] == 5


@pytest.mark.slow
@pytest.mark.long
def test_a_hundred_thousand_changes_cost_some_microseconds_each() -> None:
    journal, topic = ChangeJournal(), uuid.UUID(int=7)
    cause, after = Cause(1, 0.0, 0), state(1, 1)
    began = time.process_time()
    for partition_id in range(100_000):
        journal.begin("t", topic, partition_id, K.LEAD, after, cause)
    for partition_id in range(100_000):
        journal.completed(topic, partition_id, now=1.0)
    per_change = (time.process_time() - began) / 100_000
    assert not journal.pending()
    assert per_change < 20e-6, f"{per_change * 1e6:.1f} us for a change"
