"""APIs of ours that Kafka lacks: DescribeDamage, RefetchReplica, DescribeStates and DescribeStateChanges."""

from collections.abc import Iterable, Iterator
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import (
    DENIED,
    Need,
    Permission,
    Refuses,
    denied_message,
    left_out,
    of_each,
    whole,
)
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_with_message
from quorate.broker.apis.context import Broker, answer_later, encoded_in_slices, respond, respond_in_slices
from quorate.broker.controller.state_machines import partition_phase, replica_phase
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import PartitionKey, TopicState
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.hosting.state_changes import ChangeOutcome, StateChange
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, RequestContext, Response
from quorate.broker.wire.own_messages import (
    DescribeDamageRequest,
    DescribeStateChangesRequest,
    DescribeStatesRequest,
    RefetchReplicaRequest,
)
from quorate.broker.wire.wire_errors import wire_code
from quorate.log import DamagedRange
from quorate.runtime import Slices

_MOST_CHANGES: Final = 100_000
"""The greatest number of changes of each kind in one answer."""


@answer_later
async def handle_describe_damage(
    broker: Broker, context: RequestContext, request: DescribeDamageRequest
) -> Response:
    """Describe the damage that is known."""
    return await encoded_in_slices(
        context,
        answers.DescribeDamageResponse(
            error_code=ErrorCode.none,
            damaged=_damaged(await broker.replicas.hosted.damages()),
            set_aside=({"path": each.path} for each in broker.replicas.directories.folders.damaged_folders()),
        ),
    )


def _damaged(damages: Iterable[tuple[str, int, DamagedRange | str]]) -> Iterator[answers.DamagedReplica]:
    for topic, partition_id, found in damages:
        if isinstance(found, str):
            yield {
                "topic_name": topic,
                "partition_index": partition_id,
                "segment": None,
                "position": -1,
                "start_offset": -1,
                "end_offset": -1,
                "problem": found,
            }
        else:
            yield {
                "topic_name": topic,
                "partition_index": partition_id,
                "segment": found.path,
                "position": found.position,
                "start_offset": found.start_offset,
                "end_offset": found.end_offset,
                "problem": found.problem,
            }


@answer_later
async def handle_refetch_replica(
    broker: Broker, context: RequestContext, request: RefetchReplicaRequest
) -> Response:
    """Answer when an empty log has replaced the damaged one, or with the reason why it can't."""
    try:
        path = await broker.replicas.refetches.refetch(request.topic_name, request.partition_index)
    except PartitionError as error:
        return respond(
            context,
            answers.RefetchReplicaResponse(error_code=wire_code(error.code), error_message=error.message),
        )
    return respond(context, answers.RefetchReplicaResponse(error_code=ErrorCode.none, path=path))


def handle_describe_states(broker: Broker, context: RequestContext, request: DescribeStatesRequest) -> Answer:
    """Describe every partition of the topic, as this broker's metadata has it."""
    if not broker.may_any(context, _OF_STATES.any_of, request.topic_name):
        code = ErrorCode.topic_authorization_failed
        return respond(
            context, answers.DescribeStatesResponse(error_code=code, error_message=denied_message(code))
        )
    topic = broker.image.topic(request.topic_name)
    if topic is None:
        return respond(
            context,
            answers.DescribeStatesResponse(
                error_code=ErrorCode.unknown_topic_or_partition,
                error_message=f"There is no topic '{request.topic_name}'.",
            ),
        )
    return respond_in_slices(
        context,
        answers.DescribeStatesResponse(
            error_code=ErrorCode.none, partitions=_partition_states(broker.image, topic)
        ),
    )


def _partition_states(image: MetadataImage, topic: TopicState) -> Iterator[answers.PartitionInState]:
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


@answer_later
async def handle_describe_state_changes(
    broker: Broker, context: RequestContext, request: DescribeStateChangesRequest
) -> Response:
    """Describe the changes that ended, oldest first, and then those that are pending."""
    journal = broker.replicas.journal
    summary = journal.summary(now=trio.current_time())
    pending, ended = journal.pending(), [] if request.pending_only else journal.ended()
    limit = min(max(request.limit, 0), _MOST_CHANGES)
    seen = _Visible(broker, context)
    newest = await _wanted_changes(reversed(ended), request, limit, seen)
    chosen = [*reversed(newest), *await _wanted_changes(pending, request, limit, seen)]
    return await encoded_in_slices(
        context,
        answers.DescribeStateChangesResponse(
            error_code=ErrorCode.none,
            broker_id=broker.config.node_id,
            received_offset=summary.received_offset,
            completed_offset=summary.completed_offset,
            dropped_offset=journal.dropped_offset,
            pending=summary.pending,
            backlog=summary.backlog,
            oldest_ms=summary.oldest_ms,
            changes=_described_changes(chosen, now=trio.current_time()),
            now_ms=broker.wall_clock.now_ms(),
        ),
    )


class _Visible:
    """The topics that the client may be told of. Each is looked up once."""

    def __init__(self, broker: Broker, context: RequestContext) -> None:
        self._all = broker.may_on_cluster(context, AclOperation.DESCRIBE, audited=False)
        self._broker = broker
        self._context = context
        self._known: dict[str, bool] = {}

    def __contains__(self, topic: str) -> bool:
        if self._all:
            return True
        if topic not in self._known:
            self._known[topic] = self._broker.may(
                self._context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic, audited=False
            )
        return self._known[topic]


async def _wanted_changes(
    changes: Iterable[StateChange], request: DescribeStateChangesRequest, limit: int, seen: "_Visible"
) -> list[StateChange]:
    found: list[StateChange] = []
    slices, topic, partition = Slices(), request.topic_name, request.partition_index
    for each in changes:
        if len(found) == limit:
            break
        if topic in (None, each.topic) and partition in (-1, each.partition_id) and each.topic in seen:
            found.append(each)
        await slices.pause()
    return found


def _described_changes(changes: Iterable[StateChange], *, now: float) -> Iterator[answers.JournaledChange]:
    for each in changes:
        pending = each.outcome is ChangeOutcome.PENDING
        yield {
            "topic_name": each.topic,
            "topic_id": each.topic_id,
            "partition_index": each.partition_id,
            "change": each.kind.value,
            "outcome": each.outcome.value,
            "problem": each.problem,
            "leader_epoch": each.leader_epoch,
            "metadata_offset": each.cause.offset,
            "received_ms": each.cause.at_ms,
            "duration_us": round((now - each.since.at if pending else each.duration_s) * 1_000_000),
        }


_OF_STATES: Final = of_each(AclOperation.DESCRIBE, ResourceType.TOPIC, or_on_cluster=AclOperation.DESCRIBE)
_OF_OBSERVERS: Final = Need[object](
    any_of=(
        Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, some=True),
    ),
    refuses=Refuses.WHOLE,
    code=DENIED[ResourceType.CLUSTER],
)

ROWS: Final = (
    ApiRow[RefetchReplicaRequest](
        ApiKey.REFETCH_REPLICA.api,
        refuse_with_message,
        needs=(whole(AclOperation.ALTER),),
        brokers=handle_refetch_replica,
    ),
    ApiRow[DescribeDamageRequest](
        ApiKey.DESCRIBE_DAMAGE.api,
        refuse_with_message,
        needs=(whole(AclOperation.DESCRIBE),),
        brokers=handle_describe_damage,
    ),
    ApiRow[DescribeStateChangesRequest](
        ApiKey.DESCRIBE_STATE_CHANGES.api,
        refuse_with_message,
        needs=(
            _OF_OBSERVERS,
            left_out(AclOperation.DESCRIBE, ResourceType.TOPIC, or_on_cluster=AclOperation.DESCRIBE),
        ),
        brokers=handle_describe_state_changes,
    ),
    ApiRow[DescribeStatesRequest](
        ApiKey.DESCRIBE_STATES.api,
        refuse_with_message,
        needs=(_OF_STATES,),
        brokers=handle_describe_states,
    ),
)
