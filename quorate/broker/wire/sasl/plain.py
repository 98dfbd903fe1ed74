"""PLAIN: a login that sends the password (RFC 4616). It is checked against the user's credential of SCRAM, so
that no password is kept anywhere."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.credentials import OTHER_AUTHZID, Credentials, LoginRefusedError
from quorate.broker.wire.sasl.scram import find_credential, salted_password, stored_key

_ORDER: Final = (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
"""The credential that counts, of a user that has both. They may be of different passwords."""


@dataclass(frozen=True, slots=True)
class PlainClaim:
    """The content of a client's message."""

    user: str
    password: bytes = field(repr=False)


def parse_plain(message: bytes) -> PlainClaim:
    """Parse the client's message: authorization id, user and password. Raises `LoginRefusedError`."""
    parts = message.split(b"\0")
    if len(parts) != 3:
        raise LoginRefusedError(f"the message of PLAIN has {len(parts)} parts in place of 3")
    try:
        authzid, user, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise LoginRefusedError("the message of PLAIN is not UTF-8") from None
    if not user:
        raise LoginRefusedError("the user is empty", told="Authentication failed: username not specified")
    if not password:
        raise LoginRefusedError(
            f"user {user!r:.80} sent no password", told="Authentication failed: password not specified"
        )
    if authzid not in ("", user):
        raise LoginRefusedError(
            f"user {user!r:.80} asked for another authorization id",
            told=OTHER_AUTHZID,
        )
    return PlainClaim(user, password.encode())


def check_of(claim: PlainClaim, credentials: Credentials) -> Callable[[], None]:
    """Return the check of the password: a call of milliseconds, for a thread. It raises `LoginRefusedError`,
    as late for a user that does not exist as for a wrong password."""
    mechanism = next((each for each in _ORDER if credentials.credential(claim.user, each)), _ORDER[0])
    known = find_credential(credentials, claim.user, mechanism)

    def check() -> None:
        derive = partial(salted_password, mechanism, password=claim.password)
        salted = derive(salt=known.credential.salt, iterations=known.credential.iterations)
        fits = hmac.compare_digest(stored_key(mechanism, salted), known.credential.stored_key)
        if known.refusal is not None:
            raise LoginRefusedError(known.refusal)
        if not fits:
            raise LoginRefusedError(f"wrong password of user {claim.user!r:.80}")

    return check
