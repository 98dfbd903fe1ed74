"""The folders of partitions on a broker's disks against the metadata, once it has applied all of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quorate.broker.metadata import MetadataImage
from quorate.broker.replication.storage import PartitionIdentity, folder_name


@dataclass(frozen=True, slots=True)
class Folder:
    """A partition's folder in a directory of `log.dirs`. `identity`: None where no file says it."""

    directory: str
    topic: str
    partition_id: int
    identity: PartitionIdentity | None


def stray_folders(image: MetadataImage, broker_id: int, folders: Iterable[Folder]) -> Iterator[str]:
    """Say what is wrong with each folder that the broker should not have: of a topic that is not there, of an
    earlier one of its name, of a partition that went with a shrink, of a replica that is elsewhere now."""
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
