"""How far brokers are with their state changes, as the active controller knows it."""

from quorate.broker.controller.liveness.broker_progress import BrokerProgress
from quorate.broker.controller.rpc import BrokerHeartbeatRequest
from quorate.broker.controller.state_machines import ReplicaPhase
from quorate.broker.metadata.delta import MetadataDelta, apply_records
from quorate.broker.metadata.metadata_records import RemoveTopic, UnregisterBroker

S, I = ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_INELIGIBLE  # noqa: E741


def beat(
    broker_id: int,
    completed: int | None,
    *,
    acted: int = -1,
    pending: int = 0,
    epoch: int = 1,
    starting: bool = False,
) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        want_fence=starting,
        current_metadata_offset=acted,
        completed_metadata_offset=completed,
        pending_changes=pending,
    )


def records(offset: int, *, partitions: bool = True) -> MetadataDelta:
    return MetadataDelta(
        base_offset=offset,
        end_offset=offset + 1,
        partitions=(None,) if partitions else (),
    )


def shown(progress: BrokerProgress, now: float) -> dict[int, tuple[int, int, float]]:
    return {
        each.broker_id: (each.pending, each.lag, round(each.oldest_s, 3))
        for each in progress.progress(now=now)
    }


def test_a_silent_broker_falls_behind_with_every_second() -> None:
    progress = BrokerProgress()
    progress.committed(records(10), now=100, active=False)
    progress.heard(beat(1, 10), now=0)
    progress.heard(beat(2, 10), now=0)
    assert shown(progress, 150) == {1: (0, 0, 0), 2: (0, 0, 0)}, "there is nothing to do"
    progress.committed(records(11), now=200, active=False)
    progress.committed(records(12), now=201, active=False)
    assert shown(progress, 201) == {1: (0, 2, 1), 2: (0, 2, 1)}
    progress.heard(beat(1, 12), now=0)
    progress.heard(beat(2, 11, pending=3), now=0)
    assert shown(progress, 203) == {1: (0, 0, 0), 2: (3, 1, 2)}
    assert progress.behind(now=203, patience=3) == frozenset()
    assert progress.behind(now=205, patience=3) == {2}
    assert [each.broker_id for each in progress.newly_behind(now=205, patience=3)] == [2]
    assert progress.newly_behind(now=206, patience=3) == [], "once"
    progress.heard(beat(2, 12), now=0)
    assert progress.newly_behind(now=206, patience=3) == []
    progress.committed(records(13), now=207, active=False)
    assert [each.broker_id for each in progress.newly_behind(now=211, patience=3)] == [1, 2], "and again"


def test_records_that_change_no_partition_make_nobody_late() -> None:
    progress = BrokerProgress()
    progress.heard(beat(1, 10), now=0)
    progress.committed(records(11, partitions=False), now=100, active=False)
    assert shown(progress, 150) == {1: (0, 1, 0)}


def test_a_broker_of_an_earlier_version_is_as_far_as_it_has_acted() -> None:
    progress = BrokerProgress()
    progress.committed(records(11), now=100, active=False)
    progress.heard(beat(1, None, acted=11), now=0)
    progress.heard(beat(2, -1, acted=11), now=0)
    assert shown(progress, 101) == {1: (0, 0, 0), 2: (0, 12, 1)}, "-1: it has acted, and completed nothing"


def test_marks_are_bounded_and_never_make_a_change_younger() -> None:
    progress = BrokerProgress()
    for offset in range(20_000):
        progress.committed(records(offset), now=offset, active=False)
    progress.heard(beat(1, 15_000), now=0)
    (seen,) = progress.progress(now=20_000)
    assert 4999 <= seen.oldest_s < 5100
    progress.heard(beat(1, 19_998), now=0)
    assert shown(progress, 20_000) == {1: (0, 1, 1)}, "the newest are exact"
    assert len(progress._marks) <= 4096


def test_a_burst_has_one_mark_from_its_first_record_on() -> None:
    progress = BrokerProgress()
    progress.heard(beat(1, 9), now=0)
    for number in range(10):
        progress.committed(records(10 + number), now=100 + number / 100, active=False)
    assert len(progress._marks) == 1
    assert shown(progress, 101) == {1: (0, 10, 1)}


def test_removed_replicas_are_being_deleted_until_their_broker_has_done_it(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2), (2, 1))
    progress = BrokerProgress()
    progress.heard(beat(1, len(cluster.log) - 1), now=0)
    image = cluster.image
    removed_at = len(cluster.log)
    delta = apply_records(image, [RemoveTopic(topic_id=topic)], base_offset=removed_at, epoch=1)
    progress.committed(delta, now=1, active=True)
    cluster.log.append(RemoveTopic(topic_id=topic))
    assert progress.removed_replicas(image) == {S: 4, I: 0}
    progress.heard(beat(2, removed_at - 1), now=0)
    assert progress.removed_replicas(image) == {S: 4, I: 0}
    progress.heard(beat(2, removed_at), now=0)
    assert progress.removed_replicas(image) == {S: 2, I: 0}
    cluster.fence(1)
    assert progress.removed_replicas(image) == {S: 0, I: 2}, "it is down, and deletes them when it is back"
    epoch = image.brokers[1].epoch
    gone = apply_records(
        image, [UnregisterBroker(broker_id=1, broker_epoch=epoch)], base_offset=len(cluster.log), epoch=1
    )
    progress.committed(gone, now=2, active=True)
    assert progress.removed_replicas(image) == {S: 0, I: 0}
    assert shown(progress, 3).keys() == {2}


def test_a_controller_that_is_no_longer_active_forgets_the_progress_of_brokers(cluster) -> None:
    cluster.start(1)
    topic = cluster.create("t", (1,))
    progress = BrokerProgress()
    progress.heard(beat(1, 0), now=0)
    delta = apply_records(cluster.image, [RemoveTopic(topic_id=topic)], base_offset=len(cluster.log), epoch=1)
    progress.committed(delta, now=1, active=True)
    progress.forget()
    assert shown(progress, 5) == {} and progress.behind(now=5, patience=1) == frozenset()
    assert progress.removed_replicas(cluster.image) == {S: 0, I: 0}


def test_nothing_waits_for_a_broker_since_before_its_start() -> None:
    progress = BrokerProgress()
    for offset in (10, 11):
        progress.committed(records(offset), now=offset, active=False)
    progress.heard(beat(1, -1, epoch=7, starting=True), now=100)
    assert shown(progress, 103) == {1: (0, 12, 3)}
    progress.heard(beat(1, -1, epoch=7, starting=True), now=104)
    progress.heard(beat(1, -1, epoch=7), now=105)
    assert shown(progress, 106) == {1: (0, 12, 6)}, "since it was first heard of"
    progress.heard(beat(2, 10), now=107)
    assert shown(progress, 111)[2] == (0, 1, 100), "this one ran before this controller was active"


def test_replicas_of_a_starting_broker_are_not_deleted_when_it_has_applied_the_removal(cluster) -> None:
    cluster.start(1)
    topic = cluster.create("t", (1,))
    progress = BrokerProgress()
    removed_at = len(cluster.log)
    delta = apply_records(cluster.image, [RemoveTopic(topic_id=topic)], base_offset=removed_at, epoch=1)
    progress.committed(delta, now=1, active=True)
    progress.heard(beat(1, removed_at, epoch=9, starting=True), now=2)
    assert sum(progress.removed_replicas(cluster.image).values()) == 1
    progress.heard(beat(1, removed_at, epoch=9), now=3)
    assert sum(progress.removed_replicas(cluster.image).values()) == 0
