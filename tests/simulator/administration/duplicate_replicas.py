"""Partitions that are in two directories of a broker: it refuses to start, and an operator chooses.

A directory that is back has the replica of before, and another directory one that was made meanwhile. That
happens to one that was away, and to one that failed while its broker went on: nothing can be deleted there.
"""

from collections.abc import Iterator

from quorate.broker.metadata import MetadataImage
from quorate.broker.replication.storage import (
    MOVED_MARK,
    load_partition_metadata,
    parse_folder_name,
)
from quorate.quorum_state import META_PROPERTIES, load_meta_properties
from quorate.simulation.world import SimulatedDisk


def duplicates(disk: SimulatedDisk, first: str, second: str) -> Iterator[str]:
    """Yield the names of the folders that are in both directories, of the same partition of the same topic,
    where neither says that it isn't the replica. With others the broker knows which to keep."""
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
