"""The log's prefix and old snapshots, removed when a later snapshot stands in for them (KIP-630)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from quorate.log import Log
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.runtime import DiskError, WallClock, get_logger
from quorate.types import EpochEnd, SnapshotId

log = get_logger(__name__)

_INTERVAL_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The limits of a folder. Above either of them, the oldest of several snapshots is deleted, and the log
    below the next one."""

    max_bytes: int
    """The size of the log from its start on, and of the snapshots."""
    max_ms: int
    """The age of the last record in a snapshot."""


class SnapshotCleaner:
    """Moves the log start, always to the end of a snapshot."""

    def __init__(
        self,
        source: Log,
        store: SnapshotStore,
        clock: WallClock,
        *,
        retention: Retention,
        wait_unblocked: Callable[[], Awaitable[None]],
        latest: Callable[[], SnapshotId | None],
        start_moved: Callable[[EpochEnd], None],
    ) -> None:
        """`wait_unblocked`: returns when no barrier is under way, so that the log is not cut or replaced
        until the next await. `latest`: returns the core's latest snapshot. A fetched one that is not
        installed is not of this log. `start_moved`: tells the core the next log start, before the records
        below it are removed."""
        self._log = source
        self._store = store
        self._clock = clock
        self._retention = retention
        self._wait_unblocked = wait_unblocked
        self._latest = latest
        self._start_moved = start_moved
        self._wake = trio.Event()

    def clean_soon(self) -> None:
        """Clean at the next occasion, because there is a new snapshot."""
        self._wake.set()

    async def run(self) -> None:
        """Clean every minute, and after `clean_soon`. Runs until cancelled. Raises `DiskError`,
        `LogError`."""
        while True:
            await self._remove_prefix()
            with trio.move_on_after(_INTERVAL_SECONDS):
                await self._wake.wait()
            self._wake = trio.Event()

    async def _remove_prefix(self) -> None:
        while True:
            await self._wait_unblocked()
            start = self._next_start()
            if start is None:
                break
            self._start_moved(EpochEnd(start.epoch, start.end_offset))
            segments = await self._log.advance_log_start(start.end_offset)
            log.info("moved the log start", log_start_offset=start.end_offset, removed_segments=segments)
            await self._delete_old()
        await self._delete_old()

    def _next_start(self) -> SnapshotId | None:
        """Return the second-oldest snapshot, if a limit is exceeded: the log shall start at its end."""
        latest = self._latest()
        if latest is None:
            return None
        start = self._log.log_start_offset
        held = [one for one in self._store.ids if start <= one.end_offset <= latest.end_offset]
        if len(held) < 2:
            return None
        contents = [self._store.contents(one) for one in held]
        used = self._log_bytes() + sum(one.size_bytes for one in contents)
        age_ms = self._clock.now_ms() - contents[0].last_timestamp_ms
        too_much = used > self._retention.max_bytes or age_ms > self._retention.max_ms
        return held[1] if too_much else None

    def _log_bytes(self) -> int:
        """Return the size from the log start on. The part of the segment below it can't be freed."""
        first = self._log.slice_of(self._log.log_start_offset, 1)
        return 0 if first is None else self._log.size_bytes - first.position

    async def _delete_old(self) -> None:
        try:
            await self._store.delete(self._store.below(self._log.log_start_offset))
        except DiskError as error:
            log.warning("an old snapshot was not deleted; the next start does it", problem=str(error))
