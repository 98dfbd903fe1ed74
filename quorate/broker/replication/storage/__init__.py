"""The directories of `log.dirs`, and the logs in them (KIP-113, KIP-858)."""

from quorate.broker.replication.storage.folders import (
    MOVED_MARK,
    ForeignFolderError,
    PartitionIdentity,
    UnreadableMovedMarkError,
    UnreadablePartitionMetadataError,
    fits_future_name,
    folder_name,
    load_partition_metadata,
    parse_folder_name,
)
from quorate.broker.replication.storage.future_logs import FutureLogs
from quorate.broker.replication.storage.log_directory import (
    BadDirectory,
    Directory,
    DirectoryReport,
    FutureProgress,
    LogDirectory,
    failure_reason,
)
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.replication.storage.partition_folders import PartitionFolders
from quorate.broker.replication.storage.proofs import NO_PROOF, Proof, newest_proof

__all__ = [
    "MOVED_MARK",
    "NO_PROOF",
    "BadDirectory",
    "Directory",
    "DirectoryReport",
    "ForeignFolderError",
    "FutureLogs",
    "FutureProgress",
    "LogDirectory",
    "LogManager",
    "PartitionFolders",
    "PartitionIdentity",
    "Proof",
    "UnreadableMovedMarkError",
    "UnreadablePartitionMetadataError",
    "failure_reason",
    "fits_future_name",
    "folder_name",
    "load_partition_metadata",
    "newest_proof",
    "parse_folder_name",
]
