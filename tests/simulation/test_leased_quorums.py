"""Whole quorums with read leases: seeds with all faults, a leader that sleeps, the cost of an election."""

import random
from dataclasses import replace

import pytest
import trio
from quorum_story import in_quorum

from quorate.raft import NotLeaderError, QuorumConfig, QuorumConfigError
from quorate.raft.core import CoreConfig
from quorate.simulation.patience import holds_within
from quorate.simulation.quorum.quorum_cluster import ClusterSettings, QuorumCluster
from quorate.simulation.quorum.quorum_run import QuorumRun, QuorumRunSettings
from quorate.types import NodeId

SEEDS = 12
LEASED = CoreConfig(read_lease_ms=1000)


def leased_run(seed: int) -> QuorumRun:
    """The run of a seed with leases. The clocks that leaders measure them by differ by up to the bound."""
    source = random.Random(f"settings/{seed}")
    settings = QuorumRunSettings.draw(source)
    core = settings.cluster.core
    wait_ms = min(core.fetch_max_wait_ms, core.fetch_timeout_ms // 4)
    core = replace(
        core, fetch_max_wait_ms=wait_ms, read_lease_ms=source.choice((2 * wait_ms, core.fetch_timeout_ms))
    )
    rates = tuple(source.choice((0.8, 0.9, 1.0, 1.1)) for _ in range(8))
    cluster = replace(settings.cluster, core=core, clock_rates=(), steady_rates=rates)
    clients = replace(settings.clients, readers=2)
    return QuorumRun(seed, replace(settings, cluster=cluster, clients=clients))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_every_seed_with_leases_keeps_the_invariants_and_recovers(seed: int) -> None:
    leased_run(seed).execute()


def test_a_leader_reads_without_a_message_and_followers_by_asking_it() -> None:
    async def story(cluster: QuorumCluster) -> None:
        leader = await cluster.converge(within_s=20)
        await leader.serving.append([b"one"])
        await trio.sleep(1)
        assert leader.serving.has_read_lease
        assert [node.serving.has_read_lease for node in cluster.nodes].count(True) == 1
        began = trio.current_time()
        assert await leader.serving.wait_read_index() == leader.serving.applied_offset
        assert trio.current_time() == began
        follower = next(node for node in cluster.nodes if node is not leader)
        assert await follower.serving.wait_read_index() == leader.serving.applied_offset

    in_quorum(story, ClusterSettings(core=LEASED))


def test_an_idle_leader_renews_its_lease_for_ever() -> None:
    async def story(cluster: QuorumCluster) -> None:
        leader = await cluster.converge(within_s=20)
        await trio.sleep(1)
        for _ in range(500):
            assert leader.serving.has_read_lease
            await trio.sleep(0.02)

    in_quorum(story, ClusterSettings(core=LEASED))


def test_a_read_goes_by_the_clock_at_the_time_of_the_read() -> None:
    async def story(cluster: QuorumCluster) -> None:
        leader = await cluster.converge(within_s=20)
        await leader.serving.append([b"one"])
        await trio.sleep(1)
        assert leader.serving.has_read_lease
        leader.host.steady_clock.rate = 2.0  # as if the host had slept since the last event
        began = trio.current_time()
        await leader.serving.wait_read_index()
        assert trio.current_time() > began, "a round"

    in_quorum(story, ClusterSettings(core=LEASED))


@pytest.mark.slow
def test_a_leader_that_slept_reads_nothing_by_its_old_lease() -> None:
    """The read was asked for while it slept, and is the first thing that it does."""

    async def story(cluster: QuorumCluster) -> None:
        old = await cluster.converge(within_s=20)
        await old.serving.append([b"one"])
        await trio.sleep(1)
        quorum, seen = old.serving, list[int]()
        assert quorum.has_read_lease
        cluster.scheduler.pause(old.name)

        async def read() -> None:
            try:
                seen.append(await quorum.wait_read_index(timeout_ms=500))
            except NotLeaderError:
                seen.append(-1)

        await trio.sleep(20)
        new = cluster.leader()
        assert new is not None
        assert new is not old
        appended = await new.serving.append([b"two"])
        with cluster.scheduler.process(old.name):
            cluster.spawn(read)
        cluster.scheduler.resume(old.name)
        await trio.sleep(5)
        (end,) = seen
        assert end == -1 or end > appended.base_offset

    for seed in range(1, 6):
        in_quorum(story, ClusterSettings(core=LEASED), seed=seed)


async def election_ms(cluster: QuorumCluster, source: random.Random) -> int:
    """The time from the kill of an idle leader until the next one has applied all that it committed."""
    old = await cluster.converge(within_s=20)
    await old.serving.append([b"one"])
    await trio.sleep(source.uniform(1, 2))
    began = trio.current_time()
    await cluster.crash(old, power_loss=False)
    assert await holds_within(20, lambda: cluster.leader() not in (None, old), every_s=0.005)
    return round((trio.current_time() - began) * 1000)


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize(("read_lease_ms", "least_ms", "most_ms"), [(0, 0, 400), (1000, 300, 1700)])
def test_an_election_after_a_kill_waits_for_the_promises(
    read_lease_ms: int, least_ms: int, most_ms: int
) -> None:
    took: list[int] = []
    source = random.Random(1)

    async def story(cluster: QuorumCluster) -> None:
        took.append(await election_ms(cluster, source))

    for seed in range(1, 6):
        in_quorum(
            story, ClusterSettings(core=replace(LEASED, read_lease_ms=read_lease_ms)), seed=seed,
            source=random.Random(seed),
        )  # fmt: skip
    assert least_ms <= min(took)
    assert max(took) <= most_ms


@pytest.mark.parametrize("read_lease_ms", [-1, 999, 2001])
def test_a_lease_is_refused_that_an_idle_leader_loses_or_that_outlasts_the_fetch_timeout(
    read_lease_ms: int,
) -> None:
    with pytest.raises(QuorumConfigError, match=f"read_lease_ms is {read_lease_ms}; choose 0"):
        QuorumConfig(
            node_id=NodeId(1),
            cluster_id="c",
            folder="f",
            core=CoreConfig(read_lease_ms=read_lease_ms),
        )
