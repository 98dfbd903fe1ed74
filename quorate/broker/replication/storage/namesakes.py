"""Folders of one name in several directories that are of different partitions: a topic was made again, or
shrunk and grown, while a directory was away. Metadata says which counts."""

from collections.abc import Sequence

from quorate.broker.replication.storage.directory_files import PartitionIdentity, folder_name
from quorate.broker.replication.storage.folder_removal import remove_folder
from quorate.broker.replication.storage.log_directory import LogDirectory
from quorate.log import TopicPartition
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError, get_logger

log = get_logger(__name__)


class Namesakes:
    """All but one of the folders of a name are set aside when a broker starts (`settle_duplicates`)."""

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
