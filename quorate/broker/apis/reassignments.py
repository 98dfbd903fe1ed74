"""Replicas and leaders that move: AlterPartitionReassignments and ListPartitionReassignments (KIP-455), and
ElectLeaders (KIP-183, KIP-460)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.access.needs import whole
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_with_message
from quorate.broker.apis.context import Broker, answer_later, encoded_in_slices
from quorate.broker.controller.permits import NEEDS
from quorate.broker.controller.rpc import (
    AlterPartitionReassignmentsRequest,
    ElectionType,
    ElectLeadersItem,
    ElectLeadersRequest,
    ElectLeadersResult,
    ReassignmentItem,
    ReassignmentResult,
)
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.metadata.acls import AclOperation
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER
from quorate.broker.metadata.states import PartitionState
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.error_code import ErrorCode
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest as WireReassignments,
    )
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest as WireElectLeaders
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

_REASSIGNED_AT_ONCE: Final = 5000
"""Partitions in one request to the controller, which takes no more than 10,000."""
_OWN_METADATA_SECONDS: Final = 1.0
"""The wait for this broker's own metadata. The next request here then sees the reassignments."""
_ELECTED_AT_ONCE: Final = 2000


@answer_later
async def handle_alter_partition_reassignments(
    broker: Broker, context: RequestContext, request: "WireReassignments"
) -> Response:
    """Begin, replace or cancel reassignments. The answer does not wait for their end."""
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    slices = Slices()
    items: list[ReassignmentItem] = []
    for topic in request.topics:
        for part in topic.partitions:
            replicas = None if part.replicas is None else tuple(map(int, part.replicas))
            items.append(
                ReassignmentItem(topic=topic.name, partition_id=part.partition_index, replicas=replicas)
            )
            await slices.pause()
    results: list[ReassignmentResult] = []
    for start in range(0, max(len(items), 1), _REASSIGNED_AT_ONCE):
        portion = tuple(items[start : start + _REASSIGNED_AT_ONCE])
        answer = await broker.ask_controller(
            context,
            AlterPartitionReassignmentsRequest(
                partitions=portion, allow_factor_change=request.allow_replication_factor_change
            ),
            timeout_seconds=max(deadline - trio.current_time(), 0),
        )
        if answer.error is not ErrorCode.NONE:
            results += [
                ReassignmentResult(
                    topic=each.topic,
                    partition_id=each.partition_id,
                    error=answer.error,
                    error_message=answer.error_message,
                )
                for each in portion
            ]
            if not start:
                return await encoded_in_slices(
                    context,
                    answers.AlterPartitionReassignmentsResponse(
                        allow_replication_factor_change=request.allow_replication_factor_change,
                        error_code=wire_code(answer.error),
                        error_message=answer.error_message,
                        responses=(),
                    ),
                )
        else:
            results += answer.partitions
    begun = [item for item, result in zip(items, results, strict=True) if result.error is ErrorCode.NONE]
    with trio.move_on_at(min(deadline, trio.current_time() + _OWN_METADATA_SECONDS)):
        await broker.metadata.wait_until(lambda image: all(_has_begun(image, item) for item in begun[-1:]))
    return await encoded_in_slices(
        context,
        answers.AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=wire_code(ErrorCode.NONE),
            error_message=None,
            responses=_altered_topics(request, results),
        ),
    )


def _has_begun(image: MetadataImage, item: ReassignmentItem) -> bool:
    state = image.named_partition(item.topic, item.partition_id)
    if state is None:
        return True  # deleted meanwhile
    return not state.is_reassigning if item.replicas is None else state.target_replicas == item.replicas


def _altered_topics(
    request: "WireReassignments", results: list[ReassignmentResult]
) -> Iterator[answers.ReassignableTopicResponse]:
    rest = iter(results)
    for topic in request.topics:
        yield {"name": topic.name, "partitions": (_altered(next(rest)) for _ in topic.partitions)}


def _altered(result: ReassignmentResult) -> answers.ReassignablePartitionResponse:
    return {
        "partition_index": result.partition_id,
        "error_code": wire_code(result.error),
        "error_message": result.error_message,
    }


@answer_later
async def handle_list_partition_reassignments(
    broker: Broker, context: RequestContext, request: "ListPartitionReassignmentsRequest"
) -> Response:
    """List the reassignments that are under way; of all topics if the request names null.

    Another broker may have been asked for them just before, so this one first waits for all that is
    committed. (Kafka's brokers send this request on to the controller.) Raises `NotLeaderError` if no leader
    answers in time.
    """
    await broker.quorum.wait_read_index(timeout_ms=max(round(request.timeout.total_seconds() * 1000), 1))
    image, slices = broker.image, Slices()
    asked: dict[str, dict[int, None] | None] = {}
    if request.topics is not None:
        for topic in request.topics:
            asked[topic.name] = dict.fromkeys(topic.partition_indexes)
            await slices.pause()
    elif image.reassigning_count:
        asked = dict.fromkeys(image.topic_names())
    topics: list[answers.OngoingTopicReassignment] = []
    for name, indexes in asked.items():
        found = image.topic(name)
        if found is not None:
            # Each topic as it is at one moment.
            states = image.partitions(found.topic_id)
            partitions = [
                _reassigned(index, states[index])
                for index in (range(len(states)) if indexes is None else indexes)
                if 0 <= index < len(states) and states[index].is_reassigning
            ]
            if partitions:
                topics.append({"name": name, "partitions": partitions})
        await slices.pause()
    return await encoded_in_slices(
        context,
        answers.ListPartitionReassignmentsResponse(
            error_code=WireErrorCode.none, error_message=None, topics=topics
        ),
    )


def _reassigned(index: int, state: PartitionState) -> answers.OngoingPartitionReassignment:
    return {
        "partition_index": index,
        "replicas": state.replicas,
        "adding_replicas": state.adding_replicas,
        "removing_replicas": state.removing_replicas,
    }


@answer_later
async def handle_elect_leaders(
    broker: Broker, context: RequestContext, request: "WireElectLeaders"
) -> Response:
    """Elect leaders. Raises `KafkaError` for a type of election that there is not."""
    try:
        election_type = ElectionType(request.election_type)
    except ValueError:
        raise KafkaError(
            WireErrorCode.invalid_request,
            f"Election type {request.election_type} is none of 0 (preferred) and 1 (unclean).",
        ) from None
    deadline = trio.current_time() + max(request.timeout.total_seconds(), 0)
    asked_for_all = request.topic_partitions is None
    rows: dict[str, list[ElectLeadersResult]] = {}
    items = (
        _every_partition(broker, election_type, rows)
        if request.topic_partitions is None
        else (
            ElectLeadersItem(topic=topic.topic, partition_id=int(each))
            for topic in request.topic_partitions
            for each in topic.partitions
        )
    )
    slices = Slices()
    failed: ErrorCode | None = None
    message: str | None = None
    results: tuple[ElectLeadersResult, ...] = ()
    while True:
        part: list[ElectLeadersItem] = []
        for item in items:
            if item is not None:
                part.append(item)
                if len(part) == _ELECTED_AT_ONCE:
                    break
            await slices.pause()
        if not part:
            break
        if failed is None:
            try:
                answer = await broker.ask_controller(
                    context,
                    ElectLeadersRequest(election_type=election_type, partitions=tuple(part)),
                    timeout_seconds=max(0.0, deadline - trio.current_time()),
                )
            except ControllerTimedOutError as error:
                failed, message = ErrorCode.REQUEST_TIMED_OUT, str(error)
            else:
                results = answer.results
                if answer.error is not ErrorCode.NONE:
                    failed, message = answer.error, answer.error_message
        if failed is not None:
            # Leaders that were elected before stay, and are answered so.
            results = tuple(
                ElectLeadersResult(
                    topic=each.topic, partition_id=each.partition_id, error=failed, error_message=message
                )
                for each in part
            )
        for result in results:
            row = rows.setdefault(result.topic, [])
            if not asked_for_all or result.error is not ErrorCode.ELECTION_NOT_NEEDED:
                row.append(result)
            await slices.pause()
    return await encoded_in_slices(
        context, answers.ElectLeadersResponse(replica_election_results=_elected(rows))
    )


def _every_partition(
    broker: Broker, election_type: ElectionType, rows: dict[str, list[ElectLeadersResult]]
) -> Iterator[ElectLeadersItem | None]:
    """Yield the partitions that need an election by this broker's metadata, and None for each that was looked
    at and needs none. Each topic gets a row, which may stay empty."""
    image = broker.image
    for topic in list(image.topics.values()):
        rows[topic.name] = []
        for partition_id, state in enumerate(broker.image.partitions(topic.topic_id)):
            yield (
                ElectLeadersItem(topic=topic.name, partition_id=partition_id)
                if _needs_election(state, election_type)
                else None
            )


def _needs_election(state: PartitionState, election_type: ElectionType) -> bool:
    if election_type is ElectionType.PREFERRED:
        return state.leader != state.replicas[0]
    return state.leader == NO_LEADER


def _elected(rows: dict[str, list[ElectLeadersResult]]) -> Iterator[answers.ReplicaElectionResult]:
    for topic in list(rows):
        # Freed as it is answered: a hundred thousand at once take as long as the rest.
        results = rows.pop(topic)
        yield {
            "topic": topic,
            "partition_result": (
                _result(each.partition_id, wire_code(each.error), each.error_message) for each in results
            ),
        }


def _result(
    partition_id: int, error: WireErrorCode, message: str | None
) -> answers.ElectLeadersPartitionResult:
    return {"partition_id": partition_id, "error_code": error, "error_message": message}


def _refuse_elections(request: "WireElectLeaders", refusal: Refusal) -> answers.ElectLeadersResponse:
    return {
        "error_code": refusal.code,
        "replica_election_results": (
            {
                "topic": topic.topic,
                "partition_result": (
                    _result(each, refusal.code, refusal.message) for each in topic.partitions
                ),
            }
            for topic in request.topic_partitions or ()
        ),
    }


ROWS: Final = (
    ApiRow["WireElectLeaders"](
        ApiKey.ELECT_LEADERS.api,
        _refuse_elections,
        needs=NEEDS[ElectLeadersRequest],
        brokers=handle_elect_leaders,
    ),
    ApiRow["WireReassignments"](
        ApiKey.ALTER_PARTITION_REASSIGNMENTS.api,
        refuse_with_message,
        needs=NEEDS[AlterPartitionReassignmentsRequest],
        brokers=handle_alter_partition_reassignments,
    ),
    ApiRow["ListPartitionReassignmentsRequest"](
        ApiKey.LIST_PARTITION_REASSIGNMENTS.api,
        refuse_with_message,
        needs=(whole(AclOperation.DESCRIBE),),
        brokers=handle_list_partition_reassignments,
    ),
)
