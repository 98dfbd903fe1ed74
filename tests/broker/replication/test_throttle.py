"""Throttled replication (KIP-73), in virtual time."""

import math

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.metadata.metadata_records import Config, ConfigType
from quorate.broker.replication.foundation.replication_quota import ReplicationQuota, is_throttled

RATE = 200_000
SMALL_FETCHES = {"replica_fetch_max_bytes": 60_000, "replica_lag_time_max_ms": 1000}


def limit(cluster, side: str, replicas: str, rate: int | None = RATE, *, broker: str = "") -> None:
    """`broker`: whose rate; all brokers' by default."""
    cluster.controller.configure(**{f"{side}_replication_throttled_replicas": replicas})
    limit_rate(cluster, side, rate, broker=broker)


def limit_rate(cluster, side: str, rate: int | None, *, broker: str = "") -> None:
    cluster.controller.commit(
        Config(
            resource_type=ConfigType.BROKER,
            resource_name=broker,
            name=f"{side}.replication.throttled.rate",
            value=None if rate is None else str(rate),
        )
    )


async def backlog(make_cluster):
    """Broker 3 is out of the ISR of t-0, and lacks 2 MB."""
    cluster = await make_cluster(isr=(1, 2), min_isr=1, cut_off=(3,), **SMALL_FETCHES)
    await cluster[1].produce_each(["x" * 50000] * 40, acks=1)
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 40)
    return cluster


async def catches_up(cluster) -> float:
    """Seconds until broker 3 has everything."""
    began = trio.current_time()
    cluster.heal()
    await cluster.until(lambda: cluster[3].partition().log.end_offset == 40, within_s=60)
    return trio.current_time() - began


async def test_without_a_throttle_a_replica_catches_up_at_once(make_cluster, autojump_clock) -> None:
    cluster = await backlog(make_cluster)
    assert await catches_up(cluster) < 3


@pytest.mark.costly
@pytest.mark.parametrize(
    ("side", "replicas", "broker"),
    [("follower", "0:3", "3"), ("follower", "*", ""), ("leader", "0:1", "1"), ("leader", "*", "")],
)
async def test_a_replica_that_copies_is_held_to_the_rate_by_either_side(
    make_cluster, autojump_clock, side: str, replicas: str, broker: str
) -> None:
    cluster = await backlog(make_cluster)
    limit(cluster, side, replicas, broker=broker)
    # 2 MB at 200 kB/s; a second's worth may pass at once.
    assert 8 <= await catches_up(cluster) <= 14


@pytest.mark.bug("KAFKA-13614")
async def test_the_throttle_of_a_leader_is_not_of_its_consumers(make_cluster, autojump_clock) -> None:
    cluster = await backlog(make_cluster)
    await cluster.until(lambda: cluster[1].partition().high_watermark == 40)
    limit(cluster, "leader", "*")
    cluster.heal()
    began = trio.current_time()
    assert len(await cluster[1].consumed()) == 40
    assert trio.current_time() - began < 1, "2 MB, ten seconds' worth of the throttle"
    assert cluster[3].partition().log.end_offset < 40, "the replica is still held to it"


@pytest.mark.parametrize(
    ("side", "replicas", "broker"),
    [("follower", "0:2,1:3", "3"), ("follower", "0:3", "2"), ("leader", "0:3", "1"), ("leader", "", "1")],
)
async def test_neither_what_is_not_listed_nor_another_brokers_rate_holds_anybody_back(
    make_cluster, autojump_clock, side: str, replicas: str, broker: str
) -> None:
    cluster = await backlog(make_cluster)
    limit(cluster, side, replicas, broker=broker)
    assert await catches_up(cluster) < 3


@pytest.mark.bug("KAFKA-4313")
@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_member_of_the_isr_is_never_held_back(make_cluster, autojump_clock, side: str) -> None:
    cluster = await make_cluster(**SMALL_FETCHES)
    limit(cluster, side, "*", 1)
    began = trio.current_time()
    await cluster[1].produce_each(["x" * 50000] * 10)
    assert trio.current_time() - began < 2
    assert cluster.controller.state().isr == (1, 2, 3)


@pytest.mark.costly
@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_rate_that_is_raised_or_removed_counts_at_once(
    make_cluster, autojump_clock, side: str
) -> None:
    cluster = await backlog(make_cluster)
    limit(cluster, side, "*", 1000)
    cluster.heal()
    await trio.sleep(20)
    copied = cluster[3].partition().log.end_offset
    assert copied < 10
    limit_rate(cluster, side, None)
    began = trio.current_time()
    await cluster.until(lambda: cluster[3].partition().log.end_offset == 40, within_s=60)
    assert trio.current_time() - began < 3


@pytest.mark.parametrize(
    ("replicas", "listed"),
    [("*", True), ("1:2", True), ("0:2, 1:2", True), ("1:3,2:2", False), ("11:2", False), ("", False)],
)
def test_a_topics_list_names_replicas_by_partition_and_broker(replicas: str, listed: bool) -> None:
    assert is_throttled(replicas, partition_id=1, broker_id=2) is listed


@given(
    bound=st.integers(1, 10_000),
    steps=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 5000)), max_size=60),
)
def test_a_copy_that_asks_before_each_read_takes_no_more_than_the_rate_and_one_burst(
    bound: int, steps
) -> None:
    quota = ReplicationQuota()
    quota.bound = bound
    now, copied, largest = 0.0, 0, 0
    for pause, size in steps:
        now += pause
        if not quota.exceeded(now=now):
            quota.record(size, now=now)
            copied += size
            largest = max(largest, size)
    # The window forgets what is older than it: at most one bound of a second more for each time it does.
    assert copied <= (bound + largest) * (now / 10 + 1) + bound * (now + 1)


@given(bound=st.integers(1, 10_000), size=st.integers(0, 200_000))
def test_the_pause_ends_when_the_rate_is_back_or_is_to_be_looked_at_again(bound: int, size: int) -> None:
    quota = ReplicationQuota()
    quota.bound = bound
    quota.record(size, now=100.0)
    now, pauses = 100.0, 0
    while (pause := quota.pause_s(now=now)) > 0:
        assert 0.01 <= pause <= 1
        now += pause
        pauses += 1
        assert pauses < 1200
    assert not quota.exceeded(now=now)
    assert now - 100 <= 11.1


def test_without_a_bound_nothing_is_exceeded() -> None:
    quota = ReplicationQuota()
    quota.record(1 << 40, now=1.0)
    assert quota.bound == math.inf
    assert not quota.exceeded(now=1.0)
