"""Mutated logins against a listener for clients: TCP's bytes before anybody is known.

A stranger sends what clients send before they are known, in any order, cut, flipped, doubled and with lies
about lengths: ApiVersions, both versions of SaslHandshake, tokens of SCRAM, PLAIN and OAUTHBEARER with and
without their frame, and any other request. Between strangers a user logs in and is served, by turns with a
password and with a signed token.

Checked: no stranger is ever known, nothing of theirs but ApiVersions reaches a handler, nothing comes out of
the server or is logged as an error, nothing is held for a connection that is gone, and the user is served.
"""

import base64
import hmac
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from random import Random

import trio
import trio.testing
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kio.schema.errors import ErrorCode

from quorate.broker.access.signed_tokens import SignedTokens
from quorate.broker.apis.api_table import BROKER_APIS
from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, response_type
from quorate.broker.wire.exchanges import RequestContext, Response
from quorate.broker.wire.kafka_server import WireServer
from quorate.broker.wire.listener_security import (
    ListenerSecurity,
    SaslMechanism,
    SecurityProtocol,
    TokenTerms,
)
from quorate.broker.wire.sasl.credentials import ScramCredential
from quorate.broker.wire.sasl.scram import credential_from, proof_of, salted_password
from quorate.runtime import Buffer, Entropy
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.simulation.world.simulated_runtime import InlineCompute, SimulatedWallClock

SCRAM = SaslMechanism.SCRAM_SHA_256
MECHANISMS = (SCRAM, SaslMechanism.SCRAM_SHA_512, SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER)
SALT = b"salt of the fuzzer"
ITERATIONS = 4096
SALTED = salted_password(SCRAM, password=b"secret of ann", salt=SALT, iterations=ITERATIONS)
MOST_FRAMES = 12
USER = "User:ann"
USER_EVERY = 50
"""Strangers between two logins of the user."""
CREDENTIAL = credential_from(SCRAM, salted=SALTED, salt=SALT, iterations=ITERATIONS)


TOKENS = TokenTerms(keys="/jwks.json", issuer="https://issuer.example/", audiences=("quorate",))
CLAIMS = {"iss": TOKENS.issuer, "aud": "quorate", "sub": "ann", "exp": 10_000_000_000}
ISSUER, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([each] * 32)) for each in (1, 2))
"""Who signs the user's tokens, and who has nothing to say."""


def base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def signed_token(sign: Callable[[bytes], bytes], header: object, claims: object) -> bytes:
    text = b".".join(base64url(json.dumps(each).encode()) for each in (header, claims))
    return text + b"." + base64url(sign(text))


TOKEN = signed_token(ISSUER.sign, {"alg": "EdDSA", "kid": "k"}, CLAIMS)


def bearer(signed: bytes) -> bytes:
    return b"n,,\x01auth=Bearer " + signed + b"\x01\x01"


def known_tokens() -> SignedTokens:
    """The tokens of `ISSUER`."""
    disk = SimulatedDisk()
    key = {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": "k",
        "x": base64url(ISSUER.public_key().public_bytes_raw()).decode(),
    }
    with closing(disk.open(TOKENS.keys, create=True)) as file:
        file.append([json.dumps({"keys": [key]}).encode()])
    return SignedTokens(TOKENS, disk=disk, wall_clock=SimulatedWallClock())


class Users:
    """`quorate.broker.wire.sasl.credentials.Credentials` with one user."""

    fake_salt_secret = b"a secret"

    def credential(self, user: str, mechanism: SaslMechanism) -> ScramCredential | None:
        return CREDENTIAL if (user, mechanism) == ("ann", SCRAM) else None


class Handler:
    """Keeps who asked for what."""

    apis = BROKER_APIS

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    async def handle(self, context: RequestContext, request: object) -> Response:
        self.seen.append((str(context.connection.principal), context.api.request_name))
        answer: Response = build(response_type(context.api, context.version))
        return answer


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def request(api: int, version: int, body: bytes) -> bytes:
    flexible = api in APIS and APIS[api].flexible(version)
    head = api.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7\0\2me"
    return framed(head + (b"\0" if flexible else b"") + body)


def shake(name: bytes, version: int) -> bytes:
    return request(ApiKey.SASL_HANDSHAKE, version, len(name).to_bytes(2, "big") + name)


def token(data: bytes, version: int) -> bytes:
    if version == 2:
        length = len(data) + 1
        varint = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
        return request(ApiKey.SASL_AUTHENTICATE, 2, varint + data + b"\0")
    return request(ApiKey.SASL_AUTHENTICATE, version, len(data).to_bytes(4, "big") + data)


HEARTBEAT = request(ApiKey.HEARTBEAT, 0, b"\0\1g\0\0\0\1\0\1m")
VERSIONS = request(ApiKey.API_VERSIONS, 0, b"")


def final(heard: bytes, proof: Callable[[bytes], bytes]) -> bytes:
    """The client's last message to the server's challenge in what was heard, if there is one."""
    at = heard.find(b"r=nonce")
    challenge = heard[at:].partition(b"\0")[0] if at >= 0 else b"r=nonce,s=eA==,i=4096"
    bare = b"c=biws," + challenge.partition(b",")[0]
    return bare + b",p=" + base64.b64encode(proof(b"n=ann,r=nonce," + challenge + b"," + bare))


class Peer:
    """A stream whose other end logs in. Each receive gives a part of what it says."""

    def __init__(self, says: Callable[["Peer"], Iterator[bytes]]) -> None:
        self.heard = b""
        self.frames = 0
        self.closed = False
        self._said = says(self)
        self._rest = b""

    peer = "stranger:1"
    identities = None
    subject = None

    async def handshake(self) -> None:
        return

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.closed:
            return b""
        if not self._rest:
            self._rest = next(self._said, b"")
            self.frames += bool(self._rest)
        part, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return part

    async def receive_into(self, buffer: memoryview) -> int:
        part = await self.receive_some(len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        self.heard += data
        return len(data)

    async def send(self, buffers: Sequence[Buffer]) -> None:
        await trio.lowlevel.checkpoint()
        self.send_nowait(buffers)

    def close(self) -> None:
        self.closed = True


def user(peer: Peer) -> Iterator[bytes]:
    yield shake(b"SCRAM-SHA-256", 1)
    yield token(b"n,,n=ann,r=nonce", 0)
    yield token(final(peer.heard, lambda signed: proof_of(SCRAM, salted=SALTED, signed=signed)[0]), 0)
    yield HEARTBEAT


def user_with_token(peer: Peer) -> Iterator[bytes]:
    yield shake(b"OAUTHBEARER", 1)
    yield token(bearer(TOKEN), 1)
    yield HEARTBEAT


class Stranger:
    """Draws what a stranger says."""

    def __init__(self, draw: Random, counts: Counter[str]) -> None:
        self._draw = draw
        self._counts = counts

    def says(self, peer: Peer) -> Iterator[bytes]:
        draw = self._draw
        plan = draw.choice((
            [self._handshake, self._first, self._final], [self._handshake, self._first, self._final],
            [self._tokens, self._bearer, self._end], [],
        ))  # fmt: skip
        ways = (
            self._handshake,
            self._first,
            self._final,
            self._plain,
            self._bearer,
            self._versions,
            self._other,
            self._raw,
        )
        for _ in range(draw.randrange(MOST_FRAMES) if not plan or draw.random() < 0.3 else 0):
            plan.insert(draw.randrange(len(plan) + 1), draw.choice(ways))
        for way in plan:
            frame = way(peer)
            name = "as it is"
            if draw.random() < 0.2:
                mutation = draw.choice(
                    (self._flipped, self._cut, self._lying, self._doubled, self._grown, self._filled)
                )
                name, frame = mutation.__name__, mutation(frame)
            self._counts[f"{way.__name__} {name}".replace("_", "")] += 1
            yield frame

    def _handshake(self, peer: Peer) -> bytes:
        names = (
            *(each.value.encode() for each in MECHANISMS),
            b"",
            b"GSSAPI",
            b"scram-sha-256",
            b"\xff" * 40,
        )
        return shake(self._draw.choice(names), self._draw.choice((0, 1, 1, 1, 2, -1)))

    def _first(self, peer: Peer) -> bytes:
        if self._draw.random() < 0.6:
            return token(b"n,,n=ann,r=nonce", self._draw.choice((0, 1, 2)))
        first = self._draw.choice((
            b"n,,n=nobody,r=nonce", b"y,,n=ann,r=nonce",
            b"n,a=eve,n=ann,r=nonce", b"n,,n=,r=", b"n,,n=a=2,r=x", b"n,,r=nonce,n=ann", b"p=tls,,n=ann,r=n",
            b"n,,n=ann,r=nonce,m=x", b"n,,n=" + b"a" * 5000 + b",r=nonce", b"n,,n=\xff\xfe,r=nonce", b"",
            b"n,,n=ann,r=nonce," + b"x=y," * 500,
        ))  # fmt: skip
        return self._framed(first)

    def _final(self, peer: Peer) -> bytes:
        wrong = self._draw.randbytes(self._draw.choice((32, 32, 32, 0, 31, 64, 3000)))
        data = final(peer.heard, lambda signed: wrong)
        if self._draw.random() < 0.3:
            data = self._draw.choice((
                data.replace(b"c=biws", b"c=eSws"), data.replace(b"p=", b"p=="), data[: len(data) // 2],
                data + b",p=AAAA", data.replace(b"r=nonce", b"r=other"), b"c=biws,r=,p=", data * 3,
            ))  # fmt: skip
        return self._framed(data)

    def _plain(self, peer: Peer) -> bytes:
        return self._framed(self._draw.choice((
            b"\0ann\0wrong", b"ann\0ann\0wrong", b"\0\0", b"\0ann\0", b"\0ann\0wrong\0", b"\0\xff\0\xff",
            b"\0" + b"a" * 2000 + b"\0b",
        )))  # fmt: skip

    def _tokens(self, peer: Peer) -> bytes:
        return shake(b"OAUTHBEARER", self._draw.choice((0, 1, 1)))

    def _bearer(self, peer: Peer) -> bytes:
        """A token that is nobody's. Most are one step from the user's."""
        draw, (header, claims, signature) = self._draw, TOKEN.split(b".")
        kid, own = {"alg": "EdDSA", "kid": "k"}, base64url(OTHER.public_key().public_bytes_raw()).decode()
        admin = base64url(json.dumps({**CLAIMS, "sub": "admin"}).encode())
        raw = ISSUER.public_key().public_bytes_raw()
        jwk = {"kty": "OKP", "crv": "Ed25519", "x": own}
        signed = draw.choice((
            header + b"." + admin + b"." + signature,
            header + b"." + claims + b".",
            header + b"." + claims + b"." + base64url(draw.randbytes(64)),
            b".".join((base64url(b'{"alg":"none"}'), claims, b"")),
            signed_token(OTHER.sign, kid, CLAIMS),
            signed_token(OTHER.sign, {**kid, "jwk": jwk, "jku": "file:///jwks.json"}, CLAIMS),
            signed_token(lambda text: hmac.digest(raw, text, "sha256"), {"alg": "HS256", "kid": "k"}, CLAIMS),
            signed_token(lambda text: hmac.digest(raw, text, "sha256"), kid, CLAIMS),
            signed_token(ISSUER.sign, kid, {**CLAIMS, "exp": draw.choice((1, None, True, "x", -1e300))}),
            signed_token(ISSUER.sign, kid, {**CLAIMS, "aud": draw.choice((None, [], {}, "other", [7, "x"]))}),
            signed_token(ISSUER.sign, kid, {**CLAIMS, "iss": draw.choice((None, [], "other", 7))}),
            signed_token(ISSUER.sign, kid, {**CLAIMS, "sub": draw.choice((None, [], "", 7, "a\0"))}),
            signed_token(ISSUER.sign, kid, {**CLAIMS, "nbf": 9_999_999_999}),
            signed_token(ISSUER.sign, {**kid, "crit": ["x"]}, CLAIMS),
            signed_token(ISSUER.sign, draw.choice(([], 7, {"alg": ["EdDSA"]}, {**kid, "kid": 7})), CLAIMS),
            signed_token(ISSUER.sign, kid, draw.choice(([], 7, None, "x"))),
            base64url(b"[" * 3000) + b"." + claims + b"." + signature,
            b"...", b"", b"a" * 3500,
        ))  # fmt: skip
        message = bearer(signed)
        if draw.random() < 0.2:
            message = draw.choice((
                message.replace(b"n,,", b"n,a=admin,"), message.replace(b"n,,", b"p=tls,,"), message[:-1],
                message.replace(b"Bearer", b"Basic"), message * 2, b"\x01", message.replace(b"\x01", b"\0"),
                bearer(TOKEN).replace(b"n,,", b"n,a=admin,"), bearer(TOKEN + b"\n"), bearer(TOKEN)[:-1],
            ))  # fmt: skip
        return self._framed(message)

    def _end(self, peer: Peer) -> bytes:
        """What comes after a token was refused. Then nothing helps, not even the user's."""
        if b"invalid_token" not in peer.heard:
            return self._framed(b"\x01")
        return self._framed(self._draw.choice((b"\x01", b"\x01", b"", bearer(TOKEN))))

    def _framed(self, data: bytes) -> bytes:
        version = self._draw.choice((0, 1, 1, 2, None))
        return framed(data) if version is None else token(data, version)

    def _versions(self, peer: Peer) -> bytes:
        return self._draw.choice((VERSIONS, request(18, 9, b""), request(18, 3, b"\2a\2b\0")))

    def _other(self, peer: Peer) -> bytes:
        api = self._draw.choice([key for key in APIS if key < 100] + [-1, 12345 % 32768])
        version = self._draw.randrange(0, 12)
        return request(api & 0x7FFF, version, self._draw.randbytes(self._draw.randrange(200)))

    def _raw(self, peer: Peer) -> bytes:
        return self._draw.choice((
            b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 200,
            b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"quorate\x01", self._draw.randbytes(64),
        ))  # fmt: skip

    def _flipped(self, frame: bytes) -> bytes:
        data = bytearray(frame)
        for _ in range(self._draw.randint(1, 6)):
            data[self._draw.randrange(len(data))] ^= 1 << self._draw.randrange(8)
        return bytes(data)

    def _cut(self, frame: bytes) -> bytes:
        return framed(frame[4 : self._draw.randrange(4, len(frame) + 1)])

    def _lying(self, frame: bytes) -> bytes:
        size = self._draw.choice(
            (0, 1, 7, len(frame), 2 * len(frame), 2**19, 2**20, 2**31 - 1, 2**31, 2**32 - 1)
        )
        return size.to_bytes(4, "big") + frame[4:]

    def _doubled(self, frame: bytes) -> bytes:
        return frame * 2

    def _grown(self, frame: bytes) -> bytes:
        at = self._draw.randrange(4, len(frame) + 1)
        return framed(frame[4:at] + self._draw.randbytes(self._draw.choice((1, 2, 100, 5000))) + frame[at:])

    def _filled(self, frame: bytes) -> bytes:
        """Lengths inside become as large as they can be."""
        data = bytearray(frame)
        at = self._draw.randrange(4, len(data) + 1)
        data[at : at + 4] = self._draw.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\xff\xff"))
        return framed(bytes(data[4:]))


class LoginFuzz:
    """Strangers and a user at one listener, one after the other."""

    def __init__(self, seed: int, frames: int) -> None:
        self._seed = seed
        self._frames = frames
        self.counts: Counter[str] = Counter()
        self.connections = 0
        self.problems: list[str] = []

    def run(self) -> None:
        trio.run(self._run, clock=trio.testing.MockClock(autojump_threshold=0))
        print(
            f"{self.counts.total()} frames of {self.connections} logins that failed: "
            + ", ".join(
                f"{count} {name}" for name, count in sorted(self.counts.items()) if "as it" not in name
            )
        )

    async def _run(self) -> None:
        handler = Handler()
        server = WireServer(
            None,
            handler,
            KafkaServerConfig(),
            security=ListenerSecurity(
                protocol=SecurityProtocol.SASL_PLAINTEXT,
                mechanisms=MECHANISMS,
                max_receive_bytes=4096,
                tokens=TOKENS,
            ),
            credentials=Users(),
            entropy=Entropy(Random(self._seed)),
            compute=InlineCompute(),
            tokens=known_tokens(),
        )
        draw = random.Random(f"{self._seed}/logins")
        logins = 0
        while self.counts.total() < self._frames and not self.problems:
            peer = Peer(Stranger(draw, self.counts).says)
            await self._serve(server, peer)
            self.connections += 1
            if self.connections % USER_EVERY == 0:
                known = Peer(user if logins % 2 else user_with_token)
                await self._serve(server, known)
                logins += 1
                self._judge_user(handler, known)
            strange = [each for each in handler.seen if each[0] != USER and each[1] != "ApiVersions"]
            if strange:
                self.problems.append(f"a stranger was served {strange} after {peer.heard!r:.200}")
            handler.seen.clear()
            now = server.statistics()
            if now.logins.successful != logins:
                self.problems.append(f"a stranger is known: {now.logins} after {logins} logins of the user")
            held = (now.connections, now.request_bytes_held, now.response_bytes_held)
            if any(held):
                self.problems.append(f"{held} is held for connections that are gone")

    async def _serve(self, server: WireServer, peer: Peer) -> None:
        with trio.move_on_after(3600) as patience:
            try:
                await server.serve(peer)
            except Exception as error:
                self.problems.append(f"{error!r} came out of the server after {peer.heard!r:.200}")
        if patience.cancelled_caught:
            self.problems.append("a connection went on for an hour")

    def _judge_user(self, handler: Handler, peer: Peer) -> None:
        if (USER, "Heartbeat") not in handler.seen:
            self.problems.append(f"the user was not served: {peer.heard!r:.300}")
        if ErrorCode.none is not ErrorCode(int.from_bytes(peer.heard[-2:], "big")):
            self.problems.append(f"the user was answered {peer.heard[-20:]!r}")
