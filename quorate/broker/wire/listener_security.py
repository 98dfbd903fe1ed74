"""The protection of a listener: encryption, and how its clients say who they are."""

import enum
from dataclasses import dataclass
from typing import Final

from quorate.broker.wire.principal_rules import DEFAULT_RULES, PrincipalRules
from quorate.runtime import MEMBERS, TlsFiles, TlsTerms


class SecurityProtocol(enum.Enum):
    """The protocol of a listener, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        """Whether clients say who they are by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(enum.Enum):
    """The mechanisms of SASL that are served, by their names on the wire."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    PLAIN = "PLAIN"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTerms:
    """The demands of a listener on the tokens of OAUTHBEARER (RFC 7519, KIP-768)."""

    keys: str
    """The path of the file with the issuer's public keys, a JWKS (`sasl.oauthbearer.jwks.endpoint.url`)."""
    issuer: str
    """The claim `iss` (`sasl.oauthbearer.expected.issuer`)."""
    audiences: tuple[str, ...]
    """Those of which the claim `aud` has to name one (`sasl.oauthbearer.expected.audience`)."""
    skew_s: int = 30
    """How far the issuer's clock may be ahead (`sasl.oauthbearer.clock.skew.seconds`)."""
    user_claim: str = "sub"
    """The claim with the name of the user (`sasl.oauthbearer.sub.claim.name`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """The protection of one listener."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsFiles | None = None
    """The files of an encrypted protocol."""
    terms: TlsTerms = MEMBERS
    """The demands of an encrypted protocol on clients."""
    principal_rules: PrincipalRules = DEFAULT_RULES
    """The names of clients by the subjects of their certificates (`ssl.principal.mapping.rules`)."""
    mechanisms: tuple[SaslMechanism, ...] = ()
    """Those that are enabled, where the protocol has SASL (`sasl.enabled.mechanisms`)."""
    tokens: TokenTerms | None = None
    """What tokens have to be like; None: OAUTHBEARER is not enabled."""
    max_receive_bytes: int = 524_288
    """The largest frame before a client is known (`sasl.server.max.receive.size`)."""
    failure_delay_s: float = 0.1
    """How long the answer to a failed login, and the end of its connection, wait
    (`connection.failed.authentication.delay.ms`, KIP-306)."""
    session_max_s: float = 0.0
    """How long a login lasts before the client has to log in again on its connection; 0: as long as the
    connection (`connections.max.reauth.ms`, KIP-368)."""


UNPROTECTED: Final = ListenerSecurity()
