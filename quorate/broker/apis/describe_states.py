"""DescribeStates (ours): the states of a topic's partitions and replicas in the controller's two machines."""

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.controller import partition_phase, replica_phase
from quorate.broker.metadata import MetadataImage, PartitionKey, TopicState
from quorate.broker.wire import Answer, RequestContext
from quorate.broker.wire.codecs import DescribeStatesRequest

_Fields = dict[str, object]


def handle(broker: Broker, context: RequestContext, request: DescribeStatesRequest) -> Answer:
    """Describe every partition of the topic, as this broker's metadata has it."""
    topic = broker.image.topic(request.topic_name)
    if topic is None:
        return respond(
            context,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message=f"There is no topic '{request.topic_name}'.",
        )
    return respond_in_slices(context, error_code=ErrorCode.none, partitions=_partitions(broker.image, topic))


def _partitions(image: MetadataImage, topic: TopicState) -> Iterator[_Fields]:
    for index in range(len(image.partitions(topic.topic_id))):
        key = PartitionKey(topic.topic_id, index)
        state = image.partition(*key)
        if state is None:
            return  # deleted or shrunk meanwhile
        yield {
            "partition_index": index,
            "state": partition_phase(image, key).value,
            "leader_id": state.leader,
            "replicas": tuple(
                {"broker_id": each, "state": replica_phase(image, key, each).value} for each in state.replicas
            ),
        }
