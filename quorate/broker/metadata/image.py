"""The metadata image: the content of the metadata log, up to an offset.

Every node keeps one of all committed records. The active controller works on a copy that is ahead by its own
appends, and drops the copy when it loses leadership.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import assert_never

from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    AbortTransaction,
    AccessControlEntry,
    BeginTransaction,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    ConfigType,
    EndTransaction,
    FeatureLevel,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    QuotaEntity,
    Record,
    RegisterBroker,
    RemoveAccessControlEntry,
    RemoveTopic,
    RemoveUserScramCredential,
    ScramMechanism,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
    UserScramCredential,
)
from quorate.broker.metadata.partition_runs import PartitionRun, partition_record
from quorate.broker.metadata.states import (
    BrokerState,
    ConfigResource,
    ImageError,
    PartitionKey,
    PartitionState,
    TopicState,
    changed,
    placed,
)
from quorate.broker.metadata.supported_features import KRAFT_VERSION
from quorate.broker.metadata.tallies import TopicTallies
from quorate.broker.metadata.topic_partitions import MAX_EPOCH, SharedParts, TopicPartitions
from quorate.invariant import invariant, ordered
from quorate.runtime import WORK

_NO_CONFIGS: Mapping[str, str] = MappingProxyType({})
_NO_QUOTAS: Mapping[str, float] = MappingProxyType({})


class MetadataImage:
    """The metadata after all records up to and including `offset` (-1: none yet).

    Values are immutable; `apply` replaces them. Read it through the properties and methods; only `apply`
    writes.
    """

    __slots__ = (
        "_brokers",
        "_configs",
        "_features",
        "_next_producer_id",
        "_owner",
        "_partitions",
        "_quota_counts",
        "_quotas",
        "_scram",
        "_shared",
        "_tallies",
        "_topic_ids",
        "_topics",
        "acls",
        "epoch",
        "offset",
    )

    def __init__(self) -> None:
        self.offset = -1
        """The last applied offset (inclusive)."""
        self.epoch = 0
        """The epoch of the last applied record."""
        self._brokers: dict[int, BrokerState] = {}
        self._topics: dict[uuid.UUID, TopicState] = {}
        self._topic_ids: dict[str, uuid.UUID] = {}
        self._partitions: dict[uuid.UUID, TopicPartitions] = {}
        self._owner = object()
        self._configs: dict[ConfigResource, Mapping[str, str]] = {}
        self._features: dict[str, int] = {}
        self._quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self._scram: dict[tuple[str, ScramMechanism], UserScramCredential] = {}
        self._quota_counts: Counter[str] = Counter()
        """The number of entities that have each quota, by its key."""
        self.acls = AclIndex()
        """The ACLs. Only `apply` changes them. A plain attribute: each decision reads it."""
        self._next_producer_id = 0
        self._tallies = TopicTallies()
        self._shared = SharedParts()

    def copy(self) -> "MetadataImage":
        """Return an independent image that is equal. It takes some milliseconds for 100,000 topics, however
        many partitions they have. Each of the two then copies a topic's partitions when it first changes
        one."""
        twin = MetadataImage()
        self._owner = object()
        twin.offset = self.offset
        twin.epoch = self.epoch
        twin._brokers = self._brokers.copy()
        twin._topics = self._topics.copy()
        twin._topic_ids = self._topic_ids.copy()
        twin._partitions = self._partitions.copy()
        twin._configs = self._configs.copy()
        twin._features = self._features.copy()
        twin._quotas = self._quotas.copy()
        twin._scram = self._scram.copy()
        twin._quota_counts = self._quota_counts.copy()
        twin.acls = self.acls.copy()
        twin._next_producer_id = self._next_producer_id
        twin._tallies = self._tallies.copy()
        twin._shared = self._shared
        return twin

    def __eq__(self, other: object) -> bool:
        """True if both images have the same content, at any offsets."""
        if not isinstance(other, MetadataImage):
            return NotImplemented
        return (
            self._brokers == other._brokers
            and self._topics == other._topics
            and self._partitions == other._partitions
            and self._configs == other._configs
            and self._features == other._features
            and self._quotas == other._quotas
            and self.acls == other.acls
            and self._scram == other._scram
            and self._next_producer_id == other._next_producer_id
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    # Reading

    @property
    def brokers(self) -> Mapping[int, BrokerState]:
        return self._brokers

    @property
    def topics(self) -> Mapping[uuid.UUID, TopicState]:
        return self._topics

    @property
    def features(self) -> Mapping[str, int]:
        return self._features

    @property
    def next_producer_id(self) -> int:
        return self._next_producer_id

    def broker(self, broker_id: int) -> BrokerState | None:
        return self._brokers.get(broker_id)

    def is_active(self, broker_id: int) -> bool:
        """True if the broker is registered, unfenced and not shutting down."""
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.active

    def topic(self, name: str) -> TopicState | None:
        topic_id = self._topic_ids.get(name)
        return None if topic_id is None else self._topics[topic_id]

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicState | None:
        return self._topics.get(topic_id)

    def topic_names(self) -> Iterator[str]:
        return iter(self._topic_ids)

    def partitions(self, topic_id: uuid.UUID) -> Sequence[PartitionState]:
        """The topic's partitions by index; empty for a topic that is not there."""
        return self._partitions.get(topic_id, ())

    def partition(self, topic_id: uuid.UUID, partition_id: int) -> PartitionState | None:
        states = self._partitions.get(topic_id)
        return states[partition_id] if states is not None and 0 <= partition_id < len(states) else None

    def named_partitions(self, topic: str) -> Sequence[PartitionState]:
        """The partitions of the topic of this name by index; empty for a topic that is not there."""
        topic_id = self._topic_ids.get(topic)
        return () if topic_id is None else self.partitions(topic_id)

    def named_partition(self, topic: str, partition_id: int) -> PartitionState | None:
        topic_id = self._topic_ids.get(topic)
        return None if topic_id is None else self.partition(topic_id, partition_id)

    def all_partitions(self) -> Iterator[tuple[PartitionKey, PartitionState]]:
        for topic_id, states in self._partitions.items():
            for partition_id, state in enumerate(states):
                yield PartitionKey(topic_id, partition_id), state

    def partition_count(self) -> int:
        return self._tallies.partitions

    def leader_count(self, broker_id: int) -> int:
        """Return the number of partitions that the broker leads."""
        return self._tallies.leaders(broker_id)

    def isr_count(self, broker_id: int) -> int:
        """Return the number of partitions with the broker in their ISR."""
        return self._tallies.isrs(broker_id)

    def elr_count(self, broker_id: int) -> int:
        """Return the number of partitions with the broker in their ELR."""
        return self._tallies.elrs(broker_id)

    def isr_members(self) -> list[int]:
        """The brokers that are in any ISR, registered or not."""
        return self._tallies.isr_members()

    @property
    def has_elrs(self) -> bool:
        """True if any partition has eligible leader replicas."""
        return self._tallies.has_elrs()

    @property
    def leaderless_count(self) -> int:
        """The number of partitions without a leader."""
        return self._tallies.leaderless()

    @property
    def imbalanced_count(self) -> int:
        """The number of partitions that another replica than the first leads."""
        return self._tallies.displaced()

    def imbalance(self, broker_id: int) -> float:
        """Return the share of the partitions whose first replica is on the broker that it does not lead; 0 if
        there are none."""
        return self._tallies.imbalance(broker_id)

    @property
    def reassigning_count(self) -> int:
        """The number of partitions whose replicas are being added or removed (KIP-455)."""
        return self._tallies.reassigning()

    def replica_homes(self) -> Mapping[tuple[int, uuid.UUID], int]:
        """Return how many replicas are in each directory of each broker, from counts that every change
        keeps."""
        return self._tallies.homes()

    def configs(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the resource's own settings, without defaults."""
        return self._configs.get(resource, _NO_CONFIGS)

    def configured(self) -> Iterator[ConfigResource]:
        return iter(self._configs)

    def quotas(self, entity: QuotaEntity) -> Mapping[str, float]:
        """Return the entity's own quotas, without defaults."""
        return self._quotas.get(entity, _NO_QUOTAS)

    @property
    def has_quotas(self) -> bool:
        """True if any client has a quota."""
        return bool(self._quotas)

    def has_quota(self, key: str) -> bool:
        """True if any client or address has this quota."""
        return self._quota_counts[key] > 0

    def quota_entities(self) -> Iterator[QuotaEntity]:
        """Return the entities that have quotas."""
        return iter(self._quotas)

    def scram_credential(self, user: str, mechanism: ScramMechanism) -> UserScramCredential | None:
        """Return what the cluster knows of the user's password for the mechanism."""
        return self._scram.get((user, mechanism))

    def scram_credentials_of(self, user: str) -> tuple[UserScramCredential, ...]:
        """Return what the cluster knows of the user's passwords, in the order of the mechanisms."""
        found = (self._scram.get((user, mechanism)) for mechanism in ScramMechanism)
        return tuple(each for each in found if each is not None)

    @property
    def first_scram_credential(self) -> UserScramCredential | None:
        """The oldest password of all users."""
        return next(iter(self._scram.values()), None)

    def scram_credentials(self) -> Collection[UserScramCredential]:
        """Return what the cluster knows of all passwords."""
        return self._scram.values()

    def scram_users(self) -> Collection[str]:
        """Return the users that have a password."""
        return tuple(dict.fromkeys(user for user, _ in self._scram))

    # Applying

    def apply(self, record: Record, *, offset: int, epoch: int) -> None:
        """Apply one record, in log order. Raises `ImageError` and is unchanged if it doesn't fit."""
        WORK.records += 1
        match record:
            case PartitionChange() | Partition():
                self.apply_partition(record, offset=offset, epoch=epoch)
            case Topic():
                if record.name in self._topic_ids or record.topic_id in self._topics:
                    raise ImageError(f"topic {record.name} ({record.topic_id}) is there already")
                self._topics[record.topic_id] = TopicState(
                    name=record.name, topic_id=record.topic_id, first_epochs=record.first_epochs
                )
                self._topic_ids[record.name] = record.topic_id
                self._partitions[record.topic_id] = TopicPartitions(self._owner)
            case ShrinkTopic():
                self._shrink_topic(record)
            case RemoveTopic():
                self._remove_topic(record.topic_id)
            case BrokerRegistrationChange():
                broker = self._registered(record.broker_id, record.broker_epoch)
                self._brokers[record.broker_id] = broker.changed(record)
            case RegisterBroker():
                self._brokers[record.broker_id] = BrokerState.of(record)
            case UnregisterBroker():
                self._registered(record.broker_id, record.broker_epoch)
                del self._brokers[record.broker_id]
            case Config():
                self._set_config(record)
            case FeatureLevel():
                if record.level and record.name != KRAFT_VERSION:
                    self._features[record.name] = record.level
                else:
                    self._features.pop(record.name, None)
            case ProducerIds():
                if record.next_producer_id < self._next_producer_id:
                    raise ImageError(
                        f"producer ids go back from {self._next_producer_id} to {record.next_producer_id}"
                    )
                self._next_producer_id = record.next_producer_id
            case ClientQuota():
                self._set_quota(record)
            case AccessControlEntry():
                self.acls.add(record.id, record.acl)
            case RemoveAccessControlEntry():
                self.acls.remove(record.id)
            case UserScramCredential():
                self._scram[record.name, record.mechanism] = record
            case RemoveUserScramCredential():
                self._scram.pop((record.name, record.mechanism), None)
            case NoOp():
                pass
            case BeginTransaction() | EndTransaction() | AbortTransaction():
                raise ImageError(f"{type(record).__name__} is for a `BatchLoader`, not for an image")
            case _:
                assert_never(record)
        self.offset = offset
        self.epoch = epoch

    def apply_partition(
        self, record: PartitionChange | Partition, *, offset: int, epoch: int
    ) -> PartitionState | None:
        """Apply the record, and return the partition's state before it, None if it is new."""
        before = None
        if isinstance(record, PartitionChange):
            before = self._change_partition(record, self._partitions.get(record.topic_id))
        else:
            self._place_partition(record)
        self.offset = offset
        self.epoch = epoch
        return before

    def apply_run(self, run: PartitionRun, *, offset: int, epoch: int) -> None:
        """Apply a run of partitions, the last of which is at `offset`. Raises `ImageError` and is unchanged
        if it doesn't fit."""
        states = self._next_to(run.topic_id, run.first)
        states.extend(run.states)
        self._tallies.add_all(run.topic_id, run.first, run.states)
        self.offset = offset
        self.epoch = epoch

    def validate(self) -> None:
        """Raise InvariantError unless every partition is as `validate_partition` says, and the counts that
        every change keeps are those of all partitions. It takes time for each partition."""
        leads, isrs, elrs = Counter[int](), Counter[int](), Counter[int]()
        for key, state in self.all_partitions():
            self.validate_partition(key)
            leads[state.leader] += 1
            isrs.update(state.isr)
            elrs.update(state.elr)
        invariant(
            self.leaderless_count == leads.pop(NO_LEADER, 0),
            "the count of leaderless partitions is another",
            counted=self.leaderless_count,
        )
        for broker_id in {*self._brokers, *self.isr_members(), *leads, *isrs, *elrs}:
            counted = (self.leader_count(broker_id), self.isr_count(broker_id), self.elr_count(broker_id))
            found = (leads[broker_id], isrs[broker_id], elrs[broker_id])
            invariant(
                counted == found,
                "a broker's counts are others",
                broker=broker_id,
                counted=counted,
                found=found,
            )

    def validate_partition(self, key: PartitionKey) -> None:
        """Raise InvariantError unless the partition's ISR is among its replicas, its leader is in the ISR,
        the eligible replicas are outside of it, and its leader epoch is not from before its beginning. A
        partition that isn't there is in order."""
        state = self.partition(*key)
        if state is None:
            return
        replicas, isr, elr = set(state.replicas), set(state.isr), set(state.elr)
        distinct = len(replicas) == len(state.replicas) and len(isr) == len(state.isr)
        invariant(bool(replicas) and distinct, "a replica is named twice, or none is", key=key, state=state)
        invariant(isr <= replicas, "the ISR is not among the replicas", key=key, state=state)
        invariant(
            state.leader == NO_LEADER or state.leader in isr,
            "the leader is not in the ISR",
            key=key,
            state=state,
        )
        invariant(
            elr <= replicas and not elr & isr,
            "an eligible replica is in the ISR, or is no replica",
            key=key,
            state=state,
        )
        first = self._topics[key.topic_id].first_epoch(key.partition_id)
        ordered(first_epoch=first, leader_epoch=state.leader_epoch)

    def _registered(self, broker_id: int, broker_epoch: int) -> BrokerState:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            held = "not registered" if broker is None else f"registered with epoch {broker.epoch}"
            raise ImageError(f"a change for broker {broker_id} of epoch {broker_epoch}, which is {held}")
        return broker

    def _own(self, topic_id: uuid.UUID, states: TopicPartitions) -> TopicPartitions:
        """Replace `states` with a copy, because another image has it too."""
        own = self._partitions[topic_id] = states.copy(self._owner)
        return own

    def _next_to(self, topic_id: uuid.UUID, partition_id: int) -> TopicPartitions:
        """Return the topic's partitions, this image's own, with `partition_id` as the next. Raises
        `ImageError`."""
        states = self._partitions.get(topic_id)
        if states is None or partition_id != len(states):
            raise ImageError(
                f"partition {partition_id} of topic {topic_id}, where "
                + ("there is no such topic" if states is None else f"{len(states)} comes next")
            )
        return states if states.owner is self._owner else self._own(topic_id, states)

    def _place_partition(self, record: Partition) -> None:
        states = self._next_to(record.topic_id, record.partition_id)
        if record.directories:
            _check_directories(record, replicas=record.replicas, directories=record.directories)
        state = placed(record)
        states.append(state, self._shared)
        self._tallies.add(record.topic_id, record.partition_id, state)

    def _change_partition(self, record: PartitionChange, states: TopicPartitions | None) -> PartitionState:
        if states is None or record.partition_id >= len(states):
            raise ImageError(
                f"a change for partition {record.partition_id} of topic {record.topic_id}, which is not there"
            )
        before = states[record.partition_id]
        if record.directories is not None:
            replicas = before.replicas if record.replicas is None else record.replicas
            _check_directories(record, replicas=replicas, directories=record.directories)
        after = changed(before, record)
        if after.partition_epoch > MAX_EPOCH or after.leader_epoch > MAX_EPOCH:
            raise ImageError(
                f"partition {record.partition_id} of topic {record.topic_id} has the epochs "
                f"{after.leader_epoch} and {after.partition_epoch}, more than {MAX_EPOCH}"
            )
        if states.owner is not self._owner:
            states = self._own(record.topic_id, states)
        states.replace(record.partition_id, after, self._shared)
        self._tallies.replace(record.topic_id, record.partition_id, before=before, after=after)
        return before

    def _shrink_topic(self, record: ShrinkTopic) -> None:
        states = self._partitions.get(record.topic_id)
        if states is None or record.num_partitions >= len(states):
            raise ImageError(
                f"topic {record.topic_id} is to have {record.num_partitions} partitions left, where "
                + ("there is no such topic" if states is None else f"it has {len(states)}")
            )
        if states.owner is not self._owner:
            states = self._own(record.topic_id, states)
        self._topics[record.topic_id] = self._topics[record.topic_id].shrunk(
            states[record.num_partitions :], left=record.num_partitions
        )
        self._tallies.remove(record.topic_id, states, left=record.num_partitions)
        states.shrink(record.num_partitions)

    def _remove_topic(self, topic_id: uuid.UUID) -> None:
        topic = self._topics.pop(topic_id, None)
        if topic is None:
            raise ImageError(f"topic {topic_id} is removed, but is not there")
        del self._topic_ids[topic.name]
        self._tallies.remove(topic_id, self._partitions.pop(topic_id), left=0)
        self._configs.pop(ConfigResource(ConfigType.TOPIC, topic.name), None)

    def _set_config(self, record: Config) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        held = dict(self._configs.get(resource, _NO_CONFIGS))
        if record.value is None:
            held.pop(record.name, None)
        else:
            held[record.name] = record.value
        if held:
            self._configs[resource] = MappingProxyType(held)
        else:
            self._configs.pop(resource, None)

    def _set_quota(self, record: ClientQuota) -> None:
        held = dict(self._quotas.get(record.entity, _NO_QUOTAS))
        if record.value is None:
            self._quota_counts[record.key] -= held.pop(record.key, None) is not None
        else:
            self._quota_counts[record.key] += record.key not in held
            held[record.key] = record.value
        if held:
            self._quotas[record.entity] = MappingProxyType(held)
        else:
            self._quotas.pop(record.entity, None)

    # As records

    def records(self) -> Iterator[Record]:
        """Yield the records that make an empty image equal to this one: the content of a snapshot."""
        for name, level in self._features.items():
            yield FeatureLevel(name=name, level=level)
        for broker in self._brokers.values():
            yield broker.record
        for topic in self._topics.values():
            yield topic.record
            for partition_id, state in enumerate(self._partitions[topic.topic_id]):
                yield partition_record(topic.topic_id, partition_id, state)
        for resource, values in self._configs.items():
            for name, value in values.items():
                yield Config(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for entity, quotas in self._quotas.items():
            for key, quota in quotas.items():
                yield ClientQuota(entity=entity, key=key, value=quota)
        for acl_id, acl in self.acls.by_id.items():
            yield AccessControlEntry(id=acl_id, acl=acl)
        yield from self._scram.values()
        if self._next_producer_id:
            yield ProducerIds(broker_id=0, broker_epoch=0, next_producer_id=self._next_producer_id)


def _check_directories(
    record: Partition | PartitionChange, *, replicas: tuple[int, ...], directories: tuple[uuid.UUID, ...]
) -> None:
    if directories and len(directories) != len(replicas):
        raise ImageError(
            f"partition {record.partition_id} of topic {record.topic_id} has {len(replicas)} replicas and "
            f"{len(directories)} directories"
        )
