"""Clients for threads and asyncio, of a quorum on this machine."""

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from own_thread import thread_count

from quorate import aio, blocking
from quorate.cli.node.free_ports import free_ports
from quorate.client import Client
from quorate.raft import (
    LeaderNotFoundError,
    QuorumConfigError,
    QuorumForkedError,
    QuorumStoppedError,
    Sessions,
)
from quorate.runtime import Address
from tests.doors.conftest import Sums

CALLS = 40


@pytest.fixture
def listener(config) -> Iterator[Address]:
    """A quorum with sessions, and the address where it listens for clients."""
    address = Address("127.0.0.1", free_ports(1)[0])
    sums = Sums()
    with blocking.Quorum.open(replace(config, client_listen=address), Sessions(sums)) as quorum:
        quorum.serve_reads(lambda query: b"%d" % sums.total)
        quorum.wait_leading()
        yield address


@pytest.mark.parametrize("door", [aio, blocking])
def test_a_doors_client_has_the_calls_of_trios_with_their_signatures(door) -> None:
    names = {name for name in dir(Client) if not name.startswith("_")} - {"forked"}
    assert {name for name in dir(door.Client) if not name.startswith("_")} == names
    for name in names - {"open", "watch"}:
        assert inspect.signature(getattr(door.Client, name)) == inspect.signature(getattr(Client, name)), name
    watches = [str(inspect.signature(each.watch)).partition(" ->")[0] for each in (door.Client, Client)]
    assert watches[0] == watches[1]


def test_many_threads_append_by_one_client_and_each_append_counts_once(listener) -> None:
    with blocking.Client.open([listener]) as client, ThreadPoolExecutor(8) as pool:
        appended = list(pool.map(lambda _: client.append([b"1"]), range(CALLS)))
        assert sorted(each.results[0] for each in appended) == list(range(1, CALLS + 1))
        assert client.read(b"") == b"%d" % CALLS


async def _many_tasks(listener: Address) -> None:
    async with aio.Client.open([listener]) as client:
        appended = await asyncio.gather(*(client.append([b"1"]) for _ in range(CALLS)))
        assert sorted(each.results[0] for each in appended) == list(range(1, CALLS + 1))
        assert await client.read(b"") == b"%d" % CALLS


def test_many_tasks_of_asyncio_append_by_one_client(listener) -> None:
    asyncio.run(_many_tasks(listener))


def test_a_call_of_asyncio_that_is_cancelled_leaves_the_client_in_use(listener) -> None:
    async def main() -> None:
        async with aio.Client.open([listener]) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.append([b"1"]), 0)
            before = int(await client.read(b""))
            assert (await client.append([b"1"])).results == (before + 1,)

    asyncio.run(main())


@pytest.mark.parametrize("door", ["threads", "asyncio"])
def test_nobody_at_the_address_and_no_address_are_errors_of_the_call_and_of_the_block(door) -> None:
    nobody = Address("127.0.0.1", free_ports(1)[0])

    def use(addresses) -> None:
        with blocking.Client.open(addresses) as client:
            client.append([b"1"], timeout_ms=200)

    async def use_async(addresses) -> None:
        async with aio.Client.open(addresses) as client:
            await client.append([b"1"], timeout_ms=200)

    run = use if door == "threads" else lambda addresses: asyncio.run(use_async(addresses))
    with pytest.raises(LeaderNotFoundError, match=f"{nobody} can't be reached"):
        run([nobody])
    with pytest.raises(QuorumConfigError, match="addresses is empty"):
        run([])


@pytest.mark.slow
def test_watches_of_threads_hear_of_each_record_once_and_end_with_their_blocks(listener) -> None:
    def listen() -> list[bytes]:
        with client.watch(0) as watch:
            return [next(watch).record for _ in range(CALLS)]

    with blocking.Client.open([listener]) as client, ThreadPoolExecutor(8) as pool:
        heard = [pool.submit(listen) for _ in range(4)]
        for number in range(CALLS):
            client.append([b"%d" % number])
        assert [each.result() for each in heard] == [[b"%d" % number for number in range(CALLS)]] * 4
        with client.watch(0, idle_ms=0) as watch:
            ended = list(watch)
        assert [each.record for each in ended] == [b"%d" % number for number in range(CALLS)]
        with client.watch(watch.next_offset, idle_ms=0) as later:
            assert list(later) == []
        with client.watch() as endless:
            pass
        with pytest.raises(QuorumStoppedError, match="the watch is closed"):
            next(endless)
    with pytest.raises(QuorumStoppedError, match="the client is closed"):
        next(endless)


def test_a_watch_of_asyncio_goes_on_after_a_call_that_was_cancelled(listener) -> None:
    async def main() -> None:
        async with aio.Client.open([listener]) as client, client.watch() as watch:
            heard: list[int] = []
            appended = asyncio.create_task(append(client))
            while len(heard) < CALLS:
                for patience_s in (0, 0.001, 0.003, None):
                    try:
                        async with asyncio.timeout(patience_s):
                            heard.append(int((await anext(watch)).record))
                            break
                    except TimeoutError:
                        continue
            await appended
            assert heard == list(range(CALLS))

    async def append(client: aio.Client) -> None:
        for number in range(CALLS):
            await client.append([b"%d" % number])

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_closed_client_of_threads_is_refused_at_once_and_leaves_no_thread(listener) -> None:
    before = thread_count()
    with blocking.Client.open([listener]) as client:
        client.append([b"1"])
    with pytest.raises(QuorumStoppedError, match="the client is closed"):
        client.append([b"1"])
    assert thread_count() == before


def test_a_closed_client_of_asyncio_is_refused_at_once(listener) -> None:
    async def main() -> None:
        async with aio.Client.open([listener]) as client:
            await client.append([b"1"])
        with pytest.raises(QuorumStoppedError, match="the client is closed"):
            await client.append([b"1"])

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_copy_of_a_client_of_threads_is_refused(listener) -> None:
    with blocking.Client.open([listener]) as client:
        client.append([b"1"])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                client.append([b"1"])
            except QuorumForkedError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.append([b"1"]).results == (2,), "the parent goes on"


def test_an_interpreter_that_exits_inside_the_block_ends_quietly(listener) -> None:
    program = (
        "from quorate.blocking import Client\n"
        "from quorate.runtime import Address\n"
        f"block = Client.open([Address({listener.host!r}, {listener.port})])\n"
        "print(block.__enter__().append([b'1']).results)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(1,)\n", "")
