"""A cluster without faults ends all work that was begun: no replica is being moved, no partition is without a
leader, no replica lacks records of its leader, no transaction is open, no folder of a removed replica is
left, and all nodes have the same metadata."""

import uuid
from collections.abc import Iterator

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.storage.folders import load_partition_metadata, parse_folder_name
from quorate.simulation.patience import holds_within
from quorate.simulation.violations import LivenessViolation
from tests.simulator.administration.replica_folders import Folder, stray_folders
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost

_METADATA_TOPIC = "__cluster_metadata"


async def check_work_ends(cluster: BrokerCluster, *, within_s: float) -> None:
    """Wait until nothing is left to be done. Every broker must be up. Raises `LivenessViolation`."""
    if not await holds_within(within_s, lambda: not list(_left(cluster)), every_s=0.2):
        left = list(_left(cluster))
        raise LivenessViolation(f"InterruptedWorkEnds: {within_s:g} s after the last fault {left}")


def _left(cluster: BrokerCluster) -> Iterator[str]:
    if cluster.metadata.in_transaction:
        yield "a transaction of the metadata log is open"
    leader = cluster.leader()
    if leader is None:
        yield "no controller is active"
        return
    image = leader.image
    if image.reassigning_count:
        yield f"{image.reassigning_count} partitions are being reassigned"
    if image.leaderless_count:
        yield f"{image.leaderless_count} partitions have no leader"
    for node in cluster.nodes:
        if node.image != image:
            yield f"{node.name} has other metadata than {leader.name}"
        yield from (f"{node.name} does not serve {name}" for name in _unserved(node, image))
        for wrong in stray_folders(image, node.id, _folders(node)):
            yield f"on {node.name} {wrong}"
    yield from _behind(cluster, image)


def _unserved(node: BrokerHost, image: MetadataImage) -> Iterator[str]:
    for topic_id, topic in image.topics.items():
        for partition_id, state in enumerate(image.partitions(topic_id)):
            if node.id in state.replicas and _replica(node, topic_id, partition_id) is None:
                yield f"{topic.name}-{partition_id}"


def _behind(cluster: BrokerCluster, image: MetadataImage) -> Iterator[str]:
    """Yield the replicas that lack records. A replica may be in the ISR and lack unacknowledged records, for
    as long as `replica.lag.time.max.ms` and a half: it fetches through a connection that went silent."""
    for topic_id, topic in image.topics.items():
        for partition_id, state in enumerate(image.partitions(topic_id)):
            held = {
                each: _replica(cluster.nodes[each - 1], topic_id, partition_id) for each in state.replicas
            }
            leader = held.get(state.leader)
            if leader is None:
                continue
            named, end = f"{topic.name}-{partition_id}", leader.log.end_offset
            if leader.high_watermark < end:
                yield f"{named} is committed up to {leader.high_watermark} of {end}"
            for broker_id, replica in held.items():
                if replica is not None and replica.log.end_offset != end:
                    own = replica.log.end_offset
                    yield f"{named} ends at {own} on broker {broker_id}, and at {end} on its leader"


def _replica(node: BrokerHost, topic_id: uuid.UUID, partition_id: int) -> PartitionReplica | None:
    """Return the replica; None if the broker does not serve it."""
    broker = node.serving.broker
    try:
        return None if broker is None else broker.replicas.lookups.partition(topic_id, partition_id)
    except PartitionError:
        return None


def _folders(node: BrokerHost) -> Iterator[Folder]:
    for directory in node.log_dirs:
        for name in node.disk.list(directory):
            key = parse_folder_name(name)
            if key is not None and key[0] != _METADATA_TOPIC:
                identity = load_partition_metadata(node.disk, f"{directory}/{name}")
                yield Folder(directory, key[0], key[1], identity)
