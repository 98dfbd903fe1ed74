"""The lag of groups by what a broker knows of its own replicas."""

import pytest
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_lags import GroupLag
from quorate.broker.groups.group_messages import MemberRef
from quorate.broker.groups.group_state import GroupState

from .conftest import Cluster

ALONE = MemberRef(group_id="alone", member_id="", generation=-1)


async def lags(cluster: Cluster, ends: dict[tuple[str, int], int]) -> dict[str, GroupLag]:
    found = await cluster.groups.administration.lags(lambda *key: ends.get(key))
    assert found.loading == 0
    return {each.group_id: each for each in found.groups}


async def test_the_lag_is_what_is_written_and_not_read_where_the_end_is_known(
    cluster: Cluster, autojump_clock
) -> None:
    leader, _ = await cluster.stable_pair()
    for partition, offset in enumerate((4, 7, 5)):
        cluster.commit(cluster.ref(leader), offset, partition=partition)
    cluster.commit(ALONE, 1, topic="elsewhere")
    # A follower's end may be behind what was committed.
    told = await lags(cluster, {("t", 0): 10, ("t", 1): 6})
    assert told == {
        "g1": GroupLag(group_id="g1", state=GroupState.STABLE, members=2, lag=6, known=2, unknown=1),
        "alone": GroupLag(group_id="alone", state=GroupState.EMPTY, members=0, lag=0, known=0, unknown=1),
    }


async def test_a_group_whose_join_was_refused_is_none(cluster: Cluster, autojump_clock) -> None:
    refused = cluster.start_join(group="g9", protocol_type="")
    assert refused.answered
    assert await lags(cluster, {}) == {}


async def test_groups_that_are_being_loaded_or_are_gone_are_not_told(
    cluster: Cluster, autojump_clock
) -> None:
    cluster.commit(ALONE, 1)
    assert set(await lags(cluster, {})) == {"alone"}
    for partition in range(4):
        cluster.groups.resign(partition)
    assert await lags(cluster, {}) == {}
    cluster.groups.elect(0, 9)
    found = await cluster.groups.administration.lags(lambda *key: None)
    assert (found.groups, found.loading) == ((), 1)


@pytest.mark.parametrize("at", ["the end", "a partition"])
async def test_a_group_that_moves_away_meanwhile_does_no_harm(
    cluster: Cluster, autojump_clock, at: str
) -> None:
    for number in range(3):
        ref = MemberRef(group_id=f"g{number}", member_id="", generation=-1)
        for partition in range(3):
            assert cluster.commit(ref, 1, partition=partition).answers == [[ErrorCode.none]]

    def end_of(topic: str, partition: int) -> int:
        if at == "a partition":
            for each in range(4):
                cluster.groups.resign(each)
        return 5

    found = await cluster.groups.administration.lags(end_of)
    # The one that was looked at is told as it was.
    assert [each.lag for each in found.groups] == ([12, 12, 12] if at == "the end" else [12])
