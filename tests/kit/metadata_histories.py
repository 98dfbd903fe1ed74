"""Valid metadata logs, drawn at random: whatever a cluster may write, in no sensible order."""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    LOST,
    UNASSIGNED,
    AbortTransaction,
    AccessControlEntry,
    BeginTransaction,
    BrokerEndpoint,
    BrokerRegistrationChange,
    ChangeReason,
    ClientQuota,
    Config,
    ConfigType,
    EndTransaction,
    FeatureLevel,
    LeaderRecoveryState,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    QuotaEntity,
    Record,
    RegisterBroker,
    RemoveAccessControlEntry,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.broker.metadata.states import PartitionKey

BROKERS = range(1, 6)
NAMES = ("orders", "logs", "payments", "a")


@dataclass(slots=True)
class HistoryMaker:
    """Draws records that fit all that it drew before. `image` has them applied, those of an open transaction
    too."""

    random: random.Random
    image: MetadataImage = field(default_factory=MetadataImage)
    offset: int = 0
    """The offset of the next record."""
    _before: MetadataImage | None = None
    """The image before the open transaction."""

    def next(self) -> Record:
        """Draw a record, and apply it."""
        record = self._drawn()
        if isinstance(record, BeginTransaction):
            self._before = self.image.copy()
        elif isinstance(record, EndTransaction):
            self._before = None
        elif isinstance(record, AbortTransaction):
            assert self._before is not None
            self.image, self._before = self._before, None
        else:
            self.image.apply(record, offset=self.offset, epoch=1)
        self.offset += 1
        return record

    def _drawn(self) -> Record:
        draw = self.random
        if draw.random() < 0.1:
            if self._before is None:
                return BeginTransaction(name="t")
            return EndTransaction() if draw.random() < 0.7 else AbortTransaction(reason="r")
        makers: list[Callable[[], Record | None]] = [
            *[self._change_partition] * 8,
            *[self._partition] * 4,
            self._topic,
            self._topic,
            self._remove,
            self._shrink,
            *[self._register] * 2,
            *[self._change_broker] * 3,
            self._unregister,
            *[self._config] * 2,
            self._quota,
            *[self._acl] * 2,
            self._remove_acl,
            self._feature,
            self._producer_ids,
        ]
        return next((made for _ in range(5) if (made := draw.choice(makers)()) is not None), NoOp())

    def _id(self) -> uuid.UUID:
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    def _brokers(self, least: int = 0, most: int = 3) -> tuple[int, ...]:
        return tuple(self.random.sample(BROKERS, self.random.randint(least, most)))

    def _reason(self) -> ChangeReason | None:
        return self.random.choice([None, *ChangeReason])

    def _topic(self) -> Topic | None:
        free = [name for name in NAMES if self.image.topic(name) is None]
        return Topic(name=self.random.choice(free), topic_id=self._id()) if free else None

    def _some_topic(self) -> uuid.UUID | None:
        return self.random.choice([*self.image.topics, None])

    def _directories(self, replicas: tuple[int, ...]) -> tuple[uuid.UUID, ...]:
        if self.random.random() < 0.4:
            return ()
        return tuple(
            self.random.choice(
                [
                    UNASSIGNED,
                    LOST,
                    *(self.image.brokers[each].log_dirs if each in self.image.brokers else ()),
                ]
            )
            for each in replicas
        )

    def _partition(self) -> Partition | None:
        topic_id = self._some_topic()
        if topic_id is None:
            return None
        replicas = self._brokers(1)
        number = len(self.image.partitions(topic_id))
        return Partition(
            topic_id=topic_id,
            partition_id=number,
            replicas=replicas,
            isr=replicas[:2],
            leader=self.random.choice([-1, replicas[0]]),
            leader_epoch=self.image.topics[topic_id].first_epoch(number),
            partition_epoch=self.random.choice([0, 0, 7]),
            eligible_leader_replicas=self._brokers(0, 1),
            directories=self._directories(replicas),
        )

    def _some_partition(self) -> PartitionKey | None:
        keys = [key for key, _ in self.image.all_partitions()]
        return self.random.choice(keys) if keys else None

    def _change_partition(self) -> PartitionChange | None:
        key = self._some_partition()
        if key is None:
            return None
        draw = self.random
        replicas = self._brokers(1) if draw.random() < 0.2 else None
        state = self.image.partition(*key)
        assert state is not None
        placed = state.replicas if replicas is None else replicas
        maybe: Callable[[object], object] = lambda value: value if draw.random() < 0.4 else None  # noqa: E731
        return PartitionChange(
            topic_id=key.topic_id,
            partition_id=key.partition_id,
            isr=maybe(self._brokers()),  # type: ignore[arg-type]
            leader=maybe(draw.choice([-1, *BROKERS])),  # type: ignore[arg-type]
            replicas=replicas,
            removing_replicas=maybe(self._brokers()),  # type: ignore[arg-type]
            adding_replicas=maybe(self._brokers()),  # type: ignore[arg-type]
            leader_recovery_state=maybe(draw.choice([*LeaderRecoveryState])),  # type: ignore[arg-type]
            eligible_leader_replicas=maybe(self._brokers()),  # type: ignore[arg-type]
            last_known_elr=maybe(self._brokers(0, 1)),  # type: ignore[arg-type]
            directories=maybe(self._directories(placed)),  # type: ignore[arg-type]
            reason=self._reason(),
        )

    def _remove(self) -> RemoveTopic | None:
        topic_id = self._some_topic()
        return None if topic_id is None else RemoveTopic(topic_id=topic_id)

    def _shrink(self) -> ShrinkTopic | None:
        topic_id = self._some_topic()
        count = 0 if topic_id is None else len(self.image.partitions(topic_id))
        if topic_id is None or count < 2:
            return None
        return ShrinkTopic(topic_id=topic_id, num_partitions=self.random.randint(1, count - 1))

    def _register(self) -> RegisterBroker:
        broker = self.random.choice(BROKERS)
        return RegisterBroker(
            broker_id=broker,
            incarnation_id=self._id(),
            broker_epoch=self.offset,
            listeners=(BrokerEndpoint(name="L", host="h", port=9000 + broker),),
            rack=self.random.choice([None, "r"]),
            fenced=self.random.random() < 0.7,
            log_dirs=tuple(self._id() for _ in range(self.random.randint(0, 2))),
        )

    def _some_broker(self) -> int | None:
        return self.random.choice([*self.image.brokers, None])

    def _change_broker(self) -> BrokerRegistrationChange | None:
        broker = self._some_broker()
        if broker is None:
            return None
        state = self.image.brokers[broker]
        kept = tuple(each for each in state.log_dirs if self.random.random() < 0.6)
        return BrokerRegistrationChange(
            broker_id=broker,
            broker_epoch=state.epoch,
            fenced=self.random.choice([None, True, False]),
            in_controlled_shutdown=self.random.choice([None, None, True]),
            log_dirs=kept if self.random.random() < 0.3 else None,
            reason=self._reason(),
            last_heard_ms=self.random.choice([None, 1_600_000_000_000]),
        )

    def _unregister(self) -> UnregisterBroker | None:
        broker = self._some_broker()
        if broker is None:
            return None
        return UnregisterBroker(broker_id=broker, broker_epoch=self.image.brokers[broker].epoch)

    def _config(self) -> Config:
        kind = self.random.choice([*ConfigType])
        name = self.random.choice(NAMES) if kind is ConfigType.TOPIC else "1"
        value = self.random.choice([None, "1", "2"])
        key = self.random.choice(["min.insync.replicas", "k"])
        return Config(resource_type=kind, resource_name=name, name=key, value=value)

    def _quota(self) -> ClientQuota:
        entity = self.random.choice(
            [QuotaEntity(user="u"), QuotaEntity(user="u", client_id=""), QuotaEntity(ip="i")]
        )
        return ClientQuota(entity=entity, key="k", value=self.random.choice([None, 1.0, 2.5]))

    def _acl(self) -> AccessControlEntry | None:
        draw = self.random
        acl = Acl(
            resource_type=draw.choice([ResourceType.TOPIC, ResourceType.GROUP]),
            name=draw.choice([*NAMES, "*"]),
            pattern=draw.choice([*PatternType]),
            principal=draw.choice(["User:u", "User:*"]),
            host="*",
            operation=draw.choice([AclOperation.READ, AclOperation.ALL]),
            permission=draw.choice([*AclPermission]),
        )
        return None if acl in self.image.acls else AccessControlEntry(id=self._id(), acl=acl)

    def _remove_acl(self) -> RemoveAccessControlEntry | None:
        ids = [*self.image.acls.by_id]
        return RemoveAccessControlEntry(id=self.random.choice(ids)) if ids else None

    def _feature(self) -> FeatureLevel:
        return FeatureLevel(
            name=self.random.choice(["f", "g", "kraft.version"]), level=self.random.randint(0, 2)
        )

    def _producer_ids(self) -> ProducerIds:
        return ProducerIds(
            broker_id=1,
            broker_epoch=0,
            next_producer_id=self.image.next_producer_id + self.random.randint(0, 9),
        )
