"""A broker that comes to follow very many partitions: each of them soon, and all at a cost that grows with
their number, not with its square."""

import trio

from quorate.broker.replication.following.fetcher import LeaderFetcher


async def test_partitions_that_are_new_one_after_the_other_seldom_begin_the_session_anew(
    make_brokers, monkeypatch, autojump_clock
):
    named = []
    request = LeaderFetcher._request

    async def counted(self, version):
        made = await request(self, version)
        named.append(sum(len(topic.partitions) for topic in made[0].topics))
        return made

    monkeypatch.setattr(LeaderFetcher, "_request", counted)
    cluster = make_brokers(brokers=2, min_isr=1)
    await cluster.start()
    count = 150
    for number in range(count):
        cluster.controller.create(f"t{number}", replicas=(1, 2), number=number + 1)
        await cluster.opened(f"t{number}")
    await trio.sleep(1)
    assert sum(named) < 20 * count, "each of them was named about as often as there are partitions"


async def test_a_new_partition_is_fetched_at_once_while_others_wait_for_records(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=2, min_isr=2)
    await cluster.with_topic(replicas=(1, 2))
    await cluster.caught_up()
    await trio.sleep(1)
    for number in range(3):
        name = f"new{number}"
        cluster.controller.create(name, replicas=(1, 2), number=number + 2)
        await cluster.opened(name)
        began = trio.current_time()
        assert (await cluster[1].produced("a", name=name)).error == 0
        assert trio.current_time() - began < 0.1, "it waited for the end of a long poll"
        await trio.sleep(0.1)


async def test_partitions_that_are_new_together_are_fetched_before_the_next_long_poll_ends(
    make_brokers, autojump_clock
):
    cluster = make_brokers(brokers=2, min_isr=2)
    await cluster.with_topic(replicas=(1, 2), partitions=200)
    await cluster.opened(partition_id=199)
    began = trio.current_time()
    for number in (0, 100, 199):
        assert (await cluster[1].produced("a", partition_id=number)).error == 0
    assert trio.current_time() - began < 0.7
