"""The history of a cluster's metadata, read from outside: from a folder, a snapshot file or a live cluster.

`FolderLog`, `SnapshotFile` and `ClusterLog` are the places, each a `MetadataHistory`: batches of the log from
some offset on, and snapshots in place of the records before that. `entries_of` takes a batch apart.

Nothing is written and nothing locked. Names are imported at their first use: a folder is read without the
client, and without the event loop, of a live cluster.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.history import entries, slabs
    from quorate.history.cluster import ClusterLog, newest_first
    from quorate.history.entries import Entry, entries_of, record_json
    from quorate.history.folder import FolderLog
    from quorate.history.history_errors import (
        DamagedRecordError,
        HistoryError,
        LogUnavailableError,
        SnapshotNameError,
        UnknownHighWatermarkError,
        UnreadableFilesError,
    )
    from quorate.history.metadata_history import (
        METADATA_TOPIC,
        BatchMark,
        Extent,
        MetadataHistory,
        StoredSnapshot,
        mark_before,
        offset_for_timestamp,
    )
    from quorate.history.snapshot_file import SnapshotFile, snapshot_of

_HOMES = {
    "ClusterLog": "quorate.history.cluster",
    "newest_first": "quorate.history.cluster",
    "Entry": "quorate.history.entries",
    "entries_of": "quorate.history.entries",
    "record_json": "quorate.history.entries",
    "FolderLog": "quorate.history.folder",
    "DamagedRecordError": "quorate.history.history_errors",
    "HistoryError": "quorate.history.history_errors",
    "LogUnavailableError": "quorate.history.history_errors",
    "SnapshotNameError": "quorate.history.history_errors",
    "UnknownHighWatermarkError": "quorate.history.history_errors",
    "UnreadableFilesError": "quorate.history.history_errors",
    "METADATA_TOPIC": "quorate.history.metadata_history",
    "BatchMark": "quorate.history.metadata_history",
    "Extent": "quorate.history.metadata_history",
    "MetadataHistory": "quorate.history.metadata_history",
    "StoredSnapshot": "quorate.history.metadata_history",
    "mark_before": "quorate.history.metadata_history",
    "offset_for_timestamp": "quorate.history.metadata_history",
    "SnapshotFile": "quorate.history.snapshot_file",
    "snapshot_of": "quorate.history.snapshot_file",
}

__getattr__ = lazily(__name__, _HOMES)


__all__ = [
    "METADATA_TOPIC",
    "BatchMark",
    "ClusterLog",
    "DamagedRecordError",
    "Entry",
    "Extent",
    "FolderLog",
    "HistoryError",
    "LogUnavailableError",
    "MetadataHistory",
    "SnapshotFile",
    "SnapshotNameError",
    "StoredSnapshot",
    "UnknownHighWatermarkError",
    "UnreadableFilesError",
    "entries",
    "entries_of",
    "mark_before",
    "newest_first",
    "offset_for_timestamp",
    "record_json",
    "slabs",
    "snapshot_of",
]
