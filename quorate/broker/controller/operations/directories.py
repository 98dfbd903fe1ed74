"""The log directories of replicas (KIP-858): those that are online, and those that a broker returns with."""

import uuid
from dataclasses import dataclass

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import LOST, MIGRATING, UNASSIGNED, is_reserved
from quorate.broker.metadata.states import PartitionState


def directory_online(image: MetadataImage, state: PartitionState, broker_id: int) -> bool:
    """True if the directory of the broker's replica is online."""
    broker = image.broker(broker_id)
    return broker is not None and broker.has_online(state.directory_of(broker_id))


def may_lead(image: MetadataImage, state: PartitionState, broker_id: int) -> bool:
    """True if the broker may lead the partition and be in its ISR: it is active, and its directory is online.
    Every election uses this."""
    return image.is_active(broker_id) and directory_online(image, state, broker_id)


def default_directory(image: MetadataImage, broker_id: int) -> uuid.UUID:
    """The recorded directory of a new replica: the broker's only one, if it has one."""
    broker = image.broker(broker_id)
    if broker is None or len(broker.log_dirs) > 1:
        return UNASSIGNED
    return broker.log_dirs[0] if broker.log_dirs else MIGRATING


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """The data of its earlier life that a registering broker still has (KIP-858): the directories that are
    missing, and those that have all their data."""

    online: frozenset[uuid.UUID]
    """The directories of the broker now."""
    proven: frozenset[uuid.UUID]
    """The directories of the life whose data the broker has in full (KIP-966). Empty: it proves nothing."""
    before: frozenset[uuid.UUID]
    """All known directories of the life before."""

    @property
    def complete(self) -> bool:
        """True if all data of the earlier life is here."""
        return bool(self.proven) and self.before <= self.proven <= self.online

    @property
    def missing(self) -> bool:
        """True if a directory of the earlier life is missing."""
        return not self.before <= self.online

    def is_missing(self, directory: uuid.UUID) -> bool:
        """True if a replica recorded in `directory` is missing with it, or may be because its directory was
        never recorded."""
        if is_reserved(directory):
            return directory == LOST or self.missing
        return directory not in self.online

    def lost(self, directory: uuid.UUID) -> bool:
        """True if a replica recorded in `directory` may lack records."""
        if is_reserved(directory):
            return directory == LOST or not self.complete
        return directory not in self.online or directory not in self.proven
