"""The errors of `quorate.certs`."""


class CertificateError(Exception):
    """A certificate can't be made or read. The message names the file and the remedy."""
