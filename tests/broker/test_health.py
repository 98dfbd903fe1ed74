"""/health of a broker: whether clients should be sent to it, and why not."""

import json
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from quorate.broker.broker_health import BrokerHealth, NodeHealth, node_health
from quorate.broker.lifecycle import LifecycleState
from quorate.broker.metadata.states import BrokerState
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.world.disk_faults import DiskOperation
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_cluster import BrokerHost
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario

SESSION_S = 9.0


def broker_of(health: NodeHealth) -> BrokerHealth:
    assert health.broker is not None
    return health.broker


async def reasons_until(node: BrokerHost, *, healthy: bool | None, within_s: float = 20) -> list[str | None]:
    """What it says until it is as wanted, or (None) is gone; each once, in order."""
    said: list[str | None] = []
    with trio.fail_after(within_s):
        while node.server is not None:
            told = node.server.health().as_dict()
            json.dumps(told)
            reason = cast(str | None, told["reason"])
            assert (reason is None) is told["healthy"]
            if reason not in said:
                said.append(reason)
            if told["healthy"] is healthy:
                return said
            await trio.sleep(0.005)
    return said


@pytest.mark.slow
def test_health_says_whether_the_broker_serves() -> None:
    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        for node in cluster.nodes:
            health = node.serving.health()
            assert health.healthy
            assert not broker_of(health).fenced
            assert broker_of(health).state == "running"
        leader = cluster.leader()
        node, sound, *_ = (each for each in cluster.nodes if each is not leader)

        others = [each.name for each in cluster.nodes if each is not node]
        cluster.network.partition([node.name], others)
        lone = await reasons_until(node, healthy=False)
        assert "leader" in str(lone[-1])
        await trio.sleep(5)
        assert sound.serving.health().healthy
        cluster.heal()
        back = await reasons_until(node, healthy=True)
        own = [each for each in back if "the broker" in str(each) or "has not confirmed" in str(each)]
        assert own, f"the quorum is fine before the broker serves: {back}"

        sound.disk.fail(DiskOperation.APPEND, path_part="more/", times=10**6)
        sound.disk_failing = True
        with trio.fail_after(30):
            while not broker_of(sound.serving.health()).failed_log_dirs:  # noqa: ASYNC110
                await trio.sleep(0.1)
        assert broker_of(sound.serving.health()).failed_log_dirs == ("more",)
        assert sound.serving.health().healthy, "it serves the rest"
        sound.disk.clear_faults()
        await cluster.crash(sound, power_loss=False)
        cluster.start(sound)

        node.stop.set()
        assert "the broker is stopping" in await reasons_until(node, healthy=None)
        with trio.fail_after(30):
            while node.open:  # noqa: ASYNC110
                await trio.sleep(0.1)
        cluster.start(node)
        with trio.fail_after(30):
            while not node.open:  # noqa: ASYNC110
                await trio.sleep(0.001)
        began = await reasons_until(node, healthy=True)
        assert "the broker is not registered yet" in began or "no leader" in str(began)

    run_scenario(
        1,
        scenario,
        clients=BrokerClientSettings(idempotent=1, plain=1, think_max_s=0.3),
        partitions=6,
        values={"log.dirs": f"{FOLDER},more"},
    )


def lifecycle(
    *, state: LifecycleState = LifecycleState.RUNNING, fenced: bool | None = False, silent_s: float = 0.0
) -> Any:
    """`fenced` None: not registered."""
    own = None
    if fenced is not None:
        own = BrokerState(
            broker_id=1,
            incarnation_id=uuid.UUID(int=1),
            epoch=7,
            listeners=(),
            rack=None,
            features=(),
            log_dirs=(),
            fenced=fenced,
            in_controlled_shutdown=False,
        )
    return SimpleNamespace(
        state=state, own=own, controller_silent_s=silent_s, session_timeout_s=SESSION_S, broker_epoch=7
    )


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (lifecycle(), None),
        (lifecycle(silent_s=SESSION_S - 0.1), None),
        (lifecycle(silent_s=SESSION_S), "the controller has not confirmed"),
        (lifecycle(fenced=True), "fenced"),
        (lifecycle(fenced=None), "not registered"),
        (lifecycle(state=LifecycleState.PENDING_CONTROLLED_SHUTDOWN), "stopping"),
        (lifecycle(state=LifecycleState.SHUTTING_DOWN), "stopping"),
    ],
)
def test_a_broker_is_ready_while_it_may_lead_and_its_controller_answers(at: Any, reason: str | None) -> None:
    replicas: Any = SimpleNamespace(directories=SimpleNamespace(unused_dirs=("d2",)))
    well: Any = SimpleNamespace(
        health=SimpleNamespace(as_dict=lambda: {"healthy": True, "reason": None, "epoch": 3})
    )
    ill: Any = SimpleNamespace(
        health=SimpleNamespace(as_dict=lambda: {"healthy": False, "reason": "no leader", "epoch": 3})
    )
    health = node_health(well, at, replicas)
    assert health.healthy is (reason is None)
    told = health.as_dict()
    assert told["epoch"] == 3
    assert broker_of(health).failed_log_dirs == ("d2",)
    if reason is None:
        assert told["reason"] is None
    else:
        assert reason in str(told["reason"])
    assert not node_health(ill, at, replicas).healthy
    assert node_health(ill, at, replicas).as_dict()["reason"] == "no leader"
    assert node_health(well, None, None).as_dict() == {"healthy": True, "reason": None, "epoch": 3}
