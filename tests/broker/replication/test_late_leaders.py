"""A follower that is faster than its leader: what it fetches is being opened there, or isn't known yet."""

import pytest
import trio

from quorate.broker.replication.following.fetcher import LeaderFetcher
from quorate.simulation.world.disk_faults import DiskOperation


@pytest.fixture
async def slow(make_cluster, monkeypatch, autojump_clock):
    """Two brokers with a session between them. Broker 1 takes `slow.opening_s` to open a log; each pause of
    broker 2, after an error, is in `slow.pauses`."""
    cluster = await make_cluster(2, min_isr=2)
    await cluster.caught_up(1, 2)
    await trio.sleep(1)
    cluster.opening_s, cluster.pauses = 0.2, []
    opening, pause = cluster[1].manager._parts.roles.hosting._opening, LeaderFetcher._pause
    opened = opening.open

    async def later(*args):
        await trio.sleep(cluster.opening_s)
        return await opened(*args)

    def paused(self, followed):
        cluster.pauses.append(trio.current_time())
        pause(self, followed)

    monkeypatch.setattr(opening, "open", later)
    monkeypatch.setattr(LeaderFetcher, "_pause", paused)
    return cluster


@pytest.mark.parametrize("opening_s", [0.2, 3.0], ids=["within a long poll", "over several"])
async def test_a_fetch_of_what_its_leader_is_opening_waits_until_it_is_open(slow, autojump_clock, opening_s):
    slow.opening_s = opening_s
    began = trio.current_time()
    slow.controller.create("new", replicas=(1, 2), number=2)
    await slow.opened("new")
    assert trio.current_time() - began == pytest.approx(opening_s, abs=0.05)
    # The leader knows already what the follower has.
    assert slow[1].partition("new").leading.remotes[2].log_end_offset == 0
    began = trio.current_time()
    assert (await slow[1].produced("a", name="new")).error == 0
    assert trio.current_time() - began < 0.02
    assert not slow.pauses


async def test_partitions_that_are_open_do_not_wait_for_those_that_are_being_opened(slow, autojump_clock):
    slow.opening_s = 10.0
    slow.controller.create("new", replicas=(1, 2), number=2)
    for _ in range(5):
        began = trio.current_time()
        assert (await slow[1].produced("a")).error == 0
        assert trio.current_time() - began < 0.02
        await trio.sleep(0.3)
    await slow.opened("new")
    assert (await slow[1].produced("a", name="new")).error == 0
    assert not slow.pauses


async def test_a_leader_whose_metadata_is_late_answers_with_an_error(slow, autojump_clock):
    slow[1].hold_metadata()
    slow.controller.create("new", replicas=(1, 2), number=2)
    await trio.sleep(0.1)
    assert slow.pauses
    slow[1].release_metadata()
    await slow.opened("new")
    assert (await slow[1].produced("a", name="new")).error == 0


async def test_a_leader_that_will_lead_in_a_later_epoch_only_answers_with_an_error(slow, autojump_clock):
    slow.opening_s = 10.0
    slow.controller.create("new", replicas=(1, 2), number=2)
    await trio.sleep(0.1)
    assert not slow.pauses
    slow[1].hold_metadata()
    slow.controller.elect(1, name="new")
    await trio.sleep(0.1)
    assert slow.pauses, "the follower is in the next leader epoch"


async def test_a_fetch_of_what_its_leader_fails_to_open_is_answered(slow, autojump_clock):
    slow[1].disk.fail(DiskOperation.OPEN, path_part="new-0", times=100)
    slow.controller.create("new", replicas=(1, 2), number=2)
    await trio.sleep(0.1)
    assert not slow.pauses
    await trio.sleep(0.3)
    assert slow.pauses
    assert slow[1].errors.pop(), "it has no other directory"


async def test_a_topic_that_is_deleted_while_its_leader_opens_it_leaves_no_trace(slow, autojump_clock):
    slow.controller.create("new", replicas=(1, 2), number=2)
    await trio.sleep(0.1)
    slow.controller.delete("new")
    await trio.sleep(5)
    assert not slow[1].manager._parts.roles.hosting._replicas._openings
    assert slow[1].replicas.sessions.partitions == 1
    assert (await slow[1].produced("a")).error == 0
