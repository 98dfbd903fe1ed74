"""A committed metadata log, wherever it is, and what can be found out about it by reading."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from quorate.history.slabs import Slab
from quorate.log.batches.batch import Batch
from quorate.log.batches.records import records_of
from quorate.log.snapshots.snapshot_file import SnapshotReader
from quorate.quorum_state import SkippedBatches
from quorate.types import SnapshotId

METADATA_TOPIC: Final = "__cluster_metadata"
CLIENT_ID: Final = "quorate-history"
"""What readers of a cluster call themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The readable part of the log: offsets [start_offset, end_offset). What is before the end is committed,
    unless the reader was told to read on."""

    cluster: str
    """The cluster's id. Empty: it is unknown."""
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, order=True)
class StoredSnapshot:
    """A snapshot that can be read in place of the records before its end."""

    snapshot: SnapshotId
    last_timestamp_ms: int
    """The time of its last record."""

    @property
    def end_offset(self) -> int:
        """The end (exclusive) of the records that it stands for."""
        return self.snapshot.end_offset


@dataclass(frozen=True, slots=True)
class BatchMark:
    """The mark of a record batch. One of the same offsets, in another log or one that was cut, differs."""

    leader_epoch: int
    crc: int

    def __str__(self) -> str:
        return f"epoch {self.leader_epoch} and CRC {self.crc:08x}"


class MetadataHistory(ABC):
    """The metadata log from some offset on, and snapshots in place of the records before that. Picklable: it
    holds no file and no connection, and each call opens its own."""

    __slots__ = ()

    @property
    @abstractmethod
    def place(self) -> str:
        """The place of the history, for messages."""

    @abstractmethod
    def extent(self, *, at_least: int = 0) -> Extent:
        """Return the readable part of the log. `at_least`: an end that is known to be committed. A broker may
        not know it yet, so others are asked, several times. If none does, the extent that ends last is
        returned. Raises `LogUnavailableError`."""

    @abstractmethod
    def slabs(self, start: int, end: int) -> Iterator[Slab]:
        """Yield whole, undamaged batches in order, from the one that holds `start` or the next after it,
        while they begin below `end`. It ends early where the log does. Raises `LogUnavailableError`;
        `DamagedRecordError`."""

    @abstractmethod
    def snapshots(self, warn: Callable[[str], None]) -> Sequence[StoredSnapshot]:
        """Return the snapshots, ascending. `warn` gets the problems of those that are damaged. Raises
        `LogUnavailableError`."""

    @abstractmethod
    def opened(self, snapshot: SnapshotId) -> AbstractContextManager[SnapshotReader]:
        """Open a snapshot for a block: its contents, and the metadata records in it, as they are in the log.
        Raises `LogUnavailableError`, if the snapshot was deleted meanwhile too; `DamagedSnapshotError`, after
        which no loaded state may be kept."""

    @abstractmethod
    def skipped(self) -> SkippedBatches:
        """Return the batches that the node leaves out, because an operator said so: its image is without
        them. Raises `LogUnavailableError`."""

    def batches(self, start: int, end: int) -> Iterator[Batch]:
        """Yield the batches of `slabs` one by one. Raises as that."""
        for slab in self.slabs(start, end):
            for batch in slab.batches():
                if batch.header.base_offset >= end:
                    return
                yield batch


def mark_before(history: MetadataHistory, offset: int, extent: Extent) -> BatchMark | None:
    """Return the mark of the batch with the record before `offset`; None if the log does not have it."""
    if not extent.start_offset < offset <= extent.end_offset:
        return None
    for batch in history.batches(offset - 1, offset):
        if batch.header.base_offset < offset <= batch.header.end_offset:
            return BatchMark(batch.header.leader_epoch, batch.header.crc)
    return None


def offset_for_timestamp(history: MetadataHistory, timestamp_ms: int, extent: Extent) -> int | None:
    """Return the first offset whose timestamp is `timestamp_ms` or later; None if there is none.

    It is found by reading: a new leader's clock may be behind, so that timestamps are not in order.
    """
    for batch in history.batches(extent.start_offset, extent.end_offset):
        if batch.header.max_timestamp >= timestamp_ms:
            for record in records_of(batch):
                if record.timestamp >= timestamp_ms and record.offset < extent.end_offset:
                    return record.offset
    return None
