"""Mutated TLS against a listener on real sockets: what strangers send before they are known.

Each stranger is a client of OpenSSL's whose bytes are changed on their way: cut, flipped, doubled, swapped,
with other types, versions and lengths of records, with bytes between them, or alerts, or the end. Some show
another authority's certificate, or none. Between strangers a member greets and is answered.

Checked: no stranger is taken for a member, nothing but a network error comes out of a handshake, the member
is answered in time, no connection is left, and memory is bounded.
"""

import random
import resource
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

import trio

from quorate.certs import CertificateFolder
from quorate.runtime.network import Address, Listener, NetworkError, Stream, TlsFiles, TlsTerms, TlsUse
from quorate.runtime.real import RealNetwork
from quorate.types import NodeId

MEMBER_EVERY: Final = 50
"""Strangers between two greetings of a member."""
MEMBER_SECONDS: Final = 10.0
STRANGER_SECONDS: Final = 0.05
"""After that a stranger that waits for an answer gives up."""
GROWTH_MIB: Final = 64.0
TYPES: Final = (20, 21, 22, 23, 24, 0, 255)
"""The types of records: change of cipher, alert, handshake, data, heartbeat, and none."""
Mutation = Callable[[Random, bytes], bytes]


def records_of(flight: bytes) -> list[bytes]:
    """The records of what an end sends at once."""
    found, at = [], 0
    while at + 5 <= len(flight):
        end = at + 5 + int.from_bytes(flight[at + 3 : at + 5], "big")
        found.append(flight[at:end])
        at = end
    return found


def _on_records(change: Callable[[Random, list[bytes]], list[bytes]]) -> Mutation:
    return lambda draw, flight: b"".join(change(draw, records_of(flight)))


def _flipped(draw: Random, flight: bytes) -> bytes:
    data = bytearray(flight)
    for _ in range(draw.randint(1, 8)):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _cut(draw: Random, flight: bytes) -> bytes:
    return flight[: draw.randrange(len(flight))]


def _grown(draw: Random, flight: bytes) -> bytes:
    at = draw.randrange(len(flight) + 1)
    return flight[:at] + draw.randbytes(draw.choice((1, 5, 200, 20_000))) + flight[at:]


def _filled(draw: Random, flight: bytes) -> bytes:
    """Lengths inside become as large as they can be."""
    data = bytearray(flight)
    at = draw.randrange(len(data))
    data[at : at + 3] = draw.choice((b"\xff\xff\xff", b"\x7f\xff\xff", b"\0\0\0", b"\xff\xff"))
    return bytes(data)


def _retyped(draw: Random, records: list[bytes]) -> list[bytes]:
    at = draw.randrange(len(records))
    version = draw.choice((b"\3\1", b"\3\3", b"\3\0", b"\2\0", b"\xff\xff"))
    records[at] = bytes([draw.choice(TYPES)]) + version + records[at][3:]
    return records


def _resized(draw: Random, records: list[bytes]) -> list[bytes]:
    at = draw.randrange(len(records))
    size = draw.choice((0, 1, 4, 16_384, 16_640, 16_641, 65_535, len(records[at])))
    records[at] = records[at][:3] + size.to_bytes(2, "big") + records[at][5:]
    return records


def _swapped(draw: Random, records: list[bytes]) -> list[bytes]:
    draw.shuffle(records)
    return records


def _doubled(draw: Random, records: list[bytes]) -> list[bytes]:
    at = draw.randrange(len(records))
    return [*records[: at + 1], *([records[at]] * draw.choice((1, 1, 2, 40))), *records[at + 1 :]]


def _split(draw: Random, records: list[bytes]) -> list[bytes]:
    """One record becomes many small ones of the same content."""
    at = draw.randrange(len(records))
    head, body, step = records[at][:3], records[at][5:], draw.choice((1, 2, 50))
    pieces = [body[first : first + step] for first in range(0, len(body), step)]
    return [
        *records[:at],
        *(head + len(each).to_bytes(2, "big") + each for each in pieces),
        *records[at + 1 :],
    ]


def _between(draw: Random, records: list[bytes]) -> list[bytes]:
    at = draw.randrange(len(records) + 1)
    extra = draw.choice((
        b"\x15\3\3\0\2\1\0", b"\x15\3\3\0\2\2\x28", b"\x14\3\3\0\1\1", b"\x16\3\3\0\0",
        b"\x17\3\3\0\x20" + draw.randbytes(32), b"\x16\3\3\0\4\0\0\0\0", b"\x18\3\3\0\3\1\xff\xff",
    ))  # fmt: skip
    return [*records[:at], *([extra] * draw.choice((1, 1, 30))), *records[at:]]


def _instead(draw: Random, flight: bytes) -> bytes:
    return draw.choice((
        b"GET / HTTP/1.1\r\n\r\n", b"quorate\1" + draw.randbytes(40), b"\0\0\0\x20\0\x12\0\3" + bytes(24),
        b"\x80\x2e\1\3\1" + draw.randbytes(44), draw.randbytes(draw.choice((1, 5, 100, 5000))),
        b"\x16\3\1\xff\xff\1\xff\xff\xff" + draw.randbytes(2000), b"\x16",
    ))  # fmt: skip


MUTATIONS: Final[tuple[tuple[str, Mutation], ...]] = (
    ("flipped", _flipped), ("cut", _cut), ("grown", _grown), ("filled", _filled), ("instead", _instead),
    ("retyped", _on_records(_retyped)), ("resized", _on_records(_resized)), ("split", _on_records(_split)),
    ("swapped", _on_records(_swapped)), ("doubled", _on_records(_doubled)),
    ("between", _on_records(_between)),
)  # fmt: skip
SPOILING: Final = ("cut", "instead")
"""After these no handshake can be complete. What the others change may be what TLS allows."""


def context_of(files: TlsFiles | None, authorities: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(authorities)
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


class TlsFuzz:
    """Strangers and a member at one listener, one after the other."""

    def __init__(self, seed: int, strangers: int) -> None:
        self._seed = seed
        self._strangers = strangers
        self._ends: list[str] = []
        self._open = 0
        self._ended = trio.Event()
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            trio.run(self._run, Path(folder))
        print(
            f"{self.counts.total()} strangers with other TLS: "
            + ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        )

    async def _run(self, folder: Path) -> None:
        draw = random.Random(f"{self._seed}/tls")
        ours, others = (CertificateFolder(folder / name, now=datetime.now(UTC)) for name in ("a", "b"))
        for each in (ours, others):
            each.create_authority("fuzz")
        files, foreign = ours.create_node(NodeId(1)), others.create_node(NodeId(1))
        contexts = [
            ("nobody", context_of(None, files.authorities)),
            ("another authority", context_of(foreign, files.authorities)),
            ("a member", context_of(files, files.authorities)),
        ]
        for use in (TlsUse.REQUIRED, TlsUse.PREFERRED):
            listener = await RealNetwork().secured(files, TlsTerms(use=use)).listen(Address("127.0.0.1", 0))
            before = 0.0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._serve, listener)
                for number in range(self._strangers // 2):
                    if self.problems:
                        break
                    who, context = draw.choice(contexts)
                    await self._stranger(draw, who, context, listener.address, use)
                    if number % MEMBER_EVERY == 0:
                        await self._member(files, listener.address)
                    if number == 10 * MEMBER_EVERY:
                        before = resident_mib()
                with trio.move_on_after(MEMBER_SECONDS):
                    while self._open:
                        await self._ended.wait()
                if self._open:
                    self.problems.append(f"{self._open} connections of strangers are left")
                nursery.cancel_scope.cancel()
            listener.close()
            grown = resident_mib() - before if before else 0.0
            if grown > GROWTH_MIB:
                self.problems.append(f"memory grew by {grown:.0f} MiB")

    async def _serve(self, listener: Listener) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._answer, await listener.accept())

    async def _answer(self, stream: Stream) -> None:
        self._open += 1
        end = ""
        try:
            with trio.fail_after(2):
                await stream.handshake()
                end = "plain" if stream.identities is None else f"known as {stream.identities}"
                await stream.send([await stream.receive_some() or b"."])
        except (NetworkError, trio.TooSlowError):
            end = end or "refused"
        except Exception as error:
            self.problems.append(f"{error!r} came out of a handshake")
        finally:
            self._ends.append(end)
            self._open -= 1
            stream.close()
            self._ended.set()
            self._ended = trio.Event()

    async def _stranger(
        self, draw: Random, who: str, context: ssl.SSLContext, address: Address, use: TlsUse
    ) -> None:
        """Greet, with one flight of one's own changed."""
        name, mutation = draw.choice(MUTATIONS)
        changed = draw.randrange(2)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing)
        stream = await RealNetwork().connect(address)
        flights, before = 0, len(self._ends)
        with suppress(NetworkError, ssl.SSLError):
            while flights < 4:
                with suppress(ssl.SSLWantReadError):
                    client.do_handshake()
                flight = outgoing.read()
                if flight:
                    if flights == changed:
                        flight = mutation(draw, flight)
                    flights += 1
                    await stream.send([flight])
                with trio.move_on_after(STRANGER_SECONDS) as patience:
                    data = await stream.receive_some()
                if patience.cancelled_caught or not data:
                    break
                incoming.write(data)
        stream.close()
        with trio.move_on_after(MEMBER_SECONDS):
            while len(self._ends) == before:
                await self._ended.wait()
        self.counts[name] += 1
        if len(self._ends) == before:
            self.problems.append(f"{name} of {who}: nothing ended its connection")
            return
        end = self._ends[-1]
        if end.startswith("known") and (who != "a member" or name in SPOILING):
            self.problems.append(f"{name} of {who}: {end}")
        if end == "plain" and use is TlsUse.REQUIRED:
            self.problems.append(f"{name} of {who} is served without TLS")

    async def _member(self, files: TlsFiles, address: Address) -> None:
        try:
            with trio.fail_after(MEMBER_SECONDS):
                stream = await RealNetwork().secured(files).connect(address)
                await stream.send([b"member"])
                answer = await stream.receive_some()
                stream.close()
        except (NetworkError, trio.TooSlowError) as error:
            self.problems.append(f"a member is not answered: {error!r}")
            return
        if answer != b"member":
            self.problems.append(f"a member is answered {answer!r}")


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
