"""The directories of `log.dirs`, and the logs in them (KIP-113, KIP-858)."""

from quorate.broker.replication.storage.damaged_folders import SetAsideFolder
from quorate.broker.replication.storage.directory_files import (
    NO_PROOF,
    PartitionIdentity,
    Proof,
    UnreadablePartitionMetadataError,
    folder_name,
    load_partition_metadata,
    newest_proof,
    parse_folder_name,
)
from quorate.broker.replication.storage.directory_report import (
    DirectoriesView,
    DirectoryReport,
    FutureProgress,
)
from quorate.broker.replication.storage.failure_reason import failure_reason
from quorate.broker.replication.storage.foreign_folders import ForeignFolderError
from quorate.broker.replication.storage.future_folders import MOVED_MARK, UnreadableMovedMarkError
from quorate.broker.replication.storage.log_directory import LogDirectory
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.replication.storage.log_starts import LogStarts
from quorate.broker.replication.storage.partition_folders import PartitionFolders
from quorate.broker.replication.storage.replica_directories import BadDirectory, Directory, may_open

__all__ = [
    "MOVED_MARK",
    "NO_PROOF",
    "BadDirectory",
    "DirectoriesView",
    "Directory",
    "DirectoryReport",
    "ForeignFolderError",
    "FutureProgress",
    "LogDirectory",
    "LogManager",
    "LogStarts",
    "PartitionFolders",
    "PartitionIdentity",
    "Proof",
    "SetAsideFolder",
    "UnreadableMovedMarkError",
    "UnreadablePartitionMetadataError",
    "failure_reason",
    "folder_name",
    "load_partition_metadata",
    "may_open",
    "newest_proof",
    "parse_folder_name",
]
