"""ListPartitionReassignments: the replicas that are being added and removed (KIP-455)."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.metadata import PartitionState
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

_Fields = dict[str, object]


def handle(broker: Broker, context: RequestContext, request: "ListPartitionReassignmentsRequest") -> Answer:
    """List what is under way, of all topics with null. What is unknown or idle is left out."""
    return broker.later(lambda: _list(broker, context, request))


async def _list(
    broker: Broker, context: RequestContext, request: "ListPartitionReassignmentsRequest"
) -> Response:
    image, slices = broker.image, Slices()
    asked: dict[str, dict[int, None] | None] = {}
    if request.topics is not None:
        for topic in request.topics:
            asked[topic.name] = dict.fromkeys(topic.partition_indexes)
            await slices.pause()
    elif image.reassigning_count:
        asked = dict.fromkeys(image.topic_names())
    topics: list[_Fields] = []
    for name, indexes in asked.items():
        found = image.topic(name)
        if found is not None:
            # Each topic as it is at one moment.
            states = image.partitions(found.topic_id)
            partitions = [
                _partition(index, states[index])
                for index in (range(len(states)) if indexes is None else indexes)
                if 0 <= index < len(states) and states[index].is_reassigning
            ]
            if partitions:
                topics.append({"name": name, "partitions": partitions})
        await slices.pause()
    return await encoded_in_slices(context, error_code=ErrorCode.none, error_message=None, topics=topics)


def _partition(index: int, state: PartitionState) -> _Fields:
    return {
        "partition_index": index,
        "replicas": state.replicas,
        "adding_replicas": state.adding_replicas,
        "removing_replicas": state.removing_replicas,
    }
