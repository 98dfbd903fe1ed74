"""ElectLeaders, passed on to the controller a few thousand partitions at a time (KIP-183, KIP-460)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.controller.rpc import (
    ElectionType,
    ElectLeadersItem,
    ElectLeadersRequest,
    ElectLeadersResult,
)
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.metadata import NO_LEADER, PartitionState
from quorate.broker.wire import Answer, KafkaError, RequestContext, Response, wire_code
from quorate.error_code import ErrorCode
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest as WireRequest

_PARTITIONS_PER_REQUEST: Final = 2000
_Fields = dict[str, object]


def handle(broker: Broker, context: RequestContext, request: "WireRequest") -> Answer:
    """Elect leaders. Raises `KafkaError` for a type of election that there is not."""
    try:
        election_type = ElectionType(request.election_type)
    except ValueError:
        raise KafkaError(
            WireErrorCode.invalid_request,
            f"Election type {request.election_type} is none of 0 (preferred) and 1 (unclean).",
        ) from None
    return broker.later(lambda: _elect(broker, context, request, election_type))


async def _elect(
    broker: Broker, context: RequestContext, request: "WireRequest", election_type: ElectionType
) -> Response:
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
                if len(part) == _PARTITIONS_PER_REQUEST:
                    break
            await slices.pause()
        if not part:
            break
        if failed is None:
            try:
                answer = await broker.channel.ask(
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
            # What was elected before stays elected, and is answered so.
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
    return await encoded_in_slices(context, replica_election_results=_rows(rows))


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
                if _needed(state, election_type)
                else None
            )


def _needed(state: PartitionState, election_type: ElectionType) -> bool:
    if election_type is ElectionType.PREFERRED:
        return state.leader != state.replicas[0]
    return state.leader == NO_LEADER


def _rows(rows: dict[str, list[ElectLeadersResult]]) -> Iterator[_Fields]:
    for topic in list(rows):
        # Freed as it is answered: a hundred thousand at once take as long as the rest.
        results = rows.pop(topic)
        yield {
            "topic": topic,
            "partition_result": (
                {
                    "partition_id": each.partition_id,
                    "error_code": wire_code(each.error),
                    "error_message": each.error_message,
                }
                for each in results
            ),
        }
