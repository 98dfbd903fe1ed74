"""What single seeds have taught, with as few faults as it takes."""

import pytest
import trio
from quorum_story import in_quorum

from quorate.raft import CoreConfig
from quorate.raft.quorum_errors import OutcomeUnknownError
from quorate.simulation.quorum.quorum_cluster import ClusterSettings, QuorumCluster
from quorate.simulation.world.pipes import LinkQuality, NetworkSettings


def test_a_follower_stops_forwarding_on_a_connection_that_has_gone_silent() -> None:
    async def scenario(cluster: QuorumCluster) -> None:
        leader = cluster.leader()
        assert leader is not None
        follower = next(node for node in cluster.nodes if node is not leader)
        await follower.serving.append([b"the connection is open now"])
        cluster.network.half_open(follower.name, leader.name)
        for _ in range(10):
            try:
                await follower.serving.append([b"again"], timeout_ms=3000)
                return
            except OutcomeUnknownError:
                pass
        raise AssertionError("every append went into the silent connection")

    in_quorum(scenario)


def test_appends_under_way_when_a_node_stops_hear_of_it() -> None:
    async def scenario(cluster: QuorumCluster) -> None:
        leader = cluster.leader()
        assert leader is not None
        follower = next(node for node in cluster.nodes if node is not leader)
        errors: list[Exception] = []
        quorum = follower.serving

        async def append() -> None:
            try:
                await quorum.append([b"late"], timeout_ms=1000)
            except Exception as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.stop, follower)
            for _ in range(20):
                nursery.start_soon(append)
                await trio.sleep(0.0005)
        assert errors
        assert {type(error).__name__ for error in errors} <= {
            "QuorumStoppedError",
            "OutcomeUnknownError",
            "NotLeaderError",
        }

    in_quorum(scenario)


def test_a_node_starts_whenever_the_replacement_of_its_disk_is_given_up() -> None:
    outcomes: set[str] = set()

    async def scenario(cluster: QuorumCluster) -> None:
        node = cluster.nodes[3]
        for ms in range(1, 16):
            disks = node.disks
            with trio.move_on_after(ms / 1000):
                await cluster.replace_disk(node)
            outcomes.add("the new disk" if node.disks > disks else "the old disk")
            await cluster.start_all()
            await cluster.converge(within_s=20)

    in_quorum(scenario, ClusterSettings(observers=1, dynamic=True))
    assert outcomes == {"the new disk", "the old disk"}


@pytest.mark.slow
def test_a_follower_far_behind_catches_up_over_a_link_too_slow_for_one_answer() -> None:
    async def scenario(cluster: QuorumCluster) -> None:
        leader = cluster.leader()
        assert leader is not None
        follower = next(node for node in cluster.nodes if node is not leader)
        await cluster.stop(follower)
        for _ in range(60):
            await leader.serving.append([bytes(1024)])
        await cluster.start_all()
        await cluster.converge(within_s=30)

    # All that is missing takes 2.4 s, four times as long as a follower waits before it stands.
    in_quorum(
        scenario,
        ClusterSettings(
            core=CoreConfig(fetch_timeout_ms=600, fetch_max_wait_ms=100),
            network=NetworkSettings(link=LinkQuality(bytes_per_s=25_000)),
        ),
    )
