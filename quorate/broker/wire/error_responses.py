"""A refusal in the words of each API: every topic, partition or group that was asked for gets the code."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

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
from quorate.broker.wire.messages import EncodedResponse, Request, Response
from quorate.runtime import Buffer, Mapped, Steps, in_slices

_Fields = dict[str, object]
# kio has one class per version of each request, with no common base: the fields read below exist in the
# versions that `api.APIS` serves, which a test holds for each of them.
_Builder = Callable[[Any, ErrorCode, str | None], _Fields]


async def protocol_error_response(
    api_key: int, version: int, request: Request, code: ErrorCode, message: str | None = None
) -> Response:
    """The response of this API and version that says `code` for everything in `request`. Others run after
    every few milliseconds, so the request may be large."""
    match request:
        case ProduceRequest():
            return EncodedResponse(await in_slices(_produce(request, version, code, message)))
        case KafkaFetchRequest():
            return EncodedResponse(await in_slices(_fetch(request, code)))
        case _:
            values = _BUILDERS[api_key](request, code, message)
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


def _top_level(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {"error_code": code, "error_message": message}


def _partitions(topics: Iterable[Any], index: str, code: ErrorCode, **values: object) -> Iterator[_Fields]:
    return _named(
        topics, lambda part: {"partition_index": getattr(part, index), "error_code": code, **values}
    )


def _named(topics: Iterable[Any], answer: Callable[[Any], _Fields]) -> Iterator[_Fields]:
    """Arrays are walked while they are encoded, a few milliseconds at a time."""
    for topic in topics:
        yield {"name": topic.name, "partitions": map(answer, topic.partitions)}


def _list_offsets(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {"topics": _partitions(request.topics, "partition_index", code, timestamp=-1, offset=-1)}


def _offset_commit(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {"topics": _partitions(request.topics, "partition_index", code)}


def _metadata(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {
        "controller_id": -1,
        "topics": (
            {
                "error_code": code,
                # Before version 12 a topic asked for by id still has a name, an empty one, in the answer.
                "name": topic.name if request.__version__ >= 12 else topic.name or "",
                "topic_id": getattr(topic, "topic_id", None),
            }
            for topic in request.topics or ()
        ),
    }


def _describe_topic_partitions(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {"topics": ({"error_code": code, "name": topic.name} for topic in request.topics)}


def _offset_fetch(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    if hasattr(request, "groups"):
        return {"groups": ({"group_id": group.group_id, "error_code": code} for group in request.groups)}
    nothing: _Fields = {"committed_offset": -1, "metadata": "", "error_code": code}
    topics = (
        {
            "name": topic.name,
            "partitions": (nothing | {"partition_index": index} for index in topic.partition_indexes),
        }
        for topic in request.topics or ()
    )
    return {"error_code": code, "topics": topics}


def _find_coordinator(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    nobody: _Fields = {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": message}
    keys = getattr(request, "coordinator_keys", ())
    return nobody | {"coordinators": (nobody | {"key": key} for key in keys)}


def _create_topics(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {
        "topics": (
            {"name": topic.name, "error_code": code, "error_message": message, "configs": None}
            | {"num_partitions": -1, "replication_factor": -1}
            for topic in request.topics
        )
    }


def _delete_topics(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    if hasattr(request, "topics"):
        asked: Iterator[_Fields] = (
            {"name": topic.name, "topic_id": topic.topic_id} for topic in request.topics
        )
    else:
        asked = ({"name": name} for name in request.topic_names)
    return {"responses": (topic | {"error_code": code, "error_message": message} for topic in asked)}


def _offset_for_leader_epoch(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    nothing: _Fields = {"error_code": code, "leader_epoch": -1, "end_offset": -1}
    return {
        "topics": (
            {
                "topic": topic.topic,
                "partitions": (nothing | {"partition": part.partition} for part in topic.partitions),
            }
            for topic in request.topics
        )
    }


def _describe_configs(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {
        "results": (
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
            for resource in request.resources
        )
    }


def _init_producer_id(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


def _join_group(request: Any, code: ErrorCode, message: str | None) -> _Fields:
    return {"error_code": code, "generation_id": -1, "member_id": request.member_id, "protocol_name": ""}


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
        ApiKey.API_VERSIONS: _top_level,
        ApiKey.CREATE_TOPICS: _create_topics,
        ApiKey.DELETE_TOPICS: _delete_topics,
        ApiKey.INIT_PRODUCER_ID: _init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
        ApiKey.DESCRIBE_CONFIGS: _describe_configs,
        ApiKey.DESCRIBE_QUORUM: _top_level,
        ApiKey.DESCRIBE_CLUSTER: _top_level,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
        ApiKey.ADD_RAFT_VOTER: _top_level,
        ApiKey.REMOVE_RAFT_VOTER: _top_level,
        ApiKey.UPDATE_RAFT_VOTER: _top_level,
    }
)
