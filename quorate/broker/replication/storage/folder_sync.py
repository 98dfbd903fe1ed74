"""The syncs of one folder, shared by those who ask at once."""

import trio

from quorate.runtime import Disk, DiskError


class FolderSync:
    """One sync at a time; what is asked for during one is done by the next, for all."""

    __slots__ = ("_asked", "_disk", "_done", "_error", "_path", "_turn")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._turn = trio.Lock()
        self._asked = 0
        self._done = 0
        """How many of the calls the syncs have answered."""
        self._error: DiskError | None = None
        """Of the last sync."""

    async def sync(self) -> None:
        """Make what was created, renamed and removed in the folder before the call durable. Raises
        `DiskError`."""
        self._asked += 1
        number = self._asked
        async with self._turn:
            if self._done < number:
                asked, self._error = self._asked, None
                try:
                    await self._disk.sync_folder(self._path)
                except DiskError as error:
                    # For all of them: what the next sync is told doesn't say that theirs is durable.
                    self._error = error
                self._done = asked
            if self._error is not None:
                raise self._error
