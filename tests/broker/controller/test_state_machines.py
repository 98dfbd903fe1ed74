from itertools import pairwise

import pytest

from quorate.broker.controller.state_machines import (
    PARTITION_MOVES,
    REPLICA_MOVES,
    PartitionPhase,
    ReplicaPhase,
    deletion_phase,
    illegal_change,
    partition_changes,
    partition_counts,
    partition_phase,
    replica_changes,
    replica_counts,
    replica_phase,
)
from quorate.broker.metadata.metadata_records import PartitionChange, RemoveTopic
from quorate.broker.metadata.states import PartitionKey

P, R = PartitionPhase, ReplicaPhase


def test_a_partition_is_online_while_a_broker_that_is_not_fenced_leads_it(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    key = PartitionKey(topic, 0)

    def status() -> PartitionPhase:
        found = partition_phase(cluster.image, key)
        counts = partition_counts(cluster.image)
        assert counts == {P.ONLINE: int(found is P.ONLINE), P.OFFLINE: int(found is P.OFFLINE)} or (
            found is P.NON_EXISTENT and not any(counts.values())
        )
        return found

    seen = [partition_phase(cluster.image, PartitionKey(topic, 1)), status()]
    cluster.fence(2)
    cluster.patience = 0
    cluster.fence(1)
    assert cluster.partition(topic).leader == 1, "nobody took the leadership away yet"
    seen.append(status())
    cluster.patience = 1000
    cluster.work()
    seen.append(status())
    cluster.beat(1)
    seen.append(status())
    cluster.beat(1, stop=True)
    seen.append(status())
    cluster.append(RemoveTopic(topic_id=topic))
    seen.append(status())
    assert seen == [P.NON_EXISTENT, P.ONLINE, P.OFFLINE, P.OFFLINE, P.ONLINE, P.OFFLINE, P.NON_EXISTENT]


def test_a_replica_is_new_until_its_broker_says_where_it_is_and_online_while_that_is(cluster) -> None:
    cluster.start(1, 2, dirs=(0, 1))
    topic = cluster.create("t", (1,))
    key = PartitionKey(topic, 0)

    def phase() -> ReplicaPhase:
        found = replica_phase(cluster.image, key, 1)
        counts = replica_counts(cluster.image)
        assert {each: count for each, count in counts.items() if count} == {found: 1}
        return found

    seen = [replica_phase(cluster.image, key, 2), phase()]
    cluster.fence(1)
    seen.append(phase())
    cluster.beat(1)
    seen.append(phase())
    cluster.assign(1, (topic, 0, 1))
    seen.append(phase())
    cluster.beat(1, failed=(1,))
    seen.append(phase())
    assert seen == [R.NON_EXISTENT, R.NEW, R.OFFLINE, R.NEW, R.ONLINE, R.OFFLINE]
    for before, after in pairwise(seen[1:]):
        assert illegal_change(replica_changes(before, after), REPLICA_MOVES) is None
    cluster.unregister(1)
    assert phase() is R.OFFLINE


def test_a_removed_replica_is_gone_when_its_broker_has_applied_the_removal(cluster) -> None:
    cluster.start(1, 2)
    cluster.fence(2)
    up, down = cluster.image.broker(1), cluster.image.broker(2)
    assert deletion_phase(up, removed_at=7, applied=6) is R.DELETION_STARTED
    assert deletion_phase(up, removed_at=7, applied=7) is R.DELETION_SUCCESSFUL
    assert deletion_phase(down, removed_at=7, applied=6) is R.DELETION_INELIGIBLE
    assert deletion_phase(None, removed_at=7, applied=-1) is R.DELETION_INELIGIBLE


@pytest.mark.parametrize(
    ("before", "after", "bad"),
    [
        (P.NON_EXISTENT, P.ONLINE, None),
        (P.ONLINE, P.NON_EXISTENT, None),
        (P.OFFLINE, P.ONLINE, None),
        (P.ONLINE, P.NEW, (P.ONLINE, P.NEW)),
        (P.OFFLINE, P.NEW, (P.OFFLINE, P.NEW)),
    ],
)
def test_a_partition_that_was_led_is_never_new_again(before, after, bad) -> None:
    assert illegal_change(partition_changes(before, after), PARTITION_MOVES) == bad


@pytest.mark.parametrize(
    ("before", "after", "bad"),
    [
        (R.NON_EXISTENT, R.OFFLINE, None),
        (R.ONLINE, R.DELETION_STARTED, None),
        (R.NEW, R.DELETION_INELIGIBLE, None),
        (R.DELETION_INELIGIBLE, R.DELETION_STARTED, None),
        (R.DELETION_SUCCESSFUL, R.NON_EXISTENT, None),
        (R.ONLINE, R.NEW, (R.ONLINE, R.NEW)),
        (R.ONLINE, R.NON_EXISTENT, (R.ONLINE, R.NON_EXISTENT)),
        (R.DELETION_STARTED, R.ONLINE, (R.DELETION_STARTED, R.ONLINE)),
        (R.DELETION_SUCCESSFUL, R.ONLINE, (R.DELETION_SUCCESSFUL, R.ONLINE)),
    ],
)
def test_a_replica_whose_deletion_began_never_serves_again_and_a_placed_one_stays_placed(
    before, after, bad
) -> None:
    assert illegal_change(replica_changes(before, after), REPLICA_MOVES) == bad


def test_every_state_has_its_row_and_can_be_reached() -> None:
    assert set(PARTITION_MOVES) == set(P)
    assert set(REPLICA_MOVES) == set(R)
    for moves in (PARTITION_MOVES, REPLICA_MOVES):
        assert set(moves) == {after for row in moves.values() for after in row}


def test_a_partition_that_nobody_has_ever_led_is_new(cluster) -> None:
    cluster.start(1)
    topic = cluster.create("t", (1,))
    never = cluster.partition(topic)._replace(leader=-1)
    assert never.leader_epoch == 0
    cluster.append(PartitionChange(topic_id=topic, partition_id=0, leader=-1))
    assert partition_phase(cluster.image, PartitionKey(topic, 0)) is P.OFFLINE, "it was led once"
