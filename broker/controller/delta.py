"""What a run of committed records changed: what the replica manager and the metadata cache act upon."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from quorate.broker.controller.image import (
    BrokerState,
    ConfigResource,
    MetadataImage,
    PartitionState,
)
from quorate.broker.controller.records import (
    NO_LEADER,
    BrokerRegistrationChange,
    Config,
    ConfigType,
    Partition,
    PartitionChange,
    Record,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
)
from quorate.raft.core.value import value


@value(frozen=True, slots=True, kw_only=True)
class PartitionDelta:
    """One partition before and after. None before: it is new. None after: its topic was deleted."""

    topic: str
    topic_id: uuid.UUID
    partition_id: int
    before: PartitionState | None
    after: PartitionState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDelta:
    """One broker before and after; None where it was or is not registered."""

    broker_id: int
    before: BrokerState | None
    after: BrokerState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalChanges:
    """What one node has to do, each partition in exactly one list."""

    lead: tuple[PartitionDelta, ...]
    """Led here. With the leader epoch that it had before, it is a change of ISR or replicas only: positions,
    follower states and the epoch's start stay as they are (KAFKA-13790)."""
    follow: tuple[PartitionDelta, ...]
    """A replica here, led elsewhere."""
    stop: tuple[PartitionDelta, ...]
    """A replica here that nobody leads: keep the data, fetch from nobody, serve nobody."""
    delete: tuple[PartitionDelta, ...]
    """No longer a replica here: the data goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDelta:
    """Everything that records [base_offset, end_offset) changed, net: first before to last after."""

    base_offset: int
    end_offset: int
    partitions: tuple[PartitionDelta, ...]
    created_topics: tuple[str, ...]
    deleted_topics: tuple[str, ...]
    brokers: tuple[BrokerDelta, ...]
    configs: tuple[ConfigResource, ...]

    def local(self, broker_id: int) -> LocalChanges:
        """The part of it that concerns the replicas of one broker."""
        lead: list[PartitionDelta] = []
        follow: list[PartitionDelta] = []
        stop: list[PartitionDelta] = []
        delete: list[PartitionDelta] = []
        for each in self.partitions:
            if each.after is not None and broker_id in each.after.replicas:
                if each.after.leader == broker_id:
                    lead.append(each)
                elif each.after.leader == NO_LEADER:
                    stop.append(each)
                else:
                    follow.append(each)
            elif each.before is not None and broker_id in each.before.replicas:
                delete.append(each)
        return LocalChanges(lead=tuple(lead), follow=tuple(follow), stop=tuple(stop), delete=tuple(delete))


@dataclass(slots=True)
class _Touched:
    """A topic's partitions that a run changes, each as it was before."""

    topic: str
    before: dict[int, PartitionState | None] = field(default_factory=dict)


_TouchedTopics = dict[uuid.UUID, _Touched]


def apply_records(
    image: MetadataImage, records: Sequence[Record], *, base_offset: int, epoch: int
) -> MetadataDelta:
    """Apply a run of consecutive records and say what it changed. Raises `ImageError` as `apply` does; the
    image then holds the records before the one that didn't fit."""
    touched_topics: _TouchedTopics = {}
    brokers: dict[int, BrokerState | None] = {}
    created: dict[uuid.UUID, str] = {}
    deleted: dict[uuid.UUID, str] = {}
    configs: dict[ConfigResource, None] = {}
    for offset, record in enumerate(records, base_offset):
        match record:
            case PartitionChange() | Partition():
                before = image.apply_partition(record, offset=offset, epoch=epoch)
                # By topic, because hashing an id costs as much as all the rest of a look-up.
                touched = touched_topics.get(record.topic_id)
                if touched is None:
                    topic = image.topics[record.topic_id]
                    touched = touched_topics[record.topic_id] = _Touched(topic.name)
                touched.before.setdefault(record.partition_id, before)
                continue
            case Topic():
                created[record.topic_id] = record.name
            case RemoveTopic():
                _note_removal(image, record.topic_id, touched_topics, created, deleted, configs)
            case RegisterBroker() | BrokerRegistrationChange() | UnregisterBroker():
                brokers.setdefault(record.broker_id, image.broker(record.broker_id))
            case Config():
                configs[ConfigResource(record.resource_type, record.resource_name)] = None
            case _:
                pass
        image.apply(record, offset=offset, epoch=epoch)
    return MetadataDelta(
        base_offset=base_offset,
        end_offset=base_offset + len(records),
        partitions=tuple(_partition_deltas(image, touched_topics)),
        created_topics=tuple(created.values()),
        deleted_topics=tuple(deleted.values()),
        brokers=tuple(
            BrokerDelta(broker_id=broker_id, before=before, after=image.broker(broker_id))
            for broker_id, before in brokers.items()
        ),
        configs=tuple(configs),
    )


def _note_removal(
    image: MetadataImage,
    topic_id: uuid.UUID,
    touched_topics: _TouchedTopics,
    created: dict[uuid.UUID, str],
    deleted: dict[uuid.UUID, str],
    configs: dict[ConfigResource, None],
) -> None:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        return  # apply says so
    if created.pop(topic_id, None) is None:
        deleted[topic_id] = topic.name
    touched = touched_topics.setdefault(topic_id, _Touched(topic.name))
    for partition_id, state in enumerate(image.partitions(topic_id)):
        touched.before.setdefault(partition_id, state)
    resource = ConfigResource(ConfigType.TOPIC, topic.name)
    if image.configs(resource):
        configs[resource] = None


def _partition_deltas(image: MetadataImage, touched_topics: _TouchedTopics) -> list[PartitionDelta]:
    """By topic, in the order in which they were first touched."""
    deltas: list[PartitionDelta] = []
    for topic_id, touched in touched_topics.items():
        states = image.partitions(topic_id)
        count = len(states)
        for partition_id, before in touched.before.items():
            after = states[partition_id] if partition_id < count else None
            if before is None and after is None:
                continue  # came and went within the run
            deltas.append(
                PartitionDelta(
                    topic=touched.topic,
                    topic_id=topic_id,
                    partition_id=partition_id,
                    before=before,
                    after=after,
                )
            )
    return deltas
