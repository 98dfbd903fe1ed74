"""Tokens of OAUTHBEARER: whose they are, and everything that makes one nobody's."""

import itertools
import json
from dataclasses import replace

import pytest
from captured_logs import captured_logs
from hypothesis import given
from hypothesis import strategies as st
from signed_tokens import (
    AUDIENCE,
    JWKS,
    TERMS,
    Key,
    by_secret,
    claims_at,
    jwks,
    number,
    rsa_key,
    signed,
    write_jwks,
)

from quorate.broker.access.signed_tokens import user_of
from quorate.broker.access.token_keys import ALGORITHMS, TokenKeyFile, TokenKeys, TokenKeysError
from quorate.broker.wire.sasl.credentials import LoginRefusedError, TokenUser
from quorate.simulation.world.simulated_disk import SimulatedDisk

NOW = 1_800_000_000.0
KEY, OTHER = Key("k1"), Key("k1")
KEYS = TokenKeys.parse(jwks(KEY)).keys
DEEP = 100_000 * b"["


def claims(**changed: object) -> dict[str, object]:
    return claims_at(NOW, **changed)


def user(token: str, keys=KEYS, terms=TERMS) -> TokenUser:
    return user_of(token, keys=keys, terms=terms, now_s=NOW)


def reason(token: str, keys=KEYS) -> str:
    with pytest.raises(LoginRefusedError) as refused:
        user(token, keys)
    assert refused.value.told is None
    parts = [part for part in token.split(".") if len(part) > 20]
    assert not any(part in str(refused.value) for part in parts)
    return str(refused.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_of_each_algorithm_is_of_its_subject(algorithm: str) -> None:
    key = Key("k1", algorithm)
    keys = TokenKeys.parse(jwks(key)).keys
    assert user(key.token(claims()), keys) == TokenUser("ann", 60.0)
    other = Key("other", algorithm)
    forged = other.token(claims(), kid="k1")
    assert reason(forged, keys) == "the signature of the token is not of key 'k1'"
    content = key.token(claims()).split(".")
    content[1] = other.token(claims(sub="admin")).split(".")[1]
    assert reason(".".join(content), keys) == "the signature of the token is not of key 'k1'"


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": [AUDIENCE]},
        {"aud": ["another", "other"]},
        {"exp": int(NOW) + 60},
        {"iat": None},
        {"iat": NOW + 30, "nbf": NOW + 29.5},
        {"nbf": NOW - 1e6, "scope": "anything", "azp": {"deep": [1]}},
    ],
)
def test_a_good_token_may_look_like_this(changed: dict[str, object]) -> None:
    assert user(KEY.token(claims(**changed))) == TokenUser("ann", 60.0)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"exp": None}, "the token never ends: it has no exp"),
        ({"exp": NOW}, "the token ended 0 s ago"),
        ({"exp": NOW - 25}, "the token ended 25 s ago"),
        ({"exp": "2100"}, "the claim exp of the token is '2100', and no time in seconds"),
        ({"exp": True}, "the claim exp of the token is True, and no time in seconds"),
        ({"exp": 1_900_000_000_000}, "the claim exp of the token is 1900000000000, and no time in seconds"),
        ({"exp": float("inf")}, "the claim exp of the token is inf, and no time in seconds"),
        ({"exp": float("nan")}, "the claim exp of the token is nan, and no time in seconds"),
        ({"exp": 10**400}, "and no time in seconds"),
        ({"exp": [NOW + 60]}, "the claim exp of the token is a list, and no time in seconds"),
        ({"nbf": NOW + 31}, "the token counts 31 s from now on, by its nbf; compare the clocks"),
        ({"iat": NOW + 31}, "the token counts 31 s from now on, by its iat; compare the clocks"),
        ({"iss": None}, "the issuer of the token is None, not 'https://issuer.example/'"),
        ({"iss": "https://issuer.example"}, "the issuer of the token is 'https://issuer.example', not"),
        ({"iss": ["https://issuer.example/"]}, "the issuer of the token is a list, not"),
        ({"aud": None}, "the token is for None, and none of other, quorate"),
        ({"aud": "quorate2"}, "the token is for 'quorate2', and none of other, quorate"),
        ({"aud": ["a", ["quorate"]]}, "the token is for 'a', a list, and none of other, quorate"),
        ({"aud": {"quorate": 1}}, "the token is for a dict, and none of other, quorate"),
        ({"sub": None}, "the token names no user: 'sub' is None"),
        ({"sub": ""}, "the token names no user: 'sub' is ''"),
        ({"sub": 7}, "the token names no user: 'sub' is 7"),
        ({"sub": "a\nb"}, "the token names no user: 'sub' is 'a\\nb'"),
        ({"sub": "\ud800"}, "the token names no user: 'sub' is"),
        ({"sub": "a" * 256}, "the token names no user"),
    ],
)
def test_a_signed_token_with_a_fault_is_refused(changed: dict[str, object], says: str) -> None:
    assert says in reason(KEY.token(claims(**changed)))


def test_a_token_counts_for_a_year_at_most_and_its_end_is_never_skewed() -> None:
    assert user(KEY.token(claims(exp=NOW + 9e9))).lasts_s == 365 * 86_400
    assert user(KEY.token(claims(exp=NOW + 0.25))).lasts_s == 0.25


def test_the_user_may_be_in_another_claim() -> None:
    token = KEY.token(claims(email="ann@example.org", sub="1234"))
    assert user(token, terms=replace(TERMS, user_claim="email")).name == "ann@example.org"


def unsigned(**header: object) -> str:
    return signed(claims(), lambda data: b"", **header)


NOBODYS = [
    (unsigned(alg="none"), "the algorithm of the token is 'none'; there are RS256, PS256, ES256, EdDSA"),
    (unsigned(alg="none", kid="k1"), "the algorithm of the token is 'none'"),
    (unsigned(alg="None"), "the algorithm of the token is 'None'"),
    (unsigned(kid="k1"), "the algorithm of the token is None"),
    (unsigned(alg="ES256", kid="k1"), "the signature of the token is not of key 'k1'"),
    (by_secret(claims(), KEY.pem, kid="k1"), "the algorithm of the token is 'HS256'"),
    (by_secret(claims(), jwks(KEY), kid="k1"), "the algorithm of the token is 'HS256'"),
    (by_secret(claims(), KEY.pem, kid="k1", alg="ES256"), "the signature of the token is not of key"),
    (KEY.token(claims(), alg="RS256"), "no keys of the file are for kid 'k1' and RS256"),
    (KEY.token(claims(), alg=["ES256"]), "the algorithm of the token is ['ES256']"),
    (KEY.token(claims(), kid="k2"), "no keys of the file are for kid 'k2' and ES256; compare it with"),
    (KEY.token(claims(), kid=7), "the token is no JWT with a header that can be read"),
    (KEY.token(claims(), crit=["exp"]), "the token is no JWT with a header that can be read"),
    (KEY.token(claims(), crit=["b64"], b64=False), "the token is no JWT with a header that can be read"),
    (OTHER.token(claims()), "the signature of the token is not of key 'k1'"),
    (OTHER.token(claims(), kid=None), "the signature of the token is not of key None"),
    (KEY.token(b"no JSON"), "the content of the token is no JSON object"),
    (KEY.token([claims()]), "the content of the token is no JSON object"),
    (KEY.token(DEEP), "the content of the token is no JSON object"),
    ("", "the token is no JWT"),
    ("a.b.c", "the token is no JWT"),
    ("...", "the token is no JWT"),
    (f"{DEEP.decode()}.e30.e30", "the token is no JWT"),
    (KEY.token(claims()) + "!", "the token is no JWT"),
    (KEY.token(claims()).rpartition(".")[0], "the token is no JWT"),
]


# Signatures differ from process to process, and the names of tests must not.
@pytest.mark.parametrize(("token", "says"), NOBODYS, ids=[says for _, says in NOBODYS])
def test_a_token_that_no_key_of_the_file_has_signed_is_nobodys(token: str, says: str) -> None:
    assert says in reason(token)


@pytest.mark.bug("CVE-2025-27817")
@pytest.mark.parametrize("kid", ["k1", "own", None])
def test_keys_and_addresses_that_a_token_brings_are_not_looked_at(kid: str | None) -> None:
    own = Key("own")
    brought = {
        "jwk": own.jwk(), "jku": "file:///etc/passwd", "x5u": "http://169.254.169.254/",
        "x5c": ["MIIB"], "jwks": {"keys": [own.jwk()]},
    }  # fmt: skip
    assert "of the file are for kid" in reason(own.token(claims(), **{**brought, "kid": "own"}))
    assert "not of key" in reason(own.token(claims(), **{**brought, "kid": kid if kid != "own" else "k1"}))
    assert user(KEY.token(claims(), **brought)).name == "ann", "they do no harm either"


# Each signature of a key is another one: what is drawn must not depend on it.
SIGNED = KEY.token(claims()).encode()


@given(data=st.data())
def test_a_token_with_any_byte_changed_is_nobodys(data) -> None:
    text = bytearray(SIGNED)
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] = data.draw(st.sampled_from(b"ABCxyz019-_.!").filter(lambda each: each != text[at]))
    reason(text.decode())


@pytest.mark.slow
def test_of_several_keys_the_one_that_the_token_names_counts() -> None:
    rsa, second, nameless = Key("r", "RS256"), Key("k2"), Key(None)
    keys = TokenKeys.parse(jwks(KEY, rsa, second, nameless)).keys
    for key in (KEY, rsa, second):
        assert user(key.token(claims()), keys).name == "ann"
    assert "not of key 'k2'" in reason(KEY.token(claims(), kid="k2"), keys)
    assert "3 keys of the file are for kid None and ES256" in reason(nameless.token(claims()), keys)
    assert user(rsa.token(claims(), kid=None), keys).name == "ann", "it is the only one of its algorithm"
    assert user(nameless.token(claims()), TokenKeys.parse(jwks(nameless)).keys).name == "ann"


def test_an_rsa_key_checks_the_algorithms_that_its_alg_allows() -> None:
    one, two = Key("r", "RS256"), Key("r", "PS256")
    both = TokenKeys.parse(jwks(one)).keys
    assert [user(each.token(claims()), both).name for each in (one, two)] == ["ann", "ann"]
    only = TokenKeys.parse(jwks(one.jwk(alg="RS256"))).keys
    assert user(one.token(claims()), only).name == "ann"
    assert "no keys of the file are for kid 'r' and PS256" in reason(two.token(claims()), only)


@pytest.mark.parametrize(
    ("jwk", "why"),
    [
        (KEY.jwk(use="enc"), "it is not for signatures"),
        (KEY.jwk(key_ops=["encrypt"]), "it is not for signatures"),
        (KEY.jwk(alg="HS256"), "its algorithm is 'HS256'"),
        (KEY.jwk(alg=["ES256"]), "its algorithm is ['ES256']"),
        (KEY.jwk(kid=7), "its kid is no text"),
        (KEY.jwk(kty="oct", k="c2VjcmV0"), "its kty is 'oct'"),
        (KEY.jwk(crv="P-384"), "its kty is 'EC' and its crv 'P-384'"),
        (KEY.jwk(x="AAAA"), "its parts are no key of kty 'EC'"),
        (KEY.jwk(x=7), "its parts are no key of kty 'EC'"),
        ({"kty": "RSA"}, "its parts are no key of kty 'RSA'"),
        ({"kty": ["RSA"]}, "its kty is ['RSA']"),
        ("text", "it is no object"),
    ],
)
def test_a_key_that_is_not_for_tokens_is_left_out_and_the_others_count(jwk: object, why: str) -> None:
    read = TokenKeys.parse(json.dumps({"keys": [jwk, Key("good").jwk()]}).encode())
    assert [each.key_id for each in read.keys] == ["good"]
    assert len(read.left_out) == 1 and read.left_out[0].startswith(f"key 1: {why}")


def test_a_short_rsa_key_is_left_out() -> None:
    numbers = rsa_key("short", 1024).public_key().public_numbers()
    read = TokenKeys.parse(jwks({"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}))
    assert read.left_out == ("key 1: it has 1024 bits, below 2048",)


class Held:
    """A file of keys, whose reader's clock goes on by a minute at each look."""

    def __init__(self, content: bytes) -> None:
        self.disk = SimulatedDisk()
        self.mode = 0o644
        self.disk.mode = lambda path: self.mode  # type: ignore[method-assign]
        write_jwks(self.disk, content)
        self.step = 60.0
        self._now = itertools.count()

    def open(self) -> TokenKeyFile:
        return TokenKeyFile(self.disk, JWKS, now=lambda: next(self._now) * self.step)


def ids(file: TokenKeyFile) -> list[str | None]:
    return [each.key_id for each in file.current()]


def test_a_changed_file_counts_at_the_next_look_and_a_broken_one_changes_nothing() -> None:
    held = Held(jwks(KEY))
    file = held.open()
    with captured_logs() as entries:
        write_jwks(held.disk, jwks(Key("k2"), KEY))
        assert ids(file) == ["k2", "k1"]
        write_jwks(held.disk, b'{"keys": [')
        assert [ids(file), ids(file)] == [["k2", "k1"]] * 2
        held.disk.remove(JWKS)
        assert ids(file) == ["k2", "k1"]
        write_jwks(held.disk, jwks(Key("k3")))
        assert ids(file) == ["k3"]
        write_jwks(held.disk, jwks())
        assert ids(file) == [], "the issuer says that no key counts any more"
    told = [each["event"] for each in entries]
    broken = "the keys of tokens can't be read again: the earlier ones go on"
    read = "keys of tokens were read"
    assert told == [read, broken, broken, read, read], "each fault is told once"


def test_the_file_is_looked_at_once_a_second_at_most() -> None:
    held = Held(jwks(KEY))
    held.step = 0.4
    file = held.open()
    write_jwks(held.disk, jwks(Key("k2")))
    assert [ids(file) for _ in range(3)] == [["k1"]] * 2 + [["k2"]]


USELESS = [
    (b"", 'it is no JWKS, which is JSON such as {"keys": [{"kty": "RSA", ...}]}'),
    (b"[]", "it is no JWKS"),
    (b'{"keys": {}}', "it is no JWKS"),
    (DEEP, "it is no JWKS"),
    (b'{"keys": []}', "/etc/jwks.json has no key that checks tokens: it is empty"),
    (jwks(KEY.jwk(use="enc")), "has no key that checks tokens: key 1: it is not for signatures"),
    (
        jwks(KEY, Key("k2").jwk(d="secret")),
        "it has a private key (kid 'k2'): who reads it can be any user",
    ),
    (jwks(KEY) + 300_000 * b" ", "bytes, above 262144; it must be the issuer's JWKS alone"),
]


@pytest.mark.parametrize(("content", "says"), USELESS, ids=[says for _, says in USELESS])
def test_a_node_does_not_start_with_a_file_that_checks_no_token(content: bytes, says: str) -> None:
    with pytest.raises(TokenKeysError) as refused:
        Held(content).open()
    assert says in str(refused.value)
    assert JWKS in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_others_may_write_or_that_is_not_there_is_refused() -> None:
    held = Held(jwks(KEY))
    held.mode = 0o664
    with pytest.raises(TokenKeysError, match=r"others may write .*\(the mode is 0664\).*chmod go-w the file"):
        held.open()
    with pytest.raises(TokenKeysError, match=r"jwks.json can't be read: .*fetch the issuer's JWKS into it"):
        TokenKeyFile(SimulatedDisk(), JWKS, now=lambda: 0.0)


def test_without_the_extra_the_error_names_it(monkeypatch) -> None:
    monkeypatch.setattr("quorate.runtime.extras.find_spec", lambda name: None if name == "jwt" else name)
    with pytest.raises(TokenKeysError, match=r"OAUTHBEARER needs jwt.*pip install 'quorate\[oauth\]'"):
        Held(jwks(KEY)).open()
