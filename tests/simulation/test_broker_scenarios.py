"""The main scenarios of brokers: a partition leader that sleeps, and power cuts in round after round."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.produce_codec import ProducePartition, ProduceRequest, ProduceTopic
from quorate.broker.wire.kafka_client import open_client
from quorate.log.batches.records import build_batch
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.histories.history import AppendOutcome
from quorate.simulation.patience import holds_within
from quorate.simulation.world.simulated_runtime import DiskSpeed
from tests.simulator.brokers.broker_admin import Administrator
from tests.simulator.brokers.broker_clients import TOPIC, BrokerClientSettings
from tests.simulator.brokers.broker_cluster import AGAIN, MORE, BrokerHost
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario
from tests.simulator.brokers.directory_faults import DirectoryFaults
from tests.simulator.brokers.loss_budget import LossBudget

PATIENCE_S = 60.0
SLEEP_S = 30.0
"""Twenty times what it takes to fence a silent broker."""
ROUNDS = 9
ACKNOWLEDGED_PER_ROUND = 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_partition_leader_that_was_stopped_acknowledges_nothing_that_was_sent_while_it_slept(
    seed: int,
) -> None:
    # Plain producers are more patient than the sleeper sleeps: who asks it waits until it wakes.
    settings = BrokerClientSettings(idempotent=2, plain=6, think_max_s=0.6, plain_timeout_s=2 * SLEEP_S)

    async def scenario(scene: BrokerScene) -> None:
        cluster, clients = scene.cluster, scene.clients
        await trio.sleep(2)
        old = scene.leader_of(0)
        before = cluster.states(TOPIC)[0].leader_epoch
        asleep_at = trio.current_time()
        acknowledged_before = len(clients.acknowledged)
        assert any(host == str(old.address) for _, host in clients.acknowledged)
        scene.scheduler.pause(old.name)
        await trio.sleep(SLEEP_S)

        new = scene.leader_of(0)
        assert new is not old
        assert cluster.states(TOPIC)[0].leader_epoch > before
        broker = old.serving.broker
        assert broker is not None
        assert broker.replicas.lookups.partition(TOPIC, 0).leading, "asleep, it has not heard of anybody else"
        waiting = [
            append for append in clients.histories[0].appends if append.outcome is AppendOutcome.UNKNOWN
        ]
        assert waiting, "somebody waits for the sleeper"
        meanwhile = {host for _, host in clients.acknowledged[acknowledged_before:]}
        assert str(new.address) in meanwhile, "the others went on"
        scene.scheduler.resume(old.name)
        await trio.sleep(5)
        assert scene.leader_of(0) is new
        for append, host in clients.acknowledged:
            if append.invoked_at > asleep_at:
                assert host != str(old.address), f"the sleeper answered: {append}"

    run_scenario(seed, scenario, clients=settings)


async def many_more_acknowledgements(scene: BrokerScene, count: int = ACKNOWLEDGED_PER_ROUND) -> None:
    clients = scene.clients
    wanted = len(clients.acknowledged) + count
    assert await holds_within(PATIENCE_S, lambda: len(clients.acknowledged) >= wanted, every_s=0.05)


def victims(number: int, scene: BrokerScene, source: random.Random) -> Sequence[BrokerHost]:
    """A third of the rounds the quorum's leader, a third a partition's, and else anybody, or two at once."""
    cluster = scene.cluster
    match number % 3:
        case 0:
            leader = cluster.leader()
            assert leader is not None
            return [leader]
        case 1:
            return [scene.leader_of(source.randrange(cluster.settings.partitions))]
        case _:
            return source.sample(cluster.nodes, source.choice((1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_acknowledged_records_survive_repeated_kill_9_and_power_loss(seed: int) -> None:
    settings = BrokerClientSettings(idempotent=2, plain=1, think_max_s=0.1)
    source = random.Random(f"power cuts {seed}")

    async def scenario(scene: BrokerScene) -> None:
        cluster, clients = scene.cluster, scene.clients
        for number in range(ROUNDS):
            await many_more_acknowledgements(scene)
            killed = victims(number, scene, source)
            # Two that lose what they had not synced are as many as min.insync.replicas: beyond the guarantee.
            await cluster.crash(*killed, power_loss=len(killed) == 1 and source.random() < 0.7)
            await trio.sleep(source.choice((0.0, 0.5, 3.0)))
            for node in killed:
                cluster.start(node)
            await cluster.converge(within_s=PATIENCE_S)
        assert len(clients.acknowledged) > ROUNDS * ACKNOWLEDGED_PER_ROUND

    run_scenario(seed, scenario, clients=settings, partitions=2)


@pytest.mark.slow
def test_a_broker_that_stops_may_hear_of_new_topics_to_the_last() -> None:
    """Its replicas are closed by then, and its quorum still applies what is committed."""

    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        source = random.Random("new topics")
        admin = Administrator(cluster, source)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(admin.churn, 0.2)
            for node in cluster.nodes:
                node.host.disk_speed = DiskSpeed(sync_min_s=0.05, sync_max_s=0.1)
                await cluster.stop(node)
                cluster.start(node)
                await cluster.converge(within_s=PATIENCE_S)
            admin.finish()

    run_scenario(1, scenario, clients=BrokerClientSettings(idempotent=1, plain=0))


@pytest.mark.slow
@pytest.mark.parametrize("deaf", [False, True], ids=["mute", "mute and deaf"])
def test_clients_of_a_leader_that_no_other_node_hears_are_sent_on(deaf: bool) -> None:
    async def scenario(scene: BrokerScene) -> None:
        cluster, clients, network = scene.cluster, scene.clients, scene.cluster.network
        await trio.sleep(2)
        old = scene.leader_of(0)
        for other in cluster.nodes:
            if other is not old:
                network.block(old.name, other.name)
                if deaf:
                    network.block(other.name, old.name)
        await trio.sleep(6)
        new = scene.leader_of(0)
        assert new is not old
        asker = network.for_node("asker")
        async with open_client(asker, old.address, client_id="asker", timeout_s=2) as connection:
            metadata: Any = await connection.call(
                ApiKey.METADATA, topics=[{"name": TOPIC}], allow_auto_topic_creation=False
            )
            partition = metadata.topics[0].partitions[0]
            assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)
            known = {each.node_id for each in metadata.brokers}
            assert old.id not in known
            assert metadata.controller_id in known
            batch = build_batch(base_offset=0, epoch=-1, timestamp_ms=0, values=[b"not here"])
            request = ProduceRequest(
                version=10,
                acks=-1,
                timeout_ms=1000,
                topics=[ProduceTopic(TOPIC, [ProducePartition(0, memoryview(batch))])],
            )
            produced = (await connection.produce(request))[0].partitions[0]
            assert (produced.error, produced.leader_id) == (ErrorCode.not_leader_or_follower, -1)
        since = len(clients.acknowledged)
        await trio.sleep(2)
        meanwhile = {host for _, host in clients.acknowledged[since:]}
        assert meanwhile == {str(new.address)}

    run_scenario(1, scenario, clients=BrokerClientSettings(idempotent=2, plain=2, think_max_s=0.2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 3))
def test_five_hundred_acknowledgements_between_kills_and_power_losses(seed: int) -> None:
    settings = BrokerClientSettings(idempotent=8, plain=4, think_max_s=0.02)
    source = random.Random(f"many acknowledgements {seed}")

    async def scenario(scene: BrokerScene) -> None:
        cluster, clients = scene.cluster, scene.clients
        for number in range(3):
            before = len(clients.acknowledged)
            await many_more_acknowledgements(scene, 500)
            killed = victims(number, scene, source) if number < 2 else cluster.nodes
            loser = source.choice(killed)
            # All are killed in the same instant, and one of them loses what it had not synced.
            async with trio.open_nursery() as nursery:
                for node in killed:
                    nursery.start_soon(partial(cluster.crash, node, power_loss=node is loser))
            await trio.sleep(source.choice((0.0, 0.5, 3.0)))
            for node in killed:
                cluster.start(node)
            await cluster.converge(within_s=PATIENCE_S)
            assert len(clients.acknowledged) - before >= 500

    run_scenario(seed, scenario, clients=settings, partitions=2)


async def until(condition: Callable[[], bool], *, every_s: float) -> None:
    assert await holds_within(30, condition, every_s=every_s)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "end"), [("stops", "is killed"), ("stops", "resigns"), ("is killed", "resigns")]
)
def test_a_controller_goes_between_two_pieces_and_the_next_one_does_the_rest(how: str, end: str) -> None:
    """One partition a step: a broker leaves a dozen ISRs while the controller changes."""
    halfway: list[int] = []

    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        first = cluster.leader()
        assert first is not None
        gone = next(node for node in cluster.nodes if node is not first)
        members = first.image.isr_count(gone.id)

        def others_are_done() -> bool:
            now = cluster.leader()
            return now is not None and now is not first and now.image.isr_count(gone.id) == 0

        async with trio.open_nursery() as nursery:
            if how == "stops":
                nursery.start_soon(cluster.stop, gone)
            else:
                await cluster.crash(gone, power_loss=False)
            await until(lambda: 0 < first.image.isr_count(gone.id) < members, every_s=0.0002)
            halfway.append(first.image.isr_count(gone.id))
            if end == "resigns":
                cluster.resign(first)
            else:
                await cluster.crash(first, power_loss=False)
            if how == "stops":
                await until(others_are_done, every_s=0.01)
            else:
                # Two voters are left: either of them may be elected.
                await until(lambda: first.image.isr_count(gone.id) == 0, every_s=0.01)
        await cluster.start_all()
        await cluster.converge(within_s=PATIENCE_S)

    values = {"quorate.controller.partitions.per.step": "1"}
    run_scenario(
        1, scenario, clients=BrokerClientSettings(idempotent=2, plain=1), partitions=12, values=values
    )
    assert halfway


def test_a_folder_that_is_mounted_twice_when_the_faults_end_is_unmounted() -> None:
    """The harness left it mounted, and the broker refused to start for ever (seed 7100371)."""

    async def nobody() -> None:
        pass

    async def scenario(scene: BrokerScene) -> None:
        node = scene.cluster.nodes[1]
        budget = LossBudget(scene.cluster)
        faults = DirectoryFaults(
            scene.cluster, random.Random(1), budget, choose=lambda: node, sleep_duration=nobody
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(faults.mount_twice)
            await until(lambda: AGAIN in node.log_dirs, every_s=0.001)
            nursery.cancel_scope.cancel()
        await faults.unmount_again(node)
        assert node.log_dirs == (FOLDER, MORE)

    run_scenario(1, scenario, clients=BrokerClientSettings(idempotent=1, plain=1), log_dirs=(FOLDER, MORE))


def test_no_topic_is_created_on_a_directory_that_is_gone() -> None:
    """It was created on a broker that was down and still registered with that directory, and on one that lost
    its own later: nobody was sure to have it whole, for ever (seed 7102845)."""
    gone = trio.Event()
    back = trio.Event()

    async def away() -> None:
        gone.set()
        await back.wait()

    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        node = next(each for each in cluster.nodes if each is not cluster.leader())
        admin = Administrator(cluster, random.Random(1))
        budget = LossBudget(cluster)
        faults = DirectoryFaults(cluster, random.Random(1), budget, choose=lambda: node, sleep_duration=away)
        cluster.creating += 1
        await faults.lose()
        assert not gone.is_set(), "a topic is being created"
        other = next(each for each in cluster.nodes if each is not node)
        await until(lambda: node.is_unfenced(other.image), every_s=0.1)
        cluster.creating -= 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(faults.lose)
            await gone.wait()
            nursery.start_soon(partial(admin.create, "another", partitions=1))
            await trio.sleep(1)
            assert not admin.fates
            back.set()
        assert admin.fates

    # Who is fenced gets replicas, but no place in an ISR: the scenario is of a broker that is down and isn't.
    run_scenario(
        1,
        scenario,
        clients=BrokerClientSettings(idempotent=1, plain=1),
        values={"quorate.controller.refusal.confirm.ms": "0"},
        log_dirs=(FOLDER, MORE),
    )


def test_the_last_member_of_a_topic_that_was_created_while_a_broker_was_away_loses_nothing() -> None:
    """Its two members lost what they had within the budget, and only an unclean election could have helped
    (seed 9309316)."""

    async def scenario(scene: BrokerScene) -> None:
        cluster = scene.cluster
        away, one, other = cluster.nodes
        budget = LossBudget(cluster)
        assert budget.take(one) and budget.take(other), "every partition has a third member"
        budget = LossBudget(cluster)
        await cluster.crash(away, power_loss=False)
        await until(lambda: not cluster.metadata.image.is_active(away.id), every_s=0.1)
        await Administrator(cluster, random.Random(1)).create("another", partitions=1)
        assert budget.take(one)
        assert not budget.take(other)

    run_scenario(1, scenario, clients=BrokerClientSettings(idempotent=1, plain=1), min_isr=3)
