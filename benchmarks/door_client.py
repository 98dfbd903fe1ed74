"""A program in Python that uses one system, in a process of its own. Usage, by the door that it goes through:

    trio|aio|blocking FOLDER VOTERS                     node 1 of a quorum, which it makes the leader
    child-aio|child-blocking FOLDER VOTERS              the same, in a child process
    client-trio|client-aio|client-blocking ADDRESSES    a client of a quorum's client listeners
    etcd|zookeeper|pysyncobj ADDRESSES                  a client of that system's leader

The commands are `leader`, `write` and `read` of quorum_client.py, and `hop`: a call that waits for nothing.
"""

import asyncio
import json
import socket
import struct
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import partial
from typing import Any, NamedTuple

import trio
from quorum_client import Command, summary
from quorum_client import measure as measure_trio
from quorum_node import Values, configured

from quorate import aio, blocking, client, raft
from quorate.raft import NodeId, Offset, QuorumError
from quorate.runtime import Address

NODE = NodeId(1)
PATIENCE_S = 30
WORKERS_MAX = 256

Answer = dict[str, object]
Worker = Callable[[int], Callable[[], Any]]


class Calls(NamedTuple):
    """What a system does for its user. Each returns an awaitable, or waits for its end if the door blocks."""

    write: Callable[[bytes], Any]
    """The key is the record's first 8 bytes."""
    read: Callable[[bytes], Any] | None
    """Read a key linearizably. None: it can't."""
    hop: Callable[[], Any] | None = None

    def worker_of(self, command: Command) -> Worker | None:
        """What each worker repeats for a command. None: the system can't do it."""
        if command["do"] == "write":
            rest = bytes(command["size"] - 8)
            return lambda worker: partial(self.write, _key(worker) + rest)
        if command["do"] == "hop":
            hop = self.hop
            return None if hop is None else lambda worker: hop
        read = self.read
        return None if read is None else lambda worker: partial(read, _key(worker))


def _key(worker: int) -> bytes:
    return b"%08x" % worker


def _at_once(command: Command) -> Answer | None:
    """The answer to a command that measures nothing: there is a leader when the door is open."""
    return {"leader": NODE} if command["do"] == "leader" else None


def run_trio(door: AbstractAsyncContextManager[Calls]) -> None:
    async def main() -> None:
        async with door as calls:
            while line := await trio.to_thread.run_sync(sys.stdin.readline):
                command: Command = json.loads(line)
                answer = _at_once(command)
                if answer is None:
                    worker_of = calls.worker_of(command)
                    answer = UNSUPPORTED if worker_of is None else await measure_trio(command, worker_of)
                print(json.dumps(answer), flush=True)

    trio.run(main)


def run_asyncio(door: AbstractAsyncContextManager[Calls]) -> None:
    async def measure(command: Command, worker_of: Worker) -> Answer:
        latencies: list[float] = []
        clock = time.perf_counter
        started = clock()
        end = started + command["seconds"]

        async def work(operation: Callable[[], Any]) -> None:
            now = clock()
            while True:
                await operation()
                then, now = now, clock()
                latencies.append(now - then)
                if now >= end:
                    return

        await asyncio.gather(*(work(worker_of(worker)) for worker in range(command["in_flight"])))
        return summary(latencies, clock() - started)

    async def main() -> None:
        async with door as calls:
            while line := await asyncio.to_thread(sys.stdin.readline):
                command: Command = json.loads(line)
                answer = _at_once(command)
                if answer is None:
                    worker_of = calls.worker_of(command)
                    answer = UNSUPPORTED if worker_of is None else await measure(command, worker_of)
                print(json.dumps(answer), flush=True)

    asyncio.run(main())


def run_threads(door: AbstractContextManager[Calls]) -> None:
    def measure(command: Command, worker_of: Worker) -> Answer:
        in_flight = command["in_flight"]
        begin = threading.Barrier(in_flight + 1)
        clock = time.perf_counter

        def work(operation: Callable[[], Any]) -> list[float]:
            latencies: list[float] = []
            begin.wait()
            now = clock()
            end = now + command["seconds"]
            while True:
                operation()
                then, now = now, clock()
                latencies.append(now - then)
                if now >= end:
                    return latencies

        with ThreadPoolExecutor(in_flight) as pool:
            works = [pool.submit(work, worker_of(worker)) for worker in range(in_flight)]
            begin.wait()
            started = clock()
            latencies = [each for done in works for each in done.result()]
            return summary(latencies, clock() - started)

    with door as calls:
        for line in sys.stdin:
            command: Command = json.loads(line)
            answer = _at_once(command)
            if answer is None:
                worker_of = calls.worker_of(command)
                answer = UNSUPPORTED if worker_of is None else measure(command, worker_of)
            print(json.dumps(answer), flush=True)


UNSUPPORTED: Answer = {"unsupported": "not in this system"}

# quorate, as a node


@asynccontextmanager
async def node_trio(folder: str, voters: str) -> AsyncIterator[Calls]:
    values = Values()
    async with raft.Quorum.open(configured(NODE, folder, voters), values) as quorum:
        while await quorum.wait_leader() != NODE:
            with suppress(QuorumError):  # on a busy machine another one may be elected
                await quorum.transfer_leadership(NODE)
        yield Calls(
            lambda record: quorum.append([record]),
            lambda key: quorum.read(lambda: values.values.get(key)),
            lambda: quorum.wait_applied(Offset(0)),
        )


@asynccontextmanager
async def node_aio(folder: str, voters: str) -> AsyncIterator[Calls]:
    values = Values()
    async with aio.Quorum.open(configured(NODE, folder, voters), values) as quorum:
        while await quorum.wait_leader() != NODE:
            with suppress(QuorumError):  # on a busy machine another one may be elected
                await quorum.transfer_leadership(NODE)
        yield Calls(
            lambda record: quorum.append([record]),
            lambda key: quorum.read(lambda: values.values.get(key)),
            lambda: quorum.wait_applied(Offset(0)),
        )


@contextmanager
def node_blocking(folder: str, voters: str) -> Iterator[Calls]:
    values = Values()
    with blocking.Quorum.open(configured(NODE, folder, voters), values) as quorum:
        while quorum.wait_leader() != NODE:
            with suppress(QuorumError):
                quorum.transfer_leadership(NODE)
        yield Calls(
            lambda record: quorum.append([record]),
            lambda key: quorum.read(lambda: values.values.get(key)),
            lambda: quorum.wait_applied(Offset(0)),
        )


# The same in a child process


def value_of(key: bytes, values: Values) -> bytes | None:
    return values.values.get(key)


@asynccontextmanager
async def child_aio(folder: str, voters: str) -> AsyncIterator[Calls]:
    async with aio.ChildQuorum.open(configured(NODE, folder, voters), Values) as quorum:
        while await quorum.wait_leader() != NODE:
            with suppress(QuorumError):
                await quorum.transfer_leadership(NODE)
        yield Calls(
            lambda record: quorum.append([record]),
            lambda key: quorum.read(partial(value_of, key)),
            lambda: quorum.wait_applied(Offset(0)),
        )


@contextmanager
def child_blocking(folder: str, voters: str) -> Iterator[Calls]:
    with blocking.ChildQuorum.open(configured(NODE, folder, voters), Values) as quorum:
        while quorum.wait_leader() != NODE:
            with suppress(QuorumError):
                quorum.transfer_leadership(NODE)
        yield Calls(
            lambda record: quorum.append([record]),
            lambda key: quorum.read(partial(value_of, key)),
            lambda: quorum.wait_applied(Offset(0)),
        )


# quorate, as a client. Without sessions, as the other systems' clients repeat nothing either


@asynccontextmanager
async def client_trio(addresses: str) -> AsyncIterator[Calls]:
    async with client.Client.open(_parsed(addresses), sessions=False) as opened:
        await opened.append([_key(0)], timeout_ms=PATIENCE_S * 1000)
        yield Calls(lambda record: opened.append([record]), opened.read)


@asynccontextmanager
async def client_aio(addresses: str) -> AsyncIterator[Calls]:
    async with aio.Client.open(_parsed(addresses), sessions=False) as opened:
        await opened.append([_key(0)], timeout_ms=PATIENCE_S * 1000)
        yield Calls(lambda record: opened.append([record]), opened.read)


@contextmanager
def client_blocking(addresses: str) -> Iterator[Calls]:
    with blocking.Client.open(_parsed(addresses), sessions=False) as opened:
        opened.append([_key(0)], timeout_ms=PATIENCE_S * 1000)
        yield Calls(lambda record: opened.append([record]), opened.read)


def _parsed(addresses: str) -> list[Address]:
    return [Address(host, int(port)) for host, port in _split(addresses)]


def _split(addresses: str) -> list[tuple[str, str]]:
    return [(host, port) for host, _, port in (each.partition(":") for each in addresses.split(","))]


# The others


def find_leader(addresses: str, leads: Callable[[str, int], bool]) -> tuple[str, int]:
    """Ask each node until one says that it leads. Raises `SystemExit`."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for host, port in _split(addresses):
            try:
                if leads(host, int(port)):
                    return host, int(port)
            except OSError:
                pass
        time.sleep(0.05)
    raise SystemExit(f"no node of {addresses} leads within {PATIENCE_S} s")


@asynccontextmanager
async def etcd(addresses: str) -> AsyncIterator[Calls]:
    """By gRPC, in the messages of etcd's rpc.proto, of which two fields are needed. Gets are linearizable."""
    import grpc.aio  # type: ignore[import-untyped]

    def leads(host: str, port: int) -> bool:
        asked = urllib.request.Request(f"http://{host}:{port}/v3/maintenance/status", b"{}")
        with urllib.request.urlopen(asked, timeout=2) as said:
            status = json.loads(said.read())
        return bool(status["header"]["member_id"] == status.get("leader"))

    host, port = find_leader(addresses, leads)
    async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
        put = channel.unary_unary("/etcdserverpb.KV/Put")
        get = channel.unary_unary("/etcdserverpb.KV/Range")
        yield Calls(
            lambda record: put(_field(1, record[:8]) + _field(2, record)), lambda key: get(_field(1, key))
        )


def _field(number: int, value: bytes) -> bytes:
    """A field of bytes in Protocol Buffers: number and wire type 2, a varint of the length, the bytes."""
    length, head = len(value), bytearray([number << 3 | 2])
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes(head) + bytes([length]) + value


@contextmanager
def zookeeper(addresses: str) -> Iterator[Calls]:
    """By kazoo. A linearizable read is a sync and a get; a session's requests keep their order."""
    from kazoo.client import KazooClient  # type: ignore[import-untyped]

    def leads(host: str, port: int) -> bool:
        with socket.create_connection((host, port), timeout=2) as stream:
            stream.sendall(b"srvr")
            return b"Mode: leader" in stream.makefile("rb").read()

    host, port = find_leader(addresses, leads)
    opened = KazooClient(hosts=f"{host}:{port}")
    opened.start(timeout=PATIENCE_S)

    def path(key: bytes) -> str:
        return "/" + key.decode()

    def read(key: bytes) -> object:
        opened.sync_async(path(key))
        return opened.get_async(path(key)).get()

    try:
        for made in [opened.create_async(path(_key(worker)), b"") for worker in range(WORKERS_MAX)]:
            made.get()
        yield Calls(lambda record: opened.set(path(record[:8]), record), read)
    finally:
        opened.stop()
        opened.close()


class _PySyncObj(asyncio.Protocol):
    """The client's side of pysyncobj_node.py, whose frames rival_client/pysyncobj.go describes."""

    _HEAD = struct.Struct(">IIcB")
    _ANSWER = struct.Struct(">IIB")

    def __init__(self) -> None:
        self._received = bytearray()
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._number = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        whole = len(self._received) // self._ANSWER.size * self._ANSWER.size
        for _, number, status in self._ANSWER.iter_unpack(bytes(self._received[:whole])):
            self._waiting.pop(number).set_result(status)
        del self._received[:whole]

    def connection_lost(self, exc: Exception | None) -> None:
        for waiter in self._waiting.values():
            waiter.set_exception(ConnectionError("the node has ended"))

    async def ask(self, kind: bytes, key: bytes, value: bytes) -> int:
        self._number += 1
        waiter = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        head = self._HEAD.pack(6 + len(key) + len(value), self._number, kind, len(key))
        self._transport.write(head + key + value)
        return await waiter

    async def write(self, record: bytes) -> None:
        if await self.ask(b"w", record[:8], record):
            raise ConnectionError("not committed")

    def close(self) -> None:
        self._transport.close()


@asynccontextmanager
async def pysyncobj(addresses: str) -> AsyncIterator[Calls]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for host, port in _split(addresses):
            try:
                _, opened = await asyncio.get_running_loop().create_connection(_PySyncObj, host, int(port))
            except OSError:
                continue
            if await opened.ask(b"l", b"", b"") == 0:
                yield Calls(opened.write, None)
                opened.close()
                return
            opened.close()
        await asyncio.sleep(0.05)
    raise SystemExit(f"no node of {addresses} leads within {PATIENCE_S} s")


IN_TRIO = {"trio": node_trio, "client-trio": client_trio}
IN_ASYNCIO = {
    "aio": node_aio,
    "child-aio": child_aio,
    "client-aio": client_aio,
    "etcd": etcd,
    "pysyncobj": pysyncobj,
}
IN_THREADS = {
    "blocking": node_blocking,
    "child-blocking": child_blocking,
    "client-blocking": client_blocking,
    "zookeeper": zookeeper,
}


def main(door: str, *arguments: str) -> None:
    if door in IN_TRIO:
        run_trio(IN_TRIO[door](*arguments))
    elif door in IN_ASYNCIO:
        run_asyncio(IN_ASYNCIO[door](*arguments))
    else:
        run_threads(IN_THREADS[door](*arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
