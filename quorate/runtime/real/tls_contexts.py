"""The TLS contexts of one node, made of its files, and made anew when these change.

A context can't lose an authority again, so each change makes new ones. They replace the old ones only if
they work: a handshake between the two ends in memory must succeed. So a file that is half written, expired or
of another key leaves the node with what it had.

Python can't verify an accepted certificate again. So the name of its issuer tells whether a removed authority
vouched for it. Whatever that doesn't tell counts as vouched for by the removed one.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, cast

from quorate.runtime.event_log import get_logger
from quorate.runtime.network import (
    MEMBERS,
    CertificateEnd,
    ClientAuth,
    TlsError,
    TlsFiles,
    TlsFilesError,
    TlsTerms,
)
from quorate.runtime.real.certificate_dates import end_ms_of
from quorate.runtime.real.key_stores import KeyStores

log = get_logger(__name__)

_HANDSHAKE_STEPS: Final = 10
X509Name = tuple[tuple[tuple[str, str], ...], ...]
"""A name of a certificate as the standard library gives it."""


@dataclass(frozen=True, slots=True)
class _Contexts:
    server: ssl.SSLContext | None
    """None: nothing listens."""
    client: ssl.SSLContext | None
    """None: nothing connects."""
    identities: tuple[str, ...]
    """The URIs in the certificate of both."""
    authorities: Mapping[bytes, X509Name | None]
    """The certificates in the file of authorities, and their subjects. None: it signs no others."""
    certificates: tuple[CertificateEnd, ...]


def uris_of(end: ssl.SSLSocket | ssl.SSLObject) -> tuple[str, ...]:
    """Return the URIs in the verified certificate of the other end."""
    names = (end.getpeercert() or {}).get("subjectAltName", ())
    return tuple(str(each[1]) for each in names if each[0] == "URI")


_KEYWORDS: Final = MappingProxyType(
    {
        "commonName": "CN",
        "countryName": "C",
        "localityName": "L",
        "stateOrProvinceName": "ST",
        "organizationName": "O",
        "organizationalUnitName": "OU",
        "streetAddress": "STREET",
        "domainComponent": "DC",
        "userId": "UID",
    }
)
"""The attributes of a name that Java writes as keywords (`X500Principal.getName`)."""


def subject_of(end: ssl.SSLSocket | ssl.SSLObject) -> str | None:
    """Return the name in the verified certificate of the other end, as Java does: RFC 2253, the last part
    first. An attribute without a keyword there has its name of OpenSSL here, and its number and its encoding
    in Java. None: there is no certificate."""
    parts = (end.getpeercert() or {}).get("subject")
    if parts is None:
        return None
    return ",".join(
        "+".join(f"{_KEYWORDS.get(str(name), str(name))}={_escaped(str(value))}" for name, value in part)
        for part in reversed(parts)
    )


def end_of(end: ssl.SSLSocket | ssl.SSLObject) -> int | None:
    """Return when the verified certificate of the other end ends, in ms since the Unix epoch. None: there is
    no certificate."""
    text = (end.getpeercert() or {}).get("notAfter")
    return None if text is None else int(ssl.cert_time_to_seconds(str(text))) * 1000


def issuer_of(end: ssl.SSLSocket | ssl.SSLObject) -> X509Name | None:
    """Return the name of who signed the verified certificate of the other end. None: there is no
    certificate."""
    return cast("X509Name | None", (end.getpeercert() or {}).get("issuer"))


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in ',+"\\<>;' else each for each in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text


class TlsContexts:
    """Both contexts of a node. Each look at them looks at the files."""

    def __init__(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> None:
        """Raises `TlsFilesError`."""
        self._files = files
        self._terms = terms
        self._seen = self._stamps()
        self._fault = ""
        """Why the files, as they were last seen, can't be used."""
        self._contexts = _contexts_of(files, terms)
        self.era = 0
        """The number of changes that removed an authority."""
        self._removed: dict[X509Name | None, int] = {}
        """The names of removed authorities, with the era that began then."""

    @property
    def server(self) -> ssl.SSLContext:
        """Raises `TlsError` if nothing may listen."""
        self._refresh()
        if self._contexts.server is None:
            raise TlsError("these certificates are those of a client, and nothing listens")
        return self._contexts.server

    @property
    def client(self) -> ssl.SSLContext:
        """Raises `TlsError` if nothing may connect."""
        self._refresh()
        if self._contexts.client is None:
            raise TlsError("these certificates are those of a listener for clients, and nothing connects")
        return self._contexts.client

    @property
    def identities(self) -> tuple[str, ...]:
        return self._contexts.identities

    @property
    def certificates(self) -> tuple[CertificateEnd, ...]:
        return self._contexts.certificates

    def vouch_for(self, issuer: X509Name, era: int) -> bool:
        """Return whether a certificate that was accepted in an era counts. `issuer`: who signed it. One that
        only a chain leads to an authority from doesn't count after any authority was removed."""
        return era == self.era or (
            issuer in self._contexts.authorities.values() and self._removed.get(issuer, 0) <= era
        )

    def look(self) -> None:
        """Take the files if they have changed, or could not be used so far: of a key whose mode was mended no
        stamp changes, and a certificate may have begun to count."""
        if self._fault:
            self._load()
        else:
            self._refresh()

    def _refresh(self) -> None:
        if self._stamps() != self._seen:
            self._load()

    def _load(self) -> None:
        self._seen = self._stamps()
        try:
            contexts = _contexts_of(self._files, self._terms)
            if contexts.identities != self.identities:
                raise TlsFilesError(
                    f"the certificate {self._files.certificate} names {contexts.identities} in place of "
                    f"{self.identities}; start the node again if that is meant"
                )
        except (TlsFilesError, OSError) as error:  # the latter of a file that is replaced meanwhile
            if str(error) != self._fault:
                self._fault = str(error)
                log.error(
                    "changed TLS files can't be used: new connections go on with the earlier ones",
                    reason=self._fault,
                )
            return
        self._fault = ""
        earlier, self._contexts = self._contexts, contexts
        removed = [name for der, name in earlier.authorities.items() if der not in contexts.authorities]
        if removed:
            self.era += 1
            self._removed.update(dict.fromkeys(removed, self.era))
        log.info(
            "TLS files have changed: new connections use them",
            certificate=self._files.certificate,
            authorities_removed=len(removed),
        )

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for _, path in _paths(self._files)]


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _paths(files: TlsFiles) -> list[tuple[str, str]]:
    named = [("certificate", files.certificate), ("key", files.key), ("authorities", files.authorities)]
    return [each for each in named if each[1]]


def _contexts_of(files: TlsFiles, terms: TlsTerms) -> _Contexts:
    for name, path in _paths(files):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise TlsFilesError(f"the {name} {path} can't be read: {error.strerror}") from error
    stores = KeyStores.read(files)
    authorities, certificates = _authorities(stores), _ends_of(stores)
    mode = os.stat(files.key).st_mode if files.key else 0
    if mode & 0o077:
        raise TlsFilesError(
            f"the key {files.key} can be read by others (its mode is {mode & 0o777:04o}); chmod 600 it"
        )
    if terms.connects:
        client = _context(stores, terms, ssl.PROTOCOL_TLS_CLIENT)
        if not files.authorities:
            client.verify_mode = ssl.CERT_REQUIRED
            client.load_default_certs()
        client.check_hostname = not terms.any_host
        return _Contexts(None, client, (), authorities, certificates)
    server = _context(stores, terms, ssl.PROTOCOL_TLS_SERVER)
    if terms == MEMBERS:
        client = _context(stores, terms, ssl.PROTOCOL_TLS_CLIENT)
        return _Contexts(server, client, _greet_in_memory(files, server, client), authorities, certificates)
    # The authorities vouch for clients, and others may have signed the certificate of the listener.
    alone = replace(stores, files=replace(files, authorities=""), trusted=None)
    undemanding = replace(terms, client_auth=ClientAuth.NONE)
    anyone = _context(alone, undemanding, ssl.PROTOCOL_TLS_CLIENT)
    _greet_in_memory(files, _context(alone, undemanding, ssl.PROTOCOL_TLS_SERVER), anyone)
    return _Contexts(server, None, (), authorities, certificates)


def _authorities(stores: KeyStores) -> Mapping[bytes, X509Name | None]:
    files = stores.files
    if not files.authorities:
        return {}
    holder = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        stores.load_authorities(holder)
    except ssl.SSLError as error:
        raise TlsFilesError(
            f"the authorities {files.authorities} hold no certificate in the form PEM"
        ) from error
    # These leave out what may sign no others.
    subjects = [cast("X509Name", each["subject"]) for each in holder.get_ca_certs()]
    found: dict[bytes, X509Name | None] = {}
    found.update(dict.fromkeys(stores.authorities()))
    found.update(zip(holder.get_ca_certs(binary_form=True), subjects, strict=True))
    return found


def _ends_of(stores: KeyStores) -> tuple[CertificateEnd, ...]:
    return tuple(
        CertificateEnd(file=path, position=position, end_ms=end_ms)
        for path, certificates in stores.certificates()
        for position, der in enumerate(certificates, start=1)
        if (end_ms := end_ms_of(der)) is not None
    )


_DEMANDS: Final = MappingProxyType(
    {
        ClientAuth.NONE: ssl.CERT_NONE,
        ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
        ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
    }
)


def _context(stores: KeyStores, terms: TlsTerms, protocol: int) -> ssl.SSLContext:
    files = stores.files
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.verify_mode = _DEMANDS[terms.client_auth]
        # A ticket that nobody reads turns the end of a connection into a reset, which can destroy data.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    else:
        context.verify_mode = ssl.CERT_REQUIRED if files.authorities else ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if terms.before_1_3 else ssl.TLSVersion.TLSv1_3
    if terms.strict:
        # Without it OpenSSL takes certificates that RFC 5280 does not.
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    if files.authorities:
        stores.load_authorities(context)
    if not files.certificate:
        return context
    try:
        stores.load_chain(context)
    except ssl.SSLError as error:
        reason = (
            f"is not that of the certificate {files.certificate}"
            if error.reason == "KEY_VALUES_MISMATCH"
            else f"and the certificate {files.certificate} can't be read as PEM ({error.reason})"
        )
        if files.key_password and error.reason != "KEY_VALUES_MISMATCH":
            reason = f"can't be opened by its password, or is no key ({error.reason})"
        raise TlsFilesError(f"the key {files.key} {reason}") from error
    return context


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
