"""The users of signed tokens, by every check that a JWT has to pass (RFC 7519, RFC 8725, KIP-768).

A token without a signature is of nobody, whatever its header says. Kafka's own default takes those.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from quorate.broker.access.token_keys import ALGORITHMS, TokenKey, TokenKeyFile
from quorate.broker.wire.listener_security import ListenerSecurity, TokenTerms
from quorate.broker.wire.sasl.credentials import LoginRefusedError, TokenUser
from quorate.runtime import Disk, Runtime, WallClock

if TYPE_CHECKING:
    from jwt.api_jws import PyJWS

_LONGEST_S: Final = 365 * 86_400.0
"""A login by a token that ends in a thousand years lasts for one."""
_MOST_SECONDS: Final = 1e12
"""No time of a token is after the year 33658. Some issuers write milliseconds."""
_MOST_NAME: Final = 255


class SignedTokens:
    """`quorate.broker.wire.sasl.credentials.Tokens` by the keys in a file of this node."""

    __slots__ = ("_file", "_terms", "_wall_clock")

    def __init__(self, terms: TokenTerms, *, disk: Disk, wall_clock: WallClock) -> None:
        """Read the file. Raises `TokenKeysError`."""
        self._terms = terms
        self._file = TokenKeyFile(disk, terms.keys)
        self._wall_clock = wall_clock

    def check_of(self, token: str) -> Callable[[], TokenUser]:
        now_s = self._wall_clock.now_ms() / 1000
        return partial(user_of, token, keys=self._file.current(), terms=self._terms, now_s=now_s)


def tokens_of(listeners: Mapping[str, ListenerSecurity], runtime: Runtime) -> Mapping[str, SignedTokens]:
    """Return what each listener with OAUTHBEARER knows of tokens, by its name. Raises `TokenKeysError`."""
    return {
        name: SignedTokens(each.tokens, disk=runtime.disk, wall_clock=runtime.wall_clock)
        for name, each in listeners.items()
        if each.tokens is not None
    }


def user_of(token: str, *, keys: Sequence[TokenKey], terms: TokenTerms, now_s: float) -> TokenUser:
    """Return the user of a token, after every check of it. `now_s`: seconds since 1970. Raises
    `LoginRefusedError`."""
    claims = _signed_claims(token, keys)
    expires_s = _time(claims, "exp")
    if expires_s is None:
        raise LoginRefusedError("the token never ends: it has no exp")
    if expires_s <= now_s:
        raise LoginRefusedError(f"the token ended {now_s - expires_s:.0f} s ago")
    for claim in ("nbf", "iat"):
        since_s = _time(claims, claim)
        if since_s is not None and since_s > now_s + terms.skew_s:
            raise LoginRefusedError(
                f"the token counts {since_s - now_s:.0f} s from now on, by its {claim}; compare the clocks"
            )
    if claims.get("iss") != terms.issuer:
        raise LoginRefusedError(
            f"the issuer of the token is {_shown(claims.get('iss'))}, not {terms.issuer!r:.200}"
        )
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(each in named for each in terms.audiences):
        shown = ", ".join(map(_shown, named[:5]))
        raise LoginRefusedError(f"the token is for {shown}, and none of {', '.join(terms.audiences):.200}")
    name = claims.get(terms.user_claim)
    if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME or not name.isprintable():
        raise LoginRefusedError(
            f"the token names no user: {terms.user_claim!r:.80} is {_shown(name)}, and must be a text of at "
            f"most {_MOST_NAME} printable characters"
        )
    return TokenUser(name, min(expires_s - now_s, _LONGEST_S))


def _signed_claims(token: str, keys: Sequence[TokenKey]) -> Mapping[str, object]:
    from jwt.exceptions import InvalidSignatureError, PyJWTError

    jws = _jws()
    try:
        header = jws.get_unverified_header(token)
    except (PyJWTError, RecursionError):
        # The texts of errors have parts of the token.
        raise LoginRefusedError("the token is no JWT with a header that can be read") from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise LoginRefusedError(
            f"the algorithm of the token is {algorithm!r:.20}; there are {', '.join(ALGORITHMS)}"
        )
    # Of the header only these two count: keys and addresses in it (jwk, jku, x5u) are the sender's.
    fitting = [each for each in keys if algorithm in each.algorithms and key_id in (None, each.key_id)]
    if len(fitting) != 1:
        raise LoginRefusedError(
            f"{len(fitting) or 'no'} keys of the file are for kid {key_id!r:.80} and {algorithm}; compare it "
            "with the issuer's JWKS"
        )
    try:
        signed = jws.decode_complete(token, fitting[0].key, algorithms=[algorithm])["payload"]
    except InvalidSignatureError:
        raise LoginRefusedError(f"the signature of the token is not of key {key_id!r:.80}") from None
    except PyJWTError:
        raise LoginRefusedError("the token is no JWT with a signature that can be read") from None
    try:
        claims = json.loads(signed)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise LoginRefusedError("the content of the token is no JSON object")
    return claims


@cache
def _jws() -> "PyJWS":
    from jwt.api_jws import PyJWS

    return PyJWS(algorithms=ALGORITHMS)


def _time(claims: Mapping[str, object], claim: str) -> float | None:
    """Return a time in seconds since 1970. None: the token has none. Raises `LoginRefusedError`."""
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST_SECONDS:
        raise LoginRefusedError(f"the claim {claim} of the token is {_shown(value)}, and no time in seconds")
    return float(value)


def _shown(value: object) -> str:
    """Return a value of a token for the log. One in others may be too deep for a text."""
    return f"{value!r:.80}" if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
