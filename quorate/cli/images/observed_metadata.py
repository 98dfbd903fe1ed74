"""The metadata as `quorate cluster health` needs them: as they are, and the changes that led to it."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import trio

from quorate.cli.console.cli_errors import CommandError
from quorate.cli.images.replay import LATEST, Replay
from quorate.health import MetadataFacts, RecentChangesReader, metadata_facts
from quorate.history import (
    ClusterLog,
    FolderLog,
    HistoryError,
    LogUnavailableError,
    MetadataHistory,
    newest_first,
    offset_for_timestamp,
)
from quorate.runtime import Address, Network

_GREETING_S: Final = 0.4
"""Nodes that answer within it are read from."""
_ANSWER_MS: Final = 800
_CHANGES_S: Final = 1.2
"""No older changes are read after this time."""


class LiveMetadata:
    """The metadata of a live cluster. The first read replays them, the next ones continue."""

    def __init__(self, network: Network, addresses: Sequence[Address], *, controllers: bool) -> None:
        self._log = ClusterLog(
            bootstrap_servers=tuple(addresses),
            retries=0,
            request_timeout_ms=_ANSWER_MS,
            controllers=controllers,
            network=network,
        )
        self._reader = _Reader(self._log)
        self._under_way = threading.Lock()

    @property
    def place(self) -> str:
        return self._log.place

    async def read(self) -> MetadataFacts:
        """Read the log in another thread, which a cancellation leaves behind. Raises `HistoryError`."""
        answering = await newest_first(self._log.network, self._log.bootstrap_servers, timeout_s=_GREETING_S)
        if not answering:
            raise LogUnavailableError(f"none of {self._log.place} answered within {_GREETING_S:g} s")
        log = replace(self._log, bootstrap_servers=tuple(answering))
        return await trio.to_thread.run_sync(self._read, log, abandon_on_cancel=True)

    def _read(self, log: ClusterLog) -> MetadataFacts:
        if not self._under_way.acquire(blocking=False):
            raise LogUnavailableError("the last read of the metadata log has not ended")
        try:
            return self._reader.read(log, log.offset_at, now_ms=int(time.time() * 1000))
        finally:
            self._under_way.release()


class FolderMetadata:
    """The metadata in the folder of a node, which may run."""

    def __init__(self, folder: str) -> None:
        self._log = FolderLog(path=folder)
        self._reader = _Reader(self._log)

    @property
    def place(self) -> str:
        return self._log.place

    def clock_ms(self) -> int:
        """Return the time of the last record that was read: the folder is as it was then."""
        return self._reader.timestamp_ms

    async def read(self) -> MetadataFacts:
        """Read the log. Raises `HistoryError`."""
        extent = self._log.extent()
        return self._reader.read(
            self._log, lambda time_ms: offset_for_timestamp(self._log, time_ms, extent), now_ms=None
        )


class _Reader:
    def __init__(self, history: MetadataHistory) -> None:
        self._replay = Replay(history, warn=_ignore)
        self._changes = RecentChangesReader()

    @property
    def timestamp_ms(self) -> int:
        return self._replay.timestamp_ms or 0

    def read(
        self, history: MetadataHistory, offset_at: Callable[[int], int | None], *, now_ms: int | None
    ) -> MetadataFacts:
        began = time.monotonic()
        try:
            self._replay.move_to(LATEST, through=history)
        except CommandError as error:
            raise HistoryError(str(error)) from error
        image = self._replay.image
        recent = self._changes.read(
            history,
            image,
            end_offset=self._replay.end_offset,
            offset_at=offset_at,
            now_ms=self.timestamp_ms if now_ms is None else now_ms,
            has_time=lambda: now_ms is None or time.monotonic() - began < _CHANGES_S,
        )
        return metadata_facts(image, recent)


def _ignore(_: str) -> None:
    """Leave out warnings of snapshots that are damaged: another is read."""
