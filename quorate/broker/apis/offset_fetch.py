"""OffsetFetch: what a group, or from version 8 on several, have committed."""

from collections.abc import Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.groups import CommittedOffset
from quorate.broker.wire import Answer, KafkaError, RequestContext

_Fields = dict[str, object]
_AT_ONCE: Final = 200
"""Topics and partitions of a group that are answered in one piece."""
_GROUPS_AT_ONCE: Final = 3


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    """Many offsets are answered in slices. If the group moves away meanwhile, the request fails with that:
    what is no longer here must not look as if nothing had been committed."""
    if context.version >= 8:
        asked = [(group.group_id, group.topics) for group in request.groups]
        values: _Fields = {"groups": (_group(broker, *each) for each in asked)}
    else:
        asked = [(request.group_id, request.topics)]
        values = _group(broker, *asked[0])
    if all(_is_small(topics) for _, topics in asked) and len(asked) <= _GROUPS_AT_ONCE:
        return respond(context, **values)
    return respond_in_slices(context, **values)


def _is_small(topics: Any) -> bool:
    """Everything that was committed may be much."""
    return topics is not None and sum(1 + len(each.partition_indexes) for each in topics) <= _AT_ONCE


def _group(broker: Broker, group_id: str, asked: Any) -> _Fields:
    error = broker.groups.check(group_id)
    topics = _everything(broker, group_id, error) if asked is None else _named(broker, group_id, asked, error)
    return {"group_id": group_id, "error_code": error, "topics": topics}


def _everything(broker: Broker, group_id: str, error: ErrorCode) -> Iterator[_Fields]:
    for name, offsets in broker.groups.committed(group_id):
        yield {"name": name, "partitions": (_partition(index, held, error) for index, held in offsets)}


def _named(broker: Broker, group_id: str, asked: Any, error: ErrorCode) -> Iterator[_Fields]:
    for topic in asked:
        partitions = _partitions(broker, group_id, topic, error)
        yield {"name": topic.name, "partitions": partitions}


def _partitions(broker: Broker, group_id: str, topic: Any, error: ErrorCode) -> Iterator[_Fields]:
    """A partition without an offset is answered with -1, which is no error."""
    for index in topic.partition_indexes:
        now = broker.groups.check(group_id)
        if now is not error:
            raise KafkaError(now or ErrorCode.not_coordinator, f"group '{group_id}' moved meanwhile")
        yield _partition(index, broker.groups.fetch_offset(group_id, topic.name, index), error)


def _partition(index: int, held: CommittedOffset | None, error: ErrorCode) -> _Fields:
    return {
        "partition_index": index,
        "committed_offset": -1 if held is None else held.offset,
        "committed_leader_epoch": -1 if held is None else held.leader_epoch,
        "metadata": "" if held is None else held.metadata,
        "error_code": error,
    }
