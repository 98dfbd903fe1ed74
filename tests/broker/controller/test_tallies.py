"""The counts of large topics, which are kept in pieces."""

import random
import uuid

import pytest

from quorate.broker.metadata import tallies
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    Partition,
    PartitionChange,
    Record,
    RemoveTopic,
    ShrinkTopic,
    Topic,
)
from quorate.broker.metadata_cache import MetadataCache
from quorate.types import Epoch
from tests.broker.controller.images import feed

PIECE = 3
DIRECTORIES = [uuid.UUID(int=900 + number) for number in range(3)]


class Topics:
    """Random records, each of which fits."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._sizes: dict[uuid.UUID, int] = {}
        self._made = 0

    def next(self) -> list[Record]:
        draw = self._draw
        if not self._sizes or draw.random() < 0.15:
            self._made += 1
            topic_id = uuid.UUID(int=500 + self._made)
            self._sizes[topic_id] = 0
            return [Topic(name=f"t{self._made}", topic_id=topic_id), *self._more(topic_id)]
        topic_id = draw.choice(list(self._sizes))
        size = self._sizes[topic_id]
        match draw.randrange(6):
            case 0:
                del self._sizes[topic_id]
                return [RemoveTopic(topic_id=topic_id)]
            case 1 if size > 1:
                self._sizes[topic_id] = draw.randrange(1, size)
                return [ShrinkTopic(topic_id=topic_id, num_partitions=self._sizes[topic_id])]
            case 2:
                return list(self._more(topic_id))
            case _:
                return [
                    PartitionChange(
                        topic_id=topic_id,
                        partition_id=draw.randrange(size),
                        leader=draw.choice((NO_LEADER, 1, 2, 3)),
                        isr=tuple(draw.sample((1, 2, 3), draw.randint(1, 3))),
                    )
                ]

    def _more(self, topic_id: uuid.UUID) -> list[Record]:
        draw, first = self._draw, self._sizes[topic_id]
        self._sizes[topic_id] += draw.randint(1, 3 * PIECE)
        found: list[Record] = []
        for number in range(first, self._sizes[topic_id]):
            replicas = tuple(draw.sample((1, 2, 3, 4), 3))
            found.append(
                Partition(
                    topic_id=topic_id,
                    partition_id=number,
                    replicas=replicas,
                    isr=replicas,
                    leader=replicas[draw.randrange(2)],
                    directories=tuple(draw.choices(DIRECTORIES, k=3)),
                    # Those that a shrinking topic has lost had lower ones.
                    leader_epoch=Epoch(1000 + self._made),
                )
            )
        return found


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_all_partitions_wherever_a_topic_grows_and_shrinks(
    new_cluster, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "PIECE", PIECE)
    topics, cluster, cache = Topics(random.Random(seed)), new_cluster(), MetadataCache()
    for _ in range(60):
        records = topics.next()
        feed(cache, records)
        for image in (cache.image, cache.image.copy()):
            cluster.image = image
            cluster.check_counts()
