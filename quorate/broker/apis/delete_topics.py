"""DeleteTopics, passed on to the controller."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.controller.rpc import DeletedTopic, DeleteTopicsRequest, TopicRef
from quorate.broker.wire import Answer, KafkaError, RequestContext, Response, wire_code
from quorate.error_code import ErrorCode
from quorate.runtime import Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest as WireRequest


_Fields = dict[str, object]
_STRICT_FROM: Final = 5
_MAX_TOPICS: Final = 10_000
"""As in Kafka: one operation of its controller writes no more records."""


def handle(broker: Broker, context: RequestContext, request: "WireRequest") -> Answer:
    """Delete topics. The answer waits until this broker's own metadata lacks them too."""
    if not broker.config.topics.delete_enable:
        # The code came with version 3.
        code = (
            WireErrorCode.topic_deletion_disabled if context.version >= 3 else WireErrorCode.invalid_request
        )
        raise KafkaError(code, "Topic deletion is disabled (delete.topic.enable).")
    return broker.later(lambda: _delete(broker, context, request))


async def _delete(broker: Broker, context: RequestContext, request: "WireRequest") -> Response:
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    if len(request.topics) > _MAX_TOPICS:
        message = f"a request names {_MAX_TOPICS} topics at most; send several"
        refs = (TopicRef(name=topic.name, topic_id=topic.topic_id) for topic in request.topics)
        return await encoded_in_slices(
            context, responses=_refused(refs, error=ErrorCode.POLICY_VIOLATION, message=message)
        )
    asked = await in_slices(_asked(request))
    who = broker.throttles.requester(context, strict_from=_STRICT_FROM)
    answer = await broker.channel.ask(DeleteTopicsRequest(topics=asked, who=who), timeout_seconds=timeout)
    throttle_time = broker.throttles.wait_for_controller(context, answer.throttle_ms)
    if answer.error is not ErrorCode.NONE:
        return await encoded_in_slices(
            context,
            throttle_time=throttle_time,
            responses=_refused(asked, error=answer.error, message=answer.error_message),
        )
    deleted_ids = [topic.topic_id for topic in answer.topics if topic.error is ErrorCode.NONE]
    with trio.move_on_at(deadline):
        await broker.metadata.wait_until(
            lambda image: all(
                topic_id is None or image.topic_by_id(topic_id) is None for topic_id in deleted_ids
            )
        )
    return await encoded_in_slices(
        context, throttle_time=throttle_time, responses=(_result(topic) for topic in answer.topics)
    )


def _asked(request: "WireRequest") -> Steps[tuple[TopicRef, ...]]:
    refs: list[TopicRef] = []
    for topic in request.topics:
        refs.append(TopicRef(name=topic.name, topic_id=topic.topic_id))
        yield
    return tuple(refs)


def _refused(refs: Iterable[TopicRef], *, error: ErrorCode, message: str | None) -> Iterator[_Fields]:
    for ref in refs:
        yield _result(DeletedTopic(name=ref.name, topic_id=ref.topic_id, error=error, error_message=message))


def _result(topic: DeletedTopic) -> _Fields:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "error_code": wire_code(topic.error),
        "error_message": topic.error_message,
    }
