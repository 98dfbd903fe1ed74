"""A snapshot's file (KIP-630): its name, and its batches, each checked as it is read.

A SnapshotHeader, the LeaderChange of the snapshot's epoch (KIP-630 has none: who leads would be lost with the
log), the voters if they are in the log (KRaftVersion and KRaftVoters), the state in data batches, one record
to each chunk that the state machine gave, and a SnapshotFooter with the digest of the state. Offsets count
from 0 in the file, and every batch is of the snapshot's epoch.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from quorate.log.batches.batch import HEADER_BYTES, Batch, read_header, stated_size
from quorate.log.batches.control import (
    ControlType,
    control_records_of,
    read_kraft_version,
    read_snapshot_footer,
    read_snapshot_header,
    read_snapshot_version,
    read_voters,
)
from quorate.log.batches.records import Record, records_of
from quorate.log.log_errors import DamagedSnapshotError, InvalidBatchError
from quorate.log.segments.walk import ReadRequest, Steps, read_now
from quorate.runtime import ReadableFile
from quorate.types import Epoch, Offset, SnapshotId, StateDigest, VoterSet

SUFFIX = ".checkpoint"
MAX_CHUNK_BYTES = 8 * 1024 * 1024
"""The maximum size of a record, and so of a state machine's chunk."""
MAX_BATCH_BYTES = MAX_CHUNK_BYTES + 1024
"""The maximum size of a batch, and so of the memory for reading a snapshot."""
_READ_BYTES = 1024 * 1024
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
BOOTSTRAP = SnapshotId(Offset(0), Epoch(0))
"""The snapshot of the first voters, without any record of the log."""


def name_of(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020}-{snapshot.epoch:010}{SUFFIX}"


def parse_name(name: str) -> SnapshotId | None:
    """Return the id in a file name. None: it is not a snapshot's file."""
    match = _NAME.fullmatch(name)
    return None if match is None else SnapshotId(Offset(int(match[1])), Epoch(int(match[2])))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotContents:
    """The description of a snapshot, from its own control records."""

    snapshot: SnapshotId
    size_bytes: int
    last_timestamp_ms: int
    """The timestamp of the last record of the log that it holds."""
    leader_change: bytes | None
    """The value of its epoch's LeaderChange record. None: it is of quorate 0.2 or older."""
    voters: VoterSet | None
    """The voters. None: they are not in the log (kraft.version 0)."""
    state_version: int = 0
    """The version of the state machine's code that its state and the next records may need."""
    state: StateDigest | None = None
    """The digest of the state, which stands at the end. None: the end was not read, or has none."""


class SnapshotScan:
    """Reads `file` once, from the first byte to the last. Holds one batch, or one read, in memory."""

    __slots__ = (
        "_chunk",
        "_chunk_start",
        "_ended",
        "_file",
        "_leader_change",
        "_next_offset",
        "_position",
        "_size",
        "_snapshot",
        "_state",
        "_state_version",
        "_timestamp",
        "_voters",
    )

    def __init__(self, file: ReadableFile, snapshot: SnapshotId) -> None:
        self._file = file
        self._snapshot = snapshot
        self._size = file.size
        self._position = self._chunk_start = self._next_offset = 0
        self._chunk = b""
        self._timestamp: int | None = None
        self._leader_change: bytes | None = None
        self._voters: VoterSet | None = None
        self._state: StateDigest | None = None
        self._state_version = 0
        self._ended = False

    @property
    def position(self) -> int:
        """The number of bytes that were checked."""
        return self._position

    @property
    def contents(self) -> SnapshotContents:
        """The contents as far as they were read, after the first `next`. Voters and digest may follow."""
        if self._timestamp is None:
            raise self.damaged("no SnapshotHeader")
        return SnapshotContents(
            snapshot=self._snapshot,
            size_bytes=self._size,
            last_timestamp_ms=self._timestamp,
            leader_change=self._leader_change,
            voters=self._voters,
            state_version=self._state_version,
            state=self._state,
        )

    def next(self) -> Steps[Batch | None]:
        """Return the next batch of state. None: the footer was read. Raises `DamagedSnapshotError`."""
        while not self._ended:
            batch = yield from self._read_batch()
            if not batch.header.is_control:
                if self._timestamp is None:
                    raise self.damaged("the first batch is no SnapshotHeader")
                self._advance(batch)
                return batch
            self._take_control(batch)
            self._advance(batch)
            if self._ended and self._position != self._size:
                raise self.damaged(f"{self._size - self._position} bytes follow the SnapshotFooter")
        return None

    def records(self, batch: Batch) -> list[Record]:
        """Decode the records of the batch that `next` returned last. Raises `DamagedSnapshotError`."""
        try:
            return records_of(batch)
        except InvalidBatchError as error:
            raise self.damaged(error.problem) from error

    def damaged(self, problem: str) -> DamagedSnapshotError:
        return DamagedSnapshotError(self._file.path, self._position, problem, snapshot=self._snapshot)

    def _read_batch(self) -> Steps[Batch]:
        left = self._size - self._position
        if left < HEADER_BYTES:
            raise self.damaged(f"it ends after {left} bytes of a batch, before its SnapshotFooter")
        yield from self._fill_chunk(HEADER_BYTES)
        size = stated_size(self._chunk, self._position - self._chunk_start)
        if HEADER_BYTES <= size <= min(left, MAX_BATCH_BYTES):
            yield from self._fill_chunk(size)
        at = self._position - self._chunk_start
        try:
            header = read_header(self._chunk, at, max_bytes=MAX_BATCH_BYTES)
        except InvalidBatchError as error:
            raise self.damaged(error.problem) from error
        if header.base_offset != self._next_offset:
            raise self.damaged(f"base offset {header.base_offset}, expected {self._next_offset}")
        if header.leader_epoch != self._snapshot.epoch:
            raise self.damaged(f"epoch {header.leader_epoch}, expected {self._snapshot.epoch}")
        return Batch(header, memoryview(self._chunk)[at : at + header.size])

    def _fill_chunk(self, size: int) -> Steps[None]:
        if self._position - self._chunk_start + size > len(self._chunk):
            wanted = min(max(size, _READ_BYTES), self._size - self._position)
            self._chunk = yield ReadRequest(self._file, self._position, wanted)
            self._chunk_start = self._position
            if len(self._chunk) < wanted:
                raise self.damaged(f"{len(self._chunk)} bytes where {wanted} should be")

    def _advance(self, batch: Batch) -> None:
        self._position += batch.header.size
        self._next_offset = batch.header.end_offset

    def _take_control(self, batch: Batch) -> None:
        try:
            for record, kind in control_records_of(batch):
                if (kind is ControlType.SNAPSHOT_HEADER) != (record.offset == 0):
                    raise ValueError("a SnapshotHeader must be the first record, and the only one")
                match kind:
                    case ControlType.SNAPSHOT_HEADER:
                        self._timestamp = read_snapshot_header(record.value or b"")
                        self._state_version = read_snapshot_version(record.value or b"")
                    case ControlType.LEADER_CHANGE:
                        self._leader_change = record.value
                    case ControlType.KRAFT_VOTERS:
                        self._voters = read_voters(record.value or b"")
                    case ControlType.KRAFT_VERSION:
                        read_kraft_version(record.value or b"")
                    case ControlType.SNAPSHOT_FOOTER:
                        self._state = read_snapshot_footer(record.value or b"")
                        self._ended = True
                    case _:
                        pass  # newer types are skipped
        except InvalidBatchError as error:
            raise self.damaged(error.problem) from error
        except ValueError as error:
            raise self.damaged(str(error)) from error


def read_head(file: ReadableFile, snapshot: SnapshotId) -> SnapshotContents:
    """Read the first batches, which describe the snapshot. Raises `DamagedSnapshotError`."""
    scan = SnapshotScan(file, snapshot)
    read_now(scan.next())
    return scan.contents


class SnapshotReader:
    """An open snapshot, to be loaded: iterate over it once, and close it.

    It reads a batch (about 1 MiB) at a time, with plain calls. The loader of a large snapshot pauses between
    chunks.
    """

    def __init__(self, file: ReadableFile, snapshot: SnapshotId) -> None:
        """Raises `DamagedSnapshotError`, `DiskError`; `file` is then closed."""
        self._file = file
        self._scan = SnapshotScan(file, snapshot)
        try:
            self._first = read_now(self._scan.next())
        except BaseException:
            file.close()
            raise

    @property
    def contents(self) -> SnapshotContents:
        """The contents as far as they were read: the digest stands at the end."""
        return self._scan.contents

    def __iter__(self) -> Iterator[bytes]:
        """Yield the state machine's chunks, in order. Raises `DamagedSnapshotError`, after which no loaded
        state may be kept, and `DiskError`."""
        batch = self._first
        while batch is not None:
            for record in self._scan.records(batch):
                yield record.value or b""
            batch = read_now(self._scan.next())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
