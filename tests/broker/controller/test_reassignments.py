"""Reassignment (KIP-455) in the controller: the request, its end, its cancellation, and what lies between."""

import itertools
import uuid
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.controller.operations.directories import may_lead
from quorate.broker.controller.operations.reassignments import alter_partition_reassignments
from quorate.broker.controller.rpc import (
    AlterPartitionReassignmentsRequest,
    ReassignmentItem,
    ReassignmentResult,
)
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    UNASSIGNED,
    ChangeReason,
    Config,
    ConfigType,
    PartitionChange,
)
from quorate.error_code import ErrorCode


@pytest.fixture
def moved(cluster):
    """Brokers 1 to 6, and topic t: one partition on 1, 2, 3, led by 1."""
    cluster.start(1, 2, 3, 4, 5, 6)
    cluster.t = cluster.create("t", (1, 2, 3))
    return cluster


def ask(cluster, *target: int, topic: str = "t", **options: object) -> ReassignmentResult:
    return cluster.reassign(topic, target, **options)


def cancel(cluster) -> ReassignmentResult:
    return cluster.reassign("t", None)


def catch_up(cluster, *brokers: int) -> ErrorCode:
    """The leader takes the brokers into the ISR."""
    return keep(cluster, *cluster.partition(cluster.t).isr, *brokers)


def keep(cluster, *isr: int) -> ErrorCode:
    """The leader asks for this ISR."""
    return cluster.alter_isr(cluster.t, *isr).error


def lists(cluster) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    state = cluster.partition(cluster.t)
    return state.replicas, state.adding_replicas, state.removing_replicas


def test_a_move_begins_with_both_sets_and_ends_when_the_new_one_is_in_sync(moved) -> None:
    assert ask(moved, 4, 5, 3) == ReassignmentResult(topic="t", partition_id=0)
    assert lists(moved) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    state = moved.partition(moved.t)
    assert (state.leader, state.leader_epoch) == (1, 0), "the leader stays while the new ones copy"
    assert state.isr == (1, 2, 3)
    assert moved.log[-1].reason is ChangeReason.REASSIGNMENT
    assert catch_up(moved, 4) is ErrorCode.NONE
    assert lists(moved) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    assert catch_up(moved, 5) is ErrorCode.NEW_LEADER_ELECTED
    assert lists(moved) == ((4, 5, 3), (), ())
    state = moved.partition(moved.t)
    assert (state.leader, state.leader_epoch, sorted(state.isr)) == (4, 1, [3, 4, 5])
    assert moved.log[-1].reason is ChangeReason.REASSIGNMENT
    moved.check()
    assert moved.replayed() == moved.image


def test_a_removed_replica_is_fenced_by_a_new_epoch_though_the_leader_stays(moved) -> None:
    ask(moved, 1, 2, 4)
    assert catch_up(moved, 4) is ErrorCode.NONE
    state = moved.partition(moved.t)
    assert (state.replicas, state.leader, state.leader_epoch) == ((1, 2, 4), 1, 1)


def test_a_new_replica_has_its_brokers_only_directory_or_none_and_the_others_keep_theirs(cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.start(4, dirs=(0, 1))
    cluster.t = cluster.create("t", (1, 2))
    before = cluster.partition(cluster.t)
    ask(cluster, 3, 4, 2)
    state = cluster.partition(cluster.t)
    assert state.directory_of(2) == before.directory_of(2)
    assert state.directory_of(1) == before.directory_of(1)
    broker = cluster.image.broker(3)
    assert state.directory_of(3) == broker.log_dirs[0]
    assert state.directory_of(4) == UNASSIGNED


def test_another_order_and_fewer_replicas_need_no_waiting(moved) -> None:
    ask(moved, 3, 2, 1)
    state = moved.partition(moved.t)
    assert lists(moved) == ((3, 2, 1), (), ())
    assert (state.leader, state.leader_epoch) == (1, 0), "nobody was removed"
    ask(moved, 3, 2)
    state = moved.partition(moved.t)
    assert lists(moved) == ((3, 2), (), ())
    assert (state.leader, state.leader_epoch, state.isr) == (3, 1, (2, 3))
    moved.check()


def test_a_move_to_the_present_target_is_answered_and_not_written(moved) -> None:
    for target in ((1, 2, 3), (1, 2, 4)):
        ask(moved, *target)
        before = len(moved.log)
        assert ask(moved, *target).error is ErrorCode.NONE
        assert len(moved.log) == before


@pytest.mark.parametrize(
    ("target", "options", "error"),
    [
        ((1, 2), {"topic": "u"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2, 1), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2, 99), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2), {"resize": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ((1, 2, 3, 4), {"resize": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_replicas_that_no_partition_may_have_are_refused_with_a_sentence(
    moved, target, options, error
) -> None:
    before = len(moved.log)
    result = ask(moved, *target, **options)
    assert result.error is error
    assert result.error_message
    assert len(moved.log) == before


def test_a_fenced_broker_may_be_named_and_is_waited_for(moved) -> None:
    moved.fence(4)
    assert ask(moved, 1, 2, 4).error is ErrorCode.NONE
    assert lists(moved) == ((1, 2, 4, 3), (4,), (3,))
    moved.beat(4)
    catch_up(moved, 4)
    assert lists(moved) == ((1, 2, 4), (), ())


def test_the_length_is_compared_with_that_of_the_running_target(moved) -> None:
    ask(moved, 1, 2, 3, 4)
    assert ask(moved, 1, 2, 5, resize=False).error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert ask(moved, 1, 2, 5, 6, resize=False).error is ErrorCode.NONE


def test_a_partition_named_twice_is_changed_once(moved) -> None:
    items = tuple(
        ReassignmentItem(topic="t", partition_id=0, replicas=each) for each in ((1, 2, 4), (1, 2, 5))
    )
    request = AlterPartitionReassignmentsRequest(partitions=items)
    results = moved.do(alter_partition_reassignments(moved.image, request, static={})).partitions
    assert [each.error for each in results] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert lists(moved)[1] == (4,)


# Cancelling, and asking anew


def test_cancelling_restores_the_replicas_and_fences_those_that_were_added(moved) -> None:
    assert cancel(moved).error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    ask(moved, 1, 4, 5)
    catch_up(moved, 4)
    assert cancel(moved).error is ErrorCode.NONE
    assert sorted(lists(moved)[0]) == [1, 2, 3]
    assert lists(moved)[1:] == ((), ())
    state = moved.partition(moved.t)
    assert (state.isr, state.leader, state.leader_epoch) == ((1, 2, 3), 1, 1)
    assert cancel(moved).error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    moved.check()


def test_a_second_request_is_computed_from_the_first_replicas_and_so_is_its_cancellation(moved) -> None:
    ask(moved, 4, 5, 6)
    catch_up(moved, 4)
    ask(moved, 1, 2, 6)
    assert lists(moved) == ((1, 2, 6, 3), (6,), (3,)), "4 and 5 leave at once"
    assert moved.partition(moved.t).isr == (1, 2, 3)
    cancel(moved)
    assert sorted(lists(moved)[0]) == [1, 2, 3]


def test_a_second_request_that_adds_nobody_removes_nobody_it_keeps(moved) -> None:
    ask(moved, 1, 2, 4)
    ask(moved, 1, 2, 3, 4)
    assert lists(moved) == ((1, 2, 3, 4), (4,), ())
    catch_up(moved, 4)
    assert lists(moved) == ((1, 2, 3, 4), (), ())
    ask(moved, 5, 2, 3, 4)
    ask(moved, 1, 2, 3, 4)
    assert lists(moved) == ((1, 2, 3, 4), (), ()), "back to the first replicas is done at once"


def test_the_only_replica_in_sync_is_not_given_up(moved) -> None:
    ask(moved, 4, 5, 6)
    catch_up(moved, 4)
    moved.fence(2)
    moved.fence(3)
    moved.fence(1)
    assert (moved.partition(moved.t).leader, moved.partition(moved.t).isr) == (4, (4,))
    before = len(moved.log)
    for refused in (cancel(moved), ask(moved, 1, 2, 6)):
        assert refused.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "in sync" in refused.error_message
    assert len(moved.log) == before
    moved.beat(1)
    catch_up(moved, 1)
    assert cancel(moved).error is ErrorCode.NONE
    assert moved.partition(moved.t).leader == 1


def test_no_fewer_copies_than_the_topic_asks_for_are_left(moved) -> None:
    moved.configure("min.insync.replicas", "2")
    ask(moved, 4, 5, 6)
    catch_up(moved, 4)
    moved.fence(2)
    moved.fence(3)
    assert moved.partition(moved.t).isr == (1, 4)
    # What was committed since is on 1 and 4 alone.
    assert cancel(moved).error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    moved.beat(2)
    catch_up(moved, 2)
    assert cancel(moved).error is ErrorCode.NONE
    assert moved.partition(moved.t).isr == (1, 2)


def test_the_only_replica_in_sync_is_given_up_where_unclean_elections_are_allowed(moved) -> None:
    ask(moved, 4, 5, 6)
    catch_up(moved, 4)
    for each in (2, 3, 1):
        moved.fence(each)
    moved.beat(3)
    moved.configure("unclean.leader.election.enable", "true")
    assert cancel(moved).error is ErrorCode.NONE
    assert (moved.partition(moved.t).leader, moved.partition(moved.t).isr) == (3, (3,))


# When it ends


def test_a_dead_replica_that_stays_does_not_hold_up_a_move_of_another(moved) -> None:
    moved.fence(2)
    ask(moved, 1, 2, 4)
    catch_up(moved, 4)
    assert lists(moved) == ((1, 2, 4), (), ())
    assert moved.partition(moved.t).isr == (1, 4)


def test_a_move_does_not_end_with_fewer_in_sync_than_the_topic_asks_for(moved) -> None:
    moved.configure("min.insync.replicas", "2")
    ask(moved, 1, 2, 4)
    keep(moved, 1, 3)
    moved.fence(1)
    catch_up(moved, 4)
    assert lists(moved)[2] == (3,), "with 3 gone, 4 would be the only one"
    moved.configure("min.insync.replicas", "1")
    assert lists(moved) == ((1, 2, 4), (), ()), "the setting is what it waited for"
    moved.check()


def test_a_controller_ends_what_the_last_one_left_behind(moved) -> None:
    moved.configure("min.insync.replicas", "2")
    ask(moved, 1, 2, 4)
    keep(moved, 1, 3)
    moved.fence(1)
    catch_up(moved, 4)
    # The setting is written, and its controller dies before it has looked at what follows.
    moved.append(
        Config(resource_type=ConfigType.TOPIC, resource_name="t", name="min.insync.replicas", value="1")
    )
    assert lists(moved)[2] == (3,)
    moved.repair()
    assert lists(moved) == ((1, 2, 4), (), ())


def test_where_fewer_are_added_than_removed_the_whole_target_is_waited_for(moved) -> None:
    moved.fence(2)
    ask(moved, 1, 2)
    assert lists(moved) == ((1, 2, 3), (), (3,))
    moved.beat(2)
    catch_up(moved, 2)
    assert lists(moved) == ((1, 2), (), ())


def test_a_broker_that_was_unregistered_is_waited_for_no_longer(moved) -> None:
    moved.fence(2)
    ask(moved, 1, 2)
    assert lists(moved)[2] == (3,)
    assert moved.unregister(2) is ErrorCode.NONE
    assert lists(moved) == ((1, 2), (), ())
    moved.check()


def test_a_target_whose_broker_was_fenced_and_has_not_left_the_isr_yet_is_waited_for(moved) -> None:
    """The consequences of a fencing in many partitions are written in pieces."""
    patience, moved.patience = moved.patience, 0
    moved.fence(3)
    assert moved.partition(moved.t).isr == (1, 2, 3)
    ask(moved, 3)
    assert lists(moved) == ((3, 1, 2), (), (1, 2))
    assert moved.partition(moved.t).leader == 1, "the others serve until then"
    moved.patience = patience
    moved.work()
    assert moved.partition(moved.t).isr == (1, 2)
    moved.beat(3)
    catch_up(moved, 3)
    assert lists(moved) == ((3,), (), ())
    moved.check()


def test_an_election_that_brings_the_target_in_sync_ends_the_move(moved) -> None:
    moved.configure("min.insync.replicas", "3")
    keep(moved, 1)
    ask(moved, 2)
    assert lists(moved) == ((2, 1, 3), (), (1, 3))
    moved.fence(1)
    # 2 was eligible: it leads, alone, and nobody will ask for another ISR.
    assert lists(moved) == ((2,), (), ())
    assert moved.partition(moved.t).leader == 2
    moved.check()


def test_a_topic_with_one_replica_serves_while_two_are_added(cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.t = cluster.create("t", (1,))
    cluster.configure("min.insync.replicas", "2")
    ask(cluster, 1, 2, 3)
    catch_up(cluster, 2)
    keep(cluster, 1)
    assert cluster.partition(cluster.t).elr == (), "one is enough until the others are there"
    catch_up(cluster, 2)
    catch_up(cluster, 3)
    keep(cluster, 1)
    assert sorted(cluster.partition(cluster.t).elr) == [2, 3]


def test_a_topic_that_is_deleted_takes_its_reassignment_along(moved) -> None:
    ask(moved, 4, 5, 6)
    assert moved.image.reassigning_count == 1
    moved.delete("t")
    assert moved.image.reassigning_count == 0
    moved.check()


def test_a_brokers_restart_in_the_middle_leaves_the_move_as_it_was(moved) -> None:
    ask(moved, 4, 5, 6)
    catch_up(moved, 4)
    before = lists(moved)
    for each in (1, 4, 5):
        moved.register(each, incarnation=1)
        moved.beat(each)
        assert lists(moved) == before


# Every participant is killed at every step

_STEPS = 9


def _scenario(cluster, target: Sequence[int], upto: int) -> None:
    """The first `upto` steps of a reassignment, one record or one request each."""

    def step() -> bool:
        state = cluster.partition(cluster.t)
        if not state.is_reassigning:
            if state.target_replicas == tuple(target):
                return False
            ask(cluster, *target)
            return True
        missing = [each for each in state.replicas if each not in state.isr and cluster.image.is_active(each)]
        if state.leader == NO_LEADER or not missing:
            return False
        catch_up(cluster, missing[0])
        return True

    for _ in range(upto):
        if not step():
            return


@pytest.mark.slow
@pytest.mark.parametrize("target", [(4, 5, 6), (4, 2, 1), (1,), (2, 1, 3, 4, 5), (6, 5)])
def test_every_participant_may_be_killed_at_every_step(new_cluster, target: tuple[int, ...]) -> None:
    """Each pair of brokers, together or with the controller, at each step; then they come back."""
    for upto, killed, piece in itertools.product(
        range(_STEPS), itertools.combinations(range(1, 7), 2), (1, 128)
    ):
        cluster = new_cluster()
        cluster.piece_size = piece
        cluster.start(1, 2, 3, 4, 5, 6)
        cluster.t = cluster.create("t", (1, 2, 3))
        cluster.configure("min.insync.replicas", "2")
        _scenario(cluster, target, upto)
        # With the smallest pieces the controller that fenced them dies too, in the middle of what follows.
        cluster.patience = 1 if piece == 1 else 1_000_000
        for each in killed:
            cluster.fence(each)
        cluster.patience = 1_000_000
        cluster.repair()
        cluster.check()
        _scenario(cluster, target, _STEPS)
        cluster.check()
        for each in killed:
            cluster.register(each, incarnation=1, previous=cluster.epoch(each))
            cluster.beat(each)
        cluster.work()
        _scenario(cluster, target, _STEPS)
        state = cluster.partition(cluster.t)
        assert (state.replicas, state.is_reassigning) == (target, False), (upto, killed, piece)
        assert state.leader in target
        cluster.check()
        assert cluster.replayed() == cluster.image


# Whatever happens

_brokers = st.integers(1, 5)
_targets = st.lists(_brokers, min_size=1, max_size=4, unique=True).map(tuple)
_events = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), _targets),
        st.tuples(st.just("cancel"), st.none()),
        st.tuples(st.just("fence"), _brokers),
        st.tuples(st.just("beat"), _brokers),
        st.tuples(st.just("lose"), _brokers),
        st.tuples(st.just("in"), _brokers),
        st.tuples(st.just("out"), _brokers),
        st.tuples(st.just("repair"), st.none()),
        st.tuples(st.just("min"), st.integers(1, 3)),
    ),
    min_size=10,
    max_size=25,
)


@pytest.mark.slow
@given(events=_events, clean=st.booleans())
def test_no_move_loses_the_last_copy_and_each_ends_when_all_are_back(new_cluster, events, clean) -> None:
    """`holders`: the brokers that surely have every committed record. A leader is one of them, always."""
    cluster = new_cluster()
    cluster.start(1, 2, 3, 4, 5)
    cluster.t = cluster.create("t", (1, 2, 3))
    original: tuple[int, ...] = (1, 2, 3)
    target: tuple[int, ...] | None = None
    for kind, value in events:
        before = cluster.partition(cluster.t)
        match kind:
            case "ask":
                result = ask(cluster, *value)
                if result.error is ErrorCode.NONE:
                    target = value
            case "cancel":
                result = cancel(cluster)
                if result.error is ErrorCode.NONE:
                    assert set(cluster.partition(cluster.t).replicas) == set(original)
                    target = None
            case "fence":
                cluster.fence(value)
            case "beat":
                cluster.beat(value)
            case "lose":
                cluster.fence(value)
                cluster.register(value, incarnation=len(cluster.log), previous=-1)
                cluster.beat(value)
            case "in" if (
                before.leader != NO_LEADER
                and value in before.replicas
                and (value not in before.isr and may_lead(cluster.image, before, value))
            ):
                catch_up(cluster, value)
            case "out" if before.leader not in (NO_LEADER, value) and value in before.isr:
                keep(cluster, *(each for each in before.isr if each != value))
            case "repair":
                cluster.repair()
            case "min":
                cluster.configure("min.insync.replicas", str(value))
        cluster.check()
        state = cluster.partition(cluster.t)
        if kind in ("ask", "cancel"):
            had = {*before.isr, *before.elr, *before.eligible.last_known}
            assert {*state.isr, *state.elr, *state.eligible.last_known} <= had, (
                "nobody is made safe by asking"
            )
            assert (state.leader == NO_LEADER) <= (before.leader == NO_LEADER), "asking takes nothing offline"
        if not state.is_reassigning:
            original = state.replicas
        assert set(state.original_replicas) == set(original)
        if target is not None:
            assert state.target_replicas == target
    for each in range(1, 6):
        cluster.beat(each)
    for each in range(1, 6):
        state = cluster.partition(cluster.t)
        assert state.leader != NO_LEADER
        if each in state.replicas and each not in state.isr:
            catch_up(cluster, each)
    assert not cluster.partition(cluster.t).is_reassigning
    cluster.check()
    assert cluster.replayed() == cluster.image


def test_many_are_asked_for_at_once_and_each_is_answered_by_itself(cluster) -> None:
    cluster.start(1, 2, 3, 4)
    cluster.t = cluster.create("t", *[(1, 2, 3)] * 300)
    items = tuple(
        ReassignmentItem(topic="t", partition_id=index, replicas=(4, 2, 3) if index % 3 else (9,))
        for index in range(300)
    )
    request = AlterPartitionReassignmentsRequest(partitions=items)
    response = cluster.do(alter_partition_reassignments(cluster.image, request, static={}))
    assert [each.error is ErrorCode.NONE for each in response.partitions] == [
        bool(index % 3) for index in range(300)
    ]
    assert cluster.image.reassigning_count == 200


def test_a_record_of_a_move_is_one_change(moved) -> None:
    before = len(moved.log)
    ask(moved, 4, 2, 3)
    assert len(moved.log) == before + 1
    assert isinstance(moved.log[-1], PartitionChange)
    assert moved.log[-1].topic_id == moved.t != uuid.UUID(int=0)
