"""The folders of a broker's partitions: which of them is a replica, and which is a copy, was moved away or
set aside, belongs to another partition of the name, or is missing."""

import os.path
import uuid
from collections.abc import Sequence

from quorate.broker.replication.storage.folders import (
    PartitionIdentity,
    SetAsideFolder,
    damaged_folder_name,
    folder_name,
    remove_folder,
    store_partition_metadata,
)
from quorate.broker.replication.storage.future_logs import FutureLogs
from quorate.broker.replication.storage.log_directory import BadDirectory, LogDirectory
from quorate.log import IncompleteLogError, TopicPartition
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError, get_logger

log = get_logger(__name__)


class Namesakes:
    """Folders of one name in several directories that are of different partitions: a topic was made again, or
    shrunk and grown, while a directory was away. When a broker starts, all but one of them are set aside
    (`settle_duplicates`), until metadata says which counts."""

    def __init__(self, disk: Disk, directories: Sequence[LogDirectory]) -> None:
        self._disk = disk
        self._directories = directories

    def held(self) -> set[TopicPartition]:
        """Return the partitions of which there are several folders."""
        return {key for each in self._directories for key in each.namesakes}

    def prefer(self, key: TopicPartition, identity: PartitionIdentity) -> None:
        """Let the folder of this partition count, if there is one. To be called before a log is opened."""
        better = next((each for each in self._directories if each.namesakes.get(key) == identity), None)
        if better is not None:
            for each in self._directories:
                each.note_namesake(key)
            better.take_back(key)

    async def remove(self, key: TopicPartition) -> None:
        """Remove the folders that don't count. One that can't be is found again at the next start."""
        for each in self._directories:
            if key in each.namesakes:
                path = f"{each.path}/{folder_name(*key)}"
                log.info("removing the replica of an earlier partition of this name", path=path)
                each.forget(key)
                try:
                    await remove_folder(self._disk, path)
                except DescriptorsExhaustedError:
                    raise
                except DiskError as error:
                    log.warning("it can't be removed for now", path=path, reason=str(error))


class PartitionFolders:
    """The owner of `LogDirectory.identities` and its like once the directories are scanned. The caller makes,
    removes and sets aside any one partition's folder one at a time."""

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[LogDirectory],
        bad: Sequence[BadDirectory],
        futures: FutureLogs,
    ) -> None:
        """`bad`: the directories that were unusable at the start."""
        self._disk = disk
        self._directories = directories
        self._bad = bad
        self._futures = futures
        self.namesakes = Namesakes(disk, directories)

    def held(self) -> list[tuple[str, int, PartitionIdentity]]:
        """Return (topic, partition, identity) of every folder, futures and what was moved away included."""
        found: dict[TopicPartition, PartitionIdentity] = {}
        for each in self._directories:
            found.update((key, future.identity) for key, future in each.futures.items())
            found.update((key, departed.identity) for key, departed in each.departed.items())
        for each in self._directories:
            found.update(each.identities)
        return [(*key, identity) for key, identity in found.items()]

    def log_directory_of(self, topic: str, partition_id: int) -> LogDirectory | None:
        key = (topic, partition_id)
        return next((each for each in self._directories if key in each.identities), None)

    def directory_of(self, topic: str, partition_id: int) -> uuid.UUID | None:
        """The id of the directory that has the partition's replica: one that has a folder of it, or one that
        isn't here, if the replica was moved there."""
        departed = self._futures.departed_to((topic, partition_id))
        if departed is not None:
            return departed
        where = self.log_directory_of(topic, partition_id)
        return None if where is None else where.id

    def check_vanished(self, key: TopicPartition, *, counts: bool) -> None:
        """Raise `IncompleteLogError` if the replica had a folder, and the partition counts on it."""
        for each in self._sound():
            known = each.vanished.get(key, 0)
            if counts and known and key not in each.departed:
                problem = f"the folder is missing, although its log had all records below offset {known}"
                raise IncompleteLogError(f"{each.path}/{folder_name(*key)}", 0, problem)

    def place_for(self, directory: uuid.UUID) -> LogDirectory:
        """Return the directory for a new folder: this one if it is ours, else the one with the fewest. Raises
        `DiskError`."""
        named = next((each for each in self._directories if each.id == directory), None)
        if named is not None:
            if named.failure is not None:
                raise DiskError(named.failure, path=named.path)
            return named
        usable = self._sound()
        if not usable:
            raise DiskError("every directory of log.dirs has failed", path=self._directories[0].path)
        return min(usable, key=lambda each: len(each.identities) + len(each.futures) + each.expected)

    async def create(self, where: LogDirectory, key: TopicPartition, identity: PartitionIdentity) -> None:
        """Make the folder of a new replica. It is durable when the log in it is open. Raises `DiskError`."""
        where.expected += 1
        try:
            await where.forget_durably(key)
            folder = f"{where.path}/{folder_name(*key)}"
            self._disk.make_folder(folder)
            await store_partition_metadata(self._disk, folder, identity)
            await where.entries.sync()
            for each in self._directories:
                each.vanished.pop(key, None)
            where.identities[key] = identity
        finally:
            where.expected -= 1

    async def remove(self, topic: str, partition_id: int) -> None:
        """Close the log and remove its folder, a file at a time. A crash on the way is finished at the next
        start. Raises `DiskError`."""
        key = (topic, partition_id)
        await self._futures.remove(key)
        await self.namesakes.remove(key)
        where = self.log_directory_of(*key)
        if where is not None:
            opened = where.logs.get(key)
            if opened is not None:
                opened.close()
            where.forget(key)
            if where.failure is None:
                await remove_folder(self._disk, f"{where.path}/{folder_name(*key)}")
        await self._futures.forget_departed(key)

    async def set_aside(self, topic: str, partition_id: int, unique: uuid.UUID) -> str:
        """Close the partition's log, and give its folder the name of one that is no replica. Return the new
        path; the change is durable. Raises `DiskError`."""
        key = (topic, partition_id)
        await self._futures.remove(key)
        where = self.log_directory_of(*key)
        if where is None:
            raise DiskError("the log is not here any more", path=folder_name(*key))
        if where.failure is not None:
            raise DiskError(where.failure, path=where.path)
        opened = where.logs.get(key)
        if opened is not None:
            opened.close()
        where.forget(key)
        path = f"{where.path}/{damaged_folder_name(topic, partition_id, unique)}"
        self._disk.rename(f"{where.path}/{folder_name(*key)}", path)
        where.set_aside.append(SetAsideFolder(path, topic, partition_id))
        # Before a folder of the old name is made: otherwise a power loss could bring the damaged one back.
        await where.entries.sync()
        await self._futures.forget_departed(key)
        return path

    def damaged_folders(self) -> list[SetAsideFolder]:
        """Return the folders that were set aside, in this life or before."""
        known = (folder for each in self._sound() for folder in each.set_aside)
        return [each for each in known if self._disk.exists(each.path)]

    def path_of(self, directory: uuid.UUID) -> str:
        """Return the path of one of `own_ids`."""
        return next(each.path for each in self._directories if each.id == directory)

    def at_path(self, path: str) -> uuid.UUID | None:
        """Return the id of the directory with this path, absolute or as in `log.dirs`. None: there is none.
        Raises `DiskError` for one that can't be used."""
        wanted = os.path.abspath(path)
        for bad in self._bad:
            if os.path.abspath(bad.path) == wanted:
                raise DiskError(bad.reason, path=bad.path)
        for each in self._directories:
            if os.path.abspath(each.path) == wanted:
                if each.failure is not None:
                    raise DiskError(each.failure, path=each.path)
                return each.id
        return None

    def _sound(self) -> list[LogDirectory]:
        return [each for each in self._directories if each.failure is None]
