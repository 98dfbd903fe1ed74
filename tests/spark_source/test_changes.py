"""State and changes, made from any history, beside the image that the nodes make of it."""

import pickle
import random
from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    Config,
    ConfigType,
    Partition,
    PartitionChange,
    Record,
    RemoveTopic,
    Topic,
)
from quorate.broker.metadata.record_codec import encode
from quorate.spark_source.changes.feed import ChangeFeed, state_rows
from quorate.spark_source.changes.metadata_changes import MetadataChanges
from quorate.spark_source.chunks import Chunk, places_of_batch
from tests.kit.metadata_histories import HistoryMaker
from tests.spark_source.conftest import in_order
from tests.spark_source.metadata_states import METADATA, State, by_key, fold, state_in


def chunk_of(records: list[Record], start: int) -> Chunk:
    values = [encode(each) for each in records]
    time = 1_700_000_000_000 + start
    return Chunk.of(values, places_of_batch(len(values), offset=start, epoch=1, timestamp_ms=time))


def state_of(state: MetadataChanges) -> State:
    return {
        entity: by_key(entity, [row for batch in state_rows(state, entity) for row in batch.to_pylist()])
        for entity in METADATA
    }


def drawn(seed: int, count: int) -> Iterator[tuple[list[Record], MetadataImage]]:
    """Stretches of a history, each with the published image at its end."""
    draw = random.Random(seed)
    maker = HistoryMaker(draw)
    loader = BatchLoader()
    start = 0
    while start < count:
        records = [maker.next() for _ in range(draw.randint(1, 25))]
        loader.load(records, base_offset=start, epoch=1)
        start += len(records)
        yield records, loader.image


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_the_state_is_that_of_the_nodes_image_after_any_history(seed: int) -> None:
    state = MetadataChanges(entities=METADATA)
    start = 0
    for records, image in drawn(seed, 250):
        state.feed(chunk_of(records, start))
        start += len(records)
        assert state_of(state) == state_in(image), f"after offset {start - 1}"


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_the_changes_lead_from_each_state_to_the_next(seed: int) -> None:
    feed = ChangeFeed(MetadataChanges(entities=METADATA), None)
    held: State = {entity: {} for entity in METADATA}
    start = 0
    for records, image in drawn(seed, 250):
        rows = [row for batch in feed.rows(chunk_of(records, start)) for row in batch.to_pylist()]
        start += len(records)
        fold(in_order(rows), held)
        assert held == state_in(image), f"after offset {start - 1}"


@pytest.mark.slow
def test_the_tables_of_a_reader_do_not_grow_with_the_log() -> None:
    """Topics come and go, and their partitions change. There are never more than at the beginning."""
    draw = random.Random(1)
    state = MetadataChanges(entities=METADATA)
    feed = ChangeFeed(state, None)
    start = 0

    def replace_topics(topics: int) -> None:
        nonlocal start
        for _ in range(topics):
            topic_id = UUID(bytes=draw.randbytes(16))
            name, replicas = draw.randbytes(8).hex(), (1, 2, 3)
            records: list[Record] = [
                Topic(name=name, topic_id=topic_id),
                Config(resource_type=ConfigType.TOPIC, resource_name=name, name="retention.ms", value="1"),
            ]
            records += [
                Partition(topic_id=topic_id, partition_id=each, replicas=replicas, isr=replicas, leader=1)
                for each in range(20)
            ]
            records += [
                PartitionChange(topic_id=topic_id, partition_id=draw.randrange(20), isr=isr, leader=isr[0])
                for isr in (replicas, replicas[1:]) * 20
            ]
            records.append(RemoveTopic(topic_id=topic_id))
            for _ in feed.rows(chunk_of(records, start)):
                pass
            start += len(records)

    replace_topics(20)
    least = len(pickle.dumps(state))
    replace_topics(180)
    most = len(pickle.dumps(state))
    assert most < 1.02 * least, f"{most} bytes, and {least} after a tenth of the topics"
