"""A broker that comes to follow very many partitions: each of them soon, and all at a cost that grows with
their number, not with its square."""

import pytest
import trio

from quorate.broker.replication.following.fetcher import LeaderFetcher
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.serving.partition_reader import PartitionReader
from quorate.broker.wire.codecs.fetch_codec import FetchedPartition, FetchedTopic, KafkaFetchResponse
from quorate.log.batches.batch import read_batches


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("apart_s", [0.0, 0.02])
async def test_partitions_that_are_new_one_after_the_other_keep_the_session(
    make_brokers, monkeypatch, autojump_clock, apart_s
):
    """A partition is named again if its leader didn't know of it yet, and looked at again until it is in an
    answer."""
    named, looks = [], []
    request, read = LeaderFetcher._request, PartitionReader.read

    async def counted(self, version):
        made = await request(self, version)
        named.append(sum(len(topic.partitions) for topic in made[0].topics))
        return made

    def looked(self, item, *args, **kwargs):
        looks.append(item)
        return read(self, item, *args, **kwargs)

    monkeypatch.setattr(LeaderFetcher, "_request", counted)
    monkeypatch.setattr(PartitionReader, "read", looked)
    cluster = make_brokers(brokers=2, min_isr=1)
    await cluster.start()
    count = 150
    for number in range(count):
        cluster.controller.create(f"t{number}", replicas=(1, 2), number=number + 1)
        await cluster.opened(f"t{number}")
        await trio.sleep(apart_s)
    await trio.sleep(1)
    assert count <= sum(named) < 2 * count
    assert len(looks) < 15 * count
    assert len(cluster[1].replicas.sessions) == 1
    assert cluster[2].replicas.stats.fetch_errors == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slow", "answers_errors", "waits_s"),
    [(1, False, 0.5), (1, True, 1.5), (2, False, 0.5)],
    ids=["leader", "leader that answers errors", "follower"],
)
async def test_requests_of_a_follower_come_at_a_pace_while_hundreds_of_partitions_are_opened(
    make_brokers, monkeypatch, autojump_clock, slow, answers_errors, waits_s
):
    """Each opened partition, and each end of a pause after an error, asks for a request."""
    asked, tried_again = [], []
    if answers_errors:
        monkeypatch.setattr(HostedReplicas, "opening", lambda *asked: None)
    request = LeaderFetcher._request

    async def counted(self, version):
        asked.append(trio.current_time())
        over = {each for each in self._paused if each.not_before <= asked[-1]} - set(self._due)
        early = self._session.incremental and asked[-1] < self._polls.pace.next_at
        made = await request(self, version)
        if over - set(self._paused):
            tried_again.append(early)
        return made

    monkeypatch.setattr(LeaderFetcher, "_request", counted)
    cluster = make_brokers(brokers=2, min_isr=2)
    await cluster.start()
    opening = cluster[slow].manager._parts.roles.hosting._opening
    opened = opening.open

    async def later(*args):
        await trio.sleep(0.1)
        return await opened(*args)

    monkeypatch.setattr(opening, "open", later)
    began = trio.current_time()
    cluster.controller.create(replicas=(1, 2), partitions=400)
    await cluster.opened(partition_id=399)
    took_s = trio.current_time() - began
    assert took_s > 4, "eight at once, 0.1 s each"
    assert len(asked) < 40 * took_s, f"{len(asked)} requests in {took_s:.1f} s"
    assert len(tried_again) > 10 or not answers_errors
    assert not any(tried_again), "pauses that end within the pace are one request's"
    began = trio.current_time()
    assert (await cluster[1].produced("a", partition_id=399)).error == 0
    assert trio.current_time() - began < waits_s


async def test_a_new_partition_is_fetched_at_once_while_others_wait_for_records(make_cluster, autojump_clock):
    cluster = await make_cluster(2, min_isr=2)
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


async def test_a_leader_that_no_longer_answers_is_left_once_a_new_partition_has_come(
    make_cluster, autojump_clock
):
    """Where it can be heard again over another connection, the time-out of this one is not waited for."""
    cluster = await make_cluster(2, replica_socket_timeout_ms=1000000)
    await cluster.caught_up()
    await trio.sleep(1)
    cluster.cut_off(1)
    cluster.controller.create("new", replicas=(1, 2), number=2)
    await trio.sleep(2)
    assert cluster[2].replicas.stats.fetch_errors > 0
    cluster.heal()
    await cluster.opened("new")
    began = trio.current_time()
    assert not (await cluster[1].produced("a", name="new")).error
    await cluster.until(lambda: cluster[2].partition("new").log.end_offset == 1)
    assert trio.current_time() - began < 5


async def test_an_answer_to_a_request_before_is_not_taken_for_one_to_the_request_that_named_it_anew(
    make_cluster, autojump_clock
):
    """A request was sent ahead, so both are under way: the first may be of an earlier leader epoch."""
    cluster = await make_cluster(2)
    await trio.sleep(1)
    cluster.cut_off(2)
    cluster[1].produce("a", acks=1)
    records = await cluster[1].log_bytes()
    assert next(iter(read_batches(records))).header.base_offset == 0
    part = FetchedPartition(index=0, high_watermark=0, log_start_offset=0, records=[records])
    answer = KafkaFetchResponse(
        version=15, topics=[FetchedTopic(None, cluster.controller.topic_id("t"), [part])]
    )
    followed = cluster[2].partition()
    fetcher = cluster[2].manager._parts.roles.hosting._fetchers._fetchers[1]
    named_in = fetcher._requests + 1
    fetcher._followed[followed].asked_in = named_in
    await fetcher._take(answer, named_in - 1)
    assert followed.log.end_offset == 0
    await fetcher._take(answer, named_in)
    assert followed.log.end_offset == 1


@pytest.mark.slow
async def test_partitions_that_are_new_together_are_fetched_before_the_next_long_poll_ends(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(2, partitions=200, min_isr=2)
    began = trio.current_time()
    for number in (0, 100, 199):
        assert (await cluster[1].produced("a", partition_id=number)).error == 0
    assert trio.current_time() - began < 0.1
