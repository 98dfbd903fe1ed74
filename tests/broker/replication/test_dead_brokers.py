"""A broker that was down while topics were created, moved and deleted catches up with what is left of it
(Kafka's V2 queues its state changes; here the metadata log is the queue)."""

import random
import uuid

import pytest

from quorate.broker.metadata.metadata_records import Partition, PartitionChange, RemoveTopic, Topic
from quorate.broker.replication.hosting.hosting import Hosting
from quorate.broker.replication.storage.folders import load_partition_metadata

CHANGES = 10_000
NAMES = 40


def change(controller, draw: random.Random, number: int) -> None:
    """Create a topic, delete one, or move it to the broker or away from it."""
    name = f"t{draw.randrange(NAMES)}"
    topic = controller.image.topic(name)
    here, elsewhere = (2, 1), (1, 3)
    if topic is None:
        topic_id = uuid.UUID(int=(8 << 100) + number)
        replicas = draw.choice([here, elsewhere])
        controller.commit(
            Topic(name=name, topic_id=topic_id),
            Partition(topic_id=topic_id, partition_id=0, replicas=replicas, isr=(1,), leader=1),
        )
    elif draw.random() < 0.4:
        controller.commit(RemoveTopic(topic_id=topic.topic_id))
    else:
        held = controller.image.partition(topic.topic_id, 0).replicas
        controller.commit(
            PartitionChange(
                topic_id=topic.topic_id, partition_id=0, replicas=elsewhere if 2 in held else here, isr=(1,)
            )
        )


def wanted(controller) -> dict[str, uuid.UUID]:
    image = controller.image
    return {
        f"{image.topics[key.topic_id].name}-{key.partition_id}": key.topic_id
        for key, state in image.all_partitions()
        if 2 in state.replicas
    }


def folders(broker) -> dict[str, uuid.UUID]:
    found = (name for name in broker.disk.list("data") if name.startswith("t"))
    return {
        name: identity.topic_id
        for name in found
        if (identity := load_partition_metadata(broker.disk, f"data/{name}")) is not None
    }


@pytest.mark.slow
async def test_a_broker_that_missed_10000_changes_does_work_for_what_is_left(
    make_brokers, autojump_clock, monkeypatch
) -> None:
    draw = random.Random(9)
    cluster = make_brokers(brokers=3, min_isr=1)
    await cluster.start()
    controller = cluster.controller
    for number in range(60):
        change(controller, draw, number)
    await cluster.until(lambda: folders(cluster[2]) == wanted(controller), within_s=600)
    before = wanted(controller)
    controller.fence(2)
    await cluster[2].crash()
    for broker_id in (1, 3):
        cluster[broker_id].hold_metadata()  # of no interest here
    for number in range(60, 60 + CHANGES):
        change(controller, draw, number)
    after = wanted(controller)
    assert before != after

    opened: list[str] = []
    hosted, dropped = Hosting.host, Hosting.drop
    calls = {"host": 0, "drop": 0}

    def host(self: Hosting, topic: str, *arguments: object, **options: object) -> None:
        calls["host"] += self._broker_id == 2
        opened.append(f"{topic}-0")
        hosted(self, topic, *arguments, **options)  # type: ignore[arg-type]

    def drop(self: Hosting, *arguments: object, **options: object) -> None:
        calls["drop"] += self._broker_id == 2
        dropped(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Hosting, "host", host)
    monkeypatch.setattr(Hosting, "drop", drop)
    await cluster[2].start(unfence=False)
    await cluster[2].crash()  # in the middle of it
    calls["host"] = calls["drop"] = 0
    left = folders(cluster[2])
    await cluster[2].start(unfence=False)
    await cluster.until(lambda: folders(cluster[2]) == after, within_s=600)
    await cluster.until(lambda: cluster[2].manager._parts.base.hosted.settled)
    assert set(opened) <= set(after), "what is gone is never started"
    assert calls["host"] <= 2 * len(after), "once from the image, and once more if its ISR changed meanwhile"
    assert calls["drop"] <= len(left)
    assert controller.end_offset > CHANGES
