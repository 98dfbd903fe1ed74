"""The raft-manager metrics of KIP-595 and those of snapshots (KIP-835) of one node.

Names and spellings are in `quorate.metrics.declarations`. The current state is one series a state in ours,
and a label in Kafka's.

In a service of one's own:

    registry = CollectorRegistry()  # or prometheus_client.REGISTRY, or the one the service has
    metrics = RaftMetrics(registry, labels={"quorum": "orders"})
    async with Quorum.open(config, state_machine, telemetry=metrics) as quorum:
        ...

`labels` tell apart several quorums in one registry: give each the same names with other values.
`serve_metrics` is an endpoint for a service without one.
"""

import threading  # noqa: TID251 (another thread may scrape)
from collections.abc import Callable, Iterable, Iterator

import trio
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from quorate.metrics.declarations import RAFT, SNAPSHOTS, Declaration, MetricKind, counter, families
from quorate.metrics.shared_registry import join, leave
from quorate.metrics.windows import Window
from quorate.raft.core import Role
from quorate.types import Epoch, NodeId, Offset


def _stopped() -> float:
    """A clock for the time before the quorum is opened: it stands still."""
    return 0.0


STATES = ("leader", "follower", "candidate", "prospective", "unattached", "resigned", "observer")
"""KIP-595's four, and those that the code has beside them (KIP-996, KIP-853)."""


class RaftMetrics(Collector):
    """A `quorate.raft.Telemetry` that exports the quorum's metrics to a Prometheus registry (KIP-595,
    KIP-835).

    Create it anywhere, also before trio runs. Any thread may scrape it. `monotonic`: a clock in seconds; by
    default the clock of the trio run that opens the quorum. Raises `ValueError` if another quorum has the
    same labels in this registry.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        monotonic: Callable[[], float] | None = None,
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
        self.leaders_seen = 0
        """The number of elected leaders that this node heard of, itself included."""
        self._last_leader: tuple[Epoch, NodeId] | None = None
        self._snapshots_loaded = 0
        self._snapshot_bytes = 0
        self._snapshot_taken = False
        self._states = {"equal": 0, "different": 0, "unchecked": 0}
        # trio.current_time would raise in the thread of a scrape.
        self._takes_trios = monotonic is None or monotonic is trio.current_time
        self._begin(_stopped if monotonic is None or self._takes_trios else monotonic)
        self._fetched_total = 0
        self._appended_total = 0
        self._registry = registry
        if registry is not None:
            join(registry, self)

    def _begin(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._snapshot_at = monotonic()
        self._elections = Window(monotonic)
        self._commits = Window(monotonic)
        self._fetched = Window(monotonic)
        self._appended = Window(monotonic)
        self._idle = Window(monotonic)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all samples of this quorum."""
        return self._labels

    @property
    def commit_latency_ms(self) -> float:
        """The average time to commit a batch of records, of the last 30 to 60 s; 0 without any."""
        with self._lock:
            return self._commits.average()

    def unregister(self) -> None:
        """Remove these metrics from the registry, so that another quorum may use their labels. Idempotent."""
        if self._registry is not None:
            leave(self._registry, self)

    # Telemetry

    def booted(self, timestamp_ms: int) -> None:
        if self._takes_trios:
            with self._lock:
                self._begin(trio.lowlevel.current_clock().current_time)
        self._values["boot-timestamp"] = timestamp_ms

    def role_changed(
        self, role: Role, *, is_voter: bool, epoch: Epoch, leader: NodeId | None, voted: NodeId | None
    ) -> None:
        self._state = "observer" if role is Role.FOLLOWER and not is_voter else role.value
        if leader is not None and (epoch, leader) != self._last_leader:
            self._last_leader = epoch, leader
            self.leaders_seen += 1
        self._values["current-leader"] = -1 if leader is None else leader
        self._values["current-epoch"] = epoch
        self._values["current-vote"] = -1 if voted is None else voted

    def log_end_offset(self, end_offset: Offset, epoch: Epoch) -> None:
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

    def snapshot_loaded(self, size_bytes: int) -> None:
        self._snapshots_loaded += 1
        if not self._snapshot_taken:
            self._snapshot_bytes = size_bytes

    def snapshot_taken(self, size_bytes: int) -> None:
        self._snapshot_taken = True
        self._snapshot_bytes = size_bytes
        self._snapshot_at = self._monotonic()

    def states_compared(self, *, equal: int, different: int, unchecked: int) -> None:
        self._states = {"equal": equal, "different": different, "unchecked": unchecked}

    # Showing

    def values(self) -> dict[str, float]:
        """Return the values by Kafka's attribute names, in Kafka's units (ms), without the state."""
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
                "HandleLoadSnapshotCount": self._snapshots_loaded,
                "LatestSnapshotGeneratedBytes": self._snapshot_bytes,
                "LatestSnapshotGeneratedAgeMs": (self._monotonic() - self._snapshot_at) * 1000,
            }

    @property
    def state(self) -> str:
        """The state in Kafka's words, such as leader, follower or observer."""
        return self._state

    def describe(self) -> Iterable[Metric]:
        """Return the metric families, as Prometheus asks for them at registration."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families with their current samples."""
        for declaration in RAFT:
            if declaration.kind is MetricKind.STATE:
                yield from self._state_families(declaration)
        numbers = (each for each in (*RAFT, *SNAPSHOTS) if each.kind is not MetricKind.STATE)
        yield from families(numbers, self.values(), self._labels)
        yield counter(
            "raft_manager_fetch_records",
            "Records fetched from the leader.",
            self._fetched_total,
            self._labels,
        )
        yield counter(
            "raft_manager_append_records", "Records appended as leader.", self._appended_total, self._labels
        )
        states = GaugeMetricFamily(
            "raft_manager_state_check",
            "Other voters by the outcome of the last comparison of states after the same records: equal, "
            "different, or unchecked.",
            labels=[*self._labels, "outcome"],
        )
        for outcome, count in self._states.items():
            states.add_metric([*self._labels.values(), outcome], count)
        yield states

    def _state_families(self, declaration: Declaration) -> Iterator[Metric]:
        ours = Metric(declaration.ours, declaration.help, "stateset")
        for state in STATES:
            labels = {**self._labels, declaration.ours: state}
            ours.add_sample(ours.name, labels, 1.0 if state == self._state else 0.0)
        yield ours
        kafka = Metric(declaration.kafkas, declaration.help, "unknown")
        kafka.add_sample(kafka.name, {**self._labels, "current_state": self._state}, 1.0)
        yield kafka
