"""The administrative requests of a simulated operator, in Kafka's protocol; that to shrink a topic, which
Kafka lacks, in the controllers' own. Each returns the error code that was answered."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.controller.rpc import FewerPartitions, ShrinkTopicsRequest
from quorate.broker.controller.rpc_codec import RpcDecodeError, decode_answer, encode_request
from quorate.broker.metadata import ConfigResource, QuotaEntity
from quorate.broker.wire import BY_NAME, ApiKey, WireClient, wire_code
from quorate.broker.wire.codecs import ProducePartition, ProduceRequest, ProduceTopic
from quorate.error_code import ErrorCode as RpcErrorCode
from quorate.log.batches import build_batch
from quorate.raft import NotLeaderError
from quorate.raft.transport import Channel
from quorate.runtime import Address, Network, NetworkError

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
    from kio.schema.alter_configs.v2.response import AlterConfigsResponse
    from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
    from kio.schema.create_topics.v7.response import CreateTopicsResponse
    from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
    from kio.schema.delete_records.v2.response import DeleteRecordsResponse
    from kio.schema.delete_topics.v6.response import DeleteTopicsResponse
    from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
    from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
    from kio.schema.metadata.v12.response import MetadataResponse
    from kio.schema.offset_commit.v10.response import OffsetCommitResponse
    from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
    from kio.schema.offset_fetch.v10.response import OffsetFetchResponse
    from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
    from kio.schema.update_features.v2.response import UpdateFeaturesResponse


REQUEST_TIMEOUT_S: Final = 3.0
_TIMEOUT: Final = timedelta(seconds=REQUEST_TIMEOUT_S)
_PRODUCE_VERSION: Final = 9
_MAX_FRAME_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicAsked:
    """A topic to be created. With `assignments` the numbers are -1."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[Sequence[int]] = ()
    configs: Mapping[str, str] | None = None


async def create_topics(
    connection: WireClient, topics: Sequence[NewTopicAsked], *, validate_only: bool = False
) -> Mapping[str, tuple[ErrorCode, uuid.UUID | None]]:
    """Return the error code and the topic's id by name."""
    received = await connection.call(
        ApiKey.CREATE_TOPICS,
        topics=[
            {
                "name": topic.name,
                "num_partitions": topic.num_partitions,
                "replication_factor": topic.replication_factor,
                "assignments": [
                    {"partition_index": index, "broker_ids": list(replicas)}
                    for index, replicas in enumerate(topic.assignments)
                ],
                "configs": [{"name": key, "value": value} for key, value in (topic.configs or {}).items()],
            }
            for topic in topics
        ],
        timeout=_TIMEOUT,
        validate_only=validate_only,
    )
    answer = cast("CreateTopicsResponse", received)
    return {topic.name: (topic.error_code, topic.topic_id) for topic in answer.topics}


async def delete_topic(
    connection: WireClient, name: str | None, topic_id: uuid.UUID | None = None
) -> ErrorCode:
    received = await connection.call(
        ApiKey.DELETE_TOPICS, topics=[{"name": name, "topic_id": topic_id}], timeout=_TIMEOUT
    )
    return cast("DeleteTopicsResponse", received).responses[0].error_code


async def create_partitions(
    connection: WireClient,
    name: str,
    count: int,
    *,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> ErrorCode:
    manual = None if assignments is None else [{"broker_ids": list(replicas)} for replicas in assignments]
    received = await connection.call(
        ApiKey.CREATE_PARTITIONS,
        topics=[{"name": name, "count": count, "assignments": manual}],
        timeout=_TIMEOUT,
        validate_only=validate_only,
    )
    return cast("CreatePartitionsResponse", received).results[0].error_code


async def reassign_partition(
    connection: WireClient, name: str, partition_id: int, replicas: Sequence[int] | None
) -> ErrorCode:
    target = None if replicas is None else list(replicas)
    received = await connection.call(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        topics=[{"name": name, "partitions": [{"partition_index": partition_id, "replicas": target}]}],
        timeout=_TIMEOUT,
    )
    answer = cast("AlterPartitionReassignmentsResponse", received)
    if answer.error_code is not ErrorCode.none:
        return answer.error_code
    return answer.responses[0].partitions[0].error_code


async def elect_leader(
    connection: WireClient, name: str, partition_id: int, *, unclean: bool = False
) -> ErrorCode:
    received = await connection.call(
        ApiKey.ELECT_LEADERS,
        election_type=int(unclean),
        topic_partitions=[{"topic": name, "partitions": [partition_id]}],
        timeout=_TIMEOUT,
    )
    answer = cast("ElectLeadersResponse", received)
    if answer.error_code is not ErrorCode.none:
        return answer.error_code
    return answer.replica_election_results[0].partition_result[0].error_code


async def alter_configs(
    connection: WireClient,
    resource: ConfigResource,
    changes: Mapping[str, str | None],
    *,
    replaces: bool = False,
    validate_only: bool = False,
) -> ErrorCode:
    """None deletes a key; only where the request doesn't replace all of them."""
    configs: list[dict[str, object]] = [
        {"name": key, "value": value}
        if replaces
        else {"name": key, "config_operation": int(value is None), "value": value}
        for key, value in changes.items()
    ]
    received = await connection.call(
        ApiKey.ALTER_CONFIGS if replaces else ApiKey.INCREMENTAL_ALTER_CONFIGS,
        resources=[{"resource_type": int(resource.type), "resource_name": resource.name, "configs": configs}],
        validate_only=validate_only,
    )
    return cast("AlterConfigsResponse", received).responses[0].error_code


async def alter_quota(
    connection: WireClient,
    entity: QuotaEntity,
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> ErrorCode:
    parts = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
    received = await connection.call(
        ApiKey.ALTER_CLIENT_QUOTAS,
        entries=[
            {
                "entity": [
                    {"entity_type": kind, "entity_name": name or None}
                    for kind, name in parts.items()
                    if name is not None
                ],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in changes.items()
                ],
            }
        ],
        validate_only=validate_only,
    )
    return cast("AlterClientQuotasResponse", received).entries[0].error_code


async def update_feature(
    connection: WireClient, feature: str, level: int, *, validate_only: bool = False
) -> ErrorCode:
    received = await connection.call(
        ApiKey.UPDATE_FEATURES,
        timeout=_TIMEOUT,
        feature_updates=[{"feature": feature, "max_version_level": level, "upgrade_type": 1}],
        validate_only=validate_only,
    )
    return cast("UpdateFeaturesResponse", received).error_code


async def unregister_broker(connection: WireClient, broker_id: int) -> ErrorCode:
    received = await connection.call(ApiKey.UNREGISTER_BROKER, broker_id=broker_id)
    return cast("UnregisterBrokerResponse", received).error_code


async def delete_records(
    connection: WireClient, name: str, partition_id: int, offset: int
) -> tuple[ErrorCode, int]:
    """Return the error code and the low watermark."""
    received = await connection.call(
        ApiKey.DELETE_RECORDS,
        topics=[{"name": name, "partitions": [{"partition_index": partition_id, "offset": offset}]}],
        timeout=_TIMEOUT,
    )
    result = cast("DeleteRecordsResponse", received).topics[0].partitions[0]
    return result.error_code, result.low_watermark


async def leader_of(connection: WireClient, name: str, partition_id: int) -> int:
    """Return the partition's leader, by the broker that is asked; -1 for none."""
    received = await connection.call(
        ApiKey.METADATA, topics=[{"name": name}], allow_auto_topic_creation=False
    )
    for topic in cast("MetadataResponse", received).topics:
        for each in topic.partitions:
            if each.partition_index == partition_id:
                return int(each.leader_id)
    return -1


async def produce(
    connection: WireClient, name: str, partition_id: int, value: bytes
) -> tuple[ErrorCode, int]:
    """Append one record. Return the error code and the record's offset."""
    data = build_batch(base_offset=0, epoch=-1, timestamp_ms=int(trio.current_time() * 1000), values=[value])
    request = ProduceRequest(
        version=_PRODUCE_VERSION,
        acks=-1,
        timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
        topics=[ProduceTopic(name, [ProducePartition(partition_id, memoryview(data))])],
    )
    produced = (await connection.produce(request))[0].partitions[0]
    return produced.error, int(produced.base_offset)


async def shrink_topic(
    network: Network,
    controller: Address,
    cluster_id: str,
    name: str,
    count: int,
    *,
    validate_only: bool = False,
) -> ErrorCode | None:
    """Ask a controller. None: it does not lead, and nothing happened. Raises `NetworkError`,
    `OutcomeUnknownError`."""
    request = ShrinkTopicsRequest(
        topics=(FewerPartitions(name=name, count=count),), validate_only=validate_only
    )
    channel = await Channel.connect(
        network,
        controller,
        cluster_id=cluster_id,
        max_frame_bytes=_MAX_FRAME_BYTES,
        max_append_bytes=_MAX_FRAME_BYTES,
    )
    answer = b""
    failure: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run)
            try:
                answer = await channel.request(encode_request(request))
            except Exception as error:
                # Kept out of the nursery, which would wrap it.
                failure = error
            nursery.cancel_scope.cancel()
    finally:
        channel.close()
    if isinstance(failure, NotLeaderError):
        return None
    if failure is not None:
        raise failure
    try:
        response = decode_answer(request, answer)
    except RpcDecodeError as error:
        raise NetworkError(f"{controller} answered what is no answer: {error}") from error
    if response.error is RpcErrorCode.NOT_CONTROLLER:
        return None
    return wire_code(response.error or response.topics[0].error)


NO_OFFSET: Final = -1


async def coordinator_of(connection: WireClient, group: str) -> int:
    """Return the id of the group's coordinator, by the broker that is asked; -1 for none."""
    received = await connection.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group])
    found = cast("FindCoordinatorResponse", received).coordinators[0]
    return int(found.node_id) if found.error_code is ErrorCode.none else -1


async def commit(connection: WireClient, group: str, topic: str, partition_id: int, offset: int) -> ErrorCode:
    received = await connection.call(
        ApiKey.OFFSET_COMMIT,
        at_most=BY_NAME[ApiKey.OFFSET_COMMIT],
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition_id,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                ],
            }
        ],
    )
    return cast("OffsetCommitResponse", received).topics[0].partitions[0].error_code


async def delete_offset(connection: WireClient, group: str, topic: str, partition_id: int) -> ErrorCode:
    received = await connection.call(
        ApiKey.OFFSET_DELETE,
        group_id=group,
        topics=[{"name": topic, "partitions": [{"partition_index": partition_id}]}],
    )
    answer = cast("OffsetDeleteResponse", received)
    if answer.error_code is not ErrorCode.none:
        return answer.error_code
    return answer.topics[0].partitions[0].error_code


async def delete_group(connection: WireClient, group: str) -> ErrorCode:
    received = await connection.call(ApiKey.DELETE_GROUPS, groups_names=[group])
    return cast("DeleteGroupsResponse", received).results[0].error_code


async def committed(connection: WireClient, group: str, topic: str, partition_id: int) -> int | None:
    """Return the group's offset; `NO_OFFSET` for none, None if the broker could not say."""
    received = await connection.call(
        ApiKey.OFFSET_FETCH,
        at_most=BY_NAME[ApiKey.OFFSET_FETCH],
        groups=[{"group_id": group, "topics": [{"name": topic, "partition_indexes": [partition_id]}]}],
        require_stable=False,
    )
    answer = cast("OffsetFetchResponse", received).groups[0]
    if answer.error_code is not ErrorCode.none:
        return None
    return int(answer.topics[0].partitions[0].committed_offset)
