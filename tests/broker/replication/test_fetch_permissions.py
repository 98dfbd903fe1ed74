"""What a consumer may no longer read: not in its session, not after a wait, and not by a repeated frame."""

import dataclasses
from types import SimpleNamespace

import pytest
import trio
from api_broker import broker_of, context

from quorate.broker.access.authorizer import Sender
from quorate.broker.apis.fetch import handle_fetch
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    decode_fetch_response_steps,
)
from quorate.broker.wire.exchanges import Deferred
from quorate.broker.wire.request_codec import encode_response
from quorate.error_code import ErrorCode
from quorate.runtime import at_once

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Grants:
    """An authorizer of one permission, which is taken and given back."""

    def __init__(self):
        self.version = 0
        self.holds = True
        self.asked = 0

    def allows(self, *asked, **_):
        self.asked += 1
        return self.holds

    def sender(self, who, host):
        return Sender(self, who, host)

    def change(self, holds):
        self.holds = holds
        self.version += 1


class Consumer:
    """One connection of a consumer of `t`, with ids (version 13) or names."""

    def __init__(self, cluster, *, with_ids=False):
        image = cluster.controller.image
        self.grants = Grants()
        self.broker = broker_of(
            replicas=cluster[1].replicas, metadata=MetadataCache(image), authorizer=self.grants
        )
        self.version = 13 if with_ids else 12
        self.topic = (None, image.topic("t").topic_id) if with_ids else ("t", None)
        self.context = context(ApiKey.FETCH, self.version)

    def request(self, *offsets, **values):
        """Fetch the first partitions, one for each offset."""
        parts = [
            FetchPartition(index, fetch_offset=at, max_bytes=1 << 20) for index, at in enumerate(offsets)
        ]
        return KafkaFetchRequest(
            **{"version": self.version, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
            | {"topics": [FetchTopic(*self.topic, tuple(parts))] if parts else []}
            | values
        )

    async def begin(self, request, *, repeated=False):
        return await handle_fetch(self.broker, dataclasses.replace(self.context, repeated=repeated), request)

    async def fetch(self, *offsets, **values):
        answer = await self.begin(self.request(*offsets, **values))
        return await self.answered(answer)

    async def answered(self, answer):
        if isinstance(answer, Deferred):
            done = trio.Event()
            answer.notify(done.set)
            await done.wait()
            answer = await answer.result()
        return at_once(
            decode_fetch_response_steps(memoryview(b"".join(encode_response(answer))), self.version)
        )


def told(response):
    """(error, whether there are records) of each partition."""
    return [
        (ErrorCode(int(part.error)), any(map(len, part.records)))
        for topic in response.topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("with_ids", [False, True])
async def test_a_partition_of_a_session_that_is_taken_is_an_error_at_once_and_comes_back(
    make_cluster, autojump_clock, with_ids
):
    cluster = await make_cluster(1, partitions=2)
    await cluster[1].produced("a")
    consumer = Consumer(cluster, with_ids=with_ids)
    first = await consumer.fetch(0, 0, session_epoch=0)
    assert told(first) == [(ErrorCode.NONE, True), (ErrorCode.NONE, False)]
    in_session = {"session_id": first.session_id}
    consumer.grants.change(holds=False)
    # Also the partition that has nothing new.
    for epoch in (1, 2):
        refused = await consumer.fetch(session_epoch=epoch, **in_session)
        assert told(refused) == [(DENIED, False)] * 2
    consumer.grants.change(holds=True)
    again = await consumer.fetch(session_epoch=3, **in_session)
    assert sorted(told(again)) == [(ErrorCode.NONE, False), (ErrorCode.NONE, True)]


@pytest.mark.bug("GHSA-7qmq-8cc4-hxwg")
@pytest.mark.parametrize("in_session", [False, True])
async def test_a_fetch_that_waits_gives_nothing_that_was_taken_meanwhile(
    make_cluster, autojump_clock, in_session
):
    cluster = await make_cluster(1)
    consumer = Consumer(cluster)
    values = {}
    if in_session:
        first = await consumer.fetch(0, session_epoch=0)
        values = {"session_id": first.session_id, "session_epoch": 1}
    waits = await consumer.begin(consumer.request(0, max_wait_ms=60_000, **values))
    assert isinstance(waits, Deferred) and not waits.done
    consumer.grants.change(holds=False)
    await cluster[1].produced("secret")
    await trio.sleep(1)
    assert waits.done
    assert told(await consumer.answered(waits)) == [(DENIED, False)]


@pytest.mark.bug("GHSA-7qmq-8cc4-hxwg")
async def test_a_repeated_fetch_is_not_answered_as_before_once_it_was_taken(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    consumer = Consumer(cluster)
    request = consumer.request(0, max_wait_ms=1000)

    async def again():
        return told(await consumer.answered(await consumer.begin(request, repeated=True)))

    for _ in range(3):
        assert await again() == [(ErrorCode.NONE, False)]
    asked = consumer.grants.asked
    assert await again() == [(ErrorCode.NONE, False)]
    assert consumer.grants.asked == asked, "what holds is remembered"
    consumer.grants.change(holds=False)
    assert await again() == [(DENIED, False)]
    waits_since = trio.current_time()
    assert await again() == [(DENIED, False)]
    assert trio.current_time() == waits_since
    consumer.grants.change(holds=True)
    waits = await consumer.begin(request, repeated=True)
    consumer.grants.change(holds=False)
    assert told(await consumer.answered(waits)) == [(DENIED, False)], "the answer from before the wait"


async def test_a_topic_id_that_nobody_has_is_said_to_be_unknown(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    consumer = Consumer(cluster, with_ids=True)
    consumer.grants.change(holds=False)
    consumer.topic = (None, consumer.topic[1].__class__(int=99))
    assert told(await consumer.fetch(0)) == [(ErrorCode.UNKNOWN_TOPIC_ID, False)]


@pytest.mark.parametrize("values", [{}, {"max_wait_ms": 1000}])
async def test_the_metadata_log_is_read_by_those_only_who_may_read_it(make_cluster, autojump_clock, values):
    async def read(part, *, max_bytes):
        return FetchedPartition(index=part.partition, records=[b"secret"])

    async def never(offset):
        await trio.sleep_forever()

    consumer = Consumer(await make_cluster(1))
    consumer.topic = ("__cluster_metadata", None)
    consumer.grants.change(holds=False)
    async with trio.open_nursery() as tasks:
        consumer.broker = dataclasses.replace(
            consumer.broker,
            tasks=tasks,
            throttles=SimpleNamespace(counts=False),
            cluster_metadata=SimpleNamespace(read=read, wait_beyond=never),
        )
        assert told(await consumer.fetch(0, **values)) == [(DENIED, False)]
        consumer.grants.change(holds=True)
        assert told(await consumer.fetch(0)) == [(ErrorCode.NONE, True)]


async def test_a_follower_without_its_right_reads_nothing(make_cluster, autojump_clock):
    """The dispatcher refuses its next request; this is for one that waits."""
    cluster = await make_cluster(1)
    await cluster[1].produced("a")
    consumer = Consumer(cluster)
    consumer.grants.change(holds=False)
    assert told(await consumer.fetch(0, replica_id=2)) == [(DENIED, False)]
