"""Logins by OAUTHBEARER: the form of its messages, the dialogue of RFC 7628, and how long they last."""

from dataclasses import replace
from typing import Any

import pytest
import trio
from captured_logs import captured_logs
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from login_listener import Listener, Peer, failures
from sasl_clients import SHA_256
from served_wire import Handler
from signed_tokens import INVALID, TERMS, Key, bearer, claims_at, jwks, write_jwks

from quorate.broker.access.scram_credentials import has_password
from quorate.broker.access.signed_tokens import SignedTokens, tokens_of
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.wire.kafka_server import WireServer
from quorate.broker.wire.listener_security import ListenerSecurity, SaslMechanism, SecurityProtocol
from quorate.broker.wire.sasl import login as login_module
from quorate.broker.wire.sasl.credentials import LoginRefusedError, TokenUser
from quorate.broker.wire.sasl.login import LoginCounts
from quorate.broker.wire.sasl.oauthbearer import BearerClaim, TokenRefusedError, parse_bearer
from quorate.runtime import NetworkError
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.simulation.world.simulated_runtime import SimulatedWallClock

OAUTHBEARER = SaslMechanism.OAUTHBEARER
SECURITY = ListenerSecurity(
    protocol=SecurityProtocol.SASL_PLAINTEXT,
    mechanisms=(OAUTHBEARER, SHA_256),
    tokens=TERMS,
    max_receive_bytes=50_000,
)
KEY = Key("k1")


class TokenListener(Listener):
    def __init__(self, security: ListenerSecurity = SECURITY) -> None:
        self.disk = SimulatedDisk()
        write_jwks(self.disk, jwks(KEY))
        self.clock = SimulatedWallClock()
        super().__init__(security, tokens=SignedTokens(TERMS, disk=self.disk, wall_clock=self.clock))

    def message(self, *, key: Key = KEY, **changed: object) -> bytes:
        now_s = self.clock.now_ms() / 1000
        if "lasts" in changed:
            changed["exp"] = now_s + changed.pop("lasts")  # type: ignore[operator]
        return bearer(key.token(claims_at(now_s, **changed)))


async def log_in(peer: Peer, message: bytes) -> Any:
    assert (await peer.shake(OAUTHBEARER)).error_code is ErrorCode.none
    return await peer.token(message)


def lifetime_s(answer: Any) -> float:
    seconds: float = answer.session_lifetime.total_seconds()
    return seconds


async def is_refused(peer: Peer, message: bytes) -> None:
    """The dialogue of RFC 7628, section 3.2.3."""
    answer = await log_in(peer, message)
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, INVALID)
    answer = await peer.token(b"\x01")
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == INVALID.decode()
    assert not answer.auth_bytes
    assert await peer.is_closed()


@pytest.mark.parametrize("version", [0, 1])
async def test_a_token_is_a_login_and_requests_have_its_user(autojump_clock: object, version: int) -> None:
    async with TokenListener() as listener:
        peer = await listener.peer()
        await peer.shake(OAUTHBEARER, version=version)
        if version:
            answer = await peer.token(listener.message())
            assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, b"")
        else:
            await peer.raw(listener.message())
            assert await peer.frame() == b""
        await peer.heartbeat()
        assert listener.principals == ["User:ann"]
        assert listener.counts == LoginCounts(successful=1)


async def test_a_refused_token_is_answered_as_rfc_7628_says_after_the_same_time(
    autojump_clock: object,
) -> None:
    async with TokenListener(replace(SECURITY, failure_delay_s=2.5)) as listener:
        for message, why in (
            (listener.message(lasts=-5), "the token ended 5 s ago"),
            (listener.message(key=Key("k1")), "the signature of the token is not of key 'k1'"),
        ):
            peer = await listener.peer()
            began = trio.current_time()
            with failures() as reasons, captured_logs() as entries:
                await is_refused(peer, message)
            assert 2.5 <= trio.current_time() - began < 2.7
            reasons += [str(each["reason"]) for each in entries if each["event"] == "login failed"]
            assert reasons == [why], "once"
            assert message.decode().split(".")[2] not in str(entries)
        assert listener.counts == LoginCounts(failed=2)
        assert not listener.handler.seen


async def test_a_refused_token_after_version_0_of_the_handshake_is_answered_too(
    autojump_clock: object,
) -> None:
    async with TokenListener() as listener:
        peer = await listener.peer()
        await peer.shake(OAUTHBEARER, version=0)
        await peer.raw(listener.message(aud="another"))
        assert await peer.frame() == INVALID
        await peer.raw(b"\x01")
        assert await peer.is_closed()
        assert listener.counts == LoginCounts(failed=1)


async def test_nothing_comes_after_a_refused_token_not_even_a_good_one(autojump_clock: object) -> None:
    async with TokenListener() as listener:
        again = await listener.peer()
        await log_in(again, listener.message(lasts=-5))
        answer = await again.token(listener.message())
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert await again.is_closed()
        asks = await listener.peer()
        await log_in(asks, listener.message(lasts=-5))
        with pytest.raises(EOFError):
            await asks.heartbeat()
        shakes = await listener.peer()
        await log_in(shakes, listener.message(lasts=-5))
        with pytest.raises(EOFError):
            await shakes.shake(OAUTHBEARER)
        broken = await listener.peer()
        await log_in(broken, listener.message(lasts=-5))
        await broken.raw(b"\0")
        assert await broken.is_closed()
        assert listener.counts == LoginCounts(failed=4)
        assert not listener.handler.seen


async def test_another_authorization_id_than_the_tokens_user_is_refused(autojump_clock: object) -> None:
    async with TokenListener() as listener:
        token = KEY.token(claims_at(listener.clock.now_ms() / 1000, sub="a,b=c"))
        answer = await log_in(await listener.peer(), bearer(token, authzid="a=2Cb=3Dc"))
        assert answer.error_code is ErrorCode.none
        peer = await listener.peer()
        answer = await log_in(peer, bearer(token, authzid="admin"))
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert "authorization id" in answer.error_message
        assert await peer.is_closed()


async def test_a_login_lasts_as_long_as_its_token_unless_there_is_another(autojump_clock: object) -> None:
    async with TokenListener() as listener:
        peer, idle = await listener.peer(), await listener.peer()
        assert lifetime_s(await log_in(peer, listener.message())) == pytest.approx(60, abs=0.1)
        await log_in(idle, listener.message())
        await trio.sleep(55)
        await peer.heartbeat()
        answer = await log_in(peer, listener.message(lasts=100))
        assert lifetime_s(answer) == pytest.approx(100, abs=0.1)
        await trio.sleep(10)
        await peer.heartbeat()
        with captured_logs() as entries, pytest.raises(EOFError):
            await idle.heartbeat()
        assert [each["event"] for each in entries if str(each["event"]).startswith("login")] == [
            "login expired"
        ]
        await trio.sleep(95)
        with pytest.raises(EOFError):
            await peer.heartbeat()
        assert listener.counts == LoginCounts(successful=2, successful_again=1, expired=2)


async def test_of_the_tokens_end_and_the_listeners_limit_the_earlier_one_counts(
    autojump_clock: object,
) -> None:
    async with TokenListener(replace(SECURITY, session_max_s=30.0)) as listener:
        answer = await log_in(await listener.peer(), listener.message(lasts=60))
        assert lifetime_s(answer) == 30
        answer = await log_in(await listener.peer(), listener.message(lasts=20))
        assert lifetime_s(answer) == pytest.approx(20, abs=0.1)


async def test_a_login_that_is_about_to_end_is_not_told_to_last_forever(
    autojump_clock: object, monkeypatch
) -> None:
    monkeypatch.setattr(SignedTokens, "check_of", lambda *_: lambda: TokenUser("ann", 0.0001))
    async with TokenListener() as listener:
        answer = await log_in(await listener.peer(), listener.message())
        assert lifetime_s(answer) == 0.001


async def test_a_second_login_is_of_the_same_user_and_a_refused_one_ends_the_connection(
    autojump_clock: object,
) -> None:
    async with TokenListener() as listener:
        peer, other = await listener.peer(), await listener.peer()
        for each in (peer, other):
            await log_in(each, listener.message())
        await trio.sleep(5)
        answer = await log_in(peer, listener.message(sub="bob"))
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert "Cannot change principals during re-authentication" in answer.error_message
        assert await peer.is_closed()
        await is_refused(other, listener.message(lasts=-1))
        assert listener.counts == LoginCounts(successful=2, failed_again=2)


async def test_a_key_that_is_taken_out_of_the_file_lets_nobody_in_any_more(autojump_clock: object) -> None:
    async with TokenListener() as listener:
        await log_in(await listener.peer(), listener.message())
        new = Key("k2")
        write_jwks(listener.disk, jwks(new))
        await trio.sleep(1)
        await is_refused(await listener.peer(), listener.message())
        assert (await log_in(await listener.peer(), listener.message(key=new))).auth_bytes == b""


@pytest.mark.parametrize(("size", "closes"), [(40_000, False), (1_000_000, True)])
async def test_a_token_of_a_megabyte_is_not_looked_at(
    autojump_clock: object, size: int, closes: bool, monkeypatch
) -> None:
    monkeypatch.setattr(SignedTokens, "check_of", None)
    async with TokenListener() as listener:
        peer = await listener.peer()
        await peer.shake(OAUTHBEARER)
        if closes:
            with pytest.raises(NetworkError):
                await peer.token(bearer("a" * size))
            return
        with failures() as reasons:
            answer = await peer.token(bearer("a" * size))
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert reasons == ["the message of OAUTHBEARER has 40018 bytes, above 16384"]


async def test_tokens_are_checked_a_bounded_number_at_once(autojump_clock: object, monkeypatch) -> None:
    monkeypatch.setattr(login_module, "_MOST_DERIVED", 0)
    async with TokenListener() as listener:
        with failures() as reasons:
            await is_refused(await listener.peer(), listener.message())
        assert reasons == ["0 other logins by OAUTHBEARER are being checked"]


async def test_scram_beside_it_lasts_as_long_as_the_connection(autojump_clock: object) -> None:
    async with TokenListener() as listener:
        peer = await listener.peer()
        assert (await peer.log_in()).session_lifetime.total_seconds() == 0
        await trio.sleep(500)
        await peer.heartbeat()


def test_a_server_with_oauthbearer_needs_the_keys_of_tokens() -> None:
    with pytest.raises(ValueError, match="has OAUTHBEARER, so it needs tokens"):
        WireServer(
            None, Handler(), KafkaServerConfig(), security=SECURITY,
            **dict.fromkeys(("credentials", "entropy", "compute"), object()),  # type: ignore[arg-type]
        )  # fmt: skip
    assert tokens_of({"OPEN": ListenerSecurity()}, object()) == {}  # type: ignore[arg-type]


def test_a_user_of_tokens_has_no_password_that_could_be_removed() -> None:
    assert has_password(MetadataImage(), "ann", OAUTHBEARER)


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        (bearer("a.b.c"), BearerClaim("", "a.b.c")),
        (bearer("a.b-_.c", authzid="ann"), BearerClaim("ann", "a.b-_.c")),
        (bearer("a.b.c", extensions="traceId=1 2\x01host=x\x01"), BearerClaim("", "a.b.c")),
        (b"n,,\x01host=x\x01auth=bearer  a.b.c\x01\x01", BearerClaim("", "a.b.c")),
        (b"n,a=a=2Cb=3D\xc3\xa9,\x01auth=BEARER a.b.c\x01\x01", BearerClaim("a,b=\u00e9", "a.b.c")),
    ],
)
def test_messages_of_clients_are_taken_apart(message: bytes, claim: BearerClaim) -> None:
    assert parse_bearer(message) == claim
    assert claim.token not in repr(claim)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "is malformed"),
        (b"\x01", "is malformed"),
        (b"n,,\x01\x01", "is malformed"),
        (b"n,,\x01auth=Bearer a.b.c\x01", "is malformed"),
        (b"n,,\x01auth=Bearer a.b.c\x01\x01\x01", "is malformed"),
        (b"n,,auth=Bearer a.b.c\x01\x01", "is malformed"),
        (b"y,,\x01auth=Bearer a.b.c\x01\x01", "is malformed"),
        (b"p=tls,,\x01auth=Bearer a.b.c\x01\x01", "is malformed"),
        (b"n,a=,\x01auth=Bearer a.b.c\x01\x01", "is malformed"),
        (b"n,a=x,y,\x01auth=Bearer a.b.c\x01\x01", "is malformed"),
        (b"n,,\x01auth=Bearer a.b.c\x00\x01\x01", "is malformed"),
        (b"n,,\x01auth=Bearer a.b.c\x01h0st=x\x01\x01", "is malformed"),
        (b"n,,\x01host=x\x01\x01", "has no token"),
        (b"n,,\x01auth=Bearer\x01\x01", "has no token"),
        (b"n,,\x01auth=Basic a.b.c\x01\x01", "has no token"),
        (b"n,,\x01auth=Bearer a.b.c d\x01\x01", "has no token"),
        (b"n,,\x01auth=Bearer a.b.c\n\x01\x01", "has no token"),
        (b"n,,\x01auth=Bearer a+b/c==\x01\x01", "has no token"),
        (b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer d.e.f\x01\x01", "has b'auth' twice"),
        (b"n,a=\xff,\x01auth=Bearer a.b.c\x01\x01", "the authorization id is not UTF-8"),
    ],
)
def test_a_message_out_of_form_is_refused_at_once(message: bytes, why: str) -> None:
    with pytest.raises(LoginRefusedError) as refused:
        parse_bearer(message)
    assert why in str(refused.value)
    assert not isinstance(refused.value, TokenRefusedError), "there is no dialogue about a token"
    assert b"a.b.c" not in str(refused.value).encode()


@given(st.binary(max_size=200) | st.binary(max_size=50).map(lambda each: bearer("a.b.c") + each))
def test_any_bytes_are_a_claim_or_are_refused(message: bytes) -> None:
    try:
        claim = parse_bearer(message)
    except LoginRefusedError:
        return
    assert claim == BearerClaim("", "a.b.c")
