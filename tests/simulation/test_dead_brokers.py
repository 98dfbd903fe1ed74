"""A broker whose process was killed is fenced at once. One that may live isn't, whatever breaks."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import BrokerRegistrationChange, ChangeReason, Record
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import open_client
from quorate.raft import CoreConfig
from quorate.simulation.patience import holds_within
from tests.simulator.brokers.broker_clients import TOPIC, BrokerClientSettings
from tests.simulator.brokers.broker_cluster import BrokerHost
from tests.simulator.brokers.broker_members import GROUP, GroupMembers
from tests.simulator.brokers.broker_scenario import BrokerScene, Scenario, run_scenario
from tests.simulator.brokers.one_broker import open_one

CLIENTS = BrokerClientSettings(idempotent=1, plain=0, consumers=1)
SESSION_S = 9.0
DEFAULTS = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
}
"""Kafka's, of what scenarios make shorter."""
AT_ONCE_S = 0.5
FETCH_WAIT_MS = CoreConfig().fetch_max_wait_ms
"""The time between two answers of the quorum's leader to an idle follower, at most."""


def in_defaults(seed: int, scenario: Scenario) -> None:
    run_scenario(seed, scenario, clients=CLIENTS, partitions=2, values=DEFAULTS)


def controller_and_others(scene: BrokerScene) -> tuple[BrokerHost, list[BrokerHost]]:
    active = scene.cluster.leader()
    assert active is not None
    return active, [node for node in scene.cluster.nodes if node is not active]


async def fenced_after(scene: BrokerScene, victim: BrokerHost, *, patience_s: float) -> float:
    """The seconds until the active controller's metadata has `victim` fenced, and nothing led by it."""
    began = trio.current_time()

    def is_fenced() -> bool:
        active = scene.cluster.leader()
        if active is None or active is victim:
            return False
        return not active.image.is_active(victim.id) and not active.image.leader_count(victim.id)

    assert await holds_within(patience_s, is_fenced, every_s=0.01)
    return trio.current_time() - began


async def all_in_sync(scene: BrokerScene, *, within_s: float = 60) -> None:
    assert await holds_within(within_s, scene.cluster.all_in_sync)


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_broker_that_is_killed_is_fenced_at_once(seed: int) -> None:
    async def scenario(scene: BrokerScene) -> None:
        _, (victim, _) = controller_and_others(scene)
        await trio.sleep(3)
        await scene.cluster.crash(victim, power_loss=False)
        assert await fenced_after(scene, victim, patience_s=30) < AT_ONCE_S

    in_defaults(seed, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_the_controller_that_is_killed_is_fenced_at_once_by_the_next_one(seed: int) -> None:
    async def scenario(scene: BrokerScene) -> None:
        victim, _ = controller_and_others(scene)
        await trio.sleep(3)
        await scene.cluster.crash(victim, power_loss=False)
        assert await fenced_after(scene, victim, patience_s=30) < AT_ONCE_S
        assert scene.cluster.fenced_dead == 1

    in_defaults(seed, scenario)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("power_loss", "reason"), [(False, ChangeReason.BROKER_GONE), (True, ChangeReason.BROKER_FENCED)]
)
def test_the_log_says_when_the_controller_that_died_was_last_heard(
    power_loss: bool, reason: ChangeReason
) -> None:
    """Over Raft, because the next controller got no heartbeat of it."""

    async def scenario(scene: BrokerScene) -> None:
        victim, _ = controller_and_others(scene)
        fencings: list[BrokerRegistrationChange] = []

        def note(records: Sequence[Record], _: MetadataImage) -> None:
            changes = (each for each in records if isinstance(each, BrokerRegistrationChange))
            fencings.extend(each for each in changes if each.fenced)

        scene.cluster.metadata.rules.append(note)
        await trio.sleep(3)
        died_at_ms = victim.host.wall_clock.now_ms()
        await scene.cluster.crash(victim, power_loss=power_loss)
        await fenced_after(scene, victim, patience_s=30)
        assert [(each.broker_id, each.reason) for each in fencings] == [(victim.id, reason)]
        heard_at_ms = fencings[0].last_heard_ms
        assert heard_at_ms is not None
        if power_loss:
            assert 0 <= died_at_ms - heard_at_ms < FETCH_WAIT_MS + 50
        else:
            assert 0 <= heard_at_ms - died_at_ms < 50, "its end closed the connection"

    in_defaults(1, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_host_that_loses_power_is_fenced_when_its_session_has_run_out(seed: int) -> None:
    async def scenario(scene: BrokerScene) -> None:
        _, (victim, _) = controller_and_others(scene)
        await trio.sleep(3)
        await scene.cluster.crash(victim, power_loss=True)
        assert SESSION_S - 2.5 < await fenced_after(scene, victim, patience_s=30) < SESSION_S + 1.5
        assert scene.cluster.fenced_dead == 0

    in_defaults(seed, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_process_that_is_stopped_is_fenced_when_its_session_has_run_out(seed: int) -> None:
    async def scenario(scene: BrokerScene) -> None:
        _, (victim, _) = controller_and_others(scene)
        await trio.sleep(3)
        scene.scheduler.pause(victim.name)
        assert SESSION_S - 2.5 < await fenced_after(scene, victim, patience_s=30) < SESSION_S + 1.5
        scene.scheduler.resume(victim.name)
        assert scene.cluster.fenced_dead == 0

    in_defaults(seed, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("to_victim", [True, False])
def test_a_host_that_is_parted_one_way_is_fenced_when_its_session_has_run_out(to_victim: bool) -> None:
    async def scenario(scene: BrokerScene) -> None:
        active, (victim, other) = controller_and_others(scene)
        await trio.sleep(3)
        for node in (active, other):
            source, target = (node, victim) if to_victim else (victim, node)
            scene.cluster.network.block(source.name, target.name)
        assert SESSION_S - 2.5 < await fenced_after(scene, victim, patience_s=30) < SESSION_S + 1.5
        assert scene.cluster.fenced_dead == 0

    in_defaults(1, scenario)


@pytest.mark.slow
def test_connections_that_break_before_the_network_parts_fence_nobody_early() -> None:
    async def scenario(scene: BrokerScene) -> None:
        active, (victim, other) = controller_and_others(scene)
        await trio.sleep(3)
        for node in (active, other):
            scene.cluster.network.cut(node.name, victim.name)
            scene.cluster.network.partition([node.name], [victim.name])
        assert SESSION_S - 2.5 < await fenced_after(scene, victim, patience_s=30) < SESSION_S + 1.5
        assert scene.cluster.fenced_dead == 0

    in_defaults(1, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("how", ["cut", "half_open"])
def test_connections_that_break_again_and_again_fence_nobody(seed: int, how: str) -> None:
    async def scenario(scene: BrokerScene) -> None:
        active, (victim, other) = controller_and_others(scene)
        await trio.sleep(3)
        for _ in range(100):
            for node in (active, other):
                getattr(scene.cluster.network, how)(node.name, victim.name)
            await trio.sleep(0.05)
            assert active.image.is_active(victim.id)
        assert scene.cluster.fenced_dead == 0

    in_defaults(seed, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_broker_whose_connection_broke_is_heard_before_its_next_heartbeat_is_due(seed: int) -> None:
    async def scenario(scene: BrokerScene) -> None:
        active, (victim, _) = controller_and_others(scene)
        await trio.sleep(3)
        for _ in range(5):
            broke_at = trio.current_time()
            scene.cluster.network.cut(active.name, victim.name)
            await trio.sleep(AT_ONCE_S)
            heard_at = last_heard(active, victim)
            assert heard_at is not None
            assert heard_at > broke_at, f"its last heartbeat came {broke_at - heard_at:.2f} s before"

    in_defaults(seed, scenario)


def last_heard(active: BrokerHost, broker: BrokerHost) -> float | None:
    """When the active controller last heard of the broker, in seconds."""
    controller = active.serving.controller
    assert controller is not None
    tenure = controller.controller.tenure
    assert tenure is not None
    return tenure.sessions.last_heard(broker.id)


@pytest.mark.slow
@pytest.mark.parametrize("down_s", [0.0, 0.05, 0.1])
def test_a_broker_that_restarts_at_once_is_registered_anew(down_s: float) -> None:
    async def scenario(scene: BrokerScene) -> None:
        _, (victim, _) = controller_and_others(scene)
        await trio.sleep(3)
        before = victim.serving.broker
        assert before is not None
        await scene.cluster.crash(victim, power_loss=False)
        await trio.sleep(down_s)
        scene.cluster.start(victim)
        await all_in_sync(scene, within_s=2 * SESSION_S)
        after = victim.serving.broker
        assert after is not None
        assert after.lifecycle.broker_epoch > before.lifecycle.broker_epoch
        assert scene.cluster.fenced_dead == 0

    in_defaults(1, scenario)


@pytest.mark.slow
@pytest.mark.bug("KAFKA-19047")
def test_a_broker_that_is_killed_and_started_again_does_not_wait_for_its_session() -> None:
    async def scenario(scene: BrokerScene) -> None:
        _, (victim, _) = controller_and_others(scene)
        await trio.sleep(3)
        await scene.cluster.crash(victim, power_loss=False)
        await trio.sleep(0.5)
        scene.cluster.start(victim)
        await all_in_sync(scene, within_s=2)

    in_defaults(1, scenario)


@pytest.mark.slow
def test_without_the_confirmation_a_broker_that_is_killed_waits_for_its_session() -> None:
    async def scenario(scene: BrokerScene) -> None:
        _, (victim, _) = controller_and_others(scene)
        await trio.sleep(3)
        await scene.cluster.crash(victim, power_loss=False)
        assert await fenced_after(scene, victim, patience_s=30) > SESSION_S - 2.5
        assert scene.cluster.fenced_dead == 0

    values = DEFAULTS | {"quorate.controller.refusal.confirm.ms": "0"}
    run_scenario(1, scenario, clients=CLIENTS, partitions=2, values=values)


async def metadata_of(
    scene: BrokerScene, asked: BrokerHost, *, topics: Sequence[str] | None
) -> tuple[int, set[int]]:
    """Return the leader of the topic's first partition, -1 if it wasn't asked for, and the brokers, by the
    answer of one broker."""
    async with open_one(scene.cluster, asked, "asker", timeout_s=10) as admin:
        answer = await admin.metadata(topics)
    leaders = [part.leader_id for topic in answer.topics for part in topic.partitions if topic.name == TOPIC]
    return (leaders or [-1])[0], {each.node_id for each in answer.brokers}


TOLD = [None, [TOPIC]]


@pytest.mark.slow
@pytest.mark.parametrize("topics", TOLD)
def test_a_client_is_told_of_the_next_leader_not_of_the_one_that_was_just_killed(
    topics: Sequence[str] | None,
) -> None:
    async def scenario(scene: BrokerScene) -> None:
        await trio.sleep(3)
        victim = scene.leader_of(0)
        other = next(node for node in scene.cluster.nodes if node is not victim)
        await scene.cluster.crash(victim, power_loss=False)
        # The followers hear of it as soon as the network lets them.
        await trio.sleep(0.01)
        assert other.image.is_active(victim.id)
        began = trio.current_time()
        leader, brokers = await metadata_of(scene, other, topics=topics)
        assert leader not in (-1, victim.id)
        assert victim.id in brokers, "librdkafka would forget the leader together with the broker"
        assert trio.current_time() - began < AT_ONCE_S
        await trio.sleep(2)
        assert await metadata_of(scene, other, topics=topics) == (leader, brokers - {victim.id})

    in_defaults(1, scenario)


@pytest.mark.slow
def test_a_client_that_asks_for_nothing_of_a_lost_leader_is_answered_at_once() -> None:
    async def scenario(scene: BrokerScene) -> None:
        await trio.sleep(3)
        victim = scene.leader_of(0)
        other = next(node for node in scene.cluster.nodes if node is not victim)
        await scene.cluster.crash(victim, power_loss=False)
        await trio.sleep(0.01)
        began = trio.current_time()
        await metadata_of(scene, other, topics=[])
        assert trio.current_time() - began < 0.02

    in_defaults(1, scenario)


@pytest.mark.slow
def test_a_leader_whose_connections_broke_is_told_of_again_when_they_are_back() -> None:
    async def scenario(scene: BrokerScene) -> None:
        await trio.sleep(3)
        leader = scene.leader_of(0)
        other = next(node for node in scene.cluster.nodes if node is not leader)
        scene.cluster.network.cut(leader.name, other.name)
        await trio.sleep(0.001)
        began = trio.current_time()
        assert (await metadata_of(scene, other, topics=None))[0] == leader.id
        assert trio.current_time() - began < 0.1

    in_defaults(1, scenario)


@pytest.mark.slow
def test_a_leader_that_was_lost_and_is_not_replaced_is_named_after_a_second() -> None:
    async def scenario(scene: BrokerScene) -> None:
        await trio.sleep(3)
        leader = scene.leader_of(0)
        other = next(node for node in scene.cluster.nodes if node is not leader)
        for node in scene.cluster.nodes:
            if node is not leader:
                scene.cluster.network.cut(leader.name, node.name)
                scene.cluster.network.partition([leader.name], [node.name])
        await trio.sleep(0.001)
        began = trio.current_time()
        assert (await metadata_of(scene, other, topics=None))[0] == leader.id
        assert 0.9 < trio.current_time() - began < 1.1

    in_defaults(1, scenario)


@pytest.mark.slow
def test_a_new_controller_hears_of_every_broker_at_once() -> None:
    """Long before their next heartbeats are due, so that nobody who lives is judged by refusals alone."""

    async def scenario(scene: BrokerScene) -> None:
        old, others = controller_and_others(scene)
        await trio.sleep(3)
        resigned_at = trio.current_time()
        scene.cluster.resign(old)
        assert await holds_within(5, lambda: scene.cluster.leader() not in (None, old), every_s=0.001)
        new = scene.cluster.leader()
        assert new is not None
        await trio.sleep(0.1)
        node = new.serving.controller
        assert node is not None
        active = node.controller.tenure
        assert active is not None
        heard_at = [active.sessions.last_heard(each.id) for each in (old, *others)]
        assert all(each is not None and each > resigned_at for each in heard_at), heard_at

    in_defaults(1, scenario)


# Groups


GROUPS = [["readers"], [f"group-{number}" for number in range(150)]]


async def coordinators_of(scene: BrokerScene, asked: BrokerHost, groups: list[str]) -> dict[str, int]:
    """Return the coordinator of each group, -1 for none, by the answer of one broker."""
    async with open_one(scene.cluster, asked, "asker", timeout_s=10) as admin:
        answer: Any = await admin.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=groups)
    return {each.key: each.node_id for each in answer.coordinators}


async def coordinator_of(scene: BrokerScene, asked: BrokerHost, group: str) -> BrokerHost:
    """Once there is one."""
    while True:
        found = (await coordinators_of(scene, asked, [group]))[group]
        if found != -1:
            return scene.cluster.nodes[found - 1]
        await trio.sleep(0.2)


@pytest.mark.slow
@pytest.mark.parametrize("groups", GROUPS, ids=["one group", "many groups"])
def test_a_member_is_told_of_the_next_coordinator_not_of_the_one_that_was_just_killed(
    groups: list[str],
) -> None:
    async def scenario(scene: BrokerScene) -> None:
        victim = await coordinator_of(scene, scene.cluster.nodes[0], groups[0])
        other = next(node for node in scene.cluster.nodes if node is not victim)
        await trio.sleep(3)
        await scene.cluster.crash(victim, power_loss=False)
        await trio.sleep(0.01)
        assert other.image.is_active(victim.id)
        began = trio.current_time()
        told = set((await coordinators_of(scene, other, groups)).values())
        assert not told & {-1, victim.id}
        assert trio.current_time() - began < AT_ONCE_S

    in_defaults(1, scenario)


@pytest.mark.slow
def test_a_request_for_another_coordinator_than_the_lost_one_is_answered_at_once() -> None:
    async def scenario(scene: BrokerScene) -> None:
        victim = await coordinator_of(scene, scene.cluster.nodes[0], "readers")
        other = next(node for node in scene.cluster.nodes if node is not victim)
        names = [f"group-{number}" for number in range(20)]
        found = await coordinators_of(scene, other, names)
        await trio.sleep(3)
        elsewhere = next(name for name in names if found[name] != victim.id)
        await scene.cluster.crash(victim, power_loss=False)
        await trio.sleep(0.01)
        began = trio.current_time()
        assert (await coordinators_of(scene, other, [elsewhere]))[elsewhere] == found[elsewhere]
        assert trio.current_time() - began < 0.02

    in_defaults(1, scenario)


@pytest.mark.slow
def test_a_fenced_broker_is_never_named_as_a_coordinator() -> None:
    """One that is silent, and not lost, is named until its session has run out, and not a moment longer."""

    async def scenario(scene: BrokerScene) -> None:
        victim = await coordinator_of(scene, scene.cluster.nodes[0], "readers")
        other = next(node for node in scene.cluster.nodes if node is not victim)
        await trio.sleep(3)
        scene.scheduler.pause(victim.name)
        told: list[int] = []
        with trio.fail_after(30):
            while not told or told[-1] in (victim.id, -1):
                fenced = not other.image.is_active(victim.id)
                named = (await coordinators_of(scene, other, ["readers"]))["readers"]
                assert not (fenced and named == victim.id)
                told.append(named)
        assert victim.id in told
        scene.scheduler.resume(victim.name)

    in_defaults(1, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 5))
def test_members_go_on_in_their_generation_when_their_coordinator_is_killed(seed: int) -> None:
    async def scenario(scene: BrokerScene) -> None:
        members = GroupMembers(scene.cluster, TOPIC, random.Random(seed), members=3, think_max_s=0.3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(members.run)
            await members.read_on(within_s=20)
            for turn in range(2):
                victim = await coordinator_of(scene, scene.cluster.leader() or scene.cluster.nodes[0], GROUP)
                await all_in_sync(scene)
                began, outlived = trio.current_time(), members.outlived
                await scene.cluster.crash(victim, power_loss=False)
                await members.read_on(within_s=3)
                assert members.outlived >= outlived + 3, f"turn {turn}: {trio.current_time() - began} s"
                scene.cluster.start(victim)
            members.finish()
        await members.check()

    quick = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "100"}
    run_scenario(seed, scenario, clients=CLIENTS, partitions=2, values=DEFAULTS | quick)


async def joins_until_it_has_an_assignment(scene: BrokerScene, coordinator: BrokerHost) -> None:
    """At once after an error, as librdkafka does."""
    network, member_id = scene.cluster.network.for_node("eager"), ""
    async with open_client(network, coordinator.address, timeout_s=10) as client:
        while True:
            common = {"group_id": "eager", "group_instance_id": None, "protocol_type": "consumer"}
            joined: Any = await client.call(
                ApiKey.JOIN_GROUP,
                session_timeout=timedelta(seconds=6),
                rebalance_timeout=timedelta(seconds=6),
                member_id=member_id,
                protocols=[{"name": "range", "metadata": b""}],
                **common,
            )
            member_id = joined.member_id
            if joined.error_code is WireErrorCode.member_id_required:
                continue
            assert joined.error_code is WireErrorCode.none
            synced: Any = await client.call(
                ApiKey.SYNC_GROUP,
                generation_id=joined.generation_id,
                member_id=member_id,
                protocol_name="range",
                assignments=[{"member_id": member_id, "assignment": b"all"}],
                **common,
            )
            if synced.error_code is WireErrorCode.none:
                return


@pytest.mark.slow
def test_a_group_that_can_not_be_stored_tries_a_few_times_and_goes_on_when_it_can() -> None:
    """Its member joins again as soon as it hears of an error: it did so hundreds of times a second."""

    async def scenario(scene: BrokerScene) -> None:
        coordinator = await coordinator_of(scene, scene.cluster.nodes[0], "eager")
        active = scene.cluster.leader()
        victim = next(node for node in scene.cluster.nodes if node not in (coordinator, active))
        await all_in_sync(scene)
        await scene.cluster.crash(victim, power_loss=False)
        await fenced_after(scene, victim, patience_s=5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(joins_until_it_has_an_assignment, scene, coordinator)
            await trio.sleep(20)
            assert coordinator.serving.broker is not None
            assert 5 < coordinator.serving.broker.groups.failed_writes < 30
            scene.cluster.start(victim)
            nursery.cancel_scope.deadline = trio.current_time() + 10
        assert not nursery.cancel_scope.cancelled_caught

    changed = {"min.insync.replicas": "3", "group.initial.rebalance.delay.ms": "0"}
    run_scenario(1, scenario, clients=replace(CLIENTS, idempotent=0), partitions=2, values=DEFAULTS | changed)
