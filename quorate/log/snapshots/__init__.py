"""Snapshot files: their names and their content, reading and writing (KIP-630)."""

from quorate.log.snapshots.snapshot_file import SnapshotContents, SnapshotReader, name_of, parse_name, verify
from quorate.log.snapshots.snapshot_survey import BOOTSTRAP
from quorate.log.snapshots.snapshot_writer import PART_SUFFIX, SnapshotWriter
from quorate.log.snapshots.snapshots import SnapshotStore

__all__ = [
    "BOOTSTRAP",
    "PART_SUFFIX",
    "SnapshotContents",
    "SnapshotReader",
    "SnapshotStore",
    "SnapshotWriter",
    "name_of",
    "parse_name",
    "verify",
]
