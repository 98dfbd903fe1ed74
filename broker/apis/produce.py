"""Produce."""

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker
from quorate.broker.apis.leader_hints import leader_endpoints
from quorate.broker.apis.topic_creation import INTERNAL_TOPICS
from quorate.broker.replication.replica_manager import PendingAppends
from quorate.broker.replication.requests import AppendItem, AppendResult
from quorate.broker.wire.errors import KafkaError
from quorate.broker.wire.messages import (
    Answer,
    CloseConnection,
    Deferred,
    EncodedResponse,
    RequestContext,
    Response,
)
from quorate.broker.wire.produce_codec import (
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    encode_produce_response,
)

_ACKS = (-1, 0, 1)
_ZSTD_FROM = 7


async def handle(broker: Broker, context: RequestContext, request: ProduceRequest) -> Answer:
    """The append is done when this returns; the answer may wait for other replicas."""
    if request.acks not in _ACKS:
        raise KafkaError(ErrorCode.invalid_required_acks, f"acks is {request.acks}; it must be -1, 0 or 1")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.invalid_request, "transactions are not served by this version of quorate")
    items = [
        AppendItem(topic.name, part.index, b"" if part.records is None else part.records)
        for topic in request.topics
        if topic.name not in INTERNAL_TOPICS
        for part in topic.partitions
    ]
    pending = await broker.replicas.produce(
        items, acks=request.acks, timeout_ms=request.timeout_ms, zstd=request.version >= _ZSTD_FROM
    )
    if request.acks == 0:
        return _close_if_refused(request, pending)
    skeleton = request.skeleton()
    if pending.done:
        return _response(broker, context, skeleton, pending)
    deferred = Deferred()
    pending.notify(lambda: deferred.complete(_response(broker, context, skeleton, pending)))
    return deferred


def _close_if_refused(request: ProduceRequest, pending: PendingAppends) -> CloseConnection | None:
    """Nobody reads an answer with acks=0. A client whose connection goes looks for the leader anew; one that
    is told nothing sends to a former leader for as long as it lives."""
    refused = [
        f"{result.topic}-{result.partition_id}: {result.error.name}: {result.error_message}"
        for result in pending.results()
        if result.error
    ]
    refused += [
        f"{topic.name}: INVALID_TOPIC_EXCEPTION" for topic in request.topics if topic.name in INTERNAL_TOPICS
    ]
    if not refused:
        return None
    more = "" if len(refused) == 1 else f" ({len(refused)} partitions failed)"
    return CloseConnection(f"an append with acks=0 failed: {refused[0]}{more}")


def _response(
    broker: Broker, context: RequestContext, request: ProduceRequest, pending: PendingAppends
) -> Response:
    results = iter(pending.results())
    topics = [
        ProducedTopic(
            topic.name,
            [
                _internal(part.index)
                if topic.name in INTERNAL_TOPICS
                else _produced(broker, topic.name, next(results))
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    leaders = [part.leader_id for topic in topics for part in topic.partitions if part.leader_id >= 0]
    return EncodedResponse(
        encode_produce_response(
            topics, version=request.version, node_endpoints=leader_endpoints(broker, context, leaders)
        )
    )


def _internal(index: int) -> ProducedPartition:
    return ProducedPartition(
        index=index,
        error=ErrorCode.invalid_topic_exception,
        error_message="internal topics are written by brokers only",
    )


def _produced(broker: Broker, topic: str, result: AppendResult) -> ProducedPartition:
    error = ErrorCode(int(result.error))
    leader_id = leader_epoch = -1
    if error is ErrorCode.not_leader_or_follower:
        leader_id, leader_epoch = _leader(broker, topic, result.partition_id)
    return ProducedPartition(
        index=result.partition_id,
        error=error,
        base_offset=result.base_offset,
        log_append_time_ms=result.append_time_ms,
        log_start_offset=result.log_start_offset,
        error_message=result.error_message,
        record_errors=result.record_errors,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
    )


def _leader(broker: Broker, name: str, partition: int) -> tuple[int, int]:
    topic = broker.image.topic(name)
    state = None if topic is None else broker.image.partition(topic.topic_id, partition)
    if state is None or state.leader == broker.config.node_id:
        return (-1, -1)  # this one doesn't, whatever metadata says
    return (state.leader, state.leader_epoch)
