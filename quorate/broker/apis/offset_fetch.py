"""OffsetFetch: what a group, or from version 8 on several, have committed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.asked_topics import AskedTopic, asked_topic, named_topic
from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.groups import CommittedOffset
from quorate.broker.wire import Answer, KafkaError, RequestContext

if TYPE_CHECKING:
    from kio.schema.offset_fetch.v10.request import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopics,
    )

_Fields = dict[str, object]
_AT_ONCE: Final = 200
"""Topics and partitions of a group that are answered in one piece."""
_GROUPS_AT_ONCE: Final = 3


def handle(broker: Broker, context: RequestContext, request: "OffsetFetchRequest") -> Answer:
    """Answer OffsetFetch; many offsets in slices. If the group moves away meanwhile, the request fails: moved
    offsets must not look like uncommitted ones."""
    asked = request.groups
    if context.version >= 8:
        values: _Fields = {
            "groups": ({"group_id": each.group_id} | _group(broker, context, each) for each in asked)
        }
    else:
        values = _group(broker, context, *asked)
    if all(_is_small(each.topics) for each in asked) and len(asked) <= _GROUPS_AT_ONCE:
        return respond(context, **values)
    return respond_in_slices(context, **values)


def _is_small(topics: "Sequence[OffsetFetchRequestTopics] | None") -> bool:
    """Return whether the answer is small. All committed offsets may be many."""
    return topics is not None and sum(1 + len(each.partition_indexes) for each in topics) <= _AT_ONCE


def _group(broker: Broker, context: RequestContext, asked: "OffsetFetchRequestGroup") -> _Fields:
    group_id, topics = asked.group_id, asked.topics
    error = broker.groups.check(group_id)
    return {
        "error_code": error,
        "topics": _everything(broker, context, group_id, error)
        if topics is None
        else _named(broker, context, group_id, topics, error),
    }


def _everything(
    broker: Broker, context: RequestContext, group_id: str, error: ErrorCode
) -> Iterator[_Fields]:
    for name, offsets in broker.groups.committed(group_id):
        partitions = (_partition(index, held, error) for index, held in offsets)
        yield named_topic(broker, context, name) | {"partitions": partitions}


def _named(
    broker: Broker,
    context: RequestContext,
    group_id: str,
    asked: "Iterable[OffsetFetchRequestTopics]",
    error: ErrorCode,
) -> Iterator[_Fields]:
    for each in asked:
        topic = asked_topic(broker, context, each)
        partitions = _partitions(broker, group_id, topic, each.partition_indexes, error)
        yield topic.fields | {"partitions": partitions}


def _partitions(
    broker: Broker, group_id: str, topic: AskedTopic, indexes: Iterable[int], error: ErrorCode
) -> Iterator[_Fields]:
    """Describe the partitions. One without an offset is answered with -1, which is no error."""
    for index in indexes:
        now = broker.groups.check(group_id)
        if now is not error:
            raise KafkaError(now or ErrorCode.not_coordinator, f"group '{group_id}' moved meanwhile")
        if topic.name is None:
            yield _partition(index, None, error or ErrorCode.unknown_topic_id)
        else:
            yield _partition(index, broker.groups.fetch_offset(group_id, topic.name, index), error)


def _partition(index: int, held: CommittedOffset | None, error: ErrorCode) -> _Fields:
    return {
        "partition_index": index,
        "committed_offset": -1 if held is None else held.offset,
        "committed_leader_epoch": -1 if held is None else held.leader_epoch,
        "metadata": "" if held is None else held.metadata,
        "error_code": error,
    }
