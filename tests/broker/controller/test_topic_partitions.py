"""A topic's partitions in columns look like a list of states, and share what is equal."""

import uuid

import pytest

from quorate.broker.metadata.image import ImageError
from quorate.broker.metadata.metadata_records import LeaderRecoveryState, Partition, PartitionChange, Topic
from quorate.broker.metadata.states import NO_ELIGIBLE, EligibleLeaders, PartitionState
from quorate.broker.metadata.topic_partitions import MAX_EPOCH, Recent, SharedParts, TopicPartitions
from quorate.types import Epoch
from tests.broker.controller.images import image_of

TOPIC, OTHER = uuid.UUID(int=500), uuid.UUID(int=501)
HERE, THERE = uuid.UUID(int=1000), uuid.UUID(int=1001)


def fresh(*values):
    """A tuple that is no other object, as one that was just decoded."""
    return values


def state(number: int = 0, **fields) -> PartitionState:
    values = {
        "replicas": (1, 2, 3),
        "isr": (1, 2),
        "removing_replicas": (),
        "adding_replicas": (3,),
        "leader": 2,
        "leader_recovery_state": LeaderRecoveryState.RECOVERED,
        "leader_epoch": Epoch(number),
        "partition_epoch": 10 + number,
        "eligible": NO_ELIGIBLE,
        "directories": (HERE, THERE, HERE),
    }
    return PartitionState(**{**values, **fields})


def partitions_of(*states: PartitionState) -> TopicPartitions:
    made, shared = TopicPartitions(owner=None), SharedParts()
    for each in states:
        made.append(each, shared)
    return made


DIFFERENT = (
    state(),
    state(1),
    state(replicas=(3, 2, 1)),
    state(isr=(3,)),
    state(removing_replicas=(2,)),
    state(adding_replicas=()),
    state(leader=-1),
    state(leader_recovery_state=LeaderRecoveryState.RECOVERING),
    state(eligible=EligibleLeaders((3,), ())),
    state(directories=(THERE, HERE, HERE)),
    state(directories=()),
    state(leader_epoch=MAX_EPOCH, partition_epoch=MAX_EPOCH),
)


def test_states_come_back_as_they_were_put_in() -> None:
    held = partitions_of(*DIFFERENT)
    assert tuple(held) == DIFFERENT
    assert [held[index] for index in range(len(held))] == [*DIFFERENT]
    assert (held[-1], held[2:7:2], held[:0]) == (DIFFERENT[-1], [*DIFFERENT[2:7:2]], [])
    with pytest.raises(IndexError):
        held[len(DIFFERENT)]


def test_a_replaced_partition_changes_alone_in_every_field() -> None:
    for each in DIFFERENT:
        held = partitions_of(DIFFERENT[0], DIFFERENT[1], DIFFERENT[0])
        held.replace(1, each, SharedParts())
        assert list(held) == [DIFFERENT[0], each, DIFFERENT[0]]


def test_two_are_equal_if_all_their_partitions_are() -> None:
    for place, each in enumerate(DIFFERENT):
        for other_place, other in enumerate(DIFFERENT):
            assert (partitions_of(each) == partitions_of(other)) == (place == other_place)
    assert partitions_of(DIFFERENT[0]) != partitions_of(DIFFERENT[0], DIFFERENT[0])


def test_a_copy_is_apart() -> None:
    held = partitions_of(*DIFFERENT)
    twin = held.copy(owner="another")
    assert twin == held
    twin.replace(0, DIFFERENT[3], SharedParts())
    twin.shrink(2)
    assert (list(twin), tuple(held)) == ([DIFFERENT[3], DIFFERENT[1]], DIFFERENT)


def test_equal_parts_of_all_topics_are_one_object() -> None:
    records = [Topic(name=str(topic_id), topic_id=topic_id) for topic_id in (TOPIC, OTHER)]
    for topic_id in (TOPIC, OTHER):
        records += [
            Partition(
                topic_id=topic_id,
                partition_id=number,
                replicas=fresh(1, 2),
                isr=fresh(1, 2),
                leader=1,
                leader_epoch=Epoch(number),
                directories=fresh(HERE, THERE),
            )
            for number in range(3)
        ]
    image = image_of(records)
    states = [each for _, each in image.all_partitions()]
    assert [each.leader_epoch for each in states] == [0, 1, 2] * 2
    assert len({id(each.replicas) for each in states} | {id(each.isr) for each in states}) == 1
    assert len({id(each.directories) for each in states}) == 1


def test_values_that_were_not_asked_for_of_late_are_forgotten() -> None:
    recent: Recent[tuple[int, ...]] = Recent(most=4)
    kept = recent[fresh(1, 2)]
    for number in range(100):
        assert recent[number, number] == (number, number)
        assert recent[fresh(1, 2)] is kept
    assert len(recent) + len(recent._earlier) <= 8
    assert (5, 5) not in {**recent, **recent._earlier}


@pytest.mark.parametrize("epoch", ["leader_epoch", "partition_epoch"])
def test_an_epoch_that_kafka_cannot_state_does_not_fit_the_image(epoch: str) -> None:
    full = Partition(topic_id=TOPIC, partition_id=0, replicas=(1,), isr=(1,), leader=1, **{epoch: MAX_EPOCH})
    image = image_of([Topic(name="t", topic_id=TOPIC), full])
    before = image.copy()
    with pytest.raises(ImageError, match=r"has the epochs \d+ and \d+, more than 2147483647"):
        image.apply(PartitionChange(topic_id=TOPIC, partition_id=0, leader=1), offset=2, epoch=1)
    assert image == before and image.offset == 1
