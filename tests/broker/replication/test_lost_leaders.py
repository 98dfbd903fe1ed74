"""A broker knows the leaders that it has just lost."""

import trio
import trio.testing

from quorate.broker.replication.following.lost_leaders import PATIENCE_S, LostLeaders


async def test_a_leader_is_lost_for_a_while_or_until_it_is_found(autojump_clock) -> None:
    leaders = LostLeaders()
    leaders.found(1)
    assert list(leaders.recent()) == []
    leaders.lost(1)
    leaders.lost(2)
    leaders.found(2)
    assert list(leaders.recent()) == [1]
    await trio.sleep(PATIENCE_S)
    assert list(leaders.recent()) == []
    assert list(leaders.recent(within_s=PATIENCE_S + 0.1)) == [1]


async def test_a_leader_that_is_lost_again_is_lost_anew(autojump_clock) -> None:
    leaders = LostLeaders()
    leaders.lost(1)
    await trio.sleep(60)
    leaders.lost(1)
    assert list(leaders.recent()) == [1]


async def test_a_wait_ends_when_the_leader_is_found_and_when_patience_ends(autojump_clock) -> None:
    leaders = LostLeaders()
    began = trio.current_time()
    await leaders.wait_found(1)
    assert trio.current_time() == began
    leaders.lost(1)
    await trio.sleep(PATIENCE_S / 2)
    await leaders.wait_found(1)
    assert trio.current_time() == began + PATIENCE_S
    leaders.lost(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leaders.wait_found, 1)
        await trio.testing.wait_all_tasks_blocked()
        leaders.found(1)
    assert trio.current_time() == began + PATIENCE_S
