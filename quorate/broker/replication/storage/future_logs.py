"""The logs of future replicas, and the steps that let one take its replica's place."""

import uuid
from collections.abc import Callable, Sequence

from quorate.broker.replication.storage.folders import (
    MOVED_MARK,
    PARTITION_METADATA,
    FutureFolder,
    MovedTo,
    PartitionIdentity,
    empty_folder,
    folder_name,
    future_folder_name,
    remove_folder,
    store_moved,
    store_partition_metadata,
)
from quorate.broker.replication.storage.log_directory import FutureProgress, LogDirectory
from quorate.log import Log, LogConfig, TopicPartition
from quorate.present import present
from quorate.runtime import Disk, DiskError


class FutureLogs:
    """The caller does one of these at a time for any one partition. All of them raise `DiskError`."""

    def __init__(self, disk: Disk, directories: Sequence[LogDirectory], now_ms: Callable[[], int]) -> None:
        self._disk = disk
        self._directories = directories
        self._now_ms = now_ms
        self._left: dict[TopicPartition, Log] = {}
        """The logs of replicas that were moved, open for whoever is still reading."""

    # What there is

    def find(self, key: TopicPartition) -> tuple[LogDirectory, FutureFolder] | None:
        """Return the partition's future replica, and its directory."""
        for each in self._directories:
            future = each.futures.get(key)
            if future is not None:
                return each, future
        return None

    def sealed(self, key: TopicPartition) -> LogDirectory | None:
        """Return the directory of a future replica that is about to take its place. Its log start is brought
        up to the replica's."""
        found = self.find(key)
        if found is None or not found[1].sealed or found[0].failure is not None:
            return None
        self._raise_start(key, present(found[1].log, "the log of a sealed future"))
        return found[0]

    def _raise_start(self, key: TopicPartition, future: Log) -> None:
        current = self._current(key)
        if current is not None and current.log_start_offset > future.log_start_offset:
            future.raise_log_start(min(current.log_start_offset, future.end_offset))

    def _current(self, key: TopicPartition) -> Log | None:
        return next((each.logs[key] for each in self._directories if key in each.logs), None)

    def progress(self, where: LogDirectory) -> dict[TopicPartition, FutureProgress]:
        """Return the open future replicas in a directory."""
        return {
            key: FutureProgress(future.log, self._current(key))
            for key, future in where.futures.items()
            if future.log is not None
        }

    def departed_to(self, key: TopicPartition) -> uuid.UUID | None:
        """Return where the partition's replica was moved, unless a folder of it is found elsewhere."""
        departed = self._departed(key)
        if departed is None:
            return None
        for each in self._directories:
            if key in each.identities and key not in each.departed:
                return None
        return departed.departed[key].moved.directory

    def departed_from(self, key: TopicPartition) -> uuid.UUID | None:
        """Return the directory with the folder that the partition's replica was moved from."""
        departed = self._departed(key)
        return None if departed is None else departed.id

    def _departed(self, key: TopicPartition) -> LogDirectory | None:
        return next((each for each in self._directories if key in each.departed), None)

    def is_usable(self, directory: uuid.UUID) -> bool:
        """Return whether a directory is here and has not failed."""
        return any(each.id == directory and each.failure is None for each in self._directories)

    def is_inside(self, path: str, directory: uuid.UUID) -> bool:
        """Return whether a path is a directory's, or of a file in it."""
        return any(
            each.id == directory and (path == each.path or path.startswith(f"{each.path}/"))
            for each in self._directories
        )

    @property
    def any_interrupted(self) -> bool:
        """Return whether the process stops while one was being cut."""
        return any(
            future.log is not None and future.log.is_interrupted
            for each in self._directories
            for future in each.futures.values()
        )

    # A future replica

    async def create(
        self,
        key: TopicPartition,
        identity: PartitionIdentity,
        directory: uuid.UUID,
        unique: uuid.UUID,
        config: LogConfig,
    ) -> Log:
        """Begin an empty one in a directory that has no other folder of the partition."""
        where = self._usable(directory)
        name = future_folder_name(*key, unique)
        folder = f"{where.path}/{name}"
        future = where.futures[key] = FutureFolder(name, identity)
        try:
            await where.forget_durably(key)
            self._disk.make_folder(folder)
            await store_partition_metadata(self._disk, folder, identity)
            await where.entries.sync()
            future.log = await Log.open(self._disk, folder, config, now_ms=self._now_ms)
        except BaseException:
            if where.futures.get(key) is future and future.log is None:
                del where.futures[key]
            raise
        return future.log

    async def open(self, key: TopicPartition, config: LogConfig) -> Log:
        """Open the one that a start found. After a crash its records are all checked."""
        where, future = self._found(key)
        future.log = await Log.open(
            self._disk,
            f"{where.path}/{future.name}",
            config,
            clean_shutdown=where.clean,
            now_ms=self._now_ms,
        )
        return future.log

    async def remove(self, key: TopicPartition) -> None:
        """Close the partition's future replica, if there is one, and remove its folder."""
        found = self.find(key)
        if found is None:
            return
        where, future = found
        if future.log is not None:
            future.log.close()
        del where.futures[key]
        if key not in where.identities:
            where.log_starts.pop(key, None)
        if where.failure is None:
            await remove_folder(self._disk, f"{where.path}/{future.name}")

    # It takes its place

    def seal(self, key: TopicPartition) -> None:
        """From now on a raised log start of the replica counts for its future too."""
        self._found(key)[1].sealed = True

    def unseal(self, key: TopicPartition) -> None:
        """Take `seal` back."""
        found = self.find(key)
        if found is not None:
            found[1].sealed = False

    async def store_start(self, key: TopicPartition) -> None:
        """Make the log start of a future replica durable, for a start that lets it take its place."""
        where, future = self._found(key)
        self._raise_start(key, present(future.log, "the log of a future"))
        await where.store_log_starts((key,))

    async def mark_source(self, key: TopicPartition) -> None:
        """Write into the replica's folder that its future has taken its place, durably: there is no way back.
        Everything that is acknowledged must be in the future, now and from now on."""
        where, future = self._found(key)
        source = present(next((each for each in self._directories if key in each.identities), None), "source")
        moved = MovedTo(where.id, future.name)
        await store_moved(self._disk, f"{source.path}/{folder_name(*key)}", moved)
        source.depart(key, moved)

    def switch(self, key: TopicPartition) -> Log:
        """Let the future replica take its place, after `mark_source`. `settle_name` makes its new name
        durable. The log before is kept open until `close_left`."""
        where, future = self._found(key)
        opened = present(future.log, "the log of a future")
        source = present(next((each for each in self._directories if key in each.identities), None), "source")
        folder = f"{where.path}/{folder_name(*key)}"
        self._disk.rename(f"{where.path}/{future.name}", folder)
        opened.relocate(folder)
        before = source.logs[key]
        self._raise_start(key, opened)
        opened.high_watermark = max(opened.log_start_offset, min(before.high_watermark, opened.end_offset))
        departed = source.departed[key]
        cleaned = source.cleaned.get(key)
        source.forget(key)
        source.departed[key] = departed
        self._left[key] = before
        if cleaned is not None:
            where.cleaned[key] = cleaned
        return where.take_place(key)

    async def settle_name(self, key: TopicPartition) -> None:
        """Make the name, the log start and the end of what is compacted durable, of a replica that took its
        place."""
        where = present(next((each for each in self._directories if key in each.identities), None), "place")
        await where.entries.sync()
        await where.store_log_starts((key,))
        await where.store_cleaned()

    # What is left behind

    def close_left(self, key: TopicPartition) -> None:
        """Close the log of the folder that the replica was moved from."""
        left = self._left.pop(key, None)
        if left is not None:
            left.close()

    async def empty_departed(self, key: TopicPartition) -> None:
        """Remove the records of the folder that the replica was moved from, but not its mark."""
        self.close_left(key)
        where = self._departed(key)
        if where is not None and where.failure is None and key not in where.identities:
            folder = f"{where.path}/{folder_name(*key)}"
            await empty_folder(self._disk, folder, but=(MOVED_MARK, PARTITION_METADATA))

    async def forget_departed(self, key: TopicPartition) -> None:
        """Remove the folders that the replica was moved from: metadata names another directory, or no
        replica."""
        self.close_left(key)
        for each in self._directories:
            if key in each.departed and key not in each.identities:
                if each.failure is None:
                    await remove_folder(self._disk, f"{each.path}/{folder_name(*key)}")
                each.departed.pop(key, None)

    # The end

    async def close(self) -> None:
        """Sync and close all of them."""
        for each in self._directories:
            for future in each.futures.values():
                if future.log is not None and each.failure is None:
                    await future.log.flush_and_close()

    def abandon(self) -> None:
        """Close all files as they are."""
        for left in self._left.values():
            left.close()
        for each in self._directories:
            for future in each.futures.values():
                if future.log is not None:
                    future.log.close()

    def _usable(self, directory: uuid.UUID) -> LogDirectory:
        where = next(each for each in self._directories if each.id == directory)
        if where.failure is not None:
            raise DiskError(where.failure, path=where.path)
        return where

    def _found(self, key: TopicPartition) -> tuple[LogDirectory, FutureFolder]:
        where, future = present(self.find(key), "the future replica")
        if where.failure is not None:
            raise DiskError(where.failure, path=where.path)
        return where, future
