import dataclasses
import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.controller.operations.placement import place
from quorate.broker.controller.rpc import (
    Assignment,
    ConfigEntry,
    NewTopic,
    TopicRef,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.configs import effective
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.metadata.states import ConfigResource
from quorate.error_code import ErrorCode
from tests.broker.controller.model_cluster import manual


def test_a_topic_is_spread_over_unfenced_brokers(cluster) -> None:
    cluster.start(1, 2, 3, 4)
    cluster.fence(4)
    [made] = cluster.make(NewTopic(name="t", num_partitions=6, replication_factor=3))
    assert (made.error, made.num_partitions, made.replication_factor) == (ErrorCode.NONE, 6, 3)
    states = cluster.image.partitions(made.topic_id)
    assert Counter(state.leader for state in states) == {1: 2, 2: 2, 3: 2}
    assert all(sorted(state.replicas) == [1, 2, 3] == sorted(state.isr) for state in states)
    cluster.check()


def test_a_creation_asked_for_again_is_known_by_its_earlier_ids(cluster) -> None:
    cluster.start(1, 2)
    first, second, other = (uuid.UUID(int=number) for number in (71, 72, 73))
    [made] = cluster.make(NewTopic(name="t", num_partitions=2, replication_factor=2, topic_id=first))
    assert (made.error, made.topic_id) == (ErrorCode.NONE, first)
    end = len(cluster.log)
    [again] = cluster.make(
        NewTopic(
            name="t", num_partitions=2, replication_factor=2, topic_id=second, earlier_ids=(other, first)
        ),
    )
    assert again == made
    [foreign] = cluster.make(NewTopic(name="t", topic_id=second, earlier_ids=(other,)))
    assert foreign.error is ErrorCode.TOPIC_ALREADY_EXISTS
    assert len(cluster.log) == end


def test_no_two_topics_have_one_id(cluster) -> None:
    cluster.start(1)
    held, new = uuid.UUID(int=71), uuid.UUID(int=72)
    cluster.make(NewTopic(name="t", topic_id=held))
    made = cluster.make(
        NewTopic(name="u", topic_id=held),
        NewTopic(name="v", topic_id=new),
        NewTopic(name="w", topic_id=new),
    )
    assert [each.error for each in made] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]


def test_defaults_stand_in_for_minus_one(cluster) -> None:
    cluster.start(1, 2)
    [made] = cluster.make(NewTopic(name="t"), num_partitions=3, replication_factor=2)
    assert (made.num_partitions, made.replication_factor) == (3, 2)


@pytest.mark.bug("KAFKA-13863")
@pytest.mark.bug("KAFKA-14129")
@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name=".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="ab\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="é"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="is.there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic(name="is_there"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="t", num_partitions=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="t", num_partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="t", num_partitions=10_001), ErrorCode.POLICY_VIOLATION),
        (NewTopic(name="t", num_partitions=(1 << 31) - 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic(name="t", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", replication_factor=3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", replication_factor=(1 << 31) - 1), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", replication_factor=1, assignments=manual((1,))), ErrorCode.INVALID_REQUEST),
        (NewTopic(name="t", num_partitions=1, assignments=manual((1,))), ErrorCode.INVALID_REQUEST),
        (NewTopic(name="t", assignments=manual(())), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignments=manual((1, 1))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignments=manual((1, 9))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignments=manual((1, 2), (1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            NewTopic(name="t", assignments=(Assignment(partition_id=1, replicas=(1,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            NewTopic(name="t", configs=(ConfigEntry(name="no.such.key", value="1"),)),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            NewTopic(name="t", configs=(ConfigEntry(name="retention.ms", value="soon"),)),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            NewTopic(name="t", configs=(ConfigEntry(name="retention.ms", value=None),)),
            ErrorCode.INVALID_CONFIG,
        ),
    ],
)
def test_an_invalid_topic_is_refused_and_writes_no_record(cluster, topic: NewTopic, error: ErrorCode) -> None:
    cluster.start(1, 2)
    cluster.create("is.there", (1,))
    before = len(cluster.log)
    [refused] = cluster.make(topic)
    assert (refused.error, refused.topic_id) == (error, None)
    assert refused.error_message
    assert len(cluster.log) == before


def test_a_name_asked_for_twice_is_refused_once_and_others_are_made(cluster) -> None:
    cluster.start(1)
    results = cluster.make(NewTopic(name="a"), NewTopic(name="b"), NewTopic(name="a"))
    assert [(each.name, each.error) for each in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.NONE),
    ]


@pytest.mark.parametrize(
    ("topics", "error"),
    [
        ((NewTopic(name="t", num_partitions=10_001), NewTopic(name="t")), ErrorCode.INVALID_REQUEST),
        ((NewTopic(name="is.there", num_partitions=10_001),), ErrorCode.POLICY_VIOLATION),
        ((NewTopic(name="."), NewTopic(name="a", num_partitions=10_000)), ErrorCode.POLICY_VIOLATION),
        (
            (NewTopic(name="a", num_partitions=5_000), NewTopic(name="b", num_partitions=5_001)),
            ErrorCode.POLICY_VIOLATION,
        ),
        (
            (NewTopic(name=".", configs=(ConfigEntry(name="no.such.key", value="1"),)),),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ),
        (
            (NewTopic(name="t", num_partitions=0, configs=(ConfigEntry(name="no", value="1"),)),),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            (NewTopic(name="t", num_partitions=0, assignments=manual(())),),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            (NewTopic(name="t", num_partitions=0, replication_factor=0),),
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ),
        (
            (NewTopic(name="t", num_partitions=0, replication_factor=9),),
            ErrorCode.INVALID_PARTITIONS,
        ),
        ((NewTopic(name="t", assignments=manual((3,))),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_the_first_error_of_a_topic_in_kafkas_order_is_told(
    cluster, topics: tuple[NewTopic, ...], error: ErrorCode
) -> None:
    cluster.start(1, 2, 3)
    cluster.fence(3)
    cluster.create("is.there", (1,))
    results = cluster.make(*topics)
    assert {each.error for each in results} == {error}
    assert len(results) == len({topic.name for topic in topics})


def test_the_first_of_two_new_names_that_collide_is_made(cluster) -> None:
    cluster.start(1)
    made, refused = cluster.make(NewTopic(name="a.b"), NewTopic(name="a_b"))
    assert (made.error, refused.error) == (ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_validate_only_answers_and_writes_nothing(cluster) -> None:
    cluster.start(1)
    before = len(cluster.log)
    [made] = cluster.make(NewTopic(name="t"), validate_only=True)
    assert made.error is ErrorCode.NONE
    assert len(cluster.log) == before


@pytest.mark.bug("KAFKA-13083")
def test_fenced_brokers_are_left_out_of_a_new_partitions_isr(cluster) -> None:
    cluster.start(1, 2)
    cluster.fence(1)
    topic = cluster.create("t", (1, 2))
    state = cluster.partition(topic)
    assert (state.replicas, state.isr, state.leader) == ((1, 2), (2,), 2)
    cluster.fence(2)
    [refused] = cluster.make(NewTopic(name="u", assignments=manual((1, 2))))
    assert refused.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_configs_come_with_the_topic_and_go_with_it(cluster) -> None:
    cluster.start(1)
    [made] = cluster.make(
        NewTopic(name="t", configs=(ConfigEntry(name="cleanup.policy", value="compact,delete"),))
    )
    assert effective(cluster.image, "t", static={}).cleanup_compact
    cluster.delete("t")
    assert not cluster.image.configs(ConfigResource(ConfigType.TOPIC, "t"))
    assert cluster.image.topic_by_id(made.topic_id) is None
    assert not effective(cluster.image, "t", static={}).cleanup_compact


def test_topics_are_deleted_by_name_or_by_id(cluster) -> None:
    cluster.start(1)
    first, second = cluster.create("a", (1,)), cluster.create("b", (1,), (1,))
    refs = (
        TopicRef(name="a"),
        TopicRef(topic_id=second),
        TopicRef(name="none"),
        TopicRef(topic_id=uuid.UUID(int=99)),
        TopicRef(),
        TopicRef(name="a", topic_id=first),
    )
    deleted = cluster.delete(*refs)
    assert [each.error for each in deleted] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert (deleted[1].name, deleted[1].topic_id) == ("b", second)
    assert cluster.image.partition_count() == 0
    cluster.check()


def test_a_topic_asked_for_twice_stays(cluster) -> None:
    cluster.start(1)
    by_name, by_id, by_both = (cluster.create(name, (1,)) for name in ("name", "id", "both"))
    refs = (
        *(TopicRef(name="name"), TopicRef(topic_id=by_id), TopicRef(name="both")) * 2,
        TopicRef(topic_id=by_both),
    )
    for asked in (refs, (TopicRef(name="both"), TopicRef(topic_id=by_both))):
        deleted = cluster.delete(*asked)
        assert {each.error for each in deleted} == {ErrorCode.INVALID_REQUEST}
        assert len(deleted) == len(set(asked))
    assert set(cluster.image.topics) == {by_name, by_id, by_both}


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__cluster_metadata"])
def test_an_internal_topic_is_not_deleted(cluster, name: str) -> None:
    cluster.start(1)
    topic = cluster.create(name, (1,))
    for ref in (TopicRef(name=name), TopicRef(topic_id=topic)):
        (refused,) = cluster.delete(ref)
        assert refused.error is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "the cluster keeps its own state in it" in str(refused.error_message)
    assert topic in cluster.image.topics


@given(
    brokers=st.sets(st.integers(0, 100), min_size=1, max_size=9),
    partitions=st.integers(1, 60),
    start=st.integers(0, 1 << 30),
    shift=st.integers(0, 1 << 30),
    data=st.data(),
)
def test_placement_is_even_and_puts_no_two_replicas_on_one_broker(
    brokers: set[int], partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = list(
        place(sorted(brokers), partitions=partitions, replication_factor=factor, start=start, shift=shift)
    )
    assert len(placed) == partitions
    assert all(len(set(replicas)) == factor and set(replicas) <= brokers for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[each] for each in brokers) <= 1


def test_fenced_brokers_fill_up_where_active_ones_are_too_few_and_never_lead() -> None:
    placed = list(place([1, 2], fenced=[3], partitions=4, replication_factor=3, start=0, shift=0))
    assert [set(replicas) for replicas in placed] == [{1, 2, 3}] * 4
    assert [replicas[0] for replicas in placed] == [1, 2, 1, 2]
    assert all(replicas[-1] == 3 for replicas in placed)


def test_a_placement_without_an_active_broker_is_refused() -> None:
    with pytest.raises(ApiError, match="All brokers are currently fenced"):
        place([], fenced=[1, 2, 3], partitions=1, replication_factor=3, start=0, shift=0)


def test_a_placement_on_more_brokers_than_there_are_is_refused() -> None:
    with pytest.raises(ApiError, match=r"factor of 4 cannot be reached because only 3 broker\(s\)"):
        place([1, 2], fenced=[3], partitions=1, replication_factor=4, start=0, shift=0)


CLUSTERS = st.dictionaries(
    st.integers(0, 50), st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.booleans()), min_size=1
).filter(lambda brokers: any(active for _, active in brokers.values()))
"""Of each broker: its rack, and whether it is active."""


@given(
    cluster=CLUSTERS,
    partitions=st.integers(1, 60),
    start=st.integers(0, 1 << 30),
    shift=st.integers(0, 1 << 30),
    data=st.data(),
)
def test_racks_share_a_partitions_replicas_and_active_brokers_come_first(
    cluster: dict[int, tuple[str | None, bool]],
    partitions: int,
    start: int,
    shift: int,
    data: st.DataObject,
) -> None:
    racks = {broker: rack for broker, (rack, _) in cluster.items()}
    active = [broker for broker, (_, is_active) in cluster.items() if is_active]
    fenced = [broker for broker in cluster if broker not in active]
    factor = data.draw(st.integers(1, len(cluster)))
    placed = list(
        place(
            active,
            fenced=fenced,
            partitions=partitions,
            replication_factor=factor,
            start=start,
            shift=shift,
            racks=racks,
        )
    )
    assert len(placed) == partitions
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        assert sum(broker in active for broker in replicas) == min(factor, len(active))
        assert replicas[0] in active
        if factor <= len(active):
            used = Counter(racks[broker] for broker in replicas)
            fullest = max(used.values())
            roomy = [
                rack for rack, brokers in Counter(map(racks.get, active)).items() if brokers > used[rack]
            ]
            assert all(used[rack] >= fullest - 1 for rack in roomy)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[each] for each in active) <= 1


@given(
    racks=st.integers(1, 5),
    in_each=st.integers(1, 4),
    rounds=st.integers(1, 4),
    start=st.integers(0, 1 << 30),
    shift=st.integers(0, 1 << 30),
    data=st.data(),
)
def test_with_equal_racks_every_broker_has_as_many_replicas_and_every_leader_many_partners(
    racks: int, in_each: int, rounds: int, start: int, shift: int, data: st.DataObject
) -> None:
    brokers = range(racks * in_each)
    factor = data.draw(st.integers(1, len(brokers)))
    placed = list(
        place(
            brokers,
            partitions=rounds * len(brokers),
            replication_factor=factor,
            start=start,
            shift=shift,
            racks={broker: f"rack-{broker % racks}" for broker in brokers},
        )
    )
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {rounds * factor}
    if factor > 1 and len(brokers) > 2:
        partners = {replicas[1] for replicas in placed if replicas[0] == 0}
        assert len(partners) >= min(rounds, in_each if racks > 1 else in_each - 1, 2)


def test_a_new_topic_spreads_its_replicas_over_the_brokers_racks(cluster) -> None:
    cluster.start(1, 2, 3, 4)
    for broker_id, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b")):
        cluster.image._brokers[broker_id] = dataclasses.replace(cluster.image.broker(broker_id), rack=rack)
    [made] = cluster.make(NewTopic(name="t", num_partitions=8, replication_factor=2))
    for state in cluster.image.partitions(made.topic_id):
        assert {broker <= 2 for broker in state.replicas} == {True, False}
