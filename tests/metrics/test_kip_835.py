"""KIP-835's metrics of the metadata and its controller, in both spellings, moved by what happens in a
simulated cluster."""

from typing import Any

import pytest
import trio
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from prometheus_client.registry import Collector

from quorate.broker.controller.rpc import Assignment, CreateTopicsRequest, NewTopic
from quorate.broker.metadata.metadata_records import NoOp
from quorate.broker.metadata.record_codec import encode
from quorate.broker.metadata_cache import MetadataCache
from quorate.error_code import ErrorCode
from quorate.metrics.declarations import (
    BROKER_METADATA,
    CONTROLLER,
    EVENT_MANAGER,
    EVENT_QUEUE_TIME,
    SNAPSHOTS,
    Declaration,
    MetricKind,
)
from quorate.metrics.histogram import QUANTILES, Histogram
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.simulation.world.scheduler import Scheduler
from quorate.types import Epoch, Offset
from tests.metrics.conftest import in_a_cluster, until
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost
from tests.simulator.brokers.broker_scenario import QUICK

KIP_835 = {
    "kafka_server_brokermetadatametrics_last_applied_record_offset",
    "kafka_server_brokermetadatametrics_last_applied_record_timestamp",
    "kafka_server_brokermetadatametrics_last_applied_record_lag_ms",
    "kafka_server_brokermetadatametrics_metadata_load_error_count",
    "kafka_server_brokermetadatametrics_metadata_apply_error_count",
    *(f"kafka_controller_kafkacontroller_{name}" for name in (
        "activecontrollercount", "fencedbrokercount", "activebrokercount", "globaltopiccount",
        "globalpartitioncount", "offlinepartitionscount", "preferredreplicaimbalancecount",
        "lastappliedrecordoffset", "lastcommittedrecordoffset", "lastappliedrecordtimestamp",
        "lastappliedrecordlagms", "metadataerrorcount", "timedoutbrokerheartbeatcount",
        "eventqueueoperationsstartedcount", "eventqueueoperationstimedoutcount", "newactivecontrollerscount",
    )),
    "kafka_controller_controllerstats_uncleanleaderelections",
    "kafka_controller_controllereventmanager_eventqueuetimems",
    "kafka_controller_controllereventmanager_eventqueueprocessingtimems",
    "kafka_server_metadataloader_currentmetadataversion",
    "kafka_server_metadataloader_currentcontrollerid",
    "kafka_server_metadataloader_handleloadsnapshotcount",
    "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes",
    "kafka_server_snapshotemitter_latestsnapshotgeneratedagems",
}  # fmt: skip
VALUES = QUICK | {"unclean.leader.election.enable": "true"}
DECLARED = (*BROKER_METADATA, *CONTROLLER, *EVENT_MANAGER, *SNAPSHOTS)


def test_all_of_the_kip_are_declared_once() -> None:
    assert {declared.kafkas for declared in DECLARED} == KIP_835
    assert len(DECLARED) == len({declared.ours for declared in DECLARED}) == len(KIP_835)


def pages(registry: CollectorRegistry) -> dict[str, float]:
    """The samples, which are the same in both formats."""
    plain, openmetrics = (
        {
            sample.name + "".join(f"{{{value}}}" for value in sample.labels.values()): sample.value
            for family in page
            for sample in family.samples
        }
        for page in (
            parse(generate_latest(registry).decode()),
            parse_openmetrics(generate_openmetrics(registry).decode()),
        )
    )
    assert plain == openmetrics
    return plain


def spelled_twice(seen: dict[str, float], declared: Declaration) -> float:
    """In Kafka's unit."""
    ours = seen[f"{declared.ours}_total" if declared.kind is MetricKind.COUNTER else declared.ours]
    kafkas = seen[f"{declared.kafkas}_total" if declared.is_rate else declared.kafkas]
    assert ours == pytest.approx(kafkas * declared.scale), declared
    return kafkas


def shown(node: BrokerHost) -> dict[str, float]:
    """By attribute, in Kafka's units; of histograms the counts."""
    seen = pages(node.serving.registry)
    found = {each.bean: spelled_twice(seen, each) for each in (*BROKER_METADATA, *CONTROLLER, *SNAPSHOTS)}
    for each in EVENT_MANAGER:
        found[each.bean] = seen[f"{each.kafkas}_count"]
        assert found[each.bean] == seen[f"{each.ours}_count"] == seen[f"{each.ours}_bucket{{+Inf}}"]
    return found


def controller_of(node: BrokerHost) -> Any:
    controller = node.serving.controller
    assert controller is not None
    return controller.controller


async def create(cluster: BrokerCluster, name: str, *assignment: tuple[int, ...]) -> None:
    leader = cluster.leader()
    assert leader is not None
    topic = NewTopic(
        name=name,
        assignments=tuple(
            Assignment(partition_id=number, replicas=brokers) for number, brokers in enumerate(assignment)
        ),
    )
    answer = await controller_of(leader).answer(CreateTopicsRequest(topics=(topic,)))
    assert answer.error == 0 and answer.topics[0].error == 0, answer
    await settled(cluster)


async def settled(cluster: BrokerCluster) -> None:
    """Every running node has applied the same."""

    def same() -> bool:
        ends = {node.log.end_offset for node in cluster.running}
        ends |= {node.serving.metadata.offset + 1 for node in cluster.running}
        return len(ends) == 1

    await until(same)


@pytest.mark.slow
def test_topics_partitions_and_where_the_metadata_is() -> None:
    async def scenario(cluster: BrokerCluster, _: Scheduler) -> None:
        await create(cluster, "one", (1, 2, 3), (2, 3, 1))
        await create(cluster, "two", (3, 1, 2))
        leader = cluster.leader()
        assert leader is not None
        for node in cluster.nodes:
            seen = shown(node)
            end = node.log.end_offset
            timestamp = node.serving.metadata.last_applied_timestamp_ms
            lag = node.host.wall_clock.now_ms() - timestamp
            expected = {
                "last-applied-record-offset": end - 1,
                "last-applied-record-timestamp": timestamp,
                "last-applied-record-lag-ms": lag,
                "metadata-load-error-count": 0,
                "metadata-apply-error-count": 0,
                "ActiveControllerCount": node is leader,
                "FencedBrokerCount": 0,
                "ActiveBrokerCount": 3,
                "GlobalTopicCount": 2,
                "GlobalPartitionCount": 3,
                "OfflinePartitionsCount": 0,
                "PreferredReplicaImbalanceCount": 0,
                "LastAppliedRecordOffset": end - 1,
                "LastCommittedRecordOffset": end - 1,
                "LastAppliedRecordTimestamp": timestamp,
                "LastAppliedRecordLagMs": 0 if node is leader else lag,
                "MetadataErrorCount": 0,
                "TimedOutBrokerHeartbeatCount": 0,
                "EventQueueOperationsTimedOutCount": 0,
                "NewActiveControllersCount": 1,
                "UncleanLeaderElectionsPerSec": 0,
                "CurrentMetadataVersion": 1,
                "CurrentControllerId": leader.id,
                "HandleLoadSnapshotCount": 0,
                "LatestSnapshotGeneratedBytes": 0,
            }
            assert {name: seen[name] for name in expected} == expected

    in_a_cluster(scenario, VALUES)


@pytest.mark.slow
def test_operations_of_the_controller_are_counted_and_timed_where_it_is_active() -> None:
    async def scenario(cluster: BrokerCluster, _: Scheduler) -> None:
        leader = cluster.leader()
        assert leader is not None
        others = [node for node in cluster.nodes if node is not leader]
        before = shown(leader)
        assert before["EventQueueTimeMs"] == before["EventQueueOperationsStartedCount"] > 3
        await create(cluster, "one", (1, 2, 3))
        after = shown(leader)
        assert after["EventQueueOperationsStartedCount"] > before["EventQueueOperationsStartedCount"]
        assert after["EventQueueProcessingTimeMs"] == after["EventQueueOperationsStartedCount"]
        assert [shown(node)["EventQueueOperationsStartedCount"] for node in others] == [0, 0]

        # Nobody can commit: the asker goes away.
        for node in others:
            await cluster.crash(node, power_loss=False)
        topic = NewTopic(name="never", num_partitions=1, replication_factor=1)
        with trio.move_on_after(0.1):
            await controller_of(leader).answer(CreateTopicsRequest(topics=(topic,)))
        assert shown(leader)["EventQueueOperationsTimedOutCount"] >= 1

    in_a_cluster(scenario, VALUES)


@pytest.mark.slow
def test_brokers_that_die_and_leaders_that_move() -> None:
    async def scenario(cluster: BrokerCluster, _: Scheduler) -> None:
        leader = cluster.leader()
        assert leader is not None
        victim, other = (node for node in cluster.nodes if node is not leader)
        await create(cluster, "one", (victim.id, other.id, leader.id), (leader.id, victim.id, other.id))
        await cluster.crash(victim, power_loss=True)
        await until(lambda: shown(leader)["FencedBrokerCount"] == 1)
        await settled(cluster)
        assert [shown(node)["TimedOutBrokerHeartbeatCount"] for node in (leader, other)] == [1, 0]
        for node in (leader, other):
            seen = shown(node)
            assert seen["ActiveBrokerCount"] == 2
            assert seen["PreferredReplicaImbalanceCount"] == 1
            assert seen["UncleanLeaderElectionsPerSec"] == 0, "the next leader was in sync"
        cluster.start(victim)
        await cluster.converge(within_s=60)
        await settled(cluster)
        for node in cluster.nodes:
            assert shown(node)["ActiveBrokerCount"] == 3
            # It has read of the move in the log, and not heard of the elections before its start.
            assert shown(node)["PreferredReplicaImbalanceCount"] == 1
        assert shown(victim)["NewActiveControllersCount"] == 1

        # The active controller goes, and the count of whom it heard of with it.
        await cluster.crash(leader, power_loss=False)
        await until(lambda: cluster.leader() not in (None, leader))
        await settled(cluster)
        following = cluster.leader()
        assert following is not None
        for node in (victim, other):
            seen = shown(node)
            assert seen["NewActiveControllersCount"] == 2
            assert seen["CurrentControllerId"] == following.id
            assert seen["ActiveControllerCount"] == (node is following)

    in_a_cluster(scenario, VALUES)


@pytest.mark.slow
def test_a_leader_that_may_lack_records_is_counted_once_and_not_again_at_a_replay() -> None:
    async def scenario(cluster: BrokerCluster, _: Scheduler) -> None:
        leader = cluster.leader()
        assert leader is not None
        first, second = (node for node in cluster.nodes if node is not leader)
        await create(cluster, "one", (first.id, second.id))

        def partition() -> Any:
            return cluster.states("one")[0]

        await cluster.crash(second, power_loss=False)
        await until(lambda: partition().isr == (first.id,))
        await cluster.crash(first, power_loss=False)
        cluster.start(second)
        await until(lambda: bool(cluster.states("one")) and partition().leader == second.id)
        await settled(cluster)
        counted = {node.id: shown(node)["UncleanLeaderElectionsPerSec"] for node in cluster.running}
        assert sorted(counted.values()) == [0, 1]
        active = cluster.leader()
        assert active is not None and counted[active.id] == 1

        cluster.start(first)
        await until(lambda: first.open)
        await settled(cluster)
        assert shown(first)["UncleanLeaderElectionsPerSec"] == 0
        offline = shown(first)["OfflinePartitionsCount"]
        assert offline == 0

    in_a_cluster(scenario, VALUES)


@pytest.mark.bug("KAFKA-13104")
def test_a_fault_of_the_controller_is_counted_and_ends_its_leadership(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    async def scenario(cluster: BrokerCluster, _: Scheduler) -> None:
        leader = cluster.leader()
        assert leader is not None
        controller = controller_of(leader)

        def fault(*_: object, **__: object) -> None:
            raise ZeroDivisionError("planted")

        with monkeypatch.context() as patch:
            patch.setattr("quorate.broker.controller.administration.create_topics", fault)
            answer = await controller.answer(CreateTopicsRequest(topics=(NewTopic(name="t"),)))
        assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
        assert shown(leader)["MetadataErrorCount"] == 1
        await until(lambda: cluster.leader() not in (None, leader))
        assert shown(leader)["ActiveControllerCount"] == 0

    in_a_cluster(scenario, VALUES)


# Errors, which stop a node


def batch(*records: bytes) -> CommittedBatch:
    return CommittedBatch(
        base_offset=Offset(0),
        epoch=Epoch(1),
        timestamp_ms=5,
        records=records,
    )


def test_errors_of_loading_and_of_applying_metadata_are_counted_apart() -> None:
    metadata = MetadataCache()
    with pytest.raises(Exception, match="record"):
        metadata.apply(batch(b"no record"))
    assert (metadata.load_errors, metadata.apply_errors) == (1, 0)

    def listener(*_: object) -> None:
        raise ValueError("the listener's")

    metadata.subscribe(listener)
    with pytest.raises(ValueError, match="the listener's"):
        metadata.apply(batch(encode(NoOp())))
    assert (metadata.load_errors, metadata.apply_errors) == (1, 1)


# Histograms


class Shows(Collector):
    def __init__(self, histogram: Histogram) -> None:
        self.histogram = histogram

    def collect(self) -> Any:
        return self.histogram.families(EVENT_QUEUE_TIME)


def test_a_histogram_has_buckets_for_prometheus_and_quantiles_for_kafkas_dashboards() -> None:
    histogram = Histogram()
    registry = CollectorRegistry()
    registry.register(Shows(histogram))
    for milliseconds in range(1, 101):
        histogram.record(milliseconds / 1000)
    seen = pages(registry)
    name = EVENT_QUEUE_TIME.ours
    buckets = {
        bound: seen[f"{name}_bucket{{{bound}}}"] for bound in ("0.0003", "0.001", "0.01", "0.1", "+Inf")
    }
    assert buckets == {"0.0003": 0, "0.001": 1, "0.01": 10, "0.1": 100, "+Inf": 100}
    assert seen[f"{name}_sum"] == pytest.approx(5.05)
    quantiles = {each: seen[f"{EVENT_QUEUE_TIME.kafkas}{{{each}}}"] for each in QUANTILES}
    assert quantiles == pytest.approx(
        {"0.50": 50, "0.75": 75, "0.95": 95, "0.98": 98, "0.99": 99, "0.999": 100}
    )


def test_quantiles_are_of_the_recent_past_and_counts_of_all_of_it() -> None:
    histogram = Histogram()
    assert histogram.quantile(0.5) == 0
    for _ in range(2000):
        histogram.record(5.0)
    for _ in range(1028):
        histogram.record(1.0)
    assert (histogram.quantile(0.999), histogram.count) == (1.0, 3028)


@pytest.mark.slow
@pytest.mark.bug("KAFKA-14457")
def test_uncommitted_changes_are_in_no_metric() -> None:
    """Topics that a controller has written and that are undone when it loses its leadership."""

    async def scenario(cluster: BrokerCluster, _: Scheduler) -> None:
        await create(cluster, "there", (1, 2))
        old = cluster.leader()
        assert old is not None
        others = [node for node in cluster.nodes if node is not old]
        cluster.network.partition([old.name], [node.name for node in others])
        controller = controller_of(old)
        topics = tuple(NewTopic(name=f"t{number}", num_partitions=3) for number in range(10))
        asked = CreateTopicsRequest(topics=topics)

        def counts() -> list[tuple[float, float]]:
            found = map(shown, cluster.nodes)
            return [(each["GlobalTopicCount"], each["GlobalPartitionCount"]) for each in found]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(controller.answer, asked)
            await until(lambda: controller.image is None or controller.image.topic("t9") is not None)
            assert controller.image is not None
            assert counts() == [(1, 1)] * 3
            await until(lambda: not controller.active)
            assert counts() == [(1, 1)] * 3
        cluster.network.heal()
        await settled(cluster)
        assert counts() == [(1, 1)] * 3

    in_a_cluster(scenario, VALUES)
