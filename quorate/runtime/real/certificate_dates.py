"""The certificates in files of the form PEM, and when they end.

The standard library tells that only of a certificate that a handshake has verified, or of an authority.
Source: RFC 5280, 4.1; X.690.
"""

import base64
import calendar
import re
from contextlib import suppress
from typing import Final

_PEM: Final = re.compile("-----BEGIN [A-Z0-9 ]*CERTIFICATE-----([^-]*)-----END")
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_FIELDS_BEFORE_VALIDITY: Final = 3
"""The serial number, the algorithm of the signature, and the issuer."""


def certificates_in(pem: str) -> list[bytes]:
    """Return the certificates of a text in the form DER, in order, without those that are no base64: whoever
    uses the text refuses them."""
    found = []
    for body in _PEM.findall(pem):
        with suppress(ValueError):
            found.append(base64.b64decode(body))
    return found


def end_ms_of(certificate: bytes) -> int | None:
    """Return when a certificate ends, in ms since the Unix epoch. None: it is no X.509 certificate."""
    try:
        _, at, _ = _element(certificate, 0)
        _, at, _ = _element(certificate, at)
        tag, _, end = _element(certificate, at)
        if tag == _VERSION:
            at = end
        for _ in range(_FIELDS_BEFORE_VALIDITY):
            _, _, at = _element(certificate, at)
        tag, at, _ = _element(certificate, at)
        _, _, second = _element(certificate, at)
        kind, start, end = _element(certificate, second)
        text = certificate[start:end].decode("ascii")
        if kind == _UTC_TIME:
            text = ("19" if text >= "50" else "20") + text
        if tag != _SEQUENCE or not text.endswith("Z"):
            return None
        date = tuple(int(text[i:j]) for i, j in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14)))
        return calendar.timegm(date) * 1000
    except (IndexError, ValueError):
        return None


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of the element at an offset, and where its content starts and ends."""
    tag, length, start = data[at], data[at + 1], at + 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[at + 2 : start], "big")
    if start + length > len(data):
        raise IndexError("the element ends outside the data")
    return tag, start, start + length
