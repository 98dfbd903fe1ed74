"""The rules that committed metadata keeps under all requests of administrators, and the brokers with it."""

import uuid
from collections.abc import Callable, Sequence

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    Partition,
    PartitionChange,
    Record,
    RegisterBroker,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.broker.metadata.states import PartitionKey
from quorate.simulation.violations import SafetyViolation


class OneLeaderPerLeaderEpoch:
    """Each leader epoch of a partition has one leader, by the brokers' reports of their changes of role.
    Names of topics are used once, and a partition that takes the number of a removed one begins with higher
    epochs, so a partition's name and the epoch are enough."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, int], int] = {}

    def reported(
        self, broker_id: int, partition: str, leader_epoch: int, leader: int, *, leads: bool
    ) -> None:
        """A broker has taken in a state of a partition. `leads`: as its leader. Raises `SafetyViolation`."""
        if leads and leader != broker_id:
            raise SafetyViolation(f"broker {broker_id} leads {partition}, whose leader is {leader}")
        known = self._leaders.setdefault((partition, leader_epoch), leader)
        if known != leader:
            raise SafetyViolation(
                f"broker {broker_id} has {leader} as the leader of {partition} in leader epoch "
                f"{leader_epoch}, and another had {known}"
            )


class UnregisteredBrokersStayOut:
    """A broker whose registration was removed is in no ISR and no ELR until it registers again: with a higher
    broker epoch, and perhaps with an empty disk."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}
        """The broker epoch of the removed registration, by broker."""
        self._out: set[int] = set()

    def committed(self, records: Sequence[Record], image: MetadataImage) -> None:
        """Take records that became visible together, and the image with them. Raises `SafetyViolation`."""
        for record in records:
            match record:
                case UnregisterBroker():
                    self._epochs[record.broker_id] = record.broker_epoch
                    self._out.add(record.broker_id)
                case RegisterBroker():
                    self._out.discard(record.broker_id)
                case _:
                    pass
        for broker_id, epoch in self._epochs.items():
            held = image.broker(broker_id)
            if held is not None and held.epoch <= epoch:
                raise SafetyViolation(
                    f"UnregisteredBrokersStayOut: broker {broker_id} is registered with broker epoch "
                    f"{held.epoch}, and the registration with {epoch} was removed"
                )
        for broker_id in self._out:
            if image.isr_count(broker_id) or image.elr_count(broker_id):
                raise SafetyViolation(
                    f"UnregisteredBrokersStayOut: broker {broker_id} is not registered, and is in "
                    f"{image.isr_count(broker_id)} ISRs and {image.elr_count(broker_id)} ELRs"
                )


_OF_TOPICS = (Topic, Partition, PartitionChange, ShrinkTopic, RemoveTopic)


class RemovedTopicsStayRemoved:
    """A topic or partition that was removed never comes back: its id, its name where names are used once, and
    the leader epochs by which brokers tell an earlier partition's records from a later one's.

    `once`: whether the topic of that name is created at most once.
    """

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
