"""A broker that a topic's replicas have left has none of them, until it is given one again: neither in the
metadata nor on its disks."""

from collections.abc import Collection, Iterator, Mapping

from quorate.broker.metadata import PartitionState
from quorate.broker.replication.storage import folder_name


def still_there(
    broker_id: int, topic: str, states: Mapping[int, PartitionState], folders: Collection[str]
) -> Iterator[str]:
    """Say what is left of the topic on a broker that it has left, once the broker has applied all metadata.
    `folders`: the names in its directories."""
    for partition_id, state in states.items():
        folder = folder_name(topic, partition_id)
        if broker_id in state.replicas:
            yield f"broker {broker_id} has a replica of {folder}, which had left it"
        elif folder in folders:
            yield f"broker {broker_id} has the folder of {folder}, which had left it"
