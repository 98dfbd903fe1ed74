"""The requests for state changes in words: what a record of the metadata log asks of brokers, and why."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChange,
    ChangeReason,
    Partition,
    PartitionChange,
    RegisterBroker,
    RemoveTopic,
    ShrinkTopic,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWords:
    """A record that asks brokers for a change."""

    what: str
    reason: ChangeReason | None = None
    topic_id: uuid.UUID | None = None
    """None: the record concerns a broker as a whole."""
    partitions: range | None = None
    """The partitions that it concerns; None: all of the topic, or none."""
    replicas: tuple[int, ...] = ()
    """The brokers that it names."""


def words_of(record: object, *, time_ms: int) -> RecordWords | None:
    """Return the words for a record that was appended at `time_ms`; None if it asks no broker for
    anything."""
    match record:
        case Partition() as made:
            return RecordWords(
                what=f"created: leader {_node(made.leader)}, replicas {_nodes(made.replicas)}",
                topic_id=made.topic_id,
                partitions=range(made.partition_id, made.partition_id + 1),
                replicas=made.replicas,
            )
        case PartitionChange() as change:
            return RecordWords(
                what=_changes(change),
                reason=change.reason,
                topic_id=change.topic_id,
                partitions=range(change.partition_id, change.partition_id + 1),
                replicas=change.replicas or (),
            )
        case RemoveTopic() as removal:
            return RecordWords(what="topic deleted", topic_id=removal.topic_id)
        case ShrinkTopic() as shrink:
            return RecordWords(
                what=f"shrunk to {shrink.num_partitions} partitions",
                topic_id=shrink.topic_id,
                partitions=range(shrink.num_partitions, 1 << 31),
            )
        case RegisterBroker() as broker:
            return RecordWords(what=f"broker {broker.broker_id} registered", replicas=(broker.broker_id,))
        case BrokerRegistrationChange() as broker:
            return RecordWords(
                what=_of_broker(broker, time_ms), reason=broker.reason, replicas=(broker.broker_id,)
            )
        case _:
            return None


def reason_words(reason: ChangeReason | None) -> str | None:
    """Return a reason in words, such as `broker fenced`."""
    return None if reason is None else reason.name.lower().replace("_", " ")


def _changes(change: PartitionChange) -> str:
    parts = []
    if change.leader is not None:
        parts.append(f"leader {_node(change.leader)}")
    for name, brokers in (
        ("replicas", change.replicas),
        ("adding", change.adding_replicas),
        ("removing", change.removing_replicas),
        ("ISR", change.isr),
        ("ELR", change.eligible_leader_replicas),
    ):
        if brokers is not None:
            parts.append(f"{name} {_nodes(brokers)}")
    if change.directories is not None:
        parts.append("directories")
    return ", ".join(parts) or "recovered"


def _of_broker(change: BrokerRegistrationChange, time_ms: int) -> str:
    parts = []
    if change.fenced is not None:
        parts.append("fenced" if change.fenced else "unfenced")
    if change.in_controlled_shutdown:
        parts.append("in controlled shutdown")
    if change.log_dirs is not None:
        parts.append(f"{len(change.log_dirs)} directories online")
    if change.last_heard_ms is not None:
        parts.append(f"last heard {(time_ms - change.last_heard_ms) / 1000:.1f} s before")
    return f"broker {change.broker_id} " + ", ".join(parts)


def _node(node: int) -> str:
    return "none" if node == NO_LEADER else str(node)


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes)) or "none"
