"""State and changes, made from any history, beside the image that the nodes make of it."""

import random
from collections.abc import Iterator
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import MIGRATING, Record
from quorate.broker.metadata.partition_runs import partition_record
from quorate.broker.metadata.record_codec import encode
from quorate.spark_source.changes.entities import RECORDS, Entity
from quorate.spark_source.changes.feed import ChangeFeed, state_rows
from quorate.spark_source.changes.metadata_changes import MetadataChanges
from quorate.spark_source.chunks import Chunk, places_of_batch
from quorate.spark_source.columns import plain
from tests.kit.metadata_histories import HistoryMaker

Rows: TypeAlias = list[dict[str, Any]]
METADATA = frozenset(Entity) - {Entity.QUORUM}
KEYS = {
    Entity.PARTITION: ("topic_id", "partition_id"),
    Entity.TOPIC: ("topic_id",),
    Entity.BROKER: ("broker_id",),
    Entity.CONFIG: ("resource_type", "resource_name", "name"),
    Entity.QUOTA: ("entity", "key"),
    Entity.FEATURE: ("name",),
}


def chunk_of(records: list[Record], start: int) -> Chunk:
    values = [encode(each) for each in records]
    time = 1_700_000_000_000 + start
    return Chunk(values, places_of_batch(len(values), offset=start, epoch=1, timestamp_ms=time))


def offline(image: MetadataImage, state: Any) -> list[int]:
    """As the Metadata API of a broker has it."""
    directories = state.directories or (MIGRATING,) * len(state.replicas)
    return [
        each
        for each, directory in zip(state.replicas, directories, strict=True)
        if (broker := image.broker(each)) is None or broker.fenced or not broker.has_online(directory)
    ]


def expected(image: MetadataImage) -> dict[Entity, Rows]:
    """The state, as the image has it."""
    found: dict[Entity, Rows] = {entity: [] for entity in METADATA}
    kinds = {record: entity for entity, record in RECORDS.items()}
    for record in image.records():
        if type(record) in kinds:
            found[kinds[type(record)]].append(plain(record))  # type: ignore[arg-type]
    for (topic_id, number), state in image.all_partitions():
        topic = image.topic_by_id(topic_id)
        assert topic is not None
        shown: Any = plain(partition_record(topic_id, number, state))
        found[Entity.PARTITION].append(
            {"topic": topic.name, **shown, "offline_replicas": offline(image, state)}
        )
    return found


def key_of(entity: Entity, row: dict[str, Any]) -> str:
    return repr([row[name] for name in KEYS[entity]])


def by_key(entity: Entity, rows: Rows) -> dict[str, dict[str, Any]]:
    return {key_of(entity, row): row for row in rows}


def state_of(state: MetadataChanges) -> dict[Entity, dict[str, dict[str, Any]]]:
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


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_the_state_is_that_of_the_nodes_image_after_any_history(seed: int) -> None:
    state = MetadataChanges(entities=METADATA)
    start = 0
    for records, image in drawn(seed, 250):
        state.feed(chunk_of(records, start))
        start += len(records)
        wanted = {entity: by_key(entity, rows) for entity, rows in expected(image).items()}
        assert state_of(state) == wanted, f"after offset {start - 1}"


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_the_changes_lead_from_each_state_to_the_next(seed: int) -> None:
    feed = ChangeFeed(MetadataChanges(entities=METADATA), None)
    held: dict[Entity, dict[str, dict[str, Any]]] = {entity: {} for entity in METADATA}
    start = 0
    for records, image in drawn(seed, 250):
        rows = [row for batch in feed.rows(chunk_of(records, start)) for row in batch.to_pylist()]
        start += len(records)
        for row in sorted(rows, key=lambda row: (row["offset"], row["row"])):
            entity = Entity(row["entity"])
            shown = row[entity.value]
            key = key_of(entity, shown)
            match row["_change_type"]:
                case "insert":
                    assert key not in held[entity]
                    held[entity][key] = shown
                case "update_preimage" | "delete":
                    assert held[entity].pop(key) == shown
                case "update_postimage":
                    assert key not in held[entity]
                    held[entity][key] = shown
            others = [row[each.value] for each in Entity if each is not entity]
            assert others == [None] * 6
        wanted = {entity: by_key(entity, found) for entity, found in expected(image).items()}
        assert held == wanted, f"after offset {start - 1}"
