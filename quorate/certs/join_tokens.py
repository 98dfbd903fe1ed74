"""The join tokens of an authority: made, remembered and used once.

`FOLDER/tokens/ID.token` remembers what a token is for, and `ID.used` which key it was used for. The latter is
made by a link, which fails if it is there: of two requests, also to two processes, one is first.
"""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from quorate.bounds import Integer, Most
from quorate.cbor import Messages, SchemaError
from quorate.certs.certs_errors import CertificateError
from quorate.certs.folder import CertificateFolder, check_node, write_private
from quorate.certs.join_messages import JoinAnswer, JoinRequest, JoinToken
from quorate.types import NodeId, SecretBytes

_FOLDER: Final = "tokens"
_AGAIN: Final = "make another one by `quorate certs join-token`"
HOURS_MAX: Final = 24 * 365


class JoinRefusedError(Exception):
    """A request to join is refused. The message is sent: it names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remembered:
    """The certificate that a token is for. The token itself is not here."""

    node: Annotated[NodeId, Integer(low=0)]
    hosts: Annotated[tuple[str, ...], Most(1000)]
    days: Annotated[int, Integer(low=1)]
    end_ms: Annotated[int, Integer(bits=64, low=0)]
    """No certificate from then on. Since the Unix epoch."""


_KEPT: Final = Messages("remembered token", (1, 0, _Remembered), error=SchemaError, max_bytes=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A certificate that was made for a token."""

    node: NodeId
    answer: JoinAnswer


class JoinTokens:
    """The tokens of one folder of an authority."""

    def __init__(self, folder: str | Path, *, now: datetime) -> None:
        """`now`: the time of what is asked, with its time zone."""
        self._authority = CertificateFolder(folder, now=now)
        self._tokens = Path(folder) / _FOLDER
        self._now = now

    def create(
        self, node: NodeId, *, hosts: Sequence[str] = (), hours: int = 24, days: int = 365
    ) -> tuple[JoinToken, Path, datetime]:
        """Make a token, and return it with the file that remembers it and its end. `hosts` and `days`: of the
        certificate. Without the file the token is worth nothing. Raises `CertificateError`."""
        check_node(node, hosts, days)
        if not 1 <= hours <= HOURS_MAX:
            raise CertificateError(f"the token would be good for {hours} hours; choose 1 to {HOURS_MAX}")
        self._authority.check_keyless(node)
        token = JoinToken(
            cluster_id=self._authority.cluster_id,
            node=node,
            authority=self._authority.signing_authority().decode(),
            secret=SecretBytes(Ed25519PrivateKey.generate().private_bytes_raw()),
        )
        end = self._now + timedelta(hours=hours)
        kept = _Remembered(node=node, hosts=tuple(hosts), days=days, end_ms=int(end.timestamp() * 1000))
        try:
            self._tokens.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CertificateError(f"{self._tokens} can't be made: {error.strerror}") from error
        path = self._path(token.token_id)
        write_private(path, _KEPT.encode(kept))
        return token, path, end

    def sign(self, request: JoinRequest) -> Joined:
        """Return the certificate for the key in a request. A token is used for the first key that comes with
        it; for this one it counts again, because an answer may be lost. What the certificate says is what was
        asked of `create`. Raises `JoinRefusedError`, and `CertificateError` if the authority can't sign."""
        if not request.proven:
            raise JoinRefusedError(f"the request is not signed by a join token; {_AGAIN}")
        kept = self._remembered(request.token_id)
        if self._now.timestamp() * 1000 >= kept.end_ms:
            end = datetime.fromtimestamp(kept.end_ms / 1000, UTC)
            raise JoinRefusedError(
                f"the token of node {kept.node} has ended at {end:%Y-%m-%d %H:%M} UTC; {_AGAIN}"
            )
        key = _key_of(request.csr)
        # Before the first signature: else a crash between the two would leave the token to another key.
        if not self._claim(request.token_id, key):
            raise JoinRefusedError(
                f"the token of node {kept.node} was used already, for another key; {_AGAIN}"
            )
        certificate = self._authority.sign_node(kept.node, key, hosts=kept.hosts, days=kept.days)
        try:
            authorities = self._authority.authorities.read_text()
        except OSError as error:
            raise CertificateError(
                f"{self._authority.authorities} can't be read: {error.strerror}"
            ) from error
        return Joined(
            node=kept.node, answer=JoinAnswer(certificate=certificate.decode(), authorities=authorities)
        )

    def _path(self, token_id: str) -> Path:
        return self._tokens / f"{token_id}.token"

    def _remembered(self, token_id: str) -> _Remembered:
        path = self._path(token_id)
        try:
            return _KEPT.decode(path.read_bytes())
        except FileNotFoundError:
            raise JoinRefusedError(
                f"the token is not known here: it was taken back, or made in another folder; {_AGAIN}"
            ) from None
        except OSError as error:
            raise CertificateError(f"{path} can't be read: {error.strerror}") from error
        except SchemaError as error:
            raise CertificateError(f"{path} is damaged ({error}); delete it, and {_AGAIN}") from error

    def _claim(self, token_id: str, key: ec.EllipticCurvePublicKey) -> bool:
        """Return whether the token is this key's. It is on the disk then."""
        spki = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        mine = hashlib.sha256(spki).hexdigest()
        used = self._path(token_id).with_suffix(".used")
        # Named by the key too: another process may be at the same token.
        whole = used.with_suffix(f".{mine}")
        try:
            write_private(whole, mine.encode())
            with suppress(FileExistsError):
                os.link(whole, used)
            whole.unlink(missing_ok=True)
            descriptor = os.open(self._tokens, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            return used.read_bytes() == mine.encode()
        except OSError as error:
            raise CertificateError(f"{used} can't be written: {error.strerror}") from error


def _key_of(csr: str) -> ec.EllipticCurvePublicKey:
    try:
        request = x509.load_pem_x509_csr(csr.encode())
        key = request.public_key()
        signed = request.is_signature_valid
    except Exception as error:
        # Of bytes of anybody with a token: which errors there are is up to the versions of the library.
        raise JoinRefusedError("the request has no certificate signing request in the form PEM") from error
    if not signed:
        raise JoinRefusedError("the certificate signing request is not signed by its own key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise JoinRefusedError("the key is none of P-256; let `quorate certs join` make it")
    return key
