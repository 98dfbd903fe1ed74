"""DescribeLogDirs: this broker's directories, and the size and lag of the replicas in each (KIP-113)."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.replication.storage import DirectoryReport, FutureProgress
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.log import Log, TopicPartition
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

_Fields = dict[str, object]
_Found = dict[str, dict[int, "Log | FutureProgress"]]
"""The replicas of a directory by topic and partition. None has both in one: a move goes to another."""
_Wanted = dict[str, set[int]] | None
"""The partitions to describe, by topic; None: all."""


def handle(broker: Broker, context: RequestContext, request: "DescribeLogDirsRequest") -> Answer:
    """Describe every directory. A large answer is made in slices, each replica as it is at one moment."""
    return broker.later(lambda: _describe(broker, context, request))


async def _describe(broker: Broker, context: RequestContext, request: "DescribeLogDirsRequest") -> Response:
    wanted: _Wanted = None
    if request.topics is not None:
        wanted = {}
        slices = Slices()
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
            await slices.pause()
    return await encoded_in_slices(
        context, error_code=ErrorCode.none, results=_results(broker.replicas.directories.reports(), wanted)
    )


async def _results(directories: list[DirectoryReport], wanted: _Wanted) -> AsyncIterator[_Fields]:
    for each in directories:
        if each.space is None:
            yield {"error_code": ErrorCode.kafka_storage_error, "log_dir": each.path}
            continue
        yield {
            "error_code": ErrorCode.none,
            "log_dir": each.path,
            "topics": _topics(await _by_topic(each, wanted)),
            "total_bytes": each.space.total,
            "usable_bytes": each.space.usable,
        }


async def _by_topic(directory: DirectoryReport, wanted: _Wanted) -> _Found:
    found: _Found = {}
    slices = Slices()
    held: Iterable[tuple[TopicPartition, Log | FutureProgress]]
    for held in (list(directory.logs.items()), list(directory.futures.items())):
        for (topic, partition_id), opened in held:
            if wanted is None or partition_id in wanted.get(topic, ()):
                found.setdefault(topic, {})[partition_id] = opened
            await slices.pause()
    return found


def _topics(found: _Found) -> Iterator[_Fields]:
    for topic in sorted(found):
        yield {"name": topic, "partitions": _partitions(found[topic])}


def _partitions(logs: dict[int, Log | FutureProgress]) -> Iterator[_Fields]:
    for partition_id in sorted(logs):
        opened = logs[partition_id]
        if isinstance(opened, FutureProgress):
            size, lag = opened.log.size_bytes, opened.offset_lag
        else:
            size, lag = opened.size_bytes, max(opened.high_watermark - opened.end_offset, 0)
        yield {
            "partition_index": partition_id,
            "partition_size": size,
            "offset_lag": lag,
            "is_future_key": isinstance(opened, FutureProgress),
        }
