"""The public keys of an issuer of tokens, in a file of the node: a JWKS (RFC 7517, RFC 7518, RFC 8037).

Nothing that a client sends leads to a key that is not in the file, and nothing is fetched.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import trio

from quorate.runtime import Disk, MissingExtraError, get_logger, need

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    PublicKey: TypeAlias = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

log = get_logger(__name__)

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
"""The signatures that count. None of them is made with a secret that this node would have to know."""
_LEAST_RSA_BITS: Final = 2048
_MOST_BYTES: Final = 262_144
_READ_AGAIN_EVERY_S: Final = 1.0


class TokenKeysError(ValueError):
    """The file with the keys can't be used. The text names the remedy."""


class _LeftOutError(Exception):
    """A key is of no use for tokens. The text says why."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A public key of the issuer."""

    key_id: str | None
    """`kid`: the name by which tokens refer to it."""
    algorithms: frozenset[str]
    """Those of `ALGORITHMS` whose signatures it may check."""
    key: "PublicKey" = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """The content of a file."""

    keys: tuple[TokenKey, ...]
    left_out: tuple[str, ...] = ()
    """Why other keys of the file don't count. Sets have some for encryption, or of other algorithms."""

    @classmethod
    def parse(cls, content: bytes) -> "TokenKeys":
        """Raises `TokenKeysError`."""
        try:
            read = json.loads(content)
        except (ValueError, RecursionError):
            read = None
        listed = read.get("keys") if isinstance(read, dict) else None
        if not isinstance(listed, list):
            raise TokenKeysError('it is no JWKS, which is JSON such as {"keys": [{"kty": "RSA", ...}]}')
        keys, left_out = [], []
        for number, each in enumerate(listed, start=1):
            try:
                keys.append(_key_of(each))
            except _LeftOutError as why:
                left_out.append(f"key {number}: {why}")
        return cls(tuple(keys), tuple(left_out))


def _key_of(jwk: object) -> TokenKey:
    """Raises `_LeftOutError`, and `TokenKeysError` for what must not be in the file."""
    from jwt.exceptions import PyJWTError

    if not isinstance(jwk, dict):
        raise _LeftOutError("it is no object")
    key_id, uses = jwk.get("kid"), jwk.get("key_ops", ["verify"])
    if "d" in jwk:
        raise TokenKeysError(
            f"it has a private key (kid {key_id!r:.40}): who reads it can be any user; replace that key at "
            "its issuer, and put public keys into the file alone"
        )
    if not isinstance(key_id, str | None):
        raise _LeftOutError("its kid is no text")
    if jwk.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        raise _LeftOutError("it is not for signatures")
    try:
        algorithms, key = _public_key(jwk)
    except (PyJWTError, ValueError, TypeError, KeyError, OverflowError):
        # Their texts may have any content of the file.
        raise _LeftOutError(f"its parts are no key of kty {jwk.get('kty')!r:.20}") from None
    if "alg" in jwk:
        algorithms &= {jwk["alg"]} if isinstance(jwk["alg"], str) else set()
    if not algorithms:
        raise _LeftOutError(f"its algorithm is {jwk['alg']!r:.20}; there are {', '.join(ALGORITHMS)}")
    return TokenKey(key_id, algorithms, key)


def _public_key(jwk: Mapping[str, object]) -> tuple[frozenset[str], "PublicKey"]:
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    parts, kind = dict(jwk), (jwk.get("kty"), jwk.get("crv"))
    if kind[0] == "RSA":
        rsa = cast("RSAPublicKey", RSAAlgorithm.from_jwk(parts))
        if rsa.key_size < _LEAST_RSA_BITS:
            raise _LeftOutError(f"it has {rsa.key_size} bits, below {_LEAST_RSA_BITS}")
        return frozenset(("RS256", "PS256")), rsa
    if kind == ("EC", "P-256"):
        return frozenset(("ES256",)), cast("EllipticCurvePublicKey", ECAlgorithm.from_jwk(parts))
    if kind == ("OKP", "Ed25519"):
        return frozenset(("EdDSA",)), cast("Ed25519PublicKey", OKPAlgorithm.from_jwk(parts))
    raise _LeftOutError(f"its kty is {kind[0]!r:.20} and its crv {kind[1]!r:.20}")


class TokenKeyFile:
    """The keys in a file of this node. It is read again when keys are asked for, once a second at most, so a
    key that was taken out counts for nobody a second later."""

    __slots__ = ("_content", "_disk", "_fault", "_held", "_now", "_path", "_read_at")

    def __init__(self, disk: Disk, path: str, *, now: Callable[[], float] = trio.current_time) -> None:
        """Raises `TokenKeysError`."""
        try:
            need("OAUTHBEARER", "jwt", "cryptography", extra="oauth")
        except MissingExtraError as error:
            raise TokenKeysError(str(error)) from error
        self._disk = disk
        self._path = path
        self._now = now
        self._fault = ""
        self._content = self._read()
        self._held = self._parsed(self._content)
        self._read_at = now()
        if not self._held.keys:
            why = "; ".join(self._held.left_out) or "it is empty"
            raise TokenKeysError(f"{path} has no key that checks tokens: {why}")
        self._tell()

    def current(self) -> tuple[TokenKey, ...]:
        """Return the keys. A file that can't be used changes nothing, and is logged."""
        now = self._now()
        if now - self._read_at >= _READ_AGAIN_EVERY_S:
            self._read_at = now
            try:
                self._read_again()
                self._fault = ""
            except TokenKeysError as error:
                if str(error) != self._fault:
                    self._fault = str(error)
                    log.error("the keys of tokens can't be read again: the earlier ones go on",
                              reason=self._fault)  # fmt: skip
        return self._held.keys

    def _read_again(self) -> None:
        content = self._read()
        if content != self._content:
            self._held, self._content = self._parsed(content), content
            self._tell()

    def _tell(self) -> None:
        ids = [each.key_id or "without kid" for each in self._held.keys]
        log.info("keys of tokens were read", file=self._path, keys=ids, left_out=list(self._held.left_out))

    def _parsed(self, content: bytes) -> TokenKeys:
        try:
            return TokenKeys.parse(content)
        except TokenKeysError as error:
            raise TokenKeysError(f"the keys of tokens {self._path}: {error}") from None

    def _read(self) -> bytes:
        try:
            mode = self._disk.mode(self._path)
            if mode & 0o022:
                raise TokenKeysError(
                    f"others may write the keys of tokens {self._path} (the mode is {mode:04o}), and be any "
                    "user then; chmod go-w the file, and compare it with the issuer's"
                )
            with closing(self._disk.open_read_only(self._path)) as file:
                if file.size > _MOST_BYTES:
                    raise TokenKeysError(
                        f"the keys of tokens {self._path} have {file.size} bytes, above {_MOST_BYTES}; it "
                        "must be the issuer's JWKS alone"
                    )
                return file.read_at(0, file.size)
        except OSError as error:
            reason = error.strerror or str(error)
            raise TokenKeysError(
                f"the keys of tokens {self._path} can't be read: {reason}; fetch the issuer's JWKS into it"
            ) from error
