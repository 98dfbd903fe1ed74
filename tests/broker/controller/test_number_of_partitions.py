"""CreatePartitions, and our ShrinkTopics: a topic gets more partitions, and loses its last ones."""

import uuid
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.controller.operations.number_of_partitions import create_partitions
from quorate.broker.controller.rpc import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    ExtendedTopic,
    FewerPartitions,
    MorePartitions,
    NewTopic,
    ShrinkTopicsRequest,
    ShrunkTopic,
)
from quorate.broker.metadata.metadata_records import (
    BeginTransaction,
    EndTransaction,
    FirstEpoch,
    Partition,
    PartitionChange,
    ShrinkTopic,
    Topic,
)
from quorate.error_code import ErrorCode
from quorate.runtime.slices import at_once
from quorate.types import Epoch
from tests.broker.controller.controller_node import started


def extended(cluster, name: str, count: int) -> None:
    [made] = cluster.extend(MorePartitions(name=name, count=count))
    assert made.error is ErrorCode.NONE, made.error_message


def shrunk(cluster, name: str, count: int) -> None:
    [made] = cluster.shrink(FewerPartitions(name=name, count=count))
    assert made.error is ErrorCode.NONE, made.error_message


def test_new_partitions_go_on_where_the_topics_last_one_is(cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (2, 3))
    extended(cluster, "t", 7)
    states = cluster.image.partitions(topic)
    assert [state.replicas[0] for state in states] == [2, 3, 1, 2, 3, 1, 2]
    assert all(len(state.replicas) == 2 and state.leader == state.isr[0] for state in states)
    assert cluster.image == cluster.replayed()
    cluster.check()


def test_new_partitions_have_the_replicas_that_are_named(cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2))
    cluster.fence(3)
    [made] = cluster.extend(MorePartitions(name="t", count=3, assignments=((3, 1), (2, 1))))
    assert made.error is ErrorCode.NONE
    states = cluster.image.partitions(topic)
    assert [(state.replicas, state.isr, state.leader) for state in states[1:]] == [
        ((3, 1), (1,), 1),
        ((2, 1), (2, 1), 2),
    ]


@pytest.mark.bug("KAFKA-13861")
@pytest.mark.parametrize(
    ("item", "error", "says"),
    [
        (MorePartitions(name="u", count=3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not host"),
        (MorePartitions(name="t", count=2), ErrorCode.INVALID_PARTITIONS, "already has 2 partition"),
        (MorePartitions(name="t", count=1), ErrorCode.INVALID_PARTITIONS, "1 would not be an increase"),
        (MorePartitions(name="t", count=-1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (
            MorePartitions(name="t", count=3, assignments=()),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "add 1 additional partition",
        ),
        (
            MorePartitions(name="t", count=3, assignments=((1, 2), (1, 2))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "but 2 assignment",
        ),
        (MorePartitions(name="t", count=3, assignments=((),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty"),
        (
            MorePartitions(name="t", count=3, assignments=((1, 1),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "once",
        ),
        (
            MorePartitions(name="t", count=3, assignments=((1, 9),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "broker 9",
        ),
        (
            MorePartitions(name="t", count=3, assignments=((1,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "1 replica",
        ),
        (
            MorePartitions(name="t", count=3, assignments=((3, 4),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partition 2 are fenced",
        ),
        (MorePartitions(name="t", count=10_003), ErrorCode.POLICY_VIOLATION, "excessively large"),
        (MorePartitions(name="t", count=(1 << 31) - 1), ErrorCode.POLICY_VIOLATION, "excessively large"),
        (
            MorePartitions(name="__consumer_offsets", count=9),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "can't get more partitions",
        ),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_more_partitions_are_refused_with_kafkas_error_and_the_others_are_made(
    cluster, item: MorePartitions, error: ErrorCode, says: str, validate_only: bool
) -> None:
    cluster.start(1, 2, 3, 4)
    topic, other = cluster.create("t", (1, 2), (2, 1)), cluster.create("other", (1,))
    cluster.create("__consumer_offsets", (1, 2))
    cluster.fence(3)
    cluster.fence(4)
    refused, made = cluster.extend(item, MorePartitions(name="other", count=2), validate_only=validate_only)
    assert (refused.name, refused.error) == (item.name, error)
    assert says in str(refused.error_message)
    assert made == ExtendedTopic(name="other")
    assert len(cluster.image.partitions(topic)) == 2
    assert len(cluster.image.partitions(other)) == (1 if validate_only else 2)


def test_more_replicas_than_brokers_are_left_are_refused(cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    cluster.unregister(2)
    [refused] = cluster.extend(MorePartitions(name="t", count=2))
    assert refused.error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "of 2 cannot be reached because only 1 broker(s) are registered" in str(refused.error_message)


def test_a_topic_named_twice_is_neither_extended_nor_shrunk_and_has_one_result(cluster) -> None:
    cluster.start(1)
    cluster.create("t", (1,), (1,))
    twice = cluster.extend(MorePartitions(name="t", count=3), MorePartitions(name="t", count=4))
    assert [(each.name, each.error) for each in twice] == [("t", ErrorCode.INVALID_REQUEST)]
    less = cluster.shrink(FewerPartitions(name="t", count=1), FewerPartitions(name="t", count=1))
    assert [(each.name, each.error) for each in less] == [("t", ErrorCode.INVALID_REQUEST)]
    assert cluster.image.partition_count() == 2


def test_partitions_asked_for_again_are_taken_for_done_if_they_may_be(cluster) -> None:
    cluster.start(1)
    cluster.create("t", (1,))
    asked = CreatePartitionsRequest(topics=(MorePartitions(name="t", count=3),))
    for _ in range(2):
        answer = cluster.do(at_once(create_partitions(cluster.image, asked)))
        assert answer.topics[0].error is ErrorCode.NONE
        asked = asked.after_unknown_outcome()
    assert cluster.image.partition_count() == 3
    assert not ShrinkTopicsRequest(topics=()).repeatable, "it may have grown again"


# Fewer


@pytest.mark.parametrize(
    ("item", "error", "says"),
    [
        (FewerPartitions(name="u", count=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not host"),
        (FewerPartitions(name="t", count=2), ErrorCode.INVALID_PARTITIONS, "2 would not be a decrease"),
        (FewerPartitions(name="t", count=3), ErrorCode.INVALID_PARTITIONS, "3 would not be a decrease"),
        (FewerPartitions(name="t", count=0), ErrorCode.INVALID_PARTITIONS, "delete the topic"),
        (FewerPartitions(name="t", count=-1), ErrorCode.INVALID_PARTITIONS, "at least one stays"),
        (
            FewerPartitions(name="__consumer_offsets", count=1),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "can't lose partitions",
        ),
    ],
)
def test_a_shrinking_is_refused_with_a_sentence_and_the_others_take_place(
    cluster, item: FewerPartitions, error: ErrorCode, says: str
) -> None:
    cluster.start(1)
    cluster.create("t", (1,), (1,))
    cluster.create("__consumer_offsets", (1,), (1,))
    other = cluster.create("other", (1,), (1,), (1,))
    refused, made = cluster.shrink(item, FewerPartitions(name="other", count=2))
    assert (refused.name, refused.error) == (item.name, error)
    assert says in str(refused.error_message)
    assert made == ShrunkTopic(name="other")
    assert len(cluster.image.partitions(other)) == 2
    assert cluster.image.partition_count() == 6


def test_a_shrinking_that_is_only_validated_takes_nothing(cluster) -> None:
    cluster.start(1)
    cluster.create("t", (1,), (1,))
    [made] = cluster.shrink(FewerPartitions(name="t", count=1), validate_only=True)
    assert made.error is ErrorCode.NONE
    assert cluster.image.partition_count() == 2


def test_a_topic_that_was_shrunk_in_too_many_steps_is_shrunk_below_them_only(cluster) -> None:
    cluster.start(1)
    topic = uuid.UUID(int=1000)
    steps = tuple(FirstEpoch(partition_id=number, leader_epoch=Epoch(number)) for number in range(1, 1025))
    whole = Partition(topic_id=topic, partition_id=0, replicas=(1,), isr=(1,), leader=1)
    cluster.append(
        Topic(name="t", topic_id=topic, first_epochs=steps),
        *(replace(whole, partition_id=number) for number in range(1030)),
    )
    [refused] = cluster.shrink(FewerPartitions(name="t", count=1025))
    assert refused.error is ErrorCode.POLICY_VIOLATION
    assert "shrink it to 1024 partition(s) or fewer" in str(refused.error_message)
    shrunk(cluster, "t", 1024)


COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=12)


@given(counts=COUNTS, data=st.data())
def test_no_two_partitions_of_one_number_ever_have_a_leader_epoch_in_common(
    new_cluster, counts: list[int], data: st.DataObject
) -> None:
    """However a topic grows, shrinks, and changes its leaders in between."""
    cluster = new_cluster()
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    born: dict[int, int] = {0: 0}
    highest: Counter[int] = Counter()
    for count in counts:
        held = len(cluster.image.partitions(topic))
        if count > held:
            extended(cluster, "t", count)
            for number in range(held, count):
                first = cluster.partition(topic, number).leader_epoch
                assert first > highest[number] or number not in born
                assert first == cluster.image.topics[topic].first_epoch(number)
                born[number] = highest[number] = first
        elif count < held:
            shrunk(cluster, "t", count)
        for number in data.draw(st.lists(st.integers(0, count - 1), max_size=4)):
            cluster.append(PartitionChange(topic_id=topic, partition_id=number, leader=1))
            highest[number] = cluster.partition(topic, number).leader_epoch
    for number, state in enumerate(cluster.image.partitions(topic)):
        assert born[number] == cluster.image.topics[topic].first_epoch(number) <= state.leader_epoch
    assert cluster.image == cluster.replayed()
    cluster.check()


# At the active controller


async def test_many_partitions_are_added_in_pieces_as_one_change(autojump_clock) -> None:
    node = await started()
    assert await node.create("t", "u", factor=2) == [ErrorCode.NONE] * 2
    before = len(node.log.batches)
    answer = await node.ask(
        CreatePartitionsRequest(
            topics=(MorePartitions(name="t", count=41), MorePartitions(name="u", count=3))
        )
    )
    assert [each.error for each in answer.topics] == [ErrorCode.NONE] * 2
    written = node.log.batches[before:]
    assert max(len(batch.records) for batch in written) <= 4
    records = node.log.committed[written[0].base_offset :]
    assert isinstance(records[0], BeginTransaction)
    assert isinstance(records[41], EndTransaction)
    assert node.log.image.partition_count() == 44


async def test_more_partitions_than_one_request_may_make_are_refused_as_a_whole(autojump_clock) -> None:
    node = await started()
    assert await node.create("t", "u", "v") == [ErrorCode.NONE] * 3
    answer = await node.ask(
        CreatePartitionsRequest(
            topics=tuple(MorePartitions(name=name, count=4_001) for name in ("t", "u", "v"))
        )
    )
    assert [each.error for each in answer.topics] == [ErrorCode.POLICY_VIOLATION] * 3
    created = await node.ask(
        CreateTopicsRequest(
            topics=tuple(
                NewTopic(name=name, num_partitions=4_000, replication_factor=1) for name in ("a", "b", "c")
            )
        )
    )
    assert [each.error for each in created.topics] == [ErrorCode.POLICY_VIOLATION] * 3
    assert node.log.image.partition_count() == 3


async def test_a_name_that_is_far_apart_in_a_long_request_has_one_result(autojump_clock) -> None:
    node = await started()
    assert await node.create("t") == [ErrorCode.NONE]
    names = ["t", *(f"n{number}" for number in range(10)), "t"]
    more = await node.ask(
        CreatePartitionsRequest(topics=tuple(MorePartitions(name=name, count=2) for name in names))
    )
    less = await node.ask(
        ShrinkTopicsRequest(topics=tuple(FewerPartitions(name=name, count=1) for name in names))
    )
    for answer in (more, less):
        assert [each.name for each in answer.topics] == names[:-1]
        assert answer.topics[0].error is ErrorCode.INVALID_REQUEST


async def test_shrinking_is_one_record_however_many_partitions_go(autojump_clock) -> None:
    node = await started()
    assert await node.create("t", partitions=400, factor=2) == [ErrorCode.NONE]
    answer = await node.ask(ShrinkTopicsRequest(topics=(FewerPartitions(name="t", count=2),)))
    assert answer.topics == (ShrunkTopic(name="t"),)
    assert isinstance(node.log.committed[-1], ShrinkTopic)
    assert node.log.image.partition_count() == 2
