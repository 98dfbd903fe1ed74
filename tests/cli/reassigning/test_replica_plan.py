"""Plans of moves, as pure functions of the cluster."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.admin.admin_client import TopicPartition
from quorate.broker.admin.replicas import Move
from quorate.cli.reassigning.moves import THROTTLED_REPLICAS, Progress, bytes_left, throttled_replicas
from quorate.cli.reassigning.replica_plan import PlanError, balanced, drained, spread

NO_RACKS = dict.fromkeys(range(1, 5))


def named(*assignments: tuple[int, ...], topic: str = "t") -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition(topic, number): each for number, each in enumerate(assignments)}


def test_a_drained_brokers_replica_is_replaced_in_its_place_and_nothing_else_moves() -> None:
    current = named((1, 2), (2, 3), (3, 1))
    assert drained(current, 2, racks=NO_RACKS) == {
        TopicPartition("t", 0): (1, 4),
        TopicPartition("t", 1): (4, 3),
    }
    assert drained(current, 4, racks=NO_RACKS) == {}


def test_the_replacement_is_in_another_rack_than_the_others_where_there_is_one() -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "b"}
    crowded = named((1, 2), (4, 1), (4, 3), (4, 1))
    assert drained(crowded, 2, racks=racks)[TopicPartition("t", 0)] == (1, 4), "though 3 has fewer"
    assert drained(crowded, 2, racks=dict.fromkeys(racks))[TopicPartition("t", 0)] == (1, 3)


def test_where_a_replica_has_nowhere_to_go_there_is_no_plan_but_a_remedy() -> None:
    with pytest.raises(PlanError, match=r"partition 1 of topic t .* start another broker, or give the topic"):
        drained(named((1, 2), (1, 2, 3)), 3, racks={1: None, 2: None, 3: None})
    with pytest.raises(PlanError, match=r"3 replicas, and only 2 brokers were named: name more"):
        spread(named((1, 2, 3)), racks={1: None, 2: None})


_assignments = st.lists(
    st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=30
)
_racks = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=6, max_size=6).map(
    lambda racks: dict(enumerate(racks, 1))
)


@given(assignments=_assignments, racks=_racks, broker=st.integers(1, 6))
def test_a_drain_takes_the_broker_out_of_every_list_and_keeps_the_others(assignments, racks, broker) -> None:
    current = named(*assignments)
    plan = drained(current, broker, racks=racks)
    assert set(plan) == {key for key, replicas in current.items() if broker in replicas}
    for key, replicas in plan.items():
        assert broker not in replicas
        assert len(set(replicas)) == len(replicas) == len(current[key])
        assert [a for a, b in zip(replicas, current[key], strict=True) if b != broker] == [
            each for each in current[key] if each != broker
        ]
    assert drained(current | plan, broker, racks=racks) == {}, "given again there is nothing to do"


@given(partitions=st.integers(1, 40), factor=st.integers(1, 4), brokers=st.integers(4, 8))
def test_a_spread_leaves_no_broker_with_more_than_its_share(partitions, factor, brokers) -> None:
    current = named(*[tuple(range(factor))] * partitions)
    placed = spread(current, racks=dict.fromkeys(range(brokers)))
    counts = Counter(each for replicas in placed.values() for each in replicas)
    assert max(counts[each] for each in range(brokers)) - min(counts[each] for each in range(brokers)) <= 2
    firsts = Counter(replicas[0] for replicas in placed.values())
    assert max(firsts.values()) - min(firsts[each] for each in range(brokers)) <= 1
    assert all(len(set(each)) == factor for each in placed.values())


@given(partitions=st.integers(1, 30))
def test_a_spread_uses_every_rack_for_each_partition(partitions) -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    for replicas in spread(named(*[(1, 2, 3)] * partitions), racks=racks).values():
        assert {racks[each] for each in replicas} == {"a", "b", "c"}


@pytest.mark.bug("KAFKA-10779")
def test_the_throttle_names_those_that_serve_as_leaders_and_those_that_are_added_as_followers() -> None:
    """Replicas move from [1, 2, 3] to [4, 5, 6], and then to [1, 2, 7] instead."""
    moves = {
        TopicPartition("t", 0): Move(replicas=(1, 2, 7, 3), adding=(7,), removing=(3,)),
        TopicPartition("t", 1): Move(replicas=(5, 4), adding=(5,), removing=(4,)),
    }
    assert throttled_replicas(moves) == {
        "t": dict(zip(THROTTLED_REPLICAS, ("0:1,0:2,0:3,1:4", "0:7,1:5"), strict=True))
    }


def test_the_rest_of_a_move_is_the_difference_to_the_largest_replica_that_serves() -> None:
    key = TopicPartition("t", 0)
    move = Move(replicas=(3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    sizes = {(key, 1): 1000, (key, 2): 900, (key, 3): 400}
    assert bytes_left(key, move, sizes) == 600 + 1000
    assert bytes_left(key, move, {(key, 3): 400}) is None, "nobody told of a whole one"
    assert bytes_left(key, move, sizes | {(key, 3): 2000, (key, 4): 1000}) == 0


def test_the_estimate_is_the_rest_at_the_last_pace() -> None:
    key = TopicPartition("t", 0)
    before = Progress(at=10.0, left={key: 1000})
    now = Progress(at=12.0, left={key: 800})
    assert now.seconds_left(before) == 8
    assert before.seconds_left(before) is None
    assert Progress(at=13.0, left={key: 900}).seconds_left(now) is None, "more was written than copied"


def counts(assignments) -> tuple[Counter[int], Counter[int]]:
    held = list(assignments.values())
    return Counter(one for each in held for one in each), Counter(each[0] for each in held)


def racks_used(replicas, racks) -> int:
    return len({racks[each] for each in replicas if racks.get(each) is not None})


def test_a_new_broker_takes_its_share_of_every_topic_and_nothing_else_moves() -> None:
    current = named(*[(1, 2), (2, 3), (3, 1)] * 4, topic="a") | named(
        *[(1, 2), (2, 3), (3, 1)] * 4, topic="b"
    )
    plan = balanced(current, racks=NO_RACKS)
    replicas, firsts = counts(current | plan)
    assert replicas == dict.fromkeys(range(1, 5), 12)
    assert firsts == dict.fromkeys(range(1, 5), 6)
    to_the_new_one = Counter(key.topic for key, each in plan.items() if 4 in each)
    assert to_the_new_one.total() == 12 and min(to_the_new_one["a"], to_the_new_one["b"]) >= 5
    assert sum(len({*each} - {*current[key]}) for key, each in plan.items()) == 12


def test_replicas_that_share_a_rack_move_to_one_that_has_none() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    current = named((1, 2), (3, 4))
    plan = current | balanced(current, racks=racks)
    assert all(racks_used(each, racks) == 2 for each in plan.values())


def test_what_is_balanced_stays_as_it_is() -> None:
    assert balanced(named((1, 2), (2, 3), (3, 4), (4, 1)), racks=NO_RACKS) == {}
    assert balanced({}, racks=NO_RACKS) == {}
    assert balanced(named((8, 9)), racks={}) == {}


def test_only_the_order_changes_where_only_leaders_are_uneven() -> None:
    current = named((1, 2), (1, 2), (1, 2), (1, 2))
    plan = balanced(current, racks=dict.fromkeys((1, 2)))
    assert [*plan.values()] == [(2, 1)] * 2


def test_a_leader_too_many_is_passed_on_over_a_broker_that_has_its_share() -> None:
    current = named((2, 4), (1, 4), (4, 3), (1, 4))
    _, firsts = counts(current | balanced(current, racks=NO_RACKS))
    assert firsts == dict.fromkeys(range(1, 5), 1)


@given(assignments=_assignments, racks=_racks)
def test_a_balance_loses_no_replica_and_no_rack_and_ends_even(assignments, racks) -> None:
    current = named(*assignments)
    plan = balanced(current, racks=racks)
    after = current | plan
    for key, replicas in after.items():
        assert len(set(replicas)) == len(replicas) == len(current[key])
        assert racks_used(replicas, racks) >= racks_used(current[key], racks), key
    assert balanced(after, racks=racks) == {}, "a second one finds nothing"
    if len(set(racks.values())) == 1:
        held, _ = counts(after)
        assert max(held[each] for each in racks) - min(held[each] for each in racks) <= 1


@given(brokers=st.lists(st.integers(1, 6), min_size=1, max_size=40))
def test_a_balance_moves_as_few_replicas_as_can_be(brokers) -> None:
    current = named(*((each,) for each in brokers))
    plan = balanced(current, racks=dict.fromkeys(range(1, 7)))
    held, _ = counts(current)
    share, more = divmod(held.total(), 6)
    loads = sorted((held[each] for each in range(1, 7)), reverse=True)
    assert len(plan) == sum(max(0, load - share - (at < more)) for at, load in enumerate(loads))
