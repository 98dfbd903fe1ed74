"""What is left of reassignments, by what the leader of each partition knows."""

import pytest
import trio

from quorate.broker.page.moves import moves
from tests.broker.replication.test_moves import ask, ended
from tests.broker.replication.test_throttle import SMALL_FETCHES, limit

SIZE = 50_000


async def told(cluster, broker: int, *, bytes_per_s: float = 0.0):
    return await moves(cluster[broker].replicas.hosted, cluster.controller.image, bytes_per_s=bytes_per_s)


@pytest.mark.slow
async def test_the_leader_tells_what_the_new_replicas_lack_until_they_have_all(
    make_cluster, autojump_clock
) -> None:
    cluster = await make_cluster(4, replicas=(1, 2), **SMALL_FETCHES)
    assert (await told(cluster, 1))["total"] == 0
    await cluster[1].produce_each(["x" * SIZE] * 40)
    limit(cluster, "leader", "*")
    ask(cluster, (1, 3, 4))
    await cluster.opened()
    left = []
    while (now := await told(cluster, 1))["total"]:
        assert now["here"] == 1
        (move,) = now["first"]
        assert (move["topic"], move["partition"], set(move["records"])) == ("t", 0, {"3", "4"})
        records = sum(move["records"].values())
        assert now["bytes_left"] == move["bytes_left"] == pytest.approx(records * SIZE, rel=0.01)
        left.append(records)
        # Another replica knows only that there is a move.
        other = await told(cluster, 2)
        assert (other["total"], other["here"], other["bytes_left"], other["first"]) == (1, 0, 0, [])
        await trio.sleep(1)
    assert left == sorted(left, reverse=True) and left[0] > 60 and len(set(left)) > 5
    await ended(cluster, (1, 3, 4))


async def test_how_long_it_takes_is_told_by_the_pace_of_the_node(make_cluster, autojump_clock) -> None:
    cluster = await make_cluster(3, replicas=(1, 2), **SMALL_FETCHES)
    await cluster[1].produce_each(["x" * SIZE] * 40)
    cluster.cut_off(3)
    ask(cluster, (1, 3))
    await cluster.until(lambda: cluster[1].partition().state.is_reassigning)
    now = await told(cluster, 1, bytes_per_s=100_000.0)
    assert now["first"][0]["records"] == {"3": 40} and now["seconds_left"] == pytest.approx(20, abs=1)
    assert (await told(cluster, 1))["seconds_left"] is None
    # While replicas are only removed, nothing is left to copy.
    cluster.controller.change(replicas=(1, 2), adding_replicas=(), removing_replicas=(2,))
    await cluster.until(lambda: cluster[1].partition().state.removing_replicas == (2,))
    now = await told(cluster, 1, bytes_per_s=100_000.0)
    assert (now["here"], now["bytes_left"], now["seconds_left"]) == (1, 0, None)
