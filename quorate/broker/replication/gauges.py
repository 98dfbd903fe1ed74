"""Counts of this broker's partitions at one moment."""

from quorate.broker.replication.hosting import HostedReplicas
from quorate.broker.replication.purgatory import Purgatory
from quorate.broker.replication.serving import ParkedFetch, ParkedProduce
from quorate.broker.replication.stats import PartitionCounts


def count_partitions(hosted: HostedReplicas, purgatory: Purgatory) -> PartitionCounts:
    """Count the replicas that are hosted, and the roles of those that are open."""
    partitions = hosted.partitions()
    leaders = [each.leading for each in partitions if each.leading is not None]
    min_isr = {each.leading: each.min_isr for each in partitions if each.leading is not None}
    return PartitionCounts(
        partition_count=len(partitions),
        leader_count=len(leaders),
        under_replicated_partitions=sum(len(each.isr.committed) < len(each.replicas) for each in leaders),
        under_min_isr_partition_count=sum(each.under_min_isr(min_isr[each]) for each in leaders),
        at_min_isr_partition_count=sum(
            len(each.isr.committed) == each.effective_min_isr(min_isr[each]) for each in leaders
        ),
        offline_replica_count=hosted.offline,
        damaged_replica_count=hosted.damaged,
        reassigning_partitions=sum(
            each.leading is not None and each.state is not None and each.state.is_reassigning
            for each in partitions
        ),
        delayed_produces=purgatory.count(ParkedProduce),
        delayed_fetches=purgatory.count(ParkedFetch),
    )
