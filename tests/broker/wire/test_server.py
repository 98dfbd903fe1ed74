"""The server and our client, against each other over the simulated network, in virtual time."""

import contextlib
import random

import pytest
import trio
from captured_logs import captured_logs
from kio.schema.errors import ErrorCode
from kio_messages import of_versions
from served_wire import HOME, Handler, client, frame, heartbeat_ok, read_until_closed, serving

from quorate.broker.apis.api_table import ROWS
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import (
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    KafkaFetchResponse,
    encode_fetch_response,
)
from quorate.broker.wire.codecs.produce_codec import (
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    encode_produce_request,
    encode_produce_steps,
)
from quorate.broker.wire.exchanges import CloseConnection, Deferred, EncodedResponse, Refusal
from quorate.broker.wire.request_codec import decode_request
from quorate.broker.wire.wire_errors import (
    ErrorTable,
    KafkaError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from quorate.runtime import at_once
from quorate.runtime.network import NetworkError
from quorate.simulation.world.simulated_network import NetworkSettings, SimulatedNetwork


def produced(context, request, error=ErrorCode.none):
    topics = [
        ProducedTopic(
            topic.name,
            [
                ProducedPartition(index=part.index, error=error, base_offset=len(part.records or b""))
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return EncodedResponse(at_once(encode_produce_steps(topics, version=context.version)))


def produce_request(records=b"r" * 10, acks=-1):
    return ProduceRequest(
        version=9,
        acks=acks,
        timeout_ms=1000,
        topics=[ProduceTopic("t", [ProducePartition(0, memoryview(records))])],
    )


async def test_a_client_learns_versions_and_calls(autojump_clock):
    handler = Handler(heartbeat=heartbeat_ok)
    async with serving(handler) as (net, _), client(net, client_id="me") as connection:
        assert connection.versions[ApiKey.PRODUCE] == (0, 11)
        assert connection.version(ApiKey.HEARTBEAT) == 4
        answer = await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        assert answer.error_code is ErrorCode.none
        ((_, context, request),) = handler.seen
        assert (context.client_id, context.version, request.group_id) == ("me", 4, "g")
        assert context.connection.peer.startswith("client:")


async def test_a_version_of_api_versions_that_is_too_new_is_answered_in_version_0(autojump_clock):
    async with serving(Handler()) as (net, _):
        stream = await net.for_node("client").connect(HOME)
        await stream.send([frame(18, 99, 7, b"\x01\x02\x03")])
        size = int.from_bytes(await receive_exactly(stream, 4), "big")
        answer = await receive_exactly(stream, size)
        assert answer[:6] == b"\0\0\0\x07" + ErrorCode.unsupported_version.to_bytes(2, "big")
        count = int.from_bytes(answer[6:10], "big")
        assert len(answer) == 10 + 6 * count
        ranges = [answer[10 + 6 * i : 16 + 6 * i] for i in range(count)]
        assert b"\0\0\0\0\0\x0b" in ranges


async def receive_exactly(stream, size):
    data = b""
    while len(data) < size:
        piece = await stream.receive_some(size - len(data))
        assert piece
        data += piece
    return data


async def read_responses(stream, count):
    """Correlation id and body of the next responses on a raw stream."""
    out = []
    for _ in range(count):
        answer = await receive_exactly(stream, int.from_bytes(await receive_exactly(stream, 4), "big"))
        out.append((int.from_bytes(answer[:4], "big"), answer[4:]))
    return out


async def test_responses_keep_request_order_while_answers_come_out_of_order(autojump_clock):
    deferred = []

    def later(context, request):
        deferred.append(Deferred())
        return deferred[-1]

    async def build_late():
        await trio.sleep(0.5)
        return EncodedResponse([b"first"])

    async with serving(Handler(produce=later, heartbeat=heartbeat_ok)) as (net, _):
        stream = await net.for_node("client").connect(HOME)
        body = b"".join(encode_produce_request(produce_request()))
        beat = frame(12, 0, 4, b"\0\1g\0\0\0\1\0\1m")
        await stream.send([frame(0, 9, 1, body), frame(0, 9, 2, body), frame(0, 9, 3, body), beat])
        await trio.sleep(1)
        assert len(deferred) == 3
        deferred[2].complete(EncodedResponse([b"third"]))
        deferred[1].complete(EncodedResponse([b"second"]))
        with trio.move_on_after(1) as waited:
            await stream.receive_some()
        assert waited.cancelled_caught
        deferred[0].complete_with(build_late)
        assert await read_responses(stream, 4) == [
            (1, b"\0first"),
            (2, b"\0second"),
            (3, b"\0third"),
            (4, b"\0\0"),
        ]


async def test_a_ready_answer_does_not_wait_for_a_handler_that_parks(autojump_clock):
    async def slow(context, request):
        await trio.sleep(5 if request.group_id == "s" else 0)
        return heartbeat_ok(context, request)

    async with serving(Handler(heartbeat=slow)) as (net, _):
        stream = await net.for_node("client").connect(HOME)
        beats = [frame(12, 0, 1, b"\0\1q\0\0\0\1\0\1m"), frame(12, 0, 2, b"\0\1s\0\0\0\1\0\1m")]
        started = trio.current_time()
        await stream.send([b"".join(beats)])
        assert await read_responses(stream, 1) == [(1, b"\0\0")]
        assert trio.current_time() - started < 1
        assert await read_responses(stream, 1) == [(2, b"\0\0")]


async def test_deferred_answers_are_abandoned_when_the_client_leaves(autojump_clock):
    gone = []
    deferred = Deferred(on_abandon=lambda: gone.append(trio.current_time()))
    async with serving(Handler(produce=lambda context, request: deferred)) as (net, server):
        async with client(net) as connection:
            with pytest.raises(RequestTimedOutError, match="PRODUCE"):
                await connection.produce(produce_request(), timeout_s=0.1)
            assert gone == []
        await trio.sleep(1)
        assert len(gone) == 1
        assert deferred.abandoned
        deferred.complete(EncodedResponse([b"x"]))
        assert server.statistics().connections == 0


async def test_a_produce_with_acks_0_gets_no_answer(autojump_clock):
    handler = Handler(produce=lambda context, request: None, heartbeat=heartbeat_ok)
    async with serving(handler) as (net, _), client(net) as connection:
        assert await connection.produce(produce_request(acks=0)) == ()
        await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        assert [name for name, _, _ in handler.seen] == ["produce", "heartbeat"]


@pytest.mark.parametrize("how", ["asked", "raised"])
async def test_a_produce_with_acks_0_that_fails_closes_its_connection(how, autojump_clock):
    """There is no answer that could say so, and the client would go on for ever (as Kafka)."""

    def refuse(context, request):
        if how == "raised":
            raise KafkaError(ErrorCode.invalid_request, "not so")
        return CloseConnection("an append failed: not so")

    handler = Handler(produce=refuse, heartbeat=heartbeat_ok)
    async with serving(handler) as (net, server):
        with captured_logs() as lines:
            async with client(net) as connection:
                assert await connection.produce(produce_request(acks=0)) == ()
                with pytest.raises(NetworkError):
                    await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        assert [name for name, _, _ in handler.seen] == ["produce"]
        assert server.statistics().connections == 0
        closed = [line for line in lines if line["event"] == "connection closed"]
        assert len(closed) == 1 and "not so" in closed[0]["reason"]


async def test_large_records_pass_through_both_ways(autojump_clock):
    records = random.Random(3).randbytes(3_000_000)
    kept = []

    def keep(context, request):
        kept.append(request.topics[0].partitions[0].records)
        return produced(context, request)

    def fetched(context, request):
        part = FetchedPartition(index=0, high_watermark=5, records=[kept[0][:100], kept[0][100:]])
        response = KafkaFetchResponse(version=context.version, topics=[FetchedTopic("t", None, [part])])
        return EncodedResponse(encode_fetch_response(response))

    async with serving(Handler(produce=keep, fetch=fetched)) as (net, server), client(net) as connection:
        (topic,) = await connection.produce(produce_request(records))
        assert topic.partitions[0].base_offset == len(records)
        request = KafkaFetchRequest(
            version=12,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=2**31 - 1,
            topics=[FetchTopic("t", None, [FetchPartition(0, max_bytes=2**31 - 1)])],
        )
        answer = await connection.fetch(request)
        (part,) = answer.topics[0].partitions
        assert part.high_watermark == 5
        assert b"".join(part.records) == records
        assert server.statistics().request_bytes_held == 0
        assert server.statistics().response_bytes_held == 0


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KafkaError(ErrorCode.not_controller, "ask node 3"), ErrorCode.not_controller, "ask node 3"),
        (LookupError("told by the table"), ErrorCode.unknown_topic_or_partition, "told by the table"),
        (KeyError("a kind of LookupError"), ErrorCode.unknown_topic_or_partition, "'a kind of LookupError'"),
        (ZeroDivisionError("secret"), ErrorCode.unknown_server_error, None),
    ],
)
@pytest.mark.parametrize("deferred", [False, True])
async def test_an_exception_becomes_the_answer_of_the_api(autojump_clock, error, code, message, deferred):
    def fail(context, request):
        if not deferred:
            raise error
        answer = Deferred()
        answer.fail(error)
        return answer

    handler = Handler(create_topics=fail)
    errors = ErrorTable({LookupError: ErrorCode.unknown_topic_or_partition})
    async with serving(handler, errors=errors) as (net, _), client(net) as connection:
        answer = await connection.call(ApiKey.CREATE_TOPICS, topics=[{"name": "a"}, {"name": "b"}])
        assert [(topic.name, topic.error_code, topic.error_message) for topic in answer.topics] == [
            ("a", code, message),
            ("b", code, message),
        ]


@pytest.mark.parametrize(
    ("garbage", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00", "TLS"),
        (b"\x7f\xff\xff\xff", "socket.request.max.bytes"),
        (b"\0\0\0\x03abc", "too short"),
        (frame(999, 0, 1, b""), "unknown API key 999"),
        (frame(12, 77, 1, b""), "HEARTBEAT version 77 is not served"),
        (frame(12, 4, 1, b"\x02g"), "cut off"),
        (frame(12, 0, 1, b"\0\x01g\0\0\0\1\0\1m" + b"rest"), "before the end"),
        (frame(3, 9, 1, b"\xff\xff\xff\xff\x0f" + bytes(20)), "varint"),
        (frame(3, 4, 1, b"\x7f\xff\xff\xff" + bytes(20)), "array of 2147483647"),
        (frame(0, 9, 1, b"\xff\xff\xff\xff\x07"), "bytes at"),
        (frame(0, 1, 1, b"\0\0" + bytes(8)), "PRODUCE version 1"),
    ],
)
async def test_a_malformed_frame_closes_its_own_connection_with_one_line(autojump_clock, garbage, why):
    handler = Handler(heartbeat=heartbeat_ok)
    with captured_logs() as lines:
        async with serving(handler) as (net, _), client(net, "good") as good:
            bad = await net.for_node("bad").connect(HOME)
            await bad.send([garbage])
            assert await read_until_closed(bad) == b""
            await good.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
    (line,) = [line for line in lines if line["log_level"] != "debug"]
    assert line["event"] == "connection closed"
    assert line["peer"].startswith("bad:")
    assert why in line["reason"]


@pytest.mark.slow
async def test_random_bytes_affect_only_their_own_connection(autojump_clock):
    draw = random.Random(5)
    async with serving(Handler(heartbeat=heartbeat_ok)) as (net, server), client(net, "good") as good:
        for round_ in range(200):
            stream = await net.for_node("bad").connect(HOME)
            body = draw.randbytes(draw.randrange(60))
            key = draw.choice(sorted(APIS))
            version = draw.randint(0, APIS[key].max_version)
            raw = draw.randbytes(draw.randrange(100)) if round_ % 4 == 0 else frame(key, version, 1, body)
            try:
                await stream.send([raw])
                with trio.move_on_after(0.1):
                    await read_until_closed(stream)
            except NetworkError:
                pass
            stream.close()
        await good.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        await trio.sleep(1)
        assert server.statistics().connections == 1
        assert server.statistics().request_bytes_held == 0


async def test_produce_versions_that_librdkafka_needs_to_see_are_refused_in_kind(autojump_clock):
    body = b"\xff\xff" + bytes(4) + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(3) + b"\x05" + b"\0\0\0\2xx"
    async with serving(Handler()) as (net, _):
        stream = await net.for_node("old").connect(HOME)
        await stream.send([frame(0, 1, 5, body)])
        size = int.from_bytes(await receive_exactly(stream, 4), "big")
        answer = await receive_exactly(stream, size)
        expected = b"\0\0\0\5" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\5" + b"\0\x23" + b"\xff" * 8
        assert answer == expected + bytes(4)


async def test_a_client_that_does_not_read_is_not_read_from(autojump_clock):
    handler = Handler(heartbeat=heartbeat_ok)
    quiet = NetworkSettings(window_bytes=2000)
    async with serving(handler, settings=quiet, max_pending_responses=50) as (net, server):
        stream = await net.for_node("client").connect(HOME)
        beat = frame(12, 0, 1, b"\0\1g\0\0\0\1\0\1m")
        sent = 0
        with trio.move_on_after(20):
            while True:
                await stream.send([beat])
                sent += 1
        assert sent < 1000
        assert len(handler.seen) < 300
        assert server.statistics().response_bytes_held < 10_000
        await trio.sleep(60)
        assert server.statistics().connections == 0


async def test_an_idle_connection_is_closed_and_a_parked_one_is_not(autojump_clock):
    handler = Handler(produce=lambda context, request: Deferred())
    with captured_logs() as lines:
        async with serving(handler, idle_timeout_s=100) as (net, server):
            idle = await net.for_node("idle").connect(HOME)
            async with client(net, "parked", timeout_s=1000, negotiate=False) as parked:
                with trio.move_on_after(200):
                    await parked.produce(produce_request())
                assert server.statistics().connections == 1
                assert await read_until_closed(idle) == b""
    assert [line["reason"] for line in lines if line["log_level"] == "warning"] == [
        "idle for 100 s (connections.max.idle.ms)"
    ]


async def test_half_a_frame_does_not_hold_memory_for_ever(autojump_clock):
    async with serving(Handler(), frame_timeout_s=30) as (net, server):
        stream = await net.for_node("slow").connect(HOME)
        await stream.send([(80_000_000).to_bytes(4, "big") + bytes(70_000)])
        await trio.sleep(5)
        # A peer that has sent a whole receive gets room for a usual batch at once.
        assert 70_000 <= server.statistics().request_bytes_held <= 1 << 20
        await trio.sleep(30 + 5)
        assert server.statistics().request_bytes_held == 0
        assert server.statistics().connections == 0


async def trickle(stream, head, *, more=10**9):
    """Send `head`, then a byte a second, as long as the peer takes it."""
    try:
        await stream.send([head])
        for _ in range(more):
            await trio.sleep(1)
            await stream.send([b"x"])
    except NetworkError:
        pass


@pytest.mark.slow
@pytest.mark.long
async def test_large_requests_pass_while_others_claim_much_and_hardly_send(autojump_clock):
    """Three that claim 100 MB each, and send 1.2 MB and then a byte a second."""
    async with serving(Handler(produce=produced)) as (net, server), trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            stream = await net.for_node(name).connect(HOME)
            head = (100 << 20).to_bytes(4, "big") + bytes(1_200_000)
            nursery.start_soon(trickle, stream, head)
        await trio.sleep(5)
        assert server.statistics().connections == 3
        async with client(net, "producer", negotiate=False) as producer:
            with trio.fail_after(2):
                assert (await producer.produce(produce_request(b"r" * 50_000_000)))[0].name == "t"
        nursery.cancel_scope.cancel()


async def test_slow_senders_pay_first_where_memory_is_short(autojump_clock):
    with captured_logs() as lines:
        async with (
            serving(Handler(produce=produced), queued_max_request_bytes=1_500_000) as (net, server),
            trio.open_nursery() as nursery,
        ):
            for number in range(4):
                stream = await net.for_node(f"slow-{number}").connect(HOME)
                size = 130_000 + 10_000 * number
                nursery.start_soon(trickle, stream, (90 << 20).to_bytes(4, "big") + bytes(size))
            await trio.sleep(20)
            assert server.statistics().connections == 4, "nobody is in need"
            async with client(net, "producer", negotiate=False) as producer:
                with trio.fail_after(1):
                    await producer.produce(produce_request(b"r" * 500_000))
            assert server.statistics().connections >= 3, "more were closed than was needed"
            nursery.cancel_scope.cancel()
    closed = [line for line in lines if "queued.max.request.bytes" in line.get("reason", "")]
    assert [(line["connections"], line["first_peer"].partition(":")[0]) for line in closed] == [(1, "slow-0")]


CROWDS = {
    "claim 100 MB and stop": (100 << 20, 60_000, 0),
    "claim 100 MB and dribble": (100 << 20, 60_000, 100),
    "claim 100 MB, fill what they get and want more": (100 << 20, 4 * 60_000, 100),
    "claim 1 MB and stop": (1 << 20, 60_000, 0),
    "claim what others send and dribble": (101_000, 60_000, 100),
}


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("crowd", CROWDS)
async def test_hundreds_of_half_sent_frames_delay_no_request_of_another_client(autojump_clock, crowd):
    claimed, sent, more = CROWDS[crowd]

    async def send(stream):
        with contextlib.suppress(NetworkError):
            await stream.send([claimed.to_bytes(4, "big") + bytes(sent)])
            while more:
                await trio.sleep(1)
                await stream.send([bytes(more)])

    async with (
        serving(Handler(produce=produced), queued_max_request_bytes=64 << 20) as (net, server),
        trio.open_nursery() as nursery,
    ):
        async with (
            client(net, "small", negotiate=False) as small,
            client(net, "large", negotiate=False) as large,
        ):
            for number in range(300):
                nursery.start_soon(send, await net.for_node(f"hostile-{number}").connect(HOME))
            await trio.sleep(0.3)
            for _ in range(5):
                with trio.fail_after(1):
                    await small.produce(produce_request(b"r" * 100_000))
                with trio.fail_after(15):
                    await large.produce(produce_request(b"r" * 5_000_000))
                await trio.sleep(0.3)
        assert server.statistics().request_bytes_held <= 64 << 20
        nursery.cancel_scope.cancel()


async def test_clients_get_none_of_the_descriptors_that_logs_and_nodes_need(autojump_clock):
    with captured_logs() as lines:
        async with serving(Handler()) as (net, server), client(net, "first"):
            net.room = 0
            for number in range(50):
                refused = await net.for_node(f"late-{number}").connect(HOME)
                assert await read_until_closed(refused) == b""
            assert server.statistics().connections == 1
            net.room = 1
            async with client(net, "second"):
                assert server.statistics().connections == 2
    said = [line for line in lines if line["event"] == "connections are refused"]
    assert "raise the limit" in said[0]["reason"]
    assert len(said) <= 2, "a line for each would fill the disk"


async def test_a_broken_connection_fails_every_call_on_it(autojump_clock):
    async with (
        serving(Handler(produce=lambda context, request: Deferred())) as (net, _),
        client(net) as connection,
    ):
        failures = []

        async def produce():
            try:
                await connection.produce(produce_request())
            except NetworkError as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(produce)
            await trio.sleep(0.5)
            net.cut("client", "broker")
        assert len(failures) == 3
        assert connection.broken is not None
        with pytest.raises(NetworkError):
            await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")


async def test_a_late_response_to_a_call_given_up_is_dropped(autojump_clock):
    async def slow(context, request):
        await trio.sleep(2 if request.group_id == "slow" else 0)
        return heartbeat_ok(context, request)

    async with serving(Handler(heartbeat=slow)) as (net, _), client(net) as connection:
        with pytest.raises(RequestTimedOutError):
            await connection.call(ApiKey.HEARTBEAT, group_id="slow", member_id="m", timeout_s=1)
        answer = await connection.call(ApiKey.HEARTBEAT, group_id="quick", member_id="m")
        assert answer.error_code is ErrorCode.none


async def test_a_failed_connection_raises_a_named_error(autojump_clock):
    net = SimulatedNetwork(random.Random(1))
    with pytest.raises(NetworkError, match="refused"):
        async with client(net):
            pass
    await net.for_node("broker").listen(HOME)
    net.partition(["client"], ["broker"])
    with pytest.raises(NetworkError, match="no connection to broker:9092 within 5 s"):
        async with client(net, timeout_s=5):
            pass


async def test_an_api_that_the_server_lacks_is_named(autojump_clock):
    async with serving(Handler()) as (net, _), client(net) as connection:
        connection.versions = {12: (90, 99)}
        with pytest.raises(UnsupportedVersionError, match="HEARTBEAT versions 90 to 99"):
            connection.version(ApiKey.HEARTBEAT)


SERVED = [
    (row.api.key, version)
    for row in ROWS.values()
    for version in range(row.api.min_version, row.api.max_version + 1)
]


@pytest.mark.hypothesis
@of_versions(SERVED)
def test_every_api_can_refuse_in_every_version(key, version, entities):
    from hypothesis import given, settings

    @settings(max_examples=settings().max_examples // 5)
    @given(entities(request_type(key, version)))
    def check(message):
        body = memoryview(b"".join(encode_entity(message)))
        request = trio.run(decode_request, APIS[key], version, body)
        answer = trio.run(ROWS[key].refusal, request, Refusal(version, ErrorCode.not_controller, "why"))
        body = b"".join(answer.body)
        if key in (ApiKey.PRODUCE, ApiKey.FETCH):
            parts = sum(len(topic.partitions) for topic in request.topics)
            assert body.count(b"\0\x29") >= parts
        else:
            told = decode_entity(response_type(key, version), memoryview(body))
            assert repr(told).count("not_controller") >= asked_for(message)

    check()


WITH_ONE_ERROR = {
    "AlterPartitionReassignmentsRequest",
    "DescribeLogDirsRequest",
    "DescribeQuorumRequest",
    "ListPartitionReassignmentsRequest",
    "OffsetDeleteRequest",
}


def asked_for(message):
    """How many things in a request each need an error of their own."""
    for name in (
        "groups",
        "group_ids",
        "groups_names",
        "coordinator_keys",
        "topic_names",
        "resources",
        "entries",
        "creations",
        "filters",
    ):
        if hasattr(message, name):
            return len(getattr(message, name))
    if hasattr(message, "upsertions"):
        return len({each.name for part in (message.deletions, message.upsertions) for each in part})
    if hasattr(message, "dirs"):
        return sum(len(topic.partitions) for each in message.dirs for topic in each.topics)
    topics = getattr(message, "topics", getattr(message, "topic_partitions", None))
    if topics is None and hasattr(message, "topic_partitions"):
        return 0  # of all partitions, which nobody has counted
    if topics is None:
        return int(not hasattr(message, "topics"))
    if type(message).__name__ in WITH_ONE_ERROR:
        return 1
    return sum(
        len(getattr(topic, "partitions", getattr(topic, "partition_indexes", (1,)))) for topic in topics
    )
