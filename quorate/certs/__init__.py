"""The certificates of a cluster's members: one authority, and a certificate for each node and client.

A quorum with `QuorumConfig.tls` needs nothing of this at run time. Making certificates needs the package
`cryptography` (`pip install 'quorate[certs]'`).
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.certs.certs_errors import CertificateError
    from quorate.certs.folder import CertificateFolder, CertificateView, keystore_of, write_private

_HOMES = {
    "CertificateError": "quorate.certs.certs_errors",
    "CertificateFolder": "quorate.certs.folder",
    "CertificateView": "quorate.certs.folder",
    "keystore_of": "quorate.certs.folder",
    "write_private": "quorate.certs.folder",
}

__getattr__ = lazily(__name__, _HOMES)

__all__ = ["CertificateError", "CertificateFolder", "CertificateView", "keystore_of", "write_private"]
