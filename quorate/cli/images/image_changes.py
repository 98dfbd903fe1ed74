"""The difference of two images, as lines and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quorate.broker.metadata.delta import PartitionDelta
from quorate.broker.metadata.difference import difference
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ScramMechanism
from quorate.broker.metadata.states import PartitionKey
from quorate.cli.images.image_tree import (
    CONFIG_FOLDERS,
    Json,
    acl_value,
    broker_value,
    entity_name,
    file_name,
    partition_value,
    scram_values,
)
from quorate.cli.images.tree_shell import value_text
from quorate.runtime import uuid_text


@dataclass(frozen=True, slots=True)
class ImageChange:
    """An entry that differs between two images: its fields before and after. None: it is not there."""

    path: str
    """The path in the tree of the image."""
    before: Mapping[str, Json] | None
    after: Mapping[str, Json] | None

    def changed_fields(self) -> Iterator[tuple[str, Json, Json]]:
        before, after = self.before or {}, self.after or {}
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                yield name, before.get(name), after.get(name)

    def __str__(self) -> str:
        if self.before is None or self.after is None:
            sign, fields = ("+", self.after) if self.before is None else ("-", self.before)
            return f"{sign} {self.path} " + ", ".join(
                f"{name} {value_text(value)}" for name, value in (fields or {}).items()
            )
        return f"~ {self.path} " + ", ".join(
            f"{name} {value_text(before)} -> {value_text(after)}"
            for name, before, after in self.changed_fields()
        )

    def as_dict(self) -> dict[str, Json]:
        return {
            "path": self.path,
            "before": None if self.before is None else dict(self.before),
            "after": None if self.after is None else dict(self.after),
        }


def image_changes(before: MetadataImage, after: MetadataImage) -> Iterator[ImageChange]:
    """Yield the entries that differ in `after`."""
    delta = difference(before, after)
    for broker in delta.brokers:
        yield ImageChange(
            f"/brokers/{broker.broker_id}",
            None if broker.before is None else broker_value(broker.before),
            None if broker.after is None else broker_value(broker.after),
        )
    for name in dict.fromkeys((*before.features, *after.features)):
        yield from _setting(f"/features/{name}", before.features.get(name), after.features.get(name))
    for topic in before.topics.values():
        if after.topic_by_id(topic.topic_id) is None:
            yield ImageChange(_topic_path(topic.name), {"id": uuid_text(topic.topic_id)}, None)
    for topic in after.topics.values():
        if before.topic_by_id(topic.topic_id) is None:
            yield ImageChange(_topic_path(topic.name), None, {"id": uuid_text(topic.topic_id)})
    for partition in delta.partitions:
        yield _partition(before, after, partition)
    for resource in delta.configs:
        path = f"/configs/{CONFIG_FOLDERS[resource.type]}/{file_name(resource.name)}"
        yield from _settings(path, before.configs(resource), after.configs(resource))
    for entity in delta.quotas:
        yield from _settings(
            f"/clientQuotas/{entity_name(entity)}", before.quotas(entity), after.quotas(entity)
        )
    for acl_id in delta.acls:
        earlier, later = before.acls.by_id.get(acl_id), after.acls.by_id.get(acl_id)
        yield ImageChange(
            f"/acls/byId/{uuid_text(acl_id)}",
            None if earlier is None else acl_value(earlier),
            None if later is None else acl_value(later),
        )
    for user in delta.users:
        values = scram_values(before, user), scram_values(after, user)
        for mechanism in dict.fromkeys(name for each in values for name in each):
            # Another password may look the same, as all of it is hidden.
            if before.scram_credential(user, ScramMechanism[mechanism]) != after.scram_credential(
                user, ScramMechanism[mechanism]
            ):
                path = f"/scram/{file_name(user)}/{mechanism}"
                yield ImageChange(path, values[0].get(mechanism), values[1].get(mechanism))
    yield from _setting("/producerIds/nextProducerId", before.next_producer_id, after.next_producer_id)


def _topic_path(name: str) -> str:
    return f"/topics/byName/{name}"


def _partition(before: MetadataImage, after: MetadataImage, delta: PartitionDelta) -> ImageChange:
    key = PartitionKey(delta.topic_id, delta.partition_id)
    return ImageChange(
        f"{_topic_path(delta.topic)}/{delta.partition_id}",
        None if delta.before is None else partition_value(before, key, delta.before),
        None if delta.after is None else partition_value(after, key, delta.after),
    )


def _settings(
    path: str, before: Mapping[str, str] | Mapping[str, float], after: Mapping[str, str] | Mapping[str, float]
) -> Iterator[ImageChange]:
    for name in dict.fromkeys((*before, *after)):
        yield from _setting(f"{path}/{file_name(name)}", before.get(name), after.get(name))


def _setting(path: str, before: Json, after: Json) -> Iterator[ImageChange]:
    if before != after:
        yield ImageChange(
            path,
            None if before is None else {"value": before},
            None if after is None else {"value": after},
        )
