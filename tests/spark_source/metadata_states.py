"""The rows of a state as the image of the nodes has them, and what a change feed makes of an empty state."""

from typing import Any, TypeAlias

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import MIGRATING
from quorate.broker.metadata.partition_runs import partition_record
from quorate.spark_source.changes.entities import RECORDS, Entity
from quorate.spark_source.columns import plain

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


State: TypeAlias = dict[Entity, dict[str, dict[str, Any]]]
"""The row of each thing, by the text of its key."""


def state_in(image: MetadataImage) -> State:
    """The state, as the image has it."""
    return {entity: by_key(entity, rows) for entity, rows in expected(image).items()}


def fold(rows: Rows, state: State) -> None:
    """Apply the rows of `view=changes`, in order, but for those of the quorum."""
    for row in rows:
        if row["_change_type"] == "snapshot":
            for held in state.values():
                held.clear()
        elif row["entity"] != "quorum":
            entity = Entity(row["entity"])
            shown, held = row[entity.value], state[entity]
            key = key_of(entity, shown)
            others = [row[each.value] for each in Entity if each is not entity]
            assert others == [None] * 6, row
            match row["_change_type"]:
                case "insert":
                    assert key not in held, row
                    held[key] = shown
                case "update_preimage" | "delete":
                    assert held.pop(key) == shown, row
                case "update_postimage":
                    assert key not in held, row
                    held[key] = shown
