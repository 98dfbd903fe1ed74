"""A Fetch that comes again is decoded once; an answer that comes alone is sent by who completes it."""

from contextlib import asynccontextmanager

import pytest
import trio
from served_wire import HOME, Handler, serving

from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.fetch_codec import (
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    decode_fetch_request,
    encode_fetch_request_steps,
)
from quorate.broker.wire.exchanges import Deferred, EncodedResponse
from quorate.broker.wire.headers import read_request_header, write_request_header
from quorate.broker.wire.repeated_fetch import FetchMemory, correlation_id
from quorate.kafka_bytes.primitives import Pieces
from quorate.runtime import at_once


def request(version=11, offset=5, **fields):
    parts = [FetchPartition(3, fetch_offset=offset, max_bytes=9), FetchPartition(4)]
    return KafkaFetchRequest(
        version=version,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic("t", None, parts)],
        rack_id="r" if version >= 11 else "",
        **fields,
    )


def frame(number, asked):
    header = Pieces(flexible=False)
    write_request_header(
        header, api=APIS[ApiKey.FETCH], version=asked.version, correlation_id=number, client_id="consumer"
    )
    return memoryview(b"".join([*header.finish(), *at_once(encode_fetch_request_steps(asked))]))


def come(memory, number, asked):
    """A frame comes in. Return what a handler gets, and whether it was known."""
    data = frame(number, asked)
    known = memory.repeated_by(data)
    if known is not None:
        assert correlation_id(data) == number
        return known.request, True
    header = read_request_header(data)
    return memory.note(data, header, decode_fetch_request(data[header.body_start :], asked.version)), False


def plain(asked):
    return [(topic.name, list(topic.partitions)) for topic in asked.topics], asked.rack_id, asked.max_wait_ms


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_a_request_that_comes_a_third_time_is_the_same_object_as_the_second(version):
    memory, asked = FetchMemory(), request(version)
    first, second, third, fourth = (come(memory, number, asked) for number in (1, 2, -3, 2**31 - 1))
    assert [known for _, known in (first, second, third, fourth)] == [False, False, True, True]
    assert third[0] is second[0] is fourth[0]
    assert plain(first[0]) == plain(second[0]) == plain(asked)


@pytest.mark.parametrize(
    "other",
    [
        request(offset=6),
        request(version=10),
        request(session_id=1, session_epoch=1),
        request(isolation_level=1),
        KafkaFetchRequest(
            version=11,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[
                FetchTopic("t", None, [FetchPartition(3, fetch_offset=5, max_bytes=9), FetchPartition(4)])
            ],
            rack_id="s",
        ),
    ],
    ids=["offset", "version", "session", "isolation level", "last byte"],
)
def test_a_request_that_differs_in_anything_is_another(other):
    memory = FetchMemory()
    for number in range(3):
        come(memory, number, request())
    found, known = come(memory, 4, other)
    assert not known
    assert plain(found) == plain(other)
    assert come(memory, 5, request())[1] is False, "only the last one is remembered"


def test_a_large_request_is_not_remembered():
    memory = FetchMemory()
    asked = request()
    asked.topics[0].partitions.extend(FetchPartition(number) for number in range(100))
    assert [come(memory, number, asked)[1] for number in range(4)] == [False] * 4


def test_a_request_that_a_handler_lets_go_of_comes_again():
    memory = FetchMemory()
    for number in range(5):
        found, _ = come(memory, number, request())
        assert len(found.topics[0].partitions) == 2
        for _ in found.let_go_steps():
            pass


class Tasks(trio.abc.Instrument):
    """The tasks that have made a step."""

    def __init__(self):
        self.stepped = []

    def before_task_step(self, task):
        self.stepped.append(task)


@asynccontextmanager
async def fetching():
    """A server, a stream to it, and the answers that its Fetches wait for."""
    waiting = []

    def wait(context, asked):
        waiting.append(Deferred())
        return waiting[-1]

    async with serving(Handler(fetch=wait)) as (net, server):
        yield server, await net.for_node("client").connect(HOME), waiting


async def test_an_answer_that_comes_alone_is_sent_without_a_step_of_the_server(autojump_clock):
    async with fetching() as (_, stream, waiting):
        for number in range(3):
            data = frame(number, request())
            await stream.send([len(data).to_bytes(4, "big"), data])
            await trio.sleep(0.1)
            tasks = Tasks()
            trio.lowlevel.add_instrument(tasks)
            waiting[-1].complete(EncodedResponse([b"body"]))
            assert await stream.receive_some() == b"\0\0\0\x08" + number.to_bytes(4, "big") + b"body"
            trio.lowlevel.remove_instrument(tasks)
            assert not [task for task in tasks.stepped if "Connection._write" in task.name]


async def test_answers_that_come_together_leave_together(autojump_clock):
    async with fetching() as (_, stream, waiting):
        for number in range(3):
            data = frame(number, request())
            await stream.send([len(data).to_bytes(4, "big"), data])
        await trio.sleep(0.1)
        for each in waiting:
            each.complete(EncodedResponse([b"body"]))
        await trio.sleep(0.1)
        assert len(await stream.receive_some()) == 3 * 12


async def test_a_connection_that_broke_under_its_answer_ends_and_nobody_else_does(autojump_clock):
    async with fetching() as (server, stream, waiting):
        data = frame(1, request())
        await stream.send([len(data).to_bytes(4, "big"), data])
        await trio.sleep(0.1)
        (connection,) = server._connections.values()
        connection._stream.close()
        waiting[-1].complete(EncodedResponse([b"body"]))
        await trio.sleep(1)
        assert server.statistics().connections == 0
