"""The changes of metadata that only an administrator asks for, read from the committed records.

Nothing else makes them: neither a fault nor a chore of the controller creates a topic or sets a config. So
each has a call behind it.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from quorate.broker.metadata import (
    ChangeReason,
    ClientQuota,
    Config,
    ConfigResource,
    FeatureLevel,
    MetadataImage,
    Partition,
    PartitionChange,
    PartitionKey,
    QuotaEntity,
    Record,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic: str


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    topic: str


@dataclass(frozen=True, slots=True)
class TopicShrunk:
    topic: str
    count: int
    """Partitions that stay."""


@dataclass(frozen=True, slots=True)
class PartitionAdded:
    topic: str
    partition_id: int


@dataclass(frozen=True, slots=True)
class ReplicasReassigned:
    """A partition's target is another than before."""

    topic: str
    partition_id: int
    original: tuple[int, ...]
    """The replicas that a cancellation would have left, before the change."""
    target: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LeaderElected:
    """A partition without a leader got one because an administrator asked for it."""

    topic: str
    partition_id: int


@dataclass(frozen=True, slots=True)
class ConfigSet:
    resource: ConfigResource
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class QuotaSet:
    entity: QuotaEntity
    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class FeatureSet:
    feature: str
    level: int


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    broker_id: int


AdminChange: TypeAlias = (
    TopicCreated
    | TopicRemoved
    | TopicShrunk
    | PartitionAdded
    | ReplicasReassigned
    | LeaderElected
    | ConfigSet
    | QuotaSet
    | FeatureSet
    | BrokerUnregistered
)


class ChangeReader:
    """Reads runs of records in the order of the log, each with the image that it has led to."""

    def __init__(self) -> None:
        self._names: dict[uuid.UUID, str] = {}
        self._replicas: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Original and target replicas by partition."""

    def read(self, records: Sequence[Record], image: MetadataImage) -> Iterator[AdminChange]:
        """Yield the changes of one run, which became visible together."""
        for record in records:
            match record:
                case Topic():
                    self._names[record.topic_id] = record.name
                    yield TopicCreated(record.name)
                case RemoveTopic():
                    yield TopicRemoved(self._name(record.topic_id))
                case ShrinkTopic():
                    yield TopicShrunk(self._name(record.topic_id), record.num_partitions)
                case Partition():
                    key = PartitionKey(record.topic_id, record.partition_id)
                    self._replicas[key] = (record.replicas, record.replicas)
                    yield PartitionAdded(self._name(record.topic_id), record.partition_id)
                case PartitionChange():
                    yield from self._partition_changed(record, image)
                case Config():
                    resource = ConfigResource(record.resource_type, record.resource_name)
                    yield ConfigSet(resource, record.name, record.value)
                case ClientQuota():
                    yield QuotaSet(record.entity, record.key, record.value)
                case FeatureLevel():
                    yield FeatureSet(record.name, record.level)
                case UnregisterBroker():
                    yield BrokerUnregistered(record.broker_id)
                case _:
                    pass

    def _name(self, topic_id: uuid.UUID) -> str:
        return self._names.get(topic_id, str(topic_id))

    def _partition_changed(self, record: PartitionChange, image: MetadataImage) -> Iterator[AdminChange]:
        key = PartitionKey(record.topic_id, record.partition_id)
        name = self._name(record.topic_id)
        if record.reason is ChangeReason.ELECTION_ASKED_FOR:
            yield LeaderElected(name, record.partition_id)
        state = image.partition(*key)
        if state is None or key not in self._replicas:
            return
        original, target = self._replicas[key]
        self._replicas[key] = (state.original_replicas, state.target_replicas)
        if state.target_replicas != target:
            yield ReplicasReassigned(name, record.partition_id, original, state.target_replicas)
