"""The keys of a listener's protection. Each may be set for one listener by the prefix `listener.name.NAME.`,
with the name in lower case."""

from typing import Final

from quorate.broker.settings.config_key import (
    choices,
    int_key,
    list_key,
    long_key,
    not_empty,
    password_key,
    text_key,
)


def _client_auth(value: str) -> None:
    if value not in ("none", "requested", "required"):
        raise ValueError("it must be none, requested or required")


def _mechanisms(value: str) -> None:
    if value:
        choices("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")(value)


_VALIDATORS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)


def _validator(value: str) -> None:
    if value and value not in _VALIDATORS:
        raise ValueError(
            f"no class is loaded: tokens are checked as by Kafka's {_VALIDATORS[0]}; write that, or leave "
            "the key out"
        )


CONVERT: Final = (
    "quorate reads PEM and PKCS12; make the latter of another keystore by `keytool -importkeystore "
    "-srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12`"
)


def _form(value: str) -> None:
    if value not in ("PEM", "PKCS12"):
        raise ValueError(CONVERT)


# fmt: off
class ListenerKeys:
    """The protection of listeners. `ServerConfig` checks these keys together."""

    KEYSTORE: Final = text_key("ssl.keystore.location", "",
        "The file with the private key and the certificates of a listener, that of the listener first. Only "
        "its owner may read it. It is read again when it changes.")
    KEYSTORE_TYPE: Final = text_key("ssl.keystore.type", "PEM",
        "The form of ssl.keystore.location: PEM, or PKCS12, which needs the extra certs.",
        check=_form, kafkas="JKS")
    KEYSTORE_PASSWORD: Final = password_key("ssl.keystore.password",
        "The password of ssl.keystore.location in the form PKCS12.")
    KEY_PASSWORD: Final = password_key("ssl.key.password",
        "The password of the private key in ssl.keystore.location. In the form PKCS12 it is that of the "
        "file.")
    TRUSTSTORE: Final = text_key("ssl.truststore.location", "",
        "The file with the certificates of the authorities that vouch for clients, or between nodes for the "
        "other nodes. It is read again when it changes.")
    TRUSTSTORE_TYPE: Final = text_key("ssl.truststore.type", "PEM",
        "The form of ssl.truststore.location: PEM, or PKCS12, which needs the extra certs.",
        check=_form, kafkas="JKS")
    TRUSTSTORE_PASSWORD: Final = password_key("ssl.truststore.password",
        "The password of ssl.truststore.location in the form PKCS12.")
    CLIENT_AUTH: Final = text_key("ssl.client.auth", "none",
        "Whether clients show a certificate, which ssl.truststore.location vouches for: none, requested or "
        "required. Nodes show one to each other in any case.", check=_client_auth)
    PRINCIPAL_RULES: Final = text_key("ssl.principal.mapping.rules", "DEFAULT",
        "How the subject of a client certificate becomes a name: RULE:pattern/replacement/[LU] or DEFAULT, "
        "separated by commas. The first rule whose pattern matches the whole subject counts; without one the "
        "client is refused. Patterns are Python's. Certificates of `quorate certs` have names without rules.")
    PROTOCOLS: Final = list_key("ssl.enabled.protocols", "TLSv1.2,TLSv1.3",
        "The versions of TLS that clients may speak. Nodes speak 1.3 with each other.",
        check=choices("TLSv1.2", "TLSv1.3"))
    MECHANISMS: Final = list_key("sasl.enabled.mechanisms", "",
        "The mechanisms by which clients of a listener with SASL may log in: SCRAM-SHA-256, SCRAM-SHA-512, "
        "PLAIN, OAUTHBEARER.", check=_mechanisms, kafkas="GSSAPI")
    TOKEN_KEYS: Final = text_key("sasl.oauthbearer.jwks.endpoint.url", "",
        "The file with the public keys that signed the tokens of OAUTHBEARER, a JWKS: file:///etc/jwks.json. "
        "Nobody but its owner may write it. It is read again when it changes.")
    TOKEN_ISSUER: Final = text_key("sasl.oauthbearer.expected.issuer", "",
        "The issuer of tokens, as it is in their claim iss.")
    TOKEN_AUDIENCES: Final = list_key("sasl.oauthbearer.expected.audience", "",
        "The names of this cluster at the issuer. The claim aud of a token has to be or to have one of them.")
    TOKEN_SKEW: Final = int_key("sasl.oauthbearer.clock.skew.seconds", 30,
        "How far the issuer's clock may be ahead, for the claims nbf and iat of tokens. The end of a token, "
        "exp, counts as it is.", low=0, high=600)
    TOKEN_USER: Final = text_key("sasl.oauthbearer.sub.claim.name", "sub",
        "The claim of a token with the name of the user.", check=not_empty)
    MAX_RECEIVE: Final = int_key("sasl.server.max.receive.size", 524_288,
        "The maximum size of a request of a client that has not logged in, in bytes.", low=1024)
    FAILURE_DELAY: Final = int_key("connection.failed.authentication.delay.ms", 100,
        "The time that a client waits for the answer to a failed login.", low=0, high=60_000)
    MAX_REAUTH: Final = long_key("connections.max.reauth.ms", 0,
        "The time after which a client has to log in again on its connection (KIP-368). 0: never.", low=0)


VALIDATOR_IGNORED: Final = text_key("oauthbearer.sasl.server.callback.handler.class", "",
    "The class that checks tokens. No class is loaded: only the names of Kafka's "
    "OAuthBearerValidatorCallbackHandler can be had.",
    check=_validator, no_effect="tokens are checked as by that class in any case.")
"""A key of a listener that Kafka's files have, without a field."""
# fmt: on
