"""A node's folder: its identity, vote, log and snapshots, opened together."""

from quorate.raft.storage.skipped_batches import SkippedBatch, SkippedBatches, load_skipped
from quorate.raft.storage.skipping import skip_batch
from quorate.raft.storage.storage import LOCK_FILE, LOG_FOLDER, Storage, format_folder, open_storage

__all__ = [
    "LOCK_FILE",
    "LOG_FOLDER",
    "SkippedBatch",
    "SkippedBatches",
    "Storage",
    "format_folder",
    "load_skipped",
    "open_storage",
    "skip_batch",
]
