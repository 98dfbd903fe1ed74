"""OAUTHBEARER: a login by a token that somebody else has signed (RFC 7628, KIP-255).

This is the form of the messages. Who signs tokens is a matter of `credentials.Tokens`. Extensions of the
client are parsed and have no effect.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from quorate.broker.wire.sasl.credentials import LoginRefusedError

INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
"""What the client of a refused token hears first. It answers with one byte 0x01, and hears the failure then
(RFC 7628, section 3.2.3). It is the same for every reason, as in Kafka."""
_MAX_MESSAGE_BYTES: Final = 16_384
"""Tokens are made to fit into a header of HTTP, of which servers take 8 to 16 KiB. One of this size
from a stranger keeps a thread busy for 2 to 3 ms."""

_NAME: Final = rb"(?:[^=,\x00\x01]|=2C|=3D)+"
_MESSAGE: Final = re.compile(
    rb"n,(?:a=(?P<authzid>" + _NAME + rb"))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)+)\x01"
)
_AUTH: Final = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[A-Za-z0-9._-]+)")


class TokenRefusedError(LoginRefusedError):
    """A token was refused: the client hears `INVALID_TOKEN` before the failure."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, told=INVALID_TOKEN.decode())


@dataclass(frozen=True, slots=True)
class BearerClaim:
    """The content of a client's message."""

    authzid: str
    """The user that the client wants to be; empty: the token says who it is."""
    token: str = field(repr=False)
    """Who has it, is the user."""


def parse_bearer(message: bytes) -> BearerClaim:
    """Parse the client's message. Raises `LoginRefusedError`, whose text has nothing of the token."""
    if len(message) > _MAX_MESSAGE_BYTES:
        raise LoginRefusedError(
            f"the message of OAUTHBEARER has {len(message)} bytes, above {_MAX_MESSAGE_BYTES}"
        )
    match = _MESSAGE.fullmatch(message)
    if match is None:
        raise LoginRefusedError("the message of OAUTHBEARER is malformed")
    values: dict[bytes, bytes] = {}
    for pair in match["pairs"].split(b"\x01")[:-1]:
        key, _, value = pair.partition(b"=")
        if key in values:
            raise LoginRefusedError(f"the message of OAUTHBEARER has {key!r:.40} twice")
        values[key] = value
    bearer = _AUTH.fullmatch(values.get(b"auth", b""))
    if bearer is None:
        raise LoginRefusedError("the message of OAUTHBEARER has no token: auth=Bearer TOKEN")
    try:
        authzid = (match["authzid"] or b"").decode().replace("=2C", ",").replace("=3D", "=")
    except UnicodeDecodeError:
        raise LoginRefusedError("the authorization id is not UTF-8") from None
    return BearerClaim(authzid, bearer["token"].decode())
