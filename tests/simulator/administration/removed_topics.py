"""A topic or partition that was removed never comes back: its id, its name where names are used once, and
the leader epochs by which brokers tell an earlier partition's records from a later one's."""

import uuid
from collections.abc import Callable, Sequence

from quorate.broker.metadata import (
    MetadataImage,
    Partition,
    PartitionChange,
    PartitionKey,
    Record,
    RemoveTopic,
    ShrinkTopic,
    Topic,
)
from quorate.simulation.violations import SafetyViolation

_OF_TOPICS = (Topic, Partition, PartitionChange, ShrinkTopic, RemoveTopic)


class RemovedTopicsStayRemoved:
    """`once`: whether the topic of that name is created at most once."""

    def __init__(self, *, once: Callable[[str], bool]) -> None:
        self._once = once
        self._names: dict[uuid.UUID, str] = {}
        """The names of all topics that there ever were."""
        self._created: set[str] = set()
        self._removed: set[uuid.UUID] = set()
        self._highest: dict[PartitionKey, int] = {}
        """The highest leader epoch of each partition so far, also of earlier ones of its number."""

    def committed(self, records: Sequence[Record], image: MetadataImage) -> None:
        """Take records that became visible together, and the image with them. Raises `SafetyViolation`."""
        for record in records:
            match record:
                case Topic():
                    self._check_new(record)
                case RemoveTopic():
                    self._removed.add(record.topic_id)
                case Partition():
                    key = PartitionKey(record.topic_id, record.partition_id)
                    if record.leader_epoch <= self._highest.get(key, -1):
                        raise SafetyViolation(
                            f"RemovedTopicsStayRemoved: {self._names.get(key.topic_id)}-{key.partition_id} "
                            f"begins with leader epoch {record.leader_epoch}, and an earlier one "
                            f"of its number had {self._highest[key]}"
                        )
                case _:
                    pass
        for topic_id in {record.topic_id for record in records if isinstance(record, _OF_TOPICS)}:
            if topic_id in self._removed and image.topic_by_id(topic_id) is not None:
                raise SafetyViolation(
                    f"RemovedTopicsStayRemoved: {self._names.get(topic_id)} ({topic_id}) was removed, and is "
                    "there"
                )
            for partition_id, state in enumerate(image.partitions(topic_id)):
                key = PartitionKey(topic_id, partition_id)
                self._highest[key] = max(state.leader_epoch, self._highest.get(key, -1))

    def _check_new(self, record: Topic) -> None:
        if record.topic_id in self._names:
            raise SafetyViolation(
                f"RemovedTopicsStayRemoved: {record.name} has the id {record.topic_id} of "
                f"{self._names[record.topic_id]}"
            )
        if self._once(record.name) and record.name in self._created:
            raise SafetyViolation(f"RemovedTopicsStayRemoved: {record.name} was created twice")
        self._names[record.topic_id] = record.name
        self._created.add(record.name)
