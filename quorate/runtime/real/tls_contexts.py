"""The TLS contexts of one node, made of its files, and made anew when these change.

A context can't lose an authority again, so each change makes new ones. They replace the old ones only if
they work: a handshake between the two ends in memory must succeed. So a file that is half written, expired or
of another key leaves the node with what it had.
"""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.runtime.event_log import get_logger
from quorate.runtime.network import TlsFiles, TlsFilesError

log = get_logger(__name__)

_HANDSHAKE_STEPS: Final = 10


@dataclass(frozen=True, slots=True)
class _Contexts:
    server: ssl.SSLContext
    client: ssl.SSLContext
    identities: tuple[str, ...]
    """The URIs in the certificate of both."""


def uris_of(end: ssl.SSLSocket | ssl.SSLObject) -> tuple[str, ...]:
    """Return the URIs in the verified certificate of the other end."""
    names = (end.getpeercert() or {}).get("subjectAltName", ())
    return tuple(str(each[1]) for each in names if each[0] == "URI")


class TlsContexts:
    """Both contexts of a node. Each look at them looks at the files."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises `TlsFilesError`."""
        self._files = files
        self._seen = self._stamps()
        self._contexts = _contexts_of(files)

    @property
    def server(self) -> ssl.SSLContext:
        self._refresh()
        return self._contexts.server

    @property
    def client(self) -> ssl.SSLContext:
        self._refresh()
        return self._contexts.client

    @property
    def identities(self) -> tuple[str, ...]:
        return self._contexts.identities

    def _refresh(self) -> None:
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            contexts = _contexts_of(self._files)
            if contexts.identities != self.identities:
                raise TlsFilesError(
                    f"the certificate {self._files.certificate} names {contexts.identities} in place of "
                    f"{self.identities}; start the node again if that is meant"
                )
        except TlsFilesError as error:
            log.error(
                "changed TLS files can't be used: new connections go on with the earlier ones",
                reason=str(error),
            )
        else:
            self._contexts = contexts
            log.info("TLS files have changed: new connections use them", certificate=self._files.certificate)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in (self._files.certificate, self._files.key, self._files.authorities)]


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _contexts_of(files: TlsFiles) -> _Contexts:
    for name, path in (
        ("certificate", files.certificate),
        ("key", files.key),
        ("authorities", files.authorities),
    ):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise TlsFilesError(f"the {name} {path} can't be read: {error.strerror}") from error
    mode = os.stat(files.key).st_mode
    if mode & 0o077:
        raise TlsFilesError(
            f"the key {files.key} can be read by others (its mode is {mode & 0o777:04o}); chmod 600 it"
        )
    server = _context(files, ssl.PROTOCOL_TLS_SERVER)
    client = _context(files, ssl.PROTOCOL_TLS_CLIENT)
    return _Contexts(server, client, _greet_in_memory(files, server, client))


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Without it OpenSSL takes certificates that RFC 5280 does not.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # A ticket that nobody reads turns the end of a connection into a reset, which can destroy data.
        context.num_tickets = 0
    try:
        context.load_verify_locations(cafile=files.authorities)
    except ssl.SSLError as error:
        raise TlsFilesError(
            f"the authorities {files.authorities} hold no certificate in the form PEM"
        ) from error
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password(files))
    except ssl.SSLError as error:
        reason = (
            f"is not that of the certificate {files.certificate}"
            if error.reason == "KEY_VALUES_MISMATCH"
            else f"and the certificate {files.certificate} can't be read as PEM ({error.reason})"
        )
        raise TlsFilesError(f"the key {files.key} {reason}") from error
    return context


def _no_password(files: TlsFiles) -> Callable[[], str]:
    """OpenSSL would ask on the terminal."""

    def refuse() -> str:
        raise TlsFilesError(f"the key {files.key} has a password; store it without one, with mode 0600")

    return refuse


def _greet_in_memory(files: TlsFiles, server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, ...]:
    """Let both ends greet each other, and return the URIs of the certificate. The chain, the dates and the
    purposes are those of OpenSSL. Raises `TlsFilesError`."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    greeted: list[ssl.SSLObject] = []
    for _ in range(_HANDSHAKE_STEPS):
        for end in [each for each in ends if each not in greeted]:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                raise TlsFilesError(
                    f"the certificate {files.certificate} is not accepted with the authorities "
                    f"{files.authorities}: {error.verify_message}"
                ) from error
            except ssl.SSLError as error:
                raise TlsFilesError(f"the certificate {files.certificate} can't be used: {error}") from error
            greeted.append(end)
    if len(greeted) < len(ends):
        raise TlsFilesError(f"the certificate {files.certificate} can't be used: no handshake succeeds")
    return uris_of(ends[0])
