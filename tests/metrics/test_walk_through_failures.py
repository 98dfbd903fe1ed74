"""A cluster walks through failures, and at every step each node's metrics say what its image says, counted
here partition by partition."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from quorate.broker.controller.rpc import (
    AlterPartitionReassignmentsRequest,
    Assignment,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectionType,
    ElectLeadersItem,
    ElectLeadersRequest,
    FewerPartitions,
    NewTopic,
    ReassignmentItem,
    ShrinkTopicsRequest,
    TopicRef,
)
from quorate.broker.controller.state_machines import (
    PartitionPhase,
    ReplicaPhase,
    partition_phase,
    replica_phase,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.metrics.declarations import CONTROLLER
from tests.metrics.conftest import in_a_cluster, samples
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost
from tests.simulator.brokers.broker_scenario import QUICK

SERVED = {each.bean: f"{each.kafkas}_total" if each.is_rate else each.kafkas for each in CONTROLLER}
REPLICAS = "kafka_server_replicamanager"


def counted(image: MetadataImage, broker_id: int) -> dict[str, float]:
    """The counts by one pass over the image. The metrics are kept without one."""
    states = dict(image.all_partitions())
    partitions = [partition_phase(image, key) for key in states]
    replicas = [replica_phase(image, key, each) for key, state in states.items() for each in state.replicas]
    fenced = sum(broker.fenced for broker in image.brokers.values())
    expected: dict[str, float] = {
        "GlobalTopicCount": len(image.topics),
        "GlobalPartitionCount": len(states),
        "OfflinePartitionsCount": sum(state.leader == -1 for state in states.values()),
        "PreferredReplicaImbalanceCount": sum(state.leader != state.replicas[0] for state in states.values()),
        "FencedBrokerCount": fenced,
        "ActiveBrokerCount": len(image.brokers) - fenced,
        "LastAppliedRecordOffset": image.offset,
        "LastCommittedRecordOffset": image.offset,
        "MetadataErrorCount": 0,
        "CurrentMetadataVersion": image.features["metadata.version"],
    }
    by_name: dict[str, float] = {SERVED[bean]: value for bean, value in expected.items()}
    for partition_state in (PartitionPhase.ONLINE, PartitionPhase.OFFLINE):
        name = f"quorate_controller_partitions_in_state{{{partition_state.value}}}"
        by_name[name] = partitions.count(partition_state)
    for replica_state in (ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE):
        name = f"quorate_controller_replicas_in_state{{{replica_state.value}}}"
        by_name[name] = replicas.count(replica_state)
    by_name["quorate_controller_reassigning_partitions"] = sum(
        bool(state.adding_replicas or state.removing_replicas) for state in states.values()
    )
    led = [state for state in states.values() if state.leader == broker_id]
    by_name[f"{REPLICAS}_partitioncount"] = sum(broker_id in state.replicas for state in states.values())
    by_name[f"{REPLICAS}_leadercount"] = len(led)
    by_name[f"{REPLICAS}_underreplicatedpartitions"] = sum(
        len(state.isr) < len(state.replicas) for state in led
    )
    by_name[f"{REPLICAS}_reassigningpartitions"] = sum(
        bool(state.adding_replicas or state.removing_replicas) for state in led
    )
    return by_name


class Walk:
    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster

    @property
    def active(self) -> BrokerHost:
        leader = self.cluster.leader()
        assert leader is not None
        return leader

    async def ask(self, request: Any) -> Any:
        controller = self.active.serving.controller
        assert controller is not None
        answer = await controller.controller.answer(request)
        assert not answer.error, answer
        for results in ("topics", "partitions", "results"):
            assert all(not each.error for each in getattr(answer, results, ())), answer
        return answer

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(60):
            while not condition():  # noqa: ASYNC110
                await trio.sleep(0.05)

    async def agree(self, step: str, **total: float) -> None:
        """Wait until the nodes have settled, and compare. `total`: expected sums over the running nodes."""
        seen: dict[str, float] = {}
        expected: dict[str, float] = {}

        def agrees() -> bool:
            nodes = list(self.cluster.running)
            if self.cluster.leader() is None or len({node.image.offset for node in nodes}) != 1:
                return False
            for node in nodes:
                shown = samples(node.serving.registry)
                expected.clear()
                expected.update(counted(node.image, node.id))
                expected[SERVED["ActiveControllerCount"]] = node is self.active
                expected[SERVED["CurrentControllerId"]] = self.active.id
                seen.clear()
                seen.update({name: shown[name] for name in expected})
                if seen != expected:
                    return False
            return True

        with trio.move_on_after(30):
            while not agrees():  # noqa: ASYNC110
                await trio.sleep(0.05)
        differ = {name: (seen[name], expected[name]) for name in seen if seen[name] != expected[name]}
        assert not differ, f"{step}: the metrics say, and the image says: {differ}"
        assert seen, f"{step}: the nodes never had one image"
        for bean, value in total.items():
            found = sum(samples(node.serving.registry)[SERVED[bean]] for node in self.cluster.running)
            assert found == value, f"{step}: {bean} is {found} over all nodes, not {value}"


async def walk(cluster: BrokerCluster) -> None:
    steps = Walk(cluster)
    active = steps.active
    victim, other = (node for node in cluster.nodes if node is not active)
    three = (victim.id, other.id, active.id)
    created = NewTopic(
        name="all",
        assignments=tuple(
            Assignment(partition_id=number, replicas=three[number:] + three[:number]) for number in range(3)
        ),
    )
    alone = NewTopic(name="alone", assignments=(Assignment(partition_id=0, replicas=(victim.id,)),))
    await steps.ask(CreateTopicsRequest(topics=(created, alone)))
    await steps.agree("created", TimedOutBrokerHeartbeatCount=0, UncleanLeaderElectionsPerSec=0)

    await cluster.crash(victim, power_loss=True)
    await steps.until(lambda: active.image.leaderless_count == 1)
    await steps.agree("a broker is dead", TimedOutBrokerHeartbeatCount=1)

    cluster.start(victim)
    await cluster.converge(within_s=60)
    assert active.image.imbalanced_count == 1
    await steps.agree("the broker is back")

    items = (ElectLeadersItem(topic="all", partition_id=0),)
    await steps.ask(ElectLeadersRequest(election_type=ElectionType.PREFERRED, partitions=items))
    assert active.image.imbalanced_count == 0
    await steps.agree("the preferred replica leads again")

    # A move that can't end, because who is to get the replica is down.
    await cluster.crash(other, power_loss=False)
    await steps.until(lambda: active.image.isr_count(other.id) == 0)
    move = ReassignmentItem(topic="alone", partition_id=0, replicas=(other.id, active.id))
    await steps.ask(AlterPartitionReassignmentsRequest(partitions=(move,)))
    assert active.image.reassigning_count == 1
    await steps.agree("a replica moves to a dead broker")
    cluster.start(other)
    await steps.until(lambda: active.image.reassigning_count == 0)
    await cluster.converge(within_s=60)
    await steps.agree("the move has ended")

    drained = tuple(
        ReassignmentItem(topic="all", partition_id=number, replicas=(other.id, active.id))
        for number in range(3)
    )
    await steps.ask(AlterPartitionReassignmentsRequest(partitions=drained))
    await steps.until(lambda: active.image.reassigning_count == 0)
    await steps.agree("a broker is drained")
    assert samples(victim.serving.registry)[f"{REPLICAS}_partitioncount"] == 0

    await steps.ask(ShrinkTopicsRequest(topics=(FewerPartitions(name="all", count=1),)))
    await steps.agree("a topic is shrunk")

    away = NewTopic(name="away", assignments=(Assignment(partition_id=0, replicas=(other.id,)),))
    await steps.ask(CreateTopicsRequest(topics=(away,)))
    await cluster.crash(other, power_loss=False)
    await steps.until(lambda: active.image.leaderless_count == 1)
    await steps.agree("a topic is on a dead broker")
    await steps.ask(DeleteTopicsRequest(topics=(TopicRef(name="alone"), TopicRef(name="away"))))
    await steps.agree("two topics are deleted, one of them offline")
    cluster.start(other)
    await cluster.converge(within_s=60)
    await steps.agree("who was away has heard of the deletion")

    seen = samples(victim.serving.registry)[SERVED["NewActiveControllersCount"]]
    await cluster.crash(active, power_loss=False)
    await steps.until(lambda: cluster.leader() not in (None, active))
    await steps.until(lambda: steps.active.image.isr_count(active.id) == 0)
    await steps.agree("another controller is active")
    assert samples(victim.serving.registry)[SERVED["NewActiveControllersCount"]] == seen + 1
    cluster.start(active)
    await cluster.converge(within_s=60)
    await steps.agree("all are back")


@pytest.mark.slow
def test_at_every_step_of_a_walk_through_failures_the_metrics_say_what_the_image_says() -> None:
    in_a_cluster(lambda cluster, _: walk(cluster), QUICK)
