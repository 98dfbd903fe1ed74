"""The segments in a log's folder, and the end of swaps that a crash interrupted.

A swap puts one segment in the place of others (Kafka's `LocalLog.replaceSegments`). The new files are written
with the ending `.cleaned`, made durable, and renamed to `.swap`: from then on they count. Then the old ones
are renamed to `.deleted`, the new ones lose the ending, and the old ones are removed; the folder is synced
between any two of these steps, so that each is durable before the next begins.
"""

from collections.abc import Iterable
from contextlib import closing
from typing import Final

from quorate.log.log_config import LogConfig
from quorate.log.log_errors import DamagedLogError
from quorate.log.segments.cold_reads import read_cold
from quorate.log.segments.segment import LOG_SUFFIX, SWAP, Segment
from quorate.log.segments.segment_indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from quorate.runtime import Disk, get_logger

log = get_logger(__name__)

_DIGITS: Final = 20
_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
_ALL: Final = 2**63 - 1


def segment_bases(disk: Disk, folder: str) -> list[int]:
    """Return the base offsets of the segments in `folder`, in ascending order."""
    return bases_among(disk.list(folder))


def bases_among(names: Iterable[str], suffix: str = LOG_SUFFIX) -> list[int]:
    """Return the base offsets of the segments that have a file with one of these names, in ascending
    order."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal())


async def finish_swaps(disk: Disk, folder: str, config: LogConfig) -> list[str]:
    """Bring the swaps to their end that a crash interrupted after the new files counted. It is durable when
    this returns the names that are in the folder then. Raises `DamagedLogError`, `DiskError`."""
    names = disk.list(folder)
    if not any(name.endswith(SWAP) for name in names):
        return names
    for base in bases_among(names, LOG_SUFFIX + SWAP):
        end = await _end_of_swap(disk, folder, base, config)
        for suffix in _SUFFIXES:
            for replaced in bases_among(disk.list(folder), suffix):
                if base <= replaced < end:
                    disk.remove(f"{folder}/{replaced:020}{suffix}")
        # Otherwise a power loss could show the new segment and some of those that it replaces.
        await disk.sync_folder(folder)
        for suffix in _SUFFIXES:
            path = f"{folder}/{base:020}{suffix}"
            if disk.exists(path + SWAP):
                disk.rename(path + SWAP, path)
        log.info("finished a swap of segments", path=f"{folder}/{base:020}{LOG_SUFFIX}", end_offset=end)
    for name in disk.list(folder):
        if name.endswith(SWAP):
            # An index left behind by its batches' file. It is rebuilt.
            disk.remove(f"{folder}/{name}")
    await disk.sync_folder(folder)
    return disk.list(folder)


async def _end_of_swap(disk: Disk, folder: str, base: int, config: LogConfig) -> int:
    with closing(Segment(disk, folder, base, config, suffix=SWAP)) as segment:
        await read_cold(segment.load_indexes(_ALL))
        last = await read_cold(segment.index_up_to())
        if last is None:
            raise DamagedLogError(segment.path, 0, "no batch can be found")
        return last.end_offset
