"""The high watermark of the metadata log, stored for readers of the folder without its node.

A hint, and a lower bound: the quorum itself never reads it, and learns its high watermark from the leader.
Kafka's format and file name, but in the log's own folder: the file of that name in the parent folder is the
replica manager's where metadata and partitions share a directory.
"""

from typing import Final

import trio

from quorate.log import (
    HIGH_WATERMARKS,
    TopicPartition,
    UnreadableCheckpointError,
    load_offsets,
    store_offsets,
)
from quorate.runtime import Disk, get_logger
from quorate.types import Offset

log = get_logger(__name__)

METADATA_PARTITION: Final[TopicPartition] = ("__cluster_metadata", 0)


class WatermarkCheckpoint:
    """Keeps `replication-offset-checkpoint` in `log_folder` up to date."""

    __slots__ = ("_disk", "_high_watermark", "_interval_ms", "_path", "_stored", "_wake")

    def __init__(self, disk: Disk, log_folder: str, *, end_offset: Offset, interval_ms: int = 1000) -> None:
        """`end_offset`: the log's. An unreadable file, or one with an offset above that, is ignored with a
        warning and overwritten as soon as the high watermark is known: no vote, commit or apply depends on
        it. Raises `UnreadableCheckpointError` for one that a newer quorate wrote, and `DiskError`."""
        self._disk = disk
        self._path = f"{log_folder}/{HIGH_WATERMARKS}"
        self._interval_ms = interval_ms
        self._high_watermark = self._stored = _load_believable(disk, log_folder, end_offset)
        self._wake = trio.Event()

    def note_high_watermark(self, high_watermark: Offset) -> None:
        """Note the high watermark (exclusive). The records below it are durable on a majority, maybe not yet
        on this node. A lower one has no effect."""
        if self._high_watermark is None or high_watermark > self._high_watermark:
            self._high_watermark = high_watermark
            self._wake.set()

    async def run(self) -> None:
        """Write the high watermark when it has moved, once per interval. Runs until cancelled. Raises
        `DiskError`."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            await self.store()
            await trio.sleep(self._interval_ms / 1000)

    async def store(self) -> None:
        """Write the high watermark now, if it has moved. It is durable when this returns. If cancelled, the
        file has the old or the new offset. Raises `DiskError`."""
        high_watermark = self._high_watermark
        if high_watermark is not None and high_watermark != self._stored:
            await store_offsets(self._disk, self._path, {METADATA_PARTITION: high_watermark})
            self._stored = high_watermark


def load_high_watermark(disk: Disk, log_folder: str) -> Offset | None:
    """Return the stored high watermark (exclusive), or None. Raises `UnreadableCheckpointError`."""
    return load_offsets(disk, f"{log_folder}/{HIGH_WATERMARKS}").get(METADATA_PARTITION)


def _load_believable(disk: Disk, log_folder: str, end_offset: Offset) -> Offset | None:
    try:
        stored = load_high_watermark(disk, log_folder)
    except UnreadableCheckpointError as error:
        if error.is_newer:
            raise
        problem = error.problem
    else:
        if stored is None or stored <= end_offset:
            return stored
        # After a power loss, or a flipped bit. Readers would get it until the high watermark passes it.
        problem = f"it says {stored}, and the log ends at {end_offset}"
    log.warning(
        "the stored high watermark can't be believed, and is written anew once the quorum tells it",
        path=f"{log_folder}/{HIGH_WATERMARKS}",
        reason=problem,
    )
    return None
