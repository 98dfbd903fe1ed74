"""Intents of administrative calls: what the image shows once a call was done, and which changes it may have
caused.

Names of topics and values are drawn once, so most changes have one call that can explain them.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    ClientQuota,
    Config,
    ConfigType,
    FeatureLevel,
    Partition,
    PartitionChange,
    QuotaEntity,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.broker.metadata.states import ConfigResource
from tests.simulator.administration.admin_changes import AdminChange


@dataclass(frozen=True, slots=True)
class Intent:
    what: str
    """The call in words, for messages."""
    holds: Callable[[MetadataImage], bool]
    """Returns whether an answer without an error fits the image."""
    explains: Callable[[AdminChange], bool]
    """Returns whether the call may be the cause of a change."""
    unregisters: bool = False
    """It is done where the broker is not registered."""


def nothing(what: str) -> Intent:
    """A call that must not change anything: it is wrong, or only validates."""
    return Intent(what, holds=lambda image: True, explains=lambda change: False)


def create_topic(
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    assignments: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
) -> Intent:
    """`replication_factor`: the resulting one, also where `assignments` state it."""
    wanted = dict(configs or {})
    resource = ConfigResource(ConfigType.TOPIC, name)

    def holds(image: MetadataImage) -> bool:
        topic = image.topic(name)
        states = () if topic is None else image.partitions(topic.topic_id)
        return (
            len(states) == partitions
            and all(len(state.target_replicas) == replication_factor for state in states)
            and image.configs(resource) == wanted
            and all(
                state.target_replicas == tuple(replicas)
                for state, replicas in zip(states, assignments, strict=False)
            )
        )

    def explains(change: AdminChange) -> bool:
        match change.record:
            case Topic():
                return change.topic == name
            case Partition(partition_id=partition_id):
                return change.topic == name and partition_id < partitions
            case Config() as config:
                return resource_of(config) == resource and wanted.get(config.name) == config.value
            case _:
                return False

    return Intent(f"create {name} with {partitions} partitions", holds, explains)


def delete_topic(name: str, topic_id: uuid.UUID | None = None) -> Intent:
    """Delete the topic, by its id if one is given."""
    return Intent(
        f"delete {name}" if topic_id is None else f"delete {name} by its id {topic_id}",
        holds=lambda image: image.topic(name) is None,
        explains=lambda change: isinstance(change.record, RemoveTopic) and change.topic == name,
    )


def grow_topic(name: str, *, count: int) -> Intent:
    return Intent(
        f"grow {name} to {count} partitions",
        holds=lambda image: _partition_count(image, name) == count,
        explains=lambda change: (
            isinstance(change.record, Partition)
            and change.topic == name
            and change.record.partition_id < count
        ),
    )


def shrink_topic(name: str, *, count: int) -> Intent:
    return Intent(
        f"shrink {name} to {count} partitions",
        holds=lambda image: _partition_count(image, name) == count,
        explains=lambda change: (
            isinstance(change.record, ShrinkTopic)
            and (change.topic, change.record.num_partitions) == (name, count)
        ),
    )


def reassign(name: str, partition_id: int, replicas: tuple[int, ...] | None) -> Intent:
    """`replicas`: None cancels the reassignment under way."""

    def holds(image: MetadataImage) -> bool:
        topic = image.topic(name)
        state = None if topic is None else image.partition(topic.topic_id, partition_id)
        if state is None:
            return False
        return not state.is_reassigning if replicas is None else state.target_replicas == replicas

    def explains(change: AdminChange) -> bool:
        wanted = change.original if replicas is None else replicas
        return _is_of(change, name, partition_id) and change.target == wanted

    what = "cancel the reassignment of" if replicas is None else "reassign"
    return Intent(f"{what} {name}-{partition_id}: {replicas}", holds, explains)


def elect_leader(name: str, partition_id: int, *, unclean: bool) -> Intent:
    def holds(image: MetadataImage) -> bool:
        topic = image.topic(name)
        state = None if topic is None else image.partition(topic.topic_id, partition_id)
        if state is None:
            return False
        return state.leader != NO_LEADER if unclean else state.leader == state.replicas[0]

    return Intent(
        f"elect {'any' if unclean else 'the preferred'} leader of {name}-{partition_id}",
        holds,
        explains=lambda change: unclean and _is_of(change, name, partition_id) and change.target is None,
    )


def alter_config(
    resource: ConfigResource, changes: Mapping[str, str | None], *, replaces: bool = False
) -> Intent:
    """`replaces`: the keys that are not in `changes` lose their values."""

    def holds(image: MetadataImage) -> bool:
        held = image.configs(resource)
        if replaces:
            return held == {key: value for key, value in changes.items() if value is not None}
        return all(held.get(key) == value for key, value in changes.items())

    def explains(change: AdminChange) -> bool:
        config = change.record
        if not isinstance(config, Config) or resource_of(config) != resource:
            return False
        if config.name in changes:
            return changes[config.name] == config.value
        return replaces and config.value is None

    verb = "replace" if replaces else "alter"
    what = f"{verb} configs of {resource.type.name} {resource.name!r}: {changes}"
    return Intent(what, holds, explains)


def alter_quota(entity: QuotaEntity, changes: Mapping[str, float | None]) -> Intent:
    """An entity's quotas are altered wholly or not at all. None: the quota is removed."""

    def holds(image: MetadataImage) -> bool:
        held = image.quotas(entity)
        return all(held.get(key) == value for key, value in changes.items())

    def explains(change: AdminChange) -> bool:
        quota = change.record
        return (
            isinstance(quota, ClientQuota)
            and quota.entity == entity
            and quota.key in changes
            and changes[quota.key] == quota.value
        )

    return Intent(f"alter quotas of {entity}: {dict(changes)}", holds, explains)


def update_feature(feature: str, level: int) -> Intent:
    return Intent(
        f"set {feature} to {level}",
        holds=lambda image: image.features.get(feature, 0) == level,
        explains=lambda change: change.record == FeatureLevel(name=feature, level=level),
    )


def unregister_broker(broker_id: int) -> Intent:
    """A broker that runs registers again."""
    return Intent(
        f"unregister broker {broker_id}",
        holds=lambda image: image.broker(broker_id) is None,
        explains=lambda change: (
            isinstance(change.record, UnregisterBroker) and change.record.broker_id == broker_id
        ),
        unregisters=True,
    )


def _partition_count(image: MetadataImage, name: str) -> int | None:
    topic = image.topic(name)
    return None if topic is None else len(image.partitions(topic.topic_id))


def _is_of(change: AdminChange, name: str, partition_id: int) -> bool:
    """Return whether it changes this partition, which was there before."""
    record = change.record
    return isinstance(record, PartitionChange) and (change.topic, record.partition_id) == (name, partition_id)


def resource_of(config: Config) -> ConfigResource:
    return ConfigResource(config.resource_type, config.resource_name)
