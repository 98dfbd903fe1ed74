"""DescribeLogDirs: this broker's directories, and the size and lag of the replicas in each (KIP-113)."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.replication.storage import DirectoryReport
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.log import Log
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

_Fields = dict[str, object]
_Wanted = dict[str, set[int]] | None
"""The partitions to describe, by topic; None: all."""


def handle(broker: Broker, context: RequestContext, request: "DescribeLogDirsRequest") -> Answer:
    """Describe every directory. A large answer is made in slices, each replica as it is at one moment."""
    return broker.later(lambda: _describe(broker, context, request))


async def _describe(broker: Broker, context: RequestContext, request: "DescribeLogDirsRequest") -> Response:
    wanted: _Wanted = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
    return await encoded_in_slices(
        context, error_code=ErrorCode.none, results=_results(broker.replicas.log_directories(), wanted)
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


async def _by_topic(directory: DirectoryReport, wanted: _Wanted) -> dict[str, dict[int, Log]]:
    found: dict[str, dict[int, Log]] = {}
    slices = Slices()
    for (topic, partition_id), opened in list(directory.logs.items()):
        if wanted is None or partition_id in wanted.get(topic, ()):
            found.setdefault(topic, {})[partition_id] = opened
        await slices.pause()
    return found


def _topics(found: dict[str, dict[int, Log]]) -> Iterator[_Fields]:
    for topic in sorted(found):
        yield {"name": topic, "partitions": _partitions(found[topic])}


def _partitions(logs: dict[int, Log]) -> Iterator[_Fields]:
    for partition_id in sorted(logs):
        opened = logs[partition_id]
        yield {
            "partition_index": partition_id,
            "partition_size": opened.size_bytes,
            "offset_lag": max(opened.high_watermark - opened.end_offset, 0),
            "is_future_key": False,
        }
