"""Sealing of users' keys: who reads the metadata log, a snapshot or a copy of either can't pose as a user.

A sealed key is encrypted and authenticated by a key of the cluster that is in a file of each node, and never
in the log. The construction is SIV (Rogaway and Shrimpton, "Deterministic Authenticated-Encryption", 2006,
the mode of RFC 5297), made of HMAC-SHA256 because the standard library has no cipher: the tag of the context
and the plaintext is also the nonce of the keystream. It needs no randomness, so no nonce can be repeated by a
controller that lost its state, was restored from a backup or runs in simulation from a seed. The price of a
deterministic mode is that equal plaintexts in an equal context are seen to be equal. Here the context names
one credential of one user, with its salt, so all that shows is that nothing has changed.

The context is not stored: a sealed key that is copied to another user, mechanism, salt or field does not
open.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import trio

from quorate.broker.metadata.metadata_records import UserScramCredential
from quorate.runtime import Disk, Entropy, get_logger, write_file_atomically
from quorate.types import SecretBytes

log = get_logger(__name__)

SETTING: Final = "scram.sealing.key.location"
"""The setting that names the file with the keys."""
KEY_BYTES: Final = 32
_VERSION: Final = b"\x01"
_TAG_BYTES: Final = 32
_ID_BYTES: Final = 8
_LABEL: Final = b"quorate users' keys: "
"""What is derived from a key of the file is of no use for anything else that might be derived from it."""
_READ_AGAIN_EVERY_S: Final = 1.0


class SealingFileError(ValueError):
    """The file with the keys can't be used. The text names the remedy."""


class SealBrokenError(Exception):
    """The bytes were not sealed by this key, or not in this context."""


class UnknownSealingKeyError(Exception):
    """A credential is sealed by a key that this node does not have."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"it is sealed by key {key_id}, which is not in the file of {SETTING}")
        self.key_id = key_id


class SealingKey:
    """One key. It shows nothing but its id."""

    __slots__ = ("_encryption", "_fake_salts", "_tagging", "id")

    def __init__(self, secret: bytes) -> None:
        """`secret`: `KEY_BYTES` random bytes."""
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a sealing key has {KEY_BYTES} bytes, not {len(secret)}")
        self._encryption = _derived(secret, b"encryption")
        self._tagging = _derived(secret, b"tag")
        self._fake_salts = _derived(secret, b"fake salts")
        self.id = _derived(secret, b"id")[:_ID_BYTES].hex()
        """The name of the key, which is no secret: 16 hexadecimal digits."""

    def __repr__(self) -> str:
        return f"SealingKey({self.id})"

    @property
    def fake_salt_secret(self) -> bytes:
        """A secret that all nodes with this key share, for the salts of users that do not exist."""
        return self._fake_salts

    def seal(self, plaintext: bytes, context: Sequence[bytes]) -> bytes:
        """Return the version, the tag and the ciphertext: 33 bytes more than `plaintext` has."""
        tag = self._tag(plaintext, context)
        return _VERSION + tag + self._crypted(tag, plaintext)

    def open(self, sealed: bytes, context: Sequence[bytes]) -> bytes:
        """Return the plaintext. Raises `SealBrokenError`."""
        version, tag, ciphertext = sealed[:1], sealed[1 : 1 + _TAG_BYTES], sealed[1 + _TAG_BYTES :]
        if version != _VERSION or len(tag) < _TAG_BYTES:
            raise SealBrokenError("these bytes are not sealed in a form that is known here")
        plaintext = self._crypted(tag, ciphertext)
        if not hmac.compare_digest(tag, self._tag(plaintext, context)):
            raise SealBrokenError("the seal is broken: the bytes, or what they belong to, have changed")
        return plaintext

    def _tag(self, plaintext: bytes, context: Sequence[bytes]) -> bytes:
        # Each with its length, so that nothing of one part can pass for the begin of the next.
        parts = (*context, plaintext)
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._tagging, message, "sha256")

    def _crypted(self, tag: bytes, data: bytes) -> bytes:
        stream = b"".join(self._keystream(tag, len(data)))[: len(data)]
        mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
        return mixed.to_bytes(len(data), "big")

    def _keystream(self, tag: bytes, size: int) -> Iterator[bytes]:
        for counter in range(-(-size // hashlib.sha256().digest_size)):
            yield hmac.digest(self._encryption, tag + counter.to_bytes(4, "big"), "sha256")


def _derived(secret: bytes, use: bytes) -> bytes:
    return hmac.digest(secret, _LABEL + use, "sha256")


@dataclass(frozen=True, slots=True)
class SealingKeys:
    """The keys of a file: the first seals, all open. There is at least one."""

    keys: tuple[SealingKey, ...]

    @classmethod
    def parse(cls, text: str) -> "SealingKeys":
        """Parse a file: a key a line in base64; empty lines, and those that begin with #, say nothing. Raises
        `SealingFileError`, which does not show the line."""
        keys: list[SealingKey] = []
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                keys.append(SealingKey(base64.b64decode(line.strip(), validate=True)))
            except ValueError:
                raise SealingFileError(
                    f"line {number} is no key: it must be {KEY_BYTES} bytes in base64, as "
                    "`quorate users create-key FILE` writes it"
                ) from None
        if not keys:
            raise SealingFileError("it has no key; make one with `quorate users create-key FILE`")
        return cls(tuple(keys))

    @property
    def first(self) -> SealingKey:
        """The key that seals."""
        return self.keys[0]

    def key(self, key_id: str) -> SealingKey | None:
        """Return the key of an id; None if it is not here."""
        return next((each for each in self.keys if each.id == key_id), None)


def draw_key_line(entropy: Entropy) -> str:
    """Return a new key as a line of a file."""
    drawn = entropy.below(1 << 8 * KEY_BYTES).to_bytes(KEY_BYTES, "big")
    return base64.b64encode(drawn).decode() + "\n"


async def prepend_key(disk: Disk, path: str, entropy: Entropy) -> SealingKeys:
    """Put a new key in front of those of the file, which only its owner may read. The file is made if there
    is none. Return all keys. Raises `SealingFileError`, `DiskError`."""
    held = _text_of(disk, path) if disk.exists(path) else ""
    if held:
        _parsed(path, held)
    text = draw_key_line(entropy) + held
    await write_file_atomically(disk, path, text.encode())
    return _parsed(path, text)


class Sealer:
    """The keys in the file of this node, and what is done with them. The file is read again before keys are
    sealed, and when one is met that is sealed by a key that is not known yet."""

    __slots__ = ("_disk", "_keys", "_now", "_path", "_read_at")

    def __init__(self, disk: Disk, path: str, *, now: Callable[[], float] = trio.current_time) -> None:
        """Read the file. Raises `SealingFileError`."""
        self._disk = disk
        self._path = path
        self._now = now
        self._read_at = -_READ_AGAIN_EVERY_S
        self._keys = _parsed(path, _text_of(disk, path))

    @property
    def key_id(self) -> str:
        """The id of the key that seals."""
        return self._keys.first.id

    @property
    def fake_salt_secret(self) -> bytes:
        """A secret that all nodes share whose files begin with the same key."""
        return self._keys.first.fake_salt_secret

    def read_again(self) -> None:
        """Read the file again. One that can't be used changes nothing, and is logged."""
        self._read_at = self._now()
        try:
            read = _parsed(self._path, _text_of(self._disk, self._path))
        except SealingFileError as error:
            log.error("the sealing keys can't be read again: the earlier ones go on", reason=str(error))
            return
        if [each.id for each in read.keys] != [each.id for each in self._keys.keys]:
            log.info("the sealing keys have changed", seals=read.first.id, keys=len(read.keys))
        self._keys = read

    def seal(self, credential: UserScramCredential) -> UserScramCredential:
        """Return a credential that is not sealed as it goes into the log."""
        key = self._keys.first

        def sealed(what: bytes, plaintext: bytes) -> SecretBytes:
            return SecretBytes(key.seal(plaintext, _context_of(credential, what)))

        return replace(
            credential,
            stored_key=sealed(_STORED_KEY, credential.stored_key),
            server_key=sealed(_SERVER_KEY, credential.server_key),
            sealed_by=key.id,
        )

    def open(self, credential: UserScramCredential) -> UserScramCredential:
        """Return a credential of the log with its keys. Raises `UnknownSealingKeyError`,
        `SealBrokenError`."""
        if not credential.sealed_by:
            return credential
        key = self._keys.key(credential.sealed_by)
        if key is None and self._now() - self._read_at >= _READ_AGAIN_EVERY_S:
            self.read_again()
            key = self._keys.key(credential.sealed_by)
        if key is None:
            raise UnknownSealingKeyError(credential.sealed_by)
        return replace(
            credential,
            stored_key=SecretBytes(key.open(credential.stored_key, _context_of(credential, _STORED_KEY))),
            server_key=SecretBytes(key.open(credential.server_key, _context_of(credential, _SERVER_KEY))),
            sealed_by="",
        )


_STORED_KEY: Final = b"stored key"
_SERVER_KEY: Final = b"server key"


def _context_of(credential: UserScramCredential, what: bytes) -> tuple[bytes, ...]:
    return (
        what,
        credential.name.encode(),
        b"%d" % credential.mechanism,
        credential.salt,
        b"%d" % credential.iterations,
    )


def _text_of(disk: Disk, path: str) -> str:
    """Raises `SealingFileError`."""
    try:
        mode = disk.mode(path)
        if mode & 0o077:
            raise SealingFileError(
                f"the sealing keys {path} can be read by others (the mode is {mode:04o}); chmod 600 the "
                "file, and replace its keys if somebody else may have read it"
            )
        with closing(disk.open_read_only(path)) as file:
            return file.read_at(0, file.size).decode()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SealingFileError(
            f"the sealing keys {path} can't be read: {reason}; make the file with "
            "`quorate users create-key`, or copy that of another node"
        ) from error
    except UnicodeDecodeError:
        raise SealingFileError(f"the sealing keys {path} are no text") from None


def _parsed(path: str, text: str) -> SealingKeys:
    try:
        return SealingKeys.parse(text)
    except SealingFileError as error:
        raise SealingFileError(f"the sealing keys {path}: {error}") from None
