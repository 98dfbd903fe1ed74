"""The metadata log and the snapshots in a folder, read with plain files while its node runs or not.

Nothing is written and nothing locked. What a live node appends or cuts meanwhile is above the high watermark.
"""

import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from quorate.history.history_errors import (
    DamagedRecordError,
    LogUnavailableError,
    UnknownHighWatermarkError,
    UnreadableFilesError,
)
from quorate.history.metadata_history import METADATA_TOPIC, Extent, MetadataHistory, StoredSnapshot
from quorate.history.slabs import Slab, whole_batches
from quorate.history.snapshot_file import opened_file, read_stored
from quorate.log import (
    HIGH_WATERMARKS,
    DamagedSnapshotError,
    InvalidBatchError,
    UnreadableCheckpointError,
    decode_lines,
    is_number,
)
from quorate.log.batches.batch import HEADER_BYTES, LENGTH_END, MAGIC
from quorate.log.batches.records import records_of
from quorate.log.snapshots.snapshot_file import BOOTSTRAP, SnapshotReader, name_of, parse_name
from quorate.quorum_state import (
    META_PROPERTIES,
    SKIPPED_BATCHES,
    SkippedBatches,
    UnreadableStateError,
    parse_skipped,
)
from quorate.runtime import get_logger
from quorate.types import SnapshotId

_LOG_FOLDER: Final = f"{METADATA_TOPIC}-0"
_LOG_SUFFIX: Final = ".log"
_CHUNK_BYTES: Final = 1024 * 1024
_HEAD = struct.Struct(">qiibIhi")
"""The header as far as the last offset delta."""
_KAFKA_FRAME: Final = b"\x01"
"""The frame version, with which each metadata record of Kafka begins. Those of quorate are CBOR arrays."""
_INDEX_ENTRY = struct.Struct(">ii")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLog(MetadataHistory):
    """A `MetadataHistory` in a node's folder. The node may be running: its high watermark is read from the
    file that it writes now and then."""

    path: str
    """The node's folder, or the log's folder in it."""
    read_uncommitted: bool = False
    """True: read beyond the high watermark. Records there may still be truncated."""

    @property
    def place(self) -> str:
        """Return the path of the folder, for messages."""
        return self.path

    @property
    def _folder(self) -> str:
        inside = os.path.join(self.path, _LOG_FOLDER)
        folder = inside if os.path.isdir(inside) else self.path
        if not os.path.isdir(folder):
            raise UnreadableFilesError(
                f"{self.path} is not a folder on this machine; path must be a node's folder "
                "(metadata.log.dir)"
            )
        return folder

    def extent(self, *, at_least: int = 0) -> Extent:
        """Return what may be read now. See `MetadataHistory.extent`. Raises also
        `UnknownHighWatermarkError`."""
        folder = self._folder
        names = _names(folder)
        bases = _segment_bases(names)
        if not bases:
            raise UnreadableFilesError(
                f"{folder} has no segment of a metadata log; path must be a node's folder "
                f"(metadata.log.dir) or the {_LOG_FOLDER} in it"
            )
        # A snapshot holds what is committed, and the high watermark's file may be older than it.
        known = max((each.end_offset for each in _snapshot_ids(names)), default=bases[0])
        if self.read_uncommitted:
            end = self._written_end(folder, bases)
        else:
            end = self._high_watermark(folder, bases)
        return Extent(
            cluster=_cluster_id(folder), start_offset=bases[0], end_offset=max(bases[0], known, end)
        )

    def _high_watermark(self, folder: str, bases: Sequence[int]) -> int:
        path = os.path.join(folder, HIGH_WATERMARKS)
        data = _content(path)
        if data is None:
            if self._log_end(folder, bases) == bases[0]:
                return bases[0]
            if _is_of_kafka(_Segment(folder, bases[0])):
                # No UnreadableFilesError, which a read of uncommitted records gets over.
                raise LogUnavailableError(
                    f"{folder} is the metadata log of an Apache Kafka node, whose records are of another "
                    "form; path must be the folder of a node of quorate (metadata.log.dir)"
                )
            raise UnknownHighWatermarkError(
                f"{path} is missing, so that it is not known which records are committed. The node writes it "
                "while it runs and when it stops"
            )
        try:
            lines = decode_lines(path, data)
        except UnreadableCheckpointError as error:
            raise UnreadableFilesError(str(error)) from error
        for line in lines:
            match line.split(" "):
                case [topic, "0", offset] if topic == METADATA_TOPIC and is_number(offset):
                    return int(offset)
        raise UnreadableFilesError(f"{path} does not say how far {METADATA_TOPIC} 0 is committed")

    def _written_end(self, folder: str, bases: Sequence[int]) -> int:
        """Never below the high watermark, as far as that is known: damage to what is committed is no end."""
        try:
            committed = self._high_watermark(folder, bases)
        except UnreadableFilesError:
            committed = 0
        return max(self._log_end(folder, bases), committed)

    def _log_end(self, folder: str, bases: Sequence[int]) -> int:
        end = bases[-1]
        for slab in _Segment(folder, end).slabs(end, None):
            end = slab.batch(-1).header.end_offset
        return end

    def slabs(self, start: int, end: int) -> Iterator[Slab]:
        """Yield the batches that hold [start, end). See `MetadataHistory.slabs`."""
        folder = self._folder
        bases = _segment_bases(_names(folder))
        first = max(0, bisect_right(bases, start) - 1)
        for base in bases[first:]:
            if base >= end:
                return
            yield from _Segment(folder, base).slabs(start, end)

    def snapshots(self, warn: Callable[[str], None]) -> Sequence[StoredSnapshot]:
        """Return the snapshots in the folder. See `MetadataHistory.snapshots`."""
        folder = self._folder
        found = []
        for snapshot in _snapshot_ids(_names(folder)):
            try:
                found.append(read_stored(os.path.join(folder, name_of(snapshot)), snapshot))
            except DamagedSnapshotError as error:
                warn(str(error))
        # The node may have deleted one since.
        return [each for each in found if each is not None]

    def opened(self, snapshot: SnapshotId) -> AbstractContextManager[SnapshotReader]:
        """Open a snapshot. See `MetadataHistory.opened`."""
        return opened_file(os.path.join(self._folder, name_of(snapshot)), snapshot)

    def skipped(self) -> SkippedBatches:
        """Return the batches that `quorate log skip` had this node leave out."""
        path = os.path.join(self._folder, SKIPPED_BATCHES)
        data = _content(path)
        try:
            return SkippedBatches() if data is None else parse_skipped(path, data)
        except UnreadableStateError as error:
            raise UnreadableFilesError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Segment:
    folder: str
    base_offset: int

    @property
    def _stem(self) -> str:
        return os.path.join(self.folder, f"{self.base_offset:020}")

    def slabs(self, start: int, end: int | None) -> Iterator[Slab]:
        """The batches that end above `start` and begin below `end`. With `end` None: up to what is not
        whole."""
        path = self._stem + _LOG_SUFFIX
        try:
            with open(path, "rb") as file:
                position = self._position_near(start, file.fileno())
                while True:
                    file.seek(position)
                    buffer = file.read(_CHUNK_BYTES)
                    size = _size_of_first(buffer)
                    if size is not None and size > len(buffer):
                        file.seek(position)
                        buffer = file.read(size)
                    slab, used = _whole_batches(buffer, path, position, start, end)
                    if slab.positions:
                        yield slab
                    if not used:
                        return
                    position += used
        except OSError as error:
            raise UnreadableFilesError(f"{path}: {error.strerror}") from error

    def _position_near(self, offset: int, fd: int) -> int:
        """Return the position of a batch. All batches before it end at or below `offset`."""
        data = _content(self._stem + ".index") or b""
        entries = list(_INDEX_ENTRY.iter_unpack(data[: len(data) // _INDEX_ENTRY.size * _INDEX_ENTRY.size]))
        index = bisect_right([last for last, _ in entries], offset - self.base_offset)
        if not index:
            return 0
        last, position = entries[index - 1]
        head = os.pread(fd, _HEAD.size, position) if position >= 0 else b""
        if len(head) == _HEAD.size:
            base, length, _, magic, _, _, delta = _HEAD.unpack(head)
            # The index is a hint, and may be wrong after a crash.
            if magic == MAGIC and length > 0 and base + delta - self.base_offset == last:
                return int(position)
        return 0


def _is_of_kafka(segment: _Segment) -> bool:
    for slab in segment.slabs(segment.base_offset, None):
        for batch in slab.batches():
            if not batch.header.is_control:
                try:
                    value = records_of(batch)[0].value or b""
                except InvalidBatchError:
                    return False
                return value.startswith(_KAFKA_FRAME)
    return False


def _size_of_first(buffer: bytes) -> int | None:
    """Return the size of the first batch in `buffer`. None: `buffer` has not its whole header."""
    if len(buffer) < HEADER_BYTES:
        return None
    return int.from_bytes(buffer[8:12], "big") + LENGTH_END


def _whole_batches(buffer: bytes, path: str, position: int, start: int, end: int | None) -> tuple[Slab, int]:
    """As `whole_batches`, of the bytes of a file from `position` on. With `end` None damage is taken for the
    end of the log."""
    try:
        return whole_batches(buffer, start=start, end=end)
    except InvalidBatchError as error:
        if end is not None:
            raise DamagedRecordError(f"{path}, byte {position + error.position}: {error.problem}") from error
        log.warning(
            "damage is taken for the end of the log",
            path=path,
            position=position + error.position,
            problem=error.problem,
        )
        return whole_batches(buffer[: error.position], start=start)


def _content(path: str) -> bytes | None:
    """Return the content of a small file. None: there is no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFilesError(f"{path}: {error.strerror}") from error


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise UnreadableFilesError(f"{folder}: {error.strerror}") from error


def _segment_bases(names: Sequence[str]) -> list[int]:
    stems = (name.removesuffix(_LOG_SUFFIX) for name in names if name.endswith(_LOG_SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())


def _snapshot_ids(names: Sequence[str]) -> list[SnapshotId]:
    found = (parse_name(name) for name in names)
    return sorted(each for each in found if each is not None and each != BOOTSTRAP)


def _cluster_id(folder: str) -> str:
    """Return the cluster id in the node's `meta.properties`. Empty: there is no such file, only the log."""
    path = os.path.join(folder, os.pardir, META_PROPERTIES)
    try:
        text = (_content(path) or b"").decode("ascii")
    except UnicodeDecodeError as error:
        raise UnreadableFilesError(f"{path}: {error}") from error
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "cluster.id":
            return value.strip()
    return ""
