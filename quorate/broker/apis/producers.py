"""Producers: InitProducerId for idempotent ones, DescribeProducers (KIP-664), and the refusal of
transactions, which are not served."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import (
    DENIED,
    Need,
    Permission,
    Refuses,
    denied_message,
    of_each,
    of_transaction,
)
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.context import Broker, answer_later, respond, respond_in_slices
from quorate.broker.apis.metadata import is_legal
from quorate.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError, wire_code

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
    from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

TRANSACTIONS_REFUSAL: Final = ErrorCode.transactional_id_authorization_failed
"""The code that every client takes as final. On others, such as INVALID_REQUEST, librdkafka asks again for
ever."""
TRANSACTIONS_REASON: Final = "transactions are not served by this version of quorate"


@answer_later
async def handle_init_producer_id(
    broker: Broker, context: RequestContext, request: "InitProducerIdRequest"
) -> Response:
    """Return a new id with epoch 0, also for a producer that had one: without transactions nothing else of it
    needs to be told apart (KIP-360)."""
    if request.transactional_id is not None:
        raise KafkaError(TRANSACTIONS_REFUSAL, TRANSACTIONS_REASON)
    producer_id = await broker.producer_ids.draw()
    return respond(
        context,
        answers.InitProducerIdResponse(error_code=ErrorCode.none, producer_id=producer_id, producer_epoch=0),
    )


def handle_describe_producers(
    broker: Broker, context: RequestContext, request: "DescribeProducersRequest"
) -> Answer:
    """Describe the producers of replicas here, which need not lead. There are no transactions, so no producer
    has begun one."""
    return respond_in_slices(
        context,
        answers.DescribeProducersResponse(
            topics=(
                {"name": topic.name, "partitions": _partitions(broker, context, topic)}
                for topic in request.topics
            )
        ),
    )


def _partitions(
    broker: Broker, context: RequestContext, topic: "TopicRequest"
) -> Iterator[answers.DescribeProducersPartitionResponse]:
    may = broker.may(context, AclOperation.READ, ResourceType.TOPIC, topic.name)
    for index in topic.partition_indexes:
        try:
            if not may:
                code = ErrorCode.topic_authorization_failed
                raise KafkaError(code, denied_message(code))
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


def _producers(broker: Broker, topic: str, partition_id: int) -> Iterator[answers.ProducerState]:
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


def _refuse_id(request: object, refusal: Refusal) -> answers.InitProducerIdResponse:
    return {"error_code": refusal.code, "producer_id": -1, "producer_epoch": -1}


def _refuse_description(
    request: "DescribeProducersRequest", refusal: Refusal
) -> answers.DescribeProducersResponse:
    return {
        "topics": (
            {
                "name": topic.name,
                "partitions": (
                    {"error_code": refusal.code, "error_message": refusal.message, "partition_index": index}
                    for index in topic.partition_indexes
                ),
            }
            for topic in request.topics
        )
    }


_OF_IDEMPOTENT_PRODUCERS: Final = Need["InitProducerIdRequest"](
    any_of=(
        Permission(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
        Permission(AclOperation.WRITE, ResourceType.TOPIC, some=True),
    ),
    refuses=Refuses.WHOLE,
    code=DENIED[ResourceType.CLUSTER],
    named=lambda request: CLUSTER_NAME if request.transactional_id is None else None,
    when="without a transactional id",
)

ROWS: Final = (
    ApiRow["InitProducerIdRequest"](
        ApiKey.INIT_PRODUCER_ID.api,
        _refuse_id,
        needs=(of_transaction(AclOperation.WRITE), _OF_IDEMPOTENT_PRODUCERS),
        brokers=handle_init_producer_id,
    ),
    ApiRow["DescribeProducersRequest"](
        ApiKey.DESCRIBE_PRODUCERS.api,
        _refuse_description,
        needs=(of_each(AclOperation.READ, ResourceType.TOPIC),),
        brokers=handle_describe_producers,
    ),
)
