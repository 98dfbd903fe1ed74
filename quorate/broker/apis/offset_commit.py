"""OffsetCommit: answered when the offsets are on every replica in sync."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.asked_topics import AskedTopic, asked_topic
from quorate.broker.apis.context import Broker, encoded_in_slices, respond
from quorate.broker.groups import MemberRef, OffsetToCommit
from quorate.broker.wire import Answer, Deferred, RequestContext
from quorate.runtime import Slices
from quorate.types import Epoch, Offset

if TYPE_CHECKING:
    from kio.schema.offset_commit.v10.request import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

_AT_ONCE: Final = 200
"""Partitions that are committed, and answered, in one piece; some 3 ms."""


async def handle(broker: Broker, context: RequestContext, request: "OffsetCommitRequest") -> Answer:
    """Commit offsets. Many are committed in several pieces, each by one batch; a group that rebalances in
    between has some of them. An offset stands for its partition alone, and has an error of its own."""
    ref = MemberRef(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
    )
    asked = _Asked(broker, context, request)
    slices = Slices()
    for piece in asked.pieces():
        asked.commit(ref, piece)
        await slices.pause()
    asked.all_begun()
    return asked.deferred


class _Asked:
    """The offsets of a request, and the outcome of each."""

    def __init__(self, broker: Broker, context: RequestContext, request: "OffsetCommitRequest") -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._errors: list[ErrorCode] = []
        self._topics: list[AskedTopic] = []
        self._waiting = 1
        """Pieces without an answer; the last one's place is kept until all have begun."""
        self.deferred = Deferred()

    def pieces(self) -> Iterator[list[tuple[str | None, "OffsetCommitRequestPartition"]]]:
        """Yield at least one piece: a request of nothing is a sign of life."""
        piece: list[tuple[str | None, OffsetCommitRequestPartition]] = []
        for topic in self._request.topics:
            asked = asked_topic(self._broker, self._context, topic)
            self._topics.append(asked)
            for part in topic.partitions:
                if len(piece) == _AT_ONCE:
                    yield piece
                    piece = []
                piece.append((asked.name, part))
        yield piece

    def commit(
        self, ref: MemberRef, piece: Sequence[tuple[str | None, "OffsetCommitRequestPartition"]]
    ) -> None:
        known = [
            name is not None and self._broker.partition_exists(name, part.partition_index)
            for name, part in piece
        ]
        offsets = [
            OffsetToCommit(
                topic=name,
                partition=part.partition_index,
                offset=Offset(part.committed_offset),
                leader_epoch=Epoch(part.committed_leader_epoch),
                metadata=part.committed_metadata or "",
            )
            for (name, part), exists in zip(piece, known, strict=True)
            if exists and name is not None
        ]
        start = len(self._errors)
        self._errors += [
            ErrorCode.unknown_topic_id if name is None else ErrorCode.unknown_topic_or_partition
            for name, _ in piece
        ]
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
        topics = _topics(self._request.topics, self._topics, self._errors)
        if len(self._errors) + len(self._request.topics) <= _AT_ONCE:
            self.deferred.complete(respond(self._context, topics=topics))
        else:
            self.deferred.complete_with(lambda: encoded_in_slices(self._context, topics=topics))


def _topics(
    topics: "Sequence[OffsetCommitRequestTopic]",
    asked: Sequence[AskedTopic],
    outcome: Sequence[ErrorCode],
) -> Iterator[dict[str, object]]:
    errors = iter(outcome)
    for topic, each in zip(topics, asked, strict=True):
        yield each.fields | {
            "partitions": (
                {"partition_index": part.partition_index, "error_code": next(errors)}
                for part in topic.partitions
            ),
        }
