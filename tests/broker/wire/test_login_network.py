"""The client's side of a login, against servers that do not keep to it."""

import base64
import random
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from quorate.broker.wire import login_network
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.login_network import Login, LoginError, LoginNetwork
from quorate.broker.wire.sasl.scram import proof_of, salted_password
from quorate.runtime import Address, Entropy

SCRAM = SaslMechanism.SCRAM_SHA_256
BOB = Login(mechanism=SCRAM, user="bob", password="a password of bob")
SALT = b"salt of a server"


class Server:
    """A stream whose other end answers the handshake, and then as told: a function of the client's token."""

    peer = "server:9092"

    def __init__(self, *answers: Callable[[bytes], bytes]) -> None:
        self._answers = [lambda token: b"\0\0" + b"\0\0\0\0", *map(self._wrapped, answers)]
        self._rest = b""
        self.tokens: list[bytes] = []

    @staticmethod
    def _wrapped(answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def made(token: bytes) -> bytes:
            said = answer(token)
            return b"\0\0\xff\xff" + len(said).to_bytes(4, "big") + said + bytes(8)

        return made

    async def send(self, buffers: list[bytes]) -> None:
        request = b"".join(buffers)
        self.tokens.append(request[4 + 8 + 2 + 7 + 4 :])
        answer = bytes(4) + self._answers.pop(0)(self.tokens[-1])
        self._rest += len(answer).to_bytes(4, "big") + answer

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        part, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return part

    def close(self) -> None:
        pass


class Servers:
    """A network on which the next server answers each connection."""

    def __init__(self, *servers: Server) -> None:
        self._servers = list(servers)

    async def connect(self, address: Address) -> Server:
        return self._servers.pop(0)


def challenge(*, iterations: int = 4096, extends: bool = True) -> Callable[[bytes], bytes]:
    def made(first: bytes) -> bytes:
        nonce = first.partition(b",r=")[2] + (b"more" if extends else b"")
        return b"r=%b,s=%b,i=%d" % (nonce, base64.b64encode(SALT), iterations)

    return made


async def logs_in(*servers: Server) -> None:
    """Bob does, at one after the other."""
    network = LoginNetwork(Servers(*servers), BOB, Entropy(random.Random(1)))  # type: ignore[arg-type]
    for _ in servers:
        await network.connect(Address("server", 9092))


def signed_by(server_password: str) -> Server:
    """A server that knows a password, and proves that."""
    server: Server

    def proves(last: bytes) -> bytes:
        bare, first = server.tokens[1].partition(b"n,,")[2], challenge()(server.tokens[1])
        salted = salted_password(SCRAM, password=server_password.encode(), salt=SALT, iterations=4096)
        signed = b",".join((bare, first, last.partition(b",p=")[0]))
        return b"v=" + base64.b64encode(proof_of(SCRAM, salted=salted, signed=signed)[1])

    server = Server(challenge(), proves)
    return server


async def test_a_server_that_knows_the_password_is_believed() -> None:
    await logs_in(signed_by(BOB.password))


async def test_who_connects_again_derives_no_salted_password_again(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = Mock(wraps=salted_password)
    monkeypatch.setattr(login_network, "salted_password", derived)
    await logs_in(signed_by(BOB.password), signed_by(BOB.password))
    assert [call.kwargs["salt"] for call in derived.mock_calls] == [SALT]


async def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    with pytest.raises(LoginError, match="does not know the password of bob; it may be another server"):
        await logs_in(signed_by("another"))


@pytest.mark.bug("GHSA-2jcm-hq8r-84wx")
@pytest.mark.parametrize("iterations", [1, 4095, 1_000_001, 2**31])
async def test_a_server_may_not_ask_for_few_iterations_or_for_hours_of_them(iterations: int) -> None:
    server = Server(challenge(iterations=iterations))
    with pytest.raises(LoginError, match=f"asks for {iterations} iterations; 4096 to 1000000 are allowed"):
        await logs_in(server)
    assert len(server.tokens) == 2, "no proof is sent"


@pytest.mark.parametrize(
    "answer",
    [
        challenge(extends=False),
        lambda first: b"",
        lambda first: b"e=other-error",
        lambda first: b"r=somebody-else,s=eA==,i=4096",
        lambda first: b"r=" + first.partition(b",r=")[2] + b"x,s=eA==,i=\xff",
    ],
)
async def test_what_is_no_challenge_for_this_login_is_refused(answer: Callable[[bytes], bytes]) -> None:
    server = Server(answer)
    with pytest.raises(LoginError, match=r"no challenge|no message of SCRAM"):
        await logs_in(server)
    assert len(server.tokens) == 2, "no proof is sent"
