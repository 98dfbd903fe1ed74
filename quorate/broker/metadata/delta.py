"""A delta: the changes of a run of committed records, for the replica manager and the metadata cache."""

import abc
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    AccessControlEntry,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    ConfigType,
    Partition,
    PartitionChange,
    QuotaEntity,
    Record,
    RegisterBroker,
    RemoveAccessControlEntry,
    RemoveTopic,
    RemoveUserScramCredential,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
    UserScramCredential,
)
from quorate.broker.metadata.partition_runs import PartitionRun, records_in
from quorate.broker.metadata.states import BrokerState, ConfigResource, PartitionState, TopicState
from quorate.broker.metadata.topic_partitions import TopicPartitions
from quorate.types import Epoch
from quorate.value import value


@value(frozen=True, slots=True, kw_only=True)
class PartitionDelta:
    """One partition before and after. None before: it is new. None after: its topic was deleted, or has fewer
    partitions. A `before` with a lower leader epoch than `first_epoch` was another partition of this
    number."""

    topic: str
    topic_id: uuid.UUID
    partition_id: int
    before: PartitionState | None
    after: PartitionState | None
    first_epoch: Epoch = Epoch(0)
    """The leader epoch with which the partition of `after` began; 0 if there is none."""


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
        """Yield the change of each partition; None for one that has not changed."""

    def looks_for(self, broker_id: int) -> Iterator[PartitionDelta | None]:
        """Yield as `looks`, but None also for each new partition that has no replica on that broker."""
        return concerning(broker_id, self.looks())

    def __iter__(self) -> Iterator[PartitionDelta]:
        return (each for each in self.looks() if each is not None)


def concerning(broker_id: int, looks: Iterable[PartitionDelta | None]) -> Iterator[PartitionDelta | None]:
    """Yield `looks`, with None for each new partition that has no replica on that broker."""
    for each in looks:
        if each is not None and each.before is None and each.after is not None:
            yield each if broker_id in each.after.replicas else None
        else:
            yield each


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDelta:
    """Everything that records [base_offset, end_offset) changed, net: first before to last after."""

    base_offset: int
    end_offset: int
    partitions: Iterable[PartitionDelta] = ()
    """The changed partitions, to be iterated any number of times. Many are made while they are asked for."""
    created_topics: tuple[str, ...] = ()
    deleted_topics: tuple[str, ...] = ()
    brokers: tuple[BrokerDelta, ...] = ()
    configs: tuple[ConfigResource, ...] = ()
    quotas: tuple[QuotaEntity, ...] = ()
    acls: tuple[uuid.UUID, ...] = ()
    """The ids of those that were created or deleted."""
    users: tuple[str, ...] = ()
    """Those whose passwords have changed or are removed."""

    def looks(self) -> Iterator[PartitionDelta | None]:
        """Yield `partitions`, with None for each that was compared and has not changed, so that a walk in
        pieces can count its work."""
        found = self.partitions
        return found.looks() if isinstance(found, Looks) else iter(found)

    def looks_for(self, broker_id: int) -> Iterator[PartitionDelta | None]:
        """Yield as `looks`, but None also for each new partition that has no replica on that broker. The
        first delta of a broker has all partitions of the cluster."""
        found = self.partitions
        return found.looks_for(broker_id) if isinstance(found, Looks) else concerning(broker_id, found)


@dataclass(frozen=True, slots=True)
class _Removed:
    """Partitions from number `first` on, as they were when they were removed."""

    first: int
    states: TopicPartitions

    def __len__(self) -> int:
        return len(self.states)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.first + len(self.states)))

    def items(self) -> Iterator[tuple[int, PartitionState]]:
        return enumerate(self.states, self.first)


_Befores = dict[int, PartitionState | None]


@dataclass(slots=True)
class _Touched:
    """A topic's partitions that a run changes, each as it was before."""

    topic: str
    before: _Befores = field(default_factory=dict)
    removed: _Removed | None = None
    """Instead of `before`: the topic was not touched until they went."""

    @property
    def befores(self) -> "_Befores | _Removed":
        return self.before if self.removed is None else self.removed


_TouchedTopics = dict[uuid.UUID, _Touched]
_ChangedTopic = tuple[uuid.UUID, str, "_Befores | _Removed", "_Afters", TopicState | None]
_FEW: Final = 1000
"""Partitions whose deltas are made at once, in less than a millisecond."""
_FEWER: Final = 16
"""Times as many are copied in the time of one."""


class Changes:
    """The changes of records to an image, in any number of runs."""

    __slots__ = (
        "_acls",
        "_brokers",
        "_configs",
        "_created",
        "_deleted",
        "_image",
        "_quotas",
        "_touched",
        "_users",
    )

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._touched: _TouchedTopics = {}
        self._brokers: dict[int, BrokerState | None] = {}
        self._created: dict[uuid.UUID, str] = {}
        self._deleted: dict[uuid.UUID, str] = {}
        self._configs: dict[ConfigResource, None] = {}
        self._quotas: dict[QuotaEntity, None] = {}
        self._acls: dict[uuid.UUID, None] = {}
        self._users: dict[str, None] = {}

    def apply(self, records: Sequence[Record | PartitionRun], *, base_offset: int, epoch: int) -> None:
        """Apply a run of consecutive records. Raises `ImageError` as `MetadataImage.apply` does; the image
        then holds the records before the one that didn't fit."""
        image = self._image
        last_id, touched = None, _Touched("")
        offset = base_offset - 1
        for record in records:
            if isinstance(record, PartitionRun):
                offset += len(record)
                image.apply_run(record, offset=offset, epoch=epoch)
                last_id, touched = record.topic_id, self._touch(record.topic_id)
                for number in range(record.first, record.first + len(record)):
                    touched.before.setdefault(number, None)
                continue
            offset += 1
            match record:
                case PartitionChange() | Partition():
                    before = image.apply_partition(record, offset=offset, epoch=epoch)
                    # By topic, because hashing an id costs as much as all the rest of a look-up.
                    if record.topic_id is not last_id:
                        last_id = record.topic_id
                        touched = self._touch(last_id)
                    touched.before.setdefault(record.partition_id, before)
                    continue
                case Topic():
                    self._created[record.topic_id] = record.name
                case ShrinkTopic():
                    self._keep_removed(record.topic_id, left=record.num_partitions)
                case RemoveTopic():
                    self._note_removal(record.topic_id)
                case RegisterBroker() | BrokerRegistrationChange() | UnregisterBroker():
                    self._brokers.setdefault(record.broker_id, image.broker(record.broker_id))
                case Config():
                    self._configs[ConfigResource(record.resource_type, record.resource_name)] = None
                case ClientQuota():
                    self._quotas[record.entity] = None
                case AccessControlEntry() | RemoveAccessControlEntry():
                    self._acls[record.id] = None
                case UserScramCredential() | RemoveUserScramCredential():
                    self._users[record.name] = None
                case _:
                    pass
            image.apply(record, offset=offset, epoch=epoch)

    def _touch(self, topic_id: uuid.UUID) -> _Touched:
        touched = self._touched.get(topic_id)
        if touched is None:
            touched = self._touched[topic_id] = _Touched(self._image.topics[topic_id].name)
        if touched.removed is not None:
            touched.before.update(touched.removed.items())
            touched.removed = None
        return touched

    def _note_removal(self, topic_id: uuid.UUID) -> None:
        topic = self._image.topic_by_id(topic_id)
        if topic is None:
            return  # apply says so
        if self._created.pop(topic_id, None) is None:
            self._deleted[topic_id] = topic.name
        self._keep_removed(topic_id, left=0)
        resource = ConfigResource(ConfigType.TOPIC, topic.name)
        if self._image.configs(resource):
            self._configs[resource] = None

    def _keep_removed(self, topic_id: uuid.UUID, *, left: int) -> None:
        topic = self._image.topic_by_id(topic_id)
        if topic is None:
            return  # apply says so
        states = self._image.partitions(topic_id)
        if topic_id not in self._touched and isinstance(states, TopicPartitions):
            # One by one they are put together when somebody asks: a topic may have very many.
            self._touched[topic_id] = _Touched(topic.name, removed=_Removed(left, states.part(left)))
            return
        touched = self._touch(topic_id)
        for partition_id, state in enumerate(states[left:], left):
            touched.before.setdefault(partition_id, state)

    def delta(self, *, base_offset: int, end_offset: int) -> MetadataDelta:
        """All of them, as they are now; nothing may be applied through this any more."""
        image = self._image
        changed = _Changed(
            (
                topic_id,
                each.topic,
                each.befores,
                _Afters(image.partitions(topic_id), each.befores),
                image.topic_by_id(topic_id),
            )
            for topic_id, each in self._touched.items()
        )
        return MetadataDelta(
            base_offset=base_offset,
            end_offset=end_offset,
            partitions=changed,
            created_topics=tuple(self._created.values()),
            deleted_topics=tuple(self._deleted.values()),
            brokers=tuple(
                BrokerDelta(broker_id=broker_id, before=before, after=image.broker(broker_id))
                for broker_id, before in self._brokers.items()
            ),
            configs=tuple(self._configs),
            quotas=tuple(self._quotas),
            acls=tuple(self._acls),
            users=tuple(self._users),
        )


class _Afters:
    """The partitions of a topic as they were at a moment."""

    __slots__ = ("_count", "_states")

    def __init__(self, states: Sequence[PartitionState], numbers: "_Befores | _Removed") -> None:
        """`numbers`: of those that will be asked for."""
        self._count = len(states)
        self._states: Mapping[int, PartitionState] | TopicPartitions
        if isinstance(states, TopicPartitions) and len(numbers) * _FEWER > len(states):
            # All columns are copied faster than a state is put together from them.
            self._states = states.copy(None)
        else:
            known = numbers if states else ()
            self._states = {number: states[number] for number in known if number < len(states)}

    def __getitem__(self, number: int) -> PartitionState | None:
        return self._states[number] if number < self._count else None


class _Changed(Looks):
    """Changed parts by topic, in the order of their first change. A few of them are made once, for all
    listeners."""

    __slots__ = ("_few", "_made", "_topics")

    def __init__(self, topics: Iterable[_ChangedTopic]) -> None:
        self._topics = list(topics)
        self._few = sum(len(befores) for _, _, befores, _, _ in self._topics) <= _FEW
        self._made: list[PartitionDelta] | None = None

    def __bool__(self) -> bool:
        # Without all of the others: a replay asks it of each batch.
        return next(self._make(), None) is not None

    def looks(self) -> Iterator[PartitionDelta | None]:
        if not self._few:
            return self._make()
        if self._made is None:
            self._made = list(self._make())
        return iter(self._made)

    def _make(self) -> Iterator[PartitionDelta]:
        for topic_id, topic, befores, afters, state in self._topics:
            for partition_id, before in befores.items():
                after = afters[partition_id]
                if before is None and after is None:
                    continue  # came and went within the run
                yield PartitionDelta(
                    topic=topic,
                    topic_id=topic_id,
                    partition_id=partition_id,
                    before=before,
                    after=after,
                    first_epoch=Epoch(0)
                    if state is None or after is None
                    else state.first_epoch(partition_id),
                )


def apply_records(
    image: MetadataImage, records: Sequence[Record | PartitionRun], *, base_offset: int, epoch: int
) -> MetadataDelta:
    """Apply a run of consecutive records. Return what they change. Raises `ImageError` as `Changes.apply`."""
    changes = Changes(image)
    changes.apply(records, base_offset=base_offset, epoch=epoch)
    return changes.delta(base_offset=base_offset, end_offset=base_offset + records_in(records))
