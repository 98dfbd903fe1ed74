"""A broker whose disk is slow or that is paused shows up at the active controller, with the age of its
waiting changes."""

from typing import Any

import pytest
import trio

from quorate.broker.controller.rpc import Assignment, CreateTopicsRequest, NewTopic
from quorate.simulation.world.scheduler import Scheduler
from tests.metrics.conftest import in_a_cluster, samples, until
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost
from tests.simulator.brokers.broker_scenario import QUICK

PATIENT = QUICK | {"broker.session.timeout.ms": "20000"}
BEHIND = "a broker is behind with the state changes of its replicas"


async def create(active: BrokerHost, name: str, *brokers: int) -> None:
    controller = active.serving.controller
    assert controller is not None
    topic = NewTopic(name=name, assignments=(Assignment(partition_id=0, replicas=brokers),))
    answer = await controller.controller.answer(CreateTopicsRequest(topics=(topic,)))
    assert not answer.error and not answer.topics[0].error, answer


def open_slowly(node: BrokerHost) -> trio.Event:
    """No log is opened there until the event is set."""
    assert node.serving.broker is not None
    logs, released = node.serving.broker._manager._logs, trio.Event()
    open_log = logs.open_log

    async def opened(*asked: Any, **options: Any) -> Any:
        await released.wait()
        return await open_log(*asked, **options)

    logs.open_log = opened  # type: ignore[method-assign]
    return released


class Seen:
    """The metrics of one broker, as a node shows them."""

    def __init__(self, node: BrokerHost, broker: BrokerHost) -> None:
        shown, label = samples(node.serving.registry), f"{{{broker.id}}}"
        name = "quorate_controller_broker"
        self.pending = shown[f"{name}_pending_changes{label}"]
        self.lag = shown[f"{name}_record_lag{label}"]
        self.age = shown[f"{name}_oldest_change_seconds{label}"]
        self.behind = shown[f"{name}s_behind"]


@pytest.mark.slow
def test_a_broker_whose_disk_is_slow_has_pending_changes_with_their_age() -> None:
    async def scenario(cluster: BrokerCluster, scheduler: Scheduler) -> None:
        active = cluster.leader()
        assert active is not None
        slow, other = (node for node in cluster.nodes if node is not active)
        released = open_slowly(slow)
        await create(active, "t", active.id, slow.id, other.id)
        began = trio.current_time()
        await until(lambda: Seen(active, slow).pending == 1)
        assert Seen(active, slow).behind == 0, "not yet: half a session is granted"
        await trio.sleep(13 - (trio.current_time() - began))
        seen = Seen(active, slow)
        assert 12.5 < seen.age <= 13.1
        assert seen.lag > 0 and seen.behind == 1
        own = samples(slow.serving.registry)
        assert own["quorate_broker_state_changes_pending"] == 1
        assert 12.5 < own["quorate_broker_state_change_oldest_seconds"] <= 13.1
        assert Seen(active, other).age < 1, "a heartbeat is as old at the most"
        released.set()
        await until(lambda: Seen(active, slow).behind == 0 and Seen(active, slow).age == 0)
        own = samples(slow.serving.registry)
        assert own["quorate_broker_state_changes_pending"] == 0
        assert (
            own["quorate_broker_state_change_time_seconds_bucket{30.0}"]
            == 1 + own["quorate_broker_state_change_time_seconds_bucket{10.0}"]
        )

    lines = in_a_cluster(scenario, PATIENT)
    assert sum(BEHIND in line for line in lines) == 1, "one line for each time"
    assert any("a state change took long" in line for line in lines)


@pytest.mark.slow
def test_a_paused_broker_is_behind_though_it_says_nothing() -> None:
    async def scenario(cluster: BrokerCluster, scheduler: Scheduler) -> None:
        active = cluster.leader()
        assert active is not None
        paused, other = (node for node in cluster.nodes if node is not active)
        await until(lambda: Seen(active, paused).age == 0)
        scheduler.pause(paused.name)
        await create(active, "t", active.id, paused.id)
        await trio.sleep(13)
        seen = Seen(active, paused)
        assert 12.8 < seen.age < 13.5 and seen.behind == 1
        assert seen.pending == 0, "it had heard of nothing when it last spoke"
        assert Seen(active, other).age < 1
        scheduler.resume(paused.name)
        await until(lambda: Seen(active, paused).behind == 0)

    assert sum(BEHIND in line for line in in_a_cluster(scenario, PATIENT)) == 1


def test_only_the_active_controller_judges_brokers() -> None:
    async def scenario(cluster: BrokerCluster, scheduler: Scheduler) -> None:
        active = cluster.leader()
        assert active is not None
        for node in cluster.nodes:
            shown = samples(node.serving.registry)
            named = {each for each in shown if each.startswith("quorate_controller_broker_record_lag")}
            assert len(named) == (3 if node is active else 0), (node.name, named)
        cluster.resign(active)
        await until(lambda: cluster.leader() not in (None, active))
        following = cluster.leader()
        assert following is not None
        await until(lambda: "quorate_controller_broker_record_lag{1}" in samples(following.serving.registry))
        assert "quorate_controller_broker_record_lag{1}" not in samples(active.serving.registry)

    in_a_cluster(scenario, PATIENT)
