"""A segmented, crash-safe log of Kafka v2 record batches.

Names are imported when they are first used: what reads batches alone, such as the Spark source in its
workers, does without the log that writes them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate.log.checkpoints import (
        HIGH_WATERMARKS,
        RECOVERY_POINTS,
        TopicPartition,
        UnreadableCheckpointError,
        decode_lines,
        is_number,
        load_offsets,
        store_offsets,
    )
    from quorate.log.errors import (
        BatchTooLargeError,
        DamagedLogError,
        DamagedSnapshotError,
        InvalidBatchError,
        LogError,
        LogFailedError,
        LogInterruptedError,
        OffsetOutOfRangeError,
        PositionOutOfRangeError,
        SnapshotMissingError,
    )
    from quorate.log.log import AppendInfo, FileSlice, Log
    from quorate.log.log_config import LogConfig
    from quorate.log.metadata_log import open_metadata_log, recovered_log
    from quorate.log.recovery import segment_bases

_HOMES = {
    "HIGH_WATERMARKS": "quorate.log.checkpoints",
    "RECOVERY_POINTS": "quorate.log.checkpoints",
    "TopicPartition": "quorate.log.checkpoints",
    "UnreadableCheckpointError": "quorate.log.checkpoints",
    "decode_lines": "quorate.log.checkpoints",
    "is_number": "quorate.log.checkpoints",
    "load_offsets": "quorate.log.checkpoints",
    "store_offsets": "quorate.log.checkpoints",
    "BatchTooLargeError": "quorate.log.errors",
    "DamagedLogError": "quorate.log.errors",
    "DamagedSnapshotError": "quorate.log.errors",
    "InvalidBatchError": "quorate.log.errors",
    "LogError": "quorate.log.errors",
    "LogFailedError": "quorate.log.errors",
    "LogInterruptedError": "quorate.log.errors",
    "OffsetOutOfRangeError": "quorate.log.errors",
    "PositionOutOfRangeError": "quorate.log.errors",
    "SnapshotMissingError": "quorate.log.errors",
    "AppendInfo": "quorate.log.log",
    "FileSlice": "quorate.log.log",
    "Log": "quorate.log.log",
    "LogConfig": "quorate.log.log_config",
    "open_metadata_log": "quorate.log.metadata_log",
    "recovered_log": "quorate.log.metadata_log",
    "segment_bases": "quorate.log.recovery",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "HIGH_WATERMARKS",
    "RECOVERY_POINTS",
    "AppendInfo",
    "BatchTooLargeError",
    "DamagedLogError",
    "DamagedSnapshotError",
    "FileSlice",
    "InvalidBatchError",
    "Log",
    "LogConfig",
    "LogError",
    "LogFailedError",
    "LogInterruptedError",
    "OffsetOutOfRangeError",
    "PositionOutOfRangeError",
    "SnapshotMissingError",
    "TopicPartition",
    "UnreadableCheckpointError",
    "decode_lines",
    "is_number",
    "load_offsets",
    "open_metadata_log",
    "recovered_log",
    "segment_bases",
    "store_offsets",
]
