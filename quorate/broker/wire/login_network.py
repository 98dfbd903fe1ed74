"""Connections that have logged in by SASL before anything else is sent: for commands and readers.

Sources: KIP-43, KIP-152, KIP-84, RFC 5802.
"""

import base64
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final

from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.principals import Principal
from quorate.broker.wire.sasl.scram import proof_of, salted_password
from quorate.runtime import (
    MEMBERS,
    Address,
    CertificateEnd,
    Entropy,
    Listener,
    Network,
    NetworkError,
    Stream,
    TlsFiles,
    TlsTerms,
)

_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36
_FRAME_MAX: Final = 524_288
_ITERATIONS: Final = (4096, 1_000_000)
"""The fewest and the most that a server may ask for: each costs a microsecond (GHSA-2jcm-hq8r-84wx)."""


class LoginError(NetworkError):
    """The server did not let this client in, or did not prove that it knows the password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The name and the password of a client."""

    mechanism: SaslMechanism
    user: str
    password: str = field(repr=False)


class LoginNetwork:
    """`quorate.runtime.network.Network` whose connections have logged in."""

    def __init__(self, network: Network, login: Login, entropy: Entropy) -> None:
        self._network = network
        self._login = login
        self._entropy = entropy
        # Of the last salt: who connects again does not hold the loop for milliseconds again (RFC 5802, 9).
        self._salted = lru_cache(maxsize=1)(
            partial(salted_password, login.mechanism, password=login.password.encode())
        )

    @property
    def identities(self) -> tuple[str, ...] | None:
        return self._network.identities

    @property
    def certificates(self) -> Sequence[CertificateEnd]:
        return self._network.certificates

    async def connect(self, address: Address) -> Stream:
        stream = await self._network.connect(address)
        try:
            await self._log_in(stream)
        except BaseException:
            stream.close()
            raise
        return stream

    async def listen(self, address: Address) -> Listener:
        return await self._network.listen(address)

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> Network:
        return LoginNetwork(self._network.secured(files, terms), self._login, self._entropy)

    async def _log_in(self, stream: Stream) -> None:
        login, entropy = self._login, self._entropy
        name = login.mechanism.value.encode()
        answer = await _ask(stream, _HANDSHAKE, struct.pack(">h", len(name)) + name)
        if len(answer) < 2 or answer[:2] != b"\x00\x00":
            raise LoginError(
                f"{stream.peer} does not take {login.mechanism.value}, or has no SASL; "
                "compare sasl.mechanism with sasl.enabled.mechanisms of the listener"
            )
        if login.mechanism is SaslMechanism.PLAIN:
            await _exchange(stream, login, f"\0{login.user}\0{login.password}".encode())
            return
        nonce = base64.b64encode(entropy.uuid().bytes + entropy.uuid().bytes).decode().rstrip("=")
        escaped = login.user.replace("=", "=3D").replace(",", "=2C")
        bare = f"n={escaped},r={nonce}"
        first = await _exchange(stream, login, f"n,,{bare}".encode())
        proof, signature = self._prove(stream, bare, nonce, first)
        last = await _exchange(stream, login, proof)
        if not hmac.compare_digest(_fields(stream, last).get("v", ""), signature):
            raise LoginError(
                f"{stream.peer} does not know the password of {login.user}; it may be another server"
            )

    def _prove(self, stream: Stream, bare: str, nonce: str, first: bytes) -> tuple[bytes, str]:
        """Return the client's last message, and what the server has to answer with."""
        mechanism = self._login.mechanism
        asked = _fields(stream, first)
        both, salt, iterations = asked.get("r", ""), asked.get("s", ""), asked.get("i", "")
        if not both.startswith(nonce) or len(both) == len(nonce) or not salt or not iterations.isdecimal():
            raise LoginError(f"{stream.peer} answered {mechanism.value} with no challenge")
        if not _ITERATIONS[0] <= int(iterations) <= _ITERATIONS[1]:
            raise LoginError(f"{stream.peer} asks for {iterations} iterations; {_ITERATIONS[0]} to "
                             f"{_ITERATIONS[1]} are allowed")  # fmt: skip
        try:
            salt_bytes = base64.b64decode(salt, validate=True)
        except ValueError:
            raise LoginError(f"{stream.peer} sent a salt that is no base64") from None
        without_proof = f"c=biws,r={both}"
        signed = f"{bare},{first.decode()},{without_proof}".encode()
        proof, signature = proof_of(
            mechanism, salted=self._salted(salt=salt_bytes, iterations=int(iterations)), signed=signed
        )
        last = f"{without_proof},p={base64.b64encode(proof).decode()}"
        return last.encode(), base64.b64encode(signature).decode()


def _fields(stream: Stream, message: bytes) -> dict[str, str]:
    try:
        parts = [each.partition("=") for each in message.decode("ascii").split(",")]
    except UnicodeDecodeError:
        raise LoginError(f"{stream.peer} sent no message of SCRAM") from None
    return {name: value for name, _, value in parts}


async def _exchange(stream: Stream, login: Login, token: bytes) -> bytes:
    """Send a token by SaslAuthenticate, and return the server's."""
    answer = await _ask(stream, _AUTHENTICATE, struct.pack(">i", len(token)) + token)
    try:
        error, length = struct.unpack_from(">hh", answer)
        at = 4
        message = ""
        if length >= 0:
            message = answer[at : at + length].decode(errors="replace")
            at += length
        (size,) = struct.unpack_from(">i", answer, at)
    except struct.error:
        raise LoginError(f"{stream.peer} sent no answer of SaslAuthenticate") from None
    if error:
        raise LoginError(
            f"{stream.peer} refused {Principal('User', login.user)}: {message or f'error {error}'}; "
            "compare the name, the password and the mechanism"
        )
    return answer[at + 4 : at + 4 + max(size, 0)]


async def _ask(stream: Stream, api_key: int, body: bytes) -> bytes:
    """Send a request in version 1, and return its answer without its header."""
    client = b"quorate"
    request = struct.pack(">hhih", api_key, 1, 0, len(client)) + client + body
    await stream.send([struct.pack(">i", len(request)) + request])
    size = int.from_bytes(await _exactly(stream, 4), "big", signed=True)
    if not 4 <= size <= _FRAME_MAX:
        raise LoginError(
            f"{stream.peer} speaks another protocol; compare security.protocol with the listener"
        )
    return (await _exactly(stream, size))[4:]


async def _exactly(stream: Stream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = await stream.receive_some(size - len(data))
        if not part:
            raise LoginError(
                f"{stream.peer} closed the connection before a login; compare security.protocol and the "
                "password"
            )
        data += part
    return data
