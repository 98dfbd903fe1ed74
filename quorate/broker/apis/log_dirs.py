"""The directories of `log.dirs`: AssignReplicasToDirs, by which brokers tell controllers (KIP-858),
AlterReplicaLogDirs and DescribeLogDirs (KIP-113)."""

import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.access.needs import in_the_name_of, whole
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_by_code
from quorate.broker.apis.context import (
    Broker,
    ServingNode,
    answer_later,
    check_answer,
    encoded_in_slices,
)
from quorate.broker.controller.operations.directory_changes import MAX_ASSIGNMENTS
from quorate.broker.controller.rpc import (
    AssignReplicasToDirsRequest,
    DirectoryAssignment,
    DirectoryAssignmentResult,
)
from quorate.broker.metadata.acls import AclOperation
from quorate.broker.metadata.metadata_records import MIGRATING
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.storage.log_directory import DirectoryReport, FutureProgress
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.log import Log, TopicPartition
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
    from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest as WireAssignments
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

_TIMEOUT_SECONDS: Final = 30
"""The request names none."""
_NO_TOPIC: Final = uuid.UUID(int=0)
_Partition = tuple[str, int]
_Found = dict[str, dict[int, "Log | FutureProgress"]]
"""The replicas of a directory by topic and partition. None has both in one: a move goes to another."""
_Wanted = dict[str, set[int]] | None
"""The partitions to describe, by topic; None: all."""


@answer_later
async def handle_assign_replicas_to_dirs(
    node: ServingNode, context: RequestContext, request: "WireAssignments"
) -> Response:
    """Pass it on to the active controller, which checks and records each by itself."""
    assignments: list[DirectoryAssignment] = []
    slices = Slices()
    for directory in request.directories:
        for topic in directory.topics:
            for part in topic.partitions:
                assignments.append(
                    DirectoryAssignment(
                        topic_id=topic.topic_id or _NO_TOPIC,
                        partition_id=part.partition_index,
                        directory_id=directory.id_ or MIGRATING,
                    )
                )
                await slices.pause()
    if len(assignments) > MAX_ASSIGNMENTS:
        raise KafkaError(WireErrorCode.invalid_request)
    answer = await node.channel.ask(
        AssignReplicasToDirsRequest(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            assignments=tuple(assignments),
        ),
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    check_answer(answer)
    return await encoded_in_slices(
        context,
        answers.AssignReplicasToDirsResponse(
            error_code=WireErrorCode.none, directories=_assigned(request, answer.results)
        ),
    )


def _assigned(
    request: "WireAssignments", results: tuple[DirectoryAssignmentResult, ...]
) -> Iterator[answers.DirectoryData]:
    rest = iter(results)
    for directory in request.directories:
        yield {
            "id_": directory.id_,
            "topics": [
                {
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {"partition_index": part.partition_index, "error_code": wire_code(next(rest).error)}
                        for part in topic.partitions
                    ],
                }
                for topic in directory.topics
            ],
        }


@answer_later
async def handle_alter_replica_log_dirs(
    broker: Broker, context: RequestContext, request: "AlterReplicaLogDirsRequest"
) -> Response:
    """Begin the moves. The answer comes when the folders that they copy to are there, not when they end."""
    wanted: dict[_Partition, str] = {}
    slices = Slices()
    for directory in request.dirs:
        for topic in directory.topics:
            for partition_id in topic.partitions:
                # The last directory of a partition named twice counts, as in Kafka.
                wanted[topic.name, partition_id] = directory.path
                await slices.pause()
    results: dict[str, dict[int, WireErrorCode]] = {}
    for (name, index), path in wanted.items():
        results.setdefault(name, {})[index] = await _begin_move(broker, name, index, path)
        await slices.pause()
    return await encoded_in_slices(context, answers.AlterReplicaLogDirsResponse(results=_moved(results)))


async def _begin_move(broker: Broker, topic: str, partition_id: int, path: str) -> WireErrorCode:
    try:
        await broker.replicas.moves.move(topic, partition_id, path)
    except PartitionError as error:
        return wire_code(error.code)
    return WireErrorCode.none


def _moved(results: dict[str, dict[int, WireErrorCode]]) -> Iterator[answers.AlterReplicaLogDirTopicResult]:
    for name in list(results):
        # Freed as it is answered: a hundred thousand at once take as long as the rest.
        partitions = results.pop(name)
        yield {
            "topic_name": name,
            "partitions": (
                {"partition_index": index, "error_code": error} for index, error in partitions.items()
            ),
        }


@answer_later
async def handle_describe_log_dirs(
    broker: Broker, context: RequestContext, request: "DescribeLogDirsRequest"
) -> Response:
    """Describe every directory. A large answer is made in slices, each replica as it is at one moment."""
    wanted: _Wanted = None
    if request.topics is not None:
        wanted = {}
        slices = Slices()
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
            await slices.pause()
    return await encoded_in_slices(
        context,
        answers.DescribeLogDirsResponse(
            error_code=WireErrorCode.none, results=_directories(broker.replicas.directories.reports(), wanted)
        ),
    )


async def _directories(
    directories: list[DirectoryReport], wanted: _Wanted
) -> AsyncIterator[answers.DescribeLogDirsResult]:
    for each in directories:
        if each.space is None:
            yield {"error_code": WireErrorCode.kafka_storage_error, "log_dir": each.path}
            continue
        yield {
            "error_code": WireErrorCode.none,
            "log_dir": each.path,
            "topics": _held_topics(await _by_topic(each, wanted)),
            "total_bytes": each.space.total,
            "usable_bytes": each.space.usable,
        }


async def _by_topic(directory: DirectoryReport, wanted: _Wanted) -> _Found:
    found: _Found = {}
    slices = Slices()
    held: Iterable[tuple[TopicPartition, Log | FutureProgress]]
    for held in (list(directory.logs.items()), list(directory.futures.items())):
        for (topic, partition_id), opened in held:
            if wanted is None or partition_id in wanted.get(topic, ()):
                found.setdefault(topic, {})[partition_id] = opened
            await slices.pause()
    return found


def _held_topics(found: _Found) -> Iterator[answers.DescribeLogDirsTopic]:
    for topic in sorted(found):
        yield {"name": topic, "partitions": _held_partitions(found[topic])}


def _held_partitions(logs: dict[int, Log | FutureProgress]) -> Iterator[answers.DescribeLogDirsPartition]:
    for partition_id in sorted(logs):
        opened = logs[partition_id]
        if isinstance(opened, FutureProgress):
            size, lag = opened.log.size_bytes, opened.offset_lag
        else:
            size, lag = opened.size_bytes, max(opened.high_watermark - opened.end_offset, 0)
        yield {
            "partition_index": partition_id,
            "partition_size": size,
            "offset_lag": lag,
            "is_future_key": isinstance(opened, FutureProgress),
        }


def _refuse_moves(
    request: "AlterReplicaLogDirsRequest", refusal: Refusal
) -> answers.AlterReplicaLogDirsResponse:
    return {
        "results": (
            {
                "topic_name": topic.name,
                "partitions": (
                    {"partition_index": index, "error_code": refusal.code} for index in topic.partitions
                ),
            }
            for directory in request.dirs
            for topic in directory.topics
        )
    }


def _refuse_description(request: object, refusal: Refusal) -> answers.DescribeLogDirsResponse:
    # Below version 3 there is room in a directory alone. No directory at all means missing rights there.
    if refusal.version >= 3 or refusal.code is WireErrorCode.cluster_authorization_failed:
        return {"error_code": refusal.code, "results": ()}
    return {"error_code": refusal.code, "results": ({"error_code": refusal.code, "log_dir": ""},)}


ROWS: Final = (
    ApiRow["WireAssignments"](
        ApiKey.ASSIGN_REPLICAS_TO_DIRS.api,
        refuse_by_code,
        needs=(in_the_name_of(lambda request: request.broker_id),),
        controllers=handle_assign_replicas_to_dirs,
    ),
    ApiRow["AlterReplicaLogDirsRequest"](
        ApiKey.ALTER_REPLICA_LOG_DIRS.api,
        _refuse_moves,
        needs=(whole(AclOperation.ALTER),),
        brokers=handle_alter_replica_log_dirs,
    ),
    ApiRow["DescribeLogDirsRequest"](
        ApiKey.DESCRIBE_LOG_DIRS.api,
        _refuse_description,
        needs=(whole(AclOperation.DESCRIBE),),
        brokers=handle_describe_log_dirs,
    ),
)
