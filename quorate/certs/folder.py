"""A folder with the authority of a cluster, and what it has signed."""

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quorate.certs.certs_errors import CertificateError
from quorate.certs.making import certificate_pem, key_pem, make_authority, make_member, new_key
from quorate.raft.transport.identities import Identity, authority_uri, cluster_of_authority, signer_uri
from quorate.runtime import TlsFiles
from quorate.types import NodeId

AUTHORITY: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca-key.pem"
_NAME_MAX: Final = 64
_KEYSTORE: Final = "-keystore.pem"
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]{1,253}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateView:
    """One certificate in a folder."""

    path: str
    uri: str
    """Empty: it names no member of a cluster."""
    issuer: str
    not_before: datetime
    not_after: datetime
    """It ends then."""


class CertificateFolder:
    """The folder of an authority. `ca-key.pem` is the one file that makes members: keep it where no node
    runs."""

    def __init__(self, folder: str | Path, *, now: datetime) -> None:
        """`now`: the time that certificates begin at, with its time zone."""
        self._folder = Path(folder)
        self._now = now

    @property
    def authorities(self) -> Path:
        """The file that every member needs, besides its own two."""
        return self._folder / AUTHORITY

    def create_authority(self, cluster_id: str, *, days: int = 3650) -> Path:
        """Make the authority of a cluster, in a folder of mode 0700 or one that is there and that nobody else
        may write to. Raises `CertificateError` if there is one, or the cluster id is empty."""
        if not cluster_id:
            raise CertificateError("the cluster id is empty; name that of the quorum's configuration")
        _check_days(days)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CertificateError(f"{self._folder} can't be made: {error.strerror}") from error
        self._check_mode()
        key = new_key()
        certificate = make_authority(key, uri=authority_uri(cluster_id), now=self._now, days=days)
        _write_both(
            self._folder / AUTHORITY_KEY, key_pem(key), self.authorities, certificate_pem(certificate)
        )
        return self.authorities

    def add_authority(self, *, days: int = 3650) -> Path:
        """Make a new authority that signs from now on, and keep the earlier one in `ca.pem` beside it: both
        vouch until `drop_earlier_authorities`. The key of the earlier one is replaced. Raises
        `CertificateError`, also if an authority is being replaced already."""
        _check_days(days)
        earlier = _read_certificates(self.authorities)
        if len(earlier) > 1:
            raise CertificateError(
                f"{self.authorities} holds {len(earlier)} authorities already; drop the earlier one first"
            )
        uri = authority_uri(self.cluster_id)
        self._authority_key()
        key = new_key()
        both = [make_authority(key, uri=uri, now=self._now, days=days), *earlier]
        # In this order: the key tells which of them signs.
        _write(self.authorities, b"".join(map(certificate_pem, both)), 0o644)
        _write(self._folder / AUTHORITY_KEY, key_pem(key), 0o600)
        return self.authorities

    def renew(self, *, days: int = 365) -> Sequence[TlsFiles]:
        """Make new keys and certificates for all nodes and clients in the folder, with the same names and
        hosts, signed by the authority whose key is here. Those of `joined` stay as they are. Raises
        `CertificateError`."""
        renewed: list[TlsFiles] = []
        joined = self.joined
        for path in self._members():
            if path in joined:
                continue
            (certificate,) = _read_certificates(path)
            identities = [each for each in map(Identity.parse, _uris(certificate)) if each is not None]
            if len(identities) != 1:
                raise CertificateError(f"{path} names no member of a cluster; move it elsewhere")
            renewed.append(self._create(identities[0], path.stem, days, _hosts_of(certificate)))
        if not renewed and not joined:
            raise CertificateError(f"{self._folder} has no certificates of nodes or clients")
        return renewed

    @property
    def joined(self) -> Sequence[Path]:
        """The certificates of nodes that made their keys themselves, and have the only copy."""
        return [
            path for path in self._members() if path.name.startswith("node-") and not _key_of(path).exists()
        ]

    def drop_earlier_authorities(self) -> Path:
        """Keep only the authority that signs. Raises `CertificateError`, also if a certificate in the folder
        needs an earlier one."""
        kept = self._authority()
        for path in self._members():
            (certificate,) = _read_certificates(path)
            if certificate.issuer != kept.subject:
                raise CertificateError(f"{path} is of an earlier authority; make a new one first")
        _write(self.authorities, certificate_pem(kept), 0o644)
        return self.authorities

    def _members(self) -> Sequence[Path]:
        return [
            path
            for path in sorted(self._folder.glob("*.pem"))
            if path.name.startswith(("node-", "client-")) and not path.name.endswith(("-key.pem", _KEYSTORE))
        ]

    def create_node(self, node: NodeId, *, hosts: Sequence[str] = (), days: int = 365) -> TlsFiles:
        """Make the certificate of a node, in place of an earlier one. `hosts`: the names and IP addresses at
        which clients of Kafka's protocol reach it. Raises `CertificateError`."""
        check_node(node, hosts, days)
        return self._create(Identity(self.cluster_id, node), f"node-{node}", days, hosts)

    def sign_node(
        self, node: NodeId, key: ec.EllipticCurvePublicKey, *, hosts: Sequence[str] = (), days: int = 365
    ) -> bytes:
        """Make the certificate of a node that has made its key itself, and return it in the form PEM. It is
        kept in the folder, in place of an earlier one and of that one's key. Raises `CertificateError`."""
        check_node(node, hosts, days)
        path = self._folder / f"node-{node}.pem"
        identity = Identity(self.cluster_id, node)
        certificate = certificate_pem(self._certify(key, identity.uri, path.stem, hosts, days))
        try:
            for stale in (_key_of(path), keystore_of(path)):
                stale.unlink(missing_ok=True)
        except OSError as error:
            raise CertificateError(f"{self._folder} can't be written: {error.strerror}") from error
        _write(path, certificate, 0o644)
        return certificate

    def check_keyless(self, node: NodeId) -> None:
        """Raise `CertificateError` if a node's key is in the folder: by `sign_node` it would be lost."""
        for path in (_key_of(self._folder / f"node-{node}.pem"), keystore_of(self._folder / f"node-{node}")):
            if path.exists():
                raise CertificateError(
                    f"the key of node {node} is here already, in {path}; delete the file first if the node "
                    "is to make its own"
                )

    def create_signer(self, folder: Path, *, days: int = 365) -> TlsFiles:
        """Make the certificate of the server at which nodes join the cluster, in another folder. It names no
        member. Raises `CertificateError`."""
        key = new_key()
        certificate = self._certify(key.public_key(), signer_uri(self.cluster_id), "signer", (), days)
        paths = folder / "signer-key.pem", folder / "signer.pem"
        _write_both(paths[0], key_pem(key), paths[1], certificate_pem(certificate))
        return TlsFiles(certificate=str(paths[1]), key=str(paths[0]), authorities="")

    def signing_authority(self) -> bytes:
        """Return the certificate of the authority that signs, in the form PEM. Raises `CertificateError`,
        also if its key is not here."""
        self._authority_key()
        return certificate_pem(self._authority())

    def create_client(self, name: str, *, days: int = 365) -> TlsFiles:
        """Make the certificate of a client, in place of an earlier one. Raises `CertificateError`."""
        if not name or len(name) > _NAME_MAX or not all(each.isalnum() or each in "._-" for each in name):
            raise CertificateError(
                f"the client name {name!r} must have 1 to {_NAME_MAX} letters, digits, dots, dashes or "
                "underscores"
            )
        return self._create(Identity(self.cluster_id, None, name), f"client-{name}", days)

    @property
    def cluster_id(self) -> str:
        """The cluster whose authority this is. Raises `CertificateError`."""
        return cluster_of(self.authorities)

    def certificates(self) -> Sequence[CertificateView]:
        """Return the certificates in the folder, by name. Raises `CertificateError`."""
        found: list[CertificateView] = []
        for path in sorted(self._folder.glob("*.pem")):
            if not path.name.endswith(("-key.pem", _KEYSTORE)):
                found.extend(_view(path, each) for each in _read_certificates(path))
        if not found:
            raise CertificateError(f"{self._folder} has no certificates; make an authority first")
        return found

    def _create(self, identity: Identity, name: str, days: int, hosts: Sequence[str] = ()) -> TlsFiles:
        key = new_key()
        certificate = self._certify(key.public_key(), identity.uri, name, hosts, days)
        return write_member(self._folder, name, key=key_pem(key), certificate=certificate_pem(certificate))

    def _certify(
        self, key: ec.EllipticCurvePublicKey, uri: str, name: str, hosts: Sequence[str], days: int
    ) -> x509.Certificate:
        _check_days(days)
        return make_member(
            key, self._authority(), self._authority_key(),
            uri=uri, name=name, hosts=hosts, now=self._now, days=days,
        )  # fmt: skip

    def _authority(self) -> x509.Certificate:
        """The one that signs."""
        found = _read_certificates(self.authorities)
        if len(found) == 1:
            return found[0]
        own = self._authority_key().public_key()
        for each in found:
            if each.public_key() == own:
                return each
        raise CertificateError(
            f"no certificate in {self.authorities} is of the key {AUTHORITY_KEY} beside it"
        )

    def _check_mode(self) -> None:
        """Who may write to the folder may put other keys in the place of those here (CVE-2020-15113)."""
        try:
            mode = stat.S_IMODE(self._folder.stat().st_mode)
        except OSError:
            return  # Whoever reads from it next says so.
        if mode & 0o022:
            raise CertificateError(
                f"others may write to {self._folder} (its mode is {mode:04o}); chmod go-w it, and look at "
                "what is in it"
            )

    def _authority_key(self) -> ec.EllipticCurvePrivateKey:
        self._check_mode()
        path = self._folder / AUTHORITY_KEY
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise CertificateError(
                f"{path} can't be read ({error.strerror}); certificates are made where the authority's key is"
            ) from error
        except (ValueError, TypeError) as error:
            raise CertificateError(f"{path} is no key in the form PEM without a password") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateError(f"{path} is no key of an elliptic curve; make the authority here")
        return key


def keystore_of(certificate: str | Path) -> Path:
    """Return the file with both the certificate and its key, as Kafka's `ssl.keystore.location` wants it."""
    path = Path(certificate)
    return path.with_name(f"{path.stem}{_KEYSTORE}")


def cluster_of(authorities: Path) -> str:
    """Return the cluster of the authorities in a file. Raises `CertificateError`."""
    uris = [uri for each in _read_certificates(authorities) for uri in _uris(each)]
    found = {each for each in map(cluster_of_authority, uris) if each is not None}
    if len(found) != 1:
        raise CertificateError(f"{authorities} is no authority of a cluster; see what it is")
    return found.pop()


def _key_of(certificate: Path) -> Path:
    return certificate.with_name(f"{certificate.stem}-key.pem")


def write_member(folder: Path, name: str, *, key: bytes, certificate: bytes) -> TlsFiles:
    """Write the files of a node or a client beside those of the authorities, in place of earlier ones. Raises
    `CertificateError`."""
    path = folder / f"{name}.pem"
    _write_both(_key_of(path), key, path, certificate, replaces=True)
    _write(keystore_of(path), key + certificate, 0o600)
    return TlsFiles(certificate=str(path), key=str(_key_of(path)), authorities=str(folder / AUTHORITY))


def write_authorities(folder: Path, authorities: bytes) -> None:
    """Write the certificates of the authorities of a member's cluster. Raises `CertificateError`."""
    _write(folder / AUTHORITY, authorities, 0o644)


def check_node(node: NodeId, hosts: Sequence[str], days: int) -> None:
    """Raise `CertificateError` if there can't be a certificate that says so."""
    if node < 0:
        raise CertificateError(f"the node id is {node}; it must be 0 or more")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise CertificateError(f"{host!r:.80} is no name of a host and no IP address")
    _check_days(days)


def _check_days(days: int) -> None:
    if not 1 <= days <= 36500:
        raise CertificateError(f"the certificate would be good for {days} days; choose 1 to 36500")


def _read_certificates(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise CertificateError(f"{path} can't be read ({error.strerror}); make an authority first") from error
    except ValueError as error:
        raise CertificateError(f"{path} holds no certificate in the form PEM") from error


def _uris(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def _hosts_of(certificate: x509.Certificate) -> Sequence[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return [*names.get_values_for_type(x509.DNSName), *addresses]


def _view(path: Path, certificate: x509.Certificate) -> CertificateView:
    return CertificateView(
        path=str(path),
        uri=", ".join(_uris(certificate)),
        issuer=certificate.issuer.rfc4514_string().removeprefix("CN="),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
    )


def _write_both(
    key_path: Path, key: bytes, certificate_path: Path, certificate: bytes, *, replaces: bool = False
) -> None:
    """Write a key that only its owner may read, and its certificate. A reader of the two between the two
    renames finds that they don't fit, and keeps what it had."""
    for path in (key_path, certificate_path):
        if path.exists() and not replaces:
            raise CertificateError(f"{path} is there already; choose another folder")
    _write(key_path, key, 0o600)
    _write(certificate_path, certificate, 0o644)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all. Raises `CertificateError`."""
    _write(path, content, 0o600)


def _write(path: Path, content: bytes, mode: int) -> None:
    partial = path.with_name(f"{path.name}.new")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        partial.replace(path)
    except OSError as error:
        raise CertificateError(f"{path.parent} can't be written: {error.strerror}") from error
