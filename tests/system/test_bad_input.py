"""Malformed, oversized, truncated and foreign input on both listeners of real nodes."""

import random
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cbor2
import pytest
import trio

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import open_client
from quorate.cli.node.local_cluster import LocalCluster
from quorate.raft.transport.frames import PREFACE
from quorate.runtime.network import Address
from quorate.runtime.real import RealNetwork
from tests.kit.own_thread import running

pytestmark = pytest.mark.system

PER_KIND = 10
CLOSED_WITHIN_SECONDS = 5.0
HELD_OPEN = 50
GROWTH_MIB = 25.0
"""The limit of a node's growth through all of it. Allocators keep some memory."""


@dataclass(frozen=True)
class Bad:
    name: str
    data: bytes
    half_close: bool = False
    """True if the sender ends its side of the connection in the middle of a frame."""
    logged: bool = True
    """False for a connection that merely ends or breaks, which is no event."""


def tls_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def kafka(api: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api, version, 1, 3) + b"bad"
    return struct.pack(">i", len(header) + len(body)) + header + body


def quorum(header: bytes, payload: bytes = b"") -> bytes:
    return PREFACE + struct.pack(">IH", 2 + len(header) + len(payload), len(header)) + header + payload


def random_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


ON_CLIENTS = (
    *(Bad(f"{size} random bytes", random_bytes(size), half_close=True) for size in (7, 400, 4001, 60_000)),
    Bad("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Bad("TLS", tls_hello()),
    Bad("a length of 2 GiB", b"\x7f\xff\xff\xff" + bytes(100)),
    Bad("a negative length", b"\xff\xff\xff\xff" + bytes(100)),
    Bad("a length of 0", bytes(100)),
    Bad("an API that is not served", kafka(999, 0, b"")),
    Bad("a version that is not served", kafka(ApiKey.METADATA, 99, b"")),
    Bad("an array of 2^31 topics", kafka(ApiKey.METADATA, 4, b"\x7f\xff\xff\xff" + bytes(20))),
    Bad("a body that ends too early", kafka(ApiKey.METADATA, 4, b"\x00\x00\x00\x01\x00\x10abc")),
    Bad("a frame cut off", kafka(ApiKey.METADATA, 4, b"\x00\x00\x00\x00\x00")[:-3], half_close=True),
)
ON_CONTROLLERS = (
    *(Bad(f"{size} random bytes", random_bytes(size), half_close=True) for size in (7, 400, 4001, 60_000)),
    Bad("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Bad("TLS", tls_hello()),
    Bad("an API of Kafka that is for brokers", kafka(ApiKey.METADATA, 0, b"\x00\x00\x00\x00")),
    Bad("a length of 4 GiB", PREFACE + b"\xff\xff\xff\xff" + bytes(100)),
    Bad("a header larger than its frame", PREFACE + struct.pack(">IH", 100, 5000) + bytes(98)),
    Bad("a header that is not CBOR", quorum(b"\xff\xff\xff")),
    Bad("a header of 15,000 nested arrays", quorum(b"\x81" * 15_000)),
    Bad("a tag", quorum(cbor2.dumps(cbor2.CBORTag(35, "(a+)+$")))),
    Bad("a number where a name belongs", quorum(cbor2.dumps([2, 0, 1, 7, 7, 7, 7, 7]))),
    Bad("a kind that is none", quorum(cbor2.dumps([98, 0, 1]))),
    Bad("another cluster's request", quorum(cbor2.dumps([12, 0, 1, "another-cluster"]), b"\x01")),
    Bad("a frame cut off", quorum(cbor2.dumps([2, 0, 1]))[:-1], half_close=True, logged=False),
)


class Bystander:
    """A well-behaved connection that asks all the time."""

    def __init__(self, address: Address) -> None:
        self.answers = 0
        self.slowest = 0.0
        self._address = address

    async def run(self, stop: threading.Event) -> None:
        async with open_client(RealNetwork(), self._address, timeout_s=10) as client:
            while not stop.is_set():
                started = time.monotonic()
                await client.call(ApiKey.METADATA, topics=())
                self.slowest = max(self.slowest, time.monotonic() - started)
                self.answers += 1
                await trio.sleep(0.01)


def resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def send_bad(port: int, bad: Bad) -> str:
    """Send bytes. Return our address once the other end has closed the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=CLOSED_WITHIN_SECONDS) as connection:
        own = f"127.0.0.1:{connection.getsockname()[1]}"
        try:
            connection.sendall(bad.data)
            if bad.half_close:
                connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        except TimeoutError:
            raise AssertionError(f"{bad.name}: not closed within {CLOSED_WITHIN_SECONDS} s") from None
        except ConnectionError:
            pass  # closed with some of it unread
        return own


def wait_for_lines(log: Path, addresses: list[str], count: int, what: str, *, since: int) -> str:
    """Wait until each address has exactly `count` lines behind the byte `since` (ports are used again).
    Return one of them."""
    deadline = time.monotonic() + 5
    while True:
        lines = log.read_bytes()[since:].decode().splitlines()
        found = {
            address: [line for line in lines if re.search(rf"\b{address}\b", line)] for address in addresses
        }
        if all(len(about) == count for about in found.values()):
            return next((about[-1] for about in found.values() if about), "nothing")
        assert time.monotonic() < deadline, f"{what}: expected {count} line(s) for each, found {found}"
        time.sleep(0.05)


@pytest.mark.slow
def test_bad_input_closes_its_connection_with_one_log_line_and_nobody_else_notices(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3)
    before = cluster.describe_quorum()
    target = int(str(before["leaderId"]))  # the most that there is to disturb
    node = cluster.node(target)
    bystander = Bystander(Address(cluster.host, node.client_port))
    with running(bystander.run):
        for bad in (*ON_CLIENTS, *ON_CONTROLLERS):  # what is allocated once is allocated now
            send_bad(node.client_port if bad in ON_CLIENTS else node.controller_port, bad)
        memory = resident_mib(cluster.pid(target))
        for listener, port, kinds in (
            ("client", node.client_port, ON_CLIENTS),
            ("controller", node.controller_port, ON_CONTROLLERS),
        ):
            for bad in kinds:
                since = node.log_file.stat().st_size
                addresses = [send_bad(port, bad) for _ in range(PER_KIND)]
                said = wait_for_lines(
                    node.log_file, addresses, int(bad.logged), f"{bad.name}, {listener}", since=since
                )
                print(f"{listener} listener, {bad.name}: {said[:200]}")
        held = claim_much(node.client_port, struct.pack(">i", 90 << 20)) + claim_much(
            node.controller_port, PREFACE + struct.pack(">I", 60 << 20)
        )
        time.sleep(2)
        grown = resident_mib(cluster.pid(target)) - memory
        for connection in held:
            connection.close()
    print(
        f"memory grew by {grown:.1f} MiB with {2 * HELD_OPEN} connections open that claim 60 to 90 MiB each"
    )
    print(f"a well-behaved one got {bystander.answers} answers, the slowest after {bystander.slowest:.2f} s")
    assert grown < GROWTH_MIB, "memory is bounded by what came, not by what was claimed"
    assert bystander.answers > 100 and bystander.slowest < 1.0, "other connections never notice"
    after = cluster.describe_quorum()
    assert (after["leaderId"], after["leaderEpoch"]) == (before["leaderId"], before["leaderEpoch"])
    assert cluster.running() == [1, 2, 3]
    assert cluster.live_brokers() == {1, 2, 3}


def claim_much(port: int, data: bytes) -> list[socket.socket]:
    """Open connections that announce a large frame and send a little of it."""
    connections = []
    for _ in range(HELD_OPEN):
        connection = socket.create_connection(("127.0.0.1", port), timeout=5)
        connection.sendall(data + bytes(1000))
        connections.append(connection)
    return connections
