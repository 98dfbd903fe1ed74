"""CreatePartitions, passed on to the controller."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.controller.operations import MAX_NEW_PARTITIONS, TOO_MANY
from quorate.broker.controller.rpc import CreatePartitionsRequest, MorePartitions
from quorate.broker.metadata import MetadataImage
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.error_code import ErrorCode
from quorate.runtime import Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest as WireRequest
    from kio.schema.create_partitions.v3.request import CreatePartitionsTopic


_Fields = dict[str, object]
_STRICT_FROM: Final = 3
_PER_STEP: Final = 100


def handle(broker: Broker, context: RequestContext, request: "WireRequest") -> Answer:
    """Add partitions to topics. The answer waits until this broker's own metadata has them, and until their
    leaders serve them, if they are few."""
    return broker.later(lambda: _create(broker, context, request))


async def _create(broker: Broker, context: RequestContext, request: "WireRequest") -> Response:
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    topics = await in_slices(_asked(request))
    if topics is None:
        names = (topic.name for topic in request.topics)
        return await encoded_in_slices(
            context, results=_refused(names, error=ErrorCode.POLICY_VIOLATION, message=TOO_MANY)
        )
    forwarded = CreatePartitionsRequest(
        topics=topics,
        validate_only=request.validate_only,
        who=broker.throttles.requester(context, strict_from=_STRICT_FROM),
    )
    before = await in_slices(_counts(broker.metadata.image, topics))
    answer = await broker.channel.ask(forwarded, timeout_seconds=timeout)
    throttle_time = broker.throttles.wait_for_controller(context, answer.throttle_ms)
    if answer.error is not ErrorCode.NONE:
        asked = (topic.name for topic in topics)
        return await encoded_in_slices(
            context,
            throttle_time=throttle_time,
            results=_refused(asked, error=answer.error, message=answer.error_message),
        )
    if not request.validate_only:
        counts = {topic.name: topic.count for topic in topics}
        wanted = {topic.name: counts[topic.name] for topic in answer.topics if topic.error is ErrorCode.NONE}
        with trio.move_on_at(deadline):
            await broker.metadata.wait_until(lambda image: _has(image, wanted))
            await broker.leaders.wait({name: before[name] for name in wanted}, deadline=deadline)
    return await encoded_in_slices(
        context,
        throttle_time=throttle_time,
        results=(_result(topic.name, topic.error, topic.error_message) for topic in answer.topics),
    )


def _asked(request: "WireRequest") -> Steps[tuple[MorePartitions, ...] | None]:
    """Return what the controller is asked for; None if it would refuse that for its size."""
    if len(request.topics) > MAX_NEW_PARTITIONS:
        return None
    topics: list[MorePartitions] = []
    assigned = 0
    for topic in request.topics:
        assigned += len(topic.assignments or ())
        if assigned > MAX_NEW_PARTITIONS:
            return None
        topics.append((yield from _more(topic)))
        yield
    return tuple(topics)


def _more(topic: "CreatePartitionsTopic") -> Steps[MorePartitions]:
    if topic.assignments is None:
        return MorePartitions(name=topic.name, count=topic.count)
    assignments: list[tuple[int, ...]] = []
    for each in topic.assignments:
        assignments.append(tuple(each.broker_ids))
        if len(assignments) % _PER_STEP == 0:
            yield
    return MorePartitions(name=topic.name, count=topic.count, assignments=tuple(assignments))


def _refused(names: Iterable[str], *, error: ErrorCode, message: str | None) -> Iterator[_Fields]:
    seen: set[str] = set()
    for name in names:
        if name not in seen:
            seen.add(name)
            yield _result(name, error, message)


def _result(name: str, error: ErrorCode, message: str | None) -> _Fields:
    return {"name": name, "error_code": wire_code(error), "error_message": message}


def _counts(image: MetadataImage, topics: Iterable[MorePartitions]) -> Steps[dict[str, int]]:
    counts: dict[str, int] = {}
    for topic in topics:
        counts[topic.name] = _count(image, topic.name)
        yield
    return counts


def _count(image: MetadataImage, name: str) -> int:
    """Return how many partitions the topic has; 0 if there is none."""
    topic = image.topic(name)
    return 0 if topic is None else len(image.partitions(topic.topic_id))


def _has(image: MetadataImage, wanted: dict[str, int]) -> bool:
    """Whether each topic has as many partitions, or is gone meanwhile."""
    return all(_count(image, name) >= count or image.topic(name) is None for name, count in wanted.items())
