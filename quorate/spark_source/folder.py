"""The metadata log in a folder, read with plain files while its node runs or not.

Nothing is written and nothing locked. What a live node appends or cuts meanwhile is above the high watermark.
"""

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.log import HIGH_WATERMARKS, InvalidBatchError, UnreadableCheckpointError, decode_lines, is_number
from quorate.log.batches.batch import HEADER_BYTES, LENGTH_END, MAGIC, Batch, read_header
from quorate.spark_source.access import Extent
from quorate.spark_source.source_options import TOPIC
from quorate.spark_source.spark_errors import DamagedRecordError, LogUnavailableError
from quorate.spark_source.warnings_log import get_logger

LOG_FOLDER: Final = f"{TOPIC}-0"
_LOG_SUFFIX: Final = ".log"
_CHUNK_BYTES: Final = 1024 * 1024
_HEAD = struct.Struct(">qiibIhi")
"""The header as far as the last offset delta."""
_INDEX_ENTRY = struct.Struct(">ii")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLog:
    """A `LogAccess` to the metadata log in a node's folder."""

    path: str
    """The node's folder, or the log's folder in it."""
    read_uncommitted: bool = False

    @property
    def place(self) -> str:
        """Return the path of the folder, for messages."""
        return self.path

    @property
    def _folder(self) -> str:
        inside = os.path.join(self.path, LOG_FOLDER)
        folder = inside if os.path.isdir(inside) else self.path
        if not os.path.isdir(folder):
            raise LogUnavailableError(
                f"{self.path} is not a folder on this machine; path must be a node's folder "
                "(metadata.log.dir)"
            )
        return folder

    def extent(self, *, at_least: int = 0) -> Extent:
        """Return what may be read now. See `LogAccess.extent`."""
        folder = self._folder
        bases = _segment_bases(folder)
        if not bases:
            raise LogUnavailableError(
                f"{folder} has no segment of a metadata log; path must be a node's folder "
                f"(metadata.log.dir) or the {LOG_FOLDER} in it"
            )
        end = (
            self._written_end(folder, bases) if self.read_uncommitted else self._high_watermark(folder, bases)
        )
        return Extent(cluster=_cluster_id(folder), start_offset=bases[0], end_offset=max(bases[0], end))

    def _high_watermark(self, folder: str, bases: Sequence[int]) -> int:
        path = os.path.join(folder, HIGH_WATERMARKS)
        try:
            with open(path, "rb") as file:
                lines = decode_lines(path, file.read())
        except FileNotFoundError:
            if self._log_end(folder, bases) == bases[0]:
                return bases[0]
            raise LogUnavailableError(
                f"{path} is missing, so that it is not known which records are committed. The node writes it "
                "while it runs and when it stops; or set readUncommitted=true to read all there is"
            ) from None
        except (UnreadableCheckpointError, OSError) as error:
            raise LogUnavailableError(str(error)) from error
        for line in lines:
            match line.split(" "):
                case [topic, "0", offset] if topic == TOPIC and is_number(offset):
                    return int(offset)
        raise LogUnavailableError(f"{path} does not say how far {TOPIC} 0 is committed")

    def _written_end(self, folder: str, bases: Sequence[int]) -> int:
        """Never below the high watermark, as far as that is known: damage to what is committed is no end."""
        try:
            committed = self._high_watermark(folder, bases)
        except LogUnavailableError:
            committed = 0
        return max(self._log_end(folder, bases), committed)

    def _log_end(self, folder: str, bases: Sequence[int]) -> int:
        end = bases[-1]
        for batch in _Segment(folder, end).batches(end, None):
            end = batch.header.end_offset
        return end

    def batches(self, start: int, end: int) -> Iterator[Batch]:
        """Yield the batches that hold [start, end). See `LogAccess.batches`."""
        folder = self._folder
        bases = _segment_bases(folder)
        first = max(0, bisect_right(bases, start) - 1)
        for base in bases[first:]:
            if base >= end:
                return
            yield from _Segment(folder, base).batches(start, end)


@dataclass(frozen=True, slots=True)
class _Segment:
    folder: str
    base_offset: int

    @property
    def _stem(self) -> str:
        return os.path.join(self.folder, f"{self.base_offset:020}")

    def batches(self, start: int, end: int | None) -> Iterator[Batch]:
        """Those that end above `start` and begin below `end`. With `end` None: up to what is not whole."""
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
                    used = 0
                    for batch in _whole_batches(buffer, path, position, end):
                        used = batch.header.position + batch.header.size
                        if batch.header.end_offset > start:
                            yield batch
                    if not used:
                        return
                    position += used
        except OSError as error:
            raise LogUnavailableError(f"{path}: {error.strerror}") from error

    def _position_near(self, offset: int, fd: int) -> int:
        """Return the position of a batch. All batches before it end at or below `offset`."""
        try:
            with open(self._stem + ".index", "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return 0
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


def _size_of_first(buffer: bytes) -> int | None:
    """Return the size of the first batch in `buffer`. None: `buffer` has not its whole header."""
    if len(buffer) < HEADER_BYTES:
        return None
    return int.from_bytes(buffer[8:12], "big") + LENGTH_END


def _whole_batches(buffer: bytes, path: str, position: int, end: int | None) -> Iterator[Batch]:
    """Yield the whole batches in `buffer` that begin below `end`.

    A batch at or above `end` is not read, because the node may be writing it.
    """
    view = memoryview(buffer)
    at = 0
    while len(buffer) - at >= HEADER_BYTES:
        base = int.from_bytes(view[at : at + 8], "big", signed=True)
        size = int.from_bytes(view[at + 8 : at + 12], "big") + LENGTH_END
        if at + size > len(buffer) or (end is not None and base >= end):
            return
        if not any(view[at : at + HEADER_BYTES]):
            return  # space that a running node has reserved
        try:
            header = read_header(buffer, at, dense=False)
        except InvalidBatchError as error:
            if end is None:
                log.warning("%s, byte %d: the log ends here: %s", path, position + at, error.problem)
                return
            raise DamagedRecordError(f"{path}, byte {position + at}: {error.problem}") from error
        at += size
        yield Batch(header, view[header.position : at])


def _segment_bases(folder: str) -> list[int]:
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise LogUnavailableError(f"{folder}: {error.strerror}") from error
    stems = (name.removesuffix(_LOG_SUFFIX) for name in names if name.endswith(_LOG_SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())


def _cluster_id(folder: str) -> str:
    """Return the cluster id in the node's `meta.properties`. Empty: there is no such file, only the log."""
    try:
        with open(os.path.join(folder, os.pardir, "meta.properties"), encoding="ascii") as file:
            for line in file:
                key, _, value = line.partition("=")
                if key.strip() == "cluster.id":
                    return value.strip()
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise LogUnavailableError(f"meta.properties beside {folder}: {error}") from error
    return ""
