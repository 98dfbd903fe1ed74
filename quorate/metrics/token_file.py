"""The token by which a scraper of metrics proves that it may have them (RFC 6750)."""

import hmac
import re
from contextlib import closing
from typing import Final

from quorate.runtime import Disk, get_logger

log = get_logger(__name__)

_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]{16,1024}=*")


class TokenFileError(ValueError):
    """The file with the token can't be used. The text names the remedy, and nothing of the token."""


class TokenFile:
    """The token in a file that only its owner may read. It is read for each request, so a new one counts from
    the next request on."""

    __slots__ = ("_disk", "_fault", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        """Raises `TokenFileError`."""
        self._disk = disk
        self._path = path
        self._fault = ""
        self._read()

    def accepts(self, authorization: str) -> bool:
        """Return whether a header `Authorization` has the token. While the file can't be used, none has."""
        scheme, _, given = authorization.strip().partition(" ")
        if scheme.lower() != "bearer":
            return False
        try:
            held = self._read()
        except TokenFileError as error:
            if str(error) != self._fault:
                self._fault = str(error)
                log.error("the token can't be read again: every request is refused", reason=self._fault)
            return False
        self._fault = ""
        return hmac.compare_digest(given.strip().encode("latin-1", "replace"), held)

    def _read(self) -> bytes:
        try:
            mode = self._disk.mode(self._path)
            if mode & 0o077:
                raise TokenFileError(
                    f"the token {self._path} can be read by others (the mode is {mode:04o}); chmod 600 the "
                    "file, and write another token if somebody else may have read it"
                )
            with closing(self._disk.open_read_only(self._path)) as file:
                token = file.read_at(0, min(file.size, 4096)).strip()
        except OSError as error:
            reason = error.strerror or str(error)
            raise TokenFileError(
                f"the token {self._path} can't be read: {reason}; make it with "
                f"(umask 077; openssl rand -hex 32 > {self._path})"
            ) from error
        if _TOKEN.fullmatch(token) is None:
            raise TokenFileError(
                f"the token {self._path} is no word of 16 to 1024 letters, digits and ._~+/-; make it with "
                f"(umask 077; openssl rand -hex 32 > {self._path})"
            )
        return token
