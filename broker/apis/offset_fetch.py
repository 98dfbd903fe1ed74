"""OffsetFetch: what a group, or from version 8 on several, have committed."""

from typing import Any

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond
from quorate.broker.groups.messages import CommittedOffset
from quorate.broker.wire.messages import Answer, RequestContext

_Fields = dict[str, object]


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    if context.version >= 8:
        groups = []
        for group in request.groups:
            error = broker.groups.check(group.group_id)
            groups.append(
                {
                    "group_id": group.group_id,
                    "error_code": error,
                    "topics": _topics(broker, group.group_id, group.topics, error),
                }
            )
        return respond(context, groups=groups)
    error = broker.groups.check(request.group_id)
    return respond(context, error_code=error, topics=_topics(broker, request.group_id, request.topics, error))


def _topics(broker: Broker, group_id: str, asked: Any, error: ErrorCode) -> list[_Fields]:
    """Null asks for everything. A partition without an offset is answered with -1, which is no error."""
    if asked is None:
        by_topic: dict[str, list[_Fields]] = {}
        for topic, partition, held in broker.groups.committed(group_id):
            by_topic.setdefault(topic, []).append(_partition(partition, held, error))
        return [{"name": name, "partitions": partitions} for name, partitions in by_topic.items()]
    return [
        {
            "name": topic.name,
            "partitions": [
                _partition(index, broker.groups.fetch_offset(group_id, topic.name, index), error)
                for index in topic.partition_indexes
            ],
        }
        for topic in asked
    ]


def _partition(index: int, held: CommittedOffset | None, error: ErrorCode) -> _Fields:
    return {
        "partition_index": index,
        "committed_offset": -1 if held is None else held.offset,
        "committed_leader_epoch": -1 if held is None else held.leader_epoch,
        "metadata": "" if held is None else held.metadata,
        "error_code": error,
    }
