"""The difference of two images, for a loaded snapshot or a new listener, where no records state it."""

from collections.abc import Callable, Iterator
from functools import partial

from quorate.broker.metadata.delta import BrokerDelta, Looks, MetadataDelta, PartitionDelta, concerning
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import ConfigResource, PartitionState, TopicState
from quorate.broker.metadata.topic_partitions import TopicPartitions
from quorate.types import Epoch


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Return all changes from `before` to `after`, as if by records [before.offset + 1, after.offset + 1). A
    topic deleted and created again under the same name is in both lists. Records may be applied to both
    images afterwards."""
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
        users=tuple(
            user
            for user in dict.fromkeys((*before.scram_users(), *after.scram_users()))
            if before.scram_credentials_of(user) != after.scram_credentials_of(user)
        ),
        quotas=tuple(
            entity
            for entity in dict.fromkeys((*before.quota_entities(), *after.quota_entities()))
            if before.quotas(entity) != after.quotas(entity)
        ),
        acls=tuple(
            acl_id
            for acl_id in dict.fromkeys((*before.acls.by_id, *after.acls.by_id))
            if before.acls.by_id.get(acl_id) != after.acls.by_id.get(acl_id)
        ),
    )


class _Differences(Looks):
    """The changed partitions of two images, compared while they are iterated: there may be a million."""

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
        for topic in self._before.topics.values():
            if self._after.topic_by_id(topic.topic_id) is not None:
                yield None
            else:
                yield from self._removed(topic, left=0)
        for topic in self._after.topics.values():
            yield from partitions_of(topic)
            yield from self._removed(topic, left=len(self._after.partitions(topic.topic_id)))

    def _removed(self, topic: TopicState, *, left: int) -> Iterator[PartitionDelta]:
        for number, state in enumerate(self._before.partitions(topic.topic_id)[left:], left):
            yield _delta(topic, number, state, None)

    def _partitions_of(self, topic: TopicState) -> Iterator[PartitionDelta | None]:
        earlier = self._before.partitions(topic.topic_id)
        for partition_id, state in enumerate(self._after.partitions(topic.topic_id)):
            before = earlier[partition_id] if partition_id < len(earlier) else None
            if before == state:
                yield None
            else:
                yield _delta(topic, partition_id, before, state)

    def _partitions_for(self, broker_id: int, topic: TopicState) -> Iterator[PartitionDelta | None]:
        states = self._after.partitions(topic.topic_id)
        if self._before.partitions(topic.topic_id) or not isinstance(states, TopicPartitions):
            yield from concerning(broker_id, self._partitions_of(topic))
            return
        # Nothing is put together of a partition that is somewhere else.
        for partition_id, shape in enumerate(states.shapes):
            hosted = broker_id in shape[0]
            yield _delta(topic, partition_id, None, states[partition_id]) if hosted else None


def _delta(
    topic: TopicState, number: int, before: PartitionState | None, after: PartitionState | None
) -> PartitionDelta:
    return PartitionDelta(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition_id=number,
        before=before,
        after=after,
        first_epoch=Epoch(0) if after is None else topic.first_epoch(number),
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
