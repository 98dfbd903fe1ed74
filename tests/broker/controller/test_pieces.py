"""Work that concerns many partitions comes in pieces: what may happen between two of them."""

import pytest

from quorate.broker.controller.chores import LOOKS_PER_CHANGE
from quorate.broker.controller.operations.brokers import begin_controlled_shutdown
from quorate.broker.metadata.metadata_records import NO_LEADER, BrokerRegistrationChange, PartitionChange
from quorate.error_code import ErrorCode


def ask_for_isr(cluster, topic, partition: int, *members: int) -> ErrorCode:
    """What the leader's AlterPartition is answered. Its record is written alone."""
    outcome = cluster.ask_for_isr(cluster.isr_item(topic, *members, partition=partition))
    cluster.write(outcome.groups)
    return outcome.response.partitions[0].error


def begin(cluster, how: str) -> None:
    """Take broker 1 out of service, and leave the rest to the pieces that follow."""
    if how == "shuts down":
        cluster.write(begin_controlled_shutdown(cluster.image.broker(1)))
    else:
        cluster.patience = 0
        cluster.fence(1)


@pytest.mark.parametrize("how", ["shuts down", "is fenced"])
def test_a_broker_that_leaves_gets_no_leadership_and_joins_no_isr_between_two_pieces(cluster, how) -> None:
    cluster.piece_size = 1
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2, 3), (2, 1, 3), (3, 2, 1), (2, 3, 1))
    begin(cluster, how)
    for left in (3, 2, 1, 0):
        cluster.work(pieces=1)
        assert cluster.image.isr_count(1) == left
        for partition_id in range(4):
            state = cluster.partition(topic, partition_id)
            if 1 not in state.isr:
                answer = ask_for_isr(cluster, topic, partition_id, *state.isr, 1)
                assert answer is ErrorCode.INELIGIBLE_REPLICA, f"partition {partition_id}, {left} left"
                assert state.leader != 1
        cluster.check_between_pieces()
    # Nobody but the broker that left could lead these: they wait for it.
    cluster.patience = 1_000_000
    cluster.fence(2)
    cluster.fence(3)
    assert {state.leader for _, state in cluster.image.all_partitions()} == {NO_LEADER}
    cluster.check()


def test_the_record_that_takes_a_broker_out_of_service_is_before_all_that_follows_from_it(cluster) -> None:
    cluster.piece_size = 1
    cluster.start(1, 2)
    cluster.create("t", (1, 2), (1, 2))
    for take_out, kind in (
        (lambda: cluster.beat(1, stop=True), "in_controlled_shutdown"),
        (lambda: cluster.fence(2), "fenced"),
    ):
        at = len(cluster.log)
        take_out()
        first, *rest = cluster.log[at:]
        assert isinstance(first, BrokerRegistrationChange)
        assert getattr(first, kind)
        assert {type(record) for record in rest} == {PartitionChange}


def test_a_fenced_broker_returns_when_it_has_left_and_not_before(cluster) -> None:
    cluster.piece_size, cluster.patience = 1, 0
    cluster.start(1, 2)
    cluster.create("t", (1, 2), (2, 1))
    cluster.fence(1)
    answers = []
    while cluster.image.isr_count(1):
        answers.append(cluster.beat(1))
        cluster.work(pieces=1)
    assert answers == ["fenced", "fenced"]
    assert cluster.beat(1) == "unfenced"


def test_a_new_process_is_registered_when_the_last_one_has_left_everything(cluster) -> None:
    """A broker acts upon its registration as soon as it has it: it must not find that it leads something."""
    cluster.piece_size, cluster.patience = 1, 0
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2), (2, 1))
    old = cluster.epoch(1)
    for _ in range(2):
        cluster.register(1, incarnation=1)
        assert cluster.epoch(1) == old
        cluster.work(pieces=1)
    assert cluster.register(1, incarnation=1) == (ErrorCode.NONE, len(cluster.log) - 1)
    for partition_id in (0, 1):
        state = cluster.partition(topic, partition_id)
        assert (state.leader, state.isr, state.elr) == (2, (2,), ())


def test_a_broker_that_lost_records_leaves_every_elr_even_if_its_fencing_is_half_done(cluster) -> None:
    cluster.piece_size, cluster.patience = 1, 0
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2), (2, 1), (1, 2))
    cluster.fence(1)
    cluster.work(pieces=2)
    assert [cluster.partition(topic, each).elr for each in range(3)] == [(1,), (1,), ()]
    cluster.patience = 1_000_000
    cluster.register(1, incarnation=1)
    assert [cluster.partition(topic, each).elr for each in range(3)] == [(), (), ()]
    cluster.check()


def test_an_unregistered_broker_that_comes_back_with_an_empty_disk_leads_nothing(cluster) -> None:
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(2)
    cluster.fence(1)
    assert cluster.partition(topic).elr == (1, 2)
    assert cluster.unregister(1) is ErrorCode.NONE
    assert cluster.partition(topic).elr == (2,)
    cluster.register(1)
    assert cluster.beat(1) == "unfenced"
    assert cluster.partition(topic).leader == NO_LEADER, "it was elected with what it does not have"
    assert cluster.beat(2) == "unfenced"
    assert cluster.partition(topic).leader == 2
    cluster.check()


def test_a_new_controller_finishes_whichever_piece_the_last_one_stopped_at(new_cluster) -> None:
    for pieces in range(5):
        cluster = new_cluster()
        cluster.piece_size = 1
        cluster.start(1, 2, 3)
        cluster.create("t", (1, 2, 3), (2, 1, 3), (3, 2, 1), (1, 3, 2))
        cluster.patience = pieces
        cluster.fence(1)
        assert cluster.image.isr_count(1) == 4 - pieces
        successor = new_cluster()
        for record in cluster.log:
            successor.append(record)
        successor.repair()
        successor.check()
        assert successor.image.isr_count(1) == 0


def test_two_that_leave_at_once_take_turns(cluster) -> None:
    cluster.piece_size, cluster.patience = 1, 0
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2, 3), (2, 1, 3), (3, 2, 1), (1, 3, 2))
    cluster.fence(1)
    cluster.fence(2)
    cluster.work(pieces=4)
    assert (cluster.image.isr_count(1), cluster.image.isr_count(2)) == (2, 2)


def test_a_rebalance_looks_at_few_partitions_a_piece_even_if_it_moves_none(cluster) -> None:
    """Kafka counts the changes made: a pass that finds nothing to change has no end
    (docs/reference/kraft-rules.md#rebalance-in-pieces)."""
    cluster.start(1)
    cluster.create("t", *[(1,)] * 1000)
    cluster.piece_size = 4
    chore = cluster.chores.prefer(most=1000, brokers={1, 2, 3})
    looked = []
    while not chore.finished.is_set():
        looked += [each for _, each in cluster.chores.piece()]
    assert sum(looked) == 1000
    assert max(looked) <= 4 * LOOKS_PER_CHANGE


def test_a_rebalance_moves_no_more_than_it_may(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", *[(1, 2)] * 10)
    cluster.append(*(PartitionChange(topic_id=topic, partition_id=each, leader=2) for each in range(10)))
    cluster.piece_size = 4
    cluster.chores.prefer(most=6, brokers={1, 2, 3})
    cluster.work()
    assert cluster.image.leader_count(1) == 6


def test_an_election_that_is_asked_for_again_visits_what_it_had_passed(cluster) -> None:
    cluster.piece_size = 1
    cluster.start(1, 2)
    cluster.create("t", (1,), (2,), (1,), (2,))
    cluster.fence(1)
    cluster.fence(2)
    cluster.patience = 0
    assert cluster.beat(2) == "unfenced"
    cluster.work(pieces=2)
    assert cluster.beat(1) == "unfenced"
    cluster.work(pieces=100)
    assert cluster.image.leaderless_count == 0
