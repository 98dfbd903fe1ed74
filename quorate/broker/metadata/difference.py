"""The difference of two images, for a loaded snapshot or a new listener, where no records state it."""

from collections.abc import Callable, Iterator
from functools import partial

from quorate.broker.metadata.delta import BrokerDelta, Looks, MetadataDelta, PartitionDelta, concerning
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import ConfigResource, TopicState
from quorate.broker.metadata.topic_partitions import TopicPartitions


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Everything that is other in `after`: as if by records [before.offset + 1, after.offset + 1). A topic
    deleted and created again under the same name is in both lists. Both images may be applied to
    afterwards."""
    before, after = before.copy(), after.copy()
    return MetadataDelta(
        base_offset=before.offset + 1,
        end_offset=after.offset + 1,
        partitions=_Differences(before, after),
        created_topics=tuple(
            topic.name for topic in after.topics.values() if before.topic_by_id(topic.topic_id) is None
        ),
        deleted_topics=tuple(
            topic.name for topic in before.topics.values() if after.topic_by_id(topic.topic_id) is None
        ),
        brokers=tuple(_brokers(before, after)),
        configs=tuple(_configs(before, after)),
        quotas=tuple(
            entity
            for entity in dict.fromkeys((*before.quota_entities(), *after.quota_entities()))
            if before.quotas(entity) != after.quotas(entity)
        ),
    )


class _Differences(Looks):
    """A million partitions are not compared in one piece."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: MetadataImage, after: MetadataImage) -> None:
        self._before = before
        self._after = after

    def looks(self) -> Iterator[PartitionDelta | None]:
        return self._looks(self._partitions_of)

    def looks_for(self, broker_id: int) -> Iterator[PartitionDelta | None]:
        return self._looks(partial(self._partitions_for, broker_id))

    def _looks(
        self, partitions_of: Callable[[TopicState], Iterator[PartitionDelta | None]]
    ) -> Iterator[PartitionDelta | None]:
        before, after = self._before, self._after
        for topic in before.topics.values():
            if after.topic_by_id(topic.topic_id) is not None:
                yield None
                continue
            for partition_id, state in enumerate(before.partitions(topic.topic_id)):
                yield PartitionDelta(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partition_id=partition_id,
                    before=state,
                    after=None,
                )
        for topic in after.topics.values():
            yield from partitions_of(topic)
            left = len(after.partitions(topic.topic_id))
            for partition_id, state in enumerate(before.partitions(topic.topic_id)[left:], left):
                yield PartitionDelta(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partition_id=partition_id,
                    before=state,
                    after=None,
                )

    def _partitions_of(self, topic: TopicState) -> Iterator[PartitionDelta | None]:
        earlier = self._before.partitions(topic.topic_id)
        for partition_id, state in enumerate(self._after.partitions(topic.topic_id)):
            before = earlier[partition_id] if partition_id < len(earlier) else None
            if before == state:
                yield None
            else:
                yield PartitionDelta(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partition_id=partition_id,
                    before=before,
                    after=state,
                    first_epoch=topic.first_epoch(partition_id),
                )

    def _partitions_for(self, broker_id: int, topic: TopicState) -> Iterator[PartitionDelta | None]:
        states = self._after.partitions(topic.topic_id)
        if self._before.partitions(topic.topic_id) or not isinstance(states, TopicPartitions):
            yield from concerning(broker_id, self._partitions_of(topic))
            return
        # Nothing is put together of a partition that is somewhere else.
        for partition_id, shape in enumerate(states.shapes):
            if broker_id not in shape[0]:
                yield None
                continue
            yield PartitionDelta(
                topic=topic.name,
                topic_id=topic.topic_id,
                partition_id=partition_id,
                before=None,
                after=states[partition_id],
                first_epoch=topic.first_epoch(partition_id),
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
