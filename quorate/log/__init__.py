"""A segmented, crash-safe log of Kafka v2 record batches.

Names are imported at their first use. So a program that only reads batches, such as a Spark worker, does
not load the log that writes them.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.log.checkpoints import (
        CLEANED,
        HIGH_WATERMARKS,
        LOG_STARTS,
        RECOVERY_POINTS,
        TopicPartition,
        UnreadableCheckpointError,
        decode_lines,
        encode_lines,
        is_number,
        load_offsets,
        store_offsets,
    )
    from quorate.log.compression import (
        Codec,
        CompressedDataError,
        DecompressedTooLargeError,
        compress,
        decompress,
        decompress_within,
        memory_within,
        output_sizes,
    )
    from quorate.log.epoch_cache import LEADER_EPOCHS, EpochCache
    from quorate.log.log import AppendInfo, Log
    from quorate.log.log_config import LogConfig
    from quorate.log.log_errors import (
        BatchTooLargeError,
        CompactionAbandonedError,
        DamagedLogError,
        DamagedSnapshotError,
        IncompleteLogError,
        InvalidBatchError,
        LogError,
        LogFailedError,
        LogInterruptedError,
        OffsetOutOfRangeError,
        PositionOutOfRangeError,
        SnapshotMissingError,
    )
    from quorate.log.metadata_recovery import open_metadata_log, recovered_log
    from quorate.log.segments.segment_check import DamagedRange, SegmentFindings
    from quorate.log.segments.segment_files import segment_bases

_HOMES = {
    "CLEANED": "quorate.log.checkpoints",
    "HIGH_WATERMARKS": "quorate.log.checkpoints",
    "LOG_STARTS": "quorate.log.checkpoints",
    "RECOVERY_POINTS": "quorate.log.checkpoints",
    "TopicPartition": "quorate.log.checkpoints",
    "UnreadableCheckpointError": "quorate.log.checkpoints",
    "decode_lines": "quorate.log.checkpoints",
    "encode_lines": "quorate.log.checkpoints",
    "is_number": "quorate.log.checkpoints",
    "load_offsets": "quorate.log.checkpoints",
    "store_offsets": "quorate.log.checkpoints",
    "Codec": "quorate.log.compression",
    "CompressedDataError": "quorate.log.compression",
    "DecompressedTooLargeError": "quorate.log.compression",
    "compress": "quorate.log.compression",
    "decompress": "quorate.log.compression",
    "decompress_within": "quorate.log.compression",
    "memory_within": "quorate.log.compression",
    "output_sizes": "quorate.log.compression",
    "LEADER_EPOCHS": "quorate.log.epoch_cache",
    "EpochCache": "quorate.log.epoch_cache",
    "BatchTooLargeError": "quorate.log.log_errors",
    "CompactionAbandonedError": "quorate.log.log_errors",
    "DamagedLogError": "quorate.log.log_errors",
    "IncompleteLogError": "quorate.log.log_errors",
    "DamagedSnapshotError": "quorate.log.log_errors",
    "InvalidBatchError": "quorate.log.log_errors",
    "LogError": "quorate.log.log_errors",
    "LogFailedError": "quorate.log.log_errors",
    "LogInterruptedError": "quorate.log.log_errors",
    "OffsetOutOfRangeError": "quorate.log.log_errors",
    "PositionOutOfRangeError": "quorate.log.log_errors",
    "SnapshotMissingError": "quorate.log.log_errors",
    "AppendInfo": "quorate.log.log",
    "Log": "quorate.log.log",
    "LogConfig": "quorate.log.log_config",
    "open_metadata_log": "quorate.log.metadata_recovery",
    "recovered_log": "quorate.log.metadata_recovery",
    "segment_bases": "quorate.log.segments.segment_files",
    "DamagedRange": "quorate.log.segments.segment_check",
    "SegmentFindings": "quorate.log.segments.segment_check",
}

__getattr__ = lazily(__name__, _HOMES)


__all__ = [
    "CLEANED",
    "HIGH_WATERMARKS",
    "LEADER_EPOCHS",
    "LOG_STARTS",
    "RECOVERY_POINTS",
    "AppendInfo",
    "BatchTooLargeError",
    "Codec",
    "CompactionAbandonedError",
    "CompressedDataError",
    "DamagedLogError",
    "DamagedRange",
    "DamagedSnapshotError",
    "DecompressedTooLargeError",
    "EpochCache",
    "IncompleteLogError",
    "InvalidBatchError",
    "Log",
    "LogConfig",
    "LogError",
    "LogFailedError",
    "LogInterruptedError",
    "OffsetOutOfRangeError",
    "PositionOutOfRangeError",
    "SegmentFindings",
    "SnapshotMissingError",
    "TopicPartition",
    "UnreadableCheckpointError",
    "compress",
    "decode_lines",
    "decompress",
    "decompress_within",
    "encode_lines",
    "is_number",
    "load_offsets",
    "memory_within",
    "open_metadata_log",
    "output_sizes",
    "recovered_log",
    "segment_bases",
    "store_offsets",
]
