"""The login of a connection, byte by byte over the simulated network, in virtual time."""

from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from captured_logs import captured_logs
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from login_listener import SECURITY, Listener, failures
from sasl_clients import PLAIN, SHA_256, SHA_512, ScramClient
from served_wire import Handler, frame, heartbeat_ok, read_until_closed

from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import (
    build,
    encode_entity,
    request_type,
)
from quorate.broker.wire.exchanges import ConnectionContext
from quorate.broker.wire.kafka_server import WireServer
from quorate.broker.wire.listener_security import ListenerSecurity, SaslMechanism
from quorate.broker.wire.principals import Principal
from quorate.broker.wire.sasl import login as login_module
from quorate.broker.wire.sasl.login import LoginCounts

INVALID = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
)


class Recorded:
    """A stream that keeps what is sent."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.sent: list[bytes] = []
        self.receive_some = stream.receive_some

    async def send(self, pieces: Any) -> None:
        self.sent.append(b"".join(pieces))
        await self._stream.send(pieces)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512, PLAIN])
async def test_a_client_logs_in_and_its_requests_have_its_principal(
    autojump_clock: object, mechanism, version: int
) -> None:
    async with Listener() as listener:
        peer = await listener.peer()
        answer = await peer.log_in(mechanism=mechanism, version=version)
        assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
        await peer.heartbeat()
        assert listener.principals == ["User:ann"]
        assert listener.counts == LoginCounts(successful=1)


@pytest.mark.parametrize("mechanism", [SHA_256, PLAIN])
async def test_tokens_after_version_0_of_the_handshake_have_no_header(
    autojump_clock: object, mechanism
) -> None:
    async with Listener() as listener:
        peer = await listener.peer()
        answer = await peer.shake(mechanism, version=0)
        assert list(answer.mechanisms) == ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
        if mechanism is PLAIN:
            await peer.raw(b"\0ann\0secret of ann")
            assert await peer.frame() == b"", "the last answer is sent even if it is empty"
        else:
            client = ScramClient(mechanism, "ann", "secret of ann")
            await peer.raw(client.first())
            await peer.raw(client.final(await peer.frame()))
            assert client.trusts(await peer.frame())
        await peer.heartbeat()
        assert listener.principals == ["User:ann"]


async def test_api_versions_is_answered_once_before_the_login(autojump_clock: object) -> None:
    async with Listener() as listener:
        peer = await listener.peer()
        # One that is too new is answered in version 0, and the client asks again.
        await peer.stream.send([frame(18, 9, 7, b"")])
        refusal = await peer.frame()
        assert refusal[:6] == b"\0\0\0\7\0\x23"
        names = {"client_software_name": "t", "client_software_version": "1"}
        shown = await peer.call(ApiKey.API_VERSIONS, 4, **names)
        ranges = {each.api_key: (each.min_version, each.max_version) for each in shown.api_keys}
        assert (ranges[17], ranges[36]) == ((0, 1), (0, 2))
        assert (await peer.log_in()).error_code is ErrorCode.none
        await peer.call(ApiKey.API_VERSIONS, 4, **names)
        other = await listener.peer()
        await other.call(ApiKey.API_VERSIONS, 4, **names)
        with failures() as reasons, pytest.raises(EOFError):
            await other.call(ApiKey.API_VERSIONS, 4, **names)
        assert reasons == ["API_VERSIONS version 4 came before the login was complete"]


@pytest.mark.parametrize(
    ("user", "password", "mechanism", "reason"),
    [
        ("ann", "secret of bob", SHA_256, "wrong password of user 'ann'"),
        ("eve", "secret of eve", SHA_256, "user 'eve' has no credential for SCRAM-SHA-256"),
        ("bob", "secret of bob", SHA_512, "user 'bob' has no credential for SCRAM-SHA-512"),
        ("ann", "secret of bob", PLAIN, "wrong password of user 'ann'"),
        ("eve", "secret of eve", PLAIN, "user 'eve' has no credential for SCRAM-SHA-256"),
    ],
)
async def test_a_failure_says_the_same_after_the_same_time_whatever_the_reason(
    autojump_clock: object, user: str, password: str, mechanism: SaslMechanism, reason: str
) -> None:
    async with Listener(replace(SECURITY, failure_delay_s=2.5)) as listener:
        peer = await listener.peer()
        with failures() as reasons:
            began = trio.current_time()
            answer = await peer.log_in(user, password, mechanism)
            assert 2.5 <= trio.current_time() - began < 2.6
            assert answer.error_code is ErrorCode.sasl_authentication_failed
            assert answer.error_message == INVALID.replace("SCRAM-SHA-256", mechanism.value)
            assert not answer.auth_bytes
            assert await peer.is_closed()
        assert reasons == [reason]
        assert listener.counts == LoginCounts(failed=1)
        assert not listener.handler.seen


async def test_a_failure_after_version_0_of_the_handshake_closes_without_a_word(
    autojump_clock: object,
) -> None:
    async with Listener() as listener:
        peer = await listener.peer()
        await peer.shake(PLAIN, version=0)
        began = trio.current_time()
        await peer.raw(b"\0ann\0wrong")
        assert await peer.is_closed()
        assert trio.current_time() - began >= SECURITY.failure_delay_s


async def test_nothing_is_read_while_a_failure_waits(autojump_clock: object) -> None:
    async with Listener(replace(SECURITY, failure_delay_s=5.0)) as listener:
        peer = await listener.peer()
        await peer.shake(PLAIN)
        body = b"".join(encode_entity(build(request_type(36, 2), auth_bytes=b"\0ann\0wrong")))
        await peer.stream.send([frame(36, 2, 5, body), frame(12, 4, 6, b"")])
        await trio.sleep(1)
        await peer.stream.send([frame(36, 2, 7, body)])
        assert (await peer.frame())[:4] == b"\0\0\0\5"
        assert await peer.is_closed()
        assert listener.counts == LoginCounts(failed=1)


async def test_a_flood_of_failures_holds_a_bounded_number_of_connections(
    autojump_clock: object, monkeypatch
) -> None:
    monkeypatch.setattr(login_module, "_MOST_DELAYED", 3)
    async with Listener(replace(SECURITY, failure_delay_s=5.0)) as listener:
        took: list[float] = []

        async def fail() -> None:
            peer = await listener.peer()
            began = trio.current_time()
            await peer.log_in("ann", "wrong", PLAIN)
            took.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(fail)
        assert [each >= 5 for each in sorted(took)] == [False, False, True, True, True]
        took.clear()
        await fail()
        assert took[0] >= 5, "those that waited are gone"


async def test_passwords_of_plain_are_checked_a_bounded_number_at_once(
    autojump_clock: object, monkeypatch
) -> None:
    monkeypatch.setattr(login_module, "_MOST_DERIVED", 0)
    async with Listener() as listener:
        with failures() as reasons:
            answer = await (await listener.peer()).log_in(mechanism=PLAIN)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert reasons == ["0 other logins by PLAIN are being checked"]


async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(autojump_clock: object) -> None:
    async with Listener(replace(SECURITY, mechanisms=(SHA_512,))) as listener:
        peer = await listener.peer()
        with failures() as reasons:
            answer = await peer.shake("SCRAM-SHA-256")
        assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
        assert list(answer.mechanisms) == ["SCRAM-SHA-512"]
        assert await peer.is_closed()
        assert reasons == ["mechanism 'SCRAM-SHA-256' is not enabled"]


async def test_messages_of_sasl_out_of_order_are_answered_with_34(autojump_clock: object) -> None:
    async with Listener() as listener:
        peer = await listener.peer()
        answer = await peer.token(b"\0ann\0secret of ann")
        assert answer.error_code is ErrorCode.illegal_sasl_state
        assert await peer.is_closed()
        other = await listener.peer()
        await other.shake()
        assert (await other.shake()).error_code is ErrorCode.illegal_sasl_state
        assert await other.is_closed()
        logged_in = await listener.peer()
        await logged_in.log_in()
        assert (await logged_in.shake()).error_code is ErrorCode.illegal_sasl_state
        answer = await logged_in.token(b"")
        assert answer.error_code is ErrorCode.illegal_sasl_state
        await logged_in.heartbeat()


async def test_a_listener_without_sasl_names_its_apis_and_answers_them_with_34(
    autojump_clock: object,
) -> None:
    async with Listener(ListenerSecurity()) as listener:
        peer = await listener.peer()
        shown = await peer.call(ApiKey.API_VERSIONS, 0)
        assert {17, 36} <= {each.api_key for each in shown.api_keys}
        for version in (0, 1):
            assert (await peer.shake(version=version)).error_code is ErrorCode.illegal_sasl_state
        for version in (0, 1, 2):
            answer = await peer.token(b"\0ann\0secret of ann", version)
            assert answer.error_code is ErrorCode.illegal_sasl_state
        await peer.heartbeat()
        assert listener.principals == ["User:ANONYMOUS"]
        assert listener.counts == LoginCounts()


BEFORE = [
    key for key in APIS if key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
]


@pytest.mark.bug("CVE-2026-27571")
@pytest.mark.bug("GHSA-38x3-76xf-cq45")
@pytest.mark.parametrize("shaken", [False, True])
async def test_no_other_request_is_decoded_before_the_login(
    autojump_clock: object, shaken: bool, monkeypatch
) -> None:
    decoded: list[str] = []

    async def decode(api, version, body):
        decoded.append(api.name)

    monkeypatch.setattr("quorate.broker.wire.connection.decode_request", decode)
    async with Listener() as listener:
        with failures() as reasons:
            for key in BEFORE:
                peer = await listener.peer()
                if shaken:
                    await peer.shake()
                await peer.stream.send([frame(key, APIS[key].max_version, 1, b"")])
                assert await peer.is_closed()
        assert len(reasons) == len(BEFORE)
        assert all("came before the login was complete" in each for each in reasons)
        assert not decoded
        assert not listener.handler.seen


@pytest.mark.bug("CVE-2022-34917")
async def test_a_frame_above_the_limit_closes_before_the_login_and_not_after_it(
    autojump_clock: object,
) -> None:
    async with Listener() as listener:
        large = await listener.peer()
        with captured_logs() as entries:
            await large.stream.send([(5000).to_bytes(4, "big") + b"x"])
            assert await large.is_closed()
            await trio.sleep(1)
        assert [entry["reason"] for entry in entries if entry["event"] == "connection closed"] == [
            "a frame of 5000 bytes, above the 4096 of sasl.server.max.receive.size"
        ]
        peer = await listener.peer()
        await peer.log_in()
        await peer.call(ApiKey.HEARTBEAT, 4, group_id="g" * 5000, generation_id=1, member_id="m")


async def test_a_session_ends_unless_the_client_logs_in_again(autojump_clock: object) -> None:
    async with Listener(replace(SECURITY, session_max_s=60.0)) as listener:
        peer, idle = await listener.peer(), await listener.peer()
        assert (await peer.log_in()).session_lifetime.total_seconds() == 60
        assert (await idle.log_in(mechanism=PLAIN)).session_lifetime.total_seconds() == 60
        assert (await peer.shake()).error_code is ErrorCode.illegal_sasl_state, "too soon"
        await trio.sleep(55)
        await peer.heartbeat()
        assert (await peer.log_in()).session_lifetime.total_seconds() == 60
        await trio.sleep(50)
        await peer.heartbeat()
        with captured_logs() as entries, pytest.raises(EOFError):
            await idle.heartbeat()
        assert [entry["event"] for entry in entries if str(entry["event"]).startswith("login")] == [
            "login expired"
        ]
        await trio.sleep(20)
        # Whoever is late may still log in again, because nothing was asked meanwhile.
        assert (await peer.log_in()).error_code is ErrorCode.none
        await peer.heartbeat()
        assert listener.principals == ["User:ann"] * 3
        assert listener.counts == LoginCounts(successful=2, successful_again=2, expired=1)


@pytest.mark.parametrize(
    ("user", "mechanism", "told"),
    [
        ("bob", SHA_256, "Cannot change principals during re-authentication from User:ann to User:bob"),
        ("ann", SHA_512, "Cannot change the SASL mechanism during re-authentication from SCRAM-SHA-256"),
    ],
)
async def test_a_second_login_is_of_the_same_user_and_mechanism(
    autojump_clock: object, user: str, mechanism: SaslMechanism, told: str
) -> None:
    async with Listener(replace(SECURITY, session_max_s=60.0)) as listener:
        peer = await listener.peer()
        await peer.log_in()
        await trio.sleep(5)
        assert (await peer.shake(mechanism)).error_code is ErrorCode.none
        client = ScramClient(mechanism, user, f"secret of {user}")
        answer = await peer.token(client.first())
        if answer.error_code is ErrorCode.none:
            answer = await peer.token(client.final(answer.auth_bytes))
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert answer.error_message.startswith(told)
        assert await peer.is_closed()
        assert listener.counts == LoginCounts(successful=1, failed_again=1)


async def test_requests_wait_while_a_second_login_is_under_way(autojump_clock: object) -> None:
    async with Listener(replace(SECURITY, session_max_s=60.0)) as listener:
        peer = await listener.peer()
        await peer.log_in()
        await trio.sleep(5)
        await peer.shake()
        with pytest.raises(EOFError):
            await peer.heartbeat()
        assert not listener.handler.seen


@pytest.mark.slow
@given(data=st.data())
def test_hostile_messages_in_any_order_log_nobody_in(data) -> None:
    """Cut, repeated, reordered and made of another login's: no request of theirs is handled."""

    async def run() -> None:
        async with Listener(replace(SECURITY, failure_delay_s=0.0)) as listener:
            recorded = [await recording(listener) for _ in range(2)]
            pool = [each for messages in recorded for each in messages]
            peer = await listener.peer()
            order = data.draw(st.lists(st.sampled_from(pool), max_size=6))
            sent = b"".join(order)
            cut = data.draw(st.integers(0, len(sent)))
            heartbeat = b"".join(
                encode_entity(build(request_type(12, 4), group_id="g", generation_id=1, member_id="hostile"))
            )
            await peer.stream.send(
                [sent[:cut] + data.draw(st.binary(max_size=5)), frame(12, 4, 9, heartbeat)]
            )
            with trio.move_on_after(30):
                await read_until_closed(peer.stream)
            assert all(request.member_id != "hostile" for _, _, request in listener.handler.seen)
            await (await listener.peer()).log_in()

    async def recording(listener: Listener) -> list[bytes]:
        """The frames of a login by SCRAM that succeeded."""
        peer = await listener.peer()
        peer.stream = Recorded(peer.stream)
        await peer.log_in()
        return peer.stream.sent

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_server_with_sasl_needs_what_logins_need() -> None:
    with pytest.raises(ValueError, match="needs credentials, entropy and compute"):
        WireServer(None, Handler(), KafkaServerConfig(), security=SECURITY)


async def test_connections_are_closed_by_who_has_logged_in_on_them(autojump_clock: object) -> None:
    async with Listener() as listener:
        ann, ann_by_plain, bob, nobody = [await listener.peer() for _ in range(4)]
        await ann.log_in()
        await ann_by_plain.log_in(mechanism=PLAIN)
        await bob.log_in("bob", "secret of bob")

        def by_scram(context: ConnectionContext) -> bool:
            return context.principal == Principal("User", "ann") and context.mechanism is SHA_256

        assert listener.server.close_where(by_scram) == 1
        assert await ann.is_closed()
        for peer in (ann_by_plain, bob):
            await peer.heartbeat()
        await nobody.log_in()
        assert listener.principals == ["User:ann", "User:bob"]


async def test_what_came_before_the_end_of_a_connection_is_not_handled(autojump_clock: object) -> None:
    async with Listener() as listener:
        peer = await listener.peer()
        await peer.log_in()

        def closes(context: object, request: object) -> Any:
            listener.server.close_where(lambda each: True)
            return heartbeat_ok(context, request)  # type: ignore[arg-type]

        listener.handler.act["heartbeat"] = closes
        values = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        body = b"".join(encode_entity(build(request_type(ApiKey.HEARTBEAT, 4), **values)))
        await peer.stream.send([frame(ApiKey.HEARTBEAT, 4, number, body) for number in range(5)])
        assert await peer.is_closed()
        assert len(listener.handler.seen) == 1


@pytest.mark.bug("etcd auth design")
@pytest.mark.parametrize("mechanism", [SHA_256, PLAIN])
async def test_a_user_that_is_removed_during_a_login_is_refused(autojump_clock: object, mechanism) -> None:
    async with Listener() as listener:
        peer = await listener.peer()
        await peer.shake(mechanism)
        if mechanism is PLAIN:
            held = listener.users.credential
            checks = iter((True, True, False, False, False))  # the check, and then the look after it
            listener.users.credential = (  # type: ignore[method-assign]
                lambda user, each: held(user, each) if next(checks) else None
            )
            answer = await peer.token(b"\0ann\0secret of ann")
        else:
            client = ScramClient(mechanism, "ann", "secret of ann")
            first = await peer.token(client.first())
            del listener.users.held["ann", SHA_256]
            answer = await peer.token(client.final(first.auth_bytes))
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert await peer.is_closed()
