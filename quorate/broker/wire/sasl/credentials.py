"""The credentials that users prove themselves by, and the refusal of a login."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from quorate.broker.wire.listener_security import SaslMechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a server knows of a user's password (RFC 5802). Its keys are secrets: with `stored_key` and one
    observed login a client can pose as the user, with `server_key` a server as this one."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class Credentials(Protocol):
    """The users of a cluster, by the metadata as this node knows them."""

    @property
    def fake_salt_secret(self) -> bytes:
        """A secret that all nodes of the cluster share. A user that does not exist has a salt made from it:
        always the same one, as if there were such a user."""
        ...

    def credential(self, user: str, mechanism: SaslMechanism) -> ScramCredential | None:
        """Return the credential of `user` for a mechanism of SCRAM; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class TokenUser:
    """The user that a token names."""

    name: str
    lasts_s: float
    """The time until the token ends, above 0."""


class Tokens(Protocol):
    """What a listener knows of the tokens of OAUTHBEARER."""

    def check_of(self, token: str) -> Callable[[], TokenUser]:
        """Return the check of a token, by what is known at the moment: a call for a thread, of less than a
        millisecond. It raises `LoginRefusedError`."""
        ...


OTHER_AUTHZID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
"""What a client hears that asks to act as another user: no client can do that."""


class LoginRefusedError(Exception):
    """A login failed. The text is the reason, for the log of this node: it has no secret in it, but a client
    must not learn it."""

    def __init__(self, reason: str, *, told: str | None = None) -> None:
        """`told`: a message for the client; None: the client hears that the credentials are invalid."""
        super().__init__(reason)
        self.told = told
