"""An issuer of tokens, written from RFC 7515 and RFC 7518 and apart from the code that checks them."""

import base64
import hmac
import json
from contextlib import closing
from functools import cache

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from quorate.broker.wire.listener_security import TokenTerms
from quorate.simulation.world.simulated_disk import SimulatedDisk

JWKS = "/etc/jwks.json"
ISSUER, AUDIENCE = "https://issuer.example/", "quorate"
TERMS = TokenTerms(keys=JWKS, issuer=ISSUER, audiences=("other", AUDIENCE))
INVALID = b'{"status":"invalid_token"}'


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int, size: int | None = None) -> str:
    return encoded(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


class Key:
    """A pair of keys of an issuer, for one algorithm."""

    def __init__(self, kid: str | None = "k1", algorithm: str = "ES256") -> None:
        self.kid = kid
        self.algorithm = algorithm
        self._rsa = rsa_key(kid or "") if algorithm in ("RS256", "PS256") else None
        self._ec = ec.generate_private_key(ec.SECP256R1())
        self._ed = ed25519.Ed25519PrivateKey.generate()

    def jwk(self, **changed: object) -> dict[str, object]:
        named = {} if self.kid is None else {"kid": self.kid}
        return {**named, "use": "sig", **self._parts(), **changed}

    def _parts(self) -> dict[str, object]:
        if self._rsa is not None:
            numbers = self._rsa.public_key().public_numbers()
            return {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
        if self.algorithm == "ES256":
            point = self._ec.public_key().public_numbers()
            return {"kty": "EC", "crv": "P-256", "x": number(point.x, 32), "y": number(point.y, 32)}
        raw = self._ed.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return {"kty": "OKP", "crv": "Ed25519", "x": encoded(raw)}

    @property
    def pem(self) -> bytes:
        """The public key."""
        key = self._rsa or self._ec
        return key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def signature(self, data: bytes) -> bytes:
        if self.algorithm == "ES256":
            parts = decode_dss_signature(self._ec.sign(data, ec.ECDSA(hashes.SHA256())))
            return b"".join(each.to_bytes(32, "big") for each in parts)
        if self._rsa is None:
            return self._ed.sign(data)
        if self.algorithm == "RS256":
            return self._rsa.sign(data, padding.PKCS1v15(), hashes.SHA256())
        return self._rsa.sign(data, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())

    def token(self, claims: object, **header: object) -> str:
        """A token. A header of None is left out."""
        return signed(claims, self.signature, **{"alg": self.algorithm, "kid": self.kid, **header})


def signed(claims: object, sign, **header: object) -> str:
    header = {name: value for name, value in header.items() if value is not None}
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    text = f"{encoded(json.dumps(header).encode())}.{encoded(body)}"
    return f"{text}.{encoded(sign(text.encode()))}"


def by_secret(claims: object, secret: bytes, **header: object) -> str:
    return signed(claims, lambda data: hmac.digest(secret, data, "sha256"), **{"alg": "HS256", **header})


def claims_at(now_s: float, **changed: object) -> dict[str, object]:
    """Claims that are good for a minute. One of None is left out."""
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "iat": now_s, "exp": now_s + 60}
    return {name: value for name, value in (usual | changed).items() if value is not None}


def jwks(*keys: Key | dict[str, object]) -> bytes:
    return json.dumps({"keys": [each.jwk() if isinstance(each, Key) else each for each in keys]}).encode()


def write_jwks(disk: SimulatedDisk, content: bytes) -> None:
    disk.make_folder("/etc")
    if disk.exists(JWKS):
        disk.remove(JWKS)
    with closing(disk.open(JWKS, create=True)) as file:
        file.append([content])


def bearer(token: str, *, authzid: str = "", extensions: str = "") -> bytes:
    """The client's message (RFC 7628)."""
    named = f"a={authzid}" if authzid else ""
    return f"n,{named},\x01auth=Bearer {token}\x01{extensions}\x01".encode()
