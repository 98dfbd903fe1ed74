"""OffsetDelete: committed offsets of topics that no member of the group subscribes to (KIP-496)."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest


def handle(broker: Broker, context: RequestContext, request: "OffsetDeleteRequest") -> Answer:
    return broker.later(lambda: _delete(broker, context, request))


async def _delete(broker: Broker, context: RequestContext, request: "OffsetDeleteRequest") -> Response:
    """Delete offsets. With an error of the whole the answer has no topics."""
    asked: list[tuple[str, int]] = []
    known: list[bool] = []
    slices = Slices()
    for topic in request.topics:
        for part in topic.partitions:
            exists = broker.partition_exists(topic.name, part.partition_index)
            known.append(exists)
            if exists:
                asked.append((topic.name, part.partition_index))
            await slices.pause()
    whole: ErrorCode = ErrorCode.none
    outcomes: Sequence[ErrorCode] = ()
    if asked:  # Kafka does not look at the group otherwise
        whole, outcomes = await _outcome(broker, request.group_id, asked)
    if whole is not ErrorCode.none:
        return await encoded_in_slices(context, error_code=whole, topics=())
    return await encoded_in_slices(context, error_code=whole, topics=_topics(request, known, iter(outcomes)))


async def _outcome(
    broker: Broker, group_id: str, asked: Sequence[tuple[str, int]]
) -> tuple[ErrorCode, Sequence[ErrorCode]]:
    answer: list[tuple[ErrorCode, Sequence[ErrorCode]]] = []
    answered = trio.Event()

    def reply(whole: ErrorCode, each: Sequence[ErrorCode]) -> None:
        answer.append((whole, each))
        answered.set()

    await broker.groups.administration.delete_offsets(group_id, asked, reply)
    await answered.wait()
    return answer[0]


def _topics(
    request: "OffsetDeleteRequest", known: Sequence[bool], outcomes: Iterator[ErrorCode]
) -> Iterator[dict[str, object]]:
    there = iter(known)
    for topic in request.topics:
        yield {
            "name": topic.name,
            "partitions": (
                {
                    "partition_index": part.partition_index,
                    "error_code": next(outcomes) if next(there) else ErrorCode.unknown_topic_or_partition,
                }
                for part in topic.partitions
            ),
        }
