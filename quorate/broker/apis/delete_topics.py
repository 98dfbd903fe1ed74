"""DeleteTopics, passed on to the controller."""

from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.controller.rpc import DeletedTopic, DeleteTopicsRequest, TopicRef
from quorate.broker.wire import Answer, KafkaError, RequestContext, Response, wire_code
from quorate.error_code import ErrorCode

if TYPE_CHECKING:
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest as WireRequest


_STRICT_FROM: Final = 5


def handle(broker: Broker, context: RequestContext, request: "WireRequest") -> Answer:
    """Delete topics. The answer waits until this broker's own metadata lacks them too."""
    if not broker.config.flag("delete.topic.enable"):
        # The code came with version 3.
        code = (
            WireErrorCode.topic_deletion_disabled if context.version >= 3 else WireErrorCode.invalid_request
        )
        raise KafkaError(code, "Topic deletion is disabled (delete.topic.enable).")
    return broker.later(lambda: _delete(broker, context, request))


async def _delete(broker: Broker, context: RequestContext, request: "WireRequest") -> Response:
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    refs = tuple(TopicRef(name=topic.name, topic_id=topic.topic_id) for topic in request.topics)
    who = broker.throttles.requester(context, strict_from=_STRICT_FROM)
    answer = await broker.channel.ask(DeleteTopicsRequest(topics=refs, who=who), timeout_seconds=timeout)
    throttle_time = broker.throttles.wait_for_controller(context, answer.throttle_ms)
    deleted = answer.topics
    if answer.error is not ErrorCode.NONE:
        deleted = tuple(
            DeletedTopic(
                name=ref.name, topic_id=ref.topic_id, error=answer.error, error_message=answer.error_message
            )
            for ref in refs
        )
    deleted_ids = [topic.topic_id for topic in deleted if topic.error is ErrorCode.NONE]
    with trio.move_on_at(deadline):
        await broker.metadata.wait_until(
            lambda image: all(
                topic_id is None or image.topic_by_id(topic_id) is None for topic_id in deleted_ids
            )
        )
    return await encoded_in_slices(
        context,
        throttle_time=throttle_time,
        responses=(
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "error_code": wire_code(topic.error),
                "error_message": topic.error_message,
            }
            for topic in deleted
        ),
    )
