"""The metrics of a broker and its controller beside the quorum's: KIP-835's of the metadata, and Kafka's
ReplicaManager.

The first are declared in `quorate.metrics.declarations`. Names of the others are what Strimzi's JMX exporter
rules make of Kafka's beans; what Kafka lacks begins with `quorate_`. Read when scraped, where that is
possible: nothing is counted twice.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from quorate.broker.controller import partition_counts, replica_counts
from quorate.broker.controller_node import ControllerNode
from quorate.broker.metadata import (
    METADATA_VERSION,
    NO_LEADER,
    LeaderRecoveryState,
    MetadataDelta,
    MetadataImage,
    PartitionDelta,
)
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.replication import ReplicaManager
from quorate.metrics import BROKER_METADATA, CONTROLLER, RaftMetrics, families
from quorate.raft import Quorum


class BrokerMetrics(Collector):
    """`replicas` and `controller`: of this node, None where it has no such role. Make it before the quorum
    has another turn: it begins to listen to `metadata`."""

    def __init__(
        self,
        metadata: MetadataCache,
        *,
        quorum: Quorum[None],
        raft: RaftMetrics,
        replicas: ReplicaManager | None,
        controller: ControllerNode | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._metadata = metadata
        self._quorum = quorum
        self._raft = raft
        self._replicas = replicas
        self._controller = controller
        self._now_ms = now_ms
        self._unclean_elections = 0
        if controller is not None:
            metadata.subscribe(self._changed)

    def _changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        # Only while it decides itself: what a node replays is history, and each election counts once.
        if self._controller is not None and self._controller.controller.active:
            self._unclean_elections += sum(map(_elected_uncleanly, delta.partitions))

    def describe(self) -> Iterable[Metric]:
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        yield from families(BROKER_METADATA, self._of_metadata())
        if self._controller is not None:
            yield from families(CONTROLLER, self._of_controller(self._controller))
            yield from _of_states(self._metadata.image)
            yield from self._controller.stats.families()
        if self._replicas is not None:
            yield from _of_replicas(self._replicas)

    def _of_metadata(self) -> dict[str, float]:
        return {
            "last-applied-record-offset": self._metadata.offset,
            "last-applied-record-timestamp": self._metadata.last_applied_timestamp_ms,
            "last-applied-record-lag-ms": self._lag_ms,
            "metadata-load-error-count": self._metadata.load_errors,
            "metadata-apply-error-count": self._metadata.apply_errors,
        }

    @property
    def _lag_ms(self) -> int:
        applied_ms = self._metadata.last_applied_timestamp_ms
        return self._now_ms() - applied_ms if applied_ms else 0

    def _of_controller(self, controller: ControllerNode) -> dict[str, float]:
        image, stats = self._metadata.image, controller.stats
        fenced = sum(broker.fenced for broker in image.brokers.values())
        active = controller.controller.active
        high_watermark, leader = self._quorum.high_watermark, self._quorum.leader
        return {
            "ActiveControllerCount": active,
            "FencedBrokerCount": fenced,
            "ActiveBrokerCount": len(image.brokers) - fenced,
            "GlobalTopicCount": len(image.topics),
            "GlobalPartitionCount": image.partition_count(),
            "OfflinePartitionsCount": image.leaderless_count,
            "PreferredReplicaImbalanceCount": image.imbalanced_count,
            "LastAppliedRecordOffset": self._metadata.offset,
            "LastCommittedRecordOffset": -1 if high_watermark is None else high_watermark - 1,
            "LastAppliedRecordTimestamp": self._metadata.last_applied_timestamp_ms,
            "LastAppliedRecordLagMs": 0 if active else self._lag_ms,
            "MetadataErrorCount": stats.errors,
            "TimedOutBrokerHeartbeatCount": stats.timed_out_heartbeats,
            "EventQueueOperationsStartedCount": stats.operations_started,
            "EventQueueOperationsTimedOutCount": stats.operations_timed_out,
            "NewActiveControllersCount": self._raft.leaders_seen,
            "UncleanLeaderElectionsPerSec": self._unclean_elections,
            "CurrentMetadataVersion": image.features.get(METADATA_VERSION, 0),
            "CurrentControllerId": -1 if leader is None else leader,
        }


def _of_states(image: MetadataImage) -> Iterator[Metric]:
    """Yield how many partitions and replicas are in each state of their machines, from the image's counts."""
    partitions = GaugeMetricFamily(
        "quorate_controller_partitions_in_state", "Partitions in this state.", labels=["state"]
    )
    for partition_state, count in partition_counts(image).items():
        partitions.add_metric([partition_state.value], count)
    yield partitions
    replicas = GaugeMetricFamily(
        "quorate_controller_replicas_in_state", "Replicas in this state.", labels=["state"]
    )
    for replica_state, count in replica_counts(image).items():
        replicas.add_metric([replica_state.value], count)
    yield replicas
    yield _gauge(
        "quorate_controller_reassigning_partitions",
        "Partitions with replicas that are being added or removed.",
        image.reassigning_count,
    )


def _elected_uncleanly(delta: PartitionDelta) -> bool:
    before, after = delta.before, delta.after
    return (
        before is not None
        and after is not None
        and after.leader != NO_LEADER
        and after.leader_epoch > before.leader_epoch
        and after.leader_recovery_state is LeaderRecoveryState.RECOVERING
        and after.leader not in before.isr
    )


def _of_replicas(replicas: ReplicaManager) -> Iterator[Metric]:
    counts, stats = replicas.counts(), replicas.stats
    name = "kafka_server_replicamanager"
    for gauge, help_text, value in (
        ("partitioncount", "Replicas here.", counts.partition_count),
        ("leadercount", "Partitions led here.", counts.leader_count),
        ("underreplicatedpartitions", "Led here and not fully in sync.", counts.under_replicated_partitions),
        ("underminisrpartitioncount", "Led here below min ISR.", counts.under_min_isr_partition_count),
        ("atminisrpartitioncount", "Led here, at min ISR.", counts.at_min_isr_partition_count),
        ("offlinereplicacount", "Replicas whose log failed.", counts.offline_replica_count),
        ("reassigningpartitions", "Led here, and being reassigned.", counts.reassigning_partitions),
    ):
        yield _gauge(f"{name}_{gauge}", help_text, value)
    cache, sessions = "kafka_server_fetchsessioncache", replicas.sessions
    yield _gauge(f"{cache}_numincrementalfetchsessions", "Fetch sessions kept.", len(sessions))
    yield _gauge(
        f"{cache}_numincrementalfetchpartitionscached", "Partitions of all sessions.", sessions.partitions
    )
    topics = "kafka_server_brokertopicmetrics"
    for counter, help_text, value in (
        (f"{topics}_bytesin", "Bytes of batches appended for producers.", stats.appended_bytes),
        (f"{topics}_bytesout", "Bytes of batches answered to consumers.", stats.bytes_to_consumers),
        (f"{topics}_replicationbytesin", "Bytes fetched from leaders.", stats.replicated_bytes),
        (f"{topics}_replicationbytesout", "Bytes answered to followers.", stats.bytes_to_followers),
        (
            f"{topics}_reassignmentbytesin",
            "Bytes fetched by replicas being added.",
            stats.reassignment_bytes_in,
        ),
        (
            f"{topics}_reassignmentbytesout",
            "Bytes read for replicas being added.",
            stats.reassignment_bytes_out,
        ),
        (f"{name}_isrshrinks", "ISRs that shrank.", stats.isr_shrinks),
        (f"{name}_isrexpands", "ISRs that grew.", stats.isr_expands),
        (f"{name}_failedisrupdates", "ISR changes that were refused.", stats.failed_isr_updates),
        (f"{cache}_incrementalfetchsessionevictions", "Sessions that made room.", sessions.evictions),
        (
            "quorate_producer_duplicate_batches",
            "Batches of idempotent producers recognised as sent before.",
            stats.duplicate_batches,
        ),
    ):
        family = CounterMetricFamily(counter, help_text)
        family.add_metric([], value)
        yield family


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=float(value))
