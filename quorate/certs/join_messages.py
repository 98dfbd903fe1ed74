"""The token by which a node joins a cluster, and the two messages in which it is used.

The secret in a token is a key of Ed25519. The node signs its request by it, so the secret is never sent, and
the authority remembers the public key alone. The authority's certificate is in the token: TLS compares the
server with it before a byte of the request is sent.
"""

import base64
from dataclasses import dataclass
from typing import Annotated, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from quorate.bounds import Integer, Most
from quorate.cbor import Messages, SchemaError
from quorate.certs.certs_errors import CertificateError
from quorate.runtime import NetworkError, Stream
from quorate.types import NodeId, SecretBytes

_PREFIX: Final = "quorate-join-"
_PURPOSE: Final = b"quorate join token 1\0"
"""It stands before what a token signs, which so is good for nothing else."""
MESSAGE_MAX_BYTES: Final = 64 * 1024
"""Of a message after its length."""
TOKEN_MAX_CHARACTERS: Final = 16 * 1024
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """The right of one node to one certificate."""

    cluster_id: Annotated[str, Most(1000)]
    node: Annotated[NodeId, Integer(low=0)]
    authority: Annotated[str, Most(4096)]
    """The certificate that the server has to come from, in the form PEM."""
    secret: Annotated[SecretBytes, Most(32)]

    def text(self) -> str:
        """Return the token as one line."""
        return _PREFIX + base64.urlsafe_b64encode(_TOKENS.encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> "JoinToken":
        """Read a token. Raises `CertificateError`."""
        line = text.strip()
        try:
            if not line.startswith(_PREFIX) or len(line) > TOKEN_MAX_CHARACTERS:
                raise SchemaError("not a join token")
            encoded = line.removeprefix(_PREFIX)
            padding = "=" * (-len(encoded) % 4)
            token = _TOKENS.decode(base64.b64decode(encoded + padding, altchars=b"-_", validate=True))
            if len(token.secret) != 32:
                raise SchemaError("the secret has 32 bytes")
        except ValueError as error:
            raise CertificateError(
                "this is no join token, or a part of one; copy the whole line that `quorate certs "
                "join-token` wrote"
            ) from error
        return token

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes(self.secret))

    @property
    def token_id(self) -> str:
        """The token's public key, in hexadecimal: the name by which the authority remembers it."""
        return self._key.public_key().public_bytes_raw().hex()

    def request(self, csr: str) -> "JoinRequest":
        """Return a request for the key of a certificate signing request (PEM)."""
        proof = SecretBytes(self._key.sign(_PURPOSE + csr.encode()))
        return JoinRequest(token_id=self.token_id, csr=csr, proof=proof)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A node asks for its certificate."""

    token_id: Annotated[str, Most(64)]
    csr: Annotated[str, Most(4096)]
    """PKCS #10 in the form PEM. Nothing of it counts but the key."""
    proof: Annotated[SecretBytes, Most(64)]
    """The token's signature of `csr`."""

    @property
    def proven(self) -> bool:
        """True if whoever sent this has the token."""
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.token_id))
            # The name of a file has one spelling, of which `fromhex` takes many.
            if key.public_bytes_raw().hex() != self.token_id:
                return False
            key.verify(bytes(self.proof), _PURPOSE + self.csr.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The certificate, or the reason why there is none."""

    certificate: Annotated[str, Most(8192)] = ""
    """In the form PEM."""
    authorities: Annotated[str, Most(32768)] = ""
    """The `ca.pem` of the cluster."""
    refused: Annotated[str, Most(1000)] = ""
    """Why, and the remedy. Empty: it was not."""


_TOKENS: Final = Messages("join token", (1, 0, JoinToken), error=SchemaError, max_bytes=TOKEN_MAX_CHARACTERS)
_REQUESTS: Final = Messages(
    "request to join", (1, 0, JoinRequest), error=SchemaError, max_bytes=MESSAGE_MAX_BYTES
)
_ANSWERS: Final = Messages(
    "answer to a request to join", (1, 0, JoinAnswer), error=SchemaError, max_bytes=MESSAGE_MAX_BYTES
)
encode_request: Final = _REQUESTS.encode
decode_request: Final = _REQUESTS.decode
"""Raises `SchemaError`."""
encode_answer: Final = _ANSWERS.encode
decode_answer: Final = _ANSWERS.decode
"""Raises `SchemaError`."""


async def send_message(stream: Stream, message: bytes) -> None:
    """Send a message after its length. Raises `NetworkError`."""
    await stream.send([len(message).to_bytes(_LENGTH_BYTES), message])


async def receive_message(stream: Stream) -> bytes:
    """Receive one message. Raises `NetworkError`, and `SchemaError` before more than
    `MESSAGE_MAX_BYTES` are received."""
    size = int.from_bytes(await _receive(stream, _LENGTH_BYTES))
    if size > MESSAGE_MAX_BYTES:
        raise SchemaError(f"a message of {size} bytes, more than the {MESSAGE_MAX_BYTES} allowed")
    return await _receive(stream, size)


async def _receive(stream: Stream, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        some = await stream.receive_some(size - len(received))
        if not some:
            raise NetworkError(f"{stream.peer}: the connection ended")
        received += some
    return bytes(received)
