"""Random schedules under every fault the protocol allows, then recovery: safety after each step, liveness
at last."""

from random import Random

import pytest

from quorate.simulation.core_cluster import CoreCluster

SEEDS = 300
EVENTS = 500
EVENTS_TO_RECOVER = 30_000


def cluster_of(random: Random) -> CoreCluster:
    return CoreCluster(
        random=random,
        voters=random.choice((1, 2, 3, 3, 4, 5)),
        observers=random.choice((0, 0, 1, 2)),
        dynamic=random.random() < 0.5,
    )


@pytest.mark.parametrize("first_seed", range(0, SEEDS, 50))
def test_a_cluster_keeps_its_promises_under_faults_and_recovers_from_them(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        cluster = cluster_of(Random(seed))
        cluster.run(EVENTS)
        cluster.check_logs()
        cluster.heal()
        goal = len(cluster.committed) + 5

        def is_well(cluster: CoreCluster = cluster, goal: int = goal) -> bool:
            return all((machine.up.high_watermark or 0) >= goal for machine in cluster.nodes.values())

        assert cluster.run_until(is_well, events_max=EVENTS_TO_RECOVER), f"seed {seed}: {cluster.nodes}"
        cluster.check_logs()


def test_long_runs_commit_much_under_faults() -> None:
    committed = 0
    for seed in range(1000, 1010):
        cluster = cluster_of(Random(seed))
        cluster.run(5000)
        cluster.check_logs()
        committed += len(cluster.committed)
    assert committed > 500


def test_the_same_seed_gives_the_same_trace() -> None:
    def trace() -> list[str]:
        cluster = cluster_of(Random(7))
        cluster.tracing = True
        cluster.run(1000)
        return cluster.trace

    assert trace() == trace()


@pytest.mark.parametrize("seed", range(20))
def test_a_copy_behaves_like_its_original_and_does_not_touch_it(seed: int) -> None:
    """Laws of clone and key: at every step of a random run."""
    cluster = cluster_of(Random(seed))
    step = cluster.step
    checked = 0

    def step_twice(of, event, *, effects_done=None):  # type: ignore[no-untyped-def]
        nonlocal checked
        core = cluster.nodes[of].up
        before = core.key()
        copy = core.clone()
        assert copy.key() == before
        told = copy.step(event)
        assert core.key() == before
        effects = step(of, event, effects_done=effects_done)
        assert told == effects
        if cluster.nodes[of].core is core:
            assert copy.key() == core.key()
            assert hash(copy.key()) == hash(core.key())
        checked += 1
        return effects

    cluster.step = step_twice  # type: ignore[method-assign]
    cluster.run(400)
    assert checked > 50
