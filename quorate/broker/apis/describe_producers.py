"""DescribeProducers: the idempotent producers that a replica knows (KIP-664)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond_in_slices
from quorate.broker.apis.metadata import is_legal
from quorate.broker.replication import PartitionError
from quorate.broker.wire import Answer, KafkaError, RequestContext, wire_code

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest

_Fields = dict[str, object]


def handle(broker: Broker, context: RequestContext, request: "DescribeProducersRequest") -> Answer:
    """Describe the producers of replicas here, whoever leads. There are no transactions, so none has begun
    one."""
    return respond_in_slices(
        context,
        topics=({"name": topic.name, "partitions": _partitions(broker, topic)} for topic in request.topics),
    )


def _partitions(broker: Broker, topic: "TopicRequest") -> Iterator[_Fields]:
    for index in topic.partition_indexes:
        try:
            producers = _producers(broker, topic.name, index)
        except KafkaError as error:
            yield {"partition_index": index, "error_code": error.code, "error_message": error.message}
        else:
            yield {
                "partition_index": index,
                "error_code": ErrorCode.none,
                "error_message": None,
                "active_producers": producers,
            }


def _producers(broker: Broker, topic: str, partition_id: int) -> Iterator[_Fields]:
    if not is_legal(topic):
        raise KafkaError(ErrorCode.invalid_topic_exception, f"'{topic}' can't be the name of a topic.")
    try:
        producers = broker.replicas.queries.producers(topic, partition_id)
    except PartitionError as error:
        raise KafkaError(wire_code(error.code), error.message) from error
    return (
        {
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp": each.last_timestamp_ms,
            "coordinator_epoch": -1,
            "current_txn_start_offset": -1,
        }
        for each in producers
    )
