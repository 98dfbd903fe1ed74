"""The folders of replicas on a broker's disks against the metadata, once the broker has applied all of it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.storage.folders import (
    MOVED_MARK,
    PartitionIdentity,
    folder_name,
    load_partition_metadata,
    parse_folder_name,
)
from quorate.quorum_state import META_PROPERTIES, load_meta_properties
from quorate.simulation.world.simulated_disk import SimulatedDisk


@dataclass(frozen=True, slots=True)
class Folder:
    """A partition's folder in a directory of `log.dirs`. `identity`: None where no file says it."""

    directory: str
    topic: str
    partition_id: int
    identity: PartitionIdentity | None


def stray_folders(image: MetadataImage, broker_id: int, folders: Iterable[Folder]) -> Iterator[str]:
    """Yield the reason for each folder that the broker should not have: its topic is not there or is a later
    one of that name, its partition went with a shrink, its replica is elsewhere now."""
    for folder in folders:
        named = f"{folder.directory}/{folder_name(folder.topic, folder.partition_id)}"
        topic = image.topic(folder.topic)
        state = None if topic is None else image.partition(topic.topic_id, folder.partition_id)
        if topic is None:
            yield f"{named} is of a topic that is not there"
        elif state is None:
            yield f"{named} is of a partition that is not there"
        elif broker_id not in state.replicas:
            yield f"{named} is of a partition whose replicas are {state.replicas}"
        elif folder.identity is not None:
            first_epoch = topic.first_epoch(folder.partition_id)
            if folder.identity != PartitionIdentity(topic.topic_id, first_epoch):
                yield f"{named} has {folder.identity}, and is {topic.topic_id} from epoch {first_epoch} on"


def still_there(
    broker_id: int, topic: str, states: Mapping[int, PartitionState], folders: Collection[str]
) -> Iterator[str]:
    """Say what is left of the topic on a broker that its replicas have left: neither the metadata nor the
    disks may have one, until the broker is given one again.

    `folders`: the names in its directories.
    """
    for partition_id, state in states.items():
        folder = folder_name(topic, partition_id)
        if broker_id in state.replicas:
            yield f"broker {broker_id} has a replica of {folder}, which had left it"
        elif folder in folders:
            yield f"broker {broker_id} has the folder of {folder}, which had left it"


def duplicates(disk: SimulatedDisk, first: str, second: str) -> Iterator[str]:
    """Yield the names of the folders that are in both directories, of the same partition of the same topic,
    where neither says that it isn't the replica. With others the broker knows which to keep.

    A directory that is back has the replica of before, and another directory one that was made meanwhile. Of
    the two the broker deletes neither: it refuses to start, and an operator chooses.
    """
    if not disk.exists(f"{second}/{META_PROPERTIES}"):
        return  # a new disk, taken away before its first start
    for name in sorted(set(disk.list(first)) & set(disk.list(second))):
        if parse_folder_name(name) is None:
            continue
        if any(disk.exists(f"{each}/{name}/{MOVED_MARK}") for each in (first, second)):
            continue
        one, other = (load_partition_metadata(disk, f"{each}/{name}") for each in (first, second))
        if one == other:
            yield name


def keep_one_of_two(
    disk: SimulatedDisk, broker_id: int, image: MetadataImage, first: str, second: str
) -> None:
    """Do what the broker's error says: keep the one in the directory that the metadata names, and that in
    `first`, which was never away, if they name neither. The other is gone for good, even if the power is
    lost then. No process may run."""
    if not disk.exists(f"{second}/{META_PROPERTIES}"):
        return  # a new disk, taken away before its first start
    back = load_meta_properties(disk, second).directory_id
    for name in list(duplicates(disk, first, second)):
        key = parse_folder_name(name)
        topic = None if key is None else image.topic(key[0])
        state = None if key is None or topic is None else image.partition(topic.topic_id, key[1])
        named = None if state is None else state.directory_of(broker_id)
        given_up = first if named == back else second
        disk.remove_folder(f"{given_up}/{name}")
        disk.settle(given_up)
