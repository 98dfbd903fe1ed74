"""The files of a log: segments and their indexes."""

from quorate.log.segments.batch_reader import BatchReader
from quorate.log.segments.segment import LOG_SUFFIX, Segment
from quorate.log.segments.segment_indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from quorate.log.segments.walk import HeaderWalk, ReadRequest, Steps, read_cold, read_now

__all__ = [
    "INDEX_SUFFIX",
    "LOG_SUFFIX",
    "TIME_INDEX_SUFFIX",
    "BatchReader",
    "HeaderWalk",
    "ReadRequest",
    "Segment",
    "Steps",
    "read_cold",
    "read_now",
]
