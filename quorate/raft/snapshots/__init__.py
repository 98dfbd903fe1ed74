"""Taking, sending, fetching, loading and deleting snapshots (KIP-630)."""

from quorate.raft.snapshots.snapshot_cleaning import Retention
from quorate.raft.snapshots.snapshot_keeping import Snapshots
from quorate.raft.snapshots.snapshot_taking import SnapshotTriggers

__all__ = ["Retention", "SnapshotTriggers", "Snapshots"]
