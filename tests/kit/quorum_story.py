"""A story of one simulated quorum: what single seeds have taught, with as few faults as it takes."""

import random
from collections.abc import Awaitable, Callable

import trio

from quorate.simulation.quorum.quorum_cluster import ClusterSettings, QuorumCluster
from quorate.simulation.world.scheduler import Scheduler, run
from quorate.simulation.world.trace import Trace


def in_quorum(
    story: Callable[[QuorumCluster], Awaitable[None]],
    settings: ClusterSettings | None = None,
    *,
    seed: int = 1,
    source: random.Random | None = None,
) -> None:
    """Play the story in a quorum that agrees on a leader. Nothing may violate an invariant."""

    async def program(scheduler: Scheduler) -> None:
        async with trio.open_nursery() as nursery:
            cluster = QuorumCluster(
                settings or ClusterSettings(), source or random.Random(1), scheduler, nursery, Trace()
            )
            await cluster.boot()
            await cluster.converge(within_s=20)
            await story(cluster)
            nursery.cancel_scope.cancel()
        assert cluster.violation is None

    run(seed, program)
