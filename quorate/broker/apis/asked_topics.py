"""Topics as OffsetCommit and OffsetFetch ask for them: by name, and from version 10 on by id (KIP-848)."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from quorate.broker.apis.context import Broker
from quorate.broker.wire import BY_NAME, ApiKey, RequestContext

if TYPE_CHECKING:
    from kio.schema.offset_commit.v9.request import OffsetCommitRequestTopic as CommittedByName
    from kio.schema.offset_commit.v10.request import OffsetCommitRequestTopic
    from kio.schema.offset_fetch.v9.request import OffsetFetchRequestTopics as FetchedByName
    from kio.schema.offset_fetch.v10.request import OffsetFetchRequestTopics

    _ById: TypeAlias = OffsetCommitRequestTopic | OffsetFetchRequestTopics
    _ByName: TypeAlias = CommittedByName | FetchedByName


class AskedTopic(NamedTuple):
    """`name`: None for an id that no topic has. `fields`: the topic in the words of the answer."""

    name: str | None
    fields: dict[str, object]


def asked_topic(broker: Broker, context: RequestContext, topic: "_ById") -> AskedTopic:
    if context.version <= BY_NAME[ApiKey(context.api_key)]:
        name = str(cast("_ByName", topic).name)
        return AskedTopic(name, {"name": name})
    held = None if topic.topic_id is None else broker.image.topic_by_id(topic.topic_id)
    return AskedTopic(None if held is None else held.name, {"topic_id": topic.topic_id})


def named_topic(broker: Broker, context: RequestContext, name: str) -> dict[str, object]:
    """Return a topic in the words of the answer; one that is gone has no id."""
    if context.version <= BY_NAME[ApiKey(context.api_key)]:
        return {"name": name}
    held = broker.image.topic(name)
    return {"topic_id": None if held is None else held.topic_id}
