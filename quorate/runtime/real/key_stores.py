"""The content of a node's TLS files, in the form that `ssl` takes.

`ssl` knows PEM alone, and reads a key from a file alone. A store of the form PKCS12 is opened in memory, and
its key goes through a file that has no name (`memfd_create`), or where the system has no such files, through
one of mode 0600 that is removed at once.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from quorate.runtime.extras import MissingExtraError, need
from quorate.runtime.network import KeyStoreForm, TlsFiles, TlsFilesError
from quorate.runtime.real.certificate_dates import certificates_in

_PART: Final = "A keystore of the form PKCS12"


@dataclass(frozen=True, slots=True, repr=False)
class KeyStores:
    """The files, and the content of those that are PKCS12."""

    files: TlsFiles
    chain: bytes | None
    """The key and the certificates as PEM; None: they are in the file so."""
    trusted: bytes | None
    """The certificates of authorities as PEM; None: they are in the file so."""

    @classmethod
    def read(cls, files: TlsFiles) -> "KeyStores":
        """Raises `TlsFilesError`, `OSError`."""
        chain = trusted = None
        if files.key and files.key_form is KeyStoreForm.PKCS12:
            chain = _opened(files.key, files.key_password, with_key=True)
        if files.authorities and files.authorities_form is KeyStoreForm.PKCS12:
            trusted = _opened(files.authorities, files.authorities_password, with_key=False)
        return cls(files, chain, trusted)

    def certificates(self) -> list[tuple[str, list[bytes]]]:
        """Return the certificates in each file in the form DER: that of the node, then the authorities."""
        found = []
        for path, pem in ((self.files.certificate, self.chain), (self.files.authorities, self.trusted)):
            if path:
                found.append((path, _in(path, pem)))
        return found

    def authorities(self) -> list[bytes]:
        """Return the certificates of the authorities in the form DER."""
        return _in(self.files.authorities, self.trusted)

    def load_authorities(self, context: ssl.SSLContext) -> None:
        """Raises `ssl.SSLError`."""
        if self.trusted is None:
            context.load_verify_locations(cafile=self.files.authorities)
        else:
            context.load_verify_locations(cadata=self.trusted.decode())

    def load_chain(self, context: ssl.SSLContext) -> None:
        """Raises `ssl.SSLError`, `TlsFilesError`."""
        files = self.files
        if self.chain is None:
            context.load_cert_chain(files.certificate, files.key, password=self._password)
            return
        with _nameless(self.chain) as path:
            context.load_cert_chain(path)

    def _password(self) -> str:
        """OpenSSL would ask on the terminal."""
        if not self.files.key_password:
            raise TlsFilesError(
                f"the key {self.files.key} has a password; set it in ssl.key.password, or store the key "
                "without one, with mode 0600"
            )
        return self.files.key_password


def _in(path: str, pem: bytes | None) -> list[bytes]:
    if pem is None:
        with open(path, encoding="latin-1") as file:
            return certificates_in(file.read())
    return certificates_in(pem.decode())


def _opened(path: str, password: str, *, with_key: bool) -> bytes:
    """Return the content of a PKCS12 file as PEM: the key, if it is wanted, and all certificates."""
    try:
        need(_PART, "cryptography", extra="certs")
    except MissingExtraError as error:
        raise TlsFilesError(f"{path}: {error}") from None
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    with open(path, "rb") as file:
        content = file.read()
    try:
        store = pkcs12.load_pkcs12(content, password.encode() or None)
    except ValueError:
        # What is wrong, OpenSSL can't tell: it is decrypted or not.
        raise TlsFilesError(
            f"the keystore {path} can't be opened: its password is another one, or it is not of the form "
            "PKCS12; keytool -importkeystore -deststoretype PKCS12 converts others"
        ) from None
    pem = b""
    if with_key:
        if store.key is None or store.cert is None:
            raise TlsFilesError(f"the keystore {path} has no key with its certificate")
        pem = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificates = [each for each in (store.cert, *store.additional_certs) if each is not None]
    if not certificates:
        raise TlsFilesError(f"the truststore {path} has no certificate")
    return pem + b"".join(each.certificate.public_bytes(Encoding.PEM) for each in certificates)


@contextmanager
def _nameless(content: bytes) -> Iterator[str]:
    """A file that only this process can open, for the time of the block."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp()
    try:
        os.write(descriptor, content)
        yield path
    finally:
        os.close(descriptor)
        os.unlink(path)
