"""A process may die between any two of its awaits, and its host with it: each such moment of a short life."""

import pytest
import trio
from quorum_story import in_quorum

from quorate.raft.quorum_errors import QuorumError
from quorate.simulation.histories.history import History
from quorate.simulation.quorum.quorum_cluster import ClusterSettings, QuorumCluster
from quorate.simulation.world.scheduler import Scheduler, run

PASSES = 60


@pytest.mark.slow
@pytest.mark.parametrize("sync_at_once", [(), (True,)], ids=["awaited-syncs", "syncs-at-once"])
@pytest.mark.parametrize("power_loss", [False, True], ids=["process", "host"])
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_node_that_dies_between_any_two_awaits_comes_back_and_nothing_acknowledged_is_lost(
    who: str, power_loss: bool, sync_at_once: tuple[bool, ...]
) -> None:
    died_at: list[int] = []

    async def story(cluster: QuorumCluster) -> None:
        history = History()

        async def append(number: int) -> None:
            while True:
                await append_once()
                await trio.sleep(0.001 * number)

        async def append_once() -> None:
            leader = cluster.leader()
            if leader is None:
                return
            call = history.invoke("client", [b"%d" % len(history.appends)], trio.current_time())
            try:
                appended = await leader.serving.append(call.records, timeout_ms=1000)
            except QuorumError:
                return
            history.acknowledge(call, appended.base_offset, appended.epoch, trio.current_time())

        for passes in range(1, PASSES, 2):
            leader = await cluster.converge(within_s=20)
            victim = leader if who == "leader" else next(n for n in cluster.nodes if n is not leader)
            async with trio.open_nursery() as nursery:
                for number in range(1, 4):
                    nursery.start_soon(append, number)
                with trio.move_on_after(2.0):
                    await cluster.scheduler.wait_passes(victim.name, passes)
                    died_at.append(passes)
                await cluster.crash(victim, power_loss=power_loss)
                nursery.cancel_scope.cancel()
            cluster.start(victim)
        leader = await cluster.converge(within_s=20)
        assert leader.journal is not None
        history.check(leader.journal.entries)
        assert sum(call.base_offset >= 0 for call in history.appends) > PASSES // 4

    in_quorum(story, ClusterSettings(sync_at_once=sync_at_once))
    assert len(died_at) > PASSES // 4


def test_passes_are_counted_for_one_process_only() -> None:
    async def program(scheduler: Scheduler) -> None:
        steps = 0

        async def work() -> None:
            nonlocal steps
            for _ in range(50):
                steps += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            with scheduler.process("other"):
                nursery.start_soon(work)
            await trio.lowlevel.checkpoint()
            with scheduler.process("watched"):
                nursery.start_soon(work)
            before = steps
            await scheduler.wait_passes("watched", 10)
            assert 10 <= steps - before <= 24

    run(1, program)
