"""Clients of SASL, written from the RFCs and apart from the server's code, and the users they log in as."""

import base64
import hashlib
import hmac

from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.credentials import ScramCredential

SHA_256, SHA_512, PLAIN = SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512, SaslMechanism.PLAIN
SALT = b"salt of a test"


def hash_of(mechanism: SaslMechanism) -> str:
    return {SHA_256: "sha256", SHA_512: "sha512"}[mechanism]


def made_credential(
    mechanism: SaslMechanism, password: str, *, salt: bytes = SALT, iterations: int = 4096
) -> ScramCredential:
    name = hash_of(mechanism)
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", name),
        iterations=iterations,
    )


class Users:
    """`Credentials` of the users that a test adds."""

    fake_salt_secret = b"a secret of the cluster"

    def __init__(self) -> None:
        self.held: dict[tuple[str, SaslMechanism], ScramCredential] = {}

    def add(self, user: str, mechanism: SaslMechanism, password: str, *, iterations: int = 4096) -> None:
        self.held[user, mechanism] = made_credential(mechanism, password, iterations=iterations)

    def credential(self, user: str, mechanism: SaslMechanism) -> ScramCredential | None:
        return self.held.get((user, mechanism))


class ScramClient:
    """The client's side of one login."""

    def __init__(
        self,
        mechanism: SaslMechanism,
        user: str,
        password: str,
        *,
        nonce: str = "cnonce",
        authzid: str = "",
        extensions: str = "",
        doubles_nonce: bool = False,
    ) -> None:
        self._hash = hash_of(mechanism)
        self._password = password.encode()
        self.nonce = nonce
        self._doubles_nonce = doubles_nonce
        self._gs2 = f"n,a={authzid}," if authzid else "n,,"
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}{extensions}"
        self._server_signature = b""

    def first(self) -> bytes:
        return (self._gs2 + self._bare).encode()

    def final(self, server_first: bytes, *, binding: str | None = None, extensions: str = "") -> bytes:
        fields = dict(each.split("=", 1) for each in server_first.decode().split(","))
        assert fields["r"].startswith(self.nonce)
        assert fields["r"] != self.nonce
        nonce = (self.nonce if self._doubles_nonce else "") + fields["r"]
        channel = base64.b64encode(self._gs2.encode()).decode() if binding is None else binding
        without_proof = f"c={channel},r={nonce}{extensions}"
        signed = ",".join((self._bare, server_first.decode(), without_proof)).encode()
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password, base64.b64decode(fields["s"]), int(fields["i"])
        )
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), signed, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._server_signature = hmac.digest(server_key, signed, self._hash)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def trusts(self, server_final: bytes) -> bool:
        return server_final == b"v=" + base64.b64encode(self._server_signature)
