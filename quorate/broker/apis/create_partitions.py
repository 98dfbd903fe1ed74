"""CreatePartitions, passed on to the controller."""

from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.controller.rpc import CreatePartitionsRequest, ExtendedTopic, MorePartitions
from quorate.broker.metadata import MetadataImage
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.error_code import ErrorCode

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest as WireRequest
    from kio.schema.create_partitions.v3.request import CreatePartitionsTopic


_STRICT_FROM: Final = 3


def handle(broker: Broker, context: RequestContext, request: "WireRequest") -> Answer:
    """Add partitions to topics. The answer waits until this broker's own metadata has them, and until their
    leaders serve them, if they are few."""
    return broker.later(lambda: _create(broker, context, request))


async def _create(broker: Broker, context: RequestContext, request: "WireRequest") -> Response:
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    forwarded = CreatePartitionsRequest(
        topics=tuple(map(_more, request.topics)),
        validate_only=request.validate_only,
        who=broker.throttles.requester(context, strict_from=_STRICT_FROM),
    )
    before = {topic.name: _count(broker.metadata.image, topic.name) for topic in forwarded.topics}
    answer = await broker.channel.ask(forwarded, timeout_seconds=timeout)
    throttle_time = broker.throttles.wait_for_controller(context, answer.throttle_ms)
    extended = answer.topics
    if answer.error is not ErrorCode.NONE:
        names = dict.fromkeys(topic.name for topic in forwarded.topics)
        extended = tuple(
            ExtendedTopic(name=name, error=answer.error, error_message=answer.error_message) for name in names
        )
    if not request.validate_only:
        counts = {topic.name: topic.count for topic in forwarded.topics}
        wanted = {topic.name: counts[topic.name] for topic in extended if topic.error is ErrorCode.NONE}
        with trio.move_on_at(deadline):
            await broker.metadata.wait_until(lambda image: _has(image, wanted))
            await broker.leaders.wait({name: before[name] for name in wanted}, deadline=deadline)
    return await encoded_in_slices(
        context,
        throttle_time=throttle_time,
        results=(
            {
                "name": topic.name,
                "error_code": wire_code(topic.error),
                "error_message": topic.error_message,
            }
            for topic in extended
        ),
    )


def _more(topic: "CreatePartitionsTopic") -> MorePartitions:
    named = topic.assignments
    return MorePartitions(
        name=topic.name,
        count=topic.count,
        assignments=None if named is None else tuple(tuple(each.broker_ids) for each in named),
    )


def _count(image: MetadataImage, name: str) -> int:
    """Return how many partitions the topic has; 0 if there is none."""
    topic = image.topic(name)
    return 0 if topic is None else len(image.partitions(topic.topic_id))


def _has(image: MetadataImage, wanted: dict[str, int]) -> bool:
    """Whether each topic has as many partitions, or is gone meanwhile."""
    return all(_count(image, name) >= count or image.topic(name) is None for name, count in wanted.items())
