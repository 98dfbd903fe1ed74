"""What a broker and its controller show beside the quorum's metrics (KIP-835, and Kafka's ReplicaManager).

Names are what Strimzi's JMX exporter rules make of Kafka's beans; what Kafka lacks begins with `quorate_`.
Read when scraped: nothing is counted twice.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from quorate.broker.controller_node import ControllerNode
from quorate.broker.metadata import MetadataCache
from quorate.broker.replication.replica_manager import ReplicaManager


class BrokerMetrics(Collector):
    """`replicas` and `controller`: of this node, None where it has no such role."""

    def __init__(
        self,
        metadata: MetadataCache,
        *,
        replicas: ReplicaManager | None,
        controller: ControllerNode | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._controller = controller
        self._now_ms = now_ms

    def describe(self) -> Iterable[Metric]:
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        yield from self._of_metadata()
        if self._controller is not None:
            yield from self._of_controller(self._controller)
        if self._replicas is not None:
            yield from _of_replicas(self._replicas)

    def _of_metadata(self) -> Iterator[Metric]:
        applied_ms = self._metadata.last_applied_timestamp_ms
        name = "kafka_server_brokermetadatametrics_last_applied_record"
        yield _gauge(f"{name}_offset", "Last metadata record applied here.", self._metadata.offset)
        yield _gauge(f"{name}_timestamp", "When the leader appended it, in ms.", applied_ms)
        lag_ms = self._now_ms() - applied_ms if applied_ms else 0
        yield _gauge(f"{name}_lag_ms", "Now, less that time.", lag_ms)

    def _of_controller(self, controller: ControllerNode) -> Iterator[Metric]:
        image = self._metadata.image
        fenced = sum(broker.fenced for broker in image.brokers.values())
        for name, help_text, value in (
            ("activecontrollercount", "1 on the active controller.", controller.controller.active),
            ("fencedbrokercount", "Registered brokers that are fenced.", fenced),
            ("activebrokercount", "Registered brokers that are not.", len(image.brokers) - fenced),
            ("globaltopiccount", "Topics.", len(image.topics)),
            ("globalpartitioncount", "Partitions.", image.partition_count()),
            ("offlinepartitionscount", "Partitions that nobody leads.", image.leaderless_count),
        ):
            yield _gauge(f"kafka_controller_kafkacontroller_{name}", help_text, value)


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
    ):
        yield _gauge(f"{name}_{gauge}", help_text, value)
    topics = "kafka_server_brokertopicmetrics"
    for counter, help_text, value in (
        (f"{topics}_bytesin", "Bytes of batches appended for producers.", stats.appended_bytes),
        (f"{topics}_bytesout", "Bytes of batches answered to consumers.", stats.bytes_to_consumers),
        (f"{topics}_replicationbytesin", "Bytes fetched from leaders.", stats.replicated_bytes),
        (f"{topics}_replicationbytesout", "Bytes answered to followers.", stats.bytes_to_followers),
        (f"{name}_isrshrinks", "ISRs that shrank.", stats.isr_shrinks),
        (f"{name}_isrexpands", "ISRs that grew.", stats.isr_expands),
        (f"{name}_failedisrupdates", "ISR changes that were refused.", stats.failed_isr_updates),
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
