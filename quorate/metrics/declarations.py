"""Every metric that Kafka has too: KIP-595's of the raft manager, KIP-835's of the metadata.

Each has two spellings of one value. Ours follows Prometheus' rules: base units, counters that end in
`_total`. The other is what Strimzi's JMX exporter rules make of Kafka's bean, so that the dashboards people
have go on working. One thing we leave out: those rules call a name that ends in -max a counter. It is not
one, a scraper does not care, and OpenMetrics would refuse a counter whose name lacks `_total`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class MetricKind(Enum):
    """The kind of a value in our spelling. In Strimzi's, all but rates and histograms are gauges."""

    GAUGE = "gauge"
    COUNTER = "counter"
    STATE = "enum"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One attribute of one of Kafka's beans."""

    mbean: str
    """The bean, such as `kafka.server:type=raft-metrics`."""
    bean: str
    """The attribute, or the bean's `name`."""
    ours: str
    """Our name, without a counter's `_total`."""
    help: str
    kind: MetricKind = MetricKind.GAUGE
    scale: float = 1.0
    """The factor from the bean's unit to ours."""

    @property
    def kafkas(self) -> str:
        """The other name, without a counter's `_total`."""
        domain, _, kind = self.mbean.partition(":type=")
        attribute = self.bean.removesuffix("PerSec").replace("-", "_")
        return f"{domain.replace('.', '_')}_{kind.replace('-', '')}_{attribute}".lower()

    @property
    def is_rate(self) -> bool:
        """True for a meter of Kafka. Strimzi's rules export its count."""
        return self.bean.endswith("PerSec")


def families(
    declarations: Iterable[Declaration], values: Mapping[str, float], labels: Mapping[str, str] | None = None
) -> Iterator[Metric]:
    """Yield gauges and counters under both names. `values` has each by attribute, in Kafka's units. Raises
    `KeyError` if one is missing."""
    labels = labels or {}
    for each in declarations:
        value = values[each.bean]
        ours = counter if each.kind is MetricKind.COUNTER else gauge
        yield ours(each.ours, each.help, value * each.scale, labels)
        kafkas = counter if each.is_rate else gauge
        yield kafkas(each.kafkas, each.help, value, labels)


def gauge(name: str, text: str, value: float, labels: Mapping[str, str]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def counter(name: str, text: str, value: float, labels: Mapping[str, str]) -> Metric:
    family = CounterMetricFamily(name, text, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


_MS: Final = 0.001


def _attribute(
    mbean: str,
    prefix: str,
    bean: str,
    ours: str,
    text: str,
    *,
    kind: MetricKind = MetricKind.GAUGE,
    scale: float = 1.0,
) -> Declaration:
    return Declaration(mbean=mbean, bean=bean, ours=f"{prefix}_{ours}", help=text, kind=kind, scale=scale)


_raft = partial(_attribute, "kafka.server:type=raft-metrics", "raft_manager")
RAFT: Final = (
    _raft("current-leader", "current_leader", "Node id of the current quorum leader; -1 while unknown."),
    _raft("current-epoch", "current_epoch", "The current quorum epoch; 0 while unknown."),
    _raft(
        "current-vote", "current_vote", "Node id that this node voted for in the current epoch; -1 if none."
    ),
    _raft("log-end-offset", "log_end_offset", "Log end offset (exclusive) of this node's log."),
    _raft("log-end-epoch", "log_end_epoch", "Epoch of the last record in this node's log."),
    _raft(
        "high-watermark",
        "high_watermark",
        "High watermark (exclusive) as this node knows it; -1 while unknown.",
    ),
    _raft(
        "boot-timestamp",
        "boot_timestamp_seconds",
        "Start time of this node, since the Unix epoch.",
        scale=_MS,
    ),
    _raft("current-state", "current_state", "Role of this node in the quorum.", kind=MetricKind.STATE),
    _raft(
        "number-unknown-voter-connections",
        "unknown_voter_connections",
        "Voters whose endpoint this node does not know.",
    ),
    _raft(
        "election-latency-avg",
        "election_latency_avg_seconds",
        "Average time from candidacy to a known leader, in the last 30 to 60 s.",
        scale=_MS,
    ),
    _raft(
        "election-latency-max",
        "election_latency_max_seconds",
        "Longest time from candidacy to a known leader, in the last 30 to 60 s.",
        scale=_MS,
    ),
    _raft(
        "commit-latency-avg",
        "commit_latency_avg_seconds",
        "On the leader: average time from appending a record to its commit, in the last 30 to 60 s.",
        scale=_MS,
    ),
    _raft(
        "commit-latency-max",
        "commit_latency_max_seconds",
        "On the leader: longest time from appending a record to its commit, in the last 30 to 60 s.",
        scale=_MS,
    ),
    _raft(
        "fetch-records-rate",
        "fetch_records_per_second",
        "Records fetched from the leader per second (followers and observers), over the last 30 to 60 s.",
    ),
    _raft(
        "append-records-rate",
        "append_records_per_second",
        "Records appended per second (leader), over the last 30 to 60 s.",
    ),
    _raft(
        "poll-idle-ratio-avg",
        "poll_idle_ratio_avg",
        "Share of the time in which the raft loop was idle, in the last 30 to 60 s.",
    ),
)
"""The sixteen metrics of KIP-595."""

SNAPSHOTS: Final = (
    Declaration(
        mbean="kafka.server:type=MetadataLoader",
        bean="HandleLoadSnapshotCount",
        ours="raft_manager_snapshots_loaded",
        help="Snapshots loaded since this node started.",
        kind=MetricKind.COUNTER,
    ),
    Declaration(
        mbean="kafka.server:type=SnapshotEmitter",
        bean="LatestSnapshotGeneratedBytes",
        ours="raft_manager_latest_snapshot_bytes",
        help="Size of this node's latest snapshot; before the first, of the loaded one; 0: none.",
    ),
    Declaration(
        mbean="kafka.server:type=SnapshotEmitter",
        bean="LatestSnapshotGeneratedAgeMs",
        ours="raft_manager_latest_snapshot_age_seconds",
        help="Time since this node took its latest snapshot; before the first, since its start.",
        scale=_MS,
    ),
)
"""The snapshot metrics of KIP-835, which every quorum has."""


_applied = partial(_attribute, "kafka.server:type=broker-metadata-metrics", "quorate_broker_metadata")
BROKER_METADATA: Final = (
    _applied(
        "last-applied-record-offset",
        "last_applied_record_offset",
        "Offset of the last metadata record applied here; -1: none yet.",
    ),
    _applied(
        "last-applied-record-timestamp",
        "last_applied_record_timestamp_seconds",
        "Time of that record by its leader's clock, since the Unix epoch; 0: none yet.",
        scale=_MS,
    ),
    _applied(
        "last-applied-record-lag-ms",
        "last_applied_record_lag_seconds",
        "Age of the last applied record. It grows while there are no new records.",
        scale=_MS,
    ),
    _applied(
        "metadata-load-error-count",
        "load_errors",
        "Metadata records that could not be decoded or applied; the node stops.",
        kind=MetricKind.COUNTER,
    ),
    _applied(
        "metadata-apply-error-count",
        "apply_errors",
        "Metadata changes that this node failed to act upon; the node stops.",
        kind=MetricKind.COUNTER,
    ),
)
"""The metadata metrics of KIP-835 that every broker has."""


_controller = partial(_attribute, "kafka.controller:type=KafkaController", "quorate_controller")
CONTROLLER: Final = (
    _controller("ActiveControllerCount", "active", "1 on the active controller, else 0."),
    _controller("FencedBrokerCount", "fenced_brokers", "Registered brokers that are fenced."),
    _controller("ActiveBrokerCount", "active_brokers", "Registered brokers that are not fenced."),
    _controller("GlobalTopicCount", "topics", "Topics."),
    _controller("GlobalPartitionCount", "partitions", "Partitions."),
    _controller("OfflinePartitionsCount", "offline_partitions", "Partitions without a leader."),
    _controller(
        "PreferredReplicaImbalanceCount",
        "preferred_replica_imbalance",
        "Partitions that are not led by their first replica.",
    ),
    _controller(
        "LastAppliedRecordOffset",
        "last_applied_record_offset",
        "Offset of the last metadata record applied here; -1: none yet.",
    ),
    _controller(
        "LastCommittedRecordOffset",
        "last_committed_record_offset",
        "Offset of the last record known here to be committed; -1: none known.",
    ),
    _controller(
        "LastAppliedRecordTimestamp",
        "last_applied_record_timestamp_seconds",
        "Time of the last applied record by its leader's clock, since the Unix epoch; 0: none yet.",
        scale=_MS,
    ),
    _controller(
        "LastAppliedRecordLagMs",
        "last_applied_record_lag_seconds",
        "Age of the last applied record; 0 on the active controller.",
        scale=_MS,
    ),
    _controller(
        "MetadataErrorCount",
        "metadata_errors",
        "Errors of this node's controller. Each ended its leadership.",
        kind=MetricKind.COUNTER,
    ),
    _controller(
        "TimedOutBrokerHeartbeatCount",
        "timed_out_broker_heartbeats",
        "Broker sessions that ran out while this node was the active controller.",
        kind=MetricKind.COUNTER,
    ),
    _controller(
        "EventQueueOperationsStartedCount",
        "operations_started",
        "Operations that this node's controller started, including its own chores.",
        kind=MetricKind.COUNTER,
    ),
    _controller(
        "EventQueueOperationsTimedOutCount",
        "operations_timed_out",
        "Operations whose client gave up before they were committed.",
        kind=MetricKind.COUNTER,
    ),
    _controller(
        "NewActiveControllersCount",
        "new_active_controllers",
        "Elections of an active controller that this node has seen, including its own.",
        kind=MetricKind.COUNTER,
    ),
    Declaration(
        mbean="kafka.controller:type=ControllerStats",
        bean="UncleanLeaderElectionsPerSec",
        ours="quorate_controller_unclean_leader_elections",
        help="Partition leaders that may lack committed records, elected by this node as active controller.",
        kind=MetricKind.COUNTER,
    ),
    Declaration(
        mbean="kafka.server:type=MetadataLoader",
        bean="CurrentMetadataVersion",
        ours="quorate_controller_current_metadata_version",
        help="The metadata.version in force; 0: none yet.",
    ),
    Declaration(
        mbean="kafka.server:type=MetadataLoader",
        bean="CurrentControllerId",
        ours="quorate_controller_current_controller_id",
        help="Node id of the active controller; -1 while unknown.",
    ),
)
"""The metrics of the active controller. On other nodes they are 0."""

EVENT_QUEUE_TIME: Final = Declaration(
    mbean="kafka.controller:type=ControllerEventManager",
    bean="EventQueueTimeMs",
    ours="quorate_controller_event_queue_time_seconds",
    help="Delay of controller operations: 0 for requests, the time past their due time for chores.",
    kind=MetricKind.HISTOGRAM,
    scale=_MS,
)
EVENT_PROCESSING_TIME: Final = Declaration(
    mbean="kafka.controller:type=ControllerEventManager",
    bean="EventQueueProcessingTimeMs",
    ours="quorate_controller_event_processing_time_seconds",
    help="Processing time of controller operations, without their commit.",
    kind=MetricKind.HISTOGRAM,
    scale=_MS,
)
EVENT_MANAGER: Final = (EVENT_QUEUE_TIME, EVENT_PROCESSING_TIME)
