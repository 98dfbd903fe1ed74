"""What a run of committed records changed: what the replica manager and the metadata cache act upon."""

import abc
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
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
from quorate.broker.metadata.states import BrokerState, ConfigResource, PartitionState
from quorate.value import value


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


class Looks(abc.ABC):
    """Partitions that are compared while they are asked for."""

    __slots__ = ()

    @abc.abstractmethod
    def looks(self) -> Iterator[PartitionDelta | None]:
        """None for a partition that has not changed."""

    def __iter__(self) -> Iterator[PartitionDelta]:
        return (each for each in self.looks() if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDelta:
    """Everything that records [base_offset, end_offset) changed, net: first before to last after."""

    base_offset: int
    end_offset: int
    partitions: Iterable[PartitionDelta]
    """Any number of times. Of a whole image they are made while they are asked for."""
    created_topics: tuple[str, ...]
    deleted_topics: tuple[str, ...]
    brokers: tuple[BrokerDelta, ...]
    configs: tuple[ConfigResource, ...]

    def looks(self) -> Iterator[PartitionDelta | None]:
        """`partitions`, with None for each that was looked at and has not changed: so that a walk in pieces
        knows how far it got."""
        found = self.partitions
        return found.looks() if isinstance(found, Looks) else iter(found)


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
