"""Metadata that changes many partitions here at once: in pieces, in order, and acted upon at the end."""

import uuid

import pytest
import trio
import trio.testing

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Partition, PartitionChange, Topic
from quorate.broker.metadata.states import PartitionState
from quorate.broker.metadata_cache import whole_image
from quorate.broker.replication.hosting.hosting import Hosting
from quorate.broker.replication.hosting.metadata_intake import CHANGED, Backlog

MANY = 1000


def work(did, name, count):
    for number in range(count):
        did.append((name, number))
        yield CHANGED


async def test_a_small_work_is_done_when_add_returns(nursery) -> None:
    did: list[tuple[str, int]] = []
    backlog = Backlog()
    backlog.add(work(did, "a", 3))
    assert did == [("a", 0), ("a", 1), ("a", 2)]
    assert backlog.empty


async def test_a_large_one_lets_others_run_and_what_came_later_waits_for_it(nursery) -> None:
    did: list[tuple[str, int]] = []
    backlog = Backlog()
    backlog.add(work(did, "a", MANY))
    backlog.add(work(did, "b", 3))
    pieces = [len(did)]
    assert not backlog.empty
    nursery.start_soon(backlog.run)
    while not backlog.empty:
        await trio.lowlevel.checkpoint()
        pieces.append(len(did) - sum(pieces))
    assert max(pieces) <= 2 * 64, "the order of tasks in a pass is drawn: two may lie between two looks"
    assert did == [*(("a", number) for number in range(MANY)), *(("b", number) for number in range(3))]


async def test_a_broker_takes_many_roles_in_pieces_and_says_how_far_it_got(
    make_cluster, autojump_clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await make_cluster(2)
    manager = cluster[1].manager
    image = cluster.controller.image.copy()
    topic_id = uuid.UUID(int=77)
    hosted: list[int] = []

    def host(
        self: Hosting, topic: str, topic_id: uuid.UUID, partition_id: int, state: PartitionState, **_: object
    ) -> None:
        hosted.append(partition_id)

    monkeypatch.setattr(Hosting, "host", host)
    image.apply(Topic(name="many", topic_id=topic_id), offset=image.offset + 1, epoch=1)
    for number in range(MANY):
        image.apply(
            Partition(topic_id=topic_id, partition_id=number, replicas=(1, 2), isr=(1, 2), leader=1),
            offset=image.offset + 1,
            epoch=1,
        )
    acted = manager.intake.changes.acted_offset
    manager.intake.apply(whole_image(image), image)
    # What a later record changes is not what this delta says.
    end = image.offset
    image.apply(PartitionChange(topic_id=topic_id, partition_id=0, leader=2), offset=end + 1, epoch=1)
    pieces = [len(hosted)]
    while manager.intake.changes.acted_offset == acted:
        await trio.lowlevel.checkpoint()
        pieces.append(len(hosted) - sum(pieces))
    assert manager.intake.changes.acted_offset == end
    assert max(pieces) <= 2 * 65
    assert hosted == [0, *range(MANY)]


def test_the_changes_of_a_whole_image_are_those_of_the_moment_it_was_asked_for() -> None:
    image = MetadataImage()
    topic_id = uuid.UUID(int=1)
    image.apply(Topic(name="t", topic_id=topic_id), offset=0, epoch=1)
    image.apply(
        Partition(topic_id=topic_id, partition_id=0, replicas=(1,), isr=(1,), leader=1), offset=1, epoch=1
    )
    delta = whole_image(image)
    image.apply(PartitionChange(topic_id=topic_id, partition_id=0, leader=-1), offset=2, epoch=1)
    for _ in range(2):
        [each] = delta.partitions
        assert each.after is not None
        assert each.after.leader == 1
