"""What moved between two samples."""

from dataclasses import replace

from quorate.broker.admin.admin_client import TopicPartition
from quorate.cli.top.board import board_of
from quorate.cli.top.sampling import Partition, Sample

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def sample(at_s: float, partitions: dict[TopicPartition, Partition], **more: object) -> Sample:
    values: dict[str, object] = {
        "quorum": None,
        "racks": {1: None, 2: None},
        "fenced": frozenset(),
        "moving": frozenset(),
        "lags": {},
    }
    return Sample(at_s=at_s, partitions=partitions, **(values | more))  # type: ignore[arg-type]


def part(leader: int | None, end: int | None, size: int | None, isr: tuple[int, ...] = (1, 2)) -> Partition:
    return Partition(leader=leader, replicas=(1, 2), isr=isr, end=end, size=size)


def test_rates_are_differences_by_the_time_between_the_samples() -> None:
    before = sample(10.0, {A: part(1, 100, 1000), B: part(2, 5, 50)})
    now = sample(14.0, {A: part(1, 300, 5000), B: part(2, 5, 50)})
    board = board_of(before, now)
    assert [(each.name, each.records_per_s, each.bytes_per_s) for each in board.topics] == [
        ("a", 50.0, 1000.0),
        ("b", 0.0, 0.0),
    ]
    assert [(each.name, each.records_per_s, each.partitions) for each in board.brokers] == [
        ("1", 50.0, 1),
        ("2", 0.0, 1),
    ]
    assert board.happened == ()


def test_what_nobody_said_is_no_zero() -> None:
    board = board_of(sample(0.0, {A: part(1, None, None)}), sample(1.0, {A: part(1, 7, 7)}))
    (topic,) = board.topics
    assert topic.records_per_s is None
    assert topic.bytes_per_s is None


def test_a_topic_that_begins_again_and_a_leader_with_fewer_bytes_give_no_negative_rates() -> None:
    before = sample(0.0, {A: part(1, 100, 1000)})
    (topic,) = board_of(before, sample(1.0, {A: part(1, 3, 30)})).topics
    assert (topic.records_per_s, topic.bytes_per_s) == (0.0, 0.0)
    (topic,) = board_of(before, sample(1.0, {A: part(2, 103, 9000)})).topics
    assert (topic.records_per_s, topic.bytes_per_s) == (3.0, 0.0)


def test_the_sick_are_counted_and_stand_first() -> None:
    now = sample(1.0, {A: part(1, 9, 9), B: part(None, None, None, isr=(2,))})
    board = board_of(sample(0.0, {A: part(1, 0, 0)}), now)
    assert [(each.name, each.not_in_sync, each.without_leader) for each in board.topics] == [
        ("b", 1, 1),
        ("a", 0, 0),
    ]
    assert [(each.name, each.not_in_sync) for each in board.brokers] == [("1", 1), ("2", 0)]


def test_what_happened_is_said() -> None:
    before = sample(0.0, {A: part(1, 0, 0)}, moving=frozenset({A}))
    now = sample(
        1.0,
        {A: part(2, 0, 0, isr=(2,)), B: part(2, 0, 0)},
        racks={2: None, 3: None},
        fenced=frozenset({1}),
    )
    assert board_of(before, now).happened == (
        "broker 1 is fenced",
        "broker 3 is live",
        "topic b was created",
        "a-0 is led by broker 2",
        "broker 1 left the ISR of a-0",
        "a-0 has moved",
    )
    gone = board_of(now, replace(now, partitions={}, at_s=2.0))
    assert gone.happened == ("topic a was deleted", "topic b was deleted")
