"""AlterReplicaLogDirs: replicas of this broker move to other directories of it (KIP-113)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.replication import PartitionError
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest

_Fields = dict[str, object]
_Partition = tuple[str, int]


def handle(broker: Broker, context: RequestContext, request: "AlterReplicaLogDirsRequest") -> Answer:
    """Begin the moves. The answer comes when the folders that they copy to are there, not when they end."""
    return broker.later(lambda: _alter(broker, context, request))


async def _alter(broker: Broker, context: RequestContext, request: "AlterReplicaLogDirsRequest") -> Response:
    wanted: dict[_Partition, str] = {}
    slices = Slices()
    for directory in request.dirs:
        for topic in directory.topics:
            for partition_id in topic.partitions:
                # The last directory of a partition named twice counts, as in Kafka.
                wanted[topic.name, partition_id] = directory.path
                await slices.pause()
    results: dict[str, dict[int, ErrorCode]] = {}
    for (name, index), path in wanted.items():
        results.setdefault(name, {})[index] = await _begin(broker, name, index, path)
        await slices.pause()
    return await encoded_in_slices(context, results=_topics(results))


async def _begin(broker: Broker, topic: str, partition_id: int, path: str) -> ErrorCode:
    try:
        await broker.replicas.moves.move(topic, partition_id, path)
    except PartitionError as error:
        return wire_code(error.code)
    return ErrorCode.none


def _topics(results: dict[str, dict[int, ErrorCode]]) -> Iterator[_Fields]:
    for name in list(results):
        # Freed as it is answered: a hundred thousand at once take as long as the rest.
        partitions = results.pop(name)
        yield {
            "topic_name": name,
            "partitions": (
                {"partition_index": index, "error_code": error} for index, error in partitions.items()
            ),
        }
