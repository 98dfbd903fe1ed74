"""The eligibility of replicas to lead: on an active broker, in an online directory (KIP-858)."""

import uuid

from quorate.broker.metadata import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    BrokerState,
    MetadataImage,
    PartitionState,
    is_reserved,
)


def directory_online(image: MetadataImage, state: PartitionState, broker_id: int) -> bool:
    """True if the directory of the broker's replica is online, as far as is known. Of a broker that
    registered before there were directories, and of a replica that nobody placed yet: yes (KAFKA-16162)."""
    broker = image.broker(broker_id)
    return broker is not None and is_online(broker, state.directory_of(broker_id))


def is_online(broker: BrokerState, directory: uuid.UUID) -> bool:
    """Return whether the recorded directory of one of the broker's replicas is online: `directory_online`."""
    if is_reserved(directory):
        return directory != LOST
    return not broker.log_dirs or directory in broker.log_dirs


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
