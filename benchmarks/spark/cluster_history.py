"""The life of a cluster as batches of its metadata log: brokers restart and crash, ISRs shrink and grow,
topics come and go.

It is made for length: a million records take seconds. So it keeps no image, and decides by the rules of the
controller for what happens here alone: never more than one broker is away, and no ISR falls below one.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple
from uuid import UUID

from quorate.broker.metadata.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChange,
    ChangeReason,
    Config,
    ConfigType,
    FeatureLevel,
    Partition,
    PartitionChange,
    ProducerIds,
    RegisterBroker,
    RemoveTopic,
    Topic,
)
from quorate.broker.metadata.record_codec import encode, encode_integer
from quorate.broker.metadata.supported_features import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from quorate.log.batches.control import leader_change_batch
from quorate.log.batches.records import build_batch
from quorate.runtime import Entropy

PARTITIONS: Final = 5_800
"""In about 250 topics."""
START_MS: Final = 1_760_000_000_000
VOTERS: Final = (1, 2, 3)
_TOPIC_SIZES: Final = (1, 6, 12, 24, 72)
_BROKERS_LEAST: Final = 9
_REPLICAS_ON_A_BROKER: Final = 100_000
"""In a cluster so large that the least number of brokers would hold more."""
_SESSION_MS: Final = 9_000
_CONFIGS: Final = (
    ("retention.ms", "604800000"),
    ("segment.bytes", "1073741824"),
    ("cleanup.policy", "delete"),
)
"""Of a new topic."""
# What happens between a restart of a broker and the next.
_LAGGED: Final = 170
_TOPICS_REPLACED: Final = (3, 3, 3, 4)
_CONFIGS_ALTERED: Final = 16
_PRODUCER_ID_BLOCKS: Final = 9
_SHUT_DOWN_IN_ORDER: Final = 0.4
"""The probability that a broker that restarts has not crashed."""
# Records in a batch, at most: the controller's own changes come in pieces, and leaders ask for a few at once.
_OWN_CHANGES: Final = 500
_ASKED_CHANGES: Final = 6
_LAGGED_AT_ONCE: Final = 3

Brokers = tuple[int, ...]


class EncodedBatch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    timestamp_ms: int
    values: Sequence[bytes]
    """Of its records. Empty: a control batch."""
    data: bytes


class _Around(NamedTuple):
    """The bytes of a record before and behind those that name its partition."""

    head: bytes
    tail: bytes


class _Placement(NamedTuple):
    replicas: Brokers
    around: _Around
    """Of the Partition record."""


@dataclass(slots=True)
class _PartitionState:
    name: bytes
    """The encoded fields that name it: topic id and number."""
    replicas: Brokers
    isr: Brokers
    leader: int


@dataclass(frozen=True, slots=True)
class _LiveTopic:
    name: str
    topic_id: UUID
    partitions: list[_PartitionState]


_HEAD_BYTES: Final = 4
"""Before a record's fields: its type, its version, and their number."""
_NO_TOPIC: Final = UUID(int=0)


def _name_of(topic_id: UUID) -> bytes:
    """The encoded name of a partition as far as its number."""
    return encode(PartitionChange(topic_id=topic_id, partition_id=0))[_HEAD_BYTES : -len(encode_integer(0))]


_NAME_BYTES: Final = len(_name_of(_NO_TOPIC)) + len(encode_integer(0))


def _around(record: Partition | PartitionChange) -> _Around:
    """`record` is of `_NO_TOPIC`'s partition 0. Fields are in the order of their numbers, its name first."""
    data = encode(record)
    return _Around(data[:_HEAD_BYTES], data[_HEAD_BYTES + _NAME_BYTES :])


class ClusterHistory:
    """One cluster from its first record on. Equal arguments give equal bytes."""

    def __init__(self, *, seed: int, partitions: int = PARTITIONS) -> None:
        """`partitions`: the number that is created first. Later the cluster has about as many."""
        self._random = random.Random(seed)
        self._ids = Entropy(self._random)
        self._partitions = partitions
        replicas = partitions * len(VOTERS)
        self._brokers = range(1, 1 + max(_BROKERS_LEAST, replicas // _REPLICAS_ON_A_BROKER))
        self._directories = {broker: self._ids.uuid() for broker in self._brokers}
        self._offset = 0
        self._epoch = 0
        self._now_ms = START_MS
        self._controller = VOTERS[0]
        self._broker_epochs: dict[int, int] = {}
        self._topics: list[_LiveTopic] = []
        self._topics_made = 0
        self._next_producer_id = 0
        self._placements: dict[Brokers, _Placement] = {}
        self._changes: dict[tuple[Brokers | None, int | None, ChangeReason], _Around] = {}

    def batches(self, records: int) -> Iterator[EncodedBatch]:
        """Yield so many records. The last batch may be cut short."""
        for values in self._life():
            left = records - self._offset
            if left <= 0:
                return
            count = min(len(values), left) if values else 1
            base, self._offset = self._offset, self._offset + count
            self._now_ms += self._random.randrange(1, 20)
            kept = values[:count]
            data = self._batch(base, kept)
            yield EncodedBatch(base, self._offset, self._epoch, self._now_ms, kept, data)

    def _batch(self, base_offset: int, values: Sequence[bytes]) -> bytes:
        epoch, now_ms = self._epoch, self._now_ms
        if values:
            return build_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=now_ms, values=values)
        return leader_change_batch(
            base_offset=base_offset,
            epoch=epoch,
            timestamp_ms=now_ms,
            leader=self._controller,
            voters=VOTERS,
            granting_voters=VOTERS[:2],
        )

    def _life(self) -> Iterator[list[bytes]]:
        """Yield the values of each batch; none, where another node leads the quorum."""
        yield self._elect_controller()
        yield [encode(FeatureLevel(name=METADATA_VERSION, level=LATEST_METADATA_VERSION))]
        for broker in self._brokers:
            yield from self._return(broker)
        while self._partitions > 0:
            yield self._create_topic(most=self._partitions)
            self._partitions -= len(self._topics[-1].partitions)
        while True:
            self._pass_ms(600_000)
            lagging = [*self._draw_lagging()]
            yield from self._lag(lagging)
            yield from self._restart(self._random.choice(self._brokers))
            yield from self._catch_up(lagging)
            for _ in range(self._random.choice(_TOPICS_REPLACED)):
                self._pass_ms(30_000)
                yield self._remove_topic()
                yield self._create_topic(most=max(_TOPIC_SIZES))
            for _ in range(_CONFIGS_ALTERED):
                self._pass_ms(10_000)
                yield [self._config(self._random.choice(self._topics).name, "retention.ms", None)]
            for _ in range(_PRODUCER_ID_BLOCKS):
                self._pass_ms(10_000)
                yield [self._producer_ids(self._random.choice(self._brokers))]

    def _pass_ms(self, mean: int) -> None:
        self._now_ms += int(self._random.uniform(0.5, 1.5) * mean)

    # The quorum and its brokers

    def _elect_controller(self) -> list[bytes]:
        self._epoch += 1
        self._controller = VOTERS[self._epoch % len(VOTERS)]
        return []

    def _restart(self, broker: int) -> Iterator[list[bytes]]:
        """The broker crashes, or shuts down in order. It comes back, catches up, and leads what it led."""
        heard_ms = self._now_ms
        if self._random.random() < _SHUT_DOWN_IN_ORDER:
            reason = ChangeReason.CONTROLLED_SHUTDOWN
            yield [self._broker_change(broker, in_controlled_shutdown=True, reason=reason)]
            yield from self._leave(broker, reason)
            yield [self._broker_change(broker, fenced=True, reason=reason, last_heard_ms=self._now_ms)]
            if broker == self._controller:
                yield self._elect_controller()
        else:
            reason = ChangeReason.BROKER_FENCED
            if broker == self._controller:
                self._pass_ms(1_000)
                yield self._elect_controller()
            self._now_ms = heard_ms + _SESSION_MS
            yield [self._broker_change(broker, fenced=True, reason=reason, last_heard_ms=heard_ms)]
            yield from self._leave(broker, reason)
        self._pass_ms(10_000)
        yield from self._return(broker)
        every = self._every_partition()
        yield from self._catch_up([(each, broker) for each in every if broker in each.replicas])
        self._pass_ms(300_000)
        yield from self._prefer(broker)

    def _return(self, broker: int) -> Iterator[list[bytes]]:
        self._broker_epochs[broker] = self._offset
        yield [
            encode(
                RegisterBroker(
                    broker_id=broker,
                    incarnation_id=self._ids.uuid(),
                    broker_epoch=self._offset,
                    listeners=(BrokerEndpoint(name="PLAINTEXT", host=f"broker-{broker}", port=9092),),
                    rack=f"rack-{broker % len(VOTERS)}",
                    features=SUPPORTED_FEATURES,
                    log_dirs=(self._directories[broker],),
                )
            )
        ]
        self._pass_ms(2_000)
        yield [self._broker_change(broker, fenced=False, reason=ChangeReason.BROKER_UNFENCED)]

    def _broker_change(
        self,
        broker: int,
        *,
        reason: ChangeReason,
        fenced: bool | None = None,
        in_controlled_shutdown: bool | None = None,
        last_heard_ms: int | None = None,
    ) -> bytes:
        return encode(
            BrokerRegistrationChange(
                broker_id=broker,
                broker_epoch=self._broker_epochs[broker],
                fenced=fenced,
                in_controlled_shutdown=in_controlled_shutdown,
                reason=reason,
                last_heard_ms=last_heard_ms,
            )
        )

    def _producer_ids(self, broker: int) -> bytes:
        self._next_producer_id += 1000
        epoch = self._broker_epochs[broker]
        return encode(
            ProducerIds(broker_id=broker, broker_epoch=epoch, next_producer_id=self._next_producer_id)
        )

    # Topics

    def _create_topic(self, *, most: int) -> list[bytes]:
        self._topics_made += 1
        topic = _LiveTopic(f"topic-{self._topics_made}", self._ids.uuid(), [])
        self._topics.append(topic)
        values = [encode(Topic(name=topic.name, topic_id=topic.topic_id))]
        values += (self._config(topic.name, name, value) for name, value in _CONFIGS)
        size, named = min(self._random.choice(_TOPIC_SIZES), most), _name_of(topic.topic_id)
        # As Kafka places them: in turn from a random broker, the followers at a random distance.
        brokers, count = self._brokers, len(self._brokers)
        start, shift = self._random.randrange(count), 1 + self._random.randrange(count - 2)
        for number in range(start, start + size):
            replicas = (
                brokers[number % count],
                brokers[(number + shift) % count],
                brokers[(number + shift + 1) % count],
            )
            placement = self._placements.get(replicas) or self._place(replicas)
            name = named + encode_integer(number - start)
            values.append(placement.around.head + name + placement.around.tail)
            # One tuple for all partitions that have these replicas.
            replicas = placement.replicas
            topic.partitions.append(_PartitionState(name, replicas, replicas, replicas[0]))
        return values

    def _place(self, replicas: Brokers) -> _Placement:
        record = Partition(
            topic_id=_NO_TOPIC,
            partition_id=0,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            directories=tuple(self._directories[each] for each in replicas),
        )
        placement = self._placements[replicas] = _Placement(replicas, _around(record))
        return placement

    def _remove_topic(self) -> list[bytes]:
        at = self._random.randrange(len(self._topics))
        # The order means nothing.
        self._topics[at], self._topics[-1] = self._topics[-1], self._topics[at]
        return [encode(RemoveTopic(topic_id=self._topics.pop().topic_id))]

    def _config(self, topic: str, name: str, value: str | None) -> bytes:
        if value is None:
            value = str(self._random.randrange(1, 30) * 86_400_000)
        return encode(Config(resource_type=ConfigType.TOPIC, resource_name=topic, name=name, value=value))

    def _every_partition(self) -> Iterator[_PartitionState]:
        for topic in self._topics:
            yield from topic.partitions

    # Their leaders and ISRs

    def _draw_lagging(self) -> Iterator[tuple[_PartitionState, int]]:
        """Followers of distinct partitions, each in the ISR."""
        drawn = self._random.choices(self._topics, k=_LAGGED)
        held = {id(each): each for each in (self._random.choice(topic.partitions) for topic in drawn)}
        for partition in held.values():
            follower = next(each for each in reversed(partition.isr) if each != partition.leader)
            yield partition, follower

    def _lag(self, lagging: Sequence[tuple[_PartitionState, int]]) -> Iterator[list[bytes]]:
        changes = (
            self._change(each, ChangeReason.REPLICA_LAGGED, isr=_without(each.isr, follower))
            for each, follower in lagging
        )
        return self._asked(changes, most=_LAGGED_AT_ONCE)

    def _catch_up(self, followers: list[tuple[_PartitionState, int]]) -> Iterator[list[bytes]]:
        """In any order. Some have caught up already."""
        self._random.shuffle(followers)
        changes = (
            self._change(each, ChangeReason.REPLICA_CAUGHT_UP, isr=(*each.isr, follower))
            for each, follower in followers
            if follower not in each.isr
        )
        return self._asked(changes, most=_ASKED_CHANGES)

    def _leave(self, broker: int, reason: ChangeReason) -> Iterator[list[bytes]]:
        return _cut(self._leave_isrs(broker, reason), repeat(_OWN_CHANGES))

    def _leave_isrs(self, broker: int, reason: ChangeReason) -> Iterator[bytes]:
        for each in self._every_partition():
            if broker in each.isr:
                isr, leader = _without(each.isr, broker), None
                if each.leader == broker:
                    leader = next(replica for replica in each.replicas if replica in isr)
                yield self._change(each, reason, isr=isr, leader=leader)

    def _prefer(self, broker: int) -> Iterator[list[bytes]]:
        changes = (
            self._change(each, ChangeReason.PREFERRED_LEADER, leader=broker)
            for each in self._every_partition()
            if each.replicas[0] == broker != each.leader
        )
        return _cut(changes, repeat(_OWN_CHANGES))

    def _asked(self, changes: Iterable[bytes], *, most: int) -> Iterator[list[bytes]]:
        return _cut(changes, iter(lambda: self._random.randrange(1, most + 1), 0))

    def _change(
        self,
        partition: _PartitionState,
        reason: ChangeReason,
        *,
        isr: Brokers | None = None,
        leader: int | None = None,
    ) -> bytes:
        if isr is not None:
            partition.isr = isr
        if leader is not None:
            partition.leader = leader
        key = isr, leader, reason
        around = self._changes.get(key)
        if around is None:
            around = self._changes[key] = _around(
                PartitionChange(topic_id=_NO_TOPIC, partition_id=0, isr=isr, leader=leader, reason=reason)
            )
        return around.head + partition.name + around.tail


def _without(isr: Brokers, broker: int) -> Brokers:
    return tuple([each for each in isr if each != broker])


def _cut(values: Iterable[bytes], sizes: Iterator[int]) -> Iterator[list[bytes]]:
    """Yield the values in runs of these sizes."""
    batch: list[bytes] = []
    room = next(sizes)
    for value in values:
        batch.append(value)
        if len(batch) == room:
            yield batch
            batch, room = [], next(sizes)
    if batch:
        yield batch
