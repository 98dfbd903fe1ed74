"""What the benchmark's client and its nodes have in common: what it asks the application on a node, beside
appending, which is one byte and then a key, and their certificates."""

from quorate.runtime.network import TlsFiles

READ = b"r"
SNAPSHOT = b"s"

# Answers begin with one of these: is there such a thing in this version?
SUPPORTED, UNSUPPORTED = b"\1", b"\0"

CERTIFICATES = "QUORATE_BENCH_CERTIFICATES"
"""The variable with the folder of certificates of a quorum with TLS."""
CLIENT_NODE = 99
"""The node whose certificate the client has, where there is TLS."""


def member_files(folder: str, node: int) -> TlsFiles:
    """Return the files of a node among those that `CertificateFolder` made."""
    name = f"{folder}/node-{node}"
    return TlsFiles(certificate=f"{name}.pem", key=f"{name}-key.pem", authorities=f"{folder}/ca.pem")
