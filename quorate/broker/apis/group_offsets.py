"""Committed offsets of groups: OffsetCommit, answered when the offsets are on every replica in sync,
OffsetFetch and OffsetDelete (KIP-496)."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypedDict, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import left_out, of_each, of_group
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_by_code
from quorate.broker.apis.context import Broker, answer_later, encoded_in_slices, respond, respond_in_slices
from quorate.broker.groups.group_messages import CommittedOffset, MemberRef, OffsetToCommit
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Deferred, Refusal, RequestContext, Response
from quorate.broker.wire.newest_version import BY_NAME
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import Slices
from quorate.types import Epoch, Offset

if TYPE_CHECKING:
    from kio.schema.offset_commit.v9.request import OffsetCommitRequestTopic as CommittedByName
    from kio.schema.offset_commit.v10.request import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
    from kio.schema.offset_fetch.v9.request import OffsetFetchRequestTopics as FetchedByName
    from kio.schema.offset_fetch.v10.request import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopics,
    )

    _ById: TypeAlias = OffsetCommitRequestTopic | OffsetFetchRequestTopics
    _ByName: TypeAlias = CommittedByName | FetchedByName

_AT_ONCE: Final = 200
"""Topics and partitions that are committed, and answered, in one piece, which takes some 3 ms."""
_GROUPS_AT_ONCE: Final = 3
_GROUPS_FROM: Final = 8
"""The version of OffsetFetch that asks for several groups (KIP-709)."""


class _InItsWords(TypedDict, total=False):
    """A topic in the words of the answer: its name, or its id (null for one that is gone)."""

    name: str
    topic_id: uuid.UUID | None


class _AskedTopic(NamedTuple):
    """`name`: None for an id that no topic has. `fields`: the topic in the words of the answer. `error`: why
    it is not looked at."""

    name: str | None
    fields: _InItsWords
    error: ErrorCode


def _asked_topic(
    broker: Broker, context: RequestContext, topic: "_ById", operation: AclOperation
) -> _AskedTopic:
    """Return the topic, with an error if the client may not do `operation` with it."""
    name: str | None
    fields: _InItsWords
    if context.version <= BY_NAME[context.api.key]:
        name = str(cast("_ByName", topic).name)
        fields = {"name": name}
    else:
        held = None if topic.topic_id is None else broker.image.topic_by_id(topic.topic_id)
        name = None if held is None else held.name
        fields = {"topic_id": topic.topic_id}
    if name is None:
        return _AskedTopic(None, fields, ErrorCode.unknown_topic_id)
    may = broker.may(context, operation, ResourceType.TOPIC, name)
    return _AskedTopic(name, fields, ErrorCode.none if may else ErrorCode.topic_authorization_failed)


def _named_topic(broker: Broker, context: RequestContext, name: str) -> _InItsWords:
    """Return a topic in the words of the answer; one that is gone has no id."""
    if context.version <= BY_NAME[context.api.key]:
        return {"name": name}
    held = broker.image.topic(name)
    return {"topic_id": None if held is None else held.topic_id}


async def handle_offset_commit(
    broker: Broker, context: RequestContext, request: "OffsetCommitRequest"
) -> Answer:
    """Commit offsets. Many are committed in several pieces, each by one batch; a group that rebalances in
    between has some of them. An offset stands for its partition alone, and has an error of its own."""
    ref = MemberRef(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
    )
    asked = _Commit(broker, context, request)
    slices = Slices()
    for piece in asked.pieces():
        asked.commit(ref, piece)
        await slices.pause()
    asked.all_begun()
    return asked.deferred


class _Commit:
    """The offsets of a request, and the outcome of each."""

    def __init__(self, broker: Broker, context: RequestContext, request: "OffsetCommitRequest") -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._errors: list[ErrorCode] = []
        self._topics: list[_AskedTopic] = []
        self._waiting = 1
        """Pieces without an answer; the last one's place is kept until all have begun."""
        self.deferred = Deferred()

    def pieces(self) -> Iterator[list[tuple[_AskedTopic, "OffsetCommitRequestPartition"]]]:
        """Yield at least one piece: a request of nothing is a sign of life."""
        piece: list[tuple[_AskedTopic, OffsetCommitRequestPartition]] = []
        for topic in self._request.topics:
            asked = _asked_topic(self._broker, self._context, topic, AclOperation.READ)
            self._topics.append(asked)
            for part in topic.partitions:
                if len(piece) == _AT_ONCE:
                    yield piece
                    piece = []
                piece.append((asked, part))
        yield piece

    def commit(
        self, ref: MemberRef, piece: Sequence[tuple[_AskedTopic, "OffsetCommitRequestPartition"]]
    ) -> None:
        known = [
            asked.name is not None
            and not asked.error
            and self._broker.partition_exists(asked.name, part.partition_index)
            for asked, part in piece
        ]
        offsets = [
            OffsetToCommit(
                topic=asked.name,
                partition=part.partition_index,
                offset=Offset(part.committed_offset),
                leader_epoch=Epoch(part.committed_leader_epoch),
                metadata=part.committed_metadata or "",
            )
            for (asked, part), exists in zip(piece, known, strict=True)
            if exists and asked.name is not None
        ]
        start = len(self._errors)
        self._errors += [asked.error or ErrorCode.unknown_topic_or_partition for asked, _ in piece]
        self._waiting += 1

        def answered(errors: Sequence[ErrorCode]) -> None:
            rest = iter(errors)
            for place, exists in enumerate(known, start):
                if exists:
                    self._errors[place] = next(rest)
            self._settle()

        self._broker.groups.commit(
            ref,
            offsets,
            answered,
            # Until version 8 clients know no group that is gone (KIP-848).
            unknown_group=ErrorCode.group_id_not_found
            if self._context.version >= 9
            else ErrorCode.illegal_generation,
        )

    def all_begun(self) -> None:
        self._settle()

    def _settle(self) -> None:
        self._waiting -= 1
        if self._waiting:
            return
        topics = _committed_topics(self._request.topics, self._topics, self._errors)
        if len(self._errors) + len(self._request.topics) <= _AT_ONCE:
            self.deferred.complete(respond(self._context, answers.OffsetCommitResponse(topics=topics)))
        else:
            self.deferred.complete_with(
                lambda: encoded_in_slices(self._context, answers.OffsetCommitResponse(topics=topics))
            )


def _committed_topics(
    topics: "Sequence[OffsetCommitRequestTopic]",
    asked: Sequence[_AskedTopic],
    outcome: Sequence[ErrorCode],
) -> Iterator[answers.OffsetCommitResponseTopic]:
    errors = iter(outcome)
    for topic, each in zip(topics, asked, strict=True):
        yield {
            **each.fields,
            "partitions": (
                {"partition_index": part.partition_index, "error_code": next(errors)}
                for part in topic.partitions
            ),
        }


def handle_offset_fetch(broker: Broker, context: RequestContext, request: "OffsetFetchRequest") -> Answer:
    """Answer OffsetFetch; many offsets in slices. If the group moves away meanwhile, the request fails: moved
    offsets must not look like uncommitted ones."""
    asked = request.groups
    if context.version >= _GROUPS_FROM:
        values = answers.OffsetFetchResponse(groups=(_group(broker, context, each) for each in asked))
    else:
        (only,) = asked
        topics, error = _topics_of(broker, context, only)
        values = answers.OffsetFetchResponse(error_code=error, topics=topics)
    if all(_is_small(each.topics) for each in asked) and len(asked) <= _GROUPS_AT_ONCE:
        return respond(context, values)
    return respond_in_slices(context, values)


def _is_small(topics: "Sequence[OffsetFetchRequestTopics] | None") -> bool:
    """Return whether the answer is small. All committed offsets may be many."""
    return topics is not None and sum(1 + len(each.partition_indexes) for each in topics) <= _AT_ONCE


def _group(
    broker: Broker, context: RequestContext, asked: "OffsetFetchRequestGroup"
) -> answers.OffsetFetchResponseGroup:
    topics, error = _topics_of(broker, context, asked)
    return {"group_id": asked.group_id, "error_code": error, "topics": topics}


def _topics_of(
    broker: Broker, context: RequestContext, asked: "OffsetFetchRequestGroup"
) -> tuple[Iterable[answers.OffsetFetchResponseTopics], ErrorCode]:
    group_id, topics = asked.group_id, asked.topics
    if not broker.may(context, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        error = ErrorCode.group_authorization_failed
        return (() if context.version >= _GROUPS_FROM else _not_fetched(topics or (), error)), error
    error = broker.groups.check(group_id)
    if topics is None:
        return _all_offsets(broker, context, group_id, error), error
    return _named_offsets(broker, context, group_id, topics, error), error


def _all_offsets(
    broker: Broker, context: RequestContext, group_id: str, error: ErrorCode
) -> Iterator[answers.OffsetFetchResponseTopics]:
    for name, offsets in broker.groups.committed(group_id):
        if not broker.may(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name, audited=False):
            continue
        partitions = (_partition(index, held, error) for index, held in offsets)
        yield {**_named_topic(broker, context, name), "partitions": partitions}


def _named_offsets(
    broker: Broker,
    context: RequestContext,
    group_id: str,
    asked: "Iterable[OffsetFetchRequestTopics]",
    error: ErrorCode,
) -> Iterator[answers.OffsetFetchResponseTopics]:
    for each in asked:
        topic = _asked_topic(broker, context, each, AclOperation.DESCRIBE)
        partitions = _partitions(broker, group_id, topic, each.partition_indexes, error)
        yield {**topic.fields, "partitions": partitions}


def _partitions(
    broker: Broker, group_id: str, topic: _AskedTopic, indexes: Iterable[int], error: ErrorCode
) -> Iterator[answers.OffsetFetchResponsePartitions]:
    """Describe the partitions. One without an offset is answered with -1, which is no error."""
    for index in indexes:
        now = broker.groups.check(group_id)
        if now is not error:
            raise KafkaError(now or ErrorCode.not_coordinator, f"group '{group_id}' moved meanwhile")
        if topic.name is None or topic.error:
            yield _partition(index, None, error or topic.error)
        else:
            yield _partition(index, broker.groups.fetch_offset(group_id, topic.name, index), error)


def _not_fetched(
    topics: "Iterable[OffsetFetchRequestTopics]", error: ErrorCode
) -> Iterator[answers.OffsetFetchResponseTopics]:
    for topic in topics:
        partitions = (_partition(index, None, error) for index in topic.partition_indexes)
        yield {**_as_asked(topic), "partitions": partitions}


def _partition(
    index: int, held: CommittedOffset | None, error: ErrorCode
) -> answers.OffsetFetchResponsePartitions:
    return {
        "partition_index": index,
        "committed_offset": -1 if held is None else held.offset,
        "committed_leader_epoch": -1 if held is None else held.leader_epoch,
        "metadata": "" if held is None else held.metadata,
        "error_code": error,
    }


@answer_later
async def handle_offset_delete(
    broker: Broker, context: RequestContext, request: "OffsetDeleteRequest"
) -> Response:
    """Delete offsets. With an error of the whole the answer has no topics."""
    asked: list[tuple[str, int]] = []
    refused: list[ErrorCode] = []
    slices = Slices()
    for topic in request.topics:
        may = broker.may(context, AclOperation.READ, ResourceType.TOPIC, topic.name)
        for part in topic.partitions:
            if not may:
                refused.append(ErrorCode.topic_authorization_failed)
            elif not broker.partition_exists(topic.name, part.partition_index):
                refused.append(ErrorCode.unknown_topic_or_partition)
            else:
                refused.append(ErrorCode.none)
                asked.append((topic.name, part.partition_index))
            await slices.pause()
    whole: ErrorCode = ErrorCode.none
    outcomes: Sequence[ErrorCode] = ()
    if asked:  # Kafka does not look at the group otherwise
        whole, outcomes = await _outcome(broker, request.group_id, asked)
    if whole is not ErrorCode.none:
        return await encoded_in_slices(context, answers.OffsetDeleteResponse(error_code=whole, topics=()))
    return await encoded_in_slices(
        context,
        answers.OffsetDeleteResponse(
            error_code=whole, topics=_deleted_topics(request, refused, iter(outcomes))
        ),
    )


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


def _deleted_topics(
    request: "OffsetDeleteRequest", refused: Sequence[ErrorCode], outcomes: Iterator[ErrorCode]
) -> Iterator[answers.OffsetDeleteResponseTopic]:
    refusals = iter(refused)
    for topic in request.topics:
        yield {
            "name": topic.name,
            "partitions": (
                {
                    "partition_index": part.partition_index,
                    "error_code": next(refusals) or next(outcomes),
                }
                for part in topic.partitions
            ),
        }


def _as_asked(topic: "_ById | _ByName") -> _InItsWords:
    """Return a topic in the form of its request: `BY_NAME` has those with two."""
    named: str | None = getattr(topic, "name", None)
    return {"topic_id": cast("_ById", topic).topic_id} if named is None else {"name": named}


def _refuse_commit(request: "OffsetCommitRequest", refusal: Refusal) -> answers.OffsetCommitResponse:
    return {
        "topics": (
            {
                **_as_asked(topic),
                "partitions": (
                    {"partition_index": part.partition_index, "error_code": refusal.code}
                    for part in topic.partitions
                ),
            }
            for topic in request.topics
        )
    }


def _refuse_fetch(request: "OffsetFetchRequest", refusal: Refusal) -> answers.OffsetFetchResponse:
    code = refusal.code
    if refusal.version >= 8:
        return {"groups": ({"group_id": group.group_id, "error_code": code} for group in request.groups)}
    (only,) = request.groups
    return {"error_code": code, "topics": _not_fetched(only.topics or (), code)}


ROWS: Final = (
    ApiRow["OffsetCommitRequest"](
        ApiKey.OFFSET_COMMIT.api,
        _refuse_commit,
        needs=(of_group(AclOperation.READ), of_each(AclOperation.READ, ResourceType.TOPIC)),
        brokers=handle_offset_commit,
    ),
    ApiRow["OffsetFetchRequest"](
        ApiKey.OFFSET_FETCH.api,
        _refuse_fetch,
        needs=(
            of_each(AclOperation.DESCRIBE, ResourceType.GROUP),
            of_each(AclOperation.DESCRIBE, ResourceType.TOPIC, when="of those that are named"),
            left_out(AclOperation.DESCRIBE, ResourceType.TOPIC, when="of all that the group has committed"),
        ),
        brokers=handle_offset_fetch,
    ),
    ApiRow["OffsetDeleteRequest"](
        ApiKey.OFFSET_DELETE.api,
        refuse_by_code,
        needs=(of_group(AclOperation.DELETE), of_each(AclOperation.READ, ResourceType.TOPIC)),
        brokers=handle_offset_delete,
    ),
)
