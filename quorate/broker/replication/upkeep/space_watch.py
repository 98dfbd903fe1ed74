"""A warning before a directory is full: a full one goes offline, with every replica in it."""

from typing import Final

import trio

from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.runtime import Disk, DiskError, DiskSpace, get_logger

log = get_logger(__name__)

_LOOK_SECONDS: Final = 30.0
_LET_GO: Final = 1.1
"""A directory has room again when it has so many times what it was warned of: one that hovers around the
threshold is told of once."""
_REMEDY: Final = (
    "move replicas to another disk (docs/how-to/move-between-disks.md), delete records, or shorten "
    "retention; when it is full it goes offline with all replicas in it"
)


class SpaceWatch:
    """Tells of each directory once when it has too little space, and once when it has enough again."""

    def __init__(
        self, logs: LogManager, *, disk: Disk, warn_percent: int, warn_bytes: int, stats: ReplicationStats
    ) -> None:
        """`warn_percent`: the free share of the file system to warn below; `warn_bytes`: the free bytes. 0:
        not by that."""
        self._logs = logs
        self._disk = disk
        self._percent = warn_percent
        self._bytes = warn_bytes
        self._stats = stats
        self._low: set[str] = set()

    async def run(self) -> None:
        """Check the free space until cancelled."""
        while True:
            for where in self._logs.directories:
                if where.failure is None:
                    self._look(where.path)
            await trio.sleep(_LOOK_SECONDS)

    def _look(self, path: str) -> None:
        try:
            space = self._disk.space(path)
        except DiskError as error:
            log.warning("the space of a directory is not known", path=path, reason=str(error))
            return
        least = self._least(space)
        self._stats.usable_bytes[path] = space.usable
        self._stats.total_bytes[path] = space.total
        if space.usable < least and path not in self._low:
            self._low.add(path)
            log.warning(
                "a directory is almost full",
                path=path,
                usable_bytes=space.usable,
                total_bytes=space.total,
                warned_below=least,
                remedy=_REMEDY,
            )
        elif space.usable >= least * _LET_GO and path in self._low:
            self._low.discard(path)
            log.info("a directory has room again", path=path, usable_bytes=space.usable)

    def _least(self, space: DiskSpace) -> int:
        return max(space.total * self._percent // 100, self._bytes)
