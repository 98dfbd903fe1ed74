"""The certificates of a cluster's members: one authority, and a certificate for each node and client.

A quorum with `QuorumConfig.tls` needs nothing of this at run time. Making certificates needs the package
`cryptography` (`pip install 'quorate[certs]'`).
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.certs.certs_errors import CertificateError
    from quorate.certs.folder import CertificateFolder, CertificateView, keystore_of, write_private
    from quorate.certs.join_messages import TOKEN_MAX_CHARACTERS, JoinToken
    from quorate.certs.join_server import serve_joins
    from quorate.certs.join_tokens import JoinTokens
    from quorate.certs.joining import join

_HOMES = {
    "CertificateError": "quorate.certs.certs_errors",
    "CertificateFolder": "quorate.certs.folder",
    "CertificateView": "quorate.certs.folder",
    "JoinToken": "quorate.certs.join_messages",
    "JoinTokens": "quorate.certs.join_tokens",
    "TOKEN_MAX_CHARACTERS": "quorate.certs.join_messages",
    "join": "quorate.certs.joining",
    "keystore_of": "quorate.certs.folder",
    "serve_joins": "quorate.certs.join_server",
    "write_private": "quorate.certs.folder",
}

__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "TOKEN_MAX_CHARACTERS",
    "CertificateError",
    "CertificateFolder",
    "CertificateView",
    "JoinToken",
    "JoinTokens",
    "join",
    "keystore_of",
    "serve_joins",
    "write_private",
]
