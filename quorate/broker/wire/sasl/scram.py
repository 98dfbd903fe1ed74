"""SCRAM: a login that neither sends the password nor needs it on the server (RFC 5802, RFC 7677, KIP-84).

Kafka's dialect: names and passwords are plain UTF-8 (no SASLprep), there is no channel binding.
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final

from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.credentials import (
    OTHER_AUTHZID,
    Credentials,
    LoginRefusedError,
    ScramCredential,
)
from quorate.runtime import Entropy

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
SALT_BYTES: Final = 24
"""The salt of a new credential, and of a user that does not exist."""
_MAX_MESSAGE_BYTES: Final = 4096
_NONCE_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_HASHES: Final = {SaslMechanism.SCRAM_SHA_256: "sha256", SaslMechanism.SCRAM_SHA_512: "sha512"}

_NAME: Final = rb"(?:[^=,\x00]|=2C|=3D)+"
_EXTENSIONS: Final = rb"(?P<extensions>(?:,[A-Za-z]+=[^,\x00]+)*)"
_CLIENT_FIRST: Final = re.compile(
    rb"(?P<gs2>n,(?:a=(?P<authzid>" + _NAME + rb"))?,)"
    rb"(?P<bare>n=(?P<user>" + _NAME + rb"),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)" + _EXTENSIONS + rb")"
)
_CLIENT_FINAL: Final = re.compile(
    rb"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    + _EXTENSIONS
    + rb"),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


def digest_bytes(mechanism: SaslMechanism) -> int:
    """Return the length of the mechanism's digest, and with it of a salted password and of both keys."""
    return hashlib.new(_HASHES[mechanism]).digest_size


def salted_password(mechanism: SaslMechanism, *, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Derive the salted password, which is as good as the password. It takes milliseconds, without the
    interpreter lock."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password, salt, iterations)


def credential_from(
    mechanism: SaslMechanism, *, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password."""
    return ScramCredential(
        salt=salt,
        stored_key=stored_key(mechanism, salted),
        server_key=_hmac(mechanism, salted, b"Server Key"),
        iterations=iterations,
    )


def stored_key(mechanism: SaslMechanism, salted: bytes) -> bytes:
    """Return the key that a client's proof is checked against."""
    return _hash(mechanism, _hmac(mechanism, salted, b"Client Key"))


def proof_of(mechanism: SaslMechanism, *, salted: bytes, signed: bytes) -> tuple[bytes, bytes]:
    """Return what proves to a server that a client has the salted password, and what the server has to
    answer. `signed`: the messages so far."""
    signature = _hmac(mechanism, stored_key(mechanism, salted), signed)
    client_key = _hmac(mechanism, salted, b"Client Key")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return proof, _hmac(mechanism, _hmac(mechanism, salted, b"Server Key"), signed)


def fake_credential(secret: bytes, user: str, mechanism: SaslMechanism) -> ScramCredential:
    """Return a credential that looks like one of a user, for a user that has none. No password fits it."""

    def drawn(what: bytes) -> bytes:
        return _hmac(mechanism, secret, b"\0".join((what, mechanism.value.encode(), user.encode())))

    return ScramCredential(
        salt=drawn(b"salt")[:SALT_BYTES],
        stored_key=drawn(b"stored key"),
        server_key=drawn(b"server key"),
        iterations=MIN_ITERATIONS,
    )


@dataclass(frozen=True, slots=True)
class KnownCredential:
    """The credential that a login is checked against, and why it must fail if it must."""

    credential: ScramCredential
    refusal: str | None


def find_credential(credentials: Credentials, user: str, mechanism: SaslMechanism) -> KnownCredential:
    """Return the credential of `user`, or a fake one: a client must not see whether a user exists before its
    login fails."""
    found = credentials.credential(user, mechanism)
    if found is not None and found.iterations >= MIN_ITERATIONS:
        return KnownCredential(found, None)
    fake = fake_credential(credentials.fake_salt_secret, user, mechanism)
    if found is None:
        return KnownCredential(fake, f"user {user!r:.80} has no credential for {mechanism.value}")
    return KnownCredential(
        fake,
        f"the credential of user {user!r:.80} has {found.iterations} iterations, below {MIN_ITERATIONS}; "
        "set the password again",
    )


def server_nonce(entropy: Entropy) -> str:
    """Draw the server's part of a nonce: 130 bits in base 36, as in Kafka."""
    rest = entropy.below(1 << _NONCE_BITS)
    digits = ""
    while rest:
        rest, digit = divmod(rest, 36)
        digits += _DIGITS[digit]
    return digits or "0"


class ScramExchange:
    """The server's side of one login. It takes two messages and answers each.

    A client's message is signed as it was sent: Kafka puts it together again from its parts.
    """

    __slots__ = ("_bare", "_client_nonce", "_credentials", "_first", "_gs2", "_known", "_mechanism",
                 "_server_nonce", "user")  # fmt: skip

    def __init__(self, mechanism: SaslMechanism, credentials: Credentials, *, server_nonce: str) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._server_nonce = server_nonce.encode()
        self._known: KnownCredential | None = None
        self._gs2 = self._bare = self._first = self._client_nonce = b""
        self.user = ""
        """The user who logs in, once the first message was taken. Proven only by the second."""

    @property
    def begun(self) -> bool:
        """Whether the first message was taken."""
        return self._known is not None

    def take_first(self, message: bytes) -> bytes:
        """Take client-first, and return server-first. Raises `LoginRefusedError`."""
        match = _CLIENT_FIRST.fullmatch(message) if len(message) <= _MAX_MESSAGE_BYTES else None
        if match is None:
            raise LoginRefusedError("the client's first message of SCRAM is malformed")
        _refuse_extensions(match["extensions"])
        self.user = _name(match["user"])
        if match["authzid"] is not None and _name(match["authzid"]) != self.user:
            raise LoginRefusedError(
                f"user {self.user!r:.80} asked for another authorization id",
                told=OTHER_AUTHZID,
            )
        self._gs2, self._bare, self._client_nonce = match["gs2"], match["bare"], match["nonce"]
        self._known = find_credential(self._credentials, self.user, self._mechanism)
        credential = self._known.credential
        self._first = b"r=%b%b,s=%b,i=%d" % (
            self._client_nonce,
            self._server_nonce,
            base64.b64encode(credential.salt),
            credential.iterations,
        )
        return self._first

    def take_final(self, message: bytes) -> bytes:
        """Take client-final, and return server-final: the user is who it says. Raises `LoginRefusedError`."""
        known = self._known
        if known is None:
            raise RuntimeError("the final message of SCRAM came before the first")
        match = _CLIENT_FINAL.fullmatch(message) if len(message) <= _MAX_MESSAGE_BYTES else None
        if match is None:
            raise LoginRefusedError("the client's final message of SCRAM is malformed")
        _refuse_extensions(match["extensions"])
        if match["binding"] != base64.b64encode(self._gs2):
            raise LoginRefusedError("the client's channel binding is not the one of its first message")
        nonce = self._client_nonce + self._server_nonce
        # librdkafka before 2.6.1 sends its own part twice (CVE-2024-56128: Kafka took anything before it).
        if match["nonce"] not in (nonce, self._client_nonce + nonce):
            raise LoginRefusedError("the client's final nonce is not the one of this login")
        signed = b",".join((self._bare, self._first, match["without_proof"]))
        fits = self._proves(_base64(match["proof"]), signed, known.credential)
        if known.refusal is not None:
            raise LoginRefusedError(known.refusal)
        if not fits:
            raise LoginRefusedError(f"wrong password of user {self.user!r:.80}")
        return b"v=" + base64.b64encode(_hmac(self._mechanism, known.credential.server_key, signed))

    def _proves(self, proof: bytes, signed: bytes, credential: ScramCredential) -> bool:
        signature = _hmac(self._mechanism, credential.stored_key, signed)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(_hash(self._mechanism, client_key), credential.stored_key)


def _refuse_extensions(extensions: bytes) -> None:
    for each in extensions.split(b",")[1:]:
        key, _, _ = each.partition(b"=")
        if key == b"m":
            raise LoginRefusedError("the client demands an extension of SCRAM that is not known")
        if key == b"tokenauth":
            raise LoginRefusedError("the client logs in by a delegation token; there are none")


def _name(text: bytes) -> str:
    """Decode a name of a message, in which `=` and `,` are escaped."""
    try:
        return text.decode().replace("=2C", ",").replace("=3D", "=")
    except UnicodeDecodeError:
        raise LoginRefusedError("the client's name is not UTF-8") from None


def _base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise LoginRefusedError("the client's proof is not base64") from None


def _hmac(mechanism: SaslMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, _HASHES[mechanism])


def _hash(mechanism: SaslMechanism, data: bytes) -> bytes:
    return hashlib.new(_HASHES[mechanism], data).digest()
