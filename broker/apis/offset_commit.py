"""OffsetCommit: answered when the offsets are on every replica in sync."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices, respond
from quorate.broker.groups.messages import MemberRef, OffsetToCommit
from quorate.broker.wire.messages import Answer, Deferred, RequestContext

_AT_ONCE: Final = 200
"""Partitions whose answer is made in one piece."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    deferred = Deferred()
    ref = MemberRef(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        generation=request.generation_id_or_member_epoch,
    )
    asked = [(topic.name, part) for topic in request.topics for part in topic.partitions]
    known = [_exists(broker, name, part.partition_index) for name, part in asked]
    offsets = [
        OffsetToCommit(
            topic=name,
            partition=part.partition_index,
            offset=part.committed_offset,
            leader_epoch=getattr(part, "committed_leader_epoch", -1),
            metadata=part.committed_metadata or "",
        )
        for (name, part), exists in zip(asked, known, strict=True)
        if exists
    ]

    def answer(errors: Sequence[ErrorCode]) -> None:
        rest = iter(errors)
        outcome = [next(rest) if exists else ErrorCode.unknown_topic_or_partition for exists in known]
        topics = _topics(request, outcome)
        if len(outcome) <= _AT_ONCE:
            deferred.complete(respond(context, topics=topics))
        else:
            deferred.complete_with(lambda: encoded_in_slices(context, topics=topics))

    broker.groups.commit(ref, offsets, answer)
    return deferred


def _exists(broker: Broker, name: str, index: int) -> bool:
    topic = broker.image.topic(name)
    return topic is not None and broker.image.partition(topic.topic_id, index) is not None


def _topics(request: Any, outcome: Sequence[ErrorCode]) -> Iterator[dict[str, object]]:
    errors = iter(outcome)
    for topic in request.topics:
        yield {
            "name": topic.name,
            "partitions": [
                {"partition_index": part.partition_index, "error_code": next(errors)}
                for part in topic.partitions
            ],
        }
