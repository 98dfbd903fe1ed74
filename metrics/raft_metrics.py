"""The raft-manager metrics of KIP-595, in two spellings of the same values.

`raft_manager_*` follows Prometheus' rules (base units, an enum as one series a state).
`kafka_server_raftmetrics_*` is what Strimzi's JMX exporter rules make of Kafka's beans (milliseconds, the
current state as a label), so that the dashboards people have go on working. One thing we leave out: those
rules call a name that ends in -max a counter. It is not one, a scraper does not care, and OpenMetrics would
refuse a counter whose name lacks `_total`.

In a service of one's own:

    registry = CollectorRegistry()  # or prometheus_client.REGISTRY, or the one the service has
    metrics = RaftMetrics(registry, monotonic=trio.current_time, labels={"quorum": "orders"})
    async with Quorum.open(config, state_machine, telemetry=metrics) as quorum:
        ...

`labels` tell apart several quorums in one registry. `serve_metrics` is an endpoint for who has none.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from quorate.metrics.windows import Window
from quorate.raft.core.effects import Role
from quorate.raft.core.types import Epoch, NodeId, Offset

STATES = ("leader", "follower", "candidate", "prospective", "unattached", "resigned", "observer")
"""KIP-595's four, and those that the code has beside them (KIP-996, KIP-853)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One metric of KIP-595's table."""

    bean: str
    """Kafka's attribute name."""
    name: str
    """Ours, after `raft_manager_`."""
    kind: str
    """As the KIP has it."""
    help: str
    scale: float = 1.0
    """From the bean's unit to ours."""


DECLARATIONS = (
    Declaration(
        bean="current-leader",
        name="current_leader",
        kind="dynamic gauge",
        help="Node id of the current quorum leader; -1 while unknown.",
    ),
    Declaration(
        bean="current-epoch",
        name="current_epoch",
        kind="dynamic gauge",
        help="The current quorum epoch; 0 while unknown.",
    ),
    Declaration(
        bean="current-vote",
        name="current_vote",
        kind="dynamic gauge",
        help="Node id that this node voted for in the current epoch; -1 if none.",
    ),
    Declaration(
        bean="log-end-offset",
        name="log_end_offset",
        kind="dynamic gauge",
        help="Log end offset (exclusive) of this node's log.",
    ),
    Declaration(
        bean="log-end-epoch",
        name="log_end_epoch",
        kind="dynamic gauge",
        help="Epoch of the last record in this node's log.",
    ),
    Declaration(
        bean="high-watermark",
        name="high_watermark",
        kind="dynamic gauge",
        help="High watermark (exclusive) as this node knows it; -1 while unknown.",
    ),
    Declaration(
        bean="boot-timestamp",
        name="boot_timestamp_seconds",
        kind="static gauge",
        help="When this node started, since the Unix epoch.",
        scale=0.001,
    ),
    Declaration(
        bean="current-state",
        name="current_state",
        kind="dynamic enum",
        help="What this node is doing in the quorum.",
    ),
    Declaration(
        bean="number-unknown-voter-connections",
        name="unknown_voter_connections",
        kind="dynamic gauge",
        help="Voters whose connection information is not known.",
    ),
    Declaration(
        bean="election-latency-avg",
        name="election_latency_avg_seconds",
        kind="dynamic gauge",
        help="Average time from becoming a candidate to learning of a leader, in the last 30 to 60 s.",
        scale=0.001,
    ),
    Declaration(
        bean="election-latency-max",
        name="election_latency_max_seconds",
        kind="dynamic gauge",
        help="Longest time from becoming a candidate to learning of a leader, in the last 30 to 60 s.",
        scale=0.001,
    ),
    Declaration(
        bean="commit-latency-avg",
        name="commit_latency_avg_seconds",
        kind="dynamic gauge",
        help="On the leader: average time from appending a record to its commit, in the last 30 to 60 s.",
        scale=0.001,
    ),
    Declaration(
        bean="commit-latency-max",
        name="commit_latency_max_seconds",
        kind="dynamic gauge",
        help="On the leader: longest time from appending a record to its commit, in the last 30 to 60 s.",
        scale=0.001,
    ),
    Declaration(
        bean="fetch-records-rate",
        name="fetch_records_per_second",
        kind="windowed rate",
        help="Records fetched from the leader per second (followers and observers).",
    ),
    Declaration(
        bean="append-records-rate",
        name="append_records_per_second",
        kind="windowed rate",
        help="Records appended per second (leader).",
    ),
    Declaration(
        bean="poll-idle-ratio-avg",
        name="poll_idle_ratio_avg",
        kind="windowed average",
        help="Share of the time in which the raft loop waited for something to do.",
    ),
)
"""All sixteen of the KIP's table."""


class RaftMetrics(Collector):
    """`quorate.raft.telemetry.Telemetry` that shows itself in a Prometheus registry.

    `monotonic`: seconds; `trio.current_time` on a node. May be scraped from another thread.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        monotonic: Callable[[], float],
        labels: dict[str, str] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._labels = dict(sorted((labels or {}).items()))
        self._state = "unattached"
        self._values: dict[str, float] = {
            "current-leader": -1,
            "current-epoch": 0,
            "current-vote": -1,
            "log-end-offset": 0,
            "log-end-epoch": 0,
            "high-watermark": -1,
            "boot-timestamp": 0,
            "number-unknown-voter-connections": 0,
        }
        self._elections = Window(monotonic)
        self._commits = Window(monotonic)
        self._fetched = Window(monotonic)
        self._appended = Window(monotonic)
        self._idle = Window(monotonic)
        self._fetched_total = 0
        self._appended_total = 0
        if registry is not None:
            registry.register(self)

    # Telemetry

    def booted(self, timestamp_ms: int) -> None:
        self._values["boot-timestamp"] = timestamp_ms

    def role_changed(
        self, role: Role, *, is_voter: bool, epoch: Epoch, leader: NodeId | None, voted: NodeId | None
    ) -> None:
        self._state = "observer" if role is Role.FOLLOWER and not is_voter else role.value
        self._values["current-leader"] = -1 if leader is None else leader
        self._values["current-epoch"] = epoch
        self._values["current-vote"] = -1 if voted is None else voted

    def log_end(self, end_offset: Offset, epoch: Epoch) -> None:
        self._values["log-end-offset"] = end_offset
        self._values["log-end-epoch"] = epoch

    def high_watermark(self, offset: Offset) -> None:
        self._values["high-watermark"] = offset

    def unknown_voter_connections(self, count: int) -> None:
        self._values["number-unknown-voter-connections"] = count

    def election_finished(self, seconds: float) -> None:
        with self._lock:
            self._elections.record(seconds * 1000)

    def committed(self, seconds: float, records: int) -> None:
        with self._lock:
            self._commits.record(seconds * 1000, records)

    def records_fetched(self, count: int) -> None:
        with self._lock:
            self._fetched.record(count)
            self._fetched_total += count

    def records_appended(self, count: int) -> None:
        with self._lock:
            self._appended.record(count)
            self._appended_total += count

    def polled(self, *, idle_seconds: float, busy_seconds: float) -> None:
        with self._lock:
            self._idle.record(1.0, idle_seconds)
            self._idle.record(0.0, busy_seconds)

    # Showing

    def values(self) -> dict[str, float]:
        """By Kafka's attribute names, in Kafka's units (ms); without the state, which is not a number."""
        with self._lock:
            return {
                **self._values,
                "election-latency-avg": self._elections.average(),
                "election-latency-max": self._elections.maximum(),
                "commit-latency-avg": self._commits.average(),
                "commit-latency-max": self._commits.maximum(),
                "fetch-records-rate": self._fetched.rate(),
                "append-records-rate": self._appended.rate(),
                "poll-idle-ratio-avg": self._idle.average(),
            }

    @property
    def state(self) -> str:
        return self._state

    def describe(self) -> Iterable[Metric]:
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        values = self.values()
        for declaration in DECLARATIONS:
            if declaration.bean == "current-state":
                yield from self._state_families(declaration)
                continue
            value = values[declaration.bean]
            yield self._gauge(f"raft_manager_{declaration.name}", declaration.help, value * declaration.scale)
            kafka_name = declaration.bean.replace("-", "_")
            yield self._gauge(f"kafka_server_raftmetrics_{kafka_name}", declaration.help, value)
        yield self._counter(
            "raft_manager_fetch_records", "Records fetched from the leader.", self._fetched_total
        )
        yield self._counter(
            "raft_manager_append_records", "Records appended as leader.", self._appended_total
        )

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _state_families(self, declaration: Declaration) -> Iterator[Metric]:
        ours = Metric(f"raft_manager_{declaration.name}", declaration.help, "stateset")
        for state in STATES:
            labels = {**self._labels, f"raft_manager_{declaration.name}": state}
            ours.add_sample(ours.name, labels, 1.0 if state == self._state else 0.0)
        yield ours
        kafka = Metric("kafka_server_raftmetrics_current_state", declaration.help, "unknown")
        kafka.add_sample(kafka.name, {**self._labels, "current_state": self._state}, 1.0)
        yield kafka
