"""A refusal in the words of each API: every topic, partition or group that was asked for gets the code."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Never, cast

from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    KafkaFetchRequest,
    KafkaFetchResponse,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    encode_fetch_steps,
    encode_in_slices,
    encode_produce_steps,
    response_type,
)
from quorate.broker.wire.exchanges import EncodedResponse, Request, Response
from quorate.runtime import Buffer, Mapped, Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntryData
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest
    from kio.schema.alter_configs.v2.request import AlterConfigsResource as ReplacedResource
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
    from kio.schema.create_topics.v7.request import CreateTopicsRequest
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest, DeleteRecordsTopic
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    from kio.schema.join_group.v9.request import JoinGroupRequest
    from kio.schema.list_offsets.v11.request import ListOffsetsRequest, ListOffsetsTopic
    from kio.schema.metadata.v12.request import MetadataRequest
    from kio.schema.offset_commit.v10.request import OffsetCommitRequest, OffsetCommitRequestTopic
    from kio.schema.offset_fetch.v10.request import OffsetFetchRequest
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest

_Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The contents of a refusal, and the version of the response."""

    version: int
    code: ErrorCode
    message: str | None


_Builder = Callable[[Never, _Refusal], _Fields]
"""Takes the request of its key in the newest version."""


async def protocol_error_response(
    api_key: int, version: int, request: Request, code: ErrorCode, message: str | None = None
) -> Response:
    """Return the response of this API and version with `code` for everything in `request`. Other tasks run
    every few milliseconds, so the request may be large."""
    match request:
        case ProduceRequest():
            return EncodedResponse(await in_slices(_produce(request, version, code, message)))
        case KafkaFetchRequest():
            return EncodedResponse(await in_slices(_fetch(request, code)))
        case _:
            values = _BUILDERS[api_key](cast(Never, request), _Refusal(version, code, message))
            return EncodedResponse(await encode_in_slices(response_type(api_key, version), values))


def _produce(
    request: ProduceRequest, version: int, code: ErrorCode, message: str | None
) -> Steps[list[Buffer]]:
    def refused(part: ProducePartition) -> ProducedPartition:
        return ProducedPartition(index=part.index, error=code, error_message=message)

    topics = Mapped(
        request.topics, lambda topic: ProducedTopic(topic.name, Mapped(topic.partitions, refused))
    )
    return encode_produce_steps(topics, version=version)


def _fetch(request: KafkaFetchRequest, code: ErrorCode) -> Steps[list[Buffer]]:
    def refused(part: FetchPartition) -> FetchedPartition:
        return FetchedPartition(index=part.partition, error=code)

    topics = Mapped(
        request.topics,
        lambda topic: FetchedTopic(topic.name, topic.topic_id, Mapped(topic.partitions, refused)),
    )
    return encode_fetch_steps(KafkaFetchResponse(version=request.version, error=code, topics=topics))


def _top_level(request: object, refusal: _Refusal) -> _Fields:
    return {"error_code": refusal.code}


def _with_message(request: object, refusal: _Refusal) -> _Fields:
    return {"error_code": refusal.code, "error_message": refusal.message}


# Arrays are walked while they are encoded, a few milliseconds at a time.


def _partitions(
    topics: "Iterable[ListOffsetsTopic | OffsetCommitRequestTopic | DeleteRecordsTopic]", values: _Fields
) -> Iterator[_Fields]:
    for topic in topics:
        yield _as_asked(topic) | {
            "partitions": ({"partition_index": part.partition_index, **values} for part in topic.partitions)
        }


def _as_asked(topic: object) -> _Fields:
    """Return a topic in the form of its request: `BY_NAME` has those with two."""
    field = "name" if hasattr(topic, "name") else "topic_id"
    return {field: getattr(topic, field)}


def _list_offsets(request: "ListOffsetsRequest", refusal: _Refusal) -> _Fields:
    nothing: _Fields = {"error_code": refusal.code, "timestamp": -1, "offset": -1}
    return {"topics": _partitions(request.topics, nothing)}


def _delete_records(request: "DeleteRecordsRequest", refusal: _Refusal) -> _Fields:
    nothing: _Fields = {"error_code": refusal.code, "low_watermark": -1}
    return {"topics": _partitions(request.topics, nothing)}


def _offset_commit(request: "OffsetCommitRequest", refusal: _Refusal) -> _Fields:
    return {"topics": _partitions(request.topics, {"error_code": refusal.code})}


def _metadata(request: "MetadataRequest", refusal: _Refusal) -> _Fields:
    return {
        "controller_id": -1,
        "topics": (
            {
                "error_code": refusal.code,
                # Before version 12 a topic asked for by id still has a name, an empty one, in the answer.
                "name": topic.name if refusal.version >= 12 else topic.name or "",
                "topic_id": topic.topic_id,
            }
            for topic in request.topics or ()
        ),
    }


def _describe_topic_partitions(request: "DescribeTopicPartitionsRequest", refusal: _Refusal) -> _Fields:
    return {"topics": ({"error_code": refusal.code, "name": topic.name} for topic in request.topics)}


def _offset_fetch(request: "OffsetFetchRequest", refusal: _Refusal) -> _Fields:
    code = refusal.code
    if refusal.version >= 8:
        return {"groups": ({"group_id": group.group_id, "error_code": code} for group in request.groups)}
    nothing: _Fields = {"committed_offset": -1, "metadata": "", "error_code": code}
    topics = (
        _as_asked(topic)
        | {"partitions": (nothing | {"partition_index": index} for index in topic.partition_indexes)}
        for group in request.groups
        for topic in group.topics or ()
    )
    return {"error_code": code, "topics": topics}


def _described_groups(group_ids: Iterable[str], refusal: _Refusal, **rest: object) -> Iterator[_Fields]:
    nothing: _Fields = {"group_state": "", "members": ()} | rest | _with_message(None, refusal)
    for group_id in group_ids:
        yield nothing | {"group_id": group_id}


def _describe_groups(request: "DescribeGroupsRequest", refusal: _Refusal) -> _Fields:
    return {"groups": _described_groups(request.groups, refusal, protocol_type="", protocol_data="")}


def _consumer_group_describe(request: "ConsumerGroupDescribeRequest", refusal: _Refusal) -> _Fields:
    nothing: _Fields = {"group_epoch": 0, "assignment_epoch": 0, "assignor_name": ""}
    return {"groups": _described_groups(request.group_ids, refusal, **nothing)}


def _delete_groups(request: "DeleteGroupsRequest", refusal: _Refusal) -> _Fields:
    return {"results": ({"group_id": each, "error_code": refusal.code} for each in request.groups_names)}


def _find_coordinator(request: "FindCoordinatorRequest", refusal: _Refusal) -> _Fields:
    nobody = {"node_id": -1, "host": "", "port": -1} | _with_message(request, refusal)
    if refusal.version < 4:
        return nobody
    return {"coordinators": (nobody | {"key": key} for key in request.coordinator_keys)}


def _create_topics(request: "CreateTopicsRequest", refusal: _Refusal) -> _Fields:
    nothing: _Fields = {"configs": None, "num_partitions": -1, "replication_factor": -1}
    nothing |= _with_message(request, refusal)
    return {"topics": (nothing | {"name": topic.name} for topic in request.topics)}


def _delete_topics(request: "DeleteTopicsRequest", refusal: _Refusal) -> _Fields:
    outcome = _with_message(request, refusal)
    return {
        "responses": (outcome | {"name": topic.name, "topic_id": topic.topic_id} for topic in request.topics)
    }


def _create_partitions(request: "CreatePartitionsRequest", refusal: _Refusal) -> _Fields:
    outcome = _with_message(request, refusal)
    return {"results": (outcome | {"name": topic.name} for topic in request.topics)}


def _offset_for_leader_epoch(request: "OffsetForLeaderEpochRequest", refusal: _Refusal) -> _Fields:
    nothing: _Fields = {"error_code": refusal.code, "leader_epoch": -1, "end_offset": -1}
    return {
        "topics": (
            {
                "topic": topic.topic,
                "partitions": (nothing | {"partition": part.partition} for part in topic.partitions),
            }
            for topic in request.topics
        )
    }


def _alter_configs(request: "IncrementalAlterConfigsRequest", refusal: _Refusal) -> _Fields:
    return {"responses": _of_resources(request.resources, refusal)}


def _replace_configs(request: "AlterConfigsRequest", refusal: _Refusal) -> _Fields:
    return {"responses": _of_resources(request.resources, refusal)}


def _describe_configs(request: "DescribeConfigsRequest", refusal: _Refusal) -> _Fields:
    return {"results": _of_resources(request.resources, refusal)}


def _of_resources(
    resources: "Iterable[AlterConfigsResource | ReplacedResource | DescribeConfigsResource]",
    refusal: _Refusal,
) -> Iterator[_Fields]:
    outcome = _with_message(None, refusal)
    return (
        outcome | {"resource_type": each.resource_type, "resource_name": each.resource_name}
        for each in resources
    )


def _update_features(request: "UpdateFeaturesRequest", refusal: _Refusal) -> _Fields:
    outcome = _with_message(request, refusal)
    if refusal.version >= 2:
        return outcome
    return outcome | {"results": (outcome | {"feature": each.feature} for each in request.feature_updates)}


def _elect_leaders(request: "ElectLeadersRequest", refusal: _Refusal) -> _Fields:
    outcome = _with_message(request, refusal)
    return {
        "error_code": refusal.code,
        "replica_election_results": (
            {
                "topic": topic.topic,
                "partition_result": (outcome | {"partition_id": each} for each in topic.partitions),
            }
            for topic in request.topic_partitions or ()
        ),
    }


def _describe_log_dirs(request: object, refusal: _Refusal) -> _Fields:
    # Below version 3 there is room in a directory alone, and clients take none at all for missing rights.
    outcome: _Fields = {"error_code": refusal.code}
    return outcome | {"results": () if refusal.version >= 3 else (outcome | {"log_dir": ""},)}


def _alter_replica_log_dirs(request: "AlterReplicaLogDirsRequest", refusal: _Refusal) -> _Fields:
    def refused(index: int) -> _Fields:
        return {"partition_index": index, "error_code": refusal.code}

    return {
        "results": (
            {"topic_name": topic.name, "partitions": map(refused, topic.partitions)}
            for directory in request.dirs
            for topic in directory.topics
        )
    }


def _describe_producers(request: "DescribeProducersRequest", refusal: _Refusal) -> _Fields:
    outcome = _with_message(request, refusal)
    return {
        "topics": (
            {
                "name": topic.name,
                "partitions": (outcome | {"partition_index": index} for index in topic.partition_indexes),
            }
            for topic in request.topics
        )
    }


def _describe_client_quotas(request: object, refusal: _Refusal) -> _Fields:
    return _with_message(request, refusal) | {"entries": None}


def _alter_client_quotas(request: "AlterClientQuotasRequest", refusal: _Refusal) -> _Fields:
    outcome = _with_message(request, refusal)

    def refused(entry: "EntryData") -> _Fields:
        parts = ({"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity)
        return outcome | {"entity": parts}

    return {"entries": map(refused, request.entries)}


def _init_producer_id(request: object, refusal: _Refusal) -> _Fields:
    return {"error_code": refusal.code, "producer_id": -1, "producer_epoch": -1}


def _join_group(request: "JoinGroupRequest", refusal: _Refusal) -> _Fields:
    return {
        "error_code": refusal.code,
        "generation_id": -1,
        "member_id": request.member_id,
        "protocol_name": "",
    }


_BUILDERS: Final[Mapping[int, _Builder]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: _list_offsets,
        ApiKey.METADATA: _metadata,
        ApiKey.OFFSET_COMMIT: _offset_commit,
        ApiKey.OFFSET_FETCH: _offset_fetch,
        ApiKey.FIND_COORDINATOR: _find_coordinator,
        ApiKey.JOIN_GROUP: _join_group,
        ApiKey.HEARTBEAT: _top_level,
        ApiKey.LEAVE_GROUP: _top_level,
        ApiKey.SYNC_GROUP: _top_level,
        ApiKey.DESCRIBE_GROUPS: _describe_groups,
        ApiKey.LIST_GROUPS: _top_level,
        ApiKey.API_VERSIONS: _top_level,
        ApiKey.CREATE_TOPICS: _create_topics,
        ApiKey.DELETE_TOPICS: _delete_topics,
        ApiKey.DELETE_RECORDS: _delete_records,
        ApiKey.CREATE_PARTITIONS: _create_partitions,
        ApiKey.INIT_PRODUCER_ID: _init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
        ApiKey.DESCRIBE_CONFIGS: _describe_configs,
        ApiKey.ALTER_CONFIGS: _replace_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
        ApiKey.LIST_CONFIG_RESOURCES: _top_level,
        ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _top_level,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _top_level,
        ApiKey.DELETE_GROUPS: _delete_groups,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _with_message,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _with_message,
        ApiKey.OFFSET_DELETE: _top_level,
        ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
        ApiKey.DESCRIBE_QUORUM: _with_message,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
        ApiKey.ELECT_LEADERS: _elect_leaders,
        ApiKey.UPDATE_FEATURES: _update_features,
        ApiKey.DESCRIBE_CLUSTER: _with_message,
        ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
        ApiKey.ADD_RAFT_VOTER: _with_message,
        ApiKey.REMOVE_RAFT_VOTER: _with_message,
        ApiKey.UPDATE_RAFT_VOTER: _top_level,
        ApiKey.UNREGISTER_BROKER: _with_message,
        ApiKey.REFETCH_REPLICA: _with_message,
        ApiKey.DESCRIBE_DAMAGE: _with_message,
        ApiKey.DESCRIBE_STATE_CHANGES: _with_message,
        ApiKey.DESCRIBE_STATES: _with_message,
    }
)
