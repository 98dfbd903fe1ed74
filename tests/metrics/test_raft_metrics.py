"""Each of KIP-595's sixteen, and those of snapshots, in both spellings."""

import gc
import threading
import weakref

import pytest
import trio
import trio.testing
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from quorate.metrics import RaftMetrics
from quorate.metrics.declarations import RAFT, SNAPSHOTS
from quorate.metrics.raft_metrics import STATES
from quorate.metrics.windows import Window
from quorate.raft.core.effects import Role

KIP_595 = {
    "current-leader", "current-epoch", "current-vote", "log-end-offset", "log-end-epoch", "high-watermark",
    "boot-timestamp", "current-state", "number-unknown-voter-connections", "election-latency-max",
    "election-latency-avg", "fetch-records-rate", "append-records-rate", "commit-latency-max",
    "commit-latency-avg", "poll-idle-ratio-avg",
}  # fmt: skip
DECLARED = {declaration.bean: declaration for declaration in (*RAFT, *SNAPSHOTS)}


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


class Node:
    """The metrics of one node, and what a scrape of them says."""

    def __init__(self):
        self.clock = Clock()
        self.registry = CollectorRegistry()
        self.metrics = RaftMetrics(self.registry, monotonic=self.clock)

    def scraped(self, parser=parse, generate=generate_latest):
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in parser(generate(self.registry).decode())
            for sample in family.samples
        }

    def check(self, state, **expected):
        """Both spellings say `expected` (in Kafka's units)."""
        samples = self.scraped()
        for name, value in expected.items():
            declared = DECLARED[name.replace("_", "-")]
            assert samples[f"kafka_server_raftmetrics_{name}", ()] == pytest.approx(value), name
            assert samples[declared.ours, ()] == pytest.approx(value * declared.scale), name
        assert samples["kafka_server_raftmetrics_current_state", (("current_state", state),)] == 1
        states = {
            labels[0][1]: value
            for (name, labels), value in samples.items()
            if name == "raft_manager_current_state"
        }
        assert states == {each: float(each == state) for each in STATES}


def test_all_sixteen_of_the_kip_are_declared_once():
    assert {declaration.bean for declaration in RAFT} == KIP_595
    assert len(RAFT) == 16


def test_the_metrics_follow_a_node_through_its_roles():
    node = Node()
    metrics, clock = node.metrics, node.clock
    gauges = {
        "current_leader": -1, "current_epoch": 0, "current_vote": -1, "log_end_offset": 0, "log_end_epoch": 0,
        "high_watermark": -1, "boot_timestamp": 0, "number_unknown_voter_connections": 0,
        "election_latency_avg": 0, "election_latency_max": 0, "commit_latency_avg": 0,
        "commit_latency_max": 0, "fetch_records_rate": 0, "append_records_rate": 0, "poll_idle_ratio_avg": 0,
    }  # fmt: skip
    assert {name.replace("_", "-") for name in gauges} | {"current-state"} == KIP_595

    def step(state, **changes):
        gauges.update(changes)
        node.check(state, **gauges)

    step("unattached")
    metrics.booted(1_700_000_000_123)
    step("unattached", boot_timestamp=1_700_000_000_123)
    metrics.unknown_voter_connections(2)
    step("unattached", number_unknown_voter_connections=2)
    metrics.role_changed(Role.PROSPECTIVE, is_voter=True, epoch=0, leader=None, voted=None)
    step("prospective")
    metrics.role_changed(Role.CANDIDATE, is_voter=True, epoch=1, leader=None, voted=3)
    step("candidate", current_epoch=1, current_vote=3)
    metrics.election_finished(0.040)
    metrics.role_changed(Role.LEADER, is_voter=True, epoch=1, leader=3, voted=3)
    step("leader", current_leader=3, election_latency_avg=40, election_latency_max=40)
    metrics.records_appended(90)
    metrics.log_end_offset(90, 1)
    step("leader", append_records_rate=3, log_end_offset=90, log_end_epoch=1)
    metrics.committed(0.002, 80)
    metrics.committed(0.010, 10)
    metrics.high_watermark(90)
    step("leader", commit_latency_avg=(160 + 100) / 90, commit_latency_max=10, high_watermark=90)
    metrics.polled(idle_seconds=3.0, busy_seconds=1.0)
    step("leader", poll_idle_ratio_avg=0.75)
    metrics.role_changed(Role.RESIGNED, is_voter=True, epoch=1, leader=None, voted=3)
    step("resigned", current_leader=-1)
    metrics.role_changed(Role.UNATTACHED, is_voter=True, epoch=2, leader=None, voted=None)
    step("unattached", current_epoch=2, current_vote=-1)
    metrics.election_finished(0.080)
    metrics.role_changed(Role.FOLLOWER, is_voter=True, epoch=2, leader=1, voted=None)
    step("follower", current_leader=1, election_latency_avg=60, election_latency_max=80)
    metrics.records_fetched(60)
    metrics.log_end_offset(150, 2)
    step("follower", fetch_records_rate=2, log_end_offset=150, log_end_epoch=2)
    metrics.role_changed(Role.FOLLOWER, is_voter=False, epoch=2, leader=1, voted=None)
    step("observer")
    clock.seconds += 90
    step(
        "observer", election_latency_avg=0, election_latency_max=0, commit_latency_avg=0,
        commit_latency_max=0, fetch_records_rate=0, append_records_rate=0, poll_idle_ratio_avg=0,
    )  # fmt: skip


def test_both_formats_parse_and_say_the_same():
    node = Node()
    node.metrics.role_changed(Role.LEADER, is_voter=True, epoch=4, leader=1, voted=1)
    node.metrics.records_appended(7)
    assert node.scraped() == node.scraped(parse_openmetrics, generate_openmetrics)


def test_types_in_the_text_format():
    text = generate_latest(Node().registry).decode()
    assert "# TYPE kafka_server_raftmetrics_current_state untyped\n" in text
    assert "# TYPE raft_manager_append_records_total counter\n" in text
    for declaration in RAFT:
        if declaration.bean != "current-state":
            assert declaration.kafkas == f"kafka_server_raftmetrics_{declaration.bean.replace('-', '_')}"
            assert f"# TYPE {declaration.kafkas} gauge\n" in text


def test_the_series_that_the_kraft_dashboard_queries_are_there():
    names = {name for name, _ in Node().scraped()}
    queries = (
        "current_state current_leader current_vote current_epoch high_watermark log_end_offset "
        "append_records_rate fetch_records_rate commit_latency_avg"
    )
    for query in queries.split(" "):
        assert f"kafka_server_raftmetrics_{query}" in names


def test_totals_never_fall():
    node = Node()
    for count in (5, 7):
        node.metrics.records_appended(count)
        node.metrics.records_fetched(count * 2)
        node.clock.seconds += 100
    samples = node.scraped()
    assert samples["raft_manager_append_records_total", ()] == 12
    assert samples["raft_manager_fetch_records_total", ()] == 24


def test_two_quorums_share_a_registry_with_a_services_own_metrics():
    registry = CollectorRegistry()
    orders = Counter("orders", "Orders taken.", registry=registry)
    orders.inc()
    one = RaftMetrics(registry, monotonic=Clock(), labels={"quorum": "one"})
    RaftMetrics(None, monotonic=Clock())
    one.log_end_offset(5, 1)
    text = generate_latest(registry).decode()
    assert 'raft_manager_log_end_offset{quorum="one"} 5.0' in text
    assert "orders_total 1.0" in text


def test_snapshots_are_counted_and_measured_from_the_start_of_the_node():
    node = Node()

    def shown():
        samples = node.scraped()
        ours = [samples[name, ()] for name in (
            "raft_manager_snapshots_loaded_total", "raft_manager_latest_snapshot_bytes",
            "raft_manager_latest_snapshot_age_seconds",
        )]  # fmt: skip
        kafkas = [samples[name, ()] for name in (
            "kafka_server_metadataloader_handleloadsnapshotcount",
            "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes",
            "kafka_server_snapshotemitter_latestsnapshotgeneratedagems",
        )]  # fmt: skip
        assert ours == [kafkas[0], kafkas[1], kafkas[2] / 1000]
        return ours

    node.clock.seconds += 5
    assert shown() == [0, 0, 5]
    node.metrics.snapshot_loaded(700)
    assert shown() == [1, 700, 5]
    node.metrics.snapshot_taken(900)
    node.clock.seconds += 2
    assert shown() == [1, 900, 2]
    node.metrics.snapshot_loaded(800)
    assert shown() == [2, 900, 2], "the latest that was taken here"


def test_leaders_are_counted_once_each():
    metrics = Node().metrics
    for role, epoch, leader in (
        (Role.UNATTACHED, 1, None), (Role.FOLLOWER, 1, 2), (Role.PROSPECTIVE, 1, 2), (Role.FOLLOWER, 1, 2),
        (Role.CANDIDATE, 2, None), (Role.LEADER, 2, 3), (Role.UNATTACHED, 3, None), (Role.FOLLOWER, 3, 2),
    ):  # fmt: skip
        metrics.role_changed(role, is_voter=True, epoch=epoch, leader=leader, voted=None)
    assert metrics.leaders_seen == 3


# Windows


def test_an_average_and_a_maximum_are_of_the_last_30_to_60_seconds():
    clock = Clock()
    window = Window(clock)
    window.record(10)
    clock.seconds += 30
    window.record(20)
    assert (window.average(), window.maximum()) == (15, 20)
    clock.seconds += 29
    assert window.maximum() == 20
    clock.seconds += 2
    assert (window.average(), window.maximum()) == (20, 20)
    clock.seconds += 60
    assert (window.average(), window.maximum(), window.rate()) == (0, 0, 0)


def test_a_rate_is_not_extrapolated_from_a_burst_at_the_start():
    clock = Clock()
    window = Window(clock)
    window.record(300)
    clock.seconds += 1
    assert window.rate() == 10
    clock.seconds += 44
    window.record(300)
    assert window.rate() == pytest.approx(600 / 45)


def test_a_weight_counts_as_so_many_occurrences():
    window = Window(Clock())
    window.record(1.0, 9)
    window.record(11.0)
    assert window.average() == 2


def test_a_long_silence_leaves_a_bounded_number_of_samples():
    clock = Clock()
    window = Window(clock)
    for _ in range(1000):
        clock.seconds += 31
        window.record(1)
    assert len(window._samples) <= 3
    assert window.rate() == pytest.approx(2 / 31)


def test_two_quorums_share_a_registry_by_their_labels():
    registry = CollectorRegistry()
    one = RaftMetrics(registry, labels={"quorum": "a"})
    two = RaftMetrics(registry, labels={"quorum": "b"})
    one.high_watermark(5)
    two.high_watermark(7)
    values = {
        quorum: registry.get_sample_value("raft_manager_high_watermark", {"quorum": quorum})
        for quorum in "ab"
    }
    assert values == {"a": 5, "b": 7}
    for generate, reading in ((generate_latest, parse), (generate_openmetrics, parse_openmetrics)):
        names = [family.name for family in reading(generate(registry).decode())]
        assert sorted(names) == sorted(set(names)), "a family is there twice"
    two.unregister()
    two.unregister()
    assert registry.get_sample_value("raft_manager_high_watermark", {"quorum": "b"}) is None
    assert registry.get_sample_value("raft_manager_high_watermark", {"quorum": "a"}) == 5
    one.unregister()
    assert list(registry.collect()) == []
    RaftMetrics(registry, labels={"quorum": "a"})


@pytest.mark.parametrize("labels", [None, {"quorum": "a"}])
def test_two_quorums_with_the_same_labels_are_told_to_differ(labels):
    registry = CollectorRegistry()
    RaftMetrics(registry, labels=labels)
    with pytest.raises(ValueError, match="have the same labels"):
        RaftMetrics(registry, labels=labels)


def test_an_unreferenced_registry_is_freed_with_its_metrics():
    registry = CollectorRegistry()
    gone = [weakref.ref(registry), weakref.ref(RaftMetrics(registry, monotonic=Clock()))]
    gc.collect()
    assert all(reference() is not None for reference in gone), "the registry shows them still"
    del registry
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_a_name_that_is_taken_is_still_refused():
    registry = CollectorRegistry()
    Gauge("raft_manager_high_watermark", "mine", registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        RaftMetrics(registry)


@pytest.mark.parametrize("clock", [{}, {"monotonic": trio.current_time}])
def test_made_outside_of_trio_and_scraped_from_another_thread(clock):
    registry = CollectorRegistry()
    metrics = RaftMetrics(registry, **clock)
    scraped = []

    async def node():
        metrics.booted(1)
        metrics.committed(0.25, 1)
        await trio.sleep(1)
        thread = threading.Thread(target=lambda: scraped.append(generate_latest(registry)))
        thread.start()
        thread.join()

    trio.run(node, clock=trio.testing.MockClock(autojump_threshold=0))
    assert registry.get_sample_value("kafka_server_raftmetrics_commit_latency_max") == 250
    (text,) = scraped
    assert b"raft_manager_high_watermark" in text
    age = registry.get_sample_value("kafka_server_snapshotemitter_latestsnapshotgeneratedagems")
    assert age == pytest.approx(1000)
