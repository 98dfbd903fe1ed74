"""Fetch sessions (KIP-227): what is remembered, what is answered, and what an idle partition costs."""

import random

import pytest
import trio

from quorate.broker.replication.foundation.requests import FetchItem, FetchOptions, SessionRef
from quorate.broker.replication.serving import partition_fetch, partition_reader
from quorate.broker.replication.serving.fetch_sessions import FetchSessionError, FetchSessions
from quorate.error_code import ErrorCode
from quorate.runtime.entropy import Entropy
from tests.broker.replication.conftest import Answer
from tests.broker.replication.session_client import SessionClient, values_of


def record_looks(monkeypatch, broker):
    """Return the list to which the partitions are added that a leader looks at from now on."""
    looks = []

    def noted(partition, item, **options):
        if partition.broker_id == broker.id:
            looks.append(partition.partition_id)
        return partition_fetch.readable(partition, item, **options)

    monkeypatch.setattr(partition_reader, "readable", noted)
    return looks


async def test_idle_partitions_of_a_follower_cost_its_leader_nothing(
    make_cluster, autojump_clock, monkeypatch
):
    cluster = await make_cluster(2, partitions=50)
    await trio.sleep(3)
    looks = record_looks(monkeypatch, cluster[1])
    for number in range(5):
        await cluster[1].produced(f"{number}", partition_id=7)
        await trio.sleep(1)
    assert set(looks) == {7}
    assert len(looks) < 40
    assert cluster[2].partition(partition_id=7).high_watermark == 5


async def test_a_consumer_is_told_what_has_changed_and_nothing_else(make_cluster, autojump_clock):
    cluster = await make_cluster(1, partitions=3)
    client = SessionClient(cluster[1])
    first = await client.fetch(*(("t", number, 0) for number in range(3)))
    assert list(first) == [("t", 0), ("t", 1), ("t", 2)]
    assert await client.fetch() == {}
    await cluster[1].produced("a", partition_id=1)
    second = await client.fetch()
    assert {key: values_of(each) for key, each in second.items()} == {("t", 1): ["a"]}
    # Not asked for from elsewhere, so it comes again.
    assert list(await client.fetch()) == [("t", 1)]
    assert await client.fetch(("t", 1, 1)) == {}
    assert (await cluster[1].deleted(1, partition_id=1)).low_watermark == 1
    third = await client.fetch()
    assert (third["t", 1].log_start_offset, third["t", 1].records) == (1, ())


async def test_a_waiting_fetch_is_answered_by_the_change_of_any_of_its_partitions(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1, partitions=20)
    client = SessionClient(cluster[1])
    await client.fetch(*(("t", number, 0) for number in range(20)))
    answer = Answer(cluster.nursery, lambda: client.fetch(max_wait_ms=60_000))
    await trio.sleep(5)
    assert answer.result is None
    await cluster[1].produced("late", partition_id=13)
    await trio.sleep(0.1)
    assert list(answer.result) == [("t", 13)]


async def test_a_partition_that_gave_records_lets_the_others_go_first(make_cluster, autojump_clock):
    cluster = await make_cluster(1, partitions=3)
    for number in range(3):
        await cluster[1].produce_each(["x" * 900] * 3, partition_id=number)
    client = SessionClient(cluster[1])
    first = await client.fetch(*(("t", number, 0) for number in range(3)), max_bytes=1000)
    assert [(key[1], bool(each.records)) for key, each in first.items()] == [
        (0, True),
        (1, False),
        (2, False),
    ]
    given = []
    for _ in range(6):
        answer = await client.fetch(max_bytes=1000)
        given += [key[1] for key, each in answer.items() if each.records]
    assert given == [1, 2, 0, 1, 2, 0]


async def test_requests_of_no_session_here_are_refused_in_kafkas_order(make_cluster, autojump_clock):
    cluster = await make_cluster(1, partitions=1)
    client = SessionClient(cluster[1])
    await client.fetch(("t", 0, 0))

    async def refusal(**fields):
        with pytest.raises(FetchSessionError) as refused:
            await client.fetch(**fields)
        return refused.value.code

    assert await refusal(session_id=client.session_id + 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    client.with_ids = True
    assert await refusal(epoch=7) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert await refusal() is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    client.with_ids = False
    assert await client.fetch() == {}


@pytest.mark.parametrize("epoch", [-(2**31), -2, 1, 3, 2**31 - 1])
async def test_an_epoch_that_is_not_the_next_ends_nothing_and_begins_nothing(
    make_cluster, autojump_clock, epoch
):
    """Only 0 and -1 are full requests. Any other epoch has to be the session's next one, here 2."""
    cluster = await make_cluster(1, partitions=1)
    client = SessionClient(cluster[1])
    await client.fetch(("t", 0, 0))
    await client.fetch()
    assert client.epoch == 2
    for session_id, code in (
        (0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (client.session_id ^ 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (client.session_id, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ):
        with pytest.raises(FetchSessionError) as refused:
            await client.fetch(("t", 0, 0), epoch=epoch, session_id=session_id)
        assert refused.value.code is code
    assert len(cluster[1].replicas.sessions) == 1
    await cluster[1].produced("a")
    assert list(await client.fetch()) == [("t", 0)], "its own next request is answered"


async def test_a_request_that_comes_twice_is_answered_once(make_cluster, autojump_clock):
    """The epoch moves on when a request arrives: the one that waits is answered by an error."""
    cluster = await make_cluster(1, partitions=1)
    client = SessionClient(cluster[1])
    await client.fetch(("t", 0, 0))
    outcome = []

    async def waits():
        try:
            outcome.append(await client.fetch(max_wait_ms=10_000))
        except FetchSessionError as error:
            outcome.append(error.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits)
        await trio.sleep(1)
        await client.fetch(epoch=client.epoch)
        await cluster[1].produced("a")
    assert outcome == [ErrorCode.INVALID_FETCH_SESSION_EPOCH]
    assert len(cluster[1].replicas.sessions) == 1, "nothing was read for the one that waited"


async def make_follower(make_cluster):
    """Return a cluster, and a follower of partition 0 by hand, with its session begun."""
    cluster = await make_cluster(2, partitions=2, cut_off=(2,))
    epoch = cluster.controller.image.broker(2).epoch
    client = SessionClient(cluster[1], replica_id=2, replica_epoch=epoch)
    await client.fetch(("t", 0, 0, 0))
    return cluster, client


async def test_a_follower_that_sends_its_next_request_ahead_is_answered_twice(make_cluster, autojump_clock):
    """The one that waits has nothing. What there is, or comes, is in the answer to the other."""
    cluster, client = await make_follower(make_cluster)
    outcome = {}

    async def ask(name, *items):
        outcome[name] = (await client.fetch(*items, max_wait_ms=10_000), trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "first")
        await trio.sleep(1)
        began = trio.current_time()
        nursery.start_soon(ask, "ahead", ("t", 1, 0, 0))
        await trio.sleep(1)
        assert list(outcome) == ["first"]
        cluster[1].produce("a", acks=1)
        cluster[1].produce("b", acks=1, partition_id=1)
    assert outcome["first"][0] == {}
    assert outcome["first"][1] - began < 0.01
    found = {key: values_of(each) for key, each in outcome["ahead"][0].items()}
    assert found["t", 0] == ["a"]


async def test_a_followers_session_is_there_at_once(make_cluster, autojump_clock):
    """It can't send a request ahead before it has one."""
    _, client = await make_follower(make_cluster)
    client.epoch = 0
    began = trio.current_time()
    assert list(await client.fetch(("t", 0, 0, 0), max_wait_ms=10_000)) == [("t", 0)]
    assert trio.current_time() - began < 0.1


async def test_a_follower_in_another_leader_epoch_is_told_anew(make_cluster, autojump_clock):
    """It takes nothing that it asked for before, so that the high watermark may not have reached it."""
    cluster, client = await make_follower(make_cluster)
    await cluster.lead(1)
    assert (await client.fetch(("t", 0, 0, 0)))["t", 0].error is ErrorCode.FENCED_LEADER_EPOCH
    assert list(await client.fetch(("t", 0, 0, 1))) == [("t", 0)]
    assert await client.fetch(("t", 0, 0, 1)) == {}
    await cluster.lead(1)
    assert list(await client.fetch(("t", 0, 0, 2))) == [("t", 0)]


async def test_a_session_without_partitions_ends(make_cluster, autojump_clock):
    cluster = await make_cluster(1, partitions=2)
    client = SessionClient(cluster[1])
    await client.fetch(("t", 0, 0), ("t", 1, 0))
    sessions = cluster[1].replicas.sessions
    assert (len(sessions), sessions.partitions) == (1, 2)
    await client.fetch(forget=[("t", 0), ("unknown", 9)])
    assert (len(sessions), sessions.partitions) == (1, 1)
    await cluster[1].produced("a", partition_id=0)
    assert await client.fetch() == {}
    await client.fetch(forget=[("t", 1)])
    assert (len(sessions), sessions.partitions) == (0, 0)


async def test_a_partition_that_a_session_let_go_of_is_not_observed_any_more(make_cluster, autojump_clock):
    cluster = await make_cluster(1, partitions=1)
    client = SessionClient(cluster[1])
    for _ in range(3):
        client.epoch = 0
        await client.fetch(("t", 0, 0))
    await trio.sleep(1)
    watchers = cluster[1].partition().watchers
    assert len(watchers._observing_consumers) == 1


@pytest.mark.bug("KAFKA-13111")
async def test_a_topic_that_is_made_again_is_not_taken_for_the_one_before(make_cluster, autojump_clock):
    cluster = await make_cluster(1, partitions=1)
    client = SessionClient(cluster[1])
    await cluster[1].produced("old")
    await client.fetch(("t", 0, 1))
    cluster.controller.delete()
    await trio.sleep(1)
    assert (await client.fetch())["t", 0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.controller.create(replicas=(1,), number=2)
    await cluster.opened()
    assert (await client.fetch())["t", 0].error is ErrorCode.OFFSET_OUT_OF_RANGE
    await cluster[1].produced("new")
    assert values_of((await client.fetch(("t", 0, 0)))["t", 0]) == ["new"]


async def test_a_change_during_a_read_is_not_lost(make_cluster, autojump_clock, monkeypatch):
    cluster = await make_cluster(1, partitions=1)
    held = cluster[1].partition()
    client = SessionClient(cluster[1])
    read = held.log.read

    async def slow(*where, **limits):
        found = await read(*where, **limits)
        if not held.log.end_offset:
            cluster[1].produce("meanwhile")
        return found

    monkeypatch.setattr(held.log, "read", slow)
    assert not (await client.fetch(("t", 0, 0)))["t", 0].records
    assert values_of((await client.fetch())["t", 0]) == ["meanwhile"]


async def test_the_first_answer_after_an_error_is_news(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    client = SessionClient(cluster[1])
    await client.fetch(("t", 0, 0))
    assert await client.fetch() == {}
    await cluster.lead(2)
    assert (await client.fetch())["t", 0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await cluster.lead(1)
    again = await client.fetch()
    assert [(key, each.error, each.high_watermark) for key, each in again.items()] == [(("t", 0), 0, 0)]
    assert await client.fetch() == {}


@pytest.mark.bug("platformatic/kafka PR 321")
@pytest.mark.bug("KAFKA-13079")
async def test_a_follower_takes_what_it_no_longer_follows_out_of_its_session(make_cluster, autojump_clock):
    cluster = await make_cluster(2, partitions=2)
    sessions = cluster[1].replicas.sessions
    await cluster.until(lambda: sessions.partitions == 2)
    cluster.controller.elect(2)
    await cluster.until(lambda: sessions.partitions == 1)
    await cluster.until(lambda: cluster[2].replicas.sessions.partitions == 1)


# The ISR, where a follower's fetches say nothing of an idle partition


@pytest.mark.parametrize("idle_s", [0.2, 20.0])
async def test_an_idle_follower_has_the_whole_lag_time_from_its_last_fetch(
    make_cluster, autojump_clock, idle_s
):
    cluster = await make_cluster(2, replica_lag_time_max_ms=2000)
    await cluster[1].produced("a")
    await cluster.caught_up()
    await trio.sleep(idle_s)
    cluster.cut_off(2)
    await trio.sleep(0.1)
    cluster[1].produce("b", acks=1)
    await trio.sleep(1.3)
    assert cluster.controller.state().isr == (1, 2)
    await trio.sleep(2.5)
    assert cluster.controller.state().isr == (1,)


async def test_an_idle_follower_joins_the_isr_once_it_may(make_cluster, autojump_clock):
    """It is fenced when it comes back, and nothing is written afterwards that it would have to fetch."""
    cluster = await make_cluster(2)
    await cluster[1].produced("a")
    await cluster.caught_up()
    cluster.controller.fence(2)
    await cluster.in_sync(1)
    await trio.sleep(5)
    assert cluster.controller.state().isr == (1,)
    cluster.controller.unfence(2)
    await cluster.in_sync(1, 2)


async def test_a_follower_goes_on_when_its_leader_has_dropped_the_session(make_cluster, autojump_clock):
    cluster = await make_cluster(2, partitions=3)
    await trio.sleep(2)
    sessions = cluster[1].replicas.sessions
    assert (len(sessions), sessions.partitions) == (1, 3)
    for session in list(sessions._by_id.values()):
        sessions.close(session)
    for number in range(3):
        await cluster[1].produced("a", partition_id=number)
    await cluster.until(lambda: all(cluster[2].partition(partition_id=n).log.end_offset for n in range(3)))
    assert len(sessions) == 1


async def test_a_leader_without_room_for_sessions_is_fetched_from_as_ever(make_cluster, autojump_clock):
    cluster = await make_cluster(2, partitions=3, min_isr=2, max_incremental_fetch_session_cache_slots=0)
    for number in range(3):
        assert not (await cluster[1].produced("a", partition_id=number)).error
    assert len(cluster[1].replicas.sessions) == 0


async def test_the_log_start_that_retention_raised_at_a_follower_reaches_its_leader(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(2, log_retention_check_interval_ms=1000)
    cluster.controller.configure(segment_bytes=200, index_interval_bytes=100)
    await trio.sleep(0.1)
    await cluster[1].produce_each(["x" * 150] * 10)
    await cluster.caught_up()
    cluster.controller.configure(retention_bytes=400)
    await trio.sleep(5)
    remote = cluster[1].partition().leading.remotes[2]
    start = cluster[2].partition().log.durable_log_start_offset
    assert start > 0
    assert remote.log_start_offset == start


# The cache


def sessions_of(slots):
    return FetchSessions(Entropy(random.Random(1)), slots=slots)


def begin(sessions, size, *, follower=-1):
    options = FetchOptions(
        items=[FetchItem("t", number, 0, 1) for number in range(size)], max_wait_ms=0, replica_id=follower
    )
    session = sessions.enter(SessionRef(session_id=0, epoch=0, with_ids=False), options)
    if session is not None:
        for item in options.items:
            session.name(item)
        sessions.resized(session)
    return session


@pytest.mark.bug("KAFKA-9137")
async def test_a_full_cache_makes_room_as_kafkas_does(autojump_clock):
    sessions = sessions_of(2)
    small, large = begin(sessions, 1), begin(sessions, 10)
    assert begin(sessions, 50) is None, "young sessions of consumers stay"
    follower = begin(sessions, 1, follower=2)
    assert follower is not None
    assert small.epoch == -1, "a follower's session takes the place of the smallest consumer's"
    await trio.sleep(100)
    # Used again, and so not idle for two minutes.
    sessions.enter(
        SessionRef(session_id=large.session_id, epoch=1, with_ids=False),
        FetchOptions(items=[], max_wait_ms=0),
    )
    await trio.sleep(30)
    assert begin(sessions, 5) is not None, "one that nobody has used for two minutes makes room"
    assert (follower.epoch, large.epoch) == (-1, 2)
    assert begin(sessions, 10) is None, "one of the same size stays"
    assert begin(sessions, 11) is not None, "a larger one takes the place of a smaller one"
    assert large.epoch == -1
    assert sessions.evictions == 3


async def test_a_follower_has_one_session(autojump_clock):
    """One that registers again does not know what its leader keeps for its broker epoch before."""
    sessions = sessions_of(10)
    begin(sessions, 3, follower=3)
    first = begin(sessions, 2, follower=2)
    assert begin(sessions, 2, follower=2) is not None
    assert (len(sessions), sessions.partitions, first.epoch) == (2, 5, -1)


async def test_a_partition_that_an_overtaken_request_named_is_not_counted_wrongly(autojump_clock):
    sessions = sessions_of(10)
    session = begin(sessions, 2)
    session.name(FetchItem("t", 7, 0, 1))
    sessions.close(session)
    assert sessions.partitions == 0


@pytest.mark.slow
@pytest.mark.bug("KAFKA-9137")
async def test_ten_thousand_sessions_of_one_client_are_bounded(autojump_clock):
    """While they are young the first ones stay. Later each new one takes the place of the one that was used
    least recently."""
    sessions = sessions_of(1000)
    begun = [begin(sessions, 1) for _ in range(10_000)]
    assert len(sessions) == sessions.partitions == 1000
    assert sessions.evictions == 0
    assert begun[1000:] == [None] * 9000, "they are answered as without a session"
    await trio.sleep(121)
    kept = begun[0]
    sessions.enter(
        SessionRef(session_id=kept.session_id, epoch=1, with_ids=False), FetchOptions(items=[], max_wait_ms=0)
    )
    begun = [begin(sessions, 1) for _ in range(10_000)]
    assert len(sessions) == sessions.partitions == 1000
    assert sessions.evictions == 999
    assert kept.epoch == 2, "the one that is in use stays"
    assert sum(each is not None for each in begun) == 999


# What a session must never do


@pytest.mark.parametrize("seed", range(12))
async def test_a_session_never_hides_a_change(make_cluster, autojump_clock, seed):
    """Two clients in sessions fetch drawn partitions, in answers of drawn sizes, among writes and new leader
    epochs. In the end they have read all records, and were told the last state of each partition."""
    cluster = await make_cluster(1, partitions=5)
    draw = random.Random(seed)
    written = {number: [] for number in range(5)}
    clients = [SessionClient(cluster[1]) for _ in range(2)]

    async def step(client, *, everything=False):
        items = []
        for number in range(5):
            if everything or draw.random() < 0.7:
                items.append(("t", number, client.position(number)))
        wait = draw.choice((0, 0, 500))
        await client.fetch(*items, max_wait_ms=wait, max_bytes=draw.choice((1, 200, 1 << 20)))

    async def write():
        for _ in range(60):
            await trio.sleep(draw.uniform(0, 0.2))
            number = draw.randrange(5)
            what = draw.random()
            if what < 0.8:
                written[number].append(f"{len(written[number])}")
                await cluster[1].produced(written[number][-1], partition_id=number)
            else:
                state = cluster.controller.state(partition_id=number)
                cluster.controller.change(partition_id=number, leader=1, isr=state.isr)

    async def read(client):
        while not over.is_set():
            await trio.sleep(draw.uniform(0, 0.2))
            await step(client)

    over = trio.Event()
    for client in clients:
        await step(client, everything=True)
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(read, client)
        await write()
        over.set()
    for client in clients:
        for _ in range(20):
            await step(client)
            await client.fetch(*(("t", number, client.position(number)) for number in range(5)))
        for number in range(5):
            assert list(client.values["t", number].values()) == written[number]
            held = cluster[1].partition(partition_id=number)
            assert client.known["t", number] == (held.high_watermark, held.log.log_start_offset)
