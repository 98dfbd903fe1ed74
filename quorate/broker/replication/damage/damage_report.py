"""The known damage to this broker's replicas."""

from quorate.broker.replication.hosting import HostedReplicas
from quorate.broker.replication.storage import PartitionFolders, SetAsideFolder
from quorate.log import DamagedRange
from quorate.runtime import Slices


class DamageReport:
    """Owns nothing."""

    def __init__(self, hosted: HostedReplicas, folders: PartitionFolders) -> None:
        self._hosted = hosted
        self._folders = folders

    async def damages(self) -> list[tuple[str, int, DamagedRange | str]]:
        """Return topic, partition and damage: a range that can't be read, or why the log can't be opened."""
        found, slices = list[tuple[str, int, DamagedRange | str]](), Slices()
        for each in self._hosted.damages():
            if each is not None:
                found.append(each)
            await slices.pause()
        return found

    def set_aside(self) -> list[SetAsideFolder]:
        """Return the folders of damaged logs that were set aside."""
        return self._folders.damaged_folders()
