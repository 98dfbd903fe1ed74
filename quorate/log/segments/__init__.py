"""The files of a log: segments and their indexes."""

from quorate.log.segments.batch_reader import BatchReader
from quorate.log.segments.segment import CLEANED, DELETED, LOG_SUFFIX, SWAP, Segment
from quorate.log.segments.segment_check import DamagedRange, Pace, SegmentCheck, SegmentFindings
from quorate.log.segments.segment_files import bases_among, finish_swaps, segment_bases
from quorate.log.segments.segment_indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from quorate.log.segments.torn_append import is_torn_append
from quorate.log.segments.walk import HeaderWalk, ReadRequest, Steps, read_cold, read_now

__all__ = [
    "CLEANED",
    "DELETED",
    "INDEX_SUFFIX",
    "LOG_SUFFIX",
    "SWAP",
    "TIME_INDEX_SUFFIX",
    "BatchReader",
    "DamagedRange",
    "HeaderWalk",
    "Pace",
    "ReadRequest",
    "Segment",
    "SegmentCheck",
    "SegmentFindings",
    "Steps",
    "bases_among",
    "finish_swaps",
    "is_torn_append",
    "read_cold",
    "read_now",
    "segment_bases",
]
