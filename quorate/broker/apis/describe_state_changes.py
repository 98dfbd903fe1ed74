"""DescribeStateChanges (ours): the state changes of this broker's replicas, as its journal has them."""

from collections.abc import Iterable, Iterator
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.replication.hosting import ChangeOutcome, StateChange
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.broker.wire.codecs import DescribeStateChangesRequest
from quorate.runtime import Slices

_Fields = dict[str, object]
_MOST: Final = 100_000
"""Changes of each kind in one answer, whatever was asked for."""


def handle(broker: Broker, context: RequestContext, request: DescribeStateChangesRequest) -> Answer:
    """Describe the changes that ended, oldest first, and then those that are pending."""
    return broker.later(lambda: _describe(broker, context, request))


async def _describe(
    broker: Broker, context: RequestContext, request: DescribeStateChangesRequest
) -> Response:
    journal = broker.replicas.journal
    summary = journal.summary(now=trio.current_time())
    pending, ended = journal.pending(), [] if request.pending_only else journal.ended()
    limit = min(max(request.limit, 0), _MOST)
    newest = await _wanted(reversed(ended), request, limit)
    chosen = [*reversed(newest), *await _wanted(pending, request, limit)]
    return await encoded_in_slices(
        context,
        error_code=ErrorCode.none,
        broker_id=broker.config.node_id,
        received_offset=summary.received_offset,
        completed_offset=summary.completed_offset,
        dropped_offset=journal.dropped_offset,
        pending=summary.pending,
        backlog=summary.backlog,
        oldest_ms=summary.oldest_ms,
        changes=_described(chosen, now=trio.current_time()),
    )


async def _wanted(
    changes: Iterable[StateChange], request: DescribeStateChangesRequest, limit: int
) -> list[StateChange]:
    found: list[StateChange] = []
    slices, topic, partition = Slices(), request.topic_name, request.partition_index
    for each in changes:
        if len(found) == limit:
            break
        if topic in (None, each.topic) and partition in (-1, each.partition_id):
            found.append(each)
        await slices.pause()
    return found


def _described(changes: Iterable[StateChange], *, now: float) -> Iterator[_Fields]:
    for each in changes:
        pending = each.outcome is ChangeOutcome.PENDING
        yield {
            "topic_name": each.topic,
            "topic_id": each.topic_id,
            "partition_index": each.partition_id,
            "change": each.kind.value,
            "outcome": each.outcome.value,
            "problem": each.problem,
            "leader_epoch": each.leader_epoch,
            "metadata_offset": each.cause.offset,
            "received_ms": each.cause.at_ms,
            "duration_us": round((now - each.since.at if pending else each.duration_s) * 1_000_000),
        }
