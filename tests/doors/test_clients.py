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
    for name in names - {"open"}:
        assert inspect.signature(getattr(door.Client, name)) == inspect.signature(getattr(Client, name)), name


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
