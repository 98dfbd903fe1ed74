"""The changes of metadata that only an administrator asks for, read from the committed records.

Nothing else makes them: neither a fault nor a chore of the controller creates a topic or sets a config. So
each has a call behind it.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    ChangeReason,
    ClientQuota,
    Config,
    FeatureLevel,
    Partition,
    PartitionChange,
    Record,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.broker.metadata.states import PartitionKey


@dataclass(frozen=True, slots=True)
class AdminChange:
    """A committed record that an administrator asked for."""

    record: Record
    topic: str | None = None
    """The name of the topic whose partitions it changes."""
    original: tuple[int, ...] = ()
    """Before a reassignment began: the replicas that a cancellation would have left."""
    target: tuple[int, ...] | None = None
    """The target of a reassignment, if it is another than before."""


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
                    yield AdminChange(record, record.name)
                case Partition():
                    key = PartitionKey(record.topic_id, record.partition_id)
                    self._replicas[key] = (record.replicas, record.replicas)
                    yield AdminChange(record, self._name(record.topic_id))
                case RemoveTopic() | ShrinkTopic():
                    yield AdminChange(record, self._name(record.topic_id))
                case PartitionChange():
                    yield from self._partition_changed(record, image)
                case Config() | ClientQuota() | FeatureLevel() | UnregisterBroker():
                    yield AdminChange(record)
                case _:
                    pass

    def _name(self, topic_id: uuid.UUID) -> str:
        return self._names.get(topic_id, str(topic_id))

    def _partition_changed(self, record: PartitionChange, image: MetadataImage) -> Iterator[AdminChange]:
        key = PartitionKey(record.topic_id, record.partition_id)
        name = self._name(record.topic_id)
        if record.reason is ChangeReason.ELECTION_ASKED_FOR:
            yield AdminChange(record, name)
        state = image.partition(*key)
        if state is None or key not in self._replicas:
            return
        original, target = self._replicas[key]
        self._replicas[key] = (state.original_replicas, state.target_replicas)
        if state.target_replicas != target:
            yield AdminChange(record, name, original, state.target_replicas)
