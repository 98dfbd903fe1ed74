"""The metrics of a broker and its controller beside the quorum's: KIP-835's of the metadata, and Kafka's
ReplicaManager.

The first are declared in `quorate.metrics.declarations`. The names of the others are those that Strimzi's JMX
exporter rules give Kafka's beans. Metrics that Kafka lacks begin with `quorate_`. Read when scraped, where
that is possible: nothing is counted twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import trio
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.controller.state_machines import ReplicaPhase, partition_counts, replica_counts
from quorate.broker.controller_node import ControllerNode
from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.quota_precedence import CLIENT_QUOTAS, CONNECTION_CREATION_RATE
from quorate.broker.metadata.supported_features import METADATA_VERSION
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.replication.hosting.state_changes import BOUNDS, ENDS, ChangeKind
from quorate.broker.replication.wiring import ReplicaServices
from quorate.broker.wire.connection_quotas import ConnectionQuotas
from quorate.broker.wire.sasl.login import LoginCounts
from quorate.metrics import BROKER_METADATA, CONTROLLER, RaftMetrics, families
from quorate.raft import Quorum


class BrokerMetrics(Collector):
    """`replicas`, `groups`, `controller`, `throttles` and `connections`: of this node, None where it has no
    such role."""

    def __init__(
        self,
        metadata: MetadataCache,
        *,
        quorum: Quorum[None],
        raft: RaftMetrics,
        replicas: ReplicaServices | None,
        groups: GroupCoordinator | None,
        controller: ControllerNode | None,
        now_ms: Callable[[], int],
        throttles: ClientThrottles | None = None,
        connections: ConnectionQuotas | None = None,
        logins: Callable[[], Mapping[str, LoginCounts]] = dict,
    ) -> None:
        """`logins`: those of each listener for clients by its name."""
        self._metadata = metadata
        self._quorum = quorum
        self._raft = raft
        self._replicas = replicas
        self._groups = groups
        self._controller = controller
        self._now_ms = now_ms
        self._throttles = throttles
        self._connections = connections
        self._logins = logins

    def describe(self) -> Iterable[Metric]:
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        yield from families(BROKER_METADATA, self._metadata_values())
        if self._controller is not None:
            yield from families(CONTROLLER, self._controller_values(self._controller))
            removed = self._controller.progress.removed_replicas(self._metadata.image)
            yield from _state_metrics(self._metadata.image, removed)
            yield from _progress_metrics(self._controller)
            yield from self._controller.stats.families()
        if self._replicas is not None:
            yield from _replica_metrics(self._replicas)
            yield from _change_metrics(self._replicas)
            yield from _cleaning_metrics(self._replicas)
        if self._groups is not None:
            yield _counter(
                "quorate_group_write_failures",
                "Writes of groups, commits and deletions to __consumer_offsets that failed.",
                self._groups.failed_writes,
            )
        if self._throttles is not None and self._connections is not None:
            yield from _client_metrics(self._throttles, self._connections)
        yield from _login_metrics(self._logins())

    def _metadata_values(self) -> dict[str, float]:
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

    def _controller_values(self, controller: ControllerNode) -> dict[str, float]:
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
            "UncleanLeaderElectionsPerSec": controller.unclean_elections,
            "CurrentMetadataVersion": image.features.get(METADATA_VERSION, 0),
            "CurrentControllerId": -1 if leader is None else leader,
        }


def _state_metrics(image: MetadataImage, removed: dict[ReplicaPhase, int]) -> Iterator[Metric]:
    """Yield how many partitions and replicas are in each state of their machines, from counts."""
    partitions = GaugeMetricFamily(
        "quorate_controller_partitions_in_state", "Partitions in this state.", labels=["state"]
    )
    for partition_state, count in partition_counts(image).items():
        partitions.add_metric([partition_state.value], count)
    yield partitions
    replicas = GaugeMetricFamily(
        "quorate_controller_replicas_in_state", "Replicas in this state.", labels=["state"]
    )
    for replica_state, count in (replica_counts(image) | removed).items():
        replicas.add_metric([replica_state.value], count)
    yield replicas
    yield _gauge(
        "quorate_controller_reassigning_partitions",
        "Partitions with replicas that are being added or removed.",
        image.reassigning_count,
    )


def _client_metrics(throttles: ClientThrottles, connections: ConnectionQuotas) -> Iterator[Metric]:
    yield _gauge(
        "kafka_server_socketservermetrics_connection_count",
        "Open connections of all listeners for clients.",
        connections.count,
    )
    throttled = CounterMetricFamily(
        "quorate_throttled", "Answers and connections above a quota, by quota.", labels=("quota",)
    )
    seconds = CounterMetricFamily(
        "quorate_throttle_seconds", "Time that clients were told to wait, by quota.", labels=("quota",)
    )
    for key in CLIENT_QUOTAS:
        if key == CONNECTION_CREATION_RATE:
            throttled.add_metric([key], float(connections.held_back))
        else:
            throttled.add_metric([key], float(throttles.throttled[key]))
            seconds.add_metric([key], throttles.throttled_s.get(key, 0.0))
    yield throttled
    yield seconds
    yield _counter(
        "quorate_listener_wait_seconds",
        "Time that listeners accepted nobody because of max.connections and max.connection.creation.rate.",
        connections.waited_s,
    )


_LOGINS: Final[Sequence[tuple[str, str, Callable[[LoginCounts], int]]]] = (
    ("successful_authentication", "Connections that logged in.", lambda each: each.successful),
    ("failed_authentication", "Connections that failed to log in.", lambda each: each.failed),
    (
        "successful_reauthentication",
        "Logins on connections that had one (KIP-368).",
        lambda each: each.successful_again,
    ),
    (
        "failed_reauthentication",
        "Logins that failed on connections that had one.",
        lambda each: each.failed_again,
    ),
    (
        "expired_connections_killed",
        "Connections closed because they did not log in again in time.",
        lambda each: each.expired,
    ),
)


def _login_metrics(logins: Mapping[str, LoginCounts]) -> Iterator[Metric]:
    for name, help_text, value in _LOGINS:
        family = CounterMetricFamily(
            f"kafka_server_socketservermetrics_{name}", help_text, labels=("listener",)
        )
        for listener, counts in logins.items():
            family.add_metric([listener], float(value(counts)))
        yield family


def _replica_metrics(replicas: ReplicaServices) -> Iterator[Metric]:
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
    yield _gauge(
        "quorate_damaged_replicas",
        "Replicas here of whose log a part can't be read as it was written.",
        counts.damaged_replica_count,
    )
    usable = GaugeMetricFamily(
        "quorate_log_dir_usable_bytes", "Free bytes of the directory's file system.", labels=["directory"]
    )
    for path, free in stats.usable_bytes.items():
        usable.add_metric([path], free)
    yield usable
    since = GaugeMetricFamily(
        "quorate_scrub_since_seconds",
        "Since when every replica in the directory was checked, as Unix time; 0: not all were yet.",
        labels=["directory"],
    )
    for path, since_ms in stats.scrubbed_since_ms.items():
        since.add_metric([path], since_ms / 1000)
    yield since
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
        ("quorate_scrub_bytes", "Bytes of segments read to check them.", stats.scrubbed_bytes),
        (
            "quorate_producer_duplicate_batches",
            "Batches of idempotent producers recognised as sent before.",
            stats.duplicate_batches,
        ),
    ):
        yield _counter(counter, help_text, value)


def _cleaning_metrics(replicas: ReplicaServices) -> Iterator[Metric]:
    """Yield the figures of compaction: Kafka's LogCleaner and LogCleanerManager, and counts."""
    stats = replicas.cleaning
    cleaner, manager = "kafka_log_logcleaner", "kafka_log_logcleanermanager"
    looked_at = stats.looked_at
    idle_ms = 0.0 if looked_at is None else (trio.current_time() - looked_at) * 1000
    for gauge, help_text, value in (
        (f"{cleaner}_max_clean_time_secs", "Longest compaction of the last round.", stats.longest_s),
        (f"{cleaner}_cleaner_recopy_percent", "What the last round left of it.", stats.recopied_percent),
        (
            f"{cleaner}_max_compaction_delay_secs",
            "Time of the oldest dirty record above max.compaction.lag.ms.",
            stats.longest_delay_s,
        ),
        (f"{manager}_max_dirty_percent", "Dirty share of the dirtiest log.", 100 * stats.dirtiest),
        (f"{manager}_time_since_last_run_ms", "Time since the last look at the logs.", idle_ms),
    ):
        yield _gauge(gauge, help_text, value)
    label = ["logDirectory"]
    count = GaugeMetricFamily(
        f"{manager}_uncleanable_partitions_count", "Logs that can't be compacted.", labels=label
    )
    size = GaugeMetricFamily(f"{manager}_uncleanable_bytes", "Their dirty bytes.", labels=label)
    for path, (logs, dirty_bytes) in stats.uncleanable.items():
        count.add_metric([path], float(logs))
        size.add_metric([path], float(dirty_bytes))
    yield from (count, size)
    for counter, help_text, value in (
        ("passes", "Compactions that have ended well.", stats.passes),
        ("bytes_before", "Bytes of the logs that they read.", stats.bytes_before),
        ("bytes_after", "Bytes that they left of these.", stats.bytes_after),
        ("records_before", "Records that they read.", stats.records_before),
        ("records_after", "Records that they left of these.", stats.records_after),
    ):
        yield _counter(f"quorate_log_cleaner_{counter}", help_text, value)


def _change_metrics(replicas: ReplicaServices) -> Iterator[Metric]:
    """Yield the state changes of this broker's replicas."""
    journal, summary = replicas.journal, replicas.journal.summary(now=trio.current_time())
    name = "quorate_broker_state_change"
    for gauge, help_text, value in (
        ("s_pending", "State changes that were begun and have not ended.", summary.pending),
        ("_backlog", "Runs of metadata records whose state changes were not begun.", summary.backlog),
        ("_oldest_seconds", "Age of the oldest of both; 0: there is none.", summary.oldest_ms / 1000),
        ("_completed_offset", "Metadata offset up to which all have ended.", summary.completed_offset),
    ):
        yield _gauge(name + gauge, help_text, value)
    ended = CounterMetricFamily(f"{name}s", "State changes that have ended.", labels=["change", "outcome"])
    for kind in ChangeKind:
        for outcome in ENDS:
            ended.add_metric([kind.value, outcome.value], journal.counts.get((kind, outcome), 0))
    yield ended
    cumulative, buckets = 0, []
    for bound, within in zip((*BOUNDS, float("inf")), journal.buckets, strict=True):
        cumulative += within
        buckets.append(("+Inf" if bound == float("inf") else repr(bound), float(cumulative)))
    yield HistogramMetricFamily(
        f"{name}_time_seconds",
        "Time from the receipt of a state change to its completion.",
        buckets=buckets,
        sum_value=journal.seconds,
    )


def _progress_metrics(node: ControllerNode) -> Iterator[Metric]:
    """Yield how far the brokers are with their state changes, as the active controller knows it."""
    now = trio.current_time()
    name, label = "quorate_controller_broker", ["broker"]
    pending = GaugeMetricFamily(
        f"{name}_pending_changes", "State changes that the broker has not ended.", labels=label
    )
    lag = GaugeMetricFamily(
        f"{name}_record_lag", "Records after which the broker has not ended all.", labels=label
    )
    oldest = GaugeMetricFamily(
        f"{name}_oldest_change_seconds", "Age of the broker's oldest state change; 0: none.", labels=label
    )
    for each in node.progress.progress(now=now):
        pending.add_metric([str(each.broker_id)], each.pending)
        lag.add_metric([str(each.broker_id)], each.lag)
        oldest.add_metric([str(each.broker_id)], each.oldest_s)
    yield from (pending, lag, oldest)
    behind = node.progress.behind(now=now, patience=node.controller.settings.tuning.patience_s)
    yield _gauge(
        "quorate_controller_brokers_behind",
        "Brokers with a state change older than half a session.",
        len(behind),
    )


def _counter(name: str, help_text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, help_text)
    family.add_metric([], float(value))
    return family


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=float(value))
