"""What changed from one image to another, where no records say it: a snapshot took their place."""

import uuid
from collections.abc import Iterator

from quorate.broker.controller.delta import BrokerDelta, MetadataDelta, PartitionDelta
from quorate.broker.controller.image import ConfigResource, MetadataImage


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Everything that is other in `after`: as if by records [before.offset + 1, after.offset + 1). A topic
    deleted and created again under the same name is in both lists."""
    return MetadataDelta(
        base_offset=before.offset + 1,
        end_offset=after.offset + 1,
        partitions=(*_gone(before, after), *_new_or_changed(before, after)),
        created_topics=tuple(
            topic.name for topic in after.topics.values() if before.topic_by_id(topic.topic_id) is None
        ),
        deleted_topics=tuple(
            topic.name for topic in before.topics.values() if after.topic_by_id(topic.topic_id) is None
        ),
        brokers=tuple(_brokers(before, after)),
        configs=tuple(_configs(before, after)),
    )


def _gone(before: MetadataImage, after: MetadataImage) -> Iterator[PartitionDelta]:
    for topic in before.topics.values():
        if after.topic_by_id(topic.topic_id) is None:
            for partition_id, state in enumerate(before.partitions(topic.topic_id)):
                yield PartitionDelta(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partition_id=partition_id,
                    before=state,
                    after=None,
                )


def _new_or_changed(before: MetadataImage, after: MetadataImage) -> Iterator[PartitionDelta]:
    for topic in after.topics.values():
        yield from _partitions_of(before, after, topic.topic_id, topic.name)


def _partitions_of(
    before: MetadataImage, after: MetadataImage, topic_id: uuid.UUID, name: str
) -> Iterator[PartitionDelta]:
    for partition_id, state in enumerate(after.partitions(topic_id)):
        earlier = before.partition(topic_id, partition_id)
        if earlier != state:
            yield PartitionDelta(
                topic=name, topic_id=topic_id, partition_id=partition_id, before=earlier, after=state
            )


def _brokers(before: MetadataImage, after: MetadataImage) -> Iterator[BrokerDelta]:
    for broker_id in dict.fromkeys((*before.brokers, *after.brokers)):
        earlier, later = before.broker(broker_id), after.broker(broker_id)
        if earlier != later:
            yield BrokerDelta(broker_id=broker_id, before=earlier, after=later)


def _configs(before: MetadataImage, after: MetadataImage) -> Iterator[ConfigResource]:
    for resource in dict.fromkeys((*before.configured(), *after.configured())):
        if before.configs(resource) != after.configs(resource):
            yield resource
