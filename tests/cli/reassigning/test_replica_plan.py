"""Plans of moves, as pure functions of the cluster."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.admin.admin_client import TopicPartition
from quorate.broker.admin.replicas import Move
from quorate.cli.reassigning.moves import THROTTLED_REPLICAS, Progress, bytes_left, throttled_replicas
from quorate.cli.reassigning.replica_plan import PlanError, drained, spread

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
