"""The server's side of SCRAM and PLAIN, against a client written from RFC 5802."""

import base64
import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sasl_clients import SHA_256, SHA_512, ScramClient, Users, made_credential

from quorate.broker.wire.sasl.credentials import LoginRefusedError
from quorate.broker.wire.sasl.plain import check_of, parse_plain
from quorate.broker.wire.sasl.scram import (
    ScramExchange,
    credential_from,
    digest_bytes,
    salted_password,
    server_nonce,
)
from quorate.runtime import Entropy


def exchange(users: Users, mechanism=SHA_256, nonce: str = "snonce") -> ScramExchange:
    return ScramExchange(mechanism, users, server_nonce=nonce)


@pytest.fixture
def users() -> Users:
    made = Users()
    made.add("ann", SHA_256, "secret of ann")
    made.add("a,b=c", SHA_256, "secret of abc")
    return made


def log_in(users: Users, client: ScramClient, mechanism=SHA_256, **final: str) -> ScramExchange:
    """Raises `LoginRefusedError`."""
    server = exchange(users, mechanism)
    assert client.trusts(server.take_final(client.final(server.take_first(client.first()), **final)))
    return server


def refused(users: Users, client: ScramClient, mechanism=SHA_256, **final: str) -> LoginRefusedError:
    with pytest.raises(LoginRefusedError) as refusal:
        log_in(users, client, mechanism, **final)
    return refusal.value


def test_the_example_of_rfc_7677_is_answered_byte_for_byte() -> None:
    users = Users()
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password(SHA_256, password=b"pencil", salt=salt, iterations=4096)
    users.held["user", SHA_256] = credential_from(SHA_256, salted=salted, salt=salt, iterations=4096)
    server = exchange(users, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert server.take_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.take_final(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_credential_is_derived_as_a_client_would(mechanism) -> None:
    salted = salted_password(mechanism, password=b"p\xc3\xa4ss", salt=b"salt", iterations=5000)
    assert len(salted) == digest_bytes(mechanism)
    derived = credential_from(mechanism, salted=salted, salt=b"salt", iterations=5000)
    assert derived == made_credential(mechanism, "päss", salt=b"salt", iterations=5000)


def test_neither_a_credential_nor_a_claim_shows_a_secret(users: Users) -> None:
    credential = users.held["ann", SHA_256]
    for secret in (credential.salt, credential.stored_key, credential.server_key):
        assert repr(secret)[2:-1] not in repr(credential)
    assert "hunter2" not in repr(parse_plain(b"\0ann\0hunter2"))


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_user_logs_in_by_the_password_and_by_no_other(mechanism) -> None:
    users = Users()
    users.add("ann", mechanism, "right", iterations=6000)
    assert log_in(users, ScramClient(mechanism, "ann", "right"), mechanism).user == "ann"
    assert "wrong password of user 'ann'" in str(
        refused(users, ScramClient(mechanism, "ann", "wrong"), mechanism)
    )


def test_names_are_escaped(users: Users) -> None:
    assert log_in(users, ScramClient(SHA_256, "a,b=c", "secret of abc")).user == "a,b=c"


@pytest.mark.bug("CVE-2017-12610")
def test_an_authorization_id_must_be_the_user(users: Users) -> None:
    assert log_in(users, ScramClient(SHA_256, "ann", "secret of ann", authzid="ann")).user == "ann"
    refusal = refused(users, ScramClient(SHA_256, "ann", "secret of ann", authzid="root"))
    assert refusal.told is not None
    assert "different from username" in refusal.told


def test_an_unknown_user_looks_like_a_known_one_until_the_proof(users: Users) -> None:
    firsts = [exchange(users).take_first(ScramClient(SHA_256, "bob", "x").first()) for _ in range(2)]
    assert firsts[0] == firsts[1], "the salt is always the same"
    other = exchange(users).take_first(ScramClient(SHA_256, "cat", "x").first())
    assert other != firsts[0]
    assert b",i=4096" in other
    users.fake_salt_secret = b"of another cluster"
    assert exchange(users).take_first(ScramClient(SHA_256, "bob", "x").first()) != firsts[0]
    refusal = refused(users, ScramClient(SHA_256, "bob", "x"))
    assert "has no credential" in str(refusal)
    assert refusal.told is None, "the client hears what it hears of a wrong password"
    assert refused(users, ScramClient(SHA_256, "ann", "x")).told is None


def test_no_password_at_all_fits_a_user_that_does_not_exist(users: Users) -> None:
    """Not even for who knows the secret, and with it the keys of the user."""
    server = exchange(users)
    server.take_first(ScramClient(SHA_256, "bob", "x").first())
    assert server._known is not None
    assert server._known.refusal is not None
    object.__setattr__(server._known, "credential", made_credential(SHA_256, "x"))
    client = ScramClient(SHA_256, "bob", "x")
    first = b"r=cnoncesnonce,s=" + base64.b64encode(b"salt of a test") + b",i=4096"
    server._first = first
    with pytest.raises(LoginRefusedError, match="has no credential"):
        server.take_final(client.final(first))


def test_a_credential_with_few_iterations_is_not_used(users: Users) -> None:
    users.add("old", SHA_256, "secret of old", iterations=4095)
    refusal = refused(users, ScramClient(SHA_256, "old", "secret of old"))
    assert "has 4095 iterations, below 4096; set the password again" in str(refusal)


@pytest.mark.bug("CVE-2024-56128")
def test_the_final_nonce_is_the_one_of_this_login(users: Users) -> None:
    client = ScramClient(SHA_256, "ann", "secret of ann")
    recorded = client.final(exchange(users).take_first(client.first()))
    again = exchange(users, nonce="another")
    again.take_first(client.first())
    with pytest.raises(LoginRefusedError, match="final nonce"):
        again.take_final(recorded)


@pytest.mark.bug("librdkafka PR 4895")
@pytest.mark.bug("KAFKA-13464")
def test_a_client_that_sends_its_nonce_twice_logs_in_and_no_other_end_does(users: Users) -> None:
    log_in(users, ScramClient(SHA_256, "ann", "secret of ann", doubles_nonce=True))
    for wrong in ("xcnoncesnonce", "snonce", "cnoncecnoncecnoncesnonce", "cnoncesnoncex", "cnonce"):
        client = ScramClient(SHA_256, "ann", "secret of ann")
        server = exchange(users)
        final = client.final(server.take_first(client.first()))
        with pytest.raises(LoginRefusedError, match="final nonce"):
            server.take_final(final.replace(b"r=cnoncesnonce", b"r=" + wrong.encode()))


def test_the_channel_binding_is_the_header_of_the_first_message(users: Users) -> None:
    assert "channel binding" in str(
        refused(users, ScramClient(SHA_256, "ann", "secret of ann"), binding="eSws")
    )
    with_authzid = ScramClient(SHA_256, "ann", "secret of ann", authzid="ann")
    assert "channel binding" in str(refused(users, with_authzid, binding="biws"))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"y,,n=ann,r=x",
        b"p=tls-unique,,n=ann,r=x",
        b"n,,n=ann",
        b"n,,n=,r=x",
        b"n,,n=ann,r=",
        b"n,,n=a=nn,r=x",
        b"n,,n=a\0nn,r=x",
        b"n,,m=new,n=ann,r=x",
        b"n,,n=ann,r=x,m=new",
        b"n,,n=ann,r=x,tokenauth=true",
        b"n,,n=ann,r=x,",
        b"n,,n=\xff,r=x",
        b"n,,n=ann,r=x\n",
        b"n,,n=ann,r=" + b"x" * 5000,
    ],
)
def test_a_first_message_out_of_form_is_refused(users: Users, message: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        exchange(users).take_first(message)


def test_an_extension_that_is_not_mandatory_is_signed_and_passed_over(users: Users) -> None:
    client = ScramClient(SHA_256, "ann", "secret of ann", extensions=",z=1,a=2")
    log_in(users, client, extensions=",y=3")
    client = ScramClient(SHA_256, "ann", "secret of ann")
    assert "demands an extension" in str(refused(users, client, extensions=",m=3"))


@given(at=st.integers(0, 200), put=st.binary(max_size=3), cut=st.integers(0, 3), final=st.booleans())
def test_a_damaged_message_never_logs_anybody_in(at: int, put: bytes, cut: int, final: bool) -> None:
    users = Users()
    users.held["ann", SHA_256] = CREDENTIAL
    client, server = ScramClient(SHA_256, "ann", "p"), exchange(users)

    def damaged(message: bytes) -> bytes:
        place = at % len(message)
        return message[:place] + put + message[place + cut :]

    first = client.first()
    sent_first = first if final else damaged(first)
    try:
        good = client.final(server.take_first(sent_first))
    except (LoginRefusedError, AssertionError):
        assert sent_first != first
        return
    sent = damaged(good) if final else good
    if (sent_first, sent) == (first, good):
        return
    with pytest.raises(LoginRefusedError):
        server.take_final(sent)


CREDENTIAL = made_credential(SHA_256, "p")


@given(message=st.binary(max_size=60))
def test_any_bytes_are_refused_or_taken_and_nothing_else(message: bytes) -> None:
    for take in (exchange(Users()).take_first, parse_plain):
        with contextlib.suppress(LoginRefusedError):
            take(message)


def test_nonces_differ_and_have_130_bits() -> None:
    entropy = Entropy(Random(1))
    drawn = [server_nonce(entropy) for _ in range(200)]
    assert len(set(drawn)) == 200
    assert max(int(each[::-1], 36) for each in drawn).bit_length() == 130


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"", None),
        (b"ann\0secret of ann", None),
        (b"\0ann\0secret of ann\0", None),
        (b"\0\xff\0secret of ann", None),
        (b"\0\0secret of ann", "username not specified"),
        (b"\0ann\0", "password not specified"),
        (b"root\0ann\0secret of ann", "different from username"),
    ],
)
@pytest.mark.bug("CVE-2017-12610")
def test_a_message_of_plain_out_of_form_is_refused(message: bytes, told: str | None) -> None:
    with pytest.raises(LoginRefusedError) as refusal:
        parse_plain(message)
    assert (told is None) is (refusal.value.told is None)
    assert told is None or told in str(refusal.value.told)


def test_plain_is_checked_against_the_credential_of_scram(users: Users) -> None:
    users.add("sha", SHA_512, "secret of sha")
    check_of(parse_plain(b"\0ann\0secret of ann"), users)()
    check_of(parse_plain(b"ann\0ann\0secret of ann"), users)()
    check_of(parse_plain(b"\0sha\0secret of sha"), users)()
    for message, reason in (
        (b"\0ann\0secret of sha", "wrong password of user 'ann'"),
        (b"\0bob\0secret of ann", "user 'bob' has no credential"),
    ):
        with pytest.raises(LoginRefusedError, match=reason) as refusal:
            check_of(parse_plain(message), users)()
        assert refusal.value.told is None
