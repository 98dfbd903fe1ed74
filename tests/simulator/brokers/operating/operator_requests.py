"""The requests of a simulated operator, each sent once, to the node that it chose: those of
`quorate.broker.admin`, in the operator's terms, and a record to produce."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin import brokers, configs, groups, quotas, records, replicas, topics
from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.admin.controllers import Controllers
from quorate.broker.controller.rpc import FewerPartitions, ShrinkTopicsRequest
from quorate.broker.metadata.metadata_records import QuotaEntity
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.log.batches.records import build_batch
from quorate.runtime import Address, Network
from tests.simulator.brokers import partition_clients

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse


_CONTROLLER_TIMEOUT_MS: Final = 2000


async def create_topic(admin: AdminClient, topic: topics.NewTopic, *, validate_only: bool = False) -> None:
    """Create a topic. Raises `KafkaError`."""
    for result in (await topics.create_topics(admin, [topic], validate_only=validate_only)).values():
        if isinstance(result, KafkaError):
            raise result


async def elect_leader(admin: AdminClient, name: str, partition_id: int, *, unclean: bool = False) -> None:
    """Elect a partition's leader. Raises `KafkaError`."""
    election_type = "unclean" if unclean else "preferred"
    (elected,) = await replicas.elect_leaders(
        admin, election_type, {name: [partition_id]}, timeout_s=admin.timeout_s
    )
    if elected.error is not None:
        raise KafkaError(ErrorCode[elected.error.lower()])


async def alter_configs(
    admin: AdminClient,
    resource: ConfigResource,
    changes: Mapping[str, str | None],
    *,
    replaces: bool = False,
    validate_only: bool = False,
) -> None:
    """Set configs, and delete those with None. Raises `KafkaError`."""
    entity = configs.Entity(_ENTITY_TYPES[int(resource.type)], resource.name)
    await configs.alter_configs(admin, entity, changes, replaces=replaces, validate_only=validate_only)


_ENTITY_TYPES: Final = {each.number: each for each in configs.EntityType}


async def alter_quota(
    admin: AdminClient,
    entity: QuotaEntity,
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Set quotas of an entity, and remove those with None. Raises `KafkaError`."""
    parts = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
    owner = quotas.QuotaOwner({kind: name or None for kind, name in parts.items() if name is not None})
    await quotas.alter_quotas(admin, owner, changes, validate_only=validate_only)


async def update_feature(
    admin: AdminClient, feature: str, level: int, *, validate_only: bool = False
) -> None:
    """Raise a feature's level. Raises `KafkaError`."""
    await brokers.set_features(
        admin, {feature: level}, upgrade_type=1, dry_run=validate_only, timeout_s=admin.timeout_s
    )


async def delete_records(admin: AdminClient, key: TopicPartition, offset: int) -> tuple[ErrorCode, int]:
    """Delete a partition's records at its leader. Return the error code and the low watermark."""
    (deleted,) = await records.delete_at_leader(
        admin, admin.any_broker, {key: offset}, timeout_s=admin.timeout_s
    )
    return deleted.error, deleted.low_watermark


async def leader_of(admin: AdminClient, key: TopicPartition) -> int:
    """Return the partition's leader, by the broker that is asked; -1 for none."""
    for topic in (await admin.metadata([key.topic])).topics:
        for each in topic.partitions:
            if each.partition_index == key.partition:
                return int(each.leader_id)
    return -1


async def produce(admin: AdminClient, key: TopicPartition, value: bytes) -> tuple[ErrorCode, int]:
    """Append one record. Return the error code and the record's offset."""
    data = build_batch(base_offset=0, epoch=-1, timestamp_ms=int(trio.current_time() * 1000), values=[value])
    produced = await partition_clients.produce(admin.any_broker, *key, data, timeout_s=admin.timeout_s)
    return produced.error, int(produced.base_offset)


async def shrink_topic(
    network: Network, controller: Address, cluster_id: str, name: str, count: int
) -> ErrorCode | None:
    """Ask a controller. None: it does not lead, and nothing happened. Raises `NetworkError`,
    `OutcomeUnknownError`."""
    fewer = FewerPartitions(name=name, count=count)
    request = ShrinkTopicsRequest(topics=(fewer,), validate_only=False)
    controllers = Controllers(network, [controller], timeout_ms=_CONTROLLER_TIMEOUT_MS)
    answer = await controllers.ask_at(controller, request, cluster_id=cluster_id)
    return None if answer is None else wire_code(answer.error or answer.topics[0].error)


NO_OFFSET: Final = -1


async def coordinator_of(admin: AdminClient, group: str) -> int:
    """Return the id of the group's coordinator, by the broker that is asked; -1 for none."""
    received = await admin.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group])
    found = cast("FindCoordinatorResponse", received).coordinators[0]
    return int(found.node_id) if found.error_code is ErrorCode.none else -1


async def committed(admin: AdminClient, group: str, key: TopicPartition) -> int | None:
    """Return the group's offset; `NO_OFFSET` for none, None if the broker could not say."""
    try:
        return (await groups.committed_offsets(admin, group)).get(key, NO_OFFSET)
    except KafkaError:
        return None
