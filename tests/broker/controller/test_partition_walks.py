"""What is noted of each changed partition: of a few at once, of many in pieces, of each once and in order."""

import uuid
from collections.abc import Awaitable, Callable

import trio
from trio.testing import wait_all_tasks_blocked

from quorate.broker.controller.liveness.broker_progress import BrokerProgress
from quorate.broker.controller.partition_walks import PartitionWalks
from quorate.broker.controller.state_machines import ReplicaPhase
from quorate.broker.metadata.delta import MetadataDelta, PartitionDelta, apply_records
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Partition, Record, RemoveTopic, ShrinkTopic, Topic
from quorate.types import Epoch
from tests.broker.controller import images

TOPIC = uuid.UUID(int=7 << 90)
MANY = 2500


def created(count: int) -> list[Record]:
    replicas = ((1, 2), (2, 3))
    return [
        Topic(name="t", topic_id=TOPIC),
        *(
            Partition(
                topic_id=TOPIC,
                partition_id=number,
                replicas=replicas[number % 2],
                isr=replicas[number % 2],
                leader=replicas[number % 2][0],
                leader_epoch=Epoch(number % 7),
            )
            for number in range(count)
        ),
    ]


def image_of(count: int) -> MetadataImage:
    return images.image_of(created(count))


def removal(image: MetadataImage) -> MetadataDelta:
    return apply_records(image, [RemoveTopic(topic_id=TOPIC)], base_offset=image.offset + 1, epoch=1)


class Noted:
    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, offset: int, each: PartitionDelta) -> None:
        self.calls.append((offset, each.partition_id))


async def ran(task: Callable[[], Awaitable[None]]) -> None:
    """Until `task` waits."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


def test_a_few_partitions_are_noted_at_once() -> None:
    noted = Noted()
    walks = PartitionWalks(noted)
    walks.begin(removal(image_of(100)))
    assert noted.calls == [(101, number) for number in range(100)]
    assert not walks.under_way


async def test_the_first_of_many_partitions_are_noted_at_once_and_the_others_in_pieces() -> None:
    noted = Noted()
    walks = PartitionWalks(noted)
    walks.begin(removal(image_of(MANY)))
    assert len(noted.calls) == 1000 and walks.under_way
    await ran(walks.run)
    assert noted.calls == [(MANY + 1, number) for number in range(MANY)]
    assert not walks.under_way


async def test_a_later_change_waits_for_the_earlier_ones() -> None:
    noted = Noted()
    walks = PartitionWalks(noted)
    image = image_of(MANY)
    walks.begin(
        apply_records(image, [ShrinkTopic(topic_id=TOPIC, num_partitions=2)], base_offset=90, epoch=1)
    )
    walks.begin(apply_records(image, [RemoveTopic(topic_id=TOPIC)], base_offset=91, epoch=1))
    await ran(walks.run)
    assert noted.calls == [*((90, number) for number in range(2, MANY)), (91, 0), (91, 1)]


async def test_partitions_that_were_forgotten_are_not_noted() -> None:
    noted = Noted()
    walks = PartitionWalks(noted)
    walks.begin(removal(image_of(MANY)))
    walks.forget()
    assert not walks.under_way
    await ran(walks.run)
    assert len(noted.calls) == 1000


async def test_all_replicas_of_a_large_topic_are_counted_as_being_deleted() -> None:
    progress = BrokerProgress()
    image = image_of(MANY)
    progress.committed(removal(image), now=1, active=True)
    await ran(progress.run)
    counts = progress.removed_replicas(image)
    assert counts == {ReplicaPhase.DELETION_STARTED: 0, ReplicaPhase.DELETION_INELIGIBLE: 2 * MANY}
    progress.committed(removal(image_of(MANY)), now=2, active=True)
    progress.forget()
    await ran(progress.run)
    assert set(progress.removed_replicas(image).values()) == {0}


# The delta of a removal


def test_the_delta_of_a_removal_has_every_partition_as_it_was() -> None:
    image = image_of(MANY)
    states = list(image.partitions(TOPIC))
    delta = removal(image)
    for _ in range(2):
        found = list(delta.partitions)
        assert [each.before for each in found] == states
        assert [each.partition_id for each in found] == list(range(MANY))
        assert all(each.after is None and each.topic == "t" for each in found)


def test_partitions_that_came_again_in_the_run_that_removed_them_are_changed() -> None:
    image = image_of(6)
    states = list(image.partitions(TOPIC))
    records: list[Record] = [RemoveTopic(topic_id=TOPIC), *created(4)]
    delta = apply_records(image, records, base_offset=10, epoch=1)
    found = list(delta.partitions)
    assert [(each.partition_id, each.before) for each in found] == list(enumerate(states))
    assert [each.after for each in found] == [*states[:4], None, None]


def test_a_part_of_a_topic_that_went_and_came_is_as_it_was_before() -> None:
    image = image_of(6)
    states = list(image.partitions(TOPIC))
    again = [each for each in created(6)[5:] if isinstance(each, Partition)]
    records: list[Record] = [ShrinkTopic(topic_id=TOPIC, num_partitions=4), *again]
    found = list(apply_records(image, records, base_offset=10, epoch=1).partitions)
    assert [(each.partition_id, each.before) for each in found] == [(4, states[4]), (5, states[5])]


def test_counts_after_a_removal_are_those_of_an_image_that_never_had_the_topic() -> None:
    image = image_of(MANY)
    removal(image)
    assert (image.partition_count(), image.leaderless_count, image.imbalanced_count) == (0, 0, 0)
    assert not image.isr_members() and not dict(image.replica_homes())
    assert [image.leader_count(each) for each in (1, 2, 3)] == [0, 0, 0]
